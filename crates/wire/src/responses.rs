//! OpenAI Responses, without state at the provider.
//!
//! Every request contains the whole conversation as items. No request refers to an earlier response, and
//! `store` is false, so reasoning arrives encrypted and is sent back unchanged. An item of an answer
//! becomes one item of the next request, with all its fields; each item is a separate piece.
//!
//! - The system text is a developer message.
//! - A message item of an answer becomes text blocks, one for each part. The other fields of the item
//!   (`id`, `status`, `phase`) are kept under `item` in the fields of its blocks, so that the blocks can be
//!   joined to one item again.
//! - The format has no flag for a failed tool, so the text of its result begins with `Error: `.
//! - The format has no stop sequences. They are sent as `stop` nevertheless: an error of the server is
//!   better than an ignored setting.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use url::Url;

use crate::error::Error;
use crate::members::Members;
use crate::parameters::{ApiOwner, RefusedParameters};
use crate::renewal_changes::RenewalChanges;
use crate::{
    AcceptedToolChanges, Conversion, Format, Layout, MarkerRules, MarkerStyle, MarkerTime, Message,
    Parameters, Rendered, Reply, RequestRules, SettingChanges, StreamReader, Terms, ToolDefinition,
    Usage, Wire, address, openai,
};

mod answer;
mod changes;
mod compared;
mod conversion;
pub(crate) mod message;
mod partial_items;
mod renewal;
mod stream;
mod tail;

/// The declared table of members.
static MEMBERS: LazyLock<Members> = LazyLock::new(|| {
    Members::built_in(
        "responses/members.yaml",
        include_str!("responses/members.yaml"),
    )
});

/// The field of a text block's extra with the fields of its item except the content.
const ITEM: &str = "item";

/// Responses, with OpenAI's cache markers or without. Content that may carry a marker is rendered as parts from the
/// first request of a session on.
#[derive(Debug, Clone, Copy)]
pub struct Responses {
    style: MarkerStyle,
}

impl Responses {
    /// Without markers.
    pub(crate) const UNMARKED: Self = Self {
        style: MarkerStyle::None,
    };

    /// With the markers of a provider, if they are OpenAI's.
    pub(crate) fn marked(rules: &MarkerRules) -> Self {
        match rules.style {
            style @ MarkerStyle::Breakpoints => Self { style },
            _ => Self::UNMARKED,
        }
    }

    fn is_marked(self) -> bool {
        self.style != MarkerStyle::None
    }
}

/// Returns a tool as an object.
fn function(tool: &ToolDefinition) -> Value {
    let ToolDefinition {
        name,
        description,
        parameters,
    } = tool;
    json!({
        "type": "function",
        "name": name,
        "description": description,
        "parameters": parameters,
        "strict": false,
    })
}

impl Wire for Responses {
    fn format(&self) -> Format {
        Format::Responses
    }

    fn url(&self, base: &Url, _model: &str, _streams: bool) -> Url {
        address::appended(base, "/responses")
    }

    fn sends_budget_as_effort(&self) -> bool {
        true
    }

    fn compaction(&self, above: Option<u64>) -> Option<Value> {
        let mut entry = json!({"type": "compaction"});
        if let Some(tokens) = above {
            entry["compact_threshold"] = tokens.into();
        }
        Some(json!([entry]))
    }

    fn refused_parameters(&self, owner: ApiOwner) -> &'static [RefusedParameters] {
        match owner {
            ApiOwner::OpenAi => &[openai::REFUSED],
            _ => &[],
        }
    }

    fn request_rules(&self) -> &'static RequestRules {
        &compared::RULES
    }

    fn layout(&self) -> Layout {
        Layout::with_messages("input")
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        openai::rendered(function(tool))
    }

    fn system(&self, text: &str) -> Rendered {
        message::system(text, self.is_marked())
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        let mut pieces = message::pieces(message, self.is_marked())?;
        if let Some(noted) = SettingChanges::noted(message).filter(|_| !pieces.is_empty()) {
            pieces.extend(self.changes(&noted));
        }
        Ok(pieces)
    }

    fn tool_changes(&self, provider: &str, model: &str) -> Option<AcceptedToolChanges> {
        let is_accepted = provider == "openai" && changes::accepts_tools(model);
        is_accepted.then_some(AcceptedToolChanges::Additions)
    }

    fn accepts_effort_changes(&self, provider: &str, model: &str) -> bool {
        provider == "openai" && changes::accepts_effort(model)
    }

    fn changes(&self, changes: &SettingChanges) -> Vec<Rendered> {
        changes::rendered(changes)
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        tail::tail(&openai::with_cache_options(parameters, self.style), stream)
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        openai::marker(self.style, time)
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        answer::reply(openai::parse(body, "the body")?)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::<stream::ResponsesStreamReader>::default()
    }

    fn usage(&self, reported: &Value) -> Option<Usage> {
        answer::reported(reported)
    }

    fn usage_members(&self) -> &'static [&'static str] {
        &["input_tokens_details"]
    }

    fn members(&self) -> &'static Members {
        &MEMBERS
    }

    fn terms(&self, reply: &Reply) -> Terms {
        answer::terms(reply)
    }

    fn conversion(&self) -> Option<&'static Conversion> {
        Some(&conversion::FORMS)
    }

    fn renewal(
        &self,
        model: &str,
        request: &Map<String, Value>,
    ) -> Result<RenewalChanges, &'static str> {
        renewal::changes(model, request)
    }
}
