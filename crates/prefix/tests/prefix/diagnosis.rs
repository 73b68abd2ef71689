//! Why prefixes break: a pair of requests for every cause that their bytes show.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{DigestKey, SecretSet};
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::diagnosis::{
    Diagnosis, LikelyCause, Observations, Reason, Rules, diagnose, lint, lint_text,
};
use cachalot_prefix::log::{Analyzer, LogReader, LoggedRequest};
use cachalot_prefix::request::read;
use serde_json::json;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prefix/causes")
}

fn pair(code: &str) -> [LoggedRequest; 2] {
    let file = File::open(folder().join(format!("{code}.jsonl"))).unwrap();
    let read: Vec<LoggedRequest> = LogReader::new(BufReader::new(file))
        .map(Result::unwrap)
        .collect();
    read.try_into().unwrap()
}

fn rules(logged: &LoggedRequest) -> Rules {
    let rules = Rules::of_request(&logged.request, &Catalog::built_in());
    assert!(
        rules.price.is_some(),
        "{} has no price",
        logged.request.model
    );
    rules
}

fn compare(previous: &LoggedRequest, next: &LoggedRequest, secret_set: &SecretSet) -> Diagnosis {
    let marks = previous.request.plan.marks().iter();
    let written: Vec<u32> = marks.map(|mark| mark.node).collect();
    let elapsed = previous
        .at
        .zip(next.at)
        .map(|(before, now)| (now - before).unsigned_abs());
    let observed = Observations {
        written: &written,
        known: &[],
        previous: previous.usage,
        usage: next.usage,
        verdict: None,
        reports_cache_reads: true,
        elapsed: elapsed.map(Duration::from_millis),
        is_summarized: false,
        respelled: &[],
        at: next.at,
    };
    let (before, after) = (previous.request.sending(), next.request.sending());
    diagnose(&before, &after, &observed, &rules(next), secret_set)
}

fn diagnosed(code: &str) -> Diagnosis {
    let [previous, next] = pair(code);
    compare(&previous, &next, &SecretSet::empty())
}

/// Causes that one request shows by itself, and no comparison is needed for.
const OF_ONE_REQUEST: [LikelyCause; 3] = [
    LikelyCause::TooManyMarkers,
    LikelyCause::MarkerOnEmptyText,
    LikelyCause::ShortBeforeLong,
];

