//! Canonical bytes of everything that can change a result.
//!
//! The encoding is injective: every value is a type tag followed by a length-delimited body, or by items up
//! to an end tag. Object keys are sorted by their bytes. Numbers from text keep their lexeme (`1`, `1.0` and
//! `1e0` are three different inputs, because the receiver may treat them differently). Numbers from values
//! are exact if they are integers, and in shortest form if they are floats.
//!
//! | tag | value |
//! |---|---|
//! | `n` `t` `f` | null, true, false |
//! | `d` len bytes | number: its lexeme |
//! | `s` len bytes | string: its UTF-8 bytes, unescaped |
//! | `x` pieces `e` | string that holds secrets: `s` pieces as they are, `h` pieces as keyed digests |
//! | `y` pieces `e` | number whose lexeme holds secrets: the same |
//! | `[` items `e` | array |
//! | `{` (string value)* `e` | object, sorted by the bytes of the keys |
//!
//! `len` is LEB128.

use std::borrow::Cow;
use std::cell::Cell;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Number, Value};

use crate::Digest;
use crate::json::JsonError;
use crate::secret::{SecretSet, TextPart};

mod assembler;
mod order;
mod shared_value;
mod shown;
mod text;

pub use assembler::Assembler;
pub use order::key_order;
pub use shared_value::SharedValue;

/// Canonical bytes of an input. Equal inputs have equal bytes, different inputs have different bytes.
#[derive(Clone)]
pub struct Canonical {
    parts: Parts,
    holds_secrets: bool,
}

/// The bytes, in one piece or in several.
#[derive(Clone)]
enum Parts {
    One(Bytes),
    /// In order, with their length in bytes.
    Many(Arc<[Part]>, usize),
}

/// A part of canonical bytes. Its ends are ends of values.
#[derive(Clone)]
enum Part {
    /// Any number of tags, keys and values.
    Own(Bytes),
    /// A value that several inputs share.
    Shared(Arc<SharedValue>),
}

impl Part {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(value) => value.as_bytes(),
        }
    }
}

/// The error of a text that has no canonical form. The call that it belongs to bypasses the cache.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {at}")]
pub struct CanonicalError {
    /// A description of the problem.
    pub reason: &'static str,
    /// Byte offset.
    pub at: usize,
}

impl From<JsonError> for CanonicalError {
    fn from(malformed: JsonError) -> Self {
        let JsonError { reason, at } = malformed;
        Self { reason, at }
    }
}

impl Canonical {
    /// Encodes JSON text without building a value tree: numbers keep their lexemes.
    ///
    /// # Errors
    /// Text that is not JSON, duplicate keys, lone surrogates, nesting deeper than 128.
    pub fn json(text: &[u8]) -> Result<Self, CanonicalError> {
        Self::json_without(text, &[])
    }

    /// Encodes like [`Canonical::json`], without the members of the outermost object that are named in `omitted`.
    ///
    /// # Errors
    /// As [`Canonical::json`]; a repeated member is an error even if it is omitted.
    pub fn json_without(text: &[u8], omitted: &[&str]) -> Result<Self, CanonicalError> {
        text::encode(text, omitted).map(Self::of_bytes)
    }

    /// Encodes the JSON value that a text begins with, as [`Canonical::json`] does; returns the number of bytes of the
    /// value, too. `depth` is the number of objects and arrays around it.
    ///
    /// # Errors
    /// As [`Canonical::json`], of this value.
    pub fn json_value(text: &[u8], depth: u32) -> Result<(Self, usize), CanonicalError> {
        let (bytes, length) = text::encode_value(text, depth)?;
        Ok((Self::of_bytes(bytes), length))
    }

    /// Encodes an in-memory value: 64-bit integers exactly, floats in shortest form. Equal values give equal
    /// bytes; `1` and `1.0` do not, nor do `0.0` and `-0.0`.
    #[must_use]
    pub fn value(value: &Value) -> Self {
        let mut out = Vec::with_capacity(256);
        encode_value(value, None, &mut out);
        Self::of_bytes(out)
    }

    fn of_bytes(bytes: Vec<u8>) -> Self {
        Self {
            parts: Parts::One(bytes.into()),
            holds_secrets: false,
        }
    }

