//! A conversation of a log.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_core::Millis;
use cachalot_model::Usage;
use cachalot_prompt::{Namespace, Plan, Prompt};

use super::LoggedRequest;
use super::turns::Turns;
use crate::diagnosis::{CountedPrefixes, Diagnosis, ProviderVerdict};
use crate::hash::hash;
use crate::request::{ComparedRequest, Request};

/// Maximum length of a tail that is kept; values of a longer one are not shown.
const MAX_TAIL_BYTES: usize = 64 << 10;

/// Approximate overhead of a piece in bytes: its node, its index keys and its fingerprint.
const PIECE_OVERHEAD_BYTES: u64 = 512;

/// A conversation: its last request, and a summary of earlier ones.
pub(super) struct Thread {
    /// The client whose requests it contains.
    pub(super) tenant: Option<Arc<str>>,
    pub(super) session: Option<String>,
    /// The lines of its first and of its last request.
    pub(super) lines: (u64, u64),
    pub(super) prompt: Prompt,
    pub(super) namespace: Namespace,
    pub(super) plan: Plan,
    pub(super) tail: Bytes,
    pub(super) usage: Option<Usage>,
    /// Prefixes whose tokens the provider has counted.
    pub(super) counted: CountedPrefixes,
    pub(super) at: Option<Millis>,
    /// The time when a request that continues it was sent last, answered or not.
    pub(super) continued: Option<Millis>,
    /// Indexes of the pieces that were marked as ends of cached prefixes.
    pub(super) written: Vec<u32>,
    pub(super) turns: Turns,
    /// The ID of its last answer.
    pub(super) answer: Option<String>,
    /// Fingerprints of its messages, in order.
    pub(super) fingerprints: Vec<u64>,
    /// For each of its messages, true if the content is a string.
    pub(super) strings: Vec<bool>,
    pub(super) lane: u64,
    /// The break that its last request showed.
    pub(super) last_break: Option<Box<Diagnosis>>,
}

impl Thread {
    /// Creates a conversation from its first request.
    pub(super) fn begin(logged: LoggedRequest, turns: Turns) -> Self {
        let lane = lane(&logged.request);
        let mut counted = CountedPrefixes::default();
        if let Some(usage) = logged.usage {
            counted.add(&logged.request.sending(), usage);
        }
        let LoggedRequest {
            line,
            request,
            at,
            tenant,
            session,
            usage,
            answer,
            ..
        } = logged;
        let Request {
            compared: ComparedRequest { prompt, plan },
            namespace,
            tail,
            fingerprints,
            strings,
            ..
        } = request;
        Self {
            tenant,
            session,
            lines: (line, line),
            written: plan.marks().iter().map(|mark| mark.node).collect(),
            prompt,
            namespace,
            plan,
            tail: if tail.len() > MAX_TAIL_BYTES {
                Bytes::from_static(b"}")
            } else {
                tail
            },
            usage,
            counted,
            at,
            continued: None,
            turns,
            answer,
            fingerprints,
            strings,
            lane,
            last_break: None,
        }
    }

    /// Returns the provider's comparison of a request with the last one of this conversation.
    pub(super) fn verdict_on(&self, logged: &LoggedRequest) -> Option<ProviderVerdict> {
        let is_meant = logged.compared_with.is_some() && logged.compared_with == self.answer;
        logged.verdict.filter(|_| is_meant)
    }

    /// Returns the conversation after one more request, of which the first `common` pieces are those of the
    /// last request.
    pub(super) fn followed(mut self, logged: LoggedRequest, turns: Turns, common: usize) -> Self {
        // Marks after the common part were those of other messages.
        self.written.retain(|depth| (*depth as usize) < common);
        let nodes = logged.request.compared.prompt.nodes();
        let bytes = common.checked_sub(1).and_then(|at| nodes.get(at));
        self.counted.cut(bytes.map_or(0, |node| node.total));
        drop(nodes);
        if let Some(usage) = logged.usage {
            self.counted.add(&logged.request.sending(), usage);
        }
        // `begin` takes the state of the last request only. The members that cover the whole conversation follow.
        let mut next = Self::begin(logged, turns);
        next.lines.0 = self.lines.0;
        next.session = next.session.or(self.session);
        self.written.append(&mut next.written);
        self.written.sort_unstable();
        self.written.dedup();
        next.written = self.written;
        next.counted = self.counted;
        next
    }

    /// Returns the messages that a request repeats in another spelling: a string in place of a list, or the reverse. The
    /// first `common` pieces are the same for the provider.
    pub(super) fn respelled(&self, logged: &LoggedRequest, common: usize) -> Vec<usize> {
        let frozen = logged.request.compared.prompt.frozen().len();
        let both = self.strings.iter().zip(&logged.request.strings);
        let both = both.take(common.saturating_sub(frozen)).enumerate();
        both.filter(|(_, (before, now))| before != now)
            .map(|(index, _)| index)
            .collect()
    }

    /// The name shown to users.
    pub(super) fn name(&self) -> String {
        name(self.session.as_deref(), self.lines.0)
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> u64 {
        let pieces = self.prompt.len() as u64;
        self.prompt.bytes() + self.tail.len() as u64 + pieces * PIECE_OVERHEAD_BYTES
    }
}

/// The name of a conversation shown to users: its session, or the line of its first request.
pub(super) fn name(session: Option<&str>, first_line: u64) -> String {
    match session {
        Some(session) => session.to_owned(),
        None => format!("line {first_line}"),
    }
}

/// A hash of what requests of one conversation must have in common: model and format.
pub(super) fn lane(request: &Request) -> u64 {
    hash((&request.model, format!("{:?}", request.format)))
}

/// Number of pieces in the common prefix of two prompts.
pub(super) fn common(one: &Prompt, other: &Prompt) -> usize {
    let (one, other) = (one.nodes(), other.nodes());
    let (mut same, mut maximum) = (0, one.len().min(other.len()));
    // The ID of a piece covers all pieces before it, so a binary search finds the place.
    while same < maximum {
        let middle = (same + maximum).div_ceil(2);
        if one[middle - 1].id == other[middle - 1].id {
            same = middle;
        } else {
            maximum = middle - 1;
        }
    }
    same
}
