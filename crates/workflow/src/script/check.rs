//! Checks a block without running it.

use std::{io, thread};

use ruff_python_ast::Stmt;

use super::programs::Compiled;
use super::{ScriptFailure, block, changes, constants, diagnose, templates};

/// Checks statically that the embedded Python can run a block: it is Python, and all that it uses is on the
/// allow-list. Nothing is executed. Deep nesting is safe: the text is parsed on a separate thread, whose
/// stack fits its length.
///
/// `first_line` is the line of the file on which `source` begins.
///
/// # Errors
/// `script_error` for a block that is not Python or too long, `script_unsupported` for a construct that
/// is not on the list; both with the line of the file.
pub fn check(source: &str, first_line: u32) -> Result<(), ScriptFailure> {
    run_with_stack(source, first_line, |source| {
        Compiled::new(source, first_line, false).map(drop)
    })
}

/// Like [`check`], for a block that the user's own Python runs: checks only that it is Python.
///
/// # Errors
/// `script_error` for a block that is not Python or too long, with the line of the file.
pub fn check_syntax(source: &str, first_line: u32) -> Result<(), ScriptFailure> {
    parsed(source, first_line, |_| ())
}

/// True if a block may change the `state` that it is given, according to a static check; false for a
/// block that cannot be parsed.
pub(crate) fn may_change_state(source: &str) -> bool {
    parsed(source, 1, changes::may_change_state).unwrap_or(false)
}

/// Returns the first template in a block, with its line in the block, from 1: code is not rendered.
/// `is_variable` returns true for the names that `${name}` could stand for.
pub(crate) fn template_in(
    source: &str,
    is_variable: impl Fn(&str) -> bool + Send,
) -> Option<(String, u32)> {
    if !["{{", "{%", "${"]
        .iter()
        .any(|begin| source.contains(begin))
    {
        return None;
    }
    let found = run_with_stack(source, 1, |source| {
        let found = templates::first(source, is_variable);
        Ok(found.map(|(text, line)| (text.to_owned(), line)))
    });
    found.ok().flatten()
}

/// Replaces `${NAME}` where it stands for an expression, if `is_variable` returns true for the name; see
/// [`constants`].
pub(crate) fn with_constants(source: String, is_variable: impl Fn(&str) -> bool + Send) -> String {
    if !source.contains("${") {
        return source;
    }
    let replaced = run_with_stack(&source, 1, |source| {
        Ok(constants::replace_constants(source, is_variable))
    });
    replaced.ok().flatten().unwrap_or(source)
}

fn parsed<T: Send>(
    source: &str,
    first_line: u32,
    look: impl FnOnce(&[Stmt]) -> T + Send,
) -> Result<T, ScriptFailure> {
    run_with_stack(source, first_line, |source| {
        block::parse(&block::unix_lines(source))
            .map(|read| look(read.suite()))
            .map_err(|refused| diagnose::block_error(&refused, first_line))
    })
}

fn run_with_stack<T: Send>(
    source: &str,
    first_line: u32,
    look: impl FnOnce(&str) -> Result<T, ScriptFailure> + Send,
) -> Result<T, ScriptFailure> {
    let stack = block::stack_for(source.len());
    let outcome = thread::scope(|scope| -> io::Result<Option<Result<T, ScriptFailure>>> {
        let worker = thread::Builder::new()
            .stack_size(stack)
            .spawn_scoped(scope, || look(source))?;
        Ok(worker.join().ok())
    });
    let message = match outcome {
        Ok(Some(outcome)) => return outcome,
        Ok(None) => "the block could not be checked, its reader failed".to_owned(),
        Err(error) => {
            format!("the block could not be checked, no thread could be started: {error}")
        }
    };
    Err(ScriptFailure::new(
        "script_worker",
        message,
        Some(first_line),
    ))
}
