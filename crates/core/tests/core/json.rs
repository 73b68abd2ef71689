//! The JSON scanner: what it returns, what it refuses, and `serde_json` as an oracle.

use cachalot_core::json::{self, JsonError, JsonResult, OBJECT, Scanner};
use proptest::prelude::*;
use serde::de::IgnoredAny;
use serde_json::Value;

use crate::canonical::values::{text, value};

fn scanned(text: &str) -> JsonResult<&[u8]> {
    let mut scanner = Scanner::new(text.as_bytes());
    let value = scanner.value()?;
    scanner.end().map(|()| value)
}

fn decoded(literal: &[u8]) -> Result<Vec<u8>, JsonError> {
    let mut scanner = Scanner::new(literal);
    let mut unescaped = b"what was there before".to_vec();
    let text = scanner.text(&mut unescaped)?.to_vec();
    scanner.end().map(|()| text)
}

#[test]
fn scanned_values_keep_their_bytes() {
    for text in [
        r#"{ "a\"" : [ 1.50 , "}\\" , {} , [] ] }"#,
        "-1e9",
        "null",
        r#""""#,
        r#""\ud83d\ude00""#,
    ] {
        assert_eq!(scanned(text).unwrap(), text.as_bytes());
    }
    assert_eq!(scanned(" [1] ").unwrap(), b"[1]");
}

