//! Texts, lists and mappings with templates, checked when the file is loaded.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{Node, NodeKind};
use cachalot_core::{Problem, SourceSpan};
use minijinja::{Environment, Error};
use serde_json::Value as Json;

use super::path::Path;
use super::scan::{self, Scan};
use super::scope::NAMES;
use super::{FILTERS, TESTS, Templates, source_place};
use crate::codes;

/// The names that are available in a template at its position.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateUse {
    /// Set when `result` is available.
    pub result: bool,
    /// Set when `${name}` is replaced by a variable.
    pub dollar: bool,
    /// Further names.
    pub names: &'static [&'static str],
}

impl TemplateUse {
    /// Templates in `with`.
    pub const ARGUMENTS: Self = Self {
        result: false,
        dollar: true,
        names: &[],
    };
    /// Templates in `output` and in conditions of `goto`.
    pub const RESULT: Self = Self {
        result: true,
        dollar: false,
        names: &[],
    };
    /// All other templates.
    pub const PLAIN: Self = Self {
        result: false,
        dollar: false,
        names: &[],
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
    /// An argument that the action renders. Renders to a mapping of its source and the values that it
    /// reads, which identifies every text that the action can get from it.
    Late(Late),
}

/// The template of an argument that the action renders.
#[derive(Debug)]
pub(super) struct Late {
    /// The template itself.
    pub(super) prepared: Prepared,
    pub(super) source: String,
    /// The values that the template reads, as expressions.
    pub(super) reads: Vec<Template>,
}

/// An argument that the action renders, or a mapping that contains some.
#[derive(Debug, Clone)]
pub(crate) enum LateArgument {
    /// The argument of this name may use further names.
    Argument(&'static str, &'static [&'static str]),
    /// The mapping under this key contains late arguments.
    Inside(&'static str, Vec<LateArgument>),
}

impl LateArgument {
    fn key(&self) -> &'static str {
        match self {
            Self::Argument(key, _) | Self::Inside(key, _) => key,
        }
    }
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
    pub(super) place: SourceSpan,
}

impl Prepared {
    fn new(tree: Tree) -> Self {
        Self {
            waits: tree.waits(),
            tree: Arc::new(tree),
        }
    }

    /// Creates an empty mapping.
    #[must_use]
    pub fn empty_mapping() -> Self {
        Self::new(Tree::Literal(Json::Object(serde_json::Map::new())))
    }

    /// Returns the template of the argument `name` that the action renders, also if the action is
    /// wrapped. `None` if the file has no template there.
    pub(crate) fn late(&self, name: &str) -> Option<&Self> {
        late_in(&self.tree, name)
    }
}

fn late_in<'t>(tree: &'t Tree, name: &str) -> Option<&'t Prepared> {
    let Tree::Map(fields) = tree else { return None };
    fields.iter().find_map(|(key, field)| match field {
        Tree::Late(late) if key == name => Some(&late.prepared),
        field => late_in(field, name),
    })
}

impl Templates {
    /// Checks the templates in `node`. Adds their problems to `problems`; if there are any, the returned
    /// value must not be rendered.
    #[must_use]
    pub fn prepare(
        &self,
        node: &Node,
        usage: TemplateUse,
        problems: &mut Vec<Problem>,
    ) -> Prepared {
        Prepared::new(self.tree(node, usage, problems))
    }

    /// Checks the arguments of an action as [`prepare`](Self::prepare) does. The action itself renders
    /// those in `late`.
    pub(crate) fn prepare_arguments(
        &self,
        node: &Node,
        late: &[LateArgument],
        problems: &mut Vec<Problem>,
    ) -> Prepared {
        Prepared::new(self.arguments(node, late, problems))
    }

    fn arguments(&self, node: &Node, late: &[LateArgument], problems: &mut Vec<Problem>) -> Tree {
        let entries = match &node.kind {
            NodeKind::Map(entries) if !late.is_empty() => entries,
            _ => return self.tree(node, TemplateUse::ARGUMENTS, problems),
        };
        let fields = entries.iter().map(|entry| {
            let tree = match late.iter().find(|argument| argument.key() == entry.key) {
                Some(LateArgument::Inside(_, late)) => self.arguments(&entry.value, late, problems),
                Some(LateArgument::Argument(_, names)) => self.late(&entry.value, names, problems),
                None => self.tree(&entry.value, TemplateUse::ARGUMENTS, problems),
            };
            (entry.key.clone(), tree)
        });
        Tree::Map(fields.collect())
    }

