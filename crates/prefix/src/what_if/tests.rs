//! Costs by hand, and properties of all policies.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use cachalot_core::Cost;
use proptest::prelude::*;

use super::*;

/// Picodollars in 10⁻⁶ dollars: a token at a price of one dollar per million.
const MICRO: u64 = 1_000_000;

const SONNET: &str = "claude-sonnet-4-5";

/// An answer of pi in a session, at a time in minutes.
fn answer(session: &str, model: &str, minutes: f64, usage: Usage) -> PaidAnswer {
    #[expect(clippy::cast_possible_truncation)]
    let at = (minutes * 60_000.0) as Millis;
    PaidAnswer {
        session: session.into(),
        ..PaidAnswer::new(Client::Pi, model.into(), Some(at), usage)
    }
}

fn written(tokens: u64) -> Usage {
    Usage {
        cache_write_5m: tokens,
        ..Usage::default()
    }
}

fn read(tokens: u64, written: u64) -> Usage {
    Usage {
        cache_read: tokens,
        cache_write_5m: written,
        ..Usage::default()
    }
}

fn compare(answers: impl IntoIterator<Item = PaidAnswer>) -> Comparison {
    let mut what_if = WhatIf::default();
    for answer in answers {
        what_if.add_answer(answer);
    }
    what_if.finish(&Catalog::built_in(), &|_, _| true)
}

fn group(answers: impl IntoIterator<Item = PaidAnswer>) -> Group {
    let mut groups = compare(answers).groups;
    assert_eq!(groups.len(), 1, "{groups:?}");
    groups.remove(0)
}

fn row(group: &Group, policy: Policy) -> Option<Row> {
    let mut rows = group.rows.iter();
    rows.find(|row| row.policy == policy).copied()
}

/// Returns the cost of a policy in 10⁻⁶ dollars, with its additional requests and the tokens that it reads.
fn cost(group: &Group, policy: Policy) -> Option<(u64, u64, u64)> {
    let row = row(group, policy)?;
    assert_eq!(row.cost.unpriced, 0);
    Some((row.cost.picodollars / MICRO, row.requests, row.read_instead))
}

/// 100,000 tokens twice: $0.375 to write for five minutes, $0.60 for an hour, $0.03 to read.
#[test]
fn two_requests_ten_minutes_apart() {
    let group = group([0.0, 10.0].map(|at| answer("a", SONNET, at, written(100_000))));
    assert_eq!(group.cost.picodollars / MICRO, 750_000);
    assert_eq!((group.long_pauses, group.lossy_pauses), (1, 1));
    assert_eq!((group.conversations, group.lost), (1, 100_000));
    assert_eq!(cost(&group, Policy::OneHour), Some((630_000, 0, 100_000)));
    // Renewals after 4.5 and 9 minutes: 100,000 tokens and one of output, $0.030015 each.
    assert_eq!(
        cost(&group, Policy::KeepAlive(0)),
        Some((375_000 + 30_000 + 2 * 30_015, 2, 100_000))
    );
    // Longer times send the same renewals, so that they make no difference.
    assert_eq!(row(&group, Policy::KeepAlive(1)), None);
    // No sub-agent, no entry of an hour, no model of OpenAI.
    for policy in [
        Policy::OneHourWithoutSubAgents,
        Policy::FiveMinutes,
        Policy::TwelveHours,
    ] {
        assert_eq!(row(&group, policy), None, "{policy}");
    }
    let recommended = group.recommended(|_| true).unwrap();
    assert_eq!(recommended.policy, Policy::KeepAlive(0));
    let recommended = group.recommended(|row| row.policy.until().is_none());
    assert_eq!(recommended.unwrap().policy, Policy::OneHour);
    assert_eq!(group.recommended(|_| false), None);
}

#[test]
fn renewals_are_paid_after_the_end_of_a_conversation() {
    let long = [0.0, 10.0].map(|at| answer("a", SONNET, at, written(100_000)));
    // An hour after the first conversation, another one that costs next to nothing.
    let other = answer("b", SONNET, 70.0, Usage::from_counts(1, 0));
    let group = group(long.into_iter().chain([other]));
    let paid = 750_000 + 3;
    assert_eq!(group.cost.picodollars / MICRO, paid);
    let with = |count: u64| paid - 375_000 + 30_000 + count * 30_015;
    // Two renewals in the pause, and three in 15 minutes after the end, six in 30, thirteen in 60.
    for (index, count) in [(0, 5), (1, 8), (2, 15)] {
        let expected = Some((with(count), count, 100_000));
        assert_eq!(cost(&group, Policy::KeepAlive(index)), expected);
    }
    // The newest record is the end: an hour later nothing is known.
    assert_eq!(row(&group, Policy::KeepAlive(3)), None);
}

