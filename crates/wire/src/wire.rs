//! The contract of the wire formats: they render each block to bytes once, and parse answers.
//!
//! A request body is `{"tools":[…],"system":[…],"messages":[…]` + tail, without the absent parts. (Gemini's
//! arrays, and the tools of Converse, are nested in objects; in one format, the system text is one text in place
//! of an array: see [`Member`].) The arrays contain the pieces
//! rendered by [`Wire::tool`], [`Wire::system`] and [`Wire::message`], joined by commas; the [`Wire::tail`]
//! contains everything that may change from request to request. Therefore the pieces of one request are a
//! prefix of those of the next. [`Pieces::body`] joins them for callers without a stored conversation; the
//! frozen prompt joins its own.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use url::Url;

use crate::error::Error;
use crate::members::Members;
use crate::parameters::{ApiOwner, RefusedParameters};
use crate::renewal_changes::RenewalChanges;
use crate::{
    AcceptedToolChanges, Conversion, Delta, Extra, Format, Message, ModelUsage, Parameters, Reply,
    RequestRules, SettingChanges, Terms, ToolDefinition, Usage, conversion, sse,
};

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

/// A member of a body whose value is, or contains, an array; or whose value is one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Name.
    pub name: &'static str,
    /// Beginning of its value, up to the first element of the array.
    pub open: &'static str,
    /// End of its value, after the last element.
    pub close: &'static str,
    /// True if its value is one text: the elements are texts, which become paragraphs of it.
    pub is_text: bool,
}

impl Layout {
    /// Arrays of tools, and of messages that begin with the system text.
    pub(crate) const fn with_messages(messages: &'static str) -> Self {
        Self {
            tools: Member::array("tools"),
            system: None,
            messages: Member::array(messages),
        }
    }
}

impl Member {
    pub(crate) const fn new(name: &'static str, open: &'static str, close: &'static str) -> Self {
        Self {
            name,
            open,
            close,
            is_text: false,
        }
    }

    /// Returns a member whose value is the array.
    #[must_use]
    pub const fn array(name: &'static str) -> Self {
        Self::new(name, "[", "]")
    }

    /// Returns a member whose value is one text.
    #[must_use]
    pub const fn text(name: &'static str) -> Self {
        Self {
            is_text: true,
            ..Self::new(name, "\"", "\"")
        }
    }

    /// Returns what separates two elements: a comma, or an empty line in a JSON string.
    #[must_use]
    pub fn separator(self) -> &'static str {
        if self.is_text { r"\n\n" } else { "," }
    }

    /// Returns the part of an element with `length` bytes that is written: a text without its quotes.
    #[must_use]
    pub fn written(self, length: usize) -> Range<usize> {
        if self.is_text && length >= 2 {
            1..length - 1
        } else {
            0..length
        }
    }
}

/// Lifetime of a marked prefix in the provider's cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum MarkerTime {
    /// Five minutes.
    FiveMinutes,
    /// One hour.
    OneHour,
    /// Twelve hours, in OpenAI's formats.
    TwelveHours,
}

/// A wire format. Implementations are stateless.
pub trait Wire: Send + Sync {
    /// Returns the format.
    fn format(&self) -> Format;

    /// Returns the URL of requests for a model, at a base URL as clients of the server have it. A base URL that is a
    /// whole endpoint is used unchanged.
    fn url(&self, base: &Url, model: &str, streams: bool) -> Url;

