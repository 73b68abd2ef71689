//! Checks of long names: a store may keep them in another form in its indexes, which may distinguish, find and order
//! none of them wrongly. The order of those that begin alike is not checked.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::pages::walk;
use super::{
    SPACE, Subject, get, having, is, keys, labelled, lease, prefix, put, put_labelled, record,
    reserve, starts, stored, touch,
};
use crate::{
    ErrorKind, Label, LabelMatch, Lease, PageRequest, PutAllResult, PutCondition, PutResult,
    Record, RecordFilter, ReserveResult, Store, glob_matches,
};

const MINUTE: Duration = Duration::from_secs(60);

/// A text of which the beginnings of many lengths are names. Its character of two bytes is at a place at which a store
/// may divide names.
fn text() -> String {
    format!("{}ä{}", "k".repeat(559), "m".repeat(8192))
}

/// Names of many lengths, of up to 8 KiB if the store accepts them, of which each begins as the next ones.
fn names(store: &dyn Store) -> BTreeSet<String> {
    let longest = store.about().longest_name.min(8192) as usize - 2;
    let lengths = [200, 558, 559, 561, 598, 599, 600, 601, 1500, longest];
    let lengths = lengths.into_iter().filter(|&length| length <= longest);
    let text = text();
    lengths
        .flat_map(|length| ["", "a", "b", "ab"].map(|end| format!("{}{end}", &text[..length])))
        .collect()
}

/// Returns a name without its last character.
fn shortened(name: &str) -> &str {
    let last = name.chars().next_back().map_or(0, char::len_utf8);
    &name[..name.len() - last]
}

/// The beginnings by which names are selected.
fn beginnings(names: &BTreeSet<String>) -> Vec<String> {
    let text = text();
    let mut beginnings: BTreeSet<&str> = names.iter().step_by(3).map(String::as_str).collect();
    beginnings.extend([0, 300, 559, 561, 562, 600, 601, 1000].map(|length| &text[..length]));
    beginnings.extend(names.last().map(|last| shortened(last)));
    beginnings.into_iter().map(str::to_owned).collect()
}

/// Fails if `found` are not the expected ones, each once, in any order.
#[track_caller]
fn assert_same<'a>(found: Vec<String>, expected: impl Iterator<Item = &'a String>, what: &str) {
    let count = found.len();
    let found: BTreeSet<String> = found.into_iter().collect();
    assert_eq!(found.len(), count, "repeated: {what}");
    assert_eq!(found, expected.cloned().collect(), "{what}");
}

/// Records under long keys are distinguished, replaced, amended and counted.
pub async fn records_are_distinguished(subject: Subject) {
    let store = &*subject.store;
    let names = names(store);
    for name in &names {
        assert_eq!(put_labelled(store, name, &[("tag", name)]).await, 1);
    }
    let mut size = 0;
    for name in &names {
        let found = get(&**subject.other(), SPACE, name).await.unwrap();
        assert_eq!(found.key, *name);
        assert_eq!(found.value, format!("value of {name}"));
        assert_eq!(found.labels, [Label::new("tag", name)]);
        size += 3 * name.len() + "tagvalue of ".len();
    }
    let usage = store.usage(SPACE).settle().await.unwrap();
    assert_eq!(
        (usage.records, usage.bytes),
        (names.len() as u64, size as u64)
    );
    let last = names.last().unwrap();
    assert_eq!(
        get(store, SPACE, &format!("{}z", shortened(last))).await,
        None
    );
    touch(store, SPACE, &[(last, i64::MAX)]).await;
    assert_eq!(put(store, SPACE, record(last)).await, 2);
    let amended = Record {
        value: Bytes::from_static(b"amended"),
        ..get(store, SPACE, last).await.unwrap()
    };
    match store.amend(SPACE, amended).settle().await {
        Ok(revision) => assert_eq!(revision, Some(3)),
        Err(error) => assert_eq!(error.kind, ErrorKind::Unsupported),
    }
    // The longest one, and a space.
    let longest = "l".repeat(store.about().longest_name.min(64 << 10) as usize);
    for (space, key) in [(SPACE, longest.as_str()), (last, "key")] {
        assert_eq!(put(store, space, labelled(key, &[("tag", key)])).await, 1);
        assert_eq!(get(store, space, key).await.unwrap().key, key);
        let labels = [is("tag", key)];
        let filter = having(&labels);
        assert_eq!(keys(store, space, filter).await, [key]);
    }
}

