//! Reads the members of a JSON object with their places.

use std::ops::Range;

use cachalot_core::json::{JsonError, OBJECT, Scanner};

/// Calls `each` with the decoded key of every member of an object, and the place of its value.
///
/// # Errors
/// If the text is not one JSON object.
pub(crate) fn members(
    text: &str,
    mut each: impl FnMut(&[u8], Range<usize>),
) -> Result<(), JsonError> {
    let mut scanner = Scanner::new(text.as_bytes());
    let mut unescaped = Vec::new();
    let mut more = scanner.open(&OBJECT)?;
    while more {
        let key = scanner.key(&mut unescaped)?;
        scanner.peek();
        let start = scanner.at();
        scanner.value()?;
        each(key, start..scanner.at());
        more = scanner.more(&OBJECT)?;
    }
    scanner.end()
}

/// Returns a JSON string, decoded; `None` if it is none.
pub(crate) fn text_value(text: &str) -> Option<String> {
    let mut unescaped = Vec::new();
    let mut scanner = Scanner::new(text.as_bytes());
    let text = scanner.text(&mut unescaped).ok()?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}
