//! Announced writes: nothing older than a write is served, joined or stored after it.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{
    BeginResult, Cache, CacheBounds, CacheMode, CacheStatus, HitPolicy, Policy, Reason,
};
use cachalot_store::{Store, space};

use crate::faulty_store::{FaultyStore, StoreBehavior};
use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, domains, eventually, in_domains, in_process,
    product, settle_down, sqlite, test_engine,
};
use cachalot_store::intercepted::StoreOperation;

fn written(domain: &str) -> CacheStatus {
    CacheStatus::Miss(Reason::Written(domain.into()))
}

async fn write(cache: &Cache, names: &[&str]) {
    cache
        .write_guard(&domains(names))
        .await
        .finish()
        .await
        .unwrap();
}

async fn epoch(memory: &Arc<dyn Store>, domain: &str) -> u64 {
    let counter = format!("epoch:{domain}");
    memory
        .get(space::CACHE, "-", &[counter.as_str()])
        .settle()
        .await
        .unwrap()
        .counters[0]
}

/// Two engines over one memory: two processes, as far as they know.
fn two_processes() -> (TestEngine, TestEngine) {
    let clock = clock();
    let memory = in_process(&clock);
    (
        EngineBuilder::over(memory.clone(), &clock).make(),
        EngineBuilder::over(memory, &clock).make(),
    )
}

#[tokio::test]
async fn write_to_a_domain_invalidates_its_entries() {
    let here = test_engine();
    let question = Question::number(1);
    let policy = in_domains(&["tree", "server"]);
    for (round, name) in ["tree", "server", "tree"].into_iter().enumerate() {
        let text = format!("version {round}");
        here.ask(&question, &policy, &text).await;
        assert_eq!(here.ask(&question, &policy, "").await.text(), text);
        write(&here.cache, &["elsewhere"]).await;
        assert_eq!(
            here.ask(&question, &policy, "").await.status,
            CacheStatus::Hit
        );
        write(&here.cache, &[name]).await;
        let reported = here.ask(&question, &policy, "new").await;
        assert_eq!((&reported.status, reported.text()), (&written(name), "new"));
        write(&here.cache, &[name]).await;
    }
    assert_eq!(
        Reason::Written("tree".into()).to_string(),
        "tree was written to since"
    );
}

#[tokio::test]
async fn epochs_are_raised_on_both_sides_of_a_write() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    assert_eq!(epoch(&memory, "d").await, 0);
    let write_guard = here.cache.write_guard(&domains(&["d", "e"])).await;
    assert_eq!(
        (epoch(&memory, "d").await, epoch(&memory, "e").await),
        (1, 1)
    );
    write_guard.finish().await.unwrap();
    assert_eq!(
        (epoch(&memory, "d").await, epoch(&memory, "e").await),
        (2, 2)
    );
}

#[tokio::test]
async fn nothing_is_served_joined_or_stored_during_a_write() {
    for front_bytes in [0, 1 << 20] {
        let clock = clock();
        let here = EngineBuilder::over(in_process(&clock), &clock)
            .bounds(CacheBounds {
                front_bytes,
                ..CacheBounds::default()
            })
            .make();
        let question = Question::number(1);
        let policy = in_domains(&["d"]);
        here.ask(&question, &policy, "before").await;
        let write_guard = here.cache.write_guard(&policy.hit.domains).await;

        let reported = here.ask(&question, &policy, "during").await;
        assert_eq!(
            (&reported.status, reported.text()),
            (&written("d"), "during")
        );
        assert_eq!(reported.settled.stored, Err(Reason::Written("d".into())));

        let first = here.lead(&question, &policy).await;
        let second = here.lead(&question, &policy).await;
        write_guard.finish().await.unwrap();
        for ticket in [first, second] {
            assert_eq!(
                ticket.finish(product("half-written")).await.stored,
                Err(Reason::Written("d".into()))
            );
        }
        let reported = here.ask(&question, &policy, "after").await;
        assert_eq!(
            (&reported.status, reported.text()),
            (&written("d"), "after")
        );
        assert!(reported.settled.stored.is_ok());
        assert_eq!(here.ask(&question, &policy, "").await.text(), "after");
    }
}

