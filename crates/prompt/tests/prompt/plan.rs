//! Positions of markers.

mod accounting;
mod keep;
mod long_turns;
mod tables;

use cachalot_model::wire::{FormatWire, MESSAGES, MarkerTime, Rendered, Wire};
use cachalot_model::{Block, Format, MarkerRules, Message, ModelLimits, Role};
use cachalot_prompt::{
    Mark, Note, Part, Pauses, Plan, PlanContext, PlannedMarkers, PrefixLifetime, Prompt, Rules,
    contiguous, plan,
};
use proptest::prelude::*;
use serde_json::Value;

use crate::{RULES, conversation, frozen, said, small_wire::SmallWire, wires};

/// A first request.
fn first() -> PlanContext {
    PlanContext::default()
}

/// The request behind one that was planned so.
fn behind(planned: &PlannedMarkers) -> PlanContext {
    PlanContext {
        previous_end: planned.plan.end(),
        ..PlanContext::default()
    }
}

fn nodes(planned: &PlannedMarkers) -> Vec<u32> {
    planned.plan.marks().iter().map(|mark| mark.node).collect()
}

fn marked(prompt: &Prompt) -> Vec<u32> {
    nodes(&plan(prompt, &RULES, &first()))
}

/// A call of a tool and its result, so often.
fn rounds(mut prompt: Prompt, wire: &dyn Wire, times: usize) -> Prompt {
    for _ in 0..times {
        let call = vec![conversation::call("a")];
        prompt = said(&prompt, wire, Message::new(Role::Assistant, call));
        let result = vec![conversation::result("a", "1")];
        prompt = said(&prompt, wire, Message::new(Role::User, result));
    }
    prompt
}

#[test]
fn every_part_of_a_prompt_ends_with_a_marker() {
    // Two tools, two texts: the first of them does not change from session to session.
    let prompt = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
    assert_eq!(marked(&frozen(&*MESSAGES)), [2, 3]);
    assert_eq!(marked(&prompt), [2, 3, 4]);
    let prompt = said(&prompt, &*MESSAGES, Message::assistant("b"));
    let prompt = said(&prompt, &*MESSAGES, Message::user("c"));
    assert_eq!(marked(&prompt), [2, 3, 5, 6]);
    // What a turn says and hears does not end it.
    let prompt = rounds(prompt, &*MESSAGES, 2);
    assert_eq!(marked(&prompt), [2, 3, 5, 10]);
    assert!(marked(&Prompt::default()).is_empty());
}

#[test]
fn tool_marker_ends_the_first_or_frozen_part() {
    let tools = ["a", "b"].map(|name| MESSAGES.tool(&conversation::tool(name)));
    let one_text = Prompt::begin(&tools, &[MESSAGES.system("text")]);
    assert_eq!(marked(&one_text), [1, 2]);
    let prompt = said(&Prompt::begin(&tools, &[]), &*MESSAGES, Message::user("a"));
    assert_eq!(marked(&prompt), [1, 2]);
}

#[test]
fn marker_moves_to_the_previous_piece_that_can_carry_it() {
    let tools = [MESSAGES.tool(&conversation::tool("a"))];
    let system = [MESSAGES.system("text"), MESSAGES.system("")];
    let thought = conversation::reasoning(Format::Messages, "hm");
    let prompt = Prompt::begin(&tools, &system);
    assert_eq!(marked(&prompt), [0, 1]);
    let prompt = said(&prompt, &*MESSAGES, Message::user("a"));
    let prompt = said(
        &prompt,
        &*MESSAGES,
        Message::new(Role::Assistant, vec![thought.clone()]),
    );
    assert_eq!(marked(&prompt), [0, 1, 3]);
    // Never from the messages into the frozen part.
    let prompt = said(
        &Prompt::begin(&tools, &[]),
        &*MESSAGES,
        Message::new(Role::Assistant, vec![thought]),
    );
    assert_eq!(marked(&prompt), [0]);
}

/// A conversation whose first request was planned, and that has so many more rounds now.
fn longer(times: usize) -> (Prompt, Prompt, PlannedMarkers) {
    let prompt = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
    let prompt = said(&prompt, &*MESSAGES, Message::assistant("b"));
    let prompt = said(&prompt, &*MESSAGES, Message::user("c"));
    let planned = plan(&prompt, &RULES, &first());
    (prompt.clone(), rounds(prompt, &*MESSAGES, times), planned)
}

