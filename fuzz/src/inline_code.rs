//! The checks of inline code on any text: no panic, and lines that lie in the block. The first byte
//! selects the language.

use cachalot_workflow::script::{self, lua};

const FIRST: u32 = 10;

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let text = crate::text(bytes);
    let (language, source) = match text.char_indices().nth(1) {
        Some((at, _)) => text.split_at(at),
        None => return,
    };
    let checked = match language {
        "l" => lua::check(source, FIRST),
        "s" => script::check_syntax(source, FIRST),
        _ => script::check(source, FIRST),
    };
    let Err(failure) = checked else { return };
    assert!(!failure.message.is_empty());
    let lines = u32::try_from(source.split(['\n', '\r']).count()).unwrap();
    let line = failure.line.unwrap_or(FIRST);
    assert!((FIRST..=FIRST + lines).contains(&line), "{failure:?}");
}
