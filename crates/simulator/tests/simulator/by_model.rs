//! Requests that the providers refuse because of the model: with the provider's status and error body.

use cachalot_simulator::Script;
use serde_json::{Value, json};

use crate::{CHAT, MESSAGES, RESPONSES, ask, post, smallest, start, with};

fn function() -> Value {
    json!([{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}])
}

fn tool() -> Value {
    json!([{"name": "look", "input_schema": {"type": "object"}}])
}

/// Sends each request, and expects its status and its error body.
async fn refused(path: &str, requests: &[(Value, u16, Value)]) {
    let running = start(Script::built_in()).await;
    for (fields, status, expected) in requests {
        let got = post(
            &running,
            path,
            &with(smallest(path, "Hello"), fields.clone()),
        )
        .await;
        let error = got.json()["error"].clone();
        assert_eq!((got.status, &error), (*status, expected), "{fields}");
    }
    assert_eq!(running.violations().len(), requests.len());
}

async fn accepted(path: &str, requests: &[Value]) {
    let running = start(Script::built_in()).await;
    for fields in requests {
        ask(
            &running,
            path,
            &with(smallest(path, "Hello"), fields.clone()),
        )
        .await;
    }
    assert_eq!(running.violations(), Vec::<String>::new());
}

fn openai(message: &str, param: Value, code: Value) -> Value {
    json!({"message": message, "type": "invalid_request_error", "param": param, "code": code})
}

fn anthropic(message: &str) -> Value {
    json!({"type": "invalid_request_error", "message": message})
}

#[tokio::test]
async fn formerly_accepted_bodies_are_refused() {
    refused(CHAT, &[
        (json!({"model": "gpt-5.6-terra", "tools": function(), "reasoning_effort": "high"}), 400, openai("Function tools with reasoning_effort are not supported for gpt-5.6-terra in /v1/chat/completions. To use function tools, use /v1/responses or set reasoning_effort to 'none'.", json!("reasoning_effort"), Value::Null)),
        (json!({"model": "gpt-5.3-codex"}), 404, openai("This model is only supported in v1/responses and not in v1/chat/completions.", json!("model"), Value::Null)),
    ])
    .await;
    refused(MESSAGES, &[
        (json!({"model": "claude-opus-4-8", "max_tokens": 4_000, "thinking": {"type": "enabled", "budget_tokens": 2_000}}), 400, anthropic("\"thinking.type.enabled\" is not supported for this model. Use \"thinking.type.adaptive\" and \"output_config.effort\" to control thinking behavior.")),
        (json!({"model": "claude-haiku-4-5", "thinking": {"type": "adaptive"}}), 400, anthropic("adaptive thinking is not supported on this model")),
        (json!({"model": "claude-opus-4-8", "temperature": 0.5}), 400, anthropic("`temperature` is deprecated for this model.")),
    ])
    .await;
}

