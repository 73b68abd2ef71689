//! Digests of what a policy says, for the keys of stored answers: an answer that was stored under a policy is not served
//! after the policy was corrected.

use cachalot_core::{Canonical, Digest};
use serde_json::json;

use super::file::{ResourcePolicy, ServerPolicy, ToolPolicy};

/// Returns the digest of what a policy says about a tool.
#[must_use]
pub(crate) fn of_tool(server: &ServerPolicy, tool: &ToolPolicy) -> Digest {
    let ToolPolicy {
        ttl,
        assume_read_only,
        force,
        allow_error_text,
        paths,
        also,
        resources,
    } = tool;
    digest(
        server,
        &json!({
            "allow_error_text": allow_error_text,
            "also": also,
            "assume_read_only": assume_read_only,
            "force": force,
            "paths": paths,
            "resources": resources,
            "ttl": ttl.map(|ttl| ttl.as_nanos().to_string()),
        }),
    )
}

/// Returns the digest of what a policy says about answers for which a server may state a time.
#[must_use]
pub(crate) fn of_hinted(server: &ServerPolicy) -> Digest {
    digest(server, &json!(null))
}

fn digest(server: &ServerPolicy, tool: &serde_json::Value) -> Digest {
    let ServerPolicy {
        stateless,
        hints,
        relative_to,
        // Of its tools, one applies.
        tools: _,
        resources,
    } = server;
    let for_server = if tool.is_null() {
        let ttl = resources.as_ref().and_then(|ResourcePolicy { ttl }| *ttl);
        json!({
            "hints": hints,
            "stateless": stateless,
            "ttl": ttl.map(|ttl| ttl.as_nanos().to_string()),
        })
    } else {
        json!({"relative_to": relative_to, "stateless": stateless})
    };
    Canonical::value(&json!([for_server, tool])).digest()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::file::ProxyPolicy;
    use super::*;

    #[test]
    fn everything_that_a_policy_says_about_a_tool_is_in_its_digest() {
        let of = |policy: &str| {
            let policy = ProxyPolicy::parse("p", &format!("servers: {{s: {policy}}}")).unwrap();
            let server = policy.server("s", false).unwrap();
            (
                of_tool(server, server.tool("a").unwrap().0),
                of_hinted(server),
            )
        };
        let base = of("{tools: {a: {ttl: 1h}}}");
        assert_eq!(
            of("{hints: false, tools: {a: {ttl: 60m}, b: {}}}").0,
            base.0
        );
        assert_eq!(of("{tools: {a: {ttl: 1s}, b: {}}}").1, base.1);
        let mut digests = vec![base.0];
        for policy in [
            "{tools: {a: {ttl: 1s}}}",
            "{tools: {a: {paths: {path: file}}}}",
            "{tools: {a: {paths: {path: tree}}}}",
            "{tools: {a: {also: {path: file}}}}",
            "{tools: {a: {ttl: 1h, resources: ['x://a']}}}",
            "{tools: {a: {ttl: 1h, allow_error_text: true}}}",
            "{tools: {a: {ttl: 1h, force: true}}}",
            "{tools: {a: {ttl: 1h, assume_read_only: true}}}",
            "{relative_to: x, tools: {a: {ttl: 1h}}}",
            "{stateless: true, tools: {a: {ttl: 1h}}}",
        ] {
            digests.push(of(policy).0);
        }
        let mut hinted = vec![base.1];
        for policy in [
            "{hints: false, tools: {a: {ttl: 1h}}}",
            "{stateless: true, tools: {a: {ttl: 1h}}}",
            "{resources: {ttl: 1h}, tools: {a: {ttl: 1h}}}",
        ] {
            hinted.push(of(policy).1);
        }
        for mut all in [digests, hinted] {
            let count = all.len();
            all.sort();
            all.dedup();
            assert_eq!(all.len(), count);
        }
    }
}
