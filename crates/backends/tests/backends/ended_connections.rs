//! Connections that end while they are idle, or in place of a reply: calls that can be repeated succeed, and none is
//! executed twice that must not be.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_backends::open;
use cachalot_backends::testing::{Fault, FaultProxy, PgBouncer, PostgresServer, RedisServer};
use cachalot_store::{
    ErrorKind, GetOrReserve, Lease, PageRequest, PutAllResult, PutCondition, PutResult,
    RecordFilter, ReserveResult, Stale, Store, space,
};

use crate::faults::{proxied, stores_with_connections};
use crate::{parse, patient, record, runtime, spent};

/// A server whose connections can be ended.
struct Subject {
    store: Arc<dyn Store>,
    end_connections: Box<dyn Fn()>,
}

fn subject(url: &str, end_connections: impl Fn() + 'static) -> Subject {
    Subject {
        store: open(&parse(url), &patient()).unwrap(),
        end_connections: Box::new(end_connections),
    }
}

/// A server behind a proxy that ends connections.
fn subject_behind_proxy(url: &str, port: u16) -> Subject {
    let (proxy, store) = proxied(url, port);
    Subject {
        store,
        end_connections: Box::new(move || proxy.end_connections()),
    }
}

/// Servers that end connections, and machines in between that do.
fn subjects() -> Vec<Subject> {
    let mut subjects = Vec::new();
    if let Some(server) = RedisServer::start(&[]) {
        let server: &'static RedisServer = Box::leak(Box::new(server));
        subjects.push(subject(&server.fresh_url(), move || {
            server.end_connections()
        }));
        subjects.push(subject_behind_proxy(&server.fresh_url(), server.port()));
    }
    if let Some(server) = PostgresServer::start(&["-c", "fsync=off"]) {
        let server: &'static PostgresServer = Box::leak(Box::new(server));
        subjects.push(subject(&server.fresh_url(), move || {
            server.end_connections()
        }));
        subjects.push(subject_behind_proxy(&server.fresh_url(), server.port()));
    }
    if let (Some(pooler), Some(server)) = (PgBouncer::shared(), PostgresServer::shared()) {
        subjects.push(subject_behind_proxy(&pooler.fresh_url(), pooler.port()));
        // Those of the pooler to the server, of this test's user only.
        let url = pooler.fresh_url();
        let user = url["postgres://".len()..]
            .split(':')
            .next()
            .unwrap()
            .to_owned();
        subjects.push(subject(&url, move || server.end_connections_of(&user)));
    }
    subjects
}

const HOLD: Duration = Duration::from_secs(60);

fn lookup(stale: Stale) -> GetOrReserve<'static> {
    GetOrReserve {
        counters: &["epoch"],
        labels: &[],
        hold: HOLD,
        stale,
    }
}

async fn reserve(store: &dyn Store, key: &str) -> Lease {
    match store.reserve(space::CACHE, key, &[], HOLD).settle().await {
        Ok(ReserveResult::Held(lease)) => lease,
        other => panic!("{other:?}"),
    }
}

