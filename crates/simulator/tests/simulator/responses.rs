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
async fn response_has_the_published_schema() {
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
async fn events_are_numbered_and_join_to_the_response() {
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
async fn items_can_be_sent_back_only_unchanged() {
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
    let asked_again = [&input[..2], &input[..1]].concat();
    for cut_off in [input[..2].to_vec(), asked_again] {
        let message = refused(cut_off).await;
        assert!(
            message.contains("without its required following item"),
            "{message}"
        );
    }
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
    assert_eq!(running.violations().len(), 5);
}

#[tokio::test]
async fn stored_reasoning_is_referenced_without_content() {
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
async fn truncated_answer_is_incomplete() {
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

/// A request that continues a stored response.
fn continuing(id: &Value, input: Value) -> Value {
    json!({"model": "gpt-5", "tools": tools(), "previous_response_id": id, "input": input})
}

fn output(call: &Value, text: &str) -> Value {
    json!({"type": "function_call_output", "call_id": call["call_id"], "output": text})
}

#[tokio::test]
async fn response_is_continued_by_its_id() {
    let script = Script::parse(
        "script.yaml",
        "
rules:
  - user: Where
    steps:
      - {reasoning: Look first., tool_calls: [{name: look, arguments: {}}]}
      - {reasoning: Then dive., tool_calls: [{name: dive, arguments: {}}]}
      - text: 'Found: {{last_result}}.'
",
    );
    let running = start(script.unwrap()).await;
    let first = json!({"model": "gpt-5", "tools": tools(), "input": "Where is it?"});
    let first = ask(&running, RESPONSES, &first).await;
    assert_eq!(first["previous_response_id"], Value::Null);
    let look = &first["output"][1];
    assert_eq!(look["name"], "look");
    // A call needs its output, also where the call itself is not sent again.
    let unanswered = continuing(&first["id"], json!("And?"));
    let got = post(&running, RESPONSES, &unanswered).await;
    assert_eq!(got.status, 400);
    assert!(got.text.contains("No tool output found for function call"));

    let second = continuing(&first["id"], json!([output(look, "a fin")]));
    let streamed = with(second.clone(), json!({"stream": true}));
    let events = post(&running, RESPONSES, &streamed).await.data();
    let streamed = &events.last().unwrap()["response"];
    assert_eq!(streamed["previous_response_id"], first["id"]);
    let second = ask(&running, RESPONSES, &second).await;
    let dive = &second["output"][1];
    assert_eq!(dive["name"], "dive");
    assert!(
        second["usage"]["input_tokens"].as_u64() > first["usage"]["input_tokens"].as_u64(),
        "the whole conversation counts"
    );
    // Items of stored responses can be named.
    let named: Vec<Value> = [&first["output"][0], look]
        .iter()
        .map(|item| json!({"type": "item_reference", "id": item["id"]}))
        .collect();
    let mut input = vec![json!({"role": "user", "content": "Where is it?"})];
    input.extend(named);
    input.push(output(look, "a fin"));
    let whole = json!({"model": "gpt-5", "tools": tools(), "input": input});
    assert_eq!(
        ask(&running, RESPONSES, &whole).await["output"][1]["name"],
        "dive"
    );

    for before in [&second, streamed] {
        let dive = &before["output"][1];
        let last = continuing(&before["id"], json!([output(dive, "a whale")]));
        let last = ask(&running, RESPONSES, &last).await;
        assert_eq!(crate::said(RESPONSES, &last), "Found: a whale.");
    }
}

#[tokio::test]
async fn stored_responses_are_retrieved_and_deleted() {
    let running = start(Script::answers(["Good morning.", "Good evening."])).await;
    let answer = ask(&running, RESPONSES, &smallest(RESPONSES, "Hello")).await;
    let send = |method: reqwest::Method, key: &'static str, id: String| {
        let url = format!("{}{RESPONSES}/{id}", running.url());
        async move {
            let request = crate::client().request(method, url).bearer_auth(key);
            let response = request.send().await.unwrap();
            let status = response.status().as_u16();
            let body: Value = serde_json::from_str(&response.text().await.unwrap()).unwrap();
            (status, body)
        }
    };
    let id = answer["id"].as_str().unwrap().to_owned();
    let get = |key, id: &str| send(reqwest::Method::GET, key, id.to_owned());
    assert_eq!(get("sk-test", &id).await, (200, answer));
    let not_found = |id: &str| {
        let error = json!({
            "message": format!("Response with id '{id}' not found."),
            "type": "invalid_request_error", "param": null, "code": null,
        });
        (404, json!({"error": error}))
    };
    assert_eq!(get("sk-other", &id).await, not_found(&id));
    assert_eq!(get("sk-test", "resp_none").await, not_found("resp_none"));
    let unstored = with(smallest(RESPONSES, "Hello again"), json!({"store": false}));
    let unstored = ask(&running, RESPONSES, &unstored).await;
    let unstored = unstored["id"].as_str().unwrap();
    assert_eq!(get("sk-test", unstored).await, not_found(unstored));

    let deleted = send(reqwest::Method::DELETE, "sk-test", id.clone()).await;
    let expected = json!({"id": id, "object": "response", "deleted": true});
    assert_eq!(deleted, (200, expected));
    assert_eq!(get("sk-test", &id).await, not_found(&id));
    let continued = json!({"model": "gpt-4o", "input": "And?", "previous_response_id": id});
    let refused = post(&running, RESPONSES, &continued).await;
    assert_eq!(refused.status, 400);
    assert_eq!(
        refused.json()["error"],
        json!({
            "message": format!("Previous response with id '{id}' not found."),
            "type": "invalid_request_error", "param": "previous_response_id",
            "code": "previous_response_not_found",
        })
    );
}

#[tokio::test]
async fn unknown_and_duplicate_item_references_are_refused() {
    let running = start(Script::built_in()).await;
    let answer = ask(&running, RESPONSES, &smallest(RESPONSES, "Hello")).await;
    let item = json!({"type": "item_reference", "id": answer["output"][0]["id"]});
    let asking = |items: &[&Value]| {
        let mut input: Vec<Value> = items.iter().map(|item| (*item).clone()).collect();
        input.push(json!({"role": "user", "content": "And?"}));
        json!({"model": "gpt-4o", "input": input})
    };
    assert_eq!(
        post(&running, RESPONSES, &asking(&[&item])).await.status,
        200
    );
    // The type may be left out.
    let bare = json!({"id": item["id"]});
    assert_eq!(
        post(&running, RESPONSES, &asking(&[&bare])).await.status,
        200
    );
    let twice = post(&running, RESPONSES, &asking(&[&item, &item])).await;
    assert_eq!(twice.status, 400);
    assert!(
        twice.text.contains("Duplicate item found with id msg_"),
        "{}",
        twice.text
    );
    let other = crate::post_as("sk-other", &running, RESPONSES, &asking(&[&item])).await;
    assert_eq!(other.status, 404);
    let error = other.json()["error"]["message"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(error.starts_with("Item with id 'msg_"), "{error}");
}
