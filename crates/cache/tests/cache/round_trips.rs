//! The number of store calls per cache call, and late or lapsed reservations.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{
    BeginResult, CacheStatus, CallKind, EntryFilter, Failure, Policy, Quota, Reason, RunPolicy,
    RunResult,
};
use cachalot_core::{Clock, ManualClock};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::{Label, LabelMatch, PageRequest, Store, counter, space};

use crate::faulty_store::{FaultyStore, StoreBehavior};
use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, finish, fleet, in_domains, in_mode, in_process,
    product, reported, settle_down, sqlite, tagged,
};
use cachalot_store::intercepted::StoreOperation;

fn over(memory: Arc<dyn Store>, clock: &Arc<ManualClock>) -> (TestEngine, Arc<FaultyStore>) {
    let faulty_store = Arc::new(FaultyStore::over(memory));
    (
        EngineBuilder::over(faulty_store.clone(), clock).make(),
        faulty_store,
    )
}

/// Store calls except those of background housekeeping.
fn asked(faulty_store: &FaultyStore) -> HashMap<StoreOperation, usize> {
    let mut counted = faulty_store.counted();
    counted.retain(|op, _| !matches!(op, StoreOperation::Usage | StoreOperation::Touch));
    counted
}

#[tokio::test]
async fn miss_makes_two_round_trips_and_a_hit_one() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    for memory in [in_process(&clock), sqlite(&home.path().join("db"), &clock)] {
        for policy in [
            Policy::default(),
            fleet(),
            in_domains(&["one", "two"]),
            tagged(&["a", "b"]),
        ] {
            let faulty_store = Arc::new(FaultyStore::over(memory.clone()).without_stamps());
            let here = EngineBuilder::over(faulty_store.clone(), &clock).make();
            let question = Question::of(serde_json::json!(format!("{policy:?}")));
            let reported = here.ask(&question, &policy, "x").await;
            assert!(reported.settled.stored.is_ok(), "{reported:?}");
            let miss = HashMap::from([(StoreOperation::GetOrReserve, 1), (StoreOperation::Put, 1)]);
            assert_eq!(asked(&faulty_store), miss, "{policy:?}");
            let reported = here.ask(&question, &policy, "").await;
            assert_eq!(
                (&reported.status, reported.text()),
                (&CacheStatus::Hit, "x")
            );
            let hit = HashMap::from([(StoreOperation::GetOrReserve, 2), (StoreOperation::Put, 1)]);
            assert_eq!(asked(&faulty_store), hit, "{policy:?}");
        }
    }
}

fn new_key() -> Policy {
    Policy {
        run: RunPolicy {
            is_new_key: true,
            ..RunPolicy::default()
        },
        ..Policy::default()
    }
}

#[tokio::test]
async fn run_of_a_new_key_asks_the_store_only_for_its_answer() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    for memory in [in_process(&clock), sqlite(&home.path().join("db"), &clock)] {
        let (here, faulty_store) = over(memory, &clock);
        let question = Question::number(1);
        let declined = RunResult {
            storable: Err(Reason::Declined("delivered".into())),
            ..product("x")
        };
        let policy = new_key();
        let run = here.through(&question, &policy, |ticket| finish(ticket, declined));
        let reported = reported(run.await).await;
        assert_eq!(reported.status, CacheStatus::Miss(Reason::Absent));
        assert_eq!(asked(&faulty_store), HashMap::new());

        let ticket = here.lead(&question, &new_key()).await;
        let (follower, asked_again) = (here.clone(), question.clone());
        let follower =
            tokio::spawn(async move { follower.ask(&asked_again, &fleet(), "other").await });
        settle_down().await;
        assert!(ticket.finish(product("y")).await.stored.is_ok());
        let followed = follower.await.unwrap();
        assert_eq!(
            (&followed.status, followed.text()),
            (&CacheStatus::Coalesced, "y")
        );
        let hit = here.ask(&question, &fleet(), "").await;
        assert_eq!((&hit.status, hit.text()), (&CacheStatus::Hit, "y"));
        assert_eq!(faulty_store.count(StoreOperation::Put), 1);
    }
}

