//! The built-in scenario through three of the formats.

use std::collections::HashMap;

use cachalot_simulator::{RunningSimulator, Script};
use serde_json::{Value, json};

use crate::{CHAT, MESSAGES, RESPONSES, ask, post, said, smallest, start, with};

const ALL: [&str; 3] = [CHAT, RESPONSES, MESSAGES];

#[tokio::test]
async fn translations_are_marked_as_simulated() {
    let running = start(Script::built_in()).await;
    for path in ALL {
        let answer = ask(
            &running,
            path,
            &smallest(path, "Translate to French: good morning"),
        )
        .await;
        assert_eq!(said(path, &answer), "[simulated French] good morning");
        let answer = ask(&running, path, &smallest(path, "Who are you?")).await;
        let text = said(path, &answer);
        assert!(
            text.contains("simulator") && text.contains("Who are you?"),
            "{text}"
        );
    }
}

#[tokio::test]
async fn faults_are_requested_by_message() {
    let running = start(Script::built_in()).await;
    for path in ALL {
        let got = post(&running, path, &smallest(path, "simulate 429")).await;
        assert_eq!((got.status, got.header("retry-after")), (429, "1"));
        assert_eq!(
            post(&running, path, &smallest(path, "simulate 500"))
                .await
                .status,
            500
        );
    }
}

#[tokio::test]
async fn required_schemas_are_followed() {
    let running = start(Script::built_in()).await;
    let schema = json!({"type": "object", "additionalProperties": false, "required": ["city", "days"],
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}}});
    let format = json!({"type": "json_schema", "name": "trip", "strict": true, "schema": schema});
    let wants = [
        json!({"response_format": {"type": "json_schema", "json_schema": {"name": "trip", "strict": true, "schema": schema}}}),
        json!({"text": {"format": format}}),
        json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
    ];
    for (path, want) in ALL.into_iter().zip(wants) {
        let answer = ask(&running, path, &with(smallest(path, "Plan."), want)).await;
        let found: Value = serde_json::from_str(&said(path, &answer)).unwrap();
        assert_eq!(found, json!({"city": "simulated", "days": 1}), "{path}");
    }
}

/// A client that runs the tools that it is asked for, against files in memory.
struct Coder<'a> {
    running: &'a RunningSimulator,
    path: &'static str,
    files: HashMap<String, String>,
    conversation: Vec<Value>,
    called: Vec<Vec<String>>,
}

