//! The contract of a store, on a Postgres server that the test process starts.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cachalot_backends::postgres::{PostgresStore, Server};
use cachalot_backends::testing::{Fault, FaultProxy, PostgresServer};
use cachalot_store::conformance::Subject;
use cachalot_store::{
    ErrorKind, Label, LabelMatch, Lease, Order, PageRequest, PutCondition, PutResult, Record,
    RecordFilter, ReserveResult, SpaceUsage, Store as _,
};

use crate::{CONNECT_TIMEOUT, parse, record, runtime, subject};

cachalot_store::memory_conformance_checks! { checks, shared() }

fn shared() -> Option<Subject> {
    let url = parse(&PostgresServer::shared()?.fresh_url());
    let open = |shift| {
        PostgresStore::with_shift(
            Server::new(&url, None)
                .unwrap()
                .connecting_within(CONNECT_TIMEOUT),
            shift,
        )
    };
    Some(subject(open))
}

fn open(url: &str) -> PostgresStore {
    PostgresStore::new(
        Server::new(&parse(url), None)
            .unwrap()
            .connecting_within(CONNECT_TIMEOUT),
    )
}

/// The tables of the first layout, with a function that it had and that has another result now.
#[test]
fn tables_of_layout_1_are_upgraded() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    server.execute(
        &url,
        concat!(
            include_str!("../../src/postgres/layout_1.sql"),
            "CREATE TABLE cachalot_layout(version int NOT NULL); INSERT INTO cachalot_layout VALUES (1);",
            "CREATE FUNCTION cachalot_raise_to(p_space bytea, p_name bytea, p_value bigint) RETURNS text ",
            "LANGUAGE sql AS $$ SELECT 'old' $$;",
            "INSERT INTO cachalot_counters VALUES ('cache', 'raised', 7), ('cache', 'checked', 0);",
            "INSERT INTO cachalot_records VALUES ('cache', 'old', 1, 1, 5, 5, NULL, '{tag}', '{x}', 'value');",
            "INSERT INTO cachalot_labels VALUES ('cache', 'tag', 'x', 'old');",
            "INSERT INTO cachalot_usage VALUES ('cache', 0, 1, 12);",
        ),
    );
    runtime().block_on(async {
        let store = open(&url);
        let tag = LabelMatch::Is {
            name: "tag",
            value: "x",
        };
        let filter = RecordFilter {
            labels: &[tag],
            ..RecordFilter::default()
        };
        let found = store.find("cache", &filter, PageRequest::first(10));
        assert_eq!(found.settle().await.unwrap().records[0].value, "value");
        let raised = store.raise_to("cache", "raised", 9);
        assert_eq!(raised.settle().await.unwrap(), 9);
        let counters = store.counters("cache", "", None, 10).settle().await;
        assert_eq!(counters.unwrap(), [("raised".to_owned(), 9)]);
        let erased = store.erase("cache", &filter, PageRequest::first(10));
        assert_eq!(erased.settle().await.unwrap().records.len(), 1);
        let usage = store.usage("cache").settle().await.unwrap();
        assert_eq!((usage.records, usage.bytes), (0, 0));
    });
}

