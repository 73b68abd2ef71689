//! Checks of full text search.

use bytes::Bytes;

use super::{Subject, erase, get, is, labelled, prefix, put, record, starts};
use crate::{LabelMatch, Recall, RecallHit, Record, Store, space};

macro_rules! needs_recall {
    ($subject:ident) => {
        match $subject.store.recall() {
            Some(recall) => recall,
            None => return,
        }
    };
}

fn text(key: &str, value: &str, labels: &[(&str, &str)]) -> Record {
    Record {
        value: Bytes::copy_from_slice(value.as_bytes()),
        ..labelled(key, labels)
    }
}

async fn remember(store: &dyn Store, key: &str, value: &str) {
    put(store, space::USER, text(key, value, &[])).await;
}

async fn search(recall: &dyn Recall, query: &str, labels: &[LabelMatch<'_>]) -> Vec<String> {
    let found = recall.search(query, labels, 100).settle().await.unwrap();
    let mut keys: Vec<String> = found.into_iter().map(|found| found.record.key).collect();
    keys.sort_unstable();
    keys
}

/// Words match in any order and case.
pub async fn all_words_have_to_occur(subject: Subject) {
    let recall = needs_recall!(subject);
    let store = &*subject.store;
    remember(store, "k1", "The quick brown fox").await;
    remember(store, "k2", "a brown dog, quick as any").await;
    remember(store, "k3", "brownish").await;
    assert_eq!(search(recall, "quick brown", &[]).await, ["k1", "k2"]);
    assert_eq!(search(recall, "BROWN  fox\n", &[]).await, ["k1"]);
    assert_eq!(search(recall, "quick cat", &[]).await, [""; 0]);
    let found = recall.search("fox", &[], 5).settle().await.unwrap();
    assert_eq!(
        Some(&found[0].record),
        get(store, space::USER, "k1").await.as_ref()
    );
}

/// All words have to occur, in any of the fields.
pub async fn in_keys_values_and_labels(subject: Subject) {
    let recall = needs_recall!(subject);
    put(
        &*subject.store,
        space::USER,
        text(
            "zebra:1",
            "apples and {\"pears\": 3}",
            &[("tag", "orchard")],
        ),
    )
    .await;
    for query in ["zebra", "pears", "orchard", "apples zebra orchard", "1 3"] {
        assert_eq!(search(recall, query, &[]).await, ["zebra:1"], "{query}");
    }
    assert_eq!(
        search(recall, "tag", &[]).await,
        [""; 0],
        "names of labels are not text"
    );
}

/// A word matches as a prefix only with `*` at its end.
pub async fn a_prefix_only_where_it_is_asked_for(subject: Subject) {
    let recall = needs_recall!(subject);
    remember(&*subject.store, "k1", "extraction of invoices").await;
    assert_eq!(search(recall, "extract", &[]).await, [""; 0]);
    assert_eq!(search(recall, "extract*", &[]).await, ["k1"]);
    assert_eq!(search(recall, "extract* inv*", &[]).await, ["k1"]);
    assert_eq!(search(recall, "ex*ion", &[]).await, [""; 0]);
    assert_eq!(search(recall, "*traction", &[]).await, [""; 0]);
}

/// The syntax of other query languages is literal text.
pub async fn operators_are_words(subject: Subject) {
    let recall = needs_recall!(subject);
    let store = &*subject.store;
    remember(store, "k1", "salt and pepper").await;
    remember(store, "k2", "salt or not near pepper, value: x").await;
    assert_eq!(search(recall, "salt AND pepper", &[]).await, ["k1"]);
    assert_eq!(search(recall, "salt OR pepper", &[]).await, ["k2"]);
    assert_eq!(search(recall, "salt NOT pepper", &[]).await, ["k2"]);
    assert_eq!(search(recall, "value:x", &[]).await, ["k2"]);
    let harmless = [
        "\"salt",
        "sa\"lt",
        "(salt",
        "salt)",
        "{value}:salt",
        "-salt",
        "^salt",
        "salt+",
        "NEAR(salt,2)",
        "'",
        "a\0b",
        "%",
        "key:",
    ];
    for query in harmless {
        search(recall, query, &[]).await;
    }
    assert_eq!(search(recall, "\"salt\" (pepper)", &[]).await, ["k1", "k2"]);
    let long = "salt ".repeat(300);
    assert_eq!(search(recall, &long, &[]).await, ["k1", "k2"]);
}

/// A query without a word finds nothing, rather than everything.
pub async fn no_word_finds_nothing(subject: Subject) {
    let recall = needs_recall!(subject);
    remember(&*subject.store, "k1", "text * \"").await;
    for query in ["", "  \n", "*", "\"\"", "-- ** '", "\0"] {
        assert_eq!(search(recall, query, &[]).await, [""; 0], "{query:?}");
    }
}

/// Cache entries are never found.
pub async fn only_user_memory_is_searched(subject: Subject) {
    let recall = needs_recall!(subject);
    put(
        &*subject.store,
        space::CACHE,
        text("word", "word", &[("tag", "word")]),
    )
    .await;
    assert_eq!(search(recall, "word", &[]).await, [""; 0]);
    remember(&*subject.store, "mine", "word").await;
    assert_eq!(search(recall, "word", &[]).await, ["mine"]);
}

/// All criteria have to hold, as in a filter.
pub async fn labels_narrow_a_search(subject: Subject) {
    let recall = needs_recall!(subject);
    let store = &*subject.store;
    put(
        store,
        space::USER,
        text("k1", "word", &[("tag", "a"), ("owner", "x1")]),
    )
    .await;
    put(
        store,
        space::USER,
        text("k2", "word", &[("tag", "a"), ("owner", "y1")]),
    )
    .await;
    put(store, space::USER, text("k3", "word", &[])).await;
    assert_eq!(
        search(recall, "word", &[is("tag", "a")]).await,
        ["k1", "k2"]
    );
    assert_eq!(
        search(recall, "word", &[is("tag", "a"), starts("owner", "x")]).await,
        ["k1"]
    );
    assert_eq!(search(recall, "word", &[is("tag", "b")]).await, [""; 0]);
    let found = recall
        .search("word", &[is("tag", "a")], 1)
        .settle()
        .await
        .unwrap();
    assert_eq!(found.len(), 1, "the limit counts what matches");
}

/// A record is found by its present text only.
pub async fn replaced_and_erased_texts_are_forgotten(subject: Subject) {
    let recall = needs_recall!(subject);
    let store = &*subject.store;
    remember(store, "k1", "first text").await;
    remember(store, "k1", "second text").await;
    remember(store, "k2", "other text").await;
    assert_eq!(search(recall, "first", &[]).await, [""; 0]);
    assert_eq!(search(recall, "second", &[]).await, ["k1"]);
    erase(store, space::USER, prefix("k1")).await;
    assert_eq!(search(recall, "text", &[]).await, ["k2"]);
    erase(store, space::USER, prefix("")).await;
    assert_eq!(search(recall, "text", &[]).await, [""; 0]);
    remember(&**subject.other(), "k1", "third text").await;
    assert_eq!(search(recall, "text", &[]).await, ["k1"]);
}

/// A value that is not UTF-8 text is not indexed; its record is found by its key.
pub async fn what_is_not_text_is_found_by_its_key(subject: Subject) {
    let recall = needs_recall!(subject);
    let store = &*subject.store;
    put(
        store,
        space::USER,
        Record {
            value: Bytes::from_static(b"word \xff\xfe word"),
            ..record("picture")
        },
    )
    .await;
    assert_eq!(search(recall, "picture", &[]).await, ["picture"]);
}

/// Scores decrease.
pub async fn the_best_first_and_no_more_than_asked_for(subject: Subject) {
    let recall = needs_recall!(subject);
    let store = &*subject.store;
    for index in 0..20 {
        let value = format!(
            "{} {}",
            "word ".repeat(index + 1),
            "filler ".repeat(40 - index)
        );
        remember(store, &format!("k{index:02}"), &value).await;
        remember(store, &format!("n{index:02}"), "nothing of that kind here").await;
    }
    let found: Vec<RecallHit> = recall.search("word", &[], 7).settle().await.unwrap();
    assert_eq!(found.len(), 7);
    assert!(found.is_sorted_by(|one, next| one.score >= next.score));
    assert_eq!(found[0].record.key, "k19");
    assert!(
        recall
            .search("word", &[], 0)
            .settle()
            .await
            .unwrap()
            .is_empty()
    );
}
