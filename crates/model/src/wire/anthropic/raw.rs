//! The text of values within JSON text that is known to be valid: a value tree forgets how numbers,
//! escapes and spaces were written.

/// The text of an object's member; of the last, if its key occurs twice. `None` if there is none, or
/// the text is no object.
pub(super) fn member<'a>(object: &'a str, key: &str) -> Option<&'a str> {
    let inner = object.trim_ascii_start().strip_prefix('{')?;
    let mut found = None;
    let mut rest = inner;
    while let Some((name, after)) = next_value(rest) {
        let after = after.trim_ascii_start().strip_prefix(':')?;
        let (value, after) = next_value(after)?;
        if serde_json::from_str::<String>(name).is_ok_and(|name| name == key) {
            found = Some(value);
        }
        rest = after_comma(after);
    }
    found
}

/// The texts of an array's elements.
pub(super) fn elements(array: &str) -> Vec<&str> {
    let inner = array.trim_ascii_start().strip_prefix('[');
    let mut elements = Vec::new();
    let mut rest = inner.unwrap_or_default();
    while let Some((element, after)) = next_value(rest) {
        elements.push(element);
        rest = after_comma(after);
    }
    elements
}

fn after_comma(text: &str) -> &str {
    let text = text.trim_ascii_start();
    text.strip_prefix(',').unwrap_or(text)
}

/// The text of the value that stands first, and what follows it; `None` at the end of an object, an
/// array or the text.
fn next_value(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_ascii_start();
    let end = match text.as_bytes().first()? {
        b'"' => end_of_string(text.as_bytes()),
        b'{' | b'[' => end_of_group(text.as_bytes()),
        _ => text
            .find([',', '}', ']', ' ', '\t', '\n', '\r'])
            .unwrap_or(text.len()),
    };
    text.split_at_checked(end)
        .filter(|(value, _)| !value.is_empty())
}

/// The length of the string that stands first.
fn end_of_string(text: &[u8]) -> usize {
    let mut at = 1;
    while let Some(next) = memchr::memchr2(b'"', b'\\', text.get(at..).unwrap_or_default()) {
        at += next;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}

/// The length of the object or array that stands first.
fn end_of_group(text: &[u8]) -> usize {
    let mut at = 0;
    let mut depth = 0_usize;
    while let Some(byte) = text.get(at) {
        match byte {
            b'"' => at += end_of_string(text.get(at..).unwrap_or_default()),
            b'{' | b'[' => {
                depth += 1;
                at += 1;
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                at += 1;
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::{elements, member};

    #[test]
    fn finds_the_text_of_a_member_as_it_was_written() {
        let object = r#" { "a\u0062" : 1.50 , "c" : { "}" : [ "\"]" , 1e2 ] } , "d":[],"e":null}"#;
        assert_eq!(member(object, "ab"), Some("1.50"));
        assert_eq!(member(object, "c"), Some(r#"{ "}" : [ "\"]" , 1e2 ] }"#));
        assert_eq!(member(object, "d"), Some("[]"));
        assert_eq!(member(object, "e"), Some("null"));
        assert_eq!(member(object, "f"), None);
        assert_eq!(member("[]", "f"), None);
        assert_eq!(member("{}", "f"), None);
    }

    #[test]
    fn of_two_members_with_the_same_key_the_last_counts() {
        assert_eq!(member(r#"{"a":1,"a":2}"#, "a"), Some("2"));
    }

    #[test]
    fn lists_the_elements_of_an_array() {
        assert_eq!(
            elements(r#" [ 1 ,"a,\\",{"b":[2]}, [ ] ,true] "#),
            ["1", r#""a,\\""#, r#"{"b":[2]}"#, "[ ]", "true"]
        );
        assert!(elements("[ ]").is_empty());
        assert!(elements("{}").is_empty());
    }
}