#[test]
fn previous_write_is_marked_when_out_of_look_back() {
    // Call and result are two positions; with the newest, 19 may lie behind what was written.
    for (times, expected) in [(9, vec![2, 3, 5, 24]), (10, vec![3, 5, 6, 26])] {
        let (_, prompt, before) = longer(times);
        let planned = plan(&prompt, &RULES, &behind(&before));
        assert_eq!(nodes(&planned), expected, "{times} rounds");
        let gave_way = planned.notes == [Note::MarkerDropped(Part::Stable)];
        assert_eq!(gave_way, times == 10);
    }
}

#[test]
fn exact_matching_marks_the_previous_end() {
    let rules = Rules {
        lookback: 1,
        ..RULES
    };
    let (before, prompt, _) = longer(1);
    let planned = plan(&before, &rules, &first());
    let planned = plan(&prompt, &rules, &behind(&planned));
    assert_eq!(nodes(&planned), [3, 5, 6, 8]);
}

#[test]
fn consecutive_calls_and_results_count_as_one_position() {
    let (prompt, _, before) = longer(0);
    let many = |block: fn(&str) -> Block| (0..30).map(|id| block(&id.to_string())).collect();
    let prompt = said(
        &prompt,
        &*MESSAGES,
        Message::new(Role::Assistant, many(conversation::call)),
    );
    let results = many(|id| conversation::result(id, "1"));
    let prompt = said(&prompt, &*MESSAGES, Message::new(Role::User, results));
    let planned = plan(&prompt, &RULES, &behind(&before));
    assert_eq!(nodes(&planned), [2, 3, 5, 8]);
    let each_counts = Rules {
        runs_count_once: false,
        ..RULES
    };
    let planned = plan(&prompt, &each_counts, &behind(&before));
    assert_eq!(nodes(&planned), [3, 5, 6, 8]);
}

#[test]
fn look_back_starts_at_the_previous_turn_end() {
    let (prompt, _, before) = longer(0);
    let answer = Message::new(Role::Assistant, vec![Block::text("b"); 18]);
    let prompt = said(&prompt, &*MESSAGES, answer);
    let prompt = said(&prompt, &*MESSAGES, Message::user("d"));
    // 19 positions behind from the newest, but fewer from the answer.
    assert_eq!(
        nodes(&plan(&prompt, &RULES, &behind(&before))),
        [2, 3, 7, 8]
    );
    let answer = Message::new(Role::Assistant, vec![Block::text("b"); 20]);
    let prompt = said(&longer(0).0, &*MESSAGES, answer);
    let prompt = said(&prompt, &*MESSAGES, Message::user("d"));
    assert_eq!(
        nodes(&plan(&prompt, &RULES, &behind(&before))),
        [3, 6, 7, 8]
    );
}

#[test]
fn too_short_parts_get_no_marker_and_a_note() {
    let piece = |bytes: usize| {
        let text = "x".repeat(bytes - MESSAGES.system("").bytes.len());
        MESSAGES.system(&text)
    };
    let rules = Rules {
        minimum: 1_000,
        ..RULES
    };
    // A token has two bytes at least, and four in the estimate.
    for (bytes, kept) in [(1_998, false), (2_000, true), (4_000, true)] {
        let prompt = Prompt::begin(&[], &[piece(bytes)]);
        let planned = plan(&prompt, &rules, &first());
        assert_eq!(nodes(&planned), if kept { vec![0] } else { vec![] });
        let short = Note::BelowMinimum {
            part: Part::Frozen,
            tokens: 500,
            minimum: 1_000,
        };
        assert_eq!(planned.notes, if kept { vec![] } else { vec![short] });
    }
    // One note for the longest part that is too short.
    let prompt = Prompt::begin(&[], &[piece(100), piece(300)]);
    let long = said(&prompt, &*MESSAGES, Message::user("y".repeat(2_000)));
    for (prompt, part, marks) in [
        (
            &said(&prompt, &*MESSAGES, Message::user("a")),
            Part::Whole,
            0,
        ),
        (&long, Part::Frozen, 1),
    ] {
        let planned = plan(prompt, &rules, &first());
        assert_eq!(planned.plan.marks().len(), marks);
        let [Note::BelowMinimum { part: found, .. }] = planned.notes[..] else {
            panic!("{:?}", planned.notes);
        };
        assert_eq!(found, part);
        let reported = planned.notes[0].to_string();
        assert!(
            reported.contains("1000 or more") && reported.contains("estimated"),
            "{reported}"
        );
    }
}

