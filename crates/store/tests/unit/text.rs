//! Unit tests of `src/text.rs`.

use super::*;
use proptest::prelude::*;

#[test]
fn upper_bound_of_a_prefix_range() {
    assert_eq!(after_prefix("").as_deref(), None);
    assert_eq!(after_prefix("a").as_deref(), Some("b"));
    assert_eq!(after_prefix("a\u{10FFFF}").as_deref(), Some("b"));
    assert_eq!(after_prefix("\u{10FFFF}\u{10FFFF}").as_deref(), None);
    assert_eq!(after_prefix("\u{D7FF}").as_deref(), Some("\u{E000}"));
    assert_eq!(after_prefix("\u{7F}").as_deref(), Some("\u{80}"));
}

#[test]
fn star_is_the_only_wildcard() {
    for (pattern, text, matches) in [
        ("cache:a:*", "cache:a:x:1", true),
        ("cache:a:*", "cache:ab:x", false),
        ("*", "", true),
        ("*:x:*", "cache:x:1", true),
        ("*:x:*", "cache:y:1", false),
        ("a*b*c", "a1b2c", true),
        ("a*b*c", "a1c2b", false),
        ("a*a", "a", false),
        ("a?c", "abc", false),
        ("a[b]c", "a[b]c", true),
        ("exact", "exact", true),
        ("exact", "exact\n", false),
        ("**", "anything", true),
    ] {
        assert_eq!(
            glob_matches(pattern, text),
            matches,
            "{pattern} on {text:?}"
        );
    }
}

#[test]
fn words_are_split_from_a_query() {
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
    fn prefix_range_contains_exactly_the_texts_with_the_prefix(prefix in any::<String>(), text in any::<String>(), cut in 0usize..8) {
        let own: String = text.chars().take(cut).collect();
        for prefix in [prefix, own] {
            let inside = text.as_str() >= prefix.as_str() && after_prefix(&prefix).is_none_or(|end| text < end);
            prop_assert_eq!(inside, text.starts_with(&prefix));
        }
    }
}
