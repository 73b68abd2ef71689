//! Every interleaving that a scheduler finds: one leader, nobody waits for ever, nobody joins a
//! flight that began before a write. Run with `--features shuttle`, which replaces the locks of the
//! structures that threads share.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{
    Begun, Bounds, Cache, Call, Domain, Filter, How, Kind, Ledger, Options, Policy, Product, Scope,
};
use cachalot_core::{Canonical, ManualClock, Seals, Spend};
use cachalot_memory::{
    About, Answer, Batch, Enter, Entered, Error, ErrorKind, Found, Label, Lease, Memory, Page, Put,
    Record, Reserved, Usage, counter,
};
use shuttle::future::{block_on, spawn};
use shuttle::sync::Mutex;
use shuttle::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// A memory whose every request is a point at which another thread may run.
struct Shuttled {
    about: About,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    records: HashMap<String, Record>,
    counters: HashMap<String, u64>,
}

impl Shuttled {
    fn new() -> Arc<Self> {
        let about = About {
            name: "shuttled",
            location: "here".into(),
            shared: false,
            // A reservation is renewed by a task of tokio's, which does not run here.
            reservations: false,
            largest_value: 1 << 20,
            longest_name: 1 << 20,
            snapshot: true,
        };
        Arc::new(Self {
            about,
            state: Mutex::default(),
        })
    }
}

fn unsupported<'a, T: Send + 'a>() -> Answer<'a, T> {
    Answer::Now(Err(Error::new(ErrorKind::Unsupported, "not in this test")))
}

impl Memory for Shuttled {
    fn about(&self) -> &About {
        &self.about
    }

