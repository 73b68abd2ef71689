//! The fields after the messages.

use cachalot_core::Canonical;
use cachalot_wire::{
    OutputFormat, Parameters, RequestedReasoning, ToolChoice,
    messages::{DEFAULT_MAX_TOKENS, DEFAULT_MAX_TOKENS_WITH_EFFORT},
};
use serde_json::{Value, json};

use super::{fields, messages, parsed, text};

fn tail(parameters: &Parameters) -> Value {
    let tail = text(&messages().tail(parameters, false));
    let body = format!("{{\"messages\":[]{tail}");
    Canonical::json(body.as_bytes()).expect("no key twice");
    let mut body = parsed(&body);
    body.as_object_mut().unwrap().shift_remove("messages");
    body
}

fn model() -> Parameters {
    Parameters {
        model: "m".into(),
        ..Parameters::default()
    }
}

#[test]
fn tail_contains_the_requested_parameters() {
    let parameters = Parameters {
        max_output_tokens: Some(7),
        temperature: Some(0.7),
        top_p: Some(1.0),
        stop: vec!["END".into()],
        tool_choice: Some(ToolChoice::Tool("f".into())),
        parallel_tool_calls: Some(false),
        reasoning: Some(RequestedReasoning::Effort("high".into())),
        output: Some(OutputFormat {
            name: "answer".into(),
            schema: json!({"type": "object", "additionalProperties": false}),
            strict: true,
        }),
        cache_key: Some("not Anthropic's".into()),
        ..model()
    };
    assert_eq!(
        text(&messages().tail(&parameters, true)),
        concat!(
            r#","model":"m","max_tokens":7,"temperature":0.7,"top_p":1.0,"stop_sequences":["END"],"#,
            r#""tool_choice":{"type":"tool","name":"f","disable_parallel_tool_use":true},"#,
            r#""thinking":{"type":"adaptive"},"#,
            r#""output_config":{"effort":"high","format":{"type":"json_schema","schema":{"type":"object","additionalProperties":false}}},"#,
            r#""stream":true}"#
        )
    );
    assert_eq!(
        tail(&model()),
        json!({"model": "m", "max_tokens": DEFAULT_MAX_TOKENS})
    );
}

#[test]
fn reasoning_is_sent_as_budget_effort_or_disabled() {
    for (wish, thinking, max_tokens) in [
        (
            RequestedReasoning::Budget(2048),
            json!({"type": "enabled", "budget_tokens": 2048}),
            DEFAULT_MAX_TOKENS + 2048,
        ),
        (
            RequestedReasoning::Budget(0),
            json!({"type": "disabled"}),
            DEFAULT_MAX_TOKENS,
        ),
        (
            RequestedReasoning::Effort("low".into()),
            json!({"type": "adaptive"}),
            DEFAULT_MAX_TOKENS_WITH_EFFORT,
        ),
        (
            RequestedReasoning::Effort("none".into()),
            json!({"type": "disabled"}),
            DEFAULT_MAX_TOKENS,
        ),
    ] {
        let effort = (thinking["type"] == "adaptive").then(|| json!({"effort": "low"}));
        let sent = tail(&Parameters {
            reasoning: Some(wish),
            ..model()
        });
        assert_eq!(sent["thinking"], thinking);
        assert_eq!(sent["max_tokens"], max_tokens);
        assert_eq!(sent.get("output_config"), effort.as_ref());
    }
}

#[test]
fn parallel_tool_calls_false_is_sent_in_tool_choice() {
    let choice = |tool_choice, parallel_tool_calls| {
        let sent = tail(&Parameters {
            tool_choice,
            parallel_tool_calls,
            ..model()
        });
        sent.get("tool_choice").cloned()
    };
    let one = json!({"type": "auto", "disable_parallel_tool_use": true});
    assert_eq!(choice(None, None), None);
    assert_eq!(choice(None, Some(true)), None);
    assert_eq!(choice(None, Some(false)), Some(one.clone()));
    assert_eq!(choice(Some(ToolChoice::Auto), Some(false)), Some(one));
    assert_eq!(
        choice(Some(ToolChoice::Auto), None),
        Some(json!({"type": "auto"}))
    );
    assert_eq!(
        choice(Some(ToolChoice::Any), Some(true)),
        Some(json!({"type": "any"}))
    );
    assert_eq!(
        choice(Some(ToolChoice::None), Some(false)),
        Some(json!({"type": "none"}))
    );
}

#[test]
fn extra_parameters_override_others_except_arrays_and_stream() {
    let parameters = Parameters {
        max_output_tokens: Some(7),
        temperature: Some(0.5),
        reasoning: Some(RequestedReasoning::Effort("high".into())),
        extra: fields(json!({
            "max_tokens": 8, "temperature": null, "metadata": {"user_id": "u"},
            "thinking": {"type": "adaptive", "display": "summarized"}, "service_tier": null,
            "messages": [], "system": "x", "tools": [], "stream": true
        })),
        ..model()
    };
    assert_eq!(
        tail(&parameters),
        json!({"model": "m", "max_tokens": 8,
            "thinking": {"type": "adaptive", "display": "summarized"},
            "output_config": {"effort": "high"}, "metadata": {"user_id": "u"}, "service_tier": null})
    );
}

#[test]
fn non_finite_number_is_omitted() {
    let sent = tail(&Parameters {
        temperature: Some(f64::NAN),
        top_p: Some(f64::INFINITY),
        ..model()
    });
    assert_eq!(
        sent,
        json!({"model": "m", "max_tokens": DEFAULT_MAX_TOKENS})
    );
}
