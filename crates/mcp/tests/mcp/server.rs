//! An MCP server whose answers depend only on earlier messages.

use serde_json::{Value, json};

use super::tasks::Tasks;

/// Behavior of a server.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ServerBehavior {
    /// It knows no handshake: the newest protocol only.
    pub(crate) modern: bool,
    /// Some of its tools are malformed.
    pub(crate) malformed: bool,
    /// It has one more tool from the second listing on, and says so.
    pub(crate) restless: bool,
    /// It announces a list after the first listing, and writes the same tools in another order then.
    pub(crate) shuffled: bool,
    /// It has tools that ask the client, and tools that are tasks.
    pub(crate) asking: bool,
    /// The code with which a server without a handshake refuses it; 0 for that of an unknown method.
    pub(crate) refusal: i64,
}

/// In place of a message: so many milliseconds pass.
pub(crate) const SLEEP: &str = "@sleep";

/// A server.
pub(crate) struct Server {
    behavior: ServerBehavior,
    /// Set when it has one more tool than at the start.
    more: bool,
    reads: u64,
    /// The request that asked for announcements.
    subscription: Option<Value>,
    tasks: Tasks,
}

/// Its instructions.
pub(crate) const INSTRUCTIONS: &str = "Look before you change; the word is swordfish.";

/// The page size of its lists.
const PAGE: usize = 3;

impl Server {
    pub(crate) fn new(behavior: ServerBehavior) -> Self {
        Self {
            behavior,
            more: false,
            reads: 0,
            subscription: None,
            tasks: Tasks::default(),
        }
    }

    /// The messages that answer a message, in order. None for a request: no answer.
    pub(crate) fn answer(&mut self, message: &Value) -> Vec<Value> {
        let params = &message["params"];
        let id = &message["id"];
        if self.behavior.asking
            && let Some(answers) = self.tasks.answer(message, self.behavior.modern)
        {
            return answers;
        }
        let result = match message["method"].as_str().unwrap_or_default() {
            "initialize" if self.behavior.modern => {
                let code = match self.behavior.refusal {
                    0 => -32601,
                    code => code,
                };
                return vec![error(id, code, "no handshake any more")];
            }
            "initialize" => json!({
                "protocolVersion": "2025-11-25", "capabilities": capabilities(self.behavior.asking),
                "serverInfo": { "name": "test", "version": "1" }, "instructions": INSTRUCTIONS,
            }),
            "server/discover" if self.behavior.modern => json!({
                "resultType": "complete", "supportedVersions": ["2026-07-28"],
                "capabilities": capabilities(false), "ttlMs": 0, "cacheScope": "private",
                "instructions": INSTRUCTIONS,
            }),
            "subscriptions/listen" if self.behavior.modern => {
                self.subscription = Some(id.clone());
                let meta = json!({ "io.modelcontextprotocol/subscriptionId": id });
                return vec![json!({
                    "jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
                    "params": { "_meta": meta, "notifications": params["notifications"] },
                })];
            }
            "tools/list" if self.behavior.restless && !self.more => {
                self.more = true;
                let changed =
                    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                let listed = page("tools", tools(false, false), params);
                let listed = json!({ "jsonrpc": "2.0", "id": id, "result": listed });
                return vec![changed, json!({ SLEEP: 50 }), listed];
            }
            "tools/list" if self.behavior.shuffled && self.more => {
                let mut tools = tools(false, false);
                tools.reverse();
                page("tools", tools, params)
            }
            "prompts/list" if self.behavior.shuffled && !self.more => {
                self.more = true;
                let listed = page("prompts", prompts(), params);
                let listed = json!({ "jsonrpc": "2.0", "id": id, "result": listed });
                let changed = |list: &str| json!({ "jsonrpc": "2.0", "method": format!("notifications/{list}/list_changed") });
                return vec![
                    listed,
                    json!({ SLEEP: 50 }),
                    changed("tools"),
                    changed("resources"),
                ];
            }
            "tools/list" => {
                let mut tools = tools(self.more, self.behavior.malformed);
                if self.behavior.asking {
                    tools.retain(|tool| tool["name"] != "research");
                    tools.extend(super::tasks::tools());
                }
                page("tools", tools, params)
            }
            "resources/list" => page("resources", resources(), params),
            "resources/templates/list" => page("resourceTemplates", templates(), params),
            "prompts/list" => page("prompts", prompts(), params),
            "tools/call" => return self.call(id, params),
            "resources/read" => return self.read(id, params),
            "resources/subscribe" => json!({}),
            "prompts/get" => json!({ "messages": [
                { "role": "user", "content": { "type": "text", "text": format!("Review {}", params["arguments"]["code"]) } },
                { "role": "assistant", "content": { "type": "text", "text": "Gladly." } },
            ] }),
            _ if id.is_null() => return Vec::new(),
            other => return vec![error(id, -32601, &format!("no method {other}"))],
        };
        vec![json!({ "jsonrpc": "2.0", "id": id, "result": result })]
    }

