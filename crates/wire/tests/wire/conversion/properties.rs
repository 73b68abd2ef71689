//! Properties of every answer.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::*;

/// Texts with what could be taken for JSON or for the end of a line, and some that are split.
fn texts() -> impl Strategy<Value = String> {
    let parts = [
        "a",
        " ",
        "\n",
        "\r\n",
        "\"",
        "\\",
        "}",
        "é",
        "🐋",
        "\u{2028}",
        "\u{0}",
        "data: x\n\n",
        "[DONE]",
    ];
    let long = "0123456789é".repeat(120);
    let short = prop::collection::vec(prop::sample::select(parts.to_vec()), 0..6);
    prop_oneof![9 => short.prop_map(|parts| parts.concat()), 1 => Just(long)]
}

fn filled_texts() -> impl Strategy<Value = String> {
    texts().prop_map(|text| text + "x")
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        (-1e9..1e9).prop_map(Value::from),
        texts().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 12, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec(("[a-e]{1,2}", inner), 0..4)
                .prop_map(|fields| fields.into_iter().collect::<Map<String, Value>>().into()),
        ]
    })
}

fn objects() -> impl Strategy<Value = Value> {
    let fields = prop::collection::vec(("[a-e]{1,2}", values()), 0..4);
    fields.prop_map(|fields| fields.into_iter().collect::<Map<String, Value>>().into())
}

/// A member that some answers have.
fn optional(value: impl Strategy<Value = Value>) -> impl Strategy<Value = Option<Value>> {
    prop::option::of(prop_oneof![1 => Just(Value::Null), 3 => value])
}

/// The members that are there.
fn present<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let members = members.into_iter();
    let members = members.filter_map(|(name, value)| Some((name.to_owned(), value?)));
    members.collect::<Map<String, Value>>().into()
}

fn text_value() -> impl Strategy<Value = Value> {
    texts().prop_map(Value::from)
}

fn counts() -> impl Strategy<Value = Value> {
    any::<u32>().prop_map(Value::from)
}

