//! A conversation that is watched over: what becomes of its prefix from request to request.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::{Millis, SecretSet};
use cachalot_model::wire::{FormatWire, MESSAGES, MarkerTime};
use cachalot_model::{
    Catalog, Extra, Format, MarkerRules, Message, Parameters, Reply, StopReason, Usage,
};
use cachalot_prefix::diagnosis::{self, Reason};
use cachalot_prefix::{PrefixMonitor, SentRequest};
use cachalot_prompt::{Mark, Namespace, Plan, Prompt};

use super::marks;

const WIRE: FormatWire = MESSAGES;

fn begun(system: &str) -> Prompt {
    Prompt::begin(&[], &[WIRE.system(system)])
}

fn said(prompt: &Prompt, message: Message) -> Prompt {
    let pieces = WIRE.message(&message).unwrap();
    prompt.append(&pieces, Arc::new(message))
}

fn asked(prompt: &Prompt, model: &str, at: Millis) -> SentRequest {
    let parameters = Parameters {
        model: model.to_owned(),
        ..Parameters::default()
    };
    SentRequest {
        prompt: prompt.clone(),
        namespace: Namespace::new(Format::Messages, &parameters),
        plan: marks(prompt),
        format: Format::Messages,
        tail: Bytes::from_static(b"}"),
        at: Some(at),
    }
}

fn rules() -> diagnosis::Rules {
    diagnosis::Rules::new(
        MarkerRules::find("anthropic", "claude-sonnet-4-5", Format::Messages),
        None,
    )
}

fn answer(usage: Option<Usage>) -> Reply {
    Reply {
        message: Message::assistant("yes"),
        stop: StopReason::End,
        usage,
        model: String::new(),
        id: None,
        extra: Extra::new(),
    }
}

fn used(read: u64, written: u64) -> Reply {
    answer(Some(Usage {
        cache_read: read,
        cache_write_5m: written,
        ..Usage::default()
    }))
}

#[test]
fn continued_conversation_has_no_break_and_lost_cache_is_reported() {
    let secret_set = SecretSet::empty();
    let mut watch = PrefixMonitor::default();
    let first = said(&begun(&"s".repeat(9_000)), Message::user("one"));
    watch.ask(asked(&first, "m", 0));
    assert_eq!(watch.answer(&used(0, 2_000), &rules(), &secret_set), None);

    let second = said(&said(&first, Message::assistant("1")), Message::user("two"));
    watch.ask(asked(&second, "m", 10_000));
    let found = watch
        .answer(&used(2_000, 10), &rules(), &secret_set)
        .unwrap();
    assert_eq!(
        (found.reason, found.lost_tokens),
        (Reason::None, 0),
        "{found:?}"
    );

    let third = said(
        &said(&second, Message::assistant("2")),
        Message::user("three"),
    );
    watch.ask(asked(&third, "m", 10_000 + 400_000));
    let found = watch
        .answer(&used(0, 2_020), &rules(), &secret_set)
        .unwrap();
    assert_eq!(found.reason, Reason::Expired, "{found:?}");
    assert!(found.lost_tokens >= 2_000 && found.is_break(), "{found:?}");
}

#[test]
fn changed_model_and_system_text_are_reported() {
    let secret_set = SecretSet::empty();
    let mut watch = PrefixMonitor::default();
    let first = said(&begun(&"s".repeat(9_000)), Message::user("one"));
    watch.ask(asked(&first, "m", 0));
    watch.answer(&used(0, 2_000), &rules(), &secret_set);
    watch.ask(asked(&first, "n", 1_000));
    let found = watch
        .answer(&used(0, 2_000), &rules(), &secret_set)
        .unwrap();
    assert_eq!(found.reason, Reason::ModelChanged);

    let other = said(
        &begun(&format!("{}t", "s".repeat(8_999))),
        Message::user("one"),
    );
    watch.ask(asked(&other, "n", 2_000));
    let found = watch
        .answer(&used(0, 2_000), &rules(), &secret_set)
        .unwrap();
    assert_eq!(found.reason, Reason::SystemChanged);
    assert_eq!(found.at.as_ref().map(|at| at.level), Some("system"));
}

