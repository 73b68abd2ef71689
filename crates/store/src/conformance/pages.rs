//! Checks of pages, cursors and erasing.

use std::collections::BTreeSet;

use super::{
    ORDERS, SPACE, Subject, erase_page, expired_before, expiring, find_page, get, having, in_order,
    is, keys, keys_of, labelled, large_value, prefix, put, put_labelled, record, starts,
};
use crate::{ErrorKind, Label, Order, PageRequest, RecordFilter, RecordPage, Store, ValuePart};

/// Collects all keys, page by page.
pub(super) async fn walk(store: &dyn Store, filter: &RecordFilter<'_>, limit: u32) -> Vec<String> {
    let mut all = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let page = PageRequest {
            after: after.as_deref(),
            ..PageRequest::keys(limit)
        };
        let RecordPage { records, next, .. } = find_page(store, SPACE, filter, page).await;
        assert!(records.len() <= limit as usize);
        all.extend(records.into_iter().map(|record| record.key));
        match next {
            Some(next) => after = Some(next),
            None => return all,
        }
    }
}

fn number(number: usize) -> String {
    format!("key:{number:03}")
}

/// Pages of any size together contain all records.
pub async fn pages_are_complete(subject: Subject) {
    let store = &*subject.store;
    for index in (0..60).rev() {
        put(store, SPACE, record(&number(index))).await;
    }
    put(store, SPACE, record("z")).await;
    let expected: Vec<String> = (0..60).map(number).collect();
    for limit in [1, 7, 59, 60, 61, 100] {
        assert_eq!(
            walk(store, &prefix("key:"), limit).await,
            expected,
            "pages of {limit}"
        );
    }
    let page = PageRequest {
        after: Some("a"),
        ..PageRequest::keys(2)
    };
    assert_eq!(
        find_page(store, SPACE, &prefix("key:"), page)
            .await
            .records
            .len(),
        2
    );
    let page = PageRequest {
        after: Some("z"),
        ..PageRequest::keys(2)
    };
    assert_eq!(
        find_page(store, SPACE, &prefix("key:"), page).await,
        RecordPage::default()
    );
}

/// In orders without a cursor, a page has all that it has room for. An erase of it may be in parts.
pub async fn pages_are_complete_in_every_order(subject: Subject) {
    const RECORDS: usize = 350;
    let store = &*subject.store;
    for index in 0..RECORDS {
        put(store, SPACE, expiring(&number(index), index as i64)).await;
    }
    for order in ORDERS {
        let filter = in_order(order);
        if order == Order::Key {
            assert_eq!(walk(store, &filter, 500).await.len(), RECORDS);
            continue;
        }
        for page in [
            PageRequest::keys(500),
            PageRequest::labels(500),
            PageRequest::first(500),
        ] {
            let found = find_page(store, SPACE, &filter, page).await;
            assert_eq!(found.records.len(), RECORDS, "{order:?}");
        }
    }
    let filter = RecordFilter {
        order: Order::Expiry,
        ..expired_before(340)
    };
    let mut erased = 0;
    loop {
        let page = store.erase(SPACE, &filter, PageRequest::labels(500));
        let page = page.settle().await.unwrap();
        if page.records.is_empty() {
            break;
        }
        erased += page.records.len();
    }
    assert_eq!(erased, 340);
    assert_eq!(keys(store, SPACE, RecordFilter::default()).await.len(), 10);
}

/// Pages are complete, whichever index leads.
pub async fn pages_of_a_label_are_complete(subject: Subject) {
    let store = &*subject.store;
    for index in 0..30 {
        let mut stored = labelled(
            &number(index),
            &[
                ("tag", "x"),
                ("handle", &format!("h{}", index % 7)),
                ("handle", "h"),
            ],
        );
        stored.expires = Some(30 - index as i64);
        put(store, SPACE, stored).await;
        put_labelled(store, &format!("other:{index}"), &[("tag", "y")]).await;
    }
    let expected: Vec<String> = (0..30).map(number).collect();
    let (exact, beginning) = ([is("tag", "x")], [starts("handle", "h")]);
    for limit in [1, 4, 29, 30, 31] {
        for labels in [&exact, &beginning] {
            assert_eq!(walk(store, &having(labels), limit).await, expected);
        }
        let expired = expired_before(100);
        assert_eq!(walk(store, &expired, limit).await, expected);
    }
}

