//! The contract of a store, on one whose values are encrypted; and secrets that change.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cachalot_backends::encrypted::{EncryptedStore, Encryption, State, StoreWithoutSecret};
use cachalot_core::{ManualClock, Secret};
use cachalot_store::conformance::Subject;
use cachalot_store::in_process::InProcessStore;
use cachalot_store::intercepted::{Interceptor, StoreOperation};
use cachalot_store::{
    ErrorKind, GetOrReserve, PageRequest, PutAllResult, PutCondition, PutResult, Record,
    RecordFilter, ReserveResult, Stale, Store, StoreReply, ValuePart, space,
};

use crate::{record, runtime};

cachalot_store::memory_conformance_checks! { checks, subject() }

mod without_a_secret {
    cachalot_store::memory_conformance_checks! { checks, Some(super::subject_without_secret()) }
}

fn subject_without_secret() -> Subject {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000));
    let inner: Arc<dyn Store> = Arc::new(InProcessStore::new(clock.clone()));
    let second = Arc::new(StoreWithoutSecret::new(Arc::clone(&inner)));
    Subject::new(Arc::new(StoreWithoutSecret::new(inner)), clock).with_second(second)
}

fn encryption(secrets: &[char]) -> Encryption {
    let secrets: Vec<String> = secrets
        .iter()
        .map(|digit| digit.to_string().repeat(64))
        .collect();
    Encryption::parse(&Secret::new(secrets.join(","))).unwrap()
}

fn over(inner: &Arc<dyn Store>, secrets: &[char]) -> EncryptedStore {
    EncryptedStore::new(Arc::clone(inner), encryption(secrets))
}

fn subject() -> Option<Subject> {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000));
    let inner: Arc<dyn Store> = Arc::new(InProcessStore::new(clock.clone()));
    Some(Subject {
        store: Arc::new(over(&inner, &['a'])),
        second: Some(Arc::new(over(&inner, &['a']))),
        pass: Box::new(move |by| clock.advance(by)),
        layout: None,
        keep: None,
    })
}

fn in_process() -> Arc<dyn Store> {
    Arc::new(InProcessStore::new(Arc::new(ManualClock::at(0))))
}

fn new(key: &str, value: &[u8]) -> Record {
    record(key.to_owned(), value.to_vec(), Vec::new())
}

/// A store that counts the calls of [`Store::put_new`] and [`Store::put_all`].
struct Counting {
    inner: Arc<dyn Store>,
    puts: AtomicUsize,
}

impl Interceptor for Counting {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn intercept<'a, T: Send + 'static>(
        &'a self,
        operation: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        if operation == StoreOperation::PutAll {
            self.puts.fetch_add(1, Ordering::Relaxed);
        }
        pass()
    }
}

/// Copies of many records are one call of the inner store, with a secret and without one.
#[test]
fn records_that_are_stored_together_are_passed_on_together() {
    type Over = fn(Arc<dyn Store>) -> Box<dyn Store>;
    let stores: [Over; 2] = [
        |inner| Box::new(StoreWithoutSecret::new(inner)),
        |inner| Box::new(over(&inner, &['a'])),
    ];
    runtime().block_on(async {
        for store in stores {
            let counting = Arc::new(Counting {
                inner: in_process(),
                puts: AtomicUsize::new(0),
            });
            let store = store(Arc::clone(&counting) as Arc<dyn Store>);
            let records = ["a", "b", "c"].map(|key| new(key, b"value"));
            let stored = store.put_new("space", records.to_vec()).settle().await;
            assert_eq!(stored.unwrap(), [true; 3]);
            assert_eq!(counting.puts.load(Ordering::Relaxed), 1);
        }
    });
}

#[test]
fn values_are_readable_with_their_secret_only() {
    runtime().block_on(async {
        let inner = in_process();
        let store = over(&inner, &['a']);
        let value = b"a value that nobody else can read";
        store
            .put("space", new("key", value), None, &[])
            .settle()
            .await
            .unwrap();
        let stored = inner
            .get("space", "key", &[])
            .settle()
            .await
            .unwrap()
            .record
            .unwrap();
        assert!(
            !stored
                .value
                .windows(7)
                .any(|part| value.windows(7).any(|other| other == part))
        );
        let other = over(&inner, &['b']).get("space", "key", &[]).settle().await;
        assert_eq!(other.unwrap_err().kind, ErrorKind::Denied);
        // Bound to the space and the key.
        for (space, key) in [("space", "other"), ("other", "key"), ("spac", "ekey")] {
            let moved = Record {
                key: key.to_owned(),
                ..stored.clone()
            };
            inner.put(space, moved, None, &[]).settle().await.unwrap();
            let found = store.get(space, key, &[]).settle().await;
            assert_eq!(found.unwrap_err().kind, ErrorKind::Corrupt, "{space} {key}");
        }
        // Any other byte is noticed.
        for place in 0..stored.value.len() {
            let mut bytes = stored.value.to_vec();
            bytes[place] ^= 1;
            let damaged = Record {
                value: bytes.into(),
                ..stored.clone()
            };
            inner
                .put("space", damaged, None, &[])
                .settle()
                .await
                .unwrap();
            assert!(
                store.get("space", "key", &[]).settle().await.is_err(),
                "{place}"
            );
        }
        inner
            .put("space", new("key", value), None, &[])
            .settle()
            .await
            .unwrap();
        let plain = store.get("space", "key", &[]).settle().await;
        assert!(plain.unwrap_err().message.contains("is not encrypted"));
        // What cannot be read can be erased.
        let all = RecordFilter::default();
        let erased = store
            .erase("space", &all, PageRequest::first(10))
            .settle()
            .await;
        assert!(!erased.unwrap().records.is_empty());
    });
}

