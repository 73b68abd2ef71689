//! Unit tests of `src/actions/json/relaxed.rs`.

use super::strip;

#[test]
fn comments_and_trailing_commas_are_removed_outside_of_strings() {
    for (text, expected) in [
        ("[1, 2,]", "[1, 2]"),
        ("{\"a\": 1 , // one\n}", "{\"a\": 1 }"),
        ("[/* none */]", "[]"),
        ("{\"a\": \"http://x/,]\",}", "{\"a\": \"http://x/,]\"}"),
        ("[\"\\\"//\", 1,\n]", "[\"\\\"//\", 1]"),
        ("1 / 2", "1 / 2"),
        ("/* open", "/* open"),
        ("\"open // ,]", "\"open // ,]"),
        ("[\"ä\", 'é',]", "[\"ä\", 'é']"),
    ] {
        assert_eq!(strip(text), expected, "{text}");
    }
}