/// Records that exist all the time are found once, records that never existed are not found, and no record is
/// found twice.
pub async fn pages_stay_complete_while_records_come_and_go(subject: Subject) {
    let store = &*subject.store;
    for index in (0..100).step_by(2) {
        put_labelled(store, &number(index), &[("tag", "x")]).await;
    }
    let tags = [is("tag", "x")];
    for filter in [prefix("key:"), having(&tags)] {
        let mut seen = Vec::new();
        let mut after: Option<String> = None;
        let mut round = 0;
        loop {
            let page = PageRequest {
                after: after.as_deref(),
                ..PageRequest::keys(5)
            };
            let batch = find_page(store, SPACE, &filter, page).await;
            seen.extend(batch.records.into_iter().map(|record| record.key));
            let Some(next) = batch.next else { break };
            // Records are added and erased before and after the cursor, the cursor's own record included.
            put_labelled(
                &**subject.other(),
                &number(round * 2 % 100 + 1),
                &[("tag", "x")],
            )
            .await;
            put_labelled(
                &**subject.other(),
                &number(99 - round * 2 % 100),
                &[("tag", "x")],
            )
            .await;
            if round % 3 == 0 {
                super::erase(store, SPACE, prefix(&next)).await;
                put_labelled(store, &next, &[("tag", "x")]).await;
            }
            after = Some(next);
            round += 1;
        }
        let deduplicate: BTreeSet<&String> = seen.iter().collect();
        assert_eq!(deduplicate.len(), seen.len(), "a key was found twice");
        assert!(
            (0..100)
                .step_by(2)
                .all(|index| deduplicate.contains(&number(index))),
            "a key was missed"
        );
    }
}

/// A page of keys has no values and labels, but all else.
pub async fn keys_only(subject: Subject) {
    let store = &*subject.store;
    let mut stored = labelled("key", &[("tag", "x")]);
    stored.expires = Some(5);
    put(store, SPACE, stored.clone()).await;
    put(store, SPACE, stored).await;
    let full = get(store, SPACE, "key").await.unwrap();
    for order in ORDERS {
        let filter = in_order(order);
        let bare = find_page(store, SPACE, &filter, PageRequest::keys(5))
            .await
            .records;
        assert_eq!(bare.len(), 1);
        assert!(bare[0].value.is_empty() && bare[0].labels.is_empty());
        assert_eq!(
            (bare[0].revision, bare[0].expires, bare[0].updated),
            (2, Some(5), full.updated)
        );
        let with = find_page(store, SPACE, &filter, PageRequest::first(5))
            .await
            .records;
        assert_eq!(with, std::slice::from_ref(&full));
    }
}

/// The size of a value is returned without the value.
pub async fn labels_without_values(subject: Subject) {
    let store = &*subject.store;
    put_labelled(store, "key", &[("tag", "x")]).await;
    let full = get(store, SPACE, "key").await.unwrap();
    let size = full.value.len() as u64;
    let filter = RecordFilter::default();
    for page in [
        PageRequest::labels(5),
        PageRequest::keys(5),
        PageRequest::first(5),
    ] {
        let batch = find_page(store, SPACE, &filter, page).await;
        assert_eq!(batch.sizes, [size]);
        let expected = if page.labels { &full.labels[..] } else { &[] };
        assert_eq!(batch.records[0].labels, expected);
        let whole = page.values == ValuePart::All;
        assert_eq!(batch.records[0].value.is_empty(), !whole);
    }
    let erased = store.erase(SPACE, &filter, PageRequest::labels(5));
    let erased = erased.settle().await.unwrap();
    assert_eq!(
        (&erased.records[0].labels, &erased.sizes),
        (&full.labels, &vec![size])
    );
    assert!(erased.records[0].value.is_empty());
}

/// At least the requested number of bytes is returned, of values of all sizes.
pub async fn beginnings_of_values(subject: Subject) {
    let store = &*subject.store;
    for size in [0usize, 1, 100, 101, large_value(store)] {
        let value: bytes::Bytes = (0..size).map(|at| (at % 251) as u8).collect();
        let stored = crate::Record {
            value: value.clone(),
            ..record("key")
        };
        put(store, SPACE, stored).await;
        let page = PageRequest {
            values: ValuePart::First(100),
            ..PageRequest::keys(1)
        };
        let filter = RecordFilter::default();
        let batch = find_page(store, SPACE, &filter, page).await;
        assert_eq!(batch.sizes, [size as u64]);
        let found = &batch.records[0].value;
        assert!(found.len() >= size.min(100));
        assert_eq!(found[..], value[..found.len()]);
    }
}

