//! Answers of an agent's model to servers that ask for one during a call (`sampling/createMessage` of MCP).

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use cachalot_core::Digest;
use cachalot_model::{Block, Model, Parameters, Request, RequestedReasoning, Role, StopReason};
use cachalot_operation::{
    AnswerField, Sampler, SamplingAnswer, SamplingError, SamplingRequest, UserAnswer, UserPrompter,
    UserQuestion,
};
use serde_json::{Value, json};

use super::context::TurnContext;
use super::model_call::{AnsweredCall, count};
use super::reserve::{BYTES_PER_TOKEN, reserve_tokens};
use crate::active_session::ActiveSession;
use crate::chat_state::ChatState;
use crate::event::Event;
use crate::report::Stop;

/// The only field of the question, and its values.
const FIELD: &str = "answer";
const YES: &str = "yes";
const NO: &str = "no";
const ALWAYS: &str = "always";

/// Maximum number of characters of a request that the user is shown.
const MAX_SHOWN_CHARS: usize = 4_000;

/// Asks the model of an agent on behalf of servers, after the user has approved it. Clones share the limit.
#[derive(Clone)]
pub(super) struct AgentSampler {
    shared: ChatState,
    agent: String,
    session: String,
    model: Model,
    user: Arc<dyn UserPrompter>,
    /// The number of requests of the calls, and how many are left.
    maximum: u32,
    requests_left: Arc<AtomicU32>,
}

impl AgentSampler {
    /// Returns the sampler of the calls of an answer; `None` if no user can approve anything.
    pub(super) fn for_calls(
        context: &TurnContext<'_>,
        session: &ActiveSession,
    ) -> Option<Arc<dyn Sampler>> {
        let user = context.shared.dependencies.tools.user.clone()?;
        let maximum = context.agent.max_iterations;
        Some(Arc::new(Self {
            shared: context.shared.clone(),
            agent: context.agent.name.clone(),
            session: session.conversation.id().to_owned(),
            model: session.conversation.model().clone(),
            user,
            maximum,
            requests_left: Arc::new(AtomicU32::new(maximum)),
        }))
    }

    /// Asks the user, unless the requester is approved for the rest of the chat.
    async fn approve(&self, asked: &SamplingRequest, tokens: u64) -> Result<(), SamplingError> {
        if self.shared.may_sample(&self.agent, &asked.requester) {
            return Ok(());
        }
        let schema = json!({ "properties": { FIELD: {
            "enum": [YES, NO, ALWAYS],
            "title": "Ask the model?",
            "description": format!("`{ALWAYS}`: also what {} asks later in this chat", asked.requester),
        } }, "required": [FIELD] });
        let fields = AnswerField::from_schema(Some(&schema)).map_err(|error| failed(&error))?;
        let title = format!(
            "{} wants an answer of your model {}/{} (the answer is sent to it)",
            asked.requester,
            self.model.provider(),
            self.model.name()
        );
        let message = format!(
            "About {tokens} tokens of input, at most {} of output.\n\n{}",
            asked.max_output_tokens,
            shown(asked)
        );
        let question = UserQuestion {
            title: Some(&title),
            message: &message,
            fields: &fields,
        };
        let UserAnswer::Accept(answer) = self.user.ask(&question).await else {
            return Err(SamplingError::Declined);
        };
        match answer.get(FIELD).and_then(Value::as_str) {
            Some(YES) => Ok(()),
            Some(ALWAYS) => {
                self.shared.permit_sampling(&self.agent, &asked.requester);
                Ok(())
            }
            _ => Err(SamplingError::Declined),
        }
    }
}

#[async_trait]
impl Sampler for AgentSampler {
    async fn sample(&self, asked: SamplingRequest) -> Result<SamplingAnswer, SamplingError> {
        let left = self
            .requests_left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                left.checked_sub(1)
            });
        if left.is_err() {
            return Err(failed(&format!(
                "the calls of an answer may ask the model {} times (max_iterations)",
                self.maximum
            )));
        }
        let body = body_for(&self.model, &asked).map_err(|error| failed(&error))?;
        let tokens = u64::try_from(body.len()).unwrap_or(u64::MAX) / BYTES_PER_TOKEN;
        // Before the question: what no budget permits is not asked.
        let reserved = reserve_tokens(&self.shared, &self.model, tokens);
        let reserved = reserved.map_err(|over| failed(&told(&over)))?;
        self.approve(&asked, tokens).await?;
        // A task, so that the answer is counted although the server does not wait for it: the provider charges for it.
        let this = self.clone();
        let asking = tokio::spawn(async move {
            let answer = this.ask(asked, Digest::sha256(&body)).await;
            drop(reserved);
            answer
        });
        asking.await.map_err(|error| failed(&error))?
    }
}

