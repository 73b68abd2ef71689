//! The words in which handlers of other runtimes speak: names of events, fields and tools, exit codes,
//! units, environment variables.
//!
//! What each dialect calls things stands in a table of its own. How its handlers are told, and what
//! they may say, is the same for all as far as it can be: keys are read in `snake_case` and in
//! `camelCase`, what belongs into `hook_specific_output` also beside it.

use std::fmt;
use std::str::FromStr;

use crate::definition::Entry;
use crate::input::{Input, ToolUse};
use crate::output::{Fault, Output};
use crate::{Event, Matcher};

mod answer;
mod claude;
mod codex;
mod condition;
mod docker_agent;
mod environment;
mod first_line;
mod gemini;
mod heard;
mod instructions;
mod messages;
mod parse;
mod repeated;
mod said;
mod stray;
mod strict;
mod synthetic;
mod tools;
mod transcript;
mod vocabulary;

pub use condition::Condition;
pub(crate) use first_line::FirstLine;
pub use parse::parse_input;
pub(crate) use vocabulary::{Spoken, Unheard, Vocabulary};

/// In whose words a handler is told and speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Dialect {
    /// docker-agent's, which are our own, too.
    #[default]
    DockerAgent,
    /// Claude Code's.
    Claude,
    /// Codex'.
    Codex,
    /// Gemini CLI's.
    Gemini,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::DockerAgent, Self::Claude, Self::Codex, Self::Gemini];

    /// Its name in files: `docker-agent`, `claude`, `codex`, `gemini`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DockerAgent => "docker-agent",
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
        }
    }

    pub(crate) fn vocabulary(self) -> &'static Vocabulary {
        match self {
            Self::DockerAgent => &docker_agent::VOCABULARY,
            Self::Claude => &claude::VOCABULARY,
            Self::Codex => &codex::VOCABULARY,
            Self::Gemini => &gemini::VOCABULARY,
        }
    }

    /// The event that it calls `name`; our own names are always understood.
    pub(crate) fn event(self, name: &str) -> Option<Spoken> {
        let known = self.vocabulary().events.iter();
        let known = known.copied().find(|spoken| spoken.name == name);
        known.or_else(|| name.parse().ok().map(|event| self.speak(event)))
    }

    /// What it calls an event that is named in our own words: our name, if it has none.
    pub(crate) fn speak(self, event: Event) -> Spoken {
        let known = self.vocabulary().events.iter();
        let name = known
            .filter(|spoken| spoken.event == event)
            .map(|spoken| spoken.name)
            .next();
        Spoken {
            name: name.unwrap_or(event.name()),
            event,
            only: None,
            guards: false,
        }
    }

    /// The name under which its handlers know an event.
    #[must_use]
    pub fn event_name(self, event: Event) -> &'static str {
        self.speak(event).name
    }
}

impl fmt::Display for Dialect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// There is no dialect of that name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no dialect of that name")]
pub struct UnknownDialect;

/// By [`Dialect::name`].
impl FromStr for Dialect {
    type Err = UnknownDialect;

    fn from_str(name: &str) -> Result<Self, UnknownDialect> {
        Self::ALL
            .into_iter()
            .find(|dialect| dialect.name() == name)
            .ok_or(UnknownDialect)
    }
}

/// How a process, or a request, ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// The exit code; 0 for a request that succeeded.
    pub code: i32,
    /// What it said.
    pub stdout: Vec<u8>,
    /// What it complained about.
    pub stderr: Vec<u8>,
}

impl Dialect {
    /// What a handler is told: one JSON document, without a line end behind it.
    ///
    /// # Errors
    /// The input cannot be written.
    pub fn write(self, entry: &Entry, input: &Input) -> Result<Vec<u8>, Fault> {
        let told = match self {
            Self::DockerAgent => docker_agent::told(entry, input),
            Self::Claude => claude::told(entry, input),
            Self::Codex => codex::told(entry, input),
            Self::Gemini => gemini::told(entry, input),
        };
        serde_json::to_vec(&told).map_err(|error| {
            Fault::new(format!("what the hook is told cannot be written: {error}"))
        })
    }

    /// Environment variables that its handlers expect.
    #[must_use]
    pub fn environment(self, input: &Input) -> Vec<(String, String)> {
        environment::variables(self, input)
    }

    /// Whether its handlers may set environment variables at an event, for all that comes later.
    pub(crate) fn takes_exports(self, event: Event) -> bool {
        self == Self::Claude && event == Event::SessionStart
    }

    /// Whether its commands may say with their first line that they run on in the background.
    pub(crate) fn runs_on(self) -> bool {
        self == Self::Claude
    }

    /// What a handler has said.
    ///
    /// # Errors
    /// It failed, or said nothing that the dialect knows.
    pub fn read(self, entry: &Entry, input: &Input, ended: &Ended) -> Result<Output, Fault> {
        heard::read(self, entry, input, ended)
    }

    /// Whether a matcher is for a tool: by our own name for it, or by one of the dialect's.
    #[must_use]
    pub fn matches(self, matcher: &Matcher, tool: &ToolUse) -> bool {
        matcher.pattern().is_empty()
            || matcher.matches(&tool.name)
            || tools::names(self, tool).any(|name| matcher.matches(&name))
    }

    /// A matcher as the dialect means it. Ours, docker-agent's, is a regular expression for the whole
    /// name. Theirs is a list of names with `|` between them, or else a regular expression that is
    /// found anywhere in the name.
    pub(crate) fn matcher(self, written: &str) -> Result<Matcher, regex::Error> {
        let is_list = written
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-| ,".contains(c));
        match self {
            Self::DockerAgent => Matcher::of(written),
            _ if is_list => {
                let names = written.split(['|', ',']).map(str::trim);
                let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
                Matcher::of(&names.join("|"))
            }
            _ if written.trim() == "*" => Ok(Matcher::ALL),
            _ => {
                regex::Regex::new(written)?;
                Matcher::of(&format!("(?s:.*)(?:{written})(?s:.*)"))
            }
        }
    }

    /// Makes an output of a block, as the dialect means it.
    pub(crate) fn refuse(self, event: Event, reason: Option<String>, output: &mut Output) {
        answer::refuse(self, event, reason, output);
    }

    /// Whether a handler that blocks `stop` wants the agent to go on.
    #[must_use]
    pub fn stop_goes_on(self) -> bool {
        self != Self::DockerAgent
    }

    /// Whether a handler that fails is only warned of, whatever the contract of the event says, unless
    /// its definition has `on_error: block`.
    #[must_use]
    pub fn fails_open(self) -> bool {
        self != Self::DockerAgent
    }
}
