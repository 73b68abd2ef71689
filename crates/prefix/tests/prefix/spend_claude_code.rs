//! Spend of Claude Code: streamed lines, forks, iterations, and requests that are only in the sum of the costs.

use std::path::PathBuf;

use cachalot_accounting::Terms;
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::spend::{PaidAnswer, SpendReader, SpendTotals, Spending};
use proptest::prelude::*;
use serde_json::{Value, json};

const MODEL: &str = "claude-opus-4-8";

/// A usage that counts `n` in each member, as a line has it.
fn counts(n: u64) -> Value {
    json!({
        "input_tokens": n, "output_tokens": n, "cache_read_input_tokens": n,
        "cache_creation_input_tokens": 2 * n,
        "cache_creation": {"ephemeral_5m_input_tokens": n, "ephemeral_1h_input_tokens": n},
    })
}

/// The same, as it is counted.
fn counted(n: u64) -> Usage {
    Usage {
        uncached_input: n,
        cache_read: n,
        cache_write_5m: n,
        cache_write_1h: n,
        output: n,
        ..Usage::default()
    }
}

fn time(seconds: u64) -> String {
    format!("2026-11-28T11:{:02}:{:02}.000Z", seconds / 60, seconds % 60)
}

fn answer(session: &str, seconds: u64, id: &str, usage: Value) -> Value {
    json!({
        "type": "assistant", "sessionId": session, "timestamp": time(seconds), "cwd": "/x", "isSidechain": false,
        "message": {"id": id, "model": MODEL, "stop_reason": "end_turn", "usage": usage},
    })
}

/// The copy of an answer in a fork.
fn copy(session: &str, of: &Value) -> Value {
    let mut copy = of.clone();
    copy["requestSessionId"] = copy["sessionId"].take();
    copy["sessionId"] = json!(session);
    copy
}

/// A sum of costs of requests with `n` in each member.
fn state(session: &str, n: u64) -> Value {
    json!({
        "type": "cost-state", "sessionId": session, "startTime": 7, "totalCostUSD": 1.5,
        "modelUsage": {MODEL: {
            "inputTokens": n, "outputTokens": n, "cacheReadInputTokens": n, "cacheCreationInputTokens": 2 * n,
            "cacheCreationEphemeral5mInputTokens": n, "cacheCreationEphemeral1hInputTokens": n,
        }},
    })
}

fn user(session: &str, seconds: u64) -> Value {
    json!({"type": "user", "sessionId": session, "timestamp": time(seconds)})
}

fn read(files: &[&[Value]]) -> Spending {
    let mut reader = SpendReader::default();
    for (number, lines) in files.iter().enumerate() {
        let lines: Vec<_> = lines.iter().map(Value::to_string).collect();
        let path = PathBuf::from(format!("{number}.jsonl"));
        reader.read(&path, lines.join("\n").as_bytes()).unwrap();
    }
    reader.finish()
}

fn sum(answers: &[PaidAnswer]) -> (usize, Usage) {
    let mut sum = Usage::default();
    answers.iter().for_each(|answer| sum += answer.usage);
    (answers.len(), sum)
}

/// The side requests, by session.
fn side(files: &[&[Value]]) -> Vec<(String, Usage)> {
    let requests = read(files).side_requests;
    let of = |answer: &PaidAnswer| (answer.session.to_string(), answer.usage);
    requests.iter().map(of).collect()
}

#[test]
fn the_larger_count_wins_member_by_member() {
    let empty = |split: bool| {
        let mut usage = counts(0);
        if split {
            usage["cache_creation"] = counts(9)["cache_creation"].clone();
        }
        usage
    };
    let whole = answer("p", 1, "m", counts(9));
    let emptied = copy("c", &answer("p", 1, "m", empty(true)));
    for files in [[&whole, &emptied], [&emptied, &whole]] {
        let files = files.map(|line| [line.clone()]);
        let spending = read(&[&files[0], &files[1]]);
        assert_eq!(sum(&spending.answers), (1, counted(9)));
        assert_eq!(&*spending.answers[0].session, "p");
    }
    // The session that paid for it left no file.
    assert_eq!(sum(&read(&[&[emptied]]).answers), (0, Usage::default()));
    // Other servers report the usage in the last line.
    let late = [
        answer("s", 1, "m", empty(false)),
        answer(
            "s",
            2,
            "m",
            json!({"output_tokens": 3, "cache_read_input_tokens": 5}),
        ),
    ];
    let expected = Usage {
        cache_read: 5,
        output: 3,
        ..Usage::default()
    };
    assert_eq!(sum(&read(&[&late]).answers), (1, expected));
}

#[test]
fn a_loss_is_found_if_the_usage_is_in_the_last_line() {
    let written = |id: &str, at| {
        [
            answer("s", at, id, counts(0)),
            answer(
                "s",
                at,
                id,
                json!({"input_tokens": 1, "cache_creation_input_tokens": 5_000}),
            ),
        ]
    };
    let lines = [written("a", 1), written("b", 2)].concat();
    let losses: Vec<_> = read(&[&lines])
        .answers
        .iter()
        .map(|answer| answer.loss.as_ref().map(|loss| loss.tokens))
        .collect();
    assert_eq!(losses, [None, Some(5_000)]);
}

