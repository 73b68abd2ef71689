//! Request bodies of any client, parsed into chains of pieces.
//!
//! The pieces are the bytes of the body: each tool, each block of the system text, each message (or item) as
//! the client wrote it, without cache markers. A string in place of a list (`system`, `instructions` or
//! `input`) is one piece. Leading messages with the role `system` or `developer` belong to the system text,
//! as in our own prompts. Requests are compared in the form of [`ComparedRequest`], which has the same pieces in
//! their normal form. In the Messages format, a content that is a string is rewritten as the equivalent list
//! with one text: the provider treats both alike, and clients write the list only to mark it. The pieces are
//! in the order in which providers hash them, which may differ from the order in the body.

mod normal_forms;
mod piece;

use std::borrow::Cow;

use bytes::Bytes;
use cachalot_core::json::{JsonError, JsonResult, Scanner};
use cachalot_model::marker_rules::MarkerStyle;
use cachalot_model::wire::MarkerTime;
use cachalot_model::{Format, MarkerRules};

use crate::request_view::RequestView;
use cachalot_prompt::Namespace;
use cachalot_prompt::Session;
use cachalot_prompt::{Level, Prompt};
use cachalot_prompt::{Mark, Plan};
pub(crate) use normal_forms::NormalForms;
pub use piece::MarkerPlace;
use piece::Piece;

/// A request of any client.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Request {
    /// The format of its body.
    pub format: Format,
    /// The model's name; empty if the body names none.
    pub model: String,
    /// The pieces: the bytes of the body, without cache markers.
    pub prompt: Prompt,
    /// The cache markers in permitted places, at most four.
    pub plan: Plan,
    /// All cache markers.
    pub markers: Vec<Marker>,
    /// The parameters of the body that the provider's cache depends on.
    pub namespace: Namespace,
    /// The form that the provider compares.
    pub compared: ComparedRequest,
    /// All other members, in the form of [`Wire::tail`](cachalot_model::wire::Wire::tail): begins with a
    /// comma unless it is empty, ends with the closing brace.
    pub tail: Bytes,
    /// Fingerprints of the messages, independent of their form, in order.
    pub(crate) fingerprints: Vec<u64>,
}

impl Request {
    /// Returns the provider whose caching rules apply, as far as the body reveals it: the format's own
    /// provider, or, where Anthropic's markers are set in a format that has none, a gateway that accepts
    /// them.
    #[must_use]
    pub fn provider(&self) -> &'static str {
        let takes_points = || {
            MarkerRules::find("openai", &self.model, self.format).style == MarkerStyle::Breakpoints
        };
        match self.format {
            Format::Messages => "anthropic",
            Format::Chat if !self.markers.is_empty() && !takes_points() => "openrouter",
            Format::Gemini => "google",
            Format::Converse => "bedrock",
            Format::Chat | Format::Responses => "openai",
        }
    }

    /// Returns the input of a diagnosis.
    #[must_use]
    pub fn sending(&self) -> RequestView<'_> {
        RequestView {
            prompt: &self.compared.prompt,
            namespace: &self.namespace,
            plan: &self.compared.plan,
            tail: &self.tail,
        }
    }

    /// Creates a request from the last request of one of our sessions, as far as that is stored.
    pub(crate) fn from_session(session: &Session) -> Self {
        let head = &session.head;
        Self {
            format: head.format,
            model: head.model.clone(),
            prompt: session.prompt.clone(),
            plan: Plan::none(),
            compared: ComparedRequest {
                prompt: session.prompt.clone(),
                plan: Plan::none(),
            },
            markers: Vec::new(),
            namespace: session
                .namespace
                .clone()
                .unwrap_or_else(|| Namespace::of_members(head.format, &head.model, &[])),
            tail: Bytes::from_static(b"}"),
            fingerprints: Vec::new(),
        }
    }
}

/// A request in the form in which its provider compares it with earlier ones: its pieces in their [normal
/// form](cachalot_prompt::normal), without tools whose loading is deferred. Anthropic's search and fetch
/// tools precede the system text, where that provider renders them.
#[derive(Debug, Clone)]
pub struct ComparedRequest {
    /// The pieces.
    pub prompt: Prompt,
    /// The cache markers of the request, relative to these pieces.
    pub plan: Plan,
}

impl ComparedRequest {
    /// Creates the compared form from the pieces as they were sent, and their markers.
    #[must_use]
    pub fn new(format: Format, prompt: &Prompt, plan: &Plan) -> Self {
        Self::with(&mut NormalForms::default(), format, prompt, plan)
    }

