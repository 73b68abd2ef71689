//! The challenge of a server that wants other credentials: the header `WWW-Authenticate`, as an error with the
//! remedy.

use std::error::Error;
use std::io;

use cachalot_core::text::head;
use rmcp::transport::streamable_http_client::{AuthRequiredError, InsufficientScopeError};

use super::oauth::{OauthError, OauthErrorKind};

/// Maximum number of characters that are shown of a text of the server.
const MAX_SHOWN_CHARS: usize = 200;

/// Returns the problem and the remedy if an error is the challenge of a server.
pub(super) fn describe(error: &(dyn Error + 'static)) -> Option<String> {
    let mut causes = std::iter::successors(Some(error), |cause| (*cause).source());
    causes.find_map(|cause| {
        if let Some(error) = login_error(cause) {
            return Some(match error.kind {
                OauthErrorKind::LoginRequired => error.message.clone(),
                _ => format!("cannot be used: {error}"),
            });
        }
        let required = cause.downcast_ref::<AuthRequiredError>();
        let insufficient = cause.downcast_ref::<InsufficientScopeError>();
        match (required, insufficient) {
            (Some(required), _) => Some(describe_header(401, &required.www_authenticate_header)),
            (_, Some(refused)) => Some(describe_header(403, &refused.www_authenticate_header)),
            _ => None,
        }
    })
}

/// Returns the error of a login, which is wrapped as one of a transport.
pub(super) fn login_error<'a>(cause: &'a (dyn Error + 'static)) -> Option<&'a OauthError> {
    cause
        .downcast_ref::<io::Error>()?
        .get_ref()?
        .downcast_ref::<OauthError>()
}

fn describe_header(status: u16, header: &str) -> String {
    let Challenge {
        schemes,
        parameters,
    } = Challenge::parse(header);
    let parameter = |name: &str| {
        let mut found = parameters.iter().filter(|(known, _)| known == name);
        let value = found.next().map(|(_, value)| shown(value));
        value.filter(|value| !value.is_empty())
    };
    let mut facts = vec![format!("HTTP {status}")];
    facts.extend(schemes.first().map(|scheme| shown(scheme)));
    facts.extend(parameter("error"));
    facts.extend(parameter("error_description"));
    facts.extend(parameter("scope").map(|scope| format!("scope `{scope}`")));
    let problem = match status {
        401 => "wants credentials",
        _ => "refuses these credentials",
    };
    let is_basic = |scheme: &String| scheme.eq_ignore_ascii_case("basic");
    let scheme = if schemes.first().is_some_and(is_basic) {
        "Basic"
    } else {
        "Bearer"
    };
    let metadata = parameter("resource_metadata").filter(|address| is_web(address));
    let source = metadata.map_or_else(String::new, |address| {
        format!("; {address} names the server that issues tokens")
    });
    format!(
        "{problem} ({}): give a valid token in `headers` of the server in the agent file, \
         `Authorization: \"{scheme} …\"`{source}",
        facts.join(", ")
    )
}

/// Returns the beginning of a text of the server, without control characters.
fn shown(text: &str) -> String {
    let text: String = text
        .chars()
        .filter(|character| !character.is_control())
        .collect();
    head(text.trim(), MAX_SHOWN_CHARS).to_owned()
}

fn is_web(address: &str) -> bool {
    url::Url::parse(address).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// The parts of a `WWW-Authenticate` header.
#[derive(Debug, Default, PartialEq)]
struct Challenge {
    schemes: Vec<String>,
    /// The parameters of all schemes, with names in lower case.
    parameters: Vec<(String, String)>,
}

impl Challenge {
    /// Parses a header; skips what does not follow the grammar.
    fn parse(header: &str) -> Self {
        let mut challenge = Self::default();
        let mut rest = header;
        loop {
            rest = rest.trim_start_matches(|character: char| {
                character.is_whitespace() || ",=\"".contains(character)
            });
            if rest.is_empty() {
                return challenge;
            }
            let end = rest
                .find(|character: char| character.is_whitespace() || ",=\"".contains(character));
            let (word, after) = rest.split_at(end.unwrap_or(rest.len()));
            let Some(value) = after.trim_start().strip_prefix('=') else {
                challenge.schemes.push(word.to_owned());
                rest = after;
                continue;
            };
            let value = value.trim_start();
            let (value, after) = match value.strip_prefix('"') {
                Some(quoted) => unquoted(quoted),
                None => {
                    let end =
                        value.find(|character: char| character.is_whitespace() || character == ',');
                    let (value, after) = value.split_at(end.unwrap_or(value.len()));
                    (value.to_owned(), after)
                }
            };
            challenge
                .parameters
                .push((word.to_ascii_lowercase(), value));
            rest = after;
        }
    }
}

/// Reads a quoted text after its opening quote; returns what follows, too.
fn unquoted(quoted: &str) -> (String, &str) {
    let mut text = String::new();
    let mut characters = quoted.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (text, &quoted[at + 1..]),
            '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
            _ => text.push(character),
        }
    }
    (text, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_challenge_names_the_remedy() {
        assert_eq!(
            describe_header(
                401,
                r#"Bearer realm="x, y", error="invalid_token", error_description="it has \"expired\"", resource_metadata="https://a.example/.well-known/oauth-protected-resource""#
            ),
            "wants credentials (HTTP 401, Bearer, invalid_token, it has \"expired\"): give a valid token in `headers` of the server in the agent file, `Authorization: \"Bearer …\"`; https://a.example/.well-known/oauth-protected-resource names the server that issues tokens"
        );
        assert_eq!(
            describe_header(
                403,
                r#"Bearer error="insufficient_scope", scope="a b", resource_metadata=javascript:x"#
            ),
            "refuses these credentials (HTTP 403, Bearer, insufficient_scope, scope `a b`): give a valid token in `headers` of the server in the agent file, `Authorization: \"Bearer …\"`"
        );
        assert!(describe_header(401, "basic realm=x").contains("`Authorization: \"Basic …\"`"));
        assert!(describe_header(401, "").starts_with("wants credentials (HTTP 401): "));
    }

    proptest! {
        #[test]
        fn any_header_is_described(header in "[a-zA-Z =,\"\\\\\u{e9}\u{1b}]{0,60}") {
            let text = describe_header(401, &header);
            prop_assert!(text.contains("`headers`") && !text.contains('\x1b'));
        }
    }
}
