//! Gemini's `generateContent`: <https://ai.google.dev/api/generate-content>.
//!
//! The path, not the body, contains the model. Function declarations have their schemas as JSON Schema
//! (`parametersJsonSchema`). A thought signature belongs to the part with which it arrived: such a part is
//! never merged with another one and is sent back unchanged
//! (<https://ai.google.dev/gemini-api/docs/thought-signatures>).

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use serde_json::{Value, json};
use url::Url;

use crate::error::Error;
use crate::members::Members;
use crate::parameters::{ApiOwner, LEAVE_OUT, OF_OPEN_MODELS, RefusedParameters, move_into};
use crate::{
    Conversion, Extra, Format, Layout, MarkerTime, Member, Message, Parameters, Rendered, Reply,
    RequestRules, StreamReader, Terms, ToolDefinition, Usage, Wire, address,
};

mod answer;
mod compared;
mod conversion;
mod notes;
mod request;
mod stream;
mod tail;

pub(crate) use answer::{paid_searches, tier, usage_of};
pub(crate) use notes::name_results;

/// Sampling parameters of other APIs, which are members of `generationConfig` here.
const RENAMED_PARAMETERS: [(&str, &str); 4] = [
    ("top_k", "topK"),
    ("frequency_penalty", "frequencyPenalty"),
    ("presence_penalty", "presencePenalty"),
    ("seed", "seed"),
];
/// The declared table of members.
static MEMBERS: LazyLock<Members> =
    LazyLock::new(|| Members::built_in("gemini/members.yaml", include_str!("gemini/members.yaml")));

/// The ends of the paths of a whole answer and of a stream, behind the name of the model.
const WHOLE: &str = ":generateContent";
const STREAM: &str = ":streamGenerateContent";
/// The parameter of the path that selects events; without it, a stream is a list of documents.
const EVENTS: &str = "alt=sse";

/// Gemini's `generateContent`, with what a model checks.
#[derive(Debug, Clone, Copy)]
pub struct Gemini {
    /// True if the model rejects a function call of the current turn without a thought signature. Calls of other models
    /// then get the placeholder signature.
    wants_signatures: bool,
}

impl Gemini {
    /// For a model that is not known.
    pub(crate) const UNKNOWN_MODEL: Self = Self {
        wants_signatures: false,
    };

    /// For a model.
    pub(crate) fn for_model(model: &str) -> Self {
        Self {
            wants_signatures: wants_signatures(model),
        }
    }
}

impl Wire for Gemini {
    fn format(&self) -> Format {
        Format::Gemini
    }

    /// The method follows the model's name; a stream has another one.
    fn url(&self, base: &Url, model: &str, streams: bool) -> Url {
        let before = versioned_path(base);
        let model = model.trim_start_matches("models/");
        let method = if streams {
            "streamGenerateContent"
        } else {
            "generateContent"
        };
        let mut url = base.clone();
        url.set_path(&format!("{before}/models/{model}:{method}"));
        if streams {
            url.query_pairs_mut().append_pair("alt", "sse");
        }
        url
    }

    fn key_header(&self) -> &'static str {
        "x-goog-api-key"
    }

    fn move_parameters(&self, extra: &mut Extra, _model: &str) {
        for (name, renamed) in RENAMED_PARAMETERS {
            move_into(extra, name, &["generationConfig", renamed]);
        }
    }

    fn refused_parameters(&self, _owner: ApiOwner) -> &'static [RefusedParameters] {
        &[RefusedParameters {
            names: OF_OPEN_MODELS,
            reason: "the Gemini API has no such parameter",
            remedy: LEAVE_OUT,
        }]
    }

    fn request_rules(&self) -> &'static RequestRules {
        &compared::RULES
    }

    fn layout(&self) -> Layout {
        Layout {
            tools: Member::new("tools", r#"[{"functionDeclarations":["#, "]}]"),
            system: Some(Member::new("systemInstruction", r#"{"parts":["#, "]}")),
            messages: Member::array("contents"),
        }
    }

    fn tool(&self, tool: &ToolDefinition) -> Rendered {
        request::tool(tool)
    }

    fn system(&self, text: &str) -> Rendered {
        request::system(text)
    }

    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error> {
        let piece = request::message(message, self.wants_signatures)?;
        Ok(Vec::from_iter(piece))
    }

    /// The path chooses between streams and whole answers.
    fn tail(&self, parameters: &Parameters, _stream: bool) -> Bytes {
        tail::tail(parameters)
    }

    fn marker(&self, _time: MarkerTime) -> Option<Bytes> {
        None
    }

    fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        answer::reply(body)
    }

    fn reader(&self) -> Box<dyn StreamReader> {
        Box::<stream::GeminiStreamReader>::default()
    }

    fn usage(&self, reported: &Value) -> Option<Usage> {
        answer::usage(reported)
    }

    fn usage_members(&self) -> &'static [&'static str] {
        &["promptTokenCount"]
    }

    fn members(&self) -> &'static Members {
        &MEMBERS
    }

    fn terms(&self, reply: &Reply) -> Terms {
        answer::terms(&reply.extra)
    }

    fn conversion(&self) -> Option<&'static Conversion> {
        Some(&conversion::FORMS)
    }

    fn has_model_in_path(&self) -> bool {
        true
    }

    /// `/v1beta/models/NAME:generateContent`
    fn requested_model<'a>(&self, path: &'a str, _body: &'a Value) -> Option<&'a str> {
        let (before, _) = path.rsplit_once(':')?;
        before.rsplit('/').next()
    }

    fn asks_for_stream(&self, path: &str, query: Option<&str>, _body: &Value) -> bool {
        let mut parameters = query.unwrap_or_default().split('&');
        path.ends_with(STREAM) && parameters.any(|parameter| parameter == EVENTS)
    }

    fn target_of_whole(&self, path: &str, query: Option<&str>) -> Option<(String, Option<String>)> {
        let model = path.strip_suffix(STREAM)?;
        let parameters = query.unwrap_or_default().split('&');
        let others: Vec<&str> = parameters
            .filter(|parameter| *parameter != EVENTS)
            .collect();
        let others = Some(others.join("&")).filter(|query| !query.is_empty());
        Some((format!("{model}{WHOLE}"), others))
    }

    /// The last chunk has a reason for the end, which its reader demands.
    fn has_last_event(&self) -> bool {
        false
    }

    /// Clients recognize an exhausted limit by its name.
    fn gateway_error(&self, status: u16, code: &str, message: &str) -> Value {
        let name = match status {
            429 => "RESOURCE_EXHAUSTED",
            _ => code,
        };
        json!({"error": {"code": status, "message": message, "status": name}})
    }

    fn needs_notes(&self) -> bool {
        true
    }

    /// Notes name the tool of each result.
    fn prepare(&self, before: &[Arc<Message>], messages: &mut [Message]) {
        name_results(before, messages);
    }
}

/// Returns the path of a base URL up to the version. The base URL may be that of Google's OpenAI endpoint, or end before
/// the version.
pub(crate) fn versioned_path(base: &Url) -> String {
    let before = address::base_path(base);
    let before = before.strip_suffix("/openai").unwrap_or(before);
    let is_version = |name: &str| {
        let rest = name.strip_prefix('v');
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    if before.rsplit('/').any(is_version) {
        before.to_owned()
    } else {
        format!("{before}/v1beta")
    }
}

/// Returns true if a model checks the thought signatures of function calls: Gemini 3 and later.
fn wants_signatures(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let earlier = ["gemini-1", "gemini-2"];
    name.starts_with("gemini-") && !earlier.iter().any(|family| name.starts_with(family))
}