#[tokio::test]
async fn answer_of_a_new_key_is_not_stored_after_an_erasure() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    for memory in [in_process(&clock), sqlite(&home.path().join("db"), &clock)] {
        let here = EngineBuilder::over(memory.clone(), &clock).make();
        let there = EngineBuilder::over(memory, &clock).make();
        for eraser in [&here, &there] {
            let question = Question::number(1);
            let ticket = here.lead(&question, &new_key()).await;
            here.after(Duration::from_secs(2));
            let which = EntryFilter {
                name: Some("file.read".into()),
                ..EntryFilter::default()
            };
            eraser.cache.erase(&which, false).await.unwrap();
            let ended = ticket.finish(product("x")).await;
            assert_eq!(ended.stored, Err(Reason::Revoked));
            here.after(Duration::from_secs(10));
            let ticket = here.lead(&question, &new_key()).await;
            assert!(ticket.finish(product("x")).await.stored.is_ok());
            eraser.cache.erase(&which, false).await.unwrap();
            here.after(Duration::from_secs(10));
        }
    }
}

#[tokio::test]
async fn expired_entry_and_refresh_make_two_round_trips() {
    let clock = clock();
    let (here, faulty_store) = over(in_process(&clock), &clock);
    let question = Question::number(1);
    let policy = Policy {
        run: RunPolicy {
            ttl: Some(Duration::from_secs(10)),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    here.ask(&question, &policy, "x").await;
    here.after(Duration::from_secs(10));
    let reported = here.ask(&question, &policy, "y").await;
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Miss(Reason::Expired), "y")
    );
    assert!(reported.settled.stored.is_ok());
    assert_eq!(
        asked(&faulty_store),
        HashMap::from([(StoreOperation::GetOrReserve, 2), (StoreOperation::Put, 2)])
    );
    let refresh = in_mode(cachalot_cache::CacheMode::Refresh);
    let reported = here.ask(&question, &refresh, "z").await;
    assert_eq!(reported.status, CacheStatus::Miss(Reason::Refresh));
    assert!(reported.settled.stored.is_ok(), "{reported:?}");
    assert_eq!(
        asked(&faulty_store),
        HashMap::from([(StoreOperation::GetOrReserve, 3), (StoreOperation::Put, 3)])
    );
    assert_eq!(here.ask(&question, &policy, "").await.text(), "z");
}

#[tokio::test]
async fn concurrent_callers_make_one_reservation() {
    let clock = clock();
    for slow in [0, 20] {
        let (here, faulty_store) = over(in_process(&clock), &clock);
        faulty_store.now(move |_| StoreBehavior::Slow(Duration::from_millis(slow)));
        let question = Question::number(1);
        let asking: Vec<_> = (0..16)
            .map(|_| {
                let (here, question) = (here.clone(), question.clone());
                tokio::spawn(async move { here.ask(&question, &Policy::default(), "x").await })
            })
            .collect();
        for one in asking {
            let reported = one.await.unwrap();
            assert!(reported.settled.stored.is_ok(), "{reported:?}");
        }
        assert_eq!(here.runs(), 1);
        assert_eq!(
            (
                faulty_store.count(StoreOperation::GetOrReserve),
                faulty_store.count(StoreOperation::Put)
            ),
            (1, 1)
        );
        assert_eq!(
            (
                faulty_store.count(StoreOperation::Reserve),
                faulty_store.count(StoreOperation::Release)
            ),
            (0, 0)
        );
    }
}

/// Returns whether another engine on the same store gets the key without waiting.
async fn is_free(memory: &Arc<dyn Store>, clock: &Arc<ManualClock>, question: &Question) -> bool {
    let there = EngineBuilder::over(memory.clone(), clock).make();
    let reported = there.ask(question, &Policy::default(), "free").await;
    reported.settled.stored.is_ok()
}

