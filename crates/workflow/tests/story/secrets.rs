//! Secrets are used and never shown.

use std::path::Path;

use cachalot_cache::CacheMode;
use cachalot_core::DigestKey;
use cachalot_workflow::Failure;
use serde_json::{Value, json};

use crate::fixture::{Fixture, Setup, is_hit, text};
use crate::test_actions::TestAction;

const SECRET: &str = "hunter2/\"ü\"+tok en";

fn guarded(test_action: &TestAction) -> Fixture {
    Setup::default()
        .secrets(&[SECRET])
        .with(test_action.clone())
        .start()
}

/// Spellings of the secret.
fn spellings() -> Vec<String> {
    let quoted = serde_json::to_string(SECRET).unwrap();
    vec![
        SECRET.to_owned(),
        quoted[1..quoted.len() - 1].to_owned(),
        "hunter2%2F%22%C3%BC%22%2Btok%20en".to_owned(),
        "hunter2".to_owned(),
    ]
}

#[track_caller]
fn holds_no_secret(what: &str, bytes: &[u8]) {
    for spelling in spellings() {
        let found = bytes
            .windows(spelling.len())
            .any(|window| window == spelling.as_bytes());
        assert!(
            !found,
            "{what} holds {spelling:?}: {}",
            String::from_utf8_lossy(bytes)
        );
    }
}

/// Looks through every file that was written.
fn no_file_holds_a_secret(directory: &Path) -> usize {
    let mut files = 0;
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            files += no_file_holds_a_secret(&entry.path());
        } else {
            let bytes = std::fs::read(entry.path()).unwrap();
            holds_no_secret(&entry.path().display().to_string(), &bytes);
            files += 1;
        }
    }
    files
}

#[tokio::test]
async fn secrets_are_keyed_and_passed_unchanged_to_the_action() {
    let test_action = TestAction::new().gives(json!("fine"));
    let fixture = guarded(&test_action);
    let with = |token: &str| json!({"action": "test.act", "args": {"x": {"token": token}}});
    assert!(!is_hit(&fixture.wrap(with(SECRET)).await));
    assert!(is_hit(&fixture.wrap(with(SECRET)).await));
    assert!(!is_hit(&fixture.wrap(with("another")).await));
    assert!(!is_hit(
        &fixture.wrap(with(&format!("Bearer {SECRET}"))).await
    ));
    assert_eq!(test_action.seen()[0]["x"]["token"], SECRET);
}

#[tokio::test]
async fn equal_secrets_hit_across_runs_and_others_do_not() {
    let test_action = TestAction::new().gives(json!("fine"));
    let fixture = guarded(&test_action);
    let with = json!({"action": "test.act", "args": {"x": SECRET}});
    let first = fixture.wrap(with.clone()).await;
    let again = fixture
        .end()
        .await
        .secrets(&["other", SECRET])
        .with(test_action.clone())
        .start();
    let hit = again.wrap(with).await;
    assert!(is_hit(&hit));
    assert_eq!(hit["_cache_key"], first["_cache_key"]);
    let rotated = again
        .wrap(json!({"action": "test.act", "args": {"x": "other"}}))
        .await;
    assert!(!is_hit(&rotated));
}

#[tokio::test]
async fn handle_of_a_secret_cannot_verify_guesses() {
    let test_action = TestAction::new().gives(json!("fine"));
    let with = json!({"action": "test.act", "args": {"x": SECRET}});
    let sealed = guarded(&test_action).wrap(with.clone()).await;
    let guess = Fixture::with(test_action.clone()).wrap(with.clone()).await;
    assert_ne!(
        sealed["_cache_key"], guess["_cache_key"],
        "without the digest key"
    );
    let other_home = guarded(&test_action).wrap(with).await;
    assert_ne!(
        sealed["_cache_key"], other_home["_cache_key"],
        "each home has its own"
    );
}

