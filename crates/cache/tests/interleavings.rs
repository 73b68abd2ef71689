//! Every interleaving that a scheduler finds: one leader, nobody waits for ever, nobody joins a
//! flight that began before a write. Run with `--features shuttle`, which replaces the locks of the
//! structures that threads share.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{
    BeginResult, Cache, CacheBounds, CacheOptions, CacheStatus, Call, CallKind, DecodeError,
    Decoded, Domain, EntryFilter, Form, HitPolicy, Ledger, OrphanPolicy, Policy, Reason, RunPolicy,
    RunResult, Scope, SingleFlight,
};
use cachalot_core::{Canonical, ManualClock, SecretSet, Spend};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::intercepted::{Interceptor, StoreOperation};
use cachalot_store::{Store, StoreInfo, StoreReply};
use shuttle::future::{block_on, spawn};
use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A memory in the process whose every request, and every look at a stamp, is a point at which another
/// task may run.
struct Shuttled {
    inner: InProcessStore,
    about: StoreInfo,
    stamps: bool,
    requests: AtomicUsize,
}

impl Interceptor for Shuttled {
    fn inner(&self) -> &dyn Store {
        self.requests.fetch_add(1, Ordering::SeqCst);
        &self.inner
    }

    fn intercept<'a, T: Send + 'static>(
        &'a self,
        _: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        pass()
    }

    fn reported(&self) -> &StoreInfo {
        &self.about
    }

    fn has_stamps(&self) -> bool {
        self.stamps
    }
}

/// The features of the store that an engine uses.
#[derive(Debug, Clone, Copy)]
enum Uses {
    /// Records and counters.
    Records,
    /// Reservations, stamps and a front, too.
    All,
}

impl Uses {
    fn memory(self) -> Arc<dyn Store> {
        self.memory_with(&Arc::new(ManualClock::at(1)))
    }

    fn memory_with(self, clock: &Arc<ManualClock>) -> Arc<dyn Store> {
        let inner = InProcessStore::new(clock.clone());
        let all = matches!(self, Self::All);
        let about = StoreInfo {
            name: "shuttled",
            reservations: all,
            ..inner.about().clone()
        };
        Arc::new(Shuttled {
            inner,
            about,
            stamps: all,
            requests: AtomicUsize::new(0),
        })
    }

    fn options(self, memory: &Arc<dyn Store>) -> CacheOptions {
        CacheOptions {
            local: None,
            store: Some(Arc::clone(memory)),
            ledger: Ledger::disabled(),
            clock: Arc::new(ManualClock::at(1)),
            secret_set: Arc::new(SecretSet::empty()),
            bounds: CacheBounds {
                front_bytes: match self {
                    Self::Records => 0,
                    Self::All => 1 << 20,
                },
                ..CacheBounds::default()
            },
            warn: Arc::new(|text| panic!("{text}")),
        }
    }

    fn cache(self) -> Cache {
        self.engine(&self.memory())
    }

    /// One of several engines over a memory.
    fn engine(self, memory: &Arc<dyn Store>) -> Cache {
        Cache::new(self.options(memory))
    }
}

async fn begin(cache: &Cache, policy: &Policy) -> BeginResult {
    begin_number(cache, policy, 1).await
}

async fn begin_number(cache: &Cache, policy: &Policy, number: u64) -> BeginResult {
    let input = Canonical::value(&serde_json::json!(number));
    let call = Call {
        kind: CallKind::Action,
        scope: &Scope::Global,
        name: "n",
        input: &input,
    };
    cache.begin(&call, policy).await.unwrap()
}

fn product(text: &str) -> RunResult {
    RunResult::storable(Bytes::copy_from_slice(text.as_bytes()), Spend::default())
}

/// Explores a scenario at random and by probabilistic concurrency testing.
fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    explore_each(&[()], 2, move |()| scenario());
}

/// Explores a scenario with every use of a memory.
fn explore_uses(scenario: impl Fn(Uses) + Send + Sync + 'static) {
    explore_each(&[Uses::Records, Uses::All], 1, scenario);
}

