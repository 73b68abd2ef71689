//! Bodies, for every wire.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_model::wire::{MarkerTime, Pieces, Rendered, Wire};
use cachalot_model::{Message, Parameters, ToolChoice};
use cachalot_prompt::{Mark, Plan, Prompt, contiguous, prefix, segments};
use proptest::prelude::*;
use serde_json::Value;

use crate::{conversation, frozen, marks, said, small_wire::SmallWire, wires};

/// A test case.
#[derive(Debug, Clone)]
struct Case {
    tools: Vec<String>,
    system: Vec<String>,
    messages: Vec<Message>,
    later: Vec<Message>,
    marks: Vec<(u32, bool)>,
}

fn case() -> impl Strategy<Value = Case> {
    (
        proptest::collection::vec("[a-z_]{1,8}", 0..4),
        proptest::collection::vec(conversation::text(), 0..3),
        conversation::messages(8),
        conversation::messages(4),
        proptest::collection::vec((0_u32..24, any::<bool>()), 0..6),
    )
        .prop_map(|(tools, system, messages, later, marks)| Case {
            tools,
            system,
            messages,
            later,
            marks,
        })
}

impl Case {
    fn plan(&self) -> Plan {
        let time = |hour: bool| {
            if hour {
                MarkerTime::OneHour
            } else {
                MarkerTime::FiveMinutes
            }
        };
        Plan::from_marks(self.marks.iter().map(|&(node, hour)| Mark {
            node,
            time: time(hour),
        }))
    }

    fn pieces(&self, wire: &dyn Wire) -> Pieces {
        let tools = self.tools.iter();
        let system = self.system.iter();
        Pieces {
            tools: tools
                .map(|name| wire.tool(&conversation::tool(name)))
                .collect(),
            system: system.map(|text| wire.system(text)).collect(),
            messages: self.messages.iter().flat_map(|m| all(wire, m)).collect(),
        }
    }

    fn prompt(&self, wire: &dyn Wire) -> Prompt {
        let pieces = self.pieces(wire);
        append(
            Prompt::begin(&pieces.tools, &pieces.system),
            wire,
            &self.messages,
        )
    }
}

fn all(wire: &dyn Wire, message: &Message) -> Vec<Rendered> {
    wire.message(message).unwrap()
}

fn append(prompt: Prompt, wire: &dyn Wire, messages: &[Message]) -> Prompt {
    messages.iter().fold(prompt, |prompt, message| {
        prompt.append(&all(wire, message), Arc::new(message.clone()))
    })
}

fn tail(wire: &dyn Wire, stream: bool) -> Bytes {
    let parameters = Parameters {
        model: "a \"model\"".to_owned(),
        temperature: Some(0.5),
        tool_choice: stream.then_some(ToolChoice::Auto),
        ..Parameters::default()
    };
    wire.tail(&parameters, stream)
}

fn joined(segments: &[Bytes]) -> Vec<u8> {
    segments.concat()
}

fn parsed(body: &[u8]) -> Value {
    serde_json::from_slice(body).unwrap_or_else(|error| {
        panic!("no JSON: {error}: {}", String::from_utf8_lossy(body));
    })
}

/// The number of pieces in an array of the body, which may be within an object.
fn count(body: &Value, name: &str) -> usize {
    body.get(name).map_or(0, |member| {
        let array = member.get("tools").unwrap_or(member);
        array.as_array().unwrap().len()
    })
}