    /// Encodes like [`Canonical::value`], with every known secret replaced by its keyed digest.
    #[must_use]
    pub fn sealed(value: &Value, secret_set: &SecretSet) -> Self {
        let mut out = Vec::with_capacity(256);
        if secret_set.is_empty() {
            encode_value(value, None, &mut out);
            return Self::of_bytes(out);
        }
        let holds_secrets = Cell::new(false);
        encode_value(
            value,
            Some(&Sealing {
                secret_set,
                found: &holds_secrets,
            }),
            &mut out,
        );
        Self {
            holds_secrets: holds_secrets.get(),
            ..Self::of_bytes(out)
        }
    }

    /// True if the input contains a secret, as its keyed digest.
    #[must_use]
    pub fn holds_secrets(&self) -> bool {
        self.holds_secrets
    }

    /// The bytes; copied if they are in several parts.
    #[must_use]
    pub fn as_bytes(&self) -> Cow<'_, [u8]> {
        match &self.parts {
            Parts::One(bytes) => Cow::Borrowed(bytes),
            Parts::Many(parts, length) => {
                let mut bytes = Vec::with_capacity(*length);
                parts
                    .iter()
                    .for_each(|part| bytes.extend_from_slice(part.bytes()));
                Cow::Owned(bytes)
            }
        }
    }

    /// The parts of the bytes, in order.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let (one, many) = match &self.parts {
            Parts::One(bytes) => (Some(bytes.as_ref()), None),
            Parts::Many(parts, _) => (None, Some(parts.iter().map(Part::bytes))),
        };
        one.into_iter().chain(many.into_iter().flatten())
    }

    /// The number of bytes.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "no canonical form is empty")]
    pub fn len(&self) -> usize {
        match &self.parts {
            Parts::One(bytes) => bytes.len(),
            Parts::Many(_, length) => *length,
        }
    }

    /// Returns the SHA-256 digest of the bytes.
    #[must_use]
    pub fn digest(&self) -> Digest {
        Digest::sha256_of_chunks(self.chunks())
    }

    /// Decodes the input to a value for display: secrets are masked, and a number that no 64-bit value
    /// represents exactly becomes a string with its lexeme.
    #[must_use]
    pub fn readable(&self) -> Value {
        let bytes = self.as_bytes();
        let mut rest = &bytes[..];
        decode(&mut rest).unwrap_or(Value::Null)
    }

    /// Returns the input as JSON for display, like [`Canonical::readable`], with known secrets and credentials masked
    /// ([`redact_value`](crate::secret::redact_value)), and with long texts cut: of more than 2,000 bytes, the beginning
    /// is shown, the length, and a digest by which two texts can be distinguished. `None` if that is longer than
    /// `maximum` bytes.
    #[must_use]
    pub fn shown(&self, secret_set: &crate::SecretSet, maximum: usize) -> Option<String> {
        shown::show(self, secret_set, maximum)
    }
}

impl PartialEq for Canonical {
    fn eq(&self, other: &Self) -> bool {
        self.holds_secrets == other.holds_secrets
            && self.len() == other.len()
            && self.as_bytes() == other.as_bytes()
    }
}

impl Eq for Canonical {}

impl Hash for Canonical {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_bytes().hash(state);
        self.holds_secrets.hash(state);
    }
}

impl std::fmt::Debug for Canonical {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Canonical({} bytes, {})", self.len(), self.digest())
    }
}

/// Encodes an object field by field, in the order of the fields' names. The bytes are those of
/// [`Canonical::sealed`] for the whole object, which need not exist.
pub struct ObjectEncoder<'a> {
    out: Assembler,
    /// `None` if there are no secrets.
    secret_set: Option<&'a SecretSet>,
    holds_secrets: Cell<bool>,
}

impl<'a> ObjectEncoder<'a> {
    /// Creates an encoder that replaces every known secret by its keyed digest.
    #[must_use]
    pub fn sealed(secret_set: &'a SecretSet) -> Self {
        let mut out = Assembler::new();
        out.open_object();
        Self {
            out,
            secret_set: (!secret_set.is_empty()).then_some(secret_set),
            holds_secrets: Cell::new(false),
        }
    }

    /// Adds a field. Its name must come after those of the fields before it.
    pub fn field(&mut self, name: &str, value: &Value) {
        self.put(name, |sealing, out| encode_value(value, sealing, out));
    }