    fn get<'a>(&'a self, _: &'a str, key: &'a str, counters: &'a [&'a str]) -> Answer<'a, Found> {
        let state = self.state.lock().unwrap();
        let counter = |name: &&str| state.counters.get(*name).copied().unwrap_or(0);
        let counters = counters.iter().map(counter).collect();
        Answer::Now(Ok(Found {
            record: state.records.get(key).cloned(),
            counters,
            now: 1,
        }))
    }

    fn enter<'a>(&'a self, _: &'a str, _: &'a str, _: Enter<'a>) -> Answer<'a, Entered> {
        unsupported()
    }

    fn put<'a>(
        &'a self,
        _: &'a str,
        record: Record,
        _: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> Answer<'a, Put> {
        let mut state = self.state.lock().unwrap();
        let count = |name: &str| state.counters.get(name).copied().unwrap_or(0);
        if let Some(counter) = counters
            .iter()
            .position(|(name, value)| count(name) != *value)
        {
            return Answer::Now(Ok(Put::Outdated { counter }));
        }
        let revision = state.records.get(&record.key).map_or(0, |old| old.revision) + 1;
        state
            .records
            .insert(record.key.clone(), Record { revision, ..record });
        Answer::Now(Ok(Put::Stored { revision }))
    }

    fn erase<'a>(
        &'a self,
        _: &'a str,
        filter: &'a cachalot_memory::Filter<'a>,
        _: Page<'a>,
    ) -> Answer<'a, Batch> {
        let mut state = self.state.lock().unwrap();
        let keys: Vec<String> = state
            .records
            .keys()
            .filter(|key| key.starts_with(filter.prefix))
            .cloned()
            .collect();
        let records = keys
            .iter()
            .filter_map(|key| state.records.remove(key))
            .collect();
        *state
            .counters
            .entry(counter::ERASED.to_owned())
            .or_default() += 1;
        Answer::Now(Ok(Batch {
            records,
            ..Batch::default()
        }))
    }

    fn add<'a>(&'a self, _: &'a str, additions: &'a [(&'a str, u64)]) -> Answer<'a, Vec<u64>> {
        let mut state = self.state.lock().unwrap();
        let raised = additions.iter().map(|(name, by)| {
            let value = state.counters.entry((*name).to_owned()).or_default();
            *value += by;
            *value
        });
        Answer::Now(Ok(raised.collect()))
    }

    fn raise_to<'a>(&'a self, _: &'a str, _: &'a str, _: u64) -> Answer<'a, u64> {
        unsupported()
    }

    fn counters<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: Option<&'a str>,
        _: u32,
    ) -> Answer<'a, Vec<(String, u64)>> {
        unsupported()
    }

    fn usage<'a>(&'a self, _: &'a str) -> Answer<'a, Usage> {
        Answer::Now(Ok(Usage::default()))
    }

    fn stamp(&self, _: &str, _: &str) -> Option<u64> {
        None
    }

    fn reserve<'a>(
        &'a self,
        _: &'a str,
        _: &'a str,
        _: &'a [Label],
        _: Duration,
    ) -> Answer<'a, Reserved> {
        unsupported()
    }

    fn renew<'a>(&'a self, _: &'a Lease, _: Duration) -> Answer<'a, bool> {
        unsupported()
    }

    fn release(&self, _: Lease) -> Answer<'_, ()> {
        unsupported()
    }

    fn find<'a>(
        &'a self,
        _: &'a str,
        _: &'a cachalot_memory::Filter<'a>,
        _: Page<'a>,
    ) -> Answer<'a, Batch> {
        unsupported()
    }

    fn touch<'a>(&'a self, _: &'a str, _: &'a [(&'a str, i64)]) -> Answer<'a, ()> {
        Answer::Now(Ok(()))
    }
}

fn cache() -> Cache {
    Cache::new(options())
}

fn options() -> Options {
    Options {
        memory: Some(Shuttled::new()),
        ledger: Ledger::none(),
        clock: Arc::new(ManualClock::at(1)),
        seals: Arc::new(Seals::none()),
        bounds: Bounds {
            front_bytes: 0,
            ..Bounds::default()
        },
        warn: Arc::new(|text| panic!("{text}")),
    }
}

async fn begin(cache: &Cache, policy: &Policy) -> Begun {
    let input = Canonical::value(&serde_json::json!(1));
    let call = Call {
        kind: Kind::Action,
        scope: &Scope::Global,
        name: "n",
        input: &input,
    };
    cache.begin(&call, policy).await.unwrap()
}

fn product(text: &str) -> Product {
    Product::kept(Bytes::copy_from_slice(text.as_bytes()), Spend::default())
}

/// Explores a scenario at random and by probabilistic concurrency testing. Stores start housekeeping
/// tasks; they find a runtime, and nobody runs them.
fn explore(scenario: impl Fn() + Send + Sync + 'static) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let _entered = runtime.enter();
    let scenario = Arc::new(scenario);
    let again = Arc::clone(&scenario);
    shuttle::check_random(move || scenario(), 3_000);
    shuttle::check_pct(move || again(), 2_000, 3);
}

#[test]
fn of_callers_at_the_same_time_one_leads_and_all_get_its_answer() {
    explore(|| {
        block_on(async {
            let cache = cache();
            let runs = Arc::new(AtomicUsize::new(0));
            let asking: Vec<_> = (0..4)
                .map(|_| {
                    let (cache, runs) = (cache.clone(), Arc::clone(&runs));
                    spawn(async move {
                        match begin(&cache, &Policy::default()).await {
                            Begun::Served(outcome) => outcome.body.whole().await.unwrap(),
                            Begun::Run(ticket) => {
                                let text = format!("run {}", runs.fetch_add(1, Ordering::SeqCst));
                                assert!(ticket.finish(product(&text)).await.stored.is_ok());
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
fn whoever_waits_for_a_leader_that_gives_up_leads_or_follows_the_next() {
    explore(|| {
        block_on(async {
            let cache = cache();
            let leaders = Arc::new(AtomicUsize::new(0));
            let asking: Vec<_> = (0..4)
                .map(|_| {
                    let (cache, leaders) = (cache.clone(), Arc::clone(&leaders));
                    spawn(async move {
                        match begin(&cache, &Policy::default()).await {
                            Begun::Served(outcome) => outcome.body.whole().await.unwrap().len(),
                            Begun::Run(ticket) if leaders.fetch_add(1, Ordering::SeqCst) < 2 => {
                                drop(ticket);
                                0
                            }
                            Begun::Run(ticket) => {
                                ticket.finish(product("answer")).await;
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
fn readers_of_a_stream_miss_no_chunk_and_no_end() {
    explore(|| {
        block_on(async {
            let cache = cache();
            let Begun::Run(ticket) = begin(&cache, &Policy::default()).await else {
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
                    .finish(Product {
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

/// Asks, and runs by reading the world if it must.
async fn ask(cache: &Cache, policy: &Policy, world: &AtomicU64) -> (u64, How) {
    match begin(cache, policy).await {
        Begun::Served(outcome) => {
            let bytes = outcome.body.whole().await.unwrap();
            (
                std::str::from_utf8(&bytes).unwrap().parse().unwrap(),
                outcome.how,
            )
        }
        Begun::Run(ticket) => {
            let seen = world.load(Ordering::SeqCst);
            let how = ticket.how().clone();
            ticket.finish(product(&seen.to_string())).await;
            (seen, how)
        }
    }
}

#[test]
fn who_asks_after_a_write_gets_nothing_older_than_it() {
    explore(|| {
        block_on(async {
            let cache = cache();
            let policy = Policy {
                domains: vec![Domain::new("d")],
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
                            let (got, how) = ask(&cache, &policy, &world).await;
                            assert!(
                                got >= known,
                                "got {got} ({how:?}) after {known} was announced"
                            );
                        }
                    })
                })
                .collect();
            for version in 1..=2 {
                let writing = cache.writing(&policy.domains).await;
                world.store(version, Ordering::SeqCst);
                writing.done().await.unwrap();
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
fn who_asks_any_engine_after_a_write_that_all_were_told_of_gets_nothing_older_than_it() {
    explore(|| {
        block_on(async {
            let caches = [cache(), cache()];
            let policy = Policy {
                domains: vec![Domain::new("c"), Domain::new("d")],
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
                            let (got, how) = ask(&cache, &policy, &world).await;
                            assert!(
                                got >= known,
                                "got {got} ({how:?}) after {known} was announced"
                            );
                        }
                    })
                })
                .collect();
            for version in 1..=2 {
                let written = &policy.domains[usize::try_from(version % 2).unwrap()..][..1];
                let guards = caches.each_ref().map(|cache| cache.announce(written));
                for guard in &guards {
                    guard.begun().await;
                }
                world.store(version, Ordering::SeqCst);
                for guard in guards {
                    guard.done().await.unwrap();
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
fn an_exact_engine_keeps_to_its_bounds_and_serves_what_was_stored() {
    explore(|| {
        block_on(async {
            let cache = Cache::exact(options());
            let storing: Vec<_> = (0..3)
                .map(|_| {
                    let cache = cache.clone();
                    spawn(async move {
                        for _ in 0..2 {
                            match begin(&cache, &Policy::default()).await {
                                Begun::Served(outcome) => {
                                    assert_eq!(&outcome.body.whole().await.unwrap()[..], b"x");
                                }
                                Begun::Run(ticket) => {
                                    assert!(ticket.finish(product("x")).await.stored.is_ok());
                                }
                            }
                        }
                    })
                })
                .collect();
            for one in storing {
                one.await.unwrap();
            }
            assert!(matches!(
                begin(&cache, &Policy::default()).await,
                Begun::Served(_)
            ));
        });
    });
}

#[test]
fn after_an_erase_nothing_older_is_served_or_stored() {
    explore(|| {
        block_on(async {
            let cache = cache();
            let world = Arc::new(AtomicU64::new(0));
            let erased = Arc::new(AtomicU64::new(0));
            let reading: Vec<_> = (0..3)
                .map(|_| {
                    let (cache, world, erased) =
                        (cache.clone(), Arc::clone(&world), Arc::clone(&erased));
                    spawn(async move {
                        let known = erased.load(Ordering::SeqCst);
                        let (got, how) = ask(&cache, &Policy::default(), &world).await;
                        assert!(
                            got >= known,
                            "got {got} ({how:?}) after an erase at {known}"
                        );
                    })
                })
                .collect();
            world.store(1, Ordering::SeqCst);
            cache.erase(&Filter::default(), false).await.unwrap();
            erased.store(1, Ordering::SeqCst);
            for one in reading {
                one.await.unwrap();
            }
            assert_eq!(ask(&cache, &Policy::default(), &world).await.0, 1);
        });
    });
}

#[test]
fn a_run_whose_readers_leave_is_told_so_whoever_came_in_between() {
    explore(|| {
        block_on(async {
            let cache = cache();
            let Begun::Run(ticket) = begin(&cache, &Policy::default()).await else {
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
                            Begun::Served(outcome) => {
                                let mut reader = outcome.body.reader();
                                reader.next().await.unwrap().unwrap();
                            }
                            Begun::Run(ticket) => {
                                assert!(ticket.finish(product("whole")).await.stored.is_ok());
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
                Begun::Served(outcome) => {
                    assert_eq!(&outcome.body.whole().await.unwrap()[..], b"whole")
                }
                Begun::Run(ticket) => assert!(ticket.finish(product("whole")).await.stored.is_ok()),
            }
        });
    });
}
