//! Why prefixes break: a pair of requests for every cause that their bytes show.

use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cachalot_core::{DigestKey, Seals};
use cachalot_model::{Catalog, Usage};
use cachalot_prompt::diagnosis::{
    Diagnosis, LikelyCause, Observed, Reason, Rules, diagnose, lint, lint_text,
};
use cachalot_prompt::log::{LogReader, Logged};
use serde_json::json;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/prompt/causes")
}

fn pair(code: &str) -> [Logged; 2] {
    let file = File::open(folder().join(format!("{code}.jsonl"))).unwrap();
    let read: Vec<Logged> = LogReader::new(BufReader::new(file))
        .map(Result::unwrap)
        .collect();
    read.try_into().unwrap()
}

fn rules(logged: &Logged) -> Rules {
    let rules = Rules::of_request(&logged.request, &Catalog::built_in());
    assert!(
        rules.price.is_some(),
        "{} has no price",
        logged.request.model
    );
    rules
}

fn compare(previous: &Logged, next: &Logged, seals: &Seals) -> Diagnosis {
    let marks = previous.request.plan.marks().iter();
    let written: Vec<u32> = marks.map(|mark| mark.node).collect();
    let elapsed = previous
        .at
        .zip(next.at)
        .map(|(before, now)| (now - before).unsigned_abs());
    let observed = Observed {
        written: &written,
        previous: previous.usage,
        usage: next.usage,
        elapsed: elapsed.map(Duration::from_millis),
    };
    let (before, after) = (previous.request.sending(), next.request.sending());
    diagnose(&before, &after, &observed, &rules(next), seals)
}

fn diagnosed(code: &str) -> Diagnosis {
    let [previous, next] = pair(code);
    compare(&previous, &next, &Seals::none())
}

/// Causes that one request shows by itself, and no comparison is needed for.
const OF_ONE_REQUEST: [LikelyCause; 3] = [
    LikelyCause::TooManyMarkers,
    LikelyCause::MarkerOnEmptyText,
    LikelyCause::ShortBeforeLong,
];

#[test]
fn every_cause_is_found_in_the_pair_of_requests_that_shows_it() {
    let mut wrong = Vec::new();
    for cause in LikelyCause::ALL {
        let [_, next] = pair(cause.code());
        let found = match OF_ONE_REQUEST.contains(cause) {
            true => {
                let findings = lint(&next.request, &rules(&next));
                findings
                    .iter()
                    .find(|found| found.cause == *cause)
                    .map(|found| found.cause)
            }
            false => diagnosed(cause.code()).cause,
        };
        if found != Some(*cause) {
            wrong.push((cause.code(), found.map(LikelyCause::code)));
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn every_pair_is_of_a_cause_and_no_two_causes_share_a_name() {
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
fn the_reason_is_told_in_the_words_of_the_providers() {
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
fn the_place_and_both_texts_are_shown() {
    let found = diagnosed("timestamp");
    let at = found.at.unwrap();
    assert_eq!((at.level, at.index), ("system", 0));
    let [previous, next] = pair("timestamp");
    let piece = |logged: &Logged| {
        let system = logged.request.prompt.frozen();
        system.last().unwrap().bytes.clone()
    };
    let (one, other) = (piece(&previous), piece(&next));
    assert_eq!((one[at.offset], other[at.offset]), (b'1', b'2'));
    assert_eq!(one[..at.offset], other[..at.offset]);
    let tools: u64 = previous.request.prompt.nodes()[..2]
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
fn nothing_that_is_shown_is_longer_than_eighty_characters() {
    for cause in LikelyCause::ALL {
        if let Some(change) = diagnosed(cause.code()).change {
            for text in [change.before, change.after] {
                assert!(text.chars().count() <= 80, "{cause:?}: {text}");
            }
        }
    }
}

#[test]
fn secrets_are_masked_in_what_is_shown() {
    let seals = Seals::under(DigestKey::new([7; 32]));
    seals.learn("ann");
    let [previous, next] = pair("gateway-context");
    let change = compare(&previous, &next, &seals).change.unwrap();
    assert!(!change.before.contains("ann"), "{change:?}");
    assert!(change.after.contains("bob"), "{change:?}");
}

#[test]
fn what_is_lost_is_what_the_provider_had_been_asked_to_keep() {
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
fn a_request_that_goes_on_breaks_nothing_and_neither_does_one_that_is_shorter() {
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
        let same = compare(one, other, &Seals::none());
        assert_eq!((same.at, same.lost_tokens), (None, 0));
    }
    let [long, longer] = pair("tool-choice");
    let rewound = compare(&longer, &long, &Seals::none());
    assert_eq!(rewound.at.unwrap().level, "parameters");
    let [short, _] = pair("messages-merged");
    let rewound = compare(&long, &short, &Seals::none());
    assert_eq!((rewound.at, rewound.lost_tokens), (None, 0));
}

#[test]
fn what_the_provider_has_read_all_the_same_is_not_lost() {
    let [previous, mut next] = pair("sliding-window");
    let lost = compare(&previous, &next, &Seals::none());
    assert!(!lost.is_break() || lost.actual_read.is_none());
    next.usage = Some(Usage {
        cache_read: 1_000,
        ..Usage::of(10, 1)
    });
    let read = compare(&previous, &next, &Seals::none());
    assert_eq!(
        (read.reason, read.lost_tokens),
        (Reason::MessagesChanged, 0)
    );
}

#[test]
fn words_that_will_change_are_found_in_any_text() {
    let found = lint_text("It is 10:41 on 2026-11-21, 10:42 soon; session 9f86d081884c7d65.");
    let causes: Vec<LikelyCause> = found.iter().map(|(cause, ..)| *cause).collect();
    assert_eq!(
        causes,
        [
            LikelyCause::Timestamp,
            LikelyCause::Date,
            LikelyCause::Identifier
        ]
    );
    assert_eq!((found[0].1, found[0].2), (6, "10:41"));
    assert_eq!(
        lint_text("You help with version 4.1 of claude-sonnet-4-5."),
        []
    );
}