    fn with(forms: &mut NormalForms, format: Format, prompt: &Prompt, plan: &Plan) -> Self {
        let mut tools = Vec::new();
        let mut web_tools = Vec::new();
        let mut others = Vec::new();
        for node in prompt.nodes() {
            let (bytes, mark_at) = forms.form(format, node);
            let piece = (node.depth, bytes, mark_at);
            match (node.level, format) {
                (Level::Tool, _) if is_deferred(&piece.1) => {}
                (Level::Tool, Format::Messages) if is_web_tool(&piece.1) => web_tools.push(piece),
                (Level::Tool, _) => tools.push(piece),
                (level, _) => others.push((level, piece)),
            }
        }
        let tools = tools.into_iter().map(|piece| (Level::Tool, piece));
        let web_tools = web_tools.into_iter().map(|piece| (Level::System, piece));
        let mut compared = Prompt::default();
        // Pairs of a piece's index in the request and its index in the compared form.
        let mut places: Vec<(u32, u32)> = Vec::with_capacity(prompt.len());
        for (level, (depth, bytes, mark_at)) in tools.chain(web_tools).chain(others) {
            places.push((depth, u32::try_from(compared.len()).unwrap_or(u32::MAX)));
            compared = compared.with(level, &bytes, mark_at, None);
        }
        // A marker on a tool that is not rendered marks the end of the piece before it.
        let place = |node: u32| {
            let before = places.iter().filter(|(depth, _)| *depth <= node);
            before.max_by_key(|(depth, _)| *depth).map(|(_, at)| *at)
        };
        let marks = plan.marks().iter().filter_map(|mark| {
            let node = place(mark.node)?;
            Some(Mark { node, ..*mark })
        });
        Self {
            plan: Plan::from_marks(marks),
            prompt: compared,
        }
    }
}

/// Returns true if the tool is loaded later and is therefore not part of the prefix.
pub(crate) fn is_deferred(tool: &[u8]) -> bool {
    let mut found = false;
    let read = Scanner::new(tool).members(|name, scanner| {
        found |= scanner.value()? == b"true" && name == b"defer_loading";
        Ok(())
    });
    read.is_ok() && found
}

fn is_web_tool(tool: &[u8]) -> bool {
    let begins = |kind: &str| tool.starts_with(format!(r#"{{"type":"{kind}"#).as_bytes());
    begins("web_search_") || begins("web_fetch_")
}

/// A cache marker, as set by a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Marker {
    /// The index of its piece.
    pub node: u32,
    /// The requested lifetime of the prefix.
    pub time: MarkerTime,
    /// The kind of place where it is set.
    pub place: MarkerPlace,
}

/// The reason why a text is not a request. Contains no part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It is not UTF-8.
    #[error("it is not UTF-8: the text breaks off at byte {at}")]
    NotText {
        /// The first byte that does not belong to a character.
        at: usize,
    },
    /// It is not JSON.
    #[error("it is not JSON: {reason} at byte {at}")]
    NotJson {
        /// The byte where it stops being JSON.
        at: usize,
        /// The reason.
        reason: &'static str,
    },
    /// It is JSON, but not the body of a request to a model.
    #[error("it is no request: {0}")]
    NotARequest(&'static str),
}

impl From<JsonError> for Error {
    fn from(malformed: JsonError) -> Self {
        Self::NotJson {
            at: malformed.at,
            reason: malformed.reason,
        }
    }
}

/// Parses the body of a request: OpenAI Chat Completions, OpenAI Responses or Anthropic Messages, which are
/// distinguished by their members. Requests of Bedrock's Converse that have a member specific to it
/// (`toolConfig`, `inferenceConfig`, `additionalModelRequestFields`) are refused as such.
///
/// Takes time and memory proportional to the body, and constant stack for any nesting. The content of strings
/// is not checked.
///
/// # Errors
/// The body is not JSON, or not a request in one of these formats.
pub fn read(body: &[u8]) -> Result<Request, Error> {
    read_with(&mut NormalForms::default(), body)
}

/// Parses like [`read`], reusing normal forms of pieces that were read before.
pub(crate) fn read_with(forms: &mut NormalForms, body: &[u8]) -> Result<Request, Error> {
    let text = std::str::from_utf8(body).map_err(|error| Error::NotText {
        at: error.valid_up_to(),
    })?;
    Body::read(text.as_bytes())?.into_request(forms)
}

/// The members of a body.
#[derive(Default)]
struct Body<'a> {
    tools: Vec<Piece<'a>>,
    system: Vec<Piece<'a>>,
    messages: Option<Vec<Piece<'a>>>,
    /// True if the messages are in `input` instead of `messages`.
    input: bool,
    /// The format, if a member that is specific to one format was found.
    format: Option<Format>,
    /// True if a member was found that only requests of Bedrock's Converse have.
    is_converse: bool,
    /// All other members, as written.
    others: Vec<(&'a [u8], &'a [u8])>,
    /// The lifetime of a marker on the whole request, which applies to the last piece.
    automatic: Option<MarkerTime>,
}