    fn late(
        &self,
        node: &Node,
        names: &'static [&'static str],
        problems: &mut Vec<Problem>,
    ) -> Tree {
        let usage = TemplateUse {
            names,
            ..TemplateUse::ARGUMENTS
        };
        let template = node
            .as_text()
            .and_then(|text| self.template(text, &node.place, usage, problems));
        let Some(template) = template else {
            return self.tree(node, TemplateUse::ARGUMENTS, problems);
        };
        if template.waits() {
            let message = "`storage_hash` does not work here: the content of the file would be in no cache key";
            let help = "hash the file with `storage.hash` before, and use its result";
            let problem = Problem::new(codes::UNSUPPORTED, message).at(&node.place);
            problems.push(problem.help(help));
        }
        Tree::Late(Late {
            source: node.as_text().unwrap_or_default().to_owned(),
            reads: self.reads(&template, names),
            prepared: Prepared::new(Tree::Template(template)),
        })
    }

    /// Returns the values that a template reads, as `name.key` expressions. A template that reads a whole
    /// mapping, or calls a method of it, reads `name`.
    fn reads(&self, template: &Template, late_names: &[&str]) -> Vec<Template> {
        let paths = compiled_names(&self.shared.strict, template, true).unwrap_or_default();
        let mut reads = BTreeSet::new();
        for path in &paths {
            let mut parts = path.split('.');
            let name = parts.next().unwrap_or_default();
            // Only the action knows the values of late names, so that they cannot be rendered here.
            if !NAMES.contains(&name) || late_names.contains(&name) {
                continue;
            }
            reads.insert(match parts.next() {
                Some(key) if !has_name(&template.source, &format!("{name}.{key}")) => {
                    format!("{name}.{key}")
                }
                _ => name.to_owned(),
            });
        }
        let expression = |source: String| Template {
            is_expression: true,
            path: Path::parse(&source),
            derives_from_secrets: false,
            place: template.place.clone(),
            source,
        };
        reads.into_iter().map(expression).collect()
    }

    fn tree(&self, node: &Node, usage: TemplateUse, problems: &mut Vec<Problem>) -> Tree {
        match &node.kind {
            NodeKind::Text(text) => match self.template(text, &node.place, usage, problems) {
                None => Tree::Literal(Json::from(text.as_str())),
                Some(template) => Tree::Template(template),
            },
            NodeKind::List(items) => {
                let trees: Vec<Tree> = items
                    .iter()
                    .map(|item| self.tree(item, usage, problems))
                    .collect();
                if trees.iter().all(Tree::is_literal) {
                    Tree::Literal(node.to_value())
                } else {
                    Tree::List(trees)
                }
            }
            NodeKind::Map(entries) => {
                let trees: Vec<(String, Tree)> = entries
                    .iter()
                    .map(|entry| {
                        let tree = self.tree(&entry.value, usage, problems);
                        (entry.key.clone(), tree)
                    })
                    .collect();
                if trees.iter().all(|(_, tree)| tree.is_literal()) {
                    Tree::Literal(node.to_value())
                } else {
                    Tree::Map(trees)
                }
            }
            _ => Tree::Literal(node.to_value()),
        }
    }

    /// Prepares a text; `None` if it contains no template.
    pub(super) fn template(
        &self,
        text: &str,
        place: &SourceSpan,
        usage: TemplateUse,
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
        // The inserted variables are code, and the ranges of the first scan belong to the text before the replacement.
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
        place: &SourceSpan,
        usage: TemplateUse,
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
        self.is_expression(inside).then_some(inside)
    }

    /// True if the engine accepts the text as an expression.
    pub(super) fn is_expression(&self, text: &str) -> bool {
        self.shared.strict.compile_expression(text).is_ok()
    }

