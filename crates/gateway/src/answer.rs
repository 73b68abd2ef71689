//! Reads an answer while it is passed on: is it complete, and what does it cost?

use cachalot_core::{Cost, Spend};
use cachalot_model::wire::sse::{Decoder, Event};
use cachalot_model::wire::{self, StreamReader};
use cachalot_model::{Catalog, Format, Reply, StopReason, Usage};
use cachalot_prefix::diagnosis::ProviderVerdict;
use http::{HeaderMap, StatusCode, header};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::endpoint::Endpoint;

/// The maximum size of a whole answer that is read, in bytes: 64 MiB.
const MAX_WHOLE: usize = 64 << 20;

/// A reader of one answer.
pub(crate) struct AnswerReader {
    endpoint: Endpoint,
    form: Form,
    /// True if the answer has the form that was asked for: events, or a document.
    is_expected: bool,
}

enum Form {
    /// One JSON document.
    Whole(Vec<u8>),
    /// Events of a model.
    Events(Decoder, Box<dyn StreamReader>),
    /// Not read, and why.
    Unreadable(String),
}

/// The judgment of an answer that was received to its end.
#[derive(Debug, Default)]
pub(crate) struct AnswerReport {
    /// The reason why it must not be stored.
    pub(crate) refusal: Option<String>,
    pub(crate) usage: Option<Usage>,
    /// True if parts of the usage are missing: the answer may cost more.
    pub(crate) is_usage_partial: bool,
    /// The model that answered, under the provider's name.
    pub(crate) model: Option<String>,
    /// The reason why the model stopped.
    pub(crate) stop: Option<StopReason>,
    /// The provider's ID of the answer.
    pub(crate) id: Option<String>,
    /// The provider's comparison of the prompt with an earlier one.
    pub(crate) verdict: Option<ProviderVerdict>,
}

impl AnswerReader {
    /// Creates a reader for the answer with this head.
    pub(crate) fn new(
        endpoint: Endpoint,
        is_streamed: bool,
        status: StatusCode,
        headers: &HeaderMap,
    ) -> Self {
        let form = match Self::unreadable(status, headers) {
            Some(reason) => Form::Unreadable(reason),
            None => match (content_type(headers), endpoint.format()) {
                ("text/event-stream", Some(format)) => {
                    Form::Events(Decoder::new(), wire::for_format(format).reader())
                }
                ("application/json", _) => Form::Whole(Vec::new()),
                (other, _) => Form::Unreadable(format!("the answer is `{other}`")),
            },
        };
        Self {
            endpoint,
            is_expected: is_streamed == matches!(form, Form::Events(..)),
            form,
        }
    }

    fn unreadable(status: StatusCode, headers: &HeaderMap) -> Option<String> {
        if status != StatusCode::OK {
            return Some(format!("the upstream answered {}", status.as_u16()));
        }
        let coding = headers.get(header::CONTENT_ENCODING)?;
        (coding.as_bytes() != b"identity").then(|| "the answer is compressed".to_owned())
    }

