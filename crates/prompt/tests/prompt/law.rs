//! The check of the law, and namespaces.

use cachalot_model::wire::{Rendered, Wire};
use cachalot_model::{Format, Message, OutputFormat, Parameters, ReasoningWish, ToolChoice};
use cachalot_prompt::{Break, Cause, Level, Namespace, Prompt, Sent, extends};
use proptest::prelude::*;
use serde_json::json;

use crate::{WIRES, conversation, frozen, said, small::Small};

const WIRE: Small = Small { apart: true };

fn parameters() -> Parameters {
    Parameters {
        model: "m".to_owned(),
        ..Parameters::default()
    }
}

fn sent(prompt: &Prompt, parameters: &Parameters) -> Sent {
    Sent {
        prompt: prompt.clone(),
        namespace: Namespace::of(Format::Messages, parameters),
    }
}

fn broken(previous: &Prompt, next: &Prompt) -> Break {
    extends(&sent(previous, &parameters()), &sent(next, &parameters())).unwrap_err()
}

fn pieces(texts: &[&str]) -> Vec<Rendered> {
    texts.iter().map(|text| WIRE.system(text)).collect()
}

#[test]
fn a_prompt_continues_itself_and_what_it_was_made_from() {
    let prompt = said(&frozen(&WIRE), &WIRE, Message::user("a"));
    let longer = said(&prompt, &WIRE, Message::assistant("b"));
    let parameters = parameters();
    for (previous, next) in [
        (&prompt, &prompt),
        (&prompt, &longer),
        (&Prompt::default(), &prompt),
        (&frozen(&WIRE), &longer),
    ] {
        extends(&sent(previous, &parameters), &sent(next, &parameters)).unwrap();
    }
}

#[test]
fn a_break_is_named_by_level_index_and_byte() {
    let tools = pieces(&["t1", "t2"]);
    let one = Prompt::begin(&tools, &pieces(&["one", "two"]));
    let other = Prompt::begin(&tools, &pieces(&["one", "tvo"]));
    let found = broken(&one, &other);
    assert_eq!((found.level, found.index), (Level::System, 1));
    // {"system":"tvo"}: the byte behind the first letter.
    assert_eq!(found.cause, Cause::Changed { offset: 12 });
    assert_eq!(
        found.to_string(),
        "the prefix breaks at system[1]: its bytes differ from byte 12 on"
    );

    let late = Prompt::begin(&pieces(&["t1", "t2", "t3"]), &pieces(&["one", "two"]));
    let found = broken(&one, &late);
    assert_eq!((found.level, found.index), (Level::Tool, 2));
    assert_eq!(found.cause, Cause::Inserted);

    let found = broken(&late, &one);
    assert_eq!((found.level, found.index), (Level::Tool, 2));
    assert_eq!(found.cause, Cause::Missing);

    let longer = said(&one, &WIRE, Message::user("a"));
    let found = broken(&said(&longer, &WIRE, Message::assistant("b")), &longer);
    assert_eq!((found.level, found.index), (Level::Message, 1));
    assert_eq!(found.cause, Cause::Missing);
}

#[test]
fn a_message_that_was_not_sent_breaks_nothing() {
    let thought = conversation::reasoning(Format::Messages, "hm");
    let thought = Message::of(cachalot_model::Role::Assistant, vec![thought]);
    let plain = said(&frozen(&WIRE), &WIRE, Message::user("a"));
    let with = said(&frozen(&WIRE), &WIRE, thought);
    let with = said(&with, &WIRE, Message::user("a"));
    assert_ne!(plain.tip(), with.tip());
    extends(&sent(&plain, &parameters()), &sent(&with, &parameters())).unwrap();
    extends(&sent(&with, &parameters()), &sent(&plain, &parameters())).unwrap();
}

#[test]
fn the_first_break_is_named() {
    let one = said(&frozen(&WIRE), &WIRE, Message::user("a"));
    let other = said(&frozen(&WIRE), &WIRE, Message::user("b"));
    let changed = Parameters {
        model: "n".to_owned(),
        ..parameters()
    };
    let found = extends(&sent(&one, &parameters()), &sent(&other, &changed)).unwrap_err();
    assert_eq!((found.level, found.index), (Level::Tool, 0));
    assert_eq!(
        found.to_string(),
        "the prefix breaks at tools[0]: the parameter `model` changed"
    );
    // A choice of tools costs the messages only, but all of them.
    let other = said(&one, &WIRE, Message::assistant("b"));
    let changed = Parameters {
        tool_choice: Some(ToolChoice::Any),
        ..parameters()
    };
    let found = extends(&sent(&one, &parameters()), &sent(&other, &changed)).unwrap_err();
    assert_eq!((found.level, found.index), (Level::Message, 0));
}

/// A change of one parameter, and the level that it costs in the format of Anthropic and of `OpenAI`.
type Change = (
    &'static str,
    fn(&mut Parameters),
    Option<Level>,
    Option<Level>,
);

