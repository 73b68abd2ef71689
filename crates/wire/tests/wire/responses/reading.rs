//! Whole answers.

use cachalot_wire::{Block, ErrorKind, Format, RESPONSES, Reply, StopReason, Usage};
use serde_json::{Value, json};

use crate::chat::support::*;

fn response(output: Value) -> Value {
    json!({
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "error": null,
        "incomplete_details": null,
        "model": "gpt-5",
        "output": output,
        "usage": {
            "input_tokens": 2000,
            "input_tokens_details": {"cached_tokens": 1500, "cache_write_tokens": 400},
            "output_tokens": 50,
            "output_tokens_details": {"reasoning_tokens": 30},
            "total_tokens": 2050,
        },
    })
}

fn reply(body: &Value) -> Reply {
    RESPONSES.reply(body.to_string().as_bytes()).unwrap()
}

fn message(id: &str, parts: Value) -> Value {
    json!({"id": id, "type": "message", "status": "completed", "role": "assistant", "content": parts})
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "text": text, "annotations": [], "logprobs": []})
}

fn function_call(id: &str) -> Value {
    json!({
        "id": format!("fc_{id}"), "type": "function_call", "status": "completed",
        "call_id": format!("call_{id}"), "name": "t", "arguments": "{\"a\": 1}",
    })
}

#[test]
fn every_item_is_sent_back_unchanged() {
    let mut commentary = message("msg_1", json!([part("I look.")]));
    commentary["phase"] = json!("commentary");
    let output = json!([
        {"id": "rs_1", "type": "reasoning", "encrypted_content": "gAAA==", "x": null,
         "summary": [{"type": "summary_text", "text": "First."},
                     {"type": "summary_text", "text": "Then."}]},
        commentary,
        {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"q": 1}},
        function_call("1"),
        function_call("2"),
        message("msg_2", json!([
            {"type": "output_text", "text": "It is so.", "logprobs": [],
             "annotations": [{"type": "url_citation", "url": "https://a.example"}]},
            part("Really."),
            {"type": "refusal", "refusal": "No more."},
            {"type": "output_hologram", "data": "AAAA"},
        ])),
        message("msg_3", json!([part("The end.")])),
        message("msg_4", json!([])),
    ]);
    let reply = reply(&response(output.clone()));
    assert_eq!(
        pieces(&*RESPONSES, &reply.message),
        *output.as_array().unwrap()
    );
    assert_eq!(
        reply.message.text(),
        "I look.It is so.Really.No more.The end."
    );
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert_eq!(reply.model, "gpt-5");
    assert_eq!(reply.id.as_deref(), Some("resp_1"));
    assert_eq!(reply.extra["created_at"], 1_700_000_000);
    let Block::Reasoning(reasoning) = &reply.message.content[0] else {
        panic!("{:?}", reply.message);
    };
    assert_eq!(reasoning.text, "First.\n\nThen.");
    assert_eq!(reasoning.format, Format::Responses);
    assert_eq!(
        reply.usage,
        Some(Usage {
            uncached_input: 100,
            cache_read: 1500,
            cache_write_other: 400,
            output: 50,
            reasoning: 30,
            ..Usage::default()
        })
    );
}

#[test]
fn stop_reason_is_derived_from_status_and_items() {
    let stop = |output: Value, status: &str, reason: Value| {
        let mut body = response(output);
        body["status"] = json!(status);
        body["incomplete_details"] = json!({"reason": reason});
        reply(&body).stop
    };
    let text = || json!([message("m", json!([part("a")]))]);
    let refusal = json!([message("m", json!([{"type": "refusal", "refusal": "No."}]))]);
    let none = json!(null);
    assert_eq!(stop(text(), "completed", none.clone()), StopReason::End);
    assert_eq!(
        stop(json!([function_call("1")]), "completed", none.clone()),
        StopReason::ToolUse
    );
    assert_eq!(
        stop(refusal, "completed", none.clone()),
        StopReason::Refusal
    );
    assert_eq!(
        stop(text(), "incomplete", json!("max_output_tokens")),
        StopReason::Length
    );
    assert_eq!(
        stop(text(), "incomplete", json!("content_filter")),
        StopReason::Refusal
    );
    assert_eq!(
        stop(text(), "incomplete", json!("boredom")),
        StopReason::Other("boredom".into())
    );
    assert_eq!(
        stop(text(), "incomplete", none),
        StopReason::Other("incomplete".into())
    );
}

#[test]
fn readable_reasoning_is_shown_and_sent_back() {
    let item = json!({
        "type": "reasoning", "id": "rs_1", "summary": [],
        "content": [{"type": "reasoning_text", "text": "Two and two."}],
    });
    let said = json!({
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Four.", "annotations": []}],
    });
    let reply = reply(&response(json!([item, said])));
    assert!(matches!(
        &reply.message.content[0],
        Block::Reasoning(reasoning) if reasoning.text == "Two and two."
    ));
    assert_eq!(pieces(&*RESPONSES, &reply.message), [item, said]);
}

#[test]
fn call_without_call_id_gets_one() {
    let item = json!({"type": "function_call", "name": "t", "arguments": {"a": 1}});
    let body = response(json!([item, item, {"type": "function_call", "id": "fc_9", "name": "t"}]));
    let read = calls(&reply(&body));
    assert_eq!(read, calls(&reply(&body)));
    assert_ne!(read[0].0, read[1].0);
    assert_eq!(read[0].2, "{\"a\":1}");
    assert_eq!(read[2].0, "fc_9");
}

#[test]
fn incomplete_response_is_an_error() {
    let error = |body: Value| RESPONSES.reply(body.to_string().as_bytes()).unwrap_err();
    let mut failed = response(json!([]));
    failed["status"] = json!("failed");
    assert_eq!(error(failed.clone()).kind, ErrorKind::Unavailable);
    failed["error"] = json!({"code": "rate_limit_exceeded", "message": "Slow down"});
    let limited = error(failed);
    assert_eq!(limited.kind, ErrorKind::Limited);
    assert_eq!(limited.code.as_deref(), Some("rate_limit_exceeded"));
    assert_eq!(limited.message, "Slow down");
    for status in ["in_progress", "queued", "cancelled"] {
        let mut body = response(json!([]));
        body["status"] = json!(status);
        assert_eq!(error(body).kind, ErrorKind::CutOff, "{status}");
    }
    assert_eq!(error(json!({"choices": []})).kind, ErrorKind::Malformed);
    assert_eq!(
        RESPONSES.reply(b"<html>").unwrap_err().kind,
        ErrorKind::Malformed
    );
}