#[test]
fn secrets_are_rotated() {
    runtime().block_on(async {
        let inner = in_process();
        let old = over(&inner, &['a']);
        old.put("space", new("key", b"old"), None, &[])
            .settle()
            .await
            .unwrap();
        let both = over(&inner, &['b', 'a']);
        let found = both.get("space", "key", &[]).settle().await.unwrap();
        assert_eq!(found.record.unwrap().value, "old");
        // A condition on a value that was encrypted with the old secret.
        let condition = PutCondition {
            space: "space",
            key: "key",
            value: Some("old".into()),
        };
        let put = both.put_all(condition.clone(), vec![("space", new("key", b"new"))]);
        assert_eq!(put.settle().await.unwrap(), PutAllResult::Stored);
        let put = both.put_all(condition, vec![("space", new("key", b"newer"))]);
        assert_eq!(put.settle().await.unwrap(), PutAllResult::Changed);
        let found = over(&inner, &['b'])
            .get("space", "key", &[])
            .settle()
            .await
            .unwrap();
        assert_eq!(found.record.unwrap().value, "new");
        assert!(old.get("space", "key", &[]).settle().await.is_err());
    });
}

#[test]
fn secrets_of_another_form_are_refused() {
    for secrets in [
        "",
        " ,\n",
        "abc",
        &"g".repeat(64),
        &"a".repeat(63),
        &"a".repeat(66),
    ] {
        let error = Encryption::parse(&Secret::new(secrets.to_owned())).unwrap_err();
        let error = error.to_string();
        assert!(
            secrets.trim().len() < 3 || !error.contains(secrets),
            "{error}"
        );
    }
    let several = format!(
        "{}\n{} ,{}\n",
        "a".repeat(64),
        "b".repeat(64),
        "C".repeat(64)
    );
    Encryption::parse(&Secret::new(several)).unwrap();
}

/// A cached record that cannot be decrypted is one that answers nothing: the caller reserves and replaces it.
#[test]
fn cached_records_of_another_secret_are_replaced() {
    runtime().block_on(async {
        let (inner, key) = (in_process(), "key");
        let put = inner.put(space::CACHE, new("plain", b"value"), None, &[]);
        put.settle().await.unwrap();
        let old = over(&inner, &['a']);
        let put = old.put(space::CACHE, new(key, b"value"), None, &[]);
        put.settle().await.unwrap();
        let store = over(&inner, &['b']);
        for key in ["plain", key] {
            let found = store.get(space::CACHE, key, &[]).settle().await.unwrap();
            let record = found.record.unwrap();
            assert!(record.value.is_empty());
            let request = GetOrReserve {
                counters: &[],
                labels: &[],
                hold: std::time::Duration::from_secs(4),
                stale: Stale::Revision(record.revision),
            };
            let reserved = store.get_or_reserve(space::CACHE, key, request);
            let reserved = reserved.settle().await.unwrap();
            assert!(reserved.found.record.unwrap().value.is_empty());
            let Some(ReserveResult::Held(lease)) = reserved.reserved else {
                panic!("{:?}", reserved.reserved);
            };
            let page = PageRequest {
                values: ValuePart::First(100),
                ..PageRequest::first(10)
            };
            let all = RecordFilter::default();
            let page = store.find(space::CACHE, &all, page).settle().await.unwrap();
            assert_eq!(page.records.len(), 2);
            // Nothing is copied in place of a value.
            let whole = store.find(space::CACHE, &all, PageRequest::first(10));
            assert!(whole.settle().await.is_err());
            let put = store.put(space::CACHE, new(key, b"value"), Some(&lease), &[]);
            assert_eq!(
                put.settle().await.unwrap(),
                PutResult::Stored { revision: 2 }
            );
            let found = store.get(space::CACHE, key, &[]).settle().await.unwrap();
            assert_eq!(found.record.unwrap().value, "value");
        }
    });
}

