//! Request bodies of any client, parsed into chains of pieces.
//!
//! The pieces are the bytes of the body: each tool, each block of the system text, each message (or item) as
//! the client wrote it, without cache markers. A string in place of a list (`system`, `instructions` or
//! `input`) is one piece. Leading messages with the role `system` or `developer` belong to the system text,
//! as in our own prompts. Requests are compared in the form of [`ComparedRequest`], which has the same pieces in
//! their normal form. In the Messages format, a content that is a string is rewritten as the equivalent list
//! with one text: the provider treats both alike, and clients write the list only to mark it. The pieces are
//! in the order in which providers hash them, which may differ from the order in the body.

mod known_piece;
mod normal_forms;
mod request_parts;

use std::hash::Hasher as _;

use bytes::Bytes;
use cachalot_core::json::{JsonResult, Scanner};
use cachalot_model::marker_rules::MarkerStyle;
use cachalot_model::wire::view::{Piece, View};
use cachalot_model::wire::{MarkerTime, for_format};
use cachalot_model::{Format, MarkerRules};

use crate::request_view::RequestView;
pub use cachalot_model::wire::view::{MarkerPlace, ViewError as Error};
use cachalot_prompt::Namespace;
use cachalot_prompt::Session;
use cachalot_prompt::{Level, Prompt};
use cachalot_prompt::{Mark, Plan};
pub use known_piece::KnownPiece;
pub(crate) use normal_forms::NormalForms;
pub(crate) use request_parts::read_parts;
pub use request_parts::{PartItem, RequestPart};

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
    /// For each message, true if its content is a string.
    pub(crate) strings: Vec<bool>,
}

impl Request {
    /// Returns the provider whose caching rules apply, as far as the body reveals it: the format's own
    /// provider, or, where Anthropic's markers are set in a format that has none, a gateway that accepts
    /// them.
    #[must_use]
    pub fn provider(&self) -> &'static str {
        let rules = for_format(self.format).request_rules();
        let own = MarkerRules::find(rules.provider, &self.model, self.format);
        match rules.marking_gateway {
            Some(gateway) if !self.markers.is_empty() && own.style != MarkerStyle::Breakpoints => {
                gateway
            }
            _ => rules.provider,
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
            strings: Vec::new(),
        }
    }
}

/// A request in the form in which its provider compares it with earlier ones: its pieces in their [normal
/// form](cachalot_prompt::normal), without tools whose loading is deferred. Anthropic's search and fetch
/// tools precede the system text, where that provider renders them. Claude Code's billing header is compared without
/// its value.
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
        let pieces = prompt.nodes().into_iter().map(|node| {
            let (bytes, mark_at) = forms.form(format, node);
            let (bytes, mark_at) = without_billing(format, node.level, (bytes, mark_at));
            let place = PiecePlace::new(format, node.level, &bytes);
            (place, (bytes, mark_at))
        });
        let mut compared = Prompt::default();
        let arranged = arrange(pieces.collect());
        for (level, _, (bytes, mark_at)) in &arranged {
            compared = compared.with(*level, bytes, *mark_at, None);
        }
        Self {
            plan: moved(plan, arranged.iter().map(|(_, before, _)| *before)),
            prompt: compared,
        }
    }
}

/// The place of a piece in the compared form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PiecePlace {
    /// None: it is loaded later.
    Nowhere,
    /// A tool.
    Tool,
    /// Behind the tools, and before the system text.
    WebTool,
    /// Behind these.
    Other(Level),
}

impl PiecePlace {
    /// Returns the place of a piece in its normal form.
    fn new(format: Format, level: Level, normal: &[u8]) -> Self {
        let web_apart = for_format(format).request_rules().renders_web_tools_apart;
        match level {
            Level::Tool if is_deferred(normal) => Self::Nowhere,
            Level::Tool if web_apart && is_web_tool(normal) => Self::WebTool,
            Level::Tool => Self::Tool,
            level => Self::Other(level),
        }
    }
}

