//! Messages of several lines that are typed line by line.

/// Begins and ends a message of several lines.
pub(super) const FENCE: &str = "\"\"\"";

/// Returns true if a line break continues the input: it ends with a backslash, or begins with an open fence.
pub(crate) fn is_continued(input: &str) -> bool {
    match input.strip_prefix(FENCE) {
        Some(inside) => !inside.trim_end().ends_with(FENCE),
        None => input.ends_with('\\'),
    }
}

/// Returns the message in an input: without fences and backslashes before line breaks.
pub(crate) fn unfenced(input: &str) -> String {
    match input
        .strip_prefix(FENCE)
        .and_then(|inside| inside.trim_end().strip_suffix(FENCE))
    {
        Some(inside) => inside.trim_matches('\n').to_owned(),
        None => input.replace("\\\n", "\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::{is_continued, unfenced};

    #[test]
    fn multi_line_input_is_one_message() {
        assert_eq!(unfenced("one"), "one");
        assert_eq!(unfenced("one\\\ntwo"), "one\ntwo");
        assert_eq!(unfenced("\"\"\"\none\ntwo\n\"\"\""), "one\ntwo");
        assert_eq!(unfenced("a \\ b"), "a \\ b");
        assert!(is_continued("one\\") && is_continued("\"\"\"\none"));
        assert!(!is_continued("one") && !is_continued("\"\"\"one\"\"\""));
    }
}
