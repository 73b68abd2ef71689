//! Inputs that the key distinguishes.

use cachalot_tools::{CacheClass, CallOutcome, Toolbox as _};
use serde_json::{Value, json};

use super::cache_fixture::{
    CacheFixture, CacheFixtureBuilder, CountingTool, cache_fixture, on, text,
};

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "deep": {"type": "boolean"},
    }, "required": ["path"], "additionalProperties": false})
}

async fn outcome(cache_fixture: &CacheFixture, arguments: Value) -> CallOutcome {
    let answer = cache_fixture.call("look", arguments).await;
    assert!(!answer.output.is_error, "{}", text(&answer));
    answer.outcome
}

#[tokio::test]
async fn arguments_are_keyed_after_casting() {
    let cache_fixture = cache_fixture(&[&CountingTool::reader("look").parameters(schema())]);
    outcome(&cache_fixture, json!({"path": "a"})).await;
    for same in [
        json!({"path": "a", "limit": 10}),
        json!({"limit": "10", "path": "a"}),
        json!({"limit": 10, "path": "a", "force": false}),
        json!({"limit": 10, "path": "a", "force": "no"}),
    ] {
        assert_eq!(
            outcome(&cache_fixture, same.clone()).await,
            CallOutcome::Hit,
            "{same}"
        );
    }
    for other in [
        json!({"path": "A"}),
        json!({"path": "a", "limit": 11}),
        json!({"path": "a", "deep": false}),
        json!({"path": "a", "deep": true}),
        json!({"path": "a "}),
    ] {
        assert_ne!(
            outcome(&cache_fixture, other.clone()).await,
            CallOutcome::Hit,
            "{other}"
        );
        assert_eq!(
            outcome(&cache_fixture, other.clone()).await,
            CallOutcome::Hit,
            "{other}"
        );
    }
}

#[tokio::test]
async fn definition_of_a_tool_is_keyed() {
    let look = || CountingTool::reader("look").parameters(schema());
    let first = look();
    let cache_fixture = cache_fixture(&[&first]);
    outcome(&cache_fixture, json!({"path": "a"})).await;
    let other_schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    for other in [
        look().version(2),
        look().parameters(other_schema),
        look().from("server"),
        look().implicitly(json!({"LANG": "de"})),
    ] {
        let registry = cachalot_tools::Registry::new(vec![std::sync::Arc::new(other.clone())]);
        let tools = cache_fixture
            .tools
            .with_registry(&registry.unwrap())
            .unwrap();
        let call = cachalot_tools::ToolCall {
            id: "id".into(),
            name: "look".into(),
            arguments: r#"{"path": "a"}"#.into(),
        };
        let batch = cache_fixture.batch("main", &[]);
        let answers = tools.run(vec![tools.prepare(call)], &batch).await;
        assert!(matches!(answers[0].outcome, CallOutcome::Ran(_)));
        assert_eq!(other.runs(), 1);
    }
    assert_eq!(
        outcome(&cache_fixture, json!({"path": "a"})).await,
        CallOutcome::Hit
    );
}

#[tokio::test]
async fn tools_with_different_names_have_different_keys() {
    let (one, other) = (CountingTool::reader("one"), CountingTool::reader("other"));
    let cache_fixture = cache_fixture(&[&one, &other]);
    cache_fixture.call("one", json!({})).await;
    assert!(matches!(
        cache_fixture.call("other", json!({})).await.outcome,
        CallOutcome::Ran(_)
    ));
}

#[tokio::test]
async fn force_argument_requests_a_fresh_result() {
    let kept = CountingTool::reader("look").parameters(schema());
    let never = CountingTool::named("now");
    let writes = CountingTool::reader("write").writing();
    let own = CountingTool::reader("own")
        .parameters(json!({"type": "object", "properties": {"force": {"type": "string"}}}));
    let served = CountingTool::named("fetch").from("server");
    let cache_fixture = cache_fixture(&[&kept, &never, &writes, &own, &served]);
    let shown = |name: &str| {
        let definitions = cache_fixture.tools.definitions();
        let definition = definitions.iter().find(|one| one.name == name).unwrap();
        definition.parameters["properties"].get("force").cloned()
    };
    assert_eq!(shown("look").unwrap()["type"], "boolean");
    assert_eq!(shown("fetch").unwrap()["type"], "boolean");
    assert_eq!(shown("own").unwrap()["type"], "string");
    assert_eq!((shown("now"), shown("write")), (None, None));

    outcome(&cache_fixture, json!({"path": "a"})).await;
    let forced = outcome(&cache_fixture, json!({"path": "a", "force": true})).await;
    assert_eq!(
        forced,
        CallOutcome::Ran(Some("a fresh answer was asked for".into()))
    );
    assert_eq!(kept.runs(), 2);
    let answer = cache_fixture.call("look", json!({"path": "a"})).await;
    assert_eq!(
        (text(&answer).as_str(), answer.outcome),
        ("run 1", CallOutcome::Hit)
    );

    let answer = cache_fixture
        .call("look", json!({"path": "a", "force": 7}))
        .await;
    assert_eq!(answer.outcome, CallOutcome::Refused);
    assert!(text(&answer).contains("force"), "{}", text(&answer));

    cache_fixture.call("own", json!({"force": "a"})).await;
    cache_fixture.call("own", json!({"force": "b"})).await;
    assert_eq!(
        own.runs(),
        2,
        "its own argument is an argument like any other"
    );
}

#[tokio::test]
async fn disabled_cache_leaves_tool_definitions_unchanged() {
    let tool = CountingTool::reader("look").parameters(schema());
    let cache_fixture =
        CacheFixtureBuilder::with(cachalot_tools::cached::ToolCacheSettings::default())
            .of(&[&tool]);
    assert_eq!(cache_fixture.tools.definitions()[0].parameters, schema());
    let answer = cache_fixture
        .call("look", json!({"path": "a", "force": true}))
        .await;
    assert_eq!(answer.outcome, CallOutcome::Refused);
}

#[tokio::test]
async fn tool_with_open_parameters_gets_no_force_argument() {
    let tool = CountingTool::reader("look")
        .cache_class(CacheClass::Immutable)
        .doing(|arguments, _, _| cachalot_tools::ToolOutput::text(format!("{arguments:?}")));
    let cache_fixture = CacheFixtureBuilder::with(on()).of(&[&tool]);
    let answer = cache_fixture
        .call("look", json!({"force": true, "a": 1}))
        .await;
    assert!(!text(&answer).contains("force"), "{}", text(&answer));
}

#[tokio::test]
async fn workspaces_have_different_keys() {
    let tool = CountingTool::reader("look");
    let cache_fixture = cache_fixture(&[&tool]);
    let elsewhere = tempfile::tempdir().unwrap();
    let there = cache_fixture.batch_in(elsewhere.path(), "main", &[]);
    cache_fixture.call("look", json!({})).await;
    let answers = cache_fixture.run(&there, &[("look", json!({}))]).await;
    assert_eq!(text(&answers[0]), "run 1");
    assert_eq!(
        cache_fixture.said(),
        ["Tool cache stats: 0/1 hits (0%)"],
        "what was kept for a session is let go when it moves"
    );
}
