//! The open conversations of a log, which later requests may continue.
//!
//! A log may or may not contain the session of a request, and one session may hold several conversations
//! (sub-agents, titles). A request therefore continues the conversation whose last request is a prefix of it.
//! If there is none, it is compared with the conversation with the longest common prefix, among those of its
//! session and model that share a message with it. Memory is bounded: the least recently used conversations
//! are closed.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};

use bytes::Bytes;
use cachalot_core::Millis;
use cachalot_model::Usage;

use super::LoggedRequest;
use super::relation::Relation;
use super::turns::{Turns, is_answer};
use crate::diagnosis::{CountedPrefixes, ProviderVerdict};
use crate::request::{ComparedRequest, Request};
use cachalot_prompt::Namespace;
use cachalot_prompt::Plan;
use cachalot_prompt::{NodeId, Prompt};

/// Maximum number of open conversations.
pub const MAX_OPEN_CONVERSATIONS: usize = 1_024;

/// Maximum bytes of the requests that all open conversations hold.
pub const MAX_OPEN_BYTES: u64 = 256 << 20;

/// Maximum number of conversations that are compared with one request because they share a message with it,
/// and of others of its session; the most recently used ones.
const MAX_CANDIDATES: usize = 16;
const MAX_SESSION_CANDIDATES: usize = 4;

/// Maximum number of conversations per index key; the most recently used ones.
const MAX_PER_KEY: usize = 8;

/// Maximum length of a tail that is kept; values of a longer one are not shown.
const MAX_TAIL_BYTES: usize = 64 << 10;

/// A conversation: its last request, and a summary of earlier ones.
pub(super) struct Thread {
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
    /// Indexes of the pieces that were marked as ends of cached prefixes.
    pub(super) written: Vec<u32>,
    pub(super) turns: Turns,
    /// The ID of its last answer.
    answer: Option<String>,
    /// Fingerprints of its messages, in order.
    pub(super) fingerprints: Vec<u64>,
    lane: u64,
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
            ..
        } = request;
        Self {
            session,
            lines: (line, line),
            written: plan.marks().iter().map(|mark| mark.node).collect(),
            prompt,
            namespace,
            plan,
            tail: match tail.len() > MAX_TAIL_BYTES {
                true => Bytes::from_static(b"}"),
                false => tail,
            },
            usage,
            counted,
            at,
            turns,
            answer,
            fingerprints,
            lane,
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
        self.written.retain(|depth| (*depth as usize) < common);
        let nodes = logged.request.compared.prompt.nodes();
        let bytes = common.checked_sub(1).and_then(|at| nodes.get(at));
        self.counted.cut(bytes.map_or(0, |node| node.total));
        drop(nodes);
        if let Some(usage) = logged.usage {
            self.counted.add(&logged.request.sending(), usage);
        }
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

    /// The name shown to users.
    pub(super) fn name(&self) -> String {
        match (&self.session, self.lines.0) {
            (Some(session), _) => session.clone(),
            (None, line) => format!("line {line}"),
        }
    }

    fn bytes(&self) -> u64 {
        self.prompt.bytes() + self.tail.len() as u64
    }

    /// The keys under which it is indexed.
    fn keys(&self) -> HashSet<u64> {
        let session = self.session.as_deref();
        let places = [self.prompt.tip(), before(&self.prompt, self.turns.newest)];
        let places = places
            .into_iter()
            .flatten()
            .map(|id| key(session, Key::End(id)));
        let fingerprints = self.fingerprints.iter();
        let fingerprints = fingerprints.map(|print| key(session, Key::Message(*print)));
        let named = session.map(|_| key(session, Key::Session(self.lane)));
        let answer = self.answer.iter().map(|id| key(None, Key::Answer(id)));
        places
            .chain(fingerprints)
            .chain(named)
            .chain(answer)
            .collect()
    }
}

/// The ID of the prefix with this number of pieces.
fn before(prompt: &Prompt, pieces: usize) -> Option<NodeId> {
    let mut nodes = prompt.backwards();
    nodes
        .find(|node| (node.depth as usize) < pieces)
        .map(|node| node.id)
}

/// A hash of what requests of one conversation must have in common: model and format.
fn lane(request: &Request) -> u64 {
    let mut hasher = DefaultHasher::new();
    (&request.model, format!("{:?}", request.format)).hash(&mut hasher);
    hasher.finish()
}

/// Index keys of conversations, within their session.
#[derive(Hash)]
enum Key<'a> {
    /// The ID of the last answer, in any session.
    Answer(&'a str),
    /// A message.
    Message(u64),
    /// The end of the last request, or the beginning of its newest messages.
    End(NodeId),
    /// The session, with model and format.
    Session(u64),
}

fn key(session: Option<&str>, key: Key<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (session, key).hash(&mut hasher);
    hasher.finish()
}

/// Number of pieces in the common prefix of two prompts.
pub(super) fn common(one: &Prompt, other: &Prompt) -> usize {
    let (one, other) = (one.nodes(), other.nodes());
    let (mut same, mut least) = (0, one.len().min(other.len()));
    // The ID of a piece covers all pieces before it, so a binary search finds the place.
    while same < least {
        let middle = (same + least).div_ceil(2);
        if one[middle - 1].id == other[middle - 1].id {
            same = middle;
        } else {
            least = middle - 1;
        }
    }
    same
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
}

impl Threads {
    pub(super) fn get(&self, id: u64) -> Option<&Thread> {
        self.threads.get(&id)
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
        let mut found = self.with(key(None, Key::Answer(answer)));
        let (id, thread) = found.find_map(|id| {
            let thread = self.get(id)?;
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
        let session = logged.session.as_deref();
        let mut behind = None;
        for node in logged.request.compared.prompt.backwards() {
            let mut other = None;
            for id in self.with(key(session, Key::End(node.id))) {
                let Some(thread) = self
                    .get(id)
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
            let thread = self.get(id).filter(|thread| thread.lane == lane)?;
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

    /// Returns conversations that share a message with a request, those whose end it may have changed, and
    /// others of its session.
    fn candidates(&self, logged: &LoggedRequest, turns: &Turns, lane: u64) -> Vec<u64> {
        let session = logged.session.as_deref();
        // The newest messages distinguish conversations with the same beginning.
        let fingerprints = logged.request.fingerprints.iter().rev();
        let messages = fingerprints.flat_map(|print| self.with(key(session, Key::Message(*print))));
        let nodes = logged.request.compared.prompt.backwards();
        let ends = nodes
            .skip_while(|node| node.depth as usize + 1 >= turns.newest)
            .take(MAX_CANDIDATES)
            .flat_map(|node| self.with(key(session, Key::End(node.id))));
        let others = session.into_iter();
        let others = others.flat_map(|_| {
            self.with(key(session, Key::Session(lane)))
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
        for key in thread.keys() {
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
        for key in thread.keys() {
            let ids = self.index.entry(key).or_default();
            if ids.len() == MAX_PER_KEY {
                ids.remove(0);
            }
            ids.push(id);
        }
        self.threads.insert(id, thread);
        let mut closed = Vec::new();
        while self.threads.len() > MAX_OPEN_CONVERSATIONS
            || self.bytes > MAX_OPEN_BYTES && self.threads.len() > 1
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
    let most = found.len() + MAX_CANDIDATES;
    for id in others {
        if found.len() == most {
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
        let turns = Turns::of(&logged.request.compared.prompt);
        Thread::begin(logged, turns)
    }

    #[test]
    fn what_stands_beside_the_messages_is_counted_and_long_members_are_not_kept() {
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
