//! The decision if a response may be stored, and for how long.

use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::Reason;

use super::result_view::{CacheScope, ResultView};
use super::stored_response;
use crate::relay::Frame;

/// Maximum time for which an answer is stored because the server says so.
pub(super) const MAX_HINTED: Duration = Duration::from_secs(24 * 3_600);

/// The rules for a kind of responses.
#[derive(Debug, Clone)]
pub(super) enum Rule {
    /// The result of a tool.
    Tool {
        /// Stores texts that look like a failure.
        allow_error_text: bool,
    },
    /// A result for which the server may state a time.
    Hinted {
        /// The time of the policy, if the server states none.
        fallback: Option<Duration>,
        /// True if the entry is shared by all clients.
        is_shared: bool,
    },
}

/// A judged response.
pub(super) struct Judgment {
    /// The stored form.
    pub(super) stored: Bytes,
    pub(super) storable: Result<(), Reason>,
    /// The time that the server states.
    pub(super) lifetime: Option<Duration>,
    /// True if the server reports an error.
    pub(super) is_error: bool,
    /// True if the server permits to share the answer between clients.
    pub(super) is_public: bool,
}

impl Judgment {
    fn refused(why: &str) -> Self {
        Self {
            stored: Bytes::new(),
            storable: Err(Reason::Declined(why.to_owned())),
            lifetime: None,
            is_error: false,
            is_public: false,
        }
    }

    /// Judges a response with a result of at most `max_bytes`.
    pub(super) fn new(response: &Frame, rule: &Rule, max_bytes: u64) -> Self {
        let Some(result) = response.result() else {
            return Self {
                is_error: true,
                ..Self::refused("the server answered with an error")
            };
        };
        let bytes = response.bytes().len() as u64;
        if bytes > max_bytes {
            let limit = max_bytes;
            return Self {
                storable: Err(Reason::TooLarge { bytes, limit }),
                ..Self::refused("")
            };
        }
        let Ok(view) = ResultView::read(result) else {
            return Self::refused("the result is no object");
        };
        if response.http_answer().is_some() {
            return Self::refused("its HTTP response has headers for the client");
        }
        if let Some(why) = refusal(&view, rule) {
            return Self {
                is_error: view.is_error,
                ..Self::refused(why)
            };
        }
        let lifetime = match lifetime(&view, rule) {
            Ok(lifetime) => lifetime,
            Err(why) => return Self::refused(why),
        };
        match stored_response::encode(response, &view) {
            Some(stored) => Self {
                stored,
                storable: Ok(()),
                lifetime,
                is_error: false,
                is_public: view.scope == Some(CacheScope::Public) && view.ttl.is_some(),
            },
            None => Self::refused("the response has no id"),
        }
    }
}

