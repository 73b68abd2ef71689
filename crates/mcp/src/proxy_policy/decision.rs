//! The decision about the calls of a tool.

use super::annotations::ToolAnnotations;
use super::file::{ServerPolicy, ToolPolicy};
use super::refusals::refusal;

/// A tool whose answers are stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CachedTool {
    /// The entry of the policy.
    pub policy: ToolPolicy,
}

/// The decision about the calls of a tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolDecision {
    /// Answers are stored.
    Cache(CachedTool),
    /// Calls are passed on, and change nothing.
    Read {
        /// The reason.
        reason: String,
        /// True if the policy asks for storing, so that the reason is worth a warning.
        is_named: bool,
    },
    /// Calls are passed on, may change anything, and invalidate stored answers.
    Write {
        /// The reason.
        reason: String,
        /// True if an entry of the policy applies, so that the reason is worth a warning.
        is_named: bool,
    },
}

impl ToolDecision {
    /// Decides about a tool of the server.
    #[must_use]
    pub fn new(server: &ServerPolicy, name: &str, annotations: ToolAnnotations) -> Self {
        let Some((entry, is_exact)) = server.tool(name) else {
            return Self::Write {
                reason: "no entry of the policy names the tool".to_owned(),
                is_named: false,
            };
        };
        let refused = |reason: String| Self::Write {
            reason,
            is_named: true,
        };
        match annotations {
            ToolAnnotations {
                read_only: Some(false),
                ..
            } => {
                return refused(
                    "the server declares `readOnlyHint: false`, which no policy overrides"
                        .to_owned(),
                );
            }
            ToolAnnotations {
                destructive: Some(true),
                ..
            } => {
                return refused("the server declares `destructiveHint: true`".to_owned());
            }
            ToolAnnotations {
                read_only: None, ..
            } if !entry.assume_read_only => {
                return refused(
                    "the server does not declare `readOnlyHint`; if the tool changes nothing, set `assume_read_only: true`"
                        .to_owned(),
                );
            }
            _ => {}
        }
        if let Some(found) = refusal(name, !entry.also.is_empty()).filter(|_| !entry.force) {
            let remedy = if is_exact {
                "; `force: true` stores its answers nevertheless"
            } else {
                ""
            };
            let reason = format!("{}{remedy}", found.reason);
            if found.changes_state {
                return refused(reason);
            }
            return Self::Read {
                reason,
                is_named: entry.stores(),
            };
        }
        if entry.stores() {
            Self::Cache(CachedTool {
                policy: entry.clone(),
            })
        } else {
            Self::Read {
                reason: "its entry of the policy has no `ttl`, `paths` or `also`".to_owned(),
                is_named: false,
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::file::ProxyPolicy;
    use super::*;

    const READ: ToolAnnotations = ToolAnnotations {
        read_only: Some(true),
        destructive: None,
    };

    fn decide(policy: &str, name: &str, annotations: ToolAnnotations) -> ToolDecision {
        let policy = ProxyPolicy::parse("p", &format!("servers: {{s: {{tools: {policy}}}}}"));
        let policy = policy.unwrap();
        ToolDecision::new(policy.server("s", false).unwrap(), name, annotations)
    }

    fn caches(policy: &str, name: &str, annotations: ToolAnnotations) -> bool {
        matches!(decide(policy, name, annotations), ToolDecision::Cache(_))
    }

    #[test]
    fn only_tools_that_are_named_and_declared_read_only_are_stored() {
        let none = ToolAnnotations::default();
        let hints = |read_only, destructive| ToolAnnotations {
            read_only,
            destructive,
        };
        let one = "{a: {ttl: 1h}}";
        assert!(caches(one, "a", READ));
        assert!(caches(one, "a", hints(Some(true), Some(false))));
        assert!(!caches(one, "b", READ));
        for (policy, annotations) in [
            (one, none),
            (one, hints(Some(false), Some(false))),
            (one, hints(Some(true), Some(true))),
            (
                "{a: {ttl: 1h, assume_read_only: true}}",
                hints(Some(false), None),
            ),
            (
                "{a: {ttl: 1h, assume_read_only: true, force: true}}",
                hints(Some(false), None),
            ),
            (
                "{a: {ttl: 1h, assume_read_only: true}}",
                hints(None, Some(true)),
            ),
            ("{'*': {ttl: 1h}}", none),
            ("{'*': {ttl: 1h}}", hints(Some(false), None)),
            ("{'*': {ttl: 1h}}", hints(Some(true), Some(true))),
            ("{a: {}}", READ),
        ] {
            assert!(
                !caches(policy, "a", annotations),
                "{policy} {annotations:?}"
            );
        }
        assert!(caches("{a: {ttl: 1h, assume_read_only: true}}", "a", none));
        assert!(matches!(
            decide("{a: {}}", "a", READ),
            ToolDecision::Read { .. }
        ));
        assert!(matches!(
            decide("{'*': {ttl: 1h}}", "a", none),
            ToolDecision::Write { is_named: true, .. }
        ));
    }

    #[test]
    fn known_unstable_tools_need_force() {
        assert!(!caches(
            "{get_current_time: {ttl: 1h}}",
            "get_current_time",
            READ
        ));
        assert!(!caches("{'*': {ttl: 1h}}", "get_current_time", READ));
        assert!(caches(
            "{get_current_time: {ttl: 1h, force: true}}",
            "get_current_time",
            READ
        ));
        assert!(!caches("{git_show: {ttl: 1h}}", "git_show", READ));
        assert!(!caches(
            "{git_show: {paths: {repo_path: tree}}}",
            "git_show",
            READ
        ));
        let is_write = |name: &str| {
            let policy = format!("{{{name}: {{ttl: 1h}}}}");
            matches!(decide(&policy, name, READ), ToolDecision::Write { .. })
        };
        assert!(is_write("sequentialthinking") && is_write("browser_snapshot"));
        assert!(!is_write("get_current_time") && !is_write("get_file_info"));
        let also = "{git_show: {also: {'{repo_path}/.git/HEAD': file}}}";
        assert!(caches(also, "git_show", READ));
    }
}
