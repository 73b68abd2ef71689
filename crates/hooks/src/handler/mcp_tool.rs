//! Handlers that are tools of MCP servers: the arguments are made from the input, and the text of the result is read like
//! the output of a command.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use serde_json::{Map, Value};

use super::{Handler, MAX_OUTPUT_BYTES, within};
use crate::definition::HookEntry;
use crate::dependencies::{HookDependencies, HookTools};
use crate::dialect::HandlerResponse;
use crate::input::Input;
use crate::output::{Fault, Output};

struct ToolHandler {
    server: String,
    tool: String,
    /// The arguments; `None`: the whole input.
    arguments: Option<Map<String, Value>>,
    entry: HookEntry,
    tools: Option<Arc<dyn HookTools>>,
}

pub(super) fn create(
    server: &str,
    tool: &str,
    arguments: Option<&Map<String, Value>>,
    entry: &HookEntry,
    dependencies: &HookDependencies,
) -> Arc<dyn Handler> {
    Arc::new(ToolHandler {
        server: server.to_owned(),
        tool: tool.to_owned(),
        arguments: arguments.cloned(),
        entry: entry.clone(),
        tools: dependencies.tools.clone(),
    })
}

#[async_trait]
impl Handler for ToolHandler {
    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        let has_begun = AtomicBool::new(false);
        let calling = self.call(input, &has_begun);
        within(self.entry.definition.timeout, &has_begun, calling).await
    }

    fn applies_timeout(&self) -> bool {
        true
    }
}

impl ToolHandler {
    async fn call(&self, input: &Input, has_begun: &AtomicBool) -> Result<Output, Fault> {
        let told = self.entry.dialect.write(&self.entry, input)?;
        let told: Map<String, Value> = serde_json::from_slice(&told)
            .map_err(|error| Fault::new(format!("its input is no JSON: {error}")))?;
        let arguments = match &self.arguments {
            None => told,
            Some(arguments) => {
                let told = Value::Object(told);
                let filled = arguments.iter().map(|(name, value)| {
                    let mut value = value.clone();
                    fill(&mut value, &told);
                    (name.clone(), value)
                });
                filled.collect()
            }
        };
        let Some(tools) = &self.tools else {
            let message = "there are no MCP servers here; it runs in chats and runs";
            return Err(Fault::new(message));
        };
        // From here on, a timeout may cut off a denial.
        has_begun.store(true, Ordering::Relaxed);
        let text = tools.call(&self.server, &self.tool, arguments).await?;
        if text.len() > MAX_OUTPUT_BYTES {
            let message = format!("the result has more than {MAX_OUTPUT_BYTES} bytes");
            return Err(Fault::of_cut_output(message));
        }
        let ended = HandlerResponse {
            stdout: text.into_bytes(),
            ..HandlerResponse::default()
        };
        self.entry.dialect.read(&self.entry, input, &ended)
    }
}

/// Replaces `${path}` in all texts of a value by that part of the input: `${tool_input.file_path}`. A text that is
/// nothing but a path becomes the value there. A part that does not exist is empty.
fn fill(value: &mut Value, input: &Value) {
    match value {
        Value::String(text) => {
            let only = text
                .strip_prefix("${")
                .and_then(|rest| rest.strip_suffix('}'));
            match only.filter(|path| !path.contains('}')) {
                Some(path) => {
                    *value = part(input, path)
                        .cloned()
                        .unwrap_or_else(|| Value::from(""));
                }
                None => *text = filled(text, input),
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| fill(value, input)),
        Value::Object(values) => values.values_mut().for_each(|value| fill(value, input)),
        _ => {}
    }
}

fn filled(text: &str, input: &Value) -> String {
    let mut filled = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("${") {
        let (before, placeholder) = rest.split_at(at);
        filled.push_str(before);
        let Some(end) = placeholder.find('}') else {
            rest = placeholder;
            break;
        };
        match part(input, &placeholder[2..end]) {
            Some(Value::String(text)) => filled.push_str(text),
            Some(Value::Null) | None => {}
            Some(other) => filled.push_str(&other.to_string()),
        }
        rest = &placeholder[end + 1..];
    }
    filled.push_str(rest);
    filled
}

/// Returns a part of the input by the names of its members, separated by dots.
fn part<'a>(input: &'a Value, path: &str) -> Option<&'a Value> {
    path.trim()
        .split('.')
        .try_fold(input, |value, name| match value {
            Value::Array(values) => values.get(name.parse::<usize>().ok()?),
            value => value.get(name),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn parts_of_the_input_are_filled_in() {
        let input = json!({
            "cwd": "/w", "tool_input": { "file_path": "a.rs", "lines": [1, 2], "text": "${cwd}" },
        });
        let mut value = json!({
            "path": "${cwd}/${tool_input.file_path}", "all": "${tool_input}", "second": "${tool_input.lines.1}",
            "lines": "lines ${tool_input.lines}", "none": "[${no.such}]", "empty": "${no.such}", "number": 5,
            "text": ["${tool_input.text}", "${", "$HOME"],
        });
        fill(&mut value, &input);
        assert_eq!(
            value,
            json!({
                "path": "/w/a.rs", "all": input["tool_input"], "second": 2, "lines": "lines [1,2]",
                "none": "[]", "empty": "", "number": 5, "text": ["${cwd}", "${", "$HOME"],
            })
        );
    }
}
