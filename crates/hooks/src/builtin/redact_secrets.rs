//! `redact_secrets`: keeps secrets out of model requests and tool calls.
//!
//! Messages and tool results are masked. Arguments of tools are never masked, because tools write them
//! to disk and run them: a call that contains a secret, or the mask of one, is denied with a reason for
//! the model.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_core::secret::{MASK, SecretSet};
use cachalot_core::tree::Node;
use cachalot_model::{Block, Message, ToolResult, ToolUse};
use serde_json::{Map, Value};

use super::{ArgumentsError, Builtin, BuiltinDependencies, Injection, flag};
use crate::Event;
use crate::input::Input;
use crate::lookup::AgentView;
use crate::output::{Fault, Output};

mod shapes;

const NAME: &str = "redact_secrets";

/// The argument that restricts masking to known secrets.
const KNOWN_ONLY: &str = "known";

/// The masking that the agent's section configures; `None` if it is turned off.
pub(super) fn secret_mask<'a>(
    agent: Option<&dyn AgentView>,
    secret_set: &'a SecretSet,
) -> Option<SecretMask<'a>> {
    let said = agent.and_then(|agent| flag::value(agent, NAME));
    // Opt-in, because a text with the shape of a secret may be what the agent works on.
    let shapes = said == Some(true);
    (said != Some(false)).then_some(SecretMask { secret_set, shapes })
}

/// Masks secrets in messages to models and in tool results, and denies calls that contain secrets.
pub(super) struct RedactSecrets {
    secret_set: Arc<SecretSet>,
}

impl RedactSecrets {
    pub(super) fn new(dependencies: &BuiltinDependencies) -> Self {
        Self {
            secret_set: Arc::clone(&dependencies.secret_set),
        }
    }
}

/// The texts to mask.
#[derive(Clone, Copy)]
pub(super) struct SecretMask<'a> {
    secret_set: &'a SecretSet,
    /// Also masks texts that only have the shape of a credential.
    shapes: bool,
}

impl SecretMask<'_> {
    /// Returns the masked text; `None` if there is nothing to mask.
    pub(super) fn text(self, text: &str) -> Option<String> {
        let known = self.secret_set.redact(text);
        let shown = if self.shapes {
            shapes::mask(&known)
        } else {
            Cow::Borrowed(&*known)
        };
        (shown != text).then(|| shown.into_owned())
    }

    /// Masks the strings of a value at any depth; `None` if there is nothing to mask. Field names do not
    /// mark their values as secret: a tool may need a number in a field `max_token`.
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

    /// Returns the reason to deny a call with these arguments, if one contains a secret or a mask.
    fn denial_reason(self, arguments: &Map<String, Value>) -> Option<String> {
        arguments.iter().find_map(|(name, value)| {
            // The name of an argument may contain a secret, too.
            let (is_masked, name) = match self.text(name) {
                Some(masked) => (true, masked),
                None => (false, name.clone()),
            };
            if is_masked || self.value(value).is_some() {
                return Some(format!(
                    "the argument `{name}` holds a secret or what looks like one, and arguments are not rewritten: the call was not made. Name an environment variable or a file that holds it, or ask the user to do this"
                ));
            }
            (name.contains(MASK) || contains_mask(value)).then(|| {
                format!(
                    "the argument `{name}` holds `{MASK}`, which stands for a secret that you were not shown and would take its place: the call was not made. Leave the secret where it is (edit around it), name an environment variable or a file that holds it, or ask the user to do this"
                )
            })
        })
    }

    fn messages(self, unsent: &[Arc<Message>]) -> Option<Vec<Message>> {
        changed(unsent.iter().map(|message| &**message), |message| {
            Some(Message {
                content: self.blocks(&message.content)?,
                ..message.clone()
            })
        })
    }

    fn blocks(self, blocks: &[Block]) -> Option<Vec<Block>> {
        changed(blocks, |block| self.block(block))
    }

    /// Masks the parts of a block that the provider does not compare with its own output. Reasoning,
    /// blocks of unknown types and images stay unchanged.
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

    /// Masks arguments as the model wrote them. Valid JSON stays valid JSON.
    fn written_arguments(self, arguments: &str) -> Option<String> {
        match serde_json::from_str::<Value>(arguments) {
            Ok(value) => self.value(&value).map(|masked| masked.to_string()),
            // The model may have been cut off in the middle of its arguments.
            Err(_) => self.text(arguments),
        }
    }
}

