//! Agents over Amazon Bedrock's Converse.

use cachalot_agent::{CancellationToken, Chat, ForkSpec, Inherit};
use cachalot_simulator::{
    Fault, ReceivedRequest, RunningSimulator, Script, ScriptedReply, Simulator, SimulatorOptions,
};
use serde_json::{Value, json};

use crate::fixture::{Fixture, Wire};

const SONNET: &str = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";

async fn bedrock(replies: Vec<ScriptedReply>) -> RunningSimulator {
    let script = Script::replies(replies);
    Simulator::start(SimulatorOptions {
        script,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap()
}

/// An agent file with a model on Bedrock, and an instruction that is long enough to be cached.
fn file(bedrock: &RunningSimulator, model: &str, keys: &str) -> String {
    let instruction = "You work on files, with care. ".repeat(300);
    format!(
        "
agents:
  root: {{model: '{model}', instruction: '{instruction}', toolsets: [{{type: filesystem}}]}}
permissions:
  allow: [edit_file]
providers:
  b: {{base_url: '{}', token_key: TEST_KEY, format: converse{keys}}}
",
        bedrock.url()
    )
}

/// A request without its cache points, up to the end of its messages.
fn said(request: &ReceivedRequest) -> String {
    let text = std::str::from_utf8(&request.body).unwrap();
    let text = [
        r#",{"cachePoint":{"type":"default"}}"#,
        r#",{"cachePoint":{"type":"default","ttl":"1h"}}"#,
    ]
    .iter()
    .fold(text.to_owned(), |text, point| text.replace(point, ""));
    let end = text.rfind(r#"],"inferenceConfig""#).unwrap();
    text[..end].to_owned()
}

#[tokio::test]
async fn turn_with_tools_extends_the_prefix_byte_for_byte_and_resumes() {
    let bedrock = bedrock(vec![
        ScriptedReply::call("read_file", json!({"path": "notes.md"}))
            .and_call("list_directory", json!({"path": "."}))
            .with_reasoning("First I look."),
        ScriptedReply::call(
            "edit_file",
            json!({"path": "notes.md", "old_text": "one", "new_text": "two"}),
        )
        .with_reasoning("Then I write."),
        ScriptedReply::text("It says two now."),
        ScriptedReply::text("You are welcome."),
    ])
    .await;
    let mut fixture = Fixture::new(Wire::Chat, "", vec![]).await.in_file();
    fixture.rewrite(&file(
        &bedrock,
        &format!("b/{SONNET}"),
        ", thinking_budget: 2000",
    ));
    fixture.write("notes.md", "one line\n");
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "Change one to two.").await;
    assert_eq!(report.text, "It says two now.");
    assert_eq!(fixture.read("notes.md"), "two line\n");
    assert_eq!((report.sum.model_calls, report.sum.tool_calls), (3, 3));
    // The second and the third request read what the one before them wrote.
    let used = report.sum.usage;
    assert!(used.cache_read > used.cache_write(), "{used:?}");
    let session = chat.session().to_owned();
    chat.close().await;
    fixture.restart();
    let mut chat: Chat = fixture.resume(&session).await.unwrap();
    let report = fixture.turn(&mut chat, "Thank you.").await;
    assert_eq!(report.text, "You are welcome.");
    assert!(report.sum.usage.cache_read > 1_024);
    assert_eq!(bedrock.violations(), [] as [String; 0]);
    let received = bedrock.received();
    assert_eq!(received.len(), 4);
    for two in received.windows(2) {
        assert!(said(&two[1]).starts_with(&said(&two[0])));
    }
    let last = received[3].json();
    let reasoning = &last["messages"][1]["content"][0]["reasoningContent"]["reasoningText"];
    assert_eq!(reasoning["text"], "First I look.");
    assert!(reasoning["signature"].is_string());
    fixture.check();
}

/// A conversation of another model can be continued.
#[tokio::test]
async fn bedrock_continues_a_turn_as_fallback() {
    let bedrock = bedrock(vec![ScriptedReply::text("from Bedrock")]).await;
    for wire in [Wire::Chat, Wire::Responses, Wire::Thinking] {
        let replies = vec![
            ScriptedReply::call("read_file", json!({"path": "notes.md"})),
            ScriptedReply::default().with_fault(Fault::status(529).times(1)),
        ];
        let mut fixture = Fixture::new(wire, "", replies).await;
        fixture.rewrite(&file(&bedrock, "test", ""));
        fixture.model_keys = format!(", retries: 0, fallbacks: ['b/{SONNET}']");
        fixture.write("notes.md", "one line\n");
        let mut chat = fixture.chat().await;
        assert_eq!(fixture.turn(&mut chat, "Read.").await.text, "from Bedrock");
        assert_eq!(bedrock.violations(), [] as [String; 0]);
        let sent: Value = bedrock.received().last().unwrap().json();
        let roles: Vec<&str> = sent["messages"]
            .as_array()
            .unwrap()
            .iter()
            .map(|message| message["role"].as_str().unwrap())
            .collect();
        assert_eq!(roles, ["user", "assistant", "user"]);
        fixture.check();
    }
}

/// Tools are known by their names in this format, too.
#[tokio::test]
async fn a_fork_over_bedrock_keeps_the_tools_of_its_definition() {
    let bedrock = bedrock(vec![
        ScriptedReply::call("read_file", json!({"path": "notes.md"})),
        ScriptedReply::text("One line."),
        ScriptedReply::text("Looked back."),
    ])
    .await;
    let mut fixture = Fixture::new(Wire::Chat, "", vec![]).await;
    fixture.rewrite(&file(&bedrock, &format!("b/{SONNET}"), ""));
    fixture.write("notes.md", "one line\n");
    let mut chat = fixture.chat().await;
    fixture.turn(&mut chat, "Read.").await;
    let spec = ForkSpec {
        holder: "the question".to_owned(),
        tools: Some(vec!["read_file".to_owned()]),
        approved: false,
        inherit: Inherit::Prompt,
        max_iterations: 1,
        max_input_tokens: None,
        max_output_tokens: None,
    };
    let fork = chat.fork(spec).unwrap();
    fork.run("Look back.", &CancellationToken::default())
        .await
        .unwrap();
    assert_eq!(bedrock.violations(), [] as [String; 0]);
    let sent = bedrock.received().last().unwrap().json();
    let tools = sent["toolConfig"]["tools"].as_array().unwrap();
    let names: Vec<&str> = tools
        .iter()
        .filter_map(|tool| tool["toolSpec"]["name"].as_str())
        .collect();
    assert_eq!(names, ["read_file"]);
    fixture.check();
}