impl Coder<'_> {
    fn request(&self) -> Value {
        let names = ["read_file", "edit_file", "grep"];
        let schema = json!({"type": "object"});
        let tools = names.map(|name| match self.path {
            CHAT => json!({"type": "function", "function": {"name": name, "parameters": schema}}),
            RESPONSES => json!({"type": "function", "name": name, "parameters": schema}),
            _ => json!({"name": name, "input_schema": schema}),
        });
        let key = if self.path == RESPONSES {
            "input"
        } else {
            "messages"
        };
        with(
            smallest(self.path, ""),
            json!({"tools": tools, key: self.conversation}),
        )
    }

    fn run(&mut self, name: &str, arguments: &Value) -> String {
        let of = |key: &str| arguments[key].as_str().unwrap().to_owned();
        let file = self
            .files
            .get_mut(&of("path"))
            .expect("the file that was asked for");
        match name {
            "read_file" => {
                let lines = file.lines().enumerate();
                lines
                    .map(|(at, line)| format!("{:>6}\t{line}\n", at + 1))
                    .collect()
            }
            "grep" => format!("{} matches", file.matches(&of("pattern")).count()),
            _ => {
                assert_eq!(file.matches(&of("old_text")).count(), 1);
                *file = file.replace(&of("old_text"), &of("new_text"));
                "edited".to_owned()
            }
        }
    }

    /// The calls of an answer: id, name, arguments. The answer becomes a part of the conversation.
    fn take(&mut self, answer: &Value) -> Vec<(String, String, Value)> {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let parsed = |value: &Value| serde_json::from_str(value.as_str().unwrap()).unwrap();
        match self.path {
            CHAT => {
                let message = &answer["choices"][0]["message"];
                self.conversation.push(message.clone());
                let calls = message["tool_calls"].as_array().into_iter().flatten();
                calls
                    .map(|call| {
                        let function = &call["function"];
                        (
                            text(&call["id"]),
                            text(&function["name"]),
                            parsed(&function["arguments"]),
                        )
                    })
                    .collect()
            }
            RESPONSES => {
                let items = answer["output"].as_array().unwrap();
                self.conversation.extend(items.iter().cloned());
                let calls = items.iter().filter(|item| item["type"] == "function_call");
                calls
                    .map(|call| {
                        (
                            text(&call["call_id"]),
                            text(&call["name"]),
                            parsed(&call["arguments"]),
                        )
                    })
                    .collect()
            }
            _ => {
                let content = &answer["content"];
                self.conversation
                    .push(json!({"role": "assistant", "content": content}));
                let blocks = content.as_array().unwrap().iter();
                blocks
                    .filter(|block| block["type"] == "tool_use")
                    .map(|call| {
                        (
                            text(&call["id"]),
                            text(&call["name"]),
                            call["input"].clone(),
                        )
                    })
                    .collect()
            }
        }
    }

    fn give(&mut self, results: Vec<(String, String)>) {
        let items = results.into_iter().map(|(id, text)| match self.path {
            CHAT => json!({"role": "tool", "tool_call_id": id, "content": text}),
            RESPONSES => json!({"type": "function_call_output", "call_id": id, "output": text}),
            _ => json!({"type": "tool_result", "tool_use_id": id, "content": text}),
        });
        let items: Vec<Value> = items.collect();
        if self.path == MESSAGES {
            self.conversation
                .push(json!({"role": "user", "content": items}));
        } else {
            self.conversation.extend(items);
        }
    }

    /// One turn. What the model says at its end.
    async fn turn(&mut self, question: &str) -> String {
        self.conversation
            .push(json!({"role": "user", "content": question}));
        self.called.clear();
        loop {
            let answer = ask(self.running, self.path, &self.request()).await;
            let calls = self.take(&answer);
            if calls.is_empty() {
                return said(self.path, &answer);
            }
            self.called
                .push(calls.iter().map(|(_, name, _)| name.clone()).collect());
            let results = calls
                .into_iter()
                .map(|(id, name, arguments)| (id, self.run(&name, &arguments)))
                .collect();
            self.give(results);
        }
    }
}

#[tokio::test]
async fn coder_scenario_reads_edits_and_rereads_a_file() {
    for path in ALL {
        let running = start(Script::built_in()).await;
        let mut coder = Coder {
            running: &running,
            path,
            files: HashMap::from([(
                "notes/sea.md".to_owned(),
                "# Sea\n- TODO: dive\n- eat\n".to_owned(),
            )]),
            conversation: Vec::new(),
            called: Vec::new(),
        };
        let end = coder.turn("Please finish the TODO in notes/sea.md.").await;
        let steps: Vec<Vec<&str>> = vec![
            vec!["read_file"],
            vec!["read_file", "grep"],
            vec!["edit_file"],
            vec!["read_file"],
        ];
        assert_eq!(coder.called, steps, "{path}");
        assert_eq!(coder.files["notes/sea.md"], "# Sea\n- DONE: dive\n- eat\n");
        assert!(
            end.contains("Line 2 of notes/sea.md") && end.contains("- DONE: dive"),
            "{end}"
        );
        // And once more, in the same conversation, with nothing left to do.
        let end = coder.turn("Now look at notes/sea.md again.").await;
        assert!(end.contains("Reviewed by the simulator."), "{end}");
        assert!(coder.files["notes/sea.md"].ends_with("- eat\nReviewed by the simulator.\n"));
        assert_eq!(running.violations(), Vec::<String>::new());
    }
}
