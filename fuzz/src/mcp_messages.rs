//! What an MCP server writes to its standard output, any bytes: no panic, a message for every answer, and
//! messages that can be read again.
//!
//! The first byte picks the limit of a message.

use cachalot_mcp::parse_messages;
use serde_json::Value;

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let [limit, output @ ..] = bytes else {
        return;
    };
    let limit = 64 << (limit % 8);
    let read = parse_messages(output, limit);
    let lines: Vec<&[u8]> = output.split(|byte| *byte == b'\n').collect();
    assert!(read.len() <= lines.len());
    // What has no end is no line yet.
    for line in &lines[..lines.len() - 1] {
        let Ok(Value::Object(fields)) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        let Some(id) = fields.get("id").filter(|id| id.is_i64()) else {
            continue;
        };
        if line.len() <= limit && !fields.contains_key("method") {
            assert!(read.iter().any(|message| message["id"] == *id), "{id}");
        }
    }
    let mut again = Vec::new();
    for message in &read {
        again.extend_from_slice(message.to_string().as_bytes());
        again.push(b'\n');
    }
    let ids = |messages: &[Value]| -> Vec<Value> {
        messages
            .iter()
            .map(|message| message["id"].clone())
            .collect()
    };
    assert_eq!(ids(&parse_messages(&again, usize::MAX)), ids(&read));
}
