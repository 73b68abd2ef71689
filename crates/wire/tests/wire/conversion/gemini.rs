//! Gemini.

use serde_json::{Value, json};

use super::*;

/// A chunk, or a whole response.
pub(super) fn chunk(parts: Value, finish: Option<&str>) -> Value {
    let mut candidate = json!({"content": {"parts": parts, "role": "model"}});
    if let Some(finish) = finish {
        candidate["finishReason"] = finish.into();
    }
    candidate["index"] = json!(0);
    json!({
        "candidates": [candidate],
        "usageMetadata": {
            "promptTokenCount": 10, "candidatesTokenCount": 7, "totalTokenCount": 20,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}], "thoughtsTokenCount": 3,
        },
        "modelVersion": "gemini-3-pro-preview",
        "responseId": "r-1",
    })
}

fn whole_of_chunks(chunks: &[Value]) -> Option<Value> {
    whole_of(Format::Gemini, &unnamed(chunks))
}

fn call(name: &str) -> Value {
    json!({"functionCall": {"name": name, "args": {"n": 1}, "id": "c1"}})
}

#[test]
fn chunks_become_the_response_and_its_members_have_the_order_of_the_provider() {
    let thought = |text: &str| json!([{"text": text, "thought": true}]);
    let mut first = chunk(thought("Let me "), None);
    first["usageMetadata"]["totalTokenCount"] = json!(11);
    let chunks = [
        first,
        chunk(thought("see."), None),
        chunk(json!([{"text": "Deep"}]), None),
        chunk(json!([{"text": " blue"}, {"text": "."}]), None),
        chunk(
            json!([{"text": "", "thoughtSignature": "c2ln"}]),
            Some("STOP"),
        ),
    ];
    let expected = chunk(
        json!([
            {"text": "Let me see.", "thought": true},
            {"text": "Deep blue.", "thoughtSignature": "c2ln"},
        ]),
        Some("STOP"),
    );
    let whole = to_whole(Format::Gemini, unnamed(&chunks).as_bytes()).unwrap();
    assert_eq!(whole, expected.to_string());
}

#[test]
fn calls_are_kept_apart_and_an_empty_end_is_dropped() {
    let mut signed = call("a");
    signed["thoughtSignature"] = json!("c2ln");
    let chunks = [
        chunk(json!([{"text": "I look."}]), None),
        chunk(json!([signed, call("b")]), None),
        chunk(json!([{"text": ""}]), Some("STOP")),
    ];
    let expected = chunk(
        json!([{"text": "I look."}, signed, call("b")]),
        Some("STOP"),
    );
    assert_eq!(whole_of_chunks(&chunks), Some(expected.clone()));
    round_trip(Format::Gemini, &expected);
}

