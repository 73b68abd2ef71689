//! Rendering of prepared templates with the values of a run.

use std::ops::Range;
use std::sync::Arc;

use minijinja::{Environment, Error, ErrorKind, Value};
use serde_json::{Map, Value as Json, json};

use super::compile::Compiled;
use super::prepared::{Late, Prepared, Template, Tree};
use super::{Scope, TemplateFailure, Templates, convert, engine, operators, scan, undefined};
use crate::exact_json;

impl Templates {
    /// Renders a prepared value.
    ///
    /// # Errors
    /// The first template that could not be rendered.
    pub async fn render(
        &self,
        prepared: &Prepared,
        scope: &Scope,
    ) -> Result<Json, TemplateFailure> {
        if !prepared.waits {
            return self.render_tree(&prepared.tree, scope);
        }
        let (templates, tree) = (self.clone(), Arc::clone(&prepared.tree));
        self.on_blocking_thread(scope, move |scope| templates.render_tree(&tree, &scope))
            .await
    }

    /// Runs `work` on a thread on which `storage_hash` may block.
    pub(super) async fn on_blocking_thread<T: Send + 'static>(
        &self,
        scope: &Scope,
        work: impl FnOnce(Scope) -> T + Send + 'static,
    ) -> T {
        let scope = scope
            .clone()
            .on_blocking_thread(tokio::runtime::Handle::current());
        match tokio::task::spawn_blocking(move || work(scope)).await {
            Ok(done) => done,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // Only a runtime that is shutting down cancels the task, and it drops this future too.
                Err(_) => std::future::pending().await,
            },
        }
    }

    fn render_tree(&self, tree: &Tree, scope: &Scope) -> Result<Json, TemplateFailure> {
        match tree {
            Tree::Literal(json) => Ok(json.clone()),
            Tree::Template(template) => self.render_template(template, scope),
            Tree::List(items) => items
                .iter()
                .map(|item| self.render_tree(item, scope))
                .collect(),
            Tree::Map(fields) => fields
                .iter()
                .map(|(key, field)| Ok((key.clone(), self.render_tree(field, scope)?)))
                .collect::<Result<_, _>>()
                .map(Json::Object),
            Tree::Late(late) => self.render_late(late, scope),
        }
    }

    /// Returns the source of a late template and the values that it reads.
    fn render_late(&self, late: &Late, scope: &Scope) -> Result<Json, TemplateFailure> {
        let mut values = Map::new();
        for read in &late.reads {
            let value = self.evaluate(&self.shared.lenient, read, scope)?;
            let json = convert::to_json(&value).map_err(|error| TemplateFailure {
                message: error.to_string(),
                place: read.place.clone(),
            })?;
            values.insert(read.source.clone(), json);
        }
        Ok(json!({ "template": late.source, "values": values }))
    }

    /// Returns all texts of a value, with undefined values rendered as empty text. Also returns the
    /// beginning of each text up to a literal `/`, `?` or `#`, so that the host of a URL can be rendered
    /// even if the end of the text cannot. Leaves out texts that cannot be rendered.
    pub(crate) fn lenient_texts(&self, prepared: &Prepared, scope: &Scope) -> Vec<String> {
        let mut texts = Vec::new();
        self.gather_texts(&prepared.tree, scope, &mut texts);
        texts
    }

    fn gather_texts(&self, tree: &Tree, scope: &Scope, texts: &mut Vec<String>) {
        match tree {
            Tree::Literal(json) => texts.extend(texts_in(json)),
            Tree::Template(template) => {
                let mut render = |template: &Template| {
                    let value = self.evaluate(&self.shared.lenient, template, scope);
                    if let Ok(Ok(json)) = value.map(|value| convert::to_json(&value)) {
                        texts.extend(texts_in(&json));
                    }
                };
                render(template);
                if !template.is_expression {
                    for end in scan::host_boundaries(&template.source) {
                        render(&Template {
                            source: template.source[..end].to_owned(),
                            ..template.clone()
                        });
                    }
                }
            }
            // The texts are rendered by the action, which makes no request to them.
            Tree::Late(_) => {}
            Tree::List(items) => {
                for item in items {
                    self.gather_texts(item, scope, texts);
                }
            }
            Tree::Map(fields) => {
                for (_, field) in fields {
                    self.gather_texts(field, scope, texts);
                }
            }
        }
    }

    /// True if the value renders to the same result in both scopes. False if that cannot be determined
    /// without waiting for storage.
    pub(crate) fn renders_alike(&self, prepared: &Prepared, one: &Scope, other: &Scope) -> bool {
        let rendered = |scope| self.render_tree(&prepared.tree, scope).ok();
        !prepared.waits && rendered(one).is_some_and(|json| rendered(other) == Some(json))
    }

    fn render_template(&self, template: &Template, scope: &Scope) -> Result<Json, TemplateFailure> {
        if let Some(found) = template.path.as_ref().and_then(|path| path.follow(scope)) {
            return Ok(found.clone());
        }
        let value = self.evaluate(&self.shared.strict, template, scope)?;
        let json = convert::to_json(&value).map_err(|error| TemplateFailure {
            message: error.to_string(),
            place: template.place.clone(),
        })?;
        // A text that is derived from a secret is a secret, too: from here on, it is masked and sealed like that one.
        if template.derives_from_secrets {
            register_secrets(&json, &template.source, scope);
        }
        Ok(json)
    }

    /// Evaluates an expression to its value, or a text to a string value.
    pub(super) fn evaluate(
        &self,
        environment: &Environment<'static>,
        template: &Template,
        scope: &Scope,
    ) -> Result<Value, TemplateFailure> {
        self.evaluate_with(environment, operators::COMPARE, template, scope)
    }

    /// Like [`Templates::evaluate`], with this filter for comparisons of an expression.
    pub(super) fn evaluate_with(
        &self,
        environment: &Environment<'static>,
        comparison: &'static str,
        template: &Template,
        scope: &Scope,
    ) -> Result<Value, TemplateFailure> {
        let source = template.source.as_str();
        let compiled = if template.is_expression {
            Compiled::expression(source, comparison)
        } else {
            Compiled::text(source, environment)
        };
        let evaluated = compiled.and_then(|compiled| compiled.evaluate(environment, scope.root()));
        evaluated.map_err(|error| self.failure(template, &error, Some(scope)))
    }

    /// Converts an error of the engine. With `scope`, the message about an undefined value lists what is there.
    pub(super) fn failure(
        &self,
        template: &Template,
        error: &Error,
        scope: Option<&Scope>,
    ) -> TemplateFailure {
        let range = error.range();
        let undefined = undefined_in(&template.source, error, range.as_ref());
        let place = match undefined.or(range) {
            Some(range) => self.place_of(&template.place, &template.source, range),
            None => template.place.clone(),
        };
        TemplateFailure {
            message: message(error, scope),
            place,
        }
    }
}

