//! Answers of the simulator to the same request in both forms: each becomes the other.

use cachalot_model::wire::sse::Decoder;
use cachalot_model::wire::{Wire, for_format};
use cachalot_model::{Format, Reply};
use cachalot_simulator::{RunningSimulator, Script, Simulator, SimulatorOptions};
use serde_json::{Value, json};

/// The formats whose answers are converted.
const FORMATS: [Format; 5] = [
    Format::Chat,
    Format::Responses,
    Format::Messages,
    Format::Gemini,
    Format::Interactions,
];

const SCRIPT: &str = r"
rules:
  - user: Look up (\w+)
    steps:
      - text: I look it up.
        reasoning: They want {{1}}.
        tool_calls:
          - {name: find, arguments: {city: '{{1}}', near: [1, 2.5]}}
          - {name: find, arguments: {city: Oslo}}
  - user: Only call
    steps:
      - tool_calls: [{name: find, arguments: {city: Rome}}]
  - user: Think
    steps: [{reasoning: 'Let me see, step by step.', text: 'Yes: it is so, 🐋.'}]
  - user: Refuse
    steps: [{text: 'I cannot', stop: refusal}]
  - user: Be long
    steps: [{text: 'One two three', stop: length}]
otherwise: {text: 'Deep blue.'}
";

/// Messages of the user, each with a rule in the script.
const QUESTIONS: [&str; 6] = [
    "Which color?",
    "Look up Rome",
    "Only call",
    "Think",
    "Refuse",
    "Be long",
];

/// The questions whose answers are converted: a refusal of Interactions is a failure without an answer.
fn questions(format: Format) -> impl Iterator<Item = &'static str> {
    let is_answered =
        move |question: &&str| format != Format::Interactions || *question != "Refuse";
    QUESTIONS.into_iter().filter(is_answered)
}

async fn simulator() -> RunningSimulator {
    let script = Script::parse("script.yaml", SCRIPT).unwrap();
    let options = SimulatorOptions {
        script,
        ..SimulatorOptions::default()
    };
    Simulator::start(options).await.unwrap()
}

/// The path and the body of a request.
fn request(format: Format, question: &str, is_streamed: bool) -> (String, Value) {
    let schema = json!({"type": "object", "properties": {"city": {"type": "string"}}});
    let message = json!({"role": "user", "content": question});
    let (path, mut body) = match format {
        Format::Chat => (
            "/v1/chat/completions",
            json!({
                "model": "gpt-4o-mini", "temperature": 0, "messages": [message],
                "tools": [{"type": "function", "function": {"name": "find", "parameters": schema}}],
            }),
        ),
        Format::Responses => (
            "/v1/responses",
            json!({
                "model": "gpt-5-mini", "store": false, "input": [message],
                "reasoning": {"summary": "auto"}, "include": ["reasoning.encrypted_content"],
                "tools": [{"type": "function", "name": "find", "parameters": schema, "strict": false}],
            }),
        ),
        Format::Messages => (
            "/v1/messages",
            json!({
                "model": "claude-sonnet-4-5", "max_tokens": 4_000, "messages": [message],
                "thinking": {"type": "enabled", "budget_tokens": 2_000},
                "tools": [{"name": "find", "input_schema": schema}],
            }),
        ),
        Format::Interactions => (
            "/v1beta/interactions",
            json!({
                "model": "gemini-3-pro-preview", "store": false, "input": question,
                "generation_config": {"temperature": 0, "thinking_summaries": "auto"},
                "tools": [{"type": "function", "name": "find", "parameters": schema}],
            }),
        ),
        _ => (
            "/v1beta/models/gemini-3-pro-preview:",
            json!({
                "contents": [{"role": "user", "parts": [{"text": question}]}],
                "generationConfig": {"temperature": 0, "thinkingConfig": {"includeThoughts": true}},
                "tools": [{"functionDeclarations": [{"name": "find", "parametersJsonSchema": schema}]}],
            }),
        ),
    };
    let mut path = path.to_owned();
    match (format, is_streamed) {
        (Format::Gemini, true) => path += "streamGenerateContent?alt=sse",
        (Format::Gemini, false) => path += "generateContent",
        (_, true) => body["stream"] = json!(true),
        (_, false) => {}
    }
    if format == Format::Chat && is_streamed {
        body["stream_options"] = json!({"include_usage": true});
    }
    (path, body)
}

/// Sends the request to a simulator of its own, whose prompt cache is cold. Returns the body of the answer.
async fn ask(format: Format, question: &str, is_streamed: bool) -> String {
    let simulator = simulator().await;
    let (path, body) = request(format, question, is_streamed);
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let response = client
        .post(format!("{}{path}", simulator.url()))
        .bearer_auth("one")
        .header("x-api-key", "one")
        .header("anthropic-version", "2023-06-01")
        .header("content-type", "application/json")
        .body(body.to_string())
        .send()
        .await
        .unwrap();
    let status = response.status();
    let answer = response.text().await.unwrap();
    assert_eq!(status, 200, "{answer}");
    answer
}

fn whole_of(wire: &dyn Wire, events: &str) -> Value {
    let whole = wire.whole_of_stream(events.as_bytes());
    let whole = whole.unwrap_or_else(|| panic!("not converted: {events}"));
    serde_json::from_slice(&whole).unwrap()
}

fn events_of(wire: &dyn Wire, whole: &Value) -> String {
    let events = wire.stream_of_whole(whole.to_string().as_bytes(), true);
    let events = events.unwrap_or_else(|| panic!("not converted: {whole:#}"));
    String::from_utf8(events.to_vec()).unwrap()
}