#[tokio::test]
async fn key_with_a_secret_shows_its_digest() {
    let test_action = TestAction::new().gives(json!("fine"));
    let fixture = guarded(&test_action);
    let key = format!("user:{SECRET}:docs");
    let with = json!({"action": "test.act", "args": {}, "key": key});
    let response = fixture.wrap(with.clone()).await;
    let handle = text(&response, "_cache_key").to_owned();
    assert!(
        handle.starts_with("cache:tester:user:secret-") && handle.ends_with(":docs"),
        "{handle}"
    );
    holds_no_secret("the handle", handle.as_bytes());
    assert!(is_hit(&fixture.wrap(with).await));
    let got = fixture.get(&key).await;
    assert_eq!(
        (&got["found"], &got["metadata"]["_cache_key"]),
        (&json!(true), &json!(handle))
    );
    assert_eq!(
        fixture.get(&handle).await["found"],
        true,
        "what is shown can be asked for"
    );
    let pattern = json!({"pattern": format!("user:{SECRET}:*"), "dry_run": true});
    assert_eq!(
        fixture.invalidate(pattern).await["deleted_keys"],
        json!([handle])
    );
    assert_eq!(
        fixture.invalidate(json!({"key": key})).await["deleted_keys"],
        json!([handle])
    );
}

#[tokio::test]
async fn result_with_a_secret_is_returned_and_not_stored() {
    for result in [
        json!(SECRET),
        json!({"echo": {"headers": [format!("Bearer {SECRET}")]}}),
        json!({ SECRET: 1 }),
        json!("https://h/?q=hunter2%2F%22%C3%BC%22%2Btok%20en"),
        json!(serde_json::to_string(&json!({"token": SECRET})).unwrap()),
    ] {
        let test_action = TestAction::new().gives(result.clone());
        let fixture = guarded(&test_action);
        for runs in [1, 2] {
            let response = fixture
                .wrap(json!({"action": "test.act", "args": {}, "key": "k"}))
                .await;
            assert_eq!(response["result"], result);
            assert_eq!(response["_cache_stored"], false, "{result}");
            assert_eq!(
                text(&response, "_cache_reason"),
                "the answer holds a secret"
            );
            assert_eq!(test_action.runs(), runs);
        }
    }
}

#[tokio::test]
async fn no_file_contains_a_secret() {
    let test_action = TestAction::new().answers(|_, given| match given.get("model") {
        Some(_) => Err(Failure::new("boom", format!("GET /?key={SECRET} failed"))),
        None if given.contains_key("y") => Ok(json!({"echo": SECRET})),
        None => Ok(json!("fine")),
    });
    // Files of the user are not ours: they lie elsewhere.
    let files = tempfile::tempdir().unwrap();
    let setup = Setup::default()
        .secrets(&[SECRET])
        .directory(files.path())
        .with(test_action.clone());
    let fixture = setup.variable("TOKEN", SECRET).start();
    let mut responses = Vec::new();
    for with in [
        json!({"args": {"x": SECRET}}),
        json!({"args": {"x": {SECRET: [SECRET]}}}),
        json!({"args": {"x": 1}, "key": format!("k-{SECRET}")}),
        json!({"args": {"y": 1}}),
        json!({"args": {"x": 2}, "version": SECRET}),
        json!({"args": {"x": 3}, "tags": [format!("tag-{SECRET}")]}),
        json!({"args": {"x": 4}, "depends_on": [SECRET]}),
        json!({"args": {"x": 5}, "depends_on": [format!("file-{SECRET}")]}),
        json!({"args": {"file": SECRET}, "key_strategy": "file_content"}),
        json!({"args": {"file": format!("https://127.0.0.1:1/{SECRET}")}, "key_strategy": "file_content"}),
        json!({"args": {"x": SECRET}, "cache_enabled": false}),
        json!({"args": {"x": SECRET}, "skip_cache": true}),
        json!({"args": {"x": SECRET, "model": 1}, "on_error": "return"}),
    ] {
        let mut call = json!({"action": "test.act"});
        call.as_object_mut()
            .unwrap()
            .extend(with.as_object().unwrap().clone());
        responses.push(fixture.wrap(call).await);
    }
    let environment = json!({"command": ["true"], "environment": ["TOKEN"]});
    fixture.wrapped("shell.run", environment).await;
    fixture.ok("cache.get", json!({"key": SECRET})).await;
    fixture
        .invalidate(json!({"pattern": format!("none-{SECRET}*")}))
        .await;
    for response in &responses {
        let mut shown = response.clone();
        // What the action gave is the action's; everything else is ours.
        shown.as_object_mut().unwrap().shift_remove("result");
        holds_no_secret("a response", shown.to_string().as_bytes());
    }
    holds_no_secret(
        "the report",
        fixture.events.text().replace("\\\\", "\\").as_bytes(),
    );
    holds_no_secret("the report", fixture.events.text().as_bytes());
    holds_no_secret(
        "a warning",
        fixture.warnings.lock().unwrap().join("\n").as_bytes(),
    );
    let mut cassette = Vec::new();
    fixture
        .runtime
        .cache
        .export(&mut cassette, None)
        .await
        .unwrap();
    holds_no_secret("the cassette", &cassette);
    fixture.runtime.cache.close().await;
    assert!(!fixture.entries().await.is_empty());
    assert!(
        no_file_holds_a_secret(fixture.home()) >= 4,
        "memory, stamps, ledger, digest key"
    );
}

