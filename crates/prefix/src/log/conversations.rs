//! The conversations of a sequence of requests: each request is assigned to one, and diagnosed by the request
//! before it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Millis, SecretSet};
use cachalot_model::Catalog;
use cachalot_prompt::Prompt;

use super::LoggedRequest;
use super::relation::Relation;
use super::thread::{Thread, common};
use super::threads::{OpenLimits, Threads};
use super::turns::Turns;
use crate::diagnosis::{
    CachedPrefix, ColdPrefix, Diagnosis, Observations, RequestView, Rules, cached_prefix,
    cold_prefix, diagnose,
};
use crate::hash::hash;

/// Maximum number of models that are known to report cache reads. When it is exceeded, all are forgotten.
const MAX_REPORTING_MODELS: usize = 1 << 16;

/// The open conversations, and the rules by which their requests are compared.
pub(super) struct Conversations {
    catalog: Arc<Catalog>,
    secret_set: Arc<SecretSet>,
    open: Threads,
    /// Hashes of the tenants and models for which an answer has reported a cache read or write.
    reporting_models: HashSet<u64>,
}

/// The place of a request among the conversations.
pub(super) struct Placement {
    /// The session of the conversation, if it has a name.
    pub(super) session: Option<String>,
    /// The line of the conversation's first request.
    pub(super) first_line: u64,
    /// The request that it should have continued; `None` if the request begins a conversation.
    pub(super) previous: Option<Previous>,
    /// Conversations that were closed to make room.
    pub(super) closed: Vec<Thread>,
}

/// The request before the placed one.
pub(super) struct Previous {
    /// The number of its conversation.
    pub(super) id: u64,
    /// Its line.
    pub(super) line: u64,
    /// The comparison with it.
    pub(super) diagnosis: Diagnosis,
    /// The name of the conversation and the pieces of that request, if it was not continued completely.
    pub(super) replaced: Option<(String, Prompt)>,
}

impl Conversations {
    pub(super) fn new(
        catalog: Arc<Catalog>,
        secret_set: Arc<SecretSet>,
        limits: OpenLimits,
    ) -> Self {
        Self {
            catalog,
            secret_set,
            open: Threads::new(limits),
            reporting_models: HashSet::new(),
        }
    }

    /// Adds the next answered request.
    pub(super) fn take(&mut self, logged: LoggedRequest) -> Placement {
        // Before the comparison, for which this answer counts, too.
        self.note_usage(&logged);
        let turns = Turns::from_prompt(&logged.request.compared.prompt);
        let matched = self.open.find(&logged, &turns);
        let found = matched.and_then(|matched| Some((matched, self.open.get(matched.id)?)));
        let Some((matched, thread)) = found else {
            return self.begin(logged, turns);
        };
        let same = common(&thread.prompt, &logged.request.compared.prompt);
        let diagnosis = self.diagnosis(thread, &logged, same);
        let relation = Relation {
            thread,
            next: &logged,
            turns: &turns,
            same,
        };
        if !matched.is_continuation && !relation.is_break(&diagnosis, matched.is_related) {
            return self.begin(logged, turns);
        }
        let is_replaced = same < thread.prompt.len();
        let replaced = is_replaced.then(|| (thread.name(), thread.prompt.clone()));
        let Some(thread) = self.open.take(matched.id) else {
            return self.begin(logged, turns);
        };
        let (first_line, line) = thread.lines;
        let mut thread = thread.followed(logged, turns, same);
        thread.last_break = diagnosis.is_break().then(|| Box::new(diagnosis.clone()));
        Placement {
            session: thread.session.clone(),
            first_line,
            previous: Some(Previous {
                id: matched.id,
                line,
                diagnosis,
                replaced,
            }),
            closed: self.open.put(thread),
        }
    }

    /// Returns the break that the last request of a conversation showed, if `next` continues that request.
    pub(super) fn last_break(&self, next: &LoggedRequest) -> Option<&Diagnosis> {
        let turns = Turns::from_prompt(&next.request.compared.prompt);
        let matched = self.open.find(next, &turns)?;
        let thread = self.open.get(matched.id)?;
        let found = thread.last_break.as_deref();
        found.filter(|_| matched.is_continuation)
    }

