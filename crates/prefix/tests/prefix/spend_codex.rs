//! Spend of Codex: records, counts and forks in any mixture count each answer once.

use std::path::PathBuf;

use cachalot_model::Usage;
use cachalot_prefix::spend::{Client, PaidAnswer, SpendReader, Spending};
use proptest::prelude::*;
use serde_json::{Value, json};

const PARENT: &str = "01a0aa00-0000-7000-8000-0000000000aa";
const CHILD: &str = "01a0aa00-0000-7000-8000-0000000000bb";

/// A time in milliseconds after 09:00, as a line has it.
fn time(millis: u64) -> String {
    let seconds = millis / 1_000;
    format!(
        "2026-10-07T{:02}:{:02}:{:02}.{:03}Z",
        9 + seconds / 3_600,
        seconds / 60 % 60,
        seconds % 60,
        millis % 1_000
    )
}

fn line(at: u64, kind: &str, payload: Value) -> Value {
    json!({"timestamp": time(at), "type": kind, "payload": payload})
}

fn meta(at: u64, id: &str, parent: Option<&str>) -> Value {
    line(
        at,
        "session_meta",
        json!({"id": id, "timestamp": time(at), "cwd": "/x", "forked_from_id": parent}),
    )
}

fn turn(at: u64) -> Value {
    line(at, "turn_context", json!({"cwd": "/x", "model": "gpt-5.5"}))
}

fn usage(input: u64, output: u64) -> Value {
    json!({"input_tokens": input, "output_tokens": output})
}

fn record(at: u64, id: &str, input: u64, output: u64) -> Value {
    let payload = json!({"thread_id": "t", "response_id": id, "usage": usage(input, output)});
    line(at, "token_usage_record", payload)
}

fn count(at: u64, total: (u64, u64), last: (u64, u64), limit: Option<&str>) -> Value {
    let info = json!({
        "total_token_usage": usage(total.0, total.1),
        "last_token_usage": usage(last.0, last.1),
    });
    let limits = limit.map(|limit| json!({"limit_id": limit}));
    line(
        at,
        "event_msg",
        json!({"type": "token_count", "info": info, "rate_limits": limits}),
    )
}

fn event(at: u64, payload: Value) -> Value {
    line(at, "event_msg", payload)
}

fn read(files: &[(&str, &[Value])]) -> Spending {
    let mut reader = SpendReader::default();
    for (name, lines) in files {
        let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
        let path = PathBuf::from(format!("rollout-{name}.jsonl"));
        reader.read(&path, lines.join("\n").as_bytes()).unwrap();
    }
    let spending = reader.finish();
    assert!(spending.unknown.is_empty(), "{:?}", spending.unknown);
    spending
}

fn sum(answers: &[PaidAnswer]) -> (usize, Usage) {
    let mut sum = Usage::default();
    answers.iter().for_each(|answer| sum += answer.usage);
    (answers.len(), sum)
}

fn sum_of(files: &[(&str, &[Value])]) -> (usize, Usage) {
    sum(&read(files).answers)
}

/// Three answers of a parent, and a fork that copies them two seconds long and has an answer of its own.
fn fork(child: &str) -> (Vec<Value>, Vec<Value>) {
    let totals = [(10_000, 100), (21_000, 200), (33_000, 300)];
    let lasts = [(10_000, 100), (11_000, 100), (12_000, 100)];
    let counted =
        |at: [u64; 3]| (0..3).map(move |n| count(at[n], totals[n], lasts[n], Some("codex")));
    let mut parent = vec![meta(0, PARENT, None), turn(100)];
    parent.extend(counted([5_000, 40_000, 120_000]));
    let begun = 7_200_000;
    let mut copy = vec![
        meta(begun, child, Some(PARENT)),
        meta(begun + 10, PARENT, None),
    ];
    copy.push(turn(begun + 20));
    copy.extend(counted([begun + 30, begun + 500, begun + 1_900]));
    copy.push(event(
        begun + 300_000,
        json!({"type": "task_started", "turn_id": "t9"}),
    ));
    copy.push(turn(begun + 300_100));
    copy.push(count(
        begun + 320_000,
        (46_000, 500),
        (13_000, 200),
        Some("codex"),
    ));
    (parent, copy)
}