    /// Adds a field whose value is a text.
    pub fn text(&mut self, name: &str, text: &str) {
        self.put(name, |sealing, out| encode_string(text, sealing, out));
    }

    /// Adds a field whose value is an object of the given fields, which have distinct names in any order.
    pub fn object<'f>(
        &mut self,
        name: &str,
        fields: impl Iterator<Item = (&'f String, &'f Value)> + Clone,
    ) {
        self.put(name, |sealing, out| encode_fields(fields, sealing, out));
    }

    /// Adds a field whose value is a list; of its objects, the members that `omitted` names are left out.
    pub fn list<'n>(
        &mut self,
        name: &str,
        items: &[Value],
        omitted: impl Fn(&Value) -> Vec<&'n str>,
    ) {
        self.put(name, |sealing, out| {
            out.push(b'[');
            for item in items {
                match item {
                    Value::Object(fields) => {
                        let omitted = omitted(item);
                        let is_kept = |name: &String| !omitted.contains(&name.as_str());
                        let kept = fields.iter().filter(|(name, _)| is_kept(name));
                        encode_fields(kept, sealing, out);
                    }
                    other => encode_value(other, sealing, out),
                }
            }
            out.push(END);
        });
    }

    /// Adds a field whose value is encoded already.
    pub fn canonical(&mut self, name: &str, value: &Canonical) {
        self.put(name, |_, _| {});
        self.out.canonical(value);
    }

    fn put(&mut self, name: &str, value: impl FnOnce(Option<&Sealing<'_>>, &mut Vec<u8>)) {
        let sealing = self.secret_set.map(|secret_set| Sealing {
            secret_set,
            found: &self.holds_secrets,
        });
        encode_string(name, sealing.as_ref(), &mut self.out.own);
        value(sealing.as_ref(), &mut self.out.own);
    }

    /// Returns the whole object.
    #[must_use]
    pub fn finish(mut self) -> Canonical {
        self.out.end();
        let whole = self.out.finish();
        Canonical {
            holds_secrets: whole.holds_secrets || self.holds_secrets.get(),
            ..whole
        }
    }
}

/// The state of sealing while a value is encoded.
struct Sealing<'a> {
    secret_set: &'a SecretSet,
    found: &'a Cell<bool>,
}

const END: u8 = b'e';

fn put_length(mut length: usize, out: &mut Vec<u8>) {
    while length >= 0x80 {
        out.push((length & 0x7f) as u8 | 0x80);
        length >>= 7;
    }
    out.push(length as u8);
}

fn put_delimited(tag: u8, body: &[u8], out: &mut Vec<u8>) {
    out.push(tag);
    put_length(body.len(), out);
    out.extend_from_slice(body);
}

fn encode_value(value: &Value, sealing: Option<&Sealing<'_>>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(b'n'),
        Value::Bool(true) => out.push(b't'),
        Value::Bool(false) => out.push(b'f'),
        Value::Number(number) => encode_number(number, sealing, out),
        Value::String(text) => encode_string(text, sealing, out),
        Value::Array(items) => {
            out.push(b'[');
            items
                .iter()
                .for_each(|item| encode_value(item, sealing, out));
            out.push(END);
        }
        Value::Object(fields) => encode_fields(fields.iter(), sealing, out),
    }
}

fn encode_number(number: &Number, sealing: Option<&Sealing<'_>>, out: &mut Vec<u8>) {
    with_lexeme(number, |lexeme| {
        if !encode_sealed(b'y', lexeme, sealing, out) {
            put_delimited(b'd', lexeme.as_bytes(), out);
        }
    });
}

/// The lexeme of a number from a value: integers exact, floats in shortest form. It must not change between
/// versions, so it does not depend on the formatting of a JSON library.
fn with_lexeme<T>(number: &Number, read: impl FnOnce(&str) -> T) -> T {
    if let Some(integer) = number.as_i64() {
        read(itoa::Buffer::new().format(integer))
    } else if let Some(integer) = number.as_u64() {
        read(itoa::Buffer::new().format(integer))
    } else if let Some(float) = number.as_f64() {
        read(ryu::Buffer::new().format(float))
    } else {
        read(&number.to_string())
    }
}

