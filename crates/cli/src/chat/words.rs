//! Tool calls, and answers that no model produced, as text.

use cachalot_agent::Provenance;
use cachalot_cache::Reason;
use cachalot_core::Spend;
use cachalot_model::Block;
use cachalot_tools::{Arguments, CallOutcome, ToolCall, ToolCallResult};
use serde_json::Value;

use super::command_output::folded;
use crate::render;
use crate::render::cut;
use crate::render::long_text::{self, first_lines};
use crate::render::visible::{on_one_line, visible};

/// The maximum number of characters of a call's arguments in a line.
const MAX_ARGUMENT_CHARS: usize = 60;
/// The tool whose output is shown.
const SHELL: &str = "shell";

/// Returns a short description of a call: `read_file notes.md`.
pub(crate) fn call(call: &ToolCall) -> String {
    let arguments = match serde_json::from_str::<Value>(&call.arguments) {
        Ok(Value::Object(fields)) => fields.values().map(plain).collect::<Vec<_>>().join(" "),
        _ => call.arguments.clone(),
    };
    let line = on_one_line(&arguments);
    format!(
        "{} {}",
        on_one_line(&call.name),
        cut(line.trim(), MAX_ARGUMENT_CHARS)
    )
    .trim_end()
    .to_owned()
}

/// Returns the origin of an answer that no model produced, and what it saved.
pub(crate) fn synthetic(provenance: &Provenance) -> String {
    let from = provenance.provenance.as_deref();
    let from = on_one_line(from.unwrap_or("answered by a hook"));
    if provenance.saved == Spend::default() {
        return from;
    }
    format!("{from}: saved {}", render::spend(&provenance.saved))
}

/// Returns every argument with its name, on lines of its own; empty if the short description contains them
/// all.
pub(crate) fn arguments(call: &ToolCall, arguments: &Arguments) -> String {
    let texts: Vec<(&String, String)> = arguments
        .iter()
        .map(|(name, value)| (name, visible(&plain(value)).into_owned()))
        .collect();
    let said = self::call(call);
    let says_all = |(_, text): &(&String, String)| said.contains(text.as_str());
    if texts.iter().all(says_all) {
        return String::new();
    }
    texts
        .iter()
        .map(|(name, text)| argument(name, text))
        .collect()
}

fn argument(name: &str, text: &str) -> String {
    let name = on_one_line(name);
    if !text.contains('\n') {
        return format!("    {name}: {text}\n");
    }
    let lines = text.lines().map(|line| format!("      │ {line}"));
    let lines = first_lines(lines, long_text::ARGUMENT, "      ");
    format!("    {name}:\n{}\n", lines.join("\n"))
}

/// Returns the reason for the result of a call, if it is relevant: the error, or why the call ran although a
/// result was cached. With `all`, also why it ran at all. Paths are relative to the workspace.
pub(crate) fn why(answer: &ToolCallResult, all: bool, workspace: &str) -> Option<String> {
    match &answer.outcome {
        CallOutcome::Refused => Some(first_sentence(answer)),
        CallOutcome::Ran(_) if answer.output.is_error => Some(first_sentence(answer)),
        CallOutcome::Ran(Some(why)) if all || is_worth_showing(why) => {
            Some(on_one_line(&render::reason::readable(why, Some(workspace))))
        }
        _ => None,
    }
    .filter(|why| !why.is_empty())
}

/// Returns true unless the reason is an absent entry, a disabled cache or a refresh.
fn is_worth_showing(why: &str) -> bool {
    [Reason::Absent, Reason::Off, Reason::Refresh]
        .iter()
        .all(|usual| *why != usual.to_string())
}

/// Returns the output of a command for the user, folded; nothing for other tools.
pub(crate) fn output(answer: &ToolCallResult, is_command: bool) -> Vec<String> {
    let is_command = is_command || answer.call.name == SHELL;
    if !is_command || answer.outcome == CallOutcome::Refused {
        return Vec::new();
    }
    let texts = answer.output.content.iter().filter_map(Block::as_text);
    folded(&texts.collect::<Vec<_>>().join("\n"))
}

/// Returns the first sentence of an error; the rest is for the model.
fn first_sentence(answer: &ToolCallResult) -> String {
    let text = answer.output.content.iter().find_map(Block::as_text);
    let line = text.unwrap_or_default().trim().lines().next();
    let line = line.unwrap_or_default();
    let sentence = line.split(". ").next().unwrap_or_default();
    on_one_line(sentence.trim_end_matches('.'))
}

/// Formats a value for users: strings without quotes, lists of strings separated by spaces.
fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) if items.iter().all(Value::is_string) => {
            items.iter().map(plain).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &str) -> (ToolCall, Arguments) {
        let call = ToolCall {
            id: "1".to_owned(),
            name: "tool".to_owned(),
            arguments: arguments.to_owned(),
        };
        let arguments = serde_json::from_str(arguments).unwrap_or_default();
        (call, arguments)
    }

    #[test]
    fn short_calls_are_shown_in_a_line() {
        let (short, arguments_) = of(r#"{"path": "a b.md", "lines": 3}"#);
        assert_eq!(call(&short), "tool a b.md 3");
        assert_eq!(arguments(&short, &arguments_), "");
        assert_eq!(call(&of("{}").0), "tool");
        assert_eq!(call(&of("not json").0), "tool not json");
    }

    #[test]
    fn approval_requests_show_the_whole_call() {
        let long = "x".repeat(80);
        let text = format!(r#"{{"command": "{long}; rm -rf .", "text": "a\nb\u001b[2J"}}"#);
        let (call_, arguments_) = of(&text);
        assert!(!call(&call_).contains("rm"));
        let all = arguments(&call_, &arguments_);
        assert!(
            all.contains(&format!("    command: {long}; rm -rf .\n")),
            "{all}"
        );
        assert!(
            all.contains("    text:\n      │ a\n      │ b␛[2J\n"),
            "{all}"
        );
    }
}
