//! From JSON text to canonical bytes in one pass, without a value tree.

use super::{END, NotCanonical, put_delimited};

/// Deeper nesting than this is refused: a foreign text must not decide how much stack we use.
const DEEPEST: usize = 128;

pub(super) fn encode(text: &[u8]) -> Result<Vec<u8>, NotCanonical> {
    let text = std::str::from_utf8(text).map_err(|error| NotCanonical {
        reason: "not UTF-8",
        at: error.valid_up_to(),
    })?;
    let mut encoder = Encoder {
        text: text.as_bytes(),
        at: 0,
        out: Vec::with_capacity(text.len()),
        fields: vec![],
        unescaped: vec![],
    };
    encoder.value(0)?;
    encoder.skip_space();
    if encoder.at < encoder.text.len() {
        return Err(encoder.refuse("text after the end of the JSON value"));
    }
    Ok(encoder.out)
}

/// Where a field of the object being encoded lies in the output.
#[derive(Clone, Copy)]
struct Field {
    /// Start of the encoded key.
    start: usize,
    /// The key's own bytes.
    key: (usize, usize),
    /// End of the encoded value.
    end: usize,
}

struct Encoder<'a> {
    text: &'a [u8],
    at: usize,
    out: Vec<u8>,
    /// A stack: the fields of every object that is still open.
    fields: Vec<Field>,
    /// Where a string with escapes is put together before its length is known.
    unescaped: Vec<u8>,
}

