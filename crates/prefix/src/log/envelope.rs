//! Parsing of a log line: the envelope around a request.

use cachalot_core::Millis;
use cachalot_core::json::{JsonResult, OBJECT, Scanner};
use cachalot_model::{ComparisonParameter, wire};
use serde_json::Value;

use super::answer::Answer;
use super::{LoggedRequest, Reason};
use crate::request::{self, NormalForms};
use crate::timestamp;

/// Maximum nesting of a body: in an envelope within an envelope.
const MAX_DEPTH: u32 = 2;

/// The members of an envelope, as written.
#[derive(Clone, Copy, Default)]
struct Envelope<'a> {
    request: Option<&'a [u8]>,
    response: Option<&'a [u8]>,
    usage: Option<&'a [u8]>,
    at: Option<&'a [u8]>,
    session: Option<&'a [u8]>,
    metadata: Option<&'a [u8]>,
}

impl<'a> Envelope<'a> {
    /// Parses an object; returns `None` as soon as it turns out to be a request itself.
    fn read(text: &'a [u8]) -> JsonResult<Option<Self>> {
        let mut found = Self::default();
        let mut scanner = Scanner::new(text);
        let mut more = scanner.open(&OBJECT)?;
        while more {
            let name = scanner.name()?;
            if matches!(name, b"messages" | b"input") {
                return Ok(None);
            }
            found.member(name, scanner.value()?);
            more = scanner.more(&OBJECT)?;
        }
        scanner.end()?;
        Ok(Some(found))
    }

    fn member(&mut self, name: &[u8], value: &'a [u8]) {
        let place = match name {
            b"request" | b"body" => &mut self.request,
            // A request of Anthropic's batch API. Elsewhere `params` may be anything, so the other names take
            // precedence.
            b"params" if self.request.is_none() => &mut self.request,
            b"response" => &mut self.response,
            b"usage" => &mut self.usage,
            b"timestamp" | b"time" | b"at" | b"ts" | b"created" => &mut self.at,
            b"session" | b"session_id" | b"conversation_id" => &mut self.session,
            b"metadata" => &mut self.metadata,
            _ => return,
        };
        *place = Some(value);
    }

    /// Returns these members, completed from `inner`. `request` is always that of `inner`.
    fn or(self, inner: Self) -> Self {
        Self {
            request: inner.request,
            response: self.response.or(inner.response),
            usage: self.usage.or(inner.usage),
            at: self.at.or(inner.at),
            session: self.session.or(inner.session),
            metadata: self.metadata.or(inner.metadata),
        }
    }
}

/// Parses a line.
pub(super) fn read(forms: &mut NormalForms, line: &[u8]) -> Result<LoggedRequest, Reason> {
    read_within(forms, line, Envelope::default(), MAX_DEPTH)
}

/// Parses the body of a request, with no envelope around it.
pub(super) fn read_body(forms: &mut NormalForms, body: &[u8]) -> Result<LoggedRequest, Reason> {
    read_request(forms, body, Envelope::default())
}

fn read_within(
    forms: &mut NormalForms,
    text: &[u8],
    around: Envelope<'_>,
    depth: u32,
) -> Result<LoggedRequest, Reason> {
    let begins_as_object = text.trim_ascii_start().first() == Some(&b'{');
    let envelope = if begins_as_object {
        Envelope::read(text)?
    } else {
        None
    };
    let Some(envelope) = envelope else {
        return read_request(forms, text, around);
    };
    let envelope = around.or(envelope);
    match envelope.request {
        Some(quoted) if quoted.first() == Some(&b'"') && depth > 0 => {
            let text = text_of(quoted).unwrap_or_default();
            read_within(forms, text.as_bytes(), envelope, depth - 1)
        }
        Some(object) if depth > 0 => read_within(forms, object, envelope, depth - 1),
        _ => Err(request::Error::NotARequest("it has neither `messages` nor `input`").into()),
    }
}

fn read_request(
    forms: &mut NormalForms,
    body: &[u8],
    around: Envelope<'_>,
) -> Result<LoggedRequest, Reason> {
    logged(request::read_with(forms, body)?, around)
}

/// Returns the request of a body that was split before.
pub(super) fn read_parts(
    parts: &[(&[u8], request::RequestPart<'_>)],
) -> Result<LoggedRequest, Reason> {
    logged(request::read_parts(parts)?, Envelope::default())
}

fn logged(request: request::Request, around: Envelope<'_>) -> Result<LoggedRequest, Reason> {
    // The body may contain its session among its other members.
    let mut within = Envelope::default();
    let mut compared_with = None;
    let mut members = request.tail.to_vec();
    if let Some(comma) = members.first_mut().filter(|first| **first == b',') {
        *comma = b'{';
        Scanner::new(&members).members(|name, scanner| {
            let raw = scanner.value()?;
            within.member(name, raw);
            let text = std::str::from_utf8(name).unwrap_or_default();
            if ComparisonParameter::is_member(text) {
                let id =
                    value(raw).and_then(|value| ComparisonParameter::previous_id(text, &value));
                compared_with = id.or(compared_with.take());
            }
            Ok(())
        })?;
    }
    let Envelope {
        request: _,
        response,
        usage,
        at,
        session,
        metadata,
    } = around.or(within);
    let answer = response.map(Answer::read).unwrap_or_default();
    let reported = answer.usage.or_else(|| usage.and_then(value));
    Ok(LoggedRequest {
        line: 0,
        tenant: None,
        at: at.and_then(moment_of),
        session: session
            .and_then(text_of)
            .or_else(|| metadata.and_then(session_of)),
        failed: answer.failed && reported.is_none(),
        is_summarized: false,
        usage: reported.and_then(|usage| wire::usage(request.format, &usage)),
        answer: answer.id,
        verdict: answer.verdict.filter(|_| compared_with.is_some()),
        compared_with,
        request,
    })
}

fn value(raw: &[u8]) -> Option<Value> {
    serde_json::from_slice(raw).ok()
}

/// Returns a string or a number as text.
fn text_of(raw: &[u8]) -> Option<String> {
    match value(raw)? {
        Value::String(text) => Some(text).filter(|text| !text.is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

fn moment_of(raw: &[u8]) -> Option<Millis> {
    match value(raw)? {
        Value::Number(number) => timestamp::from_number(number.as_f64()?),
        Value::String(text) => timestamp::parse(&text),
        _ => None,
    }
}

/// Extracts the session from a user ID, in the forms that Claude Code uses: `user_…_session_…`, or the text of an object
/// with `session_id`.
fn session_of(metadata: &[u8]) -> Option<String> {
    let metadata = value(metadata)?;
    let user = metadata.get("user_id").and_then(Value::as_str)?;
    if let Ok(Value::Object(user)) = serde_json::from_str(user) {
        return user.get("session_id")?.as_str().map(str::to_owned);
    }
    let (_, session) = user.split_once("session_")?;
    Some(session.to_owned())
}
