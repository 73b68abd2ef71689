//! The contract of the wire formats: they render each block to bytes once, and parse answers.
//!
//! A request body is `{"tools":[…],"system":[…],"messages":[…]` + tail, without the absent parts. (Gemini's
//! arrays, and the tools of Converse, are nested in objects: see [`Member`].) The arrays contain the pieces
//! rendered by [`Wire::tool`], [`Wire::system`] and [`Wire::message`], joined by commas; the [`Wire::tail`]
//! contains everything that may change from request to request. Therefore the pieces of one request are a
//! prefix of those of the next. [`Pieces::body`] joins them for callers without a stored conversation; the
//! frozen prompt joins its own.

use bytes::Bytes;

use crate::error::Error;
use crate::{Delta, Format, Message, Parameters, Reply, ToolDefinition, Usage};

pub mod anthropic;
mod chat;
mod converse;
pub mod event_stream;
pub(crate) mod extra;
mod format_wire;
mod gemini;
pub(crate) mod notes;
pub(crate) mod openai;
mod responses;
pub mod sse;
mod tail;

pub use format_wire::{CHAT, CONVERSE, FormatWire, GEMINI, MESSAGES, RESPONSES};

/// A piece of a request: JSON bytes that are never rendered again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rendered {
    /// One JSON value.
    pub bytes: Bytes,
    /// Position of an optional cache marker: an offset just inside the closing brace of the last content
    /// block, or after the brace if a marker is a separate block. `None` if the piece accepts no marker.
    pub mark_at: Option<u32>,
}

/// The members of a body that contain the three arrays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    /// Tools.
    pub tools: Member,
    /// System pieces; `None` if they precede the messages in the messages' array.
    pub system: Option<Member>,
    /// Messages.
    pub messages: Member,
}

/// A member of a body whose value is, or contains, an array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Name.
    pub name: &'static str,
    /// Beginning of its value, up to the first element of the array.
    pub open: &'static str,
    /// End of its value, after the last element.
    pub close: &'static str,
}