#[test]
fn renewals_count_up_to_the_end_of_what_is_known() {
    let mut what_if = WhatIf::default();
    what_if.add_answer(answer("a", SONNET, 0.0, written(100_000)));
    what_if.is_complete_until(20 * 60_000);
    let comparison = what_if.finish(&Catalog::built_in(), &|_, _| true);
    // Three in 15 minutes, four in 20.
    let kept = |index| cost(&comparison.groups[0], Policy::KeepAlive(index));
    assert_eq!(kept(0), Some((375_000 + 3 * 30_015, 3, 0)));
    assert_eq!(kept(1), Some((375_000 + 4 * 30_015, 4, 0)));
    assert_eq!(kept(2), None);
}

#[test]
fn pauses_are_covered_up_to_the_last_renewal() {
    let twice = |pause: f64| {
        let answers = [0.0, pause].map(|at| answer("a", SONNET, at, written(100_000)));
        cost(&group(answers), Policy::KeepAlive(0)).map(|(_, count, read)| (count, read))
    };
    // A renewal in a pause that the cache outlives is paid for in vain.
    assert_eq!(twice(4.4), None);
    assert_eq!(twice(4.9), Some((1, 0)));
    assert_eq!(twice(18.4), Some((3, 100_000)));
    assert_eq!(twice(18.6), Some((3, 0)));
}

#[test]
fn only_losses_of_pauses_are_saved() {
    let saved = |answers: Vec<PaidAnswer>| {
        let group = group(answers);
        (group.lossy_pauses, group.lost)
    };
    let first = || answer("a", SONNET, 0.0, written(100_000));
    // After five minutes at most, something else was the cause.
    assert_eq!(
        saved(vec![first(), answer("a", SONNET, 5.0, written(100_000))]),
        (0, 0)
    );
    // A longer request wrote the rest for the first time.
    let longer = answer("a", SONNET, 10.0, read(20_000, 90_000));
    assert_eq!(saved(vec![first(), longer]), (1, 80_000));
    // A shorter one is of a conversation that was summarized or cut.
    let shorter = answer("a", SONNET, 10.0, written(50_000));
    assert_eq!(saved(vec![first(), shorter]), (0, 0));
    // Another model has a cache of its own, and one of the same conversation changes the cause.
    let other = answer("a", "claude-opus-4-8", 1.0, written(100_000));
    let back = answer("a", SONNET, 10.0, written(100_000));
    assert_eq!(saved(vec![first(), other, back]), (0, 0));
    // Another session has another conversation.
    let other = answer("b", SONNET, 10.0, written(100_000));
    assert_eq!(saved(vec![first(), other]), (0, 0));
}

#[test]
fn entries_of_an_hour_are_compared_with_those_of_five_minutes() {
    let hour = |read, written| Usage {
        cache_read: read,
        cache_write_1h: written,
        ..Usage::default()
    };
    let answers = |pause: f64| {
        let usages = [hour(0, 100_000), hour(100_000, 0), hour(100_000, 0)];
        let times = [0.0, 1.0, 1.0 + pause];
        let answers = times.into_iter().zip(usages);
        answers.map(|(at, usage)| answer("a", SONNET, at, usage))
    };
    // $0.60 and twice $0.03. Five minutes: $0.375 and twice $0.03, or once if the pause is longer.
    let short = group(answers(1.0));
    assert_eq!(cost(&short, Policy::FiveMinutes), Some((435_000, 0, 0)));
    assert_eq!(row(&short, Policy::OneHour), None);
    let long = group(answers(10.0));
    assert_eq!(cost(&long, Policy::FiveMinutes), Some((780_000, 0, 0)));
    // The prefix lives for an hour, so that it is renewed after 54 minutes.
    assert_eq!(row(&long, Policy::KeepAlive(4)), None);
    let longer = group(answers(55.0));
    let (_, renewals, _) = cost(&longer, Policy::KeepAlive(2)).unwrap();
    assert_eq!(renewals, 1);
}

