//! Other policies for transcripts and request logs.

use std::path::{Path, PathBuf};

use cachalot_core::{Cost, Millis};
use cachalot_model::Catalog;
use cachalot_prefix::log::LogReader;
use cachalot_prefix::spend::{Client, SpendReader, find_files};
use cachalot_prefix::what_if::{Comparison, Family, Group, Policy, Provider, Row, Sender, WhatIf};
use serde_json::{Value, json};

/// Picodollars in 10⁻⁶ dollars.
const MICRO: u64 = 1_000_000;

fn finish(what_if: WhatIf) -> Comparison {
    what_if.finish(&Catalog::built_in(), &|_, _| true)
}

fn of_files(files: &[(&str, String)]) -> Comparison {
    let mut reader = SpendReader::default();
    for (name, text) in files {
        reader.read(Path::new(name), text.as_bytes()).unwrap();
    }
    let mut what_if = WhatIf::default();
    for answer in reader.finish().answers {
        what_if.add_answer(answer);
    }
    finish(what_if)
}

fn of_log(lines: &[Value]) -> Comparison {
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let mut what_if = WhatIf::default();
    for logged in LogReader::new(text.as_bytes()).in_order() {
        what_if.add_request(&logged.unwrap());
    }
    finish(what_if)
}

fn only(comparison: &Comparison) -> &Group {
    assert_eq!(comparison.groups.len(), 1, "{comparison:?}");
    &comparison.groups[0]
}

fn row(group: &Group, policy: Policy) -> Row {
    let found = group.rows.iter().find(|row| row.policy == policy);
    *found.unwrap_or_else(|| panic!("no {policy} in {group:?}"))
}

/// A line of Claude Code, so many minutes after eight o'clock.
struct Line {
    session: &'static str,
    agent: Option<&'static str>,
    id: &'static str,
    minutes: u32,
    read: u64,
    written: u64,
}

impl Line {
    fn text(&self) -> String {
        let Self {
            session,
            agent,
            id,
            minutes,
            read,
            written,
        } = self;
        let (hours, minutes) = (8 + minutes / 60, minutes % 60);
        let mut line = json!({
            "type": "assistant", "uuid": id, "sessionId": session, "cwd": "/home/ada",
            "timestamp": format!("2026-11-18T{hours:02}:{minutes:02}:00.000Z"),
            "isSidechain": agent.is_some(),
            "message": {
                "id": id, "type": "message", "role": "assistant",
                "model": "claude-sonnet-4-5-20250929", "stop_reason": "end_turn",
                "usage": {
                    "input_tokens": 0, "output_tokens": 0, "cache_read_input_tokens": read,
                    "cache_creation_input_tokens": written,
                    "cache_creation": {
                        "ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0,
                    },
                },
            },
        });
        if let Some(agent) = agent {
            line["agentId"] = json!(agent);
        }
        format!("{line}\n")
    }
}

const FIRST: Line = Line {
    session: "s",
    agent: None,
    id: "m1",
    minutes: 0,
    read: 0,
    written: 100_000,
};

const LATER: Line = Line {
    id: "m2",
    minutes: 10,
    ..FIRST
};

#[test]
fn resumed_session_continues_the_earlier_one() {
    let earlier = ("b.jsonl", FIRST.text());
    // The file of the resumed session begins with a copy, and may be read before the other one.
    let own = Line {
        session: "t",
        ..LATER
    };
    let copied = Line {
        session: "t",
        ..FIRST
    };
    let resumed = ("a.jsonl", copied.text() + &own.text());
    for files in [
        vec![earlier.clone(), resumed.clone()],
        vec![resumed, earlier],
    ] {
        let comparison = of_files(&files);
        let group = only(&comparison);
        assert_eq!((group.answers, group.conversations), (2, 1));
        assert_eq!((group.long_pauses, group.lost), (1, 100_000));
        let hour = row(group, Policy::OneHour);
        assert_eq!(hour.cost.picodollars / MICRO, 630_000);
        let kept = row(group, Policy::KeepAlive(0));
        assert_eq!((kept.requests, kept.read_instead), (2, 100_000));
    }
}

#[test]
fn sub_agents_are_conversations_of_their_own() {
    let agent = Line {
        agent: Some("a1"),
        id: "m3",
        minutes: 5,
        written: 10_000,
        ..FIRST
    };
    let nameless = agent.text().replace(",\"agentId\":\"a1\"", "");
    let comparison = of_files(&[("s.jsonl", FIRST.text() + &agent.text() + &LATER.text())]);
    let group = only(&comparison);
    assert_eq!((group.conversations, group.lost), (2, 100_000));
    // $0.60 and $0.03; the sub-agent's $0.0375 become $0.06.
    let hour = row(group, Policy::OneHour);
    assert_eq!(hour.cost.picodollars / MICRO, 690_000);
    let without = row(group, Policy::OneHourWithoutSubAgents);
    assert_eq!(without.cost.picodollars / MICRO, 667_500);
    // Two renewals of the conversation, and one of the sub-agent's before the newest record.
    assert_eq!(row(group, Policy::KeepAlive(0)).requests, 3);
    // Without a name, the lines may be of several sub-agents.
    let nameless = nameless.replace("m3", "m4");
    assert!(!nameless.contains("agentId"), "{nameless}");
    let comparison = of_files(&[("s.jsonl", FIRST.text() + &nameless + &LATER.text())]);
    assert_eq!(only(&comparison).answers, 2);
    let left_out: u64 = comparison.left_out.values().sum();
    assert_eq!(left_out, 1);
}

