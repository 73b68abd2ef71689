//! Runs one block in the embedded Lua. Only called in a worker process.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::{Duration, Instant};

use mlua::chunk::ChunkMode;
use mlua::{HookTriggers, Lua, LuaOptions, LuaString, MultiValue, StdLib, VmState};
use serde_json::Value;

use super::super::output_buffer::OutputBuffer;
use super::super::wire::ReceivedRequest;
use super::super::{Changes, ScriptFailure, ScriptResult, limits};
use super::convert::{self, JsonConverter};
use super::{check, diagnose};

/// Restricts the libraries before the block runs.
const PRELUDE: &str = include_str!("prelude.lua");

/// The number of instructions between two checks of the time limit.
const CHECK_INTERVAL: u32 = 10_000;

/// The minimum memory, in bytes, of a converted JSON value.
const MIN_VALUE_BYTES: u64 = 32;

/// Runs a block to its end. A `memory_limit` of 0 means no limit.
///
/// # Errors
/// The block's own error, or the limit that stopped it; lines are lines of the file.
pub(in super::super) fn run(
    block: ReceivedRequest,
    memory_limit: u64,
) -> Result<ScriptResult, ScriptFailure> {
    let printed = Rc::new(RefCell::new(OutputBuffer::new(block.most_printed)));
    let running = Block {
        block: &block,
        memory_limit,
        printed: &printed,
        started: Instant::now(),
        stopped: Rc::default(),
    };
    let ended = running.evaluate();
    let printed = printed.replace(OutputBuffer::new(0)).finish();
    match ended {
        Ok(returned) => Ok(ScriptResult {
            returned,
            changes: Changes::default(),
            printed,
        }),
        Err(failure) => Err(ScriptFailure { printed, ..failure }),
    }
}

struct Block<'b> {
    block: &'b ReceivedRequest,
    memory_limit: u64,
    printed: &'b Rc<RefCell<OutputBuffer>>,
    started: Instant,
    /// Set when the time limit is exceeded: the line of the file at that moment, if the interpreter was
    /// in the block.
    stopped: Rc<Cell<Option<Option<u32>>>>,
}

impl Block<'_> {
    /// Runs the block. The interpreter is closed when this returns, so that finalizers of the block run
    /// within its time limit.
    fn evaluate(&self) -> Result<Value, ScriptFailure> {
        let ended = self
            .interpreter()
            .and_then(|lua| {
                let returned = self.call(&lua)?;
                let maximum = match self.memory_limit {
                    0 => u64::MAX,
                    limit => limit / MIN_VALUE_BYTES,
                };
                Ok(JsonConverter::new(maximum).returned(returned.into_vec()))
            })
            .map_err(|error| diagnose::failure(&error, self.block.first_line, self.memory_limit));
        // First of all: a block can catch the error of the time limit, and return a value.
        if let Some(line) = self.stopped.get() {
            return Err(ScriptFailure::new(
                "script_timeout",
                limits::timed_out(Duration::from_millis(self.block.time_limit_ms)),
                line,
            ));
        }
        ended?.map_err(|unrepresentable| unrepresentable.failure("the returned value"))
    }

    fn interpreter(&self) -> mlua::Result<Lua> {
        let libraries = StdLib::COROUTINE
            | StdLib::MATH
            | StdLib::OS
            | StdLib::STRING
            | StdLib::TABLE
            | StdLib::UTF8;
        let lua = Lua::new_with(libraries, LuaOptions::new())?;
        let printed = Rc::clone(self.printed);
        let write = lua.create_function(move |_, text: LuaString| {
            printed.borrow_mut().push(&text.to_string_lossy());
            Ok(())
        })?;
        let (at_start, started) = (self.block.now, self.started);
        let now = lua.create_function(move |_, ()| {
            let passed = i64::try_from(started.elapsed().as_millis()).unwrap_or(i64::MAX);
            Ok(at_start.saturating_add(passed).div_euclid(1_000))
        })?;
        lua.load(PRELUDE)
            .set_name("=prelude")
            .set_mode(ChunkMode::Text)
            .call::<()>((write, now))?;
        // Set here so that the memory of the prelude does not count against the block.
        lua.set_memory_limit(usize::try_from(self.memory_limit).unwrap_or(usize::MAX))?;
        Ok(lua)
    }

    fn call(&self, lua: &Lua) -> mlua::Result<MultiValue> {
        let function = check::compile(lua, &self.block.source)?;
        let state = convert::table(lua, &self.block.state)?;
        let variables = convert::table(lua, &self.block.variables)?;
        lua.globals().raw_set("state", &state)?;
        lua.globals().raw_set("variables", variables)?;
        let limit = Duration::from_millis(self.block.time_limit_ms);
        let (started, stopped) = (self.started, Rc::clone(&self.stopped));
        let first_line = self.block.first_line;
        lua.set_global_hook(
            HookTriggers::new().every_nth_instruction(CHECK_INTERVAL),
            move |_, at| {
                if started.elapsed() < limit {
                    return Ok(VmState::Continue);
                }
                if stopped.get().is_none() {
                    let in_block = at.source().short_src.as_deref() == Some("block");
                    let line = at.current_line().filter(|_| in_block);
                    let line = line.and_then(|line| u32::try_from(line).ok());
                    stopped.set(Some(line.map(|line| diagnose::file_line(line, first_line))));
                }
                // A block can catch this error: it is raised again until the parent kills the process.
                Err(mlua::Error::runtime("the time limit is over"))
            },
        )?;
        function.call(state)
    }
}
