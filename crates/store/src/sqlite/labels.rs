//! Encoding of a record's labels in its row: they are read with the record, without a second lookup. The
//! table `labels` is only for finding records.

use crate::Label;

use super::failure::damaged;

/// Encodes length-delimited names and values.
pub(super) fn encode(labels: &[Label]) -> Vec<u8> {
    let size = labels
        .iter()
        .map(|label| label.name.len() + label.value.len() + 4)
        .sum();
    let mut bytes = Vec::with_capacity(size);
    for text in labels.iter().flat_map(|label| [&label.name, &label.value]) {
        let mut length = text.len();
        while length >= 0x80 {
            bytes.push((length as u8 & 0x7F) | 0x80);
            length >>= 7;
        }
        bytes.push(length as u8);
        bytes.extend_from_slice(text.as_bytes());
    }
    bytes
}

/// Decodes the result of [`encode`].
pub(super) fn decode(mut bytes: &[u8]) -> rusqlite::Result<Vec<Label>> {
    let mut labels = Vec::new();
    while !bytes.is_empty() {
        let name = text(&mut bytes).ok_or_else(|| damaged("labels that end too early"))?;
        let value = text(&mut bytes).ok_or_else(|| damaged("labels that end too early"))?;
        labels.push(Label {
            name: name.to_owned(),
            value: value.to_owned(),
        });
    }
    Ok(labels)
}

fn text<'a>(bytes: &mut &'a [u8]) -> Option<&'a str> {
    let mut length = 0usize;
    let mut shift = 0u32;
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        // A damaged length may have more bits than the type.
        length |= usize::from(byte & 0x7F).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            break;
        }
        shift += 7;
    }
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    std::str::from_utf8(text).ok()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "../../tests/unit/sqlite/labels.rs"]
mod tests;
