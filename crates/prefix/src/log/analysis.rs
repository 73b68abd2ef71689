//! Analysis of the prefixes in a log.

use std::collections::{BTreeMap, HashSet};
use std::io::{self, BufRead, Read};
use std::sync::Arc;

use cachalot_core::{Cost, Millis, SecretSet};
use cachalot_model::{Catalog, Usage};
use serde::Serialize;

use super::conversations::{Conversations, Placement};
use super::envelope;
use super::logged_break::LoggedBreak;
use super::recorded::{AnsweredRequest, RecordedRequest, RecordedRequests};
use super::thread::Thread;
use super::threads::OpenLimits;
use super::transcript::{Line, TranscriptLine, Transcripts};
use super::transcript_answer::{AGENT, TranscriptAnswer, TranscriptConversation};
use super::{LogError, LogReader, LoggedRequest, MAX_LINE_BYTES, Reason as LineReason};
use crate::diagnosis::{LikelyCause, Reason, user_text};
use crate::lines::{LineError, Lines};
use crate::request::NormalForms;
use crate::rollout::{Rollout, RolloutLine};
use cachalot_prompt::NodeId;
use cachalot_prompt::{PrefixTree, PrefixTreeBuilder};

/// Maximum number of examples per group of similar breaks.
const MAX_EXAMPLES: usize = 3;

/// Maximum number of lines without a request that are listed.
const MAX_LISTED_LINES: usize = 20;

/// Maximum number of different pieces that are recognized. For a longer log, the shared part is
/// underestimated.
const MAX_PIECES: usize = 1 << 18;

/// Maximum number of records and counts of a session of Codex that are compared with each other. In a longer one, an answer
/// that has both may count twice.
const MAX_ROLLOUT_ANSWERS: usize = 1 << 16;

/// A group of similar breaks: with the same reason and cause.
#[derive(Debug, Clone, Serialize)]
#[non_exhaustive]
pub struct BreakGroup {
    /// The reason.
    pub reason: Reason,
    /// The likely cause.
    pub cause: Option<LikelyCause>,
    /// Number of breaks.
    pub count: u64,
    /// Tokens that were paid for again.
    pub lost_tokens: u64,
    /// The additional cost; losses without a price are counted in it.
    pub lost_cost: Cost,
    /// The breaks with the most lost tokens, in descending order.
    pub examples: Vec<LoggedBreak>,
}

/// The analysis of the prefixes in a log.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Analysis {
    /// Number of requests.
    pub requests: u64,
    /// Number of requests that are known only by their answers, from a transcript.
    pub answers_only: u64,
    /// Number of requests that were reconstructed from the parts in a transcript.
    pub reconstructed: u64,
    /// Number of requests that a transcript records without an answer; they are not compared.
    pub unanswered: u64,
    /// Number of requests that were answered with an error; they are not compared.
    pub failed: u64,
    /// Number of conversations; a fork counts as a separate one.
    pub conversations: u64,
    /// Number of sessions that the log names.
    pub sessions: u64,
    /// Number of lines without a request, or with one that cannot be reconstructed, and the reasons for the first of
    /// them.
    pub skipped: (u64, Vec<(u64, String)>),
    /// Number of requests with reported usage, and the sum of that usage.
    pub reported: (u64, Usage),
    /// Bytes of the pieces of all requests.
    pub sent_bytes: u64,
    /// Bytes of the distinct pieces.
    pub different_bytes: u64,
    /// The prefixes: the last request of each conversation, and the parts that breaks have left behind.
    pub tree: PrefixTree,
    /// The breaks, the most expensive group first.
    pub breaks: Vec<BreakGroup>,
    /// All breaks in the order of the log, if they are kept ([`Analyzer::keep_breaks`]).
    pub all_breaks: Vec<LoggedBreak>,
}

impl Analysis {
    /// Returns how many times the distinct bytes were sent on average; 1 if nothing is shared.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "a ratio to be read")]
    pub fn dedup_ratio(&self) -> f64 {
        if self.different_bytes == 0 {
            return 1.0;
        }
        self.sent_bytes as f64 / self.different_bytes as f64
    }

