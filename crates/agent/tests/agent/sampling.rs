//! Servers of tools that ask the agent's model during a call.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_agent::{Chat, UserAnswer, UserPrompter, UserQuestion};
use cachalot_model::Message;
use cachalot_operation::{Arguments, Operation, OperationMetadata, SamplingRequest};
use cachalot_simulator::ScriptedReply;
use cachalot_tools::{Tool, ToolContext, ToolOutput};
use serde_json::json;

use crate::event_recorder::{EventRecorder, Note};
use crate::fixture::{Fixture, WIRES, Wire};
use crate::turns::TALKER;

/// A tool whose server asks the model to summarize something, and returns the answer, the model and the end, or the
/// error.
struct SummaryTool(OperationMetadata);

fn metadata() -> OperationMetadata {
    let parameters = json!({"type": "object", "properties": {}});
    let mut metadata = OperationMetadata::with_side_effects(
        "summarize".to_owned(),
        "Summarizes.".to_owned(),
        parameters,
    );
    metadata.read_only = true;
    metadata
}

/// What the server asks.
fn request() -> SamplingRequest {
    SamplingRequest {
        requester: "the MCP server `notes`".to_owned(),
        system: Some("You summarize.".to_owned()),
        messages: vec![Message::user("A long text.")],
        max_output_tokens: 77,
        temperature: Some(0.5),
        stop: vec!["END".to_owned()],
    }
}