fn message(error: &Error, scope: Option<&Scope>) -> String {
    let detail = error.detail().unwrap_or_default();
    match error.kind() {
        ErrorKind::UndefinedError if detail.is_empty() => {
            "the template uses something that is undefined".to_owned()
        }
        ErrorKind::UndefinedError => {
            let described = scope.and_then(|scope| undefined::describe(error, scope));
            let described = described.as_deref().unwrap_or(detail);
            format!("{described}: set it before, or give it a value with `| default(…)`")
        }
        ErrorKind::OutOfFuel => {
            format!(
                "the template takes more than {} million steps",
                engine::FUEL / 1_000_000
            )
        }
        ErrorKind::SyntaxError => format!("the template is malformed: {detail}"),
        ErrorKind::InvalidOperation if !detail.is_empty() => detail.to_owned(),
        kind if detail.is_empty() => kind.to_string(),
        kind => format!("{kind}: {detail}"),
    }
}

/// Returns the range of the expression that the error reports as undefined.
fn undefined_in(source: &str, error: &Error, range: Option<&Range<usize>>) -> Option<Range<usize>> {
    let expression = undefined::undefined_expression(error)?;
    let until = range.map_or(source.len(), |range| range.end);
    let at = source.get(..until)?.rfind(expression)?;
    Some(at..at + expression.len())
}

/// Registers strings derived from secrets as secrets, unless they are too short or the template's source
/// contains them.
fn register_secrets(json: &Json, source: &str, scope: &Scope) {
    /// The minimum length. Masking a shorter text would mask too much text that is not secret.
    const MIN_LENGTH: usize = 8;
    for text in exact_json::texts(json) {
        if text.len() >= MIN_LENGTH && !source.contains(text) {
            scope.context().secret_set().learn(text);
        }
    }
}

fn texts_in(json: &Json) -> impl Iterator<Item = String> {
    exact_json::texts(json).into_iter().map(str::to_owned)
}
