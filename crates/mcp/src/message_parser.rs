//! Messages of a server, before they reach the protocol library.
//!
//! The library drops a message that it cannot parse, and the request that it answers then waits for its
//! timeout. Messages are therefore parsed here first: a malformed item of a list is dropped on its own, and
//! an answer that cannot be used becomes an error with the reason.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

use futures_util::FutureExt as _;
use parking_lot::Mutex;
use rmcp::model::{
    ContentBlock, ErrorCode, ErrorData, Prompt, PromptMessage, RequestId, Resource,
    ResourceContents, ResourceTemplate, ServerJsonRpcMessage, ServerResult, Tool,
};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::McpDependencies;
use super::announcement::Announcement;
use super::announcements::Announcements;
use super::exact_numbers;
use super::line_reader::{LineRead, LineReader};
use super::raw_message::{RawMessage, is_task};

/// Marks errors that were created here and not sent by a server: the message is the whole error.
pub(super) const LOCAL_ERROR: ErrorCode = ErrorCode(-32_790);

/// Maximum number of characters that are shown of a line that is not a message.
const MAX_SHOWN_CHARS: usize = 200;

/// Maximum number of faults of a server that are reported once only.
const MAX_REMEMBERED_FAULTS: usize = 100;

/// Parses the messages of one server.
#[derive(Clone)]
pub(super) struct MessageParser {
    server: Arc<str>,
    /// Maximum size of a message, in bytes.
    pub(super) limit: usize,
    dependencies: McpDependencies,
    announcements: Announcements,
    /// The faults that were reported, at most [`MAX_REMEMBERED_FAULTS`]: a list that is read again has them again.
    reported: Arc<Mutex<HashSet<String>>>,
}

impl MessageParser {
    pub(super) fn new(
        server: &str,
        limit: usize,
        dependencies: McpDependencies,
        announcements: Announcements,
    ) -> Self {
        Self {
            server: server.into(),
            limit,
            dependencies,
            announcements,
            reported: Arc::default(),
        }
    }

    /// Parses a message; `None` if it is to be ignored.
    pub(super) fn read(&self, text: &[u8]) -> Option<ServerJsonRpcMessage> {
        let read = message(text);
        // Before the message reaches the library: a caller that sees it must not be served older results.
        if let Some(announcement) = &read.announcement {
            self.announcements.handle(announcement);
        }
        // Not an error: nothing that it says can change. The probe of an older server is refused with one.
        if let Some(ServerJsonRpcMessage::Response(_)) = &read.message {
            self.announcements.note_answer();
        }
        for fault in read.faults {
            if self.is_new(&fault) {
                self.warn(&fault);
            }
        }
        if let Some(noise) = read.noise {
            let noise = self.dependencies.secret_set.redact(&noise).into_owned();
            let line = format!("no message of the protocol: {noise}");
            (self.dependencies.reporter).server_output(&self.server, &line);
        }
        read.message
    }

    /// The replacement of a message that is too large: an error for the request that it answers.
    pub(super) fn too_large(&self, id: Option<RequestId>) -> Option<ServerJsonRpcMessage> {
        let why = format!(
            "sent a message of more than {} bytes, which was left out; ask for less, or raise its `max_message`",
            self.limit
        );
        match id {
            Some(id) => Some(error_answer(why, id)),
            None => {
                // It may have been an announcement, so that everything counts as changed.
                self.announcements.handle(&Announcement::Unreadable);
                self.warn(&why);
                None
            }
        }
    }

    fn is_new(&self, fault: &str) -> bool {
        let mut reported = self.reported.lock();
        if reported.contains(fault) {
            return false;
        }
        if reported.len() < MAX_REMEMBERED_FAULTS {
            reported.insert(fault.to_owned());
        }
        true
    }

    fn warn(&self, what: &str) {
        let message = format!("the MCP server `{}` {what}", self.server);
        let message = self.dependencies.secret_set.redact(&message);
        self.dependencies.reporter.warning(&message);
    }
}

