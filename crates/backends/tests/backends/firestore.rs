//! The contract of a store, on an emulator of Firestore, or a stand-in for it.

use std::time::Duration;

use cachalot_backends::firestore::{FirestoreStore, Server};
use cachalot_backends::testing::FirestoreEmulator;
use cachalot_storage::{HttpClient, HttpOptions};
use cachalot_store::conformance::Subject;
use cachalot_store::{
    ErrorKind, Label, LabelMatch, Order, PageRequest, Pages, PutAllResult, PutCondition, PutResult,
    RecordFilter, ReserveResult, Store as _, ValuePart,
};

use crate::{parse, record, runtime, subject};

cachalot_store::memory_conformance_checks! { checks, empty() }

fn server(emulator: &FirestoreEmulator, url: &str) -> Server {
    let http = HttpClient::new(HttpOptions::default()).unwrap();
    Server::new(&parse(url), &emulator.environment(), http).unwrap()
}

fn empty() -> Option<Subject> {
    let emulator = FirestoreEmulator::shared()?;
    Some(empty_at(emulator, &emulator.fresh_url()))
}

fn empty_at(emulator: &FirestoreEmulator, url: &str) -> Subject {
    subject(|shift| FirestoreStore::with_shift(server(emulator, url), shift))
}

/// The service counts the size of documents that are deleted.
#[test]
fn erases_of_large_values_fit_into_transactions() {
    for (order, labels) in [
        (Order::Key, 2),
        (Order::LeastRecentlyUsed, 0),
        (Order::Key, 60),
    ] {
        let Some(subject) = empty() else {
            return;
        };
        runtime().block_on(async {
            let store = &*subject.store;
            for number in 0..40 {
                let labels = (0..labels).map(|label| Label::new("tag", format!("{label:0400}")));
                let key = format!("key {number:02} {}", "k".repeat(400));
                let new = record(key, vec![7; 400 << 10], labels.collect());
                store.put("space", new, None, &[]).settle().await.unwrap();
            }
            let filter = RecordFilter {
                order,
                ..RecordFilter::default()
            };
            let mut erased = 0;
            loop {
                let page = store.erase("space", &filter, PageRequest::labels(500));
                let page = page.settle().await.unwrap();
                if page.records.is_empty() {
                    break;
                }
                erased += page.records.len();
            }
            assert_eq!(erased, 40);
        });
    }
}

/// An erase that is too big nevertheless is made smaller.
#[test]
fn erases_that_are_refused_are_made_smaller() {
    let Some(emulator) = FirestoreEmulator::shared() else {
        return;
    };
    let url = emulator.fresh_url();
    let subject = empty_at(emulator, &url);
    runtime().block_on(async {
        let store = &*subject.store;
        for number in 0..8 {
            let new = record(format!("key {number}"), vec![7; 10], Vec::new());
            store.put("space", new, None, &[]).settle().await.unwrap();
        }
        let message = "Transaction too big. Decrease transaction size.";
        if !emulator.fail(&url, 2, "commit", (400, "INVALID_ARGUMENT", message)) {
            return;
        }
        let all = RecordFilter::default();
        let page = store.erase("space", &all, PageRequest::labels(500));
        let page = page.settle().await.unwrap();
        assert_eq!(page.records.len(), 2);
        assert_eq!(page.next.as_deref(), Some("key 1"));
        assert!(emulator.fail(&url, 100, "commit", (400, "INVALID_ARGUMENT", message)));
        let page = store.erase("space", &all, PageRequest::labels(500));
        assert_eq!(page.settle().await.unwrap_err().kind, ErrorKind::TooLarge);
    });
}

/// Nothing was written.
#[test]
fn expired_transactions_are_repeated() {
    let Some(emulator) = FirestoreEmulator::shared() else {
        return;
    };
    let url = emulator.fresh_url();
    let subject = empty_at(emulator, &url);
    runtime().block_on(async {
        let store = &*subject.store;
        for (method, message) in [
            (
                "commit",
                "The referenced transaction has expired or is no longer valid.",
            ),
            ("batchGet", "Invalid transaction."),
        ] {
            store.usage("space").settle().await.unwrap();
            let expire = || emulator.fail(&url, 2, method, (400, "INVALID_ARGUMENT", message));
            let new = record("key".to_owned(), vec![7; 10], Vec::new());
            if !expire() {
                return;
            }
            let put = store.put("space", new.clone(), None, &[]).settle().await;
            assert!(matches!(put, Ok(PutResult::Stored { .. })), "{put:?}");
            assert!(expire());
            let condition = PutCondition {
                space: "space",
                key: "key",
                value: Some(new.value.clone()),
            };
            let put = store.put_all(condition, vec![("space", new)]);
            assert_eq!(put.settle().await.unwrap(), PutAllResult::Stored);
            assert!(expire());
            let all = RecordFilter::default();
            let erased = store.erase("space", &all, PageRequest::keys(10));
            assert_eq!(erased.settle().await.unwrap().records.len(), 1);
        }
    });
}

#[test]
fn exhausted_quotas_are_reported() {
    let Some(emulator) = FirestoreEmulator::shared() else {
        return;
    };
    let url = emulator.fresh_url();
    let subject = empty_at(emulator, &url);
    runtime().block_on(async {
        let store = &*subject.store;
        store.usage("space").settle().await.unwrap();
        if emulator.fail(&url, 1, "", (429, "RESOURCE_EXHAUSTED", "Quota exceeded.")) {
            let error = store.get("space", "key", &[]).settle().await.unwrap_err();
            assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
            assert!(error.message.contains("quota"), "{error}");
        }
    });
}

