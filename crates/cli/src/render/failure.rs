//! Failures of commands as JSON, for the documents of `run --json` and `chat --json`.

use cachalot_core::Problem;
use serde_json::{Value, json};

use crate::command_error::{CommandError, FAILED};

/// Returns an error as JSON: the first problem, and under `problems` all of them.
pub(crate) fn error_json(error: &CommandError) -> Value {
    let plain = |code| {
        let message = error.to_string();
        // Errors of models have their remedy on a second line.
        problem_json(&match message.split_once("\n  help: ") {
            Some((message, help)) => Problem::new(code, message).help(help),
            None => Problem::new(code, message),
        })
    };
    let (mut first, problems) = match error {
        CommandError::Usage { problems, .. } => {
            let all: Vec<Value> = problems.iter().map(problem_json).collect();
            let first = all.first().cloned();
            (first.unwrap_or_else(|| plain(FAILED)), all)
        }
        CommandError::Failed {
            problem: Some(problem),
            ..
        } => (problem_json(&problem.0), Vec::new()),
        CommandError::Failed { code, .. } => (plain(code), Vec::new()),
        CommandError::BrokenPipe => (plain(FAILED), Vec::new()),
        CommandError::Interrupted(_) => (plain("interrupted"), Vec::new()),
    };
    if problems.len() > 1 {
        first["problems"] = problems.into();
    }
    first
}

/// Returns a problem as JSON.
pub(crate) fn problem_json(problem: &Problem) -> Value {
    json!({
        "code": problem.code,
        "message": problem.message,
        "help": problem.help,
        "file": problem.place.as_ref().map(|place| &*place.file),
        "line": problem.place.as_ref().map(|place| place.line),
        "column": problem.place.as_ref().map(|place| place.column),
    })
}