#[test]
fn response_becomes_the_chunks_of_the_provider() {
    let long = "é".repeat(300);
    let mut whole = chunk(
        json!([{"text": long, "thoughtSignature": "c2ln"}]),
        Some("STOP"),
    );
    whole["modelStatus"] = json!({"modelStage": "STABLE"});
    whole["candidates"][0]["avgLogprobs"] = json!(-0.25);
    whole["candidates"][0]["safetyRatings"] = json!([{"category": "A", "probability": "LOW"}]);
    let events = events_of(Format::Gemini, &whole, &json!({})).unwrap();
    assert!(events.ends_with("}\r\n\r\n") && !events.contains("[DONE]"));
    let chunks = data_of(&events);
    assert_eq!(chunks.len(), 3);
    assert_eq!(
        chunks[0]["candidates"][0],
        json!({
        "content": {"parts": [{"text": "é".repeat(256)}], "role": "model"}, "index": 0})
    );
    assert_eq!(
        chunks[0]["usageMetadata"],
        json!({
        "promptTokenCount": 10, "totalTokenCount": 10,
        "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 10}]})
    );
    assert_eq!(chunks[2]["responseId"], "r-1");
    assert_eq!(chunks[0]["modelStatus"], json!({"modelStage": "STABLE"}));
    assert_eq!(chunks[2].get("modelStatus"), None);
    let last = &chunks[2]["candidates"][0];
    assert_eq!(
        last["content"]["parts"],
        json!([{"text": "", "thoughtSignature": "c2ln"}])
    );
    assert_eq!(last["avgLogprobs"], json!(-0.25));
    assert_eq!(chunks[2]["usageMetadata"], whole["usageMetadata"]);
    assert_eq!(whole_of(Format::Gemini, &events), Some(whole));
}

#[test]
fn response_without_parts_is_converted() {
    let mut whole = chunk(json!([]), Some("MAX_TOKENS"));
    whole["candidates"][0]["content"] = json!({"role": "model"});
    round_trip(Format::Gemini, &whole);
    let candidate = whole["candidates"][0].as_object_mut().unwrap();
    candidate.shift_remove("content");
    round_trip(Format::Gemini, &whole);
    round_trip(Format::Gemini, &chunk(json!([{"text": ""}]), Some("STOP")));
}

#[test]
fn members_of_all_chunks_or_of_one_are_kept() {
    let mut chunks = [
        chunk(json!([{"text": "a"}]), None),
        chunk(json!([{"text": "b"}]), Some("STOP")),
    ];
    for chunk in &mut chunks {
        chunk["createTime"] = json!("2026-01-01T00:00:00Z");
        chunk["candidates"][0]["safetyRatings"] = json!([{"category": "A"}]);
    }
    chunks[1]["candidates"][0]["groundingMetadata"] = json!({"webSearchQueries": ["x"]});
    let whole = whole_of_chunks(&chunks).unwrap();
    assert_eq!(whole["createTime"], chunks[0]["createTime"]);
    let candidate = &whole["candidates"][0];
    assert_eq!(candidate["safetyRatings"], json!([{"category": "A"}]));
    assert_eq!(
        candidate["groundingMetadata"],
        json!({"webSearchQueries": ["x"]})
    );
}

#[test]
fn ambiguous_streams_are_not_converted() {
    let set = |at: usize, pointer: &'static str, value: Value| {
        move |chunks: &mut Vec<Value>| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            chunks[at].pointer_mut(parent).unwrap()[name] = value.clone();
        }
    };
    let parts = |value: Value| set(1, "/candidates/0/content/parts", value);
    let chunks = [
        chunk(json!([{"text": "a"}]), None),
        chunk(json!([{"text": "b"}]), None),
        chunk(json!([{"text": "c"}]), Some("STOP")),
    ];
    refused(
        Format::Gemini,
        &chunks,
        unnamed,
        &[
            ("an error", &|chunks| {
                chunks.insert(1, json!({"error": {"code": 503}}))
            }),
            (
                "an error in a chunk",
                &set(1, "/error", json!({"code": 503})),
            ),
            ("no end", &|chunks| drop(chunks.pop())),
            (
                "two ends",
                &set(1, "/candidates/0/finishReason", json!("STOP")),
            ),
            ("a chunk after the end", &|chunks| {
                chunks.push(chunk(json!([{"text": "d"}]), None))
            }),
            (
                "a reason that is no text",
                &set(2, "/candidates/0/finishReason", json!(1)),
            ),
            ("no candidate", &set(1, "/candidates", json!([]))),
            (
                "another candidate",
                &set(1, "/candidates/0/index", json!(1)),
            ),
            ("two candidates", &|chunks| {
                let candidate = chunks[1]["candidates"][0].clone();
                chunks[1]["candidates"]
                    .as_array_mut()
                    .unwrap()
                    .push(candidate);
            }),
            ("another response", &set(1, "/responseId", json!("r-2"))),
            ("another model", &set(1, "/modelVersion", json!("b"))),
            (
                "another role",
                &set(1, "/candidates/0/content/role", json!("user")),
            ),
            (
                "a member of a content",
                &set(1, "/candidates/0/content/x", json!(1)),
            ),
            ("parts that are no list", &parts(json!({}))),
            ("an unknown part", &parts(json!([{"later": 1}]))),
            (
                "a member of a part",
                &parts(json!([{"text": "b", "later": 1}])),
            ),
            ("a text that is none", &parts(json!([{"text": 1}]))),
            (
                "a signed text after one without",
                &parts(json!([{"text": "b", "thoughtSignature": "c2ln"}])),
            ),
            (
                "a file",
                &parts(json!([{"inlineData": {"mimeType": "audio/pcm", "data": "AAAA"}}])),
            ),
            (
                "a call in pieces",
                &parts(json!([{"functionCall": {"name": "f", "willContinue": true}}])),
            ),
            ("no total usage", &set(2, "/usageMetadata", Value::Null)),
            ("counts of two chunks", &|chunks| {
                for chunk in &mut chunks[1..] {
                    chunk["candidates"][0]["tokenCount"] = json!(1);
                }
            }),
            ("equal increments", &|chunks| {
                for chunk in chunks {
                    chunk["candidates"][0]["logprobsResult"] =
                        json!({"chosenCandidates": [{"token": "a"}]});
                }
            }),
            ("ratings that change", &|chunks| {
                for (at, chunk) in chunks.iter_mut().enumerate() {
                    chunk["candidates"][0]["safetyRatings"] = json!([{"probability": at}]);
                }
            }),
        ],
    );
    assert_eq!(whole_of(Format::Gemini, ""), None);
}

#[test]
fn ambiguous_documents_are_not_converted() {
    let blocked = json!({"promptFeedback": {"blockReason": "SAFETY"}, "usageMetadata": {}});
    for whole in [
        json!({"error": {"code": 503}}),
        blocked,
        chunk(json!([{"text": "a"}]), None),
        chunk(json!([{"text": "a"}, {"text": "b"}]), Some("STOP")),
        chunk(
            json!([{"text": "a"}, {"text": "b", "thoughtSignature": "c2ln"}]),
            Some("STOP"),
        ),
        chunk(json!([call("f"), {"text": ""}]), Some("STOP")),
        chunk(json!([{"executableCode": {"code": "x"}}]), Some("STOP")),
    ] {
        assert_eq!(
            events_of(Format::Gemini, &whole, &json!({})),
            None,
            "{whole}"
        );
    }
    let mut several = chunk(json!([{"text": "a"}]), Some("STOP"));
    let second = several["candidates"][0].clone();
    several["candidates"].as_array_mut().unwrap().push(second);
    assert_eq!(events_of(Format::Gemini, &several, &json!({})), None);
}
