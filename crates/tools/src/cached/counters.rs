//! What became of the calls of a session, by tool.

use std::collections::BTreeMap;

use serde::Serialize;

use cachalot_cache::Reason;

/// How the calls of one tool were answered, in one session.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Answered by a result that was kept.
    pub hits: u64,
    /// Run because there was none that could be served, whatever came of it.
    pub misses: u64,
    /// Answered by the same call, which ran at the same time.
    pub coalesced: u64,
    /// Run without asking, by reason: it is not read-only, a fresh answer was asked for, …
    pub bypassed: BTreeMap<String, u64>,
    /// Results that were not kept, by reason: it failed, it is too large, …
    pub not_kept: BTreeMap<String, u64>,
    /// Kept results that made room for others.
    pub evicted: u64,
    /// Kept results that were asked for and not served, because something that they were made from
    /// had been written or was being written.
    pub invalidated: u64,
    /// Those, and kept results that were not served because what they were made from had changed
    /// without a word: an editor, `git`, another program.
    pub stale_prevented: u64,
    /// Bytes of results that were answered without running the tool.
    pub bytes_served: u64,
    /// Bytes that did not enter the conversation again, because a marker said so instead.
    pub bytes_saved: u64,
    /// The same in tokens: an estimate, four bytes to a token.
    pub tokens_saved: u64,
}

/// Calls that a cache could answer, and how many it did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct CacheStats {
    /// Answered without running the tool, by a kept result or by the same call at the same time.
    pub hits: u64,
    /// Run, whatever came of it.
    pub misses: u64,
    /// Both.
    pub eligible: u64,
    /// The share of hits, from 0 to 1; 0 if there were no calls.
    pub hit_rate: f64,
}

/// Why a call ran without the cache being asked. Texts of a few kinds: they are counted by.
pub(super) mod bypass {
    pub(in crate::cached) const NOT_READ_ONLY: &str = "it is not read-only";
    pub(in crate::cached) const MAY_WRITE: &str = "it may write something";
    pub(in crate::cached) const NEVER: &str = "nobody said that its results last";
}

/// The counters of a session.
#[derive(Debug, Default)]
pub(super) struct Tallies(BTreeMap<String, Counters>);

impl Tallies {
    /// Counts something of a tool's calls.
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
        CacheStats::of(hits, misses)
    }
}

impl Counters {
    /// A call that ran because nothing could be served.
    pub(super) fn missed(&mut self, reason: &Reason) {
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

    /// A marker of so many bytes instead of a content of so many.
    pub(super) fn saved(&mut self, content: u64, marker: u64) {
        let saved = content.saturating_sub(marker);
        self.bytes_saved += saved;
        self.tokens_saved += saved / 4;
    }
}

impl CacheStats {
    fn of(hits: u64, misses: u64) -> Self {
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

    /// `Tool cache stats: 14/20 hits (70%)`; nothing if there were no calls.
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

/// A reason without its particulars, which would make every count 1.
fn kind_of(reason: &Reason) -> String {
    match reason {
        Reason::Changed(_) => "what it read changed meanwhile".to_owned(),
        Reason::Written(_) => "what it read was written to meanwhile".to_owned(),
        Reason::TooLarge { .. } => "too large".to_owned(),
        Reason::MemoryFault(_) => "memory fault".to_owned(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_says_what_the_figures_say() {
        assert_eq!(
            CacheStats::of(14, 6).line().as_deref(),
            Some("Tool cache stats: 14/20 hits (70%)")
        );
        assert_eq!(
            CacheStats::of(2, 1).line().as_deref(),
            Some("Tool cache stats: 2/3 hits (67%)")
        );
        assert_eq!(CacheStats::of(0, 0).line(), None);
    }
}