    /// Returns the tokens that were paid for again, and their additional cost.
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

/// Analyzes logs, request by request.
///
/// Memory is bounded independently of the length of the log: by the open conversations ([`super::MAX_OPEN_CONVERSATIONS`],
/// [`super::MAX_OPEN_BYTES`]), the digests of at most 262,144 pieces, 65,536 answers of a session of Codex, a few
/// examples of each group of breaks, and the breaks that are kept.
pub struct Analyzer {
    catalog: Arc<Catalog>,
    conversations: Conversations,
    seen: HashSet<NodeId>,
    in_tree: usize,
    tree_builder: PrefixTreeBuilder,
    names: HashSet<String>,
    transcripts: Transcripts,
    recorded: RecordedRequests,
    /// The session of Codex that is being read.
    rollout: Option<Rollout>,
    forms: NormalForms,
    /// Number of files with one request.
    captures: u64,
    /// The name of the file that is read, if there are several.
    file: Option<String>,
    breaks: BTreeMap<(Reason, Option<LikelyCause>), BreakGroup>,
    /// The maximum number of breaks that are kept one by one.
    max_breaks: usize,
    analysis: Analysis,
}

impl Analyzer {
    /// Creates an analyzer with the prices and limits of a catalog. Text known to `secret_set` is masked.
    #[must_use]
    pub fn new(catalog: Catalog, secret_set: Arc<SecretSet>) -> Self {
        let catalog = Arc::new(catalog);
        let limits = OpenLimits::default();
        Self {
            conversations: Conversations::new(
                Arc::clone(&catalog),
                Arc::clone(&secret_set),
                limits,
            ),
            catalog,
            seen: HashSet::new(),
            in_tree: 0,
            tree_builder: PrefixTreeBuilder::new(secret_set),
            names: HashSet::new(),
            transcripts: Transcripts::default(),
            recorded: RecordedRequests::default(),
            rollout: None,
            forms: NormalForms::default(),
            captures: 0,
            file: None,
            breaks: BTreeMap::new(),
            max_breaks: 0,
            analysis: Analysis::default(),
        }
    }

    /// Keeps the first breaks one by one, beside the examples of each group.
    #[must_use]
    pub fn keep_breaks(mut self, maximum: usize) -> Self {
        self.max_breaks = maximum;
        self
    }

    /// Registers the requests that a transcript records, before any of several files is read: a copy of an answer in
    /// another file is not taken for an answer of its own. A file that cannot be read has no requests.
    pub fn register(&mut self, log: impl BufRead) {
        self.recorded.begin_registration();
        let mut lines = Lines::new(log);
        loop {
            match lines.next_line() {
                Ok(Some(line)) => {
                    if let Some(id) = RecordedRequest::id_of(line) {
                        self.recorded.register(&id);
                    }
                }
                Err(LineError::TooLong) => {}
                Ok(None) | Err(LineError::Unreadable(_)) => return,
            }
        }
    }

    /// Reads a file with one request, such as Claude Code writes for each request (`OTEL_LOG_RAW_API_BODIES=file:…`). The
    /// time is used if the file has none.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read_capture(
        &mut self,
        name: &str,
        at: Option<Millis>,
        capture: impl Read,
    ) -> Result<(), io::Error> {
        let mut body = Vec::new();
        capture
            .take(MAX_LINE_BYTES as u64 + 1)
            .read_to_end(&mut body)?;
        self.captures += 1;
        let read = if body.len() > MAX_LINE_BYTES {
            Err(LineReason::TooLong)
        } else {
            envelope::read(&mut self.forms, &body)
        };
        match read {
            Ok(logged) => self.take(LoggedRequest {
                line: self.captures,
                at: logged.at.or(at),
                ..logged
            }),
            Err(reason) => {
                self.file = Some(name.to_owned());
                self.skip(self.captures, &reason.to_string());
                self.file = None;
            }
        }
        Ok(())
    }

    /// Reads one of several files, whose name is given in the reasons of skipped lines.
    ///
    /// # Errors
    /// See [`Analyzer::read`].
    pub fn read_file(&mut self, name: &str, log: impl BufRead) -> Result<(), LogError> {
        self.file = Some(name.to_owned());
        let read = self.read(log);
        self.file = None;
        read
    }

