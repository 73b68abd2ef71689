//! Spend of coding agents, from the transcripts that they leave on disk.
//!
//! [`SpendReader`] reads transcripts of the programs of [`Client`], whose formats are internal to these programs and
//! change: lines of unknown kinds are counted and named. Each answer counts once, however often it was streamed,
//! copied into a resumed session, or replayed by a fork. Requests that are in no line are named where the program keeps a
//! sum of its costs ([`Spending::side_requests`]), or at least by their kind ([`Spending::untraced`]). Memory grows with the
//! number of distinct answers.

mod answer;
mod cost_state;
mod details;
mod files;
mod gemini_projects;
mod titles;
mod totals;
mod transcripts;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use crate::hash::hash;
use cachalot_model::Usage;

pub(crate) use answer::AnswerPlace;
pub use answer::{Client, Loss, LossCause, PaidAnswer};
pub use details::AnswerDetails;
pub use files::{Files, find_files, is_opencode_database};
pub use totals::{SpendTotals, WrittenAgain};
pub(crate) use totals::{cache_use, with_use};
pub(crate) use transcripts::SLACK;

use crate::lines::{LineError, Lines};
use titles::{Origin, Title, Titles};
use transcripts::{File, client_of, codex, document, opencode, qwen_code};

/// Requests of Codex of which only the beginning of the conversation is recorded.
const VOICE: &str = "voice conversations";

/// Maximum number of names of unknown kinds of lines.
const MAX_KINDS: usize = 50;

/// Reads transcripts, and keeps what each distinct answer cost.
#[derive(Default)]
pub struct SpendReader {
    answers: Vec<PaidAnswer>,
    /// The places of answers by the hash of their keys.
    places: HashMap<u64, usize>,
    names: HashSet<Arc<str>>,
    /// True if answers get their details.
    is_detailed: bool,
    /// The file that is being read, if answers get their details.
    file: Option<Arc<Path>>,
    /// The number of the line that is being read, without empty ones.
    line: u64,
    codex: codex::Sessions,
    qwen: qwen_code::Sessions,
    /// The working directories of Cline's sessions, which other files name.
    cline_directories: HashMap<Arc<str>, Arc<str>>,
    costs: cost_state::CostStates,
    /// The keys of answers that were seen as copies without counts.
    empty_copies: HashSet<u64>,
    untraced: BTreeMap<Client, &'static str>,
    /// The number of untraced requests, by program and session.
    untraced_counts: BTreeMap<(Client, Arc<str>), u64>,
    unknown: BTreeMap<String, u64>,
    titles: Titles,
}

/// The content of all files.
#[derive(Debug, Default)]
pub struct Spending {
    /// The distinct answers, in no particular order.
    pub answers: Vec<PaidAnswer>,
    /// Requests that are in no line, but in the sum that a session writes of its costs: one entry per session and model.
    pub side_requests: Vec<PaidAnswer>,
    /// Requests that programs send and of which their files have no trace, so that they are not counted.
    pub untraced: BTreeMap<Client, &'static str>,
    /// The number of these requests, where something else shows it.
    pub untraced_counts: BTreeMap<Client, u64>,
    /// Kinds of lines that are not known, with their numbers.
    pub unknown: BTreeMap<String, u64>,
    /// The titles of sessions, where they have one, or a prompt: at most 80 characters of foreign text.
    pub titles: HashMap<(Client, Arc<str>), String>,
}

impl Spending {
    /// Returns the title of a session.
    #[must_use]
    pub fn title(&self, client: Client, session: &str) -> Option<&str> {
        let key = (client, Arc::from(session));
        self.titles.get(&key).map(String::as_str)
    }
}

/// A defect of a file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It cannot be opened or read; the lines before count.
    #[error("it cannot be read: {0}")]
    Unreadable(#[from] std::io::Error),
    /// Some lines are malformed; all others count.
    #[error("line {first} is no JSON, or too long ({count} such lines)")]
    Malformed {
        /// The number of the first one, from 1.
        first: u64,
        /// The number of such lines.
        count: u64,
    },
    /// No line is of a known transcript.
    #[error("it is no transcript of a known program")]
    Unknown,
}

impl SpendReader {
    /// Creates a reader that also keeps the details of each answer, for reports of sessions.
    #[must_use]
    pub fn with_details() -> Self {
        Self {
            is_detailed: true,
            ..Self::default()
        }
    }

