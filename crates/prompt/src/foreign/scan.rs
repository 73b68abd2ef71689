//! A scanner over JSON text that gives back the bytes of values as they were written.
//!
//! It visits every byte once and copies none. The structure is checked, down to the last bracket;
//! what stands within strings and numbers is not.

/// JSON is not nested deeper than this.
const DEEPEST: u32 = 128;

/// What was expected, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) at: usize,
    pub(crate) expected: &'static str,
}

pub(crate) type Scanned<T> = Result<T, Malformed>;

/// Reads JSON text from its beginning to its end.
pub(crate) struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    depth: u32,
    longest: &'a [u8],
}

impl<'a> Scanner<'a> {
    pub(crate) fn new(text: &'a [u8]) -> Self {
        Self {
            text,
            at: 0,
            depth: 0,
            longest: &[],
        }
    }

    /// Where the scanner stands.
    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The longest string among the values that were read since this was asked last, as it is
    /// written. Names and what is read by [`Scanner::string`] do not count.
    pub(crate) fn take_longest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.longest)
    }

    /// The first byte of what comes next.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.text.get(self.at) {
            self.at += 1;
        }
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8, expected: &'static str) -> Scanned<()> {
        if self.peek() != Some(byte) {
            return Err(self.malformed(expected));
        }
        self.at += 1;
        Ok(())
    }

    fn malformed(&self, expected: &'static str) -> Malformed {
        Malformed {
            at: self.at,
            expected,
        }
    }

    /// Nothing may follow.
    pub(crate) fn end(&mut self) -> Scanned<()> {
        match self.peek() {
            None => Ok(()),
            Some(_) => Err(self.malformed("the end")),
        }
    }

    /// A string: what stands between its quotes, as it is written.
    pub(crate) fn string(&mut self) -> Scanned<&'a [u8]> {
        self.take(b'"', "a string")?;
        let from = self.at;
        loop {
            let rest = self.text.get(self.at..).unwrap_or_default();
            let Some(next) = memchr::memchr2(b'"', b'\\', rest) else {
                self.at = from;
                return Err(self.malformed("the end of a string"));
            };
            let byte = rest[next];
            self.at += next + if byte == b'"' { 1 } else { 2 };
            if byte == b'"' {
                return Ok(&self.text[from..self.at - 1]);
            }
        }
    }

    /// A string that is what somebody says.
    pub(crate) fn saying(&mut self) -> Scanned<&'a [u8]> {
        let text = self.string()?;
        if text.len() > self.longest.len() {
            self.longest = text;
        }
        Ok(text)
    }

    /// Any value, as it is written.
    pub(crate) fn value(&mut self) -> Scanned<&'a [u8]> {
        let first = self.peek();
        let from = self.at;
        match first {
            Some(b'{') => self.members(|_, scanner| scanner.value().map(drop))?,
            Some(b'[') => self.elements(|scanner| scanner.value().map(drop))?,
            Some(b'"') => drop(self.saying()?),
            _ => self.lexeme()?,
        }
        Ok(&self.text[from..self.at])
    }

    /// A number, `true`, `false` or `null`.
    fn lexeme(&mut self) -> Scanned<()> {
        let rest = &self.text[self.at..];
        let ends = |byte: &u8| !(byte.is_ascii_alphanumeric() || b"+-.".contains(byte));
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        let lexeme = &rest[..length];
        let number = |first: &u8| first.is_ascii_digit() || *first == b'-';
        if !matches!(lexeme, b"true" | b"false" | b"null") && !lexeme.first().is_some_and(number) {
            return Err(self.malformed("a value"));
        }
        self.at += length;
        Ok(())
    }

    /// An object: `each` is told the name of every member, as it is written, and reads its value.
    pub(crate) fn members(
        &mut self,
        mut each: impl FnMut(&'a [u8], &mut Self) -> Scanned<()>,
    ) -> Scanned<()> {
        let mut more = self.open(&OBJECT)?;
        while more {
            let name = self.name()?;
            each(name, self)?;
            more = self.more(&OBJECT)?;
        }
        Ok(())
    }

    /// An array: `each` reads every element.
    pub(crate) fn elements(
        &mut self,
        mut each: impl FnMut(&mut Self) -> Scanned<()>,
    ) -> Scanned<()> {
        let mut more = self.open(&ARRAY)?;
        while more {
            each(self)?;
            more = self.more(&ARRAY)?;
        }
        Ok(())
    }

    /// The beginning of an object or array; whether there is anything in it.
    pub(crate) fn open(&mut self, group: &Group) -> Scanned<bool> {
        self.take(group.open, group.what)?;
        if self.depth == DEEPEST {
            return Err(self.malformed("no deeper nesting"));
        }
        self.depth += 1;
        if self.peek() == Some(group.close) {
            self.close();
            return Ok(false);
        }
        Ok(true)
    }

    /// What follows a member or element; whether that is another one.
    pub(crate) fn more(&mut self, group: &Group) -> Scanned<bool> {
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(true)
            }
            Some(byte) if byte == group.close => {
                self.close();
                Ok(false)
            }
            _ => Err(self.malformed("a comma, or the end of an object or array")),
        }
    }

    /// The name of a member, and its colon.
    pub(crate) fn name(&mut self) -> Scanned<&'a [u8]> {
        let name = self.string()?;
        self.take(b':', "a colon")?;
        Ok(name)
    }

    fn close(&mut self) {
        self.at += 1;
        self.depth -= 1;
    }
}

/// What an object or an array begins and ends with.
pub(crate) struct Group {
    open: u8,
    close: u8,
    what: &'static str,
}

/// An object.
pub(crate) const OBJECT: Group = Group {
    open: b'{',
    close: b'}',
    what: "an object",
};

const ARRAY: Group = Group {
    open: b'[',
    close: b']',
    what: "an array",
};

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn value(text: &str) -> Scanned<&[u8]> {
        let mut scanner = Scanner::new(text.as_bytes());
        let value = scanner.value()?;
        scanner.end().map(|()| value)
    }

    #[test]
    fn values_come_back_as_they_were_written() {
        for text in [
            r#"{ "a\"" : [ 1.50 , "}\\" , {} , [] ] }"#,
            "-1e9",
            "null",
            r#""""#,
        ] {
            assert_eq!(value(text).unwrap(), text.as_bytes());
        }
        assert_eq!(value(" [1] ").unwrap(), b"[1]");
    }

    #[test]
    fn broken_structure_is_told_with_its_place() {
        for (text, at) in [
            ("", 0),
            ("[1", 2),
            ("[1,]", 3),
            (r#"{"a" 1}"#, 5),
            (r#"{"a":1,}"#, 7),
            (r#""abc"#, 1),
            ("[1}", 2),
            ("[1] x", 4),
            ("nul", 0),
            (r#"{"a":"\"#, 6),
        ] {
            assert_eq!(value(text).unwrap_err().at, at, "{text}");
        }
        let deep = "[".repeat(1_000_000);
        assert_eq!(value(&deep).unwrap_err().expected, "no deeper nesting");
    }
}
