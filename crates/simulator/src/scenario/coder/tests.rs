use serde_json::json;

use super::text::{Edit, changed_line, find_file_name, lines_of};
use super::*;
use crate::dialogue::{DialogueItem, OfferedTool};
use crate::reply::ScriptedCall;

#[test]
fn file_name_is_found_in_a_question() {
    let found = |text: &str| find_file_name(text);
    assert_eq!(
        found("Fix the TODO in notes.txt.").as_deref(),
        Some("notes.txt")
    );
    assert_eq!(
        found("see `src/main.rs`, please").as_deref(),
        Some("src/main.rs")
    );
    assert_eq!(
        found("in ./a/b-c_d.test.md:").as_deref(),
        Some("./a/b-c_d.test.md")
    );
    assert_eq!(
        found("look into src/Makefile e.g. now").as_deref(),
        Some("src/Makefile")
    );
    assert_eq!(
        found("in cwd /tmp/x work on todo.txt").as_deref(),
        Some("todo.txt")
    );
    assert_eq!(found("version 3.14 of https://example.com/a.html"), None);
    assert_eq!(found("What is a whale?"), None);
    assert_eq!(found("<context>\nIt is noon.\n</context>"), None);
    assert_eq!(found("Look into <a/b.txt>.").as_deref(), Some("a/b.txt"));
}

#[test]
fn line_numbers_are_removed() {
    let shown = "     1\t# Notes\n     2\t\n     3\t\tTODO: a\tb\n(3 lines)";
    assert_eq!(lines_of(shown), ["# Notes", "", "\tTODO: a\tb"]);
    assert_eq!(lines_of("plain\ntext"), ["plain", "text"]);
}

fn edited(lines: &[&str]) -> Option<(String, String)> {
    let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
    Edit::from_lines(&lines).map(|edit| (edit.old_text, edit.new_text))
}

#[test]
fn edit_replaces_a_unique_text() {
    let pair = |old: &str, new: &str| Some((old.to_owned(), new.to_owned()));
    assert_eq!(
        edited(&["a", "- TODO x", "b"]),
        pair("- TODO x", "- DONE x")
    );
    assert_eq!(edited(&["TODO", "b", "TODO"]), pair("TODO\nb", "DONE\nb"));
    assert_eq!(
        edited(&["x", "TODO", "TODO"]),
        pair("TODO\nTODO", "DONE\nTODO")
    );
    assert_eq!(
        edited(&["a", "end", ""]),
        pair("end", "end\nReviewed by the simulator.")
    );
    assert_eq!(
        edited(&["e", "me"]),
        pair("me", "me\nReviewed by the simulator.")
    );
    assert_eq!(
        edited(&["a", "a"]),
        pair("a\na", "a\na\nReviewed by the simulator.")
    );
    assert_eq!(edited(&["", " "]), None);
}

#[test]
fn the_changed_line_is_found() {
    assert_eq!(changed_line("TODO\nb", "DONE\nb").as_deref(), Some("DONE"));
    assert_eq!(changed_line("a\na", "a\na\nnew").as_deref(), Some("new"));
    assert_eq!(changed_line("a", "a"), None);
}

/// Runs the scenario against a file in memory.
struct Play {
    file: String,
    dialogue_item: Vec<DialogueItem>,
    says: Vec<String>,
}

impl Play {
    fn on(file: &str) -> Self {
        let user = "Finish the TODO in notes.txt".to_owned();
        Self {
            file: file.to_owned(),
            dialogue_item: vec![DialogueItem::User(vec![user])],
            says: Vec::new(),
        }
    }

    fn next(&mut self) -> ScriptedReply {
        let tool = |name: &str| OfferedTool {
            name: name.to_owned(),
            schema: json!({}),
        };
        let mut dialogue = Dialogue {
            tools: ["read_file", "edit_file", "grep"].map(tool).to_vec(),
            ..Dialogue::default()
        };
        dialogue.push_items(self.dialogue_item.clone());
        reply(&dialogue).unwrap_or_default()
    }

    fn run(&mut self, call: &ScriptedCall) -> (String, bool) {
        let text = |key: &str| call.arguments[key].as_str().unwrap_or_default();
        match call.name.as_str() {
            "read_file" => {
                let lines = self.file.lines().enumerate();
                let numbered = lines.map(|(at, line)| format!("{:>6}\t{line}\n", at + 1));
                (numbered.collect(), false)
            }
            "edit_file" if self.file.matches(text("old_text")).count() == 1 => {
                self.file = self.file.replace(text("old_text"), text("new_text"));
                ("edited".to_owned(), false)
            }
            "edit_file" => ("old_text does not occur once".to_owned(), true),
            _ => ("no matches".to_owned(), true),
        }
    }

    fn play(mut self) -> Self {
        for round in 0..10 {
            let reply = self.next();
            self.says.push(reply.text.clone().unwrap_or_default());
            if reply.tool_calls.is_empty() {
                return self;
            }
            let calls = reply.tool_calls.iter().enumerate();
            let calls: Vec<ToolCall> = calls
                .map(|(at, call)| ToolCall {
                    id: format!("{round}-{at}"),
                    name: call.name.clone(),
                    arguments: call.arguments.clone(),
                })
                .collect();
            let mut results = Vec::new();
            for (call, scripted) in calls.iter().zip(&reply.tool_calls) {
                let (text, is_error) = self.run(scripted);
                results.push(ToolResult {
                    call_id: call.id.clone(),
                    text,
                    is_error,
                });
            }
            self.dialogue_item.push(DialogueItem::Model(calls));
            self.dialogue_item.push(DialogueItem::Results(results));
        }
        self
    }
}

#[test]
fn the_file_is_edited_and_the_line_is_quoted() {
    let play = Play::on("# Notes\n- TODO: dive\n- eat\n").play();
    assert_eq!(play.file, "# Notes\n- DONE: dive\n- eat\n");
    assert_eq!(play.says.len(), 5);
    let last = play.says.last().cloned().unwrap_or_default();
    assert!(
        last.contains("Line 2 of notes.txt") && last.contains("- DONE: dive"),
        "{last}"
    );

    let play = Play::on("nothing to do").play();
    assert_eq!(play.file, "nothing to do\nReviewed by the simulator.");
    let last = play.says.last().cloned().unwrap_or_default();
    assert!(last.contains("Line 2"), "{last}");
}

#[test]
fn stale_read_after_the_edit_is_reported() {
    let mut play = Play::on("TODO\n").play();
    // The result of the last read before the edit.
    if let Some(DialogueItem::Results(results)) = play.dialogue_item.last_mut() {
        results[0].text = "     1\tTODO\n".to_owned();
    }
    let last = play.next().text.unwrap_or_default();
    assert!(last.contains("stale"), "{last}");
}

#[test]
fn a_failing_tool_ends_the_work() {
    let mut play = Play::on("TODO\n");
    let call = ToolCall {
        id: "a".to_owned(),
        name: READ.to_owned(),
        arguments: json!({"path": "notes.txt"}),
    };
    play.dialogue_item.push(DialogueItem::Model(vec![call]));
    play.dialogue_item
        .push(DialogueItem::Results(vec![ToolResult {
            call_id: "a".to_owned(),
            text: "Error: no such file".to_owned(),
            is_error: false,
        }]));
    let reply = play.next();
    assert!(reply.tool_calls.is_empty());
    assert!(reply.text.unwrap_or_default().contains("no such file"));
    assert!(
        reports_error(r#"{"error": "x"}"#) && reports_error("ERROR") && !reports_error("errors.rs")
    );
    assert!(!reports_error(r#"{"error": null}"#));
}