/// Stores start housekeeping tasks; they find a runtime, which does not run them.
fn explore_each<C: Copy + Send + Sync + 'static>(
    cases: &[C],
    times: usize,
    scenario: impl Fn(C) + Send + Sync + 'static,
) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let scenario = Arc::new(scenario);
    for &case in cases {
        let (first, second) = (Arc::clone(&scenario), Arc::clone(&scenario));
        shuttle::check_random(move || first(case), 800 * times);
        shuttle::check_pct(move || second(case), 600 * times, 3);
    }
}

#[test]
fn concurrent_callers_have_one_leader_and_one_answer() {
    explore_uses(|uses| {
        block_on(async move {
            let cache = uses.cache();
            let runs = Arc::new(AtomicUsize::new(0));
            let asking: Vec<_> = (0..4)
                .map(|_| {
                    let (cache, runs) = (cache.clone(), Arc::clone(&runs));
                    spawn(async move {
                        match begin(&cache, &Policy::default()).await {
                            BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                                outcome.body.whole().await.unwrap()
                            }
                            BeginResult::Run(ticket) => {
                                let text = format!("run {}", runs.fetch_add(1, Ordering::SeqCst));
                                let settled = ticket.finish(product(&text)).await;
                                assert!(settled.stored.is_ok(), "{settled:?} {uses:?}");
                                text.into()
                            }
                        }
                    })
                })
                .collect();
            for one in asking {
                assert_eq!(&one.await.unwrap()[..], b"run 0");
            }
            assert_eq!(runs.load(Ordering::SeqCst), 1);
        });
    });
}

#[test]
fn a_follower_of_an_abandoned_flight_leads_or_joins_the_next() {
    explore_uses(|uses| {
        block_on(async move {
            let cache = uses.cache();
            let leaders = Arc::new(AtomicUsize::new(0));
            let asking: Vec<_> = (0..4)
                .map(|_| {
                    let (cache, leaders) = (cache.clone(), Arc::clone(&leaders));
                    spawn(async move {
                        match begin(&cache, &Policy::default()).await {
                            BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                                outcome.body.whole().await.unwrap().len()
                            }
                            BeginResult::Run(ticket)
                                if leaders.fetch_add(1, Ordering::SeqCst) < 2 =>
                            {
                                drop(ticket);
                                0
                            }
                            BeginResult::Run(ticket) => {
                                let settled = ticket.finish(product("answer")).await;
                                assert!(settled.stored.is_ok(), "{settled:?}");
                                6
                            }
                        }
                    })
                })
                .collect();
            let mut answered = 0;
            for one in asking {
                answered += usize::from(one.await.unwrap() == 6);
            }
            assert_eq!((answered, leaders.load(Ordering::SeqCst)), (2, 3));
        });
    });
}

#[test]
fn readers_of_a_stream_get_every_chunk_and_the_end() {
    explore_uses(|uses| {
        block_on(async move {
            let cache = uses.cache();
            let BeginResult::Run(ticket) = begin(&cache, &Policy::default()).await else {
                panic!()
            };
            let reading: Vec<_> = (0..2)
                .map(|_| {
                    let outcome = ticket.outcome();
                    spawn(async move {
                        let mut reader = outcome.body.reader();
                        let mut read = Vec::new();
                        while let Some(chunk) = reader.next().await {
                            read.extend(chunk.unwrap());
                        }
                        outcome.settled().await.stored.unwrap();
                        read
                    })
                })
                .collect();
            let emitting = spawn(async move {
                for chunk in ["a", "b", "c"] {
                    ticket.emit(chunk.into());
                    shuttle::future::yield_now().await;
                }
                ticket
                    .finish(RunResult {
                        value: None,
                        ..product("")
                    })
                    .await;
            });
            for one in reading {
                assert_eq!(one.await.unwrap(), b"abc");
            }
            emitting.await.unwrap();
        });
    });
}

