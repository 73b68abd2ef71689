//! Forms of an answer: one document, or a stream of events. A stored answer serves all of them if it can be converted
//! without loss.

use bytes::Bytes;
use cachalot_cache::Form;
use cachalot_model::wire::{self, Members};
use serde_json::Value;

use crate::endpoint::Endpoint;
use crate::recorded::{self, FirstChunk, Recorded};

/// The member of a request with options of its stream.
const OPTIONS: &str = "stream_options";

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
            true if includes_usage == Some(&Value::Bool(true))
                && endpoint.selects_form_by(OPTIONS) =>
            {
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

    /// Returns a function that is true for the entries that can be served in this form.
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
        // An entry that has the form asked for is not decoded here.
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
        let stored = Self::of_number(recorded.head.form)?;
        if stored == self {
            return Some(recorded.body.clone());
        }
        let wire = wire::for_format(recorded.head.endpoint.format()?);
        let whole = match stored {
            Self::Whole => recorded.body.clone(),
            Self::Events | Self::EventsWithUsage => wire.whole_of_stream(&recorded.body)?,
        };
        match self {
            Self::Whole => Some(whole),
            Self::Events | Self::EventsWithUsage => {
                wire.stream_of_whole(&whole, self == Self::EventsWithUsage)
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
pub(crate) fn form_members(endpoint: Endpoint, body: &Value) -> Vec<&'static str> {
    let has_only_usage = match body.get(OPTIONS) {
        None | Some(Value::Null) => true,
        // Some servers read other values than these as true.
        Some(Value::Object(options)) => options.iter().all(|(name, value)| {
            name == "include_usage" && (value.is_boolean() || value.is_null())
        }),
        Some(_) => false,
    };
    let members = endpoint.answer_members().into_iter();
    let names = members.flat_map(Members::form_members);
    names
        .filter(|name| has_only_usage || *name != OPTIONS)
        .collect()
}

/// Returns path and query of the key, without what selects the form.
pub(crate) fn without_form(
    endpoint: Endpoint,
    form: AnswerForm,
    path: &str,
    query: Option<&str>,
) -> (String, Option<String>) {
    let wire = endpoint.wire().filter(|_| form.is_events());
    let whole = wire.and_then(|wire| wire.target_of_whole(path, query));
    whole.unwrap_or_else(|| (path.to_owned(), query.map(str::to_owned)))
}
