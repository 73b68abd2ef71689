//! Calls of the proxy in the ledger.

use cachalot_cache::{CallKind, CallStatus, LedgerRow, Scope};

use super::methods::MethodClass;

/// The beginning of the names of calls through the proxy, and of domains of servers.
pub(super) const OF_SERVER: &str = "mcp:";

/// Returns the server and the tool or method of a call through the proxy.
#[must_use]
pub fn proxy_call(row: &LedgerRow) -> Option<(&str, &str)> {
    if row.kind != CallKind::Request.as_str() {
        return None;
    }
    row.name.strip_prefix(OF_SERVER)?.split_once('/')
}

/// Returns true for a call through the proxy that was passed on and may have changed something.
#[must_use]
pub fn may_have_changed_something(row: &LedgerRow) -> bool {
    let Some((_, what)) = proxy_call(row) else {
        return false;
    };
    // Calls that change nothing have the scope of their client, except lists and resources that all clients share.
    row.answered == CallStatus::Bypass
        && row.scope == Scope::Global.to_string()
        && !matches!(MethodClass::new(what), MethodClass::Hinted(_))
}

/// Returns true if the answer to a call belongs to one session of its client.
#[must_use]
pub fn is_of_one_session(row: &LedgerRow) -> bool {
    proxy_call(row).is_some() && row.scope.starts_with("session:")
}
