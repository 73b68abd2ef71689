//! Conditions, as written in `when`, `if` and `condition`.

use cachalot_core::Problem;
use cachalot_core::tree::{Node, NodeKind};
use minijinja::Value;
use minijinja::value::ValueKind;

use super::operators;
use super::prepared::Template;
use super::scope::NAMES;
use super::{Scope, TemplateFailure, TemplateUse, Templates};
use crate::codes;

/// A condition, known to be well-formed. Cheap to clone.
///
/// A condition is written in one of these forms:
/// - an expression (`state.count < 3`), with or without `{{ }}` around it
/// - the name of a field of the state (`done`)
/// - the negation of a name or of parentheses with `!` (`!done`, `!(state.a and state.b)`); elsewhere,
///   negation is `not`
/// - `true` or `false`
/// - text with `{% … %}`
///
/// Truth follows Jinja. An undefined value is false, and equals none. No order comparison with it holds, except in a
/// loop ([`Condition::of_loop`]). Blank text and the texts `false`, `0`, `no` and `none`, in any case, are false,
/// because templates render false values to them.
#[derive(Debug, Clone)]
pub struct Condition {
    test: Test,
    is_negated: bool,
    /// The filter for comparisons.
    comparison: &'static str,
}

#[derive(Debug, Clone)]
enum Test {
    Always(bool),
    Template(Template),
}

impl Condition {
    /// Creates a condition that always or never holds.
    #[must_use]
    pub fn always(holds: bool) -> Self {
        Self {
            test: Test::Always(holds),
            is_negated: false,
            comparison: operators::COMPARE,
        }
    }

    /// True if the condition may read `result`.
    pub(crate) fn mentions_result(&self) -> bool {
        matches!(&self.test, Test::Template(template) if template.source.contains("result"))
    }

    /// Returns the condition of a loop, in which an order comparison with an undefined value holds: the body sets it.
    #[must_use]
    pub fn of_loop(self) -> Self {
        Self {
            comparison: operators::COMPARE_IN_LOOP,
            ..self
        }
    }

    /// Returns the negated condition.
    #[must_use]
    pub fn negated(self) -> Self {
        Self {
            is_negated: !self.is_negated,
            ..self
        }
    }
}

impl Templates {
    /// Checks the condition in `node`. Adds its problems to `problems`; if there are any, the returned
    /// condition must not be evaluated.
    #[must_use]
    pub fn condition(
        &self,
        node: &Node,
        usage: TemplateUse,
        problems: &mut Vec<Problem>,
    ) -> Condition {
        let text = match &node.kind {
            NodeKind::Boolean(holds) => return Condition::always(*holds),
            NodeKind::Text(text) if !text.trim().is_empty() => text.trim(),
            _ => {
                let problem = node.wrong_type("a condition", "an expression, `true` or `false`");
                problems.push(Problem {
                    code: codes::WRONG_TYPE,
                    ..problem
                });
                return Condition::always(false);
            }
        };
        if let Some((at, comparison)) = self.intended_comparison(text) {
            let problem = Problem::new(
                codes::BAD_TEMPLATE,
                "`=` does not compare: a condition assigns nothing",
            )
            .at(&self.place_of(&node.place, text, at..at + 1));
            problems.push(problem.help(format!("write `==`: `{comparison}`")));
            return Condition::always(false);
        }
        let has_code = super::scan::template(text).has_code;
        let template = match self.lone_expression(text) {
            Some(expression) => self.expression(expression, &node.place, usage, problems),
            None if has_code && !text.contains("{%") && self.is_well_formed(text) => {
                let message = "a condition that is text around templates would always hold";
                let problem = Problem::new(codes::BAD_VALUE, message).at(&node.place);
                problems.push(problem.help("write all of it as one expression: `state.count > 3`"));
                return Condition::always(false);
            }
            None if has_code => match self.template(text, &node.place, usage, problems) {
                Some(template) => template,
                None => return Condition::always(false),
            },
            None => match parse_unbraced(text) {
                Unbraced::Constant(holds) => return Condition::always(holds),
                Unbraced::Expression(expression) => {
                    self.expression(&expression, &node.place, usage, problems)
                }
            },
        };
        Condition {
            test: Test::Template(template),
            is_negated: false,
            comparison: operators::COMPARE,
        }
    }