#[test]
fn forks_count_their_own_answers_with_and_without_the_parents_file() {
    let (parent, child) = fork(CHILD);
    let both = sum_of(&[("p", &parent), ("c", &child)]);
    assert_eq!(both, (4, Usage::from_counts(46_000, 500)));
    assert_eq!(sum_of(&[("c", &child), ("p", &parent)]), both);
    let alone = (1, Usage::from_counts(13_000, 200));
    assert_eq!(sum_of(&[("c", &child)]), alone);
    let (_, other) = fork("01a0aa00-0000-7000-8000-0000000000cc");
    let two = sum_of(&[("c", &child), ("d", &other)]);
    assert_eq!(two, (2, Usage::from_counts(26_000, 400)));
    // A copy of a file, or of its beginning, changes nothing.
    let copies: [(&str, &[Value]); 4] = [
        ("p", &parent),
        ("archived", &parent[..3]),
        ("c", &child),
        ("d", &child),
    ];
    assert_eq!(sum_of(&copies), both);
}

#[test]
fn a_copied_part_from_the_middle_of_the_parent_does_not_count() {
    let total = |n: u64| (1_000 * n * (n + 1) / 2, 10 * n);
    let counted = |n: u64, at| count(at, total(n), (1_000 * n, 10), None);
    let mut parent = vec![meta(0, PARENT, None), turn(1)];
    parent.extend((1..=6).map(|n| counted(n, n * 60_000)));
    let mut child = vec![meta(7_200_000, CHILD, Some(PARENT)), turn(7_200_001)];
    child.extend((3..=6).map(|n| counted(n, 7_200_100 + n)));
    child.push(counted(7, 7_500_000));
    let found = sum_of(&[("p", &parent), ("c", &child)]);
    assert_eq!(found, (7, Usage::from_counts(28_000, 70)));
    // What the parent added after the fork began is not what the fork copied.
    parent.push(counted(7, 7_600_000));
    let found = sum_of(&[("p", &parent), ("c", &child)]);
    assert_eq!(found, (8, Usage::from_counts(35_000, 80)));
}

/// IDs of turns contain their times, and say more than the times of copied lines.
#[test]
fn a_turn_that_began_before_the_fork_is_a_copy() {
    // The milliseconds of 2026-10-07T11:00:00Z, in hexadecimal digits.
    let id = |at: u64| {
        let digits = format!("{:012x}", 1_791_370_800_000 + at);
        format!("{}-{}-7000-8000-000000000000", &digits[..8], &digits[8..])
    };
    let begun = 7_200_000;
    let in_turn = |at: u64, id: String| {
        line(
            at,
            "turn_context",
            json!({"model": "gpt-5.5", "turn_id": id}),
        )
    };
    let child = [
        meta(begun, &id(0), Some(PARENT)),
        meta(begun, PARENT, None),
        in_turn(begun, id(0).replace(&id(0)[..8], "01a0aa00")),
        count(begun + 9_000, (1_000, 10), (1_000, 10), None),
        in_turn(begun + 9_001, id(40)),
        count(begun + 9_500, (3_000, 30), (2_000, 20), None),
    ];
    assert_eq!(sum_of(&[("c", &child)]), (1, Usage::from_counts(2_000, 20)));
    // An answer of its own may be fast.
    let fast = [
        meta(begun, &id(0), Some(PARENT)),
        in_turn(begun + 1, id(1)),
        count(begun + 500, (3_000, 30), (2_000, 20), None),
    ];
    assert_eq!(sum_of(&[("c", &fast)]), (1, Usage::from_counts(2_000, 20)));
}

#[test]
fn copied_counts_of_a_parent_with_records_do_not_count() {
    let totals = [(10_000, 100), (21_000, 200)];
    let lasts = [(10_000, 100), (11_000, 100)];
    let mut parent = vec![meta(0, PARENT, None), turn(1)];
    for n in 0..2 {
        let at = 60_000 * (n as u64 + 1);
        parent.push(record(at, &format!("resp_{n}"), lasts[n].0, lasts[n].1));
        parent.push(count(at, totals[n], lasts[n], None));
    }
    let mut child = vec![meta(7_200_000, CHILD, Some(PARENT)), turn(7_200_001)];
    child.extend((0..2).map(|n| count(7_200_002, totals[n], lasts[n], None)));
    child.push(turn(7_500_000));
    child.push(record(7_520_000, "resp_own", 12_000, 200));
    child.push(count(7_520_000, (33_000, 400), (12_000, 200), None));
    let expected = (3, Usage::from_counts(33_000, 400));
    assert_eq!(sum_of(&[("p", &parent), ("c", &child)]), expected);
    // The same with numbers of lines.
    for (number, line) in child.iter_mut().enumerate() {
        line["ordinal"] = json!(number);
    }
    child[0]["payload"]["history_base"] = json!({"end_ordinal_exclusive": 4});
    assert_eq!(sum_of(&[("p", &parent), ("c", &child)]), expected);
    assert_eq!(
        sum_of(&[("c", &child)]),
        (1, Usage::from_counts(12_000, 200))
    );
}

