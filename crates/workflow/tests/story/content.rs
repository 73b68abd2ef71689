//! Keys made from what a file holds.

use std::time::Duration;

use serde_json::{Value, json};

use crate::acts::Act;
use crate::world::{Setup, World, is_hit, text};

fn of_content(file: &str, model: &str) -> Value {
    json!({
        "action": "test.act",
        "args": {"file": file, "model": model},
        "key_strategy": "file_content",
    })
}

#[tokio::test]
async fn the_content_is_keyed_and_not_the_name() {
    let act = Act::new();
    let world = World::with(act.clone());
    let one = world.file("one", "content");
    assert!(!is_hit(&world.wrap(of_content(&one, "m")).await));
    assert!(is_hit(&world.wrap(of_content(&one, "m")).await));
    let copy = world.file("copy", "content");
    for name in [copy.as_str(), "copy", &format!("file://{copy}")] {
        assert!(is_hit(&world.wrap(of_content(name, "m")).await), "{name}");
    }
    world.file("one", "changed");
    assert!(!is_hit(&world.wrap(of_content(&one, "m")).await));
    world.file("one", "content");
    assert!(
        is_hit(&world.wrap(of_content(&one, "m")).await),
        "and back again"
    );
    assert_eq!(act.runs(), 2);
}

#[tokio::test]
async fn a_change_that_keeps_size_and_time_is_seen() {
    let world = World::with(Act::new());
    let file = world.file("f", "aaaa");
    let then = std::fs::metadata(&file).unwrap().modified().unwrap();
    world.wrap(of_content(&file, "m")).await;
    world.file("f", "bbbb");
    std::fs::File::options()
        .append(true)
        .open(&file)
        .unwrap()
        .set_modified(then)
        .unwrap();
    assert!(!is_hit(&world.wrap(of_content(&file, "m")).await));
}

#[tokio::test]
async fn every_other_argument_is_keyed_too() {
    let act = Act::new();
    let world = World::with(act.clone());
    let file = world.file("f", "content");
    assert!(!is_hit(&world.wrap(of_content(&file, "small")).await));
    assert!(!is_hit(&world.wrap(of_content(&file, "large")).await));
    assert!(is_hit(&world.wrap(of_content(&file, "small")).await));
    assert_eq!(act.runs(), 2);
}

#[tokio::test]
async fn the_argument_that_holds_the_path_can_have_any_name() {
    let world = World::with(Act::new());
    let with = |x: &str| {
        json!({
            "action": "test.act", "args": {"x": x, "file": "ignored"},
            "key_strategy": "file_content", "key_source": "x",
        })
    };
    let (a, b) = (world.file("a", "same"), world.file("b", "same"));
    assert!(!is_hit(&world.wrap(with(&a)).await));
    assert!(is_hit(&world.wrap(with(&b)).await));
}

#[tokio::test]
async fn file_content_keys_of_relative_paths_hit_in_every_directory() {
    let one = World::with(Act::new());
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
async fn an_empty_file_is_a_content_like_any_other() {
    let world = World::with(Act::new());
    let empty = world.file("empty", "");
    assert!(!is_hit(&world.wrap(of_content(&empty, "m")).await));
    assert!(is_hit(&world.wrap(of_content(&empty, "m")).await));
    let other = world.file("other", "\n");
    assert!(!is_hit(&world.wrap(of_content(&other, "m")).await));
}

/// Wraps something that cannot be hashed, twice: it runs twice, and nothing is kept.
async fn runs_uncached(world: &World, act: &Act, with: Value, why: &str) {
    for _ in 0..2 {
        let runs = act.runs();
        let response = world.wrap(with.clone()).await;
        assert_eq!(act.runs(), runs + 1, "{with}");
        assert_eq!(response["success"], true);
        assert_eq!(response["_cache_stored"], false);
        assert_eq!(response["_cache_key"], Value::Null);
        let reason = text(&response, "_cache_reason");
        assert!(reason.contains(why), "{with}: {reason}");
    }
    assert!(world.entries().await.is_empty());
}

#[tokio::test]
async fn calls_with_unhashable_content_run_uncached() {
    let act = Act::new();
    let world = World::with(act.clone());
    std::fs::create_dir(world.path("directory")).unwrap();
    let absent = world.path("absent").to_str().unwrap().to_owned();
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
        runs_uncached(&world, &act, with, why).await;
    }
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_may_not_be_read_runs_without_the_cache() {
    use std::os::unix::fs::PermissionsExt as _;
    let act = Act::new();
    let world = World::with(act.clone());
    let file = world.file("secretive", "content");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o000)).unwrap();
    if std::fs::read(&file).is_ok() {
        // The superuser reads everything: nothing to see here.
        return;
    }
    runs_uncached(&world, &act, of_content(&file, "m"), "ermission denied").await;
}