#[test]
fn minimum_of_the_catalog_overrides_the_default() {
    let marker_rules = MarkerRules::find("anthropic", "claude-opus-4-5", Format::Messages);
    let limits = ModelLimits {
        minimum_cacheable: Some(4_096),
        ..ModelLimits::default()
    };
    let model = "claude-opus-4-5";
    assert_eq!(Rules::new(marker_rules, &limits, model).minimum, 4_096);
    let unknown = Rules::new(marker_rules, &ModelLimits::default(), model);
    assert_eq!(
        (unknown.minimum, unknown.lookback, unknown.max_markers),
        (512, 20, 4)
    );
}

#[test]
fn last_request_marks_only_written_prefixes() {
    let (sent, _, before) = longer(0);
    let last = PlanContext {
        is_last: true,
        ..behind(&before)
    };
    let prompt = said(&sent, &*MESSAGES, Message::assistant("d"));
    let prompt = said(&prompt, &*MESSAGES, Message::user("summarize"));
    assert_eq!(nodes(&plan(&prompt, &RULES, &last)), [2, 3, 6]);
    // The newest message of the one before is another one here: what it wrote is not there.
    let other = sent.nodes()[..6].to_vec();
    let (pieces, source): (Vec<Rendered>, _) = (
        MESSAGES
            .message(&Message::user("c, and summarize"))
            .unwrap(),
        std::sync::Arc::new(Message::user("c, and summarize")),
    );
    let mut prompt = Prompt::begin(&rendered(&other[..2]), &rendered(&other[2..4]));
    for node in &other[4..] {
        prompt = prompt.append(&rendered(&[node]), node.source.clone().unwrap());
    }
    let prompt = prompt.append(&pieces, source);
    assert_eq!(nodes(&plan(&prompt, &RULES, &last)), [2, 3, 4]);
    // Where nothing was sent, nothing is read.
    let only = PlanContext {
        is_last: true,
        ..first()
    };
    assert_eq!(plan(&prompt, &RULES, &only).plan, Plan::none());
}

fn rendered(nodes: &[&cachalot_prompt::Node]) -> Vec<Rendered> {
    let piece = |node: &&cachalot_prompt::Node| Rendered {
        bytes: node.bytes.clone(),
        mark_at: node.mark_at,
    };
    nodes.iter().map(piece).collect()
}

#[test]
fn end_of_another_conversation_is_ignored_by_the_plan() {
    let (_, prompt, _) = longer(2);
    for end in [prompt.len() as u32, u32::MAX] {
        let plan_context = PlanContext {
            previous_end: Some(end),
            ..first()
        };
        assert_eq!(
            plan(&prompt, &RULES, &plan_context),
            plan(&prompt, &RULES, &first())
        );
    }
}

#[test]
fn plan_for_providers_without_markers_is_empty() {
    let none = Rules::new(&MarkerRules::default(), &ModelLimits::default(), "");
    let prompt = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
    assert_eq!(plan(&prompt, &none, &first()), PlannedMarkers::default());
    let wire = SmallWire { apart: false };
    let tail = wire.tail(&cachalot_model::Parameters::default(), true);
    let prompt = said(&frozen(&wire), &wire, Message::user("a"));
    let planned = plan(&prompt, &RULES, &first());
    assert_eq!(
        contiguous(&prompt, &wire, &planned.plan, &tail),
        contiguous(&prompt, &wire, &Plan::none(), &tail)
    );
}

#[test]
fn plan_has_few_ordered_marks() {
    let mark = |node| Mark {
        node,
        time: MarkerTime::FiveMinutes,
    };
    let plan = Plan::from_marks([7, 1, 9, 1, 3, 5].map(mark));
    let nodes: Vec<u32> = plan.marks().iter().map(|mark| mark.node).collect();
    assert_eq!(nodes, [3, 5, 7, 9]);
    assert_eq!((plan.end(), Plan::none().end()), (Some(9), None));
}

/// The wires that take markers: Anthropic's own, and those of gateways and of `OpenAI`.
fn marked_wires() -> Vec<&'static dyn Wire> {
    let of = |provider, model, format| -> &'static dyn Wire {
        let rules = MarkerRules::find(provider, model, format);
        &**Box::leak(Box::new(FormatWire::marked(format, rules)))
    };
    vec![
        &*MESSAGES,
        of("openrouter", "anthropic/claude-opus-5", Format::Chat),
        of("litellm", "claude-opus-5", Format::Chat),
        of("openai", "gpt-5.6", Format::Chat),
        of("openai", "gpt-5.6", Format::Responses),
    ]
}

