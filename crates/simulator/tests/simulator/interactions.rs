//! Gemini's Interactions.

use cachalot_simulator::{RunningSimulator, Script, ScriptedReply, ScriptedUsage};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{ask, post, send, start, with};

const INTERACTIONS: &str = "/v1beta/interactions";

fn request(fields: Value) -> Value {
    with(
        json!({"model": "gemini-3.8-flash", "input": "Hello"}),
        fields,
    )
}

async fn refused(running: &RunningSimulator, fields: Value, status: u16, message: &str) {
    let got = post(running, INTERACTIONS, &request(fields.clone())).await;
    assert_eq!(got.status, status, "{fields}: {}", got.text);
    let error = &got.json()["error"];
    assert!(
        error["message"].as_str().unwrap().contains(message),
        "{}",
        got.text
    );
}

#[tokio::test]
async fn interaction_has_steps_and_usage() {
    let reply = ScriptedReply::text("Good morning.").with_reasoning("Greet.");
    let running = start(Script::replies(vec![reply])).await;
    let thinking = json!({"generation_config": {"thinking_summaries": "auto"}});
    let answer = ask(&running, INTERACTIONS, &request(thinking)).await;
    assert_eq!(
        (&answer["object"], &answer["status"]),
        (&json!("interaction"), &json!("completed"))
    );
    assert_eq!(
        answer["steps"][0]["summary"],
        json!([{"type": "text", "text": "Greet."}])
    );
    let text =
        json!({"type": "model_output", "content": [{"type": "text", "text": "Good morning."}]});
    assert_eq!(answer["steps"][1], text);
    let created = answer["created"].as_str().unwrap();
    assert!(created.len() == 20 && created.ends_with('Z'), "{created}");
    // 5 bytes in; 13 and 6 bytes out.
    assert_eq!(
        answer["usage"],
        json!({
            "total_input_tokens": 2, "input_tokens_by_modality": [{"modality": "text", "tokens": 2}],
            "total_cached_tokens": 0,
            "total_output_tokens": 4, "output_tokens_by_modality": [{"modality": "text", "tokens": 4}],
            "total_thought_tokens": 2, "total_tool_use_tokens": 0, "total_tokens": 8,
        })
    );
    // Without being asked for, thoughts are not shown, and all forms of a text are equal.
    let running = start(Script::built_in()).await;
    for input in [
        json!("Hello"),
        json!({"type": "text", "text": "Hello"}),
        json!([{"type": "text", "text": "Hello"}]),
        json!([{"type": "user_input", "content": [{"type": "text", "text": "Hello"}]}]),
    ] {
        let answer = ask(&running, INTERACTIONS, &request(json!({"input": input}))).await;
        assert_eq!(answer["steps"][0]["type"], "model_output", "{input}");
        assert_eq!(answer["usage"]["total_input_tokens"], 2, "{input}");
    }
    assert!(running.violations().is_empty());
}

#[tokio::test]
async fn interaction_is_continued_described_and_deleted() {
    let script = Script::parse(
        "script.yaml",
        "
rules:
  - user: Where
    tools: [look]
    steps:
      - tool_calls: [{name: look, arguments: {at: sea}}]
      - text: 'Found: {{last_result}}.'
",
    );
    let running = start(script.unwrap()).await;
    let tools = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}}]);
    let first = request(json!({"input": "Where is it?", "tools": tools}));
    let first = ask(&running, INTERACTIONS, &first).await;
    assert_eq!(first["status"], "requires_action");
    let call = &first["steps"][0];
    assert_eq!(
        (&call["name"], &call["arguments"]),
        (&json!("look"), &json!({"at": "sea"}))
    );
    let result = json!([{"type": "function_result", "name": "look", "call_id": call["id"], "result": "a fin"}]);
    let second = json!({"previous_interaction_id": first["id"], "input": result, "tools": tools});
    let second = ask(&running, INTERACTIONS, &request(second)).await;
    assert_eq!(second["steps"][0]["content"][0]["text"], "Found: a fin.");
    assert_eq!(second["previous_interaction_id"], first["id"]);
    assert!(
        second["usage"]["total_input_tokens"].as_u64()
            > first["usage"]["total_input_tokens"].as_u64()
    );
    // The same conversation without the provider's memory.
    let steps = json!([
        {"type": "user_input", "content": [{"type": "text", "text": "Where is it?"}]}, call, result[0],
    ]);
    let whole = ask(
        &running,
        INTERACTIONS,
        &request(json!({"input": steps, "tools": tools})),
    )
    .await;
    assert_eq!(
        whole["usage"]["total_input_tokens"],
        second["usage"]["total_input_tokens"]
    );

    let path = format!("{INTERACTIONS}/{}", second["id"].as_str().unwrap());
    // Official clients use either version of the path.
    for path in [path.clone(), path.replace("/v1beta/", "/v1/")] {
        let described = send(&running, Method::GET, &path, None).await;
        assert_eq!((described.status, described.json()), (200, second.clone()));
    }
    let other = crate::shared_client()
        .get(format!("{}{path}", running.url()))
        .bearer_auth("sk-other");
    assert_eq!(other.send().await.unwrap().status(), 404);
    let deleted = send(&running, Method::DELETE, &path, None).await;
    assert_eq!((deleted.status, deleted.json()), (200, json!({})));
    assert_eq!(send(&running, Method::GET, &path, None).await.status, 404);
    assert_eq!(
        send(&running, Method::DELETE, &path, None).await.status,
        404
    );
    let gone = json!({"previous_interaction_id": second["id"]});
    refused(&running, gone, 404, "not found").await;

    let unstored = ask(&running, INTERACTIONS, &request(json!({"store": false}))).await;
    let path = format!("{INTERACTIONS}/{}", unstored["id"].as_str().unwrap());
    assert_eq!(send(&running, Method::GET, &path, None).await.status, 404);
}