impl Encoder<'_> {
    fn refuse(&self, reason: &'static str) -> NotCanonical {
        NotCanonical {
            reason,
            at: self.at,
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn skip_space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), NotCanonical> {
        self.skip_space();
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'{') => self.object(depth),
            Some(b'[') => self.array(depth),
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(b't') => self.word("true", b't'),
            Some(b'f') => self.word("false", b'f'),
            Some(b'n') => self.word("null", b'n'),
            Some(_) => Err(self.refuse("expected a JSON value")),
            None => Err(self.refuse("unexpected end of JSON text")),
        }
    }

    fn word(&mut self, word: &str, tag: u8) -> Result<(), NotCanonical> {
        if !self.text[self.at..].starts_with(word.as_bytes()) {
            return Err(self.refuse("expected a JSON value"));
        }
        self.at += word.len();
        self.out.push(tag);
        Ok(())
    }

    fn digits(&mut self) -> Result<(), NotCanonical> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        if self.at == start {
            Err(self.refuse("expected a digit"))
        } else {
            Ok(())
        }
    }

    fn number(&mut self) -> Result<(), NotCanonical> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        if let Some(b'0'..=b'9') = self.peek() {
            return Err(self.refuse("a number must not begin with a zero"));
        }
        put_delimited(b'd', &self.text[start..self.at], &mut self.out);
        Ok(())
    }

    fn array(&mut self, depth: usize) -> Result<(), NotCanonical> {
        if depth >= DEEPEST {
            return Err(self.refuse("nested too deeply"));
        }
        self.at += 1;
        self.out.push(b'[');
        self.skip_space();
        if self.peek() == Some(b']') {
            self.at += 1;
            self.out.push(END);
            return Ok(());
        }
        loop {
            self.value(depth + 1)?;
            if self.next_item(b']')? {
                self.out.push(END);
                return Ok(());
            }
        }
    }

    /// Steps over a comma (false) or the closing bracket (true).
    fn next_item(&mut self, close: u8) -> Result<bool, NotCanonical> {
        self.skip_space();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(other) if other == close => {
                self.at += 1;
                Ok(true)
            }
            _ => Err(self.refuse("expected a comma or the closing bracket")),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), NotCanonical> {
        if depth >= DEEPEST {
            return Err(self.refuse("nested too deeply"));
        }
        self.at += 1;
        self.out.push(b'{');
        let first_field = self.fields.len();
        self.skip_space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            self.out.push(END);
            return Ok(());
        }
        loop {
            self.skip_space();
            if self.peek() != Some(b'"') {
                return Err(self.refuse("expected a key in double quotes"));
            }
            let start = self.out.len();
            let key = self.string()?;
            self.skip_space();
            if self.peek() != Some(b':') {
                return Err(self.refuse("expected a colon"));
            }
            self.at += 1;
            self.value(depth + 1)?;
            self.fields.push(Field {
                start,
                key,
                end: self.out.len(),
            });
            if self.next_item(b'}')? {
                break;
            }
        }
        self.sort_fields(first_field)?;
        self.out.push(END);
        Ok(())
    }

    /// Brings the fields of the innermost object, already in the output, into the order of their keys.
    fn sort_fields(&mut self, first: usize) -> Result<(), NotCanonical> {
        let out = &self.out;
        let key = |field: &Field| &out[field.key.0..field.key.1];
        let fields = &mut self.fields[first..];
        let in_order = fields.windows(2).all(|pair| key(&pair[0]) < key(&pair[1]));
        if !in_order {
            let start = fields[0].start;
            fields.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            if fields.windows(2).any(|pair| key(&pair[0]) == key(&pair[1])) {
                return Err(NotCanonical {
                    reason: "a key occurs twice in the object that ends",
                    at: self.at,
                });
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

    /// Encodes a string and tells where its unescaped bytes lie in the output.
    fn string(&mut self) -> Result<(usize, usize), NotCanonical> {
        self.at += 1;
        let rest = &self.text[self.at..];
        let length = plain_length(rest);
        if rest.get(length) == Some(&b'"') {
            put_delimited(b's', &rest[..length], &mut self.out);
            self.at += length + 1;
            return Ok((self.out.len() - length, self.out.len()));
        }
        let mut unescaped = std::mem::take(&mut self.unescaped);
        unescaped.clear();
        self.unescape(&mut unescaped)?;
        put_delimited(b's', &unescaped, &mut self.out);
        let length = unescaped.len();
        self.unescaped = unescaped;
        Ok((self.out.len() - length, self.out.len()))
    }

    fn unescape(&mut self, into: &mut Vec<u8>) -> Result<(), NotCanonical> {
        loop {
            let rest = &self.text[self.at..];
            let plain = &rest[..plain_length(rest)];
            into.extend_from_slice(plain);
            self.at += plain.len();
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape(into)?,
                Some(_) => {
                    return Err(self.refuse("a control character in a string must be escaped"));
                }
                None => return Err(self.refuse("a string does not end")),
            }
        }
    }

    fn escape(&mut self, into: &mut Vec<u8>) -> Result<(), NotCanonical> {
        self.at += 1;
        let escaped = match self.peek() {
            Some(b'u') => {
                let character = self.unicode_escape()?;
                into.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            Some(byte @ (b'"' | b'\\' | b'/')) => byte,
            Some(b'b') => 0x08,
            Some(b'f') => 0x0c,
            Some(b'n') => b'\n',
            Some(b'r') => b'\r',
            Some(b't') => b'\t',
            _ => return Err(self.refuse("unknown escape in a string")),
        };
        into.push(escaped);
        self.at += 1;
        Ok(())
    }

    fn unicode_escape(&mut self) -> Result<char, NotCanonical> {
        let first = self.four_hex_digits()?;
        if (0xd800..0xdc00).contains(&first) && self.text[self.at..].starts_with(b"\\u") {
            self.at += 1;
            let second = self.four_hex_digits()?;
            if (0xdc00..0xe000).contains(&second) {
                let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
                return char::from_u32(code).ok_or_else(|| self.refuse("a lone surrogate"));
            }
        }
        char::from_u32(first).ok_or_else(|| self.refuse("a lone surrogate"))
    }

    fn four_hex_digits(&mut self) -> Result<u32, NotCanonical> {
        let digits = self.text.get(self.at + 1..self.at + 5);
        let code = digits
            .filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u32::from_str_radix(digits, 16).ok())
            .ok_or_else(|| self.refuse("expected four hex digits"))?;
        self.at += 5;
        Ok(code)
    }
}

/// How many bytes stand before the first quote, backslash or control character. Eight at a time:
/// most of what is ever encoded is the inside of strings.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            return n * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let within = rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
    words.len() * 8 + within.unwrap_or(rest.len())
}

/// The top bit of every byte that ends a plain run. Exact for the lowest such byte, which is the one
/// that counts; a borrow can mark bytes above it wrongly.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    const TOPS: u64 = ONES * 0x80;
    let below = |bytes: u64, limit: u64| bytes.wrapping_sub(ONES * limit) & !bytes;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (is(b'"') | is(b'\\') | below(word, 0x20)) & TOPS
}
