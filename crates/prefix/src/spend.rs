//! Spend of coding agents, from the transcripts that they leave on disk.
//!
//! [`SpendReader`] reads transcripts of Claude Code, Codex and Gemini CLI, whose formats are internal to these programs
//! and change: lines of unknown kinds are counted and named. Each answer counts once, however often it was streamed,
//! copied into a resumed session, or replayed by a fork. Memory grows with the number of distinct answers.
//!
//! The formats are those that public parsers know (ccusage, issues 901 to 1617; `codex-rs/rollout`; Gemini CLI's
//! `chatRecordingService.ts`).

mod answer;
mod claude_code;
mod codex;
mod files;
mod gemini_cli;
mod totals;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::Hash;
use std::io::BufRead;
use std::path::Path;
use std::sync::Arc;

use crate::hash::hash;
use serde::Deserialize;

pub use answer::{Client, Loss, LossCause, PaidAnswer};
pub use files::{Files, find_files};
pub use totals::{Avoidable, SpendTotals};

use crate::lines::{LineError, Lines};

/// Maximum number of names of unknown kinds of lines.
const MAX_KINDS: usize = 50;

/// Reads transcripts, and keeps what each distinct answer cost.
#[derive(Default)]
pub struct SpendReader {
    answers: Vec<PaidAnswer>,
    /// The places of answers by the hash of their keys.
    places: HashMap<u64, usize>,
    names: HashSet<Arc<str>>,
    codex: codex::Sessions,
    unknown: BTreeMap<String, u64>,
}

/// The content of all files.
#[derive(Debug, Default)]
pub struct Spending {
    /// The distinct answers, in no particular order.
    pub answers: Vec<PaidAnswer>,
    /// Kinds of lines that are not known, with their numbers.
    pub unknown: BTreeMap<String, u64>,
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
    #[error("it is no transcript of Claude Code, Codex or Gemini CLI")]
    Unknown,
}

/// The members that tell one format from another.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Beginning {
    #[serde(rename = "type")]
    kind: Option<serde_json::Value>,
    payload: Option<serde::de::IgnoredAny>,
    session_id: Option<serde::de::IgnoredAny>,
    uuid: Option<serde::de::IgnoredAny>,
    leaf_uuid: Option<serde::de::IgnoredAny>,
    message_id: Option<serde::de::IgnoredAny>,
    project_hash: Option<serde::de::IgnoredAny>,
    start_time: Option<serde::de::IgnoredAny>,
}

impl Beginning {
    fn client(&self) -> Option<Client> {
        if self.project_hash.is_some() || self.start_time.is_some() {
            return self.session_id.as_ref().map(|_| Client::GeminiCli);
        }
        self.kind.as_ref()?;
        if self.payload.is_some() {
            return Some(Client::Codex);
        }
        let names = [
            &self.session_id,
            &self.uuid,
            &self.leaf_uuid,
            &self.message_id,
        ];
        names
            .iter()
            .any(|name| name.is_some())
            .then_some(Client::ClaudeCode)
    }
}

impl SpendReader {
    /// Reads a transcript. `path` gives names where the transcript has none.
    ///
    /// # Errors
    /// Parts of the file cannot be read; what was read of it counts.
    pub fn read(&mut self, path: &Path, from: impl BufRead) -> Result<(), FileError> {
        let mut lines = Lines::new(from);
        let mut malformed: Option<(u64, u64)> = None;
        let mut file: Option<File> = None;
        let mut is_empty = true;
        loop {
            let line = match lines.next_line() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(LineError::Unreadable(error)) => {
                    self.end(file);
                    return Err(error.into());
                }
                Err(LineError::TooLong) => {
                    malformed.get_or_insert((lines.number(), 0)).1 += 1;
                    continue;
                }
            };
            if file.is_none() {
                let beginning = serde_json::from_slice::<Beginning>(line).ok();
                file = beginning
                    .and_then(|beginning| beginning.client())
                    .map(|client| File::new(client, path));
            }
            let is_read = match &mut file {
                Some(File::ClaudeCode(file)) => file.line(line, self),
                Some(File::Codex(file)) => file.line(line, self),
                Some(File::GeminiCli(file)) => file.line(line, self),
                // One document over several lines.
                None if is_empty && line.trim_ascii() == b"{" => {
                    return gemini_cli::read_document(path, b"{\n", lines, self);
                }
                None => serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok(),
            };
            is_empty = false;
            if !is_read {
                malformed.get_or_insert((lines.number(), 0)).1 += 1;
            }
        }
        let is_known = file.is_some();
        self.end(file);
        match malformed {
            _ if !is_known && !is_empty => Err(FileError::Unknown),
            Some((first, count)) => Err(FileError::Malformed { first, count }),
            None => Ok(()),
        }
    }

    /// Adds an answer that another source knows, such as a session of Cachalot.
    pub fn add(&mut self, answer: PaidAnswer) {
        self.answers.push(answer);
    }

    /// Returns what was read.
    #[must_use]
    pub fn finish(mut self) -> Spending {
        let sessions = std::mem::take(&mut self.codex);
        self.answers.extend(sessions.finish());
        Spending {
            answers: self.answers,
            unknown: self.unknown,
        }
    }

    fn end(&mut self, file: Option<File>) {
        if let Some(File::Codex(file)) = file {
            self.codex.add(*file);
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
            self.answers.push(new());
        }
        (&mut self.answers[place], is_known)
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

    /// Counts a line of an unknown kind.
    fn unknown(&mut self, client: Client, kind: &str) {
        let name = format!("{client}: {kind:.60}");
        let is_listed = self.unknown.len() < MAX_KINDS || self.unknown.contains_key(&name);
        let name = match is_listed {
            true => name,
            false => "other kinds".to_owned(),
        };
        *self.unknown.entry(name).or_default() += 1;
    }
}

/// The state of a file that is being read.
enum File {
    ClaudeCode(Box<claude_code::Transcript>),
    Codex(Box<codex::Rollout>),
    GeminiCli(Box<gemini_cli::Chat>),
}

impl File {
    fn new(client: Client, path: &Path) -> Self {
        match client {
            Client::Codex => Self::Codex(Box::default()),
            Client::GeminiCli => Self::GeminiCli(Box::new(gemini_cli::Chat::new(path))),
            Client::ClaudeCode | Client::Cachalot => {
                Self::ClaudeCode(Box::new(claude_code::Transcript::new(path)))
            }
        }
    }
}
