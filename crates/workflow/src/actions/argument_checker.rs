//! Load-time checks of arguments as written in a file. Values that come from templates are not known then
//! and are not checked.

use std::ops::RangeInclusive;

use cachalot_core::tree::{Node, NodeKind};
use cachalot_core::{Problem, suggest};
use cachalot_storage::AllowedHosts;

use super::arguments::excerpt;
use crate::codes;
use crate::template::is_literal;

/// Arguments of one action as written.
pub(super) struct ArgumentChecker<'a> {
    with: Option<&'a Node>,
    problems: Vec<Problem>,
}

impl<'a> ArgumentChecker<'a> {
    pub(super) fn new(with: Option<&'a Node>) -> Self {
        Self {
            with,
            problems: Vec::new(),
        }
    }

    /// Returns the problems that were found.
    pub(super) fn problems(self) -> Vec<Problem> {
        self.problems
    }

    fn argument(&self, name: &str) -> Option<&'a Node> {
        self.with?.get(name)
    }

    /// Returns the literal text, if it contains no template.
    fn text(&self, name: &str) -> Option<&'a str> {
        let text = self.argument(name)?.as_text();
        text.filter(|text| is_literal(text))
    }

    /// Returns the literal number, if it contains no template.
    fn number(&self, name: &str) -> Option<f64> {
        let number = self.argument(name)?.as_f64();
        number.or_else(|| self.text(name)?.trim().parse().ok())
    }

    /// Checks a list of hosts, which must not contain templates: nothing in a run may decide which hosts
    /// are allowed.
    pub(super) fn hosts(mut self, name: &str) -> Self {
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
    pub(super) fn report(
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

    /// Checks a whole number within bounds.
    pub(super) fn count(self, name: &str, range: RangeInclusive<u64>) -> Self {
        #[expect(
            clippy::cast_precision_loss,
            reason = "a bound that is off by a little is enough"
        )]
        let (min, max) = (*range.start() as f64, *range.end() as f64);
        let help = format!(
            "expected a whole number from {} to {}",
            range.start(),
            range.end()
        );
        self.bounded(codes::OUT_OF_RANGE, name, &help, |count| {
            (min..=max).contains(&count)
        })
    }

    /// Checks a number with `is_valid`.
    pub(super) fn bounded(
        mut self,
        code: &'static str,
        name: &str,
        help: &str,
        is_valid: impl Fn(f64) -> bool,
    ) -> Self {
        if let Some(number) = self.number(name).filter(|number| !is_valid(*number)) {
            self.report(code, name, format!("`{name}` is {number}"), help);
        }
        self
    }

    /// Checks that the text is one of the known names.
    pub(super) fn one_of(
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
    pub(super) fn read(
        mut self,
        name: &str,
        help: &str,
        read: impl FnOnce(&str) -> Result<(), String>,
    ) -> Self {
        if let Some(text) = self.text(name)
            && let Err(what) = read(text)
        {
            self.report(codes::BAD_VALUE, name, format!("`{name}` {what}"), help);
        }
        self
    }

    /// Requires at least one of these arguments.
    pub(super) fn at_least_one_of(mut self, action: &str, names: &[&str], help: &str) -> Self {
        let is_present = |name: &&&str| self.argument(name).is_some_and(|node| !node.is_null());
        if !self.is_template() && !names.iter().any(|name| is_present(&name)) {
            let message = format!("`{action}` needs one of {}", join_names(names));
            self.report(codes::MISSING_KEY, "", message, help);
        }
        self
    }

    /// Allows at most one of these arguments. Templates are not counted: their value may be null, which
    /// counts as absent.
    pub(super) fn at_most_one_of(mut self, action: &str, names: &[&str], help: &str) -> Self {
        let given: Vec<&str> = names
            .iter()
            .copied()
            .filter(|name| self.is_given(name))
            .collect();
        if let [_, second, ..] = given[..] {
            let message = format!(
                "`{action}` is given {}, which exclude each other",
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

fn join_names(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match quoted.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} and {last}", rest.join(", ")),
        _ => quoted.concat(),
    }
}
