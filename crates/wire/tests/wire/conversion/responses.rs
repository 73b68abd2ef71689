//! OpenAI Responses.

use serde_json::{Value, json};

use super::*;

fn reasoning() -> Value {
    json!({
        "id": "rs_1", "type": "reasoning", "encrypted_content": "gAAA==",
        "summary": [{"type": "summary_text", "text": "First."}, {"type": "summary_text", "text": "Then."}],
        "content": [{"type": "reasoning_text", "text": "Hm."}],
    })
}

fn message(content: Value) -> Value {
    json!({"id": "msg_1", "type": "message", "status": "completed", "content": content, "role": "assistant"})
}

fn part(text: &str) -> Value {
    json!({"type": "output_text", "annotations": [], "logprobs": [], "text": text})
}

fn call() -> Value {
    json!({
        "id": "fc_1", "type": "function_call", "status": "completed", "arguments": "{\"city\":\"Rome\"}",
        "call_id": "call_1", "name": "find",
    })
}

fn response(output: Value) -> Value {
    json!({
        "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "completed_at": 2,
        "error": null, "incomplete_details": null, "model": "gpt-5", "output": output, "tools": [],
        "usage": {"input_tokens": 10, "output_tokens": 5, "total_tokens": 15},
    })
}

/// The types of events, and their places.
fn outline(events: &str) -> Vec<String> {
    let of_event = |event: &Value| {
        let places = [
            "output_index",
            "content_index",
            "summary_index",
            "annotation_index",
        ];
        let places = places.iter().filter_map(|name| event.get(*name));
        let places: String = places.map(|place| format!(" {place}")).collect();
        format!("{}{places}", event["type"].as_str().unwrap())
    };
    data_of(events).iter().map(of_event).collect()
}

#[test]
fn response_becomes_all_events_of_the_provider() {
    let refusal = json!({"type": "refusal", "refusal": "I can't."});
    let annotation = json!({"type": "url_citation", "start_index": 0, "end_index": 2,
        "url": "https://a.example", "title": "A"});
    let mut cited = part("Yes.");
    cited["annotations"] = json!([annotation]);
    let whole = response(json!([
        reasoning(),
        message(json!([cited, refusal])),
        call()
    ]));
    let events = round_trip(Format::Responses, &whole);
    assert_eq!(
        outline(&events),
        [
            "response.created",
            "response.in_progress",
            "response.output_item.added 0",
            "response.reasoning_summary_part.added 0 0",
            "response.reasoning_summary_text.delta 0 0",
            "response.reasoning_summary_text.done 0 0",
            "response.reasoning_summary_part.done 0 0",
            "response.reasoning_summary_part.added 0 1",
            "response.reasoning_summary_text.delta 0 1",
            "response.reasoning_summary_text.done 0 1",
            "response.reasoning_summary_part.done 0 1",
            "response.content_part.added 0 0",
            "response.reasoning_text.delta 0 0",
            "response.reasoning_text.done 0 0",
            "response.content_part.done 0 0",
            "response.output_item.done 0",
            "response.output_item.added 1",
            "response.content_part.added 1 0",
            "response.output_text.delta 1 0",
            "response.output_text.annotation.added 1 0 0",
            "response.output_text.done 1 0",
            "response.content_part.done 1 0",
            "response.content_part.added 1 1",
            "response.refusal.delta 1 1",
            "response.refusal.done 1 1",
            "response.content_part.done 1 1",
            "response.output_item.done 1",
            "response.output_item.added 2",
            "response.function_call_arguments.delta 2",
            "response.function_call_arguments.done 2",
            "response.output_item.done 2",
            "response.completed",
        ]
    );
    let data = data_of(&events);
    for (number, event) in data.iter().enumerate() {
        assert_eq!(event["sequence_number"], number);
    }
    let begun = &data[0]["response"];
    assert_eq!(
        (
            &begun["status"],
            &begun["output"],
            &begun["usage"],
            &begun["completed_at"]
        ),
        (
            &json!("in_progress"),
            &json!([]),
            &Value::Null,
            &Value::Null
        )
    );
    assert_eq!(
        data[16]["item"],
        json!({
        "id": "msg_1", "type": "message", "status": "in_progress", "content": [], "role": "assistant"})
    );
    assert_eq!(
        data[18],
        json!({
        "type": "response.output_text.delta", "sequence_number": 18, "item_id": "msg_1", "output_index": 1,
        "content_index": 0, "logprobs": [], "delta": "Yes."})
    );
    assert_eq!(
        data[29],
        json!({
        "type": "response.function_call_arguments.done", "sequence_number": 29, "item_id": "fc_1",
        "output_index": 2, "arguments": "{\"city\":\"Rome\"}", "name": "find"})
    );
}

