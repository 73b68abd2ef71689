//! What goes between us and a worker: one line of JSON each way per block.
//!
//! Floats travel as text inside a marked object, because reading a JSON number may move the last
//! bit of a float, and a block must see and return exactly the numbers that it was given.

use std::borrow::Cow;

use cachalot_core::Millis;
use serde::ser::{SerializeMap, SerializeSeq};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use super::{Ended, ScriptFailure};

/// Deeper values are refused on both ways: JSON readers stop at 128 levels, a few of them ours.
pub(super) const DEEPEST: usize = 100;

/// The longest line that we read from a worker, in bytes.
pub(super) const LONGEST_ANSWER: u64 = 256 * 1024 * 1024;

/// How much printed text is kept, in bytes.
pub(super) const MOST_PRINTED: usize = 1024 * 1024;

/// The key of the object that stands for a float. Real keys that begin like it get one more NUL.
const FLOAT: &str = "\0float";

/// The first line that a worker reads.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Greeting {
    /// How many bytes a worker may use on top of what it has when it starts; 0 is no limit.
    pub(super) memory_limit: u64,
}

/// A block to run, as we send it.
#[derive(Serialize)]
pub(super) struct Request<'a> {
    pub(super) source: &'a str,
    pub(super) first_line: u32,
    pub(super) state: Exact<'a>,
    pub(super) variables: Exact<'a>,
    pub(super) time_limit_ms: u64,
    pub(super) most_printed: usize,
    pub(super) now: Millis,
}

/// A block to run, as a worker receives it; floats still as [`Exact`] wrote them.
#[derive(Deserialize)]
pub(super) struct Received {
    pub(super) source: String,
    pub(super) first_line: u32,
    pub(super) state: Map<String, Value>,
    pub(super) variables: Map<String, Value>,
    pub(super) time_limit_ms: u64,
    pub(super) most_printed: usize,
    pub(super) now: Millis,
}

/// How the block ended, as a worker sends it.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer<R> {
    Ended {
        returned: R,
        printed: String,
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
            Self::Ended { returned, printed } => Ok(Ended {
                returned: restored(returned),
                printed,
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

/// A JSON object or value, its floats written so that no bit of them is lost.
#[derive(Clone, Copy)]
pub(super) enum Exact<'a> {
    Map(&'a Map<String, Value>),
    Value(&'a Value),
}

impl Serialize for Exact<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Map(map) => object(map, serializer),
            Self::Value(Value::Object(map)) => object(map, serializer),
            Self::Value(Value::Array(items)) => {
                let mut sequence = serializer.serialize_seq(Some(items.len()))?;
                for item in items {
                    sequence.serialize_element(&Exact::Value(item))?;
                }
                sequence.end()
            }
            Self::Value(Value::Number(number)) if number.is_f64() => {
                let mut map = serializer.serialize_map(Some(1))?;
                map.serialize_entry(FLOAT, &number.to_string())?;
                map.end()
            }
            Self::Value(other) => other.serialize(serializer),
        }
    }
}

fn object<S: Serializer>(from: &Map<String, Value>, serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(from.len()))?;
    for (key, value) in from {
        map.serialize_entry(&escaped(key), &Exact::Value(value))?;
    }
    map.end()
}

/// A key that cannot be taken for [`FLOAT`].
fn escaped(key: &str) -> Cow<'_, str> {
    if key.starts_with('\0') {
        Cow::Owned(format!("\0{key}"))
    } else {
        Cow::Borrowed(key)
    }
}

/// The key as it was before [`escaped`].
pub(super) fn unescaped(key: String) -> String {
    match key.strip_prefix('\0') {
        Some(rest) => rest.to_owned(),
        None => key,
    }
}

/// The float that a received object stands for, if it stands for one.
pub(super) fn float(map: &Map<String, Value>) -> Option<f64> {
    match (map.len(), map.get(FLOAT)) {
        (1, Some(Value::String(text))) => text.parse().ok(),
        _ => None,
    }
}

/// A received value with its floats as numbers again.
pub(super) fn restored(value: Value) -> Value {
    match value {
        Value::Object(map) => match float(&map) {
            Some(float) => Value::from(float),
            None => Value::Object(
                map.into_iter()
                    .map(|(key, value)| (unescaped(key), restored(value)))
                    .collect(),
            ),
        },
        Value::Array(items) => Value::Array(items.into_iter().map(restored).collect()),
        other => other,
    }
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
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        let key = prop_oneof![
            ".{0,3}",
            Just("\0float".to_owned()),
            Just("\0\0float".to_owned())
        ];
        leaf.prop_recursive(4, 32, 4, move |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map(key.clone(), inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn every_value_arrives_as_it_was_sent(value in values()) {
            let line = serde_json::to_string(&Exact::Value(&value)).unwrap();
            prop_assert!(!line.contains('\n'));
            let received: Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(restored(received), value);
        }
    }

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
