//! Texts, lists and mappings with templates, checked when the file is loaded.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{Kind, Node};
use cachalot_core::{Place, Problem};
use minijinja::{Environment, Error};
use serde_json::Value as Json;

use super::path::Path;
use super::scan::{self, Scan};
use super::scope::NAMES;
use super::{FILTERS, TESTS, Templates, place};
use crate::format::codes;

/// The names that are available in a template at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use {
    /// Set when `result` is available.
    pub result: bool,
    /// Set when `${name}` is replaced by a variable.
    pub dollar: bool,
}

impl Use {
    /// Templates in `with`.
    pub const ARGUMENTS: Self = Self {
        result: false,
        dollar: true,
    };
    /// Templates in `output` and in conditions of `goto`.
    pub const RESULT: Self = Self {
        result: true,
        dollar: false,
    };
    /// All other templates.
    pub const PLAIN: Self = Self {
        result: false,
        dollar: false,
    };
}

/// A value with templates, known to be well-formed. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Prepared {
    pub(super) tree: Arc<Tree>,
    /// Set when rendering may wait for storage.
    pub(super) waits: bool,
}

#[derive(Debug)]
pub(super) enum Tree {
    Literal(Json),
    Template(Template),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

/// A text with templates.
#[derive(Debug, Clone)]
pub(super) struct Template {
    /// The source that the engine compiles: an expression without its braces, or a text.
    pub(super) source: String,
    pub(super) is_expression: bool,
    pub(super) path: Option<Path>,
    /// Set when the template derives a value from a secret that is then a secret too.
    pub(super) derives_from_secrets: bool,
    pub(super) place: Place,
}

impl Prepared {
    /// Creates an empty mapping.
    #[must_use]
    pub fn empty_mapping() -> Self {
        Self {
            tree: Arc::new(Tree::Literal(Json::Object(serde_json::Map::new()))),
            waits: false,
        }
    }
}

impl Templates {
    /// Checks the templates in `node`. Adds their problems to `problems`; if there are any, the returned
    /// value must not be rendered.
    #[must_use]
    pub fn prepare(&self, node: &Node, usage: Use, problems: &mut Vec<Problem>) -> Prepared {
        let mut waits = false;
        let tree = self.tree(node, usage, &mut waits, problems);
        Prepared {
            tree: Arc::new(tree),
            waits,
        }
    }

    fn tree(&self, node: &Node, usage: Use, waits: &mut bool, problems: &mut Vec<Problem>) -> Tree {
        match &node.kind {
            Kind::Text(text) => match self.template(text, &node.place, usage, problems) {
                None => Tree::Literal(Json::from(text.as_str())),
                Some(template) => {
                    *waits |= template.source.contains("storage_hash");
                    Tree::Template(template)
                }
            },
            Kind::List(items) => {
                let trees: Vec<Tree> = items
                    .iter()
                    .map(|item| self.tree(item, usage, waits, problems))
                    .collect();
                match trees.iter().all(Tree::is_literal) {
                    true => Tree::Literal(node.to_value()),
                    false => Tree::List(trees),
                }
            }
            Kind::Map(entries) => {
                let trees: Vec<(String, Tree)> = entries
                    .iter()
                    .map(|entry| {
                        (
                            entry.key.clone(),
                            self.tree(&entry.value, usage, waits, problems),
                        )
                    })
                    .collect();
                match trees.iter().all(|(_, tree)| tree.is_literal()) {
                    true => Tree::Literal(node.to_value()),
                    false => Tree::Map(trees),
                }
            }
            _ => Tree::Literal(node.to_value()),
        }
    }

    /// Prepares a text; `None` if it contains no template.
    pub(super) fn template(
        &self,
        text: &str,
        place: &Place,
        usage: Use,
        problems: &mut Vec<Problem>,
    ) -> Option<Template> {
        if let Some(expression) = self.lone_expression(text) {
            return Some(self.expression(expression, place, usage, problems));
        }
        let mut scan = scan::template(text);
        let replaced = usage
            .dollar
            .then(|| self.with_variables(text, &scan.literals))
            .flatten();
        if !scan.has_code && replaced.is_none() {
            return None;
        }
        let source = replaced.unwrap_or_else(|| text.to_owned());
        scan = scan::template(&source);
        let template = Template {
            is_expression: false,
            path: None,
            derives_from_secrets: scan.derives_from_secrets,
            place: place.clone(),
            source,
        };
        self.check(&template, &scan, usage, problems);
        Some(template)
    }

    /// Prepares a template that is one expression.
    pub(super) fn expression(
        &self,
        source: &str,
        place: &Place,
        usage: Use,
        problems: &mut Vec<Problem>,
    ) -> Template {
        let scan = scan::expression(source);
        let template = Template {
            is_expression: true,
            path: Path::parse(source),
            derives_from_secrets: scan.derives_from_secrets,
            place: place.clone(),
            source: source.to_owned(),
        };
        self.check(&template, &scan, usage, problems);
        template
    }