impl Layout {
    const fn for_format(format: Format) -> Self {
        const TOOLS: Member = Member::array("tools");
        let (tools, system, messages) = match format {
            Format::Chat => (TOOLS, None, "messages"),
            Format::Responses => (TOOLS, None, "input"),
            Format::Messages => (TOOLS, Some(Member::array("system")), "messages"),
            Format::Gemini => (
                Member::new("tools", r#"[{"functionDeclarations":["#, "]}]"),
                Some(Member::new("systemInstruction", r#"{"parts":["#, "]}")),
                "contents",
            ),
            Format::Converse => (
                Member::new("toolConfig", r#"{"tools":["#, "]}"),
                Some(Member::array("system")),
                "messages",
            ),
        };
        let messages = Member::array(messages);
        Self {
            tools,
            system,
            messages,
        }
    }
}

impl Member {
    const fn new(name: &'static str, open: &'static str, close: &'static str) -> Self {
        Self { name, open, close }
    }

    /// Returns a member whose value is the array.
    #[must_use]
    pub const fn array(name: &'static str) -> Self {
        Self::new(name, "[", "]")
    }
}

/// Lifetime of a marked prefix in the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MarkerTime {
    /// Five minutes.
    FiveMinutes,
    /// One hour.
    OneHour,
}

/// A wire format. Implementations are stateless.
pub trait Wire: Send + Sync {
    /// Returns the format.
    fn format(&self) -> Format;

    /// Returns the path of requests after the base URL: `/chat/completions`.
    fn path(&self) -> &'static str;

    /// Returns the members that contain the arrays.
    fn layout(&self) -> Layout;

    /// Renders a tool.
    fn tool(&self, tool: &ToolDefinition) -> Rendered;

    /// Renders a piece of the system text.
    fn system(&self, text: &str) -> Rendered;

    /// Renders a message as one or more pieces. (Tool results are separate messages in one format; the
    /// blocks of an answer are separate items in another.) Omits blocks that the format cannot represent,
    /// such as reasoning of another format. The result is not empty for a message with content that the
    /// format can represent.
    ///
    /// # Errors
    /// Content that the format cannot represent and that must not be dropped silently.
    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error>;

    /// Renders the end of the body after the last array: begins with a comma, ends with the closing brace
    /// of the body. Deterministic.
    fn tail(&self, parameters: &Parameters, stream: bool) -> Bytes;

    /// Renders members after the array of tools, within the object that contains it: begins with a comma.
    /// `None` in formats without such an object, and if there are no such members.
    fn after_tools(&self, _parameters: &Parameters) -> Option<String> {
        None
    }

    /// Returns the marker to insert at [`Rendered::mark_at`], with its leading comma; `None` if the format
    /// has no markers (or the provider caches automatically).
    fn marker(&self, time: MarkerTime) -> Option<Bytes>;

    /// Parses a whole answer.
    ///
    /// # Errors
    /// The body is not an answer of this format.
    fn reply(&self, body: &[u8]) -> Result<Reply, Error>;

    /// Returns a reader for one streamed answer.
    fn reader(&self) -> Box<dyn StreamReader>;
}

/// Reads the events of one streamed answer.
pub trait StreamReader: Send {
    /// Processes the next event and returns the deltas for display.
    ///
    /// # Errors
    /// The event is invalid in this format, or it is an error of the provider.
    fn event(&mut self, event: &sse::Event) -> Result<Vec<Delta>, Error>;

    /// Returns true if the last event of the answer has arrived.
    fn complete(&self) -> bool;

    /// Returns the whole answer.
    ///
    /// # Errors
    /// The stream ended before the answer: [`crate::error::ErrorKind::CutOff`].
    fn finish(self: Box<Self>) -> Result<Reply, Error>;
}

/// Returns the implementation of a format.
#[must_use]
pub fn for_format(format: Format) -> &'static dyn Wire {
    match format {
        Format::Chat => &CHAT,
        Format::Responses => &RESPONSES,
        Format::Messages => &MESSAGES,
        Format::Gemini => &GEMINI,
        Format::Converse => &CONVERSE,
    }
}

/// Parses the usage of an answer of any provider (its `usage`), by the field names of `format`, or of
/// another format if it contains none of those. `None` if it has no token counts.
#[must_use]
pub fn usage(format: Format, reported: &serde_json::Value) -> Option<Usage> {
    type Read = fn(&serde_json::Value) -> Option<Usage>;
    let formats: [(Format, &[&str], Read); 5] = [
        (Format::Chat, &["prompt_tokens"], chat::usage),
        (
            Format::Messages,
            &["cache_read_input_tokens", "cache_creation_input_tokens"],
            anthropic::usage,
        ),
        (
            Format::Responses,
            &["input_tokens_details"],
            responses::usage,
        ),
        (Format::Gemini, &["promptTokenCount"], gemini::usage),
        (Format::Converse, &["inputTokens"], converse::usage),
    ];
    let says = |names: &[&str]| names.iter().any(|name| reported.get(name).is_some());
    let named = formats.iter().find(|(_, names, _)| says(names));
    let (_, _, read) = named.or(formats.iter().find(|(own, ..)| *own == format))?;
    read(reported)
}

/// The pieces of a request, for callers without a stored conversation.
#[derive(Debug, Clone, Default)]
pub struct Pieces {
    /// Tools.
    pub tools: Vec<Rendered>,
    /// System text.
    pub system: Vec<Rendered>,
    /// Messages.
    pub messages: Vec<Rendered>,
}

impl Pieces {
    /// Joins the pieces to a contiguous body without markers.
    #[must_use]
    pub fn body(&self, wire: &dyn Wire, tail: &Bytes) -> Bytes {
        self.body_with(wire, "", tail)
    }

    /// Like [`Pieces::body`], with the members of [`Wire::after_tools`].
    pub(crate) fn body_with(&self, wire: &dyn Wire, after_tools: &str, tail: &Bytes) -> Bytes {
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
        array(layout.tools, &[&self.tools], after_tools);
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