#[tokio::test]
async fn a_file_that_changes_while_the_action_runs_is_not_stored() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let path = file.path().to_owned();
    std::fs::write(&path, "before").unwrap();
    let act = Act::new().answers({
        let path = path.clone();
        move |run, _| {
            if run == 1 {
                std::fs::write(&path, "after!").unwrap();
            }
            Ok(json!(std::fs::read_to_string(&path).unwrap()))
        }
    });
    let world = World::with(act.clone());
    let with = of_content(path.to_str().unwrap(), "m");
    let torn = world.wrap(with.clone()).await;
    assert_eq!(torn["result"], "after!");
    assert_eq!(torn["_cache_stored"], false);
    assert!(
        text(&torn, "_cache_reason").contains("while the action ran"),
        "{torn}"
    );
    std::fs::write(&path, "before").unwrap();
    let whole = world.wrap(with).await;
    assert!(
        !is_hit(&whole),
        "what was made from other content answers nothing"
    );
    assert_eq!(whole["result"], "before");
    assert_eq!(whole["_cache_stored"], true);
}

#[tokio::test]
async fn a_file_that_vanishes_while_the_action_runs_is_not_stored() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("f");
    std::fs::write(&path, "content").unwrap();
    let gone = path.clone();
    let act = Act::new().answers(move |_, _| {
        std::fs::remove_file(&gone).unwrap();
        Ok(json!("done"))
    });
    let world = World::with(act);
    let response = world.wrap(of_content(path.to_str().unwrap(), "m")).await;
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
async fn a_document_on_the_web_is_keyed_by_content_too() {
    let content = std::sync::Arc::new(std::sync::Mutex::new("one".to_owned()));
    let url = serve(std::sync::Arc::clone(&content)).await;
    let act = Act::new().answers({
        let content = std::sync::Arc::clone(&content);
        move |run, _| {
            if run == 3 {
                *content.lock().unwrap() = "and longer".to_owned();
            }
            Ok(json!(run))
        }
    });
    let world = World::with(act.clone());
    let with = of_content(&url, "m");
    assert!(!is_hit(&world.wrap(with.clone()).await));
    assert!(is_hit(&world.wrap(with.clone()).await));
    let local = world.file("one", "one");
    assert!(
        is_hit(&world.wrap(of_content(&local, "m")).await),
        "wherever it lies"
    );
    "two".clone_into(&mut content.lock().unwrap());
    assert!(!is_hit(&world.wrap(with.clone()).await));
    "three".clone_into(&mut content.lock().unwrap());
    let torn = world.wrap(with).await;
    assert_eq!(
        (&torn["result"], &torn["_cache_stored"]),
        (&json!(3), &json!(false)),
        "{torn}"
    );
}

#[tokio::test]
async fn storage_hash_in_a_custom_key_follows_the_content() {
    let world = World::with(Act::new());
    let file = world.file("f", "content");
    let keyed = async |world: &World| {
        let hash = world.ok("storage.hash", json!({"path": file})).await["hash"].clone();
        let key = format!("extract:{}", hash.as_str().unwrap());
        world
            .wrap(json!({"action": "test.act", "args": {"file": file}, "key": key}))
            .await
    };
    assert!(!is_hit(&keyed(&world).await));
    assert!(is_hit(&keyed(&world).await));
    world.file("f", "other");
    assert!(!is_hit(&keyed(&world).await));
}

#[tokio::test]
async fn a_large_file_is_hashed_in_the_blink_that_it_takes() {
    let world = World::with(Act::new());
    let file = world.path("large");
    let sparse = std::fs::File::create(&file).unwrap();
    sparse.set_len(64 << 20).unwrap();
    let with = of_content(file.to_str().unwrap(), "m");
    assert!(!is_hit(&world.wrap(with.clone()).await));
    world.after(Duration::from_secs(1));
    assert!(is_hit(&world.wrap(with).await));
}