#[test]
fn readers_of_a_pipe_get_every_chunk_and_its_run_is_never_stuck() {
    explore(|| {
        block_on(async move {
            let cache = Uses::All.cache();
            let BeginResult::Run(ticket) = begin(&cache, &Policy::default()).await else {
                panic!()
            };
            const CHUNK: usize = 600 << 10;
            let reading: Vec<_> = (0..3)
                .map(|number| {
                    let mut reader = ticket.outcome().body.into_reader();
                    spawn(async move {
                        let mut read = Vec::new();
                        while let Some(chunk) = reader.next().await {
                            read.push(chunk.unwrap()[0]);
                            if number == 0 && read.len() == 2 {
                                return;
                            }
                        }
                        assert_eq!(read, b"abcde");
                    })
                })
                .collect();
            let joining = {
                let cache = cache.clone();
                spawn(async move {
                    match begin(&cache, &Policy::default()).await {
                        BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                            let whole = outcome.body.whole().await.unwrap();
                            assert_eq!(whole.len(), 5 * CHUNK);
                        }
                        BeginResult::Run(ticket) => drop(ticket.finish(product("x")).await),
                    }
                })
            };
            for sign in *b"abcde" {
                ticket.room().await;
                ticket.emit(vec![sign; CHUNK].into());
                if sign == b'b' {
                    ticket.decline(Reason::Off);
                }
            }
            let result = RunResult {
                value: None,
                ..product("")
            };
            ticket.finish(result).await;
            for one in reading {
                one.await.unwrap();
            }
            joining.await.unwrap();
        });
    });
}

#[test]
fn one_of_two_runs_without_readers_is_given_up() {
    explore(|| {
        block_on(async move {
            let mut options = Uses::All.options(&Uses::All.memory());
            options.bounds.orphan_runs = 1;
            let cache = Cache::new(options);
            let policy = Policy {
                run: RunPolicy {
                    orphan: OrphanPolicy::Finish {
                        within: Duration::from_secs(3_600),
                    },
                    ..RunPolicy::default()
                },
                ..Policy::default()
            };
            let ended = Arc::new(AtomicUsize::new(0));
            let mut tasks = Vec::new();
            for number in 1..=2 {
                let BeginResult::Run(ticket) = begin_number(&cache, &policy, number).await else {
                    panic!()
                };
                let outcome = ticket.outcome();
                ticket.emit("half".into());
                tasks.push(spawn(async move { drop(outcome) }));
                let ended = Arc::clone(&ended);
                tasks.push(spawn(async move {
                    tokio::select! {
                        () = ticket.abandoned() => {
                            ended.fetch_add(1, Ordering::SeqCst);
                            drop(ticket);
                        }
                        () = async {
                            // The other one was given up.
                            while ended.load(Ordering::SeqCst) == 0 {
                                shuttle::future::yield_now().await;
                            }
                        } => {}
                    }
                }));
            }
            for task in tasks {
                task.await.unwrap();
            }
            assert!(ended.load(Ordering::SeqCst) > 0);
        });
    });
}

#[test]
fn a_stale_entry_is_refreshed_by_one_caller() {
    explore(|| {
        block_on(async move {
            let clock = Arc::new(ManualClock::at(1));
            let store = Uses::All.memory_with(&clock);
            let [here, there] = [(); 2].map(|()| {
                let mut options = Uses::All.options(&store);
                options.clock = clock.clone();
                Cache::new(options)
            });
            let policy = Policy {
                run: RunPolicy {
                    ttl: Some(Duration::from_secs(1)),
                    stale_while_revalidate: Duration::from_secs(1),
                    ..RunPolicy::default()
                },
                ..Policy::default()
            };
            let BeginResult::Run(ticket) = begin(&here, &policy).await else {
                panic!()
            };
            ticket.finish(product("old")).await.stored.unwrap();
            clock.advance(Duration::from_secs(1));
            let refreshes = Arc::new(AtomicUsize::new(0));
            let asking: Vec<_> = [&here, &here, &there]
                .into_iter()
                .map(|cache| {
                    let (cache, policy) = (cache.clone(), policy.clone());
                    let refreshes = Arc::clone(&refreshes);
                    spawn(async move {
                        match begin(&cache, &policy).await {
                            BeginResult::Run(_) => panic!("a caller has to wait"),
                            BeginResult::Served(outcome) => {
                                assert_eq!(outcome.body.whole().await.unwrap(), "new");
                            }
                            BeginResult::Stale { outcome, refresh } => {
                                assert_eq!(outcome.body.whole().await.unwrap(), "old");
                                if let Some(refresh) = refresh {
                                    refreshes.fetch_add(1, Ordering::SeqCst);
                                    refresh.finish(product("new")).await.stored.unwrap();
                                }
                            }
                        }
                    })
                })
                .collect();
            for one in asking {
                one.await.unwrap();
            }
            assert_eq!(refreshes.load(Ordering::SeqCst), 1);
        });
    });
}

