//! The seam of the wire formats: how blocks become bytes, once, and how answers are read.
//!
//! A request body is `{"tools":[…],"system":[…],"messages":[…]` + tail, with what is absent left
//! out (Gemini's arrays, and the tools of Converse, stand within objects: see [`Member`]): pieces rendered by [`Wire::tool`], [`Wire::system`] and [`Wire::message`], joined by commas,
//! and the [`Wire::tail`] with everything that may differ from request to request. So the pieces of
//! one request are a prefix of those of the next. [`Pieces::body`] joins them for whoever keeps no
//! conversation; the frozen prompt joins its own.

use bytes::Bytes;

use crate::error::Error;
use crate::{
    Capabilities, Delta, Format, Marking, Message, Parameters, Reply, ToolDefinition, Usage,
};

pub mod anthropic;
pub mod chat;
pub mod converse;
pub mod event_stream;
pub(crate) mod extra;
pub mod gemini;
mod marked;
pub(crate) mod openai;
pub mod responses;
pub mod sse;
mod tail;

/// A piece of a request: JSON bytes that are never rendered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// One JSON value.
    pub bytes: Bytes,
    /// Where a cache marker may be spliced in: an offset just inside the closing brace of the last
    /// content block, or behind it where a marker is a block of its own. `None` where no marker may
    /// stand.
    pub mark_at: Option<u32>,
}

/// The members of a body that hold the three arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Of the tools.
    pub tools: Member,
    /// Of the system's pieces; `None`: they stand before the messages, in their array.
    pub system: Option<Member>,
    /// Of the messages.
    pub messages: Member,
}

/// A member of a body whose value is an array, or holds one within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: &'static str,
    /// The beginning of its value, up to the first element of the array.
    pub open: &'static str,
    /// The end of its value, from behind the last element.
    pub close: &'static str,
}

impl Member {
    /// A member whose value is the array.
    #[must_use]
    pub const fn array(name: &'static str) -> Self {
        Self {
            name,
            open: "[",
            close: "]",
        }
    }
}

/// How long a marked prefix stays in the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MarkerTime {
    /// Five minutes.
    FiveMinutes,
    /// An hour.
    OneHour,
}

/// A provider's format. Implementations hold no state.
pub trait Wire: Send + Sync {
    /// Which format it is.
    fn format(&self) -> Format;

    /// Where requests go, after the base URL: `/chat/completions`.
    fn path(&self) -> &'static str;

    /// The names of the arrays.
    fn layout(&self) -> Layout;

    /// A tool.
    fn tool(&self, tool: &ToolDefinition) -> Rendered;

    /// A piece of the system's text.
    fn system(&self, text: &str) -> Rendered;

    /// A message: one or more pieces (results of tools are messages of their own in one format, the
    /// blocks of an answer are items of their own in another). Blocks that this format has no place
    /// for (reasoning of another format) are left out. Never empty for a message with content that
    /// this format knows.
    ///
    /// # Errors
    /// Something that this format cannot say and that must not be lost silently.
    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error>;

    /// What stands behind the last array: begins with a comma, ends with the closing brace of the
    /// body. Deterministic.
    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes;

    /// Members that stand behind the array of the tools, within the object that it is in: begins with a
    /// comma. `None` in formats that have no such object, and where there is nothing to say.
    fn behind_tools(&self, _parameters: &Parameters) -> Option<String> {
        None
    }

    /// What is spliced in at [`Rendered::mark_at`], with its leading comma; `None` if this format has
    /// no markers (or the provider caches by itself).
    fn marker(&self, time: MarkerTime) -> Option<Bytes>;

    /// Reads a whole answer.
    ///
    /// # Errors
    /// It is no answer of this format.
    fn reply(&self, body: &[u8]) -> Result<Reply, Error>;

    /// A reader of one streamed answer.
    fn reader(&self) -> Box<dyn StreamReader>;
}

/// Reads the events of one streamed answer.
pub trait StreamReader: Send {
    /// Takes the next event, and gives what there is to show.
    ///
    /// # Errors
    /// The event makes no sense in this format, or it is an error of the provider.
    fn event(&mut self, event: &sse::Event) -> Result<Vec<Delta>, Error>;

    /// Whether the event that ends an answer has come.
    fn complete(&self) -> bool;

    /// The whole answer.
    ///
    /// # Errors
    /// The stream ended before the answer did: [`crate::error::ErrorKind::CutOff`].
    fn finish(self: Box<Self>) -> Result<Reply, Error>;
}

