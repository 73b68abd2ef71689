//! Copies on this machine of entries of a store that may not answer.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{CacheStatus, EntryFilter, Policy, Reason, Ticket};
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
        ttl: Some(HOUR),
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

    /// Ends the pauses in which the server is not asked, too.
    async fn mend(&self) {
        self.way.now(|_| StoreBehavior::Pass);
        tokio::time::advance(Duration::from_secs(31)).await;
    }

    /// Waits until copies are written and sent.
    async fn settle(&self) {
        self.here.cache.close().await;
    }
}

fn is_local_hit(report: &CallReport) -> bool {
    matches!(report.status, CacheStatus::LocalHit(Reason::StoreFault(_)))
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
        ttl: Some(HOUR),
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
        match is_late {
            false => drop(machines.there.ask(&question, &lasting(), "two").await),
            true => machines.here.after(HOUR),
        }
        machines.mend().await;
        machines.here.ask(&other, &lasting(), "other").await;
        machines.settle().await;
        let report = machines.there.ask(&question, &lasting(), "two").await;
        assert_eq!(report.text(), "two");
    }
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