impl<'a> Body<'a> {
    fn read(text: &'a [u8]) -> Result<Self, Error> {
        let mut scanner = Scanner::new(text);
        if scanner.peek() != Some(b'{') {
            scanner.value()?;
            return Err(Error::NotARequest("it is no JSON object"));
        }
        let mut body = Self::default();
        scanner.members(|name, scanner| body.member(name, scanner, text))?;
        scanner.end()?;
        Ok(body)
    }

    fn member(
        &mut self,
        name: &'a [u8],
        scanner: &mut Scanner<'a>,
        text: &'a [u8],
    ) -> JsonResult<()> {
        let first = scanner.peek();
        match name {
            b"tools" if first == Some(b'[') => self.tools = pieces(scanner, text, true)?,
            b"system" if matches!(first, Some(b'[' | b'"')) => {
                self.format = Some(Format::Messages);
                self.system = pieces(scanner, text, true)?;
            }
            b"instructions" if first == Some(b'"') => self.system = pieces(scanner, text, true)?,
            b"messages" if first == Some(b'[') => {
                self.messages = Some(pieces(scanner, text, false)?);
                self.input = false;
            }
            b"input" if matches!(first, Some(b'[' | b'"')) && self.messages.is_none() => {
                self.messages = Some(pieces(scanner, text, false)?);
                self.input = true;
            }
            b"cache_control" if first == Some(b'{') => {
                self.format = Some(Format::Messages);
                self.automatic = Some(piece::time(scanner.value()?));
            }
            b"toolConfig" | b"inferenceConfig" | b"additionalModelRequestFields" => {
                self.is_converse = true;
                scanner.value()?;
            }
            _ => {
                self.format = self.format.or(format_of_member(name));
                self.others.push((name, scanner.value()?));
            }
        }
        Ok(())
    }

    fn other(&self, name: &str) -> Option<&'a [u8]> {
        let found = self.others.iter().rev();
        let mut found = found.filter(|(other, _)| *other == name.as_bytes());
        found.next().map(|(_, value)| *value)
    }

    fn model(&self) -> String {
        let model = self.other("model").unwrap_or_default();
        serde_json::from_slice(model).unwrap_or_default()
    }

    fn into_request(mut self, forms: &mut NormalForms) -> Result<Request, Error> {
        let model = self.model();
        if self.is_converse {
            return Err(Error::NotARequest(
                "it is in the format of Bedrock's Converse, which is not read",
            ));
        }
        let Some(mut messages) = self.messages.take() else {
            return Err(Error::NotARequest("it has neither `messages` nor `input`"));
        };
        let embedding = self.other("dimensions").or(self.other("encoding_format"));
        if self.input && (embedding.is_some() || model.contains("embed")) {
            return Err(Error::NotARequest("it asks for embeddings"));
        }
        let format = self.format(&messages, &model);
        if format != Format::Messages {
            let is_system = |piece: &Piece<'_>| matches!(piece.role, b"system" | b"developer");
            let leading = messages.iter().take_while(|piece| is_system(piece)).count();
            self.system.extend(messages.drain(..leading));
        }
        if format == Format::Messages {
            messages = messages.into_iter().map(Piece::into_list).collect();
        }
        let tail = tail(&self.others);
        let namespace = Namespace::of_members(format, &model, &self.others);
        let mut chain = Chain::default();
        chain.extend(Level::Tool, self.tools);
        chain.extend(Level::System, self.system);
        chain.extend(Level::Message, messages);
        if let (Some(time), Some(node)) = (self.automatic, chain.markable) {
            let place = MarkerPlace::Proper;
            chain.markers.push(Marker { node, time, place });
        }
        let proper = chain.markers.iter();
        let proper = proper.filter(|marker| marker.place == MarkerPlace::Proper);
        let plan = Plan::from_marks(proper.map(|marker| Mark {
            node: marker.node,
            time: marker.time,
        }));
        let compared = ComparedRequest::with(forms, format, &chain.prompt, &plan);
        let fingerprints = fingerprints(&compared.prompt);
        Ok(Request {
            format,
            model,
            prompt: chain.prompt,
            plan,
            compared,
            markers: chain.markers,
            namespace,
            tail,
            fingerprints,
        })
    }

    fn format(&self, messages: &[Piece<'_>], model: &str) -> Format {
        if self.input {
            return Format::Responses;
        }
        let in_tools = |what: &[u8]| {
            let mut tools = self.tools.iter();
            tools.any(|tool| memchr::memmem::find(&tool.bytes, what).is_some())
        };
        let says = |role: &[u8]| messages.iter().any(|message| message.role == role);
        let first = messages.first().map_or(&b""[..], |message| message.role);
        match self.format {
            Some(format) => format,
            None if in_tools(b"\"input_schema\"") => Format::Messages,
            None if in_tools(b"\"function\"") => Format::Chat,
            None if says(b"tool") || matches!(first, b"system" | b"developer") => Format::Chat,
            None if self.other("thinking").is_some() => Format::Messages,
            // Behind a gateway, a model is named `anthropic/claude-…` and called in the gateway's format.
            None if model.contains("claude") && !model.contains('/') => Format::Messages,
            None => Format::Chat,
        }
    }
}

