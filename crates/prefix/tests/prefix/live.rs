//! Live traffic of several clients.

use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::diagnosis::{ColdPrefix, Diagnosis, LikelyCause, Reason};
use cachalot_prefix::log::{
    LiveAnalyzer, LiveAnswer, LiveBody, LivePlacement, LiveRequest, OpenLimits,
};
use serde_json::{Value, json};

fn analyzer(limits: OpenLimits) -> LiveAnalyzer {
    let secret_set = Arc::new(SecretSet::empty());
    LiveAnalyzer::new(Arc::new(Catalog::built_in()), secret_set, limits, "process")
}

/// The request of a turn, from 1, of a conversation about `topic`.
fn turn(clock: &str, topic: &str, number: usize) -> Value {
    let instruction = format!("It is {clock}. {}", "Answer briefly. ".repeat(800));
    let mut messages = vec![json!({"role": "system", "content": instruction})];
    for earlier in 1..number {
        messages.push(json!({"role": "user", "content": format!("{topic}, question {earlier}")}));
        messages
            .push(json!({"role": "assistant", "content": format!("{topic}, answer {earlier}")}));
    }
    messages.push(json!({"role": "user", "content": format!("{topic}, question {number}")}));
    json!({"model": "gpt-4.1", "messages": messages})
}

fn read(tokens: u64) -> LiveAnswer {
    LiveAnswer {
        usage: Some(Usage {
            uncached_input: 3_300 - tokens,
            cache_read: tokens,
            ..Usage::default()
        }),
        ..LiveAnswer::default()
    }
}

fn take(analyzer: &mut LiveAnalyzer, tenant: &str, body: &Value, tokens: u64) -> LivePlacement {
    let body = body.to_string();
    let request = LiveRequest {
        tenant,
        session: None,
        body: LiveBody::Text(body.as_bytes()),
        at: 1_800_000_000_000,
    };
    analyzer.take(request, read(tokens)).unwrap()
}

fn last_break(analyzer: &mut LiveAnalyzer, tenant: &str, body: &Value) -> Option<Diagnosis> {
    let body = body.to_string();
    let request = LiveRequest {
        tenant,
        session: None,
        body: LiveBody::Text(body.as_bytes()),
        at: 1_800_000_000_000,
    };
    analyzer.last_break(request).unwrap().cloned()
}

#[test]
fn breaks_of_a_conversation_are_diagnosed_request_by_request() {
    let mut analyzer = analyzer(OpenLimits::default());
    let first = take(&mut analyzer, "a", &turn("10:41", "x", 1), 0);
    assert!(first.diagnosis.is_none() && first.conversation.len() == 16);
    let second = take(&mut analyzer, "a", &turn("10:41", "x", 2), 3_200);
    let found = second.diagnosis.unwrap();
    assert_eq!((found.reason, found.is_break()), (Reason::None, false));
    assert_eq!(second.conversation, first.conversation);
    assert_ne!(second.prefix, first.prefix);
    let third = take(&mut analyzer, "a", &turn("10:42", "x", 3), 0);
    let found = third.diagnosis.unwrap();
    assert_eq!(
        (found.reason, found.cause),
        (Reason::SystemChanged, Some(LikelyCause::Timestamp))
    );
    assert!(found.lost_tokens > 2_000, "{found}");
    assert_eq!(third.conversation, first.conversation);
    // The next request is told about it until it is answered.
    let next = turn("10:42", "x", 4);
    let known = last_break(&mut analyzer, "a", &next).unwrap();
    assert_eq!(known.reason, Reason::SystemChanged);
    assert!(last_break(&mut analyzer, "b", &next).is_none());
    assert!(last_break(&mut analyzer, "a", &turn("10:43", "x", 4)).is_none());
    take(&mut analyzer, "a", &next, 3_200);
    assert!(last_break(&mut analyzer, "a", &turn("10:42", "x", 5)).is_none());
}