/// Returns the reason why a result is not stored.
fn refusal(view: &ResultView<'_>, rule: &Rule) -> Option<&'static str> {
    if view.is_error {
        Some("the tool reported an error")
    } else if !view.is_complete {
        Some("the result is not the final one")
    } else if view.is_task {
        Some("the result belongs to a task")
    } else if view.is_ambiguous {
        Some("a member of the result is there twice")
    } else {
        match rule {
            Rule::Tool {
                allow_error_text: false,
            } if view.begins_like_an_error() => Some(
                "its text begins like an error, which the server does not declare; `allow_error_text: true` stores it",
            ),
            Rule::Hinted {
                is_shared: true, ..
            } if view.scope != Some(CacheScope::Public) => {
                Some("the server declares the answer private")
            }
            Rule::Hinted { .. } if view.scope == Some(CacheScope::Unreadable) => {
                Some("`cacheScope` of the server cannot be read")
            }
            _ => None,
        }
    }
}

/// Returns the time for which the server permits to store a result; `None` if it states none and need not.
fn lifetime(view: &ResultView<'_>, rule: &Rule) -> Result<Option<Duration>, &'static str> {
    let stated = match &view.ttl {
        None => None,
        Some((text, _)) => Some(milliseconds(text).ok_or("`ttlMs` of the server cannot be read")?),
    };
    match (stated, rule) {
        (Some(0), _) => Err("the server declares that its answer is not to be stored"),
        (Some(stated), _) => Ok(Some(Duration::from_millis(stated).min(MAX_HINTED))),
        (None, Rule::Tool { .. }) => Ok(None),
        (None, Rule::Hinted { fallback, .. }) => match fallback {
            Some(fallback) => Ok(Some(*fallback)),
            None => Err("the server states no time for which its answer is fresh"),
        },
    }
}

/// Returns a number of milliseconds; zero for a negative one.
fn milliseconds(text: &str) -> Option<u64> {
    if let Ok(whole) = text.parse::<u64>() {
        return Some(whole);
    }
    let number: f64 = text.parse().ok()?;
    // JSON has no infinity, but an exponent may be too large for a float.
    let first = text.as_bytes().first()?;
    if !number.is_finite() || !(first.is_ascii_digit() || *first == b'-') {
        return None;
    }
    Some(number.max(0.0) as u64)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn judge(result: &str, rule: &Rule) -> Judgment {
        Judgment::new(&Frame::response("1", result), rule, 1_000)
    }

    const TOOL: Rule = Rule::Tool {
        allow_error_text: false,
    };
    const HINTED: Rule = Rule::Hinted {
        fallback: None,
        is_shared: false,
    };

    #[test]
    fn results_that_are_never_stored() {
        for result in [
            r#"{"isError":true,"content":[]}"#,
            r#"{"resultType":"input_required","inputRequests":{}}"#,
            r#"{"resultType":"task","taskId":"1"}"#,
            r#"{"task":{"taskId":"1"}}"#,
            r#"{"content":[],"_meta":{"io.modelcontextprotocol/related-task":{"taskId":"1"}}}"#,
            r#"{"content":[{"type":"text","text":"Error: no library"}]}"#,
            r#"{"content":[{"type":"text","text":"  Failed to fetch"}]}"#,
            r#"{"content":[],"ttlMs":0}"#,
            r#"{"content":[],"ttlMs":[]}"#,
            r#"{"content":[],"content":[]}"#,
            "[]",
        ] {
            assert!(judge(result, &TOOL).storable.is_err(), "{result}");
        }
        assert!(
            judge(r#"{"content":[{"type":"text","text":"fine"}]}"#, &TOOL)
                .storable
                .is_ok()
        );
        let allowed = Rule::Tool {
            allow_error_text: true,
        };
        let text = r#"{"content":[{"type":"text","text":"Error: no library"}]}"#;
        assert!(judge(text, &allowed).storable.is_ok());
        let error = Frame::error_response("1", -32000, "no");
        let judged = Judgment::new(&error, &TOOL, 1_000);
        assert!(judged.is_error && judged.storable.is_err());
        let large = format!(r#"{{"content":[],"x":"{}"}}"#, "x".repeat(1_000));
        assert!(matches!(
            judge(&large, &TOOL).storable,
            Err(Reason::TooLarge { .. })
        ));
    }

    #[test]
    fn times_that_servers_state() {
        let of = |members: &str| {
            let judged = judge(&format!("{{\"tools\":[]{members}}}"), &HINTED);
            judged
                .storable
                .ok()
                .and(judged.lifetime)
                .map(|time| time.as_millis())
        };
        assert_eq!(of(r#","ttlMs":1000,"cacheScope":"private""#), Some(1_000));
        assert_eq!(of(r#","ttlMs":1000.9"#), Some(1_000));
        assert_eq!(of(r#","ttlMs":1e3"#), Some(1_000));
        assert_eq!(of(r#","ttlMs":172800000"#), Some(86_400_000));
        assert_eq!(of(r#","ttlMs":180000000000000000000"#), Some(86_400_000));
        for members in [
            "",
            r#","cacheScope":"public""#,
            r#","ttlMs":0"#,
            r#","ttlMs":-1"#,
            r#","ttlMs":"1000""#,
            r#","ttlMs":null"#,
            r#","ttlMs":1000,"ttlMs":2000"#,
            r#","ttlMs":1000,"cacheScope":"team""#,
            r#","ttlMs":1000,"cacheScope":null"#,
        ] {
            assert_eq!(of(members), None, "{members}");
        }
        let shared = Rule::Hinted {
            fallback: None,
            is_shared: true,
        };
        assert!(judge(r#"{"ttlMs":1000}"#, &shared).storable.is_err());
        assert!(
            judge(r#"{"ttlMs":1000,"cacheScope":"private"}"#, &shared)
                .storable
                .is_err()
        );
        assert!(
            judge(r#"{"ttlMs":1000,"cacheScope":"public"}"#, &shared)
                .storable
                .is_ok()
        );
    }
}
