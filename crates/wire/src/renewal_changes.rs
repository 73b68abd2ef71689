//! Changes by which a request only renews its prefix in a provider's cache.

use serde_json::Value;

/// Maximum number of output tokens of a request that renews a prefix: the least limit that Responses accepts.
pub const RENEWAL_OUTPUT: u64 = 16;

/// Changes of the members of a request that make it renew the prefix which it has in the provider's cache. Everything
/// that the cache depends on stays as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct RenewalChanges {
    /// Members that are left out.
    pub(crate) removed: &'static [&'static str],
    /// Members that are added, or replaced.
    pub(crate) set: Vec<(&'static str, Value)>,
}