/// Another process may write the version first, and it may be a newer one.
#[test]
fn versions_that_others_write_are_compared() {
    let Some(emulator) = FirestoreEmulator::shared() else {
        return;
    };
    let url = emulator.fresh_url();
    let subject = empty_at(emulator, &url);
    runtime().block_on(async {
        if emulator.fail(&url, 1, "commit", (409, "ABORTED", "Too much contention.")) {
            let store = &*subject.store;
            store.usage("space").settle().await.unwrap();
            let _ = emulator.count(&url);
            let second = subject.second.as_ref().unwrap();
            second.usage("space").settle().await.unwrap();
            // The version, and the count.
            assert_eq!(emulator.count(&url), Some((2, 1)));
        }
    });
}

#[test]
fn records_stored_at_once_have_a_maximum_size() {
    let Some(subject) = empty() else {
        return;
    };
    runtime().block_on(async {
        let store = &*subject.store;
        let put = async |count: usize| {
            let condition = PutCondition {
                space: "space",
                key: "absent",
                value: None,
            };
            let new = |number| record(format!("key {number}"), vec![7; 1000 << 10], Vec::new());
            let records = (0..count).map(|number| ("space", new(number))).collect();
            store.put_all(condition, records).settle().await
        };
        assert_eq!(put(7).await.unwrap(), PutAllResult::Stored);
        let error = put(8).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::TooLarge, "{error}");
    });
}

/// The engine takes a short page for the last one.
#[test]
fn large_values_are_found_in_all_orders() {
    let Some(subject) = empty() else {
        return;
    };
    runtime().block_on(async {
        let store = &*subject.store;
        for number in 0..12 {
            let new = record(
                format!("key {number:02}"),
                vec![number; 1000 << 10],
                Vec::new(),
            );
            store.put("space", new, None, &[]).settle().await.unwrap();
        }
        for order in [Order::Newest, Order::LeastRecentlyUsed, Order::Expiry] {
            for values in [ValuePart::None, ValuePart::First(4096), ValuePart::All] {
                let filter = RecordFilter {
                    order,
                    ..RecordFilter::default()
                };
                let request = PageRequest {
                    values,
                    ..PageRequest::keys(500)
                };
                let page = store
                    .find("space", &filter, request)
                    .settle()
                    .await
                    .unwrap();
                assert_eq!(page.records.len(), 12, "{order:?} {values:?}");
                for (record, size) in page.records.iter().zip(&page.sizes) {
                    let read = match values {
                        ValuePart::None => 0,
                        ValuePart::First(first) => first as usize,
                        ValuePart::All => 1000 << 10,
                    };
                    assert!(record.value.len() >= read);
                    assert_eq!(*size, 1000 << 10);
                }
            }
        }
    });
}

/// An erase does not read the leases that have ended, and does not lock them.
#[test]
fn erases_read_current_leases_only() {
    let Some(emulator) = FirestoreEmulator::shared() else {
        return;
    };
    let url = emulator.fresh_url();
    let subject = empty_at(emulator, &url);
    runtime().block_on(async {
        let store = &*subject.store;
        let hold = Duration::from_secs(10);
        let reserve = async |key: &str| {
            let labels = [Label::new("tag", "x")];
            let reserved = store.reserve("space", key, &labels, hold);
            match reserved.settle().await.unwrap() {
                ReserveResult::Held(lease) => lease,
                busy => panic!("{busy:?}"),
            }
        };
        for number in 0..400 {
            let lease = reserve(&format!("key {number}")).await;
            store.release(lease).settle().await.unwrap();
        }
        let current = reserve("key").await;
        let _ = emulator.count(&url);
        let labels = [LabelMatch::Is {
            name: "tag",
            value: "x",
        }];
        let filter = RecordFilter {
            labels: &labels,
            ..RecordFilter::default()
        };
        let erased = store.erase("space", &filter, PageRequest::keys(10));
        erased.settle().await.unwrap();
        if let Some((_, documents)) = emulator.count(&url) {
            assert!(documents < 10, "{documents}");
        }
        assert!(!store.renew(&current, hold).settle().await.unwrap());
        // A sweep removes them with few requests.
        (subject.pass)(Duration::from_secs(7200));
        let _ = emulator.count(&url);
        let sweep = RecordFilter {
            expired_before: Some(0),
            ..RecordFilter::default()
        };
        let swept = store.erase("space", &sweep, PageRequest::keys(10));
        swept.settle().await.unwrap();
        if let Some((requests, documents)) = emulator.count(&url) {
            assert!(requests < 10 && documents >= 300, "{requests} {documents}");
        }
    });
}

/// A cache within its limits is never swept.
#[test]
fn reservations_remove_old_leases() {
    let Some(subject) = empty() else {
        return;
    };
    runtime().block_on(async {
        let store = &*subject.store;
        let hold = Duration::from_secs(10);
        let reserve = async |key: &str| {
            let reserved = store.reserve("space", key, &[], hold);
            match reserved.settle().await.unwrap() {
                ReserveResult::Held(lease) => lease,
                busy => panic!("{busy:?}"),
            }
        };
        let old = reserve("old").await;
        (subject.pass)(Duration::from_secs(3700));
        for number in 0..10_000 {
            reserve(&format!("key {number}")).await;
            if number % 16 == 0 {
                if !store.renew(&old, hold).settle().await.unwrap() {
                    return;
                }
                (subject.pass)(Duration::from_secs(3700));
            }
        }
        panic!("the lease is still there");
    });
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
        assert_eq!(erased.iter().sum::<usize>(), 10);
        assert!(erased.len() <= 5, "{erased:?}");
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