    /// Returns the usual header of the key.
    fn key_header(&self) -> &'static str {
        "authorization"
    }
    /// Returns the facts by which any client's request is read and compared.
    fn request_rules(&self) -> &'static RequestRules {
        &RequestRules::PLAIN
    }

    /// Returns the members that contain the arrays.
    fn layout(&self) -> Layout;

    /// Renders a tool.
    fn tool(&self, tool: &ToolDefinition) -> Rendered;

    /// Renders a piece of the system text.
    fn system(&self, text: &str) -> Rendered;

    /// Renders a message as one or more pieces. (Tool results are separate messages in one format; the
    /// blocks of an answer are separate items in another; [`SettingChanges`](crate::SettingChanges) of a message are its
    /// last piece, in formats that have them.) Omits blocks that the format cannot represent,
    /// such as reasoning of another format. The result is not empty for a message with content that the
    /// format can represent.
    ///
    /// # Errors
    /// Content that the format cannot represent and that must not be dropped silently.
    fn message(&self, message: &Message) -> Result<Vec<Rendered>, Error>;

    /// Returns the changes of tools that a model of a provider accepts within a conversation; `None` if it accepts none,
    /// or if that is not known.
    fn tool_changes(&self, _provider: &str, _model: &str) -> Option<AcceptedToolChanges> {
        None
    }

    /// Returns true if a model of a provider is known to accept another effort within a conversation.
    fn accepts_effort_changes(&self, _provider: &str, _model: &str) -> bool {
        false
    }

    /// Renders changes as the last pieces of a message of the user; none in formats without them.
    fn changes(&self, _changes: &SettingChanges) -> Vec<Rendered> {
        Vec::new()
    }

    /// Returns the values of the header `anthropic-beta` that parts of a body need.
    fn betas(&self, _body: &[u8]) -> Vec<&'static str> {
        Vec::new()
    }

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

    /// Parses the usage of an answer, its `usage`. `None` if it has no token counts.
    fn usage(&self, reported: &Value) -> Option<Usage>;

    /// Returns members by which a usage is recognized as one of this format.
    fn usage_members(&self) -> &'static [&'static str];

    /// True if a budget of reasoning is sent as an effort.
    fn sends_budget_as_effort(&self) -> bool {
        false
    }

    /// Returns the value of the parameter `context_management` with which the provider summarizes a conversation of more
    /// than this many input tokens within a request; its own default without a number. `None` in formats without it.
    fn compaction(&self, _above: Option<u64>) -> Option<Value> {
        None
    }

    /// True if the parameters of Anthropic's models decide about reasoning and sampling: an effort may be sent as a
    /// budget, and sampling parameters that a model refuses are left out by [`Wire::tail`].
    fn has_parameter_rules(&self) -> bool {
        false
    }

    /// Moves configured parameters of other APIs to the place that they have in this one, for a model.
    fn move_parameters(&self, _extra: &mut Extra, _model: &str) {}

    /// Returns the configured parameters that the API of `owner` refuses.
    fn refused_parameters(&self, _owner: ApiOwner) -> &'static [RefusedParameters] {
        &[]
    }

    /// Returns the declared table of the members of requests and answers; an empty one for a format whose requests are
    /// not judged.
    fn members(&self) -> &'static Members {
        Members::none()
    }

    /// Returns what an answer says beside its tokens that changes its price.
    fn terms(&self, _reply: &Reply) -> Terms {
        Terms::default()
    }

    /// Returns the tokens of an answer by model, the answer's own first; empty if it reports none. Tokens that the
    /// provider counts apart from the answer's (a summary that it made, an adviser, an attempt that another model
    /// answered) are rows of their own.
    fn usages(&self, reply: &Reply) -> Vec<ModelUsage> {
        let own = reply.usage.map(|usage| ModelUsage { model: None, usage });
        Vec::from_iter(own)
    }

    /// True if the path of a request names its model, and the body does not.
    fn has_model_in_path(&self) -> bool {
        false
    }

    /// Returns the model that a request names.
    fn requested_model<'a>(&self, _path: &'a str, body: &'a Value) -> Option<&'a str> {
        body.get("model")?.as_str()
    }

    /// Returns true if a request asks for a stream of events.
    fn asks_for_stream(&self, _path: &str, _query: Option<&str>, body: &Value) -> bool {
        body.get("stream") == Some(&Value::Bool(true))
    }

    /// Returns path and query of the request for the whole answer, if those of a request select the stream.
    fn target_of_whole(
        &self,
        _path: &str,
        _query: Option<&str>,
    ) -> Option<(String, Option<String>)> {
        None
    }

    /// True if the last event of a stream says that the answer is complete.
    fn has_last_event(&self) -> bool {
        true
    }

    /// Returns the conversion between the forms of an answer; `None` for a format without one.
    fn conversion(&self) -> Option<&'static Conversion> {
        None
    }

    /// Returns the document that the provider would have answered to the same request without a stream; `None` if the
    /// stream cannot be converted without loss.
    fn whole_of_stream(&self, events: &[u8]) -> Option<Bytes> {
        conversion::to_whole(self.conversion()?, events)
    }

    /// Returns the stream that the provider would have answered to the same request; `None` if the document cannot be
    /// converted without loss. `includes_usage` is set if the request asks for the usage of its stream.
    fn stream_of_whole(&self, whole: &[u8], includes_usage: bool) -> Option<Bytes> {
        conversion::to_events(self.conversion()?, whole, includes_usage)
    }

    /// Returns the changes by which a request to a model with these members renews the prefix that it has in the
    /// provider's cache, at the least cost. Long members are not in `request`.
    ///
    /// # Errors
    /// The reason why no such changes are known.
    fn renewal(
        &self,
        _model: &str,
        _request: &Map<String, Value>,
    ) -> Result<RenewalChanges, &'static str> {
        Err("no request of this format is known that only renews a prefix")
    }

    /// Returns the body of an error of a gateway, in the form of the provider's own errors.
    fn gateway_error(&self, _status: u16, code: &str, message: &str) -> Value {
        json!({"error": {"message": message, "type": "gateway_error", "param": null, "code": code}})
    }

    /// Returns true if [`Wire::prepare`] adds notes to messages.
    fn needs_notes(&self) -> bool {
        false
    }

    /// Adds the notes on which the rendering of `messages` depends; `messages` follow `before`. No format sends them.
    fn prepare(&self, _before: &[Arc<Message>], _messages: &mut [Message]) {}
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
            let Member {
                name, open, close, ..
            } = member;
            body.extend_from_slice(format!("\"{name}\":{open}").as_bytes());
            for (index, piece) in pieces.enumerate() {
                if index > 0 {
                    body.extend_from_slice(member.separator().as_bytes());
                }
                body.extend_from_slice(&piece.bytes[member.written(piece.bytes.len())]);
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
