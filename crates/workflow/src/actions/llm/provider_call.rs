//! One question: its model and request, its answer, and its cost.

use std::time::Instant;

use cachalot_core::Spend;
use cachalot_core::canonical::key_order;
use cachalot_core::text::word_list;
use cachalot_model::{Delta, Error, Model, Reply, Request, ToolChoice, Unpriced};
use serde_json::{Value, json};

use super::super::arguments::CheckedArguments;
use super::super::model_error::failure;
use super::answer_schema::AnswerSchema;
use super::line_reporter::LineReporter;
use super::{choice, messages, result};
use crate::report::Event;
use crate::{Arguments, Failure, OperationMetadata, Runtime, spending};

/// A question, ready to be sent.
pub(super) struct ProviderCall<'a> {
    given: CheckedArguments<'a>,
    model: Model,
    request: Request,
    /// The schema that the answer must match.
    schema: Option<AnswerSchema>,
}

/// Returns the inputs besides the arguments that change the answer: the model with its whole
/// configuration, so that configured defaults are keyed like arguments; and the order of mappings that
/// are sent in their written order.
pub(super) fn identity(
    about: &'static OperationMetadata,
    arguments: &Arguments,
    runtime: &Runtime,
) -> Result<Value, Failure> {
    let given = CheckedArguments::new(about, arguments);
    let model = choice::model(&given, runtime)?.identity();
    let order = key_order(&json!([
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
const MODEL_SPECIFIC: [&str; 6] =
    word_list("model provider base_url token_key provider_opts fallbacks");

/// Returns the arguments of the same question to each fallback of its model: the arguments of a call that
/// names the fallback as its model.
pub(super) fn alternatives(
    about: &'static OperationMetadata,
    arguments: &Arguments,
    runtime: &Runtime,
) -> Vec<Arguments> {
    let Ok(model) = choice::model(&CheckedArguments::new(about, arguments), runtime) else {
        return Vec::new();
    };
    let fallbacks = model.fallbacks();
    fallbacks
        .map(|(name, _)| choice::with_model(arguments, &MODEL_SPECIFIC, name))
        .collect()
}

impl<'a> ProviderCall<'a> {
    pub(super) fn new(
        about: &'static OperationMetadata,
        arguments: &'a Arguments,
        runtime: &Runtime,
    ) -> Result<Self, Failure> {
        let given = CheckedArguments::new(about, arguments);
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
        let schema = parameters
            .output
            .as_ref()
            .map(|output| AnswerSchema::compile(&output.schema))
            .transpose()
            .map_err(|reason| {
                given.wrong(
                    "response_format",
                    format_args!("is no JSON Schema (or `structured_output` is none): {reason}"),
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
            schema,
        })
    }

    /// Asks, and waits for the complete answer. With `shows_stream`, shows it while it streams.
    pub(super) async fn answer(
        self,
        runtime: &Runtime,
        shows_stream: bool,
    ) -> Result<Value, Failure> {
        runtime.check_budget(&self.model)?;
        let body = self
            .request
            .body(self.model.wire(), shows_stream)
            .map_err(|error| failure(&self.given, &error))?;
        let started = Instant::now();
        let mut lines = LineReporter::new(runtime);
        let mut is_shown = false;
        let mut on = |delta: Delta| {
            is_shown = true;
            if let Delta::Text(text) = delta {
                lines.add(&text);
            }
        };
        let call_guard = runtime.meter.start_call();
        let asked = async {
            if shows_stream {
                self.model.stream(body, &mut on).await
            } else {
                self.model.ask(body).await
            }
        };
        let reply = spending::with_time_limit(runtime, asked).await;
        drop(call_guard);
        lines.finish();
        let result = self.account(reply?, started, runtime).await;
        result.map_err(|failure| Failure {
            // The answer of a fallback would follow the shown part of this one.
            allows_alternatives: failure.allows_alternatives && !is_shown,
            ..failure
        })
    }

    async fn account(
        &self,
        reply: Result<Reply, Error>,
        started: Instant,
        runtime: &Runtime,
    ) -> Result<Value, Failure> {
        let reply = reply.map_err(|error| failure(&self.given, &error))?;
        let charge = self.model.charge(&reply, &self.request.parameters);
        let (usage, cost) = (charge.usage, charge.cost());
        let counted = reply.usage.map(|_| usage);
        // Before the answer is checked: it is paid for even if it is not valid.
        runtime.meter.record(counted.as_ref(), cost);
        if let Err(unknown) = &charge.cost
            && !matches!(unknown, Unpriced::Model(_) | Unpriced::Usage)
            && runtime.meter.is_first_without_price(unknown)
        {
            let (provider, model) = (self.model.provider(), self.model.name());
            let message = format!("{provider}/{model}: the answer is not priced: {unknown}");
            runtime.reporter.report(Event::Warning { message });
        }
        let spent = Spend {
            input_tokens: usage.total_input(),
            output_tokens: usage.output,
            cost,
            ..Spend::for_call(started.elapsed())
        };
        let about = json!({ "model": self.model.name(), "provider": self.model.provider() });
        let saved = Spend::default();
        spending::account(runtime, self.given.action(), &about, spent, saved).await;
        result::build(&reply, &charge, self.schema.as_ref(), &self.given)
    }
}
