//! Checks of criteria and orders.

use std::time::Duration;

use super::records::ODD;
use super::{
    ORDERS, SPACE, Subject, erase, erase_page, expired_before, expiring, find_page, get, having,
    in_order, is, keys, keys_of, labelled, prefix, put, put_labelled, record, starts, touch,
};
use crate::{LabelMatch, Order, PageRequest, Record, RecordFilter};

/// Prefixes select, and keys are ordered, by bytes, which is the order of characters.
pub async fn by_prefix(subject: Subject) {
    let store = &*subject.store;
    for key in [
        "b",
        "a",
        "ab",
        "aB",
        "Ab",
        "a\u{10FFFF}",
        "ä",
        "",
        "a\u{D7FF}",
        "a\u{E000}",
        "ac",
    ] {
        put(store, SPACE, record(key)).await;
    }
    put(store, "elsewhere", record("a in another space")).await;
    assert_eq!(
        keys(store, SPACE, prefix("a")).await,
        [
            "a",
            "aB",
            "ab",
            "ac",
            "a\u{D7FF}",
            "a\u{E000}",
            "a\u{10FFFF}"
        ]
    );
    assert_eq!(keys(store, SPACE, prefix("ab")).await, ["ab"]);
    assert_eq!(
        keys(store, SPACE, prefix("a\u{10FFFF}")).await,
        ["a\u{10FFFF}"]
    );
    assert_eq!(keys(store, SPACE, prefix("a\u{D7FF}")).await, ["a\u{D7FF}"]);
    assert_eq!(keys(store, SPACE, prefix("c")).await, [""; 0]);
    assert_eq!(keys(store, SPACE, prefix("")).await.len(), 11);
}

/// Nothing in a prefix is a wildcard: in keys and in labels, in finding and in erasing.
pub async fn by_prefix_with_wildcards_in_it(subject: Subject) {
    let store = &*subject.store;
    for &odd in ODD {
        put_labelled(store, odd, &[("tag", odd)]).await;
    }
    for &odd in ODD {
        let mut expected: Vec<&str> = ODD
            .iter()
            .copied()
            .filter(|key| key.starts_with(odd))
            .collect();
        expected.sort_unstable();
        assert_eq!(keys(store, SPACE, prefix(odd)).await, expected, "{odd:?}");
        assert_eq!(
            keys(store, SPACE, having(&[starts("tag", odd)])).await,
            expected,
            "{odd:?}"
        );
        assert_eq!(keys(store, SPACE, having(&[is("tag", odd)])).await, [odd]);
    }
    for &odd in ODD.iter().rev() {
        let mut expected = keys(store, SPACE, prefix(odd)).await;
        expected.sort_unstable();
        assert_eq!(erase(store, SPACE, prefix(odd)).await, expected, "{odd:?}");
    }
}

/// Name and value must be equal; a record may have several labels of one name.
pub async fn by_label(subject: Subject) {
    let store = &*subject.store;
    put_labelled(store, "c", &[("tag", "x"), ("tag", "y")]).await;
    put_labelled(store, "a", &[("tag", "x"), ("handle", "y")]).await;
    put_labelled(store, "b", &[("tag", "xx")]).await;
    put(store, SPACE, record("d")).await;
    put(store, "elsewhere", labelled("e", &[("tag", "x")])).await;
    assert_eq!(
        keys(store, SPACE, having(&[is("tag", "x")])).await,
        ["a", "c"]
    );
    assert_eq!(keys(store, SPACE, having(&[is("tag", "y")])).await, ["c"]);
    assert_eq!(keys(store, SPACE, having(&[is("TAG", "x")])).await, [""; 0]);
    assert_eq!(keys(store, SPACE, having(&[is("x", "tag")])).await, [""; 0]);
    assert_eq!(
        erase(store, SPACE, having(&[is("tag", "x")])).await,
        ["a", "c"]
    );
    assert_eq!(
        keys(store, SPACE, RecordFilter::default()).await,
        ["b", "d"]
    );
}