/// The format's rules.
#[must_use]
pub fn of(format: Format) -> &'static dyn Wire {
    match format {
        Format::Chat => &chat::Chat,
        Format::Responses => &responses::Responses,
        Format::Messages => &anthropic::Messages,
        Format::Gemini => gemini::for_model(""),
        Format::Converse => &converse::Converse::UNKNOWN,
    }
}

/// What was used, as an answer of any provider reports it (its `usage`): in the words of `format`, or
/// of another format if it has none of those. `None` if it counts no tokens.
#[must_use]
pub fn usage(format: Format, reported: &serde_json::Value) -> Option<Usage> {
    let others = [
        Format::Chat,
        Format::Messages,
        Format::Responses,
        Format::Gemini,
        Format::Converse,
    ];
    let says = |format: Format| {
        let names: &[&str] = match format {
            Format::Chat => &["prompt_tokens"],
            Format::Messages => &["cache_read_input_tokens", "cache_creation_input_tokens"],
            Format::Responses => &["input_tokens_details"],
            Format::Gemini => &["promptTokenCount"],
            Format::Converse => &["inputTokens"],
        };
        names.iter().any(|name| reported.get(name).is_some())
    };
    match others
        .into_iter()
        .find(|format| says(*format))
        .unwrap_or(format)
    {
        Format::Chat => chat::usage(reported),
        Format::Responses => responses::usage(reported),
        Format::Messages => anthropic::usage(reported),
        Format::Gemini => gemini::usage(reported),
        Format::Converse => converse::usage(reported),
    }
}

/// The format's rules, for a provider that takes cache markers so. Other rules than those of [`of`]
/// where they have to make room for markers, and no markers where it takes none.
#[must_use]
pub fn marked(format: Format, marking: &Marking) -> &'static dyn Wire {
    marked::wire(format, marking)
}

/// The format's rules for one model: with markers as of [`marked`], and without the parameters that the
/// model refuses.
#[must_use]
pub fn for_model(
    format: Format,
    marking: &Marking,
    capabilities: &Capabilities,
) -> &'static dyn Wire {
    match format {
        Format::Messages => anthropic::on(None, capabilities),
        Format::Converse => converse::for_model(capabilities),
        _ => marked(format, marking),
    }
}

/// The pieces of a request, for whoever keeps no conversation.
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    /// Tools.
    pub tools: Vec<Rendered>,
    /// The system's text.
    pub system: Vec<Rendered>,
    /// Messages.
    pub messages: Vec<Rendered>,
}

impl Pieces {
    /// The body, contiguous, without markers.
    #[must_use]
    pub fn body(&self, wire: &dyn Wire, tail: &Bytes) -> Bytes {
        self.body_with(wire, "", tail)
    }

    /// As [`Pieces::body`], with [`Wire::behind_tools`].
    pub(crate) fn body_with(&self, wire: &dyn Wire, behind_tools: &str, tail: &Bytes) -> Bytes {
        let layout = wire.layout();
        let mut body = Vec::with_capacity(self.length() + tail.len() + 64);
        body.push(b'{');
        let mut array = |member: Member, groups: &[&[Rendered]], behind: &str| {
            let mut pieces = groups.iter().copied().flatten().peekable();
            if pieces.peek().is_none() {
                return;
            }
            if body.len() > 1 {
                body.push(b',');
            }
            let Member { name, open, close } = member;
            body.extend_from_slice(format!("\"{name}\":{open}").as_bytes());
            for (index, piece) in pieces.enumerate() {
                if index > 0 {
                    body.push(b',');
                }
                body.extend_from_slice(&piece.bytes);
            }
            let (array, object) = close.split_at(close.len().min(1));
            for text in [array, behind, object] {
                body.extend_from_slice(text.as_bytes());
            }
        };
        array(layout.tools, &[&self.tools], behind_tools);
        match layout.system {
            Some(system) => {
                array(system, &[&self.system], "");
                array(layout.messages, &[&self.messages], "");
            }
            None => array(layout.messages, &[&self.system, &self.messages], ""),
        }
        body.extend_from_slice(tail);
        body.into()
    }

    fn length(&self) -> usize {
        [&self.tools, &self.system, &self.messages]
            .into_iter()
            .flatten()
            .map(|piece| piece.bytes.len() + 1)
            .sum()
    }
}
