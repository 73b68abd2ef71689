//! The form of an input for display: JSON with masked secrets and without long texts.

use std::borrow::Cow;
use std::fmt::Write as _;

use serde_json::Value;

use super::{Canonical, END, Part, Parts, SharedValue, decode_sealed, readable_number, take_text};
use crate::secret::{MASK, mask_credentials, names_a_credential};
use crate::{Digest, SecretSet};

/// Maximum length of a text; a longer one is cut, with its digest so that differences still show.
const MAX_TEXT_BYTES: usize = 2_000;

/// Length of the beginning of a text that is cut.
const CUT_BYTES: usize = 200;

/// Maximum length of the form of a shared value that is kept with it.
const MAX_KEPT_BYTES: usize = 4_096;

/// The reason why there is no such form.
enum Stop {
    TooLong,
    Malformed,
}

type Shown<T = ()> = Result<T, Stop>;

/// See [`Canonical::shown`].
pub(super) fn show(input: &Canonical, secret_set: &SecretSet, maximum: usize) -> Option<String> {
    let parts = match &input.parts {
        Parts::One(bytes) => Source {
            rest: bytes,
            parts: &[],
        },
        Parts::Many(parts, _) => Source { rest: &[], parts },
    };
    let mut display = Display {
        source: parts,
        secret_set,
        out: String::new(),
        maximum,
    };
    match display.value() {
        Ok(()) => Some(display.out),
        Err(Stop::TooLong) => None,
        Err(Stop::Malformed) => Some("null".to_owned()),
    }
}

/// The bytes that were not read yet.
struct Source<'a> {
    rest: &'a [u8],
    /// The parts behind `rest`.
    parts: &'a [Part],
}

/// The next input.
enum Next<'a> {
    Tag(u8),
    Shared(&'a SharedValue),
}

impl<'a> Source<'a> {
    /// Returns the next input without reading it.
    fn peek(&mut self) -> Shown<Next<'a>> {
        while self.rest.is_empty() {
            match self.parts.split_first() {
                Some((Part::Own(bytes), behind)) => (self.rest, self.parts) = (bytes, behind),
                Some((Part::Shared(value), _)) => return Ok(Next::Shared(value)),
                None => return Err(Stop::Malformed),
            }
        }
        Ok(Next::Tag(self.rest[0]))
    }

    /// Reads the next input.
    fn next(&mut self) -> Shown<Next<'a>> {
        let next = self.peek()?;
        match next {
            Next::Tag(_) => self.rest = &self.rest[1..],
            Next::Shared(_) => self.parts = &self.parts[1..],
        }
        Ok(next)
    }

    fn at_end(&mut self) -> Shown<bool> {
        let is_end = matches!(self.peek()?, Next::Tag(END));
        if is_end {
            self.rest = &self.rest[1..];
        }
        Ok(is_end)
    }

    /// Reads the text of a tag.
    fn text(&mut self, tag: u8) -> Shown<Cow<'a, str>> {
        let text = match tag {
            b's' => take_text(&mut self.rest).map(Cow::Borrowed),
            b'x' | b'y' => decode_sealed(&mut self.rest).map(Cow::Owned),
            _ => None,
        };
        text.ok_or(Stop::Malformed)
    }

    /// Reads a value that is not shown.
    fn skip(&mut self) -> Shown {
        match self.next()? {
            Next::Shared(_) | Next::Tag(b'n' | b't' | b'f') => Ok(()),
            Next::Tag(b'd') => take_text(&mut self.rest).map(drop).ok_or(Stop::Malformed),
            Next::Tag(b'[' | b'{') => {
                // The keys of an object are texts, which are values, too.
                while !self.at_end()? {
                    self.skip()?;
                }
                Ok(())
            }
            Next::Tag(tag) => self.text(tag).map(drop),
        }
    }
}

struct Display<'a> {
    source: Source<'a>,
    secret_set: &'a SecretSet,
    out: String,
    maximum: usize,
}

impl Display<'_> {
    fn value(&mut self) -> Shown {
        match self.source.next()? {
            Next::Shared(value) => self.shared(value)?,
            Next::Tag(b'n') => self.out.push_str("null"),
            Next::Tag(b't') => self.out.push_str("true"),
            Next::Tag(b'f') => self.out.push_str("false"),
            Next::Tag(b'd') => {
                let lexeme = take_text(&mut self.source.rest).ok_or(Stop::Malformed)?;
                match readable_number(lexeme) {
                    Value::String(lexeme) => self.text(&lexeme),
                    number => self.out.push_str(&number.to_string()),
                }
            }
            Next::Tag(b'[') => {
                self.out.push('[');
                let mut is_first = true;
                while !self.source.at_end()? {
                    self.separate(&mut is_first);
                    self.value()?;
                }
                self.out.push(']');
            }
            Next::Tag(b'{') => self.object()?,
            Next::Tag(tag) => {
                let text = self.source.text(tag)?;
                self.text(&text);
            }
        }
        if self.out.len() > self.maximum {
            return Err(Stop::TooLong);
        }
        Ok(())
    }

    fn object(&mut self) -> Shown {
        self.out.push('{');
        let mut is_first = true;
        while !self.source.at_end()? {
            self.separate(&mut is_first);
            let name = match self.source.next()? {
                Next::Tag(tag) => self.source.text(tag)?,
                Next::Shared(_) => return Err(Stop::Malformed),
            };
            self.json(&name);
            self.out.push(':');
            // Absent values and booleans are no credentials.
            let is_absent = matches!(self.source.peek()?, Next::Tag(b'n' | b't' | b'f'));
            if !is_absent && names_a_credential(&name) {
                self.source.skip()?;
                self.json(MASK);
            } else {
                self.value()?;
            }
        }
        self.out.push('}');
        Ok(())
    }

    fn separate(&mut self, is_first: &mut bool) {
        if !std::mem::take(is_first) {
            self.out.push(',');
        }
    }

    /// Adds a shared value, whose form is made once.
    fn shared(&mut self, value: &SharedValue) -> Shown {
        let make = |maximum| {
            let mut display = Display {
                source: Source {
                    rest: value.as_bytes(),
                    parts: &[],
                },
                secret_set: self.secret_set,
                out: String::new(),
                maximum,
            };
            display.value().map(|()| display.out)
        };
        // A form without known secrets is the same for every display.
        let kept = if self.secret_set.is_empty() {
            let make = || Some(make(MAX_KEPT_BYTES).ok()?.into_boxed_str());
            value.shown.get_or_init(make)
        } else {
            &None
        };
        match kept {
            Some(kept) => self.out.push_str(kept),
            None => self.out.push_str(&make(self.maximum)?),
        }
        Ok(())
    }

    /// Adds a text, with masked secrets.
    fn text(&mut self, text: &str) {
        let known = self.secret_set.redact(text);
        let shown = mask_credentials(&known);
        if shown.len() <= MAX_TEXT_BYTES {
            return self.json(&shown);
        }
        let digest = Digest::sha256(shown.as_bytes()).to_hex();
        let mut cut = shown[..shown.floor_char_boundary(CUT_BYTES)].to_owned();
        // Writing to a text does not fail.
        let _ = write!(cut, "… ({} bytes, sha256 {})", shown.len(), &digest[..16]);
        self.json(&cut);
    }

    fn json(&mut self, text: &str) {
        // A text always has a form in JSON.
        self.out
            .push_str(&serde_json::to_string(text).unwrap_or_default());
    }
}