#[test]
fn geography_speed_and_tools_are_terms_of_the_price() {
    let terms_of = |members: Value| {
        let mut usage = counts(1);
        for (name, value) in members.as_object().unwrap() {
            usage[name] = value.clone();
        }
        let spending = read(&[&[answer("s", 1, "m", usage)]]);
        let answer = &spending.answers[0];
        (answer.terms.clone(), answer.usage.web_searches)
    };
    let named = |text: &str| Some(text.to_owned());
    assert_eq!(
        terms_of(json!({"inference_geo": "us", "speed": "fast", "service_tier": "batch"})),
        (
            Terms {
                tier: named("batch"),
                geography: named("us"),
                speed: named("fast"),
                ..Terms::default()
            },
            0
        )
    );
    for unknown in ["", "not_available"] {
        let (terms, _) = terms_of(json!({"inference_geo": unknown, "fallback_credit": null}));
        assert_eq!(terms, Terms::default());
    }
    let searches = json!({"web_search_requests": 5, "web_fetch_requests": 2});
    assert_eq!(
        terms_of(json!({"server_tool_use": searches})),
        (Terms::default(), 5)
    );
    let unknown = |members| terms_of(members).0.unknown;
    let run = json!({"server_tool_use": {"code_run_requests": 1, "other_requests": 0}});
    assert_eq!(unknown(run), named("code_run_requests"));
    for (kind, credit) in [
        ("redeemed", named("fallback_credit")),
        ("not_applied", None),
    ] {
        let found = unknown(json!({"fallback_credit": {"status": {"type": kind}}}));
        assert_eq!(found, credit);
    }
}

#[test]
fn iterations_that_the_usage_lacks_have_their_own_models() {
    let iteration = |kind: &str, model: Option<&str>, n: u64| {
        let mut iteration = counts(n);
        iteration["type"] = json!(kind);
        iteration["model"] = json!(model);
        iteration
    };
    let paid = |iterations: Value| {
        let mut usage = counts(1);
        usage["iterations"] = iterations;
        // The lines of an answer repeat them.
        let lines = [
            answer("s", 1, "m", usage.clone()),
            answer("s", 2, "m", usage),
        ];
        let spending = read(&[&lines]);
        let mut paid: Vec<_> = spending
            .answers
            .iter()
            .map(|answer| (answer.model.to_string(), answer.usage.output))
            .collect();
        paid.sort();
        (paid, spending.answers[0].terms.unknown.clone())
    };
    let list = |expected: &[(&str, u64)]| {
        let expected = expected.iter();
        let expected: Vec<_> = expected
            .map(|(model, output)| ((*model).to_owned(), *output))
            .collect();
        expected
    };
    // The refused attempts are paid for, too.
    let refused = json!([
        iteration("message", Some("claude-opus-5"), 3),
        iteration("fallback_message", Some("claude-haiku-4-5"), 4),
        iteration("fallback_message", Some(MODEL), 1),
    ]);
    let (models, _) = paid(refused);
    let expected = [(MODEL, 1), ("claude-haiku-4-5", 4), ("claude-opus-5", 3)];
    let mut expected = list(&expected);
    expected.sort();
    assert_eq!(models, expected);
    // Turns of tools that the provider runs are in the usage.
    let turns = json!([
        iteration("message", Some("claude-opus-4-8-20260401"), 1),
        iteration("message", None, 0)
    ]);
    assert_eq!(paid(turns), (list(&[(MODEL, 1)]), None));
    // A summary by the provider is not.
    let summary = json!([
        iteration("compaction", None, 5),
        iteration("message", None, 1)
    ]);
    assert_eq!(paid(summary), (list(&[(MODEL, 1), (MODEL, 5)]), None));
    let unknown = json!([iteration("dream", None, 5)]);
    let named = Some("iteration dream".to_owned());
    assert_eq!(paid(unknown), (list(&[(MODEL, 1)]), named));
}

#[test]
fn the_lines_of_requests_have_no_usage() {
    let kinds = [
        "api-request",
        "api-request-blob",
        "api-request-resumed",
        "api-request-shape",
        "atis-latch",
        "data-flow-records",
        "fork-context-ref",
        "host-row",
        "hybrid-organization",
        "repl-mode",
        "session-owner",
        "tools-used",
    ];
    let lines = kinds.map(|kind| json!({"type": kind, "sessionId": "s"}));
    let spending = read(&[&lines, &[state("s", 0)]]);
    assert!(spending.unknown.is_empty(), "{:?}", spending.unknown);
    assert!(spending.answers.is_empty() && spending.side_requests.is_empty());
}