#[tokio::test(start_paused = true)]
async fn late_reservation_is_released() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, faulty_store) = over(memory.clone(), &clock);
    faulty_store.now(|op| match op {
        StoreOperation::GetOrReserve => StoreBehavior::Late(Duration::from_millis(400)),
        _ => StoreBehavior::Pass,
    });
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    let failure = Failure::new(std::io::Error::other("no"));
    ticket.fail(failure).await;
    assert!(
        !is_free(&memory, &clock, &question).await,
        "it was reserved"
    );
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(is_free(&memory, &clock, &question).await);

    // A caller that has left while it was reserved.
    let question = Question::number(2);
    let asking = {
        let (here, question) = (here.clone(), question.clone());
        tokio::spawn(async move { here.ask(&question, &Policy::default(), "x").await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    asking.abort();
    assert!(asking.await.is_err());
    assert!(
        !is_free(&memory, &clock, &question).await,
        "it was reserved"
    );
    tokio::time::sleep(Duration::from_millis(400)).await;
    assert!(is_free(&memory, &clock, &question).await);
}

#[tokio::test]
async fn run_with_a_lapsed_lease_is_stored_unless_taken_over() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let there = EngineBuilder::over(memory.clone(), &clock).make();
    let question = Question::number(1);
    // Suspended, so that nothing was renewed.
    let ticket = here.lead(&question, &Policy::default()).await;
    clock.advance(Duration::from_secs(6));
    assert!(ticket.finish(product("paid")).await.stored.is_ok());
    assert_eq!(
        there.ask(&question, &Policy::default(), "").await.text(),
        "paid"
    );

    let question = Question::number(2);
    let ticket = here.lead(&question, &Policy::default()).await;
    clock.advance(Duration::from_secs(6));
    let reported = there.ask(&question, &Policy::default(), "theirs").await;
    assert!(reported.settled.stored.is_ok(), "{reported:?}");
    let settled = ticket.finish(product("ours")).await;
    assert_eq!(settled.stored, Err(Reason::LeaseLost));
    assert_eq!(
        there.ask(&question, &Policy::default(), "").await.text(),
        "theirs"
    );

    let question = Question::number(3);
    let ticket = here.lead(&question, &Policy::default()).await;
    clock.advance(Duration::from_secs(6));
    there
        .cache
        .erase(&EntryFilter::default(), false)
        .await
        .unwrap();
    let settled = ticket.finish(product("erased")).await;
    assert_eq!(settled.stored, Err(Reason::Revoked));
}

#[tokio::test]
async fn failed_lookup_does_not_prevent_storing() {
    for reservations in [true, false] {
        let clock = clock();
        let memory = in_process(&clock);
        let faulty_store = FaultyStore::over(memory.clone());
        let faulty_store = Arc::new(if reservations {
            faulty_store
        } else {
            faulty_store.without_reservations()
        });
        let here = EngineBuilder::over(faulty_store.clone(), &clock).make();
        let there = EngineBuilder::over(memory.clone(), &clock).make();
        // An erasure before the run does not matter.
        there
            .cache
            .erase(&EntryFilter::default(), false)
            .await
            .unwrap();
        clock.advance(Duration::from_secs(10));
        let begin = async |number, policy: &Policy| {
            faulty_store.now(|op| match op {
                StoreOperation::GetOrReserve | StoreOperation::Get => StoreBehavior::Fail,
                _ => StoreBehavior::Pass,
            });
            let ticket = here.lead(&Question::number(number), policy).await;
            faulty_store.now(|_| StoreBehavior::Pass);
            ticket
        };

        let ticket = begin(1, &Policy::default()).await;
        clock.advance(Duration::from_secs(10));
        let settled = ticket.finish(product("paid")).await;
        assert!(settled.stored.is_ok(), "{reservations}: {settled:?}");
        let reported = there
            .ask(&Question::number(1), &Policy::default(), "")
            .await;
        assert_eq!(reported.text(), "paid");

        let ticket = begin(2, &Policy::default()).await;
        clock.advance(Duration::from_secs(10));
        let which = EntryFilter {
            name: Some("something else".into()),
            ..EntryFilter::default()
        };
        there.cache.erase(&which, false).await.unwrap();
        clock.advance(Duration::from_secs(10));
        let settled = ticket.finish(product("maybe erased")).await;
        assert_eq!(settled.stored, Err(Reason::Revoked), "{reservations}");

        let ticket = begin(3, &in_domains(&["d"])).await;
        let settled = ticket.finish(product("epochs unknown")).await;
        assert!(settled.stored.is_err(), "{reservations}");

        let ticket = begin(4, &Policy::default()).await;
        let theirs = there.lead(&Question::number(4), &Policy::default()).await;
        let settled = ticket.finish(product("ours")).await;
        assert!(theirs.finish(product("theirs")).await.stored.is_ok());
        if reservations {
            assert_eq!(settled.stored, Err(Reason::BusyElsewhere));
        }
    }
}

#[tokio::test]
async fn failed_lookup_still_joins_a_run() {
    let clock = clock();
    let (here, faulty_store) = over(in_process(&clock), &clock);
    let question = Question::number(1);
    let first = here.lead(&question, &Policy::default()).await;
    faulty_store.now(|op| match op {
        StoreOperation::GetOrReserve | StoreOperation::Get => StoreBehavior::Fail,
        _ => StoreBehavior::Pass,
    });
    let second = {
        let (here, question) = (here.clone(), question.clone());
        tokio::spawn(async move { here.ask(&question, &Policy::default(), "second").await })
    };
    settle_down().await;
    faulty_store.now(|_| StoreBehavior::Pass);
    assert!(first.finish(product("first")).await.stored.is_ok());
    let second = second.await.unwrap();
    assert_eq!(
        (&second.status, second.text()),
        (&CacheStatus::Coalesced, "first")
    );
    assert_eq!(here.runs(), 0, "only the first one, which this test led");
}

#[tokio::test]
async fn revoke_by_kind_reaches_other_processes() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let there = EngineBuilder::over(memory.clone(), &clock).make();
    let of_kind = |kind| EntryFilter {
        kind: Some(kind),
        ..EntryFilter::default()
    };
    let ticket = here.lead(&Question::number(1), &Policy::default()).await;
    there
        .cache
        .erase(&of_kind(CallKind::Tool), false)
        .await
        .unwrap();
    assert!(ticket.finish(product("an action")).await.stored.is_ok());
    let ticket = here.lead(&Question::number(2), &Policy::default()).await;
    let erased = there.cache.erase(&of_kind(CallKind::Action), false).await;
    assert_eq!(erased.unwrap().entries.len(), 1);
    assert_eq!(
        ticket.finish(product("revoked")).await.stored,
        Err(Reason::Revoked)
    );
}