#[async_trait]
impl Operation for SummaryTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.0
    }

    async fn run(&self, _: Arguments, context: &ToolContext) -> ToolOutput {
        let Some(sampler) = &context.sampler else {
            return ToolOutput::error("no model");
        };
        match sampler.sample(request()).await {
            Ok(answer) => ToolOutput::text(format!("{} ({:?})", answer.text, answer.stop)),
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}

/// A user who gives these answers, and whom nothing else is asked.
struct User {
    answers: Mutex<VecDeque<&'static str>>,
    asked: Mutex<Vec<String>>,
}

#[async_trait]
impl UserPrompter for User {
    async fn ask(&self, question: &UserQuestion<'_>) -> UserAnswer {
        let text = format!("{}\n{}", question.title.unwrap(), question.message);
        self.asked.lock().unwrap().push(text);
        let answer = self.answers.lock().unwrap().pop_front().unwrap();
        let field = &question.fields[0];
        let value = field.parse(answer).unwrap().unwrap();
        UserAnswer::Accept([(field.name.clone(), value)].into_iter().collect())
    }
}

async fn chat(
    fixture: &mut Fixture,
    tool: impl Tool + 'static,
    answers: &[&'static str],
) -> (Chat, Arc<User>) {
    fixture.tools = vec![Arc::new(tool)];
    let user = Arc::new(User {
        answers: Mutex::new(answers.iter().copied().collect()),
        asked: Mutex::default(),
    });
    let mut dependencies = fixture.dependencies();
    dependencies.tools.user = Some(user.clone());
    let chat = Chat::begin(dependencies, fixture.team(), None).await;
    (chat.unwrap(), user)
}

fn calls(count: usize, between: &[&str]) -> Vec<ScriptedReply> {
    let mut replies = Vec::new();
    for at in 0..count {
        replies.push(ScriptedReply::call("summarize", json!({ "at": at })));
        replies.extend(between.get(at).map(|text| ScriptedReply::text(*text)));
    }
    replies.push(ScriptedReply::text("done"));
    replies
}

#[tokio::test]
async fn a_server_gets_an_answer_that_the_user_has_approved() {
    for wire in WIRES {
        let mut fixture = Fixture::new(wire, TALKER, calls(1, &["Short.END of it"])).await;
        let (mut chat, user) = chat(&mut fixture, SummaryTool(metadata()), &["yes"]).await;
        let report = fixture.turn(&mut chat, "go").await;
        assert_eq!(report.text, "done", "{:?}", fixture.reported.ended());
        assert_eq!(fixture.reported.ended()[0].text, "Short. (StopText)");
        // The call of the server is paid for like the others.
        assert_eq!(report.sum.model_calls, 3);
        assert!(report.sum.paid.cost.unpriced == 0 && report.sum.paid.calls == 3);
        assert_eq!(answered(&fixture.reported), 3);
        let asked = user.asked.lock().unwrap().clone();
        assert_eq!(asked.len(), 1);
        for part in [
            "the MCP server `notes` wants",
            "77",
            "system: You summarize.",
            "user: A long text.",
        ] {
            assert!(asked[0].contains(part), "{asked:?}");
        }
        // Nothing of the conversation is in the request.
        let received = fixture.simulator.received();
        let sampled = String::from_utf8(received[1].body.to_vec()).unwrap();
        assert!(
            sampled.contains("A long text.") && sampled.contains("77"),
            "{sampled}"
        );
        for other in ["You talk.", "\"go\"", "summarize\""] {
            assert!(!sampled.contains(other), "{sampled}");
        }
        fixture.check_between(&[1]);
    }
}

#[tokio::test]
async fn a_refusal_reaches_the_server_and_always_is_remembered() {
    let replies = calls(4, &[]);
    let mut with_answers = replies;
    // Asked and declined; then always, and twice without a question.
    for (at, text) in [(2, "One."), (4, "Two."), (6, "Three.")] {
        with_answers.insert(at, ScriptedReply::text(text));
    }
    let mut fixture = Fixture::new(Wire::Chat, TALKER, with_answers).await;
    let (mut chat, user) = chat(&mut fixture, SummaryTool(metadata()), &["no", "always"]).await;
    let report = fixture.turn(&mut chat, "go").await;
    assert_eq!(report.text, "done");
    let ended: Vec<String> = fixture
        .reported
        .ended()
        .into_iter()
        .map(|ended| ended.text)
        .collect();
    assert_eq!(
        ended,
        [
            "the user declined it",
            "One. (End)",
            "Two. (End)",
            "Three. (End)"
        ]
    );
    assert_eq!(user.asked.lock().unwrap().len(), 2);
    assert_eq!(
        chat.granted(),
        [(
            "root".to_owned(),
            "answers of the model for the MCP server `notes`".to_owned()
        )]
    );
    fixture.check_between(&[2, 4, 6]);
}

#[tokio::test]
async fn without_a_user_there_is_no_model_to_ask() {
    let mut fixture = Fixture::new(Wire::Messages, TALKER, calls(1, &[])).await;
    fixture.tools = vec![Arc::new(SummaryTool(metadata()))];
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "go").await;
    assert_eq!(fixture.reported.ended()[0].text, "no model");
    fixture.check();
}

#[tokio::test]
async fn what_no_budget_permits_is_not_asked() {
    let file = format!("{TALKER}budget: {{max_tokens: 10}}\n");
    let mut fixture = Fixture::new(Wire::Chat, &file, calls(1, &[])).await;
    let (mut chat, user) = chat(&mut fixture, SummaryTool(metadata()), &[]).await;
    let report = fixture.turn(&mut chat, "go").await;
    let ended = fixture.reported.ended();
    assert!(ended[0].text.contains("max_tokens"), "{ended:?} {report:?}");
    assert_eq!(user.asked.lock().unwrap().len(), 0);
    assert_eq!(fixture.simulator.received().len(), 1);
    fixture.check();
}

/// A tool whose server asks the model again and again, and waits for no answer.
struct ImpatientTool {
    metadata: OperationMetadata,
    reported: Arc<EventRecorder>,
}

#[async_trait]
impl Operation for ImpatientTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    async fn run(&self, _: Arguments, context: &ToolContext) -> ToolOutput {
        let sampler = context.sampler.as_ref().unwrap();
        let mut refusals = Vec::new();
        for _ in 0..5 {
            let before = answered(&self.reported);
            // Dropped when the question is answered and the model is asked.
            let outcome = tokio::select! {
                biased;
                outcome = sampler.sample(request()) => Some(outcome),
                () = std::future::ready(()) => None,
            };
            match outcome {
                Some(outcome) => refusals.push(outcome.unwrap_err().to_string()),
                None => {
                    let counted = async {
                        while answered(&self.reported) == before {
                            tokio::time::sleep(Duration::from_millis(1)).await;
                        }
                    };
                    let counted = tokio::time::timeout(Duration::from_secs(60), counted).await;
                    counted.expect("the answer is counted");
                }
            }
        }
        ToolOutput::text(refusals.join("\n"))
    }
}

/// The number of paid answers so far.
fn answered(reported: &EventRecorder) -> usize {
    let notes = reported.notes();
    let paid = |note: &&Note| matches!(note, Note::Answered(_, cost) if cost.picodollars > 0);
    notes.iter().filter(paid).count()
}

#[tokio::test]
async fn answers_that_a_server_does_not_wait_for_are_counted_and_limited() {
    let mut replies = calls(1, &[]);
    let sampled = ["One.", "Two.", "Three."].map(ScriptedReply::text);
    replies.splice(1..1, sampled);
    let file = TALKER.replace("model: test", "model: test, max_iterations: 3");
    let mut fixture = Fixture::new(Wire::Chat, &file, replies).await;
    let tool = ImpatientTool {
        metadata: metadata(),
        reported: Arc::clone(&fixture.reported),
    };
    let (mut chat, _) = chat(&mut fixture, tool, &["always"]).await;
    let report = fixture.turn(&mut chat, "go").await;
    let ended = fixture.reported.ended();
    let limit = "the calls of an answer may ask the model 3 times (max_iterations)";
    assert_eq!(ended[0].text, [limit; 2].join("\n"));
    assert_eq!((report.text.as_str(), report.sum.model_calls), ("done", 5));
    fixture.check_between(&[1, 2, 3]);
}