/// The tables of the fourth layout, with the longest names that it accepted, and a function with other parameters.
#[test]
fn tables_of_layout_4_are_upgraded() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    let old = "o".repeat(600);
    server.execute(
        &url,
        &format!(
            "{}{}CREATE TABLE cachalot_layout(version int NOT NULL); INSERT INTO cachalot_layout VALUES (4);\
             CREATE FUNCTION cachalot_replace(p_space bytea, p_key bytea, p_value bytea) RETURNS bigint \
             LANGUAGE sql AS $$ SELECT 0::bigint $$;\
             INSERT INTO cachalot_counters VALUES ('cache', '{old}', 7);\
             INSERT INTO cachalot_records VALUES ('cache', '{old}', 1, 1, 5, 5, NULL, '{{tag}}', '{{{old}}}', 'value');\
             INSERT INTO cachalot_labels VALUES ('cache', 'tag', '{old}', '{old}');\
             INSERT INTO cachalot_leases VALUES ('cache', '{old}', 3, true, 0, '{{}}', '{{}}');\
             INSERT INTO cachalot_usage VALUES ('cache', 0, 1, 1208);",
            include_str!("../../src/postgres/layout_1.sql"),
            include_str!("../../src/postgres/layout_2.sql"),
        ),
    );
    runtime().block_on(async {
        let store = open(&url);
        let found = store.get("cache", &old, &[&old]).settle().await.unwrap();
        assert_eq!(
            (found.record.unwrap().key, found.counters),
            (old.clone(), vec![7])
        );
        let new = format!("{old}n");
        let lease = Lease {
            space: "cache".to_owned(),
            key: old.clone(),
            fence: 3,
        };
        for (key, lease, expected) in [(&old, Some(&lease), 2), (&new, None, 1)] {
            let labels = vec![Label::new("tag", key)];
            let record = record(key.clone(), b"value".to_vec(), labels);
            let counters = [(old.as_str(), 7), (new.as_str(), 0)];
            let put = store.put("cache", record, lease, &counters);
            let stored = PutResult::Stored { revision: expected };
            assert_eq!(put.settle().await.unwrap(), stored);
            let labels = [LabelMatch::Is {
                name: "tag",
                value: key,
            }];
            let filter = RecordFilter {
                prefix: key,
                labels: &labels,
                ..RecordFilter::default()
            };
            let found = store.find("cache", &filter, PageRequest::first(10));
            let found = found.settle().await.unwrap().records;
            assert_eq!((found.len(), &found[0].key), (1, key));
        }
        store.add("cache", &[(&new, 1)]).settle().await.unwrap();
        let counters = store.counters("cache", &old, None, 10).settle().await;
        assert_eq!(counters.unwrap(), [(old.clone(), 7), (new.clone(), 1)]);
        let all = RecordFilter::default();
        let erased = store.erase("cache", &all, PageRequest::keys(10));
        let erased = erased.settle().await.unwrap().records;
        assert_eq!((&erased[0].key, &erased[1].key), (&old, &new));
        assert_eq!(
            store.usage("cache").settle().await.unwrap(),
            SpaceUsage::default()
        );
    });
}

/// All kinds of writes at once on a few keys, by two stores: none fails, for example by a deadlock, and the usage is
/// the sum of what is left.
#[test]
fn concurrent_writes_neither_fail_nor_lose_count() {
    const SPACES: [&str; 2] = ["one", "two"];
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let stores = [Arc::new(open(&url)), Arc::new(open(&url))];
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..16_u64 {
            let store = Arc::clone(&stores[task as usize % 2]);
            tasks.spawn(async move {
                let mut state = task * 2 + 1;
                let mut below = move |limit: u64| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    (state >> 11) % limit
                };
                for step in 0..150 {
                    let space = SPACES[below(2) as usize];
                    let key = |number: u64| format!("key-{number}");
                    let mut new = || {
                        let label = Label::new("tag", below(3).to_string());
                        record(key(below(8)), vec![1; below(300) as usize], vec![label])
                    };
                    let (first, second, third) = (new(), new(), new());
                    let counters = [("erased", below(2)), ("epoch", step)];
                    let done = match below(9) {
                        0 | 1 => {
                            let put = store.put(space, first, None, &[]);
                            put.settle().await.map(drop)
                        }
                        2 => {
                            let put = store.put(space, first, None, &counters);
                            put.settle().await.map(drop)
                        }
                        3 => {
                            let condition = PutCondition {
                                space: "two",
                                key: &first.key,
                                value: None,
                            };
                            let records = vec![("two", second), ("one", third)];
                            store.put_all(condition, records).settle().await.map(drop)
                        }
                        4 => {
                            let tag = LabelMatch::Starts {
                                name: "tag",
                                prefix: "",
                            };
                            let filter = RecordFilter {
                                labels: &[tag],
                                order: [Order::Key, Order::LeastRecentlyUsed][below(2) as usize],
                                ..RecordFilter::default()
                            };
                            let erased = store.erase(space, &filter, PageRequest::keys(3));
                            erased.settle().await.map(drop)
                        }
                        5 => {
                            let used = [(third.key.as_str(), step as i64), ("key-1", i64::MAX)];
                            store.touch(space, &used).settle().await
                        }
                        6 => {
                            let additions = [("new", 1), ("epoch", 1), ("erased", 0)];
                            store.add(space, &additions).settle().await.map(drop)
                        }
                        7 => {
                            let hold = Duration::from_millis(below(5));
                            let lease = store.reserve(space, &first.key, &[], hold).settle().await;
                            match lease {
                                Ok(ReserveResult::Held(lease)) => {
                                    let put = store.put(space, first, Some(&lease), &counters[..1]);
                                    put.settle().await.map(drop)
                                }
                                other => other.map(drop),
                            }
                        }
                        _ => {
                            let found = store.get(space, &first.key, &[]).settle().await.unwrap();
                            match found.record {
                                Some(found) => {
                                    let amended = Record {
                                        value: first.value,
                                        ..found
                                    };
                                    store.amend(space, amended).settle().await.map(drop)
                                }
                                None => Ok(()),
                            }
                        }
                    };
                    done.unwrap();
                }
            });
        }
        tasks.join_all().await;
        for space in SPACES {
            let all = RecordFilter::default();
            let found = stores[0]
                .find(space, &all, PageRequest::first(100))
                .settle()
                .await;
            let records = found.unwrap().records;
            let bytes: usize = records
                .iter()
                .map(|record| {
                    let labels = record
                        .labels
                        .iter()
                        .map(|label| label.name.len() + label.value.len());
                    record.key.len() + record.value.len() + labels.sum::<usize>()
                })
                .sum();
            let usage = stores[0].usage(space).settle().await.unwrap();
            assert_eq!(
                (usage.records, usage.bytes),
                (records.len() as u64, bytes as u64)
            );
            for record in &records {
                let filter = RecordFilter {
                    prefix: &record.key,
                    labels: &[LabelMatch::Is {
                        name: "tag",
                        value: &record.labels[0].value,
                    }],
                    ..RecordFilter::default()
                };
                let found = stores[1]
                    .find(space, &filter, PageRequest::keys(1))
                    .settle()
                    .await;
                assert_eq!(found.unwrap().records.len(), 1);
            }
        }
    });
}

