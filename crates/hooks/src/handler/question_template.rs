//! Questions to models: templates that are rendered with the hook input.

use cachalot_core::suggest::did_you_mean;
use cachalot_core::{Problem, text};
use minijinja::value::{Serde, ValueKind};
use minijinja::{AutoEscape, Environment, Error, ErrorKind, UndefinedBehavior, Value};
use serde_json::Map;

use crate::contract::{Contract, Field};
use crate::go_template;
use crate::output::Fault;

/// The name of the whole input in templates, in addition to its fields.
const INPUT_VARIABLE: &str = "input";

/// The maximum number of steps of a template.
const FUEL: u64 = 1_000_000;

/// A template that renders hook input to a question. Each field of the event is a variable, which is
/// empty if the input does not contain it; `input` is the whole input. Any other missing value is an
/// error: a model that sees less than intended would decide wrongly.
#[derive(Debug)]
pub(super) struct QuestionTemplate {
    source: String,
    fields: Vec<&'static str>,
    environment: Environment<'static>,
}

impl QuestionTemplate {
    /// Parses a template.
    ///
    /// # Errors
    /// The template is empty or malformed, or uses a variable that is no field of the event.
    pub(super) fn parse(source: &str, contract: &Contract) -> Result<Self, Problem> {
        if source.trim().is_empty() {
            return Err(Problem::new("missing-key", "the model is asked nothing")
                .help("`prompt` is the template of a question, such as `May this run? {{ tool_input | tojson }}`"));
        }
        let question = Self {
            source: go_template::to_jinja(source)?.into_owned(),
            fields: fields(contract),
            environment: environment(UndefinedBehavior::SemiStrict),
        };
        question.check(contract)?;
        Ok(question)
    }

    fn check(&self, contract: &Contract) -> Result<(), Problem> {
        let template = self
            .environment
            .template_from_str(&self.source)
            .map_err(|error| malformed(&error))?;
        let globals: Vec<&str> = self.environment.globals().map(|(name, _)| name).collect();
        let mut names: Vec<String> = template.undeclared_variables(false).into_iter().collect();
        names.sort();
        let unknown = names.into_iter().find(|name| {
            let name = name.as_str();
            name != INPUT_VARIABLE && !self.fields.contains(&name) && !globals.contains(&name)
        });
        match unknown {
            None => self.dry_run(),
            Some(name) => Err(Problem::new(
                "unknown-name",
                format!("`prompt`: `{}` has no field `{name}`", contract.event),
            )
            .help(did_you_mean(&name, &self.fields))),
        }
    }

    /// Renders the template without values to find unknown filters, tests and functions, which are only
    /// reported by rendering. All other errors are ignored here.
    fn dry_run(&self) -> Result<(), Problem> {
        let environment = environment(UndefinedBehavior::Chainable);
        match environment.render_str(&self.source, ()) {
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::UnknownFilter
                        | ErrorKind::UnknownTest
                        | ErrorKind::UnknownFunction
                        | ErrorKind::TemplateNotFound
                ) =>
            {
                Err(malformed(&error))
            }
            _ => Ok(()),
        }
    }

    /// Renders the question.
    ///
    /// # Errors
    /// A value that the template uses is missing, the template takes too many steps, or the result is
    /// empty.
    pub(super) fn render(&self, mut told: Map<String, serde_json::Value>) -> Result<String, Fault> {
        // Before the empty fields are added: `input` has only the fields that the event has.
        let whole = Value::from(Serde(&told));
        for field in &self.fields {
            told.entry(*field)
                .or_insert_with(|| serde_json::Value::String(String::new()));
        }
        let mut names: Vec<(String, Value)> = told
            .iter()
            .map(|(name, value)| (name.clone(), Value::from(Serde(value))))
            .collect();
        names.push((INPUT_VARIABLE.to_owned(), whole));
        let rendered = self
            .environment
            .render_str(&self.source, Value::from_pairs(names))
            .map_err(|error| Fault::new(format!("`prompt`: {}", message(&error))))?;
        if rendered.trim().is_empty() {
            Err(Fault::new("`prompt`: nothing is left of the question"))
        } else {
            Ok(rendered)
        }
    }
}

fn fields(contract: &Contract) -> Vec<&'static str> {
    let mut fields = Field::COMMON.to_vec();
    fields.extend(contract.fields.iter().flat_map(|field| field.keys()));
    fields
}

fn environment(undefined: UndefinedBehavior) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(undefined);
    // A question is plain text: escapes of HTML would change it.
    environment.set_auto_escape_callback(|_| AutoEscape::None);
    environment.set_fuel(Some(FUEL));
    // Errors then name the undefined expression.
    environment.set_debug(true);
    // It would print the whole context.
    environment.remove_global("debug");
    environment.add_filter("tojson", tojson);
    environment.add_filter("truncate", truncate);
    environment
}

fn defined(value: &Value) -> Result<(), Error> {
    if value.is_undefined() {
        value.get_attr("").map(drop)
    } else {
        Ok(())
    }
}

/// Formats a value as JSON, without HTML escapes and with keys in their order.
fn tojson(value: &Value) -> Result<String, Error> {
    defined(value)?;
    serde_json::to_string(value)
        .map_err(|error| Error::new(ErrorKind::InvalidOperation, error.to_string()))
}

/// Truncates a text to a number of characters; appends `…` if something was cut off.
fn truncate(value: &Value, characters: usize) -> Result<String, Error> {
    defined(value)?;
    let text = match value.kind() {
        ValueKind::String => value.as_str().unwrap_or_default().to_owned(),
        _ => value.to_string(),
    };
    Ok(text::truncate(&text, characters).into_owned())
}

fn malformed(error: &Error) -> Problem {
    Problem::new("bad-template", format!("`prompt`: {}", message(error)))
        .help("it is a template such as `May this run? {{ tool_input | tojson }}`")
}

fn message(error: &Error) -> String {
    let detail = error.detail().unwrap_or_default();
    let line = match error.line() {
        Some(line) => format!(" (line {line})"),
        None => String::new(),
    };
    match error.kind() {
        ErrorKind::UndefinedError if detail.is_empty() => {
            format!("something is undefined{line}: give it a value with `| default(…)`")
        }
        ErrorKind::UndefinedError => {
            format!("{detail}{line}: give it a value with `| default(…)`")
        }
        ErrorKind::OutOfFuel => format!("the template takes more than {FUEL} steps"),
        ErrorKind::SyntaxError => format!("the template is malformed{line}: {detail}"),
        kind if detail.is_empty() => format!("{kind}{line}"),
        kind => format!("{kind}{line}: {detail}"),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/handler/question_template.rs"]
mod tests;