    /// Returns the conversation that `next` continues, and its prefix, if that has expired.
    pub(super) fn cold(&self, next: &LoggedRequest) -> Option<(u64, ColdPrefix)> {
        let turns = Turns::from_prompt(&next.request.compared.prompt);
        let matched = self.open.find(next, &turns)?;
        let thread = self.open.get(matched.id)?;
        let same = common(&thread.prompt, &next.request.compared.prompt);
        let read = thread.at.max(thread.continued);
        let cold = self.compare((thread, read), next, same, cold_prefix)?;
        if !matched.is_continuation {
            let relation = Relation {
                thread,
                next,
                turns: &turns,
                same,
            };
            let diagnosis = self.diagnosis(thread, next, same);
            if !relation.is_break(&diagnosis, matched.is_related) {
                return None;
            }
        }
        // A fork of the conversation has read, and thereby kept, what both have in common.
        let is_kept = self.open.similar(next, &turns).any(|other| {
            let idle = other.at.zip(next.at).map(|(before, now)| now - before);
            let is_alive = idle
                .is_some_and(|idle| u128::from(idle.unsigned_abs()) <= cold.lifetime.as_millis());
            is_alive && common(&other.prompt, &next.request.compared.prompt) * 2 > same
        });
        (!is_kept).then_some((matched.id, cold))
    }

    /// Notes that `next` was sent, before it is answered. Returns the number of the conversation whose last request it
    /// continues.
    pub(super) fn note_sent(&mut self, next: &LoggedRequest) -> Option<u64> {
        let turns = Turns::from_prompt(&next.request.compared.prompt);
        let matched = self.open.find(next, &turns)?;
        if !matched.is_continuation {
            return None;
        }
        if let Some(at) = next.at {
            self.open.begin(matched.id, at);
        }
        Some(matched.id)
    }

    /// Returns the number of the conversation that the last answered request belongs to, until the next answer in it.
    pub(super) fn newest(&self) -> u64 {
        self.open.newest()
    }

    /// Notes that the prefix of a conversation was read by a request that is none of it.
    pub(super) fn renew(&mut self, id: u64, at: Millis) {
        self.open.renew(id, at);
    }

    /// Returns the prefix of an answered request in the provider's cache.
    pub(super) fn cached(&self, logged: &LoggedRequest) -> Option<CachedPrefix> {
        let usage = logged.usage?;
        let rules = Rules::of_request(&logged.request, &self.catalog);
        cached_prefix(&logged.request.sending(), usage, logged.at, &rules)
    }

    /// Closes all conversations.
    pub(super) fn close(&mut self) -> Vec<Thread> {
        self.open.close()
    }

    fn note_usage(&mut self, logged: &LoggedRequest) {
        let reported = logged.usage;
        if !reported.is_some_and(|usage| usage.cache_read > 0 || usage.cache_write() > 0) {
            return;
        }
        if self.reporting_models.len() >= MAX_REPORTING_MODELS {
            self.reporting_models.clear();
        }
        self.reporting_models.insert(reporting_model(logged));
    }

    fn diagnosis(&self, thread: &Thread, logged: &LoggedRequest, same: usize) -> Diagnosis {
        let last = (thread, thread.at);
        self.compare(last, logged, same, |previous, next, observed, rules| {
            diagnose(previous, next, observed, rules, &self.secret_set)
        })
    }

    /// Compares the last request of a conversation, whose prefix was read at this time, with the next one, of which the
    /// first `same` pieces are the same.
    fn compare<T>(
        &self,
        (thread, read): (&Thread, Option<Millis>),
        logged: &LoggedRequest,
        same: usize,
        compare: impl FnOnce(&RequestView<'_>, &RequestView<'_>, &Observations<'_>, &Rules) -> T,
    ) -> T {
        let request = &logged.request;
        let rules = Rules::of_request(request, &self.catalog);
        let elapsed = read.zip(logged.at).map(|(before, now)| now - before);
        let elapsed = elapsed.and_then(|millis| u64::try_from(millis).ok());
        let respelled = thread.respelled(logged, same);
        let observed = Observations {
            written: &thread.written,
            known: thread.counted.known(),
            previous: thread.usage,
            usage: logged.usage,
            verdict: thread.verdict_on(logged),
            reports_cache_reads: self.reporting_models.contains(&reporting_model(logged)),
            elapsed: elapsed.map(Duration::from_millis),
            is_summarized: logged.is_summarized,
            respelled: &respelled,
            at: logged.at,
        };
        let previous = RequestView {
            prompt: &thread.prompt,
            namespace: &thread.namespace,
            plan: &thread.plan,
            tail: &thread.tail,
        };
        compare(&previous, &request.sending(), &observed, &rules)
    }

    fn begin(&mut self, logged: LoggedRequest, turns: Turns) -> Placement {
        let (session, first_line) = (logged.session.clone(), logged.line);
        Placement {
            session,
            first_line,
            previous: None,
            closed: self.open.put(Thread::begin(logged, turns)),
        }
    }
}

fn reporting_model(logged: &LoggedRequest) -> u64 {
    hash((&logged.tenant, &logged.request.model))
}
