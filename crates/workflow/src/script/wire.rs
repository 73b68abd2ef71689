//! What goes between us and a worker: one line of JSON each way per block.
//!
//! A block sees and returns exactly the numbers that it was given: both sides write floats in
//! their shortest form, and serde_json reads them to the last bit with its `float_roundtrip`.

use std::borrow::Cow;

use cachalot_core::Millis;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{Changes, Ended, ScriptFailure};

/// Deeper values are refused on both ways: JSON readers stop at 128 levels, a few of them ours.
pub(super) const DEEPEST: usize = 100;

/// The longest line that we read from a worker, in bytes.
pub(super) const LONGEST_ANSWER: u64 = 256 * 1024 * 1024;

/// How much printed text is kept, in bytes.
pub(super) const MOST_PRINTED: usize = 1024 * 1024;

/// The first line that a worker reads.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Greeting {
    /// How many bytes a worker may use on top of what it has when it starts; 0 is no limit.
    pub(super) memory_limit: u64,
}

/// The interpreter that runs a block in a worker of our own binary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Interpreter {
    Python,
    Lua,
}

/// A block to run, as we send it.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    /// Its own among all of its pool; from 1.
    pub(super) number: u64,
    /// Workers of the user's own Python ignore it.
    pub(super) interpreter: Interpreter,
    pub(super) source: &'a str,
    pub(super) first_line: u32,
    pub(super) state: &'a Map<String, Value>,
    pub(super) variables: &'a Map<String, Value>,
    pub(super) time_limit_ms: u64,
    pub(super) most_printed: usize,
    pub(super) now: Millis,
}

/// A block to run, as a worker receives it.
#[derive(Deserialize)]
pub(super) struct Received {
    pub(super) number: u64,
    pub(super) interpreter: Interpreter,
    pub(super) source: String,
    pub(super) first_line: u32,
    pub(super) state: Map<String, Value>,
    pub(super) variables: Map<String, Value>,
    pub(super) time_limit_ms: u64,
    pub(super) most_printed: usize,
    pub(super) now: Millis,
}

/// A line that a worker received, as far as every version of us understands it.
#[derive(Deserialize)]
pub(super) struct Numbered {
    pub(super) number: u64,
}

/// What a worker sends: an answer, and to which request. A block that splits its process could make
/// two answers of one, and the second would be taken for that of the next block.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Reply<R> {
    pub(super) number: u64,
    pub(super) answer: Answer<R>,
}

/// How the block ended, as a worker sends it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer<R> {
    Ended {
        returned: R,
        printed: String,
        #[serde(default)]
        changes: Changes,
    },
    Failed {
        kind: Cow<'static, str>,
        message: String,
        line: Option<u32>,
        printed: String,
    },
}

impl Answer<Value> {
    /// The answer in the words of the trait.
    pub(super) fn into_result(self) -> Result<Ended, ScriptFailure> {
        match self {
            Self::Ended {
                returned,
                printed,
                changes,
            } => Ok(Ended {
                returned,
                printed,
                changes,
            }),
            Self::Failed {
                kind,
                message,
                line,
                printed,
            } => Err(ScriptFailure {
                kind: known(&kind),
                message,
                line,
                printed,
            }),
        }
    }
}

/// The kinds that a worker may name; anything else is the worker's fault.
fn known(kind: &str) -> &'static str {
    [
        "script_error",
        "script_unsupported",
        "script_timeout",
        "script_memory",
    ]
    .into_iter()
    .find(|known| *known == kind)
    .unwrap_or("script_worker")
}

/// Whether a value nests at most [`DEEPEST`] levels, itself included.
pub(super) fn fits(map: &Map<String, Value>) -> bool {
    fn within(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left > 0 && items.iter().all(|item| within(item, left - 1)),
            Value::Object(map) => left > 0 && map.values().all(|item| within(item, left - 1)),
            _ => true,
        }
    }
    map.values().all(|value| within(value, DEEPEST - 1))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::expect_used)]
mod tests {
    use super::*;

    #[test]
    fn depth_is_counted_with_the_outermost_object() {
        let nested = |levels: usize| {
            let value = (2..levels).fold(Value::Array(Vec::new()), |inner, _| {
                Value::from(vec![inner])
            });
            Map::from_iter([("deep".to_owned(), value)])
        };
        assert!(fits(&nested(DEEPEST)));
        assert!(!fits(&nested(DEEPEST + 1)));
    }
}
