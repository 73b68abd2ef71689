//! Words of shell commands.

/// Quotes the text as one word of a shell command.
pub(crate) fn quote(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:@%+,".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}
