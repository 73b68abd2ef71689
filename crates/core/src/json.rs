//! A reader of JSON text that preserves its spelling.
//!
//! A value tree loses number lexemes, escapes, white space, and duplicate keys. [`Scanner`] visits every byte
//! once, copies nothing, and returns slices of the text. Structure, numbers and literals are checked
//! according to RFC 8259. The content of a string is checked when it is decoded ([`Scanner::text`]), not when
//! it is skipped ([`Scanner::string`], [`Scanner::value`]).

use std::ops::Range;

/// Maximum nesting depth: a foreign text must not determine the use of the stack.
pub const MAX_DEPTH: u32 = 128;

/// The error of a text that is not JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at byte {at}")]
pub struct JsonError {
    /// The reason, lower case.
    pub reason: &'static str,
    /// Byte offset of the problem.
    pub at: usize,
}

/// The result of a read.
pub type JsonResult<T> = Result<T, JsonError>;

/// Reads JSON text from its beginning to its end.
#[derive(Debug, Clone)]
pub struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    longest: &'a [u8],
}

/// The brackets of an object or an array.
#[derive(Debug)]
pub struct Brackets {
    open: u8,
    close: u8,
    expected: &'static str,
}

/// The brackets of an object.
pub const OBJECT: Brackets = Brackets {
    open: b'{',
    close: b'}',
    expected: "expected an object",
};

/// The brackets of an array.
pub const ARRAY: Brackets = Brackets {
    open: b'[',
    close: b']',
    expected: "expected an array",
};

