//! The part of the test server that asks the client, and does calls as tasks.

use serde_json::{Value, json};

/// The ID of its requests to the client.
const REQUEST: &str = "request";

/// The state of its tasks and requests.
#[derive(Default)]
pub(crate) struct Tasks {
    /// The call that waits for the client's answer.
    waiting: Option<Value>,
    polls: u32,
    /// The answer of the client to the request of a task.
    answer: Option<Value>,
    /// Set when the locked tool was called once.
    unlocked: bool,
}

pub(crate) fn tools() -> Vec<Value> {
    let text = json!({ "type": "object", "properties": { "text": { "type": "string" } } });
    [
        "question", "roots", "sample", "research", "endless", "failing", "locked",
    ]
    .map(|name| {
        let mut tool = json!({ "name": name, "inputSchema": text });
        if ["research", "endless"].contains(&name) {
            tool["execution"] = json!({ "taskSupport": "required" });
        }
        tool
    })
    .into()
}

impl Tasks {
    /// The messages that answer a message; `None` if it is about something else.
    pub(crate) fn answer(&mut self, message: &Value, modern: bool) -> Option<Vec<Value>> {
        let (id, params) = (&message["id"], &message["params"]);
        if id == REQUEST && message.get("method").is_none() {
            let call = self.waiting.take()?;
            let answer = message.get("result").unwrap_or(&message["error"]);
            return Some(vec![result(&call, text(&answer.to_string()))]);
        }
        let ask = |method: &str, params: Value| {
            vec![json!({ "jsonrpc": "2.0", "id": REQUEST, "method": method, "params": params })]
        };
        let tool = params["name"].as_str().unwrap_or_default();
        let task = &params["taskId"];
        Some(match (message["method"].as_str()?, tool) {
            ("tools/call", "question" | "roots" | "sample") => {
                self.waiting = Some(id.clone());
                let given = params["arguments"]["text"].as_str().unwrap_or("{}");
                let given: Value = serde_json::from_str(given).ok()?;
                match tool {
                    "question" => ask("elicitation/create", given),
                    "roots" => ask("roots/list", json!({})),
                    _ if modern => {
                        let request =
                            json!({ "method": "sampling/createMessage", "params": given });
                        let asked = json!({ "resultType": "input_required", "requestState": "s", "inputRequests": { "m": request } });
                        return Some(vec![match params.get("inputResponses") {
                            None => result(id, asked),
                            Some(answers) => result(id, text(&answers["m"].to_string())),
                        }]);
                    }
                    _ => ask("sampling/createMessage", given),
                }
            }
            ("tools/call", "research" | "endless") if !modern => {
                if params.get("task").is_none() {
                    let error = json!({ "code": -32601, "message": "only as a task" });
                    return Some(vec![json!({ "jsonrpc": "2.0", "id": id, "error": error })]);
                }
                vec![result(id, json!({ "task": legacy_task(tool, "working") }))]
            }
            ("tools/call", "endless" | "failing") => {
                let mut task = modern_task(tool, "working");
                task["resultType"] = json!("task");
                vec![result(id, task)]
            }
            ("tools/call", "locked") if !std::mem::replace(&mut self.unlocked, true) => {
                let page = json!({ "mode": "url", "elicitationId": "1", "url": "https://login.example/", "message": "Sign in." });
                let error = json!({ "code": -32042, "message": "first sign in", "data": { "elicitations": [page] } });
                vec![json!({ "jsonrpc": "2.0", "id": id, "error": error })]
            }
            ("tools/call", "locked") => vec![result(id, text("unlocked"))],
            ("tasks/get", _) if !modern => {
                self.polls += 1;
                let ends = task == "research" && self.polls > 1;
                let status = if ends { "completed" } else { "working" };
                vec![result(id, legacy_task(task.as_str()?, status))]
            }
            ("tasks/get", _) => vec![result(id, self.modern_state(task.as_str()?))],
            ("tasks/result", _) => vec![result(id, text("researched"))],
            ("tasks/update", _) => {
                self.answer = Some(params["inputResponses"]["q"].clone());
                vec![result(id, json!({ "resultType": "complete" }))]
            }
            ("tasks/cancel", _) => {
                vec![result(id, legacy_task(task.as_str()?, "cancelled"))]
            }
            _ => return None,
        })
    }

    fn modern_state(&self, task: &str) -> Value {
        let mut state = match (task, &self.answer) {
            ("failing", _) => {
                let mut state = modern_task(task, "failed");
                state["error"] = json!({ "code": -7, "message": "no swordfish" });
                state
            }
            (_, Some(answer)) => {
                let mut state = modern_task(task, "completed");
                state["result"] = text(&answer.to_string());
                state
            }
            (_, None) => {
                let mut state = modern_task(task, "input_required");
                let schema =
                    json!({ "type": "object", "properties": { "name": { "type": "string" } } });
                state["inputRequests"] = json!({ "q": {
                    "method": "elicitation/create",
                    "params": { "mode": "form", "message": "Who?", "requestedSchema": schema },
                } });
                state
            }
        };
        state["resultType"] = json!("complete");
        state
    }
}

fn result(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

fn text(text: &str) -> Value {
    json!({ "content": [{ "type": "text", "text": text }] })
}

fn legacy_task(id: &str, status: &str) -> Value {
    json!({
        "taskId": id, "status": status, "statusMessage": "reading", "ttl": null, "pollInterval": 60,
        "createdAt": "2025-11-25T10:00:00Z", "lastUpdatedAt": "2025-11-25T10:00:00Z",
    })
}

fn modern_task(id: &str, status: &str) -> Value {
    json!({
        "taskId": id, "status": status, "ttlMs": null, "pollIntervalMs": 60,
        "createdAt": "2026-07-28T10:00:00Z", "lastUpdatedAt": "2026-07-28T10:00:00Z",
    })
}
