//! Gemini's Interactions: <https://ai.google.dev/gemini-api/docs/interactions-overview>, without state at the provider.
//!
//! Every request contains the whole conversation as steps. No request refers to an earlier interaction, and `store` is
//! false (the default of the API is true). A step of an answer becomes one step of the next request, and each step is a
//! separate piece. Thoughts are steps with a signature, and are sent back unchanged.
//!
//! - The system text is one string, of which the pieces are paragraphs.
//! - A step `model_output` becomes text blocks, one for each text. A note of these blocks separates it from the step
//!   before it, if that has the same type.
//! - The API has no budget of thinking, but levels.

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde_json::Value;
use url::Url;

use crate::error::Error;
use crate::gemini::{Gemini, name_results, versioned_path};
use crate::members::Members;
use crate::parameters::{ApiOwner, LEAVE_OUT, RefusedParameters, move_into};
use crate::{
    Conversion, Extra, Format, Layout, MarkerTime, Member, Message, Parameters, Rendered, Reply,
    RequestRules, StreamReader, Terms, ToolDefinition, Usage, Wire, address,
};

mod answer;
mod compared;
mod conversion;
mod partial_steps;
mod request;
mod stream;
mod tail;
mod usage;

/// The declared table of members.
static MEMBERS: LazyLock<Members> = LazyLock::new(|| {
    Members::built_in(
        "interactions/members.yaml",
        include_str!("interactions/members.yaml"),
    )
});

/// The path of the endpoint below the version.
const ENDPOINT: &str = "/interactions";

/// The type of a step with what the model says.
const MODEL_OUTPUT: &str = "model_output";

/// Parameters that make or name state at the provider. An answer in the background, for one, would be asked for, and
/// paid, again and again.
const STATE: [&str; 8] = [
    "agent",
    "agent_config",
    "background",
    "continuation_token",
    "environment",
    "previous_interaction_id",
    "store",
    "webhook_config",
];

/// The note of a text block about the step that begins with it.
const STEP_NOTE: &str = "@step";

/// Interactions, without state at the provider.
#[derive(Debug, Clone, Copy)]
pub struct Interactions;

impl Wire for Interactions {
    fn format(&self) -> Format {
        Format::Interactions
    }

    fn url(&self, base: &Url, _model: &str, _streams: bool) -> Url {
        if address::base_path(base).ends_with(ENDPOINT) {
            return address::appended(base, ENDPOINT);
        }
        let mut url = base.clone();
        url.set_path(&format!("{}{ENDPOINT}", versioned_path(base)));
        url
    }

    fn key_header(&self) -> &'static str {
        "x-goog-api-key"
    }

    fn sends_budget_as_effort(&self) -> bool {
        true
    }

    fn move_parameters(&self, extra: &mut Extra, _model: &str) {
        move_into(extra, "seed", &["generation_config", "seed"]);
    }

    fn refused_parameters(&self, _owner: ApiOwner) -> &'static [RefusedParameters] {
        const REASON: &str = "the Interactions API has no such parameter";
        &[
            RefusedParameters {
                names: &["top_k", "frequency_penalty", "presence_penalty"],
                reason: REASON,
                remedy: "leave it out, or write `format: gemini`",
            },
            RefusedParameters {
                names: &["min_p", "typical_p", "repetition_penalty"],
                reason: REASON,
                remedy: LEAVE_OUT,
            },
            RefusedParameters {
                names: &STATE,
                reason: "requests contain the whole conversation, and nothing is kept at the provider",
                remedy: LEAVE_OUT,
            },
        ]
    }

    fn request_rules(&self) -> &'static RequestRules {
        &compared::RULES
    }

    fn layout(&self) -> Layout {
        Layout {
            tools: Member::array("tools"),
            system: Some(Member::text("system_instruction")),
            messages: Member::array("input"),
        }
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        request::tool(tool)
    }

    fn system(&self, text: &str) -> Rendered {
        request::system(text)
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        request::steps(message)
    }

    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes {
        tail::tail(parameters, stream)
    }

    fn marker(&self, _time: MarkerTime) -> Option<Bytes> {
        None
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        answer::whole(body)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::<stream::InteractionsStreamReader>::default()
    }

    fn usage(&self, reported: &Value) -> Option<Usage> {
        usage::usage(reported)
    }

    fn usage_members(&self) -> &'static [&'static str] {
        &["total_input_tokens"]
    }

    fn members(&self) -> &'static Members {
        &MEMBERS
    }

    fn terms(&self, reply: &Reply) -> Terms {
        usage::terms(&reply.extra)
    }

    fn conversion(&self) -> Option<&'static Conversion> {
        Some(&conversion::FORMS)
    }

    /// Errors have the form of all APIs of Gemini.
    fn gateway_error(&self, status: u16, code: &str, message: &str) -> Value {
        Gemini::UNKNOWN_MODEL.gateway_error(status, code, message)
    }

    fn needs_notes(&self) -> bool {
        true
    }

    /// Notes name the function of each result.
    fn prepare(&self, before: &[Arc<Message>], messages: &mut [Message]) {
        name_results(before, messages);
    }
}
