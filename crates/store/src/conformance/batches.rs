//! Checks of [`Store::put_all`] and [`Store::put_new`].

use std::time::Duration;

use bytes::Bytes;

use super::{
    SPACE, Subject, concurrently, erase, expiring, get, having, is, keys, labelled, lease, prefix,
    put, record, reserve, sorted, with_value,
};
use crate::{ErrorKind, Label, PutAllResult, PutCondition, Record, ReserveResult, Store};

const OTHER_SPACE: &str = "other";
const HOLD: Duration = Duration::from_secs(5);

/// Stores records if the record `head` has this value; `None` if the store does not support it.
async fn put_all(
    store: &dyn Store,
    value: Option<&str>,
    records: &[(&str, Record)],
) -> Option<PutAllResult> {
    let condition = PutCondition {
        space: SPACE,
        key: "head",
        value: value.map(|value| Bytes::copy_from_slice(value.as_bytes())),
    };
    match store.put_all(condition, records.to_vec()).settle().await {
        Ok(stored) => Some(stored),
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
            None
        }
    }
}

async fn supports_batches(store: &dyn Store) -> bool {
    let stored = put_all(store, None, &[(OTHER_SPACE, record("probe"))]).await;
    stored.is_some()
}

/// Records of several spaces are stored together, found by their labels and counted; their stamps change.
pub async fn several_records_are_stored_together(subject: Subject) {
    let (store, other) = (&*subject.store, subject.other());
    put(store, OTHER_SPACE, labelled("a", &[("tag", "old")])).await;
    let stamps = || [(SPACE, "head"), (OTHER_SPACE, "a")].map(|(of, key)| other.stamp(of, key));
    let before = stamps();
    let records = [
        (
            OTHER_SPACE,
            labelled("a", &[("tag", "new"), ("tag", "new")]),
        ),
        (OTHER_SPACE, expiring("b", 5_000)),
        (SPACE, with_value("head", "first")),
    ];
    let Some(stored) = put_all(store, None, &records).await else {
        return;
    };
    assert_eq!(stored, PutAllResult::Stored);
    for (before, now) in before.into_iter().zip(stamps()) {
        assert!(before.is_none() || before != now);
    }
    for store in subject.handles() {
        let store = &**store;
        let head = get(store, SPACE, "head").await.unwrap();
        assert_eq!((&head.value[..], head.revision), (&b"first"[..], 1));
        let a = get(store, OTHER_SPACE, "a").await.unwrap();
        assert_eq!((a.labels, a.revision), (vec![Label::new("tag", "new")], 2));
        let b = get(store, OTHER_SPACE, "b").await.unwrap();
        assert_eq!((b.expires, b.revision), (Some(5_000), 1));
        for (tag, found) in [("old", &[][..]), ("new", &["a"])] {
            let labels = [is("tag", tag)];
            assert_eq!(keys(store, OTHER_SPACE, having(&labels)).await, found);
        }
        for (space, records) in [(SPACE, 1), (OTHER_SPACE, 2)] {
            let usage = store.usage(space).settle().await.unwrap();
            assert_eq!(usage.records, records);
        }
    }
}

/// Nothing is stored if the record of the condition is missing, present or another one.
pub async fn nothing_is_stored_if_the_condition_does_not_hold(subject: Subject) {
    let (store, other) = (&*subject.store, &**subject.other());
    let batch = [
        (OTHER_SPACE, record("a")),
        (SPACE, with_value("head", "new")),
    ];
    match put_all(store, Some("first"), &batch).await {
        None => return,
        absent => assert_eq!(absent, Some(PutAllResult::Changed)),
    }
    put(other, SPACE, with_value("head", "first")).await;
    for value in [None, Some("second"), Some("firs"), Some("first "), Some("")] {
        let refused = put_all(store, value, &batch).await;
        assert_eq!(refused, Some(PutAllResult::Changed), "{value:?}");
    }
    assert_eq!(get(store, OTHER_SPACE, "a").await, None);
    let head = get(store, SPACE, "head").await.unwrap();
    assert_eq!((&head.value[..], head.revision), (&b"first"[..], 1));
    let stored = put_all(store, Some("first"), &batch).await;
    assert_eq!(stored, Some(PutAllResult::Stored));
    assert!(get(other, OTHER_SPACE, "a").await.is_some());
    // The condition and the records are independent of each other.
    erase(store, SPACE, prefix("head")).await;
    let stored = put_all(store, None, &[(OTHER_SPACE, record("b"))]).await;
    assert_eq!(stored, Some(PutAllResult::Stored));
    assert_eq!(get(store, SPACE, "head").await, None);
}

