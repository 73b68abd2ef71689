//! Engines and calls of tests, and reports of their results.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{
    BeginResult, Cache, CacheBounds, CacheMode, CacheOptions, CacheStatus, Call, CallKind,
    CallSummary, Domain, FrozenMiss, HitPolicy, Key, Ledger, LedgerLimits, LocalStore, Outcome,
    Policy, RunPolicy, RunResult, Scope, SingleFlight, Ticket,
};
use cachalot_core::{Canonical, Cost, ManualClock, Millis, SecretSet, Spend};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::sqlite::{self, SqliteStore};
use cachalot_store::{Label, Store};
use serde_json::{Value, json};

/// A time far from the epoch that is no round number of seconds.
pub(crate) const START: Millis = 1_750_000_000_123;

/// The cost of every run in these tests.
pub(crate) const COST: Spend = Spend {
    calls: 1,
    time: Duration::from_millis(40),
    input_tokens: 1_200,
    output_tokens: 34,
    cost: Cost {
        picodollars: 3_500_000_000,
        unpriced: 0,
    },
};

/// An owned call.
#[derive(Debug, Clone)]
pub(crate) struct Question {
    pub(crate) kind: CallKind,
    pub(crate) scope: Scope,
    pub(crate) name: String,
    pub(crate) input: Canonical,
}

impl Question {
    pub(crate) fn of(input: Value) -> Self {
        Self {
            kind: CallKind::Action,
            scope: Scope::Agent("tester".into()),
            name: "file.read".into(),
            input: Canonical::value(&input),
        }
    }

    pub(crate) fn number(number: usize) -> Self {
        Self::of(json!({ "number": number }))
    }

    pub(crate) fn named(mut self, name: &str) -> Self {
        self.name = name.into();
        self
    }

    pub(crate) fn call(&self) -> Call<'_> {
        Call {
            kind: self.kind,
            scope: &self.scope,
            name: &self.name,
            input: &self.input,
        }
    }

    pub(crate) fn key(&self) -> Key {
        Key::for_call(&self.call())
    }
}

/// The result of a call.
#[derive(Debug)]
pub(crate) struct CallReport {
    pub(crate) status: CacheStatus,
    pub(crate) body: Result<Bytes, String>,
    pub(crate) settled: CallSummary,
}

impl CallReport {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(self.body.as_ref().expect("an answer")).unwrap()
    }
}

/// An engine with its clock, its warnings and the number of its runs.
#[derive(Clone)]
pub(crate) struct TestEngine {
    pub(crate) cache: Cache,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) warnings: Arc<Mutex<Vec<String>>>,
    pub(crate) runs: Arc<AtomicUsize>,
}

/// Options of a [`TestEngine`].
pub(crate) struct EngineBuilder {
    pub(crate) memory: Option<Arc<dyn Store>>,
    pub(crate) local: Option<LocalStore>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) ledger: Option<std::path::PathBuf>,
    pub(crate) limits: LedgerLimits,
    pub(crate) secret_set: Arc<SecretSet>,
    pub(crate) bounds: CacheBounds,
}

impl EngineBuilder {
    pub(crate) fn over(memory: Arc<dyn Store>, clock: &Arc<ManualClock>) -> Self {
        Self {
            memory: Some(memory),
            local: None,
            clock: Arc::clone(clock),
            ledger: None,
            limits: LedgerLimits::default(),
            secret_set: Arc::new(SecretSet::empty()),
            bounds: CacheBounds::default(),
        }
    }

    /// Copies entries to another store.
    pub(crate) fn local(mut self, local: &Arc<dyn Store>) -> Self {
        self.local = Some(LocalStore {
            store: Arc::clone(local),
            is_served: true,
        });
        self
    }

    /// Erases the copies in another store with the entries, and makes and serves none.
    pub(crate) fn erased_only(mut self, local: &Arc<dyn Store>) -> Self {
        self.local = Some(LocalStore {
            store: Arc::clone(local),
            is_served: false,
        });
        self
    }

    pub(crate) fn ledger(mut self, path: &Path) -> Self {
        self.ledger = Some(path.to_owned());
        self
    }

    pub(crate) fn limits(mut self, limits: LedgerLimits) -> Self {
        self.limits = limits;
        self
    }

    pub(crate) fn secret_set(mut self, secret_set: &Arc<SecretSet>) -> Self {
        self.secret_set = Arc::clone(secret_set);
        self
    }

    pub(crate) fn bounds(mut self, bounds: CacheBounds) -> Self {
        self.bounds = bounds;
        self
    }

    pub(crate) fn make(self) -> TestEngine {
        self.make_by(Cache::new)
    }

    pub(crate) fn make_exact(self) -> TestEngine {
        self.make_by(Cache::exact)
    }

    fn make_by(self, new: impl FnOnce(CacheOptions) -> Cache) -> TestEngine {
        let warnings: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = Arc::clone(&warnings);
        let warn: Arc<dyn Fn(&str) + Send + Sync> =
            Arc::new(move |text: &str| heard.lock().unwrap().push(text.to_owned()));
        let ledger = match &self.ledger {
            Some(path) => Ledger::with_limits(path, "run-1", self.limits, Arc::clone(&warn)),
            None => Ledger::disabled(),
        };
        let cache = new(CacheOptions {
            store: self.memory,
            local: self.local,
            ledger,
            clock: self.clock.clone(),
            secret_set: self.secret_set,
            bounds: self.bounds,
            warn,
        });
        TestEngine {
            cache,
            clock: self.clock,
            warnings,
            runs: Arc::default(),
        }
    }
}