#[test]
fn summaries_are_no_losses_of_pauses() {
    let boundary = json!({
        "type": "system", "subtype": "compact_boundary", "sessionId": "s", "uuid": "u",
        "timestamp": "2026-11-18T08:09:00.000Z",
    });
    let comparison = of_files(&[(
        "s.jsonl",
        format!("{}{boundary}\n{}", FIRST.text(), LATER.text()),
    )]);
    let group = only(&comparison);
    assert_eq!((group.long_pauses, group.lossy_pauses), (1, 0));
    assert_eq!(group.recommended(|_| true), None);
}

/// An answer of Claude Code in a session, with the cause that Anthropic names for what was written again.
fn answer(
    minutes: u32,
    agent: Option<&str>,
    model: &str,
    read: u64,
    written: u64,
    cause: Option<&str>,
) -> String {
    let id = format!("msg_{minutes}_{}", agent.unwrap_or_default());
    let mut line = json!({
        "type": "assistant", "sessionId": "s", "uuid": id, "cwd": "/home/ada/api",
        "timestamp": format!("2026-11-18T08:{minutes:02}:00.000Z"), "isSidechain": agent.is_some(),
        "message": {
            "id": id, "model": model, "stop_reason": "end_turn",
            "usage": {
                "input_tokens": 10, "output_tokens": 1_000, "cache_read_input_tokens": read,
                "cache_creation_input_tokens": written,
                "cache_creation": {"ephemeral_5m_input_tokens": written, "ephemeral_1h_input_tokens": 0},
            },
        },
    });
    if let Some(agent) = agent {
        line["agentId"] = json!(agent);
    }
    if let Some(cause) = cause {
        line["message"]["diagnostics"] = json!({"cache_miss_reason": {"type": cause}});
    }
    format!("{line}\n")
}

/// Sonnet 4.5 writes a million tokens for $3.75, and reads them for $0.30.
#[test]
fn what_other_tools_wrote_again_would_have_been_read() {
    let sonnet = "claude-sonnet-4-5";
    let of = |last: String| {
        let first = answer(0, None, sonnet, 0, 100_000, None);
        of_files(&[("s.jsonl", first + &last)])
    };
    let find = |comparison: &Comparison, policy: Policy| {
        let mut rows = only(comparison).rows.iter();
        let found = rows.find(|row| row.policy == policy).copied();
        found.map(|row| {
            let saved = only(comparison).saving(&row).unwrap();
            (saved.picodollars / MICRO, row.read_instead)
        })
    };
    let saved = Some((345_000, 100_000));
    let tools = of(answer(2, None, sonnet, 0, 100_000, Some("tools_changed")));
    assert_eq!(find(&tools, Policy::SameTools), saved);
    assert_eq!(find(&tools, Policy::SameModel), None);
    let model = of(answer(2, None, sonnet, 0, 100_000, Some("model_changed")));
    assert_eq!(find(&model, Policy::SameModel), saved);
    // Other causes are no remedy, and after six minutes nothing would have been left to read.
    let system = of(answer(2, None, sonnet, 0, 100_000, Some("system_changed")));
    let late = of(answer(6, None, sonnet, 0, 100_000, Some("tools_changed")));
    for other in [system, late] {
        assert_eq!(find(&other, Policy::SameTools), None);
        assert_eq!(find(&other, Policy::SameModel), None);
    }
}

#[test]
fn sub_agents_cost_the_price_of_another_model() {
    let opus = "claude-opus-4-8";
    let of = |agent: Option<&str>, model: &str, written: u64| {
        let main = answer(0, None, opus, 0, 100_000, None);
        let files = [
            ("s.jsonl", main),
            ("agent-a.jsonl", answer(1, agent, model, 0, written, None)),
        ];
        of_files(&files)
    };
    let saved = |comparison: &Comparison, family: Family| {
        let mut rows = only(comparison).rows.iter();
        let found = rows
            .find(|row| row.policy == Policy::SubAgentsOn(family))
            .copied();
        found.and_then(|row| only(comparison).saving(&row))
    };
    let catalog = Catalog::built_in();
    let rates = |model: &str| {
        catalog
            .find_by_name(model)
            .unwrap()
            .price
            .as_ref()
            .unwrap()
            .rates
    };
    let cost = |model: &str| {
        let rates = rates(model);
        10 * rates.input + 50_000 * rates.cache_write_5m + 1_000 * rates.output
    };
    let comparison = of(Some("a"), opus, 50_000);
    for (family, newest) in [
        (Family::Sonnet, "claude-sonnet-5-5"),
        (Family::Haiku, "claude-haiku-5-5"),
    ] {
        let less = Cost::from_picodollars(cost(opus) - cost(newest));
        assert_eq!(saved(&comparison, family), Some(less));
    }
    // The same model, an answer of the conversation itself, and one that is longer than the other model's context.
    let same = of(Some("a"), "claude-sonnet-5-5", 50_000);
    assert_eq!(saved(&same, Family::Sonnet), None);
    for other in [of(None, opus, 50_000), of(Some("a"), opus, 1_000_000)] {
        assert_eq!(saved(&other, Family::Haiku), None);
    }
}

