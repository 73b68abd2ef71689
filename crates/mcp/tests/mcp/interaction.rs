//! What servers ask the client during calls: questions to the user, the workspace, and tasks.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cachalot_model::{Block, StopReason};
use cachalot_operation::{
    Sampler, SamplingAnswer, SamplingError, SamplingRequest, UserAnswer, UserPrompter, UserQuestion,
};
use serde_json::{Map, Value, json};

use super::Fixture;

/// A user who leaves every field empty, so that its default applies.
#[derive(Default)]
pub(crate) struct DefaultAnswers {
    asked: Mutex<Vec<(String, String)>>,
}

impl DefaultAnswers {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }
}

#[async_trait]
impl UserPrompter for DefaultAnswers {
    async fn ask(&self, question: &UserQuestion<'_>) -> UserAnswer {
        let title = question.title.unwrap_or_default().to_owned();
        let asked = (title, question.message.to_owned());
        self.asked.lock().unwrap().push(asked);
        let mut content = Map::new();
        for field in question.fields {
            match field.parse("") {
                Ok(value) => content.extend(value.map(|value| (field.name.clone(), value))),
                Err(_) => return UserAnswer::Decline,
            }
        }
        UserAnswer::Accept(content)
    }
}

/// A user who gives the same answer to every question.
struct FixedAnswer {
    answer: UserAnswer,
    asked: Mutex<Vec<(String, String)>>,
}

impl FixedAnswer {
    fn new(answer: UserAnswer) -> Arc<Self> {
        Arc::new(Self {
            answer,
            asked: Mutex::default(),
        })
    }
}

#[async_trait]
impl UserPrompter for FixedAnswer {
    async fn ask(&self, question: &UserQuestion<'_>) -> UserAnswer {
        let title = question.title.unwrap_or_default().to_owned();
        let asked = (title, question.message.to_owned());
        self.asked.lock().unwrap().push(asked);
        self.answer.clone()
    }
}

/// Lets the server ask this, and returns the answer that it got, and whether the result may be cached.
async fn ask(
    fixture: &Fixture,
    user: Option<Arc<dyn UserPrompter>>,
    question: &Value,
) -> (Value, Option<String>) {
    let mut tool_fixture = fixture.tool_fixture(&[fixture.program("asking")]).await;
    tool_fixture.context.user = user;
    let arguments = json!({ "text": question.to_string() });
    let output = tool_fixture.call("mcp_test_question", arguments).await;
    let text = crate::tool_fixture::text(&output);
    (serde_json::from_str(&text).unwrap(), output.not_storable)
}

#[tokio::test]
async fn questions_name_the_server_and_their_answers_are_not_cached() {
    let fixture = Fixture::new();
    let question = json!({ "message": "Who?", "requestedSchema": {
        "type": "object", "properties": { "name": { "type": "string" } }, "required": ["name"],
    } });
    let named = json!({ "name": "Ada" }).as_object().unwrap().clone();
    let user = FixedAnswer::new(UserAnswer::Accept(named));
    let (answer, not_storable) = ask(&fixture, Some(user.clone()), &question).await;
    assert_eq!(
        answer,
        json!({ "action": "accept", "content": { "name": "Ada" } })
    );
    assert_eq!(
        not_storable.as_deref(),
        Some("the server asked for input during the call")
    );
    let asked = user.asked.lock().unwrap().clone();
    assert_eq!(asked.len(), 1);
    assert!(asked[0].0.contains("`test`"), "{asked:?}");
    assert_eq!(asked[0].1, "Who?");
    for (user, action) in [
        (Some(UserAnswer::Decline), "decline"),
        (Some(UserAnswer::Cancel(None)), "cancel"),
        (None, "decline"),
    ] {
        let user = user.map(|answer| FixedAnswer::new(answer) as Arc<dyn UserPrompter>);
        let (answer, _) = ask(&fixture, user, &question).await;
        assert_eq!(answer, json!({ "action": action }));
    }
}

#[tokio::test]
async fn addresses_are_shown_with_their_host_and_opened_with_consent_only() {
    let fixture = Fixture::new();
    let question = |url: &str| json!({ "mode": "url", "message": "Sign in.", "url": url, "elicitationId": "1" });
    let opened = json!({ "consent": "opened" }).as_object().unwrap().clone();
    let user = FixedAnswer::new(UserAnswer::Accept(opened));
    let page = question("https://login.example/x?state=1");
    let (answer, _) = ask(&fixture, Some(user.clone()), &page).await;
    assert_eq!(answer, json!({ "action": "accept" }));
    let asked = user.asked.lock().unwrap().clone();
    assert!(asked[0].0.contains("login.example"), "{asked:?}");
    assert!(
        asked[0].1.contains("https://login.example/x?state=1"),
        "{asked:?}"
    );
    let decline = FixedAnswer::new(UserAnswer::Decline);
    let (answer, _) = ask(&fixture, Some(decline), &page).await;
    assert_eq!(answer, json!({ "action": "decline" }));
    // Not asked at all.
    for address in ["file:///etc/passwd", "http://login.example/", "nonsense"] {
        let (answer, _) = ask(&fixture, Some(user.clone()), &question(address)).await;
        assert_eq!(answer, json!({ "action": "decline" }), "{address}");
    }
    assert_eq!(user.asked.lock().unwrap().len(), 1);
    let warning = fixture.warnings().pop().unwrap();
    assert!(warning.contains("its address is"), "{warning}");
}