    fn call(&mut self, id: &Value, params: &Value) -> Vec<Value> {
        let arguments = &params["arguments"];
        let text = |text: String| json!({ "content": [{ "type": "text", "text": text }] });
        let result = match params["name"].as_str().unwrap_or_default() {
            "json" => return vec![raw_answer(id, arguments["text"].as_str().unwrap())],
            "announce" => {
                let messages = arguments["text"].as_str().unwrap();
                let mut messages: Vec<Value> = serde_json::from_str(messages).unwrap();
                let answer =
                    json!({ "jsonrpc": "2.0", "id": id, "result": text("announced".to_owned()) });
                messages.push(answer);
                return messages;
            }
            "echo" => text(arguments["text"].as_str().unwrap_or_default().to_owned()),
            "add" => {
                json!({ "structuredContent": { "sum": arguments["a"].as_i64().unwrap_or(0) + arguments["b"].as_i64().unwrap_or(0) } })
            }
            "picture" => {
                json!({ "content": [{ "type": "image", "data": "AAAA", "mimeType": "image/png" }] })
            }
            "fail" => {
                json!({ "content": [{ "type": "text", "text": "it failed" }], "isError": true })
            }
            "refuse" => return vec![error(id, -32602, "not like this")],
            "variable" => text(
                std::env::var(arguments["text"].as_str().unwrap_or_default())
                    .unwrap_or_else(|_| "unset".to_owned()),
            ),
            "directory" => text(std::env::current_dir().unwrap().display().to_string()),
            "process" => text(std::process::id().to_string()),
            "child" => text(sleeping_child().to_string()),
            "slow" => return Vec::new(),
            "large" => text("x".repeat(200_000)),
            "large_stream" => {
                let progress = progress(params, 1, "soon");
                let answer =
                    json!({ "result": text("x".repeat(200_000)), "jsonrpc": "2.0", "id": id });
                return vec![progress, answer];
            }
            "work" => return work(id, params, arguments["steps"].as_u64().unwrap_or(1)),
            "note" => {
                let note = json!({
                    "jsonrpc": "2.0", "method": "notifications/message",
                    "params": { "level": "info", "data": "the swordfish swims" },
                });
                let answer =
                    json!({ "jsonrpc": "2.0", "id": id, "result": text("noted".to_owned()) });
                // Written as it is: a value in memory would not keep the digits.
                let number = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":12345678901234567890123}}"#;
                return vec![note, json!(number), json!("plain words"), answer];
            }
            "hologram" => {
                json!({ "content": [{ "type": "hologram" }, { "type": "text", "text": "flat" }] })
            }
            "nonsense" => json!({ "content": 5 }),
            "die" => {
                super::program::say("out of swordfish");
                std::process::exit(3);
            }
            "more" => {
                self.more = true;
                let mut changed =
                    json!({ "jsonrpc": "2.0", "method": "notifications/tools/list_changed" });
                if let Some(subscription) = &self.subscription {
                    changed["params"] = json!({ "_meta": { "io.modelcontextprotocol/subscriptionId": subscription } });
                }
                let answer =
                    json!({ "jsonrpc": "2.0", "id": id, "result": text("more".to_owned()) });
                return vec![changed, answer];
            }
            "ask" => {
                json!({ "resultType": "input_required", "requestState": "s", "inputRequests": {} })
            }
            other => text(format!("{other} ran")),
        };
        vec![json!({ "jsonrpc": "2.0", "id": id, "result": result })]
    }

    fn read(&mut self, id: &Value, params: &Value) -> Vec<Value> {
        let uri = params["uri"].as_str().unwrap_or_default();
        self.reads += 1;
        if let Some(result) = uri.strip_prefix("test://json/") {
            let result = percent_encoding::percent_decode_str(result);
            let result = result.decode_utf8().unwrap();
            let result = result.replace("@N", &self.reads.to_string());
            return vec![raw_answer(id, &result)];
        }
        let contents = json!([{ "uri": uri, "text": format!("{uri}, read {}", self.reads) }]);
        let result = match uri {
            "test://mine" => {
                json!({ "contents": contents, "ttlMs": 60_000, "cacheScope": "private" })
            }
            "test://ours" => {
                json!({ "contents": contents, "ttlMs": 1_500, "cacheScope": "public" })
            }
            _ => json!({ "contents": contents }),
        };
        let answer = json!({ "jsonrpc": "2.0", "id": id, "result": result });
        if uri.starts_with("test://racing/") {
            vec![updated(uri), answer]
        } else {
            vec![answer]
        }
    }
}

/// The announcement that a resource was updated.
pub(crate) fn updated(uri: &str) -> Value {
    let method = "notifications/resources/updated";
    json!({ "jsonrpc": "2.0", "method": method, "params": { "uri": uri } })
}

/// The announcement that a list changed.
pub(crate) fn list_changed(list: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": format!("notifications/{list}/list_changed") })
}

/// An answer whose result is this text, written as it is.
fn raw_answer(id: &Value, result: &str) -> Value {
    json!(format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}"
    ))
}