fn encode_string(text: &str, sealing: Option<&Sealing<'_>>, out: &mut Vec<u8>) {
    if !encode_sealed(b'x', text, sealing, out) {
        put_delimited(b's', text.as_bytes(), out);
    }
}

/// Encodes `text` in pieces if it contains secrets; returns true if it did.
fn encode_sealed(tag: u8, text: &str, sealing: Option<&Sealing<'_>>, out: &mut Vec<u8>) -> bool {
    let Some(sealing) = sealing else { return false };
    let Some(pieces) = sealing.secret_set.split(text) else {
        return false;
    };
    sealing.found.set(true);
    out.push(tag);
    for piece in pieces {
        match piece {
            TextPart::Plain(plain) => put_delimited(b's', plain.as_bytes(), out),
            TextPart::Secret(digest) => put_delimited(b'h', digest.as_bytes(), out),
        }
    }
    out.push(END);
    true
}

fn encode_fields<'f>(
    fields: impl Iterator<Item = (&'f String, &'f Value)> + Clone,
    sealing: Option<&Sealing<'_>>,
    out: &mut Vec<u8>,
) {
    out.push(b'{');
    let mut put = |name: &String, field: &Value| {
        encode_string(name, sealing, out);
        encode_value(field, sealing, out);
    };
    if fields.clone().map(|(name, _)| name).is_sorted() {
        fields.for_each(|(name, field)| put(name, field));
    } else {
        let mut sorted: Vec<_> = fields.collect();
        sorted.sort_unstable_by_key(|(name, _)| *name);
        sorted
            .into_iter()
            .for_each(|(name, field)| put(name, field));
    }
    out.push(END);
}

/// Decodes one value at the front of canonical bytes; `None` if they are not canonical.
fn decode(rest: &mut &[u8]) -> Option<Value> {
    let (&tag, after) = rest.split_first()?;
    *rest = after;
    Some(match tag {
        b'n' => Value::Null,
        b't' => Value::Bool(true),
        b'f' => Value::Bool(false),
        b'd' => readable_number(take_text(rest)?),
        b's' => Value::String(take_text(rest)?.to_owned()),
        b'x' | b'y' => Value::String(decode_sealed(rest)?),
        b'[' => {
            let mut items = Vec::new();
            while !at_end(rest)? {
                items.push(decode(rest)?);
            }
            Value::Array(items)
        }
        b'{' => {
            let mut fields = serde_json::Map::new();
            while !at_end(rest)? {
                let Value::String(name) = decode(rest)? else {
                    return None;
                };
                fields.insert(name, decode(rest)?);
            }
            Value::Object(fields)
        }
        _ => return None,
    })
}

/// Returns the number, if this module or `serde_json` formats it as `lexeme`; otherwise the lexeme as a
/// string.
fn readable_number(lexeme: &str) -> Value {
    match serde_json::from_str::<Number>(lexeme) {
        Ok(number)
            if with_lexeme(&number, |ours| ours == lexeme) || number.to_string() == lexeme =>
        {
            Value::Number(number)
        }
        _ => Value::String(lexeme.to_owned()),
    }
}

fn decode_sealed(rest: &mut &[u8]) -> Option<String> {
    let mut text = String::new();
    while !at_end(rest)? {
        let (&tag, after) = rest.split_first()?;
        *rest = after;
        match tag {
            b's' => text.push_str(take_text(rest)?),
            b'h' => {
                take(rest)?;
                text.push_str(crate::secret::MASK);
            }
            _ => return None,
        }
    }
    Some(text)
}

fn at_end(rest: &mut &[u8]) -> Option<bool> {
    let ended = *rest.first()? == END;
    if ended {
        *rest = &rest[1..];
    }
    Some(ended)
}

fn take<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut length = 0_usize;
    let mut shift = 0;
    loop {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        length |= usize::from(byte & 0x7f).checked_shl(shift)?;
        shift += 7;
        if byte < 0x80 {
            break;
        }
    }
    if length > rest.len() {
        return None;
    }
    let (body, after) = rest.split_at(length);
    *rest = after;
    Some(body)
}

fn take_text<'a>(rest: &mut &'a [u8]) -> Option<&'a str> {
    std::str::from_utf8(take(rest)?).ok()
}
