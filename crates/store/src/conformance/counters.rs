//! Checks of counters.

use std::time::Duration;

use super::{
    SPACE, Subject, concurrently, erase, erase_page, expired_before, get, in_order, lease, put,
    raise, record, stored,
};
use crate::{Order, PageRequest, PutResult, RecordFilter, counter};

/// A counter starts at zero and counts by one, per space and name.
pub async fn counters_count(subject: Subject) {
    for expected in 1..=5 {
        assert_eq!(raise(&**subject.other(), SPACE, "one").await, expected);
        assert_eq!(
            subject
                .store
                .get(SPACE, "x", &["one"])
                .settle()
                .await
                .unwrap()
                .counters,
            [expected]
        );
    }
    assert_eq!(raise(&*subject.store, SPACE, "On%").await, 1);
    assert_eq!(raise(&*subject.store, "elsewhere", "one").await, 1);
}

/// Counters are returned in the requested order, as often as requested, with or without a record.
pub async fn counters_come_with_the_record(subject: Subject) {
    let store = &*subject.store;
    put(store, SPACE, record("key")).await;
    for (name, times) in [("a", 1), ("b", 2), ("c", 3)] {
        for _ in 0..times {
            raise(store, SPACE, name).await;
        }
    }
    let asked = ["c", "never", "a", "c", "b"];
    for (key, there) in [("key", true), ("nothing", false)] {
        for count in 0..=asked.len() {
            let found = store.get(SPACE, key, &asked[..count]).settle().await;
            let found = found.unwrap();
            assert_eq!(found.record.is_some(), there);
            assert_eq!(found.counters, [3, 0, 1, 3, 2][..count]);
        }
    }
    let many: Vec<String> = (0..100).map(|number| format!("counter {number}")).collect();
    raise(store, SPACE, &many[42]).await;
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let found = store.get(SPACE, "key", &many).settle().await.unwrap();
    assert_eq!(
        (
            found.counters.len(),
            found.counters[42],
            found.counters.iter().sum::<u64>()
        ),
        (100, 1, 1)
    );
}

/// An erase erases no counters, because they are not records.
pub async fn counters_survive_an_erase(subject: Subject) {
    let store = &*subject.store;
    put(store, SPACE, record("key")).await;
    raise(store, SPACE, "key").await;
    assert_eq!(erase(store, SPACE, RecordFilter::default()).await, ["key"]);
    assert_eq!(raise(store, SPACE, "key").await, 2);
}

/// Sixteen concurrent tasks raise a counter: every value is returned once.
pub async fn concurrent_raises_are_all_counted(subject: Subject) {
    let values = concurrently(&subject, 16, |store, _| async move {
        let mut values = Vec::new();
        for _ in 0..10 {
            values.push(raise(&*store, SPACE, "counter").await);
        }
        values
    });
    let mut values = values.await.concat();
    values.sort_unstable();
    assert_eq!(values, (1..=160).collect::<Vec<u64>>());
}

/// Several counters are raised in one step and returned in the given order, each as often as given.
pub async fn several_are_raised_together(subject: Subject) {
    let store = &*subject.store;
    let raised = store.add(SPACE, &[("a", 1), ("b", 5), ("a", 2)]);
    assert_eq!(raised.settle().await.unwrap(), [1, 5, 3]);
    let raised = store.add(SPACE, &[("a", 0), ("b", u64::MAX)]);
    assert_eq!(raised.settle().await.unwrap(), [3, i64::MAX as u64]);
    assert_eq!(raise(store, SPACE, "b").await, i64::MAX as u64);
    let none = store.add(SPACE, &[]);
    assert_eq!(none.settle().await.unwrap(), [0u64; 0]);
    let found = subject.other().get(SPACE, "", &["a", "b"]);
    assert_eq!(found.settle().await.unwrap().counters, [3, i64::MAX as u64]);
}

/// `raise_to` never lowers a counter.
pub async fn a_counter_is_raised_to_a_value(subject: Subject) {
    let store = &*subject.store;
    for (value, expected) in [(5, 5), (3, 5), (5, 5), (9, 9)] {
        let raised = store.raise_to(SPACE, "counter", value);
        assert_eq!(raised.settle().await.unwrap(), expected);
    }
    assert_eq!(raise(store, SPACE, "counter").await, 10);
    let raised = store.raise_to(SPACE, "other", 0);
    assert_eq!(raised.settle().await.unwrap(), 0);
}