/// $2.50 per million tokens of input: 100,000 cost $0.3125 to write, $0.625 for twelve hours, $0.025 to read.
#[test]
fn openai_entries_can_live_for_twelve_hours() {
    let usage = Usage {
        cache_write_other: 100_000,
        ..Usage::default()
    };
    let answers = [0.0, 120.0, 240.0].map(|at| answer("a", "gpt-5.6", at, usage));
    let listed = Catalog::built_in();
    let price = listed
        .find_by_name("gpt-5.6")
        .unwrap()
        .price
        .clone()
        .unwrap();
    let input = price.rates.input;
    let group = group(answers);
    assert_eq!(
        group.cost.picodollars,
        3 * 100_000 * price.rates.cache_write_5m
    );
    let twelve = row(&group, Policy::TwelveHours).unwrap();
    assert_eq!(
        twelve.cost.picodollars,
        100_000 * (input * 5 / 2 + 2 * price.rates.cache_read)
    );
    assert_eq!(twelve.read_instead, 200_000);
    // Renewals after 27, 54, 81 and 108 minutes in each pause.
    let kept = row(&group, Policy::KeepAlive(3)).unwrap();
    assert_eq!((kept.requests, kept.read_instead), (8, 200_000));
    // Without a fixed lifetime, no policy applies.
    let group = self::group([0.0, 120.0].map(|at| answer("a", "gpt-5-codex", at, usage)));
    assert!(!group.has_lifetime() && group.rows.is_empty(), "{group:?}");
}

/// Claude Sonnet 5: $2 per million tokens of input, $2.50 to write, $0.20 to read, $10 of output.
#[test]
fn summaries_shorten_what_follows() {
    const MODEL: &str = "claude-sonnet-5";
    let usages = [
        (0.0, written(20_000)),
        (1.0, read(20_000, 100_000)),
        (2.0, read(120_000, 5_000)),
        (3.0, read(125_000, 1_000)),
    ];
    let answers = usages.map(|(at, usage)| answer("a", MODEL, at, usage));
    let group = group(answers);
    let paid = 50_000 + 254_000 + 36_500 + 27_500;
    assert_eq!(group.cost.picodollars / MICRO, paid);
    // The summary reads 120,000 tokens and writes 2,000: $0.044. 98,000 tokens are no longer sent: the third request
    // reads the head of 20,000 tokens and writes 7,000, the fourth reads 27,000 and writes 1,000.
    let expected = 50_000 + 254_000 + 44_000 + (4_000 + 17_500) + (5_400 + 2_500);
    assert_eq!(
        cost(&group, Policy::CompactAt(100_000)),
        Some((expected, 1, 0))
    );
    assert_eq!(row(&group, Policy::CompactAt(150_000)), None);
    // There is no pause.
    assert_eq!(row(&group, Policy::CompactBeforePause), None);
    assert_eq!(group.recommended(|_| true), None);
}

#[test]
fn summary_before_a_pause_is_written_after_it() {
    const MODEL: &str = "claude-sonnet-5";
    let usages = [
        (0.0, written(20_000)),
        (1.0, read(20_000, 100_000)),
        (61.0, written(125_000)),
    ];
    let group = group(usages.map(|(at, usage)| answer("a", MODEL, at, usage)));
    assert_eq!(group.cost.picodollars / MICRO, 50_000 + 254_000 + 312_500);
    // 27,000 tokens are written after the pause.
    assert_eq!(
        cost(&group, Policy::CompactBeforePause),
        Some((50_000 + 254_000 + 44_000 + 67_500, 1, 0))
    );
    let best = group.recommended(|_| true);
    assert_eq!(
        group.compaction(best).unwrap().policy,
        Policy::CompactBeforePause
    );
}

#[test]
fn unknown_answers_are_named() {
    let timeless = PaidAnswer {
        at: None,
        ..answer("a", SONNET, 0.0, written(1))
    };
    let comparison = compare([
        timeless,
        answer("a", "no-such-model", 0.0, written(1)),
        answer("a", SONNET, 0.0, written(1)).without_place(),
        answer("", SONNET, 0.0, written(1)),
        // It cost nothing.
        answer("a", SONNET, 0.0, Usage::default()),
        PaidAnswer {
            cost: Some(Cost::from_picodollars(1)),
            ..answer("a", SONNET, 0.0, written(1))
        },
    ]);
    assert!(comparison.groups.is_empty());
    let left_out: Vec<_> = comparison.left_out.into_iter().collect();
    let expected = [
        ("the conversation is not recorded", 2),
        ("the price of `no-such-model` is not known", 1),
        (
            "the recorded cost does not follow from the recorded tokens",
            1,
        ),
        ("the time is not recorded", 1),
    ];
    assert_eq!(
        left_out,
        expected.map(|(name, count)| (name.to_owned(), count))
    );
}

/// The recorded cost says for how long the provider caches what was written.
#[test]
fn recorded_costs_show_lifetimes() {
    let usage = Usage {
        cache_write_other: 100_000,
        ..Usage::default()
    };
    let answers = [0.0, 10.0].map(|at| PaidAnswer {
        cost: Some(Cost::from_picodollars(600_000 * MICRO)),
        ..answer("a", SONNET, at, usage)
    });
    let group = group(answers);
    assert_eq!((group.long_pauses, group.lost), (0, 0));
    assert_eq!(cost(&group, Policy::FiveMinutes), Some((750_000, 0, 0)));
}

