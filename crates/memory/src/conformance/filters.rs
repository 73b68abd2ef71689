//! Checks of criteria and orders.

use std::time::Duration;

use super::records::ODD;
use super::{
    SPACE, Subject, erase, expiring, get, is, keys, labelled, prefix, put, record, starts,
};
use crate::{Filter, Match, Order, Record};

fn labels<'a>(labels: &'a [Match<'a>]) -> Filter<'a> {
    Filter {
        labels,
        ..Filter::default()
    }
}

fn order(order: Order) -> Filter<'static> {
    Filter {
        order,
        ..Filter::default()
    }
}

/// Prefixes select, and keys are ordered, by bytes, which is the order of characters.
pub async fn by_prefix(subject: Subject) {
    let memory = &*subject.memory;
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
        put(memory, SPACE, record(key)).await;
    }
    put(memory, "elsewhere", record("a in another space")).await;
    assert_eq!(
        keys(memory, SPACE, prefix("a")).await,
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
    assert_eq!(keys(memory, SPACE, prefix("ab")).await, ["ab"]);
    assert_eq!(
        keys(memory, SPACE, prefix("a\u{10FFFF}")).await,
        ["a\u{10FFFF}"]
    );
    assert_eq!(
        keys(memory, SPACE, prefix("a\u{D7FF}")).await,
        ["a\u{D7FF}"]
    );
    assert_eq!(keys(memory, SPACE, prefix("c")).await, [""; 0]);
    assert_eq!(keys(memory, SPACE, prefix("")).await.len(), 11);
}

/// Nothing in a prefix is a wildcard: in keys and in labels, in finding and in erasing.
pub async fn by_prefix_with_wildcards_in_it(subject: Subject) {
    let memory = &*subject.memory;
    for &odd in ODD {
        put(memory, SPACE, labelled(odd, &[("tag", odd)])).await;
    }
    for &odd in ODD {
        let mut expected: Vec<&str> = ODD
            .iter()
            .copied()
            .filter(|key| key.starts_with(odd))
            .collect();
        expected.sort_unstable();
        assert_eq!(keys(memory, SPACE, prefix(odd)).await, expected, "{odd:?}");
        assert_eq!(
            keys(memory, SPACE, labels(&[starts("tag", odd)])).await,
            expected,
            "{odd:?}"
        );
        assert_eq!(keys(memory, SPACE, labels(&[is("tag", odd)])).await, [odd]);
    }
    for &odd in ODD.iter().rev() {
        let mut expected = keys(memory, SPACE, prefix(odd)).await;
        expected.sort_unstable();
        assert_eq!(erase(memory, SPACE, prefix(odd)).await, expected, "{odd:?}");
    }
}

/// Name and value must be equal; a record may have several labels of one name.
pub async fn by_label(subject: Subject) {
    let memory = &*subject.memory;
    put(memory, SPACE, labelled("c", &[("tag", "x"), ("tag", "y")])).await;
    put(
        memory,
        SPACE,
        labelled("a", &[("tag", "x"), ("handle", "y")]),
    )
    .await;
    put(memory, SPACE, labelled("b", &[("tag", "xx")])).await;
    put(memory, SPACE, record("d")).await;
    put(memory, "elsewhere", labelled("e", &[("tag", "x")])).await;
    assert_eq!(
        keys(memory, SPACE, labels(&[is("tag", "x")])).await,
        ["a", "c"]
    );
    assert_eq!(keys(memory, SPACE, labels(&[is("tag", "y")])).await, ["c"]);
    assert_eq!(
        keys(memory, SPACE, labels(&[is("TAG", "x")])).await,
        [""; 0]
    );
    assert_eq!(
        keys(memory, SPACE, labels(&[is("x", "tag")])).await,
        [""; 0]
    );
    assert_eq!(
        erase(memory, SPACE, labels(&[is("tag", "x")])).await,
        ["a", "c"]
    );
    assert_eq!(keys(memory, SPACE, Filter::default()).await, ["b", "d"]);
}

/// A record that meets the criterion with several labels is found once.
pub async fn by_the_beginning_of_a_label(subject: Subject) {
    let memory = &*subject.memory;
    put(
        memory,
        SPACE,
        labelled("b", &[("handle", "cache:a:1"), ("handle", "cache:a:2")]),
    )
    .await;
    put(memory, SPACE, labelled("a", &[("handle", "cache:a:3")])).await;
    put(
        memory,
        SPACE,
        labelled("c", &[("handle", "cache:b:1"), ("other", "cache:a:1")]),
    )
    .await;
    put(memory, SPACE, labelled("d", &[("handle", "")])).await;
    assert_eq!(
        keys(memory, SPACE, labels(&[starts("handle", "cache:a:")])).await,
        ["a", "b"]
    );
    assert_eq!(
        keys(memory, SPACE, labels(&[starts("handle", "cache:")])).await,
        ["a", "b", "c"]
    );
    assert_eq!(
        keys(memory, SPACE, labels(&[starts("handle", "")])).await,
        ["a", "b", "c", "d"]
    );
    assert_eq!(
        keys(memory, SPACE, labels(&[starts("hand", "")])).await,
        [""; 0]
    );
    assert_eq!(
        erase(memory, SPACE, labels(&[starts("handle", "cache:a")])).await,
        ["a", "b"]
    );
    assert_eq!(keys(memory, SPACE, Filter::default()).await, ["c", "d"]);
}