/// Counters of one space are listed by the prefix of their names, page by page.
pub async fn counters_are_listed(subject: Subject) {
    let store = &*subject.store;
    for (name, value) in [("b:2", 2), ("b:1", 1), ("a", 7), ("b%", 3), ("c", 4)] {
        store.add(SPACE, &[(name, value)]).settle().await.unwrap();
    }
    raise(store, "elsewhere", "b:9").await;
    let listed = async |prefix: &str, after: Option<&str>, limit| {
        let listed = subject.other().counters(SPACE, prefix, after, limit);
        listed.settle().await.unwrap()
    };
    let named = |names: &[(&str, u64)]| -> Vec<(String, u64)> {
        names
            .iter()
            .map(|&(name, value)| (name.to_owned(), value))
            .collect()
    };
    assert_eq!(
        listed("", None, 9).await,
        named(&[("a", 7), ("b%", 3), ("b:1", 1), ("b:2", 2), ("c", 4)])
    );
    assert_eq!(
        listed("b:", None, 9).await,
        named(&[("b:1", 1), ("b:2", 2)])
    );
    assert_eq!(listed("b:", None, 1).await, named(&[("b:1", 1)]));
    assert_eq!(listed("b:", Some("b:1"), 9).await, named(&[("b:2", 2)]));
    assert_eq!(listed("b:", Some("a"), 1).await, named(&[("b:1", 1)]));
    assert_eq!(listed("b:", Some("c"), 9).await, []);
    assert_eq!(listed("", None, 0).await, []);
    // Those that were never raised are not there, and do not count.
    store.raise_to(SPACE, "0", 0).settle().await.unwrap();
    store.add(SPACE, &[("00", 0)]).settle().await.unwrap();
    assert_eq!(listed("", None, 1).await, named(&[("a", 7)]));
    assert_eq!(listed("", None, u32::MAX).await.len(), 5);
}

/// A counter that has changed refuses the put, with or without a lease, and the lease stays.
pub async fn a_store_depends_on_counters(subject: Subject) {
    let store = &*subject.store;
    raise(store, SPACE, "a").await;
    let put = async |lease: Option<&_>, counters: &[(&str, u64)]| {
        let stored = store.put(SPACE, record("key"), lease, counters);
        stored.settle().await.unwrap()
    };
    assert_eq!(
        put(None, &[("b", 0), ("a", 0)]).await,
        PutResult::CounterChanged { counter: 1 }
    );
    assert_eq!(get(store, SPACE, "key").await, None);
    assert_eq!(put(None, &[("a", 1), ("b", 0)]).await, stored(1));
    if !store.about().reservations {
        return;
    }
    let held = lease(store, "key", Duration::from_secs(60)).await;
    raise(&**subject.other(), SPACE, "b").await;
    assert_eq!(
        put(Some(&held), &[("a", 1), ("b", 0)]).await,
        PutResult::CounterChanged { counter: 1 }
    );
    assert_eq!(put(Some(&held), &[("a", 1), ("b", 1)]).await, stored(2));
    assert_eq!(put(Some(&held), &[("b", 0)]).await, PutResult::LeaseLost);
}

/// An erase raises the counter strictly, to at least the store's time, whether anything matched or not; a
/// sweep and an eviction do not.
pub async fn an_erase_raises_its_counter(subject: Subject) {
    let store = &*subject.store;
    let read = async || {
        let found = store.get(SPACE, "", &[counter::ERASED]);
        let found = found.settle().await.unwrap();
        (found.counters[0], found.now)
    };
    assert_eq!(read().await.0, 0);
    let mut last = 0;
    for round in 0..4 {
        let order = if round % 2 == 0 {
            Order::Key
        } else {
            Order::Newest
        };
        let filter = in_order(order);
        let (_, before) = read().await;
        let erased = subject
            .other()
            .erase(SPACE, &filter, PageRequest::keys(round));
        erased.settle().await.unwrap();
        let (erased, _) = read().await;
        assert!(erased > last, "{erased} after {last}");
        assert!(erased >= before as u64, "{erased} after {before}");
        last = erased;
        if round == 2 {
            subject.pass(Duration::from_secs(60));
        }
    }
    for filter in [
        expired_before(i64::MAX),
        in_order(Order::LeastRecentlyUsed),
        in_order(Order::Expiry),
    ] {
        erase_page(store, SPACE, &filter, PageRequest::keys(9)).await;
        assert_eq!(read().await.0, last, "{filter:?}");
    }
    let elsewhere = store.get("elsewhere", "", &[counter::ERASED]);
    assert_eq!(elsewhere.settle().await.unwrap().counters, [0]);
}
