//! Erases of many records, in parts: in the order [`Order::Any`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::{
    SPACE, Subject, erase_page, expired_before, find_page, get, having, held, is, keys, lease,
    prefix, put, starts, stored,
};
use crate::{
    Label, LabelMatch, Order, PageRequest, PutResult, Record, RecordFilter, Store, counter,
};

const MINUTE: Duration = Duration::from_secs(60);

fn glob(pattern: &str) -> LabelMatch<'_> {
    LabelMatch::Glob {
        name: "handle",
        pattern,
    }
}

/// A record with two labels of one name, and an expiry.
fn many(index: usize) -> Record {
    let labels = [
        ("tag", "many".to_owned()),
        ("handle", format!("many:{:03}", index % 7)),
        ("handle", format!("many:x:{index:03}")),
    ];
    let labels = labels
        .into_iter()
        .map(|(name, value)| Label::new(name, value));
    Record {
        key: format!("many:{index:03}"),
        value: vec![7; 50].into(),
        labels: labels.collect(),
        expires: Some(index as i64),
        revision: 0,
        updated: 0,
    }
}

fn other(index: usize) -> Record {
    Record {
        key: format!("other:{index:03}"),
        labels: vec![
            Label::new("tag", "other"),
            Label::new("handle", format!("other:{index:03}")),
        ],
        expires: Some(1_000),
        ..many(index)
    }
}

/// Erases all that matches, without reservations, part by part.
async fn erase_in_parts(store: &dyn Store, filter: RecordFilter<'_>, limit: u32) -> Vec<Record> {
    let filter = RecordFilter {
        order: Order::Any,
        ..filter
    };
    let mut erased = Vec::new();
    loop {
        let page = erase_page(store, SPACE, &filter, PageRequest::labels(limit)).await;
        assert!(page.records.len() <= limit as usize);
        assert_eq!(page.records.len(), page.sizes.len());
        assert_eq!(page.next, None);
        if page.records.is_empty() {
            return erased;
        }
        erased.extend(page.records);
    }
}

/// Whichever criterion leads: each record that matches is erased once, and no other one.
pub async fn an_erase_in_any_order_erases_what_matches(subject: Subject) {
    const RECORDS: usize = 90;
    let store = &*subject.store;
    let two = [starts("handle", "many:"), is("tag", "many")];
    for (filter, limit) in [
        (prefix("many:"), 500),
        (having(&[is("tag", "many")]), 500),
        (having(&[starts("handle", "many:")]), 20),
        (having(&[glob("many:*")]), 500),
        (having(&[glob("*:x:*")]), 500),
        (having(&two), 500),
        (expired_before(RECORDS as i64), 500),
    ] {
        for index in 0..RECORDS {
            put(store, SPACE, many(index)).await;
        }
        put(store, SPACE, other(0)).await;
        let found = RecordFilter {
            order: Order::Any,
            ..filter
        };
        let found = find_page(store, SPACE, &found, PageRequest::keys(500)).await;
        assert_eq!(found.records.len(), RECORDS, "{filter:?}");
        let erased = erase_in_parts(&**subject.other(), filter, limit).await;
        let names: BTreeSet<_> = erased.iter().map(|record| record.key.clone()).collect();
        assert_eq!(
            (erased.len(), names.len()),
            (RECORDS, RECORDS),
            "{filter:?}"
        );
        for record in &erased {
            assert_eq!(record.labels.len(), 3, "{filter:?}: {record:?}");
        }
        let left = keys(store, SPACE, RecordFilter::default()).await;
        assert_eq!(left, ["other:000"], "{filter:?}");
    }
}

/// Neither reservations nor the counter of erases: what is computed meanwhile is stored.
pub async fn an_erase_in_any_order_revokes_nothing(subject: Subject) {
    let store = &*subject.store;
    put(store, SPACE, many(1)).await;
    let read = async || {
        let found = store.get(SPACE, "", &[counter::ERASED]);
        found.settle().await.unwrap().counters
    };
    let before = read().await;
    let reserved = if store.about().reservations {
        Some(lease(store, "many:001", MINUTE).await)
    } else {
        None
    };
    let erased = erase_in_parts(&**subject.other(), prefix("many:"), 9).await;
    assert_eq!(erased.len(), 1);
    assert_eq!(read().await, before);
    if let Some(reserved) = reserved {
        let put = store.put(SPACE, many(1), Some(&reserved), &[]);
        assert_eq!(put.settle().await.unwrap(), stored(1));
    }
}

/// Readers find what they look for, and what is computed is stored, also if it matches.
pub async fn other_calls_succeed_during_an_erase_of_many(subject: Subject) {
    const RECORDS: usize = 300;
    let store = &*subject.store;
    for index in 0..RECORDS {
        put(store, SPACE, many(index)).await;
    }
    put(store, SPACE, other(0)).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let eraser = {
        let (store, is_over) = (Arc::clone(subject.other()), Arc::clone(&is_over));
        tokio::spawn(async move {
            let mut erased = 0;
            while !is_over.load(Ordering::SeqCst) {
                erased += erase_in_parts(&*store, having(&[glob("many:*")]), 500)
                    .await
                    .len();
            }
            erased
        })
    };
    let mut rounds = 0;
    loop {
        let left = get(store, SPACE, &format!("many:{:03}", RECORDS - 1)).await;
        let known = get(store, SPACE, "other:000").await;
        assert_eq!(known.map(|record| record.labels.len()), Some(2));
        for record in [other(1), many(RECORDS)] {
            let reserved = if store.about().reservations {
                let reserved = store.reserve(SPACE, &record.key, &record.labels, MINUTE);
                Some(held(reserved.settle().await.unwrap()))
            } else {
                None
            };
            let put = store.put(SPACE, record, reserved.as_ref(), &[]);
            let put = put.settle().await.unwrap();
            assert!(matches!(put, PutResult::Stored { .. }), "{put:?}");
        }
        rounds += 1;
        assert!(!eraser.is_finished(), "the erase has failed");
        if left.is_none() && rounds >= 10 {
            break;
        }
    }
    is_over.store(true, Ordering::SeqCst);
    let erased = eraser.await.unwrap();
    assert!(erased >= RECORDS, "{erased}");
    erase_in_parts(store, having(&[is("tag", "many")]), 500).await;
    let left = keys(store, SPACE, RecordFilter::default()).await;
    assert_eq!(left, ["other:000", "other:001"]);
}
