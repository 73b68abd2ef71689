//! What the SQLite memory costs, as ratios to bare SQLite in the same run: medians over interleaved
//! rounds. `cargo bench -p cachalot-store --bench sqlite [-- NAME]` with a name of `read`, `store`, `sweep`,
//! `open`; `QUICK=1` leaves out the large databases.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachalot_core::SystemClock;
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};
use cachalot_store::{
    Label, LabelMatch, Order, PageRequest, Record, RecordFilter, ReserveResult, Store, StoreReply,
};
use rusqlite::{Connection, params};

const HOLD: Duration = Duration::from_secs(60);

fn main() {
    let wanted: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let runs = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    if runs("read") {
        read(directory.path());
    }
    if runs("store") {
        store(directory.path());
    }
    if runs("open") {
        open_and_close(directory.path());
    }
    if runs("sweep") {
        sweep(directory.path());
    }
}

/// Microseconds per call: the median over rounds, one figure per candidate.
fn medians<const N: usize>(
    rounds: usize,
    mut candidates: [Box<dyn FnMut() -> Duration + '_>; N],
) -> [f64; N] {
    let mut times: [Vec<f64>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..rounds {
        for (candidate, times) in candidates.iter_mut().zip(&mut times) {
            times.push(candidate().as_secs_f64() * 1e6);
        }
    }
    times.map(|mut times| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    })
}

/// The time of one of `count` calls.
fn each(count: u32, mut call: impl FnMut()) -> Duration {
    let start = Instant::now();
    for _ in 0..count {
        call();
    }
    start.elapsed() / count
}

fn memory(path: &Path) -> SqliteStore {
    SqliteStore::open(path, SqliteOptions::new(Arc::new(SystemClock))).unwrap()
}

/// A bare connection, set as the memory's are.
fn bare(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL; PRAGMA mmap_size=268435456; PRAGMA busy_timeout=2000;")
        .unwrap();
    connection
}

fn key(number: u64) -> String {
    // Spread like digests, so that neighbours in time are not neighbours in the index.
    let high = number.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    format!("{high:016x}{:016x}{number:032x}", high.rotate_left(31))
}

fn record(number: u64, bytes: usize) -> Record {
    Record {
        key: key(number),
        value: Bytes::from(vec![7u8; bytes]),
        labels: vec![
            Label::new("handle", format!("cache:agent:{number}")),
            Label::new("action", "web.search"),
        ],
        expires: Some(2_000_000_000_000 + number as i64),
        revision: 0,
        updated: 0,
    }
}

fn settle<T: Send>(answer: StoreReply<'_, T>) -> T {
    match answer {
        StoreReply::Now(answer) => answer.unwrap(),
        StoreReply::Later(_) => panic!("not answered at once"),
    }
}

fn read(directory: &Path) {
    println!("\n## read: one record among 10,000, by key (B3)\n");
    for bytes in [100, 10_000] {
        let path = directory.join(format!("read-{bytes}.db"));
        let reference = bare(&directory.join(format!("read-bare-{bytes}.db")));
        reference
            .execute_batch("CREATE TABLE e(id INTEGER PRIMARY KEY, k TEXT NOT NULL UNIQUE, v BLOB)")
            .unwrap();
        let memory = memory(&path);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .build()
            .unwrap();
        reference.execute_batch("BEGIN").unwrap();
        for number in 0..10_000 {
            runtime
                .block_on(
                    memory
                        .put("cache", record(number, bytes), None, &[])
                        .settle(),
                )
                .unwrap();
            reference
                .execute(
                    "INSERT INTO e(k, v) VALUES (?, ?)",
                    params![key(number), vec![7u8; bytes]],
                )
                .unwrap();
        }
        reference.execute_batch("COMMIT").unwrap();
        let keys: Vec<String> = (0..10_000).map(key).collect();
        let mut statement = reference.prepare("SELECT v FROM e WHERE k = ?").unwrap();
        let counters = ["domain one", "domain two"];
        let mut at = 0;
        let mut next = move || {
            at = (at + 7919) % 10_000;
            at
        };
        let (mut a, mut b, mut c) = (next, next, next);
        let [bare, get, with, stamp] = medians(
            31,
            [
                Box::new(|| {
                    each(3000, || {
                        let value: Vec<u8> = statement
                            .query_row([&keys[next()]], |row| row.get(0))
                            .unwrap();
                        assert_eq!(value.len(), bytes);
                    })
                }),
                Box::new(|| {
                    each(3000, || {
                        assert!(
                            settle(memory.get("cache", &keys[a()], &[]))
                                .record
                                .is_some()
                        )
                    })
                }),
                Box::new(|| {
                    each(3000, || {
                        assert!(
                            settle(memory.get("cache", &keys[b()], &counters))
                                .record
                                .is_some()
                        )
                    })
                }),
                Box::new(|| {
                    each(3000, || {
                        assert!(memory.stamp("cache", &keys[c()]).is_some())
                    })
                }),
            ],
        );
        println!(
            "{bytes} B: bare SELECT {bare:.2} µs; get {get:.2} µs = {:.2}×; with two counters {with:.2} µs = {:.2}×; stamp {:.0} ns",
            get / bare,
            with / bare,
            stamp * 1e3
        );
    }
}

fn store(directory: &Path) {
    println!("\n## store: reserve, then put, until durable; 200 B, two labels, an expiry (B4)\n");
    let reference = bare(&directory.join("store-bare.db"));
    reference
        .execute_batch("CREATE TABLE e(id INTEGER PRIMARY KEY, k TEXT NOT NULL UNIQUE, v BLOB)")
        .unwrap();
    let indexed = bare(&directory.join("store-indexed.db"));
    indexed
        .execute_batch(
            "CREATE TABLE e(id INTEGER PRIMARY KEY, k TEXT NOT NULL UNIQUE, name TEXT, v BLOB, expires INTEGER, used INTEGER);
             CREATE INDEX e_exp ON e(expires); CREATE INDEX e_name ON e(name); CREATE INDEX e_used ON e(used);",
        )
        .unwrap();
    let mut plain = reference
        .prepare("INSERT INTO e(k, v) VALUES (?, ?) ON CONFLICT(k) DO UPDATE SET v = excluded.v")
        .unwrap();
    let mut with = indexed
        .prepare("INSERT INTO e(k, name, v, expires, used) VALUES (?, ?, ?, ?, ?) ON CONFLICT(k) DO UPDATE SET v = excluded.v")
        .unwrap();
    let value = vec![1u8; 200];
    let (mut a, mut b, mut c) = (0u64, 0u64, 0u64);
    let (mut d, mut e, mut f) = (1u64 << 32, 1u64 << 33, 1u64 << 34);
    let one = Arc::new(memory(&directory.join("store-1.db")));
    let few = Arc::new(memory(&directory.join("store-4.db")));
    let many = Arc::new(memory(&directory.join("store-16.db")));
    let alone = Arc::new(memory(&directory.join("store-put.db")));
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let [plain, with, put, one, few, many] = medians(
        41,
        [
            Box::new(|| {
                each(300, || {
                    a += 1;
                    plain.execute(params![key(a), value]).unwrap();
                })
            }),
            Box::new(|| {
                each(300, || {
                    b += 1;
                    with.execute(params![
                        key(b),
                        format!("cache:agent:{b}"),
                        value,
                        5_000_000 + b as i64,
                        b as i64
                    ])
                    .unwrap();
                })
            }),
            Box::new(|| {
                let memory = Arc::clone(&alone);
                runtime
                    .block_on(async { tokio::spawn(puts(memory, &mut c, 300)).await })
                    .unwrap()
            }),
            Box::new(|| runtime.block_on(callers(&one, 1, 300, &mut d))),
            Box::new(|| runtime.block_on(callers(&few, 4, 300, &mut e))),
            Box::new(|| runtime.block_on(callers(&many, 16, 300, &mut f))),
        ],
    );
    println!("bare upsert, one index {plain:.1} µs, four indexes {with:.1} µs");
    println!(
        "put alone, 1 caller: {put:.1} µs = {:.2}×, {:.2}×",
        put / plain,
        put / with
    );
    println!(
        "1 caller: {one:.1} µs = {:.2}×, {:.2}×",
        one / plain,
        one / with
    );
    for (callers, time) in [(4, few), (16, many)] {
        println!(
            "{callers} callers: {time:.1} µs per call = {:.2}×, {:.2}×",
            time / plain,
            time / with
        );
    }
}

fn puts(
    memory: Arc<SqliteStore>,
    number: &mut u64,
    count: u64,
) -> impl Future<Output = Duration> + Send + 'static {
    let first = *number;
    *number += count;
    async move {
        let start = Instant::now();
        for number in first..first + count {
            memory
                .put("cache", record(number, 200), None, &[])
                .settle()
                .await
                .unwrap();
        }
        start.elapsed() / count as u32
    }
}

