//! Requests of any client.

use std::path::Path;

use bytes::Bytes;
use cachalot_model::wire::{self, MarkerTime};
use cachalot_model::{Format, Message, Parameters};
use cachalot_prefix::request::{Error, MarkerPlace, Request, read};
use cachalot_prompt::{Level, Mark, Plan, contiguous};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{conversation, frozen, said};

fn pieces(request: &Request) -> Vec<(Level, String)> {
    let nodes = request.prompt.nodes();
    let piece = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
    nodes
        .iter()
        .map(|node| (node.level, piece(&node.bytes)))
        .collect()
}

fn of(body: &Value) -> Request {
    read(body.to_string().as_bytes()).unwrap()
}

#[test]
fn pieces_are_the_bytes_of_the_body_in_provider_order() {
    let body = br#" { "messages" : [ {"role": "user",  "content":"hi \u00e9"} ] , "system":"Be kind.",
        "model":"claude-sonnet-4-5", "tools":[{ "name" : "grep", "input_schema":{} }],"max_tokens": 5} "#;
    let request = read(body).unwrap();
    assert_eq!(request.format, Format::Messages);
    assert_eq!(request.model, "claude-sonnet-4-5");
    assert_eq!(
        pieces(&request),
        [
            (
                Level::Tool,
                r#"{ "name" : "grep", "input_schema":{} }"#.to_owned()
            ),
            (Level::System, r#""Be kind.""#.to_owned()),
            (
                Level::Message,
                // The list that the text stands for.
                r#"{"role": "user",  "content":[{"type":"text","text":"hi \u00e9"}]}"#.to_owned()
            ),
        ]
    );
    assert_eq!(
        request.tail,
        r#","model":"claude-sonnet-4-5","max_tokens":5}"#
    );
}

/// Not read as Anthropic's, whose members have the same names.
#[test]
fn converse_requests_are_refused() {
    for member in [
        "toolConfig",
        "inferenceConfig",
        "additionalModelRequestFields",
    ] {
        let body = json!({"system": [{"text": "a"}], member: {},
            "messages": [{"role": "user", "content": [{"text": "b"}]}]});
        let error = read(body.to_string().as_bytes()).unwrap_err();
        assert!(matches!(error, Error::NotARequest(why) if why.contains("Converse")));
    }
}

#[test]
fn openai_system_text_precedes_the_messages() {
    let chat = of(&json!({"model": "gpt-4.1", "messages": [
        {"role": "system", "content": "a"}, {"role": "developer", "content": "b"},
        {"role": "user", "content": "c"}, {"role": "system", "content": "d"}]}));
    let levels: Vec<Level> = pieces(&chat).into_iter().map(|(level, _)| level).collect();
    let (system, message) = (Level::System, Level::Message);
    assert_eq!(levels, [system, system, message, message]);
    let responses = of(&json!({"model": "gpt-5", "instructions": "a", "input": "b"}));
    assert_eq!(responses.format, Format::Responses);
    assert_eq!(
        pieces(&responses),
        [(system, "\"a\"".to_owned()), (message, "\"b\"".to_owned())]
    );
}

#[test]
fn the_format_is_detected_by_its_unique_fields() {
    let user = json!([{"role": "user", "content": "a"}]);
    for (body, format) in [
        (json!({"messages": user, "system": "a"}), Format::Messages),
        (
            json!({"messages": user, "tools": [{"name": "a", "input_schema": {}}]}),
            Format::Messages,
        ),
        (
            json!({"messages": user, "model": "claude-haiku-4-5"}),
            Format::Messages,
        ),
        (
            json!({"messages": user, "model": "anthropic/claude-haiku-4.5"}),
            Format::Chat,
        ),
        (json!({"messages": user, "model": "gpt-4.1"}), Format::Chat),
        (
            json!({"messages": user, "model": "claude-x", "max_completion_tokens": 5}),
            Format::Chat,
        ),
        (
            json!({"messages": [{"role": "system", "content": "a"}], "model": "claude-x"}),
            Format::Chat,
        ),
        (
            json!({"messages": user, "tools": [{"type": "function", "function": {"name": "a"}}]}),
            Format::Chat,
        ),
        (
            json!({"input": [{"role": "user", "content": "a"}], "model": "gpt-5"}),
            Format::Responses,
        ),
    ] {
        assert_eq!(of(&body).format, format, "{body}");
    }
}

