//! Chat Completions: shapes of answers and chunks.

use cachalot_simulator::{Script, ScriptedReply, ScriptedStop};
use serde_json::{Value, json};

use crate::{CHAT, ask, post, smallest, start, with};

fn tools() -> Value {
    let tool = |name: &str| json!({"type": "function", "function": {"name": name, "parameters": {"type": "object"}}});
    json!([tool("look"), tool("dive")])
}

#[tokio::test]
async fn completion_has_the_published_schema() {
    let running = start(Script::answers(["Good morning."])).await;
    let got = post(&running, CHAT, &smallest(CHAT, "Hello")).await;
    assert!(got.header("x-request-id").starts_with("req_"));
    let answer = got.json();
    assert!(answer["id"].as_str().unwrap().starts_with("chatcmpl-"));
    assert!(answer["created"].as_i64().unwrap() > 1_700_000_000);
    assert_eq!(answer["object"], "chat.completion");
    assert_eq!(
        answer["choices"],
        json!([{
            "index": 0, "logprobs": null, "finish_reason": "stop",
            "message": {"role": "assistant", "content": "Good morning.", "refusal": null, "annotations": []},
        }])
    );
    assert_eq!(
        answer["usage"],
        json!({
            "prompt_tokens": 2, "completion_tokens": 4, "total_tokens": 6,
            "prompt_tokens_details": {"cached_tokens": 0, "audio_tokens": 0},
            "completion_tokens_details": {
                "reasoning_tokens": 0, "audio_tokens": 0,
                "accepted_prediction_tokens": 0, "rejected_prediction_tokens": 0,
            },
        })
    );
}

#[tokio::test]
async fn chunks_join_to_the_completion() {
    let reply = ScriptedReply::text("I look at it, and I dive for it as deep as I can.")
        .with_reasoning("What would a whale do now?")
        .and_call("look", json!({"at": "the sea"}))
        .and_call(
            "dive",
            json!({"metres": 2_000, "why": "squid of considerable size"}),
        );
    let running = start(Script::replies(vec![reply])).await;
    let request = with(smallest(CHAT, "Dive"), json!({"tools": tools()}));
    let whole = ask(&running, CHAT, &request).await;
    let stream = json!({"stream": true, "stream_options": {"include_usage": true}});
    let got = post(&running, CHAT, &with(request.clone(), stream)).await;
    assert_eq!(got.events().last().unwrap().1, "[DONE]");
    let mut chunks = got.data();
    let usage = chunks.pop().unwrap();
    assert_eq!(
        (&usage["choices"], &usage["usage"]),
        (&json!([]), &whole["usage"])
    );

    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), Vec::<Value>::new());
    assert_eq!(chunks[0]["choices"][0]["delta"]["role"], "assistant");
    for chunk in &chunks {
        assert_eq!(chunk["object"], "chat.completion.chunk");
        assert_eq!(chunk["id"], chunks[0]["id"]);
        assert_eq!(chunk["usage"], Value::Null);
        let delta = &chunk["choices"][0]["delta"];
        text += delta["content"].as_str().unwrap_or_default();
        reasoning += delta["reasoning_content"].as_str().unwrap_or_default();
        let Some(call) = delta["tool_calls"].get(0) else {
            continue;
        };
        let at = usize::try_from(call["index"].as_u64().unwrap()).unwrap();
        if at == calls.len() {
            calls.push(call.clone());
        } else {
            let so_far = calls[at]["function"]["arguments"]
                .as_str()
                .unwrap()
                .to_owned();
            let more = call["function"]["arguments"].as_str().unwrap();
            calls[at]["function"]["arguments"] = json!(so_far + more);
        }
    }
    let message = &whole["choices"][0]["message"];
    assert_eq!(message["content"], json!(text));
    assert_eq!(message["reasoning_content"], json!(reasoning));
    for (streamed, whole) in calls.iter().zip(message["tool_calls"].as_array().unwrap()) {
        assert_eq!(streamed["function"], whole["function"]);
        assert_eq!(streamed["type"], "function");
    }
    assert_eq!(calls.len(), 2);
    let last = chunks.last().unwrap();
    assert_eq!(last["choices"][0]["finish_reason"], "tool_calls");
    // Without the option there is no usage at all.
    let plain = post(&running, CHAT, &with(request, json!({"stream": true}))).await;
    assert!(
        plain
            .data()
            .iter()
            .all(|chunk| chunk.get("usage").is_none())
    );
}

