//! The fields after the messages.

use cachalot_wire::{CHAT, OutputFormat, Parameters, RequestedReasoning, ToolChoice};
use serde_json::{Value, json};

use super::support::{extra, strict};

fn tail(parameters: &Parameters, stream: bool) -> Value {
    let tail = CHAT.tail(parameters, stream);
    assert_eq!(tail, CHAT.tail(parameters, stream));
    assert!(tail.starts_with(b",") && tail.ends_with(b"}"));
    strict(&[b"{\"messages\":[]", &tail[..]].concat())
}

fn model(model: &str) -> Parameters {
    Parameters {
        model: model.into(),
        ..Parameters::default()
    }
}

#[test]
fn every_parameter_is_sent_in_its_field() {
    let parameters = Parameters {
        model: "gpt-5.1".into(),
        max_output_tokens: Some(100),
        temperature: Some(0.2),
        top_p: Some(0.9),
        stop: vec!["END".into()],
        tool_choice: Some(ToolChoice::Tool("t".into())),
        parallel_tool_calls: Some(false),
        reasoning: Some(RequestedReasoning::Effort("high".into())),
        output: Some(OutputFormat {
            name: "shape".into(),
            schema: json!({"type": "object"}),
            strict: true,
        }),
        cache_key: Some("session-1".into()),
        extra: extra(json!({"seed": 7, "temperature": 0.5})),
    };
    let expected = json!({
        "messages": [],
        "model": "gpt-5.1",
        "max_completion_tokens": 100,
        "temperature": 0.5,
        "top_p": 0.9,
        "stop": ["END"],
        "tool_choice": {"type": "function", "function": {"name": "t"}},
        "parallel_tool_calls": false,
        "reasoning_effort": "high",
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "shape", "schema": {"type": "object"}, "strict": true},
        },
        "prompt_cache_key": "session-1",
        "seed": 7,
    });
    assert_eq!(tail(&parameters, false), expected);
    let mut streamed = expected;
    streamed["stream"] = json!(true);
    streamed["stream_options"] = json!({"include_usage": true});
    assert_eq!(tail(&parameters, true), streamed);
}

#[test]
fn unset_parameters_are_not_sent() {
    assert_eq!(
        CHAT.tail(&model("llama3.2"), false),
        ",\"model\":\"llama3.2\"}"
    );
    let odd = Parameters {
        temperature: Some(f64::NAN),
        ..model("m")
    };
    assert_eq!(CHAT.tail(&odd, false), ",\"model\":\"m\"}");
}

#[test]
fn token_limit_uses_the_field_of_the_model() {
    let name = |model_name: &str, fields: Value| {
        let parameters = Parameters {
            max_output_tokens: Some(5),
            extra: extra(fields),
            ..model(model_name)
        };
        let tail = tail(&parameters, false);
        let names = ["max_completion_tokens", "max_tokens"];
        let sent: Vec<_> = names
            .into_iter()
            .filter_map(|name| Some((name, tail.get(name)?.as_u64()?)))
            .collect();
        sent
    };
    for openai in [
        "gpt-4o",
        "o3-mini",
        "openai/gpt-5",
        "chatgpt-4o-latest",
        "ft:gpt-4o:me",
    ] {
        assert_eq!(
            name(openai, json!({})),
            [("max_completion_tokens", 5)],
            "{openai}"
        );
    }
    for other in [
        "llama3.2",
        "gpt-oss:20b",
        "openai/gpt-oss-120b",
        "olmo-2",
        "deepseek-chat",
        "",
    ] {
        assert_eq!(name(other, json!({})), [("max_tokens", 5)], "{other}");
    }
    assert_eq!(
        name("my-azure-deployment", json!({"max_completion_tokens": 9})),
        [("max_completion_tokens", 9)]
    );
    assert_eq!(
        name("gpt-4o", json!({"max_tokens": 9})),
        [("max_tokens", 9)]
    );
}

#[test]
fn reasoning_budget_uses_the_field_of_the_server() {
    let budget = |name: &str, tokens| {
        let parameters = Parameters {
            reasoning: Some(RequestedReasoning::Budget(tokens)),
            ..model(name)
        };
        tail(&parameters, false)
    };
    assert_eq!(budget("o3", 1000)["reasoning_effort"], "low");
    assert_eq!(budget("gpt-5", 10_000)["reasoning_effort"], "medium");
    assert_eq!(budget("gpt-5", 50_000)["reasoning_effort"], "high");
    assert_eq!(
        budget("anthropic/claude-sonnet-4.5", 4000)["reasoning"],
        json!({"max_tokens": 4000})
    );
}

#[test]
fn extra_fields_override_all_but_messages_tools_and_stream() {
    let parameters = Parameters {
        extra: extra(json!({
            "model": "other",
            "messages": [],
            "tools": [],
            "stream": false,
            "stream_options": {"include_obfuscation": false},
            "user": null,
        })),
        ..model("m")
    };
    assert_eq!(
        tail(&parameters, true),
        json!({
            "messages": [],
            "model": "other",
            "stream": true,
            "stream_options": {"include_usage": true, "include_obfuscation": false},
            "user": null,
        })
    );
    let without = Parameters {
        extra: extra(json!({"stream_options": null})),
        ..model("m")
    };
    assert_eq!(
        tail(&without, true),
        json!({"messages": [], "model": "m", "stream": true})
    );
    let nothing = Parameters {
        extra: extra(json!({"model": null})),
        ..model("m")
    };
    assert_eq!(CHAT.tail(&nothing, false), "}");
}

#[test]
fn tool_choices_are_mapped() {
    let choice = |choice| {
        let parameters = Parameters {
            tool_choice: Some(choice),
            ..model("m")
        };
        tail(&parameters, false)["tool_choice"].clone()
    };
    assert_eq!(choice(ToolChoice::Auto), "auto");
    assert_eq!(choice(ToolChoice::None), "none");
    assert_eq!(choice(ToolChoice::Any), "required");
}