fn chat_documents() -> impl Strategy<Value = Value> {
    let calls = prop::collection::vec((filled_texts(), filled_texts(), texts()), 0..3);
    let calls = calls.prop_map(|calls| {
        let calls = calls.into_iter().map(|(id, name, arguments)| {
            json!({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
        });
        calls.collect::<Value>()
    });
    let refusal = prop_oneof![Just(Value::Null), filled_texts().prop_map(Value::from)];
    // With a refusal, annotations are a list.
    let further = prop_oneof![
        prop::option::of(prop::collection::vec(objects(), 0..3))
            .prop_map(|annotations| (None, annotations.map(Value::from))),
        (refusal, prop::collection::vec(objects(), 0..3))
            .prop_map(|(refusal, annotations)| (Some(refusal), Some(Value::from(annotations)))),
    ];
    let tokens = prop::collection::vec(texts(), 0..4);
    (
        prop_oneof![Just(Value::Null), text_value()],
        prop::option::of(calls),
        further,
        optional(text_value()),
        prop::option::of(tokens),
        optional(objects()),
        (optional(text_value()), optional(values())),
    )
        .prop_map(
            |(content, calls, (refusal, annotations), reasoning, tokens, usage, (tier, own))| {
                let message = present([
                    ("role", Some("assistant".into())),
                    ("content", Some(content.clone())),
                    ("refusal", refusal),
                    ("annotations", annotations),
                    ("tool_calls", calls),
                    ("reasoning_content", reasoning),
                ]);
                let token = |token: String| json!({"token": token, "logprob": -0.5});
                let logprobs = tokens.map(|tokens| {
                    // Probabilities of tokens are those of a text.
                    let tokens = tokens.into_iter().filter(|_| content.is_string());
                    json!({"content": tokens.map(token).collect::<Value>(), "refusal": null})
                });
                let choice = present([
                    ("index", Some(0.into())),
                    ("message", Some(message)),
                    ("logprobs", logprobs),
                    ("finish_reason", Some("stop".into())),
                    ("own", own),
                ]);
                present([
                    ("id", Some("chatcmpl-1".into())),
                    ("object", Some("chat.completion".into())),
                    ("created", Some(1.into())),
                    ("model", Some("m".into())),
                    ("choices", Some(json!([choice]))),
                    ("usage", Some(usage.unwrap_or_default())),
                    ("service_tier", tier),
                ])
            },
        )
        .prop_map(|mut document| {
            if document["usage"].is_null() {
                document["usage"] = json!({"total_tokens": 1});
            }
            document
        })
}

fn message_documents() -> impl Strategy<Value = Value> {
    let citations = optional(prop::collection::vec(objects(), 0..3).prop_map(Value::from));
    let block = prop_oneof![
        (text_value(), citations).prop_map(|(text, citations)| present([
            ("type", Some("text".into())),
            ("text", Some(text)),
            ("citations", citations),
        ])),
        (text_value(), text_value()).prop_map(
            |(text, signature)| json!({"type": "thinking", "thinking": text, "signature": signature})
        ),
        text_value().prop_map(|data| json!({"type": "redacted_thinking", "data": data})),
        (text_value(), objects(), optional(objects())).prop_map(|(id, input, caller)| present([
            ("type", Some("tool_use".into())),
            ("id", Some(id)),
            ("name", Some("f".into())),
            ("input", Some(input)),
            ("caller", caller),
        ])),
    ];
    let usage = (
        optional(counts()),
        counts(),
        optional(objects()),
        optional(objects()),
        optional(text_value()),
    );
    let usage = usage.prop_map(|(read, output, details, creation, tier)| {
        present([
            ("input_tokens", Some(7.into())),
            ("cache_read_input_tokens", read),
            ("cache_creation", creation),
            ("output_tokens", Some(output)),
            ("output_tokens_details", details),
            ("service_tier", tier),
        ])
    });
    (
        prop::collection::vec(block, 0..4),
        usage,
        optional(text_value()),
        optional(objects()),
        optional(objects()),
        optional(values()),
    )
        .prop_map(|(content, usage, sequence, details, managed, own)| {
            present([
                ("id", Some("msg_1".into())),
                ("type", Some("message".into())),
                ("role", Some("assistant".into())),
                ("model", Some("m".into())),
                ("content", Some(content.into())),
                ("stop_reason", Some("end_turn".into())),
                ("stop_sequence", sequence),
                ("stop_details", details),
                ("context_management", managed),
                ("usage", Some(usage)),
                ("own", own),
            ])
        })
}

fn response_documents() -> impl Strategy<Value = Value> {
    let parts = |kind: &'static str| {
        let parts = prop::collection::vec(texts(), 0..3);
        parts.prop_map(move |parts| {
            let parts = parts.into_iter();
            let parts = parts.map(|text| json!({"type": kind, "text": text}));
            parts.collect::<Value>()
        })
    };
    let content = prop_oneof![
        (
            texts(),
            prop::collection::vec(objects(), 0..3),
            optional(prop::collection::vec(objects(), 0..3).prop_map(Value::from))
        )
            .prop_map(|(text, annotations, logprobs)| present([
                ("type", Some("output_text".into())),
                ("annotations", Some(annotations.into())),
                ("logprobs", logprobs),
                ("text", Some(text.into())),
            ])),
        texts().prop_map(|text| json!({"type": "refusal", "refusal": text})),
    ];
    let item = prop_oneof![
        prop::collection::vec(content, 0..3).prop_map(|content| json!({
            "id": "msg_1", "type": "message", "status": "completed", "content": content, "role": "assistant"})),
        texts().prop_map(|arguments| json!({
            "id": "fc_1", "type": "function_call", "status": "completed", "arguments": arguments,
            "call_id": "call_1", "name": "f"})),
        (
            parts("summary_text"),
            optional(parts("reasoning_text")),
            optional(text_value())
        )
            .prop_map(|(summary, content, encrypted)| present([
                ("id", Some("rs_1".into())),
                ("type", Some("reasoning".into())),
                ("summary", Some(summary)),
                ("content", content),
                ("encrypted_content", encrypted),
            ])),
    ];
    let output = prop::collection::vec(item, 0..4);
    (output, optional(objects()), optional(values())).prop_map(|(output, usage, own)| {
        present([
            ("id", Some("resp_1".into())),
            ("object", Some("response".into())),
            ("status", Some("completed".into())),
            ("output", Some(output.into())),
            ("usage", usage),
            ("own", own),
        ])
    })
}

fn gemini_documents() -> impl Strategy<Value = Value> {
    let flag = prop::option::of(any::<bool>().prop_map(Value::from));
    let signature = || prop::option::of(filled_texts().prop_map(Value::from));
    let text = (filled_texts(), flag, signature());
    let part = prop_oneof![
        text.prop_map(|(text, thought, signature)| present([
            ("text", Some(text.into())),
            ("thought", thought),
            ("thoughtSignature", signature),
        ])),
        (objects(), signature()).prop_map(|(args, signature)| present([
            ("functionCall", Some(json!({"name": "f", "args": args}))),
            ("thoughtSignature", signature),
        ])),
    ];
    (
        prop::collection::vec(part, 0..5),
        optional(objects()),
        optional(values()),
        optional(values()),
    )
        .prop_map(|(mut parts, usage, ratings, own)| {
            // A text without a signature is followed by a text of another kind.
            parts.dedup_by(|part, before| {
                let is_text = part.get("text").is_some() && before.get("text").is_some();
                let is_signed = before.get("thoughtSignature").is_some();
                is_text && !is_signed && part.get("thought") == before.get("thought")
            });
            let parts = Some(Value::from(parts)).filter(|parts| *parts != json!([]));
            let candidate = present([
                (
                    "content",
                    Some(present([("parts", parts), ("role", Some("model".into()))])),
                ),
                ("finishReason", Some("STOP".into())),
                ("index", Some(0.into())),
                ("safetyRatings", ratings),
            ]);
            present([
                ("candidates", Some(json!([candidate]))),
                ("usageMetadata", usage.filter(Value::is_object)),
                ("responseId", Some("r-1".into())),
                ("own", own),
            ])
        })
}

fn interaction_documents() -> impl Strategy<Value = Value> {
    let text = || texts().prop_map(|text| json!([{"type": "text", "text": text}]));
    let step = prop_oneof![
        prop_oneof![Just(json!([])), text()]
            .prop_map(|content| json!({"type": "model_output", "content": content})),
        (optional(text()), prop::option::of(texts())).prop_map(|(summary, signature)| present([
            ("type", Some("thought".into())),
            ("summary", summary.filter(Value::is_array)),
            ("signature", signature.map(Value::from)),
        ])),
        (objects(), optional(values())).prop_map(|(arguments, own)| present([
            ("type", Some("function_call".into())),
            ("id", Some("call_1".into())),
            ("name", Some("f".into())),
            ("arguments", Some(arguments)),
            ("own", own),
        ])),
    ];
    let status = prop::sample::select(vec!["completed", "requires_action", "incomplete"]);
    let steps = prop::collection::vec(step, 0..4);
    (status, steps, objects(), optional(values())).prop_map(|(status, steps, usage, own)| {
        present([
            ("id", Some("v1_1".into())),
            ("status", Some(status.into())),
            ("steps", Some(steps.into())),
            ("usage", Some(usage)),
            ("own", own),
        ])
    })
}

/// Streams, some of them with a defect.
fn damaged(events: String) -> impl Strategy<Value = Vec<u8>> {
    let length = events.len();
    (Just(events), 0..=length, 0..=length, texts()).prop_map(|(events, from, to, text)| {
        let mut bytes = events.into_bytes();
        let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 4));
        bytes.splice(from..to, text.into_bytes());
        bytes
    })
}