/// Records are found by long prefixes of their keys, in pages of any size, with and without a label.
pub async fn keys_are_found_by_prefix(subject: Subject) {
    let store = &*subject.store;
    let names = names(store);
    for name in &names {
        put_labelled(store, name, &[("tag", "x"), ("tag", name)]).await;
    }
    let labels = [is("tag", "x")];
    for beginning in beginnings(&names) {
        for (labels, limit) in [
            (&[][..], 1),
            (&[], 7),
            (&labels, 1),
            (&labels, 7),
            (&labels, 99),
        ] {
            let filter = RecordFilter {
                labels,
                ..prefix(&beginning)
            };
            let found = walk(store, &filter, limit).await;
            let expected = names.iter().filter(|name| name.starts_with(&beginning));
            let what = format!("pages of {limit}, {} bytes", beginning.len());
            assert_same(found, expected, &what);
        }
    }
}

/// Records are found by long names and values of labels: by equality, prefix and pattern.
pub async fn labels_are_found(subject: Subject) {
    let store = &*subject.store;
    let names = names(store);
    let key = |name: &String| {
        let place = names.iter().position(|known| known == name);
        format!("key {place:?}")
    };
    for name in &names {
        let labels = [("tag", name.as_str()), (name, "x"), (name, name)];
        put(store, SPACE, labelled(&key(name), &labels)).await;
    }
    let find = async |labels: &[LabelMatch<'_>]| {
        let filter = having(labels);
        let found = walk(store, &filter, 5).await;
        assert_eq!(keys(store, SPACE, filter).await.len(), found.len());
        found
    };
    for name in names.iter().step_by(3) {
        for labels in [
            [is("tag", name), starts("tag", "")],
            [is(name, "x"), is(name, name)],
            [starts(name, "x"), starts(name, shortened(name))],
        ] {
            assert_same(find(&labels).await, [key(name)].iter(), "one");
        }
    }
    for beginning in beginnings(&names) {
        let expected: Vec<_> = names
            .iter()
            .filter(|name| name.starts_with(&beginning))
            .collect();
        let expected: Vec<_> = expected.into_iter().map(key).collect();
        let found = find(&[starts("tag", &beginning)]).await;
        assert_same(found, expected.iter(), "prefix");
        for pattern in [
            format!("{beginning}*"),
            format!("{beginning}*b"),
            format!("*{beginning}"),
        ] {
            let name = "tag";
            let found = find(&[LabelMatch::Glob {
                name,
                pattern: &pattern,
            }])
            .await;
            let expected: Vec<_> = names
                .iter()
                .filter(|name| glob_matches(&pattern, name))
                .collect();
            let expected: Vec<_> = expected.into_iter().map(key).collect();
            assert_same(found, expected.iter(), "pattern");
        }
    }
}

/// An erase by a long prefix or label erases exactly what matches, page by page.
pub async fn what_matches_is_erased(subject: Subject) {
    let store = &*subject.store;
    let names = names(store);
    for name in &names {
        put_labelled(store, name, &[("tag", name)]).await;
    }
    let mut rest = names.clone();
    let last = names.last().unwrap();
    let labels = [is("tag", last)];
    let by_label = having(&labels);
    let middle = &text()[..last.len().min(599)];
    for filter in [by_label, prefix(shortened(last)), prefix(middle)] {
        let matches = |name: &String| {
            name.starts_with(filter.prefix) && (filter.labels.is_empty() || name == last)
        };
        let expected: Vec<_> = rest.iter().filter(|name| matches(name)).cloned().collect();
        rest.retain(|name| !matches(name));
        let mut erased = Vec::new();
        loop {
            let page = store.erase(SPACE, &filter, PageRequest::keys(2));
            let page = page.settle().await.unwrap();
            if page.records.is_empty() {
                break;
            }
            erased.extend(page.records.into_iter().map(|record| record.key));
        }
        assert_same(erased, expected.iter(), "erased");
        let left = walk(store, &RecordFilter::default(), 99).await;
        assert_same(left, rest.iter(), "left");
    }
    let usage = store.usage(SPACE).settle().await.unwrap();
    let size = |name: &String| 3 * name.len() + "tagvalue of ".len();
    assert_eq!(usage.bytes, rest.iter().map(size).sum::<usize>() as u64);
}

