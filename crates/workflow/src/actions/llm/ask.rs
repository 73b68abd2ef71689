//! What is asked of which model: the arguments of a call over what is configured.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use cachalot_core::Spend;
use cachalot_model::ModelSettings;
use cachalot_model::{
    Delta, ErrorKind, Model, OutputFormat, ReasoningWish, Reply, Request, ToolChoice,
};
use serde_json::{Map, Value, json};

use super::super::arguments::Given;
use super::{messages, result};
use crate::report::{Event, current_node};
use crate::{About, Arguments, Failure, Runtime, spending};

/// A question, ready to be asked.
pub(super) struct Ask {
    model: Model,
    request: Request,
}

impl Ask {
    pub(super) fn of(
        about: &About,
        arguments: &Arguments,
        runtime: &Runtime,
    ) -> Result<Self, Failure> {
        let given = Given::seen(about, arguments);
        let settings = settings(&given)?;
        let model = runtime
            .models
            .choose(given.text("model")?, &settings)
            .map_err(|error| failure(&given, &error))?;
        let conversation = messages::read(&given)?;
        let mut parameters = model.parameters().clone();
        if let Some(choice) = tool_choice(&given)? {
            parameters.tool_choice = Some(choice);
        }
        Ok(Self {
            model,
            request: Request {
                tools: messages::tools(&given)?,
                system: conversation.system,
                messages: conversation.messages,
                parameters,
            },
        })
    }

    /// What is not in the arguments but changes the answer: the model with everything that is
    /// configured for it, so that defaults are in the key as if they had been written at the call.
    pub(super) fn identity(&self) -> Value {
        self.model.identity()
    }

    pub(super) async fn whole(
        self,
        arguments: &Arguments,
        runtime: &Runtime,
    ) -> Result<Value, Failure> {
        let given = Given::seen(&super::CALL, arguments);
        runtime.check_budget(&self.model)?;
        let body = self.body(&given, false)?;
        let began = Instant::now();
        let reply = self.model.ask(body).await;
        self.account(reply, began, &given, runtime).await
    }

    pub(super) async fn streamed(
        self,
        arguments: &Arguments,
        runtime: &Runtime,
    ) -> Result<Value, Failure> {
        let given = Given::seen(&super::STREAM, arguments);
        runtime.check_budget(&self.model)?;
        let body = self.body(&given, true)?;
        let (began, node) = (Instant::now(), current_node());
        let line = Mutex::new(Lines::default());
        let mut on = |delta: Delta| {
            if let Delta::Text(text) = delta {
                let mut line = line.lock().unwrap_or_else(PoisonError::into_inner);
                line.add(&text, &mut |text| {
                    runtime.reporter.report(Event::Printed {
                        node: node.clone(),
                        text: runtime.seals.redact(text).into_owned(),
                    });
                });
            }
        };
        let reply = self.model.stream(body, &mut on).await;
        let rest = line.into_inner().unwrap_or_else(PoisonError::into_inner).0;
        if !rest.is_empty() {
            runtime.reporter.report(Event::Printed {
                node,
                text: runtime.seals.redact(&rest).into_owned(),
            });
        }
        self.account(reply, began, &given, runtime).await
    }

    fn body(&self, given: &Given<'_>, stream: bool) -> Result<bytes::Bytes, Failure> {
        self.request
            .body(self.model.wire(), stream)
            .map_err(|error| failure(given, &error))
    }

    async fn account(
        &self,
        reply: Result<Reply, cachalot_model::Error>,
        began: Instant,
        given: &Given<'_>,
        runtime: &Runtime,
    ) -> Result<Value, Failure> {
        let reply = reply.map_err(|error| failure(given, &error))?;
        let usage = reply.usage.unwrap_or_default();
        let cost = self.model.cost_of(&reply);
        runtime.meter.record(reply.usage.as_ref(), cost);
        let spent = Spend {
            input_tokens: usage.total_input(),
            output_tokens: usage.output,
            cost,
            ..Spend::one(began.elapsed())
        };
        let input = json!({ "model": self.model.name(), "provider": self.model.provider() });
        spending::account(runtime, given.action(), &input, spent).await;
        let parsed = self.request.parameters.output.is_some();
        result::of(&reply, cost, parsed, given)
    }
}

/// Text that is shown line by line.
#[derive(Default)]
struct Lines(String);