    /// Returns the source between the braces if the text is one `{{ expression }}` with optional blanks
    /// around it.
    pub(super) fn lone_expression<'t>(&self, text: &'t str) -> Option<&'t str> {
        let inside = text.trim().strip_prefix("{{")?.strip_suffix("}}")?;
        let inside = inside.strip_prefix(['-', '+']).unwrap_or(inside);
        let inside = inside.strip_suffix(['-', '+']).unwrap_or(inside);
        self.shared
            .strict
            .compile_expression(inside)
            .is_ok()
            .then_some(inside)
    }

    /// True if the engine accepts the text as an expression.
    pub(super) fn is_expression(&self, text: &str) -> bool {
        self.shared.strict.compile_expression(text).is_ok()
    }

    /// Returns the place of a piece of the text at `place`.
    pub(super) fn place_of(&self, place: &Place, text: &str, piece: Range<usize>) -> Place {
        place::of_piece(&self.shared.file, place, text, piece)
    }

    /// True if the engine accepts the text as a template.
    pub(super) fn is_well_formed(&self, text: &str) -> bool {
        self.shared.strict.template_from_str(text).is_ok()
    }

    /// Returns the text with each `${name}` of a known variable replaced by an expression; `None` if it
    /// has none.
    fn with_variables(&self, text: &str, literals: &[Range<usize>]) -> Option<String> {
        let mut out = String::new();
        let mut copied = 0;
        for literal in literals {
            for (at, _) in text[literal.clone()].match_indices("${") {
                let at = literal.start + at;
                let Some(len) = text[at..literal.end].find('}') else {
                    break;
                };
                let name = &text[at + 2..at + len];
                if at >= copied && self.shared.variables.contains(name) {
                    out.push_str(&text[copied..at]);
                    out.push_str(&format!("{{{{ variables[{}] }}}}", Json::from(name)));
                    copied = at + len + 1;
                }
            }
        }
        (copied > 0).then(|| out + &text[copied..])
    }

    fn check(&self, template: &Template, scan: &Scan, usage: Use, problems: &mut Vec<Problem>) {
        let source = template.source.as_str();
        let names = match compiled_names(&self.shared.strict, template) {
            Ok(names) => names,
            Err(error) => {
                let failure = self.failure(template, &error);
                problems
                    .push(Problem::new(codes::BAD_TEMPLATE, failure.message).at(&failure.place));
                return;
            }
        };
        let at = |range: &Range<usize>| {
            place::of_piece(&self.shared.file, &template.place, source, range.clone())
        };
        for (code, kind, ranges, known) in [
            (codes::UNKNOWN_FILTER, "filter", &scan.filters, FILTERS),
            (codes::UNKNOWN_TEST, "test", &scan.tests, TESTS),
        ] {
            for range in ranges {
                let name = &source[range.clone()];
                if !known.contains(&name) {
                    problems.push(
                        Problem::new(code, format!("there is no {kind} `{name}`"))
                            .at(&at(range))
                            .help(nearest_or_reference(name, known)),
                    );
                }
            }
        }
        for name in names {
            self.check_name(template, &name, usage, problems);
        }
    }

    /// Reports `name` if a template may not begin an expression with it. A name that is the whole
    /// expression is accepted: if undefined, it is null.
    fn check_name(&self, template: &Template, name: &str, usage: Use, problems: &mut Vec<Problem>) {
        let is_lone = template.is_expression && template.source.trim() == name;
        let is_known = NAMES.contains(&name) && (usage.result || name != "result");
        if is_known
            || is_lone
            || self
                .shared
                .strict
                .globals()
                .any(|(global, _)| global == name)
        {
            return;
        }
        let source = template.source.as_str();
        let range = word_in(source, name).unwrap_or(0..source.len());
        let known: Vec<&str> = NAMES
            .iter()
            .copied()
            .filter(|known| usage.result || *known != "result")
            .collect();
        let help = match cachalot_core::suggest::nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "what the run has set is `state.{name}`; names are {}",
                known.join(", ")
            ),
        };
        problems.push(
            Problem::new(codes::UNKNOWN_NAME, format!("there is no `{name}` here"))
                .at(&place::of_piece(
                    &self.shared.file,
                    &template.place,
                    source,
                    range,
                ))
                .help(help),
        );
    }
}

impl Tree {
    fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }
}

/// Returns the names that expressions of the template begin with, or its syntax error.
fn compiled_names(
    environment: &Environment<'static>,
    template: &Template,
) -> Result<BTreeSet<String>, Error> {
    let names = match template.is_expression {
        true => environment
            .compile_expression(&template.source)?
            .undeclared_variables(false),
        false => environment
            .template_from_str(&template.source)?
            .undeclared_variables(false),
    };
    Ok(names.into_iter().collect())
}

/// Returns the range of the first `word` in `source` that stands by itself.
fn word_in(source: &str, word: &str) -> Option<Range<usize>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    source
        .match_indices(word)
        .map(|(at, _)| at..at + word.len())
        .find(|at| {
            !source[..at.start].ends_with(|c: char| is_part(c) || c == '.')
                && !source[at.end..].starts_with(is_part)
        })
}

fn nearest_or_reference(name: &str, known: &[&str]) -> String {
    match cachalot_core::suggest::nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => did_you_mean(name, known),
    }
}