#[tokio::test]
async fn revoke_by_pattern_reaches_other_processes() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let there = EngineBuilder::over(memory.clone(), &clock).make();
    let matching = |pattern: &str| EntryFilter {
        criteria: vec![cachalot_cache::LabelCriterion::Glob {
            name: "tag".into(),
            pattern: pattern.into(),
        }],
        ..EntryFilter::default()
    };
    let policy = tagged(&["a:x:1"]);
    for (number, pattern, stored) in [(1, "*:x:*", false), (2, "a:*:1", false), (3, "*:y:*", true)]
    {
        let ticket = here.lead(&Question::number(number), &policy).await;
        there.cache.erase(&matching(pattern), false).await.unwrap();
        let settled = ticket.finish(product("x")).await;
        assert_eq!(settled.stored.is_ok(), stored, "{pattern}: {settled:?}");
    }
}

#[tokio::test]
async fn erase_in_another_process_revokes_earlier_runs_without_reservations() {
    let clock = clock();
    let memory = in_process(&clock);
    let faulty_store = Arc::new(FaultyStore::over(memory.clone()).without_reservations());
    let here = EngineBuilder::over(faulty_store, &clock).make();
    let there = EngineBuilder::over(memory, &clock).make();
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    there
        .cache
        .erase(&EntryFilter::default(), false)
        .await
        .unwrap();
    assert_eq!(
        ticket.finish(product("old")).await.stored,
        Err(Reason::Revoked)
    );
    let reported = here.ask(&question, &Policy::default(), "new").await;
    assert!(reported.settled.stored.is_ok());
}

#[tokio::test]
async fn entry_without_a_kind_label_is_erased_by_kind() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    for number in 0..3 {
        here.ask(&Question::number(number), &tagged(&["t"]), "x")
            .await;
    }
    // As a version that knew no such label has stored it.
    let key = Question::number(1).key().to_string();
    let found = memory.get(space::CACHE, &key, &[]).settle().await.unwrap();
    let mut record = found.record.unwrap();
    record.labels.retain(|label| label.name != "kind");
    memory
        .put(space::CACHE, record, None, &[])
        .settle()
        .await
        .unwrap();
    let which = |kind| EntryFilter {
        kind: Some(kind),
        criteria: vec![cachalot_cache::LabelCriterion::Is(Label::new("tag", "t"))],
        ..EntryFilter::default()
    };
    let erase = async |kind, dry_run| {
        let erased = here.cache.erase(&which(kind), dry_run).await.unwrap();
        erased.entries.len()
    };
    assert_eq!(erase(CallKind::Tool, false).await, 0);
    assert_eq!(erase(CallKind::Action, true).await, 3);
    assert_eq!(erase(CallKind::Action, false).await, 3);
    assert_eq!(here.cache.usage().await.unwrap().records, 0);
}

