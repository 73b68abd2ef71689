//! What answers say beside their tokens: in each format, whole and streamed.

use cachalot_wire::{
    CHAT, CONVERSE, GEMINI, INTERACTIONS, MESSAGES, ModelUsage, RESPONSES, Reply, Terms, Usage,
    Wire, sse,
};
use serde_json::{Value, json};

fn whole(wire: &dyn Wire, answer: &Value) -> Reply {
    wire.reply(answer.to_string().as_bytes()).unwrap()
}

fn streamed(wire: &dyn Wire, events: &[(&str, Value)]) -> Reply {
    let mut reader = wire.reader();
    for (name, data) in events {
        let event = sse::Event {
            name: (*name).to_owned(),
            data: data.to_string(),
        };
        reader.event(&event).unwrap();
    }
    reader.finish().unwrap()
}

fn tier(name: &str) -> Terms {
    Terms {
        tier: Some(name.to_owned()),
        ..Terms::default()
    }
}

fn unknown(name: &str) -> Terms {
    Terms {
        unknown: Some(name.to_owned()),
        ..Terms::default()
    }
}

fn response(members: Value) -> Value {
    let mut answer = json!({"id": "r", "object": "response", "status": "completed", "model": "gpt-6-sol",
        "output": [{"type": "message", "id": "m", "role": "assistant", "status": "completed",
            "content": [{"type": "output_text", "text": "x", "annotations": []}]}],
        "usage": {"input_tokens": 10, "output_tokens": 2}});
    for (name, value) in members.as_object().unwrap() {
        answer[name] = value.clone();
    }
    answer
}

