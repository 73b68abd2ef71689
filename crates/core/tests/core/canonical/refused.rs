use cachalot_core::Canonical;
use proptest::prelude::*;
use serde_json::Value;

fn refused(text: impl AsRef<[u8]>) -> String {
    let text = text.as_ref();
    match Canonical::json(text) {
        Ok(_) => panic!("{:?} was accepted", String::from_utf8_lossy(text)),
        Err(refused) => {
            assert!(refused.at <= text.len());
            refused.to_string()
        }
    }
}

#[test]
fn duplicate_keys_are_refused_in_every_spelling() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"a":1}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"{"\/":1,"/":2}"#,
        r#"{"🐋":1,"\ud83d\udc0b":2}"#,
        r#"[{"x":{"":1,"":2}}]"#,
        r#"{"b":1,"a":{"c":1,"d":2,"c":3}}"#,
    ] {
        assert!(refused(text).starts_with("a key occurs twice"), "{text}");
    }
    assert!(Canonical::json(br#"[{"a":1},{"a":1},{"b":{"a":1}}]"#).is_ok());
}

#[test]
fn lone_surrogates_are_refused() {
    for text in [
        r#""\ud800""#,
        r#""\udc00""#,
        r#""\ud800\ud800""#,
        r#""\ud800\u0061""#,
        r#""\ud800x""#,
        r#""\udc0b\ud83d""#,
        r#"{"\ud800":1}"#,
    ] {
        assert!(refused(text).starts_with("a lone surrogate"), "{text}");
    }
}

#[test]
fn invalid_json_is_refused_with_its_position() {
    for (text, at) in [
        ("", 0),
        (" ", 1),
        ("[", 1),
        ("[1", 2),
        ("[1,", 3),
        ("[1,]", 3),
        ("[,1]", 1),
        ("{", 1),
        ("{\"a\"", 4),
        ("{\"a\":}", 5),
        ("{\"a\":1,}", 7),
        ("{a:1}", 1),
        ("{1:1}", 1),
        ("'a'", 0),
        ("\"a", 2),
        ("\"a\\", 3),
        ("tru", 0),
        ("nulL", 0),
        ("True", 0),
        ("NaN", 0),
        ("Infinity", 0),
        ("undefined", 0),
        ("01", 1),
        ("-01", 2),
        ("-", 1),
        ("+1", 0),
        ("1.", 2),
        (".5", 0),
        ("1e", 2),
        ("1e+", 3),
        ("1.e1", 2),
        ("0x1", 1),
        ("1 2", 2),
        ("{} {}", 3),
        ("[] ,", 3),
        ("null null", 5),
        ("\"a\"b", 3),
        ("[1 2]", 3),
        ("{\"a\" 1}", 5),
        ("\"\\x\"", 2),
        ("\"\\u12g4\"", 2),
        ("\"\\u12", 2),
        ("\"\n\"", 1),
        ("\"\t\"", 1),
        ("\"\u{0}\"", 1),
        ("\"\\n\u{1}\"", 3),
        ("// c\n1", 0),
        ("\u{feff}1", 0),
        ("\u{a0}1", 0),
        ("[1}", 2),
        ("{\"a\":1]", 6),
    ] {
        let found = Canonical::json(text.as_bytes()).expect_err(text);
        assert_eq!(found.at, at, "{text:?}: {found}");
        assert!(!found.reason.is_empty());
    }
}

#[test]
fn bytes_that_are_not_utf8_are_refused() {
    for (bytes, at) in [
        (&b"\"\xff\""[..], 1),
        (b"\"a\xc3\"", 2),
        (b"\"\xed\xa0\x80\"", 1),
        (b"[1]\xfe", 3),
        (b"\"\xc0\xaf\"", 1),
    ] {
        let found = Canonical::json(bytes).unwrap_err();
        assert_eq!((found.reason, found.at), ("not UTF-8", at));
    }
}

#[test]
fn nesting_is_limited_to_128() {
    let lists = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let maps = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    assert!(Canonical::json(lists(128).as_bytes()).is_ok());
    assert!(Canonical::json(maps(128).as_bytes()).is_ok());
    assert_eq!(refused(lists(129)), "nested too deeply at byte 128");
    assert!(refused(maps(129)).starts_with("nested too deeply"));
    assert!(refused("[".repeat(10_000_000)).starts_with("nested too deeply"));
}

/// We accept what serde_json accepts, and nothing else, but for: keys that occur twice, which it
/// takes the last of; nesting of exactly 128, which it refuses; numbers beyond the largest float,
/// which it cannot hold and we need not.
fn agrees_with_serde(bytes: &[u8]) -> Result<(), TestCaseError> {
    let theirs = serde_json::from_slice::<Value>(bytes);
    match (Canonical::json(bytes), theirs) {
        (Ok(_), Ok(_)) | (Err(_), Err(_)) => Ok(()),
        (Err(ours), Ok(_)) => {
            prop_assert!(ours.reason.starts_with("a key occurs twice"), "{}", ours);
            Ok(())
        }
        (Ok(_), Err(theirs)) => {
            let reason = theirs.to_string();
            let excused =
                reason.starts_with("number out of range") || reason.starts_with("recursion limit");
            prop_assert!(excused, "{}", reason);
            Ok(())
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn arbitrary_bytes_are_accepted_exactly_as_by_serde(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        agrees_with_serde(&bytes)?;
    }

    #[test]
    fn json_fragments_are_accepted_exactly_as_by_serde(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                &b"["[..], b"]", b"{", b"}", b",", b":", b"\"", b"\"a\"", b"\"a\":", b"\"b\":1", b"\\", b"\\u", b"d83d", b"dc0b",
                b"\\ud83d", b"\\udc0b", b"\\n", b"0", b"1", b"-", b".", b"e", b"E", b"+", b"12", b"true", b"false",
                b"null", b" ", b"\n", b"\t", b"\x00", b"\xc3\xa9", b"\xff", b"\xef\xbb\xbf",
            ]),
            0..24,
        )
    ) {
        agrees_with_serde(&parts.concat())?;
    }
}
