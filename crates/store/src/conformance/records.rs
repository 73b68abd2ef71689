//! Checks of storing and reading.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::{
    SPACE, Subject, concurrently, erase, erase_page, expiring, find_page, get, labelled,
    large_value, prefix, put, put_labelled, raise, record, sorted, touch, with_value,
};
use crate::{ErrorKind, GetResult, Label, PageRequest, Record, RecordFilter, SpaceUsage};

/// Names with a special meaning in some language.
pub(super) const ODD: &[&str] = &[
    "",
    " ",
    "%",
    "_",
    "a%",
    "a_b",
    "*",
    "a*b",
    "?",
    "[a-z]",
    "[",
    "]",
    "'",
    "''",
    "\"",
    "\\",
    "\\%",
    "a;DROP TABLE records",
    "--",
    "{}",
    "cache:a:b",
    "a/b/../c",
    "\n",
    "\t",
    "ä",
    "a\u{308}",
    "日本語",
    "🐳",
    "\u{FEFF}a",
    "\u{10FFFF}",
    "\u{D7FF}\u{E000}",
    "NULL",
    "0",
    "00",
    "1e3",
];

/// Reading, finding, erasing and measuring an empty space is not an error.
pub async fn a_space_that_was_never_written_is_empty(subject: Subject) {
    let store = &*subject.store;
    assert_eq!(get(store, "nowhere", "key").await, None);
    let found = store
        .get("nowhere", "key", &["one", "two"])
        .settle()
        .await
        .unwrap();
    assert_eq!(
        found,
        GetResult {
            record: None,
            counters: vec![0, 0],
            now: found.now,
        }
    );
    let filter = RecordFilter::default();
    assert!(
        find_page(store, "nowhere", &filter, PageRequest::first(10))
            .await
            .records
            .is_empty()
    );
    assert!(
        erase_page(store, "nowhere", &filter, PageRequest::first(10))
            .await
            .records
            .is_empty()
    );
    touch(store, "nowhere", &[("key", 5)]).await;
    assert_eq!(
        store.usage("nowhere").settle().await.unwrap(),
        SpaceUsage::default()
    );
}

/// Every field is returned, through every handle.
pub async fn what_was_stored_comes_back(subject: Subject) {
    let labels = vec![
        Label::new("tag", "b"),
        Label::new("tag", "a"),
        Label::new("", ""),
    ];
    let stored = Record {
        labels: labels.clone(),
        expires: Some(-7),
        ..record("key")
    };
    put(
        &*subject.store,
        SPACE,
        Record {
            revision: 99,
            updated: 99,
            ..stored.clone()
        },
    )
    .await;
    put(&*subject.store, SPACE, record("other")).await;
    for store in subject.handles() {
        let found = get(&**store, SPACE, "key").await.unwrap();
        assert_eq!(
            (&found.key, &found.value, found.expires),
            (&stored.key, &stored.value, Some(-7))
        );
        assert_eq!(sorted(found.labels), sorted(labels.clone()));
        assert_eq!(found.revision, 1, "the memory gives revisions");
        assert_eq!(get(&**store, SPACE, "other").await.unwrap().expires, None);
        assert_eq!(get(&**store, SPACE, "ke").await, None);
        assert_eq!(get(&**store, SPACE, "KEY").await, None);
    }
    subject.pass(Duration::from_secs(1));
    let before = get(&*subject.store, SPACE, "key").await.unwrap().updated;
    put(&*subject.store, SPACE, stored).await;
    assert!(get(&*subject.store, SPACE, "key").await.unwrap().updated >= before + 1000);
}

/// A value may have any bytes, or none.
pub async fn any_bytes_are_a_value(subject: Subject) {
    let store = &*subject.store;
    let all: Vec<u8> = (0..=255).collect();
    for value in [&b""[..], b"\0", b"\0\0a", &all, b"\xff\xfe\x80"] {
        put(
            store,
            SPACE,
            with_value("key", Bytes::copy_from_slice(value)),
        )
        .await;
        assert_eq!(get(store, SPACE, "key").await.unwrap().value, value);
        let batch = find_page(
            store,
            SPACE,
            &RecordFilter::default(),
            PageRequest::first(1),
        )
        .await;
        assert_eq!(batch.records[0].value, value);
    }
}

/// A value of three megabytes is returned.
pub async fn a_large_value_comes_back(subject: Subject) {
    let size = u32::try_from(large_value(&*subject.store)).unwrap();
    let value: Bytes = (0..size)
        .map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    put(&*subject.store, SPACE, with_value("key", value.clone())).await;
    let found = subject
        .other()
        .get(SPACE, "key", &["counter"])
        .settle()
        .await
        .unwrap();
    assert!(found.record.unwrap().value == value);
    assert_eq!(found.counters, [0]);
}

