//! Responses: shapes of answers and events, and what ties items together.

use cachalot_simulator::{Script, ScriptedReply};
use serde_json::{Value, json};

use crate::{RESPONSES, ask, post, smallest, start, with};

fn tools() -> Value {
    let tool = |name: &str| json!({"type": "function", "name": name, "parameters": {"type": "object"}, "strict": false});
    json!([tool("look"), tool("dive")])
}

/// A request whose reasoning comes back whole.
fn reasoning(text: &str) -> Value {
    let fields = json!({
        "model": "gpt-5", "tools": tools(), "store": false,
        "reasoning": {"effort": "low", "summary": "auto"},
        "include": ["reasoning.encrypted_content"],
    });
    with(smallest(RESPONSES, text), fields)
}

fn thoughtful() -> ScriptedReply {
    ScriptedReply::text("I look at it, and I dive for it as deep as I can.")
        .with_reasoning("What would a whale do now?")
        .and_call("look", json!({"at": "the sea"}))
        .and_call("dive", json!({"metres": 2_000}))
}

#[tokio::test]
async fn a_response_has_the_published_shape() {
    let running = start(Script::answers(["Good morning."])).await;
    let request = with(
        smallest(RESPONSES, "Hello"),
        json!({"instructions": "Greet."}),
    );
    let answer = ask(&running, RESPONSES, &request).await;
    assert!(answer["id"].as_str().unwrap().starts_with("resp_"));
    assert_eq!(answer["object"], "response");
    assert_eq!(answer["status"], "completed");
    assert_eq!(answer["instructions"], "Greet.");
    assert_eq!(
        answer["text"],
        json!({"format": {"type": "text"}, "verbosity": "medium"})
    );
    let item = &answer["output"][0];
    assert!(item["id"].as_str().unwrap().starts_with("msg_"));
    assert_eq!(
        item["content"],
        json!([{"type": "output_text", "annotations": [], "logprobs": [], "text": "Good morning."}])
    );
    assert_eq!(
        answer["usage"],
        json!({
            "input_tokens": 4, "output_tokens": 4, "total_tokens": 8,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        })
    );
}

#[tokio::test]
async fn events_are_numbered_and_make_the_response() {
    let running = start(Script::replies(vec![thoughtful()])).await;
    let request = with(reasoning("Dive"), json!({"stream": true}));
    let got = post(&running, RESPONSES, &request).await;
    let names: Vec<String> = got.events().into_iter().map(|(name, _)| name).collect();
    let data = got.data();
    for (at, (name, data)) in names.iter().zip(&data).enumerate() {
        assert_eq!(
            (&data["type"], &data["sequence_number"]),
            (&json!(name), &json!(at))
        );
    }
    assert_eq!(&names[..2], ["response.created", "response.in_progress"]);
    assert_eq!(data[0]["response"]["status"], "in_progress");
    assert_eq!(data[0]["response"]["output"], json!([]));
    let last = data.last().unwrap();
    assert_eq!(last["type"], "response.completed");

    let of = |kind: &str| {
        data.iter()
            .filter(|data| data["type"] == kind)
            .collect::<Vec<_>>()
    };
    let done: Vec<&Value> = of("response.output_item.done")
        .iter()
        .map(|data| &data["item"])
        .collect();
    assert_eq!(json!(done), last["response"]["output"]);
    let kinds: Vec<&str> = done
        .iter()
        .map(|item| item["type"].as_str().unwrap())
        .collect();
    assert_eq!(
        kinds,
        ["reasoning", "message", "function_call", "function_call"]
    );
    let joined = |kind: &str, at: usize| -> String {
        let deltas = of(kind);
        let deltas = deltas
            .iter()
            .filter(|data| data["output_index"] == json!(at));
        deltas.map(|data| data["delta"].as_str().unwrap()).collect()
    };
    let summary = joined("response.reasoning_summary_text.delta", 0);
    assert_eq!(
        done[0]["summary"],
        json!([{"type": "summary_text", "text": summary}])
    );
    assert_eq!(
        done[1]["content"][0]["text"],
        json!(joined("response.output_text.delta", 1))
    );
    for at in [2, 3] {
        let arguments = joined("response.function_call_arguments.delta", at);
        assert_eq!(done[at]["arguments"], json!(arguments));
    }
    let added = of("response.output_item.added");
    assert_eq!(added.len(), 4);
    assert_eq!(added[2]["item"]["arguments"], "");
}

