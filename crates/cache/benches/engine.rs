//! B3 to B6: the engine on a SQLite file, each figure as a ratio to a reference that is measured in
//! the same run. Medians over interleaved rounds.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachalot_cache::{
    BeginResult, Cache, CacheBounds, CacheOptions, Call, CallKind, EntryFilter, LabelCriterion,
    Ledger, Policy, RunPolicy, RunResult, Scope, SingleFlight,
};
use cachalot_core::{Canonical, Clock as _, Digest, SecretSet, Spend, SystemClock};
use cachalot_store::sqlite::{self, SqliteStore};
use cachalot_store::{Label, PutResult, Record, ReserveResult, Store, counter, space};
use rusqlite::{Connection, params};
use tokio::runtime::{Builder, Runtime};

const ENTRIES: usize = 1_000;
const ANSWER: &[u8] = &[b'x'; 100];

fn memory(path: &Path) -> Arc<dyn Store> {
    Arc::new(SqliteStore::open(path, sqlite::SqliteOptions::new(Arc::new(SystemClock))).unwrap())
}

fn cache(memory: &Arc<dyn Store>, ledger: Option<&Path>, front_bytes: u64) -> Cache {
    let warn: Arc<dyn Fn(&str) + Send + Sync> = Arc::new(|text| panic!("{text}"));
    Cache::new(CacheOptions {
        local: None,
        store: Some(Arc::clone(memory)),
        ledger: ledger.map_or_else(Ledger::disabled, |path| {
            Ledger::at(path, "bench", Arc::clone(&warn))
        }),
        clock: Arc::new(SystemClock),
        secret_set: Arc::new(SecretSet::empty()),
        bounds: CacheBounds {
            front_bytes,
            entries: 10_000_000,
            bytes: 1 << 40,
            ..CacheBounds::default()
        },
        warn,
    })
}

fn input(number: usize) -> Canonical {
    Canonical::value(&serde_json::json!({"path": "src/main.rs", "number": number}))
}

fn call(input: &Canonical) -> Call<'_> {
    Call {
        kind: CallKind::Action,
        scope: &Scope::Global,
        name: "file.read",
        input,
    }
}

fn current_thread() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

async fn hit(cache: &Cache, input: &Canonical, policy: &Policy) {
    match cache.begin(&call(input), policy).await.unwrap() {
        BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => {
            drop(std::hint::black_box(outcome))
        }
        BeginResult::Run(_) => panic!("a miss"),
    }
}

async fn store(cache: &Cache, input: &Canonical, policy: &Policy) {
    match cache.begin(&call(input), policy).await.unwrap() {
        BeginResult::Served(_) | BeginResult::Stale { .. } => panic!("a hit"),
        BeginResult::Run(ticket) => {
            let product = RunResult::storable(Bytes::from_static(ANSWER), Spend::default());
            ticket.finish(product).await.stored.unwrap();
        }
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The median time of one of `each` operations, of several kinds measured in turns.
fn in_turns<const KINDS: usize>(
    rounds: usize,
    each: usize,
    mut kinds: [&mut dyn FnMut(usize); KINDS],
) -> [Duration; KINDS] {
    let mut times: [Vec<Duration>; KINDS] = std::array::from_fn(|_| Vec::new());
    for round in 0..rounds {
        for (kind, times) in kinds.iter_mut().zip(&mut times) {
            let began = Instant::now();
            kind(round);
            times.push(began.elapsed() / u32::try_from(each).unwrap());
        }
    }
    times.map(median)
}

fn report(what: &str, time: Duration, reference: Duration, goal: &str) {
    let ratio = time.as_secs_f64() / reference.as_secs_f64();
    println!(
        "{what:<58} {time:>10.2?}   reference {reference:>10.2?}   {ratio:>6.2}x   goal {goal}"
    );
}

fn bare(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA mmap_size=268435456;
             CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value BLOB NOT NULL, expires INTEGER) WITHOUT ROWID;",
        )
        .unwrap();
    connection
}

/// A table with the columns and indices that the store keeps for a record: key, order of writing, use, expiry,
/// and the two labels of an entry.
fn indexed(path: &Path) -> Connection {
    let connection = bare(path);
    connection
        .execute_batch(
            "CREATE TABLE records (id INTEGER PRIMARY KEY, space TEXT NOT NULL, key TEXT NOT NULL,
                 used INTEGER NOT NULL, expires INTEGER, name TEXT NOT NULL, kind TEXT NOT NULL, value BLOB NOT NULL);
             CREATE UNIQUE INDEX records_key ON records(space, key);
             CREATE INDEX records_newest ON records(space);
             CREATE INDEX records_used ON records(space, used);
             CREATE INDEX records_expires ON records(space, expires) WHERE expires IS NOT NULL;
             CREATE INDEX records_name ON records(space, name, key);
             CREATE INDEX records_kind ON records(space, kind, key);",
        )
        .unwrap();
    connection
}

