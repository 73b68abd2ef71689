//! Parts 5.1 to 5.3 of the reference, as far as they concern the builtin, by their names. Of 5.1 the
//! tests of the file itself (`overwrite`, `persists`, `missingFileIsFine`, `corruptFile`,
//! `persistenceFailureKeepsInMemory`, `atomicWriteLeavesNoTempFiles`, `concurrentStoreNeverYieldsTornFile`,
//! `crossProcessConcurrentStoresPreserveAllEntries`, `lookupReloadsAfterExternalWrite`,
//! `lockFileNeverDeleted`, `store adopts sibling entries`) are in the crate `memory`. `GlobalHooks` and
//! `MergesAgentGlobalAndCLIHooks` of 5.2 are about no cache.

use std::time::{Duration, SystemTime};

use cachalot_core::Digest;
use cachalot_hooks::{Builtin as _, Event};
use serde_json::{Value, json};

use crate::response_cache_fixture::{Turn, TurnResult, fixture, fixture_builder, problems};

const BY_QUESTION: &str = "{enabled: true, match: question}";

/// Returns whether one question is answered with the answer of another one.
async fn is_same(section: &str, one: &str, other: &str) -> bool {
    let fixture = fixture(section);
    assert!(!fixture.ask(Turn::saying(one), "so").await.is_replay());
    fixture.ask(Turn::saying(other), "so").await.is_replay()
}

#[tokio::test]
async fn new_disabled() {
    for section in ["{}", "{enabled: false}"] {
        let fixture = fixture(section);
        assert!(!fixture.keeps(Turn::saying("?"), "so").await);
        assert!(fixture.rows().await.is_empty());
    }
}

#[tokio::test]
async fn case_sensitive_default() {
    for section in [BY_QUESTION, "{enabled: true, path: answers.json}"] {
        assert!(is_same(section, "Hello", "hELLO").await, "{section}");
    }
    let sensitive = "{enabled: true, match: question, case_sensitive: true}";
    assert!(!is_same(sensitive, "Hello", "hello").await);
    assert!(is_same(sensitive, "Hello", "Hello").await);
}

#[tokio::test]
async fn case_insensitive() {
    let section = "{enabled: true, match: question, case_sensitive: false}";
    assert!(is_same(section, "Größe?", "GRÖßE?").await);
}

#[tokio::test]
async fn trim_spaces() {
    let section = "{enabled: true, match: question, trim_spaces: true}";
    assert!(is_same(section, "hello", "  hello\n").await);
    assert!(!is_same(section, "hello you", "hello  you").await);
}

#[tokio::test]
async fn no_trim_by_default() {
    assert!(!is_same(BY_QUESTION, "hello", " hello").await);
}

#[tokio::test]
async fn overwrite() {
    for section in [BY_QUESTION, "{enabled: true, path: answers.json}"] {
        let fixture = fixture(section);
        let fresh = Turn::saying("?").prompted(|prompt| prompt.fresh = true);
        for answer in ["first", "last"] {
            assert!(matches!(
                fixture.ask(fresh.clone(), answer).await,
                TurnResult::Ran
            ));
        }
        let replay = fixture.ask(Turn::saying("?"), "").await.replayed();
        assert_eq!(replay.content, "last", "{section}");
    }
}

#[tokio::test]
async fn dedup_skips_redundant_write() {
    let fixture = fixture("{enabled: true, path: answers.json}");
    fixture.ask(Turn::saying("?"), "so").await;
    let path = fixture.path("answers.json");
    let long_ago = SystemTime::now() - Duration::from_secs(3_600);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(long_ago).unwrap();
    fixture.ask(Turn::saying("?"), "").await.replayed();
    let fresh = Turn::saying("?").prompted(|prompt| prompt.fresh = true);
    fixture.ask(fresh, "so").await;
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    assert_eq!(modified, long_ago);
}

#[tokio::test]
async fn persists() {
    for section in [BY_QUESTION, "{enabled: true, path: answers.json}"] {
        let before = fixture(section);
        before.ask(Turn::saying("?"), "so").await;
        before.cache.close().await;
        let after = fixture_builder(section).beside(&before).make();
        let replay = after.ask(Turn::saying("?"), "").await.replayed();
        assert_eq!(replay.content, "so", "{section}");
    }
}

#[tokio::test]
async fn process_store_is_not_shared_between_engines() {
    let section = "{enabled: true, match: question, store: process}";
    let before = fixture_builder(section).in_process().make();
    assert!(before.keeps(Turn::saying("?"), "so").await);
    let after = fixture_builder(section).in_process().beside(&before).make();
    assert!(!after.ask(Turn::saying("?"), "so").await.is_replay());
}

#[tokio::test]
async fn relative_path_and_absolute_path() {
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("answers.json");
    let absolute = format!("{{enabled: true, path: '{}'}}", path.display());
    let world_of_absolute = fixture(&absolute);
    assert!(world_of_absolute.keeps(Turn::saying("How?"), "So.").await);
    let relative = fixture("{enabled: true, path: answers.json}");
    assert!(relative.keeps(Turn::saying("How?"), "So.").await);
    for path in [path, relative.path("answers.json")] {
        let text = std::fs::read_to_string(path).unwrap();
        let file: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(file, json!({"how?": "So."}));
    }
}