    /// Finds an assignment that was meant as a comparison. Returns the offset of the first lone `=` and
    /// the condition with `==` in place of each lone `=`. Returns `None` if the condition is valid as it
    /// is, or invalid with `==` too.
    fn intended_comparison(&self, text: &str) -> Option<(usize, String)> {
        let signs = assignments(text);
        let first = *signs.first()?;
        let mut comparison = text.to_owned();
        // From the end, so that the offsets before it stay valid.
        for at in signs.iter().rev() {
            comparison.insert(*at, '=');
        }
        let compiles = |text: &str| {
            let inside = text
                .strip_prefix("{{")
                .and_then(|text| text.strip_suffix("}}"));
            self.is_expression(inside.unwrap_or(text).trim_start_matches('!'))
        };
        (!compiles(text) && compiles(&comparison)).then_some((first, comparison))
    }

    /// Returns true if the condition holds.
    ///
    /// # Errors
    /// The condition cannot be evaluated.
    pub async fn holds(
        &self,
        condition: &Condition,
        scope: &Scope,
    ) -> Result<bool, TemplateFailure> {
        let holds = match &condition.test {
            Test::Always(holds) => *holds,
            Test::Template(template) if template.waits() => {
                let (templates, template) = (self.clone(), template.clone());
                let comparison = condition.comparison;
                self.on_blocking_thread(scope, move |scope| {
                    templates.evaluate_condition(&template, comparison, &scope)
                })
                .await?
            }
            Test::Template(template) => {
                self.evaluate_condition(template, condition.comparison, scope)?
            }
        };
        Ok(holds != condition.is_negated)
    }

    fn evaluate_condition(
        &self,
        template: &Template,
        comparison: &'static str,
        scope: &Scope,
    ) -> Result<bool, TemplateFailure> {
        self.evaluate_with(&self.shared.lenient, comparison, template, scope)
            .map(|value| is_true(&value))
    }
}

fn is_true(value: &Value) -> bool {
    match value.as_str().filter(|_| value.kind() == ValueKind::String) {
        Some(text) => !matches!(
            text.trim().to_lowercase().as_str(),
            "" | "false" | "0" | "no" | "none"
        ),
        None => value.is_true(),
    }
}

/// Returns the offsets of each lone `=` outside of strings and of call arguments.
fn assignments(text: &str) -> Vec<usize> {
    let bytes = text.as_bytes();
    let mut quote = None;
    let mut calls = Vec::new();
    let mut found = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        let before = at.checked_sub(1).map(|before| bytes[before]);
        match (quote, byte) {
            (Some(open), _) if open == *byte && before != Some(b'\\') => quote = None,
            (Some(_), _) => {}
            (None, b'"' | b'\'') => quote = Some(*byte),
            // In the parentheses of a call, a lone `=` gives a named argument.
            (None, b'(') => {
                calls.push(before.is_some_and(|c| c.is_ascii_alphanumeric() || c == b'_'))
            }
            (None, b')') => drop(calls.pop()),
            (None, b'=')
                if !matches!(before, Some(b'=' | b'!' | b'<' | b'>'))
                    && bytes.get(at + 1) != Some(&b'=')
                    && !calls.contains(&true) =>
            {
                found.push(at);
            }
            _ => {}
        }
    }
    found
}

/// A condition written without braces.
enum Unbraced {
    Constant(bool),
    Expression(String),
}

fn parse_unbraced(text: &str) -> Unbraced {
    if let Some(negated) = text
        .strip_prefix('!')
        .map(str::trim)
        .filter(|rest| is_one_term(rest))
    {
        return match parse_unbraced(negated) {
            Unbraced::Constant(holds) => Unbraced::Constant(!holds),
            Unbraced::Expression(expression) => Unbraced::Expression(format!("not ({expression})")),
        };
    }
    match text {
        "true" | "True" => Unbraced::Constant(true),
        "false" | "False" => Unbraced::Constant(false),
        name if is_name(name) && !NAMES.contains(&name) && !matches!(name, "none" | "None") => {
            Unbraced::Expression(format!("state.{name}"))
        }
        expression => Unbraced::Expression(expression.to_owned()),
    }
}

/// True if the text after a `!` is one name, one lookup, or one pair of parentheses, so that the operand
/// of the negation is unambiguous.
fn is_one_term(text: &str) -> bool {
    let is_lookup = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '!');
    if text.chars().all(is_lookup) {
        return !text.is_empty();
    }
    let mut depth = 0_usize;
    let closes = text.char_indices().find_map(|(at, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        (depth == 0).then_some(at)
    });
    text.starts_with('(') && closes == Some(text.len() - 1)
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}
