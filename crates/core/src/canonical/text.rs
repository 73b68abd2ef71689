//! Encodes JSON text to canonical bytes in one pass, without a value tree.

use super::{CanonicalError, END, put_delimited};
use crate::json::{ARRAY, JsonResult, OBJECT, Scanner};

/// Encodes a text. The members of its object that are named in `omitted` are checked, but not encoded.
pub(super) fn encode(text: &[u8], omitted: &[&str]) -> Result<Vec<u8>, CanonicalError> {
    let text = std::str::from_utf8(text).map_err(|error| CanonicalError {
        reason: "not UTF-8",
        at: error.valid_up_to(),
    })?;
    let mut encoder = Encoder {
        scanner: Scanner::new(text.as_bytes()),
        out: Vec::with_capacity(text.len()),
        fields: vec![],
        unescaped: vec![],
    };
    match encoder.scanner.peek() {
        Some(b'{') => encoder.object(omitted)?,
        _ => encoder.value()?,
    }
    encoder.scanner.end()?;
    Ok(encoder.out)
}

/// Maximum number of bytes for which room is made at once, because a text may be longer than its first value.
const MAX_CAPACITY: usize = 64 << 10;

/// Encodes the value that a text begins with, within `depth` objects and arrays; returns its length in the text, too.
pub(super) fn encode_value(text: &[u8], depth: u32) -> Result<(Vec<u8>, usize), CanonicalError> {
    let mut encoder = Encoder {
        scanner: Scanner::nested(text, depth),
        out: Vec::with_capacity(text.len().min(MAX_CAPACITY)),
        fields: vec![],
        unescaped: vec![],
    };
    encoder.value()?;
    let length = encoder.scanner.at();
    match std::str::from_utf8(&text[..length]) {
        Ok(_) => {}
        Err(error) => {
            return Err(CanonicalError {
                reason: "not UTF-8",
                at: error.valid_up_to(),
            });
        }
    }
    encoder.out.shrink_to_fit();
    Ok((encoder.out, length))
}

/// The position in the output of a field of the object being encoded.
#[derive(Clone, Copy)]
struct Field {
    /// Start of the encoded key.
    start: usize,
    /// Start and end of the key's own bytes.
    key: (usize, usize),
    /// End of the encoded value.
    end: usize,
}

struct Encoder<'a> {
    scanner: Scanner<'a>,
    out: Vec<u8>,
    /// A stack of the fields of every object that is still open.
    fields: Vec<Field>,
    /// Buffer for a string with escapes, whose length is not known in advance.
    unescaped: Vec<u8>,
}

impl Encoder<'_> {
    fn value(&mut self) -> Result<(), CanonicalError> {
        match self.scanner.peek() {
            Some(b'"') => self.string()?,
            Some(b'{') => self.object(&[])?,
            Some(b'[') => self.array()?,
            _ => match self.scanner.scalar()? {
                b"true" => self.out.push(b't'),
                b"false" => self.out.push(b'f'),
                b"null" => self.out.push(b'n'),
                lexeme => put_delimited(b'd', lexeme, &mut self.out),
            },
        }
        Ok(())
    }

    fn string(&mut self) -> JsonResult<()> {
        let text = self.scanner.text(&mut self.unescaped)?;
        put_delimited(b's', text, &mut self.out);
        Ok(())
    }

    fn array(&mut self) -> Result<(), CanonicalError> {
        self.out.push(b'[');
        let mut more = self.scanner.open(&ARRAY)?;
        while more {
            self.value()?;
            more = self.scanner.more(&ARRAY)?;
        }
        self.out.push(END);
        Ok(())
    }

    fn object(&mut self, omitted: &[&str]) -> Result<(), CanonicalError> {
        self.out.push(b'{');
        let first_field = self.fields.len();
        let mut found = vec![false; omitted.len()];
        let mut more = self.scanner.open(&OBJECT)?;
        while more {
            let start = self.out.len();
            let key = self.scanner.key(&mut self.unescaped)?;
            put_delimited(b's', key, &mut self.out);
            let key = (self.out.len() - key.len(), self.out.len());
            self.value()?;
            let name = &self.out[key.0..key.1];
            if let Some(place) = omitted
                .iter()
                .position(|omitted_name| omitted_name.as_bytes() == name)
            {
                if std::mem::replace(&mut found[place], true) {
                    return Err(self.repeated_key());
                }
                self.out.truncate(start);
                more = self.scanner.more(&OBJECT)?;
                continue;
            }
            self.fields.push(Field {
                start,
                key,
                end: self.out.len(),
            });
            more = self.scanner.more(&OBJECT)?;
        }
        self.sort_fields(first_field)?;
        self.out.push(END);
        Ok(())
    }

    fn repeated_key(&self) -> CanonicalError {
        CanonicalError {
            reason: "a key occurs twice in the object that ends",
            at: self.scanner.at(),
        }
    }

    /// Sorts the fields of the innermost object, which are already in the output, by their keys.
    fn sort_fields(&mut self, first: usize) -> Result<(), CanonicalError> {
        let out = &self.out;
        let key = |field: &Field| &out[field.key.0..field.key.1];
        let fields = &mut self.fields[first..];
        // Strictly ascending, so that an object with a repeated key always reaches the check below.
        let in_order = fields.windows(2).all(|pair| key(&pair[0]) < key(&pair[1]));
        if !in_order {
            let start = fields[0].start;
            fields.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            if fields.windows(2).any(|pair| key(&pair[0]) == key(&pair[1])) {
                return Err(self.repeated_key());
            }
            let mut sorted = Vec::with_capacity(out.len() - start);
            for field in fields.iter() {
                sorted.extend_from_slice(&out[field.start..field.end]);
            }
            self.out.truncate(start);
            self.out.extend_from_slice(&sorted);
        }
        self.fields.truncate(first);
        Ok(())
    }
}
