//! The provider's own comparison of a request with an earlier one has precedence over ours.

use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::Catalog;
use cachalot_prefix::diagnosis::{LikelyCause, Reason};
use cachalot_prefix::log::{Analysis, Analyzer};
use serde_json::{Value, json};

fn analyzed(lines: &[Value]) -> Analysis {
    let log: Vec<String> = lines.iter().map(Value::to_string).collect();
    let mut analyzer = Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()));
    analyzer.read(log.join("\n").as_bytes()).unwrap();
    analyzer.finish()
}

/// The reason of each break, and whether the provider gave it.
fn reasons(lines: &[Value]) -> Vec<(Reason, bool)> {
    let found = analyzed(lines);
    let breaks = found.breaks.into_iter().flat_map(|breaks| breaks.examples);
    let broken = breaks.map(|broken| (broken.diagnosis.reason, broken.diagnosis.by_provider));
    broken.collect()
}

/// A request that names an earlier answer, and its answer with these `diagnostics`, which read so much.
fn message(system: &str, previous: Value, id: &str, diagnostics: Value, read: u64) -> Value {
    json!({"request": {"model": "claude-sonnet-4-6", "max_tokens": 9,
            "cache_control": {"type": "ephemeral"},
            "diagnostics": {"previous_message_id": previous},
            "system": system.repeat(1_000), "messages": [{"role": "user", "content": id}]},
        "response": {"id": id, "diagnostics": diagnostics,
            "usage": {"input_tokens": 3, "cache_read_input_tokens": read,
                "cache_creation_input_tokens": 2_000 - read, "output_tokens": 5}}})
}

fn missed(kind: &str) -> Value {
    json!({"cache_miss_reason": {"type": kind, "cache_missed_input_tokens": 1_990}})
}

#[test]
fn request_is_compared_with_the_answer_named_by_its_client() {
    // Nothing else says that the two belong together.
    let first = message("whale", Value::Null, "msg_1", Value::Null, 0);
    for (named, conversations, breaks) in [
        (json!("msg_1"), 1, vec![(Reason::SystemChanged, true)]),
        (json!("msg_0"), 2, vec![]),
        (Value::Null, 2, vec![]),
    ] {
        let second = message("squid", named.clone(), "msg_2", missed("system_changed"), 0);
        let lines = [first.clone(), second];
        assert_eq!(reasons(&lines), breaks, "{named}");
        assert_eq!(analyzed(&lines).conversations, conversations, "{named}");
    }
}

#[test]
fn difference_ignored_by_the_provider_is_no_break() {
    let first = message("whale", Value::Null, "msg_1", Value::Null, 0);
    let second = |diagnostics, read| {
        let second = message("squid", json!("msg_1"), "msg_2", diagnostics, read);
        [first.clone(), second]
    };
    assert_eq!(reasons(&second(Value::Null, 1_990)), []);
    // The requests match, and the entry was gone.
    let gone = reasons(&second(Value::Null, 0));
    assert_eq!(gone, [(Reason::EvictedOrUnknown, false)]);
    // Without a result, our own comparison counts.
    for none in [
        json!({"cache_miss_reason": null}),
        json!({"cache_miss_reason": {"type": "previous_message_not_found"}}),
        json!({"cache_miss_reason": {"type": "unavailable"}}),
        json!({"cache_miss_reason": {"type": "not_heard_of"}}),
    ] {
        let found = reasons(&second(none.clone(), 0));
        assert_eq!(found, [(Reason::SystemChanged, false)], "{none}");
    }
}

#[test]
fn different_reason_of_the_provider_has_no_place() {
    let first = message("whale", Value::Null, "msg_1", Value::Null, 0);
    let second = message("squid", json!("msg_1"), "msg_2", missed("tools_changed"), 0);
    let found = analyzed(&[first, second]);
    let diagnosis = &found.breaks[0].examples[0].diagnosis;
    assert_eq!(diagnosis.reason, Reason::ToolsChanged);
    assert_eq!((&diagnosis.at, &diagnosis.change), (&None, &None));
    let text = diagnosis.to_string();
    let part = "(tools_changed by its own comparison)";
    assert!(text.contains(part), "{text}");
    assert_eq!(json!(diagnosis)["by_provider"], true);
    // What was written anew, by the usage; not what the provider estimates.
    assert_eq!(diagnosis.lost_tokens, 2_000);
}

