//! Requests that Claude Code 2.1.332 and later record in their transcripts, in parts.
//!
//! | line | content |
//! |---|---|
//! | `api-request-shape` | `shape`, the system text and the tools, under its `shapeHash` |
//! | `api-request-blob` | `message` under its `hash`, if no other line contains it |
//! | `api-request` | `id`, `shapeHash`, `params`; the hashes of the messages: the first `keep` of the request `base`, then `tail`; `cacheControl`, the markers with their places |
//! | `user`, `assistant` | messages without a blob, and the answer to the request `requestRef` |
//!
//! A hash is the SHA-256 of the JSON without white space and with sorted keys. A blob counts under the hash that it
//! states: only equality of hashes matters, and programs that shorten texts keep hashes. A request of which a part is
//! missing is not reconstructed; the defect says which.

use std::collections::{HashMap, HashSet, VecDeque};

use bytes::Bytes;
use cachalot_core::{Digest, Millis};
use serde_json::{Map, Value, json};

use super::transcript_answer::{TranscriptAnswer, TranscriptConversation, moment};
use super::{LoggedRequest, MAX_LINE_BYTES, Reason, envelope};
use crate::hash::hash as id_hash;
use crate::request::{self, NormalForms};

/// Maximum bytes of parts that are held. When they are exceeded, all are forgotten, and requests that need them are
/// named as defective.
const MAX_PART_BYTES: usize = 256 << 20;

/// Maximum number of requests that later requests may continue; the newest ones.
const MAX_LISTS: usize = 256;

/// Maximum number of requests that wait for their answers, and of their bytes; the newest ones. The last request waits in
/// any case.
const MAX_OPEN_REQUESTS: usize = 64;
const MAX_OPEN_BYTES: u64 = 128 << 20;

/// Maximum number of requests whose IDs are remembered.
const MAX_KNOWN_REQUESTS: usize = 1 << 18;

/// Maximum bytes that are reconstructed: short lines may name long messages any number of times.
const MAX_RECONSTRUCTED_BYTES: u64 = 64 << 30;

/// Maximum number of cache markers of a request; the API takes four. Each one is inserted into its message.
const MAX_MARKERS: usize = 64;

/// Maximum depth of a place of a cache marker.
const MAX_PLACE_DEPTH: usize = 8;

/// The same as long as no request is known that needs them: transcripts of earlier versions have none.
const MAX_UNNEEDED_BYTES: usize = 16 << 20;

/// Approximate overhead of a part in bytes.
const PART_OVERHEAD_BYTES: usize = 128;

