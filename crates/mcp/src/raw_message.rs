//! Facts of a message that the library's types lose: hints about caching, the digits of numbers, and what servers of
//! 2025-11-25 say about tasks. Read from the text of the message.

use std::borrow::Cow;
use std::ops::Range;

use cachalot_core::json::{JsonResult, OBJECT, Scanner};
use rmcp::model::{MetaObject, ServerJsonRpcMessage, ServerResult};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::announcement::Announcement;
use super::exact_numbers;

/// The member of `_meta` that holds the [`AnswerNotes`] of a result.
const NOTES: &str = "dev.cachalot/notes";

/// The member of `_meta` of a tool that can only be called as a task, and of a server whose tools can.
const TASKS: &str = "dev.cachalot/tasks";

/// True if the `_meta` of a tool says that it can only be called as a task, or that of a server that its tools can.
pub(super) fn offers_tasks(meta: Option<&MetaObject>) -> bool {
    meta.is_some_and(|meta| meta.contains_key(TASKS))
}

/// True if a result describes a task, as an answer to a call or to `tasks/get`.
pub(super) fn is_task(result: &Value) -> bool {
    let task = result.get("task").unwrap_or(result);
    let has = |name: &str| task.get(name).is_some_and(Value::is_string);
    has("taskId") && has("status")
}

/// The facts of one message.
#[derive(Debug, Default)]
pub(super) struct RawMessage {
    notes: AnswerNotes,
    /// The values that are shown as JSON: their numbers keep their spelling.
    shown: Vec<Range<usize>>,
    /// The names of the tools that can only be called as tasks.
    task_tools: Vec<String>,
    /// Set if a server declares that calls of tools can be tasks.
    offers_tasks: bool,
    method: Option<String>,
    /// The parameter `uri`.
    uri: Option<String>,
}

/// Facts about the answer to a call, which the parser passes on in its `_meta`.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct AnswerNotes {
    /// The lifetime that the server states (`ttlMs`), in milliseconds; 0 for a negative one.
    pub(super) ttl_ms: Option<u64>,
    /// The scope that the server states (`cacheScope`): true for `private`.
    pub(super) private: Option<bool>,
    /// The reason why the answer must not be cached.
    pub(super) not_storable: Option<String>,
}

impl AnswerNotes {
    /// Returns the notes in the `_meta` of a result.
    pub(super) fn of(meta: Option<&MetaObject>) -> Self {
        let notes = meta.and_then(|meta| meta.get(NOTES));
        notes
            .and_then(|notes| Self::deserialize(notes).ok())
            .unwrap_or_default()
    }

    /// Forbids to cache the answer, unless that is forbidden already.
    pub(super) fn forbid(&mut self, why: &str) {
        self.not_storable.get_or_insert_with(|| why.to_owned());
    }

    /// Returns the value of a hint: `read`, if no value of it was read `before`. A hint that cannot be read, or
    /// that is there twice, forbids to cache the answer.
    fn hint<T>(&mut self, name: &str, before: Option<T>, read: Option<T>) -> Option<T> {
        if before.is_some() || read.is_none() {
            self.forbid(&format!(
                "the server's hint `{name}` about caching cannot be read"
            ));
        }
        before.or(read)
    }
}

impl RawMessage {
    /// Reads the facts of a message; none if it is not JSON.
    pub(super) fn read(text: &str) -> Self {
        let mut raw = Self::default();
        let mut scanner = Scanner::new(text.as_bytes());
        let mut results = 0;
        let read = members(&mut scanner, |name, scanner| match name {
            b"result" => {
                results += 1;
                raw.read_result(scanner)
            }
            // Data of an error, and of a log message.
            b"error" | b"params" => members(scanner, |name, scanner| match name {
                b"data" => raw.show(scanner),
                b"uri" => {
                    raw.uri = read_text(scanner.value()?);
                    Ok(())
                }
                _ => scanner.value().map(drop),
            }),
            b"method" => {
                raw.method = read_text(scanner.value()?);
                Ok(())
            }
            _ => scanner.value().map(drop),
        });
        if read.is_err() {
            return Self::default();
        }
        // The library takes one of them, and the hints may be those of the other one.
        if results > 1 {
            raw.notes.forbid("the server's answer has two results");
        }
        raw
    }

    fn read_result(&mut self, scanner: &mut Scanner<'_>) -> JsonResult<()> {
        members(scanner, |name, scanner| match name {
            b"structuredContent" => self.show(scanner),
            // The result of a task.
            b"result" => members(scanner, |name, scanner| match name {
                b"structuredContent" => self.show(scanner),
                _ => scanner.value().map(drop),
            }),
            b"capabilities" => self.read_capabilities(scanner),
            b"ttlMs" => {
                let read = read_lifetime(scanner.value()?);
                self.notes.ttl_ms = self.notes.hint("ttlMs", self.notes.ttl_ms, read);
                Ok(())
            }
            b"cacheScope" => {
                let read = read_scope(scanner.value()?);
                self.notes.private = self.notes.hint("cacheScope", self.notes.private, read);
                Ok(())
            }
            b"tools" if scanner.peek() == Some(b'[') => {
                scanner.elements(|scanner| self.read_tool(scanner))
            }
            _ => scanner.value().map(drop),
        })
    }