/// The data of the events of a stream, without `[DONE]`.
fn data_of(events: &str) -> Vec<Value> {
    let events = Decoder::new().push(events.as_bytes()).unwrap().into_iter();
    let data = events.filter(|event| event.data != "[DONE]");
    data.map(|event| serde_json::from_str(&event.data).unwrap())
        .collect()
}

fn read_events(wire: &dyn Wire, events: &str) -> Reply {
    let mut reader = wire.reader();
    for event in Decoder::new().push(events.as_bytes()).unwrap() {
        reader.event(&event).unwrap();
    }
    reader.finish().unwrap()
}

/// The reply in a document, without the empty list of annotations, which only a document has.
fn read_whole(wire: &dyn Wire, whole: &Value) -> Reply {
    let mut reply = wire.reply(whole.to_string().as_bytes()).unwrap();
    if reply.message.extra.get("annotations") == Some(&json!([])) {
        reply.message.extra.shift_remove("annotations");
        // The name of the format, which only messages with further members have.
        if reply.message.extra.len() == 1 {
            reply.message.extra.clear();
        }
    }
    reply
}

/// Replaces ids and times, which differ between two answers.
fn without_ids(mut value: Value) -> Value {
    fn replace(value: &mut Value) {
        const NAMES: [&str; 8] = [
            "id",
            "call_id",
            "item_id",
            "responseId",
            "created",
            "created_at",
            "completed_at",
            "updated",
        ];
        match value {
            Value::Object(object) => {
                for (name, value) in object {
                    if NAMES.contains(&name.as_str()) && !value.is_null() {
                        *value = json!("replaced")
                    } else {
                        replace(value)
                    }
                }
            }
            Value::Array(list) => list.iter_mut().for_each(replace),
            _ => {}
        }
    }
    replace(&mut value);
    value
}

/// The simulator begins each chat stream with an empty content, also that of an answer without a text.
fn with_content_of_chat(format: Format, mut whole: Value) -> Value {
    if format == Format::Chat {
        let message = &mut whole["choices"][0]["message"];
        if message["content"].is_null() {
            message["content"] = json!("");
        }
    }
    whole
}

/// Compares two readings. The reader of Gemini reads a signature, which follows its text in a stream, apart.
#[track_caller]
fn same_reply(format: Format, left: Reply, right: Reply) {
    match format {
        Format::Gemini => assert_eq!(left.message.text(), right.message.text()),
        _ => assert_eq!(left.message, right.message),
    }
    assert_eq!(
        (left.stop, left.usage, left.model, left.id, left.extra),
        (right.stop, right.usage, right.model, right.id, right.extra)
    );
}

#[tokio::test]
async fn a_stream_becomes_the_whole_answer() {
    for format in FORMATS {
        let wire = for_format(format);
        for question in questions(format) {
            let whole = ask(format, question, false).await;
            let events = ask(format, question, true).await;
            let converted = whole_of(wire, &events);
            let whole = with_content_of_chat(format, serde_json::from_str(&whole).unwrap());
            assert_eq!(
                without_ids(converted.clone()),
                without_ids(whole),
                "{format:?} {question}"
            );
            let reply = read_events(wire, &events);
            same_reply(format, read_whole(wire, &converted), reply.clone());
            // And back.
            assert_eq!(read_events(wire, &events_of(wire, &converted)), reply);
        }
    }
}

#[tokio::test]
async fn a_whole_answer_becomes_a_stream() {
    for format in FORMATS {
        let wire = for_format(format);
        for question in questions(format) {
            let whole = ask(format, question, false).await;
            let whole = with_content_of_chat(format, serde_json::from_str(&whole).unwrap());
            let events = ask(format, question, true).await;
            let converted = events_of(wire, &whole);
            assert_eq!(whole_of(wire, &converted), whole);
            let reply = read_whole(wire, &whole);
            same_reply(format, read_events(wire, &converted), reply);
            // The events are of the same kinds, with the same members, as those of the simulator.
            let (converted, events) = (shapes(&converted), shapes(&events));
            for (ours, theirs) in converted.iter().zip(&events) {
                assert_eq!(ours, theirs, "{format:?} {question}");
            }
            assert_eq!(converted.len(), events.len(), "{format:?} {question}");
        }
    }
}

/// The kinds of events in order, each with the paths of its members, without repetitions. Details of the output, which
/// the simulator reports at the start of a message, too, and IDs of events are left out.
fn shapes(events: &str) -> Vec<Value> {
    fn shape(value: &Value) -> Value {
        match value {
            Value::Object(object) => {
                let members = object.iter();
                let is_left_out =
                    |name: &str| ["event_id", "output_tokens_details"].contains(&name);
                let members = members.filter(|(name, _)| !is_left_out(name));
                let mut members: Vec<_> = members.collect();
                members.sort_by_key(|(name, _)| *name);
                let members = members.into_iter();
                members
                    .map(|(name, value)| (name.clone(), shape(value)))
                    .collect()
            }
            Value::Array(list) => list.iter().map(shape).collect(),
            Value::String(text) if text.starts_with("response.") => text.as_str().into(),
            Value::String(_) => "text".into(),
            Value::Number(_) => "number".into(),
            other => other.clone(),
        }
    }
    let mut shapes: Vec<Value> = data_of(events).iter().map(shape).collect();
    shapes.dedup();
    shapes
}
