//! Runs one block in the embedded interpreter. Only called in a worker process.

use std::borrow::Cow;
use std::collections::HashMap;
use std::time::{Duration, Instant};

use cachalot_core::clock::civil_from_days;
use cachalot_core::{Digest, Millis};
use monty::{MontyRun, RunProgress};
use monty_types::{
    ExcType, ExtFunctionResult, MontyDate, MontyDateTime, MontyException, MontyObject,
    MontyTimeZone, NameLookupResult, OsFunctionCall, PrintWriter, PrintWriterCallback,
    ResourceLimits, ResourceTracker,
};
use serde_json::{Map, Value};

use super::block::{BlockError, Program};
use super::output_buffer::OutputBuffer;
use super::programs::{Compiled, ProgramCache};
use super::unsupported::NO_ACCESS;
use super::wire::ReceivedRequest;
use super::{Changes, ScriptFailure, ScriptResult, convert, diagnose, host, whitespace};

/// Runs a block to its end. A `memory_limit` of 0 means no limit.
///
/// # Errors
/// The block's own error, or the limit that stopped it; lines are lines of the file.
pub(super) fn run(
    block: ReceivedRequest,
    memory_limit: u64,
    programs: &mut ProgramCache,
) -> Result<ScriptResult, ScriptFailure> {
    let clock = WallClock {
        at_start: block.now,
        started: Instant::now(),
        time_limit: Duration::from_millis(block.time_limit_ms),
    };
    let Compiled { program, run } = programs.get(&block.source, block.first_line)?;
    if let Some(line) = program.whitespace
        && (whitespace::in_map(&block.state) || whitespace::in_map(&block.variables))
    {
        let what = whitespace::limitation();
        let refused = BlockError::Unsupported { what, line };
        return Err(diagnose::block_error(&refused, block.first_line));
    }
    let before = match program.changes {
        true => digests(&block.state),
        false => Vec::new(),
    };
    let inputs = vec![convert::dict(block.state), convert::dict(block.variables)];
    let tracker = tracker(block.time_limit_ms, memory_limit);
    let mut printed = OutputBuffer::new(block.most_printed);
    let ended = drive(run, inputs, tracker, &mut printed, clock);
    let printed = printed.finish();
    match ended {
        Ok(value) => match outcome(value, &program, &before) {
            Ok((returned, changes)) => Ok(ScriptResult {
                returned,
                printed,
                changes,
            }),
            Err(message) => Err(ScriptFailure {
                kind: "script_error",
                message,
                line: None,
                printed,
            }),
        },
        Err(raised) => {
            let limit = Some(clock.time_limit);
            let failure = diagnose::exception(&raised, &program, block.first_line, limit);
            Err(ScriptFailure { printed, ..failure })
        }
    }
}

fn tracker(time_limit_ms: u64, memory_limit: u64) -> ResourceTracker {
    let mut limits = ResourceLimits::default().max_duration(Duration::from_millis(time_limit_ms));
    if memory_limit > 0 {
        // Rejects a single large value before it is allocated; the limit of the process covers everything
        // else.
        limits = limits.max_memory(usize::try_from(memory_limit).unwrap_or(usize::MAX));
    }
    ResourceTracker::new(limits)
}

/// Runs the program and answers its requests for anything outside the interpreter.
fn drive(
    compiled: MontyRun,
    inputs: Vec<MontyObject>,
    tracker: ResourceTracker,
    printed: &mut OutputBuffer,
    clock: WallClock,
) -> Result<MontyObject, MontyException> {
    let deadline = clock.started + clock.time_limit;
    let mut progress = compiled.start(inputs, tracker, PrintWriter::Callback(printed))?;
    loop {
        let print = PrintWriter::Callback(printed);
        progress = match progress {
            RunProgress::Complete(value) => return Ok(value),
            RunProgress::OsCall(call) => call.resume_with(print, |call| clock.answer(&call))?,
            RunProgress::NameLookup(lookup) => lookup.resume(NameLookupResult::Undefined, print)?,
            // A call of a name that is not defined.
            RunProgress::FunctionCall(call) => {
                let now = clock.microseconds();
                let result = host::answer(&call.function_name, &call.args, now, deadline);
                call.resume(result, print)?
            }
            RunProgress::ResolveFutures(futures) => {
                futures.abort(no_access("anything that it could wait for"), print)?
            }
        };
    }
}