#[test]
fn only_counted_requests_are_summed_but_all_precede() {
    let mut what_if = WhatIf::default();
    for at in [0.0, 10.0] {
        what_if.add_answer(answer("a", SONNET, at, written(100_000)));
    }
    let comparison = what_if.finish(&Catalog::built_in(), &|_, at| at > 0);
    let [group] = &comparison.groups[..] else {
        panic!("{comparison:?}")
    };
    assert_eq!((group.answers, group.lost), (1, 100_000));
    assert_eq!(group.cost.picodollars / MICRO, 375_000);
    assert_eq!(cost(group, Policy::OneHour), Some((30_000, 0, 100_000)));
}

/// Requests of one conversation: the pause before each in tenths of minutes, the growth in tokens, and the output.
fn conversation() -> impl Strategy<Value = Vec<(u32, u64, u64)>> {
    prop::collection::vec((0..1_000_u32, 0..20_000_u64, 0..1_000_u64), 1..20)
}

/// Answers as Anthropic's cache gives them.
fn answers(conversation: &[(u32, u64, u64)], with_output: bool) -> Vec<PaidAnswer> {
    let (mut at, mut cached) = (0.0, 0);
    let answers = conversation.iter().map(|(pause, growth, output)| {
        let pause = f64::from(*pause) / 10.0;
        at += pause;
        let mut usage = if pause > 5.0 {
            written(cached + growth)
        } else {
            read(cached, *growth)
        };
        // A request without any tokens is left out.
        usage.uncached_input = 1;
        usage.output = if with_output { *output } else { 0 };
        cached += growth;
        answer("a", SONNET, at, usage)
    });
    answers.collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn keep_alive_costs_its_renewals_and_saves_what_it_reads(conversation in conversation()) {
        let group = group(answers(&conversation, true));
        for row in group.rows.iter().filter(|row| row.policy.until().is_some()) {
            // A token costs $3.75 per million to write, and $0.30 to read.
            let saved = row.read_instead * 3_450_000;
            prop_assert_eq!(
                row.cost.picodollars + saved,
                group.cost.picodollars + row.requests_cost.picodollars
            );
            prop_assert!(row.read_instead <= group.lost);
        }
    }

    #[test]
    fn without_pauses_nothing_saves(conversation in conversation()) {
        let short: Vec<_> = conversation
            .iter()
            .map(|(pause, growth, output)| (pause % 45, *growth, *output))
            .collect();
        let group = group(answers(&short, true));
        prop_assert_eq!(group.long_pauses, 0);
        prop_assert!(group.recommended(|_| true).is_none());
        for row in &group.rows {
            match row.policy {
                Policy::OneHour => {
                    prop_assert!(row.cost.picodollars >= group.cost.picodollars);
                }
                Policy::CompactAt(_) => {}
                policy => prop_assert!(false, "{} makes a difference", policy),
            }
        }
    }

    #[test]
    fn no_policy_changes_the_cost_of_output(conversation in conversation()) {
        let with = group(answers(&conversation, true));
        let without = group(answers(&conversation, false));
        let output: u64 = conversation.iter().map(|(_, _, output)| output * 15_000_000).sum();
        prop_assert_eq!(with.cost.picodollars, without.cost.picodollars + output);
        prop_assert_eq!(with.rows.len(), without.rows.len());
        for (with, without) in with.rows.iter().zip(&without.rows) {
            prop_assert_eq!(with.policy, without.policy);
            prop_assert_eq!(with.cost.picodollars, without.cost.picodollars + output);
        }
    }

    #[test]
    fn recommendation_saves(conversation in conversation()) {
        let group = group(answers(&conversation, true));
        if let Some(row) = group.recommended(|_| true) {
            prop_assert!(row.cost.picodollars < group.cost.picodollars);
            let mut others = group.rows.iter().filter(|row| !row.policy.changes_content());
            prop_assert!(others.all(|other| other.cost.picodollars >= row.cost.picodollars));
        }
    }

    #[test]
    fn a_longer_time_reads_no_less(conversation in conversation()) {
        let group = group(answers(&conversation, true));
        let kept: Vec<_> = group
            .rows
            .iter()
            .filter(|row| row.policy.until().is_some())
            .collect();
        for pair in kept.windows(2) {
            prop_assert!(pair[0].read_instead <= pair[1].read_instead);
            prop_assert!(pair[0].requests <= pair[1].requests);
        }
    }
}
