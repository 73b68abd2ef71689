//! Checks of [`Store::amend`].

use std::time::Duration;

use bytes::Bytes;

use super::{
    SPACE, Subject, concurrently, erase, expiring, get, in_order, keys, prefix, put, put_labelled,
    record,
};
use crate::{ErrorKind, Label, Order, Record, Store, space};

/// Amends a record; `Err` if the store does not support it.
async fn amend(store: &dyn Store, read: &Record, value: &str) -> Result<Option<u64>, ()> {
    let record = Record {
        value: Bytes::copy_from_slice(value.as_bytes()),
        ..read.clone()
    };
    match store.amend(SPACE, record).settle().await {
        Ok(amended) => Ok(amended),
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Unsupported, "{error}");
            Err(())
        }
    }
}

/// Amending changes the value, the revision and the stamp, and nothing else.
pub async fn a_record_that_is_as_it_was_read_is_amended(subject: Subject) {
    let store = &*subject.store;
    let stored = Record {
        labels: vec![Label::new("tag", "a")],
        ..expiring("b", 5_000)
    };
    put(store, SPACE, stored).await;
    let read = get(store, SPACE, "b").await.unwrap();
    subject.pass(Duration::from_secs(10));
    put_labelled(store, "a", &[("tag", "a")]).await;
    let other = subject.other();
    let stamp = other.stamp(SPACE, "b");
    let Ok(amended) = amend(store, &read, "longer than it was before").await else {
        return;
    };
    assert_eq!(amended, Some(read.revision + 1));
    assert!(stamp.is_none() || other.stamp(SPACE, "b") != stamp);
    let expected = Record {
        value: "longer than it was before".into(),
        revision: read.revision + 1,
        ..read.clone()
    };
    for store in subject.handles() {
        assert_eq!(get(&**store, SPACE, "b").await.as_ref(), Some(&expected));
        for (order, keys_in_order) in [
            (Order::Newest, ["a", "b"]),
            (Order::LeastRecentlyUsed, ["b", "a"]),
        ] {
            let filter = in_order(order);
            assert_eq!(keys(&**store, SPACE, filter).await, keys_in_order);
        }
    }
    let usage = store.usage(SPACE).settle().await.unwrap();
    assert_eq!(amend(store, &expected, "short").await, Ok(Some(3)));
    let smaller = store.usage(SPACE).settle().await.unwrap();
    assert_eq!(usage.bytes - smaller.bytes, 20);
    assert_eq!(usage.records, smaller.records);
    // Replacements continue from that revision.
    assert_eq!(put(store, SPACE, record("b")).await, 4);
    put(store, space::USER, record("c")).await;
    let Some(text) = get(store, space::USER, "c").await else {
        return;
    };
    let refused = store.amend(space::USER, text).settle().await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Unsupported);
}

/// A record that was replaced, amended, erased, or erased and stored anew is neither overwritten nor
/// restored.
pub async fn a_record_that_changed_since_is_not_amended(subject: Subject) {
    let (store, other) = (&*subject.store, &**subject.other());
    for how in 0..4 {
        let key = how.to_string();
        put(store, SPACE, record(&key)).await;
        let read = get(store, SPACE, &key).await.unwrap();
        subject.pass(Duration::from_secs(1));
        match how {
            0 => drop(put(other, SPACE, record(&key)).await),
            1 => match amend(other, &read, "amended").await {
                Ok(amended) => assert_eq!(amended, Some(2)),
                Err(()) => return,
            },
            _ => drop(erase(other, SPACE, prefix(&key)).await),
        }
        if how == 3 {
            assert_eq!(put(other, SPACE, record(&key)).await, 1);
        }
        let before = get(store, SPACE, &key).await;
        assert_eq!(amend(store, &read, "too late").await, Ok(None), "{how}");
        assert_eq!(get(store, SPACE, &key).await, before, "{how}");
        assert_eq!(before.is_none(), how == 2);
    }
}

/// One of several concurrent amendments succeeds.
pub async fn one_of_many_amends(subject: Subject) {
    let store = &*subject.store;
    put(store, SPACE, record("key")).await;
    let read = get(store, SPACE, "key").await.unwrap();
    if amend(store, &read, "first").await.is_err() {
        return;
    }
    let read = get(store, SPACE, "key").await.unwrap();
    let amended = concurrently(&subject, 20, |handle, number| {
        let read = read.clone();
        async move { amend(&*handle, &read, &number.to_string()).await }
    });
    let amended: Vec<_> = amended.await.into_iter().flat_map(Result::unwrap).collect();
    assert_eq!(amended, [read.revision + 1]);
}
