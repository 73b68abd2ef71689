//! Load-time checks of arguments as written in a file. Values that come from templates are not known then
//! and are not checked.

use std::fmt::Display;

use cachalot_core::tree::{MapEntry, Node, NodeKind};
use cachalot_core::{Problem, suggest};
use cachalot_operation::arguments::excerpt;
use cachalot_storage::AllowedHosts;

use crate::template::is_literal;
use crate::{OperationMetadata, ParameterKind, codes};

/// Arguments of one action as written.
pub(crate) struct ArgumentChecker<'a> {
    action: &'a str,
    with: Option<&'a Node>,
    problems: Vec<Problem>,
}

impl<'a> ArgumentChecker<'a> {
    /// Checks the values that the parameters declare: numbers within bounds, and words.
    pub(crate) fn new(about: &'a OperationMetadata, with: Option<&'a Node>) -> Self {
        let entries = with.and_then(Node::as_map).unwrap_or_default().iter();
        let problems = entries.filter_map(|entry| {
            let kind = about.parameter(&entry.key)?.kind;
            not_declared(kind, entry)
        });
        Self {
            action: &about.name,
            with,
            problems: problems.collect(),
        }
    }

    /// Returns the problems that were found.
    pub(crate) fn problems(self) -> Vec<Problem> {
        self.problems
    }

    fn argument(&self, name: &str) -> Option<&'a Node> {
        self.with?.get(name)
    }

    /// Returns the literal text, if it contains no template.
    fn text(&self, name: &str) -> Option<&'a str> {
        self.argument(name).and_then(literal_text)
    }

    /// Checks a list of hosts, which must not contain templates: nothing in a run may decide which hosts
    /// are allowed.
    pub(crate) fn hosts(mut self, name: &str) -> Self {
        let Some(node) = self.argument(name) else {
            return self;
        };
        let NodeKind::List(items) = &node.kind else {
            // The type check reports other kinds; a template is refused here.
            if node.as_text().is_some_and(|text| !is_literal(text)) {
                self.report_hosts(name);
            }
            return self;
        };
        let texts: Vec<String> = items
            .iter()
            .filter_map(|item| item.as_text().map(str::to_owned))
            .collect();
        if texts.len() < items.len() || !texts.iter().all(|text| is_literal(text)) {
            self.report_hosts(name);
        } else if let Err(error) = AllowedHosts::parse(&texts) {
            self.report(codes::BAD_VALUE, name, error.message, "correct the entry");
        }
        self
    }

    fn report_hosts(&mut self, name: &str) {
        let message = format!("`{name}` is not a list of hosts that are written out");
        let help = "write each host as text, without templates: `[api.example, '*.example.com']`";
        self.report(codes::BAD_VALUE, name, message, help);
    }

    /// Adds a problem at the argument `name`, or at all arguments if it is missing.
    pub(crate) fn report(
        &mut self,
        code: &'static str,
        name: &str,
        message: String,
        help: impl Into<String>,
    ) {
        let problem = Problem::new(code, message).help(help);
        self.problems.push(match (self.argument(name), self.with) {
            (Some(node), _) => problem.at(&node.place),
            (None, Some(with)) => problem.at(&with.head()),
            (None, None) => problem,
        });
    }

    /// Checks a number with `is_valid`.
    pub(crate) fn bounded(
        mut self,
        name: &str,
        help: &str,
        is_valid: impl Fn(f64) -> bool,
    ) -> Self {
        let number = self.argument(name).and_then(literal_number);
        if let Some(number) = number.filter(|number| !is_valid(*number)) {
            let message = format!("`{name}` is {number}");
            self.report(codes::BAD_VALUE, name, message, help);
        }
        self
    }

    /// Checks that the text is one of the known names.
    pub(crate) fn one_of(
        mut self,
        name: &str,
        known: &[&str],
        is_known: impl Fn(&str) -> bool,
    ) -> Self {
        if let Some(text) = self.text(name)
            && !is_known(text)
        {
            let message = format!("`{name}` is `{}`", excerpt(text));
            let help = suggest::did_you_mean(text, known);
            self.report(codes::BAD_VALUE, name, message, help);
        }
        self
    }

    /// Checks a text with `read`, whose error is a phrase that follows the name.
    pub(crate) fn read<E: Display>(
        mut self,
        name: &str,
        help: &str,
        read: impl FnOnce(&str) -> Result<(), E>,
    ) -> Self {
        if let Some(text) = self.text(name)
            && let Err(what) = read(text)
        {
            self.report(codes::BAD_VALUE, name, format!("`{name}` {what}"), help);
        }
        self
    }

    /// Checks the keys of a mapping with `read`, whose error is a phrase that follows the name of the argument.
    pub(crate) fn keys(
        mut self,
        name: &str,
        help: &str,
        read: impl Fn(&str) -> Option<String>,
    ) -> Self {
        let entries = self.argument(name).and_then(Node::as_map);
        for entry in entries.unwrap_or_default() {
            let key = entry.key.as_str();
            if let Some(what) = Some(key).filter(|key| is_literal(key)).and_then(&read) {
                let problem = Problem::new(codes::BAD_VALUE, format!("`{name}` {what}"));
                self.problems.push(problem.at(&entry.key_place).help(help));
            }
        }
        self
    }

    /// Requires at least one of these arguments.
    pub(crate) fn at_least_one_of(mut self, names: &[&str], help: &str) -> Self {
        let is_present = |name: &&&str| self.argument(name).is_some_and(|node| !node.is_null());
        if !self.is_template() && !names.iter().any(|name| is_present(&name)) {
            let message = format!("`{}` needs one of {}", self.action, join_names(names));
            self.report(codes::MISSING_KEY, "", message, help);
        }
        self
    }

    /// Allows at most one of these arguments. Templates are not counted: their value may be null, which
    /// counts as absent.
    pub(crate) fn at_most_one_of(mut self, names: &[&str], help: &str) -> Self {
        let given: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| self.is_given(name))
            .collect();
        if let [_, second, ..] = given[..] {
            let message = format!(
                "`{}` is given {}, which exclude each other",
                self.action,
                join_names(&given)
            );
            self.report(codes::BAD_VALUE, second, message, help);
        }
        self
    }

    fn is_given(&self, name: &str) -> bool {
        self.argument(name).is_some_and(|node| match &node.kind {
            NodeKind::Null => false,
            NodeKind::Text(text) => !text.is_empty() && is_literal(text),
            _ => true,
        })
    }

    /// True if a single template produces all arguments.
    fn is_template(&self) -> bool {
        self.with
            .and_then(Node::as_text)
            .is_some_and(|text| !is_literal(text))
    }
}

