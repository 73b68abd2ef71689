//! Runs one block in the embedded interpreter. Only called in a worker process.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::Duration;

use cachalot_core::Digest;
use monty::{MontyRun, RunProgress};
use monty_types::{
    ExcType, ExtFunctionResult, MontyException, MontyObject, NameLookupResult, PrintWriter,
    PrintWriterCallback, ResourceLimits, ResourceTracker,
};
use serde_json::{Map, Value};

use super::block::Program;
use super::output_buffer::OutputBuffer;
use super::programs::{Compiled, ProgramCache};
use super::wire::ReceivedRequest;
use super::{Changes, ScriptFailure, ScriptResult, branches, convert, diagnose};

/// Runs a block to its end. A `memory_limit` of 0 means no limit.
///
/// # Errors
/// The block's own error, or the limit that stopped it; lines are lines of the file.
pub(super) fn run(
    block: ReceivedRequest,
    memory_limit: u64,
    programs: &mut ProgramCache,
) -> Result<ScriptResult, ScriptFailure> {
    let time_limit = Duration::from_millis(block.time_limit_ms);
    let has_results = branches::has_results(&block.state);
    let Compiled { program, run } = programs.get(&block.source, block.first_line, has_results)?;
    // Digests instead of a copy: the state itself is moved into the interpreter.
    let before = if program.changes {
        digests(&block.state)
    } else {
        Vec::new()
    };
    let inputs = vec![convert::dict(block.state), convert::dict(block.variables)];
    let tracker = tracker(time_limit, memory_limit);
    let mut printed = OutputBuffer::new(block.most_printed);
    let ended = drive(run, inputs, tracker, &mut printed);
    let printed = printed.finish();
    match ended {
        Ok(value) => match outcome(value, &program, &before) {
            Ok((returned, changes)) => Ok(ScriptResult {
                returned,
                printed,
                changes,
            }),
            Err(failure) => Err(ScriptFailure { printed, ..failure }),
        },
        Err(raised) => {
            let failure =
                diagnose::exception(&raised, &program, block.first_line, Some(time_limit));
            Err(ScriptFailure { printed, ..failure })
        }
    }
}

fn tracker(time_limit: Duration, memory_limit: u64) -> ResourceTracker {
    let mut limits = ResourceLimits::default().max_duration(time_limit);
    if memory_limit > 0 {
        // Rejects a single large value before it is allocated; the limit of the process covers everything
        // else.
        limits = limits.max_memory(usize::try_from(memory_limit).unwrap_or(usize::MAX));
    }
    ResourceTracker::new(limits)
}

/// Runs the program. It gets nothing from outside of the interpreter.
fn drive(
    compiled: MontyRun,
    inputs: Vec<MontyObject>,
    tracker: ResourceTracker,
    printed: &mut OutputBuffer,
) -> Result<MontyObject, MontyException> {
    let mut progress = compiled.start(inputs, tracker, PrintWriter::Callback(printed))?;
    loop {
        let print = PrintWriter::Callback(printed);
        progress = match progress {
            RunProgress::Complete(value) => return Ok(value),
            RunProgress::OsCall(call) => {
                call.resume_with(print, |_| ExtFunctionResult::Error(no_access()))?
            }
            RunProgress::NameLookup(lookup) => lookup.resume(NameLookupResult::Undefined, print)?,
            // A call of a name that is not defined.
            RunProgress::FunctionCall(call) => {
                let unknown = ExtFunctionResult::NotFound(call.function_name.clone());
                call.resume(unknown, print)?
            }
            RunProgress::ResolveFutures(futures) => futures.abort(no_access(), print)?,
        };
    }
}

/// The error of a request that no block on the allow-list can make.
fn no_access() -> MontyException {
    let message = "inline code has no access to the system".to_owned();
    MontyException::new(ExcType::PermissionError, Some(message))
}

/// Returns the block's value and its changes to the state.
fn outcome(
    value: MontyObject,
    program: &Program,
    before: &[(String, Digest)],
) -> Result<(Value, Changes), ScriptFailure> {
    if !program.changes {
        return Ok((returned(value, program.names)?, Changes::default()));
    }
    let parts = match value {
        MontyObject::Tuple(parts) | MontyObject::List(parts) => parts,
        _ => Vec::new(),
    };
    let Ok([value, state]) = <[MontyObject; 2]>::try_from(parts) else {
        return Err(convert::script_error("the block's state is not there"));
    };
    let returned = returned(value, program.names)?;
    Ok((returned, changes(convert::state(state)?, before)))
}

/// Returns each field of a state with the digest of its value.
fn digests(state: &Map<String, Value>) -> Vec<(String, Digest)> {
    state
        .iter()
        .map(|(key, value)| (key.clone(), digest(value)))
        .collect()
}

fn digest(value: &Value) -> Digest {
    Digest::sha256(value.to_string().as_bytes())
}

fn changes(after: Map<String, Value>, before: &[(String, Digest)]) -> Changes {
    let removed = before
        .iter()
        .filter(|(key, _)| !after.contains_key(key))
        .map(|(key, _)| key.clone())
        .collect();
    let before: HashMap<&str, &Digest> = before
        .iter()
        .map(|(key, digest)| (key.as_str(), digest))
        .collect();
    let set = after
        .into_iter()
        .filter(|(key, value)| {
            before
                .get(key.as_str())
                .is_none_or(|was| **was != digest(value))
        })
        .collect();
    Changes { set, removed }
}

fn returned(value: MontyObject, names: bool) -> Result<Value, ScriptFailure> {
    if names {
        convert::names(value)
    } else {
        convert::from_python(value)
            .map_err(|unrepresentable| unrepresentable.failure("the returned value"))
    }
}

impl PrintWriterCallback for OutputBuffer {
    fn stdout_write(&mut self, output: Cow<'_, str>) -> Result<(), MontyException> {
        self.push(&output);
        Ok(())
    }

    fn stdout_push(&mut self, end: char) -> Result<(), MontyException> {
        self.push(end.encode_utf8(&mut [0; 4]));
        Ok(())
    }
}