/// A record that meets the criterion with several labels is found once.
pub async fn by_the_beginning_of_a_label(subject: Subject) {
    let store = &*subject.store;
    put_labelled(
        store,
        "b",
        &[("handle", "cache:a:1"), ("handle", "cache:a:2")],
    )
    .await;
    put_labelled(store, "a", &[("handle", "cache:a:3")]).await;
    put_labelled(
        store,
        "c",
        &[("handle", "cache:b:1"), ("other", "cache:a:1")],
    )
    .await;
    put_labelled(store, "d", &[("handle", "")]).await;
    assert_eq!(
        keys(store, SPACE, having(&[starts("handle", "cache:a:")])).await,
        ["a", "b"]
    );
    assert_eq!(
        keys(store, SPACE, having(&[starts("handle", "cache:")])).await,
        ["a", "b", "c"]
    );
    assert_eq!(
        keys(store, SPACE, having(&[starts("handle", "")])).await,
        ["a", "b", "c", "d"]
    );
    assert_eq!(
        keys(store, SPACE, having(&[starts("hand", "")])).await,
        [""; 0]
    );
    assert_eq!(
        erase(store, SPACE, having(&[starts("handle", "cache:a")])).await,
        ["a", "b"]
    );
    assert_eq!(
        keys(store, SPACE, RecordFilter::default()).await,
        ["c", "d"]
    );
}

/// A `*` works anywhere, alone and with other criteria; everything else is literal.
pub async fn by_a_glob(subject: Subject) {
    let store = &*subject.store;
    for (key, handle) in [
        ("a", "cache:a:x:1"),
        ("b", "cache:a:y:1"),
        ("c", "cache:b:x:1"),
        ("d", "cache%a"),
        ("e", "cache*"),
    ] {
        put_labelled(store, key, &[("handle", handle), ("tag", key)]).await;
    }
    let glob = |pattern| LabelMatch::Glob {
        name: "handle",
        pattern,
    };
    for (pattern, expected) in [
        ("*", &["a", "b", "c", "d", "e"][..]),
        ("cache:a:*", &["a", "b"]),
        ("*:x:*", &["a", "c"]),
        ("cache:*:1", &["a", "b", "c"]),
        ("cache:a:x:1", &["a"]),
        ("cache:a", &[]),
        ("cache%*", &["d"]),
        ("cache*", &["a", "b", "c", "d", "e"]),
        ("Cache*", &[]),
        ("cache_a", &[]),
        ("", &[]),
    ] {
        assert_eq!(
            keys(store, SPACE, having(&[glob(pattern)])).await,
            expected,
            "{pattern}"
        );
        let both = [glob(pattern), is("tag", "a")];
        let found = keys(store, SPACE, having(&both)).await;
        assert_eq!(
            found,
            expected
                .iter()
                .filter(|key| **key == "a")
                .copied()
                .collect::<Vec<_>>()
        );
    }
    let erased = erase(&**subject.other(), SPACE, having(&[glob("*:x:*")])).await;
    assert_eq!(erased, ["a", "c"]);
    assert_eq!(
        keys(store, SPACE, RecordFilter::default()).await,
        ["b", "d", "e"]
    );
}

/// Records that expire strictly before the time are found; records that never expire are not.
pub async fn by_expiry(subject: Subject) {
    let store = &*subject.store;
    for (key, expires) in [("b", 10), ("a", 20), ("c", -5), ("d", i64::MAX)] {
        put(store, SPACE, expiring(key, expires)).await;
    }
    put(store, SPACE, record("never")).await;
    assert_eq!(keys(store, SPACE, expired_before(20)).await, ["b", "c"]);
    assert_eq!(
        keys(store, SPACE, expired_before(21)).await,
        ["a", "b", "c"]
    );
    assert_eq!(keys(store, SPACE, expired_before(-5)).await, [""; 0]);
    assert_eq!(
        keys(store, SPACE, expired_before(i64::MAX)).await,
        ["a", "b", "c"]
    );
    assert_eq!(
        erase(
            store,
            SPACE,
            RecordFilter {
                order: Order::Expiry,
                ..expired_before(15)
            }
        )
        .await,
        ["c", "b"]
    );
    put(store, SPACE, record("a")).await;
    assert_eq!(
        keys(store, SPACE, expired_before(i64::MAX)).await,
        [""; 0],
        "the old expiry is forgotten"
    );
}