/// True if a string in the value, at any depth, contains the mask.
fn contains_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MASK),
        Value::Array(items) => items.iter().any(contains_mask),
        Value::Object(fields) => fields
            .iter()
            .any(|(name, value)| name.contains(MASK) || contains_mask(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Applies `change` to the items; `None` if no item changed.
fn changed<'a, T: Clone + 'a>(
    items: impl IntoIterator<Item = &'a T>,
    change: impl Fn(&T) -> Option<T>,
) -> Option<Vec<T>> {
    let mut is_changed = false;
    let all = items
        .into_iter()
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
        "Puts `[secret]` in place of secrets: in the messages that were not sent yet and in the results of tools. Arguments of tools are never rewritten: a call with a secret in them, or with `[secret]`, is not made, and the model gets the reason. All agents have it for the secrets that are known (of providers, servers and the settings); with `redact_secrets: true` the same holds for what has the shape of a credential (keys of providers, bearer tokens, private keys, passwords in addresses), which is not for agents whose work it is to write such texts into files; `redact_secrets: false` turns it off. Thoughts and images stay as they are."
    }

    fn events(&self) -> &'static [Event] {
        &[
            Event::BeforeLlmCall,
            Event::ToolInputTransform,
            Event::PreToolUse,
            Event::ToolResponseTransform,
        ]
    }

    fn permits_live_output(&self, arguments: &[String]) -> bool {
        arguments == [KNOWN_ONLY]
    }

    fn check_arguments(&self, arguments: &[String]) -> Result<(), ArgumentsError> {
        match arguments {
            [only] if only == KNOWN_ONLY => Ok(()),
            _ => flag::check_no_arguments(NAME, arguments),
        }
    }

    fn sections(&self) -> &'static [&'static str] {
        &[NAME]
    }

    fn check_section(&self, name: &str, section: &Node, problems: &mut Vec<Problem>) {
        flag::check(name, section, problems);
    }

    fn inject(&self, agent: &dyn AgentView) -> Vec<Injection> {
        let arguments = match secret_mask(Some(agent), &self.secret_set) {
            None => return Vec::new(),
            Some(SecretMask { shapes: true, .. }) => Vec::new(),
            Some(_) => vec![KNOWN_ONLY.to_owned()],
        };
        [
            Event::ToolInputTransform,
            Event::BeforeLlmCall,
            Event::ToolResponseTransform,
        ]
        .map(|event| Injection {
            arguments: arguments.clone(),
            ..Injection::for_event(event)
        })
        .into()
    }

    async fn run(&self, arguments: &[String], input: &Input) -> Result<Output, Fault> {
        let secret_mask = SecretMask {
            secret_set: &self.secret_set,
            shapes: arguments.is_empty(),
        };
        let mut output = Output::default();
        match input.event {
            Event::BeforeLlmCall => {
                let from = input.messages.len().saturating_sub(input.unsent);
                output.updated_messages = secret_mask.messages(&input.messages[from..]);
            }
            Event::ToolInputTransform | Event::PreToolUse => {
                let tool = input.tool.as_ref();
                output.block = tool.and_then(|tool| secret_mask.denial_reason(&tool.input));
            }
            Event::ToolResponseTransform => {
                let response = input.tool_response.as_ref();
                output.updated_tool_response =
                    response.and_then(|response| secret_mask.text(&response.text));
            }
            _ => {}
        }
        Ok(output)
    }
}