impl<'a> Scanner<'a> {
    /// Creates a scanner at the first byte. `text` has to be UTF-8; a scanner of other bytes returns slices
    /// that are not UTF-8.
    #[must_use]
    pub fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
            longest: &[],
        }
    }

    /// Creates a scanner of a value within so many objects and arrays.
    #[must_use]
    pub fn nested(text: &'a [u8], depth: u32) -> Self {
        Self {
            depth,
            ..Self::new(text)
        }
    }

    /// Passes over a value of so many bytes that the caller knows to come next.
    pub fn pass(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// Returns the byte offset of the next input; after [`Scanner::peek`], of its first byte that is not
    /// white space.
    #[must_use]
    pub fn at(&self) -> usize {
        self.at
    }

    /// Returns the longest string value that was read since the last call, in its spelling. Keys do not
    /// count, nor do strings read by [`Scanner::string`] and [`Scanner::text`].
    pub fn take_longest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.longest)
    }

    /// Skips white space and returns the next byte without consuming it.
    #[inline]
    pub fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn malformed(&self, reason: &'static str) -> JsonError {
        JsonError {
            reason,
            at: self.at,
        }
    }

    #[inline]
    fn take(&mut self, byte: u8, expected: &'static str) -> JsonResult<()> {
        if self.peek() != Some(byte) {
            return Err(self.malformed(expected));
        }
        self.at += 1;
        Ok(())
    }

    /// Checks that nothing but white space follows.
    ///
    /// # Errors
    /// If anything else follows.
    pub fn end(&mut self) -> JsonResult<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.malformed("text after the end of the JSON value")),
        }
    }

    /// Reads the opening bracket of an object or an array; returns true if it is not empty. If it is empty,
    /// also reads the closing bracket.
    ///
    /// # Errors
    /// If there is no such bracket, or the nesting is deeper than [`MAX_DEPTH`].
    #[inline]
    pub fn open(&mut self, group: &Brackets) -> JsonResult<bool> {
        if self.peek() == Some(group.open) && self.depth == MAX_DEPTH {
            return Err(self.malformed("nested too deeply"));
        }
        self.take(group.open, group.expected)?;
        self.depth += 1;
        if self.peek() == Some(group.close) {
            self.close();
            return Ok(false);
        }
        Ok(true)
    }

    /// Reads the comma after a member or an element, or the closing bracket; returns true if another member
    /// or element follows.
    ///
    /// # Errors
    /// If there is neither.
    #[inline]
    pub fn more(&mut self, group: &Brackets) -> JsonResult<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == group.close => {
                self.close();
                Ok(false)
            }
            _ => Err(self.malformed("expected a comma or the closing bracket")),
        }
    }

    #[inline]
    fn close(&mut self) {
        self.at += 1;
        self.depth = self.depth.saturating_sub(1);
    }

    /// Reads the key of a member and its colon; returns the text between the quotes in its spelling.
    ///
    /// # Errors
    /// If there is no key, or no colon.
    pub fn name(&mut self) -> JsonResult<&'a [u8]> {
        self.expect_key()?;
        let name = self.string()?;
        self.colon()?;
        Ok(name)
    }

    /// Reads the key of a member and its colon; returns the key, decoded like [`Scanner::text`].
    ///
    /// # Errors
    /// If there is no key, no colon, or the key cannot be decoded.
    #[inline]
    pub fn key<'b>(&mut self, unescaped: &'b mut Vec<u8>) -> JsonResult<&'b [u8]>
    where
        'a: 'b,
    {
        self.expect_key()?;
        let key = self.text(unescaped)?;
        self.colon()?;
        Ok(key)
    }

    #[inline]
    fn expect_key(&mut self) -> JsonResult<()> {
        match self.peek() {
            Some(b'"') => Ok(()),
            _ => Err(self.malformed("expected a key in double quotes")),
        }
    }

    #[inline]
    fn colon(&mut self) -> JsonResult<()> {
        self.take(b':', "expected a colon")
    }

    /// Reads an object: calls `each` with the key of every member, in its spelling; `each` reads the value.
    ///
    /// # Errors
    /// Errors of the structure and of `each`.
    pub fn members(
        &mut self,
        mut each: impl FnMut(&'a [u8], &mut Self) -> JsonResult<()>,
    ) -> JsonResult<()> {
        let mut more = self.open(&OBJECT)?;
        while more {
            let name = self.name()?;
            each(name, self)?;
            more = self.more(&OBJECT)?;
        }
        Ok(())
    }

    /// Reads an array: calls `each`, which reads one element, for every element.
    ///
    /// # Errors
    /// Errors of the structure and of `each`.
    pub fn elements(
        &mut self,
        mut each: impl FnMut(&mut Self) -> JsonResult<()>,
    ) -> JsonResult<()> {
        let mut more = self.open(&ARRAY)?;
        while more {
            each(self)?;
            more = self.more(&ARRAY)?;
        }
        Ok(())
    }

    /// Reads any value; returns it in its spelling.
    ///
    /// # Errors
    /// If there is no JSON value.
    pub fn value(&mut self) -> JsonResult<&'a [u8]> {
        self.range().map(|range| &self.text[range])
    }

    /// Reads the next value; returns its range.
    fn range(&mut self) -> JsonResult<Range<usize>> {
        let first = self.peek();
        let from = self.at;
        match first {
            Some(b'{') => self.members(|_, scanner| scanner.range().map(drop))?,
            Some(b'[') => self.elements(|scanner| scanner.range().map(drop))?,
            Some(b'"') => drop(self.string_value()?),
            _ => drop(self.scalar()?),
        }
        Ok(from..self.at)
    }

    /// Reads a string without decoding it; returns the text between its quotes, unchecked.
    ///
    /// # Errors
    /// If there is no string, or it does not end.
    pub fn string(&mut self) -> JsonResult<&'a [u8]> {
        if self.peek() != Some(b'"') {
            return Err(self.malformed("expected a string"));
        }
        let from = self.at + 1;
        match string_end(self.text, self.at) {
            Some(end) => {
                self.at = end;
                Ok(&self.text[from..end - 1])
            }
            None => {
                self.at = self.text.len();
                Err(self.malformed("a string does not end"))
            }
        }
    }

    /// Reads like [`Scanner::string`]; the string counts for [`Scanner::take_longest`].
    ///
    /// # Errors
    /// The errors of [`Scanner::string`].
    pub fn string_value(&mut self) -> JsonResult<&'a [u8]> {
        let text = self.string()?;
        if text.len() > self.longest.len() {
            self.longest = text;
        }
        Ok(text)
    }

    /// Reads a string and decodes it: returns a slice of the text if it has no escapes, otherwise the content
    /// of `unescaped`, which is replaced.
    ///
    /// # Errors
    /// If there is no string, it does not end, or it has a bare control character, an unknown escape, or a
    /// lone surrogate.
    #[inline]
    pub fn text<'b>(&mut self, unescaped: &'b mut Vec<u8>) -> JsonResult<&'b [u8]>
    where
        'a: 'b,
    {
        self.take(b'"', "expected a string")?;
        let rest = self.rest();
        let length = plain_length(rest);
        if rest.get(length) == Some(&b'"') {
            self.at += length + 1;
            return Ok(&rest[..length]);
        }
        unescaped.clear();
        self.unescape(unescaped)?;
        Ok(unescaped)
    }

    fn unescape(&mut self, into: &mut Vec<u8>) -> JsonResult<()> {
        loop {
            let rest = self.rest();
            let plain = &rest[..plain_length(rest)];
            into.extend_from_slice(plain);
            self.at += plain.len();
            match self.byte() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape(into)?,
                Some(_) => {
                    return Err(self.malformed("a control character in a string must be escaped"));
                }
                None => return Err(self.malformed("a string does not end")),
            }
        }
    }

    fn escape(&mut self, into: &mut Vec<u8>) -> JsonResult<()> {
        self.at += 1;
        let escaped = match self.byte() {
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
            _ => return Err(self.malformed("unknown escape in a string")),
        };
        into.push(escaped);
        self.at += 1;
        Ok(())
    }

    fn unicode_escape(&mut self) -> JsonResult<char> {
        let first = self.four_hex_digits()?;
        if matches!(first, 0xd800..=0xdbff) && self.rest().starts_with(b"\\u") {
            self.at += 1;
            let second = self.four_hex_digits()?;
            if let Some(Ok(character)) = char::decode_utf16([first, second]).next() {
                return Ok(character);
            }
        }
        char::from_u32(first.into()).ok_or_else(|| self.malformed(LONE_SURROGATE))
    }

    fn four_hex_digits(&mut self) -> JsonResult<u16> {
        let code = four_hex_digits(self.rest().get(1..).unwrap_or_default())
            .ok_or_else(|| self.malformed("expected four hex digits"))?;
        self.at += 5;
        Ok(code)
    }

    /// Reads a number, `true`, `false` or `null`, in its spelling.
    ///
    /// # Errors
    /// If there is none of these.
    #[inline]
    pub fn scalar(&mut self) -> JsonResult<&'a [u8]> {
        let words: [&[u8]; 3] = [b"true", b"false", b"null"];
        match self.peek() {
            Some(b'-' | b'0'..=b'9') => self.number(),
            Some(_) => match words.iter().find(|word| self.rest().starts_with(word)) {
                Some(word) => {
                    let from = self.at;
                    self.at += word.len();
                    Ok(&self.text[from..self.at])
                }
                None => Err(self.malformed("expected a JSON value")),
            },
            None => Err(self.malformed("unexpected end of JSON text")),
        }
    }

    fn number(&mut self) -> JsonResult<&'a [u8]> {
        let from = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        if self.byte() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.digits()?;
        }
        if let Some(b'0'..=b'9') = self.byte() {
            return Err(self.malformed("a number must not begin with a zero"));
        }
        Ok(&self.text[from..self.at])
    }

    fn digits(&mut self) -> JsonResult<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
        if self.at == start {
            Err(self.malformed("expected a digit"))
        } else {
            Ok(())
        }
    }
}