#[tokio::test]
async fn tool_call_and_result_round_trip() {
    let call = ScriptedReply::call("look", json!({"at": "the sea"})).and_call("dive", json!({}));
    let running = start(Script::replies(vec![
        call,
        ScriptedReply::text("It is blue."),
    ]))
    .await;
    let request = with(smallest(CHAT, "Which color?"), json!({"tools": tools()}));
    let first = ask(&running, CHAT, &request).await;
    let message = &first["choices"][0]["message"];
    assert_eq!(message["content"], Value::Null);
    let arguments = message["tool_calls"][0]["function"]["arguments"]
        .as_str()
        .unwrap();
    assert_eq!(arguments, r#"{"at":"the sea"}"#);
    let result = |at: usize| json!({"role": "tool", "tool_call_id": message["tool_calls"][at]["id"], "content": "blue"});
    let messages =
        json!([{"role": "user", "content": "Which color?"}, message, result(1), result(0)]);
    let second = with(request, json!({"messages": messages}));
    let answer = ask(&running, CHAT, &second).await;
    assert_eq!(answer["choices"][0]["message"]["content"], "It is blue.");
    assert!(running.violations().is_empty());
}

#[tokio::test]
async fn reasoning_is_shown_for_scripted_reasoning_models_only() {
    let reply = ScriptedReply::text("Yes.").with_reasoning("Hm.");
    let script = Script::replies(vec![reply]).with_reasoning_models(["deepseek-*"]);
    let running = start(script).await;
    for (model, shown) in [("deepseek-reasoner", json!("Hm.")), ("gpt-4o", Value::Null)] {
        let answer = ask(
            &running,
            CHAT,
            &with(smallest(CHAT, "?"), json!({"model": model})),
        )
        .await;
        assert_eq!(
            answer["choices"][0]["message"]["reasoning_content"], shown,
            "{model}"
        );
    }
}

#[tokio::test]
async fn limits_stops_and_refusals_set_the_finish_reason() {
    let refusal = ScriptedReply::text("No.").with_stop(ScriptedStop::Refusal);
    let long = ScriptedReply::text("one two three four");
    let running = start(Script::replies(vec![refusal, long])).await;
    let reason = |fields: Value| {
        let request = with(smallest(CHAT, "?"), fields);
        let running = &running;
        async move {
            let answer = ask(running, CHAT, &request).await;
            let choice = answer["choices"][0].clone();
            let text = choice["message"]["content"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            (choice["finish_reason"].as_str().unwrap().to_owned(), text)
        }
    };
    let pair = |reason: &str, text: &str| (reason.to_owned(), text.to_owned());
    assert_eq!(reason(json!({})).await, pair("content_filter", "No."));
    assert_eq!(
        reason(json!({"max_completion_tokens": 1})).await,
        pair("length", "one ")
    );
    assert_eq!(
        reason(json!({"max_tokens": 2})).await,
        pair("length", "one two ")
    );
    assert_eq!(
        reason(json!({"stop": "three"})).await,
        pair("stop", "one two ")
    );
    assert_eq!(
        reason(json!({"stop": ["x", "two"]})).await,
        pair("stop", "one ")
    );
}

#[tokio::test]
async fn n_sets_the_number_of_choices() {
    let reply = ScriptedReply::text("I look.").and_call("look", json!({"at": "the sea"}));
    let running = start(Script::replies(vec![reply.clone(), reply.clone(), reply])).await;
    let tool = json!({"type": "function", "function": {"name": "look"}});
    let one = with(smallest(CHAT, "Hello"), json!({"tools": [tool]}));
    let single = ask(&running, CHAT, &one).await;
    let three = with(one, json!({"n": 3}));
    let whole = ask(&running, CHAT, &three).await;
    let choices = whole["choices"].as_array().unwrap();
    let mut ids = std::collections::HashSet::new();
    for (at, choice) in choices.iter().enumerate() {
        assert_eq!(choice["index"], at);
        assert_eq!(choice["message"]["content"], "I look.");
        let call = &choice["message"]["tool_calls"][0];
        assert!(ids.insert(call["id"].as_str().unwrap().to_owned()));
    }
    assert_eq!(choices.len(), 3);
    let tokens = |answer: &Value| answer["usage"]["completion_tokens"].as_u64().unwrap();
    assert_eq!(tokens(&whole), 3 * tokens(&single));

    let streamed = with(three, json!({"stream": true}));
    let mut texts = [String::new(), String::new(), String::new()];
    let mut ends = 0;
    for chunk in post(&running, CHAT, &streamed).await.data() {
        let choice = &chunk["choices"][0];
        let at = usize::try_from(choice["index"].as_u64().unwrap()).unwrap();
        texts[at] += choice["delta"]["content"].as_str().unwrap_or_default();
        ends += usize::from(choice["finish_reason"] == "tool_calls");
    }
    assert_eq!((texts, ends), (["I look."; 3].map(str::to_owned), 3));
    for (n, expected) in [
        (json!(0), "Expected a value >= 1, but got 0"),
        (json!(-1), "Expected a value >= 1, but got -1"),
        (json!(129), "Expected a value <= 128, but got 129"),
        (json!("2"), "expected an integer"),
    ] {
        let refused = post(
            &running,
            CHAT,
            &with(smallest(CHAT, "Hello"), json!({"n": n})),
        )
        .await;
        assert_eq!(refused.status, 400);
        assert!(refused.text.contains(expected), "{}", refused.text);
        assert_eq!(refused.json()["error"]["param"], "n");
    }
}