#[tokio::test]
async fn listing_and_erasing_read_no_values() {
    let clock = clock();
    let (here, faulty_store) = over(in_process(&clock), &clock);
    let answer = "x".repeat(100_000);
    let quota = Policy {
        run: RunPolicy {
            quota: Some(Quota {
                name: "part".into(),
                entries: 1_000,
                bytes: 450_000,
            }),
            ..tagged(&["t"]).run
        },
        ..tagged(&["t"])
    };
    for number in 0..6 {
        here.ask(&Question::number(number), &quota, &answer).await;
    }
    assert_eq!(
        here.cache.usage().await.unwrap().records,
        4,
        "of a bounded part"
    );
    let mut listed = Vec::new();
    let every = EntryFilter::default();
    here.cache
        .each(&every, |one| listed.push(one))
        .await
        .unwrap();
    assert_eq!(listed.len(), 4);
    assert!(
        listed
            .iter()
            .all(|one| one.bytes == 100_000 && one.name == "file.read")
    );
    let by_kind = EntryFilter {
        kind: Some(CallKind::Action),
        ..EntryFilter::default()
    };
    for which in [&by_kind, &every] {
        assert_eq!(
            here.cache.erase(which, true).await.unwrap().entries.len(),
            4
        );
    }
    assert_eq!(
        here.cache
            .erase(&by_kind, false)
            .await
            .unwrap()
            .entries
            .len(),
        4
    );
    // The beginnings of two values at most for each.
    assert!(faulty_store.paged() < 100_000, "{}", faulty_store.paged());
}