/// Parses a value. Callers that are built for size use this function, because generic code is compiled in the
/// crate that names its types, and this crate is built for speed.
///
/// # Errors
/// Those of [`serde_json::from_slice`].
pub fn parse(bytes: &[u8]) -> serde_json::Result<serde_json::Value> {
    serde_json::from_slice(bytes)
}

/// Returns true for a value that says that there is nothing: null, false, zero, an empty text, and lists and objects of
/// such values.
#[must_use]
pub fn is_empty(value: &serde_json::Value) -> bool {
    use serde_json::Value;
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.iter().all(is_empty),
        Value::Object(members) => members.values().all(is_empty),
    }
}

/// Returns the number of values of a JSON text, one too many for each empty list and object.
#[must_use]
pub fn values(text: &[u8]) -> usize {
    let (mut count, mut at) = (1, 0);
    while let Some(byte) = text.get(at) {
        at = match byte {
            b'"' => string_end(text, at).unwrap_or(text.len()),
            _ => at + 1,
        };
        count += usize::from(matches!(byte, b',' | b'[' | b'{'));
    }
    count
}

/// Returns the value of an object's member in its spelling; the last one if the key is duplicate. `None` if
/// there is none, or `object` is not a JSON object.
#[must_use]
pub fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let mut scanner = Scanner::new(object.as_bytes());
    let mut unescaped = Vec::new();
    let mut found = None;
    let mut more = scanner.open(&OBJECT).ok()?;
    while more {
        let is_wanted = scanner.key(&mut unescaped).ok()? == key.as_bytes();
        let value = scanner.range().ok()?;
        if is_wanted {
            // Of two members with the key, the last one counts, as in a value tree.
            found = Some(value);
        }
        more = scanner.more(&OBJECT).ok()?;
    }
    object.get(found?)
}

/// Returns the elements of an array in their spelling; none if `array` is not a JSON array.
#[must_use]
pub fn elements(array: &str) -> Vec<&str> {
    let mut elements = Vec::new();
    let read = Scanner::new(array.as_bytes()).elements(|scanner| {
        elements.extend(array.get(scanner.range()?));
        Ok(())
    });
    read.map_or_else(|_| Vec::new(), |()| elements)
}

