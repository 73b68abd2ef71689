//! How often a call asks the memory, and what becomes of reservations that come late or lapse.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{
    BeginResult, CacheStatus, CallKind, EntryFilter, Failure, Policy, Quota, Reason,
};
use cachalot_core::{Clock, ManualClock};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::{Label, LabelMatch, PageRequest, Store, counter, space};

use crate::doubles::{Double, Fate, Op};
use crate::setting::{
    Making, Question, Setting, clock, fleet, in_domains, in_mode, in_process, product, settle_down,
    sqlite, tagged,
};

fn over(memory: Arc<dyn Store>, clock: &Arc<ManualClock>) -> (Setting, Arc<Double>) {
    let double = Arc::new(Double::over(memory));
    (Making::over(double.clone(), clock).make(), double)
}

/// What was asked beside the housekeeping in the background.
fn asked(double: &Double) -> HashMap<Op, usize> {
    let mut counted = double.counted();
    counted.retain(|op, _| !matches!(op, Op::Usage | Op::Touch));
    counted
}

#[tokio::test]
async fn a_miss_is_two_round_trips_and_a_hit_is_one() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    for memory in [in_process(&clock), sqlite(&home.path().join("db"), &clock)] {
        for policy in [
            Policy::default(),
            fleet(),
            in_domains(&["one", "two"]),
            tagged(&["a", "b"]),
        ] {
            let double = Arc::new(Double::over(memory.clone()).without_stamps());
            let here = Making::over(double.clone(), &clock).make();
            let question = Question::of(serde_json::json!(format!("{policy:?}")));
            let told = here.ask(&question, &policy, "x").await;
            assert!(told.settled.stored.is_ok(), "{told:?}");
            let miss = HashMap::from([(Op::Enter, 1), (Op::Put, 1)]);
            assert_eq!(asked(&double), miss, "{policy:?}");
            let told = here.ask(&question, &policy, "").await;
            assert_eq!((&told.status, told.text()), (&CacheStatus::Hit, "x"));
            let hit = HashMap::from([(Op::Enter, 2), (Op::Put, 1)]);
            assert_eq!(asked(&double), hit, "{policy:?}");
        }
    }
}

#[tokio::test]
async fn an_expired_entry_and_a_refresh_are_two_round_trips_as_well() {
    let clock = clock();
    let (here, double) = over(in_process(&clock), &clock);
    let question = Question::number(1);
    let policy = Policy {
        ttl: Some(Duration::from_secs(10)),
        ..Policy::default()
    };
    here.ask(&question, &policy, "x").await;
    here.after(Duration::from_secs(10));
    let told = here.ask(&question, &policy, "y").await;
    assert_eq!(
        (&told.status, told.text()),
        (&CacheStatus::Miss(Reason::Expired), "y")
    );
    assert!(told.settled.stored.is_ok());
    assert_eq!(
        asked(&double),
        HashMap::from([(Op::Enter, 2), (Op::Put, 2)])
    );
    let refresh = in_mode(cachalot_cache::CacheMode::Refresh);
    let told = here.ask(&question, &refresh, "z").await;
    assert_eq!(told.status, CacheStatus::Miss(Reason::Refresh));
    assert!(told.settled.stored.is_ok(), "{told:?}");
    assert_eq!(
        asked(&double),
        HashMap::from([(Op::Enter, 3), (Op::Put, 3)])
    );
    assert_eq!(here.ask(&question, &policy, "").await.text(), "z");
}

#[tokio::test]
async fn of_callers_at_the_same_time_one_reserves() {
    let clock = clock();
    for slow in [0, 20] {
        let (here, double) = over(in_process(&clock), &clock);
        double.now(move |_| Fate::Slow(Duration::from_millis(slow)));
        let question = Question::number(1);
        let asking: Vec<_> = (0..16)
            .map(|_| {
                let (here, question) = (here.clone(), question.clone());
                tokio::spawn(async move { here.ask(&question, &Policy::default(), "x").await })
            })
            .collect();
        for one in asking {
            let told = one.await.unwrap();
            assert!(told.settled.stored.is_ok(), "{told:?}");
        }
        assert_eq!(here.runs(), 1);
        assert_eq!((double.count(Op::Enter), double.count(Op::Put)), (1, 1));
        assert_eq!(
            (double.count(Op::Reserve), double.count(Op::Release)),
            (0, 0)
        );
    }
}

