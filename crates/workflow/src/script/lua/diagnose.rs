//! Converts errors of Lua to failures of a block, with the line of the agent file.

use mlua::Error;

use super::super::ScriptFailure;

/// Prefix of a location in the block: `block:3:`.
const LOCATION_PREFIX: &str = "block:";

/// Libraries that inline Lua leaves out: the name as quoted in Lua's message about a missing one, and the
/// reason.
const REMOVED_LIBRARIES: &[(&str, &str)] = &[
    ("global 'io'", "files"),
    ("global 'dofile'", "files"),
    ("global 'loadfile'", "files"),
    ("global 'require'", "modules"),
    ("global 'package'", "modules"),
    ("global 'debug'", "`debug`"),
    ("field 'execute'", "processes"),
    ("field 'exit'", "`os.exit`: use `return`"),
    ("field 'getenv'", "the environment"),
    ("field 'remove'", "files"),
    ("field 'rename'", "files"),
    ("field 'tmpname'", "files"),
    ("field 'dump'", "bytecode"),
];

/// Returns the failure for an error of Lua. `memory_limit` is in bytes.
pub(super) fn failure(error: &Error, first_line: u32, memory_limit: u64) -> ScriptFailure {
    match error {
        Error::CallbackError { cause, traceback } => {
            let failed = failure(cause, first_line, memory_limit);
            ScriptFailure {
                line: failed
                    .line
                    .or_else(|| first_location(traceback, first_line)),
                ..failed
            }
        }
        Error::MemoryError(_) => ScriptFailure::new(
            "script_memory",
            format!(
                "the block needed more than its memory limit of {} MiB",
                memory_limit / (1024 * 1024)
            ),
            None,
        ),
        Error::SyntaxError { message, .. } => {
            let (line, message) = split_location(message, first_line);
            let message = with_file_line(message, first_line);
            ScriptFailure::new(
                "script_error",
                format!("not Lua: {message}"),
                line.or(Some(first_line)),
            )
        }
        Error::RuntimeError(message) => runtime(message, first_line),
        other => ScriptFailure::new("script_error", other.to_string(), None),
    }
}

/// Returns the failure for a message that ends with a traceback of Lua.
fn runtime(text: &str, first_line: u32) -> ScriptFailure {
    let (message, traceback) = text.split_once("\nstack traceback:").unwrap_or((text, ""));
    let message = without_prelude(message);
    let (line, message) = split_location(message, first_line);
    let left_out = message
        .contains(" a nil value (")
        .then(|| {
            REMOVED_LIBRARIES
                .iter()
                .find(|(name, _)| message.contains(name))
        })
        .flatten();
    let message = match left_out {
        _ if message.starts_with("table: 0x") => {
            "the block raised an error that is a table: raise text, or give it `__tostring`"
                .to_owned()
        }
        Some((_, what)) => format!("{message}: inline Lua has no access to {what}"),
        None => message.to_owned(),
    };
    let kind = match left_out {
        Some(_) => "script_unsupported",
        None => "script_error",
    };
    let line = line.or_else(|| first_location(traceback, first_line));
    ScriptFailure::new(kind, message, line)
}

/// Removes the location of a prelude function that called the failed function.
fn without_prelude(message: &str) -> &str {
    let Some(rest) = message.strip_prefix("prelude:") else {
        return message;
    };
    rest.split_once(": ")
        .map_or(message, |(_, message)| message)
}

/// Splits a message into its leading location, as a line of the file, and the rest.
fn split_location(message: &str, first_line: u32) -> (Option<u32>, &str) {
    let Some((line, rest)) = message
        .strip_prefix(LOCATION_PREFIX)
        .and_then(|rest| rest.split_once(": "))
    else {
        return (None, message);
    };
    match line.parse::<u32>() {
        Ok(line) => (Some(file_line(line, first_line)), rest),
        Err(_) => (None, message),
    }
}

/// Returns the line of the file for the innermost location of the block in a traceback.
fn first_location(traceback: &str, first_line: u32) -> Option<u32> {
    let (_, rest) = traceback.split_once(&format!("\t{LOCATION_PREFIX}"))?;
    let digits = rest
        .split(|character: char| !character.is_ascii_digit())
        .next()?;
    Some(file_line(digits.parse().ok()?, first_line))
}

/// Replaces the line of the block in the message, if there is one, by the line of the file:
/// `'end' expected (to close 'if' at line 2) near <eof>`.
fn with_file_line(message: &str, first_line: u32) -> String {
    const AT: &str = "at line ";
    let Some((before, rest)) = message.split_once(AT) else {
        return message.to_owned();
    };
    let end = rest
        .find(|character: char| !character.is_ascii_digit())
        .unwrap_or(rest.len());
    match rest[..end].parse::<u32>() {
        Ok(line) => format!(
            "{before}{AT}{}{}",
            file_line(line, first_line),
            &rest[end..]
        ),
        Err(_) => message.to_owned(),
    }
}

/// Converts a line of the block, from 1, to a line of the file.
pub(super) fn file_line(line: u32, first_line: u32) -> u32 {
    first_line.saturating_add(line.saturating_sub(1))
}
