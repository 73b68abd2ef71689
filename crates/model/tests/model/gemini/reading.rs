//! Answers, in one piece and as a stream.

use cachalot_model::wire::sse::Event;
use cachalot_model::{
    Block, Delta, Error, ErrorKind, Message, Reply, Request, Role, StopReason, Usage,
};
use serde_json::{Value, json};

use super::{body_with, model, wire};

fn whole(answer: &Value) -> Result<Reply, Error> {
    wire().reply(answer.to_string().as_bytes())
}

fn streamed(chunks: &[Value]) -> (Result<Reply, Error>, Vec<Delta>) {
    let mut reader = wire().reader();
    let mut deltas = Vec::new();
    for chunk in chunks {
        let event = Event {
            name: "message".to_owned(),
            data: chunk.to_string(),
        };
        match reader.event(&event) {
            Ok(more) => deltas.extend(more),
            Err(error) => return (Err(error), deltas),
        }
    }
    (reader.finish(), deltas)
}

fn chunk(parts: Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": 100, "cachedContentTokenCount": 40, "toolUsePromptTokenCount": 5,
            "candidatesTokenCount": 7, "thoughtsTokenCount": 3, "totalTokenCount": 115,
        },
        "modelVersion": "gemini-3-pro-preview",
        "responseId": "r-1",
    })
}

#[test]
fn answer_contains_text_reasoning_and_usage() {
    let parts = json!([{"text": "Hm.", "thought": true}, {"text": "Deep."}]);
    let reply = whole(&chunk(parts, Some("STOP"))).unwrap();
    assert_eq!(
        (reply.message.text().as_str(), reply.stop),
        ("Deep.", StopReason::End)
    );
    assert!(
        matches!(&reply.message.content[0], Block::Reasoning(thought) if thought.text == "Hm.")
    );
    assert_eq!(
        (reply.model.as_str(), reply.id.as_deref()),
        ("gemini-3-pro-preview", Some("r-1"))
    );
    assert_eq!(
        reply.usage,
        Some(Usage {
            uncached_input: 65,
            cache_read: 40,
            output: 10,
            reasoning: 3,
            ..Usage::default()
        })
    );
}

#[test]
fn streamed_answer_equals_the_whole_answer() {
    let (reply, deltas) = streamed(&[
        chunk(json!([{"text": "Let me ", "thought": true}]), None),
        chunk(json!([{"text": "think.", "thought": true}]), None),
        chunk(json!([{"text": "Two "}]), None),
        chunk(json!([{"text": "thousand."}]), None),
        chunk(
            json!([{"text": "", "thoughtSignature": "c2ln"}]),
            Some("STOP"),
        ),
    ]);
    let reply = reply.unwrap();
    assert_eq!(reply.message.text(), "Two thousand.");
    assert_eq!(reply.message.content.len(), 3);
    assert_eq!(
        deltas,
        [
            Delta::Reasoning("Let me ".into()),
            Delta::Reasoning("think.".into()),
            Delta::Text("Two ".into()),
            Delta::Text("thousand.".into()),
        ]
    );
}

/// An answer is sent back part by part, signatures and arguments byte for byte.
#[test]
fn answer_is_sent_back_unchanged() {
    let parts = json!([
        {"text": "Let me think.", "thought": true, "thoughtSignature": "AAA="},
        {"text": "I look", "thoughtSignature": "BBB="},
        {"text": " here."},
        {"functionCall": {"id": "c1", "name": "look", "args": {"b": 1, "a": [2.0, "ä"]}}, "thoughtSignature": "CCC="},
        {"functionCall": {"id": "c2", "name": "look", "args": {}}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"text": "", "thoughtSignature": "DDD="},
    ]);
    let answers = [
        whole(&chunk(parts.clone(), Some("STOP"))).unwrap(),
        streamed(&[chunk(parts.clone(), None), chunk(json!([]), Some("STOP"))])
            .0
            .unwrap(),
    ];
    for reply in answers {
        assert_eq!(reply.stop, StopReason::ToolUse);
        let kept: Message =
            serde_json::from_value(serde_json::to_value(&reply.message).unwrap()).unwrap();
        let request = Request {
            messages: vec![Message::user("x"), kept],
            ..Request::default()
        };
        for wire in [wire(), model("gemini-3-pro-preview").wire()] {
            let body = body_with(wire, &request);
            assert_eq!(
                body["contents"][1],
                json!({"role": "model", "parts": parts})
            );
        }
    }
}

