//! Copies on this machine of entries of a store that may not answer.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{
    CacheMode, CacheStatus, EntryFilter, HitPolicy, Policy, Reason, RunPolicy, Ticket,
};
use cachalot_core::ManualClock;
use cachalot_store::Store;
use cachalot_store::intercepted::StoreOperation;
use proptest::prelude::*;

use crate::faulty_store::{FaultyStore, StoreBehavior};
use crate::test_engine::{
    CallReport, EngineBuilder, Question, TestEngine, clock, in_domains, in_process, product,
};

const HOUR: Duration = Duration::from_secs(3600);

fn lasting() -> Policy {
    Policy {
        run: RunPolicy {
            ttl: Some(HOUR),
            ..RunPolicy::default()
        },
        ..Policy::default()
    }
}

/// A machine with local copies, and another one whose store always answers.
struct Machines {
    clock: Arc<ManualClock>,
    local: Arc<dyn Store>,
    /// The way to the server from here.
    way: Arc<FaultyStore>,
    here: TestEngine,
    there: TestEngine,
}

impl Machines {
    fn new() -> Self {
        let clock = clock();
        let (server, local) = (in_process(&clock), in_process(&clock));
        let way = Arc::new(FaultyStore::over(Arc::clone(&server)).without_stamps());
        let there = Arc::new(FaultyStore::over(server).without_stamps());
        Self {
            here: EngineBuilder::over(way.clone(), &clock)
                .local(&local)
                .make(),
            there: EngineBuilder::over(there, &clock).make(),
            clock,
            local,
            way,
        }
    }

    /// Ends the process here and starts another one.
    async fn restart(&mut self) {
        self.here.cache.close().await;
        self.here = EngineBuilder::over(self.way.clone(), &self.clock)
            .local(&self.local)
            .make();
    }

    fn cut(&self) {
        self.way.now(|_| StoreBehavior::Fail);
    }

    /// Starts a process here that erases copies, but makes and serves none.
    fn without_serving(&self) -> TestEngine {
        EngineBuilder::over(self.way.clone(), &self.clock)
            .erased_only(&self.local)
            .make()
    }

    /// Waits until the store is used again, and for the pause after which copies are sent.
    async fn mend(&self) {
        self.way.now(|_| StoreBehavior::Pass);
        tokio::time::sleep(Duration::from_secs(31)).await;
    }

    /// Waits until copies are written and sent.
    async fn settle(&self) {
        self.here.cache.close().await;
    }
}

fn is_local_hit(report: &CallReport) -> bool {
    matches!(
        report.status,
        CacheStatus::LocalHit(Reason::StoreUnavailable(_))
    )
}

#[tokio::test(start_paused = true)]
async fn copies_answer_while_the_server_does_not_until_they_expire() {
    let question = Question::number(1);
    for fault in [StoreBehavior::Fail, StoreBehavior::Hang] {
        let mut machines = Machines::new();
        machines.here.ask(&question, &lasting(), "one").await;
        machines.restart().await;
        machines.way.now(move |_| fault);
        let began = tokio::time::Instant::now();
        let report = machines.here.ask(&question, &lasting(), "two").await;
        assert!(began.elapsed() <= Duration::from_millis(260));
        assert!(is_local_hit(&report), "{:?}", report.status);
        assert_eq!(report.text(), "one");
        assert!(report.status.is_hit() && report.status.reason().is_some());
        machines.here.after(HOUR);
        let report = machines.here.ask(&question, &lasting(), "three").await;
        assert_eq!(report.text(), "three");
    }
}

/// An entry that another machine stored is copied when it is read.
#[tokio::test(start_paused = true)]
async fn entry_of_another_machine_is_copied() {
    let machines = Machines::new();
    let question = Question::number(1);
    machines.there.ask(&question, &lasting(), "one").await;
    machines.here.ask(&question, &lasting(), "two").await;
    machines.settle().await;
    machines.cut();
    let report = machines.here.ask(&question, &lasting(), "three").await;
    assert_eq!((is_local_hit(&report), report.text()), (true, "one"));
}

