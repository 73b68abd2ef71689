//! Reads an answer while it is passed on: is it complete, and what does it cost?

use cachalot_accounting::Terms;
use cachalot_core::Canonical;
use cachalot_model::wire::sse::{Decoder, Event};
use cachalot_model::wire::{self, ModelUsage, Operation, StreamReader};
use cachalot_model::{Format, Reply, StopReason, Usage};
use cachalot_prefix::diagnosis::ProviderVerdict;
use http::{HeaderMap, StatusCode, header};
use serde_json::{Map, Value};

use crate::endpoint::Endpoint;
use crate::header::media_type;

/// The maximum size of a whole answer that is read, in bytes: 64 MiB.
const MAX_WHOLE: usize = 64 << 20;

/// A reader of one answer.
pub(crate) struct AnswerReader {
    endpoint: Endpoint,
    form: Form,
    /// True if the answer has the form that was asked for: events, or a document.
    is_expected: bool,
    /// The IDs of what the provider keeps of the answer, if they are wanted.
    kept_ids: Option<Vec<String>>,
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
    /// The tokens of the request; those of other models and of summaries are not part of them.
    pub(crate) usage: Option<Usage>,
    /// All tokens, by model.
    pub(crate) usages: Vec<ModelUsage>,
    /// True if parts of the usage are missing: the answer may cost more.
    pub(crate) is_usage_partial: bool,
    /// Members that change its price, beside its tokens.
    pub(crate) terms: Terms,
    /// The model that answered, under the provider's name.
    pub(crate) model: Option<String>,
    /// The reason why the model stopped.
    pub(crate) stop: Option<StopReason>,
    /// The provider's ID of the answer.
    pub(crate) id: Option<String>,
    /// The IDs of what the provider keeps of it, if they were wanted.
    pub(crate) kept_ids: Vec<String>,
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
            None => match (media_type(headers).as_str(), endpoint.format()) {
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
            kept_ids: None,
            form,
        }
    }

    /// Reads the IDs of what the provider keeps of the answer, too, if they are wanted.
    pub(crate) fn with_kept_ids(self, are_wanted: bool) -> Self {
        Self {
            kept_ids: are_wanted.then(Vec::new),
            ..self
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
                    if let Some(kept_ids) = &mut self.kept_ids {
                        add_kept_ids_of_event(event, kept_ids);
                    }
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
    pub(crate) fn finish(mut self) -> AnswerReport {
        let is_expected = self.is_expected;
        let mut kept_ids = self.kept_ids.take();
        if let (Some(kept_ids), Form::Whole(whole)) = (&mut kept_ids, &self.form) {
            let answer: Value = serde_json::from_slice(whole).unwrap_or_default();
            add_kept_ids(&answer, kept_ids);
        }
        let mut report = self.read_to_end();
        report.kept_ids = kept_ids.unwrap_or_default();
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
            (Form::Events(_, reader), Some(format))
                if !reader.complete() && wire::for_format(format).has_last_event() =>
            {
                refused("the stream ended before its last event".into())
            }
            (Form::Events(_, reader), Some(format)) => report(format, reader.finish()),
            (Form::Events(..), None) => refused("no model answers at this endpoint".into()),
            (Form::Whole(whole), Some(format)) => whole_reply(format, &whole),
            (Form::Whole(whole), None) => document(self.endpoint, &whole),
        }
    }
}

/// Adds the IDs of an answer and of its items, which later requests may name.
fn add_kept_ids(answer: &Value, ids: &mut Vec<String>) {
    let id = |value: &Value| value.get("id").and_then(Value::as_str).map(str::to_owned);
    let output = answer.get("output").and_then(Value::as_array);
    for found in id(answer)
        .into_iter()
        .chain(output.into_iter().flatten().filter_map(id))
    {
        if !ids.contains(&found) {
            ids.push(found);
        }
    }
}

