//! Forms of an answer: one document, or a stream of events. A stored answer serves all of them if it can be converted
//! without loss.

use bytes::Bytes;
use cachalot_cache::Form;
use serde_json::{Value, json};

use crate::convert::{to_events, to_whole};
use crate::endpoint::Endpoint;
use crate::recorded::{self, FirstChunk, Recorded};

/// The form that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AnswerForm {
    /// One JSON document.
    Whole,
    /// Events.
    Events,
    /// Events of Chat Completions, with the usage at their end (`stream_options: {include_usage: true}`).
    EventsWithUsage,
}

const FORMS: [AnswerForm; 3] = [
    AnswerForm::Whole,
    AnswerForm::Events,
    AnswerForm::EventsWithUsage,
];

impl AnswerForm {
    /// Returns the form that a request asks for.
    pub(crate) fn of_request(
        endpoint: Endpoint,
        path: &str,
        query: Option<&str>,
        body: &Value,
    ) -> Self {
        let includes_usage = body.pointer("/stream_options/include_usage");
        match endpoint.is_streamed(path, query, body) {
            false => Self::Whole,
            true if endpoint == Endpoint::Chat && includes_usage == Some(&Value::Bool(true)) => {
                Self::EventsWithUsage
            }
            true => Self::Events,
        }
    }

    /// Returns the form with this number.
    fn of_number(number: u8) -> Option<Self> {
        FORMS.into_iter().find(|form| form.number() == number)
    }

    /// The number in entries, which must not change.
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Whole => 0,
            Self::Events => 1,
            Self::EventsWithUsage => 2,
        }
    }

    pub(crate) fn is_events(self) -> bool {
        self != Self::Whole
    }

    /// Returns the form for the engine.
    pub(crate) fn for_engine(self) -> Form {
        Form(self.number())
    }

    /// Returns the function that tells whether an entry can be served in this form.
    pub(crate) fn accepts(self) -> fn(&Bytes) -> bool {
        match self {
            Self::Whole => |entry| Self::Whole.is_in(entry),
            Self::Events => |entry| Self::Events.is_in(entry),
            Self::EventsWithUsage => |entry| Self::EventsWithUsage.is_in(entry),
        }
    }

    /// Returns true for an entry in this form, or one that can be converted to it. A damaged entry is left to
    /// [`FirstChunk::decode`].
    fn is_in(self, entry: &Bytes) -> bool {
        if recorded::form_number(entry) == Some(self.number()) {
            return true;
        }
        match FirstChunk::decode(entry) {
            Ok(FirstChunk::Entry(recorded)) => self.convert(&recorded).is_some(),
            _ => true,
        }
    }

    /// Returns the body of an answer in this form; `None` if it would lose something.
    pub(crate) fn convert(self, recorded: &Recorded) -> Option<Bytes> {
        let endpoint = recorded.head.endpoint;
        let stored = Self::of_number(recorded.head.form)?;
        let whole = match stored {
            _ if stored == self => return Some(recorded.body.clone()),
            Self::Whole => recorded.body.clone(),
            Self::Events | Self::EventsWithUsage => to_whole(endpoint, &recorded.body)?,
        };
        match self {
            Self::Whole => Some(whole),
            Self::Events => to_events(endpoint, &whole, &json!({})),
            Self::EventsWithUsage => {
                let request = json!({"stream_options": {"include_usage": true}});
                to_events(endpoint, &whole, &request)
            }
        }
    }

    /// The media type of a converted answer.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Whole => "application/json",
            Self::Events | Self::EventsWithUsage => "text/event-stream; charset=utf-8",
        }
    }
}

/// Returns the members of a body that select the form only, and are no part of the key.
pub(crate) fn form_members(endpoint: Endpoint, body: &Value) -> &'static [&'static str] {
    let has_only_usage = match body.get("stream_options") {
        None | Some(Value::Null) => true,
        // Some servers read other values than these as true.
        Some(Value::Object(options)) => options.iter().all(|(name, value)| {
            name == "include_usage" && (value.is_boolean() || value.is_null())
        }),
        Some(_) => false,
    };
    match endpoint {
        Endpoint::Chat if has_only_usage => &["stream", "stream_options"],
        Endpoint::Chat | Endpoint::Responses | Endpoint::Messages => &["stream"],
        _ => &[],
    }
}

/// Returns path and query of the key. Gemini selects the form by them.
pub(crate) fn without_form(
    endpoint: Endpoint,
    form: AnswerForm,
    path: &str,
    query: Option<&str>,
) -> (String, Option<String>) {
    let streamed = path.strip_suffix(":streamGenerateContent");
    match streamed.filter(|_| endpoint == Endpoint::Gemini && form.is_events()) {
        None => (path.to_owned(), query.map(str::to_owned)),
        Some(model) => {
            let parameters = query.unwrap_or_default().split('&');
            let others: Vec<&str> = parameters.filter(|it| *it != "alt=sse").collect();
            let others = Some(others.join("&")).filter(|query| !query.is_empty());
            (format!("{model}:generateContent"), others)
        }
    }
}
