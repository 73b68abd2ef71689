//! `think`, the tools of todos, and `user_prompt`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_operation::{UserAnswer, UserPrompter, UserQuestion};
use cachalot_tools::builtin::{SessionStates, think, todo, user_prompt};
use cachalot_tools::{CacheClass, Tool};
use serde_json::{Value, json};

use crate::tool_fixture::{ToolFixture, object, text};

#[tokio::test]
async fn think_returns_all_thoughts_of_the_session() {
    let states = SessionStates::default();
    let tool = |session: &str| think(states.of_session(session));
    let fixture = ToolFixture::with(vec![tool("one")]);
    let think = |thought: &'static str| fixture.done("think", json!({ "thought": thought }));
    assert_eq!(think("first").await, "Thoughts:\nfirst");
    assert_eq!(think("second").await, "Thoughts:\nfirst\nsecond");
    // Other tools of the same session continue the list, those of another session do not.
    for (session, expected) in [
        ("one", "Thoughts:\nfirst\nsecond\nx"),
        ("two", "Thoughts:\nx"),
    ] {
        let other = ToolFixture::with(vec![tool(session)]);
        let shown = other.done("think", json!({ "thought": "x" })).await;
        assert_eq!(shown, expected);
    }
    drop(fixture);
    let anew = ToolFixture::with(vec![tool("one")]);
    let shown = anew.done("think", json!({ "thought": "y" })).await;
    assert_eq!(shown, "Thoughts:\ny", "the session has ended");
}

#[tokio::test]
async fn todos_are_created_updated_and_listed() {
    let states = SessionStates::default();
    let fixture = ToolFixture::with(todo(&states.of_session("one")));
    let done = async |tool: &str, arguments: Value| -> Value {
        serde_json::from_str(&fixture.done(tool, arguments).await).unwrap()
    };
    let item = |id: &str, description: &str, status: &str| json!({ "id": id, "description": description, "status": status });
    assert_eq!(done("list_todos", json!({})).await, json!({ "todos": [] }));
    let a = item("todo_1", "a", "pending");
    let reminder = |open: &str| format!("These todos are open and have to be completed: {open}");
    assert_eq!(
        done("create_todo", json!({ "description": "a" })).await,
        json!({ "created": a, "all_todos": [a], "reminder": reminder("[todo_1] a (pending)") })
    );
    let (b, c) = (
        item("todo_2", "b", "pending"),
        item("todo_3", "c", "pending"),
    );
    let created = done("create_todos", json!({ "descriptions": ["b", "c"] })).await;
    assert_eq!(created["created"], json!([b, c]));
    assert_eq!(created["all_todos"], json!([a, b, c]));
    let updates = json!([
        { "id": "todo_1", "status": "completed" },
        { "id": "todo_3", "status": "in-progress" },
        { "id": "todo_9", "status": "completed" },
    ]);
    let updated = done("update_todos", json!({ "updates": updates })).await;
    assert_eq!(updated["updated"].as_array().unwrap().len(), 2);
    assert_eq!(updated["not_found"], json!(["todo_9"]));
    assert_eq!(
        updated["reminder"],
        reminder("[todo_3] c (in-progress); [todo_2] b (pending)")
    );
    let updates = json!([
        { "id": "todo_2", "status": "completed" },
        { "id": "todo_3", "status": "completed" },
    ]);
    done("update_todos", json!({ "updates": updates })).await;
    let listed = done("list_todos", json!({})).await;
    assert_eq!(listed.get("reminder"), None, "nothing is open");
    let wrong = json!({ "updates": [{ "id": "todo_9", "status": "completed" }] });
    let wrong: Value = serde_json::from_str(&fixture.fails("update_todos", wrong).await).unwrap();
    assert_eq!(wrong["not_found"], json!(["todo_9"]));
    let unknown = json!({ "updates": [{ "id": "todo_1", "status": "done" }] });
    let shown = fixture.fails("update_todos", unknown).await;
    assert!(shown.contains("in-progress"), "{shown}");
}

/// Gives one answer, and records the question.
struct Answering(UserAnswer, Mutex<Vec<String>>);

#[async_trait]
impl UserPrompter for Answering {
    async fn ask(&self, question: &UserQuestion<'_>) -> UserAnswer {
        let fields: Vec<&str> = question
            .fields
            .iter()
            .map(|field| field.name.as_str())
            .collect();
        self.1.lock().unwrap().push(format!(
            "{:?} {} {}",
            question.title,
            question.message,
            fields.join(",")
        ));
        self.0.clone()
    }
}

#[tokio::test]
async fn user_prompt_passes_question_and_answer_on() {
    let question = json!({
        "message": "Which?",
        "title": "Choice",
        "schema": { "type": "object", "properties": { "color": { "enum": ["red"] }, "age": {} } },
    });
    let content = object(json!({ "color": "red" }));
    for (answer, expected) in [
        (
            UserAnswer::Accept(content),
            Ok(json!({ "action": "accept", "content": { "color": "red" } })),
        ),
        (UserAnswer::Decline, Err(json!({ "action": "decline" }))),
        (UserAnswer::Cancel(None), Err(json!({ "action": "cancel" }))),
    ] {
        let mut fixture = ToolFixture::with(vec![user_prompt()]);
        let user = Arc::new(Answering(answer, Mutex::default()));
        fixture.context.user = Some(Arc::clone(&user) as _);
        let output = fixture.call("user_prompt", question.clone()).await;
        let shown: Value = serde_json::from_str(&text(&output)).unwrap();
        match expected {
            Ok(expected) => assert_eq!((shown, output.is_error), (expected, false)),
            Err(expected) => assert_eq!((shown, output.is_error), (expected, true)),
        }
        assert_eq!(
            user.1.lock().unwrap()[..],
            [r#"Some("Choice") Which? color,age"#]
        );
    }
}

#[tokio::test]
async fn user_prompt_without_a_user_is_cancelled_with_a_reason() {
    let fixture = ToolFixture::with(vec![user_prompt()]);
    let shown = fixture
        .fails("user_prompt", json!({ "message": "Which?" }))
        .await;
    let shown: Value = serde_json::from_str(&shown).unwrap();
    assert_eq!(shown["action"], "cancel");
    let reason = shown["reason"].as_str().unwrap();
    assert!(reason.contains("no user can be asked"), "{reason}");
    let wrong =
        json!({ "message": "?", "schema": { "properties": { "a": { "type": "nonsense" } } } });
    let shown = fixture.fails("user_prompt", wrong).await;
    assert!(shown.contains("the schema of `a` is invalid"), "{shown}");
}

#[tokio::test]
async fn session_tools_need_no_approval_run_alone_and_are_never_cached() {
    let states = SessionStates::default();
    let state = states.of_session("one");
    let mut tools = todo(&state);
    tools.push(think(state));
    tools.push(user_prompt());
    let fixture = ToolFixture::new();
    for tool in tools as Vec<Arc<dyn Tool>> {
        let metadata = tool.metadata();
        assert!(metadata.read_only && !metadata.concurrency_safe());
        assert!(matches!(metadata.cache_class, CacheClass::Excluded(_)));
        let effects = tool.effects(&object(json!({ "message": "x", "thought": "x", "description": "x", "descriptions": [], "updates": [] })), &fixture.context);
        assert!(effects.reads.is_nothing() && effects.writes.is_nothing());
    }
    // An answer of a turn that used the user's answer or the todos is not replayed.
    let prompt = ToolFixture::with(vec![user_prompt()]);
    let output = prompt.call("user_prompt", json!({ "message": "x" })).await;
    assert_eq!(output.lifetime, Some(Duration::ZERO));
}
