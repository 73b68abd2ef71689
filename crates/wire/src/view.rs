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
pub use piece::{MarkerPlace, Piece};

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
pub struct View<'a> {
    /// The format.
    pub format: Format,
    /// The model; empty if the body names none.
    pub model: String,
    /// The tools of the member `tools`.
    pub tools: Vec<Piece<'a>>,
    /// The system text.
    pub system: Vec<Piece<'a>>,
    /// The other messages, or items.
    pub messages: Vec<Piece<'a>>,
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
    fn read(text: &'a [u8]) -> Result<Self, ViewError> {
        let mut scanner = Scanner::new(text);
        if scanner.peek() != Some(b'{') {
            scanner.value()?;
            return Err(ViewError::NotARequest("it is no JSON object"));
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
            b"system_instruction" if first == Some(b'"') => {
                self.format = self.format.or(format_of_member(name));
                self.system = pieces(scanner, text, true)?;
            }
            b"messages" if first == Some(b'[') => {
                self.messages = Some(pieces(scanner, text, false)?);
                self.input = false;
            }
            b"input" if matches!(first, Some(b'[' | b'"' | b'{')) && self.messages.is_none() => {
                self.messages = Some(pieces(scanner, text, false)?);
                self.input = true;
            }
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

    fn into_view(mut self) -> Result<View<'a>, ViewError> {
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
            let is_system = |piece: &Piece<'_>| matches!(piece.role, b"system" | b"developer");
            let leading = messages.iter().take_while(|piece| is_system(piece)).count();
            self.system.extend(messages.drain(..leading));
        }
        if rules.has_system_blocks {
            messages = messages.into_iter().map(Piece::into_list).collect();
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
    fn input_format(&self, messages: &[Piece<'_>]) -> Format {
        let has_input = |format: &Format| for_format(*format).layout().messages.name == "input";
        let is_step = |piece: &Piece<'_>| {
            let mut types = STEPS.iter();
            piece.role.is_empty()
                && types.any(|kind| memchr::memmem::find(&piece.bytes, kind).is_some())
        };
        match self.format.filter(has_input) {
            Some(format) => format,
            None if messages.iter().any(is_step) => Format::Interactions,
            None => Format::Responses,
        }
    }

    fn format(&self, messages: &[Piece<'_>], model: &str) -> Format {
        if self.input {
            return self.input_format(messages);
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