/// B3, and what the front makes of it.
fn hits(home: &Path) {
    let runtime = current_thread();
    let memory = memory(&home.join("hits.db"));
    let ledger = home.join("hits-ledger.db");
    let (cold, warm) = (
        cache(&memory, Some(&ledger), 0),
        cache(&memory, Some(&ledger), 64 << 20),
    );
    let policy = Policy::default();
    let inputs: Vec<Canonical> = (0..ENTRIES).map(input).collect();
    let reference = bare(&home.join("bare-hits.db"));
    runtime.block_on(async {
        for input in &inputs {
            store(&cold, input, &policy).await;
        }
    });
    let keys: Vec<String> = inputs
        .iter()
        .map(|input| cachalot_cache::Key::for_call(&call(input)).to_string())
        .collect();
    for key in &keys {
        reference
            .execute(
                "INSERT INTO entries VALUES (?1, ?2, NULL)",
                params![key, ANSWER],
            )
            .unwrap();
    }
    let mut select = reference
        .prepare("SELECT value, expires FROM entries WHERE key = ?1")
        .unwrap();
    let [bare, read, cold, warm] = in_turns(
        41,
        ENTRIES,
        [
            &mut |_| {
                for key in &keys {
                    let row = select.query_row([key], |row| {
                        Ok((row.get::<_, Vec<u8>>(0)?, row.get::<_, Option<i64>>(1)?))
                    });
                    std::hint::black_box(row.unwrap());
                }
            },
            &mut |_| {
                runtime.block_on(async {
                    for key in &keys {
                        std::hint::black_box(
                            memory
                                .get(space::CACHE, key, &[counter::ERASED])
                                .settle()
                                .await
                                .unwrap(),
                        );
                    }
                });
            },
            &mut |_| {
                runtime.block_on(async {
                    for input in &inputs {
                        hit(&cold, input, &policy).await;
                    }
                });
            },
            &mut |_| {
                runtime.block_on(async {
                    for input in &inputs {
                        hit(&warm, input, &policy).await;
                    }
                });
            },
        ],
    );
    report("   the memory's part of a hit, front cold", read, bare, "-");
    report("B3 hit, front cold, 100 B", cold, bare, "2.0x");
    report(
        "   hit, front warm, 100 B (engine only; see B2)",
        warm,
        bare,
        "1.0x",
    );
}

/// A hit with the front cold on an answer of 200 kB, which the engine checks for damage.
fn large(home: &Path) {
    const EACH: usize = 50;
    let runtime = current_thread();
    let memory = memory(&home.join("large.db"));
    let cache = cache(&memory, None, 0);
    let policy = Policy::default();
    let (input, answer) = (input(0), Bytes::from(vec![b'x'; 200_000]));
    let key = cachalot_cache::Key::for_call(&call(&input)).to_string();
    let reference = bare(&home.join("bare-large.db"));
    runtime.block_on(async {
        match cache.begin(&call(&input), &policy).await.unwrap() {
            BeginResult::Served(_) | BeginResult::Stale { .. } => panic!("a hit"),
            BeginResult::Run(ticket) => {
                let product = RunResult::storable(answer.clone(), Spend::default());
                ticket.finish(product).await.stored.unwrap();
            }
        }
    });
    reference
        .execute(
            "INSERT INTO entries VALUES (?1, ?2, NULL)",
            params![key, &answer[..]],
        )
        .unwrap();
    let mut select = reference
        .prepare("SELECT value, expires FROM entries WHERE key = ?1")
        .unwrap();
    let [bare, cold] = in_turns(
        41,
        EACH,
        [
            &mut |_| {
                for _ in 0..EACH {
                    let row = select.query_row([&key], |row| row.get::<_, Vec<u8>>(0));
                    std::hint::black_box(row.unwrap());
                }
            },
            &mut |_| {
                runtime.block_on(async {
                    for _ in 0..EACH {
                        hit(&cache, &input, &policy).await;
                    }
                });
            },
        ],
    );
    report("   hit, front cold, 200 kB", cold, bare, "-");
}