/// So many tasks reserve and store, `count` times together.
async fn callers(memory: &Arc<SqliteStore>, tasks: u64, count: u64, number: &mut u64) -> Duration {
    let share = count.div_ceil(tasks);
    let start = Instant::now();
    let tasks: Vec<_> = (0..tasks)
        .map(|_| {
            let memory = Arc::clone(memory);
            let first = *number;
            *number += share;
            tokio::spawn(async move {
                for number in first..first + share {
                    let record = record(number, 200);
                    let reserved = memory
                        .reserve("cache", &record.key, &record.labels, HOLD)
                        .settle()
                        .await
                        .unwrap();
                    let ReserveResult::Held(lease) = reserved else {
                        panic!("reserved by somebody else")
                    };
                    memory
                        .put("cache", record, Some(&lease), &[])
                        .settle()
                        .await
                        .unwrap();
                }
            })
        })
        .collect();
    let total = share * tasks.len() as u64;
    for task in tasks {
        task.await.unwrap();
    }
    start.elapsed() / total as u32
}

fn open_and_close(directory: &Path) {
    println!("\n## open\n");
    let mut number = 0;
    let existing = directory.join("open.db");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime
        .block_on(
            memory(&existing)
                .put("cache", record(1, 100), None, &[])
                .settle(),
        )
        .unwrap();
    let wanted = key(1);
    let [create, open, hit, store] = medians(
        31,
        [
            Box::new(|| {
                number += 1;
                let start = Instant::now();
                let memory = memory(&directory.join(format!("new-{number}.db")));
                let elapsed = start.elapsed();
                drop(memory);
                elapsed
            }),
            Box::new(|| {
                let start = Instant::now();
                let memory = memory(&existing);
                let elapsed = start.elapsed();
                drop(memory);
                elapsed
            }),
            Box::new(|| {
                each(1, || {
                    let memory = memory(&existing);
                    assert!(settle(memory.get("cache", &wanted, &[])).record.is_some());
                })
            }),
            Box::new(|| {
                each(1, || {
                    let memory = memory(&existing);
                    runtime
                        .block_on(memory.put("cache", record(1, 100), None, &[]).settle())
                        .unwrap();
                })
            }),
        ],
    );
    println!(
        "create {create:.0} µs; open {open:.0} µs; open, get, close {hit:.0} µs; open, put, close {store:.0} µs"
    );
}