    /// Reads bytes of the body.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let fault = match &mut self.form {
            Form::Whole(whole) if whole.len() + bytes.len() <= MAX_WHOLE => {
                whole.extend_from_slice(bytes);
                None
            }
            Form::Whole(_) => Some("the answer is too large".to_owned()),
            Form::Events(decoder, reader) => match decoder.push(bytes) {
                Ok(events) => events.iter().find_map(|event| {
                    if reader.complete() && reports_error(event) {
                        return Some("an error follows the last event".to_owned());
                    }
                    reader.event(event).err().map(|error| error.to_string())
                }),
                Err(error) => Some(error.to_string()),
            },
            Form::Unreadable(_) => None,
        };
        if let Some(fault) = fault {
            self.form = Form::Unreadable(fault);
        }
    }

    /// Returns true if the last event of a stream has arrived.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(&self.form, Form::Events(_, reader) if reader.complete())
    }

    /// Judges the answer, whose body has ended.
    pub(crate) fn finish(self) -> AnswerReport {
        let is_expected = self.is_expected;
        let mut report = self.read_to_end();
        if !is_expected && report.refusal.is_none() {
            report.refusal = Some("the answer has another form than was asked for".to_owned());
        }
        report
    }

    fn read_to_end(self) -> AnswerReport {
        let refused = |reason: String| AnswerReport {
            refusal: Some(reason),
            ..AnswerReport::default()
        };
        match (self.form, self.endpoint.format()) {
            (Form::Unreadable(reason), _) => refused(reason),
            // Gemini's streams have no last event; its reader demands a reason for the end.
            (Form::Events(_, reader), Some(Format::Gemini)) => report(reader.finish()),
            (Form::Events(_, reader), _) if !reader.complete() => {
                refused("the stream ended before its last event".into())
            }
            (Form::Events(_, reader), _) => report(reader.finish()),
            (Form::Whole(whole), Some(format)) => whole_reply(format, &whole),
            (Form::Whole(whole), None) => document(self.endpoint, &whole),
        }
    }
}

