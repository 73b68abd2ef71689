//! Signatures of requests, errors and event streams of Amazon Bedrock.

use std::collections::BTreeMap;

use axum::http::HeaderMap;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use cachalot_core::Millis;
use cachalot_core::clock::iso8601;
use hmac::{Hmac, KeyInit as _, Mac as _};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::wire::ApiError;

/// The access key whose signatures are accepted.
pub const ACCESS_KEY: &str = "AKIASIMULATED0000000";
/// The secret of the access key.
pub const SECRET_KEY: &str = "simulated/secret/access/key/0000000000000";

/// Maximum difference between the clocks of a client and the server, in milliseconds.
const CLOCK_SKEW: Millis = 300_000;

/// The parts of the header `authorization`.
struct Authorization<'a> {
    /// `DATE/REGION/SERVICE/aws4_request`, after the access key.
    scope: &'a str,
    /// Names of the signed headers, joined by `;`.
    signed: &'a str,
    signature: &'a str,
}

impl<'a> Authorization<'a> {
    fn read(text: &'a str) -> Result<Self, ApiError> {
        let incomplete = || {
            let message = "Authorization header requires 'Credential', 'Signature' and 'SignedHeaders' parameters.";
            refusal("IncompleteSignatureException", message)
        };
        let field = |name: &str| {
            let mut fields = text.split(',').filter_map(|field| field.split_once('='));
            let found = fields.find(|(key, _)| key.trim() == name);
            found.map(|(_, value)| value).ok_or_else(incomplete)
        };
        let (access_key, scope) = field("Credential")?
            .split_once('/')
            .ok_or_else(incomplete)?;
        if access_key != ACCESS_KEY {
            let message = "The security token included in the request is invalid.";
            return Err(refusal("UnrecognizedClientException", message));
        }
        Ok(Self {
            scope,
            signed: field("SignedHeaders")?,
            signature: field("Signature")?,
        })
    }
}

/// Checks the signature (version 4) of a `POST` request to Bedrock.
pub(crate) fn check_signature(
    path: &str,
    query: &str,
    headers: &HeaderMap,
    body: &[u8],
    now: Millis,
) -> Result<(), ApiError> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let invalid = |message: &str| Err(refusal("InvalidSignatureException", message));
    let algorithm = "AWS4-HMAC-SHA256 ";
    let Some(text) = header("authorization").and_then(|value| value.strip_prefix(algorithm)) else {
        let message = "Missing Authentication Token";
        return Err(refusal("MissingAuthenticationTokenException", message));
    };
    let Authorization {
        scope,
        signed,
        signature,
    } = Authorization::read(text)?;
    let parts: Vec<&str> = scope.split('/').collect();
    let [date, _, "bedrock", "aws4_request"] = parts[..] else {
        return invalid("Credential should be scoped to correct service: 'bedrock'.");
    };
    let time = header("x-amz-date").unwrap_or_default();
    if !time.starts_with(date) || time.len() != 16 {
        return invalid("Date in Credential scope does not match the date of the request.");
    }
    // Times in this form sort like their texts.
    if time < stamp(now - CLOCK_SKEW).as_str() || time > stamp(now + CLOCK_SKEW).as_str() {
        return invalid(&format!(
            "Signature expired: {time} is not within 5 minutes of {}",
            stamp(now)
        ));
    }
    let values: BTreeMap<&str, String> = signed
        .split(';')
        .map(|name| {
            let values = headers.get_all(name).iter();
            let values = values.filter_map(|value| Some(value.to_str().ok()?.trim()));
            (name, values.collect::<Vec<_>>().join(","))
        })
        .collect();
    let needed = ["host", "x-amz-date", "x-amz-security-token"];
    let is_unsigned = |name: &&str| headers.contains_key(*name) && !values.contains_key(name);
    if let Some(name) = needed.iter().find(|name| is_unsigned(name)) {
        return invalid(&format!("'{name}' must be a 'SignedHeader'."));
    }
    let lines: String = values
        .iter()
        .map(|(name, value)| format!("{name}:{value}\n"))
        .collect();
    let path = double_encoded(path);
    let canonical = format!("POST\n{path}\n{query}\n{lines}\n{signed}\n{}", digest(body));
    let to_sign = format!(
        "AWS4-HMAC-SHA256\n{time}\n{scope}\n{}",
        digest(canonical.as_bytes())
    );
    let secret = format!("AWS4{SECRET_KEY}").into_bytes();
    let key = parts.iter().fold(secret, |key, part| mac(&key, part));
    if hex::encode(mac(&key, &to_sign)) == signature {
        Ok(())
    } else {
        invalid(
            "The request signature we calculated does not match the signature you provided. Check your AWS Secret Access Key and signing method. Consult the service documentation for details.",
        )
    }
}