#[tokio::test]
async fn refresh_during_a_write_is_not_stored() {
    let here = test_engine();
    let policy = Policy {
        hit: HitPolicy {
            mode: CacheMode::Refresh,
            ..in_domains(&["d"]).hit
        },
        ..in_domains(&["d"])
    };
    let write_guard = here.cache.write_guard(&policy.hit.domains).await;
    let reported = here.ask(&Question::number(1), &policy, "x").await;
    assert_eq!(reported.settled.stored, Err(Reason::Written("d".into())));
    let ticket = here.lead(&Question::number(2), &policy).await;
    write_guard.finish().await.unwrap();
    assert_eq!(
        ticket.finish(product("x")).await.stored,
        Err(Reason::Written("d".into()))
    );
}

#[tokio::test]
async fn run_that_overlaps_a_write_is_not_stored() {
    let here = test_engine();
    let policy = in_domains(&["c", "d"]);
    let ticket = here.lead(&Question::number(1), &policy).await;
    write(&here.cache, &["d"]).await;
    let settled = ticket.finish(product("old")).await;
    assert!(
        matches!(settled.stored, Err(Reason::Written(_))),
        "{settled:?}"
    );
    assert!(
        here.cache
            .peek(&Question::number(1).key())
            .await
            .unwrap()
            .is_none()
    );

    let ticket = here.lead(&Question::number(1), &policy).await;
    let write_guard = here.cache.write_guard(&domains(&["d"])).await;
    assert_eq!(
        ticket.finish(product("old")).await.stored,
        Err(Reason::Written("d".into()))
    );
    write_guard.finish().await.unwrap();
}

#[tokio::test]
async fn run_that_overlaps_a_write_of_another_process_is_not_stored() {
    let (here, there) = two_processes();
    let policy = in_domains(&["c", "d"]);
    let ticket = here.lead(&Question::number(1), &policy).await;
    write(&there.cache, &["d"]).await;
    assert_eq!(
        ticket.finish(product("old")).await.stored,
        Err(Reason::Written("d".into()))
    );
}

#[tokio::test]
async fn call_after_a_write_does_not_join_an_earlier_flight() {
    let (here, there) = two_processes();
    let policy = in_domains(&["d"]);
    for (number, writer) in [&here, &there].into_iter().enumerate() {
        let question = Question::number(number);
        let before = here.lead(&question, &policy).await;
        before.emit("old".into());
        let joined = match here.cache.begin(&question.call(), &policy).await.unwrap() {
            BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => outcome,
            BeginResult::Run(_) => panic!("before the write it may join"),
        };
        write(&writer.cache, &["d"]).await;

        let after = here.lead(&question, &policy).await;
        let behind = {
            let (here, question, policy) = (here.clone(), question.clone(), policy.clone());
            tokio::spawn(async move { here.ask(&question, &policy, "no").await })
        };
        settle_down().await;
        assert!(
            after.finish(product("new")).await.stored.is_ok(),
            "the new run is stored at once"
        );
        assert_eq!(behind.await.unwrap().text(), "new");
        assert!(before.finish(product("old")).await.stored.is_err());
        assert_eq!(&joined.body.whole().await.unwrap()[..], b"old");
        assert_eq!(here.ask(&question, &policy, "").await.text(), "new");
    }
}

#[tokio::test]
async fn call_with_a_written_domain_does_not_join_a_flight_without_it() {
    let here = test_engine();
    let question = Question::number(1);
    let before = here.lead(&question, &Policy::default()).await;
    before.emit("old".into());
    write(&here.cache, &["d"]).await;
    let after = here.lead(&question, &in_domains(&["d"])).await;
    after.finish(product("new")).await;
    drop(before);
}