/// All criteria have to hold, whichever index leads.
pub async fn by_everything_at_once(subject: Subject) {
    let store = &*subject.store;
    for (number, key) in ["a1", "a2", "a3", "a4", "b1", "b2"].into_iter().enumerate() {
        let tags: &[(&str, &str)] = if number % 2 == 0 {
            &[("tag", "even"), ("n", "1x")]
        } else {
            &[("n", "1y")]
        };
        let expires = (number != 2).then_some(number as i64 * 10);
        put(
            store,
            SPACE,
            Record {
                expires,
                ..labelled(key, tags)
            },
        )
        .await;
    }
    let (even, one) = ([is("tag", "even")], [starts("n", "1")]);
    for order in ORDERS {
        let filter = RecordFilter {
            prefix: "a",
            labels: &even,
            expired_before: Some(1000),
            order,
        };
        assert_eq!(keys(store, SPACE, filter).await, ["a1"], "{order:?}");
        let filter = RecordFilter {
            prefix: "b",
            labels: &one,
            expired_before: Some(45),
            order,
        };
        assert_eq!(keys(store, SPACE, filter).await, ["b1"], "{order:?}");
        let mut found = keys(
            store,
            SPACE,
            RecordFilter {
                prefix: "a",
                labels: &even,
                expired_before: None,
                order,
            },
        )
        .await;
        found.sort_unstable();
        assert_eq!(found, ["a1", "a3"], "{order:?}");
    }
}