/// Arranges pieces, which are in the order of the request: returns them with their levels and their places in the
/// request.
fn arrange<T>(pieces: Vec<(PiecePlace, T)>) -> Vec<(Level, u32, T)> {
    let (mut tools, mut web_tools, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for ((place, piece), before) in pieces.into_iter().zip(0..) {
        match place {
            PiecePlace::Nowhere => {}
            PiecePlace::Tool => tools.push((Level::Tool, before, piece)),
            PiecePlace::WebTool => web_tools.push((Level::System, before, piece)),
            PiecePlace::Other(level) => others.push((level, before, piece)),
        }
    }
    tools.append(&mut web_tools);
    tools.append(&mut others);
    tools
}

/// Returns the markers of a request for the compared form, whose pieces have these places in the request.
fn moved(plan: &Plan, places: impl Iterator<Item = u32> + Clone) -> Plan {
    // A marker on a tool that is not rendered marks the end of the piece before it.
    let place = |node: u32| {
        let places = places.clone().zip(0..);
        let before = places.filter(|(before, _)| *before <= node);
        before.max_by_key(|(before, _)| *before).map(|(_, at)| at)
    };
    let marks = plan.marks().iter().filter_map(|mark| {
        let node = place(mark.node)?;
        Some(Mark { node, ..*mark })
    });
    Plan::from_marks(marks)
}

/// A piece in its normal form, and the position where a marker may be inserted.
type NormalForm = (Bytes, Option<u32>);

/// Replaces a text that serves billing only.
fn without_billing(format: Format, level: Level, form: NormalForm) -> NormalForm {
    let has_blocks = for_format(format).request_rules().has_system_blocks;
    if level == Level::System && has_blocks && is_billing_text(&form.0) {
        (Bytes::from_static(BILLING_BLOCK), None)
    } else {
        form
    }
}

/// The beginning of a text with which Claude Code begins the system text, up to its varying part. It serves billing
/// only: its `cc_version` differs between conversations and changes when one is compacted.
const BILLING_BEGINNING: &[u8] = br#"{"type":"text","text":"x-anthropic-billing-header:"#;

/// The compared form of that text.
const BILLING_BLOCK: &[u8] = br#"{"type":"text","text":"x-anthropic-billing-header:"}"#;

/// True if a block of the system text has the billing header, and no other line.
fn is_billing_text(block: &[u8]) -> bool {
    block.starts_with(BILLING_BEGINNING) && memchr::memmem::find(block, br"\n").is_none()
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
    let View {
        format,
        model,
        tools,
        system,
        messages,
        members,
        automatic,
        ..
    } = View::read(body)?;
    let tail = tail(&members);
    let strings = messages.iter().map(|piece| piece.content_is_string);
    let strings = strings.collect();
    let namespace = Namespace::of_members(format, &model, &members);
    let mut chain = Chain::default();
    chain.extend(Level::Tool, tools);
    chain.extend(Level::System, system);
    chain.extend(Level::Message, messages);
    if let (Some(time), Some(node)) = (automatic, chain.markable) {
        let place = MarkerPlace::Proper;
        chain.markers.push(Marker { node, time, place });
    }
    let plan = Plan::from_marks(request_parts::proper(&chain.markers));
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
        strings,
    })
}

/// Computes fingerprints of a prompt's messages, each from the longest string of the message.
fn fingerprints(prompt: &Prompt) -> Vec<u64> {
    let nodes = prompt.nodes();
    let messages = nodes.iter().filter(|node| node.level == Level::Message);
    let fingerprints = messages.filter_map(|node| message_fingerprint(&node.bytes));
    fingerprints.collect()
}

fn message_fingerprint(message: &[u8]) -> Option<u64> {
    let mut scanner = Scanner::new(message);
    pass_words(&mut scanner, 0).ok()?;
    fingerprint(scanner.take_longest())
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
            self.prompt = self.prompt.with(level, &piece.bytes, piece.mark_at, None);
            if piece.mark_at.is_some() {
                self.markable = Some(node);
            }
        }
    }
}

/// Fingerprint of a string: equal for equal strings. Of long strings, only the length, both ends and the
/// middle are hashed.
fn fingerprint(string: &[u8]) -> Option<u64> {
    const SAMPLE: usize = 64;
    if string.is_empty() {
        return None;
    }
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write_usize(string.len());
    if string.len() <= 3 * SAMPLE {
        hasher.write(string);
    } else {
        let middle = string.len() / 2;
        hasher.write(&string[..SAMPLE]);
        hasher.write(&string[middle..middle + SAMPLE]);
        hasher.write(&string[string.len() - SAMPLE..]);
    }
    Some(hasher.finish())
}
