//! Decoded forms of answers, which are kept in memory with their bytes.

use std::any::Any;

use serde_json::{Map, Value};

/// The decoded form of an answer, shared by all hits on an entry.
pub trait Decoded: Any + Send + Sync {
    /// The approximate size in memory in bytes, including the value itself. Read once, after decoding; counts
    /// towards [`crate::CacheBounds::front_bytes`].
    fn weight(&self) -> u64;
}

/// The error of decoding a stored answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the answer cannot be decoded: {0}")]
pub struct DecodeError(pub String);

/// The overhead of an allocation in bytes.
const ALLOCATION_OVERHEAD: usize = 16;

impl Decoded for Value {
    fn weight(&self) -> u64 {
        (size_of::<Self>() + heap_bytes(self)) as u64
    }
}

impl Decoded for String {
    fn weight(&self) -> u64 {
        (size_of::<Self>() + text_heap_bytes(self)) as u64
    }
}

/// The bytes that a value takes on the heap.
fn heap_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text_heap_bytes(text),
        Value::Array(items) if items.capacity() == 0 => 0,
        Value::Array(items) => {
            let each: usize = items.iter().map(heap_bytes).sum();
            ALLOCATION_OVERHEAD + items.capacity() * size_of::<Value>() + each
        }
        Value::Object(fields) => map_heap_bytes(fields),
    }
}

fn text_heap_bytes(text: &String) -> usize {
    match text.capacity() {
        0 => 0,
        bytes => ALLOCATION_OVERHEAD + bytes,
    }
}

/// The bytes of an insertion-ordered map: a table of positions, whose size is a power of two and of which an
/// eighth stays empty, and a list of fields with as many places as the table can hold.
fn map_heap_bytes(fields: &Map<String, Value>) -> usize {
    if fields.is_empty() {
        return 0;
    }
    let (slots, places) = match fields.len() {
        0..4 => (4, 3),
        4..8 => (8, 7),
        many => {
            let slots = (many * 8 / 7).next_power_of_two();
            (slots, slots / 8 * 7)
        }
    };
    let table = ALLOCATION_OVERHEAD + slots * (size_of::<usize>() + 1) + 16;
    let field = size_of::<u64>() + size_of::<String>() + size_of::<Value>();
    let each = |(name, value): (&String, &Value)| text_heap_bytes(name) + heap_bytes(value);
    table + ALLOCATION_OVERHEAD + places * field + fields.iter().map(each).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Measured with a counting allocator (serde_json 1, 64 bits), plus 16 bytes per allocation and the 72
    /// of the value itself.
    #[test]
    fn weight_of_a_json_tree_estimates_its_allocated_bytes() {
        let object = |fields: usize| -> Value {
            let field = |number| (format!("k{number}"), json!(number));
            Value::Object((0..fields).map(field).collect())
        };
        let record = |id: usize| json!({"id": id + 1_000, "name": format!("item {id:04}"), "price": 12.5, "tags": ["a", "b"]});
        for (value, measured) in [
            (json!(null), 72),
            (object(0), 72),
            (object(3), 522),
            (object(4), 992),
            (object(7), 1_046),
            (object(8), 1_864),
            (object(14), 1_976),
            (object(15), 3_595),
            ((0..150).map(record).collect(), 212_020),
            (json!({"text": "x".repeat(10_000), "pages": 3}), 10_525),
            ((0..1_000).map(Value::from).collect(), 73_816),
        ] {
            let text = value.to_string();
            let parsed: Value = serde_json::from_str(&text).unwrap_or_default();
            let weight = parsed.weight();
            let near = weight.abs_diff(measured) * 20 <= measured;
            assert!(near, "{weight} instead of {measured}: {text:.60}");
        }
    }
}