#[test]
fn every_cause_is_found_in_its_pair_of_requests() {
    let mut wrong = Vec::new();
    for cause in LikelyCause::ALL {
        let [_, next] = pair(cause.code());
        let found = if OF_ONE_REQUEST.contains(cause) {
            let findings = lint(&next.request, &rules(&next));
            findings
                .iter()
                .find(|found| found.cause == *cause)
                .map(|found| found.cause)
        } else {
            diagnosed(cause.code()).cause
        };
        if found != Some(*cause) {
            wrong.push((cause.code(), found.map(LikelyCause::code)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn prefix_that_is_marked_for_twelve_hours_expires_after_them() {
    let text = "w".repeat(40_000);
    let request = |ttl: &str, said: &[&str]| {
        let marker = json!({"mode": "explicit", "ttl": ttl});
        let part = json!({"type": "input_text", "text": text, "prompt_cache_breakpoint": marker});
        let mut input = vec![json!({"role": "developer", "content": [part]})];
        input.extend(
            said.iter()
                .map(|text| json!({"role": "user", "content": text})),
        );
        let options = json!({"mode": "explicit"});
        let body = json!({"model": "gpt-5.6", "prompt_cache_options": options, "input": input});
        read(body.to_string().as_bytes()).unwrap()
    };
    for (ttl, hours, reason) in [
        ("30m", 2, Reason::Expired),
        // It must have been read, but was not.
        ("12h", 2, Reason::EvictedOrUnknown),
        ("12h", 13, Reason::Expired),
    ] {
        let (before, after) = (request(ttl, &["a"]), request(ttl, &["a", "b"]));
        let written = |uncached_input| Usage {
            uncached_input,
            cache_write_12h: 10_000,
            ..Usage::default()
        };
        let observed = Observations {
            written: &[0],
            known: &[],
            previous: Some(written(10)),
            usage: Some(written(20)),
            verdict: None,
            reports_cache_reads: true,
            elapsed: Some(Duration::from_hours(hours)),
            is_summarized: false,
            respelled: &[],
            at: None,
        };
        let rules = Rules::of_request(&after, &Catalog::built_in());
        let (before, after) = (before.sending(), after.sending());
        let found = diagnose(&before, &after, &observed, &rules, &SecretSet::empty());
        assert_eq!(found.reason, reason, "{ttl} {hours}: {found:?}");
        // The price of such a write is that of the model.
        assert!(found.lost_cost.is_some(), "{found:?}");
    }
}

#[test]
fn every_pair_has_a_cause_and_codes_are_unique() {
    let mut codes: Vec<&str> = LikelyCause::ALL.iter().map(|cause| cause.code()).collect();
    codes.sort_unstable();
    let mut files: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| {
            entry
                .unwrap()
                .path()
                .file_stem()
                .unwrap()
                .to_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    files.sort_unstable();
    assert_eq!(files, codes);
}

#[test]
fn the_reason_uses_the_terms_of_the_providers() {
    for (code, reason) in [
        ("timestamp", Reason::SystemChanged),
        ("tool-added", Reason::ToolsChanged),
        ("tools-omitted", Reason::ToolsChanged),
        ("model-switched", Reason::ModelChanged),
        ("tool-choice", Reason::ParametersChanged),
        ("tool-result-pruned", Reason::MessagesChanged),
        ("expired", Reason::Expired),
        ("lookback", Reason::LookbackExceeded),
        ("below-minimum", Reason::BelowMinimum),
        ("no-markers", Reason::NotMarked),
        ("fan-out", Reason::EvictedOrUnknown),
    ] {
        assert_eq!(diagnosed(code).reason, reason, "{code}");
    }
    for reason in [Reason::None, Reason::EvictedOrUnknown, Reason::ModelChanged] {
        assert_eq!(json!(reason), reason.as_str());
    }
}

#[test]
fn place_and_both_texts_are_shown() {
    let found = diagnosed("timestamp");
    let at = found.at.unwrap();
    assert_eq!((at.level, at.index), ("system", 0));
    let [previous, next] = pair("timestamp");
    let piece = |logged: &LoggedRequest| {
        let system = logged.request.compared.prompt.frozen();
        system.last().unwrap().bytes.clone()
    };
    let (one, other) = (piece(&previous), piece(&next));
    assert_eq!((one[at.offset], other[at.offset]), (b'1', b'2'));
    assert_eq!(one[..at.offset], other[..at.offset]);
    let tools: u64 = previous.request.compared.prompt.nodes()[..2]
        .iter()
        .map(|node| node.bytes.len() as u64)
        .sum();
    assert_eq!(at.in_prefix, tools + at.offset as u64);
    let change = found.change.unwrap();
    assert_eq!(change.before, "Conversation started: Sunday 10:41");
    assert_eq!(change.after, "Conversation started: Sunday 10:42");
    let setting = diagnosed("reasoning-setting");
    assert_eq!(
        setting.at.unwrap().parameter.as_deref(),
        Some("reasoning_effort")
    );
    assert_eq!(
        setting.change.unwrap().before,
        r#""reasoning_effort":"high""#
    );
}

#[test]
fn shown_texts_have_at_most_80_characters() {
    for cause in LikelyCause::ALL {
        if let Some(change) = diagnosed(cause.code()).change {
            for text in [change.before, change.after] {
                assert!(text.chars().count() <= 80, "{cause:?}: {text}");
            }
        }
    }
}

#[test]
fn secrets_in_shown_texts_are_masked() {
    let secret_set = SecretSet::with_key(DigestKey::new([7; 32]));
    secret_set.learn("ann");
    let [previous, next] = pair("gateway-context");
    let change = compare(&previous, &next, &secret_set).change.unwrap();
    assert!(!change.before.contains("ann"), "{change:?}");
    assert!(change.after.contains("bob"), "{change:?}");
}

#[test]
fn loss_is_limited_to_the_marked_prefix() {
    let found = diagnosed("expired");
    assert_eq!(found.actual_read, Some(0));
    // Of 5010 tokens all stand before the marker.
    assert_eq!(
        (found.expected_read_tokens, found.lost_tokens),
        (5_010, 5_010)
    );
    // Written for five minutes at $3.75 a million, instead of read at $0.30.
    let cost = found.lost_cost.unwrap();
    assert_eq!(cost.picodollars, 5_010 * (3_750_000 - 300_000));
    let none = diagnosed("below-minimum");
    assert_eq!((none.lost_tokens, none.lost_cost), (0, None));
    assert!(!none.is_break());
}

#[test]
fn continued_and_shortened_requests_are_no_breaks() {
    let [previous, next] = pair("timestamp");
    let body = |text: &str| {
        let line = json!({"model": "gpt-4.1", "messages": [
            {"role": "user", "content": "one"}, {"role": "assistant", "content": text}]});
        LogReader::new(line.to_string().as_bytes())
            .next()
            .unwrap()
            .unwrap()
    };
    for (one, other) in [
        (&previous, &previous),
        (&next, &next),
        (&body("x"), &body("x")),
    ] {
        let same = compare(one, other, &SecretSet::empty());
        assert_eq!((same.at, same.lost_tokens), (None, 0));
    }
    let [long, longer] = pair("tool-choice");
    let rewound = compare(&longer, &long, &SecretSet::empty());
    assert_eq!(rewound.at.unwrap().level, "parameters");
    let [short, _] = pair("messages-merged");
    let rewound = compare(&long, &short, &SecretSet::empty());
    assert_eq!((rewound.at, rewound.lost_tokens), (None, 0));
}

#[test]
fn tokens_that_were_read_are_not_lost() {
    let [previous, mut next] = pair("sliding-window");
    let lost = compare(&previous, &next, &SecretSet::empty());
    assert!(!lost.is_break() || lost.actual_read.is_none());
    next.usage = Some(Usage {
        cache_read: 1_000,
        ..Usage::from_counts(10, 1)
    });
    let read = compare(&previous, &next, &SecretSet::empty());
    assert_eq!(
        (read.reason, read.lost_tokens, read.is_break()),
        (Reason::None, 0, false)
    );
    assert_eq!(read.at.unwrap().level, "messages");
}

#[test]
fn volatile_words_are_found_in_any_text() {
    let text = "It is 10:41 on 2026-11-21, 10:42 soon; session 9f86d081884c7d65.";
    let found = lint_text(text);
    let causes: Vec<LikelyCause> = found.iter().map(|found| found.cause).collect();
    assert_eq!(
        causes,
        [
            LikelyCause::Timestamp,
            LikelyCause::Date,
            LikelyCause::Identifier
        ]
    );
    assert!(found.iter().all(|found| found.is_fault));
    assert_eq!((found[0].offset, found[0].word), (6, Some("10:41")));
    assert_eq!(
        lint_text("You help with version 4.1 of claude-sonnet-4-5."),
        []
    );
    let found = lint_text("Known until 2024-10-01.");
    assert_eq!((found.len(), found[0].is_fault), (1, false));
}

#[test]
fn credentials_are_named_and_not_shown_by_lint() {
    let key = "sk-proj-abcdEFGH1234567890abcdEFGH";
    let text = format!("Basic instructions: use {key} at any time.");
    let found = lint_text(&text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(
        (found[0].cause, found[0].word),
        (LikelyCause::Credential, None)
    );
    assert_eq!(found[0].offset, text.find(key).unwrap());
    let found = diagnosed("credential").change.unwrap();
    assert!(!format!("{found:?}").contains("EFGH"), "{found:?}");
}

fn logged(line: &serde_json::Value) -> LoggedRequest {
    let text = line.to_string();
    LogReader::new(text.as_bytes()).next().unwrap().unwrap()
}

#[test]
fn trailing_sign_of_a_number_is_not_a_counter() {
    let body = |text: &str| {
        logged(&json!({"model": "gpt-4.1", "messages": [
            {"role": "user", "content": text}, {"role": "assistant", "content": "ok"}]}))
    };
    let found = compare(
        &body("Step 1: go"),
        &body("Step 1, go"),
        &SecretSet::empty(),
    );
    assert_eq!(
        found.cause,
        Some(LikelyCause::FirstMessageEdited),
        "{found:?}"
    );
    let found = compare(&body("Go on.\n"), &body("Go on."), &SecretSet::empty());
    let change = found.change.unwrap();
    assert_ne!(change.before, change.after);
    assert!(change.before.contains(r"Go on.\n"), "{change:?}");
}

#[test]
fn text_and_list_of_one_text_are_equal() {
    let marked = json!([{"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}]);
    let body = |model: &str, content: &serde_json::Value| {
        logged(&json!({"model": model, "max_tokens": 9, "messages": [
            {"role": "user", "content": content}, {"role": "assistant", "content": "1"}]}))
    };
    let compared = |model: &str| {
        let (list, text) = (body(model, &marked), body(model, &json!("one")));
        compare(&list, &text, &SecretSet::empty())
    };
    assert_eq!(compared("claude-sonnet-4-5").at, None);
    assert_eq!(compared("gpt-4.1").at, None);
    let text = body("claude-sonnet-4-5", &json!("one")).request.prompt;
    assert!(text.nodes().iter().all(|node| node.mark_at.is_some()));
}

#[test]
fn unknown_members_are_no_break() {
    let body = |id: u32, effort: &str| {
        logged(
            &json!({"model": "gpt-4.1", "litellm_call_id": id, "startTime": id,
            "timeout": id, "reasoning_effort": effort,
            "messages": [{"role": "user", "content": "one"}]}),
        )
    };
    let found = compare(&body(1, "low"), &body(2, "low"), &SecretSet::empty());
    assert_eq!((found.at, found.reason), (None, Reason::BelowMinimum));
    let found = compare(&body(1, "low"), &body(2, "high"), &SecretSet::empty());
    assert_eq!(found.cause, Some(LikelyCause::ReasoningSetting));
}

/// A system text kept for an hour, and a message kept for five minutes.
fn mixed(read: u64, written_5m: u64, written_1h: u64) -> Diagnosis {
    let block = |text: &str, ttl: &str| {
        json!({"type": "text", "text": text,
            "cache_control": {"type": "ephemeral", "ttl": ttl}})
    };
    let first = json!({"model": "claude-sonnet-4-5", "max_tokens": 9,
        "system": [block(&"s".repeat(9_000), "1h")],
        "messages": [{"role": "user", "content": [block(&"u".repeat(9_000), "5m")]}]});
    let mut second = first.clone();
    let messages = second["messages"].as_array_mut().unwrap();
    messages[0]["content"][0]
        .as_object_mut()
        .unwrap()
        .remove("cache_control");
    messages.push(json!({"role": "assistant", "content": [block("a", "1h")]}));
    messages.push(json!({"role": "user", "content": [block("next", "5m")]}));
    let usage = |read: u64, written_5m: u64, written_1h: u64| {
        json!({"usage": {"input_tokens": 0, "cache_read_input_tokens": read,
            "cache_creation_input_tokens": written_5m + written_1h,
            "cache_creation": {"ephemeral_5m_input_tokens": written_5m,
                "ephemeral_1h_input_tokens": written_1h}}})
    };
    let first = logged(&json!({"timestamp": 1_795_250_000, "request": first,
        "response": usage(0, 2_250, 2_250)}));
    let second = logged(&json!({"timestamp": 1_795_250_600, "request": second,
        "response": usage(read, written_5m, written_1h)}));
    compare(&first, &second, &SecretSet::empty())
}

#[test]
fn markers_expire_separately_and_are_charged_at_their_write_price() {
    let found = mixed(2_260, 0, 2_250);
    assert_eq!(found.reason, Reason::Expired, "{found:?}");
    // Written for an hour at $6 a million, instead of read at $0.30.
    let cost = found.lost_cost.unwrap();
    let price = 6_000_000 - 300_000;
    assert_eq!(cost.picodollars, found.lost_tokens * price);
    // What was to be kept for an hour is gone as well: that is no pause.
    assert_eq!(mixed(0, 10, 4_500).reason, Reason::EvictedOrUnknown);
}

/// The breaks in a log of continued requests with these usage details.
fn breaks_of_log(details: impl Fn(usize) -> serde_json::Value) -> usize {
    let mut messages = vec![json!({"role": "system", "content": "s".repeat(9_000)})];
    let mut analyzer = Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()));
    for at in 0..4 {
        messages.push(json!({"role": "user", "content": format!("question {at}")}));
        let usage = json!({"prompt_tokens": 2_300 + at * 10, "completion_tokens": 5,
            "prompt_tokens_details": details(at)});
        analyzer.take(logged(&json!({"session": "s",
            "request": {"model": "gpt-4.1", "messages": messages},
            "response": {"usage": usage}})));
        messages.push(json!({"role": "assistant", "content": format!("answer {at}")}));
    }
    let breaks = analyzer.finish().breaks;
    breaks.iter().map(|breaks| breaks.examples.len()).sum()
}

#[test]
fn a_log_without_cache_usage_shows_no_break() {
    assert_eq!(breaks_of_log(|_| serde_json::Value::Null), 0);
    assert_eq!(breaks_of_log(|_| json!({"cached_tokens": null})), 0);
    let read = |at| json!({"cached_tokens": if at == 1 { 2_176 } else { 0 }});
    assert_eq!(breaks_of_log(read), 2);
}