#[test]
fn fork_is_compared_with_its_parent_without_changing_it() {
    let secret_set = SecretSet::empty();
    let mut watch = PrefixMonitor::default();
    let first = said(&begun(&"s".repeat(9_000)), Message::user("one"));
    watch.ask(asked(&first, "m", 0));
    watch.answer(&used(0, 2_000), &rules(), &secret_set);
    let answered = said(&first, Message::assistant("1"));

    let mut fork = watch.clone();
    let aside = said(&answered, Message::user("aside"));
    fork.ask(asked(&aside, "m", 1_000));
    let found = fork
        .answer(&used(2_000, 10), &rules(), &secret_set)
        .unwrap();
    assert_eq!(found.reason, Reason::None, "{found:?}");

    let second = said(&answered, Message::user("two"));
    watch.ask(asked(&second, "m", 2_000));
    let found = watch
        .answer(&used(2_000, 10), &rules(), &secret_set)
        .unwrap();
    assert_eq!(found.reason, Reason::None, "{found:?}");
}

#[test]
fn resumed_conversation_is_compared_with_its_last_request() {
    let first = said(&begun(&"s".repeat(9_000)), Message::user("one"));
    let mut watch = PrefixMonitor::resumed(asked(&first, "m", 0), None);
    let second = said(&said(&first, Message::assistant("1")), Message::user("two"));
    watch.ask(asked(&second, "m", 60_000));
    let found = watch
        .answer(&used(0, 2_300), &rules(), &SecretSet::empty())
        .unwrap();
    assert_eq!(found.reason, Reason::EvictedOrUnknown, "{found:?}");
    let mut late = PrefixMonitor::resumed(asked(&first, "m", 0), None);
    late.ask(asked(&second, "m", 7_200_000));
    let found = late
        .answer(&used(0, 2_300), &rules(), &SecretSet::empty())
        .unwrap();
    assert_eq!(found.reason, Reason::Expired, "{found:?}");
    assert!(
        watch
            .answer(&answer(None), &rules(), &SecretSet::empty())
            .is_none(),
        "nothing was asked"
    );
}

#[test]
fn missing_cache_usage_is_not_reported_as_a_break() {
    let secret_set = SecretSet::empty();
    let silent = answer(Some(Usage::from_counts(2_300, 0)));
    let rules = diagnosis::Rules::new(MarkerRules::find("ollama", "llama3", Format::Chat), None);
    let mut watch = PrefixMonitor::default();
    let mut prompt = said(&begun(&"s".repeat(9_000)), Message::user("0"));
    for at in 0..4 {
        watch.ask(asked(&prompt, "m", at * 10_000));
        let found = watch.answer(&silent, &rules, &secret_set);
        assert!(found.is_none_or(|found| found.reason == Reason::None && found.lost_tokens == 0));
        prompt = said(&said(&prompt, Message::assistant("a")), Message::user("b"));
    }
    // What it is sent is looked at all the same.
    let other = said(&begun(&"t".repeat(9_000)), Message::user("0"));
    watch.ask(asked(&other, "m", 50_000));
    let found = watch.answer(&silent, &rules, &secret_set).unwrap();
    assert_eq!(found.reason, Reason::SystemChanged);
}