fn progress(params: &Value, step: u64, message: &str) -> Value {
    json!({
        "jsonrpc": "2.0", "method": "notifications/progress",
        "params": {
            "progressToken": params["_meta"]["progressToken"],
            "progress": step, "total": 3, "message": message,
        },
    })
}

/// An answer that takes 300 ms a step.
fn work(id: &Value, params: &Value, steps: u64) -> Vec<Value> {
    let mut messages = Vec::new();
    for step in 1..=steps {
        messages.push(progress(params, step, "swordfish"));
        messages.push(json!({ SLEEP: 300 }));
    }
    let result = json!({ "content": [{ "type": "text", "text": "worked" }] });
    messages.push(json!({ "jsonrpc": "2.0", "id": id, "result": result }));
    messages
}

fn sleeping_child() -> u32 {
    use std::process::{Command, Stdio};
    let mut sleep = Command::new("sleep");
    sleep
        .arg("100")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    sleep.spawn().unwrap().id()
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

fn capabilities(tasks: bool) -> Value {
    let mut capabilities = json!({
        "tools": { "listChanged": true }, "resources": { "listChanged": true, "subscribe": true }, "prompts": {}, "logging": {},
    });
    if tasks {
        capabilities["tasks"] = json!({ "cancel": {}, "requests": { "tools": { "call": {} } } });
    }
    capabilities
}

fn page(key: &str, all: Vec<Value>, params: &Value) -> Value {
    let start: usize = params["cursor"]
        .as_str()
        .map_or(0, |cursor| cursor.parse().unwrap());
    let end = (start + PAGE).min(all.len());
    let mut page = json!({ key: all[start..end] });
    if end < all.len() {
        page["nextCursor"] = end.to_string().into();
    }
    page
}

fn tools(more: bool, malformed: bool) -> Vec<Value> {
    let text = json!({ "type": "object", "properties": { "text": { "type": "string" } }, "required": ["text"] });
    let none = json!({ "type": "object" });
    let tool = |name: &str, schema: &Value| json!({ "name": name, "description": format!("The tool {name}."), "inputSchema": schema });
    let mut tools = vec![
        tool("echo", &text),
        tool("json", &text),
        tool("announce", &text),
        tool("variable", &text),
        json!({ "name": "add", "inputSchema": { "properties": { "a": { "type": "integer" }, "b": { "type": "integer" } } } }),
    ];
    if malformed {
        // Listed twice, and only once with its hint.
        tools.push(tool("twice", &text));
        let mut hinted = tool("twice", &text);
        hinted["annotations"] = json!({ "readOnlyHint": false });
        tools.push(hinted);
        tools.push(json!({ "name": "bare" }));
        tools.push(tool("listed", &json!({ "type": "array" })));
        tools.push(tool(
            "typo",
            &json!({ "type": "object", "properties": { "a": { "type": "strng" } } }),
        ));
    }
    let steps = json!({ "type": "object", "properties": { "steps": { "type": "integer" } } });
    tools.push(tool("work", &steps));
    for name in [
        "large",
        "large_stream",
        "note",
        "hologram",
        "nonsense",
        "picture",
        "fail",
        "refuse",
        "directory",
        "process",
        "child",
        "slow",
        "die",
        "more",
        "ask",
        "weird name/é",
    ] {
        tools.push(tool(name, &none));
    }
    let hinted = |name: &str, hints: Value| {
        let mut hinted = tool(name, &none);
        hinted["annotations"] = hints;
        hinted
    };
    tools.push(hinted("look", json!({ "readOnlyHint": true })));
    tools.push(hinted("change", json!({ "readOnlyHint": false })));
    tools.push(hinted(
        "destroy",
        json!({ "readOnlyHint": true, "destructiveHint": true }),
    ));
    let mut task = tool("research", &none);
    task["execution"] = json!({ "taskSupport": "required" });
    tools.push(task);
    if more {
        tools.push(tool("added", &none));
    }
    tools
}

fn resources() -> Vec<Value> {
    [
        ("test://mine", "mine"),
        ("test://ours", "ours"),
        ("test://other", "other"),
        ("test://twin", "other"),
    ]
    .map(|(uri, name)| json!({ "uri": uri, "name": name, "description": "Something to read." }))
    .into()
}

fn templates() -> Vec<Value> {
    vec![
        json!({ "uriTemplate": "test://users/{id}{?full}", "name": "user" }),
        json!({ "uriTemplate": "test://json/{text}", "name": "json" }),
        json!({ "uriTemplate": "test://counted/{name}", "name": "counted" }),
        json!({ "uriTemplate": "test://racing/{name}", "name": "racing" }),
        json!({ "uriTemplate": "test://broken/{", "name": "broken" }),
    ]
}

fn prompts() -> Vec<Value> {
    vec![json!({
        "name": "review", "description": "Reviews code.",
        "arguments": [{ "name": "code", "description": "The code.", "required": true }, { "name": "style" }],
    })]
}