/// Adds the IDs in the events of a stream that have a whole item or the whole answer.
fn add_kept_ids_of_event(event: &Event, ids: &mut Vec<String>) {
    if !event.data.contains("\"id\"") || !WHOLE_EVENTS.contains(&event.name.as_str()) {
        return;
    }
    let data: Value = serde_json::from_str(&event.data).unwrap_or_default();
    for whole in ["response", "interaction", "item"]
        .iter()
        .filter_map(|name| data.get(*name))
    {
        add_kept_ids(whole, ids);
    }
}

/// Names of events with a whole item or the whole answer.
const WHOLE_EVENTS: [&str; 4] = [
    "interaction.complete",
    "response.completed",
    "response.incomplete",
    "response.output_item.done",
];

/// Judges a whole answer of a model. Gemini streams one as an array of documents, which is passed on only.
fn whole_reply(format: Format, whole: &[u8]) -> AnswerReport {
    let mut report = report(format, wire::for_format(format).reply(whole));
    if report.refusal.is_none() {
        let document: Value = serde_json::from_slice(whole).unwrap_or_default();
        let end = document.pointer(&wire::for_format(format).members().end);
        report.refusal = if let Err(error) = Canonical::json(whole) {
            // Clients take the first or the last of two members with one name.
            Some(format!("the answer has no canonical form: {error}"))
        } else if document.as_object().is_some_and(has_error) {
            Some("the answer contains an error".to_owned())
        } else if !end.is_some_and(Value::is_string) {
            // Some servers leave that out.
            Some("the answer does not say why it ended".to_owned())
        } else {
            None
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
    let is_typed = |name: &str| data.get(name).is_some_and(|kind| kind == "error");
    event.name == "error"
        || is_typed("type")
        || is_typed("event_type")
        || data.as_object().is_some_and(has_error)
}

fn report(format: Format, reply: Result<Reply, cachalot_model::Error>) -> AnswerReport {
    match reply {
        Err(error) => AnswerReport {
            refusal: Some(error.to_string()),
            ..AnswerReport::default()
        },
        Ok(reply) => AnswerReport {
            kept_ids: Vec::new(),
            refusal: unusual_end(&reply.stop).or_else(|| {
                if has_error(&reply.extra) {
                    return Some("the answer contains an error".to_owned());
                }
                let found = wire::server_output(format, &reply)?;
                Some(format!("a tool of the provider may have made `{found}`"))
            }),
            is_usage_partial: reply
                .usage
                .as_ref()
                .is_some_and(|value| is_partial(value, &reply)),
            usage: reply.usage,
            usages: wire::for_format(format).usages(&reply),
            terms: wire::for_format(format).terms(&reply),
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
    let answers = !document.as_object().is_some_and(has_error)
        && match endpoint {
            Endpoint::Api(_, api) => api.is_answered_by(&document),
            Endpoint::Models => document.is_object(),
            Endpoint::Other => false,
        };
    let reported = document.get("usage");
    let usage = match endpoint {
        Endpoint::Api(format, api) if api.operation == Operation::Compact => {
            reported.and_then(|usage| wire::usage(format, usage))
        }
        Endpoint::Api(_, api) if api.operation == Operation::Embed => {
            let pointer = api.tokens.as_deref();
            let tokens = pointer.and_then(|pointer| document.pointer(pointer)?.as_u64());
            tokens.map(|tokens| Usage::from_counts(tokens, 0))
        }
        _ => None,
    };
    let own = usage.map(|usage| ModelUsage { model: None, usage });
    AnswerReport {
        refusal: (!answers).then(|| "the document is no answer of this endpoint".into()),
        is_usage_partial: usage.is_some_and(|usage| usage.total_input() == 0),
        usage,
        usages: Vec::from_iter(own),
        terms: Terms {
            tier: document
                .get("service_tier")
                .and_then(Value::as_str)
                .map(str::to_owned),
            ..Terms::default()
        },
        model: document
            .get("model")
            .and_then(Value::as_str)
            .map(str::to_owned),
        ..AnswerReport::default()
    }
}
