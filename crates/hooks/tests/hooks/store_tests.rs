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

use crate::answering::{Came, Turn, making, problems, world};

const BY_QUESTION: &str = "{enabled: true, match: question}";

/// Whether one question is answered with what another one was.
async fn is_same(section: &str, one: &str, other: &str) -> bool {
    let world = world(section);
    assert!(!world.ask(Turn::saying(one), "so").await.is_replay());
    world.ask(Turn::saying(other), "so").await.is_replay()
}

#[tokio::test]
async fn new_disabled() {
    for section in ["{}", "{enabled: false}"] {
        let world = world(section);
        assert!(!world.keeps(Turn::saying("?"), "so").await);
        assert!(world.rows().await.is_empty());
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
        let world = world(section);
        let fresh = Turn::saying("?").prompted(|prompt| prompt.fresh = true);
        for answer in ["first", "last"] {
            assert!(matches!(world.ask(fresh.clone(), answer).await, Came::Ran));
        }
        let replay = world.ask(Turn::saying("?"), "").await.replayed();
        assert_eq!(replay.content, "last", "{section}");
    }
}

#[tokio::test]
async fn dedup_skips_redundant_write() {
    let world = world("{enabled: true, path: answers.json}");
    world.ask(Turn::saying("?"), "so").await;
    let path = world.path("answers.json");
    let long_ago = SystemTime::now() - Duration::from_secs(3_600);
    let file = std::fs::File::options().write(true).open(&path).unwrap();
    file.set_modified(long_ago).unwrap();
    world.ask(Turn::saying("?"), "").await.replayed();
    let fresh = Turn::saying("?").prompted(|prompt| prompt.fresh = true);
    world.ask(fresh, "so").await;
    let modified = std::fs::metadata(&path).unwrap().modified().unwrap();
    assert_eq!(modified, long_ago);
}

#[tokio::test]
async fn persists() {
    for section in [BY_QUESTION, "{enabled: true, path: answers.json}"] {
        let before = world(section);
        before.ask(Turn::saying("?"), "so").await;
        before.cache.close().await;
        let after = making(section).beside(&before).make();
        let replay = after.ask(Turn::saying("?"), "").await.replayed();
        assert_eq!(replay.content, "so", "{section}");
    }
}

#[tokio::test]
async fn in_memory() {
    let section = "{enabled: true, match: question, store: process}";
    let before = making(section).in_process().make();
    assert!(before.keeps(Turn::saying("?"), "so").await);
    let after = making(section).in_process().beside(&before).make();
    assert!(!after.ask(Turn::saying("?"), "so").await.is_replay());
}

#[tokio::test]
async fn relative_path_and_absolute_path() {
    let elsewhere = tempfile::tempdir().unwrap();
    let path = elsewhere.path().join("answers.json");
    let absolute = format!("{{enabled: true, path: '{}'}}", path.display());
    let world_of_absolute = world(&absolute);
    assert!(world_of_absolute.keeps(Turn::saying("How?"), "So.").await);
    let relative = world("{enabled: true, path: answers.json}");
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
async fn corrupt_file_does_not_load_and_costs_no_turn() {
    let world = world("{enabled: true, path: answers.json}");
    world.write("answers.json", "{broken");
    let turn = world.numbered(Turn::saying("?"));
    let input = turn.input(Event::PreUserTurn);
    let fault = world.builtin.run(&[], &input).await.unwrap_err();
    assert!(
        fault
            .message
            .starts_with("the answers of `root` are not kept:"),
        "{fault}"
    );
    world.stop(&turn, "so").await;
    world.end(&turn).await;
    assert_eq!(
        std::fs::read_to_string(world.path("answers.json")).unwrap(),
        "{broken"
    );
}

#[tokio::test]
async fn stores_and_replays_answer() {
    let world = world(BY_QUESTION);
    assert!(matches!(
        world.ask(Turn::saying("?"), "so").await,
        Came::Ran
    ));
    // Another session, another place in the conversation: the question alone decides.
    let again = Turn::saying("?").in_session("t").behind("much talk");
    assert_eq!(world.ask(again, "").await.replayed().content, "so");
}

#[tokio::test]
async fn storage_is_a_stop_hook_builtin() {
    let world = world(BY_QUESTION);
    let injected = world.builtin.inject(&*world.agent("root"));
    assert!(injected.iter().any(|one| one.event == Event::Stop));
    let turn = world.numbered(Turn::saying("?"));
    world.begin(&turn).await;
    assert!(world.entries().await.is_empty());
    world.stop(&turn, "so").await;
    assert_eq!(world.entries().await.len(), 1);
}

#[tokio::test]
async fn disabled_has_no_effect() {
    let world = world("{enabled: false, match: question}");
    assert!(world.builtin.inject(&*world.agent("root")).is_empty());
    assert!(!world.keeps(Turn::saying("?"), "so").await);
}

#[tokio::test]
async fn empty_response_is_not_cached() {
    for text in ["", " \n\t"] {
        let world = world(BY_QUESTION);
        assert!(!world.ask(Turn::saying("?"), text).await.is_replay());
        assert!(world.entries().await.is_empty());
        assert!(!world.ask(Turn::saying("?"), "so").await.is_replay());
    }
}

#[tokio::test]
async fn empty_stored_value_is_a_miss() {
    let world = world("{enabled: true, path: answers.json}");
    world.write("answers.json", r#"{"?": "  "}"#);
    assert!(!world.ask(Turn::saying("?"), "so").await.is_replay());
    assert_eq!(
        world.ask(Turn::saying("?"), "").await.replayed().content,
        "so"
    );
}

#[tokio::test]
async fn attachments_are_in_the_key() {
    let world = world(BY_QUESTION);
    let showing = |picture: &'static [u8]| {
        Turn::saying("What is this?")
            .prompted(|prompt| prompt.attachments.push(Digest::sha256(picture)))
    };
    assert!(world.keeps(showing(b"whale"), "A whale.").await);
    assert!(!world.ask(showing(b"squid"), "A squid.").await.is_replay());
    let without = Turn::saying("What is this?");
    assert!(!world.ask(without, "What?").await.is_replay());
}

#[tokio::test]
async fn structured_output_validation() {
    let world = world("{enabled: true, path: answers.json}");
    let schema = json!({"type": "object", "required": ["a"]});
    let turn = || Turn::saying("q").formed(schema.clone());
    for stored in [r#"{"q": "no json"}"#, r#"{"q": "{\"b\": 1}"}"#] {
        world.write("answers.json", stored);
        let turn = world.numbered(turn());
        assert_eq!(world.begin(&turn).await.synthetic, None, "{stored}");
        world.end(&turn).await;
    }
    world.write("answers.json", r#"{"q": "{\"a\": 1}"}"#);
    let replay = world.ask(turn(), "").await.replayed();
    assert_eq!(replay.content, r#"{"a": 1}"#);
}

#[tokio::test]
async fn tool_call_text_is_a_miss() {
    let world = world("{enabled: true, path: answers.json}");
    world.write("answers.json", r#"{"?": "<tool_call>{}</tool_call>"}"#);
    assert!(!world.ask(Turn::saying("?"), "so").await.is_replay());
}