#[test]
fn tenants_are_not_compared() {
    let mut analyzer = analyzer(OpenLimits::default());
    let one = take(&mut analyzer, "a", &turn("10:41", "x", 1), 0);
    // The same text of another tenant is another conversation, also with a change.
    for body in [turn("10:41", "x", 2), turn("10:42", "x", 2)] {
        let other = take(&mut analyzer, "b", &body, 0);
        assert!(other.conversation != one.conversation);
    }
    // A named session and a named answer lead to conversations of the same tenant only.
    let mut named = turn("10:41", "y", 1);
    named["session_id"] = json!("s");
    let answered = |id: &str| LiveAnswer {
        id: Some(id.to_owned()),
        ..read(0)
    };
    let mut ask = |tenant: &str, body: &Value, id: &str| {
        let body = body.to_string();
        let request = LiveRequest {
            tenant,
            session: None,
            body: LiveBody::Text(body.as_bytes()),
            at: 1,
        };
        analyzer.take(request, answered(id)).unwrap()
    };
    let first = ask("a", &named, "answer-1");
    assert_eq!(first.conversation, "s");
    let mut next = turn("10:42", "y", 2);
    next["session_id"] = json!("s");
    next["prompt_cache_options"] = json!({"comparison_response_id": "answer-1"});
    assert!(ask("b", &next, "answer-2").diagnosis.is_none());
    assert!(ask("a", &next, "answer-3").diagnosis.is_some());
}

#[test]
fn least_recently_used_conversations_are_forgotten() {
    for limits in [
        OpenLimits {
            conversations: 2,
            ..OpenLimits::default()
        },
        // Two of these requests take about 30,000 bytes.
        OpenLimits {
            bytes: 40_000,
            ..OpenLimits::default()
        },
    ] {
        let mut analyzer = analyzer(limits);
        for topic in ["x", "y", "z"] {
            take(&mut analyzer, topic, &turn("10:41", topic, 1), 0);
        }
        let oldest = take(&mut analyzer, "x", &turn("10:41", "x", 2), 0);
        assert!(oldest.diagnosis.is_none(), "{limits:?}");
        let newest = take(&mut analyzer, "z", &turn("10:41", "z", 2), 3_200);
        assert!(newest.diagnosis.is_some(), "{limits:?}");
    }
}

#[test]
fn other_texts_are_refused_and_long_names_are_shortened() {
    let mut analyzer = analyzer(OpenLimits::default());
    let request = |body| LiveRequest {
        tenant: "a",
        session: None,
        body: LiveBody::Text(body),
        at: 1,
    };
    assert!(
        analyzer
            .take(request(b"[1]"), LiveAnswer::default())
            .is_err()
    );
    let body = turn("10:41", "x", 1).to_string();
    let name = "s".repeat(200);
    let named = LiveRequest {
        session: Some(&name),
        ..request(body.as_bytes())
    };
    let placed = analyzer.take(named, LiveAnswer::default()).unwrap();
    assert_eq!(placed.conversation.len(), 16);
}

/// A request of Messages with a marker at its end, with this lifetime.
fn marked_turn(number: usize, ttl: &str) -> Value {
    let mut messages = Vec::new();
    for earlier in 1..number {
        messages.push(json!({"role": "user", "content": format!("question {earlier}")}));
        messages.push(json!({"role": "assistant", "content": format!("answer {earlier}")}));
    }
    messages.push(json!({"role": "user", "content": [{
        "type": "text", "text": format!("question {number}"),
        "cache_control": {"type": "ephemeral", "ttl": ttl},
    }]}));
    let instruction = "Answer briefly. ".repeat(2_000);
    json!({"model": "claude-sonnet-4-5", "max_tokens": 10, "system": instruction, "messages": messages})
}

/// Takes the first turn of a conversation, of 8,000 tokens, and returns its prefix before the second turn, which is sent
/// after `pause` seconds.
fn cold_after(turn: impl Fn(usize) -> Value, pause: i64) -> Option<ColdPrefix> {
    let mut analyzer = analyzer(OpenLimits::default());
    let usage = Usage {
        cache_write_5m: 8_000,
        ..Usage::default()
    };
    ask_at(&mut analyzer, &turn(1), 0, usage);
    cold(&mut analyzer, &turn(2), pause)
}

fn ask_at(analyzer: &mut LiveAnalyzer, body: &Value, seconds: i64, usage: Usage) {
    let answer = LiveAnswer {
        usage: Some(usage),
        ..LiveAnswer::default()
    };
    let body = body.to_string();
    analyzer.take(live_at(&body, seconds), answer).unwrap();
}

fn cold(analyzer: &mut LiveAnalyzer, body: &Value, seconds: i64) -> Option<ColdPrefix> {
    let body = body.to_string();
    let found = analyzer.cold_prefix(live_at(&body, seconds)).unwrap();
    found.map(|(_, cold)| cold)
}

