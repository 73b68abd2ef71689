//! The parts of a request body of any client: model, tools, system text, messages, parameters and cache markers.
//!
//! The parts are the bytes of the body, without cache markers. A string in place of a list (`system`, `instructions`
//! or `input`) is one piece. Leading messages with the role `system` or `developer` belong to the system text, as in
//! our own prompts.

mod given_tools;
mod piece;

use std::fmt;

use cachalot_core::json::{JsonError, JsonResult, Scanner};

use crate::registry::{for_format, format_of_member};
use crate::{Format, MarkerTime};

pub use given_tools::{given_tools, is_tool_search};
pub use piece::{MarkerPlace, Piece, ViewPiece};

/// The reason why a text is not a request. Contains no part of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ViewError {
    /// It is not UTF-8.
    NotText {
        /// The first byte that does not belong to a character.
        at: usize,
    },
    /// It is not JSON.
    NotJson {
        /// The byte where it stops being JSON.
        at: usize,
        /// The reason.
        reason: &'static str,
    },
    /// It is JSON, but not the body of a request to a model.
    NotARequest(&'static str),
}

impl fmt::Display for ViewError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotText { at } => {
                write!(f, "it is not UTF-8: the text breaks off at byte {at}")
            }
            Self::NotJson { at, reason } => write!(f, "it is not JSON: {reason} at byte {at}"),
            Self::NotARequest(reason) => write!(f, "it is no request: {reason}"),
        }
    }
}

impl std::error::Error for ViewError {}

impl From<JsonError> for ViewError {
    fn from(malformed: JsonError) -> Self {
        Self::NotJson {
            at: malformed.at,
            reason: malformed.reason,
        }
    }
}

/// The parts of a request body, in the order in which providers hash them: tools, system text, messages.
#[derive(Debug)]
#[non_exhaustive]
pub struct View<'a, P = Piece<'a>> {
    /// The format.
    pub format: Format,
    /// The model; empty if the body names none.
    pub model: String,
    /// The tools of the member `tools`.
    pub tools: Vec<P>,
    /// The system text.
    pub system: Vec<P>,
    /// The other messages, or items.
    pub messages: Vec<P>,
    /// All other members, as written: names and values.
    pub members: Vec<(&'a [u8], &'a [u8])>,
    /// The lifetime of a marker on the whole request, which applies to the last piece.
    pub automatic: Option<MarkerTime>,
}

impl<'a> View<'a> {
    /// Parses a body. The format is recognized by its members.
    ///
    /// Takes time and memory proportional to the body, and constant stack for any nesting. The content of strings is
    /// not checked.
    ///
    /// # Errors
    /// The body is not JSON, or not a request in one of these formats.
    pub fn read(body: &'a [u8]) -> Result<Self, ViewError> {
        let text = std::str::from_utf8(body).map_err(|error| ViewError::NotText {
            at: error.valid_up_to(),
        })?;
        Body::read(text.as_bytes())?.into_view()
    }
}

impl<'a, P: ViewPiece<'a>> View<'a, P> {
    /// Creates a view of a body that was split by its members before: the names of these, as written, with their values.
    /// The body is a JSON object in UTF-8.
    ///
    /// # Errors
    /// It is no request in one of the formats, or has a list of pieces that is none of a request.
    pub fn of_parts(
        parts: impl Iterator<Item = (&'a [u8], MemberPart<'a, P>)>,
    ) -> Result<Self, ViewError> {
        let mut body = Body::new();
        for (name, part) in parts {
            match part {
                MemberPart::Text(text) => body.member(name, &mut Scanner::new(text), text)?,
                MemberPart::List(pieces) => match body.list(name, Some(b'[')) {
                    Some(list) => body.put(list, pieces),
                    None => return Err(ViewError::NotARequest("a list is none of a request")),
                },
            }
        }
        body.into_view()
    }
}

/// The value of a member of a body that was split.
#[derive(Debug)]
pub enum MemberPart<'a, P> {
    /// The value, as written.
    Text(&'a [u8]),
    /// The items of a list of objects.
    List(Vec<P>),
}

