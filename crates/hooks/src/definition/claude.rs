//! Features of Claude Code hooks only: questions to models, commands without a shell, and background hooks.

use std::time::Duration;

use cachalot_core::Problem;
use cachalot_core::spec::Values;
use cachalot_core::tree::Node;

use super::parser_context::ParserContext;
use super::tables::SHELLS;
use super::{Action, Background, Condition, Definition};
use crate::Event;
use crate::shell_word::quote;

/// Default timeouts of hooks of type `prompt` and of type `agent`.
const PROMPT_TIMEOUT: Duration = Duration::from_secs(30);
const AGENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The events that support questions to models.
const PROMPT_EVENTS: [Event; 6] = [
    Event::UserPromptSubmit,
    Event::PreToolUse,
    Event::PermissionRequest,
    Event::PostToolUse,
    Event::Stop,
    Event::SubagentStop,
];

/// Variables that are expanded in a command without a shell.
const EXPANDED_VARIABLES: [&str; 2] = ["${CLAUDE_PROJECT_DIR}", "${CLAUDE_PLUGIN_ROOT}"];

/// Returns true if hooks of type `prompt` or `agent` run at the event; otherwise reports it.
pub(super) fn supports_prompt(
    context: &mut ParserContext<'_>,
    node: &Node,
    event: Event,
    kind: &str,
) -> bool {
    let is_supported = PROMPT_EVENTS.contains(&event);
    if !is_supported {
        context.unsupported(
            Problem::new(
                "unsupported-handler",
                format!("hooks of type `{kind}` do not run at `{event}`"),
            )
            .at(&node.head())
            .help("let a `command` do it"),
        );
    }
    is_supported
}

/// Returns the action of a hook of type `prompt` or `agent`, with its default timeout.
pub(super) fn prompt(
    context: &mut ParserContext<'_>,
    values: Values<'_>,
    kind: &str,
) -> Option<(Action, Duration)> {
    let is_agent = kind == "agent";
    if is_agent {
        context.warnings.push(
            Problem::new(
                "without-tools",
                "hooks of type `agent` are one question to a model here: it has no tools and judges by the hook's input",
            )
            .at(&values.mapping().head())
            .help("let a `command` look at files and run tests"),
        );
    }
    let action = Action::Prompt {
        model: values
            .string("model")
            .filter(|model| !model.trim().is_empty()),
        prompt: values.string("prompt")?,
    };
    let timeout = match is_agent {
        true => AGENT_TIMEOUT,
        false => PROMPT_TIMEOUT,
    };
    Some((action, timeout))
}

/// Applies `once`, `if`, `async` and `asyncRewake`; `None` if the hook would never run.
pub(super) fn options(
    context: &mut ParserContext<'_>,
    values: Values<'_>,
    event: Event,
    mut definition: Definition,
) -> Option<Definition> {
    let is = |key| values.boolean(key).unwrap_or_default();
    definition.once = is("once");
    definition.background = match (is("asyncRewake"), is("async")) {
        (true, _) => Some(Background::Heard),
        (false, true) => Some(Background::Quiet),
        (false, false) => None,
    };
    let Some(written) = values.text("if") else {
        return Some(definition);
    };
    let place = values.place("if");
    if !event.contract().tool_matched {
        context.unsupported(
            Problem::new(
                "unsupported-option",
                format!("`if` at `{event}`, where no tool is called: the hook never runs"),
            )
            .at(&place)
            .help("leave `if` out"),
        );
        return None;
    }
    definition.condition = Condition::parse(written);
    if definition.condition.is_none() {
        context.problems.push(
            Problem::new(
                "bad-condition",
                format!("`{written}` is no permission rule"),
            )
            .at(&place)
            .help("write a tool, or a tool and what it is called with: `Bash(git *)`"),
        );
    }
    Some(definition)
}

/// Wraps the line for the shell in `shell`.
pub(super) fn wrap_for_shell(line: String, values: Values<'_>) -> String {
    match values.choice("shell", &SHELLS) {
        Some(shell) => format!("exec {shell} {}", quote(&line)),
        None => line,
    }
}

/// Builds a command line in which the shell interprets nothing except the variables that Claude Code
/// expands.
pub(super) fn without_shell(program: &str, arguments: &[&str]) -> String {
    let words = std::iter::once(&program).chain(arguments);
    let words: Vec<String> = words.map(|word| expand_places(word)).collect();
    words.join(" ")
}

fn expand_places(word: &str) -> String {
    let found = EXPANDED_VARIABLES
        .iter()
        .filter_map(|place| Some((word.find(place)?, *place)))
        .min();
    let Some((at, place)) = found else {
        return quote(word);
    };
    let rest = &word[at + place.len()..];
    let before = if at > 0 {
        quote(&word[..at])
    } else {
        String::new()
    };
    let behind = if rest.is_empty() {
        String::new()
    } else {
        expand_places(rest)
    };
    format!("{before}\"{place}\"{behind}")
}

/// Converts `$NAME` and `${NAME}` to our notation, `${env.NAME}`. Variables that are not allowed are
/// removed.
pub(super) fn with_variables(value: &str, allowed: &[&str]) -> String {
    let mut pieces = value.split('$');
    let mut written = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let (name, rest) = match piece.strip_prefix('{').and_then(|p| p.split_once('}')) {
            Some(braced) => braced,
            None => {
                let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
                piece.split_at(piece.find(|c| !is_part(c)).unwrap_or(piece.len()))
            }
        };
        if allowed.contains(&name) {
            written.push_str(&format!("${{env.{name}}}"));
        } else if name.is_empty() {
            written.push('$');
        }
        // Removing a variable must not create a reference to another one.
        if written.ends_with('$') && rest.starts_with('{') {
            written.pop();
        }
        written.push_str(rest);
    }
    written
}

#[cfg(test)]
mod tests {
    use super::with_variables;

    #[test]
    fn omitted_variables_do_not_form_new_references() {
        for written in [
            "${env.${Y}SECRET}",
            "$${Y}{env.SECRET}",
            "${e${Y}nv.SECRET}",
            "${SECRET}",
            "$SECRET",
        ] {
            let value = with_variables(written, &["TOKEN"]);
            assert!(!value.contains("${"), "{written} became {value}");
        }
        let value = with_variables("Bearer $TOKEN, ${TOKEN}, 5 $", &["TOKEN"]);
        assert_eq!(value, "Bearer ${env.TOKEN}, ${env.TOKEN}, 5 $");
    }
}
