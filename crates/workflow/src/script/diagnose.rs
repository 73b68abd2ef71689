//! Turns errors of the embedded interpreter into failures with a workaround.

use std::time::Duration;

use monty_types::{ExcType, MontyException};

use super::block::{BlockError, MAX_BYTES, Program};
use super::guards;
use super::unsupported::{Unsupported, WORKAROUND};
use super::{ScriptFailure, limits};

/// Returns the failure of a block that was rejected before it ran.
pub(super) fn block_error(block_error: &BlockError, first_line: u32) -> ScriptFailure {
    let of_file = |line: u32| first_line.saturating_add(line.saturating_sub(1));
    match block_error {
        BlockError::Syntax { message, line } => ScriptFailure::new(
            "script_error",
            format!("SyntaxError: {message}"),
            Some(of_file(*line)),
        ),
        BlockError::Unsupported { what, line } => unsupported(what, Some(of_file(*line))),
        BlockError::TooLong { bytes } => ScriptFailure::new(
            "script_error",
            format!(
                "the block is {bytes} bytes long; the limit is {MAX_BYTES}: move data into a file"
            ),
            Some(first_line),
        ),
    }
}

/// Returns the failure for an exception of a program whose block begins on line `first_line` of the file.
/// `time_limit` is that of the run; `None` if the exception was raised before the first statement ran.
pub(super) fn exception(
    raised: &MontyException,
    program: &Program,
    first_line: u32,
    time_limit: Option<Duration>,
) -> ScriptFailure {
    let message = raised.message().unwrap_or_default();
    let mut frames = raised.traceback().iter().rev();
    let line = frames.find_map(|frame| program.line_of_block(frame.start.line));
    let is_in_place = line.is_some_and(|line| program.line(line).contains("+="));
    let line = line.map(|line| first_line.saturating_add(line - 1));
    let limitation = limitation(raised.exc_type(), message, is_in_place);
    match (raised.exc_type(), limitation) {
        (_, Some(what)) => unsupported(&Unsupported::new(what, None), line),
        (ExcType::TimeoutError, None) if message.starts_with("time limit exceeded") => {
            ScriptFailure::new(
                "script_timeout",
                limits::timed_out(time_limit.unwrap_or_default()),
                line,
            )
        }
        (ExcType::MemoryError, None) if message.starts_with("memory limit exceeded") => {
            ScriptFailure::new("script_memory", format!("MemoryError: {message}"), line)
        }
        _ => ScriptFailure::new("script_error", format_exception(raised), line),
    }
}

/// Formats the exception like the last line of a Python traceback.
fn format_exception(raised: &MontyException) -> String {
    match (raised.exc_type(), raised.message()) {
        // Python shows the `repr` of the key; the interpreter keeps only its text.
        (ExcType::KeyError, Some(key)) if !looks_like_a_literal(key) => {
            format!("KeyError: {}", monty_types::StringRepr(key))
        }
        _ => raised.summary(),
    }
}

fn looks_like_a_literal(key: &str) -> bool {
    key.parse::<f64>().is_ok()
        || matches!(key, "None" | "True" | "False")
        || key.starts_with(['\'', '"', '('])
}

/// Returns what the block used if the exception is one that CPython would not raise.
/// `is_in_place` is true on a line with `+=`.
fn limitation(kind: ExcType, message: &str, is_in_place: bool) -> Option<String> {
    let this_use = || Some(format!("this use of Python: {message}"));
    match kind {
        ExcType::NotImplementedError => match message.strip_prefix(guards::PREFIX) {
            Some(what) => Some(what.to_owned()),
            None => this_use().filter(|_| message.contains("not yet support")),
        },
        ExcType::RuntimeError => {
            let internal = message.strip_prefix("Internal error in monty: ")?;
            Some(format!("this use of Python: {internal}"))
        }
        ExcType::TypeError if is_number(message) => this_use(),
        // CPython extends a list by anything that it can iterate over.
        ExcType::TypeError if is_in_place && message.starts_with("can only concatenate list") => {
            this_use()
        }
        // The field of a result is on the list, the method as a value is not.
        ExcType::AttributeError
            if ["list", "str", "tuple"]
                .iter()
                .any(|kind| message == format!("'{kind}' object has no attribute 'index'")) =>
        {
            Some("the method `index` as a value".to_owned())
        }
        // A `TypeError` before Python 3.12.
        ExcType::KeyError if message.starts_with("slice(") => Some("a slice of a dict".to_owned()),
        ExcType::OverflowError if message.contains("too large to convert to C") => this_use(),
        ExcType::JsonDecodeError if message.contains("hex escape") => {
            Some("half a surrogate pair in JSON".to_owned())
        }
        _ => None,
    }
}

/// True if the message refuses a number where Python takes it: a bool, or an integer beyond 64 bits.
fn is_number(message: &str) -> bool {
    if let Some(operands) = message.strip_prefix("unsupported operand type(s) for ") {
        let mut quoted = operands.split('\'').skip(1).step_by(2);
        let is_number = |kind| matches!(kind, "bool" | "int" | "float");
        return match (quoted.next(), quoted.next()) {
            (Some("str"), Some(_)) => operands.starts_with('%'),
            (Some(left), Some(right)) => is_number(left) && is_number(right),
            _ => false,
        };
    }
    message.starts_with("type int doesn't define")
        || message == "must be real number, not int"
        || message == "float() argument must be a string or a real number, not 'int'"
        || message == "'int' object cannot be interpreted as an integer"
}

/// Returns the failure that names a construct, its line and a workaround.
fn unsupported(limitation: &Unsupported, line: Option<u32>) -> ScriptFailure {
    let at = line.map_or_else(String::new, |line| format!(" (line {line})"));
    let instead = limitation
        .instead
        .map_or_else(String::new, |instead| format!("; {instead}"));
    let message = format!(
        "the embedded Python does not run {}{at}{instead}; {WORKAROUND}",
        limitation.what
    );
    ScriptFailure::new("script_unsupported", message, line)
}
