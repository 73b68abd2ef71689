//! Lifetimes of marked prefixes.

use cachalot_core::Problem;
use cachalot_core::config::Settings as _;
use cachalot_core::tree;
use cachalot_model::Message;
use cachalot_model::wire::MESSAGES;
use cachalot_model::wire::MarkerTime::{self, FiveMinutes, OneHour, TwelveHours};
use cachalot_prompt::{
    Note, Pauses, PlanContext, PrefixLifetime, PrefixSettings, Prompt, Rules, plan,
};

use super::{rounds, slow, very_slow};
use crate::{RULES, frozen, said};

fn conversation() -> Prompt {
    let prompt = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
    let prompt = said(&prompt, &*MESSAGES, Message::assistant("b"));
    rounds(said(&prompt, &*MESSAGES, Message::user("c")), &*MESSAGES, 1)
}

fn times(
    prompt: &Prompt,
    rules: &Rules,
    keep: PrefixLifetime,
    human_paced: bool,
) -> Vec<MarkerTime> {
    let plan_context = PlanContext {
        keep,
        human_paced,
        pauses: slow(),
        ..PlanContext::default()
    };
    let planned = plan(prompt, rules, &plan_context);
    planned.plan.marks().iter().map(|mark| mark.time).collect()
}

#[test]
fn one_hour_markers_end_at_the_previous_turn_for_human_pacing() {
    let prompt = conversation();
    let of = |keep, human_paced| times(&prompt, &RULES, keep, human_paced);
    assert_eq!(
        of(PrefixLifetime::Auto, true),
        [OneHour, OneHour, OneHour, FiveMinutes]
    );
    assert_eq!(of(PrefixLifetime::Auto, false), [FiveMinutes; 4]);
    assert_eq!(of(PrefixLifetime::OneHour, false), [OneHour; 4]);
    assert_eq!(of(PrefixLifetime::FiveMinutes, true), [FiveMinutes; 4]);
    // A person who has answered at once so far may do so again.
    let plan_context = PlanContext {
        human_paced: true,
        ..PlanContext::default()
    };
    let planned = plan(&prompt, &RULES, &plan_context).plan;
    assert!(planned.marks().iter().all(|mark| mark.time == FiveMinutes));
    // In the first turn, the frozen part alone.
    let prompt = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
    let first = times(&prompt, &RULES, PrefixLifetime::Auto, true);
    assert_eq!(first, [OneHour, OneHour, FiveMinutes]);
}

/// OpenAI's rules.
const OPENAI: Rules = Rules {
    one_hour: false,
    twelve_hours: true,
    ..RULES
};

#[test]
fn twelve_hour_markers_end_at_the_previous_turn_after_two_long_pauses() {
    let prompt = conversation();
    let planned = |rules, keep, pauses| {
        let plan_context = PlanContext {
            human_paced: true,
            keep,
            pauses,
            ..PlanContext::default()
        };
        let planned = plan(&prompt, rules, &plan_context);
        let marks = planned.plan.marks().iter();
        (
            marks.map(|mark| mark.time).collect::<Vec<_>>(),
            planned.notes,
        )
    };
    let auto = |rules, pauses| planned(rules, PrefixLifetime::Auto, pauses).0;
    assert_eq!(
        auto(&OPENAI, very_slow()),
        [TwelveHours, TwelveHours, TwelveHours, FiveMinutes]
    );
    assert_eq!(auto(&OPENAI, slow()), [FiveMinutes; 4]);
    // Anthropic keeps nothing so long.
    assert_eq!(auto(&RULES, very_slow()), [FiveMinutes; 4]);
    let asked = |rules| planned(rules, PrefixLifetime::TwelveHours, Pauses::default());
    assert_eq!(asked(&OPENAI), (vec![TwelveHours; 4], Vec::new()));
    assert_eq!(
        asked(&RULES),
        (vec![FiveMinutes; 4], vec![Note::NoTwelveHours])
    );
}

