//! Scans JSON for the places of values.

use std::borrow::Cow;
use std::ops::Range;

use cachalot_core::json::{JsonError, Scanner};

/// Returns the place of a member of an object; `None` if there is none or it is there twice.
pub(super) fn member(object: &[u8], member: &str) -> Option<Range<usize>> {
    let mut scanner = Scanner::new(object);
    if scanner.peek() != Some(b'{') {
        return None;
    }
    let mut found = Vec::new();
    scanner
        .members(|name, scanner| {
            let is_sought = *decoded(name) == *member.as_bytes();
            let place = range(scanner)?;
            if is_sought {
                found.push(place);
            }
            Ok(())
        })
        .ok()?;
    match found.as_slice() {
        [place] => Some(place.clone()),
        _ => None,
    }
}

/// Reads a value; calls `each` for the members of an object. Returns its place.
pub(super) fn object<'a>(
    scanner: &mut Scanner<'a>,
    mut each: impl FnMut(&[u8], &mut Scanner<'a>) -> Result<(), JsonError>,
) -> Result<Range<usize>, JsonError> {
    if scanner.peek() != Some(b'{') {
        return range(scanner);
    }
    let start = scanner.at();
    scanner.members(|name, scanner| each(&decoded(name), scanner))?;
    Ok(start..scanner.at())
}

/// Reads a value and returns its place.
pub(super) fn range(scanner: &mut Scanner<'_>) -> Result<Range<usize>, JsonError> {
    scanner.peek();
    let start = scanner.at();
    scanner.value()?;
    Ok(start..scanner.at())
}

/// Decodes the name of a member. A name that cannot be decoded is returned as it is: it equals no name of the protocol.
pub(super) fn decoded(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'\\') {
        return Cow::Borrowed(name);
    }
    let quoted = [b"\"", name, b"\""].concat();
    let mut decoded = Vec::new();
    let text = Scanner::new(&quoted).text(&mut decoded).map(<[u8]>::to_vec);
    text.map_or(Cow::Borrowed(name), Cow::Owned)
}
