//! Where the simple rule puts markers.

use cachalot_model::wire::{MarkerTime, Wire, anthropic::Messages};
use cachalot_model::{Format, Message, Role};
use cachalot_prompt::{MOST_MARKS, Mark, Plan, Prompt, simple_plan};
use proptest::prelude::*;

use crate::{WIRES, conversation, frozen, said, small::Small};

fn marked(prompt: &Prompt, wire: &dyn Wire) -> Vec<u32> {
    let plan = simple_plan(prompt, wire);
    plan.marks().iter().map(|mark| mark.node).collect()
}

#[test]
fn the_end_of_the_frozen_part_and_the_newest_message() {
    let prompt = said(&frozen(&Messages), &Messages, Message::user("a"));
    let prompt = said(&prompt, &Messages, Message::assistant("b"));
    assert_eq!(marked(&prompt, &Messages), [3, 5]);
    assert_eq!(marked(&frozen(&Messages), &Messages), [3]);
    assert!(marked(&Prompt::default(), &Messages).is_empty());
}

#[test]
fn the_last_tool_if_there_is_no_system() {
    let tools = ["a", "b"].map(|name| Messages.tool(&conversation::tool(name)));
    let prompt = said(
        &Prompt::begin(&tools, &[]),
        &Messages,
        Message::user("question"),
    );
    assert_eq!(marked(&prompt, &Messages), [1, 2]);
}

#[test]
fn a_piece_that_cannot_carry_a_marker_passes_it_on() {
    let tools = [Messages.tool(&conversation::tool("a"))];
    let system = [Messages.system("text"), Messages.system("")];
    let thought = conversation::reasoning(Format::Messages, "hm");
    let prompt = Prompt::begin(&tools, &system);
    assert_eq!(marked(&prompt, &Messages), [1]);
    let prompt = said(&prompt, &Messages, Message::user("a"));
    let prompt = said(
        &prompt,
        &Messages,
        Message::of(Role::Assistant, vec![thought]),
    );
    assert_eq!(marked(&prompt, &Messages), [1, 3]);
    // Never from the messages into the frozen part, nor the other way round.
    let thought = conversation::reasoning(Format::Messages, "hm");
    let prompt = said(
        &Prompt::begin(&tools, &[]),
        &Messages,
        Message::of(Role::Assistant, vec![thought]),
    );
    assert_eq!(marked(&prompt, &Messages), [0]);
}

#[test]
fn a_format_without_markers_gets_none() {
    let wire = Small { apart: false };
    let prompt = said(&frozen(&wire), &wire, Message::user("a"));
    assert_eq!(simple_plan(&prompt, &wire), Plan::none());
}

#[test]
fn a_plan_has_few_marks_in_order() {
    let mark = |node| Mark {
        node,
        time: MarkerTime::FiveMinutes,
    };
    let plan = Plan::of([7, 1, 9, 1, 3, 5].map(mark));
    let nodes: Vec<u32> = plan.marks().iter().map(|mark| mark.node).collect();
    assert_eq!(nodes, [3, 5, 7, 9]);
}

proptest! {
    #[test]
    fn the_simple_rule_keeps_the_rules(messages in conversation::messages(10)) {
        for wire in WIRES {
            let prompt = messages.iter().fold(frozen(wire), |prompt, message| said(&prompt, wire, message.clone()));
            let plan = simple_plan(&prompt, wire);
            prop_assert!(plan.marks().len() <= MOST_MARKS);
            let nodes = prompt.nodes();
            for mark in plan.marks() {
                prop_assert!(nodes[mark.node as usize].mark_at.is_some());
            }
            // Appending moves the newest marker only.
            let longer = said(&prompt, wire, Message::user("more"));
            let next = simple_plan(&longer, wire);
            prop_assert_eq!(next.marks().first(), plan.marks().first());
        }
    }
}
