//! How long marked prefixes are kept.

use cachalot_core::Problem;
use cachalot_core::tree;
use cachalot_model::Message;
use cachalot_model::wire::MarkerTime::{self, FiveMinutes, OneHour};
use cachalot_model::wire::anthropic::Messages;
use cachalot_prompt::{Keep, Note, Occasion, PrefixSettings, Prompt, Rules, plan};

use super::rounds;
use crate::{RULES, frozen, said};

fn conversation() -> Prompt {
    let prompt = said(&frozen(&Messages), &Messages, Message::user("a"));
    let prompt = said(&prompt, &Messages, Message::assistant("b"));
    rounds(said(&prompt, &Messages, Message::user("c")), &Messages, 1)
}

fn times(prompt: &Prompt, rules: &Rules, keep: Keep, human_paced: bool) -> Vec<MarkerTime> {
    let occasion = Occasion {
        keep,
        human_paced,
        ..Occasion::default()
    };
    let planned = plan(prompt, rules, &occasion);
    planned.plan.marks().iter().map(|mark| mark.time).collect()
}

#[test]
fn an_hour_up_to_the_turn_before_where_a_person_is_waited_for() {
    let prompt = conversation();
    let of = |keep, human_paced| times(&prompt, &RULES, keep, human_paced);
    assert_eq!(
        of(Keep::Auto, true),
        [OneHour, OneHour, OneHour, FiveMinutes]
    );
    assert_eq!(of(Keep::Auto, false), [FiveMinutes; 4]);
    assert_eq!(of(Keep::OneHour, false), [OneHour; 4]);
    assert_eq!(of(Keep::FiveMinutes, true), [FiveMinutes; 4]);
    // In the first turn, the frozen part alone.
    let prompt = said(&frozen(&Messages), &Messages, Message::user("a"));
    let first = times(&prompt, &RULES, Keep::Auto, true);
    assert_eq!(first, [OneHour, OneHour, FiveMinutes]);
}

#[test]
fn an_hour_is_clamped_where_there_is_none() {
    let rules = Rules {
        one_hour: false,
        ..RULES
    };
    let prompt = conversation();
    assert_eq!(times(&prompt, &rules, Keep::Auto, true), [FiveMinutes; 4]);
    let occasion = Occasion {
        keep: Keep::OneHour,
        ..Occasion::default()
    };
    let planned = plan(&prompt, &rules, &occasion);
    assert_eq!(planned.notes, [Note::NoHour]);
    assert!(plan(&prompt, &RULES, &occasion).notes.is_empty());
}

fn read(text: &str) -> (Keep, Vec<Problem>) {
    let node = tree::parse("agent.yaml", text).unwrap();
    let mut problems = Vec::new();
    let keep = PrefixSettings::read(&node, &mut problems).keep;
    (keep, problems)
}

#[test]
fn it_is_read_from_a_file() {
    for (text, expected) in [
        ("{ttl: 5m}", Keep::FiveMinutes),
        ("{ttl: 1h}", Keep::OneHour),
        ("{ttl: auto}", Keep::Auto),
        ("{ttl: }", Keep::Auto),
        ("{}", Keep::Auto),
    ] {
        assert_eq!(read(text), (expected, Vec::new()), "{text}");
    }
    for (text, code, told) in [
        ("{ttl: 1hr}", "bad-value", "`1hr`"),
        ("{ttl: 60}", "wrong-type", "`ttl`"),
        ("{tll: 1h}", "unknown-key", "`tll`"),
        ("1h", "wrong-type", "`prefix`"),
    ] {
        let (keep, problems) = read(text);
        assert_eq!(
            (keep, problems.len()),
            (Keep::Auto, 1),
            "{text}: {problems:?}"
        );
        assert_eq!(problems[0].code, code, "{text}");
        assert!(
            problems[0].to_string().contains(told),
            "{text}: {}",
            problems[0]
        );
    }
}
