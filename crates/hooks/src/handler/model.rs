//! Handlers that are models: a question about the event; the answer is a decision or context.

use std::sync::Arc;
use std::time::Instant;

use async_trait::async_trait;
use bytes::Bytes;
use cachalot_core::{Problem, Spend};
use cachalot_model::{Error, ErrorKind, Message, Model, OutputFormat, Reply, Request, StopReason};
use serde_json::{Map, Value};

use super::Handler;
use super::question_template::QuestionTemplate;
use crate::Dialect;
use crate::contract::{BlockEffect, SpecificOutput};
use crate::definition::{HookEntry, Judgement};
use crate::dependencies::HookDependencies;
use crate::input::Input;
use crate::output::{Decision, Fault, Output};

/// The options of the definition.
pub(super) struct ModelOptions<'a> {
    pub(super) model: &'a str,
    pub(super) prompt: &'a str,
    pub(super) system_prompt: Option<&'a str>,
    pub(super) schema: Option<Judgement>,
}

struct ModelHandler {
    model: Model,
    question: QuestionTemplate,
    system: Option<String>,
    schema: Option<Judgement>,
    /// The entry in our own dialect, in which templates are written.
    entry: HookEntry,
}

pub(super) fn create(
    options: &ModelOptions<'_>,
    entry: &HookEntry,
    dependencies: &HookDependencies,
) -> Result<Arc<dyn Handler>, Problem> {
    if options.model.trim().is_empty() {
        return Err(Problem::new("missing-key", "no model is named")
            .help("`model` is one of `models:`, or `provider/model`"));
    }
    check(entry, options.schema)?;
    let model = find_model(options.model, dependencies)?;
    let system = options.system_prompt.filter(|text| !text.trim().is_empty());
    Ok(Arc::new(ModelHandler {
        model,
        question: QuestionTemplate::parse(options.prompt, entry.event.contract())?,
        system: system.map(str::to_owned),
        schema: options.schema,
        entry: HookEntry {
            event_name: Arc::from(entry.event.name()),
            dialect: Dialect::DockerAgent,
            ..entry.clone()
        },
    }))
}

/// Returns the model with this name, if it can be called.
pub(super) fn find_model(name: &str, dependencies: &HookDependencies) -> Result<Model, Problem> {
    let found = dependencies.models.find(name).and_then(|model| {
        model.ready()?;
        Ok(model)
    });
    found.map_err(|error| {
        let code = match error.kind {
            ErrorKind::Unauthorized => "unset-variable",
            _ => "unknown-model",
        };
        Problem::new(code, error.to_string())
    })
}

/// Checks that the answer has an effect at the event: an unused answer must not be paid for.
fn check(entry: &HookEntry, schema: Option<Judgement>) -> Result<(), Problem> {
    let contract = entry.event.contract();
    let decides = contract.honours(SpecificOutput::PermissionDecision);
    let is_heard = match schema {
        None => contract.honours(SpecificOutput::AdditionalContext),
        Some(Judgement::PreToolUse) => decides,
        Some(Judgement::Guard) => decides || contract.blocks != BlockEffect::Nothing,
    };
    if is_heard {
        return Ok(());
    }
    let event = entry.event;
    Err(match schema {
        None => Problem::new(
            "wrong-event",
            format!("`{event}` takes no context, which the model's answer is without a `schema`"),
        )
        .help("give a `schema`, or name the model for another event"),
        Some(schema) => Problem::new(
            "wrong-event",
            format!("`{event}` takes no `{}`", schema.name()),
        )
        .help("tool_guard, pre_tool_use and permission_request take decisions; a `guard_decision` is for all events at which something can be blocked"),
    })
}

#[async_trait]
impl Handler for ModelHandler {
    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        let question = ModelQuestion {
            system: self.system.clone(),
            question: self.question.render(self.template_input(input)?)?,
            form: self.schema.map(Judgement::form),
        };
        question
            .answer(&self.model, |answer| self.interpret(answer))
            .await
    }
}

impl ModelHandler {
    fn template_input(&self, input: &Input) -> Result<Map<String, Value>, Fault> {
        let told = self.entry.dialect.write(&self.entry, input)?;
        serde_json::from_slice(&told)
            .map_err(|error| Fault::new(format!("the input cannot be read: {error}")))
    }

    fn interpret(&self, answer: &str) -> Result<Output, Fault> {
        let Some(schema) = self.schema else {
            let context = answer.trim();
            return Ok(Output {
                additional_context: (!context.is_empty()).then(|| context.to_owned()),
                ..Output::default()
            });
        };
        let (decision, reason) = schema.read(answer)?;
        if self
            .entry
            .event
            .contract()
            .honours(SpecificOutput::PermissionDecision)
        {
            return Ok(Output {
                permission: Some((decision, reason)),
                ..Output::default()
            });
        }
        Ok(Output {
            block: (decision == Decision::Deny).then(|| reason.unwrap_or_default()),
            ..Output::default()
        })
    }
}

/// A question to a model.
pub(super) struct ModelQuestion {
    /// The system prompt.
    pub(super) system: Option<String>,
    pub(super) question: String,
    /// The required output schema.
    pub(super) form: Option<OutputFormat>,
}

impl ModelQuestion {
    /// Asks a model and parses its answer. The result includes the cost, also in case of an error.
    pub(super) async fn answer(
        self,
        model: &Model,
        read: impl FnOnce(&str) -> Result<Output, Fault>,
    ) -> Result<Output, Fault> {
        let began = Instant::now();
        let asked = model.ask_or_fallback(|model| self.body(model)).await;
        let (model, reply) = asked.map_err(|error| Fault {
            // The answer broke off, or the call is too long to be judged.
            may_deny: matches!(error.kind, ErrorKind::CutOff | ErrorKind::TooLong),
            ..Fault::new(error.to_string())
        })?;
        let charge = model.charge(&reply, model.parameters());
        let spent = Spend {
            input_tokens: charge.usage.total_input(),
            output_tokens: charge.usage.output,
            cost: charge.cost(),
            ..Spend::for_call(began.elapsed())
        };
        match check_complete(&reply).and_then(|()| read(&reply.message.text())) {
            Ok(output) => Ok(Output { spent, ..output }),
            Err(fault) => Err(Fault { spent, ..fault }),
        }
    }

    fn body(&self, model: &Model) -> Result<Bytes, Error> {
        let mut parameters = model.parameters().clone();
        // Providers reject these parameters in a request without tools.
        parameters.tool_choice = None;
        parameters.parallel_tool_calls = None;
        parameters.output.clone_from(&self.form);
        let request = Request {
            tools: Vec::new(),
            system: self.system.clone(),
            messages: vec![Message::user(&self.question)],
            parameters,
        };
        request.body(model.wire(), false)
    }
}

/// Returns an error if the answer is truncated or a refusal.
fn check_complete(reply: &Reply) -> Result<(), Fault> {
    match &reply.stop {
        StopReason::Length => Err(Fault::of_cut_output(
            "the model's answer was cut off at the limit of its tokens: raise `max_tokens`",
        )),
        StopReason::Refusal => Err(Fault::new("the model refused to answer")),
        _ => Ok(()),
    }
}
