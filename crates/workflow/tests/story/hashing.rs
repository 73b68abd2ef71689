//! `storage.hash`, and the filters `sha256` and `storage_hash`.

use cachalot_core::{Canonical, Digest, tree};
use cachalot_workflow::template::{Scope, State, TemplateFailure, TemplateUse, Templates};
use serde_json::{Map, Value, json};

use crate::fixture::{Fixture, is_hit, text};
use crate::test_actions::TestAction;

const HELLO: &str = "a948904f2f0f479b8f8197694b30184b0d2ed1c1cd2a1ec0fb85d299a192a447";

#[tokio::test]
async fn storage_hash_supports_each_algorithm_with_the_size() {
    let fixture = Fixture::with(TestAction::new());
    let file = fixture.file("f", "hello world\n");
    assert_eq!(
        fixture.ok("storage.hash", json!({"path": file})).await,
        json!({
            "success": true, "hash": HELLO, "algorithm": "sha256", "size_bytes": 12, "path": file,
        })
    );
    for (algorithm, hash) in [
        ("md5", "6f5902ac237024bdd0c176cb93063dc4"),
        (
            "blake2b",
            "fec91c70284c72d0d4e3684788a90de9338a5b2f47f01fedbe203cafd68708718ae5672d10eca804a8121904047d40d1d6cf11e7a76419357a9469af41f22d01",
        ),
    ] {
        let with = json!({"path": file, "algorithm": algorithm});
        let hashed = fixture.ok("actions.storage_hash", with).await;
        assert_eq!(
            (text(&hashed, "hash"), text(&hashed, "algorithm")),
            (hash, algorithm)
        );
    }
}

#[tokio::test]
async fn hash_failures_are_errors() {
    let fixture = Fixture::with(TestAction::new());
    std::fs::create_dir(fixture.path("directory")).unwrap();
    let file = fixture.file("f", "");
    for (with, kind) in [
        (json!({"path": "absent"}), "file_error"),
        (json!({"path": "directory"}), "file_error"),
        (json!({"path": "nowhere://x"}), "file_error"),
        (json!({"path": ""}), "validation_error"),
        (json!({}), "validation_error"),
        (
            json!({"path": file, "algorithm": "sha512"}),
            "validation_error",
        ),
        (json!({"path": file, "algorithm": ""}), "validation_error"),
    ] {
        assert_eq!(
            fixture.fails("storage.hash", with.clone()).await.kind,
            kind,
            "{with}"
        );
    }
    assert_eq!(
        fixture.ok("storage.hash", json!({"path": file})).await["size_bytes"],
        0
    );
}

/// Renders one template as an argument of a node.
async fn render(template: &str, state: Value, fixture: &Fixture) -> Result<Value, TemplateFailure> {
    let file = format!("value: {}\n", Value::from(template));
    let parsed = tree::parse("agent.yaml", &file).unwrap();
    let templates = Templates::new(&file, []);
    let mut problems = Vec::new();
    let prepared = templates.prepare(
        parsed.get("value").unwrap(),
        TemplateUse::ARGUMENTS,
        &mut problems,
    );
    assert_eq!(problems, [], "{template}");
    let Value::Object(state) = state else {
        panic!("a mapping")
    };
    let context = fixture.runtime.template_context(&Map::new());
    let scope = Scope::new(&context, &State::new(state));
    templates.render(&prepared, &scope).await
}

#[tokio::test]
async fn sha256_filter_hashes_text_as_is_and_data_in_canonical_form() {
    let fixture = Fixture::with(TestAction::new());
    let state = json!({"text": "hello world\n", "number": 5, "five": "5", "yes": true, "nothing": null,
        "list": [1, {"b": 2.0, "a": "x"}], "same": [1, {"a": "x", "b": 2.0}]});
    let hash = async |template: &str| {
        let rendered = render(template, state.clone(), &fixture).await;
        rendered.unwrap().as_str().unwrap().to_owned()
    };
    assert_eq!(hash("{{ state.text | sha256 }}").await, HELLO);
    assert_eq!(
        hash("{{ state.five | sha256 }}").await,
        Digest::sha256(b"5").to_hex()
    );
    for (name, value) in [
        ("number", json!(5)),
        ("yes", json!(true)),
        ("nothing", json!(null)),
        ("list", json!([1, {"a": "x", "b": 2.0}])),
    ] {
        let expected = Canonical::value(&value).digest().to_hex();
        assert_eq!(
            hash(&format!("{{{{ state.{name} | sha256 }}}}")).await,
            expected,
            "{name}"
        );
    }
    assert_eq!(
        hash("{{ state.list | sha256 }}").await,
        hash("{{ state.same | sha256 }}").await
    );
    assert_ne!(
        hash("{{ state.number | sha256 }}").await,
        hash("{{ state.five | sha256 }}").await
    );
    let key = render(
        "cache:{{ state.text | trim | lower | sha256 }}",
        state.clone(),
        &fixture,
    )
    .await;
    let expected = format!("cache:{}", Digest::sha256(b"hello world").to_hex());
    assert_eq!(key, Ok(json!(expected)));
    assert!(
        render("{{ state.gone | sha256 }}", state, &fixture)
            .await
            .is_err()
    );
}

#[tokio::test]
async fn storage_hash_filter_makes_the_key_of_the_story() {
    let fixture = Fixture::with(TestAction::new());
    let file = fixture.file("f", "hello world\n");
    let key = render(
        "{{ state.file_path | storage_hash }}",
        json!({"file_path": file}),
        &fixture,
    )
    .await;
    assert_eq!(key, Ok(json!(HELLO)));
    let with = |key: &Value| json!({"action": "test.act", "args": {"file": file}, "key": key});
    let response = fixture.wrap(with(&key.unwrap())).await;
    assert_eq!(
        text(&response, "_cache_key"),
        format!("cache:tester:{HELLO}")
    );
    fixture.file("f", "changed");
    let key = render(
        "{{ state.file_path | storage_hash }}",
        json!({"file_path": file}),
        &fixture,
    )
    .await;
    assert!(!is_hit(&fixture.wrap(with(&key.unwrap())).await));
    let absent = render("{{ 'absent' | storage_hash }}", json!({}), &fixture).await;
    assert!(absent.unwrap_err().message.contains("absent"));
}

#[tokio::test]
async fn templates_cannot_leave_their_sandbox() {
    let fixture = Fixture::with(TestAction::new());
    for escape in [
        "{{ ''.__class__.__mro__ }}",
        "{{ state.__class__ }}",
        "{{ ''.__class__ }}",
    ] {
        match render(escape, json!({}), &fixture).await {
            Ok(value) => assert_eq!(value, Value::Null, "{escape}"),
            Err(failure) => assert!(failure.message.contains("undefined"), "{failure}"),
        }
    }
}