    /// Reads a whole log. Counts lines that are not requests. Sorts requests within a window (32 requests, or
    /// 16 MiB) by the time when they were sent, where the log contains it.
    ///
    /// # Errors
    /// The log cannot be read any further; everything before was analyzed.
    pub fn read(&mut self, log: impl BufRead) -> Result<(), LogError> {
        let mut unreadable = None;
        for logged in LogReader::new(log).in_order() {
            match logged {
                Ok(logged) => self.take(logged),
                Err(error) => match error.reason {
                    LineReason::Unreadable(_) => unreadable = Some(error),
                    LineReason::Transcript(line) => self.take_line(error.line, *line),
                    reason => self.skip(error.line, &reason.to_string()),
                },
            }
        }
        self.analysis.unanswered += self.recorded.end_file();
        self.take_rollout_answers();
        self.rollout = None;
        unreadable.map_or(Ok(()), Err)
    }

    fn skip(&mut self, line: u64, reason: &str) {
        let (count, named) = &mut self.analysis.skipped;
        *count += 1;
        if named.len() < MAX_LISTED_LINES {
            let reason = match &self.file {
                Some(file) => format!("{file}: {reason}"),
                None => reason.to_owned(),
            };
            named.push((line, reason));
        }
    }

    /// Adds the next request.
    pub fn take(&mut self, logged: LoggedRequest) {
        self.count(&logged);
        if logged.failed {
            return;
        }
        let (line, model) = (logged.line, logged.request.model.clone());
        let is_reported = logged.usage.is_some();
        let answer = logged.answer.clone();
        let Placement {
            session,
            first_line,
            previous,
            closed,
        } = self.conversations.take(logged);
        let Some(previous) = previous else {
            self.analysis.conversations += 1;
            return self.close(closed);
        };
        if let Some((name, prompt)) = previous.replaced {
            self.add_to_tree(&name, &prompt);
        }
        // A difference by which nothing was lost, as the answer reports, is no break for a user.
        let is_free = is_reported && previous.diagnosis.lost_tokens == 0;
        if previous.diagnosis.is_break() && !is_free {
            self.add(LoggedBreak {
                line,
                previous_line: previous.line,
                session: super::thread::name(session.as_deref(), first_line),
                answer,
                model,
                diagnosis: previous.diagnosis,
            });
        }
        self.close(closed);
    }

    /// Adds the next line of a transcript.
    fn take_line(&mut self, number: u64, line: TranscriptLine) {
        match line.0 {
            Line::Answer(answer) => self.take_answer(number, *answer),
            Line::Part(part) => {
                if let Err(reason) = self.recorded.take(number, part) {
                    self.skip(number, &reason.to_string());
                }
            }
            Line::Rollout(line) => self.take_rollout_line(number, *line),
            Line::Compaction(place) => {
                self.recorded.summarize(&place);
                self.transcripts.summarize(place);
            }
            Line::Other => {}
        }
    }

    fn take_rollout_line(&mut self, number: u64, line: RolloutLine) {
        let file = self.file.as_deref().unwrap_or("rollout");
        let rollout = self
            .rollout
            .get_or_insert_with(|| Rollout::new(file.into()));
        rollout.take(number, line);
        if rollout.len() >= MAX_ROLLOUT_ANSWERS {
            self.take_rollout_answers();
        }
    }

    /// Adds the answers of a session of Codex: a record and a count of the same answer may be in any order.
    fn take_rollout_answers(&mut self) {
        let Some(rollout) = &mut self.rollout else {
            return;
        };
        let session = Arc::clone(&rollout.session);
        let (answers, summaries) = rollout.drain();
        let place = TranscriptConversation::of_session(&session);
        let mut summaries = summaries.into_iter().peekable();
        for answer in answers {
            let line = answer.line;
            while summaries.next_if(|summary| *summary < line).is_some() {
                self.transcripts.summarize(place.clone());
            }
            self.take_usage(line, TranscriptAnswer::from_rollout(&session, &answer));
        }
        if summaries.next().is_some() {
            self.transcripts.summarize(place);
        }
    }

