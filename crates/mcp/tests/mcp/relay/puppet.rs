//! A server that says what the client tells it to say, word for word. Not a server of the protocol: its messages need not
//! make sense.
//!
//! | method | what it does |
//! |---|---|
//! | `test/say` | sends the texts of `params.say`, with `$ID` and `$TOKEN` of the request |
//! | `test/ask` | sends the request `params.ask`, and answers with the text of the client's response |
//! | `test/wait` | does not answer |
//! | `test/log` | answers with the texts of all messages so far |
//! | `test/exit` | ends the process with status 7, after a last line on stderr |
//! | `tools/list` | lists one tool, `t` |
//! | others | answers with the text of the request |

use serde_json::{Value, json};

#[derive(Default)]
pub(crate) struct Puppet {
    log: Vec<String>,
    /// The id of the request that waits for the client's response.
    asking: Option<Value>,
    /// Responses that the server behind HTTP sends on the streams of their requests.
    responses: Vec<String>,
}

impl Puppet {
    pub(crate) fn keep_response(&mut self, response: String) {
        self.responses.push(response);
    }

    pub(crate) fn take_response(&mut self, id: &Value) -> Option<String> {
        let is_sought = |text: &String| serde_json::from_str::<Value>(text).unwrap()["id"] == *id;
        let at = self.responses.iter().position(is_sought)?;
        Some(self.responses.remove(at))
    }

    /// Returns the messages that answer a message.
    pub(crate) fn answer(&mut self, text: &str) -> Vec<String> {
        self.log.push(text.to_owned());
        let message: Value = serde_json::from_str(text).unwrap();
        let id = message["id"].clone();
        let result =
            |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
        let Some(method) = message["method"].as_str() else {
            let Some(asking) = self.asking.take() else {
                return Vec::new();
            };
            let answer = json!({"jsonrpc": "2.0", "id": asking, "result": {"got": text}});
            return vec![answer.to_string()];
        };
        if id.is_null() {
            return Vec::new();
        }
        let params = &message["params"];
        match method {
            "test/say" => {
                let token = params["_meta"]["progressToken"].to_string();
                let texts = params["say"].as_array().unwrap().iter();
                let filled = texts.map(|text| {
                    let text = text.as_str().unwrap();
                    text.replace("$ID", &id.to_string())
                        .replace("$TOKEN", &token)
                });
                filled.collect()
            }
            "test/ask" => {
                self.asking = Some(id);
                vec![params["ask"].as_str().unwrap().to_owned()]
            }
            "test/wait" => Vec::new(),
            "test/log" => vec![result(json!(self.log))],
            "test/exit" => {
                super::super::program::say("out of cheese");
                std::process::exit(7);
            }
            "initialize" => vec![result(json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "serverInfo": {"name": "puppet", "version": "1"},
                "got": text,
            }))],
            "tools/list" => vec![result(json!({
                "tools": [{"name": "t", "inputSchema": {"type": "object"}}],
                "ttlMs": 5,
                "cacheScope": "public",
            }))],
            _ => vec![result(json!({"got": text}))],
        }
    }
}