/// Converts the standard output of a server to messages, as JSON: the messages that it wrote, repaired as far
/// as possible, and errors in place of answers that cannot be used. `limit` is the maximum size of a message
/// in bytes.
#[must_use]
pub fn parse_messages(output: &[u8], limit: usize) -> Vec<Value> {
    let mut lines = LineReader::new(output, limit);
    let mut messages = Vec::new();
    // Bytes in memory are available at once.
    while let Some(Ok(Some(line))) = lines.next().now_or_never() {
        let message = match line {
            LineRead::Whole => message(lines.line()).message,
            LineRead::TooLong(Some(id)) => Some(error_answer(
                "sent a message that is too large".to_owned(),
                id,
            )),
            LineRead::TooLong(None) => None,
        };
        messages.extend(message.and_then(|message| serde_json::to_value(message).ok()));
    }
    messages
}

/// The result of parsing a message.
#[derive(Debug, Default)]
struct ParsedMessage {
    message: Option<ServerJsonRpcMessage>,
    /// Faults of the server, as messages without its name.
    faults: Vec<String>,
    /// The beginning of a line that is not a message.
    noise: Option<String>,
    announcement: Option<Announcement>,
}

/// Creates an error answer in place of the server's own.
fn error_answer(why: String, id: RequestId) -> ServerJsonRpcMessage {
    let error = ErrorData {
        code: LOCAL_ERROR,
        message: Cow::Owned(why),
        data: None,
    };
    ServerJsonRpcMessage::error(error, Some(id))
}

fn message(text: &[u8]) -> ParsedMessage {
    let text = text.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(text);
    if text.trim_ascii().is_empty() {
        return ParsedMessage::default();
    }
    let Ok(text) = std::str::from_utf8(text) else {
        return ParsedMessage::noise(&String::from_utf8_lossy(text));
    };
    let raw = RawMessage::read(text);
    let announcement = raw.announcement();
    ParsedMessage {
        announcement,
        ..parse(text, raw)
    }
}

fn parse(text: &str, mut raw: RawMessage) -> ParsedMessage {
    let text = raw.keep_numbers(text);
    let parsed = serde_json::from_str::<ServerJsonRpcMessage>(&text);
    if let Ok(message) = parsed
        && is_understood(&message)
    {
        return ParsedMessage::new(message, raw);
    }
    let Ok(Value::Object(fields)) = serde_json::from_str::<Value>(&text) else {
        return ParsedMessage::noise(&text);
    };
    let id = fields.get("id").cloned();
    match id.and_then(|id| serde_json::from_value::<RequestId>(id).ok()) {
        Some(id) if !fields.contains_key("method") => {
            raw.forbid_storing("the server's answer was malformed and had to be repaired");
            repair_answer(fields, id, raw)
        }
        // A request or a notification of an unknown kind.
        _ => ParsedMessage::default(),
    }
}

impl ParsedMessage {
    fn new(mut message: ServerJsonRpcMessage, raw: RawMessage) -> Self {
        raw.apply(&mut message);
        Self {
            message: Some(message),
            ..Self::default()
        }
    }

