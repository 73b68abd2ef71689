//! Untrusted text, made safe for a terminal.

use std::borrow::Cow;

/// Makes every character visible that a terminal would execute as a command, or that reorders text: the
/// author of the text is not trusted with the terminal. Line ends and tabs stay; carriage returns are
/// removed.
pub(crate) fn visible(text: &str) -> Cow<'_, str> {
    if text.chars().all(harmless) {
        Cow::Borrowed(text)
    } else {
        text.chars().filter_map(shown).collect::<String>().into()
    }
}

/// Returns the same on one line.
pub(crate) fn on_one_line(text: &str) -> String {
    let blank = |character: char| {
        if character.is_whitespace() {
            ' '
        } else {
            character
        }
    };
    visible(text).chars().map(blank).collect()
}

fn harmless(character: char) -> bool {
    matches!(character, '\n' | '\t') || !(character.is_control() || reorders(character))
}

/// Returns true for marks of writing direction (Unicode's bidirectional algorithm), which can make a command
/// look like another one.
fn reorders(character: char) -> bool {
    matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

fn shown(character: char) -> Option<char> {
    match character {
        character if harmless(character) => Some(character),
        '\r' => None,
        '\u{7f}' => Some('\u{2421}'),
        // Unicode has a symbol for each of the first control characters.
        character if character < ' ' => char::from_u32(0x2400 + character as u32),
        _ => Some(char::REPLACEMENT_CHARACTER),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_made_visible() {
        assert_eq!(visible("one\n\ttwo – ü"), "one\n\ttwo – ü");
        assert_eq!(
            visible("\u{1b}[31mred\u{1b}]0;title\u{7}"),
            "␛[31mred␛]0;title␇"
        );
        assert_eq!(
            visible("a\r\nb\u{7f}\u{9b}2J\u{202e}c"),
            "a\nb␡\u{fffd}2J\u{fffd}c"
        );
        assert_eq!(on_one_line("a\nb\tc\0"), "a b c␀");
    }
}