/// A `*` works anywhere, alone and with other criteria; everything else is literal.
pub async fn by_a_glob(subject: Subject) {
    let memory = &*subject.memory;
    for (key, handle) in [
        ("a", "cache:a:x:1"),
        ("b", "cache:a:y:1"),
        ("c", "cache:b:x:1"),
        ("d", "cache%a"),
        ("e", "cache*"),
    ] {
        put(
            memory,
            SPACE,
            labelled(key, &[("handle", handle), ("tag", key)]),
        )
        .await;
    }
    let glob = |pattern| Match::Glob {
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
            keys(memory, SPACE, labels(&[glob(pattern)])).await,
            expected,
            "{pattern}"
        );
        let both = [glob(pattern), is("tag", "a")];
        let found = keys(memory, SPACE, labels(&both)).await;
        assert_eq!(
            found,
            expected
                .iter()
                .filter(|key| **key == "a")
                .copied()
                .collect::<Vec<_>>()
        );
    }
    let erased = erase(&**subject.other(), SPACE, labels(&[glob("*:x:*")])).await;
    assert_eq!(erased, ["a", "c"]);
    assert_eq!(
        keys(memory, SPACE, Filter::default()).await,
        ["b", "d", "e"]
    );
}

/// Records that expire strictly before the time are found; records that never expire are not.
pub async fn by_expiry(subject: Subject) {
    let memory = &*subject.memory;
    for (key, expires) in [("b", 10), ("a", 20), ("c", -5), ("d", i64::MAX)] {
        put(memory, SPACE, expiring(key, expires)).await;
    }
    put(memory, SPACE, record("never")).await;
    let before = |moment| Filter {
        expired_before: Some(moment),
        ..Filter::default()
    };
    assert_eq!(keys(memory, SPACE, before(20)).await, ["b", "c"]);
    assert_eq!(keys(memory, SPACE, before(21)).await, ["a", "b", "c"]);
    assert_eq!(keys(memory, SPACE, before(-5)).await, [""; 0]);
    assert_eq!(keys(memory, SPACE, before(i64::MAX)).await, ["a", "b", "c"]);
    assert_eq!(
        erase(
            memory,
            SPACE,
            Filter {
                order: Order::Expiry,
                ..before(15)
            }
        )
        .await,
        ["c", "b"]
    );
    put(memory, SPACE, record("a")).await;
    assert_eq!(
        keys(memory, SPACE, before(i64::MAX)).await,
        [""; 0],
        "the old expiry is forgotten"
    );
}

