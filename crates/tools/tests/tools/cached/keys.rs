//! What is the same call, and what is not.

use cachalot_tools::{CacheClass, CallOutcome, Toolbox as _};
use serde_json::{Value, json};

use super::world::{Counting, Making, World, on, text, world};

fn schema() -> Value {
    json!({"type": "object", "properties": {
        "path": {"type": "string"},
        "limit": {"type": "integer", "default": 10},
        "deep": {"type": "boolean"},
    }, "required": ["path"], "additionalProperties": false})
}

async fn outcome(world: &World, arguments: Value) -> CallOutcome {
    let answer = world.call("look", arguments).await;
    assert!(!answer.output.is_error, "{}", text(&answer));
    answer.outcome
}

#[tokio::test]
async fn arguments_are_compared_as_the_tool_gets_them() {
    let world = world(&[&Counting::reader("look").parameters(schema())]);
    outcome(&world, json!({"path": "a"})).await;
    for same in [
        json!({"path": "a", "limit": 10}),
        json!({"limit": "10", "path": "a"}),
        json!({"limit": 10, "path": "a", "force": false}),
        json!({"limit": 10, "path": "a", "force": "no"}),
    ] {
        assert_eq!(
            outcome(&world, same.clone()).await,
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
            outcome(&world, other.clone()).await,
            CallOutcome::Hit,
            "{other}"
        );
        assert_eq!(
            outcome(&world, other.clone()).await,
            CallOutcome::Hit,
            "{other}"
        );
    }
}

#[tokio::test]
async fn what_a_tool_is_belongs_to_the_key() {
    let look = || Counting::reader("look").parameters(schema());
    let first = look();
    let world = world(&[&first]);
    outcome(&world, json!({"path": "a"})).await;
    let other_schema = json!({"type": "object", "properties": {"path": {"type": "string"}}});
    for other in [
        look().version(2),
        look().parameters(other_schema),
        look().from("server"),
        look().implicitly(json!({"LANG": "de"})),
    ] {
        let registry = cachalot_tools::Registry::new(vec![std::sync::Arc::new(other.clone())]);
        let tools = world.tools.with_registry(&registry.unwrap()).unwrap();
        let call = cachalot_tools::ToolCall {
            id: "id".into(),
            name: "look".into(),
            arguments: r#"{"path": "a"}"#.into(),
        };
        let batch = world.batch("main", &[]);
        let answers = tools.run(vec![tools.prepare(call)], &batch).await;
        assert!(matches!(answers[0].outcome, CallOutcome::Ran(_)));
        assert_eq!(other.runs(), 1);
    }
    assert_eq!(
        outcome(&world, json!({"path": "a"})).await,
        CallOutcome::Hit
    );
}

#[tokio::test]
async fn two_tools_are_two_tools() {
    let (one, other) = (Counting::reader("one"), Counting::reader("other"));
    let world = world(&[&one, &other]);
    world.call("one", json!({})).await;
    assert!(matches!(
        world.call("other", json!({})).await.outcome,
        CallOutcome::Ran(_)
    ));
}

#[tokio::test]
async fn a_model_may_ask_for_a_fresh_result() {
    let kept = Counting::reader("look").parameters(schema());
    let never = Counting::named("now");
    let writes = Counting::reader("write").writing();
    let own = Counting::reader("own")
        .parameters(json!({"type": "object", "properties": {"force": {"type": "string"}}}));
    let served = Counting::named("fetch").from("server");
    let world = world(&[&kept, &never, &writes, &own, &served]);
    let shown = |name: &str| {
        let definitions = world.tools.definitions();
        let definition = definitions.iter().find(|one| one.name == name).unwrap();
        definition.parameters["properties"].get("force").cloned()
    };
    assert_eq!(shown("look").unwrap()["type"], "boolean");
    assert_eq!(shown("fetch").unwrap()["type"], "boolean");
    assert_eq!(shown("own").unwrap()["type"], "string");
    assert_eq!((shown("now"), shown("write")), (None, None));

    outcome(&world, json!({"path": "a"})).await;
    let forced = outcome(&world, json!({"path": "a", "force": true})).await;
    assert_eq!(
        forced,
        CallOutcome::Ran(Some("a fresh answer was asked for".into()))
    );
    assert_eq!(kept.runs(), 2);
    let answer = world.call("look", json!({"path": "a"})).await;
    assert_eq!(
        (text(&answer).as_str(), answer.outcome),
        ("run 1", CallOutcome::Hit)
    );

    let answer = world.call("look", json!({"path": "a", "force": 7})).await;
    assert_eq!(answer.outcome, CallOutcome::Refused);
    assert!(text(&answer).contains("force"), "{}", text(&answer));

    world.call("own", json!({"force": "a"})).await;
    world.call("own", json!({"force": "b"})).await;
    assert_eq!(
        own.runs(),
        2,
        "its own argument is an argument like any other"
    );
}

#[tokio::test]
async fn off_shows_the_tools_as_they_are() {
    let tool = Counting::reader("look").parameters(schema());
    let world = Making::with(cachalot_tools::cached::ToolCacheSettings::default()).of(&[&tool]);
    assert_eq!(world.tools.definitions()[0].parameters, schema());
    let answer = world
        .call("look", json!({"path": "a", "force": true}))
        .await;
    assert_eq!(answer.outcome, CallOutcome::Refused);
}

#[tokio::test]
async fn a_tool_with_any_arguments_never_sees_force() {
    let tool = Counting::reader("look")
        .cache_class(CacheClass::Immutable)
        .doing(|arguments, _, _| cachalot_tools::ToolOutput::text(format!("{arguments:?}")));
    let world = Making::with(on()).of(&[&tool]);
    let answer = world.call("look", json!({"force": true, "a": 1})).await;
    assert!(!text(&answer).contains("force"), "{}", text(&answer));
}

#[tokio::test]
async fn workspaces_are_apart() {
    let tool = Counting::reader("look");
    let world = world(&[&tool]);
    let elsewhere = tempfile::tempdir().unwrap();
    let there = world.batch_in(elsewhere.path(), "main", &[]);
    world.call("look", json!({})).await;
    let answers = world.run(&there, &[("look", json!({}))]).await;
    assert_eq!(text(&answers[0]), "run 1");
    assert_eq!(
        world.said(),
        ["Tool cache stats: 0/1 hits (0%)"],
        "what was kept for a session is let go when it moves"
    );
}
