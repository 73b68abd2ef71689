//! Messages that make the provider read an expired prefix anew.

use std::time::Duration;

use cachalot_core::Cost;
use cachalot_prompt::PrefixLifetime;

/// The cost of a message that makes the provider read an expired prefix anew.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PrefixRewrite {
    /// The time since the last request of the conversation.
    pub idle: Duration,
    /// The published lifetime of the prefix in the provider's cache, which is over.
    pub lifetime: Duration,
    /// The estimated tokens that the provider reads anew.
    pub tokens: u64,
    /// The cost of these tokens beyond that of reading them from the cache.
    pub cost: Cost,
    /// The lifetime under `prefix.ttl` that covers a pause of this length; `None` if the provider has none.
    pub longer_lifetime: Option<PrefixLifetime>,
}