/// All criteria have to hold, whichever index leads.
pub async fn by_everything_at_once(subject: Subject) {
    let memory = &*subject.memory;
    for (number, key) in ["a1", "a2", "a3", "a4", "b1", "b2"].into_iter().enumerate() {
        let tags: &[(&str, &str)] = if number % 2 == 0 {
            &[("tag", "even"), ("n", "1x")]
        } else {
            &[("n", "1y")]
        };
        let expires = (number != 2).then_some(number as i64 * 10);
        put(
            memory,
            SPACE,
            Record {
                expires,
                ..labelled(key, tags)
            },
        )
        .await;
    }
    let (even, one) = ([is("tag", "even")], [starts("n", "1")]);
    for order in [Order::Key, Order::Newest, Order::Coldest, Order::Expiry] {
        let filter = Filter {
            prefix: "a",
            labels: &even,
            expired_before: Some(1000),
            order,
        };
        assert_eq!(keys(memory, SPACE, filter).await, ["a1"], "{order:?}");
        let filter = Filter {
            prefix: "b",
            labels: &one,
            expired_before: Some(45),
            order,
        };
        assert_eq!(keys(memory, SPACE, filter).await, ["b1"], "{order:?}");
        let mut found = keys(
            memory,
            SPACE,
            Filter {
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
    let memory = &*subject.memory;
    put(
        memory,
        SPACE,
        labelled("both", &[("tag", "x"), ("tag", "y"), ("handle", "h1")]),
    )
    .await;
    put(
        memory,
        SPACE,
        labelled("x", &[("tag", "x"), ("handle", "h2")]),
    )
    .await;
    put(
        memory,
        SPACE,
        labelled("y", &[("tag", "y"), ("handle", "h3")]),
    )
    .await;
    let find = async |criteria: &[Match<'_>]| keys(memory, SPACE, labels(criteria)).await;
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
    let memory = &*subject.memory;
    for key in ["b", "a", "d", "c"] {
        put(memory, SPACE, labelled(key, &[("tag", "x")])).await;
    }
    put(&**subject.other(), SPACE, labelled("a", &[("tag", "x")])).await;
    let newest = order(Order::Newest);
    assert_eq!(keys(memory, SPACE, newest).await, ["a", "c", "d", "b"]);
    let tags = [is("tag", "x")];
    assert_eq!(
        keys(
            memory,
            SPACE,
            Filter {
                labels: &tags,
                ..newest
            }
        )
        .await,
        ["a", "c", "d", "b"]
    );
    assert_eq!(
        keys(
            memory,
            SPACE,
            Filter {
                prefix: "c",
                ..newest
            }
        )
        .await,
        ["c"]
    );
    let page = crate::Page::first(1);
    let batch = memory
        .find(
            SPACE,
            &Filter {
                labels: &tags,
                ..newest
            },
            page,
        )
        .settle()
        .await
        .unwrap();
    assert_eq!((batch.records[0].key.as_str(), batch.next), ("a", None));
}

/// Storing is a use; a use in the past makes no record colder.
pub async fn the_coldest_first(subject: Subject) {
    let memory = &*subject.memory;
    for key in ["a", "b", "c", "d"] {
        put(memory, SPACE, labelled(key, &[("tag", "x")])).await;
        subject.pass(Duration::from_millis(10));
    }
    let stored = get(memory, SPACE, "d").await.unwrap().updated;
    let coldest = order(Order::Coldest);
    assert_eq!(keys(memory, SPACE, coldest).await, ["a", "b", "c", "d"]);
    memory
        .touch(
            SPACE,
            &[
                ("a", stored + 500),
                ("unknown", stored),
                ("c", stored - 5_000),
            ],
        )
        .settle()
        .await
        .unwrap();
    assert_eq!(keys(memory, SPACE, coldest).await, ["b", "c", "d", "a"]);
    subject
        .other()
        .touch(SPACE, &[("b", stored + 1_000)])
        .settle()
        .await
        .unwrap();
    let tags = [is("tag", "x")];
    assert_eq!(
        keys(
            memory,
            SPACE,
            Filter {
                labels: &tags,
                ..coldest
            }
        )
        .await,
        ["c", "d", "a", "b"]
    );
    let two = crate::Page::keys(2);
    let erased = memory.erase(SPACE, &coldest, two).settle().await.unwrap();
    assert_eq!(
        erased
            .records
            .iter()
            .map(|record| record.key.as_str())
            .collect::<Vec<_>>(),
        ["c", "d"]
    );
    subject.pass(Duration::from_secs(60));
    put(memory, SPACE, record("a")).await;
    assert_eq!(keys(memory, SPACE, coldest).await, ["b", "a"]);
}

/// Records that never expire come last, in the order of writes.
pub async fn the_first_to_expire_first(subject: Subject) {
    let memory = &*subject.memory;
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
            memory,
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
        let filter = Filter {
            labels: criteria,
            ..order(Order::Expiry)
        };
        assert_eq!(keys(memory, SPACE, filter).await, expected, "{criteria:?}");
        for limit in 0..=6 {
            let page = crate::Page::keys(limit);
            let batch = memory.find(SPACE, &filter, page).settle().await.unwrap();
            let found: Vec<&str> = batch
                .records
                .iter()
                .map(|record| record.key.as_str())
                .collect();
            assert_eq!(found, expected[..limit as usize], "{criteria:?}");
        }
    }
}

/// A replaced record is found by its present labels only.
pub async fn labels_of_a_replaced_record_are_forgotten(subject: Subject) {
    let memory = &*subject.memory;
    put(
        memory,
        SPACE,
        labelled("key", &[("tag", "old"), ("tag", "both")]),
    )
    .await;
    put(
        memory,
        SPACE,
        labelled("key", &[("tag", "both"), ("tag", "new")]),
    )
    .await;
    for (tag, found) in [("old", 0), ("both", 1), ("new", 1)] {
        assert_eq!(
            keys(memory, SPACE, labels(&[is("tag", tag)])).await.len(),
            found,
            "{tag}"
        );
    }
    erase(memory, SPACE, prefix("key")).await;
    put(memory, SPACE, record("key")).await;
    assert_eq!(
        keys(memory, SPACE, labels(&[starts("tag", "")])).await,
        [""; 0]
    );
}

/// A touch changes no revision, no value, and no time of writing.
pub async fn a_touch_changes_nothing_else(subject: Subject) {
    let memory = &*subject.memory;
    put(
        memory,
        SPACE,
        Record {
            expires: Some(7),
            ..labelled("key", &[("tag", "x")])
        },
    )
    .await;
    let before = get(memory, SPACE, "key").await;
    memory
        .touch(SPACE, &[("key", i64::MAX), ("key", i64::MIN)])
        .settle()
        .await
        .unwrap();
    memory.touch(SPACE, &[]).settle().await.unwrap();
    assert_eq!(get(memory, SPACE, "key").await, before);
    assert_eq!(keys(memory, SPACE, order(Order::Newest)).await, ["key"]);
}
