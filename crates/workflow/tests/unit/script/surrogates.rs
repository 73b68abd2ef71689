//! Unit tests of `src/script/surrogates.rs`.

use super::*;

#[test]
fn escapes_are_decoded_as_by_python() {
    for (literal, expected) in [
        (r#""\ud800""#, Some((1, r"\ud800"))),
        (r#""é\\\uDFFF""#, Some((5, r"\uDFFF"))),
        (r#""\U0000dabc""#, Some((1, r"\U0000dabc"))),
        (r#""\\ud800""#, None),
        (r#""\ud7ff\ue000\U0001F600""#, None),
        (r#""\é\u00e9\ud8""#, None),
        (r#""\"#, None),
    ] {
        assert_eq!(find_escape(literal), expected, "{literal}");
    }
}
