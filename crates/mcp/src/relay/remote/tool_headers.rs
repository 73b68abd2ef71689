//! Headers that mirror parameters of a tool call: `Mcp-Param-NAME`, as the tool's definition (`x-mcp-header`) asks for.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::Value;

use super::headers::header_text;
use crate::relay::Frame;

/// The member of a property's schema that names the header.
const MARK: &str = "x-mcp-header";

/// Maximum depth of nested properties.
const MAX_DEPTH: usize = 32;

/// The headers of the tools whose definitions have passed through.
#[derive(Default)]
pub(super) struct ToolHeaders(Mutex<HashMap<String, Vec<ToolHeader>>>);

#[derive(Debug, Clone, PartialEq)]
struct ToolHeader {
    /// The names of the properties from the arguments to the value.
    path: Vec<String>,
    name: String,
}

impl ToolHeaders {
    /// Learns from a response to `tools/list`. Definitions that are not as the protocol has them get no headers: the
    /// client drops such tools.
    pub(super) fn learn(&self, response: &Frame) {
        let Some(result) = response.result() else {
            return;
        };
        let is_first_seen = self.0.lock().is_empty();
        if is_first_seen && memchr::memmem::find(result.as_bytes(), MARK.as_bytes()).is_none() {
            return;
        }
        let Ok(result) = serde_json::from_str::<Value>(result) else {
            return;
        };
        let tools = result["tools"].as_array().map_or(&[][..], Vec::as_slice);
        for tool in tools {
            let Some(name) = tool["name"].as_str() else {
                continue;
            };
            let mut found = Vec::new();
            collect(&tool["inputSchema"], &mut Vec::new(), &mut found);
            let mut known = self.0.lock();
            if found.is_empty() {
                known.remove(name);
            } else {
                known.insert(name.to_owned(), found);
            }
        }
    }

    /// Returns the headers of a call.
    pub(super) fn of(&self, request: &Frame) -> Vec<(String, String)> {
        let known = self.0.lock();
        if known.is_empty() || request.method() != "tools/call" {
            return Vec::new();
        }
        let name = request.text_param("name").unwrap_or_default();
        let Some(headers) = known.get(&name) else {
            return Vec::new();
        };
        let value_of = |header: &ToolHeader| {
            let mut place = request.param_place("arguments")?;
            for member in &header.path {
                place = request.member_place(place, member)?;
            }
            let spelling = std::str::from_utf8(&request.bytes()[place]).ok()?;
            let text = match spelling.as_bytes().first()? {
                b'"' => serde_json::from_str(spelling).ok()?,
                b't' | b'f' | b'-' | b'0'..=b'9' => spelling.to_owned(),
                _ => return None,
            };
            Some((format!("mcp-param-{}", header.name), header_text(&text)))
        };
        headers.iter().filter_map(value_of).collect()
    }
}

fn collect(schema: &Value, path: &mut Vec<String>, found: &mut Vec<ToolHeader>) {
    let Some(properties) = schema["properties"].as_object() else {
        return;
    };
    for (name, property) in properties {
        path.push(name.clone());
        match property[MARK].as_str() {
            Some(header) if http::HeaderName::try_from(header).is_ok() => {
                found.push(ToolHeader {
                    path: path.clone(),
                    name: header.to_ascii_lowercase(),
                });
            }
            _ if path.len() < MAX_DEPTH => collect(property, path, found),
            _ => {}
        }
        path.pop();
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_a_call() {
        let headers = ToolHeaders::default();
        let list = r#"{"id":1,"result":{"tools":[{"name":"q","inputSchema":{"type":"object","properties":{
            "region":{"type":"string","x-mcp-header":"Region"},
            "deep":{"type":"object","properties":{"n":{"type":"integer","x-mcp-header":"Num"}}},
            "flag":{"type":"boolean","x-mcp-header":"Flag"},
            "none":{"type":"string","x-mcp-header":"None"}}}}]}}"#;
        headers.learn(&Frame::parse(list.into()).unwrap());
        let call = r#"{"id":1,"method":"tools/call","params":{"name":"q","arguments":{"region":"süd","deep":{"n":42},"flag":true,"none":null}}}"#;
        assert_eq!(
            headers.of(&Frame::parse(call.into()).unwrap()),
            [
                ("mcp-param-region", "=?base64?c8O8ZA==?="),
                ("mcp-param-num", "42"),
                ("mcp-param-flag", "true"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
        );
    }
}
