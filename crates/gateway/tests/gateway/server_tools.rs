//! Answers with the output of tools that the provider has run are not stored, whatever the request offers.

use std::sync::Arc;

use cachalot_gateway::Limits;
use serde_json::{Value, json};

use crate::fake_upstream::{FakeUpstream, answer, media};
use crate::support::{Setup, streamed};

/// A request without tools, and answers to it: one that the model alone wrote, and others.
struct Case {
    path: &'static str,
    streamed_path: &'static str,
    request: Value,
    plain: Value,
    others: Vec<Value>,
    /// The events of a streamed answer.
    events: fn(&Value) -> Vec<(&'static str, Value)>,
}

fn responses(output: &Value) -> Value {
    json!({"id": "resp_1", "object": "response", "status": "completed", "model": "gpt-6-sol", "output": output,
        "usage": {"input_tokens": 10, "output_tokens": 2, "total_tokens": 12}})
}

fn said(annotations: &Value) -> Value {
    json!({"type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "sunny", "annotations": annotations}]})
}

fn messages(content: &Value) -> Value {
    json!({"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": content,
        "stop_reason": "end_turn", "stop_sequence": null, "usage": {"input_tokens": 10, "output_tokens": 2}})
}

fn chat(message: &Value) -> Value {
    json!({"id": "c", "object": "chat.completion", "created": 1, "model": "gpt-4o-mini",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12}})
}

fn gemini(parts: &Value, further: &Value) -> Value {
    let mut candidate =
        json!({"content": {"role": "model", "parts": parts}, "finishReason": "STOP", "index": 0});
    for (name, value) in further.as_object().unwrap() {
        candidate[name] = value.clone();
    }
    json!({"candidates": [candidate], "modelVersion": "gemini-3-flash", "responseId": "r",
        "usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2}})
}

fn responses_events(answer: &Value) -> Vec<(&'static str, Value)> {
    let mut events = vec![(
        "response.created",
        json!({"type": "response.created", "response": {"id": "resp_1"}}),
    )];
    for (at, item) in answer["output"].as_array().unwrap().iter().enumerate() {
        for name in ["response.output_item.added", "response.output_item.done"] {
            events.push((
                name,
                json!({"type": name, "output_index": at, "item": item}),
            ));
        }
    }
    events.push((
        "response.completed",
        json!({"type": "response.completed", "response": answer}),
    ));
    events
}

fn messages_events(answer: &Value) -> Vec<(&'static str, Value)> {
    let mut begun = answer.clone();
    begun["content"] = json!([]);
    let mut events = vec![(
        "message_start",
        json!({"type": "message_start", "message": begun}),
    )];
    for (at, block) in answer["content"].as_array().unwrap().iter().enumerate() {
        events.push((
            "content_block_start",
            json!({"type": "content_block_start", "index": at, "content_block": block}),
        ));
        events.push((
            "content_block_stop",
            json!({"type": "content_block_stop", "index": at}),
        ));
    }
    events.push((
        "message_delta",
        json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}}),
    ));
    events.push(("message_stop", json!({"type": "message_stop"})));
    events
}

fn chat_events(answer: &Value) -> Vec<(&'static str, Value)> {
    let chunk = json!({"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o-mini",
        "choices": [{"index": 0, "delta": answer["choices"][0]["message"], "finish_reason": "stop"}],
        "usage": answer["usage"]});
    vec![("", chunk), ("", json!("[DONE]"))]
}

fn gemini_events(answer: &Value) -> Vec<(&'static str, Value)> {
    vec![("", answer.clone())]
}

fn interaction(steps: &Value) -> Value {
    json!({"id": "v1_1", "object": "interaction", "model": "gemini-3-flash", "status": "completed",
        "steps": steps, "usage": {"total_input_tokens": 3, "total_output_tokens": 2}})
}

fn interaction_events(answer: &Value) -> Vec<(&'static str, Value)> {
    let mut ended = answer.clone();
    let steps = ended.as_object_mut().unwrap().remove("steps").unwrap();
    let created = json!({"event_type": "interaction.created", "interaction": {"id": "v1_1"}});
    let mut events = vec![("interaction.created", created)];
    for (index, step) in steps.as_array().unwrap().iter().enumerate() {
        let start = json!({"event_type": "step.start", "index": index, "step": step});
        events.push(("step.start", start));
        events.push((
            "step.stop",
            json!({"event_type": "step.stop", "index": index}),
        ));
    }
    let completed = json!({"event_type": "interaction.completed", "interaction": ended});
    events.push(("interaction.completed", completed));
    events
}

fn cases() -> Vec<Case> {
    let web = json!([{"type": "url_citation", "url": "https://a.example", "title": "t", "start_index": 0, "end_index": 5}]);
    let text = json!({"type": "text", "text": "sunny"});
    let search = json!({"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}});
    vec![
        Case {
            path: "/v1/responses",
            streamed_path: "/v1/responses",
            request: json!({"model": "gpt-6-sol", "store": false, "input": "news?"}),
            plain: responses(&json!([said(&json!([]))])),
            others: vec![
                responses(
                    &json!([{"type": "web_search_call", "id": "ws_1", "status": "completed"}, said(&json!([]))]),
                ),
                responses(&json!([said(&web)])),
            ],
            events: responses_events,
        },
        Case {
            path: "/v1/messages",
            streamed_path: "/v1/messages",
            request: json!({"model": "claude-opus-5-5", "max_tokens": 100, "messages": [{"role": "user", "content": "news?"}]}),
            plain: messages(&json!([text])),
            others: vec![messages(&json!([search, text]))],
            events: messages_events,
        },
        Case {
            path: "/v1/chat/completions",
            streamed_path: "/v1/chat/completions",
            request: json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": "news?"}]}),
            plain: chat(&json!({"role": "assistant", "content": "sunny", "annotations": []})),
            others: vec![chat(
                &json!({"role": "assistant", "content": "sunny", "annotations": web}),
            )],
            events: chat_events,
        },
        Case {
            path: "/v1beta/models/gemini-3-flash:generateContent",
            streamed_path: "/v1beta/models/gemini-3-flash:streamGenerateContent?alt=sse",
            request: json!({"contents": [{"role": "user", "parts": [{"text": "news?"}]}]}),
            plain: gemini(&json!([{"text": "sunny"}]), &json!({})),
            others: vec![
                gemini(
                    &json!([{"text": "sunny"}]),
                    &json!({"groundingMetadata": {"webSearchQueries": ["x"]}}),
                ),
                gemini(
                    &json!([{"executableCode": {"language": "PYTHON", "code": "1"}}, {"text": "1"}]),
                    &json!({}),
                ),
            ],
            events: gemini_events,
        },
        Case {
            path: "/v1beta/interactions",
            streamed_path: "/v1beta/interactions",
            request: json!({"model": "gemini-3-flash", "store": false, "input": "news?"}),
            plain: interaction(&json!([{"type": "model_output", "content": [text]}])),
            others: vec![
                interaction(&json!([
                    {"type": "google_search_call", "id": "g1", "arguments": {"queries": ["x"]}},
                    {"type": "model_output", "content": [text]},
                ])),
                interaction(&json!([{"type": "model_output", "content": [
                    {"type": "text", "text": "sunny", "annotations": web}]}])),
                interaction(&json!([{"type": "model_output", "content": [
                    {"type": "brand_new", "result": []}, text]}])),
            ],
            events: interaction_events,
        },
    ]
}

/// The body of an answer in the form that was asked for.
fn body(case: &Case, document: &Value, is_streamed: bool) -> String {
    if !is_streamed {
        return document.to_string();
    }
    let events = (case.events)(document);
    let lines = events.iter().map(|(name, data)| {
        let name = if name.is_empty() {
            String::new()
        } else {
            format!("event: {name}\n")
        };
        let data = data
            .as_str()
            .map_or_else(|| data.to_string(), str::to_owned);
        format!("{name}data: {data}\n\n")
    });
    lines.collect()
}

#[tokio::test]
async fn answers_with_output_of_the_providers_tools_are_not_replayed_in_another_run() {
    for case in cases() {
        for is_streamed in [false, true] {
            let documents = std::iter::once(&case.plain).chain(&case.others);
            for (at, document) in documents.enumerate() {
                let sent = Arc::new(body(&case, document, is_streamed));
                let served = Arc::clone(&sent);
                let upstream =
                    FakeUpstream::start(move |_| answer("200 OK", media(is_streamed), &served));
                let upstream = upstream.await;
                let setup = Setup::in_front_of(upstream.address, Limits::default()).await;
                let (path, request) = match is_streamed {
                    true if case.path == case.streamed_path => {
                        (case.path, streamed(case.request.clone()))
                    }
                    true => (case.streamed_path, case.request.clone()),
                    false => (case.path, case.request.clone()),
                };
                for run in 0..2 {
                    let got = setup.ask(&format!("/p/a/r/{run}{path}"), &request).await;
                    assert_eq!((got.status, &*got.body), (200, &**sent), "{path}");
                    let expected = match (at, run) {
                        (0, 1) => "hit",
                        _ => "miss",
                    };
                    assert_eq!(
                        got.source(),
                        expected,
                        "{path} {sent}: {}",
                        got.cache_status()
                    );
                }
                let row = setup.cache.ledger().recent(1).unwrap().remove(0);
                match (at, row.not_stored) {
                    (0, reason) => assert_eq!(reason, None, "{path}"),
                    (_, Some(reason)) => {
                        assert!(reason.contains("a tool of the provider"), "{reason}")
                    }
                    (_, None) => panic!("{path}: the reason is missing"),
                }
            }
        }
    }
}
