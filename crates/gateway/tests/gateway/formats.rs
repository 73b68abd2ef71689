//! Requests and answers of each API, as small as they can be.

use serde_json::{Value, json};

/// An API of models.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    Chat,
    Responses,
    Messages,
    Gemini,
    Interactions,
}

pub(crate) const APIS: [Api; 5] = [
    Api::Chat,
    Api::Responses,
    Api::Messages,
    Api::Gemini,
    Api::Interactions,
];

impl Api {
    pub(crate) fn path(self, is_streamed: bool) -> &'static str {
        match (self, is_streamed) {
            (Self::Chat, _) => "/v1/chat/completions",
            (Self::Responses, _) => "/v1/responses",
            (Self::Messages, _) => "/v1/messages",
            (Self::Gemini, false) => "/v1beta/models/gemini-2.5-flash:generateContent",
            (Self::Gemini, true) => "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
            (Self::Interactions, _) => "/v1beta/interactions",
        }
    }

    /// A request whose answer is repeatable.
    pub(crate) fn request(self, text: &str, is_streamed: bool) -> Value {
        let message = json!([{"role": "user", "content": text}]);
        let mut body = match self {
            Self::Chat => json!({"model": "gpt-4o-mini", "temperature": 0, "messages": message}),
            Self::Responses => json!({
                "model": "gpt-4o-mini", "temperature": 0, "store": false, "input": text,
            }),
            Self::Messages => json!({
                "model": "claude-3-5-haiku-20241022", "max_tokens": 100, "temperature": 0,
                "messages": message,
            }),
            Self::Interactions => json!({
                "model": "gemini-2.5-flash", "store": false, "input": text,
                "generation_config": {"temperature": 0},
            }),
            Self::Gemini => {
                return json!({
                    "contents": [{"role": "user", "parts": [{"text": text}]}],
                    "generationConfig": {"temperature": 0},
                });
            }
        };
        if is_streamed {
            body["stream"] = json!(true);
        }
        body
    }

    /// A complete answer.
    pub(crate) fn answer(self, text: &str, is_streamed: bool) -> String {
        if is_streamed {
            self.events(text).concat()
        } else {
            self.document(text).to_string()
        }
    }

    /// A whole answer.
    pub(crate) fn document(self, text: &str) -> Value {
        match self {
            Self::Chat => json!({
                "id": "chatcmpl-1", "object": "chat.completion", "created": 1,
                "model": "gpt-4o-mini",
                "choices": [{"index": 0, "message": {"role": "assistant", "content": text},
                    "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5},
            }),
            Self::Responses => json!({
                "id": "resp_1", "object": "response", "created_at": 1, "status": "completed",
                "model": "gpt-4o-mini", "output": [output_item(text)],
                "usage": {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5},
            }),
            Self::Messages => json!({
                "id": "msg_1", "type": "message", "role": "assistant",
                "model": "claude-3-5-haiku-20241022",
                "content": [{"type": "text", "text": text}],
                "stop_reason": "end_turn", "stop_sequence": null,
                "usage": {"input_tokens": 3, "output_tokens": 2},
            }),
            Self::Gemini => gemini(text, true),
            Self::Interactions => {
                let mut interaction = interaction();
                let content = json!([{"type": "text", "text": text}]);
                interaction["steps"] = json!([{"type": "model_output", "content": content}]);
                interaction
            }
        }
    }

    /// The events of a streamed answer, each with the blank line that ends it.
    pub(crate) fn events(self, text: &str) -> Vec<String> {
        let half = text.char_indices().nth(text.chars().count() / 2);
        let (one, two) = text.split_at(half.map_or(0, |(at, _)| at));
        match self {
            Self::Chat => {
                let chunk = |delta: Value, end: Value| {
                    let choice = json!({"index": 0, "delta": delta, "finish_reason": end});
                    data(&json!({
                        "id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1,
                        "model": "gpt-4o-mini", "choices": [choice],
                    }))
                };
                vec![
                    chunk(json!({"role": "assistant", "content": one}), Value::Null),
                    chunk(json!({"content": two}), Value::Null),
                    chunk(json!({}), json!("stop")),
                    "data: [DONE]\n\n".to_owned(),
                ]
            }
            Self::Responses => {
                let delta = |text: &str, number: u8| {
                    json!({"type": "response.output_text.delta", "sequence_number": number,
                        "item_id": "msg_1", "output_index": 0, "content_index": 0, "delta": text})
                };
                let start = json!({"id": "resp_1", "object": "response", "created_at": 1,
                    "status": "in_progress", "model": "gpt-4o-mini", "output": []});
                let item = json!({"type": "message", "id": "msg_1", "status": "in_progress",
                    "role": "assistant", "content": []});
                vec![
                    named(
                        &json!({"type": "response.created", "sequence_number": 0, "response": start}),
                    ),
                    named(
                        &json!({"type": "response.output_item.added", "sequence_number": 1,
                            "output_index": 0, "item": item}),
                    ),
                    named(
                        &json!({"type": "response.content_part.added", "sequence_number": 2,
                            "item_id": "msg_1", "output_index": 0, "content_index": 0,
                            "part": {"type": "output_text", "text": "", "annotations": []}}),
                    ),
                    named(&delta(one, 3)),
                    named(&delta(two, 4)),
                    named(
                        &json!({"type": "response.output_text.done", "sequence_number": 5,
                            "item_id": "msg_1", "output_index": 0, "content_index": 0,
                            "text": text}),
                    ),
                    named(
                        &json!({"type": "response.content_part.done", "sequence_number": 6,
                            "item_id": "msg_1", "output_index": 0, "content_index": 0,
                            "part": {"type": "output_text", "text": text, "annotations": []}}),
                    ),
                    named(
                        &json!({"type": "response.output_item.done", "sequence_number": 7,
                            "output_index": 0, "item": output_item(text)}),
                    ),
                    named(&json!({"type": "response.completed", "sequence_number": 8,
                            "response": self.document(text)})),
                ]
            }
            Self::Messages => {
                let delta = |text: &str| {
                    named(&json!({"type": "content_block_delta", "index": 0,
                            "delta": {"type": "text_delta", "text": text}}))
                };
                let mut start = self.document("");
                start["content"] = json!([]);
                start["stop_reason"] = Value::Null;
                start["usage"]["output_tokens"] = json!(1);
                vec![
                    named(&json!({"type": "message_start", "message": start})),
                    named(&json!({"type": "content_block_start", "index": 0,
                            "content_block": {"type": "text", "text": ""}})),
                    delta(one),
                    delta(two),
                    named(&json!({"type": "content_block_stop", "index": 0})),
                    named(&json!({"type": "message_delta",
                            "delta": {"stop_reason": "end_turn", "stop_sequence": null},
                            "usage": {"output_tokens": 2}})),
                    named(&json!({"type": "message_stop"})),
                ]
            }
            Self::Gemini => vec![data(&gemini(one, false)), data(&gemini(two, true))],
            Self::Interactions => {
                let delta = |text: &str| {
                    named(&json!({"event_type": "step.delta", "index": 0,
                            "delta": {"type": "text", "text": text}}))
                };
                vec![
                    named(&json!({"event_type": "interaction.created",
                            "interaction": {"id": "v1_1", "status": "in_progress"}})),
                    named(&json!({"event_type": "step.start", "index": 0,
                            "step": {"type": "model_output"}})),
                    delta(one),
                    delta(two),
                    named(&json!({"event_type": "step.stop", "index": 0})),
                    named(&json!({"event_type": "interaction.completed",
                            "interaction": interaction()})),
                ]
            }
        }
    }

    /// The document of an error, as it may come with status 200.
    pub(crate) fn error(self) -> Value {
        match self {
            Self::Chat | Self::Responses => json!({
                "error": {"message": "overloaded", "type": "server_error", "code": null},
            }),
            Self::Messages => json!({
                "type": "error", "error": {"type": "overloaded_error", "message": "overloaded"},
            }),
            Self::Gemini | Self::Interactions => json!({
                "error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"},
            }),
        }
    }

    /// An error as an event of a stream.
    pub(crate) fn error_event(self) -> String {
        match self {
            Self::Chat | Self::Gemini => data(&self.error()),
            Self::Messages => named(&self.error()),
            Self::Interactions => {
                let mut error = self.error();
                error["event_type"] = json!("error");
                named(&error)
            }
            Self::Responses => named(
                &json!({"type": "error", "code": "server_error", "message": "overloaded",
                    "param": null, "sequence_number": 3}),
            ),
        }
    }

    /// The text of an answer, whose bytes must be complete.
    pub(crate) fn text(self, is_streamed: bool, body: &str) -> String {
        let whole: &[&str] = match self {
            Self::Chat => &["/choices/0/message/content"],
            Self::Responses => &["/output/0/content/0/text"],
            Self::Messages => &["/content/0/text"],
            Self::Gemini => &["/candidates/0/content/parts/0/text"],
            Self::Interactions => &["/steps/0/content/0/text"],
        };
        let part = match self {
            Self::Chat => "/choices/0/delta/content",
            Self::Responses => "/delta",
            Self::Messages | Self::Interactions => "/delta/text",
            Self::Gemini => "/candidates/0/content/parts/0/text",
        };
        let text = |document: &Value, at: &str| {
            let text = document.pointer(at).and_then(Value::as_str);
            text.unwrap_or_default().to_owned()
        };
        if !is_streamed {
            return text(&serde_json::from_str(body).unwrap(), whole[0]);
        }
        let events = body.lines().filter_map(|line| line.strip_prefix("data:"));
        events
            .filter_map(|event| serde_json::from_str(event.trim()).ok())
            .map(|event: Value| text(&event, part))
            .collect()
    }
}

fn output_item(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": []}]})
}

fn gemini(text: &str, is_last: bool) -> Value {
    let mut document = json!({
        "candidates": [{"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}],
        "modelVersion": "gemini-2.5-flash", "responseId": "r1",
    });
    if is_last {
        document["candidates"][0]["finishReason"] = json!("STOP");
        document["usageMetadata"] =
            json!({"promptTokenCount": 3, "candidatesTokenCount": 2, "totalTokenCount": 5});
    }
    document
}

/// An interaction without its steps.
fn interaction() -> Value {
    json!({
        "id": "v1_1", "object": "interaction", "model": "gemini-2.5-flash", "status": "completed",
        "usage": {"total_input_tokens": 3, "total_output_tokens": 2, "total_tokens": 5},
    })
}

/// An event without a name.
fn data(data: &Value) -> String {
    format!("data: {data}\n\n")
}

/// An event that is named after its type.
fn named(data: &Value) -> String {
    format!(
        "event: {}\ndata: {data}\n\n",
        data.get("type")
            .unwrap_or(&data["event_type"])
            .as_str()
            .unwrap_or_default()
    )
}
