//! `llm.stream`: the answer is shown while it grows, and is the same in the end.

use cachalot_simulator::{Fault, ScriptedReply, ScriptedStop, ScriptedUsage};
use cachalot_workflow::report::NODE;
use serde_json::json;

use super::{EACH, MODELS, asking};
use crate::fakes::Provider;

fn poem() -> ScriptedReply {
    ScriptedReply::text("The whale dives.\nIt stays below.\n\nIt comes up.").with_usage(
        ScriptedUsage {
            input: Some(10),
            cache_read: Some(0),
            cache_write: Some(0),
            output: Some(5),
            ..ScriptedUsage::default()
        },
    )
}

#[tokio::test]
async fn stream_answer_equals_that_of_a_call_and_lines_are_reported() {
    for (model, _) in EACH {
        let provider = Provider::replies([poem()]);
        let fixture = asking(&provider, MODELS);
        let arguments = json!({ "model": model, "prompt": "A poem", "max_tokens": 100 });
        let called = fixture.ok("llm.call", arguments.clone()).await;
        assert!(fixture.events.printed().is_empty());
        let streamed = NODE
            .scope(
                "poet".to_owned(),
                fixture.ok("actions.llm_stream", arguments),
            )
            .await;
        assert_eq!(streamed, called, "{model}");
        assert_eq!(provider.last()["stream"], true);
        let lines = ["The whale dives.", "It stays below.", "", "It comes up."];
        let expected = lines.map(|line| ("poet".to_owned(), line.to_owned()));
        assert_eq!(fixture.events.printed(), expected, "{model}");
    }
}

/// Lines before a broken connection are reported when they arrive.
#[tokio::test]
async fn lines_are_reported_as_they_arrive() {
    for (model, _) in EACH {
        let long = "One line.\n".repeat(200);
        let provider = Provider::replies([ScriptedReply::text(long).with_fault(Fault::cut(60))]);
        let fixture = asking(&provider, MODELS);
        let failure = fixture
            .fails(
                "llm.stream",
                json!({ "model": model, "prompt": "Go", "max_tokens": 2_000 }),
            )
            .await;
        assert_eq!(
            (failure.kind, failure.retryable),
            ("cut_off", true),
            "{failure}"
        );
        assert_eq!(
            provider.requests(),
            1,
            "what was shown is not asked for again"
        );
        let printed = fixture.events.printed();
        assert!(
            (1..200).contains(&printed.len()),
            "{model}: {}",
            printed.len()
        );
        assert!(printed.iter().any(|(_, line)| line == "One line."));
    }
}

#[tokio::test]
async fn secret_in_a_streamed_line_is_masked() {
    let provider = Provider::answers(["The word is hunter2-hunter2.\nDo not tell hunter2-hunter2"]);
    let fixture = asking(&provider, MODELS);
    fixture.runtime.secret_set.learn("hunter2-hunter2");
    fixture
        .ok("llm.stream", json!({ "model": "chat", "prompt": "Hi" }))
        .await;
    let printed: Vec<String> = fixture
        .events
        .printed()
        .into_iter()
        .map(|(_, line)| line)
        .collect();
    assert_eq!(printed, ["The word is [secret].", "Do not tell [secret]"]);
}

#[tokio::test]
async fn structured_output_tools_and_stops_work_as_for_a_call() {
    let whale = json!({ "type": "object", "properties": { "depth": { "type": "integer" } }, "required": ["depth"], "additionalProperties": false });
    for (model, _) in EACH {
        let provider = Provider::replies([
            ScriptedReply::text(r#"{"depth": 5}"#),
            ScriptedReply::call("look", json!({ "at": "sea" })),
            ScriptedReply::text("The wha").with_stop(ScriptedStop::Length),
        ]);
        let fixture = asking(&provider, MODELS);
        let arguments = json!({ "model": model, "prompt": "Hi", "response_format": whale });
        assert_eq!(
            fixture.ok("llm.stream", arguments).await["data"],
            json!({ "depth": 5 })
        );
        let tools = json!([{ "name": "look", "description": "Looks.", "parameters": { "type": "object", "properties": { "at": { "type": "string" } }, "required": ["at"], "additionalProperties": false } }]);
        let arguments = json!({ "model": model, "prompt": "Hi", "tools": tools });
        let answer = fixture.ok("llm.stream", arguments).await;
        assert_eq!(
            answer["tool_calls"][0]["arguments"],
            json!({ "at": "sea" }),
            "{model}"
        );
        let answer = fixture
            .ok("llm.stream", json!({ "model": model, "prompt": "Hi" }))
            .await;
        assert_eq!(answer["stop_reason"], "length");
    }
}
