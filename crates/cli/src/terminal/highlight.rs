//! Colors of source code.

use std::sync::OnceLock;

use syntect::parsing::{ParseState, Scope, ScopeStack, SyntaxReference, SyntaxSet};

use crate::render::style::Style;

/// The longest line that is colored.
const MAX_LINE: usize = 2_000;

/// Colors of a block of code, line by line.
pub(super) struct Highlighter(Option<State>);

struct State {
    parse: ParseState,
    scopes: ScopeStack,
}

/// The syntaxes, which are read when the first block of code is shown.
fn syntaxes() -> &'static SyntaxSet {
    static SYNTAXES: OnceLock<SyntaxSet> = OnceLock::new();
    SYNTAXES.get_or_init(SyntaxSet::load_defaults_newlines)
}

/// Finds a syntax by the language of a fence: `rust`, `rs`, `python title="x"`.
fn syntax(language: &str) -> Option<&'static SyntaxReference> {
    let name = language.split([' ', ',', '{']).next()?;
    let name = match name {
        "" => return None,
        "ts" | "tsx" | "jsx" | "typescript" => "js",
        "console" | "shell" | "zsh" => "sh",
        "jsonc" | "json5" => "json",
        name => name,
    };
    syntaxes().find_syntax_by_token(name)
}

impl Highlighter {
    /// Creates the colors of a language. Code of an unknown language has none.
    pub(super) fn new(language: &str) -> Self {
        Self(syntax(language).map(|syntax| State {
            parse: ParseState::new(syntax),
            scopes: ScopeStack::new(),
        }))
    }

    /// Colors a line.
    pub(super) fn line(&mut self, line: &str, style: Style) -> String {
        let Some(state) = self.0.as_mut().filter(|_| line.len() <= MAX_LINE) else {
            return line.to_owned();
        };
        let source = format!("{line}\n");
        let Ok(operations) = state.parse.parse_line(&source, syntaxes()) else {
            self.0 = None;
            return line.to_owned();
        };
        let mut colored = String::new();
        let mut start = 0;
        for (at, operation) in operations {
            colored.push_str(&paint(&source[start..at], &state.scopes, style));
            start = at;
            if state.scopes.apply(&operation).is_err() {
                break;
            }
        }
        colored.push_str(&paint(
            source[start..].trim_end_matches('\n'),
            &state.scopes,
            style,
        ));
        colored
    }
}

/// Colors a token by the most specific of its scopes that has a color.
fn paint(text: &str, scopes: &ScopeStack, style: Style) -> String {
    let text = text.trim_end_matches('\n');
    if text.trim().is_empty() {
        return text.to_owned();
    }
    let code = scopes
        .as_slice()
        .iter()
        .rev()
        .find_map(|scope| color(*scope));
    code.map_or_else(|| text.to_owned(), |code| style.color(code, text))
}

/// Returns the color of a scope, from the sixteen colors that the user's terminal defines.
fn color(scope: Scope) -> Option<&'static str> {
    const COLORS: [(&str, &str); 13] = [
        ("comment", "2"),
        ("string", "32"),
        ("constant", "36"),
        ("keyword", "35"),
        ("storage", "35"),
        ("entity.name.function", "34"),
        ("entity.name.tag", "34"),
        ("support.function", "34"),
        ("variable.language", "36"),
        ("markup.inserted", "32"),
        ("markup.deleted", "31"),
        ("meta.diff.header", "1"),
        ("meta.diff.range", "36"),
    ];
    static SCOPES: OnceLock<Vec<(Scope, &str)>> = OnceLock::new();
    let colors = SCOPES.get_or_init(|| {
        let known = COLORS.iter();
        known
            .filter_map(|(scope, code)| Some((Scope::new(scope).ok()?, *code)))
            .collect()
    });
    let mut colors = colors.iter();
    colors
        .find(|(prefix, _)| prefix.is_prefix_of(scope))
        .map(|(_, code)| *code)
}