#[tokio::test]
async fn stream_has_the_events_of_each_step() {
    let reply = ScriptedReply::text("Good morning.").and_call("look", json!({"at": "sea"}));
    let usage = ScriptedUsage {
        web_searches: Some(3),
        service_tier: Some("priority"),
        ..ScriptedUsage::default()
    };
    let running = start(Script::replies(vec![reply.with_usage(usage)])).await;
    let tools = json!([{"type": "function", "name": "look"}, {"type": "google_search"}]);
    let streamed = request(json!({"stream": true, "service_tier": "flex", "tools": tools}));
    let got = post(&running, INTERACTIONS, &streamed).await;
    let names: Vec<String> = got.events().into_iter().map(|(name, _)| name).collect();
    let step = ["step.start", "step.delta", "step.stop"];
    let expected: Vec<&str> = ["interaction.created", "interaction.status_update"]
        .into_iter()
        .chain(step)
        .chain(step)
        .chain(["interaction.completed", "done"])
        .collect();
    assert_eq!(names, expected);
    let data = got.data();
    for (name, data) in names.iter().zip(&data) {
        assert_eq!(data["event_type"], json!(name));
        assert!(data["event_id"].is_string());
    }
    assert_eq!(data[0]["interaction"]["status"], "in_progress");
    assert_eq!(data[2]["step"], json!({"type": "model_output"}));
    assert_eq!(
        data[3]["delta"],
        json!({"type": "text", "text": "Good morning."})
    );
    let call = &data[5]["step"];
    assert_eq!(
        (&call["name"], &call["arguments"]),
        (&json!("look"), &json!({}))
    );
    let delta = json!({"type": "arguments_delta", "arguments": r#"{"at":"sea"}"#});
    assert_eq!((&data[6]["index"], &data[6]["delta"]), (&json!(1), &delta));
    let ended = &data[8]["interaction"];
    assert_eq!(ended["status"], "requires_action");
    assert_eq!(ended["service_tier"], "priority");
    let searches = json!([{"type": "google_search", "count": 3}]);
    assert_eq!(ended["usage"]["grounding_tool_count"], searches);
    assert_eq!(ended["id"], data[0]["interaction"]["id"]);
}

#[tokio::test]
async fn invalid_interactions_are_refused() {
    let running = start(Script::built_in()).await;
    for (fields, status, message) in [
        (json!({"model": ""}), 400, "Either 'model' or 'agent'"),
        (json!({"input": []}), 400, "Invalid value at 'input'"),
        (json!({"temprature": 1}), 400, "Unknown name \"temprature\""),
        (
            json!({"input": [{"type": "user_input", "text": "x"}]}),
            400,
            "Unknown name \"input[0].text\"",
        ),
        (
            json!({"input": [{"type": "function_result", "call_id": "c", "result": "x"}]}),
            400,
            "No function call found",
        ),
        (
            json!({"previous_interaction_id": "v1_none"}),
            404,
            "Interaction 'v1_none' not found.",
        ),
        (
            json!({"generation_config": {"tool_choice": "any"}}),
            400,
            "there are no functions",
        ),
        (
            json!({"tools": [{"type": "function", "name": "a"}, {"type": "function", "name": "a"}]}),
            400,
            "Duplicate function declaration found: a",
        ),
        (
            json!({"background": true}),
            400,
            "The simulator does not have 'background'",
        ),
    ] {
        refused(&running, fields, status, message).await;
    }
    let got = post(
        &start(Script::built_in().with_required_key("k")).await,
        INTERACTIONS,
        &request(json!({})),
    )
    .await;
    assert_eq!(
        (got.status, &got.json()["error"]["status"]),
        (400, &json!("INVALID_ARGUMENT"))
    );
}

#[tokio::test]
async fn required_schemas_and_forced_functions_are_followed() {
    let running = start(Script::built_in()).await;
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let format = json!({"type": "text", "mime_type": "application/json", "schema": schema});
    for format in [format.clone(), json!([format])] {
        let answer = ask(
            &running,
            INTERACTIONS,
            &request(json!({"response_format": format})),
        )
        .await;
        assert_eq!(answer["steps"][0]["content"][0]["text"], r#"{"n":0}"#);
    }
    let tools = json!([{"type": "function", "name": "a"}, {"type": "function", "name": "b"}]);
    let choice = json!({"allowed_tools": {"mode": "any", "tools": ["b"]}});
    let forced = json!({"tools": tools, "generation_config": {"tool_choice": choice}});
    let answer = ask(&running, INTERACTIONS, &request(forced)).await;
    assert_eq!(answer["steps"][0]["name"], "b");
}