fn without_markers(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.shift_remove("cache_control");
            fields.shift_remove("prompt_cache_breakpoint");
            fields.values_mut().for_each(without_markers);
        }
        Value::Array(items) => items.iter_mut().for_each(without_markers),
        _ => {}
    }
}

/// The pauses of a person who has answered after ten minutes.
fn slow() -> Pauses {
    let mut pauses = Pauses::resumed(0);
    let asked = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
    pauses.count(&asked, 600_000);
    pauses
}

/// The pauses of a person who has answered after two hours twice.
fn very_slow() -> Pauses {
    const TWO_HOURS: i64 = 7_200_000;
    let mut pauses = Pauses::resumed(0);
    let asked = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
    pauses.count(&asked, TWO_HOURS);
    pauses.count(&asked, 2 * TWO_HOURS);
    pauses
}

fn plan_context() -> impl Strategy<Value = PlanContext> {
    let keep = prop_oneof![
        Just(PrefixLifetime::Auto),
        Just(PrefixLifetime::FiveMinutes),
        Just(PrefixLifetime::OneHour),
        Just(PrefixLifetime::TwelveHours)
    ];
    let end = proptest::option::of(0_u32..30);
    let pauses = prop_oneof![Just(Pauses::default()), Just(slow()), Just(very_slow())];
    (end, any::<bool>(), pauses, any::<bool>(), keep).prop_map(
        |(previous_end, human_paced, pauses, is_last, keep)| PlanContext {
            previous_end,
            human_paced,
            pauses,
            is_last,
            keep,
        },
    )
}

proptest! {
    #[test]
    fn plan_follows_the_marker_rules(
        messages in conversation::messages(12),
        plan_context in plan_context(),
        (max_markers, lookback) in (0_usize..5, 1_u32..8),
        (one_hour, twelve_hours) in (any::<bool>(), any::<bool>()),
    ) {
        let rules = Rules { max_markers, lookback, one_hour, twelve_hours, ..RULES };
        for wire in marked_wires().into_iter().chain(wires()) {
            let prompt = messages.iter().fold(frozen(wire), |prompt, message| said(&prompt, wire, message.clone()));
            let planned = plan(&prompt, &rules, &plan_context);
            prop_assert_eq!(&planned, &plan(&prompt, &rules, &plan_context));
            let (marks, nodes) = (planned.plan.marks(), prompt.nodes());
            prop_assert!(marks.len() <= max_markers);
            prop_assert!(marks.windows(2).all(|pair| pair[0].node < pair[1].node));
            for (long, is_possible) in [(MarkerTime::OneHour, one_hour), (MarkerTime::TwelveHours, twelve_hours)] {
                let is_long = |mark: &Mark| mark.time == long;
                prop_assert!(marks.windows(2).all(|pair| is_long(&pair[0]) || !is_long(&pair[1])));
                prop_assert!(is_possible || !marks.iter().any(is_long));
            }
            for mark in marks {
                prop_assert!(nodes[mark.node as usize].mark_at.is_some());
            }
        }
    }

    /// Bytes and values: markers add fields, and change nothing else.
    #[test]
    fn markers_change_no_other_bytes(messages in conversation::messages(12), plan_context in plan_context()) {
        for wire in marked_wires() {
            let prompt = messages.iter().fold(frozen(wire), |prompt, message| said(&prompt, wire, message.clone()));
            let tail = wire.tail(&cachalot_model::Parameters::default(), true);
            let planned = plan(&prompt, &RULES, &plan_context);
            let plain = contiguous(&prompt, wire, &Plan::none(), &tail);
            let marked = contiguous(&prompt, wire, &planned.plan, &tail);
            let added: usize = planned.plan.marks().iter().map(|mark| wire.marker(mark.time).unwrap().len()).sum();
            prop_assert_eq!(marked.len(), plain.len() + added);
            let mut marked: Value = serde_json::from_slice(&marked).unwrap();
            let mut plain: Value = serde_json::from_slice(&plain).unwrap();
            without_markers(&mut marked);
            // What looks like a marker in the plain body is somebody's text, or a part that came so.
            without_markers(&mut plain);
            prop_assert_eq!(marked, plain);
        }
    }
}