/// Each call comes after all connections have ended, and succeeds.
#[test]
fn calls_after_idle_connections_have_ended_succeed() {
    runtime().block_on(async {
        for subject in subjects() {
            let (store, end) = (&*subject.store, &*subject.end_connections);
            let all = RecordFilter::default();
            for round in 0..4 {
                let key = format!("key-{round}");
                let new = || record(key.clone(), key.clone().into_bytes(), Vec::new());
                end();
                let lease = reserve(store, &key).await;
                end();
                assert!(store.renew(&lease, HOLD).settle().await.unwrap());
                end();
                let counters = [("epoch", 0)];
                let put = store.put(space::CACHE, new(), Some(&lease), &counters);
                let put = put.settle().await.unwrap();
                assert!(matches!(put, PutResult::Stored { .. }), "{put:?}");
                end();
                let found = store.get(space::CACHE, &key, &["epoch"]).settle().await;
                assert!(found.unwrap().record.is_some());
                end();
                let found = store.get_or_reserve(space::CACHE, &key, lookup(Stale::None));
                assert!(found.settle().await.unwrap().reserved.is_none());
                end();
                let put = store.put(space::USER, new(), None, &[]).settle().await;
                assert!(matches!(put.unwrap(), PutResult::Stored { .. }));
                end();
                let found = store.find(space::USER, &all, PageRequest::keys(9));
                assert_eq!(found.settle().await.unwrap().records.len(), round + 1);
                end();
                let condition = PutCondition {
                    space: "sessions",
                    key: &key,
                    value: None,
                };
                let put = store.put_all(condition, vec![("sessions", new())]);
                assert_eq!(put.settle().await.unwrap(), PutAllResult::Stored);
                end();
                let counted = store.counters(space::CACHE, "", None, 9).settle().await;
                // Of the put, the erase, and `raise_to` of the round before.
                assert!(counted.unwrap().len() <= 3);
                end();
                let touched = store.touch(space::CACHE, &[(&key, 1)]).settle().await;
                touched.unwrap();
                end();
                let raised = store.raise_to(space::CACHE, "other", 7).settle().await;
                assert_eq!(raised.unwrap(), 7);
                end();
                let usage = store.usage(space::USER).settle().await.unwrap();
                assert_eq!(usage.records, round as u64 + 1);
                end();
                store.release(lease).settle().await.unwrap();
                let only = RecordFilter {
                    prefix: &key,
                    ..all
                };
                end();
                let erased = store.erase(space::CACHE, &only, PageRequest::keys(9));
                assert_eq!(erased.settle().await.unwrap().records.len(), 1);
                end();
                store.inspect().settle().await.unwrap();
            }
            end();
            let added = store.add(space::CACHE, &[("epoch", 1)]).settle().await;
            assert!(added.unwrap()[0] >= 1);
        }
    });
}

/// Money is counted once, or not at all: an increment whose reply is lost fails.
#[test]
fn increments_of_sums_are_never_executed_twice() {
    runtime().block_on(async {
        for subject in subjects() {
            let (store, end) = (&*subject.store, &*subject.end_connections);
            let (mut counted, mut unknown) = (0, 0);
            let until = Instant::now() + Duration::from_secs(60);
            // The client knows of the end of most connections before it sends.
            while counted < 20 {
                assert!(Instant::now() < until, "{counted}, {unknown}");
                end();
                match store.add(space::GATEWAY, &[("spent", 1)]).settle().await {
                    Ok(_) => counted += 1,
                    Err(error) if error.kind == ErrorKind::Unavailable => unknown += 1,
                    Err(error) => panic!("{error}"),
                }
            }
            let spent = spent(store).await;
            assert!(
                (counted..=counted + unknown).contains(&spent),
                "{spent}: {counted}, {unknown}"
            );
        }
    });
}

/// Opens all connections of a store.
async fn connect(store: &dyn Store) {
    for _ in 0..8 {
        store.get("x", "x", &[]).settle().await.unwrap();
        let all = RecordFilter::default();
        let found = store.find("x", &all, PageRequest::keys(1));
        found.settle().await.unwrap();
        store.touch("x", &[("x", 1)]).settle().await.unwrap();
        store.raise_to("x", "x", 1).settle().await.unwrap();
    }
}

