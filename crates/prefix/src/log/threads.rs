//! The open conversations of a log, which later requests may continue.
//!
//! A log may or may not contain the session of a request, and one session may hold several conversations
//! (sub-agents, titles). A request therefore continues the conversation whose last request is a prefix of it.
//! If there is none, it is compared with the conversation with the longest common prefix, among those of its
//! session and model that share a message with it. Memory is bounded: the least recently used conversations
//! are closed.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};

use cachalot_core::Millis;
use cachalot_prompt::{NodeId, Prompt};

use super::LoggedRequest;
use super::relation::Relation;
use super::thread::{Thread, common, lane};
use super::turns::{Turns, is_answer};

use crate::hash::hash;

/// Maximum number of open conversations.
pub const MAX_OPEN_CONVERSATIONS: usize = 1_024;

/// Maximum bytes of the requests that all open conversations hold.
pub const MAX_OPEN_BYTES: u64 = 256 << 20;

/// Limits for open conversations, which are the memory of an analysis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenLimits {
    /// Maximum number of conversations, at most [`MAX_OPEN_CONVERSATIONS`].
    pub conversations: usize,
    /// Maximum bytes of the requests that they hold, at most [`MAX_OPEN_BYTES`]. The last conversation stays open in
    /// any case.
    pub bytes: u64,
}

impl Default for OpenLimits {
    fn default() -> Self {
        Self {
            conversations: MAX_OPEN_CONVERSATIONS,
            bytes: MAX_OPEN_BYTES,
        }
    }
}

/// Maximum number of conversations that are compared with one request because they share a message with it,
/// and of others of its session; the most recently used ones.
const MAX_CANDIDATES: usize = 16;
const MAX_SESSION_CANDIDATES: usize = 4;

/// Maximum number of conversations per index key; the most recently used ones.
const MAX_PER_KEY: usize = 8;

/// The part of the requests that a conversation may be found for: those of its tenant, and of its session.
#[derive(Hash, Clone, Copy)]
struct Within<'a> {
    tenant: Option<&'a str>,
    session: Option<&'a str>,
}

impl<'a> Within<'a> {
    fn thread(thread: &'a Thread) -> Self {
        Self {
            tenant: thread.tenant.as_deref(),
            session: thread.session.as_deref(),
        }
    }

    fn request(logged: &'a LoggedRequest) -> Self {
        Self {
            tenant: logged.tenant.as_deref(),
            session: logged.session.as_deref(),
        }
    }

    /// The same for all sessions of the tenant.
    fn any_session(self) -> Self {
        Self {
            session: None,
            ..self
        }
    }
}

/// The keys under which a conversation is indexed.
fn keys(thread: &Thread) -> HashSet<u64> {
    let within = Within::thread(thread);
    let places = [
        thread.prompt.tip(),
        before(&thread.prompt, thread.turns.newest),
    ];
    let places = places
        .into_iter()
        .flatten()
        .map(|id| key(within, Key::End(id)));
    let fingerprints = thread.fingerprints.iter();
    let fingerprints = fingerprints.map(|print| key(within, Key::Message(*print)));
    let named = within
        .session
        .map(|_| key(within, Key::Session(thread.lane)));
    let answer = thread.answer.iter();
    let answer = answer.map(|id| key(within.any_session(), Key::Answer(id)));
    places
        .chain(fingerprints)
        .chain(named)
        .chain(answer)
        .collect()
}

/// The ID of the prefix with this number of pieces.
fn before(prompt: &Prompt, pieces: usize) -> Option<NodeId> {
    let mut nodes = prompt.backwards();
    nodes
        .find(|node| (node.depth as usize) < pieces)
        .map(|node| node.id)
}

/// Index keys of conversations, within their tenant and session.
#[derive(Hash)]
enum Key<'a> {
    /// The ID of the last answer, in any session of the tenant.
    Answer(&'a str),
    /// A message.
    Message(u64),
    /// The end of the last request, or the beginning of its newest messages.
    End(NodeId),
    /// The session, with model and format.
    Session(u64),
}

fn key(within: Within<'_>, key: Key<'_>) -> u64 {
    hash((within, key))
}

/// The conversation to which a request belongs.
#[derive(Clone, Copy)]
pub(super) struct ThreadMatch {
    pub(super) id: u64,
    /// True if the two share enough messages; if false, they share only a beginning or the session.
    pub(super) is_related: bool,
    /// True if the last request is a prefix of this request, or the provider has compared the two.
    pub(super) is_continuation: bool,
}

/// The open conversations.
#[derive(Default)]
pub(super) struct Threads {
    /// Conversations by ascending number; the most recently used has the highest.
    threads: BTreeMap<u64, Thread>,
    index: HashMap<u64, Vec<u64>>,
    bytes: u64,
    last: u64,
    limits: OpenLimits,
}

impl Threads {
    /// Creates an empty set.
    pub(super) fn new(limits: OpenLimits) -> Self {
        Self {
            limits: OpenLimits {
                conversations: limits.conversations.min(MAX_OPEN_CONVERSATIONS),
                bytes: limits.bytes.min(MAX_OPEN_BYTES),
            },
            ..Self::default()
        }
    }

