//! Entries that are served after their expiry.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{
    BeginResult, CacheMode, CacheStatus, CallStatus, EntryFilter, Failure, HitPolicy, Outcome,
    Policy, Reason, RunPolicy, RunResult, Ticket,
};
use cachalot_core::ManualClock;
use cachalot_store::{PageRequest, RecordFilter, Store, space};
use proptest::prelude::*;

use crate::test_engine::{
    COST, EngineBuilder, Question, TestEngine, clock, domains, fleet, in_domains, in_process,
    product, settle_down, sqlite, test_engine,
};

const TTL: Duration = Duration::from_secs(60);
const WINDOW: Duration = Duration::from_secs(20);
const MILLISECOND: Duration = Duration::from_millis(1);

fn while_revalidate() -> Policy {
    Policy {
        run: RunPolicy {
            ttl: Some(TTL),
            stale_while_revalidate: WINDOW,
            ..RunPolicy::default()
        },
        ..Policy::default()
    }
}

fn if_error() -> Policy {
    Policy {
        run: RunPolicy {
            ttl: Some(TTL),
            stale_if_error: WINDOW,
            ..RunPolicy::default()
        },
        ..Policy::default()
    }
}

async fn begin(here: &TestEngine, policy: &Policy) -> BeginResult {
    let question = Question::number(1);
    here.cache.begin(&question.call(), policy).await.unwrap()
}

/// The answer of a stale entry, and the ticket to refresh it.
async fn stale(here: &TestEngine, policy: &Policy) -> (Outcome, Option<Ticket>) {
    match begin(here, policy).await {
        BeginResult::Stale { outcome, refresh } => (outcome, refresh.map(|refresh| *refresh)),
        BeginResult::Served(outcome) => panic!("served: {:?}", outcome.status),
        BeginResult::Run(ticket) => panic!("runs: {:?}", ticket.status()),
    }
}