/// Leases on long keys are apart; an erase revokes those that match a long prefix or label.
pub async fn leases_are_distinguished(subject: Subject) {
    let store = &*subject.store;
    if !store.about().reservations {
        return;
    }
    let names = names(store);
    let last = names.last().unwrap();
    let mut leases = Vec::new();
    for name in &names {
        leases.push(lease(store, name, MINUTE).await);
    }
    for held in &leases {
        let busy = reserve(store, &held.key, MINUTE).await;
        assert!(matches!(busy, ReserveResult::Busy { .. }));
        assert!(store.renew(held, MINUTE).settle().await.unwrap());
    }
    let put_under = async |held: &Lease| {
        let put = store.put(SPACE, record(&held.key), Some(held), &[]);
        put.settle().await.unwrap()
    };
    let held = leases.pop().unwrap();
    assert_eq!(put_under(&held).await, stored(1));
    for held in leases {
        store.release(held).settle().await.unwrap();
    }
    let beginning = prefix(shortened(last));
    let labels = [is("tag", last)];
    let by_label = having(&labels);
    for filter in [beginning, by_label] {
        let label = [Label::new("tag", last)];
        let held = store.reserve(SPACE, last, &label, MINUTE).settle().await;
        let other = [Label::new("tag", shortened(last))];
        let other = store.reserve(SPACE, "other", &other, MINUTE).settle().await;
        let (Ok(ReserveResult::Held(held)), Ok(ReserveResult::Held(other))) = (held, other) else {
            panic!("not reserved");
        };
        let erased = store.erase(SPACE, &filter, PageRequest::keys(9));
        erased.settle().await.unwrap();
        assert_eq!(put_under(&held).await, PutResult::LeaseLost);
        assert!(store.renew(&other, MINUTE).settle().await.unwrap());
        store.release(other).settle().await.unwrap();
    }
}

/// Counters with long names are apart, listed by long prefixes in pages, and conditions of a put.
pub async fn counters_are_distinguished(subject: Subject) {
    let store = &*subject.store;
    let names = names(store);
    for (value, name) in (1..).zip(&names) {
        let raised = match value % 2 {
            0 => store.raise_to(SPACE, name, value).settle().await.unwrap(),
            _ => store.add(SPACE, &[(name, value)]).settle().await.unwrap()[0],
        };
        assert_eq!(raised, value);
    }
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    let expected: Vec<u64> = (1..=all.len() as u64).collect();
    for part in [&all[all.len() - 3..], &all] {
        let found = subject.other().get(SPACE, "key", part).settle().await;
        assert_eq!(found.unwrap().counters, expected[all.len() - part.len()..]);
    }
    for beginning in beginnings(&names) {
        let (mut listed, mut after) = (Vec::new(), None);
        loop {
            let page = store.counters(SPACE, &beginning, after.as_deref(), 3);
            let page = page.settle().await.unwrap();
            let Some((last, _)) = page.last() else {
                break;
            };
            after = Some(last.clone());
            for (name, value) in page {
                let place = all.iter().position(|known| **known == name).unwrap();
                assert_eq!(value, expected[place]);
                listed.push(name);
            }
        }
        let expected = names.iter().filter(|name| name.starts_with(&beginning));
        assert_same(listed, expected, "listed");
    }
    let last = all.len() - 1;
    for (value, is_stored) in [(expected[last], true), (expected[last - 1], false)] {
        let condition = [(all[last], value)];
        let put = store.put(SPACE, record("key"), None, &condition);
        let put = put.settle().await.unwrap();
        assert_eq!(matches!(put, PutResult::Stored { .. }), is_stored);
    }
}

/// Several records with long keys are stored together, under a condition on one of them.
pub async fn batches_are_stored(subject: Subject) {
    let store = &*subject.store;
    let names = names(store);
    let last = names.last().unwrap();
    let condition = |value| PutCondition {
        space: SPACE,
        key: last,
        value,
    };
    let value = Bytes::from(format!("value of {last}"));
    let steps = [
        (None, PutAllResult::Stored),
        (None, PutAllResult::Changed),
        (Some(value), PutAllResult::Stored),
    ];
    for (value, expected) in steps {
        let record = |name: &String| labelled(name, &[("tag", name)]);
        let records = names.iter().map(|name| (SPACE, record(name))).collect();
        match store.put_all(condition(value), records).settle().await {
            Ok(done) => assert_eq!(done, expected),
            Err(error) => return assert_eq!(error.kind, ErrorKind::Unsupported),
        }
    }
    for name in &names {
        let labels = [is("tag", name)];
        let filter = having(&labels);
        assert_eq!(keys(store, SPACE, filter).await, [name.as_str()]);
        assert_eq!(get(store, SPACE, name).await.unwrap().revision, 1);
    }
}