#[test]
fn comparison_of_the_provider_is_used_if_it_names_the_last_answer() {
    let secret_set = SecretSet::empty();
    let compared = |previous: &str, at: Millis, prompt: &Prompt| SentRequest {
        tail: Bytes::from(format!(
            r#","diagnostics":{{"previous_message_id":{previous}}}}}"#
        )),
        ..asked(prompt, "m", at)
    };
    let said_so = |id: &str, reply: Reply, diagnostics: serde_json::Value| Reply {
        id: Some(id.to_owned()),
        extra: Extra::from_iter([("diagnostics".to_owned(), diagnostics)]),
        ..reply
    };
    let first = said(&begun(&"s".repeat(9_000)), Message::user("one"));
    let mut watch = PrefixMonitor::default();
    assert_eq!(watch.last_answer(), None);
    watch.ask(compared("null", 0, &first));
    let reply = said_so("msg_1", used(0, 2_000), serde_json::Value::Null);
    assert_eq!(watch.answer(&reply, &rules(), &secret_set), None);
    assert_eq!(watch.last_answer(), Some("msg_1"));

    let second = said(&said(&first, Message::assistant("1")), Message::user("two"));
    let changed = serde_json::json!({"cache_miss_reason":
        {"type": "tools_changed", "cache_missed_input_tokens": 2_000}});
    for (named, expected) in [
        (r#""msg_1""#, Reason::ToolsChanged),
        (r#""msg_0""#, Reason::EvictedOrUnknown),
        ("null", Reason::EvictedOrUnknown),
    ] {
        let mut watch = watch.clone();
        watch.ask(compared(named, 10_000, &second));
        let reply = said_so("msg_2", used(0, 2_010), changed.clone());
        let found = watch.answer(&reply, &rules(), &secret_set).unwrap();
        assert_eq!(found.reason, expected, "{named}");
        assert_eq!(found.by_provider, expected == Reason::ToolsChanged);
    }
}

#[test]
fn expired_prefix_is_found_before_the_next_request() {
    let secret_set = SecretSet::empty();
    let first = said(&begun(&"s".repeat(9_000)), Message::user("one"));
    let second = said(&said(&first, Message::assistant("1")), Message::user("two"));
    let next = |at| asked(&second, "claude-sonnet-4-5", at);
    let mut monitor = PrefixMonitor::default();
    assert_eq!(monitor.cold(&next(0), &rules()), None);
    monitor.ask(asked(&first, "claude-sonnet-4-5", 0));
    assert_eq!(monitor.cold(&next(400_000), &rules()), None);
    let reply = used(0, 2_000);
    monitor.answer(&reply, &rules(), &secret_set);
    let request = asked(&first, "claude-sonnet-4-5", 0);
    let resumed = PrefixMonitor::resumed(request, reply.usage);
    for monitor in [monitor, resumed] {
        for at in [-1, 0, 300_000] {
            assert_eq!(monitor.cold(&next(at), &rules()), None, "{at}");
        }
        let cold = monitor.cold(&next(360_000), &rules()).unwrap();
        assert_eq!((cold.idle.as_secs(), cold.lifetime.as_secs()), (360, 300));
        assert_eq!((cold.tokens, cold.cost), (2_000, None));
    }
}

/// The markers of a request with a longer lifetime apply to most of the prefix.
#[test]
fn each_marker_determines_the_price_of_the_part_before_it() {
    let first = said(&begun(&"s".repeat(9_000)), Message::user("one"));
    let second = said(&said(&first, Message::assistant("1")), Message::user("two"));
    let monitor =
        PrefixMonitor::resumed(asked(&first, "claude-sonnet-4-5", 0), used(0, 2_000).usage);
    let catalog = Catalog::built_in();
    let rules = diagnosis::Rules::new(
        MarkerRules::find("anthropic", "claude-sonnet-4-5", Format::Messages),
        catalog.find_by_name("claude-sonnet-4-5"),
    );
    let cost = |times: [MarkerTime; 2]| {
        let mut next = asked(&second, "claude-sonnet-4-5", 4_000_000);
        let newest = second.last().unwrap().depth;
        let marks = [0, newest].into_iter().zip(times);
        next.plan = Plan::from_marks(marks.map(|(node, time)| Mark { node, time }));
        let cold = monitor.cold(&next, &rules).unwrap();
        assert_eq!(cold.tokens, 2_000);
        cold.cost.unwrap().picodollars
    };
    let (short, long) = (MarkerTime::FiveMinutes, MarkerTime::OneHour);
    // $3.75 or $6 to write a million tokens, and $0.30 to read them.
    assert_eq!(cost([short, short]), 2_000 * 3_450_000);
    assert_eq!(cost([long, long]), 2_000 * 5_700_000);
    let mixed = cost([long, short]);
    assert!(
        (1_950 * 5_700_000..2_000 * 5_700_000).contains(&mixed),
        "{mixed}"
    );
}
