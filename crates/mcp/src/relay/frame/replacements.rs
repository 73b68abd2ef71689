//! Replaces parts of a message.

use std::ops::Range;

use bytes::Bytes;

/// Size from which a message is changed where it is. Smaller ones are copied, which is faster than moving their ends.
const IN_PLACE_BYTES: usize = 1 << 20;

/// New bytes for places of a message, in the order of the places.
pub(super) struct Replacements<'a>(Vec<(Range<usize>, &'a str)>);

impl<'a> Replacements<'a> {
    /// Creates replacements of places that do not overlap; `None` if they change nothing.
    pub(super) fn new(
        bytes: &[u8],
        mut replacements: Vec<(Range<usize>, &'a str)>,
    ) -> Option<Self> {
        replacements.retain(|(range, new)| bytes[range.clone()] != *new.as_bytes());
        replacements.sort_by_key(|(range, _)| range.start);
        (!replacements.is_empty()).then_some(Self(replacements))
    }

    /// Returns the new place of a part.
    pub(super) fn moved(&self, place: Range<usize>) -> Range<usize> {
        // Lengths before a byte change by those of the replacements that end at or before it.
        let moved = |at: usize| {
            let before = self.0.iter().filter(|(range, _)| range.end <= at);
            before.fold(at, |at, (range, new)| at + new.len() - range.len())
        };
        moved(place.start)..moved(place.end)
    }

    /// Returns the new bytes. A large message that nothing else refers to is not copied.
    pub(super) fn apply(&self, bytes: Bytes) -> Bytes {
        if bytes.len() < IN_PLACE_BYTES {
            return self.spliced(&bytes).into();
        }
        let mut bytes = Vec::from(bytes);
        for (range, new) in self.0.iter().rev() {
            bytes.splice(range.clone(), new.bytes()).for_each(drop);
        }
        bytes.into()
    }

    /// Returns a changed copy.
    fn spliced(&self, bytes: &[u8]) -> Vec<u8> {
        let added: usize = self.0.iter().map(|(_, new)| new.len()).sum();
        let mut result = Vec::with_capacity(bytes.len() + added);
        let mut copied = 0;
        for (range, new) in &self.0 {
            result.extend_from_slice(&bytes[copied..range.start]);
            result.extend_from_slice(new.as_bytes());
            copied = range.end;
        }
        result.extend_from_slice(&bytes[copied..]);
        result
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::relay::{Frame, Renames};

    #[test]
    fn a_large_message_is_changed_where_it_is() {
        let text = format!(r#"{{"id":7,"result":"{}"}}"#, "x".repeat(IN_PLACE_BYTES));
        let mut bytes = Vec::with_capacity(2 * text.len());
        bytes.extend_from_slice(text.as_bytes());
        let start = bytes.as_ptr();
        let renamed = Frame::parse(bytes.into()).unwrap().into_renamed(Renames {
            id: Some("\"long\""),
            ..Renames::default()
        });
        assert_eq!(renamed.bytes().as_ptr(), start);
        assert_eq!(renamed.id(), Some("\"long\""));
        assert_eq!(
            renamed.bytes(),
            text.replacen('7', "\"long\"", 1).as_bytes()
        );
    }
}
