//! Markers while one turn goes on for long.

use cachalot_model::Message;
use cachalot_model::wire::{MESSAGES, Rendered};
use cachalot_prompt::{Plan, Prompt, plan};

use super::{behind, first, nodes, rounds};
use crate::{RULES, conversation, said};

const TOOLS: u32 = 28;

/// So many tools, and this system text.
fn begun(tools: u32, system: &[&str]) -> Prompt {
    let tool = |number: u32| MESSAGES.tool(&conversation::tool(&format!("tool_{number:02}")));
    let tools: Vec<Rendered> = (0..tools).map(tool).collect();
    let system: Vec<Rendered> = system.iter().map(|text| MESSAGES.system(text)).collect();
    let prompt = Prompt::begin(&tools, &system);
    said(&prompt, &*MESSAGES, Message::user("Go."))
}

/// Each request of a loop marks what it wrote itself, and has what the one before wrote within reach.
#[test]
fn long_tool_loop_keeps_the_tool_marker_and_reads_each_request() {
    let mut prompt = begun(TOOLS, &["You help."]);
    let mut planned = plan(&prompt, &RULES, &first());
    for round in 0..TOOLS {
        let before = planned.plan.end().unwrap();
        prompt = rounds(prompt, &*MESSAGES, 1);
        planned = plan(&prompt, &RULES, &behind(&planned));
        let marked = nodes(&planned);
        assert!(marked.len() <= 4, "round {round}: {marked:?}");
        assert_eq!(marked[..2], [TOOLS - 1, TOOLS], "round {round}");
        let newest = u32::try_from(prompt.nodes().len()).unwrap() - 1;
        assert_eq!(marked.last(), Some(&newest), "round {round}");
        let reach = before..before + RULES.lookback;
        assert!(
            marked.iter().any(|mark| reach.contains(mark)),
            "round {round}: {before} is out of reach of {marked:?}"
        );
        assert!(planned.notes.is_empty(), "round {round}");
    }
}

#[test]
fn markers_fall_back_to_system_text_and_messages() {
    let of = |system: &[&str]| nodes(&plan(&begun(0, system), &RULES, &first()));
    assert_eq!(of(&["You help.", "Be brief."]), [0, 1, 2]);
    assert_eq!(of(&["You help."]), [0, 1]);
    assert_eq!(of(&[]), [0]);
}

/// Markers are laid over a request and belong to it alone.
#[test]
fn markers_of_a_request_are_not_part_of_the_next() {
    let tail = MESSAGES.tail(&cachalot_model::Parameters::default(), true);
    let body = |prompt: &Prompt, plan: &Plan| {
        let body = cachalot_prompt::contiguous(prompt, &*MESSAGES, plan, &tail);
        String::from_utf8(body.to_vec()).unwrap()
    };
    let mut prompt = begun(2, &["You help."]);
    let mut planned = plan(&prompt, &RULES, &first());
    for _ in 0..10 {
        let marked = body(&prompt, &planned.plan);
        let markers = marked.matches("cache_control").count();
        assert_eq!(markers, planned.plan.marks().len());
        prompt = rounds(prompt, &*MESSAGES, 1);
        planned = plan(&prompt, &RULES, &behind(&planned));
    }
    assert!(!body(&prompt, &Plan::none()).contains("cache_control"));
}
