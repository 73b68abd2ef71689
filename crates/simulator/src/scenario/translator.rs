//! `Translate to X: text`.

use regex::Regex;

use crate::dialogue::Dialogue;
use crate::reply::ScriptedReply;

/// `translate to`, perhaps with a few words between, a language, a colon, and the text up to the end.
const REQUEST: &str =
    r"(?is)\btranslate\b[^\n:]{0,60}?\b(?:in)?to\s+([\p{L}][\p{L} ()-]{0,40}?)\s*:\s*(\S.*)$";

pub(super) fn reply(dialogue: &Dialogue) -> Option<ScriptedReply> {
    let request = Regex::new(REQUEST).ok()?;
    let whole = dialogue.user_text();
    let texts = dialogue.user.iter().chain([&whole]);
    let captures = texts.into_iter().find_map(|text| request.captures(text))?;
    let (language, text) = (captures.get(1)?.as_str(), captures.get(2)?.as_str());
    Some(ScriptedReply::text(format!(
        "[simulated {language}] {}",
        text.trim_end()
    )))
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
    fn the_text_comes_back_marked_with_the_language() {
        let of = |text: &str| translated(&[text]);
        assert_eq!(
            of("Translate to French: Hello: you\nthere").as_deref(),
            Some("[simulated French] Hello: you\nthere")
        );
        assert_eq!(
            of("Please translate this into Brazilian Portuguese:\n\nHi").as_deref(),
            Some("[simulated Brazilian Portuguese] Hi")
        );
        assert_eq!(of("What does translate mean?"), None);
        assert_eq!(of("Translate to French:"), None);
        let context = translated(&[
            "Today is Monday.",
            "Translate to German: whale",
            "Remember: be brief.",
        ]);
        assert_eq!(context.as_deref(), Some("[simulated German] whale"));
    }
}