#[test]
fn markers_are_removed_and_returned_with_lifetime_and_position() {
    let body = br#"{"model":"claude-x","tools":[{"name":"a","input_schema":{"properties":{"cache_control":{}}},"cache_control":{"type":"ephemeral","ttl":"1h"}}],
        "system":[{"cache_control":{"type":"ephemeral"}, "type":"text","text":"b"}],
        "messages":[{"role":"user","content":[{"type":"text","text":" ","cache_control": {"type":"ephemeral"}},
            {"type":"tool_result","tool_use_id":"t","content":[{"type":"text","text":"c","cache_control":{"type":"ephemeral"}}],"cache_control":{"type":"ephemeral"}}]},
        {"role":"assistant","content":[{"type":"tool_use","id":"t","name":"a","input":{"cache_control":{"x":1}}}]}]}"#;
    let request = read(body).unwrap();
    let written: Vec<String> = pieces(&request)
        .into_iter()
        .map(|(_, piece)| piece)
        .collect();
    assert_eq!(
        written,
        [
            r#"{"name":"a","input_schema":{"properties":{"cache_control":{}}}}"#,
            r#"{ "type":"text","text":"b"}"#,
            "{\"role\":\"user\",\"content\":[{\"type\":\"text\",\"text\":\" \"},\n            \
             {\"type\":\"tool_result\",\"tool_use_id\":\"t\",\"content\":[{\"type\":\"text\",\"text\":\"c\"}]}]}",
            r#"{"role":"assistant","content":[{"type":"tool_use","id":"t","name":"a","input":{"cache_control":{"x":1}}}]}"#,
        ]
    );
    let (short, long) = (MarkerTime::FiveMinutes, MarkerTime::OneHour);
    let found: Vec<_> = request
        .markers
        .iter()
        .map(|m| (m.node, m.time, m.place))
        .collect();
    assert_eq!(
        found,
        [
            (0, long, MarkerPlace::Proper),
            (1, short, MarkerPlace::Proper),
            (2, short, MarkerPlace::EmptyText),
            (2, short, MarkerPlace::Within),
            (2, short, MarkerPlace::Proper),
        ]
    );
    let marks: Vec<u32> = request.plan.marks().iter().map(|mark| mark.node).collect();
    assert_eq!(marks, [0, 1, 2]);
}

#[test]
fn blank_pieces_and_empty_prefixes_take_no_marker() {
    let request = of(
        &json!({"model": "claude-x", "tools": [{}, {"cache_control": {"type": "a"}}],
        "messages": [{"role": "user", "content": [{}]},
            {"role": "user", "content": [{"type": "text", "text": "\n \t"}]},
            {"role": "user", "content": " \t"}]}),
    );
    assert!(
        request
            .prompt
            .nodes()
            .iter()
            .all(|node| node.mark_at.is_none())
    );
}

#[test]
fn request_wide_marker_is_set_on_the_last_block() {
    let request = of(
        &json!({"model": "claude-x", "cache_control": {"type": "ephemeral"},
        "system": [{"type": "text", "text": "a"}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "b"}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "c"}]}]}),
    );
    assert_eq!(request.plan.marks().len(), 1);
    assert_eq!(request.plan.marks()[0].node, 1);
    assert!(!request.tail.windows(5).any(|bytes| bytes == b"cache"));
}

#[test]
fn invalid_requests_are_reported_with_the_reason() {
    for (text, expected) in [
        ("", "it is not JSON: unexpected end of JSON text at byte 0"),
        ("[1, 2]", "it is no request: it is no JSON object"),
        (
            "{\"a\":1",
            "it is not JSON: expected a comma or the closing bracket at byte 6",
        ),
        (
            "{\"model\":\"m\"}",
            "it is no request: it has neither `messages` nor `input`",
        ),
        (
            r#"{"model":"text-embedding-3-small","input":"a"}"#,
            "it is no request: it asks for embeddings",
        ),
    ] {
        assert_eq!(
            read(text.as_bytes()).unwrap_err().to_string(),
            expected,
            "{text}"
        );
    }
    assert_eq!(
        read(b"{\"a\":\"\xff\"}").unwrap_err(),
        Error::NotText { at: 6 }
    );
    read("[".repeat(1 << 20).as_bytes()).unwrap_err();
}

/// Our own bodies, with markers, whatever is said in them.
fn body() -> impl Strategy<Value = (usize, Vec<Message>, bool)> {
    let messages = prop::collection::vec(conversation::text().prop_map(Message::user), 1..6);
    (0..3_usize, messages, any::<bool>())
}

#[test]
fn lifetime_of_a_breakpoint_is_read() {
    for (marker, time) in [
        (json!({"mode": "explicit"}), MarkerTime::FiveMinutes),
        (
            json!({"mode": "explicit", "ttl": "30m"}),
            MarkerTime::FiveMinutes,
        ),
        (
            json!({"mode": "explicit", "ttl": "12h"}),
            MarkerTime::TwelveHours,
        ),
    ] {
        let part = json!({"type": "input_text", "text": "a", "prompt_cache_breakpoint": marker});
        let request =
            of(&json!({"model": "gpt-5.6", "input": [{"role": "user", "content": [part]}]}));
        let times: Vec<MarkerTime> = request.plan.marks().iter().map(|mark| mark.time).collect();
        assert_eq!(times, [time], "{marker}");
    }
}