/// Returns the ranges of the numbers in a JSON text, in order. In a text that is not JSON, the ranges outside
/// of strings that look like numbers.
pub fn numbers(text: &str) -> impl Iterator<Item = Range<usize>> + '_ {
    let bytes = text.as_bytes();
    let mut at = 0;
    std::iter::from_fn(move || {
        while let Some(byte) = bytes.get(at) {
            match byte {
                b'"' => at = string_end(bytes, at).unwrap_or(bytes.len()),
                b'-' | b'0'..=b'9' => {
                    let from = at;
                    let ends = |byte: &u8| !(byte.is_ascii_digit() || b"-+.eE".contains(byte));
                    let length = bytes[from..].iter().position(ends);
                    at = length.map_or(bytes.len(), |length| from + length);
                    return Some(from..at);
                }
                _ => at += 1,
            }
        }
        None
    })
}

/// Returns true if a number, in its spelling, is an integer that fits neither into `i64` nor into `u64`.
#[must_use]
pub fn is_beyond_64_bits(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number);
    // The largest number that fits has 20 digits, the smallest that does not fit 19.
    digits.len() >= 19
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && number.parse::<i64>().is_err()
        && number.parse::<u64>().is_err()
}

/// Returns the offset after the string whose opening quote is at `start`; `None` if the string does not end.
#[must_use]
pub fn string_end(text: &[u8], start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let rest = text.get(at..)?;
        let next = memchr::memchr2(b'"', b'\\', rest)?;
        match rest[next] {
            b'"' => return Some(at + next + 1),
            // The byte after a backslash ends no string.
            _ => at += next + 2,
        }
    }
}

/// Returns true if a string, without its quotes, is written as `serde_json` writes it: it has no escapes but those of
/// quotes, backslashes, line breaks, tabs, backspaces and form feeds.
#[must_use]
pub fn is_usual_string(string: &[u8]) -> bool {
    let mut rest = string;
    loop {
        rest = &rest[plain_length(rest)..];
        match rest {
            [] => return true,
            [
                b'\\',
                b'"' | b'\\' | b'n' | b'r' | b't' | b'b' | b'f',
                behind @ ..,
            ] => rest = behind,
            _ => return false,
        }
    }
}

/// Calls `each` with the strings of a JSON text that are values of members: with the name of the member, as written, and
/// the range of the string, with its quotes. Nothing is checked.
pub fn member_strings<'a>(text: &'a [u8], mut each: impl FnMut(&'a [u8], Range<usize>)) {
    let (mut at, mut name) = (0, &b""[..]);
    while let Some(quote) = memchr::memchr(b'"', text.get(at..).unwrap_or_default()) {
        let start = at + quote;
        let Some(end) = string_end(text, start) else {
            return;
        };
        let before = text[..start].trim_ascii_end();
        if before.last() == Some(&b':') {
            each(name, start..end);
        } else {
            name = &text[start + 1..end - 1];
        }
        at = end;
    }
}

/// The reason for refusing half of a character above U+FFFF: UTF-8 text cannot contain it.
const LONE_SURROGATE: &str =
    "a lone surrogate (one half of a character that is written as two `\\u` escapes)";

/// Returns the code unit of the four hex digits (of `\uXXXX`) at the beginning of `text`.
pub(crate) fn four_hex_digits(text: &[u8]) -> Option<u16> {
    let digits = text.get(..4)?;
    // `from_str_radix` accepts a sign, too.
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// Number of bytes before the first quote, backslash or control character. Checks eight bytes at a time,
/// because most of the encoded text is the content of strings.
fn plain_length(bytes: &[u8]) -> usize {
    let (words, rest) = bytes.as_chunks::<8>();
    for (n, word) in words.iter().enumerate() {
        let special = special_bytes(u64::from_le_bytes(*word));
        if special != 0 {
            // A borrow can mark bytes behind a match, too. The first mark is exact.
            return n * 8 + special.trailing_zeros() as usize / 8;
        }
    }
    let within = rest
        .iter()
        .position(|byte| matches!(byte, b'"' | b'\\' | 0..=0x1f));
    words.len() * 8 + within.unwrap_or(rest.len())
}

/// Sets the top bit of every byte that ends a plain run. Exact for the lowest such byte, which is the only
/// relevant one; a borrow can mark higher bytes wrongly.
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xff;
    const TOPS: u64 = ONES * 0x80;
    let below = |bytes: u64, limit: u64| bytes.wrapping_sub(ONES * limit) & !bytes;
    let is = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    (is(b'"') | is(b'\\') | below(word, 0x20)) & TOPS
}
