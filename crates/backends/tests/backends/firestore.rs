//! The contract of a store, on an emulator of Firestore, or a stand-in for it.

use std::time::Duration;

use cachalot_backends::firestore::{FirestoreStore, Server};
use cachalot_backends::testing::FirestoreEmulator;
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_store::conformance::Subject;
use cachalot_store::{
    ErrorKind, Label, LabelMatch, Order, PageRequest, Pages, PutResult, RecordFilter,
    ReserveResult, Store as _, ValuePart,
};

use crate::{parse, record, runtime, subject};

cachalot_store::memory_conformance_checks! { checks, empty() }

fn server(emulator: &FirestoreEmulator, url: &str) -> Server {
    let http = HttpClient::new(HttpOptions::default()).unwrap();
    Server::new(&parse(url), &emulator.environment(), http).unwrap()
}

fn empty() -> Option<Subject> {
    let emulator = FirestoreEmulator::shared()?;
    let url = emulator.fresh_url();
    Some(subject(|shift| {
        FirestoreStore::with_shift(server(emulator, &url), shift)
    }))
}

/// More matches than one request reads.
#[test]
fn many_records_are_found_and_erased_in_pages() {
    let Some(subject) = empty() else {
        return;
    };
    runtime().block_on(async {
        let store = &*subject.store;
        for number in 0..450 {
            let labels = vec![Label::new("tag", format!("t{}", number % 2))];
            let new = record(format!("key {number:04}"), vec![7; 10], labels);
            store.put("space", new, None, &[]).settle().await.unwrap();
        }
        for (labels, expected) in [
            (vec![], 450),
            (
                vec![LabelMatch::Is {
                    name: "tag",
                    value: "t1",
                }],
                225,
            ),
            (
                vec![LabelMatch::Starts {
                    name: "tag",
                    prefix: "t",
                }],
                450,
            ),
        ] {
            let filter = RecordFilter {
                labels: &labels,
                ..RecordFilter::default()
            };
            for size in [100, 1000] {
                let mut pages = Pages::new(store, "space", filter, PageRequest::first(size));
                let mut keys = Vec::new();
                while let Some(page) = pages.next().await.unwrap() {
                    keys.extend(page.records.into_iter().map(|record| record.key));
                }
                assert_eq!(keys.len(), expected);
                assert!(keys.is_sorted());
            }
        }
        let filter = RecordFilter {
            order: Order::Newest,
            ..RecordFilter::default()
        };
        let newest = store
            .find("space", &filter, PageRequest::keys(2))
            .settle()
            .await
            .unwrap();
        assert_eq!(newest.records[1].key, "key 0448");
        let mut erased = 0;
        let labels = [LabelMatch::Is {
            name: "tag",
            value: "t0",
        }];
        let filter = RecordFilter {
            labels: &labels,
            ..RecordFilter::default()
        };
        loop {
            let page = store.erase("space", &filter, PageRequest::keys(1000));
            let page = page.settle().await.unwrap();
            erased += page.records.len();
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(erased, 225);
        assert_eq!(store.usage("space").settle().await.unwrap().records, 225);
    });
}

/// A transaction has a maximum size.
#[test]
fn pages_of_large_values_are_short() {
    let Some(subject) = empty() else {
        return;
    };
    runtime().block_on(async {
        let store = &*subject.store;
        let largest = usize::try_from(store.about().largest_value).unwrap() - "key 00".len();
        for number in 0..12_u8 {
            let new = record(
                format!("key {number:02}"),
                vec![number; largest],
                Vec::new(),
            );
            store.put("space", new, None, &[]).settle().await.unwrap();
        }
        let request = PageRequest {
            values: ValuePart::All,
            ..PageRequest::keys(100)
        };
        let all = RecordFilter::default();
        let page = store.erase("space", &all, request).settle().await.unwrap();
        assert_eq!(page.records.len(), 8);
        assert_eq!(page.next.as_deref(), Some("key 07"));
        assert!(page.records[7].value.iter().all(|byte| *byte == 7));
        let new = record("large".to_owned(), vec![7; largest + 6], Vec::new());
        let put = store.put("space", new, None, &[]).settle().await;
        assert_eq!(put.unwrap_err().kind, ErrorKind::TooLarge);
        // As many labels as one erase can remove.
        store
            .erase("space", &all, PageRequest::keys(300))
            .settle()
            .await
            .unwrap();
        for number in 0..10 {
            let labels = (0..900).map(|label| Label::new("t", format!("{label:0300}")));
            let new = record(format!("key {number}"), Vec::new(), labels.collect());
            store.put("space", new, None, &[]).settle().await.unwrap();
        }
        let mut erased = Vec::new();
        loop {
            let page = store.erase("space", &all, PageRequest::keys(300));
            let page = page.settle().await.unwrap();
            erased.push(page.records.len());
            if page.next.is_none() {
                break;
            }
        }
        assert_eq!(erased, [4, 4, 2]);
        let labels = (0..3000).map(|number| Label::new("t", number.to_string()));
        let new = record("labels".to_owned(), Vec::new(), labels.collect());
        let put = store.put("space", new, None, &[]).settle().await;
        assert_eq!(put.unwrap_err().kind, ErrorKind::TooLarge);
    });
}

/// Documents of leases are removed, but not before the leases may be forgotten.
#[test]
fn old_leases_are_removed() {
    let Some(subject) = empty() else {
        return;
    };
    runtime().block_on(async {
        let store = &*subject.store;
        let hold = Duration::from_secs(10);
        let ReserveResult::Held(lease) = store
            .reserve("space", "key", &[], hold)
            .settle()
            .await
            .unwrap()
        else {
            panic!("not held");
        };
        let sweep = RecordFilter {
            expired_before: Some(0),
            ..RecordFilter::default()
        };
        (subject.pass)(Duration::from_secs(1800));
        store
            .erase("space", &sweep, PageRequest::keys(10))
            .settle()
            .await
            .unwrap();
        assert!(store.renew(&lease, hold).settle().await.unwrap());
        (subject.pass)(Duration::from_secs(3700));
        store
            .erase("space", &sweep, PageRequest::keys(10))
            .settle()
            .await
            .unwrap();
        assert!(!store.renew(&lease, hold).settle().await.unwrap());
        let again = store
            .reserve("space", "key", &[], hold)
            .settle()
            .await
            .unwrap();
        assert!(matches!(again, ReserveResult::Held(new) if new.fence > lease.fence));
        let put = record("key".to_owned(), Vec::new(), Vec::new());
        let put = store.put("space", put, Some(&lease), &[]).settle().await;
        assert_eq!(put.unwrap(), PutResult::LeaseLost);
    });
}

/// Calls that nobody waits for leave nothing behind that blocks others.
#[test]
fn dropped_calls_do_not_block_others() {
    let Some(subject) = empty() else {
        return;
    };
    runtime().block_on(async {
        let store = &*subject.store;
        for number in 0..100 {
            let new = record("key".to_owned(), vec![number; 10], Vec::new());
            let limit = Duration::from_micros(u64::from(number) * 50);
            let _ = store
                .put("space", new, None, &[("counter", 0)])
                .within(limit)
                .await;
        }
        let new = record("key".to_owned(), vec![7; 10], Vec::new());
        let put = store.put("space", new, None, &[]).settle().await.unwrap();
        let PutResult::Stored { revision } = put else {
            panic!("{put:?}");
        };
        let found = store
            .get("space", "key", &[])
            .settle()
            .await
            .unwrap()
            .record
            .unwrap();
        assert_eq!((found.revision, &found.value[..]), (revision, &[7; 10][..]));
    });
}

#[test]
fn urls_are_checked() {
    let http = HttpClient::new(HttpOptions::default()).unwrap();
    let environment = [(
        "FIRESTORE_EMULATOR_HOST".to_owned(),
        "127.0.0.1:1".to_owned(),
    )]
    .into();
    for (url, is_valid) in [
        ("firestore://project/collection", true),
        ("firestore://project/collection?database=other", true),
        ("firestore://project", false),
        ("firestore://project/", false),
        ("firestore://project/a/b", false),
        ("firestore://project/__a__", false),
        ("firestore://project:80/a", false),
        ("firestore://me@project/a", false),
        ("firestore://project/a?databse=x", false),
        ("firestore:///a", false),
    ] {
        let server = Server::new(&parse(url), &environment, http.clone());
        assert_eq!(server.is_ok(), is_valid, "{url}");
    }
    runtime().block_on(async {
        let server = Server::new(&parse("firestore://project/a"), &environment, http.clone());
        let store = FirestoreStore::new(server.unwrap());
        let error = store.usage("space").settle().await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        // Without credentials.
        let none = [("HOME".to_owned(), "/nonexistent".to_owned())].into();
        let server = Server::new(&parse("firestore://project/a"), &none, http.clone());
        let store = FirestoreStore::new(server.unwrap());
        let error = store.usage("space").settle().await.unwrap_err();
        assert!(
            error.message.contains("GOOGLE_APPLICATION_CREDENTIALS"),
            "{error}"
        );
    });
}
