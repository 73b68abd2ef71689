//! Keys made from what a file holds.

use std::time::Duration;

use serde_json::{Value, json};

use crate::fixture::{Fixture, Setup, is_hit, text};
use crate::test_actions::TestAction;

fn of_content(file: &str, model: &str) -> Value {
    json!({
        "action": "test.act",
        "args": {"file": file, "model": model},
        "key_strategy": "file_content",
    })
}

#[tokio::test]
async fn file_content_is_keyed_and_its_name_is_not() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let one = fixture.file("one", "content");
    assert!(!is_hit(&fixture.wrap(of_content(&one, "m")).await));
    assert!(is_hit(&fixture.wrap(of_content(&one, "m")).await));
    let copy = fixture.file("copy", "content");
    for name in [copy.as_str(), "copy", &format!("file://{copy}")] {
        assert!(is_hit(&fixture.wrap(of_content(name, "m")).await), "{name}");
    }
    fixture.file("one", "changed");
    assert!(!is_hit(&fixture.wrap(of_content(&one, "m")).await));
    fixture.file("one", "content");
    assert!(
        is_hit(&fixture.wrap(of_content(&one, "m")).await),
        "and back again"
    );
    assert_eq!(test_action.runs(), 2);
}

#[tokio::test]
async fn change_with_equal_size_and_mtime_is_detected() {
    let fixture = Fixture::with(TestAction::new());
    let file = fixture.file("f", "aaaa");
    let then = std::fs::metadata(&file).unwrap().modified().unwrap();
    fixture.wrap(of_content(&file, "m")).await;
    fixture.file("f", "bbbb");
    std::fs::File::options()
        .append(true)
        .open(&file)
        .unwrap()
        .set_modified(then)
        .unwrap();
    assert!(!is_hit(&fixture.wrap(of_content(&file, "m")).await));
}

#[tokio::test]
async fn arguments_besides_the_file_are_keyed() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let file = fixture.file("f", "content");
    assert!(!is_hit(&fixture.wrap(of_content(&file, "small")).await));
    assert!(!is_hit(&fixture.wrap(of_content(&file, "large")).await));
    assert!(is_hit(&fixture.wrap(of_content(&file, "small")).await));
    assert_eq!(test_action.runs(), 2);
}

#[tokio::test]
async fn key_source_can_be_any_argument() {
    let fixture = Fixture::with(TestAction::new());
    let with = |x: &str| {
        json!({
            "action": "test.act", "args": {"x": x, "file": "ignored"},
            "key_strategy": "file_content", "key_source": "x",
        })
    };
    let (a, b) = (fixture.file("a", "same"), fixture.file("b", "same"));
    assert!(!is_hit(&fixture.wrap(with(&a)).await));
    assert!(is_hit(&fixture.wrap(with(&b)).await));
}

#[tokio::test]
async fn file_content_keys_of_relative_paths_hit_in_every_directory() {
    let one = Fixture::with(TestAction::new());
    one.file("f.txt", "the same");
    let read = json!({
        "action": "file.read", "args": {"path": "f.txt"},
        "key_strategy": "file_content", "key_source": "path",
    });
    let first = one.wrap(read.clone()).await;
    assert!(!is_hit(&first));
    let elsewhere = tempfile::tempdir().unwrap();
    std::fs::write(elsewhere.path().join("f.txt"), "the same").unwrap();
    let two = Setup::in_home_of(&one).directory(elsewhere.path()).start();
    assert!(is_hit(&two.wrap(read).await));
}

#[tokio::test]
async fn empty_file_has_a_content_key() {
    let fixture = Fixture::with(TestAction::new());
    let empty = fixture.file("empty", "");
    assert!(!is_hit(&fixture.wrap(of_content(&empty, "m")).await));
    assert!(is_hit(&fixture.wrap(of_content(&empty, "m")).await));
    let other = fixture.file("other", "\n");
    assert!(!is_hit(&fixture.wrap(of_content(&other, "m")).await));
}

/// Wraps something that cannot be hashed, twice: it runs twice, and nothing is kept.
async fn runs_uncached(fixture: &Fixture, test_action: &TestAction, with: Value, why: &str) {
    for _ in 0..2 {
        let runs = test_action.runs();
        let response = fixture.wrap(with.clone()).await;
        assert_eq!(test_action.runs(), runs + 1, "{with}");
        assert_eq!(response["success"], true);
        assert_eq!(response["_cache_stored"], false);
        assert_eq!(response["_cache_key"], Value::Null);
        let reason = text(&response, "_cache_reason");
        assert!(reason.contains(why), "{with}: {reason}");
    }
    assert!(fixture.entries().await.is_empty());
}

