//! Anthropic Messages: <https://platform.claude.com/docs/en/api/messages>.
//!
//! Content that the API would reject is not sent: text without a visible character, extra fields of another
//! format, names with forbidden characters. Content that the API requires unchanged (thinking with its
//! signature, the arguments of a call, blocks of unknown types) is kept verbatim. Cache markers are
//! inserted only at the planner's positions: a `cache_control` in additional fields is dropped.

use std::sync::LazyLock;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use url::Url;

use crate::error::Error;
use crate::members::Members;
use crate::parameters::{ApiOwner, LEAVE_OUT, OF_CHAT, RefusedParameters};
use crate::renewal_changes::RenewalChanges;
use crate::{
    AcceptedToolChanges, Conversion, Format, Layout, MarkerTime, Member, Message, ModelUsage,
    Parameters, Rendered, Reply, RequestRules, SettingChanges, StreamReader, Terms, ToolDefinition,
    Usage, Wire, address,
};

mod answer;
mod changes;
mod compared;
mod conversion;
mod failure;
pub(crate) mod json;
mod renewal;
mod request;
mod rules;
mod stream;
mod tail;
mod usage;

pub(crate) use answer::stop_reason;
pub(crate) use request::{escaped, input};
pub(crate) use rules::ParameterRules;
pub use rules::Platform;
pub use tail::{DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS_WITH_EFFORT};
pub use usage::{further_usages, terms};

/// The declared table of members.
static MEMBERS: LazyLock<Members> = LazyLock::new(|| {
    Members::built_in(
        "messages/members.yaml",
        include_str!("messages/members.yaml"),
    )
});

/// The edit of `context_management` that lets the provider summarize a conversation. Requests with it need the value
/// [`COMPACT_BETA`] of the header `anthropic-beta`.
const COMPACT_EDIT: &str = "compact_20260112";

/// See [`COMPACT_EDIT`].
const COMPACT_BETA: &str = "compact-2026-01-12";

/// The least number of tokens above which the provider summarizes.
const MIN_COMPACTION_TRIGGER: u64 = 50_000;

/// Messages, with the parameters that a model accepts.
#[derive(Debug, Clone, Copy)]
pub struct Messages {
    rules: ParameterRules,
}

impl Messages {
    /// For a model whose parameters are not known.
    pub(crate) const UNKNOWN_MODEL: Self = Self {
        rules: ParameterRules::UNKNOWN,
    };

    /// For a model with these parameters.
    pub(crate) fn for_model(rules: ParameterRules) -> Self {
        Self { rules }
    }
}

/// Returns the marker after a block, with its leading comma.
pub(crate) fn marker(time: MarkerTime) -> Bytes {
    Bytes::from_static(match time {
        MarkerTime::FiveMinutes => br#","cache_control":{"type":"ephemeral"}"#,
        // An hour is the longest lifetime here.
        MarkerTime::OneHour | MarkerTime::TwelveHours => {
            br#","cache_control":{"type":"ephemeral","ttl":"1h"}"#
        }
    })
}

impl Wire for Messages {
    fn format(&self) -> Format {
        Format::Messages
    }

    /// Anthropic's base URL ends before `/v1`, but is often written with it.
    fn url(&self, base: &Url, _model: &str, _streams: bool) -> Url {
        if address::base_path(base).ends_with("/v1") {
            address::appended(base, "/messages")
        } else {
            address::appended(base, "/v1/messages")
        }
    }

    fn key_header(&self) -> &'static str {
        "x-api-key"
    }

    fn compaction(&self, above: Option<u64>) -> Option<Value> {
        let mut edit = json!({"type": COMPACT_EDIT});
        if let Some(tokens) = above {
            let tokens = tokens.max(MIN_COMPACTION_TRIGGER);
            edit["trigger"] = json!({"type": "input_tokens", "value": tokens});
        }
        Some(json!({"edits": [edit]}))
    }

    fn has_parameter_rules(&self) -> bool {
        true
    }

    fn refused_parameters(&self, owner: ApiOwner) -> &'static [RefusedParameters] {
        const REASON: &str = "the Messages API has no such parameter";
        match owner {
            ApiOwner::Anthropic => &[
                RefusedParameters {
                    // `top_k` is one of its own.
                    names: &["min_p", "typical_p", "repetition_penalty"],
                    reason: REASON,
                    remedy: LEAVE_OUT,
                },
                RefusedParameters {
                    names: OF_CHAT,
                    reason: REASON,
                    remedy: LEAVE_OUT,
                },
            ],
            _ => &[],
        }
    }

    fn request_rules(&self) -> &'static RequestRules {
        &compared::RULES
    }

    fn layout(&self) -> Layout {
        Layout {
            system: Some(Member::array("system")),
            ..Layout::with_messages("messages")
        }
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        request::tool(tool)
    }

    fn system(&self, text: &str) -> Rendered {
        request::system(text)
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        let mut pieces = Vec::from_iter(request::message(message)?);
        if let Some(noted) = SettingChanges::noted(message).filter(|_| !pieces.is_empty()) {
            pieces.extend(self.changes(&noted));
        }
        Ok(pieces)
    }

    fn tool_changes(&self, provider: &str, model: &str) -> Option<AcceptedToolChanges> {
        let is_accepted = provider == "anthropic" && changes::accepts_tools(model);
        is_accepted.then_some(AcceptedToolChanges::All)
    }

    fn accepts_effort_changes(&self, provider: &str, model: &str) -> bool {
        provider == "anthropic" && changes::accepts_effort(model)
    }

    fn changes(&self, changes: &SettingChanges) -> Vec<Rendered> {
        vec![changes::rendered(changes)]
    }

    fn betas(&self, body: &[u8]) -> Vec<&'static str> {
        changes::betas(body)
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        tail::tail(parameters, stream, self.rules)
    }

    fn marker(&self, time: MarkerTime) -> Option<Bytes> {
        Some(marker(time))
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        answer::reply(body)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::<stream::AnthropicStreamReader>::default()
    }

    fn usage(&self, reported: &Value) -> Option<Usage> {
        usage::reported(reported)
    }

    fn usage_members(&self) -> &'static [&'static str] {
        &["cache_read_input_tokens", "cache_creation_input_tokens"]
    }

    fn members(&self) -> &'static Members {
        &MEMBERS
    }

    fn terms(&self, reply: &Reply) -> Terms {
        usage::terms(&reply.extra)
    }

    fn usages(&self, reply: &Reply) -> Vec<ModelUsage> {
        usage::by_model(reply)
    }

    fn conversion(&self) -> Option<&'static Conversion> {
        Some(&conversion::FORMS)
    }

    fn renewal(
        &self,
        _model: &str,
        request: &Map<String, Value>,
    ) -> Result<RenewalChanges, &'static str> {
        renewal::changes(request)
    }

    /// Clients recognize an exhausted limit by its name.
    fn gateway_error(&self, status: u16, code: &str, message: &str) -> Value {
        let name = match status {
            429 => "rate_limit_error",
            _ => code,
        };
        json!({"type": "error", "error": {"type": name, "message": message}})
    }
}