#[tokio::test]
async fn call_does_not_join_a_flight_of_other_domains_with_equal_epochs() {
    let none: [&str; 0] = [];
    for (made, asked) in [
        (&["c"][..], &["d"][..]),
        (&["c"], &["c", "d"]),
        (&["c", "d"], &["c"]),
        (&none, &["d"]),
        (&["d"], &none),
    ] {
        let here = test_engine();
        let question = Question::number(1);
        let first = here.lead(&question, &in_domains(made)).await;
        first.emit("made".into());
        let second = here.lead(&question, &in_domains(asked)).await;
        let settled = second.finish(product("asked")).await;
        assert!(settled.stored.is_ok(), "{made:?} {asked:?}: {settled:?}");
        drop(first);
        let reported = here.ask(&question, &in_domains(asked), "").await;
        assert_eq!(
            (&reported.status, reported.text()),
            (&CacheStatus::Hit, "asked")
        );
    }

    let here = test_engine();
    write(&here.cache, &["d"]).await;
    let first = here
        .lead(&Question::number(1), &in_domains(&["c", "d"]))
        .await;
    first.emit("made".into());
    let call = Question::number(1);
    let policy = in_domains(&["d", "c"]);
    match here.cache.begin(&call.call(), &policy).await.unwrap() {
        BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
            assert_eq!(outcome.status, CacheStatus::Coalesced, "in any order")
        }
        BeginResult::Run(_) => panic!("the same domains in another order"),
    }
}

#[tokio::test]
async fn entry_of_other_domains_is_a_miss() {
    for front_bytes in [0, 1 << 20] {
        let clock = clock();
        let here = EngineBuilder::over(in_process(&clock), &clock)
            .bounds(CacheBounds {
                front_bytes,
                ..CacheBounds::default()
            })
            .make();
        let none: [&str; 0] = [];
        for (number, (made, asked)) in [
            (&none[..], &["d"][..]),
            (&["d"], &none),
            (&["c"], &["d"]),
            (&["c"], &["c", "d"]),
        ]
        .into_iter()
        .enumerate()
        {
            let question = Question::number(number);
            here.ask(&question, &in_domains(made), "made").await;
            assert_eq!(
                here.ask(&question, &in_domains(made), "").await.status,
                CacheStatus::Hit
            );
            let reported = here.ask(&question, &in_domains(asked), "asked").await;
            assert_eq!(
                reported.text(),
                "asked",
                "made under {made:?}, asked under {asked:?}, front of {front_bytes}"
            );
        }
        let question = Question::number(9);
        here.ask(&question, &in_domains(&["c", "d"]), "made").await;
        assert_eq!(
            here.ask(&question, &in_domains(&["d", "c"]), "")
                .await
                .status,
            CacheStatus::Hit,
            "order says nothing"
        );
    }
}

#[tokio::test]
async fn a_front_entry_with_domains_follows_writes_in_other_processes() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let file = home.path().join("cachalot.db");
    let here = EngineBuilder::over(sqlite(&file, &clock), &clock).make();
    let there = EngineBuilder::over(sqlite(&file, &clock), &clock).make();
    let question = Question::number(1);
    let policy = in_domains(&["d"]);
    here.ask(&question, &policy, "old").await;
    for _ in 0..3 {
        assert_eq!(here.ask(&question, &policy, "").await.text(), "old");
    }
    let write_guard = there.cache.write_guard(&policy.hit.domains).await;
    let reported = here.ask(&question, &policy, "during").await;
    assert_eq!(
        reported.text(),
        "during",
        "what is older than the beginning is not served"
    );
    write_guard.finish().await.unwrap();
    let reported = here.ask(&question, &policy, "new").await;
    assert_eq!(
        (&reported.status, reported.text()),
        (&written("d"), "new"),
        "nor what was made in between"
    );
    assert_eq!(here.ask(&question, &policy, "").await.text(), "new");
}

