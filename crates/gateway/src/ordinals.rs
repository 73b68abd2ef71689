//! Ordinals of identical sampled requests within a run of an agent: the first, the second, and so on. A run that is
//! repeated asks in the same order and gets the same answers; a second sample within a run stays a second sample.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cachalot_cache::Key;
use parking_lot::Mutex;

/// The maximum number of runs that are remembered; the oldest is then forgotten.
const MAX_RUNS: usize = 4_096;
/// The maximum number of different requests of a run that are counted.
const MAX_REQUESTS: usize = 65_536;
/// Pause after which a run with a name has ended.
const NAMED_RUN_PAUSE: Duration = Duration::from_secs(24 * 60 * 60);

/// A run: tenant, agent, and the run's name if the client gave one.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RunName {
    pub(crate) tenant: String,
    pub(crate) agent: String,
    pub(crate) run: Option<String>,
}

/// Counters of all runs. A run ends when no request of it began or ended for a while.
pub(crate) struct Ordinals {
    /// The pause that ends a run without a name.
    pause: Duration,
    generations: AtomicU64,
    runs: Mutex<HashMap<RunName, Run>>,
}

struct Run {
    last: Instant,
    /// Distinguishes a run from an earlier one with the same name.
    generation: u64,
    /// Number of requests in progress.
    pending: usize,
    requests: HashMap<Key, Counter>,
}

#[derive(Default)]
struct Counter {
    next: u32,
    /// Ordinals whose requests got no answer.
    returned: BTreeSet<u32>,
}

/// The ordinal of one request, which is used up unless [`Ordinal::settle`] returns it.
pub(crate) struct Ordinal {
    ordinals: Arc<Ordinals>,
    run: RunName,
    request: Key,
    number: u32,
    generation: u64,
}

impl Ordinals {
    /// Creates counters of runs that end after a pause.
    pub(crate) fn new(pause: Duration) -> Arc<Self> {
        Arc::new(Self {
            pause,
            generations: AtomicU64::new(0),
            runs: Mutex::default(),
        })
    }

    /// Returns the next ordinal of a request, from 0. `None` if the run has too many different requests: the answer is
    /// then not stored.
    pub(crate) fn next(
        self: &Arc<Self>,
        run: RunName,
        request: Key,
        now: Instant,
    ) -> Option<Ordinal> {
        let mut runs = self.runs.lock();
        let pause = match run.run {
            Some(_) => NAMED_RUN_PAUSE,
            None => self.pause,
        };
        // A run with a request in progress goes on, however long the request takes.
        let is_over =
            |run: &Run| run.pending == 0 && now.saturating_duration_since(run.last) >= pause;
        if runs.get(&run).is_some_and(is_over) {
            runs.remove(&run);
        }
        if runs.len() >= MAX_RUNS && !runs.contains_key(&run) {
            let oldest = runs.iter().min_by_key(|(_, run)| run.last);
            if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
                runs.remove(&oldest);
            }
        }
        let state = runs.entry(run.clone()).or_insert_with(|| Run {
            last: now,
            generation: self.generations.fetch_add(1, Ordering::Relaxed),
            pending: 0,
            requests: HashMap::new(),
        });
        state.last = now;
        if state.requests.len() >= MAX_REQUESTS && !state.requests.contains_key(&request) {
            return None;
        }
        let counter = state.requests.entry(request).or_default();
        // Numbers of unanswered requests come first, so that a repeated run has the same numbers.
        let number = counter.returned.pop_first().unwrap_or_else(|| {
            counter.next += 1;
            counter.next - 1
        });
        state.pending += 1;
        let generation = state.generation;
        drop(runs);
        Some(Ordinal {
            ordinals: Arc::clone(self),
            run,
            request,
            number,
            generation,
        })
    }

    /// Ends a request. Returns its number for the next identical one if `is_returned`.
    fn end(&self, ordinal: &Ordinal, is_returned: bool) {
        let mut runs = self.runs.lock();
        let run = runs.get_mut(&ordinal.run);
        // The run may have ended, and another one with the same name may have begun.
        let Some(run) = run.filter(|run| run.generation == ordinal.generation) else {
            return;
        };
        run.pending = run.pending.saturating_sub(1);
        run.last = Instant::now().max(run.last);
        if is_returned && let Some(counter) = run.requests.get_mut(&ordinal.request) {
            counter.returned.insert(ordinal.number);
        }
    }
}

impl Ordinal {
    /// The number.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// Ends the request. The number is used up if it `is_answered`; otherwise the next identical request gets it.
    pub(crate) fn settle(self, is_answered: bool) {
        self.ordinals.end(&self, !is_answered);
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
            ordinal.settle(true);
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
        second.settle(true);
        first.settle(false);
        let again = ordinals.next(name(None), key("x"), now).unwrap();
        assert_eq!(again.number(), 0);
        again.settle(true);
        assert_eq!(
            ordinals.next(name(None), key("x"), now).unwrap().number(),
            2
        );
    }

    #[test]
    fn oldest_run_is_forgotten() {
        let ordinals = Ordinals::new(Duration::from_secs(600));
        let now = Instant::now();
        for run in 0..=MAX_RUNS {
            let (name, at) = (run.to_string(), now + Duration::from_millis(run as u64));
            let ordinal = ordinals.next(name_of(&name), key("x"), at).unwrap();
            assert_eq!(ordinal.number(), 0);
        }
        assert_eq!(ordinals.runs.lock().len(), MAX_RUNS);
        let later = now + Duration::from_secs(60);
        let second = ordinals.next(name_of("1"), key("x"), later).unwrap();
        assert_eq!(second.number(), 1);
    }

    #[test]
    fn late_end_of_a_request_does_not_affect_a_new_run() {
        let ordinals = Ordinals::new(Duration::from_secs(600));
        let now = Instant::now();
        let late = ordinals.next(name(None), key("x"), now).unwrap();
        ordinals.runs.lock().clear();
        let new = ordinals.next(name(None), key("x"), now).unwrap();
        late.settle(false);
        assert_eq!(new.number(), 0);
        assert_eq!(
            ordinals.next(name(None), key("x"), now).unwrap().number(),
            1
        );
    }

    fn name_of(run: &str) -> RunName {
        name(Some(run))
    }
}