/// A memory of `count` records, of which `marked` have expired and carry a tag and a prefix of their own.
fn fill(path: &Path, count: u64) -> SqliteStore {
    drop(memory(path));
    let mut connection = bare(path);
    let transaction = connection.transaction().unwrap();
    {
        let mut records = transaction
            .prepare("INSERT INTO records(space, key, revision, updated, used, expires, labels, value) VALUES ('cache', ?1, 1, ?2, ?2, ?3, ?4, ?5)")
            .unwrap();
        let mut labels = transaction
            .prepare("INSERT INTO labels(space, name, value, key) VALUES ('cache', 'tag', ?1, ?2)")
            .unwrap();
        for number in 0..count {
            let marked = (number.is_multiple_of(count / 1000)).then_some(number / (count / 1000));
            let tag = marked.map_or(format!("t{}", number % 500), |mark| {
                format!("hot{}", mark % 10)
            });
            let key = match marked {
                Some(mark) => format!("marked:{}:{}", mark % 10, key(number)),
                None => key(number),
            };
            let expires = marked.map_or(1_000_000 + number as i64, |mark| (mark % 10) as i64);
            let mut encoded = vec![3];
            encoded.extend_from_slice(b"tag");
            encoded.push(tag.len() as u8);
            encoded.extend_from_slice(tag.as_bytes());
            records
                .execute(params![
                    key,
                    number as i64,
                    expires,
                    encoded,
                    vec![7u8; 200]
                ])
                .unwrap();
            labels.execute(params![tag, key]).unwrap();
        }
        transaction
            .execute(
                "INSERT INTO spaces(space, reserved, fence, until, labels, records, bytes) VALUES ('cache', '', 0, 0, x'', ?, ?)",
                params![count as i64, count as i64 * 300],
            )
            .unwrap();
    }
    transaction.commit().unwrap();
    connection
        .execute_batch("PRAGMA wal_checkpoint(TRUNCATE)")
        .unwrap();
    drop(connection);
    memory(path)
}

fn sweep(directory: &Path) {
    println!("\n## erase 100 of many (B6), milliseconds\n");
    let sizes: &[u64] = if std::env::var_os("QUICK").is_some() {
        &[10_000, 100_000]
    } else {
        &[100_000, 1_000_000]
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    let mut before = [0.0; 3];
    for &size in sizes {
        let memory = fill(&directory.join(format!("sweep-{size}.db")), size);
        let mut times: [Vec<f64>; 3] = std::array::from_fn(|_| Vec::new());
        for round in 0..9 {
            // Every round erases the hundred records of its own group.
            let (tag, prefix) = (format!("hot{round}"), format!("marked:{round}:"));
            let labels = [LabelMatch::Is {
                name: "tag",
                value: &tag,
            }];
            let filters = [
                RecordFilter {
                    expired_before: Some(round + 1),
                    order: Order::Expiry,
                    ..RecordFilter::default()
                },
                RecordFilter {
                    labels: &labels,
                    ..RecordFilter::default()
                },
                RecordFilter {
                    prefix: &prefix,
                    ..RecordFilter::default()
                },
            ];
            let way = round as usize % 3;
            let start = Instant::now();
            let erased = runtime
                .block_on(
                    memory
                        .erase("cache", &filters[way], PageRequest::keys(100))
                        .settle(),
                )
                .unwrap();
            times[way].push(start.elapsed().as_secs_f64() * 1e3);
            assert_eq!(erased.records.len(), 100);
        }
        let now = times.map(|mut times| {
            times.sort_by(f64::total_cmp);
            times[times.len() / 2]
        });
        println!(
            "{size}: expired {:.2}, label {:.2}, prefix {:.2}",
            now[0], now[1], now[2]
        );
        if before[0] > 0.0 {
            println!(
                "ratio: {:.2}×, {:.2}×, {:.2}×",
                now[0] / before[0],
                now[1] / before[1],
                now[2] / before[2]
            );
        }
        before = now;
    }
}