/// The reason why a recorded request cannot be reconstructed.
#[derive(Debug, thiserror::Error)]
pub(super) enum RecordedRequestError {
    #[error("the recorded request cannot be read: {0}")]
    NotARequest(request::Error),
    #[error("the recorded request cannot be read")]
    Unreadable,
    #[error("a hash in `tail` of the recorded request is malformed")]
    MalformedTail,
    #[error("the recorded request keeps messages and names no `base`")]
    NoBase,
    #[error("the request `{0}`, which the recorded one continues, is not in the file")]
    MissingBase(String),
    #[error("the recorded request keeps {keep} messages of `{base}`, which has {messages}")]
    ShortBase {
        keep: usize,
        base: String,
        messages: usize,
    },
    #[error("the {0} {hash}… of the recorded request is not in the file", hash = &.1.to_hex()[..12])]
    Missing(&'static str, Digest),
    #[error("the recorded request has no `shapeHash`")]
    NoShape,
    #[error("a cache marker of the recorded request is malformed")]
    MalformedMarker,
    #[error("the recorded request has too many cache markers")]
    TooManyMarkers,
    #[error("the recorded request has a cache marker at a place that it has not")]
    MisplacedMarker,
    #[error("the recorded requests are too long")]
    TooLong,
}

/// A line with a part of a request.
#[derive(Debug, Clone)]
pub(super) enum Part {
    /// System text and tools.
    Shape { hash: Digest, shape: Value },
    /// A message; one without a hash of its own counts under the hash of its content.
    Message {
        hash: Option<Digest>,
        message: Value,
    },
    /// A request.
    Request(Box<RecordedRequest>),
}

/// A line `api-request`.
#[derive(Debug, Clone)]
pub(super) struct RecordedRequest {
    id: String,
    place: TranscriptConversation,
    at: Option<Millis>,
    shape: Option<Digest>,
    parameters: Map<String, Value>,
    base: Option<String>,
    keep: usize,
    /// Hashes of the messages after the kept ones; `None` if one is malformed.
    tail: Option<Vec<Digest>>,
    /// Places and values of the cache markers; `None` if one is malformed.
    markers: Option<Vec<(Vec<Value>, Value)>>,
}

impl Part {
    /// Parses a line; `None` if it is another one or malformed.
    pub(super) fn read(kind: &str, line: &mut Value) -> Option<Self> {
        fn digest(line: &Value, name: &str) -> Option<Digest> {
            line.get(name)?.as_str()?.parse().ok()
        }
        match kind {
            "api-request-shape" => Some(Self::Shape {
                hash: digest(line, "shapeHash")?,
                shape: line.get_mut("shape")?.take(),
            }),
            "api-request-blob" => Some(Self::Message {
                hash: Some(digest(line, "hash")?),
                message: line.get_mut("message")?.take(),
            }),
            "user" => {
                let message = line.get_mut("message")?.take();
                message.is_object().then_some(Self::Message {
                    hash: None,
                    message,
                })
            }
            "api-request" => {
                RecordedRequest::read(line).map(|request| Self::Request(Box::new(request)))
            }
            _ => None,
        }
    }
}

impl RecordedRequest {
    fn read(line: &mut Value) -> Option<Self> {
        fn text(line: &Value, name: &str) -> Option<String> {
            Some(line.get(name)?.as_str()?.to_owned())
        }
        let Some(Value::Object(mut parameters)) = line.get_mut("params").map(Value::take) else {
            return None;
        };
        let thread = line.get("thread").filter(|thread| {
            let kind = thread.get("type").and_then(Value::as_str);
            kind.is_some_and(|kind| kind != "none")
        });
        if let Some(thread) = thread {
            parameters.insert("thread".to_owned(), thread.clone());
        }
        let line = &*line;
        let markers = line.get("cacheControl").and_then(Value::as_array);
        let markers = markers.into_iter().flatten().map(|marker| {
            let place = marker.get("path")?.as_array()?.clone();
            Some((place, marker.get("value")?.clone()))
        });
        let keep = line.get("keep").and_then(Value::as_u64).unwrap_or(0);
        let tail = line.get("tail").and_then(Value::as_array);
        let tail = tail.into_iter().flatten();
        let tail = tail.map(|hash| hash.as_str()?.parse().ok());
        Some(Self {
            id: text(line, "id")?,
            place: TranscriptConversation::read(line)?,
            at: moment(line),
            shape: text(line, "shapeHash").and_then(|hash| hash.parse().ok()),
            base: text(line, "base"),
            keep: usize::try_from(keep).ok()?,
            tail: tail.collect(),
            markers: markers.collect(),
            parameters,
        })
    }

    /// Returns the ID of the request that a line records; `None` for another line.
    pub(super) fn id_of(line: &[u8]) -> Option<String> {
        #[derive(serde::Deserialize)]
        struct Line {
            #[serde(rename = "type")]
            kind: String,
            id: String,
        }
        memchr::memmem::find(line, b"api-request")?;
        let line: Line = serde_json::from_slice(line).ok()?;
        (line.kind == "api-request").then_some(line.id)
    }
}

/// The request that an answer belongs to.
pub(super) enum AnsweredRequest {
    /// It was reconstructed.
    Reconstructed(Box<LoggedRequest>),
    /// It is not recorded, or was answered before.
    Unknown,
    /// It is recorded in another file.
    Elsewhere,
}

/// An answer of which lines were read: its blocks, which the next request repeats as one message.
struct PartialAnswer {
    id: String,
    blocks: Vec<Value>,
    /// The length of the blocks in bytes.
    length: usize,
    /// True if the message with these blocks is held.
    is_held: bool,
}

/// Parts of requests, and requests without an answer.
#[derive(Default)]
pub(super) struct RecordedRequests {
    shapes: HashMap<Digest, Bytes>,
    messages: HashMap<Digest, Bytes>,
    bytes: usize,
    /// The hashes of the messages of the last requests, oldest first.
    lists: VecDeque<(String, Vec<Digest>)>,
    /// Reconstructed requests without an answer, oldest first.
    open: VecDeque<(String, LoggedRequest)>,
    /// Hashes of the IDs of requests that some file records.
    known: HashSet<u64>,
    /// True if all files were registered, so that no other request is recorded.
    is_registered: bool,
    /// The answer of which more lines may follow.
    answer: Option<PartialAnswer>,
    /// Hashes of the IDs of the requests in this file.
    here: HashSet<u64>,
    /// The last answer of each conversation, which the provider compares with.
    last: HashMap<TranscriptConversation, String>,
    summarized: HashSet<TranscriptConversation>,
    /// Hashes of the conversations of which requests were reconstructed.
    conversations: HashSet<u64>,
    reconstructed_bytes: u64,
    forms: NormalForms,
}

impl RecordedRequests {
    /// Begins the registration of all files.
    pub(super) fn begin_registration(&mut self) {
        self.is_registered = true;
    }