#[tokio::test(start_paused = true)]
async fn policy_without_expiry_or_with_domains_permits_no_copy() {
    let with_domains = Policy {
        run: RunPolicy {
            ttl: Some(HOUR),
            ..in_domains(&["tree"]).run
        },
        ..in_domains(&["tree"])
    };
    for policy in [Policy::default(), with_domains] {
        let machines = Machines::new();
        let question = Question::number(1);
        machines.here.ask(&question, &policy, "one").await;
        machines.here.ask(&question, &policy, "one").await;
        machines.settle().await;
        machines.cut();
        let report = machines.here.ask(&question, &policy, "two").await;
        assert_eq!(report.text(), "two");
        // Neither does a policy that permits it answer with an entry that was stored without.
        let report = machines.here.ask(&question, &lasting(), "three").await;
        assert_eq!(report.text(), "three");
    }
}

#[tokio::test(start_paused = true)]
async fn erased_copies_do_not_answer() {
    let (question, other) = (Question::number(1), Question::number(2));
    // By this machine; without the server, the erasure fails.
    for is_cut in [false, true] {
        let machines = Machines::new();
        machines.here.ask(&question, &lasting(), "one").await;
        machines.settle().await;
        if is_cut {
            machines.cut();
        }
        let erased = machines
            .here
            .cache
            .erase(&EntryFilter::default(), false)
            .await;
        assert_eq!(erased.is_err(), is_cut);
        machines.cut();
        let report = machines.here.ask(&question, &lasting(), "two").await;
        assert_eq!(report.text(), "two");
    }
    // By another one: once this machine has spoken to the server.
    let mut machines = Machines::new();
    machines.here.ask(&question, &lasting(), "one").await;
    machines.settle().await;
    let all = EntryFilter::default();
    machines.there.cache.erase(&all, false).await.unwrap();
    machines.here.ask(&other, &lasting(), "other").await;
    machines.restart().await;
    machines.cut();
    let report = machines.here.ask(&question, &lasting(), "two").await;
    assert_eq!(report.text(), "two");
    let report = machines.here.ask(&other, &lasting(), "two").await;
    assert_eq!((is_local_hit(&report), report.text()), (true, "other"));
}

/// An entry that is read while it is being erased is copied, too.
#[tokio::test(start_paused = true)]
async fn copy_made_during_an_erasure_does_not_answer() {
    let machines = Machines::new();
    let question = Question::number(1);
    machines.there.ask(&question, &lasting(), "one").await;
    machines.way.now(|operation| match operation {
        StoreOperation::Erase => StoreBehavior::Slow(Duration::from_secs(1)),
        _ => StoreBehavior::Pass,
    });
    let all = EntryFilter::default();
    let erase = machines.here.cache.erase(&all, false);
    let ask = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let report = machines.here.ask(&question, &lasting(), "two").await;
        assert_eq!(report.text(), "one");
        machines.settle().await;
    };
    let (erased, ()) = tokio::join!(erase, ask);
    erased.unwrap();
    machines.cut();
    let report = machines.here.ask(&question, &lasting(), "two").await;
    assert_eq!(report.text(), "two");
}

/// Also after an outage that was long.
#[tokio::test(start_paused = true)]
async fn copies_stop_answering_when_the_server_answers() {
    let machines = Machines::new();
    let question = Question::number(1);
    machines.here.ask(&question, &lasting(), "one").await;
    machines.settle().await;
    machines.way.now(|_| StoreBehavior::Unreachable);
    for _ in 0..20 {
        tokio::time::sleep(Duration::from_secs(60)).await;
        let report = machines.here.ask(&question, &lasting(), "two").await;
        assert_eq!((is_local_hit(&report), report.text()), (true, "one"));
    }
    machines
        .way
        .now(|_| StoreBehavior::Slow(Duration::from_millis(1)));
    tokio::time::sleep(Duration::from_secs(2)).await;
    let report = machines.here.ask(&question, &lasting(), "two").await;
    assert_eq!(
        (report.status, report.body.unwrap()),
        (CacheStatus::Hit, "one".into())
    );
}

