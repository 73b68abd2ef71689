//! Scripted replies and faults.

use std::time::Duration;

use serde_json::Value;

/// A scripted answer to one request. The default has no text and no tool calls.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScriptedReply {
    /// Text of the answer.
    pub text: Option<String>,
    /// Reasoning before the text: a thinking block, a reasoning item, or `reasoning_content`. Left out of
    /// Anthropic answers if the request has not enabled thinking.
    pub reasoning: Option<String>,
    /// Tool calls; several are parallel calls.
    pub tool_calls: Vec<ScriptedCall>,
    /// Token counts to report instead of the computed ones.
    pub usage: Option<ScriptedUsage>,
    /// Stop reason of an incomplete answer; `None` if it is complete.
    pub stop: Option<ScriptedStop>,
    /// Fault.
    pub fault: Option<Fault>,
}

/// A scripted tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedCall {
    /// Name of the tool.
    pub name: String,
    /// Arguments. A text is sent unchanged if the provider sends arguments as text, so that malformed
    /// arguments can be scripted.
    pub arguments: Value,
}

/// Token counts to report instead of the computed ones; `None` keeps the computed count.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScriptedUsage {
    /// Whole input, including cached tokens, for every provider.
    pub input: Option<u64>,
    /// Input tokens read from the cache.
    pub cache_read: Option<u64>,
    /// Input tokens written to the cache, with the shorter lifetime if there are two.
    pub cache_write: Option<u64>,
    /// Input tokens written with a lifetime of one hour (Anthropic).
    pub cache_write_1h: Option<u64>,
    /// Input tokens written with a lifetime of twelve hours (OpenAI).
    pub cache_write_12h: Option<u64>,
    /// Whole output, including reasoning.
    pub output: Option<u64>,
    /// Output tokens of reasoning.
    pub reasoning: Option<u64>,
    /// Web searches of the provider.
    pub web_searches: Option<u64>,
    /// Tier in which the request was processed, such as `priority`; `None` reports that of the request.
    pub service_tier: Option<&'static str>,
    /// Region of the inference (Anthropic): `us`, `global`; `None` reports that of the request.
    pub inference_geo: Option<&'static str>,
    /// Speed of the inference (Anthropic): `fast`, `standard`; `None` reports that of the request.
    pub speed: Option<&'static str>,
    /// Compaction by the provider before the answer (Anthropic). Its tokens are reported in an iteration of
    /// their own and are not part of the other counts.
    pub compaction: Option<ScriptedCompaction>,
}

/// Token counts of a compaction.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScriptedCompaction {
    /// Uncached input.
    pub input: u64,
    /// Input tokens read from the cache.
    pub cache_read: u64,
    /// Input tokens written to the cache for five minutes.
    pub cache_write: u64,
    /// Output: the summary.
    pub output: u64,
}

/// Stop reasons of an incomplete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptedStop {
    /// `max_tokens`, `length`, `incomplete`.
    Length,
    /// `refusal`, `content_filter`.
    Refusal,
}

/// A fault.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Kind.
    pub kind: FaultKind,
    /// Number of requests with the fault; afterwards the reply is served without it. `None`: every time in
    /// a step of a YAML rule, once in [`Script::replies`](crate::Script::replies).
    pub times: Option<u32>,
}

/// Kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// An error response in the provider's shape instead of the answer.
    Status {
        /// HTTP status: 429, 500, 503, 529, …
        status: u16,
        /// Value of `retry-after`, and of `retry-after-ms` if it is not a whole number of seconds.
        retry_after: Option<Duration>,
    },
    /// A slow answer.
    Slow {
        /// Pause before the response begins.
        first_byte: Duration,
        /// Pause before each further event of a stream.
        per_event: Duration,
    },
    /// The connection breaks within the answer: after this number of events of a stream, or in the middle
    /// of a whole body.
    Cut {
        /// Number of events that still arrive.
        after_events: usize,
    },
    /// A stream begins normally, then reports an error as an event and ends; a whole response is an error
    /// 500.
    ErrorEvent {
        /// Number of events that arrive before.
        after_events: usize,
    },
    /// Truncated JSON: the body, or an event in the middle of a stream.
    Malformed,
}

impl ScriptedReply {
    /// Creates a reply with this text.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// Creates a reply with one tool call.
    #[must_use]
    pub fn call(name: impl Into<String>, arguments: Value) -> Self {
        Self::default().and_call(name, arguments)
    }

    /// Creates a reply that is an error response.
    #[must_use]
    pub fn error(status: u16) -> Self {
        Self::default().with_fault(Fault::status(status))
    }

    /// Adds a tool call, parallel to the others.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.tool_calls.push(ScriptedCall {
            name: name.into(),
            arguments,
        });
        self
    }

    /// Adds reasoning before the answer.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }

    /// Sets the usage to report.
    #[must_use]
    pub fn with_usage(mut self, usage: ScriptedUsage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// Sets the stop reason of an incomplete answer.
    #[must_use]
    pub fn with_stop(mut self, stop: ScriptedStop) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Adds a fault.
    #[must_use]
    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Returns true if there is content to serve after the fault.
    pub(crate) fn has_content(&self) -> bool {
        self.text.is_some() || !self.tool_calls.is_empty()
    }
}

impl Fault {
    /// Creates an error response with this status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        FaultKind::Status {
            status,
            retry_after: None,
        }
        .into()
    }

    /// Creates a pause before the response, and one before each event after the first.
    #[must_use]
    pub fn slow(first_byte: Duration, per_event: Duration) -> Self {
        FaultKind::Slow {
            first_byte,
            per_event,
        }
        .into()
    }

    /// Creates a connection that breaks after this number of events.
    #[must_use]
    pub fn cut(after_events: usize) -> Self {
        FaultKind::Cut { after_events }.into()
    }

    /// Creates truncated JSON.
    #[must_use]
    pub fn malformed() -> Self {
        FaultKind::Malformed.into()
    }

    /// Limits the fault to the first `times` requests.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// Adds the time to wait before a retry to an error response. Other kinds are not changed.
    #[must_use]
    pub fn retry_after(mut self, after: Duration) -> Self {
        if let FaultKind::Status { retry_after, .. } = &mut self.kind {
            *retry_after = Some(after);
        }
        self
    }
}

impl From<FaultKind> for Fault {
    fn from(kind: FaultKind) -> Self {
        Self { kind, times: None }
    }
}