    /// True if nothing needs the messages of other lines.
    fn is_without_requests(&self) -> bool {
        self.is_registered && self.known.is_empty()
    }

    /// Registers a request that some file records.
    pub(super) fn register(&mut self, id: &str) {
        if self.known.len() < MAX_KNOWN_REQUESTS {
            self.known.insert(id_hash(id));
        }
    }

    /// Records that the conversation continues with a summary.
    pub(super) fn summarize(&mut self, place: &TranscriptConversation) {
        self.summarized.insert(place.clone());
    }

    /// Returns true if requests of the conversation were reconstructed.
    pub(super) fn contains(&self, place: &TranscriptConversation) -> bool {
        self.conversations.contains(&id_hash(place))
    }

    /// Adds a line.
    ///
    /// # Errors
    /// The line records a request that cannot be reconstructed, and why.
    pub(super) fn take(&mut self, line: u64, part: Part) -> Result<(), RecordedRequestError> {
        match part {
            Part::Shape { hash, shape } => {
                let shape = json_bytes(&shape);
                self.hold(shape.len());
                self.shapes.insert(hash, shape);
                Ok(())
            }
            Part::Message {
                hash: Some(hash),
                message,
            } => {
                self.add_message(hash, &message);
                Ok(())
            }
            Part::Message { hash: None, .. } if self.is_without_requests() => Ok(()),
            Part::Message {
                hash: None,
                message,
            } => {
                for message in spellings(message) {
                    self.add_message(content_hash(&message), &message);
                }
                Ok(())
            }
            Part::Request(request) => self.request(line, *request),
        }
    }

    fn add_message(&mut self, hash: Digest, message: &Value) {
        let message = json_bytes(message);
        self.hold(message.len());
        self.messages.insert(hash, message);
    }

    /// Counts the bytes of a part that is added.
    fn hold(&mut self, bytes: usize) {
        let limit = if self.known.is_empty() {
            MAX_UNNEEDED_BYTES
        } else {
            MAX_PART_BYTES
        };
        if self.bytes + bytes > limit {
            self.shapes.clear();
            self.messages.clear();
            self.lists.clear();
            self.bytes = 0;
        }
        self.bytes += bytes + PART_OVERHEAD_BYTES;
    }

    fn request(&mut self, line: u64, request: RecordedRequest) -> Result<(), RecordedRequestError> {
        self.register(&request.id);
        if self.here.len() < MAX_KNOWN_REQUESTS {
            self.here.insert(id_hash(request.id.as_str()));
        }
        self.hold_answer();
        let hashes = self.hashes(&request)?;
        self.hold(request.id.len() + hashes.len() * size_of::<Digest>());
        if self.lists.len() == MAX_LISTS
            && let Some((id, oldest)) = self.lists.pop_front()
        {
            let size = id.len() + oldest.len() * size_of::<Digest>() + PART_OVERHEAD_BYTES;
            self.bytes = self.bytes.saturating_sub(size);
        }
        let body = self.body(&request, &hashes);
        self.lists.push_back((request.id.clone(), hashes));
        let body = body?;
        self.reconstructed_bytes += body.len() as u64;
        let read = envelope::read_body(&mut self.forms, &body).map_err(|reason| match reason {
            Reason::NotARequest(error) => RecordedRequestError::NotARequest(error),
            _ => RecordedRequestError::Unreadable,
        })?;
        let logged = LoggedRequest {
            line,
            at: request.at,
            session: Some(request.place.name()),
            is_summarized: self.summarized.remove(&request.place),
            ..read
        };
        self.make_room(logged.request.prompt.bytes());
        if self.conversations.len() < MAX_KNOWN_REQUESTS {
            self.conversations.insert(id_hash(&request.place));
        }
        self.open.push_back((request.id, logged));
        Ok(())
    }