const CHANGES: [Change; 20] = [
    ("model", |p| p.model = "n".into(), TOOLS, TOOLS),
    ("", |p| p.max_output_tokens = Some(5), None, None),
    ("", |p| p.temperature = Some(0.5), None, None),
    ("", |p| p.top_p = Some(0.5), None, None),
    ("", |p| p.stop = vec!["x".into()], None, None),
    (
        "tool_choice",
        |p| p.tool_choice = Some(ToolChoice::None),
        MESSAGES,
        None,
    ),
    (
        "parallel_tool_calls",
        |p| p.parallel_tool_calls = Some(false),
        MESSAGES,
        TOOLS,
    ),
    (
        "reasoning",
        |p| p.reasoning = Some(ReasoningWish::Budget(9)),
        TOOLS,
        TOOLS,
    ),
    (
        "output",
        |p| {
            p.output = Some(OutputFormat {
                name: "n".into(),
                schema: json!({}),
                strict: true,
            });
        },
        TOOLS,
        TOOLS,
    ),
    ("cache_key", |p| p.cache_key = Some("k".into()), None, TOOLS),
    ("extra.odd", |p| set(p, "odd", json!(1)), TOOLS, TOOLS),
    ("extra.model", |p| set(p, "model", json!("n")), TOOLS, TOOLS),
    (
        "extra.speed",
        |p| set(p, "speed", json!("fast")),
        SYSTEM,
        TOOLS,
    ),
    (
        "extra.thinking",
        |p| set(p, "thinking", json!({})),
        TOOLS,
        TOOLS,
    ),
    (
        "extra.tool_choice",
        |p| set(p, "tool_choice", json!("x")),
        MESSAGES,
        None,
    ),
    ("", |p| set(p, "metadata", json!({"a": 1})), None, None),
    ("", |p| set(p, "user", json!("u")), None, None),
    ("", |p| set(p, "max_tokens", json!(5)), None, None),
    ("", |p| set(p, "stream_options", json!({})), None, None),
    ("", |p| set(p, "seed", json!(7)), None, None),
];

const TOOLS: Option<Level> = Some(Level::Tool);
const SYSTEM: Option<Level> = Some(Level::System);
const MESSAGES: Option<Level> = Some(Level::Message);

fn set(parameters: &mut Parameters, name: &str, value: serde_json::Value) {
    parameters.extra.insert(name.to_owned(), value);
}

#[test]
fn every_parameter_costs_what_the_table_says() {
    for (name, change, anthropic, openai) in CHANGES {
        let mut changed = parameters();
        change(&mut changed);
        let formats = [
            (Format::Messages, anthropic),
            (Format::Chat, openai),
            (Format::Responses, openai),
        ];
        for (format, level) in formats {
            let before = Namespace::of(format, &parameters());
            let after = Namespace::of(format, &changed);
            let field = before.difference(&after);
            assert_eq!(field.map(|field| field.level), level, "{name} {format:?}");
            // Coming and going are the same.
            assert_eq!(
                after.difference(&before).map(|field| field.level),
                level,
                "{name} {format:?}"
            );
            if let Some(field) = field {
                assert_eq!(field.name, name);
            }
            for at in [Level::Tool, Level::System, Level::Message] {
                let same = before.fingerprint(at) == after.fingerprint(at);
                assert_eq!(same, level.is_none_or(|level| at < level), "{name} {at}");
            }
        }
    }
}

#[test]
fn the_order_of_keys_does_not_matter_and_the_format_does() {
    let (mut one, mut other) = (parameters(), parameters());
    set(&mut one, "a", json!({"x": 1, "y": 2}));
    set(&mut one, "b", json!(1));
    set(&mut other, "b", json!(1));
    set(&mut other, "a", json!({"y": 2, "x": 1}));
    let of = |parameters| Namespace::of(Format::Chat, parameters);
    assert_eq!(of(&one), of(&other));
    assert_ne!(
        Namespace::of(Format::Chat, &one),
        Namespace::of(Format::Responses, &one)
    );
    let text = serde_json::to_string(&of(&one)).unwrap();
    assert_eq!(serde_json::from_str::<Namespace>(&text).unwrap(), of(&one));
}

proptest! {
    /// The check says what a comparison of the bytes says.
    #[test]
    fn the_check_agrees_with_the_bytes(
        common in conversation::messages(4),
        ours in conversation::messages(3),
        theirs in conversation::messages(3),
    ) {
        for wire in WIRES {
            let build = |more: &[Message]| {
                let all = common.iter().chain(more);
                all.fold(frozen(wire), |prompt, message| said(&prompt, wire, message.clone()))
            };
            let (one, other) = (build(&ours), build(&theirs));
            let bytes = |prompt: &Prompt| {
                // With what separates pieces, so that a piece that is a prefix of another one counts
                // as another.
                let nodes = prompt.nodes();
                let sent = nodes.iter().filter(|node| !node.bytes.is_empty());
                sent.map(|node| (node.level, node.bytes.clone())).collect::<Vec<_>>()
            };
            let holds = bytes(&other).starts_with(&bytes(&one));
            let checked = extends(&sent(&one, &parameters()), &sent(&other, &parameters()));
            prop_assert_eq!(checked.is_ok(), holds);
        }
    }
}
