//! `OpenAI`'s formats with cache markers.

use cachalot_wire::{
    self as wire, Block, Extra, Format, FormatWire, MarkerRules, MarkerTime, Message, Parameters,
    Pieces, Rendered, Role, ToolDefinition, Wire,
};
use serde_json::{Value, json};

use crate::chat::support::{assistant, call, picture, result, user};

fn of(provider: &str, model: &str, format: Format) -> &'static dyn Wire {
    let rules = MarkerRules::find(provider, model, format);
    let wire: &'static FormatWire = Box::leak(Box::new(FormatWire::marked(format, rules)));
    &**wire
}

fn gateway() -> &'static dyn Wire {
    of("openrouter", "anthropic/claude-opus-5", Format::Chat)
}

fn openai(format: Format) -> &'static dyn Wire {
    of("openai", "gpt-5.6", format)
}

fn value(piece: &Rendered) -> Value {
    serde_json::from_slice(&piece.bytes).unwrap()
}

/// The piece with a marker in it.
fn marked(wire: &dyn Wire, piece: &Rendered) -> Value {
    let at = piece.mark_at.unwrap() as usize;
    let marker = wire.marker(MarkerTime::FiveMinutes).unwrap();
    let bytes = [&piece.bytes[..at], &marker[..], &piece.bytes[at..]].concat();
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn gateway_to_anthropic_gets_the_marker_in_the_last_part() {
    let wire = gateway();
    let short = json!({"type": "ephemeral"});
    let text = |text: &str| json!({"type": "text", "text": text, "cache_control": short});
    assert_eq!(
        marked(wire, &wire.system("Be brief.")),
        json!({"role": "system", "content": [text("Be brief.")]})
    );
    let message = user(vec![picture(), Block::text("What \"is\" it?")]);
    let pieces = wire.message(&message).unwrap();
    let said = marked(wire, &pieces[0]);
    assert_eq!(said["content"][1], text("What \"is\" it?"));
    assert_eq!(said["content"][0]["type"], "image_url");
    let pieces = wire.message(&Message::assistant("A whale.")).unwrap();
    assert_eq!(
        marked(wire, &pieces[0]),
        json!({"role": "assistant", "content": [text("A whale.")]})
    );
    let message = user(vec![result("1", vec![Block::text("gone")], true)]);
    let pieces = wire.message(&message).unwrap();
    assert_eq!(
        marked(wire, &pieces[0]),
        json!({"role": "tool", "tool_call_id": "1", "content": [text("Error: gone")]})
    );
    let hour = wire.marker(MarkerTime::OneHour).unwrap();
    assert_eq!(hour, r#","cache_control":{"type":"ephemeral","ttl":"1h"}"#);
}

#[test]
fn twelve_hours_are_in_the_marker() {
    let marker = |time| openai(Format::Responses).marker(time).unwrap();
    assert_eq!(
        marker(MarkerTime::TwelveHours),
        r#","prompt_cache_breakpoint":{"mode":"explicit","ttl":"12h"}"#
    );
    assert_eq!(
        marker(MarkerTime::FiveMinutes),
        r#","prompt_cache_breakpoint":{"mode":"explicit"}"#
    );
}

#[test]
fn proxy_that_copies_parts_gets_results_as_text() {
    let wire = of("litellm", "claude-opus-5", Format::Chat);
    let message = user(vec![
        result("1", vec![Block::text("found")], false),
        Block::text("and?"),
    ]);
    let pieces = wire.message(&message).unwrap();
    assert_eq!(value(&pieces[0])["content"], "found");
    assert_eq!(pieces[0].mark_at, None);
    assert!(pieces[1].mark_at.is_some());
}

#[test]
fn pieces_that_cannot_carry_a_marker_get_none() {
    let wire = gateway();
    let tool = ToolDefinition {
        name: "grep".to_owned(),
        description: String::new(),
        parameters: json!({"type": "object"}),
    };
    assert_eq!(wire.tool(&tool).mark_at, None);
    assert_eq!(wire.system(" \n").mark_at, None);
    let nowhere = [
        user(vec![Block::text("look"), picture()]),
        user(vec![Block::text("")]),
        user(vec![result("1", vec![Block::text("")], false)]),
        // Calls stand behind the content.
        assistant(vec![Block::text("I look."), call("1", "grep", "{}")]),
        assistant(vec![call("1", "grep", "{}")]),
    ];
    for message in nowhere {
        let pieces = wire.message(&message).unwrap();
        let pieces: Vec<_> = pieces
            .iter()
            .map(|piece| (piece.mark_at, value(piece)))
            .collect();
        assert!(
            pieces.iter().all(|(mark_at, _)| mark_at.is_none()),
            "{pieces:?}"
        );
        let empty = |content: &Value| content.as_array().is_some_and(Vec::is_empty);
        assert!(
            !pieces.iter().any(|(_, piece)| empty(&piece["content"])),
            "{pieces:?}"
        );
    }
}

#[test]
fn existing_markers_are_removed() {
    for (wire, of) in [
        (gateway(), Format::Chat),
        (openai(Format::Chat), Format::Chat),
        (openai(Format::Responses), Format::Responses),
    ] {
        let extra = Extra::from_iter([
            ("cache_control".to_owned(), json!({"type": "ephemeral"})),
            (
                "prompt_cache_breakpoint".to_owned(),
                json!({"mode": "explicit"}),
            ),
            ("note".to_owned(), json!(1)),
        ]);
        let text = "said".to_owned();
        let message = user(vec![Block::Text { text, extra }]);
        let pieces = wire.message(&message).unwrap();
        let mut part = value(&pieces[0])["content"][0].clone();
        part.as_object_mut().unwrap().shift_remove("type");
        assert_eq!(part, json!({"text": "said", "note": 1}), "{of:?}");
    }
}

#[test]
fn openai_requests_contain_cache_hints() {
    let breakpoint = json!({"mode": "explicit"});
    for (format, kind) in [(Format::Chat, "text"), (Format::Responses, "input_text")] {
        let wire = openai(format);
        let part =
            |text: &str| json!({"type": kind, "text": text, "prompt_cache_breakpoint": breakpoint});
        assert_eq!(
            marked(wire, &wire.system("Be brief."))["content"],
            json!([part("Be brief.")])
        );
        let pieces = wire.message(&Message::user("a")).unwrap();
        assert_eq!(marked(wire, &pieces[0])["content"], json!([part("a")]));
        let message = user(vec![result("1", vec![Block::text("found")], false)]);
        let pieces = wire.message(&message).unwrap();
        let result = marked(wire, &pieces[0]);
        let content = result.get("content").or_else(|| result.get("output"));
        assert_eq!(content, Some(&json!([part("found")])));
        // What the model says takes none, and is written as everywhere.
        let answer = Message::new(
            Role::Assistant,
            vec![Block::text("b"), call("1", "grep", "{}")],
        );
        let plain = wire::for_format(format).message(&answer).unwrap();
        assert_eq!(wire.message(&answer).unwrap(), plain);
        assert!(plain.iter().all(|piece| piece.mark_at.is_none()));
    }
}

#[test]
fn cache_options_follow_the_messages_and_user_options_win() {
    let options = |extra: Value| {
        let parameters = Parameters {
            model: "gpt-5.6".to_owned(),
            extra: extra.as_object().cloned().unwrap(),
            ..Parameters::default()
        };
        let wire = openai(Format::Responses);
        let pieces = Pieces {
            system: vec![wire.system("a")],
            ..Pieces::default()
        };
        let body = pieces.body(wire, &wire.tail(&parameters, true));
        let body: Value = serde_json::from_slice(&body).unwrap();
        body.get("prompt_cache_options").cloned()
    };
    let ours = json!({"mode": "explicit", "ttl": "30m"});
    assert_eq!(options(json!({})), Some(ours));
    assert_eq!(
        options(json!({"prompt_cache_options": {"ttl": "12h"}})),
        Some(json!({"mode": "explicit", "ttl": "12h"}))
    );
    assert_eq!(options(json!({"prompt_cache_options": null})), None);
    let wire = gateway();
    let tail = wire.tail(&Parameters::default(), true);
    assert_eq!(
        tail,
        wire::for_format(Format::Chat).tail(&Parameters::default(), true)
    );
}

#[test]
fn format_without_markers_is_unchanged() {
    for (provider, model, format) in [
        ("openai", "gpt-5.5", Format::Chat),
        ("azure", "gpt-5.6", Format::Responses),
        ("openrouter", "openai/gpt-5.6", Format::Chat),
        ("anthropic", "claude-opus-5", Format::Chat),
    ] {
        let wire = of(provider, model, format);
        assert_eq!(wire.marker(MarkerTime::FiveMinutes), None, "{provider}");
        assert_eq!(
            wire.system("a"),
            wire::for_format(format).system("a"),
            "{provider}"
        );
    }
}
