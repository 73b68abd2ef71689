//! The contract of a store, on a libSQL server that the test process starts.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use cachalot_backends::testing::LibsqlServer;
use cachalot_backends::turso::{Server, TursoStore};
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_store::conformance::Subject;
use cachalot_store::{ErrorKind, Order, PageRequest, Pages, RecordFilter, Store as _, ValuePart};
use tokio::sync::Mutex;

use crate::{parse, record, runtime, subject};

cachalot_store::memory_conformance_checks! { checks, empty() }

fn server(url: &str) -> Server {
    let http = HttpClient::new(HttpOptions::default()).unwrap();
    Server::new(&parse(url), None, http).unwrap()
}

/// The server has one database: the tests have it one after another.
fn empty() -> Option<Subject> {
    static TURN: Mutex<()> = Mutex::const_new(());
    let url = LibsqlServer::shared()?.url();
    let turn = TURN.blocking_lock();
    runtime().block_on(server(&url).clear()).unwrap();
    let open = |shift| TursoStore::with_shift(server(&url), shift);
    Some(subject(open).keeping(turn))
}

/// A call that its caller does not wait for leaves no transaction open.
#[test]
fn dropped_calls_do_not_block_others() {
    let Some(server_process) = LibsqlServer::start(&[]) else {
        return;
    };
    let url = server_process.url();
    runtime().block_on(async {
        let store = TursoStore::new(server(&url));
        for number in 0..300 {
            let added = store.add("space", &[("dropped", 1)]);
            let limit = Duration::from_micros(number * 20);
            let _ = added.within(limit).await;
        }
        let started = Instant::now();
        let added = store.add("space", &[("counted", 1)]).settle().await;
        assert_eq!(added.unwrap(), [1]);
        assert!(
            started.elapsed() < Duration::from_secs(6),
            "{:?}",
            started.elapsed()
        );
    });
}

/// A server limits the size of its answers.
#[test]
fn pages_of_large_values_are_short() {
    let Some(subject) = empty() else {
        return;
    };
    runtime().block_on(async {
        let store = &*subject.store;
        for number in 0..5 {
            let new = record(format!("key {number}"), vec![number; 3 << 20], Vec::new());
            store.put("space", new, None, &[]).settle().await.unwrap();
        }
        let request = PageRequest {
            values: ValuePart::All,
            ..PageRequest::keys(100)
        };
        let mut pages = Pages::new(store, "space", RecordFilter::default(), request);
        let mut found = Vec::new();
        while let Some(page) = pages.next().await.unwrap() {
            assert!(page.records.len() <= 2);
            found.extend(page.records);
        }
        assert_eq!(found.len(), 5);
        for (number, record) in found.iter().enumerate() {
            assert!(record.value.len() == 3 << 20 && record.value[0] as usize == number);
        }
        let all = RecordFilter::default();
        let erased = store.erase("space", &all, request).settle().await.unwrap();
        assert_eq!(
            (erased.records.len(), erased.next.as_deref()),
            (2, Some("key 1"))
        );
        assert_eq!(store.usage("space").settle().await.unwrap().records, 3);
    });
}

/// Only in key order may a page have a successor: in another order it has all that was asked for.
#[test]
fn pages_in_other_orders_are_complete() {
    let Some(subject) = empty() else {
        return;
    };
    runtime().block_on(async {
        let store = &*subject.store;
        let expected: Vec<u8> = (0..7).rev().collect();
        for number in 0..7 {
            let new = record(format!("key {number}"), vec![number; 3 << 20], Vec::new());
            store.put("space", new, None, &[]).settle().await.unwrap();
        }
        let newest = RecordFilter {
            order: Order::Newest,
            ..RecordFilter::default()
        };
        for limit in [6, 7, 500] {
            let found = store.find("space", &newest, PageRequest::first(limit));
            let found = found.settle().await.unwrap();
            let first: Vec<_> = found.records.iter().map(|record| record.value[0]).collect();
            assert_eq!(first, expected[..limit.min(7) as usize]);
            assert!(
                found
                    .records
                    .iter()
                    .all(|record| record.value.len() == 3 << 20)
            );
            assert_eq!((found.sizes.len(), found.next), (first.len(), None));
        }
        // Erased records cannot be asked for again.
        let erased = store.erase("space", &newest, PageRequest::first(500));
        let error = erased.settle().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
        assert_eq!(store.usage("space").settle().await.unwrap().records, 7);
        let erased = store.erase("space", &newest, PageRequest::labels(500));
        assert_eq!(erased.settle().await.unwrap().records.len(), 7);
    });
}

/// Answers of a server, or of a machine in between, that does not speak the protocol.
#[test]
fn other_answers_are_errors() {
    let answers = [
        "{}",
        "[]",
        "null",
        "\"ok\"",
        "{\"results\":[]}",
        "{\"results\":{}}",
        "{\"results\":[1]}",
        "{\"results\":[{\"type\":\"ok\",\"response\":[]}]}",
        "{\"results\":[{\"response\":{\"result\":[]}}]}",
        "{\"results\":[{\"response\":{\"result\":{\"step_errors\":1,\"step_results\":[]}}}]}",
        "{\"results\":[{\"response\":{\"result\":{\"step_results\":[{}]}}}]}",
        "{\"results\":[{\"response\":{\"result\":{\"step_results\":[{},[],[],[]]}}}]}",
        "{\"results\":[{\"response\":{\"result\":{\"step_results\":[{},{\"rows\":[1]},{},{}]}}}]}",
        "{\"results\":[{\"response\":{\"result\":{\"step_results\":[{},{\"rows\":[[]]},{}]}}}]}",
        "{\"results\":[{\"response\":{\"result\":{\"step_results\":[{},{\"rows\":[[{}]]},{},{}]}}}]}",
    ];
    for answer in answers {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("libsql://{}?tls=0", listener.local_addr().unwrap());
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let mut client = client.unwrap();
                let _ = client.read(&mut [0; 1 << 16]);
                let head = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length:";
                let _ = write!(client, "{head} {}\r\n\r\n{answer}", answer.len());
            }
        });
        let store = TursoStore::new(server(&url));
        let error = runtime().block_on(async { store.usage("space").settle().await.unwrap_err() });
        assert_eq!(error.kind, ErrorKind::Corrupt, "{answer}: {error}");
    }
}

#[test]
fn tokens_are_checked_and_not_shown() {
    let Some(server_process) = LibsqlServer::start(&["--auth-jwt-key-file", "key"]) else {
        return;
    };
    runtime().block_on(async {
        let without = TursoStore::new(server(&server_process.url()));
        let with = server_process.url() + "&authToken=hunter2";
        assert!(parse(&with).has_password());
        for store in [without, TursoStore::new(server(&with))] {
            let error = store.usage("space").settle().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Denied, "{error}");
            assert!(!error.message.contains("hunter2"), "{error}");
        }
    });
}