#[tokio::test]
async fn announced_write_blocks_before_the_store_is_updated() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let question = Question::number(1);
    let policy = in_domains(&["d"]);
    here.ask(&question, &policy, "before").await;
    let write_guard = here.cache.announce(&policy.hit.domains);
    assert_eq!(epoch(&memory, "d").await, 0);
    let reported = here.ask(&question, &policy, "during").await;
    assert_eq!(
        (&reported.status, reported.text()),
        (&written("d"), "during")
    );
    assert_eq!(reported.settled.stored, Err(Reason::Written("d".into())));
    write_guard.raise_epochs().await;
    assert_eq!(epoch(&memory, "d").await, 1);
    write_guard.finish().await.unwrap();
    assert_eq!(epoch(&memory, "d").await, 2);
    assert_eq!(here.ask(&question, &policy, "after").await.text(), "after");

    drop(here.cache.announce(&policy.hit.domains));
    eventually(async || epoch(&memory, "d").await == 3).await;
    assert_eq!(here.ask(&question, &policy, "again").await.text(), "again");
}

#[tokio::test]
async fn epochs_of_many_domains_are_raised_in_one_call() {
    let clock = clock();
    let memory = Arc::new(FaultyStore::over(in_process(&clock)));
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let names: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    write(&here.cache, &names).await;
    // One request on each side of the write.
    assert_eq!(memory.count(StoreOperation::Raise), 2);
    memory.now(|_| StoreBehavior::Pass);
    let shared: Arc<dyn Store> = memory;
    for name in names {
        assert_eq!(epoch(&shared, name).await, 2);
    }
}

#[tokio::test]
async fn domain_is_blocked_until_both_writers_are_done() {
    let here = test_engine();
    let question = Question::number(1);
    let policy = in_domains(&["d"]);
    let first = here.cache.write_guard(&policy.hit.domains).await;
    let second = here.cache.write_guard(&policy.hit.domains).await;
    first.finish().await.unwrap();
    let reported = here.ask(&question, &policy, "x").await;
    assert_eq!(reported.settled.stored, Err(Reason::Written("d".into())));
    second.finish().await.unwrap();
    assert!(
        here.ask(&question, &policy, "x")
            .await
            .settled
            .stored
            .is_ok()
    );
}

#[tokio::test]
async fn dropped_guard_ends_the_write_in_the_background() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let question = Question::number(1);
    let policy = in_domains(&["d"]);
    here.ask(&question, &policy, "before").await;
    drop(here.cache.write_guard(&policy.hit.domains).await);
    eventually(async || epoch(&memory, "d").await == 2).await;
    settle_down().await;
    let reported = here.ask(&question, &policy, "after").await;
    assert_eq!(reported.text(), "after");
    assert!(reported.settled.stored.is_ok(), "{reported:?}");
}

#[tokio::test(start_paused = true)]
async fn a_domain_stays_blocked_until_the_store_has_the_write() {
    let clock = clock();
    let memory = Arc::new(FaultyStore::over(in_process(&clock)));
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let question = Question::number(1);
    let policy = in_domains(&["d"]);
    here.ask(&question, &policy, "before").await;
    let write_guard = here.cache.write_guard(&policy.hit.domains).await;
    memory.now(|op| {
        if op == StoreOperation::Raise {
            StoreBehavior::Fail
        } else {
            StoreBehavior::Pass
        }
    });
    let failure = write_guard.finish().await.unwrap_err();
    assert_eq!(failure.to_string(), "no Raise today");
    for _ in 0..5 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        let reported = here.ask(&question, &policy, "during").await;
        assert_eq!(
            (&reported.status, reported.text()),
            (&written("d"), "during")
        );
        assert_eq!(reported.settled.stored, Err(Reason::Written("d".into())));
    }
    memory.now(|_| StoreBehavior::Pass);
    tokio::time::sleep(Duration::from_secs(11)).await;
    let reported = here.ask(&question, &policy, "after").await;
    assert_eq!(reported.text(), "after");
    assert!(reported.settled.stored.is_ok(), "{reported:?}");
    assert_eq!(here.warned().len(), 1, "{:?}", here.warned());
}

fn tasks() -> usize {
    tokio::runtime::Handle::current()
        .metrics()
        .num_alive_tasks()
}

