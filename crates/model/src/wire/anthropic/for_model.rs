//! The format for one model: its parameters follow the model's capabilities.

use bytes::Bytes;

use super::rules::{ParameterRules, RULES, rules_index};
use super::{Messages, tail};
use crate::catalog::Capabilities;
use crate::cloud::Cloud;
use crate::error::Error;
use crate::wire::{Layout, MarkerTime, Rendered, StreamReader, Wire};
use crate::{Format, Message, Parameters, Reply, ToolDefinition};

/// Anthropic Messages for models with these rules.
#[derive(Debug)]
struct MessagesForModel(ParameterRules);

/// Returns the implementation of the format for a model with these capabilities, on a cloud platform or at
/// Anthropic.
pub(crate) fn on(cloud: Option<Cloud>, capabilities: &Capabilities) -> &'static dyn Wire {
    const fn every() -> [MessagesForModel; RULES.len()] {
        let mut all = [const { MessagesForModel(ParameterRules::UNKNOWN) }; RULES.len()];
        let mut at = 0;
        while at < all.len() {
            all[at] = MessagesForModel(RULES[at]);
            at += 1;
        }
        all
    }
    static MESSAGES_FOR_MODELS: [MessagesForModel; RULES.len()] = every();
    &MESSAGES_FOR_MODELS[rules_index(cloud, capabilities)]
}

impl Wire for MessagesForModel {
    fn format(&self) -> Format {
        Messages.format()
    }

    fn path(&self) -> &'static str {
        Messages.path()
    }

    fn layout(&self) -> Layout {
        Messages.layout()
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        Messages.tool(tool)
    }

    fn system(&self, text: &str) -> Rendered {
        Messages.system(text)
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        Messages.message(message)
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        tail::tail(parameters, stream, self.0)
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        Messages.marker(time)
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        Messages.reply(body)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Messages.reader()
    }
}