/// What the engine asks of the memory to store, and nothing else.
async fn reserve_and_put(memory: &Arc<dyn Store>, key: String) {
    let labels = vec![
        Label::new("name", "file.read"),
        Label::new("kind", "action"),
    ];
    let hold = Duration::from_secs(4);
    let reserved = memory
        .reserve(space::CACHE, &key, &labels, hold)
        .settle()
        .await
        .unwrap();
    let ReserveResult::Held(lease) = reserved else {
        panic!("reserved by another")
    };
    let record = Record {
        key,
        value: Bytes::from_static(ANSWER),
        labels,
        expires: Some(SystemClock.now() + 86_400_000),
        revision: 0,
        updated: 0,
    };
    let put = memory
        .put(space::CACHE, record, Some(&lease), &[])
        .settle()
        .await
        .unwrap();
    assert!(matches!(put, PutResult::Stored { .. }));
}

/// B4: a miss and its store, joined across processes, until it is durable.
fn stores(home: &Path) {
    const EACH: usize = 640;
    let memory = memory(&home.join("stores.db"));
    let cache = cache(&memory, Some(&home.join("stores-ledger.db")), 64 << 20);
    let reference = indexed(&home.join("bare-stores.db"));
    let policy = Policy {
        run: RunPolicy {
            join: SingleFlight::AllProcesses {
                wait: Duration::from_secs(5),
            },
            ttl: Some(Duration::from_secs(86_400)),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let one = current_thread();
    let two = Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut upsert = reference
        .prepare(
            "INSERT INTO records (space, key, used, expires, name, kind, value)
             VALUES ('cache', ?1, ?2, ?3, 'file.read', 'action', ?4)
             ON CONFLICT (space, key) DO UPDATE SET value = excluded.value, used = excluded.used, expires = excluded.expires",
        )
        .unwrap();
    let number = |kind: usize, round: usize, n: usize| (kind * 1_000 + round) * 10_000 + n;
    let key = |kind: usize, round: usize, n: usize| {
        Digest::sha256(&number(kind, round, n).to_le_bytes()).to_hex()
    };
    let beside = self::memory(&home.join("beside.db"));
    let [bare, memory, alone, crowd] = in_turns(
        21,
        EACH,
        [
            &mut |round| {
                for n in 0..EACH {
                    let used = SystemClock.now();
                    let expires = used + 86_400_000;
                    upsert
                        .execute(params![key(0, round, n), used, expires, ANSWER])
                        .unwrap();
                }
            },
            &mut |round| {
                one.block_on(async {
                    for n in 0..EACH {
                        reserve_and_put(&beside, key(3, round, n)).await;
                    }
                });
            },
            &mut |round| {
                one.block_on(async {
                    for n in 0..EACH {
                        store(&cache, &input(number(1, round, n)), &policy).await;
                    }
                });
            },
            &mut |round| {
                two.block_on(async {
                    let callers: Vec<_> = (0..16)
                        .map(|caller| {
                            let (cache, policy) = (cache.clone(), policy.clone());
                            tokio::spawn(async move {
                                for n in (caller..EACH).step_by(16) {
                                    store(&cache, &input(number(2, round, n)), &policy).await;
                                }
                            })
                        })
                        .collect();
                    for caller in callers {
                        caller.await.unwrap();
                    }
                });
            },
        ],
    );
    report("   the memory's part: reserve, then put", memory, bare, "-");
    report(
        "B4 miss and store until settled, 1 caller",
        alone,
        bare,
        "2.5x",
    );
    report(
        "B4 miss and store until settled, 16 callers, per call",
        crowd,
        bare,
        "1.0x",
    );
}

/// B5: hits per second of two threads and of one.
fn threads(home: &Path) {
    const EACH: usize = 100_000;
    let memory = memory(&home.join("threads.db"));
    let cache = cache(&memory, Some(&home.join("threads-ledger.db")), 64 << 20);
    let policy = Policy::default();
    let inputs: Vec<Canonical> = (0..64).map(input).collect();
    current_thread().block_on(async {
        for input in &inputs {
            store(&cache, input, &policy).await;
        }
    });
    let run = |threads: usize| {
        std::thread::scope(|scope| {
            for thread in 0..threads {
                let (cache, inputs, policy) = (cache.clone(), &inputs, &policy);
                scope.spawn(move || {
                    current_thread().block_on(async {
                        for n in 0..EACH / threads {
                            hit(&cache, &inputs[(n + thread * 32) % inputs.len()], policy).await;
                        }
                    });
                });
            }
        });
    };
    let [one, two, alone, together] = in_turns(
        31,
        EACH,
        [
            &mut |_| run(1),
            &mut |_| run(2),
            &mut |_| compute(1, EACH),
            &mut |_| compute(2, EACH),
        ],
    );
    let gain = |one: Duration, two: Duration| one.as_secs_f64() / two.as_secs_f64();
    let per_second = |time: Duration| 1.0 / time.as_secs_f64();
    println!(
        "B5 hits per second, 2 threads: {:.0}, 1 thread: {:.0}   {:.2}x   goal at least 1.7x (bare computing: {:.2}x)",
        per_second(two),
        per_second(one),
        gain(one, two),
        gain(alone, together)
    );
}

/// What two threads gain on this machine at this moment when they share nothing.
fn compute(threads: usize, each: usize) {
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(move || {
                let steps = 500 * each as u64 / threads as u64;
                let spin = |x: u64, step: u64| {
                    x.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(step) ^ (x >> 13)
                };
                std::hint::black_box((0..steps).fold(1, spin));
            });
        }
    });
}

