//! Whole answers.

use cachalot_wire::{Block, CHAT, ErrorKind, Format, Message, Reply, StopReason, Usage};
use serde_json::{Value, json};

use super::support::*;

fn reply(body: &Value) -> Reply {
    CHAT.reply(body.to_string().as_bytes()).unwrap()
}

fn choice(message: Value, finish: Value) -> Value {
    json!({
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    })
}

fn text(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

fn tool_call() -> Value {
    json!({"id": "c1", "type": "function", "function": {"name": "t", "arguments": "{\"a\": 1}"}})
}

#[test]
fn plain_answer_is_parsed() {
    let mut body = choice(text("Hello"), json!("stop"));
    body["usage"] = json!({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12});
    body["system_fingerprint"] = json!("fp_1");
    let reply = reply(&body);
    assert_eq!(reply.message, Message::assistant("Hello"));
    assert_eq!(reply.stop, StopReason::End);
    assert_eq!(reply.model, "m");
    assert_eq!(reply.id.as_deref(), Some("chatcmpl-1"));
    assert_eq!(
        reply.usage,
        Some(Usage {
            uncached_input: 9,
            output: 3,
            ..Usage::default()
        })
    );
    assert_eq!(
        reply.extra,
        extra(json!({
            "created": 1_700_000_000,
            "system_fingerprint": "fp_1",
            "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
        }))
    );
}

#[test]
fn unknown_fields_are_sent_back_in_place() {
    let message = json!({
        "role": "assistant",
        "content": "It is so.",
        "refusal": null,
        "annotations": [{"type": "url_citation", "url_citation": {"url": "https://a.example"}}],
        "reasoning": "I think",
        "reasoning_details": [
            {"type": "reasoning.text", "text": "I think", "signature": "s==", "index": 0},
            {"type": "reasoning.encrypted", "data": "AAAA", "id": "rs_1", "index": 0},
        ],
        "tool_calls": [{
            "id": "c1",
            "type": "function",
            "function": {"name": "t", "arguments": "{\"a\": 1}", "strictness": 2},
            "extra_content": {"google": {"thought_signature": "c2ln"}},
        }],
        "x_future": {"deep": [1, 2.5, null]},
    });
    let reply = reply(&choice(message.clone(), json!("tool_calls")));
    assert_eq!(reply.message.text(), "It is so.");
    let mut expected = message;
    expected.as_object_mut().unwrap().remove("refusal");
    assert_eq!(pieces(&*CHAT, &reply.message), [expected]);
    assert!(matches!(
        &reply.message.content[0],
        Block::Reasoning(reasoning)
            if reasoning.text == "I think" && reasoning.format == Format::Chat
    ));
}

#[test]
fn finish_reasons_of_all_servers_are_mapped() {
    let stop = |message: Value, finish: Value| reply(&choice(message, finish)).stop;
    let calling = || json!({"role": "assistant", "content": null, "tool_calls": [tool_call()]});
    let said = || text("a");
    let expected = [
        (said(), json!("stop"), StopReason::End),
        (said(), json!(null), StopReason::End),
        (said(), json!("length"), StopReason::Length),
        (said(), json!("content_filter"), StopReason::Refusal),
        (said(), json!("tool_calls"), StopReason::End),
        (said(), json!("model_length"), StopReason::Length),
        (said(), json!("weary"), StopReason::Other("weary".into())),
        (calling(), json!("tool_calls"), StopReason::ToolUse),
        (calling(), json!("function_call"), StopReason::ToolUse),
        (calling(), json!("stop"), StopReason::ToolUse),
        (calling(), json!("length"), StopReason::Length),
    ];
    for (message, finish, expected) in expected {
        assert_eq!(
            stop(message.clone(), finish.clone()),
            expected,
            "{message} {finish}"
        );
    }
    let mut body = choice(text("a"), json!("stop"));
    body["choices"][0]["stop_reason"] = json!("END");
    assert_eq!(reply(&body).stop, StopReason::StopText);
    body["choices"][0]["stop_reason"] = json!(128_001);
    assert_eq!(reply(&body).stop, StopReason::End);
}

#[test]
fn refusal_is_shown_and_sent_back_as_refusal() {
    let message = json!({"role": "assistant", "content": null, "refusal": "I will not."});
    let reply = reply(&choice(message.clone(), json!("stop")));
    assert_eq!(reply.stop, StopReason::Refusal);
    assert_eq!(reply.message.text(), "I will not.");
    assert_eq!(pieces(&*CHAT, &reply.message), [message]);
}

#[test]
fn empty_reasoning_content_is_sent_back() {
    let message = json!({
        "role": "assistant",
        "content": null,
        "reasoning_content": "",
        "tool_calls": [tool_call()],
    });
    let reply = reply(&choice(message.clone(), json!("tool_calls")));
    assert_eq!(pieces(&*CHAT, &reply.message), [message]);
}

#[test]
fn legacy_function_call_and_object_arguments_are_read() {
    let older = json!({
        "role": "assistant",
        "content": null,
        "function_call": {"name": "t", "arguments": "{}"},
    });
    let old = reply(&choice(older.clone(), json!("function_call")));
    let made = calls(&old)[0].0.clone();
    assert!(made.starts_with("call_") && made.len() == 29, "{made}");
    assert_eq!(calls(&old), [(made, "t".into(), "{}".into())]);
    assert_eq!(calls(&reply(&choice(older, json!("stop")))), calls(&old));

    let object = json!({
        "content": "",
        "tool_calls": [
            {"id": "", "function": {"name": "t", "arguments": {"a": [1]}}},
            {"id": null, "function": {"name": "t", "arguments": null}},
        ],
    });
    let reply = reply(&choice(object, json!("tool_calls")));
    let calls = calls(&reply);
    assert_eq!(calls[0].2, "{\"a\":[1]}");
    assert_eq!(calls[1].2, "");
    assert_ne!(calls[0].0, calls[1].0, "ids tell calls apart");
}

#[test]
fn custom_call_is_sent_back_as_custom() {
    let message = json!({
        "role": "assistant",
        "content": null,
        "tool_calls": [{"id": "c", "type": "custom", "custom": {"name": "sql", "input": "select"}}],
    });
    let reply = reply(&choice(message.clone(), json!("tool_calls")));
    assert_eq!(calls(&reply), [("c".into(), "sql".into(), "select".into())]);
    assert_eq!(pieces(&*CHAT, &reply.message), [message]);
}

#[test]
fn usage_of_all_servers_is_one_record() {
    let usage = |reported: Value| {
        let mut body = choice(text("a"), json!("stop"));
        body["usage"] = reported;
        reply(&body).usage
    };
    let record = |uncached_input, cache_read, cache_write_other, output, reasoning| {
        Some(Usage {
            uncached_input,
            cache_read,
            cache_write_other,
            output,
            reasoning,
            ..Usage::default()
        })
    };
    let openai = json!({
        "prompt_tokens": 2006,
        "completion_tokens": 300,
        "total_tokens": 2306,
        "prompt_tokens_details": {"cached_tokens": 1920, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 120},
    });
    assert_eq!(usage(openai), record(86, 1920, 0, 300, 120));
    let openrouter = json!({
        "prompt_tokens": 1000,
        "completion_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 600, "cache_write_tokens": 300},
        "cost": 0.01,
    });
    assert_eq!(usage(openrouter), record(100, 600, 300, 10, 0));
    let moonshot = json!({"prompt_tokens": 50, "completion_tokens": 1, "cached_tokens": 20});
    assert_eq!(usage(moonshot), record(30, 20, 0, 1, 0));
    let deepseek = json!({
        "prompt_tokens": 50,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 0},
        "prompt_cache_hit_tokens": 40,
        "prompt_cache_miss_tokens": 10,
    });
    assert_eq!(usage(deepseek), record(10, 40, 0, 1, 0));
    let all_three = json!({
        "prompt_tokens": 50,
        "completion_tokens": 1,
        "prompt_tokens_details": {"cached_tokens": 1},
        "cached_tokens": 2,
        "prompt_cache_hit_tokens": 3,
    });
    assert_eq!(usage(all_three), record(49, 1, 0, 1, 0));
    let xai = json!({
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 22,
        "completion_tokens_details": {"reasoning_tokens": 7},
    });
    assert_eq!(usage(xai), record(10, 0, 0, 12, 7));
    let floats = json!({"prompt_tokens": 10.0, "completion_tokens": -1});
    assert_eq!(usage(floats), record(10, 0, 0, 0, 0));
    assert_eq!(usage(json!(null)), None);
    assert_eq!(usage(json!({})), None);
}