#[tokio::test(start_paused = true)]
async fn answers_are_sent_when_the_server_is_back() {
    let mut machines = Machines::new();
    let (question, other) = (Question::number(1), Question::number(2));
    machines.cut();
    let report = machines.here.ask(&question, &lasting(), "one").await;
    let why = report.settled.stored.unwrap_err().to_string();
    assert!(why.contains("a local copy is sent"), "{why}");
    // Also by another process, and by the one that made it.
    let report = machines.here.ask(&question, &lasting(), "two").await;
    assert_eq!((is_local_hit(&report), report.text()), (true, "one"));
    machines.restart().await;
    machines.mend().await;
    machines.here.ask(&other, &lasting(), "other").await;
    machines.settle().await;
    let report = machines.there.ask(&question, &lasting(), "three").await;
    assert_eq!(
        (report.status, report.body.unwrap()),
        (CacheStatus::Hit, "one".into())
    );
}

#[tokio::test(start_paused = true)]
async fn answers_are_dropped_if_anything_was_erased_meanwhile() {
    let machines = Machines::new();
    let (question, other) = (Question::number(1), Question::number(2));
    machines.here.ask(&other, &lasting(), "other").await;
    machines.cut();
    machines.here.ask(&question, &lasting(), "one").await;
    let all = EntryFilter::default();
    machines.there.cache.erase(&all, false).await.unwrap();
    machines.mend().await;
    machines.here.ask(&other, &lasting(), "other").await;
    machines.settle().await;
    for engine in [&machines.there, &machines.here] {
        let report = engine.ask(&question, &lasting(), "two").await;
        assert_eq!(report.text(), "two");
    }
}

/// An answer that another machine has stored in the meantime stays, and an expired one is not sent.
#[tokio::test(start_paused = true)]
async fn answers_replace_no_other_ones() {
    for is_late in [false, true] {
        let machines = Machines::new();
        let (question, other) = (Question::number(1), Question::number(2));
        machines.cut();
        machines.here.ask(&question, &lasting(), "one").await;
        if !is_late {
            drop(machines.there.ask(&question, &lasting(), "two").await)
        } else {
            machines.here.after(HOUR)
        }
        machines.mend().await;
        machines.here.ask(&other, &lasting(), "other").await;
        machines.settle().await;
        let report = machines.there.ask(&question, &lasting(), "two").await;
        assert_eq!(report.text(), "two");
    }
}

/// A server that answers with an error may have erased the entry, and does not receive the answer later.
#[tokio::test(start_paused = true)]
async fn copies_do_not_answer_while_the_server_refuses() {
    let machines = Machines::new();
    let (question, other) = (Question::number(1), Question::number(2));
    machines.here.ask(&question, &lasting(), "one").await;
    machines.settle().await;
    machines.way.now(|_| StoreBehavior::Refuse);
    for question in [question, other] {
        let report = machines.here.ask(&question, &lasting(), "two").await;
        assert!(matches!(
            report.status,
            CacheStatus::Miss(Reason::StoreFault(_))
        ));
        let why = report.settled.stored.clone().unwrap_err().to_string();
        assert!(!why.contains("a local copy is sent"), "{why}");
        assert_eq!(report.text(), "two");
    }
}

/// An answer that the server does not accept is dropped, and does not keep others from being sent.
#[tokio::test(start_paused = true)]
async fn refused_answers_are_not_sent_again() {
    let mut machines = Machines::new();
    machines.cut();
    for number in 0..3 {
        let question = Question::number(number);
        machines.here.ask(&question, &lasting(), "one").await;
    }
    machines.restart().await;
    machines.mend().await;
    machines.way.now(|operation| match operation {
        StoreOperation::Put => StoreBehavior::Refuse,
        _ => StoreBehavior::Pass,
    });
    let other = Question::number(9);
    machines.here.ask(&other, &lasting(), "other").await;
    machines.settle().await;
    assert_eq!(machines.way.count(StoreOperation::Put), 1 + 3);
    machines.way.now(|_| StoreBehavior::Pass);
    machines.restart().await;
    tokio::time::advance(HOUR / 2).await;
    machines.here.ask(&other, &lasting(), "other").await;
    machines.settle().await;
    assert_eq!(machines.way.count(StoreOperation::Put), 1 + 3 + 1);
}