#[test]
fn totals_that_are_written_again_are_no_answers() {
    for limit in [Some("codex"), Some("other"), None] {
        let file = [
            meta(0, PARENT, None),
            turn(1),
            count(5_000, (1_000, 100), (1_000, 100), Some("codex")),
            count(6_000, (1_000, 100), (1_000, 100), limit),
            count(7_000, (1_000, 100), (1_000, 100), limit),
            // After a summary, the length of the context has no answer.
            count(8_000, (1_000, 100), (0, 0), limit),
            count(67_000, (3_000, 300), (2_000, 200), Some("codex")),
        ];
        let found = sum_of(&[("a", &file)]);
        assert_eq!(found, (2, Usage::from_counts(3_000, 300)), "{limit:?}");
    }
}

#[test]
fn the_tier_is_that_of_the_record_or_of_the_settings() {
    let settings = |tier: Option<&str>| {
        event(
            2,
            json!({"type": "thread_settings_applied", "thread_settings": {"model": "gpt-5.5", "service_tier": tier}}),
        )
    };
    let mut of_record = record(5_000, "r1", 10, 1);
    of_record["payload"]["service_tier"] = json!("default");
    let file = [
        meta(0, PARENT, None),
        turn(1),
        settings(Some("priority")),
        count(3_000, (20, 2), (20, 2), None),
        of_record,
        settings(None),
        record(6_000, "r2", 30, 3),
    ];
    let spending = read(&[("a", &file)]);
    let mut tiers: Vec<_> = spending
        .answers
        .iter()
        .map(|answer| (answer.usage.output, answer.terms.tier.as_deref()))
        .collect();
    tiers.sort_unstable();
    assert_eq!(
        tiers,
        [(1, Some("default")), (2, Some("priority")), (3, None)]
    );
}

#[test]
fn searches_of_the_web_belong_to_the_answer_after_them() {
    let search = |kind: &str| {
        line(
            10,
            "response_item",
            json!({"type": "web_search_call", "status": "completed", "action": {"type": kind}}),
        )
    };
    let mention = line(
        11,
        "response_item",
        json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "web_search_call"}]}),
    );
    let file = [
        meta(0, PARENT, None),
        turn(1),
        search("search"),
        search("open_page"),
        search("search"),
        mention,
        count(20, (10, 1), (10, 1), None),
        record(21, "r1", 10, 1),
        record(22, "r2", 20, 2),
    ];
    let spending = read(&[("a", &file)]);
    let mut searches: Vec<_> = spending
        .answers
        .iter()
        .map(|answer| (answer.usage.output, answer.usage.web_searches))
        .collect();
    searches.sort_unstable();
    assert_eq!(searches, [(1, 2), (2, 0)]);
}

#[test]
fn newer_lines_and_files_without_a_session_are_read() {
    let session = line(
        0,
        "session_meta",
        json!({"session_id": PARENT, "cwd": "/x"}),
    );
    let file = [
        session,
        line(
            1,
            "inter_agent_communication_metadata",
            json!({"trigger_turn": true}),
        ),
        count(2, (10, 1), (10, 1), None),
    ];
    let spending = read(&[("a", &file)]);
    assert_eq!(&*spending.answers[0].session, PARENT);
    assert!(spending.untraced.is_empty());
    let spending = read(&[("a", &file[1..])]);
    assert_eq!(&*spending.answers[0].session, "rollout-a");
}

#[test]
fn other_kinds_of_lines_have_no_usage_and_voices_are_named() {
    let voice = |kind: &str| line(3, "realtime_item", json!({"id": "i", "type": kind}));
    let latest = record(5_000, "r1", 10, 1)["payload"].clone();
    let file = [
        meta(0, PARENT, None),
        turn(1),
        line(2, "dynamic_tools_updated", json!({"tools": []})),
        line(2, "retained_context", json!({"messages": []})),
        line(2, "security_risk_score", json!({"scores": {"a": 0.5}})),
        voice("realtime_session_started"),
        voice("transcript_segment"),
        voice("realtime_session_started"),
        record(5_000, "r1", 10, 1),
        line(
            6_000,
            "compacted",
            json!({"message": "", "latest_token_usage_record": latest}),
        ),
    ];
    // A copy of the file has the same conversations.
    let spending = read(&[("a", &file), ("b", &file)]);
    assert_eq!(sum(&spending.answers), (1, Usage::from_counts(10, 1)));
    assert_eq!(spending.untraced[&Client::Codex], "voice conversations");
    assert_eq!(spending.untraced_counts[&Client::Codex], 2);
}

/// One answer of a generated session.
#[derive(Debug, Clone)]
struct Form {
    input: u64,
    output: u64,
    has_record: bool,
    has_count: bool,
    count_is_first: bool,
    /// The count follows after the next answer.
    is_late: bool,
    is_repeated: bool,
}