#[tokio::test]
async fn tags_with_a_secret_still_match_their_entries() {
    let fixture = guarded(&TestAction::new().gives(json!("fine")));
    let tag = format!("tenant-{SECRET}");
    fixture
        .wrap(json!({"action": "test.act", "args": {}, "key": "k", "tags": [tag]}))
        .await;
    assert_eq!(
        fixture.invalidate(json!({"tags": [tag]})).await["deleted_count"],
        1
    );
}

#[tokio::test]
async fn secrets_in_failures_are_redacted() {
    let test_action = TestAction::new().fails(Failure::new(
        "http_error",
        format!("401 for token {SECRET}"),
    ));
    let fixture = guarded(&test_action);
    let failure = fixture
        .fails("cache.wrap", json!({"action": "test.act", "args": {}}))
        .await;
    assert_eq!(failure.message, "401 for token [secret]");
    let returning = json!({"action": "test.act", "args": {}, "on_error": "return"});
    assert_eq!(
        text(&fixture.wrap(returning).await, "error"),
        "401 for token [secret]"
    );
    let explanation = fixture.why().await;
    assert_eq!(
        explanation.call.failure.as_deref(),
        Some("401 for token [secret]")
    );
}

#[tokio::test]
async fn percent_encoded_secrets_in_urls_are_redacted() {
    let fixture = guarded(&TestAction::new());
    let url = format!("http://127.0.0.1:1/{SECRET}?q={SECRET}");
    let failure = fixture
        .fails(
            "cache.wrap",
            json!({"action": "http.get", "args": {"url": url}}),
        )
        .await;
    holds_no_secret("a failure", failure.message.as_bytes());
}

#[tokio::test]
async fn failures_of_requests_and_files_contain_no_secrets() {
    let fixture = guarded(&TestAction::new());
    for with in [
        json!({"action": "http.get", "args": {"url": "http://127.0.0.1:1/", "params": {"q": SECRET}}}),
        json!({"action": "file.read", "args": {"path": SECRET}}),
    ] {
        let failure = fixture.fails("cache.wrap", with).await;
        holds_no_secret("a failure", failure.message.as_bytes());
    }
    fixture.runtime.cache.close().await;
    no_file_holds_a_secret(fixture.home());
}