/// The end of a process waits for two seconds; the rest is sent by the next one.
#[tokio::test(start_paused = true)]
async fn end_of_a_process_does_not_wait_for_all_to_be_sent() {
    let mut machines = Machines::new();
    machines.cut();
    for number in 0..50 {
        let question = Question::number(number);
        machines.here.ask(&question, &lasting(), "one").await;
    }
    machines.restart().await;
    machines.mend().await;
    machines.way.now(|operation| match operation {
        StoreOperation::Put => StoreBehavior::Slow(Duration::from_millis(200)),
        _ => StoreBehavior::Pass,
    });
    let other = Question::number(99);
    machines.here.ask(&other, &lasting(), "other").await;
    let began = tokio::time::Instant::now();
    machines.settle().await;
    assert!(began.elapsed() <= Duration::from_millis(2_500));
    machines.way.now(|_| StoreBehavior::Pass);
    machines.restart().await;
    // Until the lease of the ended process has been released.
    tokio::time::sleep(Duration::from_secs(5)).await;
    machines.here.ask(&other, &lasting(), "other").await;
    machines.settle().await;
    for number in 0..50 {
        let question = Question::number(number);
        let report = machines.there.ask(&question, &lasting(), "two").await;
        assert_eq!(
            (report.status.clone(), report.text()),
            (CacheStatus::Hit, "one"),
            "{number}"
        );
    }
}

/// While another machine runs the same call, or has stored its answer just now, the answer is not sent.
#[tokio::test(start_paused = true)]
async fn answers_of_runs_elsewhere_stay() {
    let machines = Machines::new();
    let (question, other) = (Question::number(1), Question::number(2));
    machines.cut();
    machines.here.ask(&question, &lasting(), "one").await;
    let begun = machines
        .there
        .cache
        .begin(&question.call(), &lasting())
        .await;
    let cachalot_cache::BeginResult::Run(ticket) = begun.unwrap() else {
        panic!("not answered by anything");
    };
    machines.mend().await;
    machines.here.ask(&other, &lasting(), "other").await;
    machines.settle().await;
    let summary = ticket.finish(product("two")).await;
    assert!(summary.stored.is_ok(), "{:?}", summary.stored);
    let report = machines.here.ask(&question, &lasting(), "three").await;
    assert_eq!(report.text(), "two");

    // One that asks while the answer is on its way.
    let machines = Machines::new();
    machines.there.ask(&other, &lasting(), "other").await;
    machines.cut();
    machines.here.ask(&question, &lasting(), "one").await;
    machines.mend().await;
    machines.way.now(|operation| match operation {
        StoreOperation::Put => StoreBehavior::Slow(Duration::from_secs(1)),
        _ => StoreBehavior::Pass,
    });
    machines.here.ask(&other, &lasting(), "other").await;
    tokio::time::sleep(Duration::from_millis(500)).await;
    let first = machines.there.ask(&question, &lasting(), "two").await;
    machines.settle().await;
    let second = machines.there.ask(&question, &lasting(), "three").await;
    assert!(
        first.settled.stored.is_err() || first.text() == second.text(),
        "{} {}",
        first.text(),
        second.text()
    );
}

/// A fault of the local store does not keep entries from being erased on the server.
#[tokio::test(start_paused = true)]
async fn faulty_copies_do_not_prevent_an_erasure() {
    let clock = clock();
    let (server, local) = (in_process(&clock), in_process(&clock));
    let local = FaultyStore::over(local);
    let way: Arc<dyn Store> = Arc::new(FaultyStore::over(Arc::clone(&server)).without_stamps());
    let local = Arc::new(local);
    let copies: Arc<dyn Store> = local.clone();
    let here = EngineBuilder::over(way, &clock).local(&copies).make();
    let there = EngineBuilder::over(server, &clock).make();
    let question = Question::number(1);
    here.ask(&question, &lasting(), "one").await;
    local.now(|_| StoreBehavior::Refuse);
    let erased = here.cache.erase(&EntryFilter::default(), false).await;
    assert!(erased.is_err());
    let report = there.ask(&question, &lasting(), "two").await;
    assert_eq!(report.text(), "two");
}

