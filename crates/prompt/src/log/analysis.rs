//! What a log says of its prefixes.

use std::collections::{BTreeMap, HashSet};
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Cost, Seals};
use cachalot_model::{Catalog, Usage};
use serde::Serialize;

use super::threads::{Thread, Threads, common};
use super::{LogError, LogReader, Logged, Reason as LineReason};
use crate::chain::NodeId;
use crate::diagnosis::{
    Diagnosis, LikelyCause, Observed, Reason, Rules, Sending, diagnose, said_by_user,
};
use crate::tree::{Forest, Tree};

/// So many examples are kept of breaks that are alike, the dearest.
const EXAMPLES: usize = 3;

/// So many lines that are no requests are named.
const NAMED_LINES: usize = 20;

/// So many different pieces are told apart; of a longer log, what is shared is at least what is said.
const MOST_PIECES: usize = 1 << 18;

/// A break, and where in the log it is.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Broken {
    /// The line of the request.
    pub line: u64,
    /// The line of the request that it should have continued.
    pub previous_line: u64,
    /// The session, or the line that the conversation began with.
    pub session: String,
    /// The model.
    pub model: String,
    /// What is wrong.
    pub diagnosis: Diagnosis,
}

/// Breaks that are alike.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct Breaks {
    /// Why.
    pub reason: Reason,
    /// What has probably caused them.
    pub cause: Option<LikelyCause>,
    /// How many.
    pub count: u64,
    /// How many tokens were paid for anew.
    pub lost_tokens: u64,
    /// What that cost; what has no price is counted.
    pub lost_cost: Cost,
    /// The dearest of them, the dearest first.
    pub examples: Vec<Broken>,
}

/// What a log says of its prefixes.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Analysis {
    /// How many requests there are.
    pub requests: u64,
    /// How many conversations; a fork is one of its own.
    pub conversations: u64,
    /// How many sessions the log names.
    pub sessions: u64,
    /// How many lines are no requests, and of the first of them why.
    pub skipped: (u64, Vec<(u64, String)>),
    /// How many requests came with a report of what they used, and the sum of those.
    pub reported: (u64, Usage),
    /// How many bytes the pieces of all requests have.
    pub sent_bytes: u64,
    /// How many bytes the different pieces have.
    pub different_bytes: u64,
    /// The prefixes: of each conversation its last request, and what a break has left behind.
    pub tree: Tree,
    /// What is wrong, the dearest first.
    pub breaks: Vec<Breaks>,
}

impl Analysis {
    /// How many times the different bytes are sent; 1 if nothing is shared.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio to be read")]
    pub fn dedup_ratio(&self) -> f64 {
        if self.different_bytes == 0 {
            return 1.0;
        }
        self.sent_bytes as f64 / self.different_bytes as f64
    }

    /// How many tokens were paid for anew, and what that cost.
    #[must_use]
    pub fn lost(&self) -> (u64, Cost) {
        let mut sum = (0_u64, Cost::default());
        for breaks in &self.breaks {
            sum.0 = sum.0.saturating_add(breaks.lost_tokens);
            sum.1 += breaks.lost_cost;
        }
        sum
    }
}

/// Reads logs, request by request, and tells what is wrong with their prefixes.
///
/// Needs memory for the conversations that are open ([`super::MOST_OPEN`],
/// [`super::MOST_OPEN_BYTES`]), for the names of at most 262,144 pieces, and for a few examples of
/// each kind of break; however long the log is.
pub struct Analyzer {
    catalog: Catalog,
    seals: Arc<Seals>,
    open: Threads,
    seen: HashSet<NodeId>,
    in_tree: usize,
    forest: Forest,
    names: HashSet<String>,
    breaks: BTreeMap<(Reason, Option<LikelyCause>), Breaks>,
    analysis: Analysis,
}

impl Analyzer {
    /// With the prices and limits of a catalog; what `seals` knows is masked in what is shown.
    #[must_use]
    pub fn new(catalog: Catalog, seals: Arc<Seals>) -> Self {
        Self {
            catalog,
            seals,
            open: Threads::default(),
            seen: HashSet::new(),
            in_tree: 0,
            forest: Forest::default(),
            names: HashSet::new(),
            breaks: BTreeMap::new(),
            analysis: Analysis {
                requests: 0,
                conversations: 0,
                sessions: 0,
                skipped: (0, Vec::new()),
                reported: (0, Usage::default()),
                sent_bytes: 0,
                different_bytes: 0,
                tree: Tree::default(),
                breaks: Vec::new(),
            },
        }
    }