fn live_at(body: &str, seconds: i64) -> LiveRequest<'_> {
    LiveRequest {
        tenant: "a",
        session: None,
        body: LiveBody::Text(body.as_bytes()),
        at: 1_800_000_000_000 + seconds * 1_000,
    }
}

#[test]
fn prefix_is_cold_after_its_lifetime() {
    let short = |pause| cold_after(|number| marked_turn(number, "5m"), pause);
    assert_eq!(short(300), None);
    let cold = short(301).unwrap();
    assert_eq!(
        (cold.idle.as_secs(), cold.lifetime.as_secs(), cold.tokens),
        (301, 300, 8_000)
    );
    // $3.75 to write a million tokens, $0.30 to read them.
    assert_eq!(cold.cost.unwrap().dollars(), 8_000.0 * 3.45 / 1e6);
    let long = |pause| cold_after(|number| marked_turn(number, "1h"), pause);
    assert_eq!(long(3_600), None);
    // Written for an hour again: $6.
    let cold = long(3_601).unwrap();
    assert_eq!(cold.cost.unwrap().dollars(), 8_000.0 * 5.70 / 1e6);
    let unmarked = |number| {
        let mut turn = marked_turn(number, "5m");
        let last = turn["messages"].as_array_mut().unwrap().last_mut().unwrap();
        last["content"] = json!(format!("question {number}"));
        turn
    };
    assert_eq!(cold_after(unmarked, 100_000), None);
}

#[test]
fn prefix_without_a_fixed_lifetime_is_never_cold() {
    let named = |model: &'static str| {
        move |number| {
            let mut body = turn("10:41", "x", number);
            body["model"] = json!(model);
            body
        }
    };
    assert!(cold_after(named("gpt-5.6"), 1_801).is_some());
    assert!(cold_after(named("gpt-5.6"), 1_800).is_none());
    // For as long as there is room.
    assert!(cold_after(named("gpt-4.1"), 1_000_000).is_none());
    assert!(cold_after(named("gpt-5.5"), 1_000_000).is_none());
    assert!(cold_after(named("gemini-3-flash"), 1_000_000).is_none());
    assert!(cold_after(named("mistral-large-4"), 1_000_000).is_none());
}

#[test]
fn prefix_that_another_request_has_read_is_not_cold() {
    let mut analyzer = analyzer(OpenLimits::default());
    let usage = |cache_read| Usage {
        cache_read,
        ..Usage::default()
    };
    for number in 1..=4 {
        ask_at(&mut analyzer, &marked_turn(number, "5m"), 0, usage(8_000));
    }
    // The last question is asked in other words, which begins another conversation with the same beginning.
    let mut fork = marked_turn(4, "5m");
    fork["messages"][6]["content"][0]["text"] = json!("another one");
    ask_at(&mut analyzer, &fork, 290, usage(8_000));
    let next = marked_turn(5, "5m");
    assert_eq!(cold(&mut analyzer, &next, 400), None);
    assert_eq!(cold(&mut analyzer, &next, 700).unwrap().idle.as_secs(), 700);
    // Of other tenants, nothing is known.
    let body = next.to_string();
    let other = LiveRequest {
        tenant: "b",
        ..live_at(&body, 700)
    };
    assert!(analyzer.cold_prefix(other).unwrap().is_none());
}

#[test]
fn request_that_was_sent_keeps_its_conversation_warm_and_is_diagnosed_by_the_one_before() {
    let mut analyzer = analyzer(OpenLimits::default());
    let written = Usage {
        cache_write_5m: 8_000,
        ..Usage::default()
    };
    ask_at(&mut analyzer, &marked_turn(1, "5m"), 0, written);
    let second = marked_turn(2, "5m").to_string();
    let number = analyzer.begin(live_at(&second, 400)).unwrap();
    assert!(number.is_some());
    // It was cut off, and the next one follows.
    assert_eq!(cold(&mut analyzer, &marked_turn(3, "5m"), 600), None);
    assert!(cold(&mut analyzer, &marked_turn(3, "5m"), 701).is_some());
    let answer = LiveAnswer {
        usage: Some(written),
        ..LiveAnswer::default()
    };
    let placed = analyzer.take(live_at(&second, 400), answer).unwrap();
    assert_eq!(placed.previous_number, number);
    assert_eq!(placed.diagnosis.unwrap().reason, Reason::Expired);
    let number = placed.number;
    analyzer.renew(number, 1_800_000_000_000 + 690_000);
    assert_eq!(cold(&mut analyzer, &marked_turn(3, "5m"), 980), None);
}
