//! `redact_secrets`: no secrets for models, and none from them. Messages and results are masked. Arguments
//! of tools never are, since tools write them to disk and run them: a call with a secret, or with a mask
//! that stands for one, is refused, and the model is told why.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::secret::{MASK, Seals};
use cachalot_core::tree::Node;
use cachalot_model::{Block, Message, ToolResult, ToolUse};
use serde_json::{Map, Value};

use super::{Builtin, Injection, Parts, flag};
use crate::Event;
use crate::input::Input;
use crate::lookup::AgentView;
use crate::output::{Fault, Output};

mod shapes;

const NAME: &str = "redact_secrets";

/// The argument with which only secrets that are known are masked.
const KNOWN: &str = "known";

/// What an agent's section says is masked; `None` if nothing is.
pub(super) fn masks<'a>(agent: Option<&dyn AgentView>, seals: &'a Seals) -> Option<Masks<'a>> {
    let said = agent.and_then(|agent| flag::said(agent, NAME));
    // What only looks like a secret may be what the agent works on.
    let shapes = said == Some(true);
    (said != Some(false)).then_some(Masks { seals, shapes })
}

/// Masks secrets in what is sent to models and in what tools answer, and refuses calls with secrets.
pub(super) struct RedactSecrets {
    seals: Arc<Seals>,
}

impl RedactSecrets {
    pub(super) fn new(parts: &Parts) -> Self {
        Self {
            seals: Arc::clone(&parts.seals),
        }
    }
}

/// What is masked.
#[derive(Clone, Copy)]
pub(super) struct Masks<'a> {
    seals: &'a Seals,
    /// Also what only has the shape of a secret.
    shapes: bool,
}

impl Masks<'_> {
    /// The text without secrets, if it holds some.
    pub(super) fn text(self, text: &str) -> Option<String> {
        let known = self.seals.redact(text);
        let shown = match self.shapes {
            true => shapes::mask(&known),
            false => Cow::Borrowed(&*known),
        };
        (shown != text).then(|| shown.into_owned())
    }

    /// The value without secrets in its texts, however deep, if it holds some. What a field is called
    /// makes no difference: a tool may need a number in a field `max_token`.
    fn value(self, value: &Value) -> Option<Value> {
        match value {
            Value::String(text) => self.text(text).map(Value::String),
            Value::Array(items) => changed(items, |item| self.value(item)).map(Value::Array),
            Value::Object(fields) => self.fields(fields).map(Value::Object),
            Value::Null | Value::Bool(_) | Value::Number(_) => None,
        }
    }

    fn fields(self, fields: &Map<String, Value>) -> Option<Map<String, Value>> {
        let mut is_changed = false;
        let mut shown = Map::with_capacity(fields.len());
        for (name, value) in fields {
            let (masked_name, masked) = (self.text(name), self.value(value));
            is_changed |= masked_name.is_some() || masked.is_some();
            shown.insert(
                masked_name.unwrap_or_else(|| name.clone()),
                masked.unwrap_or_else(|| value.clone()),
            );
        }
        is_changed.then_some(shown)
    }

    /// Returns why a call with these arguments must not be made, if one holds a secret or a mask.
    fn objection(self, arguments: &Map<String, Value>) -> Option<String> {
        arguments.iter().find_map(|(name, value)| {
            // A name of an argument may hold a secret, too.
            let (is_masked, name) = match self.text(name) {
                Some(masked) => (true, masked),
                None => (false, name.clone()),
            };
            if is_masked || self.value(value).is_some() {
                return Some(format!(
                    "the argument `{name}` holds a secret or what looks like one, and arguments are not rewritten: the call was not made. Name an environment variable or a file that holds it, or ask the user to do this"
                ));
            }
            (name.contains(MASK) || holds_mask(value)).then(|| {
                format!(
                    "the argument `{name}` holds `{MASK}`, which stands for a secret that you were not shown and would take its place: the call was not made. Leave the secret where it is (edit around it), name an environment variable or a file that holds it, or ask the user to do this"
                )
            })
        })
    }

    fn messages(self, unsent: &[Arc<Message>]) -> Option<Vec<Message>> {
        let mut is_changed = false;
        let messages = unsent
            .iter()
            .map(|message| match self.blocks(&message.content) {
                Some(content) => {
                    is_changed = true;
                    Message {
                        content,
                        ..Message::clone(message)
                    }
                }
                None => Message::clone(message),
            })
            .collect();
        is_changed.then_some(messages)
    }

    fn blocks(self, blocks: &[Block]) -> Option<Vec<Block>> {
        changed(blocks, |block| self.block(block))
    }

    /// Of a block, what a provider does not compare with what it sent itself. Thoughts and blocks
    /// that we have no word for stay as they are, and so do images.
    fn block(self, block: &Block) -> Option<Block> {
        match block {
            Block::Text { text, extra } => Some(Block::Text {
                text: self.text(text)?,
                extra: extra.clone(),
            }),
            Block::ToolUse(call) => Some(Block::ToolUse(ToolUse {
                arguments: self.written_arguments(&call.arguments)?,
                ..call.clone()
            })),
            Block::ToolResult(result) => Some(Block::ToolResult(ToolResult {
                content: self.blocks(&result.content)?,
                ..result.clone()
            })),
            Block::Image(_) | Block::Reasoning(_) | Block::Other { .. } => None,
        }
    }

    /// Arguments as the model wrote them: as JSON if they are, so that they stay JSON.
    fn written_arguments(self, arguments: &str) -> Option<String> {
        match serde_json::from_str::<Value>(arguments) {
            Ok(value) => self.value(&value).map(|masked| masked.to_string()),
            Err(_) => self.text(arguments),
        }
    }
}