    /// Forgets the oldest requests without an answer if another one with so many bytes is too much.
    fn make_room(&mut self, bytes: u64) {
        let size = |(_, logged): &(String, LoggedRequest)| logged.request.prompt.bytes();
        let mut sum = bytes + self.open.iter().map(size).sum::<u64>();
        while self.open.len() >= MAX_OPEN_REQUESTS || sum > MAX_OPEN_BYTES {
            let Some(oldest) = self.open.pop_front() else {
                return;
            };
            sum -= size(&oldest);
        }
    }

    /// Returns the hashes of all messages of a request.
    fn hashes(&self, request: &RecordedRequest) -> Result<Vec<Digest>, RecordedRequestError> {
        let tail = request.tail.as_ref();
        let tail = tail.ok_or(RecordedRequestError::MalformedTail)?;
        let mut hashes = match &request.base {
            None if request.keep > 0 => {
                return Err(RecordedRequestError::NoBase);
            }
            None => Vec::new(),
            Some(base) => {
                let mut lists = self.lists.iter().rev();
                let (_, kept) = lists
                    .find(|(id, _)| id == base)
                    .ok_or_else(|| RecordedRequestError::MissingBase(shortened(base)))?;
                let kept =
                    kept.get(..request.keep)
                        .ok_or_else(|| RecordedRequestError::ShortBase {
                            keep: request.keep,
                            base: shortened(base),
                            messages: kept.len(),
                        })?;
                kept.to_vec()
            }
        };
        hashes.extend_from_slice(tail);
        Ok(hashes)
    }