    /// Reads a transcript. `path` gives names where the transcript has none.
    ///
    /// # Errors
    /// Parts of the file cannot be read; what was read of it counts.
    pub fn read(&mut self, path: &Path, from: impl BufRead) -> Result<(), FileError> {
        let mut lines = Lines::new(from);
        let mut malformed: Option<(u64, u64)> = None;
        let mut file: Option<File> = None;
        let mut title = Title::default();
        let mut is_empty = true;
        self.line = 0;
        self.begin(path);
        loop {
            let line = match lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(LineError::Unreadable(error)) => {
                    self.end(file, title);
                    return Err(error.into());
                }
                Err(LineError::TooLong) => {
                    malformed.get_or_insert((lines.number(), 0)).1 += 1;
                    continue;
                }
            };
            self.line += 1;
            if file.is_none() {
                file = client_of(line).map(|client| File::new(client, path, self));
            }
            let is_read = match &mut file {
                Some(file) => {
                    title.line(file.client(), line);
                    file.line(line, self)
                }
                // One document over several lines.
                None if is_empty && line.trim_ascii() == b"{" => {
                    return document::read(path, b"{\n", lines, self);
                }
                None => serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok(),
            };
            is_empty = false;
            if !is_read {
                malformed.get_or_insert((lines.number(), 0)).1 += 1;
            }
        }
        let is_known = file.is_some();
        self.end(file, title);
        match malformed {
            _ if !is_known && !is_empty => Err(FileError::Unknown),
            Some((first, count)) => Err(FileError::Malformed { first, count }),
            None => Ok(()),
        }
    }

    /// Reads a database of opencode at `path`. Either it does not change while it is read and has no write-ahead log
    /// (`is_immutable`), or it is a copy for the caller alone. In the first case, nothing is written anywhere.
    ///
    /// # Errors
    /// Parts of the database cannot be read, or it is another one; what was read of it counts.
    pub fn read_database(&mut self, path: &Path, is_immutable: bool) -> Result<(), FileError> {
        self.begin(path);
        opencode::read(path, is_immutable, self)
    }

    /// Adds an answer that another source knows, such as a session of Cachalot.
    pub fn add(&mut self, answer: PaidAnswer) {
        self.answers.push(answer);
    }

    /// Adds the title of a session that another source knows.
    pub fn add_title(&mut self, client: Client, session: &str, text: &str) {
        let mut title = Title::default();
        title.add(Origin::Given, text);
        let session = self.name(session);
        self.titles.add(client, session, title);
    }

    /// Returns what was read.
    #[must_use]
    pub fn finish(mut self) -> Spending {
        // Answers that are known only now are of any file.
        self.file = None;
        std::mem::take(&mut self.qwen).finish(&mut self);
        let costs = std::mem::take(&mut self.costs);
        let side_requests = costs.side_requests(&self);
        let empty_copies = self.empty_copies.iter();
        let mut copies: HashSet<usize> = empty_copies
            .filter_map(|key| self.places.get(&hash(key)).copied())
            .collect();
        copies.retain(|place| self.answers[*place].usage == Usage::default());
        let mut answers = self.answers;
        let mut place = 0;
        // The session that paid for them left no file.
        answers.retain(|_| {
            place += 1;
            !copies.contains(&(place - 1))
        });
        answers.extend(self.codex.finish());
        for answer in &mut answers {
            if answer.client == Client::Cline
                && let Some(directory) = self.cline_directories.get(&answer.session)
            {
                answer.project = Arc::clone(directory);
            }
        }
        gemini_projects::resolve(&mut answers);
        let mut untraced_counts = BTreeMap::new();
        for ((client, _), count) in self.untraced_counts {
            let sum: &mut u64 = untraced_counts.entry(client).or_default();
            *sum = sum.saturating_add(count);
        }
        Spending {
            answers,
            side_requests,
            untraced: self.untraced,
            untraced_counts,
            unknown: self.unknown,
            titles: self.titles.finish(),
        }
    }

    fn begin(&mut self, path: &Path) {
        self.file = self.is_detailed.then(|| path.into());
    }

    fn end(&mut self, file: Option<File>, title: Title) {
        if let Some(file) = &file {
            let session = file.session(self);
            self.titles.add(file.client(), session, title);
        }
        match file {
            Some(File::ClaudeCode(file)) => self.costs.add(file.costs),
            Some(File::Codex(file)) => {
                let count = file.voice_conversations;
                self.count_untraced(Client::Codex, VOICE, &file.session, count);
                self.codex.add(*file);
            }
            Some(File::CopilotCli(file)) => file.end(self),
            _ => {}
        }
    }

    /// Sets the number of requests of a session whose tokens are in no file; of several files, the larger one counts.
    fn count_untraced(&mut self, client: Client, what: &'static str, session: &str, count: u64) {
        if count > 0 {
            self.untraced.insert(client, what);
            let key = (client, self.name(session));
            let known = self.untraced_counts.entry(key).or_default();
            *known = count.max(*known);
        }
    }

    /// Returns the answer with a key, which `new` creates if it was not seen before, and false then.
    fn entry(
        &mut self,
        key: impl Hash,
        new: impl FnOnce() -> PaidAnswer,
    ) -> (&mut PaidAnswer, bool) {
        let next = self.answers.len();
        let place = *self.places.entry(hash(key)).or_insert(next);
        let is_known = place < next;
        if !is_known {
            let mut answer = new();
            answer.details = self.details();
            self.answers.push(answer);
        }
        (&mut self.answers[place], is_known)
    }

    /// Returns new details of an answer in the file that is being read, if they were asked for.
    fn details(&self) -> Option<Box<AnswerDetails>> {
        let file = Arc::clone(self.file.as_ref()?);
        Some(Box::new(AnswerDetails::new(file)))
    }

    /// Returns a shared copy of a name.
    fn name(&mut self, name: &str) -> Arc<str> {
        match self.names.get(name) {
            Some(name) => Arc::clone(name),
            None => {
                let name: Arc<str> = name.into();
                self.names.insert(Arc::clone(&name));
                name
            }
        }
    }

    /// Returns what distinguishes an answer without an ID from others: its line in the files of its session.
    fn place<'s>(&self, session: &'s str, has_id: bool) -> Option<(&'s str, u64)> {
        (!has_id).then_some((session, self.line))
    }

    /// Counts a line of an unknown kind.
    fn unknown(&mut self, client: Client, kind: &str) {
        let name = format!("{client}: {kind:.60}");
        let is_listed = self.unknown.len() < MAX_KINDS || self.unknown.contains_key(&name);
        let name = if is_listed {
            name
        } else {
            "other kinds".to_owned()
        };
        *self.unknown.entry(name).or_default() += 1;
    }
}