/// The scope of questions by default.
pub(crate) fn testers() -> Vec<Scope> {
    vec![Scope::Agent("tester".into())]
}

pub(crate) fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(START))
}

pub(crate) fn in_process(clock: &Arc<ManualClock>) -> Arc<dyn Store> {
    Arc::new(InProcessStore::new(clock.clone()))
}

pub(crate) fn sqlite(path: &Path, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path, sqlite::SqliteOptions::new(clock.clone())).unwrap())
}

/// An engine over an in-process store.
pub(crate) fn test_engine() -> TestEngine {
    let clock = clock();
    EngineBuilder::over(in_process(&clock), &clock).make()
}

pub(crate) fn fleet() -> Policy {
    Policy {
        run: RunPolicy {
            join: SingleFlight::AllProcesses {
                wait: Duration::from_secs(20),
            },
            ..RunPolicy::default()
        },
        ..Policy::default()
    }
}

pub(crate) fn in_mode(mode: CacheMode) -> Policy {
    Policy {
        hit: HitPolicy {
            mode,
            ..HitPolicy::default()
        },
        ..Policy::default()
    }
}

pub(crate) fn in_domains(names: &[&str]) -> Policy {
    Policy {
        hit: HitPolicy {
            domains: domains(names),
            ..HitPolicy::default()
        },
        ..Policy::default()
    }
}

pub(crate) fn domains(names: &[&str]) -> Vec<Domain> {
    names.iter().copied().map(Domain::new).collect()
}

pub(crate) fn tagged(tags: &[&str]) -> Policy {
    Policy {
        run: RunPolicy {
            labels: tags.iter().map(|tag| Label::new("tag", *tag)).collect(),
            ..RunPolicy::default()
        },
        ..Policy::default()
    }
}

pub(crate) fn product(text: &str) -> RunResult {
    RunResult::storable(Bytes::copy_from_slice(text.as_bytes()), COST)
}

/// Reads an outcome to its end.
pub(crate) async fn reported(outcome: Outcome) -> CallReport {
    let body = outcome
        .body
        .whole()
        .await
        .map_err(|failure| failure.to_string());
    CallReport {
        status: outcome.status.clone(),
        body,
        settled: outcome.settled().await,
    }
}

impl TestEngine {
    /// Makes a call; `work` runs on a miss, and is counted.
    pub(crate) async fn try_through<F>(
        &self,
        question: &Question,
        policy: &Policy,
        work: impl FnOnce(Ticket) -> F + Send + 'static,
    ) -> Result<Outcome, FrozenMiss>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let runs = Arc::clone(&self.runs);
        let counted = move |ticket| {
            runs.fetch_add(1, Ordering::SeqCst);
            work(ticket)
        };
        self.cache.through(&question.call(), policy, counted).await
    }

    pub(crate) async fn through<F>(
        &self,
        question: &Question,
        policy: &Policy,
        work: impl FnOnce(Ticket) -> F + Send + 'static,
    ) -> Outcome
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.try_through(question, policy, work)
            .await
            .expect("not frozen")
    }

    /// Makes a call; a run answers with `text`.
    pub(crate) async fn ask(&self, question: &Question, policy: &Policy, text: &str) -> CallReport {
        let product = product(text);
        reported(
            self.through(question, policy, |ticket| finish(ticket, product))
                .await,
        )
        .await
    }

    /// Makes a call in frozen mode.
    pub(crate) async fn frozen(&self, question: &Question) -> Result<CallReport, FrozenMiss> {
        let policy = in_mode(CacheMode::Frozen);
        match self
            .try_through(question, &policy, |_| async {
                unreachable!("frozen runs nothing")
            })
            .await
        {
            Ok(outcome) => Ok(reported(outcome).await),
            Err(miss) => Err(miss),
        }
    }

    /// The ticket for a call that must run.
    pub(crate) async fn lead(&self, question: &Question, policy: &Policy) -> Ticket {
        match self
            .cache
            .begin(&question.call(), policy)
            .await
            .expect("not frozen")
        {
            BeginResult::Run(ticket) => ticket,
            BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                panic!("served: {:?}", outcome.status)
            }
        }
    }

    pub(crate) fn runs(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    pub(crate) fn warned(&self) -> Vec<String> {
        self.warnings.lock().unwrap().clone()
    }

    pub(crate) fn after(&self, time: Duration) {
        self.clock.advance(time);
    }
}

pub(crate) async fn finish(ticket: Ticket, product: RunResult) {
    ticket.finish(product).await;
}

/// Runs all tasks that are ready.
pub(crate) async fn settle_down() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

/// Waits until `holds`, for at most a minute.
pub(crate) async fn eventually(mut holds: impl AsyncFnMut() -> bool) {
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while !holds().await {
        assert!(std::time::Instant::now() < until, "it never came to hold");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