/// Returns the text of an argument, if it contains no template.
fn literal_text(node: &Node) -> Option<&str> {
    node.as_text().filter(|text| is_literal(text))
}

/// Returns the number of an argument, if it contains no template.
fn literal_number(node: &Node) -> Option<f64> {
    let number = node.as_f64();
    number.or_else(|| literal_text(node)?.trim().parse().ok())
}

/// Returns the problem of a literal that is none of the values of its parameter.
fn not_declared(kind: ParameterKind, entry: &MapEntry) -> Option<Problem> {
    let (code, found, help) = match kind {
        ParameterKind::IntegerIn(minimum, maximum) => {
            #[expect(
                clippy::cast_precision_loss,
                reason = "a bound that is off by a little is enough"
            )]
            let bounds = minimum as f64..=maximum as f64;
            let number = literal_number(&entry.value).filter(|number| !bounds.contains(number))?;
            let help = format!("expected a whole number from {minimum} to {maximum}");
            (codes::OUT_OF_RANGE, number.to_string(), help)
        }
        ParameterKind::Word(words) => {
            let text = literal_text(&entry.value).filter(|text| !words.contains(text))?;
            let help = suggest::did_you_mean(text, words);
            (codes::BAD_VALUE, format!("`{}`", excerpt(text)), help)
        }
        _ => return None,
    };
    let problem = Problem::new(code, format!("`{}` is {found}", entry.key));
    Some(problem.at(&entry.value.place).help(help))
}

fn join_names(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