#[tokio::test]
async fn explanation_of_a_changed_secret_hides_its_value() {
    let test_action = TestAction::new().gives(json!("fine"));
    let fixture = Setup::default()
        .secrets(&["first-secret", "other-secret"])
        .with(test_action)
        .start();
    let with = |token: &str| json!({"action": "test.act", "args": {"x": token, "y": 1}});
    fixture.wrap(with("first-secret")).await;
    fixture.wrap(with("other-secret")).await;
    let explanation = fixture.why().await;
    assert!(explanation.hidden_difference);
    let reported = format!("{explanation:?}");
    assert!(
        !reported.contains("first-secret") && !reported.contains("other-secret"),
        "{reported}"
    );
}

#[tokio::test]
async fn entries_keyed_by_a_secret_are_exported_only_with_the_digest_key() {
    let test_action = TestAction::new().gives(json!("fine"));
    let fixture = guarded(&test_action);
    let with = json!({"action": "test.act", "args": {"x": SECRET}});
    let plain = json!({"action": "test.act", "args": {"x": 1}});
    fixture.wrap(with.clone()).await;
    fixture.wrap(plain.clone()).await;
    let warm = fixture.wrap(with.clone()).await;
    let mut without_key = Vec::new();
    let exported = fixture
        .runtime
        .cache
        .export(&mut without_key, None)
        .await
        .unwrap();
    assert_eq!((exported.entries, exported.left_out), (1, 1));
    let key: &DigestKey = fixture.runtime.secret_set.key().unwrap();
    let mut with_key = Vec::new();
    let exported = fixture
        .runtime
        .cache
        .export(&mut with_key, Some(key))
        .await
        .unwrap();
    assert_eq!((exported.entries, exported.left_out), (2, 0));

    // At the other place the key that came along is laid down before the run begins.
    let stopped = || TestAction::new().fails(Failure::new("stopped", "it is stopped"));
    let reception = Setup::default().start();
    let imported = reception
        .runtime
        .cache
        .import(&mut with_key.as_slice())
        .await
        .unwrap();
    let key_file = reception.home().join("memory.db.digest-key");
    imported
        .digest_key
        .expect("the key came along")
        .store(&key_file)
        .unwrap();
    let elsewhere = Setup::in_home_of(&reception)
        .secrets(&[SECRET])
        .mode(CacheMode::Frozen);
    let elsewhere = elsewhere.with(stopped()).start();
    assert_eq!(elsewhere.wrap(with.clone()).await, warm);
    let keyless = Setup::default()
        .secrets(&[SECRET])
        .mode(CacheMode::Frozen)
        .with(stopped())
        .start();
    keyless
        .runtime
        .cache
        .import(&mut without_key.as_slice())
        .await
        .unwrap();
    assert!(is_hit(&keyless.wrap(plain).await));
    assert_eq!(keyless.fails("cache.wrap", with).await.kind, "frozen_miss");
}

#[tokio::test]
async fn ledger_masks_credential_like_texts() {
    let fixture = Fixture::with(TestAction::new().gives(json!("fine")));
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ";
    let args = json!({"x": {"Authorization": "Bearer abcdefgh12345678"}, "y": token});
    fixture.wrapped("test.act", args).await;
    let explanation = fixture.why().await;
    let reported = serde_json::to_string(&explanation.call.input).unwrap();
    assert!(
        !reported.contains(token) && !reported.contains("abcdefgh12345678"),
        "{reported}"
    );
    fixture.runtime.cache.close().await;
    for file in ["memory.db.ledger", "memory.db.ledger-wal"] {
        let bytes = std::fs::read(fixture.home().join(file)).unwrap_or_default();
        assert!(
            !bytes
                .windows(token.len())
                .any(|window| window == token.as_bytes()),
            "{file}"
        );
    }
}

#[tokio::test]
async fn secret_argument_does_not_hide_other_keyed_arguments() {
    let fixture = guarded(&TestAction::new().gives(json!("fine")));
    let with = |y: Value| json!({"action": "test.act", "args": {"x": SECRET, "y": y}});
    assert!(!is_hit(&fixture.wrap(with(json!(1))).await));
    assert!(!is_hit(&fixture.wrap(with(json!(2))).await));
    assert!(is_hit(&fixture.wrap(with(json!(1))).await));
}