    /// Returns the number of the most recently used conversation.
    pub(super) fn newest(&self) -> u64 {
        self.last
    }

    /// Notes that a request was sent that continues a conversation.
    pub(super) fn begin(&mut self, id: u64, at: Millis) {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.continued = thread.continued.max(Some(at));
        }
    }

    /// Notes that the prefix of a conversation was read.
    pub(super) fn renew(&mut self, id: u64, at: Millis) {
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.at = thread.at.max(Some(at));
        }
    }

    pub(super) fn get(&self, id: u64) -> Option<&Thread> {
        self.threads.get(&id)
    }

    /// The conversation, if it is one of the request's tenant. Index keys are hashes, so equal ones do not prove that.
    fn of_tenant(&self, id: u64, logged: &LoggedRequest) -> Option<&Thread> {
        self.get(id).filter(|thread| thread.tenant == logged.tenant)
    }

    /// The conversations with a key, the most recently used first.
    fn with(&self, key: u64) -> impl Iterator<Item = u64> {
        self.index.get(&key).into_iter().flatten().rev().copied()
    }

    /// Finds the conversation to which a request belongs.
    pub(super) fn find(&self, logged: &LoggedRequest, turns: &Turns) -> Option<ThreadMatch> {
        if let Some(named) = self.named(logged) {
            return Some(named);
        }
        let lane = lane(&logged.request);
        let whole = self.continued(logged, lane);
        let length = |id: u64| self.get(id).map_or(0, |thread| thread.prompt.len());
        if let Some(whole) = whole.filter(|whole| length(whole.id) >= turns.answered) {
            return Some(whole);
        }
        // The request continues from something older than the last answer: another conversation may be its
        // predecessor, with a change in the middle.
        let changed = self.changed(logged, turns, lane);
        let instead = |changed: &ThreadMatch| {
            let whole = whole.and_then(|whole| self.get(whole.id));
            let other = self.get(changed.id);
            whole.zip(other).is_none_or(|(whole, other)| {
                is_continued(other, logged) && shared(other, logged) > whole.fingerprints.len() + 1
            })
        };
        changed.filter(instead).or(whole)
    }

    /// Finds the conversation whose last request the client named for the provider's comparison.
    fn named(&self, logged: &LoggedRequest) -> Option<ThreadMatch> {
        let answer = logged.compared_with.as_deref()?;
        let within = Within::request(logged).any_session();
        let mut found = self.with(key(within, Key::Answer(answer)));
        let (id, thread) = found.find_map(|id| {
            let thread = self.of_tenant(id, logged)?;
            (thread.answer.as_deref() == Some(answer)).then_some((id, thread))
        })?;
        let same = common(&thread.prompt, &logged.request.compared.prompt);
        Some(ThreadMatch {
            id,
            is_related: true,
            is_continuation: logged.verdict.is_some() || same == thread.prompt.len(),
        })
    }

    /// Finds the conversation with the longest last request that is a prefix of this request.
    fn continued(&self, logged: &LoggedRequest, lane: u64) -> Option<ThreadMatch> {
        let within = Within::request(logged);
        let mut behind = None;
        for node in logged.request.compared.prompt.backwards() {
            let mut other = None;
            for id in self.with(key(within, Key::End(node.id))) {
                let Some(thread) = self
                    .of_tenant(id, logged)
                    .filter(|thread| thread.prompt.tip() == Some(node.id))
                else {
                    continue;
                };
                let found = ThreadMatch {
                    id,
                    is_related: true,
                    is_continuation: true,
                };
                if thread.lane == lane {
                    return Some(found);
                }
                other = other.or(Some(found));
            }
            // A conversation moves to another model only after an answer of the previous one.
            if other.is_some() && behind.is_some_and(is_answer) {
                return other;
            }
            behind = Some(node);
        }
        None
    }

    /// Finds the conversation with the most similar beginning.
    fn changed(&self, logged: &LoggedRequest, turns: &Turns, lane: u64) -> Option<ThreadMatch> {
        let frozen = logged.request.compared.prompt.frozen().tip();
        let named = logged.session.is_some();
        let candidates = self.candidates(logged, turns, lane);
        let best = candidates.into_iter().filter_map(|id| {
            let thread = self.of_tenant(id, logged);
            let thread = thread.filter(|thread| thread.lane == lane)?;
            let shared = shared(thread, logged);
            let whole = shared == thread.fingerprints.len()
                && logged.request.fingerprints.len() > thread.fingerprints.len();
            let alike = thread.prompt.frozen().tip() == frozen;
            let is_related = shared >= 2 || shared == 1 && (alike || whole || named);
            let same = common(&thread.prompt, &logged.request.compared.prompt);
            let relation = Relation {
                thread,
                next: logged,
                turns,
                same,
            };
            let related = is_related || alike && (named || relation.is_rewritten());
            related.then_some(((is_related, same, shared), id))
        });
        let ((is_related, ..), id) = best.max()?;
        Some(ThreadMatch {
            id,
            is_related,
            is_continuation: false,
        })
    }

    /// Returns the conversations of the same model that may share a beginning with a request.
    pub(super) fn similar(
        &self,
        logged: &LoggedRequest,
        turns: &Turns,
    ) -> impl Iterator<Item = &Thread> {
        let lane = lane(&logged.request);
        let candidates = self.candidates(logged, turns, lane).into_iter();
        let candidates = candidates.filter_map(|id| self.of_tenant(id, logged));
        candidates.filter(move |thread| thread.lane == lane)
    }

    /// Returns conversations that share a message with a request, those whose end it may have changed, and
    /// others of its session.
    fn candidates(&self, logged: &LoggedRequest, turns: &Turns, lane: u64) -> Vec<u64> {
        let within = Within::request(logged);
        // The newest messages distinguish conversations with the same beginning.
        let fingerprints = logged.request.fingerprints.iter().rev();
        let messages = fingerprints.flat_map(|print| self.with(key(within, Key::Message(*print))));
        let nodes = logged.request.compared.prompt.backwards();
        let ends = nodes
            .skip_while(|node| node.depth as usize + 1 >= turns.newest)
            .take(MAX_CANDIDATES)
            .flat_map(|node| self.with(key(within, Key::End(node.id))));
        let others = within.session.into_iter();
        let others = others.flat_map(|_| {
            self.with(key(within, Key::Session(lane)))
                .take(MAX_SESSION_CANDIDATES)
        });
        let mut found = Vec::new();
        take_new(&mut found, messages);
        take_new(&mut found, ends);
        take_new(&mut found, others);
        found
    }

    /// Removes and returns a conversation.
    pub(super) fn take(&mut self, id: u64) -> Option<Thread> {
        let thread = self.threads.remove(&id)?;
        self.bytes -= thread.bytes();
        for key in keys(&thread) {
            if let Entry::Occupied(mut ids) = self.index.entry(key) {
                ids.get_mut().retain(|other| *other != id);
                if ids.get().is_empty() {
                    ids.remove();
                }
            }
        }
        Some(thread)
    }

    /// Adds a conversation; returns those that were closed to make room.
    pub(super) fn put(&mut self, thread: Thread) -> Vec<Thread> {
        self.last += 1;
        let id = self.last;
        self.bytes += thread.bytes();
        for key in keys(&thread) {
            let ids = self.index.entry(key).or_default();
            if ids.len() == MAX_PER_KEY {
                // The numbers ascend with use: the first one is the least recently used.
                ids.remove(0);
            }
            ids.push(id);
        }
        self.threads.insert(id, thread);
        let mut closed = Vec::new();
        while self.threads.len() > self.limits.conversations.max(1)
            || self.bytes > self.limits.bytes && self.threads.len() > 1
        {
            let oldest = self.threads.keys().next().copied();
            closed.extend(oldest.and_then(|oldest| self.take(oldest)));
        }
        closed
    }

    /// Closes the remaining conversations, the least recently used first.
    pub(super) fn close(&mut self) -> Vec<Thread> {
        std::mem::take(self).threads.into_values().collect()
    }
}

