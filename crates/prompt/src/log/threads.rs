//! The conversations of a log that may still go on.
//!
//! A log tells to which session a request belongs, or it does not; and one session may hold several
//! conversations (sub-agents, titles). So a request continues the conversation with which it has the
//! longest prefix in common among those of its session that have a message in common with it. Memory
//! goes by what is open, and what has not been heard of for longest is closed.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use bytes::Bytes;
use cachalot_core::Millis;
use cachalot_model::Usage;

use super::Logged;
use crate::chain::Prompt;
use crate::foreign::Request;
use crate::namespace::Namespace;
use crate::plan::Plan;

/// So many conversations are open at most.
pub const MOST_OPEN: usize = 1_024;

/// What open conversations hold at most together, in bytes of their prompts.
pub const MOST_OPEN_BYTES: u64 = 256 << 20;

/// So many conversations are looked at for one request that have a message in common with it, and so
/// many others of its session, those that were heard of last.
const CANDIDATES: usize = 16;
const OTHERS: usize = 4;

/// A conversation: its last request, and what is left of those before.
pub(super) struct Thread {
    pub(super) session: Option<String>,
    /// The line of its first request, and of its last.
    pub(super) lines: (u64, u64),
    pub(super) prompt: Prompt,
    pub(super) namespace: Namespace,
    pub(super) plan: Plan,
    pub(super) tail: Bytes,
    pub(super) usage: Option<Usage>,
    pub(super) at: Option<Millis>,
    /// The pieces up to which the provider was asked to remember the prefix.
    pub(super) written: Vec<u32>,
    /// How many pieces the requests before the last had.
    pub(super) ends: Vec<u32>,
    prints: Vec<u64>,
}

impl Thread {
    /// A conversation that begins with this request.
    pub(super) fn begin(logged: Logged) -> Self {
        let Logged {
            line,
            request,
            at,
            session,
            usage,
        } = logged;
        let Request {
            prompt,
            plan,
            namespace,
            tail,
            prints,
            ..
        } = request;
        Self {
            prints: within(session.as_deref(), &prints),
            session,
            lines: (line, line),
            written: plan.marks().iter().map(|mark| mark.node).collect(),
            prompt,
            namespace,
            plan,
            tail,
            usage,
            at,
            ends: Vec::new(),
        }
    }

    /// The same after one more request, which has so many pieces in common with the last.
    pub(super) fn followed(mut self, logged: Logged, common: usize) -> Self {
        let stays = |depth: &u32| (*depth as usize) < common;
        self.written.retain(stays);
        self.ends
            .push(u32::try_from(self.prompt.len()).unwrap_or(u32::MAX));
        self.ends.retain(|end| *end as usize <= common);
        let (first, session) = (self.lines.0, self.session.take());
        let mut next = Self::begin(logged);
        next.lines.0 = first;
        next.session = next.session.or(session);
        next.ends = self.ends;
        self.written.append(&mut next.written);
        self.written.sort_unstable();
        self.written.dedup();
        next.written = self.written;
        next
    }

    /// What people call it.
    pub(super) fn name(&self) -> String {
        match (&self.session, self.lines.0) {
            (Some(session), _) => session.clone(),
            (None, line) => format!("line {line}"),
        }
    }
}

/// What tells messages apart from others, and from the same in another session.
fn within(session: Option<&str>, prints: &[u64]) -> Vec<u64> {
    let mut hasher = DefaultHasher::new();
    session.hash(&mut hasher);
    let session = hasher.finish();
    prints.iter().map(|print| print ^ session).collect()
}