/// A limit of zero finds and erases nothing.
pub async fn nothing_is_a_page_too(subject: Subject) {
    let store = &*subject.store;
    put(store, SPACE, record("key")).await;
    let nothing = PageRequest::first(0);
    assert_eq!(
        find_page(store, SPACE, &RecordFilter::default(), nothing).await,
        RecordPage::default()
    );
    assert_eq!(
        erase_page(store, SPACE, &RecordFilter::default(), nothing).await,
        RecordPage::default()
    );
    assert!(get(store, SPACE, "key").await.is_some());
}

/// A cursor in another order is an error of the caller.
pub async fn a_cursor_works_in_key_order_only(subject: Subject) {
    let store = &*subject.store;
    put(store, SPACE, record("key")).await;
    for order in [Order::Newest, Order::LeastRecentlyUsed, Order::Expiry] {
        let filter = in_order(order);
        let page = PageRequest {
            after: Some("a"),
            ..PageRequest::first(5)
        };
        assert_eq!(
            store
                .find(SPACE, &filter, page)
                .settle()
                .await
                .unwrap_err()
                .kind,
            ErrorKind::Unsupported
        );
        assert_eq!(
            store
                .erase(SPACE, &filter, page)
                .settle()
                .await
                .unwrap_err()
                .kind,
            ErrorKind::Unsupported
        );
        assert_eq!(
            find_page(store, SPACE, &filter, PageRequest::first(1))
                .await
                .next,
            None
        );
    }
    assert!(get(store, SPACE, "key").await.is_some());
}

/// The erased records are returned as they were, values only if requested.
pub async fn an_erase_returns_what_it_erased(subject: Subject) {
    let store = &*subject.store;
    put_labelled(store, "a", &[("tag", "x")]).await;
    put(store, SPACE, expiring("b", 5)).await;
    put(store, SPACE, expiring("b", 5)).await;
    let full = get(store, SPACE, "a").await.unwrap();
    let first = erase_page(store, SPACE, &prefix("a"), PageRequest::first(5)).await;
    assert_eq!(first.records, [full]);
    assert_eq!(first.records[0].labels, [Label::new("tag", "x")]);
    let second = erase_page(store, SPACE, &prefix(""), PageRequest::keys(5)).await;
    assert_eq!(
        (second.records[0].key.as_str(), second.records[0].revision),
        ("b", 2)
    );
    assert_eq!(second.records[0].expires, Some(5));
    assert!(second.records[0].value.is_empty());
    for store in subject.handles() {
        assert_eq!(get(&**store, SPACE, "a").await, None);
        assert_eq!(
            keys(&**store, SPACE, RecordFilter::default()).await,
            [""; 0]
        );
    }
}

/// Erasing works with a cursor, or from the beginning again.
pub async fn an_erase_goes_page_by_page(subject: Subject) {
    let store = &*subject.store;
    for with_cursor in [true, false] {
        for index in 0..25 {
            put(store, SPACE, record(&number(index))).await;
        }
        let mut erased = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = PageRequest {
                after: after.as_deref().filter(|_| with_cursor),
                ..PageRequest::keys(10)
            };
            let batch = erase_page(store, SPACE, &prefix("key:"), page).await;
            erased.extend(batch.records.into_iter().map(|record| record.key));
            let Some(next) = batch.next else { break };
            after = Some(next);
        }
        assert_eq!(erased, (0..25).map(number).collect::<Vec<_>>());
        assert_eq!(keys(store, SPACE, RecordFilter::default()).await, [""; 0]);
    }
}

/// The limit, the order and the criteria decide which records are erased.
pub async fn an_erase_spares_what_does_not_match(subject: Subject) {
    let store = &*subject.store;
    for (key, expires) in [("a", 30), ("b", 10), ("c", 20), ("d", 40)] {
        put(store, SPACE, expiring(key, expires)).await;
    }
    let filter = RecordFilter {
        order: Order::Expiry,
        ..expired_before(35)
    };
    let erased = erase_page(store, SPACE, &filter, PageRequest::keys(2)).await;
    assert_eq!(keys_of(erased), ["b", "c"]);
    assert_eq!(
        keys(store, SPACE, RecordFilter::default()).await,
        ["a", "d"]
    );
}