#[tokio::test]
async fn chat_validates_parameters_by_model() {
    let unsupported = |key: &str| {
        let message = format!("Unsupported parameter: '{key}' is not supported with this model.");
        openai(&message, json!(key), json!("unsupported_parameter"))
    };
    let not_tools = |model: &str, advice: &str| {
        let message = format!(
            "Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. {advice}"
        );
        openai(&message, json!("reasoning_effort"), Value::Null)
    };
    let old = "Please use /v1/responses instead.";
    let new = "To use function tools, use /v1/responses or set reasoning_effort to 'none'.";
    refused(CHAT, &[
        (json!({"model": "gpt-5.4", "tools": function(), "reasoning_effort": "low"}), 400, not_tools("gpt-5.4", old)),
        // The default effort of these is not `none`.
        (json!({"model": "gpt-5.5", "tools": function()}), 400, not_tools("gpt-5.5", old)),
        (json!({"model": "gpt-5.6-sol", "tools": function()}), 400, not_tools("gpt-5.6-sol", new)),
        (json!({"model": "gpt-5.1", "reasoning_effort": "minimal"}), 400, openai("Unsupported value: 'reasoning_effort' does not support 'minimal' with this model. Supported values are: 'none', 'low', 'medium', and 'high'.", json!("reasoning_effort"), json!("unsupported_value"))),
        (json!({"model": "gpt-5.2-chat-latest", "reasoning_effort": "high"}), 400, openai("Unsupported value: 'reasoning_effort' does not support 'high' with this model. Supported values are: 'medium'.", json!("reasoning_effort"), json!("unsupported_value"))),
        (json!({"model": "gpt-4o", "reasoning_effort": "low"}), 400, openai("Unrecognized request argument supplied: reasoning_effort", Value::Null, Value::Null)),
        (json!({"model": "gpt-5", "temperature": 0.5}), 400, openai("Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.", json!("temperature"), json!("unsupported_value"))),
        (json!({"model": "gpt-5.4", "temperature": 0.5, "reasoning_effort": "low"}), 400, openai("Unsupported value: 'temperature' does not support 0.5 with this model. Only the default (1) value is supported.", json!("temperature"), json!("unsupported_value"))),
        (json!({"model": "o3", "temperature": 0.5}), 400, unsupported("temperature")),
        (json!({"model": "gpt-5-mini", "stop": ["x"]}), 400, unsupported("stop")),
        (json!({"model": "gpt-5-mini", "presence_penalty": 0.5}), 400, unsupported("presence_penalty")),
        (json!({"model": "o3", "tools": function(), "parallel_tool_calls": false}), 400, unsupported("parallel_tool_calls")),
        (json!({"model": "gpt-4o", "max_tokens": 20_480}), 400, openai("max_tokens is too large: 20480. This model supports at most 16384 completion tokens, whereas you provided 20480.", json!("max_tokens"), json!("invalid_value"))),
    ])
    .await;
    accepted(CHAT, &[
        json!({"model": "gpt-5.4", "tools": function()}),
        json!({"model": "gpt-5.6-terra", "tools": function(), "reasoning_effort": "none"}),
        json!({"model": "gpt-5.6-terra", "reasoning_effort": "max"}),
        json!({"model": "gpt-5.4", "temperature": 0.5}),
        json!({"model": "gpt-5", "temperature": 1, "presence_penalty": 0}),
        json!({"model": "gpt-4o", "temperature": 0.5, "stop": ["x"], "max_tokens": 16_384}),
        // What is not known is not refused, and a gateway translates.
        json!({"model": "someone-s-model", "tools": function(), "reasoning_effort": "high", "temperature": 0.5}),
        json!({"model": "openai/gpt-5.6-terra", "tools": function(), "reasoning_effort": "high"}),
    ])
    .await;
}

#[tokio::test]
async fn responses_validates_parameters_by_model() {
    refused(RESPONSES, &[
        (json!({"model": "gpt-5.1", "reasoning": {"effort": "minimal"}}), 400, openai("Unsupported value: 'minimal' is not supported with the 'gpt-5.1' model. Supported values are: 'none', 'low', 'medium', and 'high'.", json!("reasoning.effort"), json!("unsupported_value"))),
        (json!({"model": "gpt-5-pro", "reasoning": {"effort": "low"}}), 400, openai("Unsupported value: 'low' is not supported with the 'gpt-5-pro' model. Supported values are: 'high'.", json!("reasoning.effort"), json!("unsupported_value"))),
        (json!({"model": "gpt-4o", "reasoning": {"effort": "low"}}), 400, openai("Unsupported parameter: 'reasoning.effort' is not supported with this model.", json!("reasoning.effort"), json!("unsupported_parameter"))),
        (json!({"model": "gpt-4.1", "include": ["reasoning.encrypted_content"]}), 400, openai("Encrypted content is not supported with this model.", json!("include"), Value::Null)),
        (json!({"model": "gpt-5.3-codex", "temperature": 0.5}), 400, openai("Unsupported parameter: 'temperature' is not supported with this model.", json!("temperature"), Value::Null)),
        (json!({"model": "gpt-5.6", "max_output_tokens": 200_000}), 400, openai("Invalid 'max_output_tokens': integer above maximum value. Expected a value <= 128000, but got 200000 instead.", json!("max_output_tokens"), json!("integer_above_max_value"))),
        (json!({"model": "gpt-5-pro", "stream": true}), 400, openai("Unsupported value: 'stream' does not support true with this model. Supported values are: false.", json!("stream"), json!("unsupported_value"))),
        (json!({"model": "gpt-audio-1.5"}), 400, openai("The requested model 'gpt-audio-1.5' cannot be used with the Responses API.", json!("model"), Value::Null)),
    ])
    .await;
    let tool = json!([{"type": "function", "name": "look", "parameters": {"type": "object"}, "strict": false}]);
    accepted(RESPONSES, &[
        json!({"model": "gpt-5.6-terra", "tools": tool, "reasoning": {"effort": "max", "summary": "auto"}, "include": ["reasoning.encrypted_content"]}),
        json!({"model": "gpt-5.3-codex", "tools": tool}),
        json!({"model": "gpt-5.4", "temperature": 0.5}),
        json!({"model": "someone-s-model", "reasoning": {"effort": "low"}, "temperature": 0.5}),
    ])
    .await;
}

