//! Statistics of the calls of a session, by tool.

use std::collections::BTreeMap;

use serde::Serialize;

use cachalot_cache::Reason;

/// Statistics of the calls of one tool in one session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Calls answered by a cached result.
    pub hits: u64,
    /// Calls that ran because there was no servable result, successful or not.
    pub misses: u64,
    /// Calls answered by the same call, which ran concurrently.
    pub coalesced: u64,
    /// Calls that ran without a lookup, by reason: the tool is not read-only, a fresh result was requested, …
    pub bypassed: BTreeMap<String, u64>,
    /// Results that were not cached, by reason: the call failed, the result is too large, …
    pub not_kept: BTreeMap<String, u64>,
    /// Cached results that were evicted.
    pub evicted: u64,
    /// Cached results that were requested but not served, because something that they depend on had been
    /// written or was being written.
    pub invalidated: u64,
    /// The number of `invalidated` results, plus results that were not served because something that they
    /// depend on had changed without an announced write: by an editor, `git`, or another program.
    pub stale_prevented: u64,
    /// Bytes of results that were returned without running the tool.
    pub bytes_served: u64,
    /// Bytes that were not added to the conversation again, because a marker replaced them.
    pub bytes_saved: u64,
    /// An estimate of `bytes_saved` in tokens, at four bytes per token.
    pub tokens_saved: u64,
}

/// Calls that the cache could answer, and its hits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CacheStats {
    /// Calls answered without running the tool, by a cached result or by the same concurrent call.
    pub hits: u64,
    /// Calls that ran, successful or not.
    pub misses: u64,
    /// The sum of both.
    pub eligible: u64,
    /// The fraction of hits, from 0 to 1; 0 if there were no calls.
    pub hit_rate: f64,
}

/// Reasons why a call ran without a lookup. Fixed texts, because calls are counted by them.
pub(super) mod bypass {
    pub(in crate::cached) const NOT_READ_ONLY: &str = "it is not read-only";
    pub(in crate::cached) const MAY_WRITE: &str = "it may write something";
    pub(in crate::cached) const NEVER: &str = "its results are not declared as reusable";
}

/// The statistics of a session.
#[derive(Debug, Default)]
pub(super) struct SessionCounters(BTreeMap<String, Counters>);

impl SessionCounters {
    /// Updates the statistics of a tool.
    pub(super) fn count(&mut self, tool: &str, count: impl FnOnce(&mut Counters)) {
        match self.0.get_mut(tool) {
            Some(counters) => count(counters),
            None => count(self.0.entry(tool.to_owned()).or_default()),
        }
    }

    pub(super) fn all(&self) -> BTreeMap<String, Counters> {
        self.0.clone()
    }

    pub(super) fn stats(&self) -> CacheStats {
        let hits = self.0.values().map(|one| one.hits + one.coalesced).sum();
        let misses = self.0.values().map(|one| one.misses).sum();
        CacheStats::new(hits, misses)
    }
}

impl Counters {
    /// Counts a call that ran because no result could be served.
    pub(super) fn count_miss(&mut self, reason: &Reason) {
        self.misses += 1;
        match reason {
            Reason::Written(_) => {
                self.invalidated += 1;
                self.stale_prevented += 1;
            }
            Reason::Changed(_) => self.stale_prevented += 1,
            _ => {}
        }
    }

    pub(super) fn bypassed(&mut self, reason: &str) {
        *self.bypassed.entry(reason.to_owned()).or_default() += 1;
    }

    pub(super) fn not_kept(&mut self, reason: &Reason) {
        *self.not_kept.entry(kind_of(reason)).or_default() += 1;
    }

    /// Counts a marker that replaced a content; sizes in bytes.
    pub(super) fn saved(&mut self, content: u64, marker: u64) {
        let saved = content.saturating_sub(marker);
        self.bytes_saved += saved;
        self.tokens_saved += saved / 4;
    }
}

impl CacheStats {
    fn new(hits: u64, misses: u64) -> Self {
        let eligible = hits + misses;
        #[expect(
            clippy::cast_precision_loss,
            reason = "a share of calls that were counted one by one"
        )]
        let hit_rate = if eligible == 0 {
            0.0
        } else {
            hits as f64 / eligible as f64
        };
        Self {
            hits,
            misses,
            eligible,
            hit_rate,
        }
    }

    /// Formats the summary `Tool cache stats: 14/20 hits (70%)`; `None` if there were no calls.
    pub(super) fn line(&self) -> Option<String> {
        (self.eligible > 0).then(|| {
            format!(
                "Tool cache stats: {}/{} hits ({:.0}%)",
                self.hits,
                self.eligible,
                self.hit_rate * 100.0
            )
        })
    }
}

/// The kind of a reason without its details, which would make every count 1.
fn kind_of(reason: &Reason) -> String {
    match reason {
        Reason::Changed(_) => "what it read changed meanwhile".to_owned(),
        Reason::Written(_) => "what it read was written to meanwhile".to_owned(),
        Reason::TooLarge { .. } => "too large".to_owned(),
        Reason::StoreFault(_) | Reason::StoreUnavailable(_) => "store fault".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stats_line_shows_hits_and_rate() {
        assert_eq!(
            CacheStats::new(14, 6).line().as_deref(),
            Some("Tool cache stats: 14/20 hits (70%)")
        );
        assert_eq!(
            CacheStats::new(2, 1).line().as_deref(),
            Some("Tool cache stats: 2/3 hits (67%)")
        );
        assert_eq!(CacheStats::new(0, 0).line(), None);
    }
}
