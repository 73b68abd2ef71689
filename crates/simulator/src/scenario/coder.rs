//! A small coding agent: reads the file that the user names, reads it again together with a `grep`, edits
//! it, reads it again, and quotes the line that it changed. A question about a file is answered with the
//! beginning of the file.
//!
//! It tests a cache of tool results: the second read may come from the cache, the one after the edit must
//! not.

mod text;

use serde_json::{Value, json};

use crate::dialogue::{Dialogue, ToolCall, ToolResult};
use crate::reply::ScriptedReply;
use text::{Edit, find_file_name, lines_of};

const READ: &str = "read_file";
const EDIT: &str = "edit_file";
const GREP: &str = "grep";

/// Maximum number of lines that an answer to a question quotes.
const MAX_QUOTED_LINES: usize = 5;

/// Returns the next step, if the request has the tools and names a file.
pub(super) fn reply(dialogue: &Dialogue) -> Option<ScriptedReply> {
    if !dialogue.has_tool(READ) || !dialogue.has_tool(EDIT) {
        return None;
    }
    let (text, path) = dialogue
        .user
        .iter()
        .find_map(|text| Some((text, find_file_name(text)?)))?;
    if let Some(failure) = failure(dialogue) {
        return Some(failure);
    }
    let is_question = text.trim_end().ends_with('?');
    let reply = match dialogue.step {
        step if is_question && step > 0 => quote(dialogue, &path),
        0 => ScriptedReply::call(READ, json!({"path": path}))
            .with_lead_text(format!("I look at {path} first.")),
        1 => read_again(dialogue, &path),
        2 => edit(dialogue, &path),
        3 => ScriptedReply::call(READ, json!({"path": path}))
            .with_lead_text("I read it once more to see the change.".to_owned()),
        _ => report(dialogue, &path),
    };
    Some(reply)
}

/// Answers a question with the first lines of the file.
fn quote(dialogue: &Dialogue, path: &str) -> ScriptedReply {
    let lines = last_read(dialogue, |_| true).map(|result| lines_of(&result.text));
    let lines = lines.unwrap_or_default();
    let shown = lines.iter().filter(|line| !line.trim().is_empty());
    let shown: Vec<String> = shown
        .take(MAX_QUOTED_LINES)
        .map(|line| format!("> {line}"))
        .collect();
    ScriptedReply::text(format!(
        "[simulated] {path} has {} lines. It begins:\n\n{}",
        lines.len(),
        shown.join("\n")
    ))
}

fn read_again(dialogue: &Dialogue, path: &str) -> ScriptedReply {
    let again = ScriptedReply::call(READ, json!({"path": path}))
        .with_lead_text("I look for what is left to do, with the file beside it.".to_owned());
    if dialogue.has_tool(GREP) {
        again.and_call(GREP, json!({"pattern": "TODO", "path": path}))
    } else {
        again
    }
}

fn edit(dialogue: &Dialogue, path: &str) -> ScriptedReply {
    let lines = last_read(dialogue, |_| true).map(|result| lines_of(&result.text));
    let Some(edit) = lines.and_then(|lines| Edit::from_lines(&lines)) else {
        return ScriptedReply::text(format!(
            "[simulated] {path} has no line that I could change, so I leave it as it is."
        ));
    };
    let (old_text, new_text) = (edit.old_text, edit.new_text);
    let arguments = json!({"path": path, "old_text": old_text, "new_text": new_text});
    ScriptedReply::call(EDIT, arguments).with_lead_text("I change this line.".to_owned())
}

fn report(dialogue: &Dialogue, path: &str) -> ScriptedReply {
    let edit = dialogue.calls.iter().rfind(|call| call.name == EDIT);
    let expected = edit.and_then(|call| {
        let text = |key: &str| call.arguments.get(key)?.as_str();
        text::changed_line(text("old_text")?, text("new_text")?)
    });
    let (Some(edit), Some(expected)) = (edit, expected) else {
        return ScriptedReply::text(format!("[simulated] I have nothing more to do in {path}."));
    };
    let edited = dialogue.calls.iter().position(|call| call.id == edit.id);
    let is_later = |call: &ToolCall| {
        let at = dialogue.calls.iter().position(|other| other.id == call.id);
        at > edited
    };
    let lines = last_read(dialogue, is_later).map(|result| lines_of(&result.text));
    let lines = lines.unwrap_or_default();
    let found = lines.iter().position(|line| *line == expected);
    ScriptedReply::text(match found {
        Some(at) => format!(
            "[simulated] Done. Line {} of {path} now reads:\n\n    {expected}",
            at + 1
        ),
        None => format!(
            "[simulated] I changed {path}, but what I read back does not have the line that I wrote:\n\n    \
             {expected}\n\nEither something else changed the file, or the read was stale."
        ),
    })
}

/// Returns the result of the newest read that fits `is_meant`, if it is the content of a file.
fn last_read(dialogue: &Dialogue, is_meant: impl Fn(&ToolCall) -> bool) -> Option<&ToolResult> {
    let reads = dialogue.calls.iter().rev();
    let mut reads = reads.filter(|call| call.name == READ && is_meant(call));
    reads.find_map(|call| {
        let result = dialogue.result_of(call)?;
        (!text::is_marker(&result.text)).then_some(result)
    })
}

/// Reports and stops if a relevant tool has failed. A `grep` without matches is not a failure.
fn failure(dialogue: &Dialogue) -> Option<ScriptedReply> {
    let failed = dialogue.calls.iter().rev().find_map(|call| {
        let result = dialogue.result_of(call)?;
        let is_failure = call.name != GREP && (result.is_error || reports_error(&result.text));
        is_failure.then_some((call, result))
    });
    let (call, result) = failed?;
    Some(ScriptedReply::text(format!(
        "[simulated] {} failed, so I stop here: {}",
        call.name,
        super::shortened(&result.text)
    )))
}

/// Returns true if a result without a flag, as in OpenAI's formats, reports an error.
fn reports_error(text: &str) -> bool {
    let start = text.trim_start();
    let begins = |word: &str| {
        let head = start.get(..word.len());
        head.is_some_and(|head| head.eq_ignore_ascii_case(word))
    };
    if begins("error") {
        let rest = start["error".len()..].chars().next();
        return rest.is_none_or(|next| !next.is_alphanumeric());
    }
    let object: Option<Value> = start
        .starts_with('{')
        .then(|| serde_json::from_str(start).ok())
        .flatten();
    object.is_some_and(|object| object.get("error").is_some_and(|error| !error.is_null()))
}

impl ScriptedReply {
    fn with_lead_text(mut self, text: String) -> Self {
        self.text = Some(text);
        self
    }
}

#[cfg(test)]
mod tests;