fn documents() -> impl Strategy<Value = (Format, Value)> {
    prop_oneof![
        chat_documents().prop_map(|document| (Format::Chat, document)),
        response_documents().prop_map(|document| (Format::Responses, document)),
        message_documents().prop_map(|document| (Format::Messages, document)),
        gemini_documents().prop_map(|document| (Format::Gemini, document)),
        interaction_documents().prop_map(|document| (Format::Interactions, document)),
    ]
}

proptest! {
    #[test]
    fn nothing_is_lost_on_the_way_to_events_and_back((format, whole) in documents()) {
        let events = events_of(format, &whole, &with_usage());
        prop_assert!(events.is_some(), "not converted: {whole:#}");
        let restored = whole_of(format, &events.unwrap());
        prop_assert_eq!(restored, Some(whole));
    }

    #[test]
    fn the_same_events_are_made_of_a_document_that_was_made_of_them((format, whole) in documents()) {
        let events = events_of(format, &whole, &with_usage()).unwrap();
        let restored = to_whole(format, events.as_bytes()).unwrap();
        let restored: Value = serde_json::from_slice(&restored).unwrap();
        let again = events_of(format, &restored, &with_usage()).unwrap();
        prop_assert_eq!(data_of(&again), data_of(&events));
    }

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for format in FORMATS {
            let _ = to_whole(format, &bytes);
            let _ = to_events(format, &bytes, &with_usage());
        }
    }

    #[test]
    fn arbitrary_documents_do_not_panic(mut document in objects(), value in values(), at in 0..8_usize) {
        let names = ["choices", "candidates", "output", "steps", "usage", "delta", "message", "type"];
        document[names[at]] = value;
        for format in FORMATS {
            let _ = to_events(format, document.to_string().as_bytes(), &with_usage());
            let _ = to_whole(format, unnamed(&[document.clone()]).as_bytes());
        }
    }

    #[test]
    fn damaged_events_do_not_panic(
        (format, bytes) in documents().prop_flat_map(|(format, whole)| {
            let events = events_of(format, &whole, &with_usage()).unwrap();
            (Just(format), damaged(events))
        })
    ) {
        let _ = to_whole(format, &bytes);
    }
}
