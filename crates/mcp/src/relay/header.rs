//! A header of the command line.

use std::collections::BTreeMap;

use cachalot_core::Secret;
use http::HeaderName;

use super::remote::own_header;
use super::variables::expanded;

/// Reads a header for every request to a server: `NAME: VALUE`. `${VARIABLE}` and `${VARIABLE:-DEFAULT}` in the value are
/// replaced by variables.
///
/// # Errors
/// If the text is no header, the header belongs to the protocol or a variable is not set, as a sentence for the user
/// without the value.
pub fn read_header(
    text: &str,
    environment: &BTreeMap<String, String>,
) -> Result<(String, Secret<String>), String> {
    let named = text
        .split_once(':')
        .map(|(name, value)| (name.trim(), value));
    let (name, value) = named
        .filter(|(name, _)| HeaderName::try_from(*name).is_ok())
        .ok_or("a header has to be `NAME: VALUE`")?;
    let value = expanded(value.trim(), environment).map_err(|why| format!("`{name}`: {why}"))?;
    let value = Secret::new(value);
    own_header(name, &value)?;
    Ok((name.to_owned(), value))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_errors_do_not_have_their_values() {
        let environment = BTreeMap::from([
            ("TOKEN".to_owned(), "a: b".to_owned()),
            ("LINES".to_owned(), "a\nsecret".to_owned()),
        ]);
        let read = |text: &str| read_header(text, &environment);
        for (text, name, value) in [
            (
                "Authorization: Bearer ${TOKEN}",
                "Authorization",
                "Bearer a: b",
            ),
            ("X-Key:${NONE:-k:1}", "X-Key", "k:1"),
            ("X-Empty: ", "X-Empty", ""),
        ] {
            let (read_name, read_value) = read(text).unwrap();
            assert_eq!((&*read_name, &**read_value.expose()), (name, value));
        }
        for (wrong, why) in [
            ("secret", "has to be `NAME: VALUE`"),
            ("Bearer secret: x", "has to be `NAME: VALUE`"),
            (": secret", "has to be `NAME: VALUE`"),
            ("X: secret ${NONE}", "`X`: the variable `NONE` is not set"),
            (
                "X: ${LINES}",
                "header `X` has a value that no header can have",
            ),
            ("Accept: secret", "header `Accept` belongs to the protocol"),
            ("mcp-protocol-version: secret", "belongs to the protocol"),
            ("Host: secret", "belongs to the protocol"),
        ] {
            let error = read(wrong).unwrap_err();
            assert!(error.contains(why) && !error.contains("secret"), "{error}");
        }
    }
}