/// The input of the second request, with all items of the first answer.
fn follow_up(first: &Value) -> Vec<Value> {
    let mut input = vec![json!({"role": "user", "content": "Dive"})];
    let output = first["output"].as_array().unwrap();
    input.extend(output.iter().cloned());
    let calls = output.iter().filter(|item| item["type"] == "function_call");
    input.extend(calls.map(|call| {
        json!({"type": "function_call_output", "call_id": call["call_id"], "output": "done"})
    }));
    input
}

#[tokio::test]
async fn items_can_be_sent_back_as_they_came_and_not_otherwise() {
    let running = start(Script::replies(vec![
        thoughtful(),
        ScriptedReply::text("It is done."),
    ]))
    .await;
    let first = ask(&running, RESPONSES, &reasoning("Dive")).await;
    let input = follow_up(&first);
    let with_input = |input: &[Value]| with(reasoning("Dive"), json!({"input": input}));
    let answer = ask(&running, RESPONSES, &with_input(&input)).await;
    assert_eq!(answer["output"][0]["content"][0]["text"], "It is done.");
    assert!(running.violations().is_empty());

    let refused = |input: Vec<Value>| {
        let request = with_input(&input);
        let running = &running;
        async move {
            let got = post(running, RESPONSES, &request).await;
            assert!(got.status == 400 || got.status == 404, "{}", got.text);
            got.json()["error"]["message"].as_str().unwrap().to_owned()
        }
    };
    // input: user, reasoning, message, call, call, output, output.
    let mut without_reasoning = input.clone();
    without_reasoning.remove(1);
    let message = refused(without_reasoning).await;
    assert!(
        message.contains("of type 'message' was provided without its required 'reasoning' item"),
        "{message}"
    );
    let message = refused(input[..2].to_vec()).await;
    assert!(
        message.contains("without its required following item"),
        "{message}"
    );
    let mut tampered = input.clone();
    tampered[1]["encrypted_content"] = json!("simulated-00-00");
    let message = refused(tampered).await;
    assert!(message.contains("could not be verified"), "{message}");
    // What was not stored is known only by its encrypted content.
    let mut bare = input.clone();
    bare[1].as_object_mut().unwrap().remove("encrypted_content");
    let message = refused(bare).await;
    assert!(
        message.contains("not found. Items are not persisted"),
        "{message}"
    );
    assert_eq!(running.violations().len(), 4);
}

#[tokio::test]
async fn stored_reasoning_needs_no_content() {
    let running = start(Script::replies(vec![
        thoughtful(),
        ScriptedReply::text("It is done."),
    ]))
    .await;
    let stored = |input: Value| {
        let fields = json!({"model": "gpt-5", "tools": tools(), "input": input});
        with(smallest(RESPONSES, ""), fields)
    };
    let first = ask(&running, RESPONSES, &stored(json!("Dive"))).await;
    assert_eq!(first["output"][0]["type"], "reasoning");
    assert_eq!(first["output"][0]["summary"], json!([]));
    assert!(first["output"][0].get("encrypted_content").is_none());
    ask(&running, RESPONSES, &stored(json!(follow_up(&first)))).await;
}

#[tokio::test]
async fn a_cut_answer_is_incomplete() {
    let running = start(Script::answers(["word ".repeat(100)])).await;
    let request = with(
        smallest(RESPONSES, "Talk"),
        json!({"max_output_tokens": 20}),
    );
    let answer = ask(&running, RESPONSES, &request).await;
    assert_eq!(answer["status"], "incomplete");
    assert_eq!(
        answer["incomplete_details"],
        json!({"reason": "max_output_tokens"})
    );
    assert_eq!(answer["usage"]["output_tokens"], 20);
    let got = post(&running, RESPONSES, &with(request, json!({"stream": true}))).await;
    assert_eq!(got.events().last().unwrap().0, "response.incomplete");
}