impl AgentSampler {
    /// Asks the model, and counts its answer. `digest` is that of the request.
    async fn ask(
        &self,
        asked: SamplingRequest,
        digest: Digest,
    ) -> Result<SamplingAnswer, SamplingError> {
        let agent = self.agent.as_str();
        let listener = &self.shared.dependencies.listener;
        let iteration = 0;
        listener.on_event(&Event::ModelCallStarted { agent, iteration });
        let (sent_at, began) = (self.shared.dependencies.clock.now(), Instant::now());
        let in_progress = self.shared.meter.start_call();
        let answered = self.model.ask_or_fallback(|model| {
            if !std::ptr::eq(model, &self.model) {
                self.shared.meter.check_for(model)?;
            }
            body_for(model, &asked)
        });
        let (model, reply) = answered.await.map_err(|error| failed(&error))?;
        drop(in_progress);
        let call = AnsweredCall {
            reply: &reply,
            model,
            is_fallback: !std::ptr::eq(model, &self.model),
            sent_at,
            elapsed: began.elapsed(),
            diagnosis: None,
        };
        count(&self.shared, agent, &self.session, digest, &call);
        let message = &format!("{} has asked the model", asked.requester);
        listener.on_event(&Event::Note { agent, message });
        let (text, stop) = until_stop(reply.message.text(), reply.stop, &asked.stop);
        match &stop {
            StopReason::Refusal => return Err(failed(&"the model refused to answer")),
            StopReason::Length if text.is_empty() => {
                return Err(failed(&format!(
                    "the model used the {} tokens that were asked for (`maxTokens`) before it wrote any text",
                    asked.max_output_tokens
                )));
            }
            _ => {}
        }
        Ok(SamplingAnswer {
            model: model.name().to_owned(),
            text,
            stop,
        })
    }
}

fn failed(error: &dyn ToString) -> SamplingError {
    SamplingError::Failed(error.to_string())
}

/// Returns the body of a request to this model, which contains nothing of the conversation.
fn body_for(model: &Model, asked: &SamplingRequest) -> Result<bytes::Bytes, cachalot_model::Error> {
    let own = model.parameters();
    let reasoning = match own.reasoning {
        Some(RequestedReasoning::Budget(budget)) => budget,
        _ => 0,
    };
    // The limit of a model may be lower than what the server asks for.
    let maximum = asked.max_output_tokens.saturating_add(reasoning);
    let limit = model.limits().max_output.unwrap_or(u64::MAX);
    // Models that are not known to accept it refuse the request.
    let samples = model.capabilities().sampling == Some(true);
    let parameters = Parameters {
        max_output_tokens: Some(maximum.min(limit)),
        temperature: asked.temperature.filter(|_| samples).or(own.temperature),
        // Providers reject these parameters in a request without tools.
        tool_choice: None,
        parallel_tool_calls: None,
        output: None,
        ..own.clone()
    };
    let request = Request {
        tools: Vec::new(),
        system: asked.system.clone(),
        messages: asked.messages.clone(),
        parameters,
    };
    request.body(model.wire(), false)
}

/// Cuts a text at the first stop sequence. They are not sent: some APIs and models refuse a request with them.
fn until_stop(mut text: String, stop: StopReason, sequences: &[String]) -> (String, StopReason) {
    let sequences = sequences.iter().filter(|sequence| !sequence.is_empty());
    match sequences.filter_map(|sequence| text.find(sequence)).min() {
        Some(at) => {
            text.truncate(at);
            (text, StopReason::StopText)
        }
        None => (text, stop),
    }
}

fn told(over: &Stop) -> String {
    match over {
        Stop::Budget(which) => which.clone(),
        other => other.notice().unwrap_or_default(),
    }
}

/// Returns what the model would be asked, for the user: up to a maximum length, which is told.
fn shown(asked: &SamplingRequest) -> String {
    let system = asked.system.iter().map(|text| format!("system: {text}"));
    let messages = asked.messages.iter().map(|message| {
        let role = match message.role {
            Role::User => "user",
            Role::Assistant => "assistant",
        };
        let content = message.content.iter().map(|block| match block {
            Block::Text { text, .. } => text.as_str(),
            _ => "[image]",
        });
        format!("{role}: {}", content.collect::<Vec<_>>().join("\n"))
    });
    let whole = system.chain(messages).collect::<Vec<_>>().join("\n");
    let count = whole.chars().count();
    if count <= MAX_SHOWN_CHARS {
        return whole;
    }
    let start: String = whole.chars().take(MAX_SHOWN_CHARS).collect();
    format!("{start}…\n[{} more characters]", count - MAX_SHOWN_CHARS)
}