    /// Takes a whole log. Lines that are no requests are counted.
    ///
    /// # Errors
    /// It cannot be read any further; what came before is taken.
    pub fn read(&mut self, log: impl BufRead) -> Result<(), LogError> {
        for logged in LogReader::new(log) {
            match logged {
                Ok(logged) => self.take(logged),
                Err(error) if matches!(error.reason, LineReason::Unreadable(_)) => {
                    return Err(error);
                }
                Err(error) => {
                    let (count, named) = &mut self.analysis.skipped;
                    *count += 1;
                    if named.len() < NAMED_LINES {
                        named.push((error.line, error.reason.to_string()));
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the next request.
    pub fn take(&mut self, logged: Logged) {
        self.count(&logged);
        let matched = self.open.find(&logged);
        let Some(matched) = matched else {
            return self.begin(logged);
        };
        let Some(thread) = self.open.get(matched.id) else {
            return self.begin(logged);
        };
        let diagnosis = self.diagnosis(thread, &logged);
        let same = common(&thread.prompt, &logged.request.prompt);
        let unexplained = diagnosis.at.is_some() && diagnosis.cause.is_none();
        if unexplained && !matched.kin {
            return self.begin(logged);
        }
        if unexplained && is_fork(thread, same) {
            return self.begin(logged);
        }
        if diagnosis.is_break() {
            if diagnosis.at.is_some() && same < thread.prompt.len() {
                let (name, prompt) = (thread.name(), thread.prompt.clone());
                self.grow(&name, &prompt);
            }
            self.broken(matched.id, &logged, diagnosis);
        }
        if let Some(thread) = self.open.take(matched.id) {
            let closed = self.open.put(thread.followed(logged, same));
            self.close(closed);
        }
    }

    /// What there is to say when the log is at its end.
    #[must_use]
    pub fn finish(mut self) -> Analysis {
        let open = self.open.close();
        self.close(open);
        let mut breaks: Vec<Breaks> = self.breaks.into_values().collect();
        breaks.sort_by_key(|breaks| {
            std::cmp::Reverse((
                breaks.lost_cost.picodollars,
                breaks.lost_tokens,
                breaks.count,
            ))
        });
        Analysis {
            sessions: self.names.len() as u64,
            tree: self.forest.tree(),
            breaks,
            ..self.analysis
        }
    }

    fn count(&mut self, logged: &Logged) {
        let analysis = &mut self.analysis;
        let prompt = &logged.request.prompt;
        analysis.requests += 1;
        analysis.sent_bytes += prompt.bytes();
        for node in prompt.backwards() {
            // What is known has only known pieces before it.
            if self.seen.contains(&node.id) {
                break;
            }
            analysis.different_bytes += node.bytes.len() as u64;
            if self.seen.len() < MOST_PIECES {
                self.seen.insert(node.id);
            }
        }
        if let Some(usage) = logged.usage {
            analysis.reported.0 += 1;
            analysis.reported.1 += usage;
        }
        if let Some(session) = &logged.session
            && self.names.len() < MOST_PIECES
            && !self.names.contains(session)
        {
            self.names.insert(session.clone());
        }
    }

    fn diagnosis(&self, thread: &Thread, logged: &Logged) -> Diagnosis {
        let request = &logged.request;
        let rules = Rules::of_request(request, &self.catalog);
        let elapsed = thread.at.zip(logged.at).map(|(before, now)| now - before);
        let elapsed = elapsed.and_then(|millis| u64::try_from(millis).ok());
        let observed = Observed {
            written: &thread.written,
            previous: thread.usage,
            usage: logged.usage,
            elapsed: elapsed.map(Duration::from_millis),
        };
        let previous = Sending {
            prompt: &thread.prompt,
            namespace: &thread.namespace,
            plan: &thread.plan,
            tail: &thread.tail,
        };
        diagnose(
            &previous,
            &request.sending(),
            &observed,
            &rules,
            &self.seals,
        )
    }

    fn begin(&mut self, logged: Logged) {
        self.analysis.conversations += 1;
        let closed = self.open.put(Thread::begin(logged));
        self.close(closed);
    }

    fn close(&mut self, threads: Vec<Thread>) {
        for thread in threads {
            self.grow(&thread.name(), &thread.prompt);
        }
    }

    fn grow(&mut self, name: &str, prompt: &crate::Prompt) {
        if self.in_tree + prompt.len() <= MOST_PIECES {
            self.in_tree += prompt.len();
            self.forest.insert_foreign(name, prompt, said_by_user);
        }
    }

    fn broken(&mut self, id: u64, logged: &Logged, diagnosis: Diagnosis) {
        let Some(thread) = self.open.get(id) else {
            return;
        };
        let broken = Broken {
            line: logged.line,
            previous_line: thread.lines.1,
            session: thread.name(),
            model: logged.request.model.clone(),
            diagnosis,
        };
        let diagnosis = &broken.diagnosis;
        let key = (diagnosis.reason, diagnosis.cause);
        let breaks = self.breaks.entry(key).or_insert_with(|| Breaks {
            reason: key.0,
            cause: key.1,
            count: 0,
            lost_tokens: 0,
            lost_cost: Cost::default(),
            examples: Vec::new(),
        });
        breaks.count += 1;
        breaks.lost_tokens = breaks.lost_tokens.saturating_add(diagnosis.lost_tokens);
        breaks.lost_cost += match diagnosis.lost_cost {
            Some(cost) => cost,
            None if diagnosis.lost_tokens > 0 => Cost::UNPRICED,
            None => Cost::default(),
        };
        breaks.examples.push(broken);
        // Of several that cost the same, the first stays.
        breaks
            .examples
            .sort_by_key(|example| std::cmp::Reverse(example.diagnosis.lost_tokens));
        breaks.examples.truncate(EXAMPLES);
    }
}

/// Whether a request goes on from an earlier one of the conversation than the last.
fn is_fork(thread: &Thread, common: usize) -> bool {
    thread.ends.iter().any(|end| *end as usize <= common)
}