#[test]
fn callers_of_two_forms_get_their_own_and_one_answer_is_stored() {
    explore_uses(|uses| {
        block_on(async move {
            let cache = uses.cache();
            let asking: Vec<_> = [0, 1, 0, 1]
                .into_iter()
                .map(|form| {
                    let cache = cache.clone();
                    spawn(async move {
                        let policy = Policy {
                            run: RunPolicy {
                                form: Form(form),
                                ..RunPolicy::default()
                            },
                            ..Policy::default()
                        };
                        match begin(&cache, &policy).await {
                            BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                                let answer = outcome.body.whole().await.unwrap();
                                let own = answer == form.to_string();
                                assert!(own || outcome.status == CacheStatus::Hit);
                                None
                            }
                            BeginResult::Run(ticket) => {
                                let settled = ticket.finish(product(&form.to_string())).await;
                                Some(settled.stored)
                            }
                        }
                    })
                })
                .collect();
            let mut stored = 0;
            for one in asking {
                match one.await.unwrap() {
                    Some(Ok(_)) => stored += 1,
                    None | Some(Err(Reason::RunsInOtherForm)) => {}
                    Some(Err(reason)) => panic!("{reason}"),
                }
            }
            // One that was led after the other had ended is a hit.
            assert_eq!(stored, 1);
        });
    });
}

/// Asks, and runs by reading the world if it must.
async fn ask(cache: &Cache, policy: &Policy, world: &AtomicU64) -> (u64, CacheStatus) {
    match begin(cache, policy).await {
        BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
            let bytes = outcome.body.whole().await.unwrap();
            (
                std::str::from_utf8(&bytes).unwrap().parse().unwrap(),
                outcome.status,
            )
        }
        BeginResult::Run(ticket) => {
            let seen = world.load(Ordering::SeqCst);
            let status = ticket.status().clone();
            ticket.finish(product(&seen.to_string())).await;
            (seen, status)
        }
    }
}

#[test]
fn a_call_after_a_write_gets_no_older_result() {
    explore_uses(|uses| {
        block_on(async move {
            let cache = uses.cache();
            let policy = Policy {
                hit: HitPolicy {
                    domains: vec![Domain::new("d")],
                    ..HitPolicy::default()
                },
                ..Policy::default()
            };
            let world = Arc::new(AtomicU64::new(0));
            let announced = Arc::new(AtomicU64::new(0));
            let reading: Vec<_> = (0..3)
                .map(|_| {
                    let (cache, policy) = (cache.clone(), policy.clone());
                    let (world, announced) = (Arc::clone(&world), Arc::clone(&announced));
                    spawn(async move {
                        for _ in 0..2 {
                            let known = announced.load(Ordering::SeqCst);
                            let (got, status) = ask(&cache, &policy, &world).await;
                            assert!(
                                got >= known,
                                "got {got} ({status:?}) after {known} was announced"
                            );
                        }
                    })
                })
                .collect();
            for version in 1..=2 {
                let write_guard = cache.write_guard(&policy.hit.domains).await;
                world.store(version, Ordering::SeqCst);
                write_guard.finish().await.unwrap();
                announced.store(version, Ordering::SeqCst);
            }
            for one in reading {
                one.await.unwrap();
            }
            assert_eq!(ask(&cache, &policy, &world).await.0, 2);
        });
    });
}