    fn noise(text: &str) -> Self {
        Self {
            noise: Some(shortened(text.trim())),
            ..Self::default()
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_SHOWN_CHARS).collect()
}

/// True if the library has recognized the type of the message. It accepts an unknown answer as a custom
/// result.
fn is_understood(message: &ServerJsonRpcMessage) -> bool {
    match message {
        ServerJsonRpcMessage::Response(response) => match &response.result {
            ServerResult::CustomResult(result) => is_task(&result.0),
            _ => true,
        },
        _ => true,
    }
}

/// Repairs the answer to a request.
fn repair_answer(mut fields: Map<String, Value>, id: RequestId, raw: RawMessage) -> ParsedMessage {
    fields.insert("jsonrpc".to_owned(), json!("2.0"));
    if let Some(error) = fields.get_mut("error") {
        let message = match &*error {
            Value::Object(error) => error.get("message").cloned(),
            _ => None,
        };
        let said = match message {
            Some(Value::String(text)) => text,
            _ => exact_numbers::shown(error),
        };
        let why = format!("refused, with an error that violates the protocol: {said}");
        return ParsedMessage {
            message: Some(error_answer(why, id)),
            ..ParsedMessage::default()
        };
    }
    if let Some(Value::Object(result)) = fields.get_mut("result") {
        repair_discovery(result);
        let message = serde_json::from_value(Value::Object(fields.clone()));
        if let Ok(ServerJsonRpcMessage::Response(answer)) = message
            && let ServerResult::DiscoverResult(_) = answer.result
        {
            return ParsedMessage::new(ServerJsonRpcMessage::Response(answer), raw);
        }
    }
    let mut faults = Vec::new();
    let repaired = match fields.get_mut("result") {
        Some(Value::Object(result)) => repair(result, &mut faults),
        _ => None,
    };
    let understood = repaired.and_then(|list| {
        let parsed = |fields: Map<String, Value>| {
            serde_json::from_value::<ServerJsonRpcMessage>(Value::Object(fields)).ok()
        };
        let is_kind = |message: &ServerJsonRpcMessage| match message {
            ServerJsonRpcMessage::Response(response) => (list.is_kind)(&response.result),
            _ => false,
        };
        let whole = parsed(fields.clone()).filter(is_kind);
        whole.or_else(|| {
            // Another member changes the kind of the answer.
            if let Some(Value::Object(result)) = fields.get_mut("result") {
                result.retain(|name, _| name == list.key || MEMBERS.contains(&name.as_str()));
            }
            parsed(fields).filter(is_kind)
        })
    });
    match understood {
        Some(message) => {
            let mut parsed = ParsedMessage::new(message, raw);
            parsed.faults.extend(faults);
            parsed
        }
        None => {
            let why = "violated the protocol; this is a fault of the server";
            ParsedMessage {
                message: Some(error_answer(why.to_owned(), id)),
                faults,
                ..ParsedMessage::default()
            }
        }
    }
}

/// Adds the members that a result of discovery lacks, if it is one. The defaults forbid to cache it.
fn repair_discovery(result: &mut Map<String, Value>) {
    if !result.get("supportedVersions").is_some_and(Value::is_array) {
        return;
    }
    result.retain(|name, value| {
        has_right_type(name, value) && (name != "instructions" || value.is_string())
    });
    let defaults = [
        ("resultType", json!("complete")),
        ("capabilities", json!({})),
        ("ttlMs", json!(0)),
        ("cacheScope", json!("private")),
    ];
    for (name, default) in defaults {
        result.entry(name).or_insert(default);
    }
}

/// A list in a result, whose items can be malformed.
struct ItemList {
    key: &'static str,
    /// An item, in messages.
    item: &'static str,
    keep: fn(&mut Vec<Value>, &str, &mut Vec<String>),
    /// True if a result is of the kind that has the list.
    is_kind: fn(&ServerResult) -> bool,
}

impl ItemList {
    /// Creates the list of items of type `T`.
    const fn new<T: DeserializeOwned>(
        key: &'static str,
        item: &'static str,
        is_kind: fn(&ServerResult) -> bool,
    ) -> Self {
        Self {
            key,
            item,
            keep: keep::<T>,
            is_kind,
        }
    }
}

static LISTS: [ItemList; 7] = [
    ItemList::new::<Tool>("tools", "tool", |result| {
        matches!(result, ServerResult::ListToolsResult(_))
    }),
    ItemList::new::<Resource>("resources", "resource", |result| {
        matches!(result, ServerResult::ListResourcesResult(_))
    }),
    ItemList::new::<ResourceTemplate>("resourceTemplates", "resource template", |result| {
        matches!(result, ServerResult::ListResourceTemplatesResult(_))
    }),
    ItemList::new::<Prompt>("prompts", "prompt", |result| {
        matches!(result, ServerResult::ListPromptsResult(_))
    }),
    ItemList::new::<ContentBlock>("content", "piece of content", |result| {
        matches!(result, ServerResult::CallToolResult(_))
    }),
    ItemList::new::<ResourceContents>("contents", "piece of a resource", |result| {
        matches!(result, ServerResult::ReadResourceResult(_))
    }),
    ItemList::new::<PromptMessage>("messages", "message of a prompt", |result| {
        matches!(result, ServerResult::GetPromptResult(_))
    }),
];

/// The members of a result that the library reads, besides the lists.
const MEMBERS: [&str; 8] = [
    "_meta",
    "cacheScope",
    "description",
    "isError",
    "nextCursor",
    "resultType",
    "structuredContent",
    "ttlMs",
];

/// True if the library can read one of [`MEMBERS`]. It ignores members that it does not know.
fn has_right_type(name: &str, value: &Value) -> bool {
    match name {
        "nextCursor" | "description" | "resultType" => value.is_string(),
        "isError" => value.is_boolean(),
        "_meta" => value.is_object(),
        "ttlMs" => value.is_i64(),
        "cacheScope" => value == "public" || value == "private",
        _ => true,
    }
}

/// Removes invalid parts from a result, and keeps everything else. Returns the list that makes its kind;
/// `None` if it is not a known kind.
fn repair(result: &mut Map<String, Value>, faults: &mut Vec<String>) -> Option<&'static ItemList> {
    let list = LISTS
        .iter()
        .find(|list| result.get(list.key).is_some_and(Value::is_array))?;
    let Some(Value::Array(mut items)) = result.remove(list.key) else {
        return None;
    };
    let before = items.len();
    (list.keep)(&mut items, list.item, faults);
    result.retain(|name, value| has_right_type(name, value));
    if items.is_empty() && before > 0 && matches!(list.key, "content" | "contents" | "messages") {
        // An empty answer would be mistaken for a valid one.
        return None;
    }
    result.insert(list.key.to_owned(), Value::Array(items));
    Some(list)
}