#[test]
fn spend_and_what_if_agree() {
    let transcripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/transcripts");
    let mut reader = SpendReader::default();
    for path in find_files(&[transcripts] as &[PathBuf]).paths {
        reader
            .read(&path, &std::fs::read(&path).unwrap()[..])
            .unwrap();
    }
    let catalog = Catalog::built_in();
    let (mut what_if, mut totals) = (
        WhatIf::default(),
        cachalot_prefix::spend::SpendTotals::default(),
    );
    for answer in reader.finish().answers {
        totals.add(&answer, &catalog);
        what_if.add_answer(answer);
    }
    let comparison = finish(what_if);
    let groups = comparison.groups.iter();
    let names: Vec<_> = groups.map(|group| (group.sender, group.provider)).collect();
    assert_eq!(
        names,
        [
            (Sender::Program(Client::ClaudeCode), Provider::Anthropic),
            (Sender::Program(Client::Codex), Provider::OpenAi),
            (Sender::Program(Client::GeminiCli), Provider::Other),
        ]
    );
    let mut cost = Cost::default();
    let groups = comparison.groups.iter();
    groups.for_each(|group| cost += group.cost);
    assert_eq!(totals.cost, cost);
    // By hand: an hour saves one of the two pauses, and all other writes cost more.
    let rates = |model: &str| {
        let entry = catalog.find_by_name(model).unwrap();
        entry.price.as_ref().unwrap().rates
    };
    let more = |model: &str, written: u64| {
        written * (rates(model).cache_write_1h - rates(model).cache_write_5m)
    };
    let sonnet = rates("claude-sonnet-4-5-20250929");
    let written = 18_200 + 2_600 + (21_700 - 20_800) + 1_400 + 6_400 + 21_300 + 400;
    let costs = more("claude-sonnet-4-5-20250929", written)
        + more("claude-opus-4-8", 19_000)
        + more("claude-haiku-4-5-20251001", 5_200);
    let saves = 20_800 * (sonnet.cache_write_5m - sonnet.cache_read);
    let group = &comparison.groups[0];
    assert_eq!(
        row(group, Policy::OneHour).cost.picodollars + saves,
        group.cost.picodollars + costs
    );
}

/// A request of a log with a usage, so many seconds after another.
fn request(seconds: Millis, messages: &[&str], usage: &Value) -> Value {
    let messages: Vec<_> = messages
        .iter()
        .enumerate()
        .map(|(place, text)| {
            let role = if place % 2 == 0 { "user" } else { "assistant" };
            json!({"role": role, "content": text})
        })
        .collect();
    json!({
        "at": 1_800_000_000 + seconds,
        "request": {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": messages},
        "response": {"usage": usage},
    })
}

#[test]
fn requests_of_a_log_continue_those_whose_prompts_they_begin_with() {
    let written =
        json!({"input_tokens": 0, "output_tokens": 0, "cache_creation_input_tokens": 100_000});
    let log = |second: Value| of_log(&[request(0, &["a"], &written), second]);
    let continued = log(request(600, &["a", "b", "c"], &written));
    let group = only(&continued);
    assert_eq!(group.sender, Sender::Log);
    assert_eq!((group.conversations, group.lost), (1, 100_000));
    assert_eq!(
        row(group, Policy::OneHour).cost.picodollars / MICRO,
        630_000
    );
    // The same session, but another conversation, or one whose beginning was changed.
    let other = log(request(600, &["A", "b", "c"], &written));
    assert_eq!((only(&other).conversations, only(&other).lost), (2, 0));
    // Another parameter that the cache depends on.
    let mut changed = request(600, &["a", "b", "c"], &written);
    changed["request"]["tool_choice"] = json!({"type": "any"});
    changed["request"]["tools"] = json!([{"name": "t", "input_schema": {"type": "object"}}]);
    assert_eq!(only(&log(changed)).lost, 0);
    // Requests without a usage are named, failed ones have cost nothing.
    let mut silent = request(600, &["a", "b", "c"], &written);
    silent["response"] = json!({});
    assert_eq!(log(silent).left_out.values().sum::<u64>(), 1);
    let mut failed = request(600, &["a", "b", "c"], &written);
    failed["response"] = json!({"error": {"type": "overloaded_error"}});
    assert!(log(failed).left_out.is_empty());
}
