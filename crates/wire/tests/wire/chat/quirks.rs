//! Answers as servers really send them.

use cachalot_wire::{Block, CHAT, Reply, StopReason, sse::Event};
use serde_json::{Value, json};

use super::support::*;

/// Reads the data lines of a stream.
fn read(lines: &str) -> (String, String, Reply) {
    let lines = lines.lines().map(str::trim).filter(|line| !line.is_empty());
    let events: Vec<Event> = lines.map(event).collect();
    let (deltas, reply) = stream(&*CHAT, &events).unwrap();
    let (text, reasoning, called) = shown(&deltas);
    assert_eq!(called, calls(&reply));
    (text, reasoning, reply)
}

#[test]
fn azure_filter_results_without_choices_are_accepted() {
    let (text, _, reply) = read(
        r#"
        {"choices":[],"created":0,"id":"","model":"","object":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}]}
        {"choices":[{"content_filter_results":{},"delta":{"content":"","refusal":null,"role":"assistant"},"finish_reason":null,"index":0,"logprobs":null}],"created":1729000000,"id":"chatcmpl-A","model":"gpt-4o-2024-08-06","object":"chat.completion.chunk","system_fingerprint":"fp_1","usage":null}
        {"choices":[{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"delta":{"content":"Hi"},"finish_reason":null,"index":0,"logprobs":null}],"created":1729000000,"id":"chatcmpl-A","model":"gpt-4o-2024-08-06","object":"chat.completion.chunk","usage":null}
        {"choices":[{"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}},"delta":{"content":"!"},"finish_reason":null,"index":0,"logprobs":null}],"created":1729000000,"id":"chatcmpl-A","model":"gpt-4o-2024-08-06","object":"chat.completion.chunk","usage":null}
        {"choices":[{"content_filter_results":{},"delta":{},"finish_reason":"stop","index":0,"logprobs":null}],"created":1729000000,"id":"chatcmpl-A","model":"gpt-4o-2024-08-06","object":"chat.completion.chunk","usage":null}
        {"choices":[],"created":1729000000,"id":"chatcmpl-A","model":"gpt-4o-2024-08-06","object":"chat.completion.chunk","usage":{"completion_tokens":2,"prompt_tokens":8,"total_tokens":10}}
        [DONE]
        "#,
    );
    assert_eq!(text, "Hi!");
    assert_eq!(reply.id.as_deref(), Some("chatcmpl-A"));
    assert_eq!(reply.model, "gpt-4o-2024-08-06");
    assert_eq!(reply.usage.unwrap().total_input(), 8);
    assert!(reply.extra.contains_key("prompt_filter_results"));
    assert_eq!(
        pieces(&*CHAT, &reply.message),
        [json!({"role": "assistant", "content": "Hi!"})]
    );
}

#[test]
fn azure_filtered_answer_is_a_refusal() {
    let (text, _, reply) = read(
        r#"
        {"choices":[{"delta":{"role":"assistant","content":"You "},"finish_reason":null,"index":0}],"id":"c","model":"gpt-4o"}
        {"choices":[{"content_filter_results":{"violence":{"filtered":true,"severity":"high"}},"delta":{},"finish_reason":"content_filter","index":0}],"id":"c","model":"gpt-4o"}
        [DONE]
        "#,
    );
    assert_eq!(text, "You ");
    assert_eq!(reply.stop, StopReason::Refusal);
    assert_eq!(
        reply.extra["choice"]["content_filter_results"]["violence"]["severity"],
        "high"
    );
}

#[test]
fn ollama_calls_with_one_index_are_distinct() {
    let (_, reasoning, reply) = read(
        r#"
        {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"Two files."},"finish_reason":null}]}
        {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"qwen3","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_a","index":0,"type":"function","function":{"name":"write","arguments":"{\"path\":\"a\"}"}}]},"finish_reason":null}]}
        {"id":"chatcmpl-1","object":"chat.completion.chunk","created":2,"model":"qwen3","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":"","tool_calls":[{"id":"call_b","index":0,"type":"function","function":{"name":"write","arguments":"{\"path\":\"b\"}"}}]},"finish_reason":null}]}
        {"id":"chatcmpl-1","object":"chat.completion.chunk","created":2,"model":"qwen3","system_fingerprint":"fp_ollama","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop"}]}
        [DONE]
        "#,
    );
    assert_eq!(reasoning, "Two files.");
    assert_eq!(reply.stop, StopReason::ToolUse);
    let piece = &pieces(&*CHAT, &reply.message)[0];
    assert_eq!(piece["reasoning"], "Two files.");
    assert_eq!(piece["tool_calls"].as_array().unwrap().len(), 2);
    assert_eq!(piece["tool_calls"][1]["id"], "call_b");
}

