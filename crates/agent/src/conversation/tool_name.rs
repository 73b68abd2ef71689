//! Names of rendered tools.

use bytes::Bytes;
use serde_json::Value;

/// The name of a tool that was rendered in any wire format.
pub(crate) fn name(tool: &Bytes) -> String {
    let tool: Value = serde_json::from_slice(tool).unwrap_or_default();
    let nested = ["/function/name", "/toolSpec/name", "/name"];
    let name = nested.iter().find_map(|place| tool.pointer(place));
    name.and_then(Value::as_str).unwrap_or_default().to_owned()
}
