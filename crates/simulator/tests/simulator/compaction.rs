//! Endpoints beside `POST /v1/responses`: compaction and token counts.

use cachalot_simulator::Script;
use serde_json::{Value, json};

use crate::{RESPONSES, ask, post, start};

const COMPACT: &str = "/v1/responses/compact";
const COUNT: &str = "/v1/responses/input_tokens";

fn user(text: &str) -> Value {
    json!({"role": "user", "content": text})
}

#[tokio::test]
async fn compaction_has_the_messages_of_the_user_and_an_encrypted_item() {
    let running = start(Script::answers(["A whale was seen."])).await;
    let first = json!({"model": "gpt-5.6", "input": [user("What was seen?")]});
    let first = ask(&running, RESPONSES, &first).await;
    let request =
        json!({"model": "gpt-5.6", "previous_response_id": first["id"], "input": "And then?"});
    let compacted = ask(&running, COMPACT, &request).await;
    assert_eq!(compacted["object"], "response.compaction");
    let output = compacted["output"].as_array().unwrap();
    let texts: Vec<&Value> = output
        .iter()
        .map(|item| &item["content"][0]["text"])
        .collect();
    assert_eq!(
        texts,
        [&json!("What was seen?"), &json!("And then?"), &Value::Null]
    );
    assert_eq!(output[2]["type"], "compaction");
    assert!(
        !output[2]["encrypted_content"]
            .as_str()
            .unwrap()
            .contains("whale")
    );
    // 17 bytes.
    assert_eq!(compacted["usage"]["output_tokens"], 5);
    assert!(compacted["usage"]["input_tokens"].as_u64().unwrap() > 0);

    // The items begin the next conversation.
    let mut input = output.clone();
    input.push(user("Go on."));
    ask(
        &running,
        RESPONSES,
        &json!({"model": "gpt-5.6", "input": input}),
    )
    .await;
    assert!(running.violations().is_empty());
    for (fields, message) in [
        (
            json!({"model": "gpt-5.6", "input": "x", "stream": true}),
            "Unknown parameter: 'stream'.",
        ),
        (json!({"input": "x"}), "you must provide a model parameter"),
    ] {
        let got = post(&running, COMPACT, &fields).await;
        assert_eq!(
            (got.status, got.json()["error"]["message"].as_str()),
            (400, Some(message))
        );
    }
}

#[tokio::test]
async fn trigger_at_the_end_of_the_input_asks_for_a_compaction() {
    let running = start(Script::answers(["A whale was seen."])).await;
    let trigger = json!({"type": "compaction_trigger"});
    let request = |stream: bool| json!({"model": "gpt-5.6", "stream": stream, "input": [user("What was seen?"), trigger]});
    let answer = ask(&running, RESPONSES, &request(false)).await;
    assert_eq!(answer["output"].as_array().unwrap().len(), 1);
    assert_eq!(answer["output"][0]["type"], "compaction");
    let events = post(&running, RESPONSES, &request(true)).await.events();
    let names: Vec<&str> = events.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.output_item.done",
        "response.completed",
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn input_tokens_are_counted_without_an_answer() {
    let running = start(Script::built_in()).await;
    let request = json!({"model": "gpt-5.6", "input": "w".repeat(400), "personality": "friendly"});
    let counted = ask(&running, COUNT, &request).await;
    assert_eq!(
        counted,
        json!({"object": "response.input_tokens", "input_tokens": 100})
    );
    let got = post(
        &running,
        COUNT,
        &crate::with(request, json!({"store": true})),
    )
    .await;
    assert_eq!(got.status, 400);
    assert!(
        got.text.contains("Unknown parameter: 'store'."),
        "{}",
        got.text
    );
}

#[tokio::test]
async fn prewarming_fills_the_cache_and_generates_nothing() {
    let running = start(Script::answers(["Never said.", "Said."])).await;
    let request = json!({"model": "gpt-5.6", "input": "w".repeat(8_000)});
    let warm = crate::with(
        request.clone(),
        json!({"prompt_cache_options": {"prewarm": true}}),
    );
    let answer = ask(&running, RESPONSES, &warm).await;
    assert_eq!(
        (&answer["status"], &answer["output"]),
        (&json!("completed"), &json!([]))
    );
    let usage = &answer["usage"];
    assert_eq!(usage["output_tokens"], 0);
    assert_eq!(usage["input_tokens_details"]["cache_write_tokens"], 2_000);
    let answer = ask(&running, RESPONSES, &request).await;
    assert_eq!(
        answer["usage"]["input_tokens_details"]["cached_tokens"],
        2_000
    );
}
