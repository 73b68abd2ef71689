//! The worker process: the same binary, started again to run blocks in isolation.

use std::any::Any;
use std::io::{self, BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use super::programs::ProgramCache;
use super::wire::{
    BlockOutcome, Greeting, Interpreter, READY, ReceivedRequest, RequestNumber, WorkerReply,
};
use super::{ScriptFailure, ScriptResult, block, interpreter, limits, lua};

/// Runs blocks that arrive on standard input, one line of JSON each, and answers each with a line on
/// standard output, until standard input ends. It then exits at once, even in the middle of a block: its
/// parent has exited or no longer needs it.
///
/// The hidden command `__script-worker` does only this. Call it before anything else: it permanently
/// limits memory, files and processes of the whole process.
///
/// The exit code is 0 after the end of the input and 2 if the first line is not a greeting.
#[must_use]
pub fn serve() -> ExitCode {
    let mut input = BufReader::new(io::stdin());
    let mut line = String::new();
    let Some(greeting) = greeting(&mut input, &mut line) else {
        return ExitCode::from(2);
    };
    let (send, blocks) = channel::<String>();
    let (started, wait_for_start) = channel::<()>();
    // Started before the limits, which do not allow another thread.
    let interpreter = thread::Builder::new()
        .name("interpreter".to_owned())
        // Only the used part of the stack costs memory.
        .stack_size(block::stack_for(block::MAX_BYTES))
        .spawn(move || {
            // The receiver is gone if the process is about to exit.
            let _ = started.send(());
            answer_all(&blocks, greeting.memory_limit);
        });
    if interpreter.is_err() || wait_for_start.recv().is_err() {
        return ExitCode::from(2);
    }
    limits::confine(greeting.memory_limit);
    // Only now: no block arrives before the limits are in force.
    if write_line(READY.as_bytes()).is_err() {
        return ExitCode::from(2);
    }
    loop {
        let mut line = String::new();
        match input.read_line(&mut line) {
            Ok(read) if read > 0 && send.send(line).is_ok() => {}
            _ => return ExitCode::SUCCESS,
        }
    }
}

fn greeting(input: &mut impl BufRead, line: &mut String) -> Option<Greeting> {
    input.read_line(line).ok()?;
    serde_json::from_str(line).ok()
}

fn answer_all(blocks: &Receiver<String>, memory_limit: u64) {
    let mut programs = ProgramCache::default();
    for line in blocks {
        let (number, result) = run(&line, memory_limit, &mut programs);
        drop(line);
        if write_line(&encode(number, result)).is_err() {
            return;
        }
    }
}

/// Runs the block in a line; returns its number and its result.
fn run(
    line: &str,
    memory_limit: u64,
    programs: &mut ProgramCache,
) -> (u64, Result<ScriptResult, ScriptFailure>) {
    let block: ReceivedRequest = match serde_json::from_str(line) {
        Ok(block) => block,
        Err(error) => {
            // 0 is never the number of a block.
            let number = serde_json::from_str(line).map_or(0, |RequestNumber { number }| number);
            let message = format!("the worker could not read its block: {error}");
            return (
                number,
                Err(ScriptFailure::new("script_worker", message, None)),
            );
        }
    };
    let number = block.number;
    // A panic of the interpreter fails only its block.
    let name = match block.interpreter {
        Interpreter::Python => "Python",
        Interpreter::Lua => "Lua",
    };
    let result = catch_unwind(AssertUnwindSafe(|| match block.interpreter {
        Interpreter::Python => interpreter::run(block, memory_limit, programs),
        Interpreter::Lua => lua::interpreter::run(block, memory_limit),
    }));
    let result = result.unwrap_or_else(|panic| {
        let message = format!(
            "the embedded {name} failed: {}",
            panic_message(panic.as_ref())
        );
        Err(ScriptFailure::new("script_worker", message, None))
    });
    (number, result)
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("no reason was given")
}

fn encode(number: u64, result: Result<ScriptResult, ScriptFailure>) -> Vec<u8> {
    let answer = match result {
        Ok(ended) => BlockOutcome::Ended(ended),
        Err(failure) => BlockOutcome::Failed(failure),
    };
    // Serialization into memory cannot fail for the values in an answer.
    serde_json::to_vec(&WorkerReply { number, answer }).unwrap_or_default()
}

fn write_line(line: &[u8]) -> io::Result<()> {
    let mut output = io::stdout().lock();
    output.write_all(line)?;
    output.write_all(b"\n")?;
    output.flush()
}
