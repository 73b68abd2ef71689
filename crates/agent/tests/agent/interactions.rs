//! Agents over Gemini's Interactions.

use cachalot_simulator::{Fault, ReceivedRequest, ScriptedReply};
use serde_json::{Value, json};

use super::gemini::{file, google, replies, turn_with_tools};
use crate::fixture::{Fixture, WIRES};

const MODEL: &str = "g/gemini-3.8-flash";

/// The keys of the provider.
const KEYS: &str = "format: interactions, reasoning_effort: low";

/// Each request goes on where the steps of the one before it ended, byte for byte.
fn check(requests: &[ReceivedRequest]) {
    let texts: Vec<&str> = requests
        .iter()
        .map(|request| std::str::from_utf8(&request.body).unwrap())
        .collect();
    for two in texts.windows(2) {
        let end = two[0].rfind("],\"model\":").unwrap();
        assert!(two[1].starts_with(&two[0][..end]), "{}\n{}", two[0], two[1]);
    }
}

#[tokio::test]
async fn turn_with_tools_extends_the_prefix_byte_for_byte_and_resumes() {
    let google = google(replies()).await;
    let fixture = turn_with_tools(&google, &file(&google, MODEL, KEYS)).await;
    let received = google.received();
    check(&received);
    for request in &received {
        assert_eq!(request.path, "/v1beta/interactions");
        // Nothing is kept at the provider, and nothing refers to it.
        let body = request.json();
        assert_eq!(body["store"], false);
        assert_eq!(body.get("previous_interaction_id"), None);
    }
    let last = received[3].json();
    assert!(
        last["system_instruction"]
            .as_str()
            .unwrap()
            .contains("You work on files.")
    );
    let steps = last["input"].as_array().unwrap();
    let kinds: Vec<&str> = steps
        .iter()
        .map(|step| step["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        [
            "user_input",
            "thought",
            "function_call",
            "function_call",
            "function_result",
            "function_result",
            "function_call",
            "function_result",
            "model_output",
            "user_input",
        ]
    );
    assert!(steps[1]["signature"].is_string());
    assert_eq!(steps[4]["name"], "read_file");
    fixture.check();
}

#[tokio::test]
async fn interactions_continue_a_turn_of_other_formats_as_fallback() {
    let google = google(vec![ScriptedReply::text("from Gemini")]).await;
    for wire in WIRES {
        let replies = vec![
            ScriptedReply::call("read_file", json!({"path": "notes.md"})),
            ScriptedReply::default().with_fault(Fault::status(529).times(1)),
        ];
        let mut fixture = Fixture::new(wire, "", replies).await;
        fixture.rewrite(&file(&google, "test", KEYS));
        fixture.model_keys = format!(", retries: 0, fallbacks: [{MODEL}]");
        fixture.write("notes.md", "one line\n");
        let mut chat = fixture.chat().await;
        assert_eq!(fixture.turn(&mut chat, "Read.").await.text, "from Gemini");
        assert_eq!(google.violations(), [] as [String; 0]);
        let sent: Value = google.received().last().unwrap().json();
        let steps = sent["input"].as_array().unwrap();
        let kinds: Vec<&Value> = steps.iter().map(|step| &step["type"]).collect();
        assert_eq!(kinds, ["user_input", "function_call", "function_result"]);
        assert_eq!(steps[2]["name"], "read_file");
        fixture.check();
    }
}