/// A list of pieces of a body, and the format in which it has that place.
#[derive(Clone, Copy)]
enum PieceLists {
    Tools,
    System(Option<Format>),
    Messages,
    Input,
}

impl PieceLists {
    /// True if a marker is inserted into an item itself.
    fn has_whole_items(self) -> bool {
        matches!(self, Self::Tools | Self::System(_))
    }
}

/// The members of a body.
struct Body<'a, P> {
    tools: Vec<P>,
    system: Vec<P>,
    messages: Option<Vec<P>>,
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

impl<'a> Body<'a, Piece<'a>> {
    fn read(text: &'a [u8]) -> Result<Self, ViewError> {
        let mut scanner = Scanner::new(text);
        if scanner.peek() != Some(b'{') {
            scanner.value()?;
            return Err(ViewError::NotARequest("it is no JSON object"));
        }
        let mut body = Self::new();
        scanner.members(|name, scanner| body.member(name, scanner, text))?;
        scanner.end()?;
        Ok(body)
    }
}

impl<'a, P: ViewPiece<'a>> Body<'a, P> {
    fn new() -> Self {
        Self {
            tools: Vec::new(),
            system: Vec::new(),
            messages: None,
            input: false,
            format: None,
            is_converse: false,
            others: Vec::new(),
            automatic: None,
        }
    }

    /// Returns the list that a member is; `first` is the first byte of its value.
    fn list(&self, name: &[u8], first: Option<u8>) -> Option<PieceLists> {
        match name {
            b"tools" if first == Some(b'[') => Some(PieceLists::Tools),
            b"system" if matches!(first, Some(b'[' | b'"')) => {
                Some(PieceLists::System(Some(Format::Messages)))
            }
            b"instructions" if first == Some(b'"') => Some(PieceLists::System(self.format)),
            b"system_instruction" if first == Some(b'"') => {
                let format = self.format.or(format_of_member(name));
                Some(PieceLists::System(format))
            }
            b"messages" if first == Some(b'[') => Some(PieceLists::Messages),
            b"input" if matches!(first, Some(b'[' | b'"' | b'{')) && self.messages.is_none() => {
                Some(PieceLists::Input)
            }
            _ => None,
        }
    }

    fn put(&mut self, list: PieceLists, pieces: Vec<P>) {
        match list {
            PieceLists::Tools => self.tools = pieces,
            PieceLists::System(format) => (self.format, self.system) = (format, pieces),
            PieceLists::Messages => (self.input, self.messages) = (false, Some(pieces)),
            PieceLists::Input => (self.input, self.messages) = (true, Some(pieces)),
        }
    }

    fn member(
        &mut self,
        name: &'a [u8],
        scanner: &mut Scanner<'a>,
        text: &'a [u8],
    ) -> JsonResult<()> {
        let first = scanner.peek();
        if let Some(list) = self.list(name, first) {
            let pieces = pieces(scanner, text, list.has_whole_items())?;
            self.put(list, pieces.into_iter().map(P::from).collect());
            return Ok(());
        }
        match name {
            b"cache_control" if first == Some(b'{') => {
                self.format = Some(Format::Messages);
                self.automatic = Some(piece::lifetime(scanner.value()?));
            }
            _ => match format_of_member(name) {
                Some(Format::Converse) => {
                    self.is_converse = true;
                    scanner.value()?;
                }
                found => {
                    self.format = self.format.or(found);
                    self.others.push((name, scanner.value()?));
                }
            },
        }
        Ok(())
    }

    fn other(&self, name: &str) -> Option<&'a [u8]> {
        // Of two members with one name, parsers take the last one.
        let found = self.others.iter().rev();
        let mut found = found.filter(|(other, _)| *other == name.as_bytes());
        found.next().map(|(_, value)| *value)
    }

    fn model(&self) -> String {
        let model = self.other("model").unwrap_or_default();
        serde_json::from_slice(model).unwrap_or_default()
    }

    fn into_view(mut self) -> Result<View<'a, P>, ViewError> {
        let model = self.model();
        if self.is_converse {
            return Err(ViewError::NotARequest(
                "it is in the format of Bedrock's Converse, which is not read",
            ));
        }
        let Some(mut messages) = self.messages.take() else {
            return Err(ViewError::NotARequest(
                "it has neither `messages` nor `input`",
            ));
        };
        let embedding = self.other("dimensions").or(self.other("encoding_format"));
        if self.input && (embedding.is_some() || model.contains("embed")) {
            return Err(ViewError::NotARequest("it asks for embeddings"));
        }
        let format = self.format(&messages, &model);
        let rules = for_format(format).request_rules();
        if rules.system_in_messages {
            let is_system = |piece: &P| matches!(piece.role(), b"system" | b"developer");
            let leading = messages.iter().take_while(|piece| is_system(piece)).count();
            self.system.extend(messages.drain(..leading));
        }
        if rules.has_system_blocks {
            messages = messages.into_iter().map(P::into_list).collect();
        }
        Ok(View {
            format,
            model,
            tools: self.tools,
            system: self.system,
            messages,
            members: self.others,
            automatic: self.automatic,
        })
    }

    /// Returns the format of a body with `input`.
    fn input_format(&self, messages: &[P]) -> Format {
        let has_input = |format: &Format| for_format(*format).layout().messages.name == "input";
        let is_step = |piece: &P| {
            let mut types = STEPS.iter();
            piece.role().is_empty() && types.any(|kind| piece.contains(kind))
        };
        match self.format.filter(has_input) {
            Some(format) => format,
            None if messages.iter().any(is_step) => Format::Interactions,
            None => Format::Responses,
        }
    }

    fn format(&self, messages: &[P], model: &str) -> Format {
        if self.input {
            return self.input_format(messages);
        }
        let in_tools = |what: &[u8]| {
            let mut tools = self.tools.iter();
            tools.any(|tool| tool.contains(what))
        };
        let says = |role: &[u8]| messages.iter().any(|message| message.role() == role);
        let first = messages.first().map_or(&b""[..], ViewPiece::role);
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

/// Types of steps by which a body with `input` is one of Interactions.
const STEPS: [&[u8]; 3] = [
    b"\"user_input\"",
    b"\"model_output\"",
    b"\"function_result\"",
];

/// Parses the pieces of a list, or the single piece of a string or an object.
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn bodies_with_an_input_are_those_of_responses_unless_they_have_steps() {
        for (body, format, system, messages) in [
            (
                r#"{"model":"g","input":[{"type":"user_input","content":[{"type":"text","text":"a"}]}]}"#,
                Format::Interactions,
                &[] as &[&str],
                1,
            ),
            (
                r#"{"model":"g","system_instruction":"Be brief.","input":"a"}"#,
                Format::Interactions,
                &[r#""Be brief.""#],
                1,
            ),
            (
                r#"{"model":"g","input":{"type":"text","text":"a"},"generation_config":{"seed":1}}"#,
                Format::Interactions,
                &[],
                1,
            ),
            (
                r#"{"model":"g","input":"a","previous_interaction_id":"v1_x"}"#,
                Format::Interactions,
                &[],
                1,
            ),
            (
                r#"{"model":"g","instructions":"Be brief.","input":[{"role":"user","content":"\"user_input\""}]}"#,
                Format::Responses,
                &[r#""Be brief.""#],
                1,
            ),
            (
                r#"{"model":"gemini-3.8-flash","input":"a"}"#,
                Format::Responses,
                &[],
                1,
            ),
        ] {
            let view = View::read(body.as_bytes()).unwrap();
            assert_eq!(view.format, format, "{body}");
            let found: Vec<&str> = view
                .system
                .iter()
                .map(|piece| std::str::from_utf8(&piece.bytes).unwrap())
                .collect();
            assert_eq!(
                (&found[..], view.messages.len()),
                (system, messages),
                "{body}"
            );
        }
    }
}