/// Several criteria on labels: equal values, prefixes, both, and contradictions.
pub async fn by_several_labels(subject: Subject) {
    let store = &*subject.store;
    put_labelled(
        store,
        "both",
        &[("tag", "x"), ("tag", "y"), ("handle", "h1")],
    )
    .await;
    put_labelled(store, "x", &[("tag", "x"), ("handle", "h2")]).await;
    put_labelled(store, "y", &[("tag", "y"), ("handle", "h3")]).await;
    let find = async |criteria: &[LabelMatch<'_>]| keys(store, SPACE, having(criteria)).await;
    assert_eq!(find(&[is("tag", "x"), is("tag", "y")]).await, ["both"]);
    assert_eq!(find(&[is("tag", "x"), is("tag", "x")]).await, ["both", "x"]);
    assert_eq!(
        find(&[starts("handle", "h"), is("tag", "y")]).await,
        ["both", "y"]
    );
    assert_eq!(
        find(&[starts("handle", "h"), starts("tag", "y")]).await,
        ["both", "y"]
    );
    assert_eq!(find(&[is("tag", "x"), is("handle", "h3")]).await, [""; 0]);
}

/// The order is that of writes; a replacement is a write.
pub async fn the_newest_first(subject: Subject) {
    let store = &*subject.store;
    for key in ["b", "a", "d", "c"] {
        put_labelled(store, key, &[("tag", "x")]).await;
    }
    put_labelled(&**subject.other(), "a", &[("tag", "x")]).await;
    let newest = in_order(Order::Newest);
    assert_eq!(keys(store, SPACE, newest).await, ["a", "c", "d", "b"]);
    let tags = [is("tag", "x")];
    let tagged = RecordFilter {
        labels: &tags,
        ..newest
    };
    assert_eq!(keys(store, SPACE, tagged).await, ["a", "c", "d", "b"]);
    let beginning = RecordFilter {
        prefix: "c",
        ..newest
    };
    assert_eq!(keys(store, SPACE, beginning).await, ["c"]);
    let batch = find_page(store, SPACE, &tagged, PageRequest::first(1)).await;
    assert_eq!((batch.records[0].key.as_str(), batch.next), ("a", None));
}

/// Storing is a use; a use in the past makes no record colder.
pub async fn the_coldest_first(subject: Subject) {
    let store = &*subject.store;
    for key in ["a", "b", "c", "d"] {
        put_labelled(store, key, &[("tag", "x")]).await;
        subject.pass(Duration::from_millis(10));
    }
    let stored = get(store, SPACE, "d").await.unwrap().updated;
    let coldest = in_order(Order::LeastRecentlyUsed);
    assert_eq!(keys(store, SPACE, coldest).await, ["a", "b", "c", "d"]);
    touch(
        store,
        SPACE,
        &[
            ("a", stored + 500),
            ("unknown", stored),
            ("c", stored - 5_000),
        ],
    )
    .await;
    assert_eq!(keys(store, SPACE, coldest).await, ["b", "c", "d", "a"]);
    touch(&**subject.other(), SPACE, &[("b", stored + 1_000)]).await;
    // Uses may reach others with the next write only.
    let written = subject.other().add(SPACE, &[("written", 1)]);
    written.settle().await.unwrap();
    let tags = [is("tag", "x")];
    let tagged = RecordFilter {
        labels: &tags,
        ..coldest
    };
    assert_eq!(keys(store, SPACE, tagged).await, ["c", "d", "a", "b"]);
    let erased = erase_page(store, SPACE, &coldest, PageRequest::keys(2)).await;
    assert_eq!(keys_of(erased), ["c", "d"]);
    subject.pass(Duration::from_secs(60));
    put(store, SPACE, record("a")).await;
    assert_eq!(keys(store, SPACE, coldest).await, ["b", "a"]);
}

/// Records that never expire come last, in the order of writes.
pub async fn the_first_to_expire_first(subject: Subject) {
    let store = &*subject.store;
    let tag: &[(&str, &str)] = &[("tag", "x")];
    for (key, expires) in [
        ("z", None),
        ("b", Some(20)),
        ("a", Some(30)),
        ("y", None),
        ("c", Some(10)),
        ("d", Some(20)),
    ] {
        put(
            store,
            SPACE,
            Record {
                expires,
                ..labelled(key, tag)
            },
        )
        .await;
    }
    let expected = ["c", "b", "d", "a", "z", "y"];
    let tags = [is("tag", "x")];
    let starting = [starts("tag", "x")];
    for criteria in [&[][..], &tags, &starting] {
        let filter = RecordFilter {
            labels: criteria,
            ..in_order(Order::Expiry)
        };
        assert_eq!(keys(store, SPACE, filter).await, expected, "{criteria:?}");
        for limit in 0..=6 {
            let found = find_page(store, SPACE, &filter, PageRequest::keys(limit)).await;
            assert_eq!(keys_of(found), expected[..limit as usize], "{criteria:?}");
        }
    }
}

/// A replaced record is found by its present labels only.
pub async fn labels_of_a_replaced_record_are_forgotten(subject: Subject) {
    let store = &*subject.store;
    put_labelled(store, "key", &[("tag", "old"), ("tag", "both")]).await;
    put_labelled(store, "key", &[("tag", "both"), ("tag", "new")]).await;
    for (tag, found) in [("old", 0), ("both", 1), ("new", 1)] {
        assert_eq!(
            keys(store, SPACE, having(&[is("tag", tag)])).await.len(),
            found,
            "{tag}"
        );
    }
    erase(store, SPACE, prefix("key")).await;
    put(store, SPACE, record("key")).await;
    assert_eq!(
        keys(store, SPACE, having(&[starts("tag", "")])).await,
        [""; 0]
    );
}

/// A touch changes no revision, no value, and no time of writing.
pub async fn a_touch_changes_nothing_else(subject: Subject) {
    let store = &*subject.store;
    put(
        store,
        SPACE,
        Record {
            expires: Some(7),
            ..labelled("key", &[("tag", "x")])
        },
    )
    .await;
    let before = get(store, SPACE, "key").await;
    touch(store, SPACE, &[("key", i64::MAX), ("key", i64::MIN)]).await;
    touch(store, SPACE, &[]).await;
    assert_eq!(get(store, SPACE, "key").await, before);
    assert_eq!(keys(store, SPACE, in_order(Order::Newest)).await, ["key"]);
}
