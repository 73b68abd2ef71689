//! Scopes of entries.

use serde_json::{Value, json};

use crate::fixture::{Fixture, Setup, is_hit, text};
use crate::test_actions::TestAction;

fn scoped(scope: &str) -> Value {
    json!({"action": "test.act", "args": {"x": 1}, "scope": scope})
}

fn again(fixture: &Fixture) -> Setup {
    Setup::in_home_of(fixture).with(TestAction::new())
}

#[tokio::test]
async fn run_scope_is_one_run_of_one_agent() {
    let one = Fixture::with(TestAction::new());
    assert!(!is_hit(&one.wrap(scoped("run")).await));
    assert!(is_hit(&one.wrap(scoped("run")).await));
    assert!(!is_hit(
        &again(&one).run("run-2").start().wrap(scoped("run")).await
    ));
    assert!(!is_hit(
        &again(&one).agent("other").start().wrap(scoped("run")).await
    ));
    // Two texts that run into each other are still two.
    let glued = again(&one).agent("tester-run").run("1").start();
    assert!(!is_hit(&glued.wrap(scoped("run")).await));
}

#[tokio::test]
async fn agent_scope_is_the_default_and_survives_a_run() {
    let one = Fixture::with(TestAction::new());
    one.wrap(json!({"action": "test.act", "args": {"x": 1}}))
        .await;
    assert!(is_hit(
        &again(&one).run("run-2").start().wrap(scoped("agent")).await
    ));
    assert!(!is_hit(
        &again(&one)
            .agent("other")
            .start()
            .wrap(scoped("agent"))
            .await
    ));
}

#[tokio::test]
async fn workspace_scope_is_shared_by_all_agents_in_a_directory() {
    let one = Fixture::with(TestAction::new());
    let handle = one.wrap(scoped("workspace")).await["_cache_key"].clone();
    assert_eq!(handle.as_str().unwrap().split(':').count(), 3, "{handle}");
    assert!(is_hit(
        &again(&one)
            .agent("other")
            .start()
            .wrap(scoped("workspace"))
            .await
    ));
    let elsewhere = tempfile::tempdir().unwrap();
    let other = again(&one).directory(elsewhere.path()).start();
    assert!(!is_hit(&other.wrap(scoped("workspace")).await));
}

#[tokio::test]
async fn user_scope_requires_a_user_name() {
    let nobody = Fixture::with(TestAction::new());
    let failure = nobody.fails("cache.wrap", scoped("user")).await;
    assert_eq!(failure.kind, "validation_error");
    assert!(failure.message.contains("USER"), "{failure}");
    let ada = again(&nobody).variable("USER", "ada").start();
    assert!(!is_hit(&ada.wrap(scoped("user")).await));
    let ada_again = again(&nobody)
        .variable("LOGNAME", "ada")
        .agent("other")
        .start();
    assert!(is_hit(&ada_again.wrap(scoped("user")).await));
    let bob = again(&nobody).variable("USER", "bob").start();
    assert!(!is_hit(&bob.wrap(scoped("user")).await));
}

#[tokio::test]
async fn key_prefix_false_means_global_scope() {
    let one = Fixture::with(TestAction::new());
    one.wrap(scoped("global")).await;
    let other = again(&one).agent("other").start();
    let unprefixed = json!({"action": "test.act", "args": {"x": 1}, "key_prefix": false});
    assert!(is_hit(&other.wrap(unprefixed.clone()).await));
    let mut both = unprefixed;
    both["scope"] = json!("global");
    assert!(is_hit(&other.wrap(both.clone()).await));
    both["scope"] = json!("agent");
    let failure = other.fails("cache.wrap", both).await;
    assert!(
        failure.message.contains("leave one of them out"),
        "{failure}"
    );
}

#[tokio::test]
async fn scopes_never_share_entries() {
    let fixture = Setup::default()
        .variable("USER", "ada")
        .with(TestAction::new())
        .start();
    for scope in ["run", "workspace", "agent", "user", "global"] {
        assert!(!is_hit(&fixture.wrap(scoped(scope)).await), "{scope}");
    }
    for scope in ["run", "workspace", "agent", "user", "global"] {
        assert!(is_hit(&fixture.wrap(scoped(scope)).await), "{scope}");
    }
    assert_eq!(fixture.entries().await.len(), 5);
}

#[tokio::test]
async fn get_returns_the_newest_of_one_handle_and_invalidate_erases_all() {
    let fixture = Setup::default()
        .variable("USER", "ada")
        .with(TestAction::new())
        .start();
    let shared =
        |scope: &str| json!({"action": "test.act", "args": {}, "key": "k", "scope": scope});
    fixture.wrap(shared("user")).await;
    fixture.after(std::time::Duration::from_secs(1));
    fixture.wrap(shared("global")).await;
    let key = json!({"key": "k", "key_prefix": false, "include_metadata": true});
    let got = fixture.ok("cache.get", key.clone()).await;
    assert_eq!(got["value"]["run"], 2);
    assert_eq!(text(&got["metadata"], "_cache_scope"), "global");
    let key = json!({"key": "k", "key_prefix": false});
    assert_eq!(fixture.invalidate(key).await["deleted_count"], 2);
}

#[tokio::test]
async fn get_of_a_shared_key_hides_entries_of_other_users() {
    let ada = Setup::default()
        .variable("USER", "ada")
        .with(TestAction::new())
        .start();
    let shared =
        |scope: &str| json!({"action": "test.act", "args": {}, "key": "k", "scope": scope});
    let key = json!({"key": "k", "key_prefix": false, "include_metadata": true});
    ada.wrap(shared("user")).await;
    ada.wrap(shared("workspace")).await;
    let elsewhere = tempfile::tempdir().unwrap();
    let bob = again(&ada)
        .variable("USER", "bob")
        .directory(elsewhere.path())
        .start();
    assert_eq!(bob.ok("cache.get", key.clone()).await["found"], false);
    bob.after(std::time::Duration::from_secs(1));
    bob.wrap(shared("user")).await;
    let got = bob.ok("cache.get", key.clone()).await;
    assert_eq!(text(&got["metadata"], "_cache_scope"), "user:bob");
    let got = ada.ok("cache.get", key.clone()).await;
    assert_ne!(text(&got["metadata"], "_cache_scope"), "user:bob");
    bob.after(std::time::Duration::from_secs(1));
    bob.wrap(shared("global")).await;
    for fixture in [&ada, &bob] {
        let got = fixture.ok("cache.get", key.clone()).await;
        assert_eq!(text(&got["metadata"], "_cache_scope"), "global");
    }
}

#[tokio::test]
async fn get_finds_entries_of_the_agent_in_the_key() {
    let one = Fixture::with(TestAction::new());
    let wrapped = one
        .wrap(json!({"action": "test.act", "args": {}, "key": "k"}))
        .await;
    let other = again(&one).agent("other").start();
    let by_name = json!({"key": text(&wrapped, "_cache_key"), "key_prefix": false});
    assert_eq!(other.ok("cache.get", by_name).await["found"], true);
    let own = json!({"key": "k"});
    assert_eq!(other.ok("cache.get", own).await["found"], false);
}
