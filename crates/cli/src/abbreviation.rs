//! Arguments that may be unique beginnings of keys, handles and session IDs.

use crate::command_error::{CommandError, Result};

/// The maximum number of names that are listed if a beginning is ambiguous.
pub(crate) const MAX_CANDIDATES: u32 = 10;

/// Returns the name that is exactly `given`, or else the only one of `found`. `what` is the plural of the
/// kind of names. At most one more than [`MAX_CANDIDATES`] names are needed.
///
/// # Errors
/// Several names begin with `given`.
pub(crate) fn resolve(what: &str, given: &str, mut found: Vec<String>) -> Result<Option<String>> {
    match found.as_slice() {
        _ if found.iter().any(|name| name == given) => Ok(Some(given.to_owned())),
        [] | [_] => Ok(found.pop()),
        several => Err(ambiguous(what, given, several)),
    }
}

fn ambiguous(what: &str, given: &str, several: &[String]) -> CommandError {
    let named = several.iter().take(MAX_CANDIDATES as usize);
    let mut named: Vec<String> = named.map(|name| format!("`{name}`")).collect();
    if several.len() > named.len() {
        named.push("…".to_owned());
    }
    let named = named.join(", ");
    CommandError::failed(format!(
        "several {what} begin with `{given}`: {named}; give more of the name"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(given: &str, found: &[&str]) -> std::result::Result<Option<String>, String> {
        let found = found.iter().map(|name| (*name).to_owned()).collect();
        resolve("keys", given, found).map_err(|error| error.to_string())
    }

    #[test]
    fn beginning_of_several_names_is_an_error_that_lists_them() {
        assert_eq!(found("ab", &[]), Ok(None));
        assert_eq!(found("ab", &["abc"]), Ok(Some("abc".to_owned())));
        assert_eq!(found("ab", &["abc", "ab"]), Ok(Some("ab".to_owned())));
        assert_eq!(
            found("ab", &["abc", "abd"]),
            Err("several keys begin with `ab`: `abc`, `abd`; give more of the name".to_owned())
        );
        let many: Vec<String> = (0..11).map(|number| format!("ab{number}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(found("ab", &many).is_err_and(|message| message.contains("`ab9`, …;")));
    }
}
