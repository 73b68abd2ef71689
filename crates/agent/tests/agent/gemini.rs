//! Agents over Gemini's own API.

use cachalot_agent::Chat;
use cachalot_simulator::{
    Fault, ReceivedRequest, RunningSimulator, Script, ScriptedReply, Simulator, SimulatorOptions,
};
use serde_json::{Value, json};

use crate::fixture::{Fixture, Wire};

pub(super) async fn google(replies: Vec<ScriptedReply>) -> RunningSimulator {
    let script = Script::replies(replies);
    Simulator::start(SimulatorOptions {
        script,
        ..SimulatorOptions::default()
    })
    .await
    .unwrap()
}

/// An agent file whose providers have one of Google, with further keys.
pub(super) fn file(google: &RunningSimulator, model: &str, keys: &str) -> String {
    format!(
        "
agents:
  root: {{model: {model}, instruction: You work on files., toolsets: [{{type: filesystem}}]}}
permissions:
  allow: [edit_file]
providers:
  g: {{base_url: '{}', token_key: TEST_KEY, {keys}}}
",
        google.url()
    )
}

pub(super) fn replies() -> Vec<ScriptedReply> {
    vec![
        ScriptedReply::call("read_file", json!({"path": "notes.md"}))
            .and_call("list_directory", json!({"path": "."}))
            .with_reasoning("First I look."),
        ScriptedReply::call(
            "edit_file",
            json!({"path": "notes.md", "old_text": "one", "new_text": "two"}),
        ),
        ScriptedReply::text("It says two now."),
        ScriptedReply::text("You are welcome."),
    ]
}

/// Each request goes on where the one before it ended, byte for byte.
fn check(requests: &[ReceivedRequest]) {
    let texts: Vec<&str> = requests
        .iter()
        .map(|request| std::str::from_utf8(&request.body).unwrap())
        .collect();
    for two in texts.windows(2) {
        let contents = two[0].rfind("]").unwrap();
        let end = two[0][..contents + 1]
            .rfind("]}")
            .map_or(contents, |at| at + 2);
        assert!(two[1].starts_with(&two[0][..end]), "{}\n{}", two[0], two[1]);
    }
}

/// A turn with tools, and one of the resumed session: four requests.
pub(super) async fn turn_with_tools(google: &RunningSimulator, file: &str) -> Fixture {
    let mut fixture = Fixture::new(Wire::Chat, "", vec![]).await.in_file();
    fixture.rewrite(file);
    fixture.write("notes.md", "one line\n");
    let mut chat = fixture.chat().await;
    let report = fixture.turn(&mut chat, "Change one to two.").await;
    assert_eq!(report.text, "It says two now.");
    assert_eq!(fixture.read("notes.md"), "two line\n");
    assert_eq!((report.sum.model_calls, report.sum.tool_calls), (3, 3));
    let session = chat.session().to_owned();
    chat.close().await;
    fixture.restart();
    let mut chat: Chat = fixture.resume(&session).await.unwrap();
    assert_eq!(
        fixture.turn(&mut chat, "Thank you.").await.text,
        "You are welcome."
    );
    assert_eq!(google.violations(), [] as [String; 0]);
    assert_eq!(google.received().len(), 4);
    fixture
}

#[tokio::test]
async fn turn_with_tools_extends_the_prefix_byte_for_byte_and_resumes() {
    for model in ["gemini-3-pro-preview", "gemini-2.5-flash"] {
        let google = google(replies()).await;
        let file = file(&google, &format!("g/{model}"), "format: gemini");
        let fixture = turn_with_tools(&google, &file).await;
        let received = google.received();
        assert!(
            received[0]
                .path
                .ends_with(&format!("/models/{model}:streamGenerateContent"))
        );
        check(&received);
        let last = received[3].json();
        let response = &last["contents"][2]["parts"][0]["functionResponse"];
        assert_eq!(response["name"], "read_file");
        assert_eq!(last["tools"].as_array().unwrap().len(), 1);
        fixture.check();
    }
}

/// Calls that another model made have no signature of Gemini's, and Gemini 3 takes them all the same.
#[tokio::test]
async fn gemini_continues_a_turn_as_fallback() {
    let google = google(vec![ScriptedReply::text("from Gemini")]).await;
    for wire in [Wire::Chat, Wire::Responses, Wire::Thinking] {
        let replies = vec![
            ScriptedReply::call("read_file", json!({"path": "notes.md"})),
            ScriptedReply::default().with_fault(Fault::status(529).times(1)),
        ];
        let mut fixture = Fixture::new(wire, "", replies).await;
        fixture.rewrite(&file(&google, "test", "format: gemini"));
        fixture.model_keys = ", retries: 0, fallbacks: [g/gemini-3-pro-preview]".to_owned();
        fixture.write("notes.md", "one line\n");
        let mut chat = fixture.chat().await;
        assert_eq!(fixture.turn(&mut chat, "Read.").await.text, "from Gemini");
        assert_eq!(google.violations(), [] as [String; 0]);
        let sent: Value = google.received().last().unwrap().json();
        assert_eq!(
            sent["contents"][1]["parts"]
                .as_array()
                .unwrap()
                .last()
                .unwrap()["thoughtSignature"],
            "skip_thought_signature_validator"
        );
        fixture.check();
    }
}
