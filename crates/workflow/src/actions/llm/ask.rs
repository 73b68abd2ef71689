//! One question: its model and request, its answer, and its cost.

use std::time::Instant;

use bytes::Bytes;
use cachalot_core::Spend;
use cachalot_model::{Delta, Error, Model, Reply, Request, ToolChoice};
use serde_json::{Value, json};

use super::super::arguments::Given;
use super::super::model_error::failure;
use super::super::order;
use super::lines::Lines;
use super::shape::Shape;
use super::{choice, messages, result};
use crate::{Arguments, Failure, OperationMetadata, Runtime, spending};

/// A question, ready to be sent.
pub(super) struct Ask<'a> {
    given: Given<'a>,
    model: Model,
    request: Request,
    /// The schema that the answer must match.
    shape: Option<Shape>,
}

/// Returns the inputs besides the arguments that change the answer: the model with its whole
/// configuration, so that configured defaults are keyed like arguments; and the order of mappings that
/// are sent in their written order.
pub(super) fn identity(
    about: &'static OperationMetadata,
    arguments: &Arguments,
    runtime: &Runtime,
) -> Result<Value, Failure> {
    let given = Given::seen(about, arguments);
    let model = choice::model(&given, runtime)?.identity();
    let order = order::of(&json!([
        model.pointer("/parameters/output"),
        model.pointer("/parameters/extra"),
        arguments.get("tools"),
    ]));
    let mut identity = json!({ "model": model });
    if !order.is_null() {
        identity["order"] = order;
    }
    Ok(identity)
}

/// Arguments that locate a model or that only its provider understands; a fallback is asked without them.
const OF_ONE_MODEL: [&str; 6] = [
    "model",
    "provider",
    "base_url",
    "token_key",
    "provider_opts",
    "fallbacks",
];

/// Returns the arguments of the same question to each fallback of its model: the arguments of a call that
/// names the fallback as its model.
pub(super) fn alternatives(
    about: &'static OperationMetadata,
    arguments: &Arguments,
    runtime: &Runtime,
) -> Vec<Arguments> {
    let Ok(model) = choice::model(&Given::seen(about, arguments), runtime) else {
        return Vec::new();
    };
    let fallbacks = model.fallbacks();
    fallbacks
        .map(|(name, _)| {
            let kept = arguments.iter();
            let kept = kept.filter(|(key, _)| !OF_ONE_MODEL.contains(&key.as_str()));
            kept.map(|(key, value)| (key.clone(), value.clone()))
                .chain([("model".to_owned(), Value::from(name))])
                .collect()
        })
        .collect()
}

impl<'a> Ask<'a> {
    pub(super) fn of(
        about: &'static OperationMetadata,
        arguments: &'a Arguments,
        runtime: &Runtime,
    ) -> Result<Self, Failure> {
        let given = Given::seen(about, arguments);
        let model = choice::model(&given, runtime)?;
        let conversation = messages::read(&given)?;
        let tools = messages::tools(&given)?;
        let model = model
            .for_tools(!tools.is_empty())
            .map_err(|error| failure(&given, &error))?;
        let mut parameters = model.parameters().clone();
        parameters.tool_choice = choice::tool_choice(&given)?.or(parameters.tool_choice);
        if tools.is_empty() {
            if let Some(ToolChoice::Any | ToolChoice::Tool(_)) = parameters.tool_choice {
                return Err(given.wrong("tool_choice", "demands a tool: it needs `tools`"));
            }
            // Providers reject tool settings without tools.
            parameters.tool_choice = None;
            parameters.parallel_tool_calls = None;
        }
        let shape = parameters
            .output
            .as_ref()
            .map(|output| Shape::of(&output.schema))
            .transpose()
            .map_err(|why| {
                given.wrong(
                    "response_format",
                    format_args!("is no JSON Schema (or `structured_output` is none): {why}"),
                )
            })?;
        let request = Request {
            tools,
            system: conversation.system,
            messages: conversation.messages,
            parameters,
        };
        Ok(Self {
            given,
            model,
            request,
            shape,
        })
    }

    /// Asks, and waits for the complete answer.
    pub(super) async fn whole(self, runtime: &Runtime) -> Result<Value, Failure> {
        runtime.check_budget(&self.model)?;
        let body = self.body(false)?;
        let began = Instant::now();
        let calling = runtime.meter.start_call();
        let reply = spending::in_time(runtime, self.model.ask(body)).await?;
        drop(calling);
        self.account(reply, began, runtime).await
    }

    /// Asks, and shows the answer while it streams.
    pub(super) async fn streamed(self, runtime: &Runtime) -> Result<Value, Failure> {
        runtime.check_budget(&self.model)?;
        let body = self.body(true)?;
        let began = Instant::now();
        let mut lines = Lines::of(runtime);
        let mut is_shown = false;
        let mut on = |delta: Delta| {
            is_shown = true;
            if let Delta::Text(text) = delta {
                lines.add(&text);
            }
        };
        let calling = runtime.meter.start_call();
        let reply = spending::in_time(runtime, self.model.stream(body, &mut on)).await;
        drop(calling);
        lines.end();
        let answered = self.account(reply?, began, runtime).await;
        answered.map_err(|failure| Failure {
            elsewhere: failure.elsewhere && !is_shown,
            ..failure
        })
    }

    fn body(&self, stream: bool) -> Result<Bytes, Failure> {
        self.request
            .body(self.model.wire(), stream)
            .map_err(|error| failure(&self.given, &error))
    }

    async fn account(
        &self,
        reply: Result<Reply, Error>,
        began: Instant,
        runtime: &Runtime,
    ) -> Result<Value, Failure> {
        let reply = reply.map_err(|error| failure(&self.given, &error))?;
        let usage = reply.usage.unwrap_or_default();
        let cost = self.model.cost_of(&reply);
        runtime.meter.record(reply.usage.as_ref(), cost);
        let spent = Spend {
            input_tokens: usage.total_input(),
            output_tokens: usage.output,
            cost,
            ..Spend::for_call(began.elapsed())
        };
        let about = json!({ "model": self.model.name(), "provider": self.model.provider() });
        let saved = Spend::default();
        spending::account(runtime, self.given.action(), &about, spent, saved).await;
        result::of(&reply, cost, self.shape.as_ref(), &self.given)
    }
}