proptest! {
    #[test]
    fn contiguous_body_equals_the_joined_segments_and_parses(case in case()) {
        for wire in wires() {
            let (prompt, tail) = (case.prompt(wire), tail(wire, true));
            for plan in [Plan::none(), marks(&prompt), case.plan()] {
                let segments = segments(&prompt, wire, &plan, &tail);
                let body = contiguous(&prompt, wire, &plan, &tail);
                prop_assert_eq!(&joined(&segments), &body);
                parsed(&body);
            }
        }
    }

    #[test]
    fn body_without_markers_equals_that_of_the_wire(case in case()) {
        for wire in wires() {
            let (prompt, pieces, tail) = (case.prompt(wire), case.pieces(wire), tail(wire, false));
            let body = contiguous(&prompt, wire, &Plan::none(), &tail);
            let layout = wire.layout();
            let value = parsed(&body);
            let sent = prompt.nodes().iter().filter(|node| !node.bytes.is_empty()).count();
            let arrays = [Some(layout.tools), layout.system, Some(layout.messages)];
            let in_arrays: usize = arrays
                .iter()
                .flatten()
                .map(|member| {
                    if member.is_text {
                        case.system.len()
                    } else {
                        count(&value, member.name)
                    }
                })
                .sum();
            prop_assert_eq!(in_arrays, sent);
            if let Some(member) = layout.system.filter(|member| member.is_text) {
                let text = value.get(member.name).and_then(Value::as_str);
                prop_assert_eq!(text.unwrap_or_default(), case.system.join("\n\n"));
            }
            if sent > 0 {
                prop_assert_eq!(pieces.body(wire, &tail), body);
            }
        }
    }

    /// A marker is in the body exactly where the plan says, and taking it out of the bytes gives the
    /// body without.
    #[test]
    fn segments_without_markers_equal_the_unmarked_body(case in case()) {
        for wire in wires() {
            let (prompt, tail, plan) = (case.prompt(wire), tail(wire, true), case.plan());
            let nodes = prompt.nodes();
            let carried: Vec<Bytes> = plan
                .marks()
                .iter()
                .filter(|mark| nodes.get(mark.node as usize).is_some_and(|node| node.mark_at.is_some()))
                .filter_map(|mark| wire.marker(mark.time))
                .collect();
            let with = segments(&prompt, wire, &plan, &tail);
            // A marker is a segment of its own: taken out one after the other.
            let mut expected = carried.iter().peekable();
            let without: Vec<Bytes> = with
                .into_iter()
                .filter(|segment| expected.next_if(|marker| *marker == segment).is_none())
                .collect();
            prop_assert!(expected.next().is_none());
            prop_assert_eq!(joined(&without), joined(&segments(&prompt, wire, &Plan::none(), &tail)));
        }
    }

    /// Values with the markers taken out are the values without: a marker adds a field, or a block, and
    /// changes nothing else.
    #[test]
    fn markers_only_add_fields(case in case()) {
        for wire in [wires()[0], wires()[4], wires()[5]] {
            let (prompt, tail) = (case.prompt(wire), tail(wire, true));
            let mut with = parsed(&contiguous(&prompt, wire, &case.plan(), &tail));
            strip(&mut with);
            prop_assert_eq!(with, parsed(&contiguous(&prompt, wire, &Plan::none(), &tail)));
        }
    }

    /// The law, from the bytes.
    #[test]
    fn request_is_a_prefix_of_the_next_request(case in case()) {
        for wire in wires() {
            let before = case.prompt(wire);
            let after = append(before.clone(), wire, &case.later);
            let (first, next) = (joined(&prefix(&before, wire)), joined(&prefix(&after, wire)));
            prop_assert!(next.starts_with(&first));
            for (prompt, prefix) in [(&before, &first), (&after, &next)] {
                for stream in [false, true] {
                    let body = contiguous(prompt, wire, &Plan::none(), &tail(wire, stream));
                    prop_assert!(body.starts_with(prefix));
                }
            }
        }
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.shift_remove("cache_control");
            fields.shift_remove("mark");
            fields.values_mut().for_each(strip);
        }
        Value::Array(items) => {
            items.retain(|item| item.get("cachePoint").is_none());
            items.iter_mut().for_each(strip);
        }
        _ => {}
    }
}

#[test]
fn empty_prompt_has_a_valid_body() {
    for wire in wires() {
        let tail = tail(wire, true);
        let body = contiguous(&Prompt::default(), wire, &Plan::none(), &tail);
        assert_eq!(count(&parsed(&body), wire.layout().messages.name), 0);
        assert_eq!(
            joined(&segments(&Prompt::default(), wire, &Plan::none(), &tail)),
            body
        );
    }
}

#[test]
fn contiguous_body_has_the_expected_bytes() {
    let wire = SmallWire { apart: true };
    let prompt = said(&frozen(&wire), &wire, Message::user("a"));
    let body = contiguous(
        &prompt,
        &wire,
        &marks(&prompt),
        &Bytes::from_static(b",\"model\":\"m\"}"),
    );
    assert_eq!(
        std::str::from_utf8(&body).unwrap(),
        r#"{"tools":[{"tool":"grep"},{"tool":"read_file"}],"system":[{"system":"You help.","mark":5},{"system":"Today is a day.","mark":5}],"said":[{"role":"user","block":{"type":"text","text":"a"},"mark":5}],"model":"m"}"#
    );
    let wire = SmallWire { apart: false };
    let prompt = said(&frozen(&wire), &wire, Message::user("a"));
    let body = contiguous(
        &prompt,
        &wire,
        &marks(&prompt),
        &Bytes::from_static(b",\"model\":\"m\"}"),
    );
    assert_eq!(
        std::str::from_utf8(&body).unwrap(),
        r#"{"tools":[{"tool":"grep"},{"tool":"read_file"}],"said":[{"system":"You help."},{"system":"Today is a day."},{"role":"user","block":{"type":"text","text":"a"}}],"model":"m"}"#
    );
}

/// The pieces of a member that is one text are written without their quotes, as paragraphs.
#[test]
fn system_text_may_be_one_string() {
    let wire = &*cachalot_model::wire::INTERACTIONS;
    let pieces = ["Be \"brief\".", "Today\nis a day."].map(|text| wire.system(text));
    let prompt = said(&Prompt::begin(&[], &pieces), wire, Message::user("a"));
    let body = contiguous(
        &prompt,
        wire,
        &Plan::none(),
        &Bytes::from_static(b",\"model\":\"m\"}"),
    );
    assert_eq!(
        std::str::from_utf8(&body).unwrap(),
        r#"{"system_instruction":"Be \"brief\".\n\nToday\nis a day.","input":[{"type":"user_input","content":[{"type":"text","text":"a"}]}],"model":"m"}"#
    );
}

#[test]
fn no_piece_is_copied_into_a_segment() {
    let wire = SmallWire { apart: true };
    let prompt = said(&frozen(&wire), &wire, Message::user("a"));
    let plan = marks(&prompt);
    let segments = segments(&prompt, &wire, &plan, &Bytes::from_static(b"}"));
    assert!(segments.len() < prompt.len() + 32);
    for node in prompt.nodes() {
        let from = node.bytes.as_ptr();
        let within = |segment: &Bytes| segment.as_ptr_range().contains(&from);
        assert!(segments.iter().any(within));
    }
}
