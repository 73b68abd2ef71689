//! Reasons of the engine that name domains of a server, in plain words. The domains are declared in [`super::invalidation`]
//! and [`crate::server_domains`].

use super::recorded_call::OF_SERVER;

/// The end of the reason of an answer whose domain was raised.
const WRITTEN: &str = " was written to since";
/// The end of the domain of calls that may change something.
const OF_CALLS: &str = "calls";

/// Returns a reason in plain words if it is about a domain of a server.
#[must_use]
pub fn plain_reason(reason: &str) -> Option<String> {
    let raised = match domain_kind(reason)? {
        OF_CALLS => "another call, which may have changed something, was made since",
        "server" => "the server was started again since, or announcements of it may be lost",
        "tools" => {
            "the server announced since that its list of tools changed (`tools/list_changed`)"
        }
        "prompts" => {
            "the server announced since that its list of prompts changed (`prompts/list_changed`)"
        }
        "resources" => {
            "the server announced since that its list of resources changed (`resources/list_changed`)"
        }
        "" => "the server announced a change since",
        kind if kind.starts_with("resource:") => {
            "the server announced since that a resource which the answer depends on changed (`resources/updated`)"
        }
        _ => return None,
    };
    Some(raised.to_owned())
}

/// Returns true for the reason of an answer that another call may have changed.
#[must_use]
pub fn is_of_another_call(reason: &str) -> bool {
    domain_kind(reason) == Some(OF_CALLS)
}

/// Returns what follows the server in the name of the domain that a reason names; empty for the domain of the server.
fn domain_kind(reason: &str) -> Option<&str> {
    let domain = reason.strip_suffix(WRITTEN)?.strip_prefix(OF_SERVER)?;
    let (_, rest) = domain.split_once(':')?;
    let (server, kind) = rest.split_once(':').unwrap_or((rest, ""));
    let is_digest = server.len() >= 8 && server.chars().all(|sign| sign.is_ascii_hexdigit());
    is_digest.then_some(kind)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use cachalot_cache::{Cache, CacheBounds, CacheOptions, Domain, Ledger, Reason};
    use cachalot_core::{ManualClock, SecretSet};

    use super::super::invalidation::Invalidation;
    use super::super::methods::Hinted;
    use super::*;

    #[test]
    fn every_domain_of_a_server_has_a_reason_in_plain_words() {
        let cache = Cache::new(CacheOptions {
            local: None,
            store: None,
            ledger: Ledger::disabled(),
            clock: Arc::new(ManualClock::at(1)),
            secret_set: Arc::new(SecretSet::empty()),
            bounds: CacheBounds::default(),
            warn: Arc::new(|line| panic!("{line}")),
        });
        let invalidation = Invalidation::new(cache, "mcp:node:0123456789ab");
        let mut domains: Vec<Domain> = invalidation.of_tool(&["*".to_owned(), "x://a".to_owned()]);
        for method in [
            Hinted::Discover,
            Hinted::Tools,
            Hinted::Prompts,
            Hinted::Resources,
            Hinted::Read,
        ] {
            domains.extend(invalidation.of_hinted(method, "x://a"));
        }
        for domain in domains {
            let reason = Reason::Written(domain.to_string()).to_string();
            let plain = plain_reason(&reason).unwrap_or_default();
            assert!(!plain.is_empty() && !plain.contains("mcp:"), "{reason}");
            let is_of_calls = domain.to_string().ends_with(":calls");
            assert_eq!(is_of_another_call(&reason), is_of_calls, "{reason}");
        }
        for other in [
            "ltm was written to since",
            "expired",
            "mcp:x was written to since",
        ] {
            assert_eq!(plain_reason(other), None, "{other}");
        }
    }
}