#[tokio::test]
async fn a_call_that_requires_an_address_is_repeated_when_it_was_opened() {
    let fixture = Fixture::new();
    let mut tool_fixture = fixture.tool_fixture(&[fixture.program("asking")]).await;
    let opened = json!({ "consent": "opened" }).as_object().unwrap().clone();
    let user = FixedAnswer::new(UserAnswer::Accept(opened));
    tool_fixture.context.user = Some(user.clone());
    let output = tool_fixture.call("mcp_test_locked", json!({})).await;
    assert_eq!(crate::tool_fixture::text(&output), "unlocked");
    assert!(output.not_storable.is_some());
    assert_eq!(user.asked.lock().unwrap().len(), 1);
    // Another process of the server, and a user who declines.
    let fixture = Fixture::new();
    let mut tool_fixture = fixture.tool_fixture(&[fixture.program("asking")]).await;
    tool_fixture.context.user = Some(FixedAnswer::new(UserAnswer::Decline));
    let shown = tool_fixture.fails("mcp_test_locked", json!({})).await;
    assert!(shown.contains("which was declined"), "{shown}");
}

#[tokio::test]
async fn the_time_of_an_answer_does_not_count() {
    struct SlowUser;
    #[async_trait]
    impl UserPrompter for SlowUser {
        async fn ask(&self, _: &UserQuestion<'_>) -> UserAnswer {
            tokio::time::sleep(std::time::Duration::from_millis(2_500)).await;
            UserAnswer::Decline
        }
    }
    let fixture = Fixture::new();
    let mut settings = fixture.program("asking");
    settings.limits.timeout = std::time::Duration::from_millis(1_500);
    settings.limits.max_timeout = std::time::Duration::from_millis(1_500);
    let mut tool_fixture = fixture.tool_fixture(&[settings]).await;
    tool_fixture.context.user = Some(Arc::new(SlowUser));
    let question = json!({ "message": "?", "requestedSchema": { "type": "object", "properties": { "a": { "type": "string" } } } });
    let shown = tool_fixture
        .done("mcp_test_question", json!({ "text": question.to_string() }))
        .await;
    assert_eq!(shown, r#"{"action":"decline"}"#);
}

#[tokio::test]
async fn the_workspace_is_the_root() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("asking")]).await;
    let shown = tool_fixture.done("mcp_test_roots", json!({})).await;
    let answer: Value = serde_json::from_str(&shown).unwrap();
    let directory = fixture.home.path().canonicalize().unwrap();
    let uri = format!("file://{}", directory.display());
    assert_eq!(answer["roots"][0]["uri"], uri, "{answer}");
}

/// A model that repeats what it is asked.
#[derive(Default)]
struct Repeater {
    asked: Mutex<Vec<SamplingRequest>>,
    error: Option<SamplingError>,
}

#[async_trait]
impl Sampler for Repeater {
    async fn sample(&self, request: SamplingRequest) -> Result<SamplingAnswer, SamplingError> {
        let text = request.messages[0].text();
        self.asked.lock().unwrap().push(request);
        match &self.error {
            Some(error) => Err(error.clone()),
            None => Ok(SamplingAnswer {
                model: "parrot".to_owned(),
                text,
                stop: StopReason::Length,
            }),
        }
    }
}

#[tokio::test]
async fn servers_of_both_eras_ask_the_model() {
    for behavior in ["asking", "modern-asking"] {
        let fixture = Fixture::new();
        let mut tool_fixture = fixture.tool_fixture(&[fixture.program(behavior)]).await;
        let model = Arc::new(Repeater::default());
        tool_fixture.context.sampler = Some(model.clone());
        let picture = json!({ "type": "image", "data": "AAAA", "mimeType": "image/png" });
        let asked = json!({
            "messages": [
                { "role": "user", "content": { "type": "text", "text": "hé" } },
                { "role": "assistant", "content": [picture] },
            ],
            "systemPrompt": "S", "maxTokens": 7, "temperature": 0.5, "stopSequences": ["x"],
            "includeContext": "none", "modelPreferences": { "hints": [{ "name": "other" }] },
        });
        let arguments = json!({ "text": asked.to_string() });
        let output = tool_fixture.call("mcp_test_sample", arguments).await;
        let shown = crate::tool_fixture::text(&output);
        let answer: Value = serde_json::from_str(&shown).expect(&shown);
        assert_eq!(
            answer,
            json!({
                "role": "assistant", "content": { "type": "text", "text": "hé" },
                "model": "parrot", "stopReason": "maxTokens",
            })
        );
        assert!(output.not_storable.is_some(), "{behavior}");
        let asked = model.asked.lock().unwrap().pop().unwrap();
        assert_eq!(asked.requester, "the MCP server `test`");
        assert_eq!(
            (
                asked.system.as_deref(),
                asked.max_output_tokens,
                asked.temperature,
                asked.stop
            ),
            (Some("S"), 7, Some(0.5), vec!["x".to_owned()])
        );
        assert_eq!(asked.messages.len(), 2);
        assert!(matches!(asked.messages[1].content[..], [Block::Image(_)]));
        let notes = super::program::notes(&fixture.notes());
        let declared = "\"sampling\":{}";
        assert!(
            notes.iter().any(|note| note.contains(declared)),
            "{behavior}"
        );
    }
}