#[tokio::test]
async fn messages_validates_parameters_by_model() {
    let forced = "Thinking may not be enabled when tool_choice forces tool use.";
    let prefill = "This model does not support assistant message prefill. The conversation must end with a user message.";
    let begun = json!([{"role": "user", "content": "x"}, {"role": "assistant", "content": "y"}]);
    refused(MESSAGES, &[
        (json!({"model": "claude-fable-5", "thinking": {"type": "disabled"}}), 400, anthropic("\"thinking.type.disabled\" is not supported for this model. Thinking defaults to adaptive mode when not specified; use \"thinking.type.enabled\" with \"budget_tokens\" for extended thinking.")),
        (json!({"model": "claude-fable-5", "tools": tool(), "tool_choice": {"type": "any"}}), 400, anthropic(forced)),
        (json!({"model": "claude-opus-5", "thinking": {"type": "adaptive"}, "tools": tool(), "tool_choice": {"type": "any"}}), 400, anthropic(forced)),
        (json!({"model": "claude-haiku-4-5", "output_config": {"effort": "low"}}), 400, anthropic("This model does not support the effort parameter.")),
        (json!({"model": "claude-sonnet-4-6", "output_config": {"effort": "xhigh"}}), 400, anthropic("This model does not support effort level 'xhigh'. Supported levels: high, low, max, medium.")),
        (json!({"model": "claude-opus-4-8", "thinking": {"type": "disabled"}, "output_config": {"effort": "max"}}), 400, anthropic("output_config.effort 'max' is not supported when thinking is disabled on this model. Use effort 'high' or below, or enable thinking.")),
        (json!({"model": "claude-opus-4-8", "top_k": 5}), 400, anthropic("`top_k` is deprecated for this model.")),
        (json!({"model": "claude-sonnet-4-5", "temperature": 0.5, "top_p": 0.5}), 400, anthropic("`temperature` and `top_p` cannot both be specified for this model. Please use only one.")),
        (json!({"model": "claude-sonnet-4-5", "max_tokens": 2_000, "top_p": 0.5, "thinking": {"type": "enabled", "budget_tokens": 1_024}}), 400, anthropic("`top_p` must be greater than or equal to 0.95 or unset when thinking is enabled.")),
        (json!({"model": "claude-sonnet-4-6", "messages": begun}), 400, anthropic(prefill)),
        (json!({"model": "claude-haiku-4-5", "max_tokens": 100_000}), 400, anthropic("max_tokens: 100000 > 64000, which is the maximum allowed number of output tokens for claude-haiku-4-5")),
    ])
    .await;
    accepted(MESSAGES, &[
        json!({"model": "claude-opus-4-8", "thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "xhigh"}}),
        json!({"model": "claude-opus-4-8", "temperature": 1, "thinking": {"type": "disabled"}}),
        json!({"model": "claude-opus-4-6", "max_tokens": 2_000, "thinking": {"type": "enabled", "budget_tokens": 1_024}}),
        json!({"model": "claude-sonnet-4-5", "temperature": 0.5}),
        json!({"model": "claude-sonnet-4-5", "messages": begun}),
        json!({"model": "claude-opus-4-5", "output_config": {"effort": "high"}}),
        json!({"model": "claude-x", "max_tokens": 500_000, "temperature": 0.5, "top_p": 0.5, "messages": begun}),
    ])
    .await;
}

#[tokio::test]
async fn new_anthropic_models_show_thinking_only_on_request() {
    let script = Script::parse("script.yaml", "otherwise: {text: Yes., reasoning: Hm.}").unwrap();
    let running = start(script).await;
    let mut shown = Vec::new();
    for (model, thinking) in [
        ("claude-opus-4-8", json!({"type": "adaptive"})),
        (
            "claude-opus-4-8",
            json!({"type": "adaptive", "display": "summarized"}),
        ),
        ("claude-opus-4-6", json!({"type": "adaptive"})),
        ("claude-fable-5", Value::Null),
        ("claude-opus-4-8", Value::Null),
    ] {
        let mut request = with(smallest(MESSAGES, "Hello"), json!({"model": model}));
        if !thinking.is_null() {
            request["thinking"] = thinking;
        }
        let answer = ask(&running, MESSAGES, &request).await;
        let first = &answer["content"][0];
        shown.push((first["type"].clone(), first["thinking"].clone()));
    }
    let thought = |text: &str| (json!("thinking"), json!(text));
    let text = (json!("text"), Value::Null);
    assert_eq!(
        shown,
        [
            thought(""),
            thought("Hm."),
            thought("Hm."),
            thought(""),
            text
        ]
    );
}
