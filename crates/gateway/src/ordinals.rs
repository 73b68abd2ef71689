//! Ordinals of identical sampled requests within a run of an agent: the first, the second, and so on. A run that is
//! repeated asks in the same order and gets the same answers; a second sample within a run stays a second sample.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cachalot_cache::Key;
use parking_lot::Mutex;

/// The maximum number of runs that are remembered.
const MAX_RUNS: usize = 4_096;
/// The maximum number of different requests of a run that are counted.
const MAX_REQUESTS: usize = 65_536;

/// A run: tenant, agent, and the run's name if the client gave one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RunName {
    pub(crate) tenant: String,
    pub(crate) agent: String,
    pub(crate) run: Option<String>,
}

/// Counters of all runs. A run ends when it sends no request for a while.
pub(crate) struct Ordinals {
    pause: Duration,
    runs: Mutex<HashMap<RunName, Run>>,
}

struct Run {
    last: Instant,
    requests: HashMap<Key, Counter>,
}

#[derive(Default)]
struct Counter {
    next: u32,
    /// Ordinals whose requests got no answer.
    returned: BTreeSet<u32>,
}

/// The ordinal of one request. Returned for the next identical request unless it is kept.
pub(crate) struct Ordinal {
    ordinals: Arc<Ordinals>,
    run: RunName,
    request: Key,
    number: u32,
    is_kept: AtomicBool,
}

impl Ordinals {
    /// Creates counters of runs that end after a pause.
    pub(crate) fn new(pause: Duration) -> Arc<Self> {
        Arc::new(Self {
            pause,
            runs: Mutex::default(),
        })
    }

    /// Returns the next ordinal of a request, from 0. `None` if there are too many runs or requests: the answer is
    /// then not stored.
    pub(crate) fn next(
        self: &Arc<Self>,
        run: RunName,
        request: Key,
        now: Instant,
    ) -> Option<Ordinal> {
        let mut runs = self.runs.lock();
        let is_over = |it: &Run| now.saturating_duration_since(it.last) >= self.pause;
        if runs.get(&run).is_none_or(is_over) {
            runs.remove(&run);
            if runs.len() >= MAX_RUNS {
                runs.retain(|_, it| !is_over(it));
            }
            if runs.len() >= MAX_RUNS {
                return None;
            }
        }
        let state = runs.entry(run.clone()).or_insert_with(|| Run {
            last: now,
            requests: HashMap::new(),
        });
        state.last = now;
        if state.requests.len() >= MAX_REQUESTS && !state.requests.contains_key(&request) {
            return None;
        }
        let counter = state.requests.entry(request).or_default();
        let number = counter.returned.pop_first().unwrap_or_else(|| {
            counter.next += 1;
            counter.next - 1
        });
        drop(runs);
        Some(Ordinal {
            ordinals: Arc::clone(self),
            run,
            request,
            number,
            is_kept: AtomicBool::new(false),
        })
    }
}

impl Ordinal {
    /// The number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Keeps the number: the request was answered.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }
}

impl Drop for Ordinal {
    fn drop(&mut self) {
        if *self.is_kept.get_mut() {
            return;
        }
        let mut runs = self.ordinals.runs.lock();
        let counter = runs
            .get_mut(&self.run)
            .and_then(|run| run.requests.get_mut(&self.request));
        if let Some(counter) = counter.filter(|counter| self.number < counter.next) {
            counter.returned.insert(self.number);
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_core::Digest;

    use super::*;

    fn name(run: Option<&str>) -> RunName {
        RunName {
            tenant: "t".into(),
            agent: "a".into(),
            run: run.map(str::to_owned),
        }
    }

    fn key(text: &str) -> Key {
        Digest::sha256(text.as_bytes()).to_string().parse().unwrap()
    }

    #[test]
    fn identical_requests_are_numbered_within_a_run() {
        let ordinals = Ordinals::new(Duration::from_secs(600));
        let start = Instant::now();
        let next = |run: Option<&str>, request: &str, seconds: u64| {
            let now = start + Duration::from_secs(seconds);
            let ordinal = ordinals.next(name(run), key(request), now).unwrap();
            let number = ordinal.number();
            ordinal.keep();
            number
        };
        assert_eq!(
            [next(None, "x", 0), next(None, "x", 1), next(None, "y", 2)],
            [0, 1, 0]
        );
        assert_eq!(next(Some("other"), "x", 3), 0);
        // The pause since the last request of the run counts, not since its first.
        assert_eq!(next(None, "x", 601), 2);
        assert_eq!(next(None, "x", 1_201), 0);
    }

    #[test]
    fn numbers_of_failed_requests_are_used_again() {
        let ordinals = Ordinals::new(Duration::from_secs(600));
        let now = Instant::now();
        let first = ordinals.next(name(None), key("x"), now).unwrap();
        let second = ordinals.next(name(None), key("x"), now).unwrap();
        assert_eq!((first.number(), second.number()), (0, 1));
        second.keep();
        drop(first);
        let again = ordinals.next(name(None), key("x"), now).unwrap();
        assert_eq!(again.number(), 0);
        again.keep();
        assert_eq!(
            ordinals.next(name(None), key("x"), now).unwrap().number(),
            2
        );
    }

    #[test]
    fn runs_are_bounded() {
        let ordinals = Ordinals::new(Duration::from_secs(600));
        let now = Instant::now();
        for run in 0..MAX_RUNS {
            ordinals
                .next(name(Some(&run.to_string())), key("x"), now)
                .unwrap()
                .keep();
        }
        assert!(ordinals.next(name(Some("more")), key("x"), now).is_none());
        let later = now + Duration::from_secs(600);
        assert!(ordinals.next(name(Some("more")), key("x"), later).is_some());
    }
}