/// Keeps the items of this type, and reports the others.
fn keep<T: DeserializeOwned>(items: &mut Vec<Value>, what: &str, faults: &mut Vec<String>) {
    let mut number = 0;
    items.retain(|item| {
        number += 1;
        let Err(error) = T::deserialize(item) else {
            return true;
        };
        let name = ["name", "uri", "uriTemplate", "type"]
            .iter()
            .find_map(|key| item.get(*key)?.as_str());
        let named = match name {
            Some(name) => format!("a {what} `{}`", shortened(name)),
            None => format!("a {what} without a name (number {number})"),
        };
        faults.push(format!(
            "has {named} that is malformed, and is left out: {error}; this is a fault of the server"
        ));
        false
    });
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(value: Value) -> ParsedMessage {
        message(value.to_string().as_bytes())
    }

    fn result(read: &ParsedMessage) -> &ServerResult {
        match read.message.as_ref().unwrap() {
            ServerJsonRpcMessage::Response(response) => &response.result,
            other => panic!("{other:?}"),
        }
    }

    fn error(read: &ParsedMessage) -> String {
        match read.message.as_ref().unwrap() {
            ServerJsonRpcMessage::Error(error) => {
                assert_eq!(error.error.code, LOCAL_ERROR);
                assert_eq!(error.id, Some(RequestId::Number(1)));
                error.error.message.to_string()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn malformed_tool_is_skipped_and_reported() {
        let good = json!({"name": "good", "inputSchema": {"type": "object"}});
        for (bad, named) in [
            (json!({"name": "bad"}), "a tool `bad`"),
            (json!({"name": "bad", "inputSchema": []}), "a tool `bad`"),
            (
                json!({"name": "bad", "inputSchema": {}, "description": 5}),
                "a tool `bad`",
            ),
            (
                json!({"inputSchema": {}}),
                "a tool without a name (number 2)",
            ),
            (json!("bad"), "a tool without a name (number 2)"),
        ] {
            for extra in [
                json!({}),
                json!({"resultType": "complete"}),
                json!({"ttlMs": "no"}),
            ] {
                let mut listed = json!({"tools": [good, bad, good], "nextCursor": "2"});
                listed
                    .as_object_mut()
                    .unwrap()
                    .extend(extra.as_object().unwrap().clone());
                let read = read(json!({"jsonrpc": "2.0", "id": 1, "result": listed}));
                let ServerResult::ListToolsResult(list) = result(&read) else {
                    panic!("{read:?}");
                };
                assert_eq!(
                    (list.tools.len(), list.next_cursor.as_deref()),
                    (2, Some("2"))
                );
                assert_eq!(read.faults.len(), 1);
                assert!(read.faults[0].contains(named), "{:?}", read.faults);
            }
        }
    }

    #[test]
    fn malformed_items_of_other_lists_are_skipped() {
        for (key, good) in [
            ("resources", json!({"uri": "a://b", "name": "b"})),
            (
                "resourceTemplates",
                json!({"uriTemplate": "a://{b}", "name": "b"}),
            ),
            ("prompts", json!({"name": "b"})),
            ("content", json!({"type": "text", "text": "b"})),
            ("contents", json!({"uri": "a://b", "text": "b"})),
            (
                "messages",
                json!({"role": "user", "content": {"type": "text", "text": "b"}}),
            ),
        ] {
            let bad = json!({"name": 5, "type": "hologram", "uri": 5});
            let read = read(json!({"id": 1, "result": {key: [good, bad]}}));
            let kept = serde_json::to_value(result(&read)).unwrap();
            assert_eq!(kept[key].as_array().unwrap().len(), 1, "{key}: {kept}");
            assert_eq!(read.faults.len(), 1, "{key}");
        }
    }

    #[test]
    fn repaired_answer_keeps_all_other_members() {
        let members = json!({
            "ttlMs": 0, "cacheScope": "private", "nextCursor": "2", "x-own": [1],
            "_meta": {"a": {"b": 1}},
        });
        for (key, good) in [
            ("tools", json!({"name": "b", "inputSchema": {}})),
            ("resources", json!({"uri": "a://b", "name": "b"})),
            ("contents", json!({"uri": "a://b", "text": "b"})),
        ] {
            let mut answer = members.clone();
            answer[key] = json!([good, 5]);
            let read = read(json!({"id": 1, "result": answer}));
            let kept = serde_json::to_value(result(&read)).unwrap();
            assert_eq!(kept[key], json!([good]), "{kept}");
            for member in ["ttlMs", "cacheScope"] {
                assert_eq!(kept[member], members[member], "{kept}");
            }
            assert_eq!(kept["_meta"]["a"], members["_meta"]["a"], "{kept}");
        }
        // Members of another kind of answer do not change the kind.
        let content = json!({"type": "text", "text": "b"});
        let answer =
            json!({"content": [content, 5], "messages": [], "structuredContent": {"a": 1}});
        let read = read(json!({"id": 1, "result": answer}));
        let ServerResult::CallToolResult(kept) = result(&read) else {
            panic!("{read:?}");
        };
        assert_eq!(kept.structured_content, Some(json!({"a": 1})));
    }

    #[test]
    fn unusable_response_is_an_error() {
        for answer in [
            json!({"jsonrpc": "2.0", "id": 1, "result": 5}),
            json!({"jsonrpc": "2.0", "id": 1}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "hologram"}]}}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"unheard": "of"}}),
        ] {
            assert!(error(&read(answer)).starts_with("violated the protocol"));
        }
        let refused = read(json!({"id": 1, "error": {"code": "E42", "message": "no disk"}}));
        assert_eq!(
            error(&refused),
            "refused, with an error that violates the protocol: no disk"
        );
    }

    #[test]
    fn non_message_line_is_log_output() {
        assert_eq!(
            message(b"Server started\n").noise.unwrap(),
            "Server started"
        );
        assert!(message(b"[1, 2]").noise.is_some());
        let unknown = read(json!({"jsonrpc": "2.0", "method": "$/progress", "params": 5}));
        assert!(unknown.noise.is_none() && unknown.faults.is_empty());
    }

    #[test]
    fn valid_messages_are_kept() {
        for answer in [
            json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
            json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": []}}),
            json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32601, "message": "no"}}),
            json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}),
            json!({"jsonrpc": "2.0", "id": 7, "method": "ping"}),
        ] {
            let read = read(answer.clone());
            assert!(read.message.is_some() && read.faults.is_empty(), "{answer}");
        }
    }
}
