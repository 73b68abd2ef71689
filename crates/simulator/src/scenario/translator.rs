//! Handles `Translate to X: text`.

use crate::dialogue::Dialogue;
use crate::reply::ScriptedReply;

/// Maximum length of the name of a language, in characters.
const MAX_LANGUAGE_CHARS: usize = 40;

pub(super) fn reply(dialogue: &Dialogue) -> Option<ScriptedReply> {
    let whole = dialogue.user_text();
    let mut texts = dialogue.user.iter().chain([&whole]);
    let (language, text) = texts.find_map(|text| request(text))?;
    Some(ScriptedReply::text(format!(
        "[simulated {language}] {text}"
    )))
}

/// Returns the language and the text of a request: `translate`, optionally a few words, `to` or `into`, the
/// language and a colon on one line, then the text up to the end.
fn request(text: &str) -> Option<(&str, &str)> {
    let word = "translate";
    // Same length as the text, byte for byte.
    let lower = text.to_ascii_lowercase();
    lower.match_indices(word).find_map(|(at, _)| {
        let before = text[..at].chars().next_back();
        let (head, body) = text[at + word.len()..].split_once(':')?;
        let is_word = before.is_none_or(|before| !before.is_alphanumeric());
        let language = language(head).filter(|_| is_word && !head.contains('\n'))?;
        let body = body.trim();
        (!body.is_empty()).then_some((language, body))
    })
}

/// Returns the part after the last `to` or `into`.
fn language(head: &str) -> Option<&str> {
    let lower = head.to_ascii_lowercase();
    let ends = [" to ", " into "].into_iter().filter_map(|word| {
        let at = lower.rfind(word)?;
        Some(at + word.len())
    });
    let language = head[ends.max()?..].trim();
    let is_part = |character: char| character.is_alphabetic() || " ()-".contains(character);
    let begins = language.starts_with(char::is_alphabetic);
    let is_language =
        begins && language.chars().all(is_part) && language.chars().count() <= MAX_LANGUAGE_CHARS;
    is_language.then_some(language)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn translated(texts: &[&str]) -> Option<String> {
        let dialogue = Dialogue {
            user: texts.iter().map(|text| (*text).to_owned()).collect(),
            ..Dialogue::default()
        };
        reply(&dialogue)?.text
    }

    #[test]
    fn translation_is_the_text_marked_with_the_language() {
        let of = |text: &str| translated(&[text]);
        let cases = [
            (
                "Translate to French: Hello: you\nthere",
                "[simulated French] Hello: you\nthere",
            ),
            (
                "Please translate this into Brazilian Portuguese:\n\nHi",
                "[simulated Brazilian Portuguese] Hi",
            ),
            (
                "Übersetze. TRANSLATE what I want to say to Español (MX): whale",
                "[simulated Español (MX)] whale",
            ),
            (
                "What does translate mean?\nTranslate to Greek: sea ",
                "[simulated Greek] sea",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(of(text).as_deref(), Some(expected));
        }
        for text in [
            "What does translate mean?",
            "Translate to French:",
            "mistranslate to French: x",
            "translate this\nto French: x",
            "translate to 12: x",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
        let context = [
            "Today is Monday.",
            "Translate to German: whale",
            "Remember: be brief.",
        ];
        assert_eq!(
            translated(&context).as_deref(),
            Some("[simulated German] whale")
        );
    }
}