    /// Returns the place of a piece of the text at `place`.
    pub(super) fn place_of(
        &self,
        place: &SourceSpan,
        text: &str,
        piece: Range<usize>,
    ) -> SourceSpan {
        source_place::span_of_part(&self.shared.file, place, text, piece)
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

    fn check(
        &self,
        template: &Template,
        scan: &Scan,
        usage: TemplateUse,
        problems: &mut Vec<Problem>,
    ) {
        let source = template.source.as_str();
        let names = match compiled_names(&self.shared.strict, template, false) {
            Ok(names) => names,
            Err(error) => {
                let failure = self.failure(template, &error, None);
                problems
                    .push(Problem::new(codes::BAD_TEMPLATE, failure.message).at(&failure.place));
                return;
            }
        };
        let at = |range: &Range<usize>| self.place_of(&template.place, source, range.clone());
        for (code, kind, ranges, known) in [
            (codes::UNKNOWN_FILTER, "filter", &scan.filters, FILTERS),
            (codes::UNKNOWN_TEST, "test", &scan.tests, TESTS),
        ] {
            for range in ranges {
                let name = &source[range.clone()];
                if !known.contains(&name) {
                    let problem =
                        Problem::new(code, format!("there is no {kind} `{name}`")).at(&at(range));
                    problems.push(problem.help(did_you_mean(name, known)));
                }
            }
        }
        for name in names {
            self.check_name(template, &name, usage, problems);
        }
    }

    /// Reports `name` if a template may not begin an expression with it. A name that is the whole
    /// expression is accepted: if undefined, it is null.
    fn check_name(
        &self,
        template: &Template,
        name: &str,
        usage: TemplateUse,
        problems: &mut Vec<Problem>,
    ) {
        let is_lone = template.is_expression && template.source.trim() == name;
        let is_known = NAMES.contains(&name) && (usage.result || name != "result")
            || usage.names.contains(&name);
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
        let range = find_word(source, name).unwrap_or(0..source.len());
        let known: Vec<&str> = NAMES
            .iter()
            .copied()
            .filter(|known| usage.result || *known != "result")
            .chain(usage.names.iter().copied())
            .collect();
        let help = match cachalot_core::suggest::nearest(name, known.iter().copied()) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!(
                "what the run has set is `state.{name}`; names are {}",
                known.join(", ")
            ),
        };
        let problem = Problem::new(codes::UNKNOWN_NAME, format!("there is no `{name}` here"))
            .at(&self.place_of(&template.place, source, range));
        problems.push(problem.help(help));
    }
}

impl Tree {
    fn is_literal(&self) -> bool {
        matches!(self, Self::Literal(_))
    }

    fn waits(&self) -> bool {
        match self {
            Self::Template(template) => template.waits(),
            Self::List(items) => items.iter().any(Self::waits),
            Self::Map(fields) => fields.iter().any(|(_, field)| field.waits()),
            Self::Literal(_) | Self::Late(_) => false,
        }
    }
}

impl Template {
    /// True if rendering may wait for storage.
    pub(super) fn waits(&self) -> bool {
        self.source.contains("storage_hash")
    }
}

/// Returns the names that expressions of the template begin with, or its syntax error; with `attributes`,
/// the names with the attributes that are looked up in them, separated by dots.
fn compiled_names(
    environment: &Environment<'static>,
    template: &Template,
    attributes: bool,
) -> Result<BTreeSet<String>, Error> {
    let names = if template.is_expression {
        environment
            .compile_expression(&template.source)?
            .undeclared_variables(attributes)
    } else {
        environment
            .template_from_str(&template.source)?
            .undeclared_variables(attributes)
    };
    Ok(names.into_iter().collect())
}

/// True if the source calls `path` as a method anywhere.
fn has_name(source: &str, path: &str) -> bool {
    source
        .match_indices(path)
        .any(|(at, _)| source[at + path.len()..].trim_start().starts_with('('))
}

/// Returns the range of the first `word` in `source` that stands by itself.
fn find_word(source: &str, word: &str) -> Option<Range<usize>> {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    source
        .match_indices(word)
        .map(|(at, _)| at..at + word.len())
        .find(|at| {
            !source[..at.start].ends_with(|c: char| is_part(c) || c == '.')
                && !source[at.end..].starts_with(is_part)
        })
}