/// The server has executed the calls whose replies are lost.
#[test]
fn lost_replies_are_asked_for_again_where_that_is_safe() {
    runtime().block_on(async {
        for (proxy, store) in stores_with_connections() {
            let store = &*store;
            let name = store.about().name;
            let new = || record("key".to_owned(), b"value".to_vec(), Vec::new());
            let lose = async || {
                connect(store).await;
                proxy.set(Fault::LoseNextReply);
            };
            let lease = reserve(store, "key").await;
            lose().await;
            let put = store.put(space::CACHE, new(), Some(&lease), &[("epoch", 0)]);
            let put = put.settle().await.unwrap();
            assert_eq!(put, PutResult::Stored { revision: 1 }, "{name}");
            lose().await;
            let found = store.get(space::CACHE, "key", &["epoch"]).settle().await;
            assert_eq!(found.unwrap().record.unwrap().value, "value", "{name}");
            lose().await;
            let found = store.get_or_reserve(space::CACHE, "key", lookup(Stale::None));
            let found = found.settle().await.unwrap();
            assert!(found.reserved.is_none() && found.found.record.is_some());
            // A miss has its reservation, and no other caller has it.
            lose().await;
            let missed = store.get_or_reserve(space::CACHE, "miss", lookup(Stale::None));
            let missed = missed.settle().await.unwrap().reserved;
            let Some(ReserveResult::Held(_)) = missed else {
                panic!("{name}: {missed:?}");
            };
            lose().await;
            let lease = reserve(store, "reserved").await;
            let busy = store.reserve(space::CACHE, "reserved", &[], HOLD);
            let busy = busy.settle().await.unwrap();
            assert!(matches!(busy, ReserveResult::Busy { .. }), "{busy:?}");
            assert!(store.renew(&lease, HOLD).settle().await.unwrap());
            lose().await;
            let added = store.add(space::CACHE, &[("epoch", 1)]).settle().await;
            assert!(added.unwrap()[0] >= 1);
            lose().await;
            let put = store.put(space::USER, new(), None, &[]).settle().await;
            assert!(matches!(put, Ok(PutResult::Stored { .. })), "{put:?}");

            // The first execution changes what the second one depends on.
            lose().await;
            let condition = PutCondition {
                space: "sessions",
                key: "key",
                value: None,
            };
            let put = store.put_all(condition, vec![("sessions", new())]).settle();
            let error = put.await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
            let found = store.get("sessions", "key", &[]).settle().await.unwrap();
            assert_eq!(found.record.unwrap().revision, 1);
            lose().await;
            let added = store.add(space::GATEWAY, &[("spent", 5)]).settle().await;
            assert_eq!(added.unwrap_err().kind, ErrorKind::Unavailable, "{name}");
            assert_eq!(spent(store).await, 5, "{name}");

            // Its page tells what it has erased: it is executed once.
            lose().await;
            let only = RecordFilter {
                prefix: "key",
                ..RecordFilter::default()
            };
            let erased = store.erase(space::USER, &only, PageRequest::keys(9));
            let error = erased.settle().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unavailable, "{name}: {error}");
            let left = store.get(space::USER, "key", &[]).settle().await.unwrap();
            assert!(left.record.is_none(), "{name}");
            // Of an erase of entries, only the effect matters.
            lose().await;
            let erased = store.erase(space::CACHE, &only, PageRequest::keys(9));
            erased.settle().await.unwrap();
            let left = store.get(space::CACHE, "key", &[]).settle().await.unwrap();
            assert!(left.record.is_none(), "{name}");

            // A lease that was ended by an erase is lost, whatever becomes of the replies.
            let lease = reserve(store, "erased").await;
            let all = RecordFilter::default();
            let erased = store.erase(space::CACHE, &all, PageRequest::keys(9));
            erased.settle().await.unwrap();
            lose().await;
            let late = record("erased".to_owned(), b"value".to_vec(), Vec::new());
            let put = store.put(space::CACHE, late, Some(&lease), &[]).settle();
            assert_eq!(put.await.unwrap(), PutResult::LeaseLost, "{name}");
        }
    });
}

/// Answers as a Redis server that reads its file into memory, until the client leaves.
fn answer_as_loading(mut client: TcpStream) {
    let mut buffer = [0; 4 << 10];
    while let Ok(read @ 1..) = client.read(&mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..read]);
        let reply = if text.contains("$4\r\nINFO\r\n") {
            "-LOADING Redis is loading the dataset in memory\r\n".to_owned()
        } else {
            "+OK\r\n".repeat(format!("\r\n{text}").matches("\r\n*").count())
        };
        if client.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

#[test]
fn writes_wait_for_a_server_that_reads_its_file() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let proxy = Arc::new(FaultProxy::start(server.port()));
    let url = proxy.url(&server.fresh_url(), server.port());
    let loading = TcpListener::bind("127.0.0.1:0").unwrap();
    runtime().block_on(async {
        let store = open(&parse(&url), &patient()).unwrap();
        let new = |key: &str| record(key.to_owned(), b"value".to_vec(), Vec::new());
        let put = store.put(space::USER, new("first"), None, &[]);
        put.settle().await.unwrap();
        proxy.lead_to(loading.local_addr().unwrap().port());
        proxy.end_connections();
        let (back, port) = (Arc::clone(&proxy), server.port());
        let answering = std::thread::spawn(move || {
            let (client, _) = loading.accept().unwrap();
            back.lead_to(port);
            answer_as_loading(client);
        });
        let put = store.put(space::USER, new("second"), None, &[]);
        let put = put.settle().await;
        assert!(matches!(put, Ok(PutResult::Stored { .. })), "{put:?}");
        answering.join().unwrap();
    });
}
