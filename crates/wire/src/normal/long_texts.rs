//! Long texts of a piece, which are put aside while the piece is normalized: they stay as they are.

use std::ops::Range;

use cachalot_core::json::{is_usual_string, member_strings};
use memchr::memmem;

use super::NormalPiece;

/// Minimum length of a text that is put aside. No default value of a member is as long.
const MIN_LENGTH: usize = 256;

/// The sign around the number of a text that was put aside: a character for private use.
const SIGN: &str = "\u{e000}";

/// Texts that were put aside, with their quotes.
pub(crate) struct LongTexts<'a>(Vec<&'a [u8]>);

impl<'a> LongTexts<'a> {
    /// Puts the long texts of a piece aside; returns the rest of it, too, with numbers in their places. `None` if there are
    /// none.
    pub(crate) fn find(piece: &'a [u8]) -> Option<(Self, Vec<u8>)> {
        if piece.len() < MIN_LENGTH || has_sign(piece) || std::str::from_utf8(piece).is_err() {
            return None;
        }
        let mut long: Vec<Range<usize>> = Vec::new();
        member_strings(piece, |_, range| {
            if range.len() >= MIN_LENGTH && is_kept(&piece[range.start + 1..range.end - 1]) {
                long.push(range);
            }
        });
        if long.is_empty() {
            return None;
        }
        let mut short = Vec::with_capacity(1_024);
        let (mut texts, mut at) = (Vec::with_capacity(long.len()), 0);
        for (number, range) in long.into_iter().enumerate() {
            short.extend_from_slice(&piece[at..range.start]);
            short.extend_from_slice(format!("\"{SIGN}{number}{SIGN}\"").as_bytes());
            at = range.end;
            texts.push(&piece[range]);
        }
        short.extend_from_slice(&piece[at..]);
        Some((Self(texts), short))
    }

    /// Puts the texts back.
    pub(crate) fn put_back(&self, short: NormalPiece) -> NormalPiece {
        let length: usize = self.0.iter().map(|text| text.len()).sum();
        let mut bytes = Vec::with_capacity(short.bytes.len() + length);
        let (mut rest, opening) = (&short.bytes[..], format!("\"{SIGN}"));
        while let Some(at) = memmem::find(rest, opening.as_bytes()) {
            let behind = &rest[at + opening.len()..];
            let digits = behind.iter().take_while(|byte| byte.is_ascii_digit());
            let digits = digits.count();
            let number = std::str::from_utf8(&behind[..digits]).unwrap_or_default();
            let number = number.parse::<usize>().unwrap_or(usize::MAX);
            bytes.extend_from_slice(&rest[..at]);
            bytes.extend_from_slice(self.0.get(number).copied().unwrap_or_default());
            rest = behind.get(digits + SIGN.len() + 1..).unwrap_or_default();
        }
        bytes.extend_from_slice(rest);
        // Its distance from the end is the same: a text is in a member before it.
        let mark_at = short.mark_at.map(|at| {
            let from_end = short.bytes.len() - at as usize;
            (bytes.len() - from_end) as u32
        });
        NormalPiece { bytes, mark_at }
    }
}

/// True if a text is written in the normal form, and is not blank.
fn is_kept(text: &[u8]) -> bool {
    // Signs of an escape do not count: those of white space are letters.
    let begins_visibly = text.iter().take(MIN_LENGTH).zip(text.iter().skip(1));
    let mut begins_visibly =
        begins_visibly.map(|(before, sign)| *before != b'\\' && sign.is_ascii_alphanumeric());
    begins_visibly.any(|is_visible| is_visible) && is_usual_string(text)
}

/// True if a piece contains the sign, also as an escape.
fn has_sign(piece: &[u8]) -> bool {
    let escaped = |at: usize| {
        let digits = piece.get(at + 2..at + 6);
        digits.is_some_and(|digits| digits.eq_ignore_ascii_case(b"e000"))
    };
    memmem::find(piece, SIGN.as_bytes()).is_some() || memmem::find_iter(piece, b"\\u").any(escaped)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn texts_are_put_aside_and_back() {
        let long = "a line\n\"quoted\" é \\u".repeat(40);
        let piece = json!({"role": "user", "content": [{"type": "text", "text": long}, {"x": "y", "z": long}]});
        let written = piece.to_string();
        let (texts, short) = LongTexts::find(written.as_bytes()).unwrap();
        assert_eq!(texts.0.len(), 2);
        assert!(short.len() < 200);
        let back = texts.put_back(NormalPiece {
            mark_at: Some(short.len() as u32 - 3),
            bytes: short,
        });
        assert_eq!(String::from_utf8(back.bytes).unwrap(), written);
        assert_eq!(back.mark_at, Some(written.len() as u32 - 3));
    }

    #[test]
    fn odd_texts_stay() {
        for text in [
            format!(r#""{}""#, "\\n ".repeat(200)),
            format!(r#""{}\/""#, "x".repeat(300)),
            format!(r#""{}\u00e9""#, "x".repeat(300)),
            format!(r#""{}""#, "x".repeat(200)),
            format!(r#""{}{SIGN}""#, "x".repeat(300)),
            format!(r#""{}", "b": "\uE000""#, "x".repeat(300)),
        ] {
            let piece = format!(r#"{{"a": {text}}}"#);
            assert!(LongTexts::find(piece.as_bytes()).is_none(), "{piece}");
        }
        // Names, and items of lists.
        let (name, item) = ("x".repeat(300), "y".repeat(300));
        let piece = format!(r#"{{"{name}": ["{item}"]}}"#);
        assert!(LongTexts::find(piece.as_bytes()).is_none());
    }

    proptest! {
        #[test]
        fn normal_forms_are_the_same(parts in prop::collection::vec("[a-z \\n\"\\\\é]{0,3}|[ \\n]", 1..8), api in 0..3_usize, is_text in any::<bool>()) {
            use crate::{Format, Level, for_format};
            let format = [Format::Chat, Format::Messages, Format::Responses][api];
            let rules = for_format(format).request_rules();
            let text = parts.concat().repeat(60);
            let content: Value = if is_text { json!(text) } else { json!([{"type": "text", "text": text}]) };
            let piece = json!({"content": content, "role": "user", "name": null, "input": {"b": text, "a": 1}}).to_string();
            for level in [Level::Message, Level::System, Level::Tool] {
                let expected = crate::normal::short_piece(rules, level, piece.as_bytes());
                prop_assert_eq!(crate::normal::piece(rules, level, piece.as_bytes()), expected);
            }
        }
    }
}