fn form() -> impl Strategy<Value = Form> {
    let numbers = (0_u64..1_000, 1_u64..500);
    (numbers, 0_u8..3, any::<(bool, bool, bool)>()).prop_map(
        |((input, output), kind, (count_is_first, is_late, is_repeated))| Form {
            input,
            output,
            has_record: kind != 0,
            has_count: kind != 1,
            count_is_first,
            is_late,
            is_repeated,
        },
    )
}

/// Writes answers; `begun` is the time, `before` the total. Each usage is of one answer only, as the input of a
/// conversation grows.
fn write(forms: &[Form], begun: u64, mut before: (u64, u64), name: &str) -> Vec<Value> {
    let mut placed = Vec::new();
    for (number, form) in forms.iter().enumerate() {
        let place = 10 * number;
        let at = begun + 60_000 * (number as u64 + 1);
        let input = 10_000 * (number as u64 + 1) + form.input + before.0 % 7_919;
        before = (before.0 + input, before.1 + form.output);
        let counted = count(at, before, (input, form.output), Some("codex"));
        if form.has_record {
            let id = format!("{name}{number}");
            placed.push((place + 2, record(at, &id, input, form.output)));
        }
        if form.has_count {
            let of_count = match (form.is_late, form.count_is_first) {
                (true, _) => place + 14,
                (false, true) => place + 1,
                (false, false) => place + 3,
            };
            if form.is_repeated {
                placed.push((of_count + 1, counted.clone()));
            }
            placed.push((of_count, counted));
        }
    }
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, line)| line).collect()
}

fn total(forms: &[Form], mut before: (u64, u64)) -> (u64, u64) {
    for (number, form) in forms.iter().enumerate() {
        let input = 10_000 * (number as u64 + 1) + form.input + before.0 % 7_919;
        before = (before.0 + input, before.1 + form.output);
    }
    before
}

proptest! {
    /// Any mixture of records and counts, any copied part in a fork, any copies of the files, in any order: each answer
    /// counts once, and the parent's only where its file is.
    #[test]
    fn each_answer_counts_once(
        parents in proptest::collection::vec(form(), 1..7),
        own in proptest::collection::vec(form(), 1..5),
        from in 0_usize..8,
        to in 0_usize..16,
        cut in 0_usize..16,
        has_parent in any::<bool>(),
        is_reversed in any::<bool>(),
    ) {
        let of_parent = write(&parents, 0, (0, 0), "p");
        let end = total(&parents, (0, 0));
        let mut parent = vec![meta(0, PARENT, None), turn(1)];
        parent.extend(of_parent.iter().cloned());
        let begun = 7_200_000;
        let mut child = vec![meta(begun, CHILD, Some(PARENT)), meta(begun, PARENT, None), turn(begun)];
        let to = to.min(of_parent.len());
        for (number, line) in of_parent[from.min(to)..to].iter().enumerate() {
            let mut copy = line.clone();
            copy["timestamp"] = json!(time(begun + number as u64));
            child.push(copy);
        }
        child.extend(write(&own, begun, (end.0 + 5_000_000, end.1), "c"));
        let cut = cut.min(parent.len());
        let mut files: Vec<(&str, &[Value])> = vec![("c", &child[..]), ("copy", &child[..])];
        if has_parent {
            files.push(("p", &parent[..]));
            // An archived file that ends early.
            files.push(("q", &parent[..cut.max(1)]));
        }
        if is_reversed {
            files.reverse();
        }
        let all = total(&own, (end.0 + 5_000_000, end.1));
        let (mut answers, mut tokens) = (own.len(), (all.0 - end.0 - 5_000_000, all.1 - end.1));
        if has_parent {
            answers += parents.len();
            tokens = (tokens.0 + end.0, tokens.1 + end.1);
        }
        prop_assert_eq!(sum_of(&files), (answers, Usage::from_counts(tokens.0, tokens.1)));
    }
}

#[test]
fn totals_without_a_last_usage_count_as_they_grow() {
    let total = |at: u64, input: u64| {
        event(
            at,
            json!({"type": "token_count", "info": {"total_token_usage": usage(input, 10)}}),
        )
    };
    let lines = [
        meta(0, PARENT, None),
        turn(100),
        total(5_000, 100_000),
        count(6_000, (150_000, 10), (50_000, 0), None),
        total(7_000, 300_000),
        total(8_000, 300_000),
    ];
    let (answers, sum) = sum_of(&[("a", &lines)]);
    assert_eq!((answers, sum.uncached_input, sum.output), (3, 300_000, 10));
}