    /// Adds an answer of Claude Code, with its request where that is recorded.
    fn take_answer(&mut self, number: u64, mut answer: TranscriptAnswer) {
        match self.recorded.answered(&mut answer) {
            AnsweredRequest::Reconstructed(logged) => {
                if self.transcripts.is_new(&answer) {
                    self.analysis.reconstructed += 1;
                    self.transcripts.follow(number, answer);
                    self.take(*logged);
                }
            }
            AnsweredRequest::Unknown => self.take_usage(number, answer),
            AnsweredRequest::Elsewhere => {}
        }
    }

    /// Adds an answer whose request is not known.
    fn take_usage(&mut self, number: u64, answer: TranscriptAnswer) {
        if !self.transcripts.is_new(&answer) {
            return;
        }
        self.analysis.requests += 1;
        self.analysis.answers_only += 1;
        self.analysis.reported.0 += 1;
        self.analysis.reported.1 += answer.usage;
        if self.names.len() < MAX_PIECES && !self.names.contains(answer.place.session()) {
            self.names.insert(answer.place.session().to_owned());
        }
        if let Some(broken) = self.transcripts.take(number, answer, &self.catalog) {
            self.add(broken);
        }
    }

    /// Returns the result at the end of the log.
    #[must_use]
    pub fn finish(mut self) -> Analysis {
        let open = self.conversations.close();
        self.close(open);
        let mut breaks: Vec<BreakGroup> = self.breaks.into_values().collect();
        breaks.sort_by_key(|breaks| {
            std::cmp::Reverse((
                breaks.lost_cost.picodollars,
                breaks.lost_tokens,
                breaks.count,
            ))
        });
        Analysis {
            conversations: self.analysis.conversations
                + (self.transcripts).count(|place| self.recorded.contains(place)),
            sessions: self.names.len() as u64,
            tree: self.tree_builder.tree(),
            breaks,
            ..self.analysis
        }
    }

    fn count(&mut self, logged: &LoggedRequest) {
        let analysis = &mut self.analysis;
        let prompt = &logged.request.prompt;
        analysis.requests += 1;
        analysis.failed += u64::from(logged.failed);
        analysis.sent_bytes += prompt.bytes();
        for node in prompt.backwards() {
            // All pieces before a known one are known.
            if self.seen.contains(&node.id) {
                break;
            }
            analysis.different_bytes += node.bytes.len() as u64;
            if self.seen.len() < MAX_PIECES {
                self.seen.insert(node.id);
            }
        }
        if let Some(usage) = logged.usage {
            analysis.reported.0 += 1;
            analysis.reported.1 += usage;
        }
        let session = logged.session.as_deref();
        let session = session.map(|name| name.split(AGENT).next().unwrap_or(name));
        if let Some(session) = session
            && self.names.len() < MAX_PIECES
            && !self.names.contains(session)
        {
            self.names.insert(session.to_owned());
        }
    }

    fn close(&mut self, threads: Vec<Thread>) {
        for thread in threads {
            self.add_to_tree(&thread.name(), &thread.prompt);
        }
    }

    fn add_to_tree(&mut self, name: &str, prompt: &cachalot_prompt::Prompt) {
        if self.in_tree + prompt.len() <= MAX_PIECES {
            let before = self.tree_builder.pieces();
            self.tree_builder.insert_request(name, prompt, user_text);
            // The name takes memory, even if nothing else is new.
            self.in_tree += self.tree_builder.pieces() - before + 1;
        }
    }

    fn add(&mut self, broken: LoggedBreak) {
        let diagnosis = &broken.diagnosis;
        let key = (diagnosis.reason, diagnosis.cause);
        let breaks = self.breaks.entry(key).or_insert_with(|| BreakGroup {
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
        if self.analysis.all_breaks.len() < self.max_breaks {
            self.analysis.all_breaks.push(broken.clone());
        }
        breaks.examples.push(broken);
        // The sort is stable: of examples with equal losses, the first stays.
        breaks
            .examples
            .sort_by_key(|example| std::cmp::Reverse(example.diagnosis.lost_tokens));
        breaks.examples.truncate(MAX_EXAMPLES);
    }
}