/// In every other space it is an error, which leaves no reservation.
#[test]
fn other_records_of_another_secret_are_errors() {
    runtime().block_on(async {
        for space in [space::USER, "sessions"] {
            let inner = in_process();
            let put = over(&inner, &['a']);
            let put = put.put(space, new("key", b"value"), None, &[]);
            put.settle().await.unwrap();
            let store = over(&inner, &['b']);
            let hold = std::time::Duration::from_secs(4);
            let request = GetOrReserve {
                counters: &[],
                labels: &[],
                hold,
                stale: Stale::Any,
            };
            let reserved = store.get_or_reserve(space, "key", request).settle().await;
            assert_eq!(reserved.unwrap_err().kind, ErrorKind::Denied);
            let reserved = store.reserve(space, "key", &[], hold).settle().await;
            assert!(matches!(reserved.unwrap(), ReserveResult::Held(_)));
            let found = store.get(space, "key", &[]).settle().await;
            assert_eq!(found.unwrap_err().kind, ErrorKind::Denied);
            let (all, page) = (RecordFilter::default(), PageRequest::first(10));
            let found = store.find(space, &all, page).settle().await;
            assert_eq!(found.unwrap_err().kind, ErrorKind::Denied);
        }
    });
}

/// Records that are not encrypted are read with the word `plain` only, and become encrypted.
#[test]
fn plain_records_are_encrypted_afterwards() {
    let secrets = |text: &str| Encryption::parse(&Secret::new(text.replace('X', &"a".repeat(64))));
    assert!(secrets("plain").is_err());
    runtime().block_on(async {
        let inner = in_process();
        let put = inner.put("space", new("key", b"value"), None, &[]);
        put.settle().await.unwrap();
        let mixed = EncryptedStore::new(Arc::clone(&inner), secrets("X,plain").unwrap());
        let read = async |store: &dyn Store| {
            let found = store.get("space", "key", &[]).settle().await;
            found.map(|found| found.record.unwrap().value)
        };
        assert_eq!(read(&mixed).await.unwrap(), "value");
        assert_eq!(
            read(&over(&inner, &['a'])).await.unwrap_err().kind,
            ErrorKind::Corrupt
        );
        let (one, other) = (encryption(&['a']), encryption(&['b', 'a']));
        let plain = read(&*inner).await.unwrap();
        assert_eq!(one.state(&plain), State::Plain);
        let first = one.renewed("space", "key", &plain).unwrap();
        assert_eq!(one.state(&first[..12]), State::Current);
        assert_eq!(other.state(&first), State::Old);
        assert_eq!(encryption(&['b']).state(&first), State::Unknown);
        assert!(encryption(&['b']).renewed("space", "key", &first).is_err());
        let second = other.renewed("space", "key", &first).unwrap();
        assert_eq!(encryption(&['b']).state(&second), State::Current);
        let put = inner.put(
            "space",
            Record {
                value: second,
                ..new("key", b"")
            },
            None,
            &[],
        );
        put.settle().await.unwrap();
        assert_eq!(read(&over(&inner, &['b'])).await.unwrap(), "value");
        assert_eq!(
            read(&over(&inner, &['a'])).await.unwrap_err().kind,
            ErrorKind::Denied
        );
    });
}

/// A process without a secret neither takes an encrypted record for a damaged one nor replaces it.
#[test]
fn encrypted_records_are_errors_without_a_secret() {
    runtime().block_on(async {
        let inner = in_process();
        let store = over(&inner, &['a']);
        for space in [space::CACHE, space::USER] {
            let put = store.put(space, new("key", b"value"), None, &[]);
            put.settle().await.unwrap();
        }
        let without = StoreWithoutSecret::new(Arc::clone(&inner));
        let expected = |error: cachalot_store::Error| {
            assert_eq!(error.kind, ErrorKind::Denied);
            assert!(error.message.contains("CACHALOT_ENCRYPTION_KEY"), "{error}");
        };
        for space in [space::CACHE, space::USER] {
            expected(without.get(space, "key", &[]).settle().await.unwrap_err());
            let request = GetOrReserve {
                counters: &[],
                labels: &[],
                hold: std::time::Duration::from_secs(60),
                stale: Stale::Any,
            };
            let reserved = without.get_or_reserve(space, "key", request).settle().await;
            expected(reserved.unwrap_err());
            // The reservation has ended.
            let reserved = without.reserve(space, "key", &[], std::time::Duration::from_secs(60));
            assert!(matches!(
                reserved.settle().await.unwrap(),
                ReserveResult::Held(_)
            ));
        }
        let all = RecordFilter::default();
        for space in [space::CACHE, space::USER] {
            let listed = without
                .find(space, &all, PageRequest::first(10))
                .settle()
                .await;
            expected(listed.unwrap_err());
        }
        let keys = without
            .find(space::USER, &all, PageRequest::keys(10))
            .settle()
            .await;
        assert_eq!(keys.unwrap().records.len(), 1);
    });
}