#[test]
fn last_event_has_the_response() {
    let whole = response(json!([message(json!([part("Yes.")]))]));
    let events = events_of(Format::Responses, &whole, &json!({})).unwrap();
    let converted = to_whole(Format::Responses, events.as_bytes()).unwrap();
    assert_eq!(converted, whole.to_string());
}

#[test]
fn response_that_was_cut_off_ends_with_its_own_event() {
    let mut whole = response(json!([]));
    whole["status"] = json!("incomplete");
    whole["incomplete_details"] = json!({"reason": "max_output_tokens"});
    let events = round_trip(Format::Responses, &whole);
    assert_eq!(
        outline(&events),
        [
            "response.created",
            "response.in_progress",
            "response.incomplete"
        ]
    );
    assert_eq!(
        data_of(&events)[0]["response"]["incomplete_details"],
        Value::Null
    );
}

#[test]
fn probabilities_are_those_of_their_tokens() {
    let token =
        |token: &str| json!({"token": token, "logprob": -0.5, "bytes": [1], "top_logprobs": []});
    let mut text = part("Hello there");
    text["logprobs"] = json!([token("Hello"), token(" there")]);
    let events = round_trip(
        Format::Responses,
        &response(json!([message(json!([text]))])),
    );
    let data = data_of(&events);
    assert_eq!(data[3]["part"], part(""));
    assert_eq!(data[5]["delta"], " there");
    assert_eq!(data[5]["logprobs"], json!([token(" there")]));
    assert_eq!(data[6]["logprobs"], text["logprobs"]);
}

#[test]
fn an_item_may_be_encrypted_anew_in_the_last_event() {
    let whole = response(json!([reasoning()]));
    let mut events = data_of(&events_of(Format::Responses, &whole, &json!({})).unwrap());
    let done = events
        .iter_mut()
        .find(|event| event["type"] == "response.output_item.done");
    done.unwrap()["item"]["encrypted_content"] = json!("gBBB==");
    assert_eq!(whole_of(Format::Responses, &named(&events)), Some(whole));
}

#[test]
fn ambiguous_streams_are_not_converted() {
    let whole = response(json!([message(json!([part("Yes.")])), call()]));
    let events = data_of(&events_of(Format::Responses, &whole, &json!({})).unwrap());
    let last = events.len() - 1;
    let set = |at: usize, pointer: &'static str, value: Value| {
        move |events: &mut Vec<Value>| {
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            events[at].pointer_mut(parent).unwrap()[name] = value.clone();
        }
    };
    let insert = |event: Value| move |events: &mut Vec<Value>| events.insert(3, event.clone());
    refused(
        Format::Responses,
        &events,
        named,
        &[
            (
                "an error",
                &insert(json!({"type": "error", "code": null, "message": "x"})),
            ),
            ("an unknown event", &insert(json!({"type": "later"}))),
            (
                "an unknown event of a response",
                &insert(json!({"type": "response.later.delta"})),
            ),
            (
                "a picture",
                &insert(json!({"type": "response.image_generation_call.partial_image"})),
            ),
            ("two ends", &insert(events[last].clone())),
            ("a failure", &set(last, "/type", json!("response.failed"))),
            ("no end", &|events| drop(events.pop())),
            ("an event after the end", &|events| {
                events.push(json!({"type": "response.output_text.delta"}))
            }),
            (
                "another status",
                &set(last, "/response/status", json!("incomplete")),
            ),
            (
                "a status that is no text",
                &set(last, "/response/status", json!(1)),
            ),
            (
                "no output in the last event",
                &set(last, "/response/output", json!([])),
            ),
            (
                "another item in the last event",
                &set(last, "/response/output/0/id", json!("msg_2")),
            ),
            (
                "a member of the begin only",
                &set(0, "/response/later", json!(1)),
            ),
        ],
    );
}

#[test]
fn ambiguous_documents_are_not_converted() {
    let mut without_id = call();
    without_id.as_object_mut().unwrap().shift_remove("id");
    for output in [
        json!([{"id": "ws_1", "type": "web_search_call", "status": "completed"}]),
        json!([message(json!([{"type": "later", "text": "x"}]))]),
        json!([message(json!("x"))]),
        json!([message(json!([{"type": "output_text", "text": null}]))]),
        json!([without_id]),
        json!({}),
    ] {
        let whole = response(output);
        assert_eq!(
            events_of(Format::Responses, &whole, &json!({})),
            None,
            "{whole}"
        );
    }
    for status in [
        json!("failed"),
        json!("in_progress"),
        json!("queued"),
        Value::Null,
    ] {
        let mut whole = response(json!([]));
        whole["status"] = status;
        assert_eq!(
            events_of(Format::Responses, &whole, &json!({})),
            None,
            "{whole}"
        );
    }
}
