//! Unit tests of `src/flat_json/text.rs`.

use super::*;
use proptest::prelude::*;

fn complaint(text: &str) -> String {
    parse(text.as_bytes()).unwrap_err().to_string()
}

#[test]
fn invalid_file_error_has_the_place() {
    let said = complaint("{\n  \"how many\": 7\n}");
    assert!(
        said.contains("the answer to `how many` is no text"),
        "{said}"
    );
    assert!(said.contains("line 2"), "{said}");
    assert!(complaint(r#"{"a": "1", "a": "2"}"#).contains("`a` is there twice"));
    assert!(complaint(r#"["a"]"#).contains("an object of questions and answers"));
    assert!(complaint(r#"{"a": "1""#).contains("EOF"));
    assert!(complaint(r#"{"a": "1"} {"#).contains("trailing"));
    assert!(complaint(r#"{"a": {"b": "c"}}"#).contains("`a` is no text"));
}

#[test]
fn empty_text_has_no_entries() {
    for text in ["", "\n", " \t\r\n", "{}"] {
        assert!(parse(text.as_bytes()).unwrap().is_empty());
    }
}

#[test]
fn entries_are_printed_one_per_line_in_order() {
    let entries = parse(br#"{"b":"2","a":"\u003c1\u003e"}"#).unwrap();
    assert_eq!(
        print(&entries).unwrap(),
        b"{\n  \"a\": \"<1>\",\n  \"b\": \"2\"\n}"
    );
}

proptest! {
    #[test]
    fn entries_round_trip(entries in any::<BTreeMap<String, String>>()) {
        let entries: Entries = entries.iter().map(|(q, a)| (q.as_str().into(), a.as_str().into())).collect();
        prop_assert_eq!(parse(&print(&entries).unwrap()).unwrap(), entries);
    }
}
