//! Canonical bytes that are put together from encoded values.

use std::sync::Arc;

use bytes::Bytes;

use super::{Canonical, END, Part, Parts, SharedValue, put_delimited};

/// Maximum length of encoded bytes that are copied. Longer ones are shared.
const MAX_COPIED_BYTES: usize = 1_024;

/// Puts canonical bytes together. The caller sorts the keys of objects, and ends what it opens.
#[derive(Default)]
pub struct Assembler {
    parts: Vec<Part>,
    /// The bytes behind these parts.
    pub(super) own: Vec<u8>,
    /// Number of bytes of the parts.
    length: usize,
    holds_secrets: bool,
}

impl Assembler {
    /// Creates an assembler without bytes.
    #[must_use]
    pub fn new() -> Self {
        Self {
            own: Vec::with_capacity(512),
            ..Self::default()
        }
    }

    /// Begins an object. Keys with their values follow.
    pub fn open_object(&mut self) {
        self.own.push(b'{');
    }

    /// Begins a list.
    pub fn open_list(&mut self) {
        self.own.push(b'[');
    }

    /// Ends the innermost object or list.
    pub fn end(&mut self) {
        self.own.push(END);
    }

    /// Adds a key of an object, or a text.
    pub fn text(&mut self, text: &str) {
        put_delimited(b's', text.as_bytes(), &mut self.own);
    }

    /// Adds a number.
    pub fn number(&mut self, number: usize) {
        let mut lexeme = itoa::Buffer::new();
        put_delimited(b'd', lexeme.format(number).as_bytes(), &mut self.own);
    }

    /// Adds an encoded value.
    pub fn canonical(&mut self, value: &Canonical) {
        self.holds_secrets |= value.holds_secrets;
        match &value.parts {
            Parts::One(bytes) => self.bytes(bytes),
            Parts::Many(parts, _) => parts.iter().for_each(|part| match part {
                Part::Own(bytes) => self.bytes(bytes),
                Part::Shared(value) => self.shared(value),
            }),
        }
    }

    fn bytes(&mut self, bytes: &Bytes) {
        if bytes.len() <= MAX_COPIED_BYTES {
            return self.own.extend_from_slice(bytes);
        }
        self.flush();
        self.length += bytes.len();
        self.parts.push(Part::Own(bytes.clone()));
    }

    /// Adds a shared value, without copying it.
    pub fn shared(&mut self, value: &Arc<SharedValue>) {
        self.flush();
        self.length += value.as_bytes().len();
        self.parts.push(Part::Shared(Arc::clone(value)));
    }

    fn flush(&mut self) {
        if !self.own.is_empty() {
            self.length += self.own.len();
            self.parts
                .push(Part::Own(std::mem::take(&mut self.own).into()));
        }
    }

    /// Returns the bytes.
    #[must_use]
    pub fn finish(mut self) -> Canonical {
        let parts = if self.parts.is_empty() {
            Parts::One(self.own.into())
        } else {
            self.flush();
            Parts::Many(self.parts.into(), self.length)
        };
        Canonical {
            parts,
            holds_secrets: self.holds_secrets,
        }
    }
}