#[test]
fn path_traversal_rejected() {
    let found = problems("{enabled: true, path: ../../etc/answers.json}");
    assert_eq!(found.len(), 1);
    assert!(found[0].message.contains("leads out"), "{}", found[0]);
}

#[tokio::test]
async fn corrupt_file_is_not_loaded_and_the_turn_continues() {
    let fixture = fixture("{enabled: true, path: answers.json}");
    fixture.write("answers.json", "{broken");
    let turn = fixture.numbered(Turn::saying("?"));
    let input = turn.input(Event::PreUserTurn);
    let fault = fixture.builtin.run(&[], &input).await.unwrap_err();
    assert!(
        fault
            .message
            .starts_with("the answers of `root` are not kept:"),
        "{fault}"
    );
    fixture.stop(&turn, "so").await;
    fixture.end(&turn).await;
    assert_eq!(
        std::fs::read_to_string(fixture.path("answers.json")).unwrap(),
        "{broken"
    );
}

#[tokio::test]
async fn stores_and_replays_answer() {
    let fixture = fixture(BY_QUESTION);
    assert!(matches!(
        fixture.ask(Turn::saying("?"), "so").await,
        TurnResult::Ran
    ));
    // Another session, another place in the conversation: the question alone decides.
    let again = Turn::saying("?").in_session("t").behind("much talk");
    assert_eq!(fixture.ask(again, "").await.replayed().content, "so");
}

#[tokio::test]
async fn storage_is_a_stop_hook_builtin() {
    let fixture = fixture(BY_QUESTION);
    let injected = fixture.builtin.inject(&*fixture.agent("root"));
    assert!(injected.iter().any(|one| one.event == Event::Stop));
    let turn = fixture.numbered(Turn::saying("?"));
    fixture.begin(&turn).await;
    assert!(fixture.entries().await.is_empty());
    fixture.stop(&turn, "so").await;
    assert_eq!(fixture.entries().await.len(), 1);
}

#[tokio::test]
async fn disabled_has_no_effect() {
    let fixture = fixture("{enabled: false, match: question}");
    assert!(fixture.builtin.inject(&*fixture.agent("root")).is_empty());
    assert!(!fixture.keeps(Turn::saying("?"), "so").await);
}

#[tokio::test]
async fn empty_response_is_not_cached() {
    for text in ["", " \n\t"] {
        let fixture = fixture(BY_QUESTION);
        assert!(!fixture.ask(Turn::saying("?"), text).await.is_replay());
        assert!(fixture.entries().await.is_empty());
        assert!(!fixture.ask(Turn::saying("?"), "so").await.is_replay());
    }
}

#[tokio::test]
async fn empty_stored_value_is_a_miss() {
    let fixture = fixture("{enabled: true, path: answers.json}");
    fixture.write("answers.json", r#"{"?": "  "}"#);
    assert!(!fixture.ask(Turn::saying("?"), "so").await.is_replay());
    assert_eq!(
        fixture.ask(Turn::saying("?"), "").await.replayed().content,
        "so"
    );
}

#[tokio::test]
async fn attachments_are_in_the_key() {
    let fixture = fixture(BY_QUESTION);
    let showing = |picture: &'static [u8]| {
        Turn::saying("What is this?")
            .prompted(|prompt| prompt.attachments.push(Digest::sha256(picture)))
    };
    assert!(fixture.keeps(showing(b"whale"), "A whale.").await);
    assert!(!fixture.ask(showing(b"squid"), "A squid.").await.is_replay());
    let without = Turn::saying("What is this?");
    assert!(!fixture.ask(without, "What?").await.is_replay());
}

#[tokio::test]
async fn structured_output_validation() {
    let fixture = fixture("{enabled: true, path: answers.json}");
    let schema = json!({"type": "object", "required": ["a"]});
    let turn = || Turn::saying("q").formed(schema.clone());
    for stored in [r#"{"q": "no json"}"#, r#"{"q": "{\"b\": 1}"}"#] {
        fixture.write("answers.json", stored);
        let turn = fixture.numbered(turn());
        assert_eq!(fixture.begin(&turn).await.synthetic, None, "{stored}");
        fixture.end(&turn).await;
    }
    fixture.write("answers.json", r#"{"q": "{\"a\": 1}"}"#);
    let replay = fixture.ask(turn(), "").await.replayed();
    assert_eq!(replay.content, r#"{"a": 1}"#);
}

#[tokio::test]
async fn tool_call_text_is_a_miss() {
    let fixture = fixture("{enabled: true, path: answers.json}");
    fixture.write("answers.json", r#"{"?": "<tool_call>{}</tool_call>"}"#);
    assert!(!fixture.ask(Turn::saying("?"), "so").await.is_replay());
}