/// Adds at most [`MAX_CANDIDATES`] new elements.
fn take_new(found: &mut Vec<u64>, others: impl Iterator<Item = u64>) {
    let maximum = found.len() + MAX_CANDIDATES;
    for id in others {
        if found.len() == maximum {
            return;
        }
        if !found.contains(&id) {
            found.push(id);
        }
    }
}

/// Number of messages of a conversation that a request contains.
fn shared(thread: &Thread, logged: &LoggedRequest) -> usize {
    let fingerprints: HashSet<&u64> = logged.request.fingerprints.iter().collect();
    let messages = thread.fingerprints.iter();
    messages
        .filter(|print| fingerprints.contains(print))
        .count()
}

/// True if a request has messages after the newest message of the conversation.
fn is_continued(thread: &Thread, logged: &LoggedRequest) -> bool {
    let fingerprints = &logged.request.fingerprints;
    let answered = &fingerprints[..fingerprints.len().saturating_sub(1)];
    let newest = thread.fingerprints.last();
    newest.is_some_and(|newest| answered.contains(newest))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn thread(metadata: usize) -> Thread {
        let metadata = "x".repeat(metadata);
        let line = format!(
            r#"{{"model":"gpt-4.1","metadata":"{metadata}","messages":[{{"role":"user","content":"hi"}}]}}"#
        );
        let read = super::super::LogReader::new(line.as_bytes()).next();
        let logged = read.unwrap().unwrap();
        let turns = Turns::from_prompt(&logged.request.compared.prompt);
        Thread::begin(logged, turns)
    }

    #[test]
    fn size_of_a_thread_includes_its_members_and_long_ones_are_dropped() {
        let (short, long) = (thread(1_000), thread(1 << 20));
        assert!(short.bytes() > short.prompt.bytes() + 1_000);
        assert!(long.bytes() < 1_000);
        let mut threads = Threads::default();
        threads.put(short);
        assert!(threads.bytes > 1_000);
        threads.take(1);
        assert_eq!((threads.bytes, threads.index.len()), (0, 0));
    }
}
