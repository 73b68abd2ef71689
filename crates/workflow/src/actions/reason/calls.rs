//! The model calls of one action.

use serde_json::{Map, Value, json};

use super::super::json_object;
use super::super::llm::{self, MODEL_PARAMETERS};
use crate::{Arguments, Failure, Planned, Runtime};

/// The model calls of one run of an action: their common arguments, and their usage and cost so far.
pub(super) struct ModelCalls<'r> {
    runtime: &'r Runtime,
    model: Arguments,
    /// The usage of all calls; `None` once the usage of one call is unknown.
    usage: Option<Map<String, Value>>,
    cost: Option<f64>,
}

/// The answer of a model.
pub(super) struct Reply {
    pub(super) content: String,
    /// The model that answered.
    pub(super) model: Value,
    is_truncated: bool,
}

impl Reply {
    /// Returns the JSON object in the answer.
    pub(super) fn object(&self) -> Option<Map<String, Value>> {
        json_object::find_object(&self.content)
    }

    /// Returns the failure for an answer that lacks something: `lacks` is a clause such as `has no
    /// `answer``.
    pub(super) fn malformed(&self, action: &str, lacks: &str) -> Failure {
        let cut = if self.is_truncated {
            "; it is cut off: raise `max_tokens`"
        } else {
            ""
        };
        let message = format!(
            "{action}: the answer of the model {lacks}{cut}: {}",
            super::super::arguments::excerpt(&self.content)
        );
        Failure::transient("invalid_answer", message)
    }
}

/// Returns a message of a conversation.
pub(super) fn message(role: &str, content: &str) -> Value {
    json!({ "role": role, "content": content })
}

/// Returns the arguments about the model, with `named` in place of `model`.
fn model_arguments(arguments: &Arguments, named: Option<&str>) -> Arguments {
    let given = MODEL_PARAMETERS.iter().filter_map(|parameter| {
        let value = arguments.get(parameter.name)?;
        Some((parameter.name.to_owned(), value.clone()))
    });
    let named = named.map(|name| ("model".to_owned(), Value::from(name)));
    given.chain(named).collect()
}

/// Returns a question with the arguments of an action, for its key and its plan.
fn question(arguments: &Arguments, named: Option<&str>) -> Arguments {
    let mut question = model_arguments(arguments, named);
    question.insert("prompt".to_owned(), Value::from("?"));
    question
}

/// Returns the inputs besides the arguments that change the answers of a model.
pub(super) fn inputs(
    arguments: &Arguments,
    named: Option<&str>,
    runtime: &Runtime,
) -> Result<Value, Failure> {
    llm::inputs(&llm::CALL, &question(arguments, named), runtime)
}

/// Prepares a question to a model without asking it.
pub(super) fn plan(
    arguments: &Arguments,
    named: Option<&str>,
    runtime: &Runtime,
) -> Result<Planned, Failure> {
    llm::plan(&llm::CALL, &question(arguments, named), runtime)
}

impl<'r> ModelCalls<'r> {
    pub(super) fn new(arguments: &Arguments, runtime: &'r Runtime) -> Self {
        Self {
            runtime,
            model: model_arguments(arguments, None),
            usage: Some(Map::new()),
            cost: Some(0.0),
        }
    }

    /// Asks with a system prompt and a message of the user.
    pub(super) async fn ask(
        &mut self,
        model: Option<&str>,
        system: &str,
        user: &str,
    ) -> Result<Reply, Failure> {
        let messages = vec![message("system", system), message("user", user)];
        self.converse(model, messages).await
    }

    /// Asks with a conversation. `model` takes the place of the argument `model`.
    ///
    /// # Errors
    /// Those of `llm.call`.
    pub(super) async fn converse(
        &mut self,
        model: Option<&str>,
        messages: Vec<Value>,
    ) -> Result<Reply, Failure> {
        let mut arguments = model_arguments(&self.model, model);
        arguments.insert("messages".to_owned(), Value::Array(messages));
        let answer = llm::ask_embedded(arguments, self.runtime).await?;
        self.add(&answer);
        Ok(Reply {
            content: answer["content"].as_str().unwrap_or_default().to_owned(),
            model: answer["model"].clone(),
            is_truncated: answer["stop_reason"] == "length",
        })
    }

    /// Returns the text of a failure for the result, with secrets masked.
    pub(super) fn masked(&self, text: &str) -> String {
        self.runtime.masked(text)
    }

    fn add(&mut self, answer: &Value) {
        let cost = answer["cost"].as_f64();
        self.cost = self.cost.zip(cost).map(|(sum, cost)| sum + cost);
        let Some(usage) = answer["usage"].as_object() else {
            self.usage = None;
            return;
        };
        let Some(sum) = &mut self.usage else { return };
        for (name, count) in usage {
            let before = sum.get(name).and_then(Value::as_u64).unwrap_or_default();
            let count = count.as_u64().unwrap_or_default();
            sum.insert(name.clone(), json!(before.saturating_add(count)));
        }
    }

    /// Adds `usage` and `cost` of all calls to the result of the action. Each is null if it is unknown for
    /// one of them.
    pub(super) fn totals(self, mut result: Value) -> Value {
        result["usage"] = json!(self.usage);
        result["cost"] = json!(self.cost);
        result
    }
}