/// How many pieces two prompts begin with in common.
pub(super) fn common(one: &Prompt, other: &Prompt) -> usize {
    let (one, other) = (one.nodes(), other.nodes());
    let (mut same, mut least) = (0, one.len().min(other.len()));
    // A name vouches for everything before it, so the place is found by halving.
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

/// What a request was found to belong to.
pub(super) struct Match {
    pub(super) id: u64,
    /// Whether the two have messages enough in common; if not, only the session says so.
    pub(super) kin: bool,
}

/// The open conversations.
#[derive(Default)]
pub(super) struct Threads {
    /// By numbers that rise: what was heard of last has the highest.
    threads: BTreeMap<u64, Thread>,
    by_print: HashMap<u64, u64>,
    by_session: HashMap<String, Vec<u64>>,
    bytes: u64,
    last: u64,
}

impl Threads {
    pub(super) fn get(&self, id: u64) -> Option<&Thread> {
        self.threads.get(&id)
    }

    /// The conversation that a request continues.
    pub(super) fn find(&self, logged: &Logged) -> Option<Match> {
        let prints = within(logged.session.as_deref(), &logged.request.prints);
        let mut candidates = self.with_messages(&prints);
        if let Some(session) = &logged.session {
            let of_session = self.by_session.get(session).into_iter().flatten();
            candidates.extend(of_session.rev().take(OTHERS));
        }
        let prints: HashSet<u64> = prints.into_iter().collect();
        let frozen = logged.request.prompt.frozen().tip();
        let best = candidates
            .into_iter()
            .filter_map(|id| {
                let thread = self.threads.get(&id)?;
                let shared = thread
                    .prints
                    .iter()
                    .filter(|print| prints.contains(print))
                    .count();
                let whole = shared == thread.prints.len()
                    && logged.request.prints.len() > thread.prints.len();
                let alike = thread.prompt.frozen().tip() == frozen;
                let named = logged.session.is_some();
                let kin = shared >= 2 || shared == 1 && (alike || whole || named);
                let same = common(&thread.prompt, &logged.request.prompt);
                (kin || named && alike).then_some(((kin, same, shared), id))
            })
            .max()?;
        let ((kin, ..), id) = best;
        Some(Match { id, kin })
    }

    /// Conversations that have one of these messages.
    fn with_messages(&self, prints: &[u64]) -> Vec<u64> {
        let mut found: Vec<u64> = Vec::new();
        // The newest messages tell conversations apart that have begun alike.
        for id in prints
            .iter()
            .rev()
            .filter_map(|print| self.by_print.get(print))
        {
            if found.len() < CANDIDATES && !found.contains(id) {
                found.push(*id);
            }
        }
        found
    }

    /// Takes a conversation out.
    pub(super) fn take(&mut self, id: u64) -> Option<Thread> {
        let thread = self.threads.remove(&id)?;
        self.bytes -= thread.prompt.bytes();
        for print in &thread.prints {
            if self.by_print.get(print) == Some(&id) {
                self.by_print.remove(print);
            }
        }
        if let Some(session) = &thread.session
            && let Some(ids) = self.by_session.get_mut(session)
        {
            ids.retain(|other| *other != id);
            if ids.is_empty() {
                self.by_session.remove(session);
            }
        }
        Some(thread)
    }

    /// Puts a conversation in; what had to be closed for it.
    pub(super) fn put(&mut self, thread: Thread) -> Vec<Thread> {
        self.last += 1;
        let id = self.last;
        self.bytes += thread.prompt.bytes();
        self.by_print
            .extend(thread.prints.iter().map(|print| (*print, id)));
        if let Some(session) = &thread.session {
            self.by_session.entry(session.clone()).or_default().push(id);
        }
        self.threads.insert(id, thread);
        let mut closed = Vec::new();
        while self.threads.len() > MOST_OPEN
            || self.bytes > MOST_OPEN_BYTES && self.threads.len() > 1
        {
            let oldest = self.threads.keys().next().copied();
            closed.extend(oldest.and_then(|oldest| self.take(oldest)));
        }
        closed
    }

    /// Closes the rest, in the order in which they were heard of last.
    pub(super) fn close(&mut self) -> Vec<Thread> {
        std::mem::take(self).threads.into_values().collect()
    }
}