/// Puts that check a counter all the time do not keep it from being raised.
#[test]
fn puts_do_not_keep_an_erase_waiting() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let eraser = open(&url);
        eraser.add("space", &[("erased", 1)]).settle().await.unwrap();
        // Puts take time, as commits on a disk do.
        server.execute(
            &url,
            "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN PERFORM pg_sleep(0.02); RETURN NEW; \
             END $$; CREATE TRIGGER wait BEFORE INSERT OR UPDATE ON cachalot_records \
             FOR EACH ROW EXECUTE FUNCTION wait()",
        );
        let (stop, puts) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicI64::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for task in 0..24 {
            let (store, stop, puts) = (open(&url), Arc::clone(&stop), Arc::clone(&puts));
            let put = async move || {
                let new = record(task.to_string(), Vec::new(), Vec::new());
                let put = store.put("space", new, None, &[("erased", 1)]);
                put.settle().await.unwrap();
            };
            // One connection after another.
            put().await;
            tasks.spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    put().await;
                    puts.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        while puts.load(Ordering::Relaxed) < 200 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let adding = eraser.add("space", &[("erased", 0)]);
        let added = adding.within(LONG).await;
        stop.store(true, Ordering::Relaxed);
        tasks.join_all().await;
        assert_eq!(added.unwrap(), [1]);
    });
}

/// A database or role whose settings break the functions is refused with the remedy.
#[test]
fn unsuitable_settings_are_refused() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let url = server.fresh_url() + "%20-cdefault_transaction_isolation%3Dserializable";
    let error = runtime().block_on(async { open(&url).get("space", "key", &[]).settle().await });
    let error = error.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unsupported);
    assert!(
        error.to_string().contains("default_transaction_isolation"),
        "{error}"
    );
}

/// The time that the cache waits for a lookup in these tests, and that a reply of the server takes. Opening a
/// connection takes at least six replies.
const PATIENCE: Duration = Duration::from_millis(600);
const DELAY: Duration = Duration::from_millis(150);
/// Longer than anything takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// A store behind a proxy, with a record under `key`.
async fn store_behind_proxy() -> Option<(FaultProxy, PostgresStore)> {
    let server = PostgresServer::shared()?;
    let url = server.fresh_url();
    let new = record("key".to_owned(), Vec::new(), Vec::new());
    open(&url)
        .put("space", new, None, &[])
        .settle()
        .await
        .unwrap();
    let proxy = FaultProxy::start(server.port());
    let store = open(&proxy.url(&url, server.port()));
    Some((proxy, store))
}

async fn is_found(store: &PostgresStore) -> bool {
    is_found_within(store, LONG).await
}

async fn is_found_within(store: &PostgresStore, limit: Duration) -> bool {
    let found = store.get("space", "key", &["erased"]).within(limit);
    found.await.is_ok_and(|found| found.record.is_some())
}

/// Concurrent reads use an open connection, and others are opened beside them.
#[test]
fn reads_do_not_wait_for_further_connections() {
    runtime().block_on(async {
        let Some((proxy, store)) = store_behind_proxy().await else {
            return;
        };
        assert!(is_found(&store).await);
        proxy.set(Fault::HangNew);
        for _ in 0..10 {
            let both = tokio::join!(is_found(&store), is_found(&store));
            assert_eq!(both, (true, true));
        }
    });
}

