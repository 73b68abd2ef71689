//! Routing keys: requests with the same `prompt_cache_key` go to the machine that caches their prefix.

use std::collections::{BTreeMap, VecDeque};

use cachalot_core::{Digest, Millis};
use parking_lot::Mutex;

/// Requests per minute with one key and prefix, beyond which OpenAI spreads them over further machines
/// without the prefix: "approximately 15" (developers.openai.com, "Prompt caching").
const PER_MINUTE: usize = 15;

/// Milliseconds of a minute.
const MINUTE: Millis = 60_000;

/// The providers that accept `prompt_cache_key`. Others with the same format may reject a field that they
/// do not know.
const PROVIDERS: [&str; 2] = ["openai", "azure"];

/// Returns whether requests to this provider have a routing key.
#[must_use]
pub fn is_routed(provider: &str) -> bool {
    PROVIDERS.contains(&provider)
}

/// The requests of the last minute by routing key, of all sessions of this process.
#[derive(Debug, Default)]
pub struct RequestRates {
    recent: Mutex<BTreeMap<String, VecDeque<Millis>>>,
}

impl RequestRates {
    /// Chooses the routing key of a new session: the digest of its shared prefix (tools and system text),
    /// and the number of the first shard with fewer than 15 requests in the last minute. Counts the
    /// session's first request.
    #[must_use]
    pub fn assign(&self, shared: Digest, now: Millis) -> String {
        let digest = shared.to_hex();
        let key = |shard: usize| format!("{}-{shard}", &digest[..32]);
        let mut recent = self.recent.lock();
        recent.retain(|_, times| {
            forget(times, now);
            !times.is_empty()
        });
        let is_full = |shard: &usize| {
            recent
                .get(&key(*shard))
                .is_some_and(|times| times.len() >= PER_MINUTE)
        };
        let shard = (0..).find(|shard| !is_full(shard)).unwrap_or_default();
        recent.entry(key(shard)).or_default().push_back(now);
        key(shard)
    }

    /// Counts a request with this key.
    pub fn count(&self, key: &str, now: Millis) {
        let mut recent = self.recent.lock();
        let times = recent.entry(key.to_owned()).or_default();
        forget(times, now);
        times.push_back(now);
    }
}

/// Drops the requests that are older than a minute.
fn forget(times: &mut VecDeque<Millis>, now: Millis) {
    while times.front().is_some_and(|time| now - time >= MINUTE) {
        times.pop_front();
    }
}

#[cfg(test)]
#[path = "../tests/unit/routing.rs"]
mod tests;