/// The members of a whole answer that are judged beside its content.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Outline {
    error: Option<IgnoredAny>,
    choices: Vec<ChoiceOutline>,
    status: Option<Value>,
    stop_reason: Option<Value>,
    candidates: Vec<CandidateOutline>,
    #[serde(rename = "stopReason")]
    converse_stop: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ChoiceOutline {
    finish_reason: Option<Value>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CandidateOutline {
    #[serde(rename = "finishReason")]
    finish_reason: Option<Value>,
}

impl Outline {
    /// Returns true if the answer says why it ended; some servers leave that out.
    fn names_its_end(&self, format: Format) -> bool {
        let end = match format {
            Format::Chat => self.choices.first().map(|choice| &choice.finish_reason),
            Format::Responses => Some(&self.status),
            Format::Messages => Some(&self.stop_reason),
            Format::Gemini => self.candidates.first().map(|it| &it.finish_reason),
            Format::Converse => Some(&self.converse_stop),
        };
        matches!(end, Some(Some(Value::String(_))))
    }
}

/// Judges a whole answer of a model. Gemini streams one as an array of documents, which is passed on only.
fn whole_reply(format: Format, whole: &[u8]) -> AnswerReport {
    let mut report = report(wire::for_format(format).reply(whole));
    if report.refusal.is_none() {
        report.refusal = match serde_json::from_slice::<Outline>(whole) {
            Err(error) => Some(error.to_string()),
            Ok(outline) if outline.error.is_some() => {
                Some("the answer contains an error".to_owned())
            }
            Ok(outline) if !outline.names_its_end(format) => {
                Some("the answer does not say why it ended".to_owned())
            }
            Ok(_) => None,
        };
    }
    report
}

/// Returns true if an answer or an event has an error beside its content.
fn has_error(members: &Map<String, Value>) -> bool {
    members.get("error").is_some_and(|error| !error.is_null())
}

/// Returns true for an event that reports an error. Readers ignore all events after the last one of an answer.
fn reports_error(event: &Event) -> bool {
    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
    event.name == "error"
        || data.get("type").is_some_and(|it| it == "error")
        || data.as_object().is_some_and(has_error)
}

/// Members of an answer that show that the provider has looked something up.
const LOOKED_UP: [&str; 4] = [
    "citations",
    "search_results",
    "executed_tools",
    "web_search",
];

fn report(reply: Result<Reply, cachalot_model::Error>) -> AnswerReport {
    match reply {
        Err(error) => AnswerReport {
            refusal: Some(error.to_string()),
            ..AnswerReport::default()
        },
        Ok(reply) => AnswerReport {
            refusal: unusual_end(&reply.stop).or_else(|| {
                if has_error(&reply.extra) {
                    return Some("the answer contains an error".to_owned());
                }
                let mut members = reply.extra.keys();
                let found = members.find(|name| LOOKED_UP.contains(&name.as_str()))?;
                Some(format!("the provider has looked something up (`{found}`)"))
            }),
            is_usage_partial: reply
                .usage
                .as_ref()
                .is_some_and(|it| is_partial(it, &reply)),
            usage: reply.usage,
            model: Some(reply.model).filter(|model| !model.is_empty()),
            stop: Some(reply.stop),
            id: reply.id,
            verdict: ProviderVerdict::read(&reply.extra),
        },
    }
}

/// Returns true if parts of a usage are missing: each request has input, and an answer with content has output.
fn is_partial(usage: &Usage, reply: &Reply) -> bool {
    usage.total_input() == 0 || (usage.output == 0 && !reply.message.content.is_empty())
}

/// Returns the reason why an answer that ended so is not stored.
fn unusual_end(stop: &StopReason) -> Option<String> {
    match stop {
        StopReason::End | StopReason::ToolUse | StopReason::StopText => None,
        StopReason::Length => Some("the answer was cut off at its token limit".into()),
        StopReason::Refusal => Some("the model refused".into()),
        StopReason::Other(reason) => Some(format!("the answer ended with `{reason}`")),
    }
}

/// Judges a document of an endpoint without a model: it must have the member that answers it.
fn document(endpoint: Endpoint, whole: &[u8]) -> AnswerReport {
    let document: Value = serde_json::from_slice(whole).unwrap_or_default();
    let has_vector = |item: &Value| item.get("embedding").is_some_and(|it| !it.is_null());
    let vectors = document.get("data").and_then(Value::as_array);
    let answers = !document.as_object().is_some_and(has_error)
        && match endpoint {
            Endpoint::Embeddings => {
                vectors.is_some_and(|items| !items.is_empty() && items.iter().all(has_vector))
            }
            Endpoint::CountTokens => document.get("input_tokens").is_some_and(Value::is_u64),
            Endpoint::Models => document.is_object(),
            _ => false,
        };
    let reported = document
        .get("usage")
        .filter(|_| endpoint == Endpoint::Embeddings);
    let prompt = reported.and_then(|usage| usage.get("prompt_tokens")?.as_u64());
    AnswerReport {
        refusal: (!answers).then(|| "the document is no answer of this endpoint".into()),
        usage: prompt.map(|tokens| Usage::from_counts(tokens, 0)),
        is_usage_partial: prompt == Some(0),
        model: document
            .get("model")
            .and_then(Value::as_str)
            .map(str::to_owned),
        ..AnswerReport::default()
    }
}

/// Returns the media type without parameters.
fn content_type(headers: &HeaderMap) -> &str {
    let value = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    value.map_or("", |value| value.split(';').next().unwrap_or(value).trim())
}

/// Returns the charge for an answer. An answer of a model whose price or usage is unknown is counted as unpriced.
pub(crate) fn charge(
    catalog: &Catalog,
    endpoint: Endpoint,
    upstream: &str,
    requested: &str,
    report: &AnswerReport,
) -> Spend {
    if matches!(
        endpoint,
        Endpoint::CountTokens | Endpoint::Models | Endpoint::Other
    ) {
        return Spend::default();
    }
    let Some(usage) = report.usage else {
        return Spend {
            cost: Cost::UNPRICED,
            ..Spend::default()
        };
    };
    let names = [Some(requested), report.model.as_deref()];
    let mut names = names.into_iter().flatten().filter(|name| !name.is_empty());
    let entry = names.find_map(|model| {
        catalog
            .find(upstream, model)
            .or_else(|| catalog.find_by_name(model))
    });
    let price = entry.and_then(|entry| entry.price.as_ref());
    Spend {
        input_tokens: usage.total_input(),
        output_tokens: usage.output,
        cost: price.map_or(Cost::UNPRICED, |price| price.cost(&usage)),
        ..Spend::default()
    }
}
