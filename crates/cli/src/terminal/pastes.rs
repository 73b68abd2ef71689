//! Long pasted texts, which the input line shows as `[pasted 100 lines]`.

use std::ops::RangeInclusive;

use crate::render::grouped;

/// The characters that stand for pasted texts in the input line. Unicode reserves them for the internal use of
/// programs, so that no other text contains them.
const SIGNS: RangeInclusive<char> = '\u{fdd0}'..='\u{fdef}';
/// The number of lines of a pasted text that the input line shows as it is.
const MAX_LINES: usize = 10;
/// The number of characters of such a text.
const MAX_CHARS: usize = 2_000;

/// Pasted texts by their signs.
#[derive(Debug, Clone)]
pub(super) struct Pastes(Vec<String>);

/// Message of the user.
#[derive(Debug, Clone)]
pub(super) struct Message {
    pub(super) text: String,
    /// The text with the sizes of long pasted texts in their place.
    pub(super) shown: String,
    /// The input line with its pasted texts, if it has some.
    folded: Option<(String, Pastes)>,
}

impl Message {
    /// Returns a message without pasted texts.
    pub(super) fn new(text: String) -> Self {
        Self {
            shown: text.clone(),
            text,
            folded: None,
        }
    }

    /// Returns true if pasted texts are not shown.
    pub(super) fn is_folded(&self) -> bool {
        self.folded.is_some()
    }
}

impl Pastes {
    pub(super) const fn new() -> Self {
        Self(Vec::new())
    }

    /// Returns the text that is inserted into the input line for a pasted text: the sign of a long one, or else the
    /// text.
    pub(super) fn fold(&mut self, text: &str) -> String {
        let text = without_signs(text);
        let is_long = text.lines().count() > MAX_LINES || text.chars().count() > MAX_CHARS;
        match SIGNS.clone().nth(self.0.len()) {
            Some(sign) if is_long => {
                self.0.push(text);
                sign.to_string()
            }
            _ => text,
        }
    }

    /// Returns a text of the input line with the pasted texts in place of their signs.
    pub(super) fn whole(&self, text: &str) -> String {
        self.replaced(text, str::to_owned)
    }

    /// Returns the message in the input line.
    pub(super) fn message(&self, input: &str) -> Message {
        let (text, shown) = (self.whole(input), self.shown(input));
        let folded = (shown != text).then(|| (input.to_owned(), self.clone()));
        Message {
            text,
            shown,
            folded,
        }
    }

    /// Returns the text of the input line for a message that returns there: the same as before.
    pub(super) fn returned(&mut self, message: &Message) -> String {
        match &message.folded {
            Some((input, pastes)) => pastes.replaced(input, |pasted| self.fold(pasted)),
            None => without_signs(&message.text),
        }
    }

    /// Returns a text of the input line as it is shown.
    pub(super) fn shown(&self, text: &str) -> String {
        self.replaced(text, label)
    }

    /// Forgets the texts: no input line has their signs.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    fn replaced(&self, text: &str, mut replacement: impl FnMut(&str) -> String) -> String {
        let mut replaced = String::with_capacity(text.len());
        for character in text.chars() {
            let place = SIGNS.clone().position(|sign| sign == character);
            match place.and_then(|place| self.0.get(place)) {
                Some(pasted) => replaced.push_str(&replacement(pasted)),
                None => replaced.push(character),
            }
        }
        replaced
    }
}

/// Replaces the characters that stand for pasted texts, in text from elsewhere.
pub(super) fn without_signs(text: &str) -> String {
    text.replace(|character| SIGNS.contains(&character), "\u{fffd}")
}

fn label(pasted: &str) -> String {
    match pasted.lines().count() {
        0 | 1 => format!(
            "[pasted {} characters]",
            grouped(pasted.chars().count() as u64)
        ),
        lines => format!("[pasted {} lines]", grouped(lines as u64)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_folded_and_whole_again() {
        let mut pastes = Pastes::new();
        assert_eq!(pastes.fold("one\ntwo"), "one\ntwo");
        let lines = "line\n".repeat(1_200);
        let long_line = "x".repeat(2_001);
        let typed = format!(
            "see {} and {}!",
            pastes.fold(&lines),
            pastes.fold(&long_line)
        );
        assert_eq!(
            pastes.shown(&typed),
            "see [pasted 1,200 lines] and [pasted 2,001 characters]!"
        );
        assert_eq!(
            pastes.whole(&typed),
            format!("see {lines} and {long_line}!")
        );
        let message = pastes.message(&typed);
        pastes.clear();
        assert_eq!(pastes.whole("a\u{fdd0}"), "a\u{fdd0}");
        let returned = pastes.returned(&message);
        assert_eq!(pastes.whole(&returned), message.text);
        assert_eq!(pastes.shown(&returned), message.shown);
        assert_eq!(pastes.returned(&Message::new("typed".to_owned())), "typed");
    }

    #[test]
    fn signs_in_a_text_are_not_taken_for_pasted_texts() {
        let mut pastes = Pastes::new();
        let sign = pastes.fold(&"line\n".repeat(20));
        assert_eq!(pastes.fold(&format!("a{sign}")), "a\u{fffd}");
        // With all signs in use, a text is inserted as it is.
        let long = "line\n".repeat(20);
        let folded: Vec<String> = (0..40).map(|_| pastes.fold(&long)).collect();
        assert_eq!(folded.iter().filter(|text| **text == long).count(), 9);
    }
}