#[test]
fn a_call_on_any_engine_after_an_announced_write_gets_no_older_result() {
    explore_uses(|uses| {
        block_on(async move {
            let caches = [uses.cache(), uses.cache()];
            let policy = Policy {
                hit: HitPolicy {
                    domains: vec![Domain::new("c"), Domain::new("d")],
                    ..HitPolicy::default()
                },
                ..Policy::default()
            };
            let world = Arc::new(AtomicU64::new(0));
            let announced = Arc::new(AtomicU64::new(0));
            let reading: Vec<_> = caches
                .iter()
                .cycle()
                .take(4)
                .map(|cache| {
                    let (cache, policy) = (cache.clone(), policy.clone());
                    let (world, announced) = (Arc::clone(&world), Arc::clone(&announced));
                    spawn(async move {
                        for _ in 0..2 {
                            let known = announced.load(Ordering::SeqCst);
                            let (got, status) = ask(&cache, &policy, &world).await;
                            assert!(
                                got >= known,
                                "got {got} ({status:?}) after {known} was announced"
                            );
                        }
                    })
                })
                .collect();
            for version in 1..=2 {
                let written = &policy.hit.domains[usize::try_from(version % 2).unwrap()..][..1];
                let guards = caches.each_ref().map(|cache| cache.announce(written));
                for guard in &guards {
                    guard.raise_epochs().await;
                }
                world.store(version, Ordering::SeqCst);
                for guard in guards {
                    guard.finish().await.unwrap();
                }
                announced.store(version, Ordering::SeqCst);
            }
            for one in reading {
                one.await.unwrap();
            }
            for cache in &caches {
                assert_eq!(ask(cache, &policy, &world).await.0, 2);
            }
        });
    });
}

#[test]
fn exact_engine_keeps_its_bounds_and_serves_stored_entries() {
    const ENTRIES: u64 = 2;
    explore_uses(|uses| {
        block_on(async move {
            let memory = uses.memory();
            let mut options = uses.options(&memory);
            options.bounds.entries = ENTRIES;
            let cache = Cache::exact(options);
            let storing = Arc::new(AtomicU64::new(0));
            let tasks: Vec<_> = (0..3)
                .map(|first| {
                    let (cache, storing) = (cache.clone(), Arc::clone(&storing));
                    spawn(async move {
                        for number in [first, first + 1] {
                            let text = number.to_string();
                            storing.fetch_add(1, Ordering::SeqCst);
                            match begin_number(&cache, &Policy::default(), number).await {
                                BeginResult::Served(outcome)
                                | BeginResult::Stale { outcome, .. } => {
                                    assert_eq!(outcome.body.whole().await.unwrap(), text);
                                }
                                BeginResult::Run(ticket) => {
                                    let settled = ticket.finish(product(&text)).await;
                                    assert!(settled.stored.is_ok(), "{settled:?}");
                                }
                            }
                            // What others have stored and not evicted for yet comes on top.
                            let others = storing.fetch_sub(1, Ordering::SeqCst) - 1;
                            let there = cache.usage().await.unwrap().records;
                            let others = others.max(storing.load(Ordering::SeqCst));
                            assert!(there <= ENTRIES + others, "{there} beside {others}");
                        }
                    })
                })
                .collect();
            for task in tasks {
                task.await.unwrap();
            }
            assert_eq!(cache.usage().await.unwrap().records, ENTRIES);
            let mut served = 0;
            for number in 0..4 {
                if let BeginResult::Served(outcome) =
                    begin_number(&cache, &Policy::default(), number).await
                {
                    assert_eq!(outcome.body.whole().await.unwrap(), number.to_string());
                    served += 1;
                }
            }
            assert_eq!(served, ENTRIES);
        });
    });
}

fn fleet() -> Policy {
    Policy {
        run: RunPolicy {
            join: SingleFlight::AllProcesses {
                wait: Duration::from_secs(600),
            },
            ..RunPolicy::default()
        },
        ..Policy::default()
    }
}

#[test]
fn callers_in_two_engines_have_one_leader_and_one_answer() {
    explore(|| {
        block_on(async {
            let memory = Uses::All.memory();
            let engines = [Uses::All.engine(&memory), Uses::All.engine(&memory)];
            let runs = Arc::new(AtomicUsize::new(0));
            let asking: Vec<_> = engines
                .iter()
                .cycle()
                .take(4)
                .map(|cache| {
                    let (cache, runs) = (cache.clone(), Arc::clone(&runs));
                    spawn(async move {
                        match begin(&cache, &fleet()).await {
                            BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                                outcome.body.whole().await.unwrap()
                            }
                            BeginResult::Run(ticket) => {
                                let text = format!("run {}", runs.fetch_add(1, Ordering::SeqCst));
                                let settled = ticket.finish(product(&text)).await;
                                assert!(settled.stored.is_ok(), "{settled:?}");
                                text.into()
                            }
                        }
                    })
                })
                .collect();
            for one in asking {
                assert_eq!(&one.await.unwrap()[..], b"run 0");
            }
            assert_eq!(runs.load(Ordering::SeqCst), 1);
        });
    });
}