    /// Returns the body of a request.
    fn body(
        &self,
        request: &RecordedRequest,
        hashes: &[Digest],
    ) -> Result<Vec<u8>, RecordedRequestError> {
        let hash = request.shape.as_ref();
        let hash = hash.ok_or(RecordedRequestError::NoShape)?;
        let shape = self
            .shapes
            .get(hash)
            .ok_or(RecordedRequestError::Missing("shape", *hash))?;
        let mut shape: Value = serde_json::from_slice(shape).unwrap_or_default();
        let mut messages = Vec::with_capacity(hashes.len());
        for hash in hashes {
            let message = self
                .messages
                .get(hash)
                .ok_or(RecordedRequestError::Missing("message", *hash))?;
            messages.push(message.clone());
        }
        let markers = request.markers.as_ref();
        let markers = markers.ok_or(RecordedRequestError::MalformedMarker)?;
        if markers.len() > MAX_MARKERS {
            return Err(RecordedRequestError::TooManyMarkers);
        }
        for (place, marker) in markers {
            let is_set = match place.split_first() {
                _ if place.len() > MAX_PLACE_DEPTH => false,
                Some((Value::String(name), rest)) if name == "messages" => {
                    mark_message(&mut messages, rest, marker)
                }
                Some((Value::String(name), _)) if name == "system" || name == "tools" => {
                    mark(&mut shape, place, marker)
                }
                _ => false,
            };
            if !is_set {
                return Err(RecordedRequestError::MisplacedMarker);
            }
        }
        let length: usize = messages.iter().map(|message| message.len() + 1).sum();
        let bytes = self.reconstructed_bytes.saturating_add(length as u64);
        if length > MAX_LINE_BYTES || bytes > MAX_RECONSTRUCTED_BYTES {
            return Err(RecordedRequestError::TooLong);
        }
        let mut members = request.parameters.clone();
        for name in ["system", "tools"] {
            if let Some(value) = shape.get_mut(name) {
                members.insert(name.to_owned(), value.take());
            }
        }
        members.shift_remove("messages");
        let mut body = Value::Object(members).to_string().into_bytes();
        body.pop();
        if body.len() > 1 {
            body.push(b',');
        }
        body.extend_from_slice(br#""messages":["#);
        for (index, message) in messages.iter().enumerate() {
            if index > 0 {
                body.push(b',');
            }
            body.extend_from_slice(message);
        }
        body.extend_from_slice(b"]}");
        Ok(body)
    }

    /// Adds a line of an answer; returns its request, once.
    pub(super) fn answered(&mut self, answer: &mut TranscriptAnswer) -> AnsweredRequest {
        self.add_answer(answer);
        let Some(id) = &answer.request else {
            return AnsweredRequest::Unknown;
        };
        let open = self.open.iter().position(|(other, _)| other == id);
        let Some((_, logged)) = open.and_then(|at| self.open.remove(at)) else {
            let id = id_hash(id.as_str());
            return if self.known.contains(&id) && !self.here.contains(&id) {
                AnsweredRequest::Elsewhere
            } else {
                AnsweredRequest::Unknown
            };
        };
        let before = self.last.insert(answer.place.clone(), answer.id.clone());
        AnsweredRequest::Reconstructed(Box::new(LoggedRequest {
            usage: Some(answer.usage),
            answer: Some(answer.id.clone()),
            compared_with: answer.verdict.and(before),
            verdict: answer.verdict,
            ..logged
        }))
    }

    /// Adds the blocks of a line to its answer.
    fn add_answer(&mut self, answer: &mut TranscriptAnswer) {
        let content = std::mem::take(&mut answer.content);
        if self.is_without_requests() {
            return;
        }
        let length = content.iter().map(|block| block.to_string().len()).sum();
        match &mut self.answer {
            Some(partial) if partial.id == answer.id => {
                partial.length = partial.length.saturating_add(length);
                if partial.length <= MAX_LINE_BYTES {
                    partial.blocks.extend(content)
                } else {
                    // No request can have a message that is longer than a line.
                    partial.blocks.clear()
                }
                partial.is_held = false;
            }
            _ => {
                self.hold_answer();
                self.answer = Some(PartialAnswer {
                    id: answer.id.clone(),
                    blocks: content,
                    length,
                    is_held: false,
                });
            }
        }
    }

    /// Holds the message with the blocks of the last answer.
    fn hold_answer(&mut self) {
        let Some(partial) = self.answer.as_mut().filter(|partial| !partial.is_held) else {
            return;
        };
        partial.is_held = true;
        let message = json!({"role": "assistant", "content": partial.blocks});
        let hash = content_hash(&message);
        self.add_message(hash, &message);
    }

    /// Ends a file: its requests without an answer are not compared. Returns their number.
    pub(super) fn end_file(&mut self) -> u64 {
        self.lists.clear();
        self.here.clear();
        self.last.clear();
        self.summarized.clear();
        self.answer = None;
        let open = std::mem::take(&mut self.open);
        open.len() as u64
    }
}

fn json_bytes(value: &Value) -> Bytes {
    Bytes::from(value.to_string())
}

/// Returns the hash under which a message is named.
fn content_hash(message: &Value) -> Digest {
    let mut message = message.clone();
    message.sort_all_objects();
    Digest::sha256(message.to_string().as_bytes())
}

/// Returns the messages as which a message of the user may be sent: with a text, or with a list of one text.
fn spellings(message: Value) -> Vec<Value> {
    let text = message.get("content").and_then(Value::as_str);
    let list = text.map(|text| {
        let mut list = message.clone();
        list["content"] = json!([{"type": "text", "text": text}]);
        list
    });
    list.into_iter().chain([message]).collect()
}

/// Sets a marker in one of the messages; returns false if there is no such place.
fn mark_message(messages: &mut [Bytes], place: &[Value], marker: &Value) -> bool {
    let Some((index, place)) = place.split_first() else {
        return false;
    };
    let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
    let Some(message) = index.and_then(|index| messages.get_mut(index)) else {
        return false;
    };
    let mut value: Value = serde_json::from_slice(message).unwrap_or_default();
    let is_set = mark(&mut value, place, marker);
    *message = json_bytes(&value);
    is_set
}

/// Sets a marker; returns false if there is no such place.
fn mark(value: &mut Value, place: &[Value], marker: &Value) -> bool {
    let Some((step, rest)) = place.split_first() else {
        let object = value.as_object_mut();
        return object.is_some_and(|object| {
            object.insert("cache_control".to_owned(), marker.clone());
            true
        });
    };
    // Only a list can carry a marker.
    if step.is_u64()
        && let Value::String(text) = value
    {
        *value = json!([{"type": "text", "text": text}]);
    }
    let inner = match step {
        Value::String(name) => value.get_mut(name.as_str()),
        Value::Number(index) => {
            let index = index.as_u64().and_then(|index| usize::try_from(index).ok());
            index.and_then(|index| value.get_mut(index))
        }
        _ => None,
    };
    inner.is_some_and(|inner| mark(inner, rest, marker))
}

/// Returns the beginning of an ID, for messages.
fn shortened(id: &str) -> String {
    const MAX_CHARACTERS: usize = 64;
    id.chars().take(MAX_CHARACTERS).collect()
}