/// Nothing in a name is syntax, and names that look alike are different.
pub async fn any_text_is_a_key_and_a_label(subject: Subject) {
    let store = &*subject.store;
    for space in [SPACE, "", "%", "a'b"] {
        for &odd in ODD {
            assert_eq!(
                put(store, space, labelled(odd, &[("tag", odd), (odd, "x")])).await,
                1,
                "{odd:?}"
            );
        }
        for &odd in ODD {
            let found = get(store, space, odd).await.unwrap();
            assert_eq!(found.key, odd);
            assert_eq!(
                sorted(found.labels),
                sorted(vec![Label::new("tag", odd), Label::new(odd, "x")])
            );
        }
    }
}

/// Keys of eight kilobytes, if the store accepts them, that differ only at the end.
pub async fn long_keys(subject: Subject) {
    let store = &*subject.store;
    let length = store.about().longest_name.min(8192) as usize - 1;
    let long = "k".repeat(length);
    for end in ["a", "b"] {
        let key = format!("{long}{end}");
        put_labelled(store, &key, &[("tag", &key)]).await;
    }
    assert_eq!(
        get(store, SPACE, &format!("{long}b")).await.unwrap().value,
        format!("value of {long}b")
    );
    assert_eq!(get(store, SPACE, &long).await, None);
    assert_eq!(
        erase(store, SPACE, prefix(&format!("{long}a"))).await,
        [format!("{long}a")]
    );
}

/// Revisions start at 1, increase by one, and start at 1 again after an erase.
pub async fn revisions_count_replacements(subject: Subject) {
    for expected in 1..=5 {
        for key in ["one", "two"] {
            assert_eq!(put(&**subject.other(), SPACE, record(key)).await, expected);
            assert_eq!(
                get(&*subject.store, SPACE, key).await.unwrap().revision,
                expected
            );
        }
    }
    erase(&*subject.store, SPACE, prefix("one")).await;
    assert_eq!(put(&*subject.store, SPACE, record("one")).await, 1);
    assert_eq!(put(&*subject.store, SPACE, record("two")).await, 6);
}

/// Nothing of the old record remains.
pub async fn a_replacement_replaces_everything(subject: Subject) {
    let store = &*subject.store;
    put(
        store,
        SPACE,
        Record {
            expires: Some(5),
            ..labelled("key", &[("tag", "old"), ("tag", "both")])
        },
    )
    .await;
    put(
        store,
        SPACE,
        Record {
            value: Bytes::new(),
            ..labelled("key", &[("tag", "both"), ("tag", "new")])
        },
    )
    .await;
    let found = get(store, SPACE, "key").await.unwrap();
    assert_eq!((found.value.len(), found.expires), (0, None));
    assert_eq!(
        sorted(found.labels),
        [Label::new("tag", "both"), Label::new("tag", "new")]
    );
}

/// One key in two spaces is two records; likewise for counters and leases.
pub async fn spaces_are_apart(subject: Subject) {
    let store = &*subject.store;
    put(store, "one", labelled("key", &[("tag", "x")])).await;
    put(
        store,
        "two",
        Record {
            value: Bytes::from_static(b"2"),
            ..labelled("key", &[("tag", "x")])
        },
    )
    .await;
    raise(store, "one", "key").await;
    assert_eq!(
        store
            .get("two", "key", &["key"])
            .settle()
            .await
            .unwrap()
            .counters,
        [0]
    );
    assert_eq!(erase(store, "one", RecordFilter::default()).await, ["key"]);
    assert_eq!(get(store, "one", "key").await, None);
    assert_eq!(get(store, "two", "key").await.unwrap().value, "2");
    if store.about().reservations {
        let hold = Duration::from_secs(60);
        let one = store
            .reserve("one", "key", &[], hold)
            .settle()
            .await
            .unwrap();
        let two = store
            .reserve("two", "key", &[], hold)
            .settle()
            .await
            .unwrap();
        assert!(matches!(
            (one, two),
            (crate::ReserveResult::Held(_), crate::ReserveResult::Held(_))
        ));
    }
}

/// A repeated label is stored, found and counted once.
pub async fn repeated_labels_are_one(subject: Subject) {
    let store = &*subject.store;
    put_labelled(store, "key", &[("tag", "x"), ("tag", "x")]).await;
    let repeated = store.usage(SPACE).settle().await.unwrap();
    assert_eq!(
        get(store, SPACE, "key").await.unwrap().labels,
        [Label::new("tag", "x")]
    );
    put_labelled(store, "key", &[("tag", "x")]).await;
    assert_eq!(store.usage(SPACE).settle().await.unwrap(), repeated);
}

/// An expired record is returned: the caller decides what expiry means.
pub async fn an_expired_record_is_still_there(subject: Subject) {
    put(&*subject.store, SPACE, expiring("key", 1)).await;
    subject.pass(Duration::from_secs(3600));
    assert_eq!(
        get(&*subject.store, SPACE, "key").await.unwrap().expires,
        Some(1)
    );
    assert_eq!(put(&*subject.store, SPACE, record("key")).await, 2);
}