fn refusal(code: &'static str, message: &str) -> ApiError {
    ApiError::with_status(403, message).code(code)
}

/// Formats a time as in `x-amz-date`: `20261121T024200Z`.
fn stamp(at: Millis) -> String {
    let text = iso8601(at);
    let seconds = text.chars().filter(char::is_ascii_alphanumeric).take(15);
    seconds.chain(['Z']).collect()
}

/// Percent-encodes the path, as it was sent, once more.
fn double_encoded(path: &str) -> String {
    const UNESCAPED: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~')
        .remove(b'/');
    utf8_percent_encode(path, UNESCAPED).to_string()
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}

fn mac(key: &[u8], text: &str) -> Vec<u8> {
    // A key may have any length.
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(key) else {
        return Vec::new();
    };
    mac.update(text.as_bytes());
    mac.finalize().into_bytes().to_vec()
}

/// The value of `x-amzn-errortype`.
pub(crate) fn error_type(refusal: &ApiError) -> &'static str {
    match refusal.status {
        // For other statuses, the code is that of the model's own API.
        403 => refusal.code.unwrap_or("AccessDeniedException"),
        401 => "UnrecognizedClientException",
        404 => "ResourceNotFoundException",
        408 => "ModelTimeoutException",
        424 => "ModelErrorException",
        429 => "ThrottlingException",
        503 | 529 => "ServiceUnavailableException",
        500.. => "InternalServerException",
        _ => "ValidationException",
    }
}

/// The content type of an event stream.
pub(crate) const EVENT_STREAM: &str = "application/vnd.amazon.eventstream";

/// Converts a server-sent event into a frame of an event stream: a chunk that wraps the data, or an
/// exception.
pub(crate) fn frame(event: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(event);
    let data = text.lines().find_map(|line| line.strip_prefix("data: "));
    let data = data.unwrap_or_default();
    if text.starts_with("event: error") {
        let error: Value = serde_json::from_str(data).unwrap_or_default();
        let payload = json!({"message": error["error"]["message"]});
        let headers = [
            (":exception-type", "internalServerException"),
            (":content-type", "application/json"),
            (":message-type", "exception"),
        ];
        return message(&headers, &payload.to_string());
    }
    let headers = [
        (":event-type", "chunk"),
        (":content-type", "application/json"),
        (":message-type", "event"),
    ];
    message(
        &headers,
        &json!({"bytes": STANDARD.encode(data), "p": "abcdefgh"}).to_string(),
    )
}

/// Converts a server-sent event into a message: an event of its name, or an exception.
pub(crate) fn event(event: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(event);
    let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name));
    let name = field("event: ").unwrap_or_default();
    let (kind, named) = if name.ends_with("Exception") {
        ("exception", ":exception-type")
    } else {
        ("event", ":event-type")
    };
    let headers = [
        (named, name),
        (":content-type", "application/json"),
        (":message-type", kind),
    ];
    message(&headers, field("data: ").unwrap_or_default())
}

/// Renders a message: lengths, their checksum, headers, payload, checksum of the whole.
fn message(headers: &[(&str, &str)], payload: &str) -> Bytes {
    /// The header type of texts.
    const TEXT: u8 = 7;
    let mut head = Vec::new();
    for (name, value) in headers {
        head.push(u8::try_from(name.len()).unwrap_or_default());
        head.extend_from_slice(name.as_bytes());
        head.push(TEXT);
        let length = u16::try_from(value.len()).unwrap_or_default();
        head.extend_from_slice(&length.to_be_bytes());
        head.extend_from_slice(value.as_bytes());
    }
    let size = |length: usize| u32::try_from(length).unwrap_or_default().to_be_bytes();
    let mut frame = Vec::new();
    frame.extend_from_slice(&size(16 + head.len() + payload.len()));
    frame.extend_from_slice(&size(head.len()));
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.extend_from_slice(&head);
    frame.extend_from_slice(payload.as_bytes());
    frame.extend_from_slice(&crc32fast::hash(&frame).to_be_bytes());
    frame.into()
}
