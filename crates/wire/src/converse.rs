//! Amazon Bedrock's Converse:
//! <https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html>.
//!
//! The path contains the model and the choice between stream and whole answer. A cache point is a separate
//! block after the content that it marks. User and model must alternate: [`Wire::prepare`] marks
//! consecutive messages of one role, and a short message of the other role is inserted between them.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use url::Url;

use crate::error::Error;
use crate::messages::ParameterRules;
use crate::parameters::{ApiOwner, OF_CHAT, OF_OPEN_MODELS, RefusedParameters, move_into};
use crate::terms;
use crate::{
    Extra, Format, Layout, MarkerTime, Member, Message, Parameters, Rendered, Reply, RequestRules,
    StreamReader, Terms, ToolDefinition, Usage, Wire, address,
};

mod answer;
mod compared;
mod notes;
mod request;
mod stream;
mod tail;

/// Converse, with the parameters that a model accepts.
#[derive(Debug, Clone, Copy)]
pub struct Converse {
    rules: ParameterRules,
}

impl Converse {
    /// For a model whose parameters are not known.
    pub(crate) const UNKNOWN_MODEL: Self = Self {
        rules: ParameterRules::UNKNOWN,
    };

    /// For a model with these parameters.
    pub(crate) fn for_model(rules: ParameterRules) -> Self {
        Self { rules }
    }
}

impl Wire for Converse {
    fn format(&self) -> Format {
        Format::Converse
    }

    /// The method follows the model's name, which may be an ARN; a stream has another one.
    fn url(&self, base: &Url, model: &str, streams: bool) -> Url {
        let before = address::base_path(base);
        let name = address::encode_segment(model);
        let method = if streams {
            "converse-stream"
        } else {
            "converse"
        };
        let mut url = base.clone();
        url.set_path(&format!("{before}/model/{name}/{method}"));
        url
    }

    fn has_parameter_rules(&self) -> bool {
        true
    }

    fn move_parameters(&self, extra: &mut Extra, model: &str) {
        const FIELDS: &str = "additionalModelRequestFields";
        if model.contains("claude") {
            move_into(extra, "top_k", &[FIELDS, "top_k"]);
        } else if model.contains("nova") {
            move_into(extra, "top_k", &[FIELDS, "inferenceConfig", "topK"]);
        }
    }

    fn refused_parameters(&self, _owner: ApiOwner) -> &'static [RefusedParameters] {
        const REASON: &str = "the Converse API has no such parameter";
        const REMEDY: &str = "write fields of the model itself into `additionalModelRequestFields`";
        &[
            RefusedParameters {
                names: OF_OPEN_MODELS,
                reason: REASON,
                remedy: REMEDY,
            },
            RefusedParameters {
                names: OF_CHAT,
                reason: REASON,
                remedy: REMEDY,
            },
        ]
    }

    fn request_rules(&self) -> &'static RequestRules {
        &compared::RULES
    }

    fn layout(&self) -> Layout {
        Layout {
            tools: Member::new("toolConfig", r#"{"tools":["#, "]}"),
            system: Some(Member::array("system")),
            messages: Member::array("messages"),
        }
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        request::tool(tool)
    }

    fn system(&self, text: &str) -> Rendered {
        request::system(text)
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        request::message(message)
    }

    /// The path chooses between streams and whole answers.
    fn tail(&self, parameters: &Parameters, _stream: bool) -> Bytes {
        tail::tail(parameters, self.rules)
    }

    fn after_tools(&self, parameters: &Parameters) -> Option<String> {
        tail::tool_choice(parameters.tool_choice.as_ref()?)
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        Some(Bytes::from_static(match time {
            MarkerTime::FiveMinutes => br#",{"cachePoint":{"type":"default"}}"#,
            // An hour is the longest lifetime here.
            MarkerTime::OneHour | MarkerTime::TwelveHours => {
                br#",{"cachePoint":{"type":"default","ttl":"1h"}}"#
            }
        }))
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        answer::reply(body)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::<stream::ConverseStreamReader>::default()
    }

    fn usage(&self, reported: &Value) -> Option<Usage> {
        answer::usage(reported)
    }

    fn usage_members(&self) -> &'static [&'static str] {
        &["inputTokens"]
    }

    fn terms(&self, reply: &Reply) -> Terms {
        Terms {
            tier: reply.extra.get("serviceTier").and_then(terms::named),
            ..Terms::default()
        }
    }

    fn needs_notes(&self) -> bool {
        true
    }

    /// Notes give the role of the previous message, if it is the same.
    fn prepare(&self, before: &[Arc<Message>], messages: &mut [Message]) {
        notes::note_turns(before, messages);
    }
}