/// Records whose keys have no record are stored, the others stay as they are; labels, expiry and usage are counted.
pub async fn new_records_are_stored_and_others_stay(subject: Subject) {
    let (store, other) = (&*subject.store, &**subject.other());
    if !supports_batches(store).await {
        return;
    }
    put(store, SPACE, with_value("k:007", "old")).await;
    let new = |index: usize| Record {
        labels: vec![
            Label::new("tag", "new"),
            Label::new("tag", "new"),
            Label::new("handle", format!("handle {index}")),
        ],
        ..expiring(&format!("k:{index:03}"), index as i64)
    };
    let mut records: Vec<Record> = (0..100).map(new).collect();
    records.push(record("k:plain"));
    let stored = store.put_new(SPACE, records).settle().await.unwrap();
    let expected: Vec<bool> = (0..101).map(|index| index != 7).collect();
    assert_eq!(stored, expected);
    let old = get(other, SPACE, "k:007").await.unwrap();
    assert_eq!((&old.value[..], old.revision), (&b"old"[..], 1));
    let one = get(other, SPACE, "k:042").await.unwrap();
    assert_eq!((one.expires, one.revision), (Some(42), 1));
    assert_eq!(one.labels.len(), 2);
    let labels = [is("tag", "new")];
    assert_eq!(keys(other, SPACE, having(&labels)).await.len(), 99);
    let labels = [is("handle", "handle 42")];
    assert_eq!(keys(other, SPACE, having(&labels)).await, ["k:042"]);
    let usage = other.usage(SPACE).settle().await.unwrap();
    assert_eq!(usage.records, 101);
    let again = store.put_new(SPACE, vec![new(1), new(200)]).settle().await;
    assert_eq!(again.unwrap(), [false, true]);
    assert_eq!(
        store.put_new(SPACE, vec![]).settle().await.unwrap(),
        [false; 0]
    );
}

/// A key that another caller has reserved is left to it; a lapsed lease is revoked.
pub async fn new_records_respect_leases(subject: Subject) {
    let (store, other) = (&*subject.store, &**subject.other());
    if !store.about().reservations || !supports_batches(store).await {
        return;
    }
    let held = lease(other, "a", HOLD).await;
    let both = || vec![record("a"), record("b")];
    let stored = store.put_new(SPACE, both()).settle().await.unwrap();
    assert_eq!(stored, [false, true]);
    subject.pass(HOLD * 2);
    let stored = store.put_new(SPACE, both()).settle().await.unwrap();
    assert_eq!(stored, [true, false]);
    assert!(!other.renew(&held, HOLD).settle().await.unwrap());
}

/// Several callers store the same new records in different orders: each is stored by one of them.
pub async fn each_new_record_is_stored_by_one_of_many(subject: Subject) {
    if !supports_batches(&*subject.store).await {
        return;
    }
    let stored = concurrently(&subject, 4, |store, task| async move {
        let mut records: Vec<Record> = (0..40).map(|index| record(&format!("k:{index}"))).collect();
        records.rotate_left(task * 10);
        if task % 2 == 1 {
            records.reverse();
        }
        let stored = store.put_new(SPACE, records).settle().await.unwrap();
        stored.into_iter().filter(|is_stored| *is_stored).count()
    });
    assert_eq!(stored.await.into_iter().sum::<usize>(), 40);
}

/// A lease on the key of the condition prevents the write; a lapsed one is revoked by it.
pub async fn a_lease_of_another_caller_is_respected(subject: Subject) {
    let (store, other) = (&*subject.store, &**subject.other());
    if !store.about().reservations {
        return;
    }
    let batch = [
        (OTHER_SPACE, record("a")),
        (SPACE, with_value("head", "new")),
    ];
    let held = lease(other, "head", HOLD).await;
    match put_all(store, None, &batch).await {
        None => return,
        Some(PutAllResult::Busy { left }) => assert!(!left.is_zero() && left <= HOLD),
        stored => panic!("{stored:?} under the lease of another caller"),
    }
    assert_eq!(get(store, OTHER_SPACE, "a").await, None);
    // A refused write leaves a lapsed lease alone.
    subject.pass(HOLD * 2);
    let refused = put_all(store, Some("first"), &batch).await;
    assert_eq!(refused, Some(PutAllResult::Changed));
    assert!(other.renew(&held, HOLD).settle().await.unwrap());
    subject.pass(HOLD * 2);
    let stored = put_all(store, None, &batch).await;
    assert_eq!(stored, Some(PutAllResult::Stored));
    assert!(!other.renew(&held, HOLD).settle().await.unwrap());
    // Leases on other keys do not matter, and stay.
    let held = lease(other, "a", HOLD).await;
    let stored = put_all(store, Some("new"), &[(SPACE, record("a"))]).await;
    assert_eq!(stored, Some(PutAllResult::Stored));
    assert!(other.renew(&held, HOLD).settle().await.unwrap());
    let free = reserve(store, "head", HOLD).await;
    assert!(matches!(free, ReserveResult::Held(_)));
}