#[tokio::test]
async fn calls_with_unhashable_content_run_uncached() {
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    std::fs::create_dir(fixture.path("directory")).unwrap();
    let absent = fixture.path("absent").to_str().unwrap().to_owned();
    for (file, why) in [
        (json!(absent), "not there"),
        (json!("absent"), "not there"),
        (json!("directory"), "not a file"),
        (json!(["a", "b"]), "not a path"),
        (json!(5), "not a path"),
        (json!(""), "no key"),
        (json!("nowhere://x/y"), "no key"),
        (json!("http://127.0.0.1:1/closed"), "no key"),
    ] {
        let with = json!({
            "action": "test.act", "args": {"file": file}, "key_strategy": "file_content",
        });
        runs_uncached(&fixture, &test_action, with, why).await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn unreadable_file_runs_uncached() {
    use std::os::unix::fs::PermissionsExt as _;
    let test_action = TestAction::new();
    let fixture = Fixture::with(test_action.clone());
    let file = fixture.file("secretive", "content");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&file).is_ok() {
        // The superuser reads everything: nothing to see here.
        return;
    }
    runs_uncached(
        &fixture,
        &test_action,
        of_content(&file, "m"),
        "ermission denied",
    )
    .await;
}

#[tokio::test]
async fn file_changed_during_the_action_prevents_storing() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    std::fs::write(&path, "before").unwrap();
    let test_action = TestAction::new().answers({
        let path = path.clone();
        move |run, _| {
            if run == 1 {
                std::fs::write(&path, "after!").unwrap();
            }
            Ok(json!(std::fs::read_to_string(&path).unwrap()))
        }
    });
    let fixture = Fixture::with(test_action.clone());
    let with = of_content(path.to_str().unwrap(), "m");
    let torn = fixture.wrap(with.clone()).await;
    assert_eq!(torn["result"], "after!");
    assert_eq!(torn["_cache_stored"], false);
    assert!(
        text(&torn, "_cache_reason").contains("while the action ran"),
        "{torn}"
    );
    std::fs::write(&path, "before").unwrap();
    let whole = fixture.wrap(with).await;
    assert!(
        !is_hit(&whole),
        "what was made from other content answers nothing"
    );
    assert_eq!(whole["result"], "before");
    assert_eq!(whole["_cache_stored"], true);
}

#[tokio::test]
async fn file_removed_during_the_action_prevents_storing() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    std::fs::write(&path, "content").unwrap();
    let gone = path.clone();
    let test_action = TestAction::new().answers(move |_, _| {
        std::fs::remove_file(&gone).unwrap();
        Ok(json!("done"))
    });
    let fixture = Fixture::with(test_action);
    let response = fixture.wrap(of_content(path.to_str().unwrap(), "m")).await;
    assert_eq!(
        (&response["result"], &response["_cache_stored"]),
        (&json!("done"), &json!(false))
    );
}

/// A web server that serves one text, and the URL of it.
async fn serve(content: std::sync::Arc<std::sync::Mutex<String>>) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/document", listener.local_addr().unwrap());
    let page = move || async move { content.lock().unwrap().clone() };
    let router = axum::Router::new().route("/document", axum::routing::get(page));
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test]
async fn remote_document_is_keyed_by_content() {
    let content = std::sync::Arc::new(std::sync::Mutex::new("one".to_owned()));
    let url = serve(std::sync::Arc::clone(&content)).await;
    let test_action = TestAction::new().answers({
        let content = std::sync::Arc::clone(&content);
        move |run, _| {
            if run == 3 {
                *content.lock().unwrap() = "and longer".to_owned();
            }
            Ok(json!(run))
        }
    });
    let fixture = Fixture::with(test_action.clone());
    let with = of_content(&url, "m");
    assert!(!is_hit(&fixture.wrap(with.clone()).await));
    assert!(is_hit(&fixture.wrap(with.clone()).await));
    let local = fixture.file("one", "one");
    assert!(
        is_hit(&fixture.wrap(of_content(&local, "m")).await),
        "wherever it lies"
    );
    "two".clone_into(&mut content.lock().unwrap());
    assert!(!is_hit(&fixture.wrap(with.clone()).await));
    "three".clone_into(&mut content.lock().unwrap());
    let torn = fixture.wrap(with).await;
    assert_eq!(
        (&torn["result"], &torn["_cache_stored"]),
        (&json!(3), &json!(false)),
        "{torn}"
    );
}

#[tokio::test]
async fn storage_hash_in_a_custom_key_follows_the_content() {
    let fixture = Fixture::with(TestAction::new());
    let file = fixture.file("f", "content");
    let keyed = async |fixture: &Fixture| {
        let hash = fixture.ok("storage.hash", json!({"path": file})).await["hash"].clone();
        let key = format!("extract:{}", hash.as_str().unwrap());
        fixture
            .wrap(json!({"action": "test.act", "args": {"file": file}, "key": key}))
            .await
    };
    assert!(!is_hit(&keyed(&fixture).await));
    assert!(is_hit(&keyed(&fixture).await));
    fixture.file("f", "other");
    assert!(!is_hit(&keyed(&fixture).await));
}

#[tokio::test]
async fn large_file_is_hashed_quickly() {
    let fixture = Fixture::with(TestAction::new());
    let file = fixture.path("large");
    let sparse = std::fs::File::create(&file).unwrap();
    sparse.set_len(64 << 20).unwrap();
    let with = of_content(file.to_str().unwrap(), "m");
    assert!(!is_hit(&fixture.wrap(with.clone()).await));
    fixture.after(Duration::from_secs(1));
    assert!(is_hit(&fixture.wrap(with).await));
}