#[test]
fn responses_name_tier_searches_and_tools() {
    for (members, terms, searches) in [
        (json!({}), Terms::default(), 0),
        (json!({"service_tier": "priority"}), tier("priority"), 0),
        (
            json!({"tool_usage": {"web_search": {"num_requests": 3}, "image_gen": {"input_tokens": 0}}}),
            Terms::default(),
            3,
        ),
        (
            json!({"tool_usage": {"image_gen": {"input_tokens": 5}}, "service_tier": "flex"}),
            Terms {
                unknown: Some("image_gen".to_owned()),
                ..tier("flex")
            },
            0,
        ),
        // Servers that count no tools.
        (
            json!({"output": [
                {"type": "web_search_call", "id": "w1", "status": "completed", "action": {"type": "search", "query": "q"}},
                {"type": "web_search_call", "id": "w2", "status": "completed", "action": {"type": "open_page", "url": "u"}},
                {"type": "web_search_call", "id": "w3", "status": "completed"},
            ]}),
            Terms::default(),
            2,
        ),
        (
            json!({"output": [{"type": "file_search_call", "id": "f", "status": "completed"}]}),
            unknown("file search"),
            0,
        ),
        (
            json!({"usage": {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": {"audio_tokens": 4}}}),
            unknown("audio tokens"),
            0,
        ),
    ] {
        let answer = response(members.clone());
        let completed = json!({"type": "response.completed", "response": answer});
        let streamed = streamed(&*RESPONSES, &[("response.completed", completed)]);
        for reply in [whole(&*RESPONSES, &answer), streamed] {
            assert_eq!(RESPONSES.terms(&reply), terms, "{members}");
            assert_eq!(reply.usage.unwrap().web_searches, searches, "{members}");
        }
    }
    let details = json!({"cached_tokens": 1, "cache_write_tokens": 7,
        "cache_write_tokens_details": {"ttl_30m_tokens": 3, "ttl_12h_tokens": 4}});
    let answer = response(
        json!({"usage": {"input_tokens": 10, "output_tokens": 2, "input_tokens_details": details}}),
    );
    let expected = Usage {
        uncached_input: 2,
        cache_read: 1,
        cache_write_12h: 4,
        cache_write_other: 3,
        output: 2,
        ..Usage::default()
    };
    assert_eq!(whole(&*RESPONSES, &answer).usage, Some(expected));
}

#[test]
fn chat_names_tier_and_audio() {
    let choice = json!({"index": 0, "message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"});
    let usage = json!({"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": {"audio_tokens": 0}});
    let answer = json!({"id": "c", "model": "m", "service_tier": "priority", "choices": [choice], "usage": usage});
    assert_eq!(CHAT.terms(&whole(&*CHAT, &answer)), tier("priority"));
    let mut heard = answer.clone();
    heard["usage"]["completion_tokens_details"] = json!({"audio_tokens": 1});
    heard["service_tier"] = Value::Null;
    assert_eq!(CHAT.terms(&whole(&*CHAT, &heard)), unknown("audio tokens"));
    let chunk = json!({"id": "c", "model": "m", "service_tier": "flex", "choices": [
        {"index": 0, "delta": {"content": "x"}, "finish_reason": "stop"}]});
    let last = json!({"id": "c", "model": "m", "choices": [], "usage": usage});
    let reply = streamed(&*CHAT, &[("message", chunk), ("message", last)]);
    assert_eq!(CHAT.terms(&reply), tier("flex"));
}

#[test]
fn messages_have_their_terms_and_further_models_in_the_usage() {
    let usage = json!({"input_tokens": 10, "output_tokens": 2, "service_tier": "batch", "inference_geo": "us",
        "speed": "fast", "server_tool_use": {"web_search_requests": 2}, "iterations": [
            {"type": "compaction", "input_tokens": 100, "output_tokens": 5, "cache_read_input_tokens": 7},
            {"type": "message", "input_tokens": 10, "output_tokens": 2},
            {"type": "advisor_message", "model": "claude-opus-5", "input_tokens": 20, "output_tokens": 3}]});
    let answer = json!({"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5",
        "stop_reason": "end_turn", "content": [{"type": "text", "text": "x"}], "usage": usage});
    let mut start = answer.clone();
    start["content"] = json!([]);
    start["stop_reason"] = Value::Null;
    start["usage"] = json!({"input_tokens": 10, "output_tokens": 1});
    let events = [
        (
            "message_start",
            json!({"type": "message_start", "message": start}),
        ),
        (
            "message_delta",
            json!({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage}),
        ),
        ("message_stop", json!({"type": "message_stop"})),
    ];
    let terms = Terms {
        tier: Some("batch".to_owned()),
        geography: Some("us".to_owned()),
        speed: Some("fast".to_owned()),
        ..Terms::default()
    };
    let row = |model: Option<&str>, uncached_input, cache_read, output, web_searches| ModelUsage {
        model: model.map(str::to_owned),
        usage: Usage {
            uncached_input,
            cache_read,
            output,
            web_searches,
            ..Usage::default()
        },
    };
    let rows = [
        row(None, 10, 0, 2, 2),
        row(None, 100, 7, 5, 0),
        row(Some("claude-opus-5"), 20, 0, 3, 0),
    ];
    for reply in [whole(&*MESSAGES, &answer), streamed(&*MESSAGES, &events)] {
        assert_eq!(MESSAGES.terms(&reply), terms);
        assert_eq!(MESSAGES.usages(&reply), rows);
    }
    // Another model has answered after a refusal: the counters are those of its attempt.
    let mut fallback = answer.clone();
    fallback["model"] = json!("claude-opus-5");
    fallback["usage"] = json!({"input_tokens": 10, "output_tokens": 2, "iterations": [
        {"type": "message", "model": "claude-sonnet-5", "input_tokens": 30, "output_tokens": 1},
        {"type": "fallback_message", "model": "claude-opus-5", "input_tokens": 10, "output_tokens": 2}]});
    let rows = [
        row(Some("claude-opus-5"), 10, 0, 2, 0),
        row(Some("claude-sonnet-5"), 30, 0, 1, 0),
    ];
    let reply = whole(&*MESSAGES, &fallback);
    assert_eq!(MESSAGES.usages(&reply), rows);
    assert_eq!(MESSAGES.terms(&reply), Terms::default());
    for (name, value, expected) in [
        (
            "fallback_credit",
            json!({"status": {"type": "redeemed"}}),
            unknown("fallback_credit"),
        ),
        (
            "fallback_credit",
            json!({"status": {"type": "issued"}}),
            Terms::default(),
        ),
        (
            "iterations",
            json!([{"type": "new_kind", "input_tokens": 9, "output_tokens": 9}]),
            unknown("iteration new_kind"),
        ),
    ] {
        let mut other = answer.clone();
        other["usage"] = json!({"input_tokens": 10, "output_tokens": 2, name: value});
        let reply = whole(&*MESSAGES, &other);
        assert_eq!(MESSAGES.terms(&reply), expected, "{name}");
    }
}

#[test]
fn gemini_names_its_tier_and_counts_searches() {
    let answer = |model: &str, usage: Value, queries: &[&str]| {
        let mut counts = json!({"promptTokenCount": 10, "candidatesTokenCount": 2});
        for (name, value) in usage.as_object().unwrap() {
            counts[name] = value.clone();
        }
        json!({"modelVersion": model, "usageMetadata": counts, "candidates": [{
            "content": {"parts": [{"text": "x"}]}, "finishReason": "STOP",
            "groundingMetadata": {"webSearchQueries": queries}}]})
    };
    for (usage, terms) in [
        (json!({}), Terms::default()),
        (json!({"serviceTier": "flex"}), tier("flex")),
        (
            json!({"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 9}, {"modality": "AUDIO", "tokenCount": 1}]}),
            unknown("audio tokens"),
        ),
        (
            json!({"promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}, {"modality": "AUDIO", "tokenCount": 0}]}),
            Terms::default(),
        ),
        (
            json!({"serviceTier": "SERVICE_TIER_PRIORITY"}),
            tier("priority"),
        ),
        (json!({"serviceTier": "deferred"}), tier("deferred")),
        (json!({"trafficType": "ON_DEMAND"}), tier("on_demand")),
        (
            json!({"trafficType": "ON_DEMAND_PRIORITY"}),
            tier("priority"),
        ),
        (
            json!({"trafficType": "PROVISIONED_THROUGHPUT"}),
            tier("provisioned_throughput"),
        ),
        (
            json!({"trafficType": "TRAFFIC_TYPE_UNSPECIFIED"}),
            Terms::default(),
        ),
    ] {
        let reply = whole(&*GEMINI, &answer("gemini-4-argon", usage.clone(), &[]));
        assert_eq!(GEMINI.terms(&reply), terms, "{usage}");
        assert_eq!(reply.usage.unwrap(), Usage::from_counts(10, 2));
    }
    for (model, queries, searches) in [
        ("gemini-4-argon", &["a", "b"][..], 2),
        // Until Gemini 2.5, an answer with any number of searches has one price.
        ("gemini-2.5-flash", &["a", "b"], 1),
        ("gemini-2.5-flash", &[], 0),
    ] {
        let reply = whole(&*GEMINI, &answer(model, json!({}), queries));
        assert_eq!(reply.usage.unwrap().web_searches, searches, "{model}");
    }
}

#[test]
fn interactions_name_tier_searches_and_media() {
    let answer = |model: &str, members: Value, usage: Value| {
        let mut answer = json!({"id": "v1_1", "model": model, "status": "completed",
            "steps": [{"type": "model_output", "content": [{"type": "text", "text": "x"}]}],
            "usage": {"total_input_tokens": 10, "total_output_tokens": 2}});
        for (name, value) in usage.as_object().unwrap() {
            answer["usage"][name] = value.clone();
        }
        for (name, value) in members.as_object().unwrap() {
            answer[name] = value.clone();
        }
        answer
    };
    let tools =
        |name: &str, count: u64| json!({"grounding_tool_count": [{"type": name, "count": count}]});
    let media = |name: &str, modality: &str| json!({name: [{"modality": modality, "tokens": 3}]});
    for (members, usage, terms, searches) in [
        (json!({}), json!({}), Terms::default(), 0),
        (
            json!({"service_tier": "priority"}),
            json!({}),
            tier("priority"),
            0,
        ),
        (
            json!({"service_tier": "deferred"}),
            json!({}),
            tier("deferred"),
            0,
        ),
        (json!({}), tools("google_search", 3), Terms::default(), 3),
        (
            json!({}),
            tools("google_maps", 1),
            unknown("google maps"),
            0,
        ),
        (json!({}), tools("retrieval", 0), Terms::default(), 0),
        (
            json!({}),
            media("input_tokens_by_modality", "text"),
            Terms::default(),
            0,
        ),
        (
            json!({}),
            media("input_tokens_by_modality", "image"),
            Terms::default(),
            0,
        ),
        (
            json!({}),
            media("input_tokens_by_modality", "audio"),
            unknown("audio tokens"),
            0,
        ),
        (
            json!({}),
            media("cached_tokens_by_modality", "audio"),
            unknown("audio tokens"),
            0,
        ),
        (
            json!({}),
            media("output_tokens_by_modality", "text"),
            Terms::default(),
            0,
        ),
        (
            json!({}),
            media("output_tokens_by_modality", "image"),
            unknown("image tokens"),
            0,
        ),
    ] {
        let answer = answer("gemini-4-argon", members, usage);
        let reply = whole(&*INTERACTIONS, &answer);
        assert_eq!(INTERACTIONS.terms(&reply), terms, "{answer}");
        let usage = Usage {
            web_searches: searches,
            ..Usage::from_counts(10, 2)
        };
        assert_eq!(reply.usage, Some(usage), "{answer}");
        let ended = json!({"event_type": "interaction.completed", "interaction": answer});
        let streamed = streamed(&*INTERACTIONS, &[("interaction.completed", ended)]);
        assert_eq!(INTERACTIONS.terms(&streamed), terms);
    }
    // Until Gemini 2.5, an answer with any number of searches has one price.
    let answer = answer("gemini-2.5-flash", json!({}), tools("google_search", 3));
    let reply = whole(&*INTERACTIONS, &answer);
    assert_eq!(reply.usage.unwrap().web_searches, 1);
}

#[test]
fn converse_names_its_tier() {
    let answer = json!({"output": {"message": {"role": "assistant", "content": [{"text": "x"}]}},
        "stopReason": "end_turn", "serviceTier": {"type": "priority"},
        "usage": {"inputTokens": 10, "outputTokens": 2}});
    let reply = whole(&*CONVERSE, &answer);
    assert_eq!(CONVERSE.terms(&reply), tier("priority"));
    assert_eq!(
        CONVERSE.usages(&reply),
        [ModelUsage {
            model: None,
            usage: Usage::from_counts(10, 2)
        }]
    );
}