#[test]
fn released_reservation_is_taken_by_another_engine() {
    explore(|| {
        block_on(async {
            let memory = Uses::All.memory();
            let leaders = Arc::new(AtomicUsize::new(0));
            let asking: Vec<_> = (0..3)
                .map(|_| {
                    let (cache, leaders) = (Uses::All.engine(&memory), Arc::clone(&leaders));
                    spawn(async move {
                        match begin(&cache, &fleet()).await {
                            BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                                outcome.body.whole().await.unwrap().len()
                            }
                            BeginResult::Run(ticket)
                                if leaders.fetch_add(1, Ordering::SeqCst) == 0 =>
                            {
                                drop(ticket);
                                0
                            }
                            BeginResult::Run(ticket) => {
                                let settled = ticket.finish(product("answer")).await;
                                assert!(settled.stored.is_ok(), "{settled:?}");
                                6
                            }
                        }
                    })
                })
                .collect();
            let mut answered = 0;
            for one in asking {
                answered += usize::from(one.await.unwrap() == 6);
            }
            assert_eq!((answered, leaders.load(Ordering::SeqCst)), (2, 2));
        });
    });
}

#[test]
fn front_serves_nothing_older_than_a_write_or_erase_elsewhere() {
    explore_each(&[true, false], 1, |erases| {
        block_on(async move {
            let memory = Uses::All.memory();
            let (reader, writer) = (Uses::All.engine(&memory), Uses::All.engine(&memory));
            let policy = Policy {
                hit: HitPolicy {
                    domains: vec![Domain::new("d")],
                    ..HitPolicy::default()
                },
                ..Policy::default()
            };
            let world = Arc::new(AtomicU64::new(0));
            let announced = Arc::new(AtomicU64::new(0));
            // In the front.
            for _ in 0..2 {
                ask(&reader, &policy, &world).await;
            }
            let reading: Vec<_> = (0..2)
                .map(|_| {
                    let (cache, policy) = (reader.clone(), policy.clone());
                    let (world, announced) = (Arc::clone(&world), Arc::clone(&announced));
                    spawn(async move {
                        for _ in 0..3 {
                            let known = announced.load(Ordering::SeqCst);
                            let (got, status) = ask(&cache, &policy, &world).await;
                            // A flight that began before an erase of another process may be joined.
                            let joined = erases && status == CacheStatus::Coalesced;
                            assert!(
                                got >= known || joined,
                                "got {got} ({status:?}) after {known}"
                            );
                        }
                    })
                })
                .collect();
            for version in 1..=2 {
                if erases {
                    world.store(version, Ordering::SeqCst);
                    writer.erase(&EntryFilter::default(), false).await.unwrap();
                } else {
                    let write_guard = writer.write_guard(&policy.hit.domains).await;
                    world.store(version, Ordering::SeqCst);
                    write_guard.finish().await.unwrap();
                }
                announced.store(version, Ordering::SeqCst);
            }
            for one in reading {
                one.await.unwrap();
            }
            assert_eq!(ask(&reader, &policy, &world).await.0, 2);
        });
    });
}

/// A decoded form, and the number of the one that decoded it.
struct Number(u64, usize);

static DECODED: std::sync::atomic::AtomicUsize = std::sync::atomic::AtomicUsize::new(0);

impl Decoded for Number {
    fn weight(&self) -> u64 {
        300_000
    }
}

fn number(bytes: &[u8]) -> Result<Number, DecodeError> {
    let decoder = DECODED.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    shuttle::thread::yield_now();
    let text = std::str::from_utf8(bytes).unwrap();
    Ok(Number(text.parse().unwrap(), decoder))
}