/// Concurrent lookups, which are sent together, have their own answers, whatever number of counters they ask for, and
/// whether others are cancelled.
#[test]
fn concurrent_lookups_have_their_own_answers() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    const KEYS: usize = 40;
    // Every fourth is longer than the index allows; every third has no record.
    let key = |number: usize| {
        format!(
            "{}{number}",
            "k".repeat(700 * usize::from(number.is_multiple_of(4)))
        )
    };
    let names = [0, 1, 2, 3, 4, 5].map(|number| format!("counter {number}"));
    runtime().block_on(async {
        let store = Arc::new(open(&server.fresh_url()));
        for number in (0..KEYS).filter(|number| number % 3 > 0) {
            let new = record(key(number), vec![number as u8], Vec::new());
            store.put("space", new, None, &[]).settle().await.unwrap();
        }
        for (place, name) in names.iter().enumerate() {
            let additions = [(&name[..], place as u64)];
            store.add("space", &additions).settle().await.unwrap();
        }
        for round in 0..20 {
            let mut lookups = tokio::task::JoinSet::new();
            for number in 0..KEYS {
                let (store, key, names) = (Arc::clone(&store), key(number), names.clone());
                lookups.spawn(async move {
                    let counters: Vec<&str> = names.iter().map(|name| &name[..]).collect();
                    let counters = &counters[..number % 7];
                    let lookup = store.get("space", &key, counters).settle();
                    if (number + round).is_multiple_of(5) {
                        let cancelled = tokio::time::timeout(Duration::from_micros(50), lookup);
                        let _ = cancelled.await;
                        return;
                    }
                    let found = lookup.await.unwrap();
                    let value = found.record.map(|record| record.value.to_vec());
                    assert_eq!(value, (number % 3 > 0).then(|| vec![number as u8]));
                    let expected: Vec<u64> = (0..counters.len() as u64).collect();
                    assert_eq!(found.counters, expected);
                });
            }
            lookups.join_all().await;
        }
    });
}

/// Concurrent lookups whose connection is cut do not wait for answers, and succeed again when the server is back.
#[test]
fn concurrent_lookups_survive_a_cut() {
    runtime().block_on(async {
        let Some((proxy, store)) = store_behind_proxy().await else {
            return;
        };
        let lookups = || futures_util::future::join_all((0..32).map(|_| is_found(&store)));
        assert_eq!(lookups().await, [true; 32]);
        proxy.set(Fault::Refuse);
        assert_eq!(lookups().await, [false; 32]);
        proxy.set(Fault::None);
        let end = Instant::now() + LONG;
        while lookups().await != [true; 32] {
            assert!(Instant::now() < end, "the lookups still fail");
        }
    });
}

/// Listings that wait for the server do not keep lookups waiting.
#[test]
fn lookups_do_not_wait_for_listings() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    let schema = url.rsplit("%3D").next().unwrap().to_owned();
    let wait_for = async |state: &str| {
        let locks = format!(
            "SELECT count(*) FROM pg_locks JOIN pg_class ON pg_class.oid = relation WHERE {state} \
             AND relname = 'cachalot_counters' AND relnamespace = '{schema}'::regnamespace"
        );
        let end = Instant::now() + LONG;
        loop {
            let locks = locks.clone();
            let found = tokio::task::spawn_blocking(move || server.query(&locks));
            if found.await.unwrap() != "0" {
                return;
            }
            assert!(Instant::now() < end, "never: {state}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    runtime().block_on(async {
        let store = open(&url);
        let lookup = || store.get("space", "key", &[]).within(LONG);
        lookup().await.unwrap();
        server.execute(&url, "CREATE TABLE released (at int)");
        let locked = url.clone();
        let locking = std::thread::spawn(move || {
            let lock = "BEGIN; LOCK TABLE cachalot_counters; DO $$ BEGIN FOR n IN 1..12000 LOOP \
                EXIT WHEN EXISTS (SELECT FROM released); PERFORM pg_sleep(0.01); END LOOP; END $$; COMMIT";
            server.execute(&locked, lock);
        });
        wait_for("mode = 'AccessExclusiveLock' AND granted").await;
        let listing = || store.counters("space", "", None, 10).settle();
        let listings = async { tokio::join!(listing(), listing(), listing(), listing()) };
        tokio::pin!(listings);
        let lookups = async {
            wait_for("NOT granted").await;
            for _ in 0..3 {
                lookup().await.unwrap();
            }
        };
        tokio::select! {
            _ = &mut listings => panic!("the listings did not wait"),
            () = lookups => {}
        }
        server.execute(&url, "INSERT INTO released VALUES (1)");
        listings.await.0.unwrap();
        locking.join().unwrap();
    });
}