/// A copy is outdated when this machine stores another answer of which there is to be no copy.
#[tokio::test(start_paused = true)]
async fn copy_of_a_replaced_entry_does_not_answer() {
    let refresh = |policy: Policy| Policy {
        hit: HitPolicy {
            mode: CacheMode::Refresh,
            ..policy.hit
        },
        ..policy
    };
    let question = Question::number(1);
    for is_served in [true, false] {
        let machines = Machines::new();
        machines.here.ask(&question, &lasting(), "one").await;
        machines.settle().await;
        let other = machines.without_serving();
        let (engine, policy) = if is_served {
            (&machines.here, refresh(Policy::default()))
        } else {
            (&other, refresh(lasting()))
        };
        let report = engine.ask(&question, &policy, "two").await;
        assert!(report.settled.stored.is_ok());
        engine.cache.close().await;
        machines.cut();
        let report = machines.here.ask(&question, &lasting(), "three").await;
        assert_eq!(report.text(), "three");
    }
    // Entries of a cassette replace others, too.
    let machines = Machines::new();
    machines.here.ask(&question, &lasting(), "one").await;
    machines.settle().await;
    let mut cassette = Vec::new();
    machines
        .here
        .cache
        .export(&mut cassette, None)
        .await
        .unwrap();
    machines
        .here
        .cache
        .import(&mut &cassette[..])
        .await
        .unwrap();
    machines.cut();
    let report = machines.here.ask(&question, &lasting(), "three").await;
    assert_eq!(report.text(), "three");
}

/// A server whose counter has gone back is another one, or was restored from a backup.
#[tokio::test(start_paused = true)]
async fn copies_of_another_state_of_the_server_do_not_answer() {
    let clock = clock();
    let (server, restored, local) = (in_process(&clock), in_process(&clock), in_process(&clock));
    let (question, other) = (Question::number(1), Question::number(2));
    let over =
        |server: &Arc<dyn Store>| Arc::new(FaultyStore::over(Arc::clone(server)).without_stamps());
    let way = over(&server);
    let here = EngineBuilder::over(way, &clock).local(&local).make();
    here.cache
        .erase(&EntryFilter::default(), false)
        .await
        .unwrap();
    here.ask(&question, &lasting(), "one").await;
    here.cache.close().await;
    let way = over(&restored);
    let here = EngineBuilder::over(way.clone(), &clock)
        .local(&local)
        .make();
    here.ask(&other, &lasting(), "other").await;
    here.cache.close().await;
    way.now(|_| StoreBehavior::Fail);
    let report = here.ask(&question, &lasting(), "two").await;
    assert_eq!(report.text(), "two");
    // Copies of the new state are made and sent.
    let report = here.ask(&other, &lasting(), "three").await;
    assert_eq!((is_local_hit(&report), report.text()), (true, "other"));
    way.now(|_| StoreBehavior::Pass);
    tokio::time::sleep(Duration::from_secs(31)).await;
    here.ask(&other, &lasting(), "three").await;
    here.cache.close().await;
    let there = EngineBuilder::over(restored, &clock).make();
    let report = there.ask(&question, &lasting(), "three").await;
    assert_eq!(
        (report.status.clone(), report.text()),
        (CacheStatus::Hit, "two")
    );
}

/// A process that has not reached the server does not know the difference of the clocks.
#[tokio::test(start_paused = true)]
async fn copies_expire_by_the_clock_of_this_machine() {
    let (clock, of_server) = (clock(), clock());
    of_server.advance(Duration::from_secs(240));
    let (server, local) = (in_process(&of_server), in_process(&clock));
    let way = Arc::new(FaultyStore::over(server).without_stamps());
    let question = Question::number(1);
    let short = Policy {
        run: RunPolicy {
            ttl: Some(Duration::from_secs(60)),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let here = || {
        EngineBuilder::over(way.clone(), &clock)
            .local(&local)
            .make()
    };
    here().ask(&question, &short, "one").await;
    let first = here();
    first.ask(&question, &short, "one").await;
    first.cache.close().await;
    way.now(|_| StoreBehavior::Fail);
    let report = here().ask(&question, &short, "two").await;
    assert_eq!(report.text(), "one");
    clock.advance(Duration::from_secs(61));
    let report = here().ask(&question, &short, "two").await;
    assert_eq!(report.text(), "two");
}

/// A call that may only read writes nothing, neither here nor on the server.
#[tokio::test(start_paused = true)]
async fn reading_calls_send_and_copy_nothing() {
    let mut machines = Machines::new();
    let (question, other) = (Question::number(1), Question::number(2));
    let reading = Policy {
        hit: HitPolicy {
            mode: CacheMode::ReadOnly,
            ..lasting().hit
        },
        ..lasting()
    };
    machines.there.ask(&other, &lasting(), "other").await;
    machines.cut();
    machines.here.ask(&question, &lasting(), "one").await;
    machines.restart().await;
    machines.mend().await;
    let puts = machines.way.count(StoreOperation::Put);
    machines.here.ask(&other, &reading, "two").await;
    machines.settle().await;
    assert_eq!(machines.way.count(StoreOperation::Put), puts);
    machines.cut();
    let report = machines.here.ask(&other, &lasting(), "two").await;
    assert_eq!(report.text(), "two");
}

/// A step of [`nothing_erased_is_served`].
#[derive(Debug, Clone)]
enum Step {
    AskHere(usize),
    AskThere(usize),
    EraseHere,
    EraseThere,
    Cut,
    Mend,
    Restart,
    /// Begins a run here, which ends with [`Step::End`].
    Begin(usize),
    End,
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..3_usize).prop_map(Step::AskHere),
        2 => (0..3_usize).prop_map(Step::AskThere),
        1 => Just(Step::EraseHere),
        2 => Just(Step::EraseThere),
        2 => Just(Step::Cut),
        2 => Just(Step::Mend),
        1 => Just(Step::Restart),
        2 => (0..3_usize).prop_map(Step::Begin),
        2 => Just(Step::End),
        1 => (1..4_000_u64).prop_map(Step::Wait),
    ]
}

