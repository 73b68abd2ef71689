//! The format for one model: its parameters follow the model's capabilities.

use std::sync::LazyLock;

use bytes::Bytes;

use super::rules::{ParameterRules, RULES, rules_index};
use super::{Messages, tail};
use crate::catalog::Capabilities;
use crate::cloud::Cloud;
use crate::error::Error;
use crate::wire::{MarkerTime, Rendered, Wire};
use crate::{Format, Message, Parameters};

/// Anthropic Messages for models with these rules.
#[derive(Debug)]
struct MessagesForModel(ParameterRules);

/// Returns the implementation of the format for a model with these capabilities, on a cloud platform or at
/// Anthropic.
pub(crate) fn on(cloud: Option<Cloud>, capabilities: &Capabilities) -> &'static dyn Wire {
    static MESSAGES_FOR_MODELS: LazyLock<[MessagesForModel; RULES.len()]> =
        LazyLock::new(|| RULES.map(MessagesForModel));
    &MESSAGES_FOR_MODELS[rules_index(cloud, capabilities)]
}

impl Wire for MessagesForModel {
    fn format(&self) -> Format {
        Messages.format()
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
}