#[test]
fn contradictory_usage_is_clamped() {
    let mut body = choice(text("a"), json!("stop"));
    body["usage"] = json!({
        "prompt_tokens": 100,
        "completion_tokens": 5,
        "prompt_tokens_details": {"cached_tokens": 130, "cache_write_tokens": 50},
        "completion_tokens_details": {"reasoning_tokens": 9},
    });
    let usage = reply(&body).usage.unwrap();
    assert_eq!(usage.total_input(), 100);
    assert_eq!(usage.cache_read, 100);
    assert_eq!((usage.output, usage.reasoning), (5, 5));
}

#[test]
fn invalid_answer_is_an_error_with_the_reason() {
    let error = |body: &str| CHAT.reply(body.as_bytes()).unwrap_err();
    let html = error("<html>Not here</html>");
    assert_eq!(html.kind, ErrorKind::Malformed);
    assert!(html.message.contains("<html>Not here</html>"), "{html}");
    for body in [
        "",
        "[]",
        "{}",
        "{\"choices\":[]}",
        "{\"choices\":[{\"index\":0}]}",
    ] {
        assert_eq!(error(body).kind, ErrorKind::Malformed, "{body}");
    }
    let long = error(&"x".repeat(100_000));
    assert!(long.message.len() < 1_000);

    let limited = error(
        &json!({"error": {"code": 429, "message": "slow down", "metadata": {"raw": "quota"}}})
            .to_string(),
    );
    assert_eq!(limited.kind, ErrorKind::Limited);
    assert_eq!(limited.status, Some(429));
    assert_eq!(limited.message, "slow down: quota");
    let long_prompt = error(
        &json!({"error": {
            "message": "too long", "type": "invalid_request_error", "code": "context_length_exceeded",
        }})
        .to_string(),
    );
    assert_eq!(long_prompt.kind, ErrorKind::TooLong);
    assert_eq!(long_prompt.code.as_deref(), Some("context_length_exceeded"));
    let kind = |reported: Value| error(&json!({"error": reported}).to_string()).kind;
    assert_eq!(
        kind(json!({"code": 400, "message": "the maximum context length is 8192 tokens"})),
        ErrorKind::TooLong
    );
    assert_eq!(kind(json!({"code": 402})), ErrorKind::OutOfCredit);
    assert_eq!(
        kind(json!({"type": "insufficient_quota", "code": "insufficient_quota"})),
        ErrorKind::OutOfCredit
    );
    assert_eq!(kind(json!({"code": 401})), ErrorKind::Unauthorized);
    assert_eq!(kind(json!({"code": "408"})), ErrorKind::TimedOut);
    assert_eq!(kind(json!({"code": "404"})), ErrorKind::Rejected);
    assert_eq!(kind(json!({})), ErrorKind::Unavailable);
    assert_eq!(
        error("{\"error\":\"model not loaded\"}").message,
        "model not loaded"
    );
}

#[test]
fn answer_with_an_error_finish_is_an_error() {
    for (reason, kind) in [
        ("error", ErrorKind::Unavailable),
        ("insufficient_system_resource", ErrorKind::Unavailable),
        ("abort", ErrorKind::CutOff),
    ] {
        let body = choice(text("half an ans"), json!(reason)).to_string();
        let error = CHAT.reply(body.as_bytes()).unwrap_err();
        assert_eq!(error.kind, kind, "{reason}");
        assert!(error.retryable());
    }
}

#[test]
fn first_of_several_choices_is_read() {
    let mut body = choice(text("first"), json!("stop"));
    let second = json!({"index": 1, "message": text("second"), "finish_reason": "length"});
    body["choices"].as_array_mut().unwrap().insert(0, second);
    let reply = reply(&body);
    assert_eq!(reply.message.text(), "first");
    assert_eq!(reply.stop, StopReason::End);
}
