//! Wire format between the parent and a worker: one line of JSON in each direction per block.
//!
//! Numbers are transferred exactly: both sides write floats in their shortest form, and serde_json reads
//! them to the last bit with its `float_roundtrip`.

use std::borrow::Cow;

use cachalot_core::Millis;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use super::{FailureKind, ScriptFailure, ScriptResult};

/// The line that a worker sends when it is ready for blocks. That of a user's own Python is followed by a blank and its
/// version, such as `3.12`.
pub(super) const READY: &str = "ready";

/// The maximum nesting depth in both directions: JSON readers stop at 128 levels, some of which the
/// message itself needs.
pub(super) const MAX_DEPTH: usize = 100;

/// The maximum length of a line that the parent reads from a worker, in bytes.
pub(super) const MAX_ANSWER_BYTES: u64 = 256 * 1024 * 1024;

/// The maximum amount of printed text that is kept, in bytes.
pub(super) const MAX_PRINTED_BYTES: usize = 1024 * 1024;

/// The first line that a worker reads.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Greeting {
    /// The maximum memory of a worker, in bytes, in addition to its memory at start; 0 means no limit.
    pub(super) memory_limit: u64,
}

/// The interpreter that runs a block in a worker of our own binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Interpreter {
    Python,
    Lua,
}

/// A block to run, with its source and its mappings: borrowed in the parent, owned in a worker.
#[derive(Serialize, Deserialize)]
pub(super) struct Request<S, M> {
    /// The number of the request, unique within its pool; from 1.
    pub(super) number: u64,
    /// Ignored by workers of the user's own Python.
    pub(super) interpreter: Interpreter,
    pub(super) source: S,
    pub(super) first_line: u32,
    pub(super) state: M,
    pub(super) variables: M,
    pub(super) time_limit_ms: u64,
    pub(super) most_printed: usize,
    pub(super) now: Millis,
    /// Set if the block is compiled, but not run. Ignored by workers of an embedded interpreter.
    #[serde(default)]
    pub(super) compile_only: bool,
}

/// A block to run, as a worker receives it.
pub(super) type ReceivedRequest = Request<String, Map<String, Value>>;

/// The part of a request that workers of every version can read.
#[derive(Deserialize)]
pub(super) struct RequestNumber {
    pub(super) number: u64,
}

/// An answer of a worker, with the number of its request. A block that forks its process could produce
/// two answers to one request, and the second would be taken for the answer to the next block.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct WorkerReply {
    pub(super) number: u64,
    pub(super) answer: BlockOutcome,
}

/// The result of a block, as a worker sends it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum BlockOutcome {
    Ended(ScriptResult),
    Failed(ScriptFailure),
}

/// Reads the kind of a failure that a worker may report; any other kind is the worker's own failure.
pub(super) fn failure_kind<'de, D: Deserializer<'de>>(kind: D) -> Result<FailureKind, D::Error> {
    let kind = Cow::<str>::deserialize(kind)?;
    let known = [
        "script_error",
        "script_unsupported",
        "script_timeout",
        "script_memory",
    ];
    let known = known.into_iter().find(|known| *known == kind);
    Ok(known.unwrap_or("script_worker"))
}

/// True if a value nests at most [`MAX_DEPTH`] levels, itself included.
pub(super) fn is_within_max_depth(map: &Map<String, Value>) -> bool {
    fn within(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left > 0 && items.iter().all(|item| within(item, left - 1)),
            Value::Object(map) => left > 0 && map.values().all(|item| within(item, left - 1)),
            _ => true,
        }
    }
    map.values().all(|value| within(value, MAX_DEPTH - 1))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
#[path = "../../tests/unit/script/wire.rs"]
mod tests;