/// Whether a text in it holds the mask, however deep.
fn holds_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MASK),
        Value::Array(items) => items.iter().any(holds_mask),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains(MASK) || holds_mask(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// The items, some of them changed; `None` if none is.
fn changed<T: Clone>(items: &[T], change: impl Fn(&T) -> Option<T>) -> Option<Vec<T>> {
    let mut is_changed = false;
    let all = items
        .iter()
        .map(|item| match change(item) {
            Some(other) => {
                is_changed = true;
                other
            }
            None => item.clone(),
        })
        .collect();
    is_changed.then_some(all)
}

#[async_trait]
impl Builtin for RedactSecrets {
    fn name(&self) -> &'static str {
        NAME
    }

    fn about(&self) -> &'static str {
        "Puts `[secret]` in place of secrets: in the messages that were not sent yet and in the results of tools. Arguments of tools are never rewritten: a call with a secret in them, or with `[secret]`, is not made, and the model is told why. All agents have it for the secrets that are known (of providers, servers and the settings); with `redact_secrets: true` the same holds for what has the shape of a credential (keys of providers, bearer tokens, private keys, passwords in addresses), which is not for agents whose work it is to write such texts into files; `redact_secrets: false` turns it off. Thoughts and images stay as they are."
    }

    fn events(&self) -> &'static [Event] {
        &[
            Event::BeforeLlmCall,
            Event::ToolInputTransform,
            Event::PreToolUse,
            Event::ToolResponseTransform,
        ]
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), String> {
        match arguments {
            [only] if only == KNOWN => Ok(()),
            _ => flag::no_arguments(NAME, arguments),
        }
    }

    fn sections(&self) -> &'static [&'static str] {
        &[NAME]
    }

    fn check_section(&self, name: &str, section: &Node, problems: &mut Vec<Problem>) {
        flag::check(name, section, problems);
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let arguments = match masks(Some(agent), &self.seals) {
            None => return Vec::new(),
            Some(Masks { shapes: true, .. }) => Vec::new(),
            Some(_) => vec![KNOWN.to_owned()],
        };
        [
            Event::ToolInputTransform,
            Event::BeforeLlmCall,
            Event::ToolResponseTransform,
        ]
        .map(|event| Injection {
            arguments: arguments.clone(),
            ..Injection::of(event)
        })
        .into()
    }

    async fn run(&self, arguments: &[String], input: &Input) -> Result<Output, Fault> {
        let masks = Masks {
            seals: &self.seals,
            shapes: arguments.is_empty(),
        };
        let mut output = Output::default();
        match input.event {
            Event::BeforeLlmCall => {
                let from = input.messages.len().saturating_sub(input.unsent);
                output.updated_messages = masks.messages(&input.messages[from..]);
            }
            Event::ToolInputTransform | Event::PreToolUse => {
                let tool = input.tool.as_ref();
                output.block = tool.and_then(|tool| masks.objection(&tool.input));
            }
            Event::ToolResponseTransform => {
                let response = input.tool_response.as_ref();
                output.updated_tool_response =
                    response.and_then(|response| masks.text(&response.text));
            }
            _ => {}
        }
        Ok(output)
    }
}