fn no_access(to: &str) -> MontyException {
    MontyException::new(ExcType::PermissionError, Some(format!("{NO_ACCESS} {to}")))
}

/// Returns the block's value and its changes to the state.
fn outcome(
    value: MontyObject,
    program: &Program,
    before: &[(String, Digest)],
) -> Result<(Value, Changes), String> {
    if !program.changes {
        return Ok((returned(value, program.names)?, Changes::default()));
    }
    let parts = match value {
        MontyObject::Tuple(parts) | MontyObject::List(parts) => parts,
        _ => Vec::new(),
    };
    let Ok([value, state]) = <[MontyObject; 2]>::try_from(parts) else {
        return Err("the block's state is not there".to_owned());
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

fn returned(value: MontyObject, names: bool) -> Result<Value, String> {
    if names {
        convert::names(value)
    } else {
        convert::from_python(value)
            .map_err(|unrepresentable| unrepresentable.message("the returned value"))
    }
}

/// The clock of a block: in UTC, based on the time that the parent passed in.
#[derive(Debug, Clone, Copy)]
struct WallClock {
    at_start: Millis,
    started: Instant,
    /// The block's time limit.
    time_limit: Duration,
}

impl WallClock {
    /// Answers requests for the time and rejects all others.
    fn answer(&self, call: &OsFunctionCall) -> ExtFunctionResult {
        let refused = match call {
            OsFunctionCall::DateToday => {
                let now = self.at(0);
                let date = MontyDate {
                    year: now.year,
                    month: now.month,
                    day: now.day,
                };
                return ExtFunctionResult::Return(MontyObject::Date(date));
            }
            OsFunctionCall::DateTimeNow(zone) => {
                let now = self.in_zone(zone.as_ref());
                return ExtFunctionResult::Return(MontyObject::DateTime(now));
            }
            OsFunctionCall::Getenv(_) | OsFunctionCall::GetEnviron => "the environment",
            _ => "files",
        };
        ExtFunctionResult::Error(no_access(&format!("{refused} (`{}`)", call.name())))
    }

    fn in_zone(&self, zone: Option<&MontyTimeZone>) -> MontyDateTime {
        let mut now = self.at(zone.map_or(0, |zone| zone.offset_seconds));
        now.offset_seconds = zone.map(|zone| zone.offset_seconds);
        now.timezone_name = zone.and_then(|zone| zone.name.clone());
        now
    }

    /// Returns the time in microseconds since 1970-01-01 UTC.
    fn microseconds(&self) -> i64 {
        let passed = i64::try_from(self.started.elapsed().as_micros()).unwrap_or(i64::MAX);
        self.at_start.saturating_mul(1_000).saturating_add(passed)
    }

    /// Returns the date and time at `offset` seconds east of UTC, without a zone.
    fn at(&self, offset: i32) -> MontyDateTime {
        let micros = self.microseconds();
        let seconds = micros
            .div_euclid(1_000_000)
            .saturating_add(i64::from(offset));
        let of_day = seconds.rem_euclid(86_400);
        let (year, month, day) = civil(seconds.div_euclid(86_400));
        MontyDateTime {
            year,
            month,
            day,
            hour: narrow(of_day / 3_600),
            minute: narrow(of_day / 60 % 60),
            second: narrow(of_day % 60),
            microsecond: u32::try_from(micros.rem_euclid(1_000_000)).unwrap_or(0),
            offset_seconds: None,
            timezone_name: None,
        }
    }
}

fn narrow(part: i64) -> u8 {
    u8::try_from(part).unwrap_or(u8::MAX)
}

/// Converts a number of days since 1970-01-01 to a date within the years that Python supports.
fn civil(days: i64) -> (i32, u8, u8) {
    let (year, month, day) = civil_from_days(days.clamp(-719_162, 2_932_896));
    (i32::try_from(year).unwrap_or(1), narrow(month), narrow(day))
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

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "../../tests/unit/script/interpreter.rs"]
mod tests;