impl Lines {
    fn add(&mut self, text: &str, show: &mut dyn FnMut(&str)) {
        self.0.push_str(text);
        while let Some(end) = self.0.find('\n') {
            show(&self.0[..end]);
            self.0.drain(..=end);
        }
    }
}

fn failure(given: &Given<'_>, error: &cachalot_model::Error) -> Failure {
    let kind = match error.kind {
        ErrorKind::Unauthorized => "unauthorized",
        ErrorKind::Rejected => "rejected",
        ErrorKind::TooLong => "too_long",
        ErrorKind::Limited => "rate_limited",
        ErrorKind::TimedOut => "timeout",
        ErrorKind::Unreachable => "connection_error",
        ErrorKind::Configuration => "configuration_error",
        ErrorKind::OverBudget => "over_budget",
        _ => "provider_error",
    };
    Failure {
        retryable: error.retryable(),
        ..given.failure(kind, error)
    }
}

/// What the arguments say of the model.
fn settings(given: &Given<'_>) -> Result<ModelSettings, Failure> {
    let text = |name| Ok::<_, Failure>(given.text(name)?.map(ToOwned::to_owned));
    let number = |name: &str| given.any(name).and_then(Value::as_f64);
    let max_tokens = match given.any("max_tokens") {
        None => None,
        Some(_) => Some(given.count("max_tokens", 1, 1..=u64::MAX)?),
    };
    Ok(ModelSettings {
        provider: text("provider")?,
        base_url: text("base_url")?,
        token_key: text("token_key")?,
        temperature: number("temperature"),
        top_p: number("top_p"),
        max_tokens,
        stop: stop(given)?,
        reasoning: text("reasoning_effort")?.map(ReasoningWish::Effort),
        structured_output: response_format(given)?,
        provider_opts: given.object("provider_opts")?.cloned().unwrap_or_default(),
        ..ModelSettings::default()
    })
}

fn stop(given: &Given<'_>) -> Result<Option<Vec<String>>, Failure> {
    match given.any("stop") {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(vec![text.clone()])),
        Some(Value::Array(texts)) => texts
            .iter()
            .map(|text| text.as_str().map(ToOwned::to_owned))
            .collect::<Option<Vec<_>>>()
            .map(Some)
            .ok_or_else(|| given.wrong("stop", "holds something that is no text")),
        Some(_) => Err(given.wrong("stop", "is neither text nor a list of texts")),
    }
}

/// A JSON Schema, or OpenAI's envelope around one.
fn response_format(given: &Given<'_>) -> Result<Option<OutputFormat>, Failure> {
    let Some(format) = given.object("response_format")? else {
        return Ok(None);
    };
    let of = |fields: &Map<String, Value>, schema: &Value| OutputFormat {
        name: fields
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or("answer")
            .to_owned(),
        strict: fields
            .get("strict")
            .and_then(Value::as_bool)
            .unwrap_or(true),
        schema: schema.clone(),
    };
    match format.get("type").and_then(Value::as_str) {
        Some("text") => Ok(None),
        Some("json_schema") => format
            .get("json_schema")
            .and_then(Value::as_object)
            .and_then(|inner| Some(of(inner, inner.get("schema")?)))
            .map(Some)
            .ok_or_else(|| given.wrong("response_format", "has no `json_schema.schema`")),
        Some("json_object") => Err(given.wrong(
            "response_format",
            "asks for any JSON: give the JSON Schema of the answer",
        )),
        _ => Ok(Some(of(&Map::new(), &Value::Object(format.clone())))),
    }
}

fn tool_choice(given: &Given<'_>) -> Result<Option<ToolChoice>, Failure> {
    let Some(choice) = given.any("tool_choice").filter(|value| !value.is_null()) else {
        return Ok(None);
    };
    let named = |value: &Value| {
        let name = value.pointer("/function/name").or_else(|| value.get("name"))?;
        name.as_str().map(ToOwned::to_owned)
    };
    match choice.as_str() {
        Some("auto") => Ok(Some(ToolChoice::Auto)),
        Some("none") => Ok(Some(ToolChoice::None)),
        Some("required" | "any") => Ok(Some(ToolChoice::Any)),
        Some(name) => Ok(Some(ToolChoice::Tool(name.to_owned()))),
        None => named(choice)
            .map(|name| Some(ToolChoice::Tool(name)))
            .ok_or_else(|| given.wrong("tool_choice", "names no tool")),
    }
}
