//! Compiles a block without running it.

use mlua::chunk::ChunkMode;
use mlua::{Function, Lua, LuaOptions, StdLib};

use super::super::ScriptFailure;
use super::super::block::check_length;
use super::super::diagnose::block_error;
use super::diagnose;

/// The name of a block in Lua's messages. The `=` prefix keeps Lua from quoting it.
pub(super) const CHUNK: &str = "=block";

/// The maximum memory, in bytes, for compiling a block.
const MEMORY: usize = 64 * 1024 * 1024;

/// Checks that a block is Lua. Nothing is executed; Lua limits the nesting of the code that it compiles.
///
/// `first_line` is the line of the file on which `source` begins.
///
/// # Errors
/// `script_error` for a block that is not Lua or too long, with the line of the file.
pub fn check(source: &str, first_line: u32) -> Result<(), ScriptFailure> {
    let compiled = Lua::new_with(StdLib::NONE, LuaOptions::new()).and_then(|lua| {
        lua.set_memory_limit(MEMORY)?;
        compile(&lua, source).map(drop)
    });
    match compiled {
        Err(error) => Err(diagnose::failure(&error, first_line, MEMORY as u64)),
        Ok(()) => check_length(source).map_err(|refused| block_error(&refused, first_line)),
    }
}

/// Compiles a block. Blank lines at its end are left out, so that an error at its end is reported for its
/// last line.
pub(super) fn compile(lua: &Lua, source: &str) -> mlua::Result<Function> {
    lua.load(source.trim_end())
        .set_name(CHUNK)
        // No bytecode: Lua does not verify it, and a wrong one can break the interpreter.
        .set_mode(ChunkMode::Text)
        .into_function()
}