async fn decode(cache: &Cache, of: u64) -> Arc<Number> {
    match begin_number(cache, &Policy::default(), of).await {
        BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
            outcome.body.decoded(number).await.unwrap()
        }
        BeginResult::Run(ticket) => {
            let outcome = ticket.outcome();
            ticket.finish(product(&of.to_string())).await;
            outcome.body.decoded(number).await.unwrap()
        }
    }
}

#[test]
fn a_front_entry_is_decoded_once_despite_concurrent_evictions() {
    explore(|| {
        block_on(async {
            DECODED.store(0, std::sync::atomic::Ordering::SeqCst);
            let cache = Uses::All.cache();
            for _ in 0..2 {
                match begin(&cache, &Policy::default()).await {
                    // In the front, and not decoded yet.
                    BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                        drop(outcome)
                    }
                    BeginResult::Run(ticket) => drop(ticket.finish(product("1")).await),
                }
            }
            let decoding: Vec<_> = (0..3)
                .map(|_| {
                    let cache = cache.clone();
                    spawn(async move { decode(&cache, 1).await })
                })
                .collect();
            let storing = {
                let cache = cache.clone();
                spawn(async move { decode(&cache, 2).await.0 })
            };
            for one in decoding {
                let decoded = one.await.unwrap();
                assert_eq!(decoded.0, 1);
                // All get the form that one of them made.
                let shared = decode(&cache, 1).await;
                assert_eq!(shared.1, decoded.1);
            }
            assert_eq!(storing.await.unwrap(), 2);
            assert_eq!(DECODED.load(std::sync::atomic::Ordering::SeqCst), 2);
        });
    });
}

#[test]
fn erase_prevents_serving_and_storing_older_results() {
    explore_uses(|uses| {
        block_on(async move {
            let cache = uses.cache();
            let world = Arc::new(AtomicU64::new(0));
            let erased = Arc::new(AtomicU64::new(0));
            let reading: Vec<_> = (0..3)
                .map(|_| {
                    let (cache, world, erased) =
                        (cache.clone(), Arc::clone(&world), Arc::clone(&erased));
                    spawn(async move {
                        let known = erased.load(Ordering::SeqCst);
                        let (got, status) = ask(&cache, &Policy::default(), &world).await;
                        assert!(
                            got >= known,
                            "got {got} ({status:?}) after an erase at {known}"
                        );
                    })
                })
                .collect();
            world.store(1, Ordering::SeqCst);
            cache.erase(&EntryFilter::default(), false).await.unwrap();
            erased.store(1, Ordering::SeqCst);
            for one in reading {
                one.await.unwrap();
            }
            assert_eq!(ask(&cache, &Policy::default(), &world).await.0, 1);
        });
    });
}

#[test]
fn a_run_is_notified_when_all_readers_have_left() {
    explore_uses(|uses| {
        block_on(async move {
            let cache = uses.cache();
            let BeginResult::Run(ticket) = begin(&cache, &Policy::default()).await else {
                panic!()
            };
            ticket.emit("half".into());
            let first = ticket.outcome();
            let running = spawn(async move { ticket.abandoned().await });
            let leaving = spawn(async move { drop(first) });
            let coming: Vec<_> = (0..2)
                .map(|_| {
                    let cache = cache.clone();
                    spawn(async move {
                        match begin(&cache, &Policy::default()).await {
                            BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                                let mut reader = outcome.body.reader();
                                reader.next().await.unwrap().unwrap();
                            }
                            BeginResult::Run(ticket) => {
                                assert_eq!(
                                    ticket.finish(product("whole")).await.stored.err(),
                                    None
                                );
                            }
                        }
                    })
                })
                .collect();
            leaving.await.unwrap();
            running.await.unwrap();
            for one in coming {
                one.await.unwrap();
            }
            match begin(&cache, &Policy::default()).await {
                BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
                    assert_eq!(&outcome.body.whole().await.unwrap()[..], b"whole")
                }
                BeginResult::Run(ticket) => {
                    assert_eq!(ticket.finish(product("whole")).await.stored.err(), None)
                }
            }
        });
    });
}