#[test]
fn calls_without_ids_get_local_ids_that_are_not_sent() {
    let parts = json!([
        {"functionCall": {"name": "look", "args": {"path": "a"}}},
        {"functionCall": {"name": "look"}},
    ]);
    let (reply, deltas) = streamed(&[chunk(parts, Some("STOP"))]);
    let reply = reply.unwrap();
    let calls: Vec<_> = reply.message.tool_uses().cloned().collect();
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0].id, calls[1].id);
    assert_eq!(
        (calls[0].arguments.as_str(), calls[1].arguments.as_str()),
        (r#"{"path":"a"}"#, "{}")
    );
    assert_eq!(deltas.len(), 4);
    let results = calls.iter().map(|call| {
        Block::ToolResult(cachalot_model::ToolResult {
            id: call.id.clone(),
            content: vec![Block::text("yes")],
            is_error: false,
            extra: serde_json::Map::new(),
        })
    });
    let request = Request {
        messages: vec![
            Message::user("x"),
            reply.message.clone(),
            Message::new(Role::User, results.collect()),
        ],
        ..Request::default()
    };
    let body = body_with(wire(), &request);
    assert_eq!(
        body["contents"][2]["parts"][0],
        json!({"functionResponse": {"name": "look", "response": {"output": "yes"}}})
    );
    assert_eq!(
        body["contents"][1]["parts"][1],
        json!({"functionCall": {"name": "look", "args": {}}})
    );
}

#[test]
fn finish_reasons_are_mapped() {
    for (reason, expected) in [
        ("STOP", StopReason::End),
        ("MAX_TOKENS", StopReason::Length),
        ("SAFETY", StopReason::Refusal),
        ("RECITATION", StopReason::Refusal),
        ("PROHIBITED_CONTENT", StopReason::Refusal),
        (
            "MALFORMED_FUNCTION_CALL",
            StopReason::Other("MALFORMED_FUNCTION_CALL".into()),
        ),
    ] {
        let reply = whole(&chunk(json!([{"text": "x"}]), Some(reason))).unwrap();
        assert_eq!(reply.stop, expected);
    }
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {"promptTokenCount": 3}});
    let reply = whole(&blocked).unwrap();
    assert_eq!(
        (reply.stop, reply.message.content.len()),
        (StopReason::Refusal, 0)
    );
    assert_eq!(reply.usage.unwrap().total_input(), 3);
}

#[test]
fn invalid_responses_are_reported() {
    let (reply, deltas) = streamed(&[chunk(json!([{"text": "Dee"}]), None)]);
    assert_eq!(reply.unwrap_err().kind, ErrorKind::CutOff);
    assert_eq!(deltas.len(), 1);
    let error = json!({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}});
    let (reply, _) = streamed(std::slice::from_ref(&error));
    let failed = reply.unwrap_err();
    assert_eq!(
        (failed.kind, failed.status),
        (ErrorKind::Unavailable, Some(503))
    );
    assert_eq!(
        whole(&json!({"candidates": []})).unwrap_err().kind,
        ErrorKind::Malformed
    );
    assert!(wire().reply(b"[1]").is_err());
    let odd = chunk(json!([{"functionCall": {"args": {}}}]), Some("STOP"));
    assert_eq!(whole(&odd).unwrap_err().kind, ErrorKind::Malformed);
}