#[test]
fn pauses_favor_twelve_hours_if_the_last_two_fit_it() {
    for (minutes, expected) in [
        (&[][..], false),
        (&[31], false),
        (&[31, 720], true),
        (&[30, 31], false),
        (&[31, 721], false),
        (&[6, 31, 31], true),
        (&[31, 31, 6], false),
    ] {
        let favors = pauses_of(minutes).favor_twelve_hours();
        assert_eq!(favors, expected, "{minutes:?}");
    }
}

/// Returns whether an hour is planned for turns with these pauses in minutes.
fn favors_an_hour(minutes: &[i64]) -> bool {
    pauses_of(minutes).favor_one_hour()
}

fn pauses_of(minutes: &[i64]) -> Pauses {
    let question = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
    let (mut pauses, mut now) = (Pauses::default(), 0);
    pauses.count(&question, now);
    for pause in minutes {
        now += pause * 60_000;
        pauses.count(&question, now);
    }
    pauses
}

#[test]
fn pauses_favor_an_hour_if_the_last_two_or_only_one_fit_it() {
    for (minutes, expected) in [
        (&[][..], false),
        (&[5], false),
        (&[6], true),
        (&[60], true),
        (&[61], false),
        (&[1, 6], false),
        (&[1, 6, 6], true),
        (&[6, 6, 1], false),
        (&[6, 6, 1, 6], false),
        (&[6, 600, 6, 6], true),
    ] {
        assert_eq!(favors_an_hour(minutes), expected, "{minutes:?}");
    }
}

#[test]
fn tool_results_do_not_end_a_pause() {
    let question = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
    let mut pauses = Pauses::default();
    pauses.count(&question, 0);
    // A tool has worked for ten minutes.
    pauses.count(&rounds(question.clone(), &*MESSAGES, 1), 600_000);
    assert!(!pauses.favor_one_hour());
}

#[test]
fn one_hour_is_reduced_where_unsupported() {
    let rules = Rules {
        one_hour: false,
        ..RULES
    };
    let prompt = conversation();
    assert_eq!(
        times(&prompt, &rules, PrefixLifetime::Auto, true),
        [FiveMinutes; 4]
    );
    let plan_context = PlanContext {
        keep: PrefixLifetime::OneHour,
        ..PlanContext::default()
    };
    let planned = plan(&prompt, &rules, &plan_context);
    assert_eq!(planned.notes, [Note::NoHour]);
    assert!(plan(&prompt, &RULES, &plan_context).notes.is_empty());
}

fn read(text: &str) -> (PrefixLifetime, Vec<Problem>) {
    let node = tree::parse("agent.yaml", text).unwrap();
    let mut problems = Vec::new();
    let settings = PrefixSettings::read(&node, &mut problems).unwrap_or_default();
    (settings.keep, problems)
}

#[test]
fn prefix_ttl_is_read_from_the_file() {
    for (text, expected) in [
        ("{ttl: 5m}", PrefixLifetime::FiveMinutes),
        ("{ttl: 1h}", PrefixLifetime::OneHour),
        ("{ttl: 12h}", PrefixLifetime::TwelveHours),
        ("{ttl: auto}", PrefixLifetime::Auto),
        ("{ttl: }", PrefixLifetime::Auto),
        ("{}", PrefixLifetime::Auto),
    ] {
        assert_eq!(read(text), (expected, Vec::new()), "{text}");
    }
    for (text, code, reported) in [
        ("{ttl: 1hr}", "bad-value", "`1hr`"),
        ("{ttl: 60}", "wrong-type", "`ttl`"),
        ("{tll: 1h}", "unknown-key", "`tll`"),
        ("1h", "wrong-type", "`prefix`"),
    ] {
        let (keep, problems) = read(text);
        assert_eq!(
            (keep, problems.len()),
            (PrefixLifetime::Auto, 1),
            "{text}: {problems:?}"
        );
        assert_eq!(problems[0].code, code, "{text}");
        assert!(
            problems[0].to_string().contains(reported),
            "{text}: {}",
            problems[0]
        );
    }
}
