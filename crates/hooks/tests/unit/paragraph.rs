//! Unit tests of `src/paragraph.rs`.

use super::*;

#[test]
fn truncated_text_is_cut_between_characters_and_marked() {
    assert_eq!(truncate(b"abc", 3).as_deref(), Some("abc"));
    let cut = "[cut off here: these are the first 3 bytes]";
    assert_eq!(truncate(b"abcd", 3), Some(format!("abc\n{cut}")));
    // The third byte is the first half of a character.
    assert_eq!(truncate("abéd".as_bytes(), 3), Some(format!("ab\n{cut}")));
    assert_eq!(truncate(b"a\xffcd", 3), None);
    assert_eq!(truncate(b"ab\xc3", 3), None);
}

#[test]
fn the_last_paragraph_with_a_label_applies() {
    let said = |texts: &[&str]| -> Vec<Arc<Message>> {
        texts
            .iter()
            .map(|text| Arc::new(Message::user(*text)))
            .collect()
    };
    let (one, other) = ("<a>\n1\n</a>", "<a>\n2\n</a>");
    assert!(is_new(one, &said(&["hello"])));
    assert!(!is_new(
        one,
        &said(&["before <a>\n1\n</a> behind", "hello"])
    ));
    assert!(is_new(one, &said(&[one, other])));
    assert!(is_new("<a>\n12\n</a>", &said(&[one])));
    assert!(is_new(one, &said(&["<a>\n12\n</a>"])));
}
