//! What a script says: replies, and what goes wrong with them.

use std::time::Duration;

use serde_json::Value;

/// A scripted answer to one request. The default says nothing and calls nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScriptedReply {
    /// What the model says.
    pub text: Option<String>,
    /// What it thinks before: a thinking block, a reasoning item, `reasoning_content`. Left out of
    /// Anthropic answers when the request has not enabled thinking.
    pub reasoning: Option<String>,
    /// The tools that it calls, in parallel if there are several.
    pub tool_calls: Vec<ScriptedCall>,
    /// Token counts to report in place of the computed ones.
    pub usage: Option<ScriptedUsage>,
    /// Why it ends, if not because it is complete.
    pub stop: Option<ScriptedStop>,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

/// A scripted tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ScriptedCall {
    /// The tool.
    pub name: String,
    /// Its arguments. A text is sent as it is where the provider sends arguments as text, so that
    /// malformed arguments can be scripted.
    pub arguments: Value,
}

/// Token counts to report in place of the computed ones; what is `None` stays computed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ScriptedUsage {
    /// The whole input, cached tokens included, whatever the provider's convention.
    pub input: Option<u64>,
    /// Of them read from the cache.
    pub cache_read: Option<u64>,
    /// Of them written to the cache, with the shorter lifetime where there are two.
    pub cache_write: Option<u64>,
    /// Of them written with a lifetime of an hour (Anthropic).
    pub cache_write_1h: Option<u64>,
    /// The whole output, reasoning included.
    pub output: Option<u64>,
    /// Of them reasoning.
    pub reasoning: Option<u64>,
}

/// An early end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptedStop {
    /// `max_tokens`, `length`, `incomplete`.
    Length,
    /// `refusal`, `content_filter`.
    Refusal,
}

/// Something that goes wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// What.
    pub kind: FaultKind,
    /// For how many requests; then the reply is served as it is. `None`: each time in a step of a
    /// YAML rule, once in [`Script::replies`](crate::Script::replies).
    pub times: Option<u32>,
}

/// Kinds of faults.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FaultKind {
    /// An error response in the provider's shape in place of the answer.
    Status {
        /// The HTTP status: 429, 500, 503, 529, …
        status: u16,
        /// `retry-after`, and `retry-after-ms` if it is no whole number of seconds.
        retry_after: Option<Duration>,
    },
    /// The answer comes slowly.
    Slow {
        /// Before the response begins.
        first_byte: Duration,
        /// Before each further event of a stream.
        per_event: Duration,
    },
    /// The connection breaks within the answer: after so many events of a stream, in the middle of a
    /// body that is not streamed.
    Cut {
        /// How many events still arrive.
        after_events: usize,
    },
    /// A stream that began well reports an error as an event and ends; a response that is not streamed
    /// is an error 500.
    ErrorEvent {
        /// How many events arrive before.
        after_events: usize,
    },
    /// JSON that breaks off: the body, or an event in the middle of a stream.
    Malformed,
}

impl ScriptedReply {
    /// A reply that says `text`.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self {
            text: Some(text.into()),
            ..Self::default()
        }
    }

    /// A reply that calls one tool.
    #[must_use]
    pub fn call(name: impl Into<String>, arguments: Value) -> Self {
        Self::default().and_call(name, arguments)
    }

    /// A reply that is an error response.
    #[must_use]
    pub fn error(status: u16) -> Self {
        Self::default().with_fault(Fault::status(status))
    }

    /// The same reply with one more tool call, parallel to the others.
    #[must_use]
    pub fn and_call(mut self, name: impl Into<String>, arguments: Value) -> Self {
        self.tool_calls.push(ScriptedCall {
            name: name.into(),
            arguments,
        });
        self
    }

    /// The same reply, after thinking `reasoning`.
    #[must_use]
    pub fn with_reasoning(mut self, reasoning: impl Into<String>) -> Self {
        self.reasoning = Some(reasoning.into());
        self
    }

    /// The same reply, reporting `usage`.
    #[must_use]
    pub fn with_usage(mut self, usage: ScriptedUsage) -> Self {
        self.usage = Some(usage);
        self
    }

    /// The same reply, ending early.
    #[must_use]
    pub fn with_stop(mut self, stop: ScriptedStop) -> Self {
        self.stop = Some(stop);
        self
    }

    /// The same reply, with something going wrong.
    #[must_use]
    pub fn with_fault(mut self, fault: Fault) -> Self {
        self.fault = Some(fault);
        self
    }

    /// Whether there is anything to serve once the fault is over.
    pub(crate) fn has_content(&self) -> bool {
        self.text.is_some() || !self.tool_calls.is_empty()
    }
}

impl Fault {
    /// An error response with this status.
    #[must_use]
    pub fn status(status: u16) -> Self {
        FaultKind::Status {
            status,
            retry_after: None,
        }
        .into()
    }

    /// A pause before the response, and one before each event behind the first.
    #[must_use]
    pub fn slow(first_byte: Duration, per_event: Duration) -> Self {
        FaultKind::Slow {
            first_byte,
            per_event,
        }
        .into()
    }

    /// A connection that breaks after so many events.
    #[must_use]
    pub fn cut(after_events: usize) -> Self {
        FaultKind::Cut { after_events }.into()
    }

    /// JSON that breaks off.
    #[must_use]
    pub fn malformed() -> Self {
        FaultKind::Malformed.into()
    }

    /// The same fault, only for the first `times` requests.
    #[must_use]
    pub fn times(mut self, times: u32) -> Self {
        self.times = Some(times);
        self
    }

    /// The same error response, saying when to try again. Other kinds stay as they are.
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