async fn text(outcome: &Outcome) -> String {
    String::from_utf8(outcome.body.whole().await.unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn expired_entry_answers_within_its_window_while_one_caller_refreshes_it() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let stores = [in_process(&clock), sqlite(&home.path().join("db"), &clock)];
    for (number, store) in stores.into_iter().enumerate() {
        let here = EngineBuilder::over(store, &clock)
            .ledger(&home.path().join(format!("ledger-{number}")))
            .make();
        let (question, policy) = (Question::number(1), while_revalidate());
        let first = here.ask(&question, &policy, "one").await;
        here.after(TTL - MILLISECOND);
        let hit = here.ask(&question, &policy, "no").await;
        assert_eq!((&hit.status, hit.text()), (&CacheStatus::Hit, "one"));
        here.after(WINDOW);
        let (outcome, refresh) = stale(&here, &policy).await;
        assert_eq!(
            (&outcome.status, text(&outcome).await.as_str()),
            (&CacheStatus::Stale, "one")
        );
        assert!(outcome.status.is_hit() && outcome.status.reason().is_none());
        let settled = outcome.settled().await;
        assert_eq!(
            (settled.saved, settled.expires),
            (COST, first.settled.expires)
        );
        let refresh = refresh.unwrap();
        assert_eq!(refresh.status(), &CacheStatus::Miss(Reason::Expired));
        // A second caller does not refresh it, too.
        let (outcome, other) = stale(&here, &policy).await;
        assert_eq!(
            (text(&outcome).await.as_str(), other.is_none()),
            ("one", true)
        );
        let probed = here.cache.probe(&question.call(), &policy).await.unwrap();
        assert_eq!(probed.status, CacheStatus::Stale);
        let settled = refresh.finish(product("two")).await;
        assert!(settled.stored.is_ok(), "{settled:?}");
        let hit = here.ask(&question, &policy, "no").await;
        assert_eq!((&hit.status, hit.text()), (&CacheStatus::Hit, "two"));
        here.cache.ledger().flush().await;
        let rows = here.cache.ledger().recent(9).unwrap();
        let count = |answered| rows.iter().filter(|row| row.answered == answered).count();
        let counts = [CallStatus::Stale, CallStatus::Hit, CallStatus::Miss].map(count);
        assert_eq!(counts, [2, 2, 2]);
        let row = rows
            .iter()
            .find(|row| row.answered == CallStatus::Stale)
            .unwrap();
        assert_eq!((row.saved, row.paid.is_free()), (COST, true));
        let totals = here.cache.ledger().totals().unwrap()[0].2;
        assert_eq!((totals.hits, totals.misses, totals.paid_runs()), (4, 2, 2));
        assert_eq!(totals.saved.time, 4 * COST.time);
    }
}

#[tokio::test]
async fn nothing_is_served_after_the_window_or_without_one() {
    let here = test_engine();
    let question = Question::number(1);
    here.ask(&question, &while_revalidate(), "one").await;
    here.after(TTL);
    // The window of the caller counts.
    let without = Policy {
        run: RunPolicy {
            ttl: Some(TTL),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let ticket = here.lead(&question, &without).await;
    assert!(ticket.stale().await.is_none());
    drop(ticket);
    let ticket = here.lead(&question, &if_error()).await;
    drop(ticket);
    here.after(WINDOW - MILLISECOND);
    drop(stale(&here, &while_revalidate()).await);
    here.after(MILLISECOND);
    let ticket = here.lead(&question, &while_revalidate()).await;
    assert_eq!(ticket.status(), &CacheStatus::Miss(Reason::Expired));
}

#[tokio::test]
async fn modes_that_only_read_serve_it_and_refresh_nothing() {
    let here = test_engine();
    let question = Question::number(1);
    here.ask(&question, &while_revalidate(), "one").await;
    here.after(TTL);
    let in_mode = |mode| Policy {
        hit: HitPolicy {
            mode,
            ..while_revalidate().hit
        },
        ..while_revalidate()
    };
    let (outcome, refresh) = stale(&here, &in_mode(CacheMode::ReadOnly)).await;
    assert_eq!(
        (text(&outcome).await.as_str(), refresh.is_none()),
        ("one", true)
    );
    assert_eq!(here.frozen(&question).await.unwrap().text(), "one");
    for mode in [CacheMode::Refresh, CacheMode::Off] {
        assert!(matches!(
            begin(&here, &in_mode(mode)).await,
            BeginResult::Run(_)
        ));
    }
}

#[tokio::test]
async fn through_refreshes_in_the_background_without_readers() {
    let here = test_engine();
    let (question, policy) = (Question::number(1), while_revalidate());
    here.ask(&question, &policy, "one").await;
    here.after(TTL);
    let (goes_on, waits) = tokio::sync::oneshot::channel::<()>();
    let work = |ticket: Ticket| async move {
        waits.await.unwrap();
        ticket.finish(product("two")).await;
    };
    let outcome = here.through(&question, &policy, work).await;
    assert_eq!(
        (&outcome.status, text(&outcome).await.as_str()),
        (&CacheStatus::Stale, "one")
    );
    drop(outcome);
    settle_down().await;
    let again = here.ask(&question, &policy, "no").await;
    assert_eq!((again.text(), here.runs()), ("one", 2));
    goes_on.send(()).unwrap();
    settle_down().await;
    let hit = here.ask(&question, &policy, "no").await;
    assert_eq!((&hit.status, hit.text()), (&CacheStatus::Hit, "two"));
}

#[tokio::test]
async fn another_process_that_refreshes_is_not_waited_for() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let process = || EngineBuilder::over(sqlite(&home.path().join("db"), &clock), &clock).make();
    let (here, there) = (process(), process());
    let policy = Policy {
        run: RunPolicy {
            join: fleet().run.join,
            ..while_revalidate().run
        },
        ..while_revalidate()
    };
    here.ask(&Question::number(1), &policy, "one").await;
    here.after(TTL);
    let (_, refresh) = stale(&here, &policy).await;
    let asked = std::time::Instant::now();
    let (outcome, other) = stale(&there, &policy).await;
    assert!(asked.elapsed() < Duration::from_secs(10));
    assert_eq!(
        (text(&outcome).await.as_str(), other.is_none()),
        ("one", true)
    );
    assert!(refresh.unwrap().finish(product("two")).await.stored.is_ok());
    let hit = there.ask(&Question::number(1), &policy, "no").await;
    assert_eq!((&hit.status, hit.text()), (&CacheStatus::Hit, "two"));
}

#[tokio::test]
async fn entry_answers_in_place_of_a_run_that_fails() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let here = EngineBuilder::over(in_process(&clock), &clock)
        .ledger(&home.path().join("ledger"))
        .make();
    let (question, policy) = (Question::number(1), if_error());
    here.ask(&question, &policy, "one").await;
    here.after(TTL);
    let ticket = here.lead(&question, &policy).await;
    let own = ticket.outcome();
    let entry = ticket.stale().await.unwrap();
    assert_eq!(entry.status, CacheStatus::Stale);
    let result = RunResult {
        value: Some(entry.body.whole().await.unwrap()),
        storable: Err(Reason::Declined("the upstream failed".into())),
        ..product("")
    };
    ticket
        .finish(RunResult {
            spent: Default::default(),
            ..result
        })
        .await;
    assert_eq!(text(&own).await, "one");
    here.cache.ledger().flush().await;
    let row = &here.cache.ledger().recent(1).unwrap()[0];
    assert_eq!(
        (row.answered, row.saved, row.failed),
        (CallStatus::Stale, COST, false)
    );
    assert_eq!(row.not_stored.as_deref(), Some("the upstream failed"));
    let totals = here.cache.ledger().totals().unwrap()[0].2;
    assert_eq!((totals.hits, totals.misses, totals.paid_runs()), (1, 1, 1));
    // The window may end while the run lasts.
    let ticket = here.lead(&question, &policy).await;
    here.after(WINDOW);
    assert!(ticket.stale().await.is_none());
}

#[tokio::test]
async fn run_that_fails_is_not_answered_across_an_erasure_or_write() {
    let here = test_engine();
    let question = Question::number(1);
    let policy = Policy {
        hit: HitPolicy {
            domains: domains(&["d"]),
            ..if_error().hit
        },
        ..if_error()
    };
    for erases in [true, false] {
        here.ask(&question, &policy, "one").await;
        here.after(TTL);
        let ticket = here.lead(&question, &policy).await;
        assert!(ticket.stale().await.is_some());
        if erases {
            here.cache
                .erase(&EntryFilter::default(), false)
                .await
                .unwrap();
        } else {
            let write_guard = here.cache.write_guard(&policy.hit.domains).await;
            assert!(ticket.stale().await.is_none(), "during the write");
            write_guard.finish().await.unwrap();
        }
        assert!(ticket.stale().await.is_none(), "{erases}");
    }
}

#[tokio::test]
async fn record_outlives_the_entry_by_the_longest_window() {
    let clock = clock();
    let store = in_process(&clock);
    let here = EngineBuilder::over(Arc::clone(&store), &clock).make();
    let policy = Policy {
        run: RunPolicy {
            stale_if_error: 2 * WINDOW,
            ..while_revalidate().run
        },
        ..while_revalidate()
    };
    here.ask(&Question::number(1), &policy, "one").await;
    let page = PageRequest::keys(9);
    let all = RecordFilter::default();
    let found = store.find(space::CACHE, &all, page);
    let record = found.settle().await.unwrap().records.remove(0);
    let entry = here
        .cache
        .peek(&Question::number(1).key())
        .await
        .unwrap()
        .unwrap();
    let lasts = |expires: Option<i64>| expires.unwrap() - crate::test_engine::START;
    let windows = [record.expires, entry.entry_info.provenance.expires].map(lasts);
    assert_eq!(windows, [100_000, 60_000]);
    here.after(TTL);
    assert_eq!(here.cache.sweep(None).await.unwrap(), 0);
    drop(stale(&here, &policy).await);
    here.after(2 * WINDOW);
    assert_eq!(here.cache.sweep(None).await.unwrap(), 1);
}

/// What a test does to an engine and its clock.
#[derive(Debug, Clone, Copy)]
enum Step {
    /// Asks in one of two processes; the run of a miss or a refresh succeeds or fails.
    Ask {
        process: usize,
        fails: bool,
        window: u64,
    },
    Advance(u64),
    Write {
        process: usize,
    },
    Erase {
        process: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let ask = (
        0..2_usize,
        any::<bool>(),
        prop_oneof![Just(0_u64), Just(5), Just(20)],
    );
    prop_oneof![
        6 => ask.prop_map(|(process, fails, window)| Step::Ask { process, fails, window }),
        4 => (1..40_u64).prop_map(Step::Advance),
        1 => (0..2_usize).prop_map(|process| Step::Write { process }),
        1 => (0..2_usize).prop_map(|process| Step::Erase { process }),
    ]
}

/// The entry that exists by the rules: its value and the time of its creation, in milliseconds.
type Model = Option<(u64, u64)>;

/// Milliseconds since the expiry of an entry.
fn expired_for((_, created): (u64, u64), now: u64) -> Option<u64> {
    now.checked_sub(created + 30)
}

async fn follow_the_rules(processes: [TestEngine; 2], clock: Arc<ManualClock>, steps: Vec<Step>) {
    let question = Question::number(1);
    let (mut now, mut value, mut model): (u64, u64, Model) = (0, 0, None);
    for (at, step) in steps.into_iter().enumerate() {
        let failure = || Failure::new(std::io::Error::other("no answer"));
        match step {
            Step::Advance(milliseconds) => {
                now += milliseconds;
                clock.advance(Duration::from_millis(milliseconds));
            }
            Step::Write { process } => {
                let write_guard = processes[process].cache.write_guard(&domains(&["d"])).await;
                write_guard.finish().await.unwrap();
                model = None;
            }
            Step::Erase { process } => {
                let all = EntryFilter::default();
                processes[process].cache.erase(&all, false).await.unwrap();
                model = None;
            }
            Step::Ask {
                process,
                fails,
                window,
            } => {
                // One of the windows is open for longer than the other; both may be shut.
                let policy = Policy {
                    run: RunPolicy {
                        ttl: Some(Duration::from_millis(30)),
                        stale_while_revalidate: Duration::from_millis(window),
                        stale_if_error: Duration::from_millis(20),
                        ..in_domains(&["d"]).run
                    },
                    ..in_domains(&["d"])
                };
                let expired = model.map(|entry| (entry.0, expired_for(entry, now)));
                let here = &processes[process].cache;
                let begun = here.begin(&question.call(), &policy).await.unwrap();
                let ticket = match (begun, expired) {
                    (BeginResult::Served(outcome), Some((value, None))) => {
                        assert_eq!(text(&outcome).await, value.to_string(), "{at}");
                        continue;
                    }
                    (BeginResult::Stale { outcome, refresh }, Some((value, Some(age)))) => {
                        assert!(age < window, "{at}: {age}");
                        assert_eq!(text(&outcome).await, value.to_string(), "{at}");
                        *refresh.unwrap()
                    }
                    (BeginResult::Run(ticket), None) => ticket,
                    (BeginResult::Run(ticket), Some((_, Some(age)))) => {
                        assert!(age >= window, "{at}: {age}");
                        ticket
                    }
                    (begun, expired) => panic!(
                        "{at}: {expired:?}, {}",
                        match begun {
                            BeginResult::Served(_) => "served",
                            BeginResult::Stale { .. } => "stale",
                            BeginResult::Run(_) => "runs",
                        }
                    ),
                };
                if fails {
                    let stale = ticket.stale().await;
                    let allowed = expired.filter(|(_, age)| age.is_some_and(|age| age < 20));
                    let got = match &stale {
                        Some(outcome) => Some(text(outcome).await),
                        None => None,
                    };
                    assert_eq!(got, allowed.map(|(value, _)| value.to_string()), "{at}");
                    ticket.fail(failure()).await;
                } else {
                    value += 1;
                    let settled = ticket.finish(product(&value.to_string())).await;
                    assert!(settled.stored.is_ok(), "{at}: {settled:?}");
                    model = Some((value, now));
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_served_outside_its_window_or_across_an_erasure_or_write(
        steps in prop::collection::vec(step(), 1..40),
        in_files in any::<bool>(),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (clock, home) = (clock(), tempfile::tempdir().unwrap());
            let shared = in_process(&clock);
            let store = || -> Arc<dyn Store> {
                if in_files { sqlite(&home.path().join("db"), &clock) } else { Arc::clone(&shared) }
            };
            let processes = [store(), store()].map(|store| EngineBuilder::over(store, &clock).make());
            follow_the_rules(processes, Arc::clone(&clock), steps).await;
        });
    }
}