/// Whether another engine on the same memory gets the key, without waiting for anybody.
async fn is_free(memory: &Arc<dyn Store>, clock: &Arc<ManualClock>, question: &Question) -> bool {
    let there = Making::over(memory.clone(), clock).make();
    let told = there.ask(question, &Policy::default(), "free").await;
    told.settled.stored.is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_reservation_that_comes_too_late_does_not_block_its_key() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, double) = over(memory.clone(), &clock);
    double.now(|op| match op {
        Op::Enter => Fate::Late(Duration::from_millis(400)),
        _ => Fate::Pass,
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
async fn a_run_whose_lease_lapsed_is_stored_unless_another_took_it_over() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = Making::over(memory.clone(), &clock).make();
    let there = Making::over(memory.clone(), &clock).make();
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
    let told = there.ask(&question, &Policy::default(), "theirs").await;
    assert!(told.settled.stored.is_ok(), "{told:?}");
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
async fn a_lookup_that_failed_does_not_forfeit_the_store() {
    for reservations in [true, false] {
        let clock = clock();
        let memory = in_process(&clock);
        let double = Double::over(memory.clone());
        let double = Arc::new(if reservations {
            double
        } else {
            double.without_reservations()
        });
        let here = Making::over(double.clone(), &clock).make();
        let there = Making::over(memory.clone(), &clock).make();
        // An erasure before the run does not matter.
        there
            .cache
            .erase(&EntryFilter::default(), false)
            .await
            .unwrap();
        clock.advance(Duration::from_secs(10));
        let begin = async |number, policy: &Policy| {
            double.now(|op| match op {
                Op::Enter | Op::Get => Fate::Fail,
                _ => Fate::Pass,
            });
            let ticket = here.lead(&Question::number(number), policy).await;
            double.now(|_| Fate::Pass);
            ticket
        };

        let ticket = begin(1, &Policy::default()).await;
        clock.advance(Duration::from_secs(10));
        let settled = ticket.finish(product("paid")).await;
        assert!(settled.stored.is_ok(), "{reservations}: {settled:?}");
        let told = there
            .ask(&Question::number(1), &Policy::default(), "")
            .await;
        assert_eq!(told.text(), "paid");

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
async fn a_lookup_that_fails_joins_a_run_as_one_that_does_not() {
    let clock = clock();
    let (here, double) = over(in_process(&clock), &clock);
    let question = Question::number(1);
    let first = here.lead(&question, &Policy::default()).await;
    double.now(|op| match op {
        Op::Enter | Op::Get => Fate::Fail,
        _ => Fate::Pass,
    });
    let second = {
        let (here, question) = (here.clone(), question.clone());
        tokio::spawn(async move { here.ask(&question, &Policy::default(), "second").await })
    };
    settle_down().await;
    double.now(|_| Fate::Pass);
    assert!(first.finish(product("first")).await.stored.is_ok());
    let second = second.await.unwrap();
    assert_eq!(
        (&second.status, second.text()),
        (&CacheStatus::Coalesced, "first")
    );
    assert_eq!(here.runs(), 0, "only the first one, which this test led");
}

#[tokio::test]
async fn a_kind_is_revoked_in_other_processes() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = Making::over(memory.clone(), &clock).make();
    let there = Making::over(memory.clone(), &clock).make();
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
async fn a_pattern_is_revoked_in_other_processes_wherever_its_star_is() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = Making::over(memory.clone(), &clock).make();
    let there = Making::over(memory.clone(), &clock).make();
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
async fn without_reservations_an_erasure_in_another_process_refuses_what_began_before_it() {
    let clock = clock();
    let memory = in_process(&clock);
    let double = Arc::new(Double::over(memory.clone()).without_reservations());
    let here = Making::over(double, &clock).make();
    let there = Making::over(memory, &clock).make();
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
    let told = here.ask(&question, &Policy::default(), "new").await;
    assert!(told.settled.stored.is_ok());
}

#[tokio::test]
async fn an_entry_without_a_label_of_its_kind_is_erased_by_kind() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = Making::over(memory.clone(), &clock).make();
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
async fn listing_and_erasing_read_no_answers() {
    let clock = clock();
    let (here, double) = over(in_process(&clock), &clock);
    let answer = "x".repeat(100_000);
    let quota = Policy {
        quota: Some(Quota {
            name: "part".into(),
            entries: 1_000,
            bytes: 450_000,
        }),
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
    assert!(double.paged() < 100_000, "{}", double.paged());
}

#[tokio::test]
async fn expiry_is_by_the_memorys_time() {
    let (own, theirs) = (clock(), clock());
    theirs.advance(Duration::from_secs(3_600));
    let memory: Arc<dyn Store> = Arc::new(InProcessStore::new(theirs.clone()));
    let here = Making::over(memory, &own).make();
    let question = Question::number(1);
    let policy = Policy {
        ttl: Some(Duration::from_secs(10)),
        ..Policy::default()
    };
    let pass = |seconds| {
        own.advance(Duration::from_secs(seconds));
        theirs.advance(Duration::from_secs(seconds));
    };
    let told = here.ask(&question, &policy, "x").await;
    let expires = told.settled.expires.unwrap();
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
    let told = here.ask(&question, &policy, "y").await;
    assert_eq!(told.status, CacheStatus::Miss(Reason::Expired));
    pass(10);
    assert_eq!(here.cache.sweep(None).await.unwrap(), 1);
}

#[tokio::test]
async fn a_label_that_the_memory_does_not_take_is_named() {
    let clock = clock();
    let double = Double::over(in_process(&clock)).with_names_of(20);
    let double = Arc::new(double);
    let here = Making::over(double.clone(), &clock).make();
    let told = here
        .ask(
            &Question::number(1),
            &tagged(&["a tag of more than twenty bytes"]),
            "x",
        )
        .await;
    let Err(Reason::Declined(why)) = told.settled.stored.clone() else {
        panic!("{told:?}")
    };
    assert!(why.contains("the label `tag` is too long"), "{why}");
    assert_eq!((told.text(), double.count(Op::Put)), ("x", 0));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_ran_out_of_time_makes_the_next_ones_short_until_the_memory_answers() {
    let clock = clock();
    let (here, double) = over(in_process(&clock), &clock);
    double.now(|op| match op {
        Op::Put => Fate::Hang,
        _ => Fate::Pass,
    });
    let timed = async |number| {
        let began = tokio::time::Instant::now();
        here.ask(&Question::number(number), &Policy::default(), "x")
            .await;
        began.elapsed().as_millis()
    };
    assert!((5_000..5_300).contains(&timed(1).await));
    assert!((250..300).contains(&timed(2).await));
    double.now(|_| Fate::Pass);
    assert!(timed(3).await < 10);
    double.now(|op| match op {
        Op::Put => Fate::Hang,
        _ => Fate::Pass,
    });
    assert!((5_000..5_300).contains(&timed(4).await));
}

#[tokio::test]
async fn an_erasure_raises_its_counter_and_a_sweep_does_not() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = Making::over(memory.clone(), &clock).make();
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
async fn a_hit_in_the_front_needs_no_policy() {
    let clock = clock();
    let (here, _) = over(in_process(&clock), &clock);
    let (question, policy) = (Question::number(1), in_domains(&["one"]));
    here.ask(&question, &policy, "x").await;
    here.ask(&question, &policy, "").await;
    let call = question.call();
    let none = || -> Policy { panic!("a policy was asked for") };
    let begun = here.cache.begin_with(&call, &policy.for_hit(), none).await;
    let Ok(BeginResult::Served(outcome)) = begun else {
        panic!("not served")
    };
    assert_eq!(outcome.status, CacheStatus::Hit);
    // A domain that is being written: the entry in the front does not answer.
    let write_guard = here.cache.announce(&policy.domains);
    let begun = here
        .cache
        .begin_with(&call, &policy.for_hit(), || &policy)
        .await;
    assert!(matches!(begun, Ok(BeginResult::Run(_))));
    write_guard.finish().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn one_ticker_renews_the_leases_of_all_runs_until_they_end() {
    let clock = clock();
    let (here, double) = over(in_process(&clock), &clock);
    let mut tickets = Vec::new();
    for number in 0..3 {
        tickets.push(
            here.lead(&Question::number(number), &Policy::default())
                .await,
        );
    }
    tokio::time::sleep(Duration::from_millis(5_500)).await;
    assert_eq!(double.count(Op::Renew), 15);
    let one = tickets.pop().unwrap();
    assert!(one.finish(product("x")).await.stored.is_ok());
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(double.count(Op::Renew), 19);
    for ticket in tickets {
        assert!(ticket.finish(product("x")).await.stored.is_ok());
    }
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(double.count(Op::Renew), 19);
    // The ticker has ended; a later lease starts another.
    let ticket = here.lead(&Question::number(4), &Policy::default()).await;
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    assert_eq!(double.count(Op::Renew), 20);
    assert!(ticket.finish(product("x")).await.stored.is_ok());
}

/// The ticker of a runtime that nothing drives any more renews nothing.
#[test]
fn every_runtime_renews_the_leases_of_its_own_runs() {
    let clock = clock();
    let (here, double) = over(in_process(&clock), &clock);
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
        assert_eq!(double.count(Op::Renew), 2);
        assert!(ticket.finish(product("x")).await.stored.is_ok());
    });
    drop(idle);
    // Its ticker was dropped with it; the next one lists itself anew.
    assert!(busy.block_on(first.finish(product("x"))).stored.is_ok());
}
