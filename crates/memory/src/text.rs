//! Prefixes as ranges, and the words of a query.

/// The smallest text that is larger than every text that begins with `prefix`; `None` if there is none.
/// Texts are compared by their UTF-8 bytes, which is the order of their characters.
pub(crate) fn after_prefix(prefix: &str) -> Option<String> {
    let mut end = prefix.to_owned();
    while let Some(last) = end.pop() {
        let next = match last {
            '\u{D7FF}' => Some('\u{E000}'),
            other => char::from_u32(other as u32 + 1),
        };
        if let Some(next) = next {
            end.push(next);
            return Some(end);
        }
    }
    None
}

/// A word of a query: literal text, or the beginning of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word<'a> {
    pub(crate) text: &'a str,
    pub(crate) prefix: bool,
}

/// The words of a query: what stands between spaces, without a closing `*`; what has no letter and no
/// digit is not a word.
pub(crate) fn words(query: &str) -> impl Iterator<Item = Word<'_>> {
    query
        .split(|c: char| c.is_whitespace() || c.is_control())
        .filter_map(|part| {
            let text = part.trim_end_matches('*');
            text.contains(char::is_alphanumeric).then_some(Word {
                text,
                prefix: text.len() < part.len(),
            })
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_end_of_a_prefix() {
        assert_eq!(after_prefix("").as_deref(), None);
        assert_eq!(after_prefix("a").as_deref(), Some("b"));
        assert_eq!(after_prefix("a\u{10FFFF}").as_deref(), Some("b"));
        assert_eq!(after_prefix("\u{10FFFF}\u{10FFFF}").as_deref(), None);
        assert_eq!(after_prefix("\u{D7FF}").as_deref(), Some("\u{E000}"));
        assert_eq!(after_prefix("\u{7F}").as_deref(), Some("\u{80}"));
    }

    #[test]
    fn words_of_a_query() {
        let found: Vec<_> = words("  alpha be-ta* \"AND\" * -- NEAR(x**")
            .map(|word| (word.text, word.prefix))
            .collect();
        assert_eq!(
            found,
            [
                ("alpha", false),
                ("be-ta", true),
                ("\"AND\"", false),
                ("NEAR(x", true)
            ]
        );
        assert_eq!(words(" * \" ' ").count(), 0);
    }

    proptest! {
        #[test]
        fn a_text_is_in_the_range_of_a_prefix_exactly_if_it_begins_so(prefix in any::<String>(), text in any::<String>(), cut in 0usize..8) {
            let own: String = text.chars().take(cut).collect();
            for prefix in [prefix, own] {
                let inside = text.as_str() >= prefix.as_str() && after_prefix(&prefix).is_none_or(|end| text < end);
                prop_assert_eq!(inside, text.starts_with(&prefix));
            }
        }
    }
}