#[test]
fn fuzz_seeds_have_the_format_of_their_name() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus/foreign_request");
    for (name, format) in [
        ("chat", Some(Format::Chat)),
        ("messages", Some(Format::Messages)),
        ("automatic", Some(Format::Messages)),
        ("responses", Some(Format::Responses)),
        ("text", Some(Format::Responses)),
        ("broken", None),
    ] {
        let found = read(&std::fs::read(seeds.join(name)).unwrap());
        assert_eq!(found.ok().map(|request| request.format), format, "{name}");
    }
}

proptest! {
    #[test]
    fn own_bodies_are_read_back_as_their_pieces((which, messages, marked) in body()) {
        let wire = wire::for_format([Format::Chat, Format::Responses, Format::Messages][which]);
        let prompt = messages.into_iter().fold(frozen(wire), |prompt, message| said(&prompt, wire, message));
        let nodes = prompt.nodes();
        // A body of ours without a message has no `messages`.
        prop_assume!(nodes.iter().any(|node| node.level == Level::Message && !node.bytes.is_empty()));
        let markable = nodes.iter().filter(|node| node.mark_at.is_some() && !node.bytes.is_empty());
        let mut marks: Vec<Mark> = markable
            .map(|node| Mark { node: node.depth, time: MarkerTime::OneHour })
            .collect();
        marks.drain(..marks.len().saturating_sub(4));
        let plan = if marked { Plan::from_marks(marks) } else { Plan::none() };
        let parameters = Parameters { model: "m".to_owned(), ..Parameters::default() };
        let tail = wire.tail(&parameters, true);
        let request = read(&contiguous(&prompt, wire, &plan, &tail)).unwrap();
        let sent: Vec<(Level, &[u8])> = nodes
            .iter()
            .filter(|node| !node.bytes.is_empty())
            .map(|node| (node.level, &node.bytes[..]))
            .collect();
        let nodes = request.prompt.nodes();
        let found: Vec<(Level, &[u8])> = nodes.iter().map(|node| (node.level, &node.bytes[..])).collect();
        prop_assert_eq!(found, sent);
        prop_assert_eq!(request.tail, tail);
        prop_assert_eq!(request.format, wire.format());
        prop_assert_eq!(request.plan.marks().len(), if wire.marker(MarkerTime::OneHour).is_some() { plan.marks().len() } else { 0 });
    }

    #[test]
    fn marker_position_keeps_the_piece_valid_json(text in conversation::text()) {
        let request = of(&json!({"model": "claude-x", "system": [{"type": "text", "text": text}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}]}]}));
        for node in request.prompt.nodes() {
            if let Some(at) = node.mark_at {
                let mut marked = node.bytes[..at as usize].to_vec();
                marked.extend_from_slice(br#","cache_control":{"type":"ephemeral"}"#);
                marked.extend_from_slice(&node.bytes[at as usize..]);
                prop_assert!(serde_json::from_slice::<Value>(&marked).is_ok());
            }
        }
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }
}

#[test]
fn requests_of_a_log_are_read_independently() {
    // The same pieces in two formats, and behind other pieces.
    let text = |model: &str, tail: &str, messages: &str| {
        format!(r#"{{"model":"{model}",{tail},"messages":[{messages}]}}"#)
    };
    let (one, two) = (
        r#"{"role": "user", "content": "a"}"#,
        r#"{"role":"assistant","content":[{"type":"text","text":"b"}]}"#,
    );
    let both = format!("{one},{two}");
    let lines = [
        text("claude-sonnet-4-6", r#""max_tokens":9,"system":"s""#, one),
        text("claude-sonnet-4-6", r#""max_tokens":9,"system":"s""#, &both),
        text("gpt-5.4", r#""n":1"#, one),
        text(
            "claude-sonnet-4-6",
            r#""max_tokens":9,"stop_sequences":["x"]"#,
            one,
        ),
        text("gpt-5.4", r#""n":1"#, &both),
        text("claude-sonnet-4-6", r#""max_tokens":9,"system":"s""#, &both),
    ];
    let log = lines.join("\n");
    let logged = cachalot_prefix::log::LogReader::new(log.as_bytes());
    let mut count = 0;
    for (logged, line) in logged.zip(&lines) {
        let (read, alone) = (logged.unwrap().request, read(line.as_bytes()).unwrap());
        assert_eq!(read.compared.prompt.tip(), alone.compared.prompt.tip());
        assert_eq!(read.compared.plan, alone.compared.plan);
        count += 1;
    }
    assert_eq!(count, lines.len());
}