#[tokio::test]
async fn a_server_is_told_why_the_model_does_not_answer() {
    let message = json!({ "role": "user", "content": { "type": "text", "text": "x" } });
    let audio = json!({ "type": "audio", "data": "AAAA", "mimeType": "audio/wav" });
    let plain = json!({ "messages": [message], "maxTokens": 7 });
    let mut with_tools = plain.clone();
    with_tools["tools"] = json!([{ "name": "t", "inputSchema": { "type": "object" } }]);
    let heard = json!({ "messages": [{ "role": "user", "content": audio }], "maxTokens": 7 });
    let broke = SamplingError::Failed("the budget is spent".to_owned());
    for (asked, error, code, part) in [
        (
            &plain,
            Some(SamplingError::Declined),
            -1,
            "the user declined",
        ),
        (&plain, Some(broke), -32603, "the budget is spent"),
        (&plain, None, -1, "no user"),
        (&with_tools, Some(SamplingError::Declined), -32602, "tools"),
        (&heard, Some(SamplingError::Declined), -32602, "images"),
        (
            &json!({ "messages": [], "maxTokens": 7 }),
            Some(SamplingError::Declined),
            -32602,
            "empty",
        ),
    ] {
        let fixture = Fixture::new();
        let mut tool_fixture = fixture.tool_fixture(&[fixture.program("asking")]).await;
        tool_fixture.context.sampler = error.map(|error| {
            let error = Some(error);
            Arc::new(Repeater {
                error,
                ..Repeater::default()
            }) as Arc<dyn Sampler>
        });
        let arguments = json!({ "text": asked.to_string() });
        let shown = tool_fixture.done("mcp_test_sample", arguments).await;
        let answer: Value = serde_json::from_str(&shown).expect(&shown);
        assert_eq!(answer["code"], code, "{shown}");
        assert!(
            answer["message"].as_str().unwrap().contains(part),
            "{shown}"
        );
    }
    // In the newer protocol, the call ends: there is no answer to continue with.
    let fixture = Fixture::new();
    let tool_fixture = fixture
        .tool_fixture(&[fixture.program("modern-asking")])
        .await;
    let shown = tool_fixture
        .fails("mcp_test_sample", json!({ "text": plain.to_string() }))
        .await;
    assert!(shown.contains("wants an answer of the model"), "{shown}");
}

#[tokio::test]
async fn tools_that_require_it_are_called_as_tasks() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("asking")]).await;
    let output = tool_fixture.call("mcp_test_research", json!({})).await;
    assert_eq!(crate::tool_fixture::text(&output), "researched");
    assert_eq!(
        output.not_storable.as_deref(),
        Some("the server did the call as a task")
    );
    let progress = fixture.reported.progress.lock().unwrap().clone();
    assert!(
        progress.contains(&"mcp_test_research: reading".to_owned()),
        "{progress:?}"
    );
}

#[tokio::test]
async fn a_dropped_call_cancels_its_task() {
    let fixture = Fixture::new();
    let tool_fixture = fixture.tool_fixture(&[fixture.program("asking")]).await;
    let got = |method: &str| {
        let notes = super::program::notes(&fixture.notes());
        let method = format!("\"method\":\"{method}\"");
        notes.iter().filter(|note| note.contains(&method)).count()
    };
    let call = tool_fixture.call("mcp_test_endless", json!({}));
    let polled = async {
        while got("tasks/get") == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        output = call => panic!("{output:?}"),
        () = polled => {}
    }
    crate::tool_fixture::until("tasks/cancel", || got("tasks/cancel") == 1).await;
}

#[tokio::test]
async fn tasks_of_the_newer_protocol_are_polled_and_answered() {
    let fixture = Fixture::new();
    let mut tool_fixture = fixture
        .tool_fixture(&[fixture.program("modern-asking")])
        .await;
    let named = json!({ "name": "Ada" }).as_object().unwrap().clone();
    tool_fixture.context.user = Some(FixedAnswer::new(UserAnswer::Accept(named)));
    let shown = tool_fixture.done("mcp_test_endless", json!({})).await;
    assert_eq!(shown, r#"{"action":"accept","content":{"name":"Ada"}}"#);
    let shown = tool_fixture.fails("mcp_test_failing", json!({})).await;
    assert_eq!(
        shown,
        "the MCP server `test` refused: no swordfish".replace("swordfish", "[secret]") + " (-7)"
    );
}