fn response(previous: Option<&str>, id: &str, diagnostics: Value, read: u64) -> Value {
    let options = match previous {
        Some(previous) => json!({"comparison_response_id": previous}),
        None => json!({}),
    };
    json!({"request": {"model": "gpt-5.6-terra", "instructions": "whale ".repeat(1_000),
            "prompt_cache_options": options, "input": "Go on."},
        "response": {"id": id, "prompt_cache_diagnostics": diagnostics,
            "usage": {"input_tokens": 1_500, "output_tokens": 5,
                "input_tokens_details": {"cached_tokens": read}}}})
}

fn miss(reason: &str) -> Value {
    json!({"type": "cache_miss", "reason": reason, "cache_missed_tokens": 1_400,
        "comparison_reusable_tokens": 1_490})
}

#[test]
fn difference_seen_only_by_the_provider_is_a_break() {
    for (reason, expected, cause) in [
        (
            "reasoning_effort_changed",
            Reason::ParametersChanged,
            LikelyCause::ReasoningSetting,
        ),
        (
            "verbosity_changed",
            Reason::ParametersChanged,
            LikelyCause::OutputSetting,
        ),
        (
            "service_tier_changed",
            Reason::ParametersChanged,
            LikelyCause::Routing,
        ),
        (
            "prompt_cache_key_changed",
            Reason::ParametersChanged,
            LikelyCause::CacheKeyChanged,
        ),
        (
            "context_compacted",
            Reason::MessagesChanged,
            LikelyCause::Compaction,
        ),
        (
            "model_changed",
            Reason::ModelChanged,
            LikelyCause::ModelSwitched,
        ),
    ] {
        let first = response(None, "resp_1", Value::Null, 1_024);
        let found = analyzed(&[
            first.clone(),
            response(Some("resp_1"), "resp_2", miss(reason), 0),
        ]);
        let breaks = &found.breaks;
        assert_eq!(breaks.len(), 1, "{reason}: {breaks:?}");
        assert_eq!(
            (breaks[0].reason, breaks[0].cause),
            (expected, Some(cause)),
            "{reason}"
        );
        // A miss by which nothing is lost is none.
        let read = response(Some("resp_1"), "resp_2", miss(reason), 1_490);
        assert_eq!(reasons(&[first, read]), [], "{reason}");
    }
    let hit = json!({"type": "cache_hit"});
    let first = response(None, "resp_1", Value::Null, 1_024);
    let second = response(Some("resp_1"), "resp_2", hit, 1_490);
    assert_eq!(reasons(&[first, second]), []);
}

#[test]
fn comparisons_are_read_from_streams() {
    let first = message("whale", Value::Null, "msg_1", Value::Null, 0);
    let second = message("whale", json!("msg_1"), "msg_2", missed("tools_changed"), 0);
    let streamed = |mut line: Value| {
        let mut message = line["response"].take();
        let usage = message["usage"].clone();
        message["usage"]["output_tokens"] = json!(1);
        let events = [
            json!({"type": "message_start", "message": message}),
            json!({"type": "message_delta", "delta": {}, "usage": usage}),
        ];
        let events = events.map(|event| format!("event: x\ndata: {event}\n\n"));
        line["response"] = json!(events.concat());
        line
    };
    let lines = [first, second].map(streamed);
    assert_eq!(reasons(&lines), [(Reason::ToolsChanged, true)]);

    let first = response(None, "resp_1", Value::Null, 1_024);
    let second = response(Some("resp_1"), "resp_2", miss("verbosity_changed"), 0);
    let streamed = |mut line: Value| {
        let whole = line["response"].take();
        let events = [
            json!({"type": "response.created", "response": {"id": whole["id"], "usage": null}}),
            json!({"type": "response.completed", "response": whole}),
        ];
        let events = events.map(|event| format!("event: x\ndata: {event}\n\n"));
        line["response"] = json!(events.concat());
        line
    };
    let lines = [first, second].map(streamed);
    assert_eq!(reasons(&lines), [(Reason::ParametersChanged, true)]);
}