/// A session with two runs and a side request in each, and a fork after the first run, with a side request of its own.
fn parent_and_fork() -> (Vec<Value>, Vec<Value>) {
    let first = answer("p", 1, "m1", counts(100));
    let parent = vec![
        first.clone(),
        state("p", 110),
        user("p", 60),
        answer("p", 61, "m2", counts(200)),
        state("p", 330),
    ];
    let fork = vec![
        user("c", 30),
        copy("c", &first),
        user("c", 31),
        answer("c", 32, "m3", counts(400)),
        state("c", 540),
    ];
    (parent, fork)
}

#[test]
fn requests_in_no_line_are_the_rest_of_the_sum() {
    let (parent, fork) = parent_and_fork();
    let expected = [("c".to_owned(), counted(30)), ("p".to_owned(), counted(30))];
    for files in [[&parent[..], &fork[..]], [&fork[..], &parent[..]]] {
        assert_eq!(side(&files), expected);
        // A copy of the folder changes nothing.
        assert_eq!(side(&[files[0], files[1], files[0], files[1]]), expected);
        assert_eq!(sum(&read(&files).answers), (3, counted(700)));
    }
    // Without its parent's file, a fork's own part is not known.
    assert!(side(&[&fork]).is_empty());
    assert_eq!(side(&[&parent]), expected[1..].to_vec());
    // Answers after the last sum are not in it, and those of sub-agents before its end are.
    let mut sub_agent = answer("p", 61, "m4", counts(5));
    sub_agent["agentId"] = json!("a");
    sub_agent["isSidechain"] = json!(true);
    let mut longer = parent.clone();
    longer.push(answer("p", 90, "m5", counts(7)));
    let found = side(&[&longer, &[sub_agent]]);
    assert_eq!(found, [("p".to_owned(), counted(25))]);
}

#[test]
fn sums_that_began_anew_or_name_models_otherwise_are_not_counted_twice() {
    // A second run that did not take over the first one's sum.
    let anew = [
        answer("s", 1, "m1", counts(100)),
        state("s", 110),
        answer("s", 61, "m2", counts(10)),
        state("s", 15),
    ];
    assert_eq!(side(&[&anew]), [("s".to_owned(), counted(15))]);
    // The sum names the model as the platform does, and does not split its writes.
    let other = json!({
        "type": "cost-state", "sessionId": "s",
        "modelUsage": {"eu.anthropic.claude-opus-4-8": {
            "inputTokens": 11, "outputTokens": 11, "cacheReadInputTokens": 11, "cacheCreationInputTokens": 22,
        }},
    });
    let expected = Usage {
        uncached_input: 1,
        cache_read: 1,
        cache_write_other: 2,
        output: 1,
        ..Usage::default()
    };
    let found = side(&[&[answer("s", 1, "m", counts(10)), other]]);
    assert_eq!(found, [("s".to_owned(), expected)]);
}

#[test]
fn side_requests_cost_what_their_tokens_cost() {
    let (parent, fork) = parent_and_fork();
    let spending = read(&[&parent, &fork]);
    let catalog = Catalog::built_in();
    let (mut all, mut one) = (SpendTotals::default(), SpendTotals::default());
    for answer in &spending.answers {
        all.add(answer, &catalog);
    }
    for requests in &spending.side_requests {
        all.add_side_requests(requests, &catalog);
    }
    let mut whole = spending.answers[0].clone();
    whole.usage = counted(760);
    whole.loss = None;
    one.add(&whole, &catalog);
    assert_eq!(all.cost, one.cost);
    assert_eq!((all.answers, all.usage), (3, counted(760)));
    whole.usage = counted(60);
    let mut side = SpendTotals::default();
    side.add(&whole, &catalog);
    assert_eq!(all.side_requests, side.cost);
}

proptest! {
    /// Answers in lines that grow, and copies of any of the lines in forks, with or without counts, in any order of files:
    /// each answer counts once, with its largest counts.
    #[test]
    fn each_answer_counts_once(
        sizes in proptest::collection::vec((1_u64..1_000, 0_u64..4), 1..8),
        copied in proptest::collection::vec((0_usize..32, any::<bool>(), any::<bool>()), 0..12),
        is_reversed in any::<bool>(),
    ) {
        let mut parent = Vec::new();
        for (number, (size, before)) in sizes.iter().enumerate() {
            for n in (0..=*before).rev() {
                let usage = counts(size.saturating_sub(n * 100));
                parent.push(answer("p", number as u64, &format!("m{number}"), usage));
            }
        }
        let (mut fork, mut resumed) = (Vec::new(), Vec::new());
        for (line, is_empty, is_marked) in copied {
            let mut line = parent[line % parent.len()].clone();
            if is_empty {
                for name in ["input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"] {
                    line["message"]["usage"][name] = json!(0);
                }
            }
            if is_marked { fork.push(copy("c", &line)) } else {
                line["sessionId"] = json!("r");
                resumed.push(line);
            }
        }
        let mut files = vec![&parent[..], &fork[..], &resumed[..]];
        if is_reversed {
            files.reverse();
        }
        let total: u64 = sizes.iter().map(|(size, _)| size).sum();
        prop_assert_eq!(sum(&read(&files).answers), (sizes.len(), counted(total)));
    }
}
