//! Complete answers.

use cachalot_wire::{Block, ErrorKind, Format, Reasoning, Role, StopReason, Usage};
use serde_json::{Value, json};

use super::{body, messages, reply};

#[test]
fn answer_is_parsed() {
    let answer = json!({
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
        "content": [
            {"type": "thinking", "thinking": "hm", "signature": "c2ln"},
            {"type": "redacted_thinking", "data": "eA=="},
            {"type": "text", "text": "Reading."},
            {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"path": "a"},
             "caller": {"type": "direct"}},
            {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        ],
        "stop_reason": "tool_use", "stop_sequence": null,
        "usage": {"input_tokens": 10, "output_tokens": 5}, "container": {"id": "c"}
    });
    let reply = reply(&answer).unwrap();
    assert_eq!(reply.model, "claude-sonnet-4-5");
    assert_eq!(reply.id.as_deref(), Some("msg_1"));
    assert_eq!(reply.stop, StopReason::ToolUse);
    assert_eq!(
        Value::Object(reply.extra),
        json!({"stop_sequence": null, "container": {"id": "c"}})
    );
    let message = reply.message;
    assert_eq!(message.role, Role::Assistant);
    assert_eq!(message.text(), "Reading.");
    assert_eq!(
        message.content[0],
        Block::Reasoning(Reasoning {
            text: "hm".into(),
            format: Format::Messages,
            verbatim: answer["content"][0].clone(),
        })
    );
    assert!(matches!(&message.content[1],
        Block::Reasoning(reasoning) if reasoning.text.is_empty() && reasoning.verbatim == answer["content"][1]));
    let call = message.tool_uses().next().unwrap();
    assert_eq!(
        (
            call.id.as_str(),
            call.name.as_str(),
            call.arguments.as_str()
        ),
        ("toolu_1", "read_file", r#"{"path":"a"}"#)
    );
    assert_eq!(call.extra["caller"], json!({"type": "direct"}));
    assert_eq!(
        message.content[4],
        Block::Other {
            format: Format::Messages,
            verbatim: answer["content"][4].clone(),
        }
    );
}

#[test]
fn arguments_keep_their_json_text() {
    let body = r#"{"content" : [ {"input": {"content":"x"}, "type":"other"},
        {"type":"tool_use","id":"1","name":"f","input" : { "n" : 1.50, "s":"\u00e9}" , "b":12345678901234567890123 } } ]}"#;
    let reply = messages().reply(body.as_bytes()).unwrap();
    assert_eq!(
        reply.message.tool_uses().next().unwrap().arguments,
        r#"{ "n" : 1.50, "s":"\u00e9}" , "b":12345678901234567890123 }"#
    );
}

#[test]
fn stop_reasons_are_mapped() {
    let stop = |reason: Value| {
        let mut answer = body(json!([]));
        answer["stop_reason"] = reason;
        reply(&answer).unwrap().stop
    };
    assert_eq!(stop(json!("end_turn")), StopReason::End);
    assert_eq!(stop(json!("tool_use")), StopReason::ToolUse);
    assert_eq!(stop(json!("max_tokens")), StopReason::Length);
    assert_eq!(
        stop(json!("model_context_window_exceeded")),
        StopReason::Length
    );
    assert_eq!(stop(json!("stop_sequence")), StopReason::StopText);
    assert_eq!(stop(json!("refusal")), StopReason::Refusal);
    assert_eq!(
        stop(json!("pause_turn")),
        StopReason::Other("pause_turn".into())
    );
    assert_eq!(stop(json!(null)), StopReason::Other("not said".into()));
}

#[test]
fn usage_counts_every_input_token_once() {
    let usage = |usage: Value| {
        let mut answer = body(json!([]));
        answer["usage"] = usage;
        let reply = reply(&answer).unwrap();
        (reply.usage, reply.extra.get("usage").cloned())
    };
    let (counted, further) = usage(json!({
        "input_tokens": 2048, "cache_read_input_tokens": 1800, "cache_creation_input_tokens": 248,
        "output_tokens": 503,
        "cache_creation": {"ephemeral_5m_input_tokens": 148, "ephemeral_1h_input_tokens": 100}
    }));
    let expected = Usage {
        uncached_input: 2048,
        cache_read: 1800,
        cache_write_5m: 148,
        cache_write_1h: 100,
        output: 503,
        ..Usage::default()
    };
    assert_eq!((counted, further), (Some(expected), None));
    assert_eq!(expected.total_input(), 2048 + 1800 + 248);

    let (counted, further) = usage(json!({
        "input_tokens": 1, "cache_creation_input_tokens": 20, "cache_read_input_tokens": null,
        "cache_creation": {"ephemeral_5m_input_tokens": 5, "ephemeral_1d_input_tokens": 15},
        "output_tokens": 9, "output_tokens_details": {"thinking_tokens": 4},
        "service_tier": "priority", "server_tool_use": {"web_search_requests": 2}
    }));
    let expected = Usage {
        uncached_input: 1,
        cache_write_5m: 5,
        cache_write_other: 15,
        output: 9,
        reasoning: 4,
        web_searches: 2,
        ..Usage::default()
    };
    assert_eq!(counted, Some(expected));
    assert_eq!(
        further,
        Some(
            json!({"service_tier": "priority", "server_tool_use": {"web_search_requests": 2},
            "cache_creation": {"ephemeral_1d_input_tokens": 15}})
        )
    );

    // Without a word about the time, the time is not known.
    let (counted, _) =
        usage(json!({"input_tokens": 1, "cache_creation_input_tokens": 20, "output_tokens": 2}));
    assert_eq!(counted.unwrap().cache_write_other, 20);
    for nothing in [
        json!(null),
        json!({}),
        json!({"service_tier": "standard"}),
        json!("many"),
    ] {
        assert_eq!(usage(nothing).0, None);
    }
}

#[test]
fn invalid_answer_is_an_error_with_the_reason() {
    for (body, why) in [
        (&b"<html>"[..], "not JSON"),
        (b"", "not JSON"),
        (b"[]", "no object"),
        (b"{}", "no `content`"),
        (br#"{"content":"text"}"#, "no `content`"),
        (br#"{"content":[1]}"#, "no object"),
        (
            br#"{"content":[{"type":"tool_use","id":"1"}]}"#,
            "no `name`",
        ),
        (b"{\"content\":[\xFF]}", "UTF-8"),
    ] {
        let error = messages().reply(body).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Malformed);
        assert!(error.message.contains(why), "{error}");
        assert!(error.message.contains("base URL"), "{error}");
    }
}

#[test]
fn error_body_with_status_200_is_an_error() {
    let error = reply(&json!({"type": "error", "request_id": "req_1",
        "error": {"type": "overloaded_error", "message": "Overloaded"}}))
    .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable);
    assert_eq!(error.request_id.as_deref(), Some("req_1"));
    assert_eq!(
        error.to_string(),
        "Overloaded (overloaded_error, request req_1)"
    );
}