    /// Notes a value that is shown as JSON.
    fn show(&mut self, scanner: &mut Scanner<'_>) -> JsonResult<()> {
        scanner.peek();
        let start = scanner.at();
        scanner.value()?;
        self.shown.push(start..scanner.at());
        Ok(())
    }

    /// Reads `tasks.requests.tools.call`.
    fn read_capabilities(&mut self, scanner: &mut Scanner<'_>) -> JsonResult<()> {
        within(scanner, b"tasks", &mut |scanner| {
            within(scanner, b"requests", &mut |scanner| {
                within(scanner, b"tools", &mut |scanner| {
                    within(scanner, b"call", &mut |scanner| {
                        self.offers_tasks |= scanner.peek() == Some(b'{');
                        scanner.value().map(drop)
                    })
                })
            })
        })
    }

    fn read_tool(&mut self, scanner: &mut Scanner<'_>) -> JsonResult<()> {
        let (mut tool, mut is_task) = (None, false);
        members(scanner, |name, scanner| match name {
            b"name" => {
                tool = read_text(scanner.value()?);
                Ok(())
            }
            b"execution" => members(scanner, |name, scanner| {
                let value = scanner.value()?;
                if name == b"taskSupport" {
                    is_task |= read_text(value).is_some_and(|support| support == "required");
                }
                Ok(())
            }),
            _ => scanner.value().map(drop),
        })?;
        self.task_tools.extend(tool.filter(|_| is_task));
        Ok(())
    }

    /// Returns the announcement that the message is.
    pub(super) fn announcement(&self) -> Option<Announcement> {
        Announcement::new(self.method.as_deref()?, self.uri.clone())
    }

    /// Replaces the numbers of shown values so that they keep their spelling ([`exact_numbers::shown`]).
    pub(super) fn keep_numbers<'a>(&self, text: &'a str) -> Cow<'a, str> {
        exact_numbers::kept(text, &self.shown)
    }

    /// Forbids to cache the answer of this message.
    pub(super) fn forbid_storing(&mut self, why: &str) {
        self.notes.forbid(why);
    }

    /// Adds the notes to the answer to a call, and marks the tools that can only be called as tasks.
    pub(super) fn apply(self, message: &mut ServerJsonRpcMessage) {
        let ServerJsonRpcMessage::Response(response) = message else {
            return;
        };
        let meta = match &mut response.result {
            ServerResult::CallToolResult(result) => &mut result.meta,
            ServerResult::ReadResourceResult(result) => &mut result.meta,
            ServerResult::GetPromptResult(result) => &mut result.meta,
            ServerResult::ListToolsResult(list) => {
                for tool in &mut list.tools {
                    let is_task = self.task_tools.iter().any(|task| *task == tool.name);
                    mark_tasks(&mut tool.meta, is_task);
                }
                return;
            }
            ServerResult::InitializeResult(result) => {
                mark_tasks(&mut result.meta, self.offers_tasks);
                return;
            }
            _ => return,
        };
        // A server must not write notes.
        if let Some(meta) = meta {
            meta.remove(NOTES);
        }
        if self.notes != AnswerNotes::default()
            && let Ok(notes) = serde_json::to_value(&self.notes)
        {
            let meta = meta.get_or_insert_default();
            meta.insert(NOTES.to_owned(), notes);
        }
    }
}

/// Sets the mark for tasks, or removes one that the server wrote.
fn mark_tasks(meta: &mut Option<MetaObject>, is_task: bool) {
    if is_task {
        let meta = meta.get_or_insert_default();
        meta.insert(TASKS.to_owned(), true.into());
    } else if let Some(meta) = meta {
        meta.remove(TASKS);
    }
}

/// Calls `read` for the member of this name, if the value is an object that has it. Skips the others.
fn within(
    scanner: &mut Scanner<'_>,
    wanted: &[u8],
    read: &mut dyn FnMut(&mut Scanner<'_>) -> JsonResult<()>,
) -> JsonResult<()> {
    members(scanner, |name, scanner| match name {
        name if name == wanted => read(scanner),
        _ => scanner.value().map(drop),
    })
}

/// Calls `each` with the decoded name of every member of an object; it reads the value. Skips any other
/// value.
fn members(
    scanner: &mut Scanner<'_>,
    mut each: impl FnMut(&[u8], &mut Scanner<'_>) -> JsonResult<()>,
) -> JsonResult<()> {
    if scanner.peek() != Some(b'{') {
        return scanner.value().map(drop);
    }
    let mut unescaped = Vec::new();
    let mut more = scanner.open(&OBJECT)?;
    while more {
        let name = scanner.key(&mut unescaped)?.to_owned();
        each(name.as_slice(), scanner)?;
        more = scanner.more(&OBJECT)?;
    }
    Ok(())
}

/// Reads a lifetime in milliseconds. A negative one counts as 0.
fn read_lifetime(value: &[u8]) -> Option<u64> {
    let lifetime: i64 = serde_json::from_slice(value).ok()?;
    Some(u64::try_from(lifetime).unwrap_or(0))
}

/// Reads a scope: true if it is `private`.
fn read_scope(value: &[u8]) -> Option<bool> {
    match read_text(value)?.as_str() {
        "private" => Some(true),
        "public" => Some(false),
        _ => None,
    }
}

fn read_text(value: &[u8]) -> Option<String> {
    serde_json::from_slice(value).ok()
}