/// The right answer is the number of erasures. A server that answers permits no other one, anywhere; without it, an
/// answer is as new as the last erasure of which this machine could know.
async fn take(steps: Vec<Step>) {
    let mut machines = Machines::new();
    let (mut erasures, mut known, mut is_cut) = (0_usize, 0_usize, false);
    let mut runs: Vec<(usize, Ticket, usize)> = Vec::new();
    for step in steps {
        match step {
            Step::AskHere(key) => {
                let answer = erasures.to_string();
                let report = machines
                    .here
                    .ask(&Question::number(key), &lasting(), &answer)
                    .await;
                let given: usize = report.text().parse().unwrap();
                match report.status {
                    // The run of another caller may have begun at any time.
                    CacheStatus::Coalesced => {}
                    CacheStatus::LocalHit(_) => {
                        assert!(is_cut);
                        assert!(given >= known, "{given} < {known}");
                    }
                    _ => assert_eq!(given, erasures),
                }
                if !is_cut {
                    known = erasures;
                }
            }
            Step::AskThere(key) => {
                let answer = erasures.to_string();
                let question = Question::number(key);
                let report = machines.there.ask(&question, &lasting(), &answer).await;
                assert_eq!(report.text(), answer);
            }
            Step::EraseHere => {
                let all = EntryFilter::default();
                let erased = machines.here.cache.erase(&all, false).await;
                assert_eq!(erased.is_err(), is_cut);
                if !is_cut {
                    erasures += 1;
                    known = erasures;
                }
            }
            Step::EraseThere => {
                let all = EntryFilter::default();
                machines.there.cache.erase(&all, false).await.unwrap();
                erasures += 1;
            }
            Step::Cut => {
                machines.cut();
                is_cut = true;
            }
            Step::Mend => {
                machines.mend().await;
                is_cut = false;
            }
            Step::Restart => machines.restart().await,
            // A second caller would wait for the first one.
            Step::Begin(key) if runs.iter().all(|(of, ..)| *of != key) => {
                let question = Question::number(10 + key);
                let begun = machines
                    .here
                    .cache
                    .begin(&question.call(), &lasting())
                    .await;
                if let cachalot_cache::BeginResult::Run(ticket) = begun.unwrap() {
                    runs.push((key, ticket, erasures));
                }
            }
            Step::Begin(_) => {}
            Step::End => {
                if let Some((_, ticket, began)) = runs.pop() {
                    ticket.finish(product(&began.to_string())).await;
                }
            }
            Step::Wait(seconds) => machines.here.after(Duration::from_secs(seconds)),
        }
        // The runs that were begun have keys of their own.
        for key in 10..13 {
            let answer = erasures.to_string();
            let question = Question::number(key);
            let probed = machines
                .there
                .cache
                .probe(&question.call(), &lasting())
                .await;
            if let Ok(found) = probed {
                assert_eq!(found.body.whole().await.unwrap(), answer.as_bytes());
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]
    #[test]
    fn nothing_erased_is_served(steps in prop::collection::vec(step(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(take(steps));
    }
}