/// Usage counts keys, values and labels in bytes, through writes, replacements and erasures.
pub async fn usage_is_what_is_there(subject: Subject) {
    let store = &*subject.store;
    let usage = async || store.usage(SPACE).settle().await.unwrap();
    put(
        store,
        SPACE,
        Record {
            value: Bytes::from_static(b"12345"),
            ..labelled("key", &[("tag", "ä")])
        },
    )
    .await;
    assert_eq!(
        usage().await,
        SpaceUsage {
            records: 1,
            bytes: 3 + 5 + 3 + 2
        }
    );
    put(store, SPACE, with_value("key", "1")).await;
    assert_eq!(
        usage().await,
        SpaceUsage {
            records: 1,
            bytes: 4
        }
    );
    put(store, SPACE, with_value("other", "1")).await;
    put(store, "elsewhere", record("key")).await;
    assert_eq!(
        usage().await,
        SpaceUsage {
            records: 2,
            bytes: 10
        }
    );
    raise(store, SPACE, "counter").await;
    touch(store, SPACE, &[("key", i64::MAX), ("unknown", 5)]).await;
    assert_eq!(
        usage().await,
        SpaceUsage {
            records: 2,
            bytes: 10
        }
    );
    erase(store, SPACE, prefix("k")).await;
    assert_eq!(
        usage().await,
        SpaceUsage {
            records: 1,
            bytes: 6
        }
    );
    erase(store, SPACE, RecordFilter::default()).await;
    assert_eq!(usage().await, SpaceUsage::default());
}

/// Sixteen tasks replace one record and add others: no revision is assigned twice.
pub async fn concurrent_stores_are_all_counted(subject: Subject) {
    let revisions = concurrently(&subject, 16, |store, task| async move {
        let mut revisions = Vec::new();
        for number in 0..10 {
            revisions.push(put(&*store, SPACE, record("shared")).await);
            put(&*store, SPACE, record(&format!("{task}-{number}"))).await;
        }
        revisions
    });
    let mut revisions = revisions.await.concat();
    revisions.sort_unstable();
    assert_eq!(revisions, (1..=160).collect::<Vec<u64>>());
    assert_eq!(
        subject.store.usage(SPACE).settle().await.unwrap().records,
        161
    );
}

/// A read returns the advancing time, with and without a record, counters and a space.
pub async fn a_read_tells_the_time(subject: Subject) {
    let store = &*subject.store;
    put(store, SPACE, record("key")).await;
    let time = async |space: &str, key: &str, counters: &[&str]| {
        let found = subject.other().get(space, key, counters);
        found.settle().await.unwrap().now
    };
    let stored = get(store, SPACE, "key").await.unwrap().updated;
    let before = time(SPACE, "key", &[]).await;
    assert!(before >= stored && before < stored + 60_000);
    subject.pass(Duration::from_secs(3600));
    for now in [
        time(SPACE, "key", &[]).await,
        time(SPACE, "none", &["a"]).await,
        time("nowhere", "key", &["a"]).await,
    ] {
        assert!(now >= before + 3_600_000, "{now} an hour after {before}");
        assert!(now < before + 7_200_000, "{now} an hour after {before}");
    }
}

/// A name that is too long is refused, and never truncated.
pub async fn names_that_are_too_long_are_refused(subject: Subject) {
    let store = &*subject.store;
    let longest = store.about().longest_name;
    // A longer one would not fit into the machine either.
    if longest > 1 << 20 {
        return;
    }
    let long = "n".repeat(longest as usize + 1);
    for record in [
        record(&long),
        labelled("key", &[("tag", &long)]),
        labelled("key", &[(&long, "x")]),
    ] {
        let refused = store.put(SPACE, record, None, &[]).settle().await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::TooLarge);
    }
    let refused = store.add(SPACE, &[(&long, 1)]).settle().await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::TooLarge);
    assert_eq!(
        store.usage(SPACE).settle().await.unwrap(),
        SpaceUsage::default()
    );
}

/// If the store declares snapshots, a reader never sees a record without the counter that was raised before
/// it was stored, nor the counter of a later one.
pub async fn a_read_is_of_one_moment(subject: Subject) {
    if !subject.store.about().snapshot {
        return;
    }
    let writer = Arc::clone(subject.other());
    let writing = tokio::spawn(async move {
        for number in 1..=200 {
            let raised = raise(&*writer, SPACE, "counter").await;
            assert_eq!(raised, number);
            let value = Bytes::from(number.to_string());
            put(&*writer, SPACE, with_value("key", value)).await;
        }
    });
    while !writing.is_finished() {
        let found = subject.store.get(SPACE, "key", &["counter"]);
        let found = found.settle().await.unwrap();
        let stored: u64 = found.record.map_or(0, |record| {
            std::str::from_utf8(&record.value).unwrap().parse().unwrap()
        });
        let counter = found.counters[0];
        assert!(
            stored == counter || stored + 1 == counter,
            "record {stored} with counter {counter}"
        );
        tokio::task::yield_now().await;
    }
    writing.await.unwrap();
}