/// A record with the same value, labels and expiry is left alone; any difference replaces it.
pub async fn an_identical_record_stays_as_it_is(subject: Subject) {
    let store = &*subject.store;
    let same = Record {
        labels: vec![Label::new("tag", "b"), Label::new("tag", "a")],
        ..expiring("a", 5_000)
    };
    let batch = [(OTHER_SPACE, same.clone())];
    if put_all(store, None, &batch).await.is_none() {
        return;
    }
    let before = get(store, OTHER_SPACE, "a").await;
    subject.pass(Duration::from_secs(1));
    // The order of labels has no meaning, and a repeated one is one.
    let mut other_labels = same.labels.clone();
    other_labels.reverse();
    other_labels.push(same.labels[0].clone());
    for labels in [same.labels.clone(), other_labels] {
        let record = Record {
            labels,
            ..same.clone()
        };
        let stored = put_all(store, None, &[(OTHER_SPACE, record)]).await;
        assert_eq!(stored, Some(PutAllResult::Stored));
        assert_eq!(get(store, OTHER_SPACE, "a").await, before);
    }
    let differing = [
        with_value("a", "same size as a"),
        Record {
            value: Bytes::from_static(b"value of b"),
            ..same.clone()
        },
        Record {
            labels: Vec::new(),
            ..same.clone()
        },
        Record {
            expires: None,
            ..same.clone()
        },
        Record {
            expires: Some(5_001),
            ..same.clone()
        },
    ];
    for (number, record) in differing.into_iter().enumerate() {
        put_all(store, None, &[(OTHER_SPACE, record.clone())]).await;
        let found = get(store, OTHER_SPACE, "a").await.unwrap();
        assert_eq!(found.revision, number as u64 + 2);
        assert_eq!(
            (found.value, sorted(found.labels), found.expires),
            (record.value, sorted(record.labels), record.expires)
        );
    }
}

/// One of several concurrent writes under the same condition succeeds, and stores all of its records.
pub async fn one_of_many_stores_all_of_its_records(subject: Subject) {
    let store = &*subject.store;
    put(store, SPACE, with_value("head", "first")).await;
    let results = concurrently(&subject, 20, |handle, number| async move {
        let value = Bytes::from(number.to_string());
        let batch = [
            (OTHER_SPACE, with_value("a", value.clone())),
            (OTHER_SPACE, with_value("b", value.clone())),
            (SPACE, with_value("head", value)),
        ];
        put_all(&*handle, Some("first"), &batch).await
    });
    let mut stored = 0;
    for result in results.await {
        match result {
            None => return,
            Some(PutAllResult::Stored) => stored += 1,
            Some(refused) => assert_eq!(refused, PutAllResult::Changed),
        }
    }
    assert_eq!(stored, 1);
    let head = get(store, SPACE, "head").await.unwrap();
    for key in ["a", "b"] {
        let found = get(store, OTHER_SPACE, key).await.unwrap();
        assert_eq!((found.value, found.revision), (head.value.clone(), 1));
    }
}

/// One record that is too long refuses all.
pub async fn names_that_are_too_long_refuse_all(subject: Subject) {
    let store = &*subject.store;
    let longest = store.about().longest_name;
    if longest > 1 << 20 {
        return;
    }
    let long = "x".repeat(usize::try_from(longest).unwrap_or(0) + 1);
    let batch = [(SPACE, record("a")), (SPACE, record(&long))];
    let condition = PutCondition {
        space: SPACE,
        key: "head",
        value: None,
    };
    let refused = store.put_all(condition, batch.to_vec()).settle().await;
    let kind = refused.unwrap_err().kind;
    assert!(matches!(kind, ErrorKind::TooLarge | ErrorKind::Unsupported));
    assert_eq!(get(store, SPACE, "a").await, None);
}