#[test]
fn broken_structure_is_refused_with_its_position() {
    for (text, at) in [
        ("", 0),
        ("[1", 2),
        ("[1,]", 3),
        (r#"{"a" 1}"#, 5),
        (r#"{"a":1,}"#, 7),
        (r#""abc"#, 4),
        ("[1}", 2),
        ("[1] x", 4),
        ("nul", 0),
        ("[01]", 2),
        ("-Infinity", 1),
        (r#"{"a":"\"#, 7),
    ] {
        assert_eq!(scanned(text).unwrap_err().at, at, "{text}");
    }
    let deep = "[".repeat(1_000_000);
    let found = scanned(&deep).unwrap_err();
    assert_eq!(found.to_string(), "nested too deeply at byte 128");
}

#[test]
fn surrogate_escapes_are_one_character_and_half_a_pair_is_refused() {
    assert_eq!(decoded(br#""\ud83d\ude00""#).unwrap(), "😀".as_bytes());
    assert_eq!(decoded(br#""a\uD83D\uDE00b""#).unwrap(), "a😀b".as_bytes());
    for half in [
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ude00\ud83d""#,
        r#""\ud83d\u0041""#,
        r#""\ud83d\n""#,
    ] {
        let found = decoded(half.as_bytes()).unwrap_err();
        assert!(found.reason.starts_with("a lone surrogate"), "{half}");
    }
}

#[test]
fn longest_string_value_is_recorded_once() {
    let mut scanner = Scanner::new(br#"{"the longest key": "a", "b": ["longer", "c"]} "longest""#);
    scanner.value().unwrap();
    assert_eq!(scanner.take_longest(), b"longer");
    assert_eq!(scanner.take_longest(), b"");
    scanner.string().unwrap();
    assert_eq!(scanner.take_longest(), b"");
}

#[test]
fn members_are_found_as_they_were_written() {
    let object = r#" { "a\u0062" : 1.50 , "c" : { "}" : [ "\"]" , 1e2 ] } , "d":[],"e":null}"#;
    assert_eq!(json::member(object, "ab"), Some("1.50"));
    assert_eq!(
        json::member(object, "c"),
        Some(r#"{ "}" : [ "\"]" , 1e2 ] }"#)
    );
    assert_eq!(json::member(object, "d"), Some("[]"));
    assert_eq!(json::member(object, "e"), Some("null"));
    assert_eq!(json::member(object, "f"), None);
    assert_eq!(json::member("[]", "f"), None);
    assert_eq!(json::member("{}", "f"), None);
    assert_eq!(json::member(r#"{"a":1,"a":2}"#, "a"), Some("2"));
    assert_eq!(json::member(r#"{"\ud83d\ude00":1}"#, "😀"), Some("1"));
}

#[test]
fn elements_are_listed_as_they_were_written() {
    assert_eq!(
        json::elements(r#" [ 1 ,"a,\\",{"b":[2]}, [ ] ,true] "#),
        ["1", r#""a,\\""#, r#"{"b":[2]}"#, "[ ]", "true"]
    );
    assert!(json::elements("[ ]").is_empty());
    assert!(json::elements("{}").is_empty());
    assert!(json::elements("[1").is_empty());
}

#[test]
fn numbers_inside_strings_are_not_listed() {
    let text = r#"{"1": [-2.50, "3 \" 4", 5e6], "\\": 7}"#;
    let numbers: Vec<&str> = json::numbers(text).map(|number| &text[number]).collect();
    assert_eq!(numbers, ["-2.50", "5e6", "7"]);
    assert_eq!(json::numbers(r#"["no end 1"#).count(), 0);
}

#[test]
fn integers_beyond_64_bits_are_recognized() {
    for (number, expected) in [
        ("18446744073709551615", false),
        ("18446744073709551616", true),
        ("-9223372036854775808", false),
        ("-9223372036854775809", true),
        ("100000000000000000000.5", false),
        ("1e400", false),
        ("0", false),
    ] {
        assert_eq!(json::is_beyond_64_bits(number), expected, "{number}");
    }
}

/// A string in a random spelling: some of its characters as escapes.
fn written(text: &str, choices: &[u8]) -> String {
    let mut choices = choices.iter().cycle();
    let mut out = String::from("\"");
    for character in text.chars() {
        if choices.next().is_some_and(|choice| choice % 3 == 0) {
            for unit in character.encode_utf16(&mut [0; 2]) {
                out.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            let plain = Value::from(character.to_string()).to_string();
            out.push_str(&plain[1..plain.len() - 1]);
        }
    }
    out + "\""
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn values_are_split_exactly_as_by_serde(value in value(), pretty: bool) {
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        prop_assert_eq!(scanned(&text), Ok(text.as_bytes()));
        match &value {
            Value::Object(fields) => {
                for (name, field) in fields {
                    let found = json::member(&text, name).map(serde_json::from_str::<Value>);
                    prop_assert_eq!(&found.unwrap().unwrap(), field);
                }
                let mut scanner = Scanner::new(text.as_bytes());
                let mut names = 0;
                let mut more = scanner.open(&OBJECT).unwrap();
                while more {
                    scanner.name().unwrap();
                    scanner.value().unwrap();
                    names += 1;
                    more = scanner.more(&OBJECT).unwrap();
                }
                prop_assert_eq!(names, fields.len());
            }
            Value::Array(items) => {
                let found: Vec<Value> = json::elements(&text)
                    .into_iter()
                    .map(|element| serde_json::from_str(element).unwrap())
                    .collect();
                prop_assert_eq!(&found, items);
            }
            _ => {}
        }
    }

    #[test]
    fn strings_are_decoded_exactly_as_by_serde(text in text(), choices in prop::collection::vec(any::<u8>(), 1..8)) {
        let literal = written(&text, &choices);
        prop_assert_eq!(decoded(literal.as_bytes()), Ok(text.into_bytes()));
        prop_assert_eq!(
            decoded(literal.as_bytes()).ok(),
            serde_json::from_str::<String>(&literal).ok().map(String::into_bytes)
        );
    }

    #[test]
    fn string_fragments_are_decoded_exactly_as_by_serde(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "\\u", "d83d", "\\ud83d", "\\ude00", "\\uDE0", "\\\\", "\\\"", "\\n", "\\x", "a", "é", "\t",
                "😀", "\\", "0123456789abcdef", "\"",
            ]),
            0..12,
        )
    ) {
        let literal = format!("\"{}\"", parts.concat());
        let theirs = serde_json::from_str::<String>(&literal).ok().map(String::into_bytes);
        prop_assert_eq!(decoded(literal.as_bytes()).ok(), theirs, "{}", literal);
    }

    #[test]
    fn scanner_accepts_everything_that_serde_accepts(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "[", "]", "{", "}", ",", ":", "\"a\"", "\"a\":", "\"", "\\", "0", "1", "-", ".", "e", "+",
                "true", "false", "null", " ", "\n", "\\ud83d", "NaN",
            ]),
            0..16,
        )
    ) {
        let text = parts.concat();
        // What stands within strings is not checked here.
        if serde_json::from_str::<IgnoredAny>(&text).is_ok() {
            prop_assert!(scanned(&text).is_ok(), "{}", text);
        } else if !text.contains(['"', '\\']) {
            prop_assert!(scanned(&text).is_err(), "{}", text);
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let mut scanner = Scanner::new(&bytes);
        let _ = scanner.value();
        let text = String::from_utf8_lossy(&bytes);
        for number in json::numbers(&text) {
            prop_assert!(text.get(number).is_some());
        }
        let _ = (json::member(&text, "a"), json::elements(&text));
    }
}

#[test]
fn values_are_counted_outside_of_strings() {
    for (text, count) in [
        ("1", 1),
        (r#""a,[{\",[""#, 1),
        ("[1,2]", 3),
        (r#"{"a": [], "b": {"c": 1}}"#, 5),
    ] {
        assert_eq!(
            cachalot_core::json::values(text.as_bytes()),
            count,
            "{text}"
        );
    }
}