#[tokio::test]
async fn expiry_uses_the_clock_of_the_store() {
    let (own, theirs) = (clock(), clock());
    theirs.advance(Duration::from_secs(3_600));
    let memory: Arc<dyn Store> = Arc::new(InProcessStore::new(theirs.clone()));
    let here = EngineBuilder::over(memory, &own).make();
    let question = Question::number(1);
    let policy = Policy {
        run: RunPolicy {
            ttl: Some(Duration::from_secs(10)),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let pass = |seconds| {
        own.advance(Duration::from_secs(seconds));
        theirs.advance(Duration::from_secs(seconds));
    };
    let reported = here.ask(&question, &policy, "x").await;
    let expires = reported.settled.expires.unwrap();
    assert_eq!(expires, Clock::now(&*theirs) + 10_000);
    // The second hit is the front's.
    for _ in 0..2 {
        assert_eq!(
            here.ask(&question, &policy, "").await.status,
            CacheStatus::Hit
        );
    }
    pass(9);
    assert_eq!(
        here.ask(&question, &policy, "").await.status,
        CacheStatus::Hit
    );
    pass(1);
    let reported = here.ask(&question, &policy, "y").await;
    assert_eq!(reported.status, CacheStatus::Miss(Reason::Expired));
    pass(10);
    assert_eq!(here.cache.sweep(None).await.unwrap(), 1);
}

#[tokio::test]
async fn label_too_long_for_the_store_is_named() {
    let clock = clock();
    let faulty_store = FaultyStore::over(in_process(&clock)).with_names_of(20);
    let faulty_store = Arc::new(faulty_store);
    let here = EngineBuilder::over(faulty_store.clone(), &clock).make();
    let reported = here
        .ask(
            &Question::number(1),
            &tagged(&["a tag of more than twenty bytes"]),
            "x",
        )
        .await;
    let Err(Reason::Declined(why)) = reported.settled.stored.clone() else {
        panic!("{reported:?}")
    };
    assert!(why.contains("the label `tag` is too long"), "{why}");
    assert_eq!(
        (reported.text(), faulty_store.count(StoreOperation::Put)),
        ("x", 0)
    );
}

#[tokio::test(start_paused = true)]
async fn store_timeout_shortens_the_next_ones_until_the_store_recovers() {
    let clock = clock();
    let (here, faulty_store) = over(in_process(&clock), &clock);
    faulty_store.now(|op| match op {
        StoreOperation::Put => StoreBehavior::Hang,
        _ => StoreBehavior::Pass,
    });
    let timed = async |number| {
        let began = tokio::time::Instant::now();
        here.ask(&Question::number(number), &Policy::default(), "x")
            .await;
        began.elapsed().as_millis()
    };
    assert!((5_000..5_300).contains(&timed(1).await));
    assert!((250..300).contains(&timed(2).await));
    faulty_store.now(|_| StoreBehavior::Pass);
    assert!(timed(3).await < 10);
    faulty_store.now(|op| match op {
        StoreOperation::Put => StoreBehavior::Hang,
        _ => StoreBehavior::Pass,
    });
    assert!((5_000..5_300).contains(&timed(4).await));
}

#[tokio::test]
async fn an_erasure_raises_its_counter_and_a_sweep_does_not() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let erased = async || {
        let found = memory.get(space::CACHE, "", &[counter::ERASED]);
        found.settle().await.unwrap().counters[0]
    };
    here.cache.sweep(None).await.unwrap();
    assert_eq!(erased().await, 0);
    here.cache
        .erase(&EntryFilter::default(), true)
        .await
        .unwrap();
    assert_eq!(erased().await, 0);
    here.cache
        .erase(&EntryFilter::default(), false)
        .await
        .unwrap();
    assert!(erased().await > 0);
    let labels = [LabelMatch::Is {
        name: "kind",
        value: "action",
    }];
    let filter = cachalot_store::RecordFilter {
        labels: &labels,
        ..Default::default()
    };
    here.ask(&Question::number(1), &Policy::default(), "x")
        .await;
    let found = memory.find(space::CACHE, &filter, PageRequest::keys(9));
    assert_eq!(found.settle().await.unwrap().records.len(), 1);
}

#[tokio::test]
async fn front_hit_computes_no_policy() {
    let clock = clock();
    let (here, _) = over(in_process(&clock), &clock);
    let (question, policy) = (Question::number(1), in_domains(&["one"]));
    here.ask(&question, &policy, "x").await;
    here.ask(&question, &policy, "").await;
    let call = question.call();
    let none = || -> RunPolicy { panic!("a policy was asked for") };
    let begun = here.cache.begin_with(&call, &policy.hit, none).await;
    let Ok(BeginResult::Served(outcome)) = begun else {
        panic!("not served")
    };
    assert_eq!(outcome.status, CacheStatus::Hit);
    // A domain that is being written: the entry in the front does not answer.
    let write_guard = here.cache.announce(&policy.hit.domains);
    let begun = here
        .cache
        .begin_with(&call, &policy.hit, || &policy.run)
        .await;
    assert!(matches!(begun, Ok(BeginResult::Run(_))));
    write_guard.finish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_ticker_renews_the_leases_of_all_runs() {
    let clock = clock();
    let (here, faulty_store) = over(in_process(&clock), &clock);
    let mut tickets = Vec::new();
    for number in 0..3 {
        tickets.push(
            here.lead(&Question::number(number), &Policy::default())
                .await,
        );
    }
    tokio::time::sleep(Duration::from_millis(5_500)).await;
    assert_eq!(faulty_store.count(StoreOperation::Renew), 15);
    let one = tickets.pop().unwrap();
    assert!(one.finish(product("x")).await.stored.is_ok());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(faulty_store.count(StoreOperation::Renew), 19);
    for ticket in tickets {
        assert!(ticket.finish(product("x")).await.stored.is_ok());
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(faulty_store.count(StoreOperation::Renew), 19);
    // The ticker has ended; a later lease starts another.
    let ticket = here.lead(&Question::number(4), &Policy::default()).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(faulty_store.count(StoreOperation::Renew), 20);
    assert!(ticket.finish(product("x")).await.stored.is_ok());
}

/// The ticker of a runtime that nothing drives any more renews nothing.
#[test]
fn every_runtime_renews_the_leases_of_its_own_runs() {
    let clock = clock();
    let (here, faulty_store) = over(in_process(&clock), &clock);
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap()
    };
    let (idle, busy) = (runtime(), runtime());
    let first = idle.block_on(here.lead(&Question::number(1), &Policy::default()));
    busy.block_on(async {
        let ticket = here.lead(&Question::number(2), &Policy::default()).await;
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        assert_eq!(faulty_store.count(StoreOperation::Renew), 2);
        assert!(ticket.finish(product("x")).await.stored.is_ok());
    });
    drop(idle);
    // Its ticker was dropped with it; the next one lists itself anew.
    assert!(busy.block_on(first.finish(product("x"))).stored.is_ok());
}