#[test]
fn vllm_stop_text_and_null_fields_are_read() {
    let body = json!({
        "id": "chatcmpl-v", "object": "chat.completion", "created": 1, "model": "qwen",
        "choices": [{
            "index": 0,
            "message": {
                "role": "assistant", "content": "one two", "refusal": null, "annotations": null,
                "audio": null, "function_call": null, "tool_calls": [], "reasoning_content": null,
            },
            "logprobs": null, "finish_reason": "stop", "stop_reason": "three", "token_ids": null,
        }],
        "usage": {
            "prompt_tokens": 5, "total_tokens": 8, "completion_tokens": 3,
            "prompt_tokens_details": null,
        },
        "prompt_logprobs": null, "kv_transfer_params": null,
    });
    let reply = CHAT.reply(body.to_string().as_bytes()).unwrap();
    assert_eq!(reply.stop, StopReason::StopText);
    assert_eq!(
        pieces(&*CHAT, &reply.message),
        [json!({"role": "assistant", "content": "one two"})]
    );
}

#[test]
fn deepseek_reasoning_is_sent_back_with_calls() {
    let (text, reasoning, reply) = read(
        r#"
        {"id":"d","object":"chat.completion.chunk","created":1,"model":"deepseek-v4-pro","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":""},"logprobs":null,"finish_reason":null}]}
        {"id":"d","object":"chat.completion.chunk","created":1,"model":"deepseek-v4-pro","choices":[{"index":0,"delta":{"content":null,"reasoning_content":"The user"},"logprobs":null,"finish_reason":null}]}
        {"id":"d","object":"chat.completion.chunk","created":1,"model":"deepseek-v4-pro","choices":[{"index":0,"delta":{"content":null,"reasoning_content":" asks."},"logprobs":null,"finish_reason":null}]}
        {"id":"d","object":"chat.completion.chunk","created":1,"model":"deepseek-v4-pro","choices":[{"index":0,"delta":{"content":null,"reasoning_content":null,"tool_calls":[{"index":0,"id":"call_00_x","type":"function","function":{"name":"date","arguments":""}}]},"finish_reason":null}]}
        {"id":"d","object":"chat.completion.chunk","created":1,"model":"deepseek-v4-pro","choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{}"}}]},"finish_reason":null}]}
        {"id":"d","object":"chat.completion.chunk","created":1,"model":"deepseek-v4-pro","choices":[{"index":0,"delta":{"content":"","reasoning_content":null},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":300,"completion_tokens":40,"total_tokens":340,"prompt_tokens_details":{"cached_tokens":256},"completion_tokens_details":{"reasoning_tokens":20},"prompt_cache_hit_tokens":256,"prompt_cache_miss_tokens":44}}
        [DONE]
        "#,
    );
    assert_eq!(text, "");
    assert_eq!(reasoning, "The user asks.");
    assert_eq!(
        pieces(&*CHAT, &reply.message),
        [json!({
            "role": "assistant",
            "content": null,
            "reasoning_content": "The user asks.",
            "tool_calls": [{
                "id": "call_00_x",
                "type": "function",
                "function": {"name": "date", "arguments": "{}"},
            }],
        })]
    );
    let usage = reply.usage.unwrap();
    assert_eq!((usage.uncached_input, usage.cache_read), (44, 256));
    assert_eq!((usage.output, usage.reasoning), (40, 20));
}

#[test]
fn openrouter_reasoning_details_are_joined() {
    let (text, reasoning, reply) = read(
        r#"
        {"id":"gen-1","provider":"Anthropic","model":"anthropic/claude-sonnet-4.5","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"I ","reasoning_details":[{"type":"reasoning.text","text":"I ","format":"anthropic-claude-v1","index":0}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}
        {"id":"gen-1","provider":"Anthropic","model":"anthropic/claude-sonnet-4.5","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":"see.","reasoning_details":[{"type":"reasoning.text","text":"see.","format":"anthropic-claude-v1","index":0}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}
        {"id":"gen-1","provider":"Anthropic","model":"anthropic/claude-sonnet-4.5","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":null,"reasoning_details":[{"type":"reasoning.text","signature":"c2ln","format":"anthropic-claude-v1","index":0}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}
        {"id":"gen-1","provider":"Anthropic","model":"anthropic/claude-sonnet-4.5","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning_details":[{"type":"reasoning.encrypted","data":"AA","id":"x","index":1},{"type":"reasoning.encrypted","data":"BB","id":"y","index":1}]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}
        {"id":"gen-1","provider":"Anthropic","model":"anthropic/claude-sonnet-4.5","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"Yes."},"finish_reason":"stop","native_finish_reason":"end_turn","logprobs":null}]}
        {"id":"gen-1","provider":"Anthropic","model":"anthropic/claude-sonnet-4.5","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"native_finish_reason":null,"logprobs":null}],"usage":{"prompt_tokens":100,"completion_tokens":20,"total_tokens":120,"cost":0.0006,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30}}}
        [DONE]
        "#,
    );
    assert_eq!(text, "Yes.");
    assert_eq!(reasoning, "I see.");
    assert_eq!(reply.stop, StopReason::End);
    assert_eq!(
        pieces(&*CHAT, &reply.message)[0]["reasoning_details"],
        json!([
            {"type": "reasoning.text", "text": "I see.", "format": "anthropic-claude-v1",
             "index": 0, "signature": "c2ln"},
            {"type": "reasoning.encrypted", "data": "AA", "id": "x", "index": 1},
            {"type": "reasoning.encrypted", "data": "BB", "id": "y", "index": 1},
        ])
    );
    assert_eq!(reply.extra["provider"], "Anthropic");
    assert_eq!(reply.extra["usage"]["cost"], 0.0006);
    assert_eq!(reply.extra["choice"]["native_finish_reason"], "end_turn");
    let usage = reply.usage.unwrap();
    assert_eq!(
        (
            usage.uncached_input,
            usage.cache_read,
            usage.cache_write_other
        ),
        (10, 60, 30)
    );
}

#[test]
fn mistral_thinking_parts_are_read_and_sent_back() {
    let whole = json!({
        "id": "m", "object": "chat.completion", "created": 1, "model": "magistral-medium",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {
            "role": "assistant",
            "tool_calls": null,
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Two and two."}]},
                {"type": "text", "text": "Four."},
            ],
        }}],
    });
    let (text, reasoning, reply) = read(
        r#"
        {"id":"m","object":"chat.completion.chunk","created":1,"model":"magistral-medium","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}
        {"id":"m","object":"chat.completion.chunk","created":1,"model":"magistral-medium","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"Two "}]}]},"finish_reason":null}]}
        {"id":"m","object":"chat.completion.chunk","created":1,"model":"magistral-medium","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"and two."}]}]},"finish_reason":null}]}
        {"id":"m","object":"chat.completion.chunk","created":1,"model":"magistral-medium","choices":[{"index":0,"delta":{"content":"Four"},"finish_reason":null}]}
        {"id":"m","object":"chat.completion.chunk","created":1,"model":"magistral-medium","choices":[{"index":0,"delta":{"content":".","index":0,"metadata":null},"finish_reason":"stop"}]}
        [DONE]
        "#,
    );
    assert_eq!(reply, CHAT.reply(whole.to_string().as_bytes()).unwrap());
    assert_eq!(
        (text.as_str(), reasoning.as_str()),
        ("Four.", "Two and two.")
    );
    assert!(
        matches!(&reply.message.content[0], Block::Reasoning(thought) if thought.text == reasoning)
    );
    assert_eq!(
        pieces(&*CHAT, &reply.message)[0]["content"],
        whole["choices"][0]["message"]["content"]
    );
}

#[test]
fn usage_of_groq_and_moonshot_streams_is_found() {
    let usage = json!({"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6});
    let mut last = json!({
        "id": "g",
        "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}],
    });
    let read = |last: &Value| stream(&*CHAT, &[event(last)]).unwrap().1.usage.unwrap();
    last["x_groq"] = json!({"id": "req_1", "usage": usage});
    assert_eq!(read(&last).output, 2);
    last["x_groq"] = json!(null);
    last["choices"][0]["usage"] = usage;
    assert_eq!(read(&last).total_input(), 4);
}

#[test]
fn gemini_signature_is_sent_back_with_its_call() {
    let (_, _, reply) = read(
        r#"
        {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"id":"f-1","index":0,"type":"function","function":{"name":"a","arguments":"{}"},"extra_content":{"google":{"thought_signature":"c2ln"}}}]},"finish_reason":null}]}
        {"id":"x","choices":[{"index":0,"delta":{"role":"assistant","tool_calls":[{"id":"f-2","index":0,"type":"function","function":{"name":"a","arguments":"{}"}}]},"finish_reason":"stop"}]}
        "#,
    );
    let calls = &pieces(&*CHAT, &reply.message)[0]["tool_calls"];
    assert_eq!(
        calls[0]["extra_content"]["google"]["thought_signature"],
        "c2ln"
    );
    assert_eq!(calls[1].get("extra_content"), None);
}