const GROUP: usize = 100;

/// Fills a memory as the engine would: groups of a hundred under a label, the first half expired.
fn filled(path: &Path, entries: usize) -> Arc<dyn Store> {
    let memory = memory(path);
    let record = |number: usize| Record {
        key: Digest::sha256(&number.to_le_bytes()).to_hex(),
        value: Bytes::from_static(ANSWER),
        labels: vec![
            Label::new("name", "file.read"),
            Label::new("tag", format!("group-{}", number / GROUP)),
            Label::new("handle", format!("cache:agent:file.read:{number:012}")),
        ],
        expires: Some(if number < entries / 2 {
            number as i64
        } else {
            i64::MAX
        }),
        revision: 0,
        updated: 0,
    };
    current_thread().block_on(async {
        for from in (0..entries).step_by(256) {
            let storing: Vec<_> = (from..(from + 256).min(entries))
                .map(|number| {
                    let (memory, record) = (Arc::clone(&memory), record(number));
                    tokio::spawn(async move {
                        memory.put(space::CACHE, record, None, &[]).settle().await
                    })
                })
                .collect();
            for one in storing {
                one.await.unwrap().unwrap();
            }
        }
    });
    memory
}

/// B6: erasing a hundred among many.
fn erasing(home: &Path) {
    let small = cache(&filled(&home.join("small.db"), 100_000), None, 0);
    let large = cache(&filled(&home.join("large.db"), 1_000_000), None, 0);
    let runtime = current_thread();
    let group = |entries: usize, round: usize| EntryFilter {
        criteria: vec![LabelCriterion::Is(Label::new(
            "tag",
            format!("group-{}", entries / GROUP - 1 - round),
        ))],
        ..EntryFilter::default()
    };
    // The last two digits are the glob's: a hundred again, from groups that no other round touches.
    let glob = |entries: usize, round: usize| {
        let pattern = format!(
            "cache:agent:file.read:{:010}*",
            entries / GROUP - 100 - round
        );
        EntryFilter {
            criteria: vec![LabelCriterion::Glob {
                name: "handle".into(),
                pattern,
            }],
            ..EntryFilter::default()
        }
    };
    let erase = |cache: &Cache, which: &EntryFilter| {
        let erased = runtime.block_on(cache.erase(which, false)).unwrap();
        assert_eq!(erased.entries.len(), GROUP);
    };
    let sweep = |cache: &Cache| assert_eq!(runtime.block_on(cache.sweep(Some(100))).unwrap(), 100);
    let [few, many] = in_turns(
        31,
        1,
        [
            &mut |round| erase(&small, &group(100_000, round)),
            &mut |round| erase(&large, &group(1_000_000, round)),
        ],
    );
    report(
        "B6 erase by label, 100 of 1,000,000 vs of 100,000",
        many,
        few,
        "3x",
    );
    let [few, many] = in_turns(
        31,
        1,
        [
            &mut |round| erase(&small, &glob(100_000, round)),
            &mut |round| erase(&large, &glob(1_000_000, round)),
        ],
    );
    report(
        "B6 erase by prefix, 100 of 1,000,000 vs of 100,000",
        many,
        few,
        "3x",
    );
    let [few, many] = in_turns(31, 1, [&mut |_| sweep(&small), &mut |_| sweep(&large)]);
    report("B6 sweep, 100 of 1,000,000 vs of 100,000", many, few, "3x");
}

fn main() {
    let only: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    type Bench = fn(&Path);
    let benches: [(&str, Bench); 5] = [
        ("hits", hits),
        ("large", large),
        ("stores", stores),
        ("threads", threads),
        ("erasing", erasing),
    ];
    for (name, bench) in benches {
        if only.is_empty() || only.iter().any(|wanted| name.contains(wanted.as_str())) {
            let home = tempfile::tempdir().unwrap();
            bench(home.path());
        }
    }
}