/// Returns whether a call under a domain is stored.
async fn stores(here: &TestEngine, domain: &str) -> bool {
    let question = Question::of(domain.into());
    let reported = here.ask(&question, &in_domains(&[domain]), "x").await;
    reported.settled.stored.is_ok()
}

/// An engine over a memory that raises no counter.
fn raising_fails() -> (TestEngine, Arc<FaultyStore>, Arc<dyn Store>) {
    let clock = clock();
    let faulty_store = Arc::new(FaultyStore::over(in_process(&clock)));
    faulty_store.now(|op| match op {
        StoreOperation::Raise => StoreBehavior::Fail,
        _ => StoreBehavior::Pass,
    });
    let here = EngineBuilder::over(faulty_store.clone(), &clock).make();
    (here, faulty_store.clone(), faulty_store)
}

#[tokio::test(start_paused = true)]
async fn one_task_retries_for_all_failed_guards_and_ends_with_them() {
    let (here, faulty_store, memory) = raising_fails();
    let before = tasks();
    let names = ["c", "d", "e"];
    for round in 0..100 {
        let guard = here.cache.write_guard(&domains(&[names[round % 3]])).await;
        match round % 2 {
            0 => drop(guard),
            _ => assert!(guard.finish().await.is_err()),
        }
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(tasks() - before, 1, "one for all");
    let attempts = faulty_store.count(StoreOperation::Raise);
    tokio::time::sleep(Duration::from_secs(100)).await;
    let attempts = faulty_store.count(StoreOperation::Raise) - attempts;
    assert!((9..=33).contains(&attempts), "{attempts} in 100 seconds");

    // A write that is under way is not ended by those that were.
    let under_way = here.cache.announce(&domains(&["c"]));
    faulty_store.now(|_| StoreBehavior::Pass);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(tasks(), before, "nothing is left to do");
    for name in names {
        assert_eq!(epoch(&memory, name).await, 1, "{name}");
        assert_eq!(stores(&here, name).await, name != "c", "{name}");
    }
    under_way.finish().await.unwrap();
    assert!(stores(&here, "c").await);
}

#[tokio::test(start_paused = true)]
async fn retries_end_with_the_engine() {
    let (here, faulty_store, _) = raising_fails();
    let before = tasks();
    drop(here.cache.write_guard(&domains(&["d"])).await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(tasks() - before, 1);
    drop(here);
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert_eq!(tasks(), before);
    assert_eq!(
        Arc::strong_count(&faulty_store),
        1,
        "nothing else holds the memory"
    );
}

#[tokio::test(start_paused = true)]
async fn new_guard_triggers_the_retry_of_a_failed_one() {
    let (here, faulty_store, memory) = raising_fails();
    drop(here.cache.write_guard(&domains(&["c"])).await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    faulty_store.now(|_| StoreBehavior::Pass);
    drop(here.cache.write_guard(&domains(&["d"])).await);
    tokio::time::sleep(Duration::from_millis(100)).await;
    let epochs = (epoch(&memory, "c").await, epoch(&memory, "d").await);
    assert_eq!(epochs, (1, 2));
}

#[tokio::test(start_paused = true)]
async fn close_announces_ended_writes() {
    let (here, faulty_store, memory) = raising_fails();
    drop(here.cache.write_guard(&domains(&["d"])).await);
    tokio::time::sleep(Duration::from_secs(60)).await;
    let before = tokio::time::Instant::now();
    here.cache.close().await;
    assert_eq!(epoch(&memory, "d").await, 0);
    faulty_store.now(|_| StoreBehavior::Pass);
    here.cache.close().await;
    assert_eq!(epoch(&memory, "d").await, 1);
    assert_eq!(before.elapsed(), Duration::ZERO);
}

#[test]
fn guard_dropped_without_a_runtime_is_ended_by_the_next() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let runtime = || {
        tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap()
    };
    drop(here.cache.announce(&domains(&["c"])));
    // The runtime ends before the task has run.
    runtime().block_on(async { drop(here.cache.announce(&domains(&["d"]))) });
    runtime().block_on(async {
        assert_eq!(epoch(&memory, "c").await + epoch(&memory, "d").await, 0);
        drop(here.cache.announce(&domains(&["e"])));
        settle_down().await;
        for name in ["c", "d", "e"] {
            assert_eq!(epoch(&memory, name).await, 1, "{name}");
            assert!(stores(&here, name).await, "{name}");
        }
    });
}

#[tokio::test(start_paused = true)]
async fn a_write_with_a_failed_announcement_is_announced_at_its_end() {
    let clock = clock();
    let memory = Arc::new(FaultyStore::over(in_process(&clock)));
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let question = Question::number(1);
    let policy = in_domains(&["d"]);
    here.ask(&question, &policy, "before").await;
    for fate in [StoreBehavior::Fail, StoreBehavior::Hang] {
        memory.now(move |op| {
            if op == StoreOperation::Raise {
                fate
            } else {
                StoreBehavior::Pass
            }
        });
        let began = tokio::time::Instant::now();
        let write_guard = here.cache.write_guard(&policy.hit.domains).await;
        assert!(
            began.elapsed() <= Duration::from_millis(260),
            "{:?}",
            began.elapsed()
        );
        assert_eq!(
            here.ask(&question, &policy, "during").await.text(),
            "during"
        );
        memory.now(|_| StoreBehavior::Pass);
        write_guard.finish().await.unwrap();
        let reported = here.ask(&question, &policy, "after").await;
        assert_eq!(
            (&reported.status, reported.text()),
            (&written("d"), "after")
        );
    }
}

#[tokio::test]
async fn write_without_a_store_prevents_joining_older_flights() {
    let clock = clock();
    let here = EngineBuilder {
        memory: None,
        ..EngineBuilder::over(in_process(&clock), &clock)
    }
    .make();
    let question = Question::number(1);
    let policy = in_domains(&["d"]);
    let before = here.lead(&question, &policy).await;
    before.emit("old".into());
    write(&here.cache, &["d"]).await;
    assert_eq!(here.ask(&question, &policy, "new").await.text(), "new");
    drop(before);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn under_load_no_answer_is_older_than_the_last_write_its_caller_saw() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
    for shared in [false, true] {
        let (here, there) = two_processes();
        let there = if shared { there } else { here.clone() };
        // What the work reads, written only between the two raises, and what has been announced of it.
        let world = Arc::new(AtomicU64::new(0));
        let announced = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let policy = in_domains(&["d"]);
        let readers: Vec<_> = (0..8)
            .map(|n| {
                let here = if n % 2 == 0 {
                    here.clone()
                } else {
                    there.clone()
                };
                let (world, announced, policy) =
                    (Arc::clone(&world), Arc::clone(&announced), policy.clone());
                let stop = Arc::clone(&stop);
                tokio::spawn(async move {
                    while !stop.load(Ordering::SeqCst) {
                        let seen = announced.load(Ordering::SeqCst);
                        let world = Arc::clone(&world);
                        let work = move |ticket: cachalot_cache::Ticket| async move {
                            let read = world.load(Ordering::SeqCst);
                            tokio::task::yield_now().await;
                            ticket.finish(product(&read.to_string())).await;
                        };
                        let reported = crate::test_engine::reported(
                            here.through(&Question::number(1), &policy, work).await,
                        )
                        .await;
                        let got: u64 = reported.text().parse().unwrap();
                        assert!(got >= seen, "got {got} after {seen}, {:?}", reported.status);
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        for _ in 0..60 {
            let write_guard = here.cache.write_guard(&policy.hit.domains).await;
            world.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            let finish = world.fetch_add(1, Ordering::SeqCst) + 1;
            write_guard.finish().await.unwrap();
            announced.store(finish, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_micros(300)).await;
        }
        stop.store(true, Ordering::SeqCst);
        for reader in readers {
            reader.await.unwrap();
        }
        assert!(here.runs() > 10, "{}", here.runs());
    }
}