/// Computes fingerprints of a prompt's messages, each from the longest string of the message.
fn fingerprints(prompt: &Prompt) -> Vec<u64> {
    let nodes = prompt.nodes();
    let messages = nodes.iter().filter(|node| node.level == Level::Message);
    let fingerprints = messages.filter_map(|node| {
        let mut scanner = Scanner::new(&node.bytes);
        pass_words(&mut scanner, 0).ok()?;
        piece::fingerprint(scanner.take_longest())
    });
    fingerprints.collect()
}

/// Scans a message for strings. Skips roles and types, which do not distinguish messages.
fn pass_words(scanner: &mut Scanner<'_>, depth: u32) -> JsonResult<()> {
    const MAX_DEPTH: u32 = 2;
    if scanner.peek() != Some(b'{') {
        return scanner.value().map(drop);
    }
    scanner.members(|name, scanner| match (name, scanner.peek()) {
        (b"role" | b"type", Some(b'"')) => scanner.string().map(drop),
        (b"content", Some(b'[')) if depth < MAX_DEPTH => {
            scanner.elements(|scanner| pass_words(scanner, depth + 1))
        }
        _ => scanner.value().map(drop),
    })
}

/// Parses the pieces of a list, or the single piece of a string.
fn pieces<'a>(
    scanner: &mut Scanner<'a>,
    text: &'a [u8],
    whole: bool,
) -> JsonResult<Vec<Piece<'a>>> {
    let mut pieces = Vec::new();
    if scanner.peek() == Some(b'[') {
        scanner.elements(|scanner| {
            pieces.push(Piece::read(scanner, text, whole)?);
            Ok(())
        })?;
    } else {
        pieces.push(Piece::read(scanner, text, whole)?);
    }
    Ok(pieces)
}

/// Returns the format of a member that only one of the two formats with `messages` has.
fn format_of_member(name: &[u8]) -> Option<Format> {
    match name {
        b"anthropic_version" | b"anthropic_beta" | b"stop_sequences" | b"output_config"
        | b"mcp_servers" => Some(Format::Messages),
        b"max_completion_tokens"
        | b"stream_options"
        | b"response_format"
        | b"n"
        | b"presence_penalty"
        | b"frequency_penalty"
        | b"reasoning_effort"
        | b"logprobs"
        | b"prompt_cache_key"
        | b"parallel_tool_calls"
        | b"stop" => Some(Format::Chat),
        _ => None,
    }
}

fn tail(others: &[(&[u8], &[u8])]) -> Bytes {
    let length: usize = others
        .iter()
        .map(|(name, value)| name.len() + value.len() + 4)
        .sum();
    let mut tail = Vec::with_capacity(length + 1);
    for (name, value) in others {
        tail.extend_from_slice(b",\"");
        tail.extend_from_slice(name);
        tail.extend_from_slice(b"\":");
        tail.extend_from_slice(value);
    }
    tail.push(b'}');
    tail.into()
}

/// A prompt under construction.
#[derive(Default)]
struct Chain {
    prompt: Prompt,
    markers: Vec<Marker>,
    /// The last piece that may carry a marker.
    markable: Option<u32>,
}

impl Chain {
    fn extend(&mut self, level: Level, pieces: Vec<Piece<'_>>) {
        for piece in pieces {
            let node = u32::try_from(self.prompt.len()).unwrap_or(u32::MAX);
            let markers = piece.markers.iter();
            self.markers
                .extend(markers.map(|&(time, place)| Marker { node, time, place }));
            let bytes: Cow<'_, [u8]> = piece.bytes;
            self.prompt = self.prompt.with(level, &bytes, piece.mark_at, None);
            if piece.mark_at.is_some() {
                self.markable = Some(node);
            }
        }
    }
}
