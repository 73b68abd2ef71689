//! What a log says of its prefixes.

use std::collections::{BTreeMap, HashSet};
use std::io::BufRead;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Cost, Seals};
use cachalot_model::{Catalog, Usage};
use serde::Serialize;

use super::relation::Relation;
use super::threads::{Thread, Threads, common};
use super::transcript::{Line, TranscriptLine, Transcripts};
use super::turns::Turns;
use super::{LogError, LogReader, Logged, Reason as LineReason};
use crate::diagnosis::{
    Diagnosis, LikelyCause, Observed, Reason, Rules, Sending, diagnose, said_by_user,
};
use cachalot_prompt::NodeId;
use cachalot_prompt::{Forest, Tree};

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
    /// The number of them that are known by their answers only, from a transcript.
    pub answers_only: u64,
    /// How many of them were answered with an error: they are compared with none.
    pub failed: u64,
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
    /// The models of whose answers one has told that something was read from a cache, or written.
    telling: HashSet<String>,
    transcripts: Transcripts,
    breaks: BTreeMap<(Reason, Option<LikelyCause>), Breaks>,
    analysis: Analysis,
}

impl Analyzer {
    /// With the prices and limits of a catalog; what `seals` knows is masked in what is shown.
    #[must_use]
    pub fn new(catalog: Catalog, seals: Arc<Seals>) -> Self {
        Self {
            catalog,
            seals: Arc::clone(&seals),
            open: Threads::default(),
            seen: HashSet::new(),
            in_tree: 0,
            forest: Forest::new(seals),
            names: HashSet::new(),
            telling: HashSet::new(),
            transcripts: Transcripts::default(),
            breaks: BTreeMap::new(),
            analysis: Analysis {
                requests: 0,
                answers_only: 0,
                failed: 0,
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

    /// Takes a whole log. Lines that are no requests are counted. Requests that stand near each other
    /// (32 of them, or 16 MiB) are taken in the order in which they say that they were sent.
    ///
    /// # Errors
    /// It cannot be read any further; what came before is taken.
    pub fn read(&mut self, log: impl BufRead) -> Result<(), LogError> {
        let mut unreadable = None;
        for logged in LogReader::new(log).in_order() {
            match logged {
                Ok(logged) => self.take(logged),
                Err(error) => match error.reason {
                    LineReason::Unreadable(_) => unreadable = Some(error),
                    LineReason::Transcript(line) => self.take_line(error.line, *line),
                    _ => self.skip(&error),
                },
            }
        }
        unreadable.map_or(Ok(()), Err)
    }

    fn skip(&mut self, error: &LogError) {
        let (count, named) = &mut self.analysis.skipped;
        *count += 1;
        if named.len() < NAMED_LINES {
            named.push((error.line, error.reason.to_string()));
        }
    }

    /// Takes the next request.
    pub fn take(&mut self, logged: Logged) {
        self.count(&logged);
        if logged.failed {
            return;
        }
        let turns = Turns::of(&logged.request.compared.prompt);
        let matched = self.open.find(&logged, &turns);
        let found = matched.and_then(|matched| Some((matched, self.open.get(matched.id)?)));
        let Some((matched, thread)) = found else {
            return self.begin(logged, turns);
        };
        let diagnosis = self.diagnosis(thread, &logged);
        let same = common(&thread.prompt, &logged.request.compared.prompt);
        let relation = Relation {
            thread,
            next: &logged,
            turns: &turns,
            same,
        };
        if !matched.goes_on && !relation.is_break(&diagnosis, matched.kin) {
            return self.begin(logged, turns);
        }
        if same < thread.prompt.len() {
            let (name, prompt) = (thread.name(), thread.prompt.clone());
            self.grow(&name, &prompt);
        }
        if diagnosis.is_break() {
            self.broken(matched.id, &logged, diagnosis);
        }
        if let Some(thread) = self.open.take(matched.id) {
            let closed = self.open.put(thread.followed(logged, turns, same));
            self.close(closed);
        }
    }

    /// Takes the next line of a transcript.
    fn take_line(&mut self, number: u64, line: TranscriptLine) {
        let answer = match line.0 {
            Line::Answer(answer) => answer,
            Line::Compaction(place) => return self.transcripts.summarize(place),
            Line::Other => return,
        };
        if !self.transcripts.is_new(&answer) {
            return;
        }
        self.analysis.requests += 1;
        self.analysis.answers_only += 1;
        self.analysis.reported.0 += 1;
        self.analysis.reported.1 += answer.usage;
        if self.names.len() < MOST_PIECES && !self.names.contains(answer.place.session()) {
            self.names.insert(answer.place.session().to_owned());
        }
        if let Some(broken) = self.transcripts.take(number, answer, &self.catalog) {
            self.add(broken);
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
            conversations: self.analysis.conversations + self.transcripts.count(),
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
        analysis.failed += u64::from(logged.failed);
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
            let tells = usage.cache_read > 0 || usage.cache_write() > 0;
            if tells
                && self.telling.len() < MOST_PIECES
                && !self.telling.contains(&logged.request.model)
            {
                self.telling.insert(logged.request.model.clone());
            }
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
            known: thread.counted.known(),
            previous: thread.usage,
            usage: logged.usage,
            verdict: thread.verdict_on(logged),
            tells: self.telling.contains(&request.model),
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

    fn begin(&mut self, logged: Logged, turns: Turns) {
        self.analysis.conversations += 1;
        let closed = self.open.put(Thread::begin(logged, turns));
        self.close(closed);
    }

    fn close(&mut self, threads: Vec<Thread>) {
        for thread in threads {
            self.grow(&thread.name(), &thread.prompt);
        }
    }

    fn grow(&mut self, name: &str, prompt: &cachalot_prompt::Prompt) {
        if self.in_tree + prompt.len() <= MOST_PIECES {
            let before = self.forest.pieces();
            self.forest.insert_request(name, prompt, said_by_user);
            // The name is kept, however little is new.
            self.in_tree += self.forest.pieces() - before + 1;
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
        self.add(broken);
    }

    fn add(&mut self, broken: Broken) {
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