/// A connection takes longer to open than a caller waits: it is there for a later one.
#[test]
fn dropped_calls_do_not_lose_their_connection() {
    runtime().block_on(async {
        let Some((proxy, store)) = store_behind_proxy().await else {
            return;
        };
        proxy.set(Fault::Delay(DELAY));
        let end = Instant::now() + LONG;
        while !is_found_within(&store, PATIENCE).await {
            assert!(Instant::now() < end, "no connection was opened");
        }
        let end = Instant::now() + LONG;
        loop {
            let new = record("key".to_owned(), Vec::new(), Vec::new());
            let put = store.put("space", new, None, &[]).within(PATIENCE);
            if put.await.is_ok() {
                break;
            }
            assert!(Instant::now() < end, "no connection was opened for writes");
        }
    });
}

/// A server that answers every login with `reply`; the number of logins.
fn refusing_server(reply: Vec<u8>) -> (PostgresStore, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let logins = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&logins);
    std::thread::spawn(move || {
        for client in listener.incoming() {
            let mut client = client.unwrap();
            counted.fetch_add(1, Ordering::Relaxed);
            let _ = client.read(&mut [0; 4096]);
            let _ = client.write_all(&reply);
        }
    });
    let store = open(&format!("postgres://user:word@127.0.0.1:{port}/database"));
    (store, logins)
}

/// Only a server that refuses the parameters of the session is asked again without them.
#[test]
fn refused_logins_are_not_repeated() {
    for (code, expected) in [
        // A wrong password, no such database, too many connections, a server that starts.
        ("28P01", 1),
        ("3D000", 1),
        ("53300", 1),
        ("57P03", 1),
        // A connection that ends.
        ("", 1),
        // Poolers.
        ("08P01", 2),
        ("0A000", 2),
        ("58000", 2),
    ] {
        let fields = format!("SFATAL\0C{code}\0Mrefused\0\0");
        let mut reply = vec![b'E'];
        reply.extend((fields.len() as u32 + 4).to_be_bytes());
        reply.extend(fields.into_bytes());
        let (store, logins) = refusing_server(match code {
            "" => Vec::new(),
            _ => reply,
        });
        runtime().block_on(async { store.get("space", "key", &[]).settle().await.unwrap_err() });
        assert_eq!(logins.load(Ordering::Relaxed), expected, "{code}");
    }
}

/// A standby has the changes of the primary server later: it answers no lookup.
#[test]
fn standbys_are_refused() {
    let Some(primary) = PostgresServer::start(&["-c", "fsync=off"]) else {
        return;
    };
    let url = primary.fresh_url();
    runtime().block_on(async {
        let new = record("key".to_owned(), Vec::new(), Vec::new());
        open(&url)
            .put("space", new, None, &[])
            .settle()
            .await
            .unwrap();
        let standby = primary.start_standby();
        let (primary, standby) = (primary.port(), standby.port());
        let alone = open(&url.replace(&format!(":{primary}/"), &format!(":{standby}/")));
        let error = alone.get("space", "key", &[]).settle().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        assert!(error.message.contains("is a standby"), "{error}");
    });
}

/// A newer version replaces the functions while a process has the database open.
#[test]
fn functions_of_a_newer_version_are_not_called() {
    let Some(server) = PostgresServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    runtime().block_on(async {
        let store = open(&url);
        let put = async |key: &str| {
            let new = record(key.to_owned(), b"value".to_vec(), Vec::new());
            store.put("space", new, None, &[]).settle().await
        };
        put("before").await.unwrap();
        server.execute(
            &url,
            "ALTER FUNCTION cachalot_put RENAME TO cachalot_put_newer; \
             UPDATE cachalot_layout SET version = version + 1",
        );
        for _ in 0..2 {
            let error = put("after").await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::TooNew, "{error}");
        }
        let found = store.get("space", "before", &[]).settle().await;
        assert_eq!(found.unwrap_err().kind, ErrorKind::TooNew);
        server.execute(
            &url,
            "ALTER FUNCTION cachalot_put_newer RENAME TO cachalot_put; \
             UPDATE cachalot_layout SET version = version - 1",
        );
        put("after").await.unwrap();
        let found = store.get("space", "before", &[]).settle().await.unwrap();
        assert!(found.record.is_some());
    });
}
