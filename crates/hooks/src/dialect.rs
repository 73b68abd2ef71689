//! Dialects: the names of events, fields and tools, exit codes, units and environment variables in the
//! hooks of other runtimes.
//!
//! Each dialect has a table of its names. Input and output are handled uniformly as far as possible:
//! keys are read in `snake_case` and in `camelCase`, and keys of `hook_specific_output` are also
//! accepted at the top level.

use strum::{Display, EnumString, IntoStaticStr};

use crate::input::{Input, ToolUse};
use crate::output::{Fault, Output};
use crate::{Event, Matcher};

mod claude;
mod codex;
mod condition;
mod docker_agent;
mod environment;
mod exit_status;
mod extra_text;
mod first_line;
mod gemini;
mod handler_call;
mod instructions;
mod messages;
mod output;
mod output_object;
mod parse;
mod repeated;
mod rule_matcher;
mod strict;
mod synthetic;
mod tools;
mod transcript;
mod vocabulary;

pub use condition::Condition;
pub(crate) use first_line::FirstLine;
pub use handler_call::HandlerCall;
pub use parse::parse_input;
pub use vocabulary::DEFAULT_TIMEOUT;
pub(crate) use vocabulary::{NamedEvent, UnsupportedEvent, Vocabulary};

/// The dialect of a handler's input and output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "kebab-case", parse_err_ty = UnknownDialect, parse_err_fn = unknown)]
pub enum Dialect {
    /// docker-agent, which is also our own dialect.
    #[default]
    DockerAgent,
    /// Claude Code.
    Claude,
    /// Codex.
    Codex,
    /// Gemini CLI.
    Gemini,
}

impl Dialect {
    /// All dialects.
    pub const ALL: [Self; 4] = [Self::DockerAgent, Self::Claude, Self::Codex, Self::Gemini];

    /// The name in files: `docker-agent`, `claude`, `codex`, `gemini`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }

    pub(crate) fn vocabulary(self) -> &'static Vocabulary {
        match self {
            Self::DockerAgent => &docker_agent::VOCABULARY,
            Self::Claude => &claude::VOCABULARY,
            Self::Codex => &codex::VOCABULARY,
            Self::Gemini => &gemini::VOCABULARY,
        }
    }

    /// Resolves the name of an event in this dialect; our own names are always accepted.
    pub(crate) fn event(self, name: &str) -> Option<NamedEvent> {
        let known = self.vocabulary().events.iter();
        let known = known.copied().find(|event_name| event_name.name == name);
        known.or_else(|| name.parse().ok().map(|event| self.named_event(event)))
    }

    /// Returns the name of an event in this dialect; our own name if it has none.
    pub(crate) fn named_event(self, event: Event) -> NamedEvent {
        let known = self.vocabulary().events.iter();
        let name = known
            .filter(|event_name| event_name.event == event)
            .map(|event_name| event_name.name)
            .next();
        NamedEvent {
            name: name.unwrap_or(event.name()),
            event,
            only: None,
            guards: false,
        }
    }

    /// Returns true for the name of an event in this dialect, and for our own names of events.
    #[must_use]
    pub fn has_event(self, name: &str) -> bool {
        self.event(name).is_some()
    }

    /// The name of an event in this dialect.
    #[must_use]
    pub fn event_name(self, event: Event) -> &'static str {
        self.named_event(event).name
    }
}

/// The error for an unknown dialect name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no dialect of that name; expected one of: {}", Dialect::ALL.map(Dialect::name).join(", "))]
pub struct UnknownDialect;

fn unknown(_: &str) -> UnknownDialect {
    UnknownDialect
}

/// The result of a process or a request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HandlerResponse {
    /// The exit code; 0 for a successful request.
    pub code: i32,
    /// The standard output or the response body, as far as it was read.
    pub stdout: Vec<u8>,
    /// The number of bytes after which the standard output was cut, if it was.
    pub stdout_cut_at: Option<usize>,
    /// The standard error.
    pub stderr: Vec<u8>,
}

impl Dialect {
    /// Serializes the input of a handler: one JSON document without a trailing newline.
    ///
    /// # Errors
    /// The input cannot be serialized.
    pub fn write<'a>(
        self,
        call: impl Into<HandlerCall<'a>>,
        input: &Input,
    ) -> Result<Vec<u8>, Fault> {
        let call = call.into();
        let told = match self {
            Self::DockerAgent => docker_agent::write_input(call, input),
            Self::Claude => claude::write_input(call, input),
            Self::Codex => codex::write_input(call, input),
            Self::Gemini => gemini::write_input(call, input),
        };
        serde_json::to_vec(&told)
            .map_err(|error| Fault::new(format!("the hook's input cannot be serialized: {error}")))
    }

    /// The environment variables that its handlers expect.
    #[must_use]
    pub fn environment(self, input: &Input) -> Vec<(String, String)> {
        environment::variables(self, input)
    }

    /// True if its handlers may set environment variables for all later commands at this event.
    pub(crate) fn accepts_exports(self, event: Event) -> bool {
        self == Self::Claude && event == Event::SessionStart
    }

    /// True if the first line of a command's output may move the command to the background.
    pub(crate) fn may_move_to_background(self) -> bool {
        self == Self::Claude
    }

    /// Parses the output of a handler.
    ///
    /// # Errors
    /// The handler failed, or its output is invalid in this dialect.
    pub fn read<'a>(
        self,
        call: impl Into<HandlerCall<'a>>,
        input: &Input,
        ended: &HandlerResponse,
    ) -> Result<Output, Fault> {
        exit_status::read(self, call.into(), input, ended)
    }

    /// True if a matcher matches a tool, by our name of the tool or by one of the dialect's.
    #[must_use]
    pub fn matches(self, matcher: &Matcher, tool: &ToolUse) -> bool {
        matcher.pattern().is_empty()
            || matcher.matches(&tool.name)
            || tools::names(self, tool).any(|name| matcher.matches(&name))
    }

    /// Compiles a matcher. For docker-agent and us, it is a regular expression for the whole name. For
    /// other dialects, it is a list of names separated by `|` or `,`, or else a regular expression that
    /// may match anywhere in the name.
    pub(crate) fn matcher(self, written: &str) -> Result<Matcher, regex::Error> {
        let is_list = written
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-| ,".contains(c));
        match self {
            Self::DockerAgent => Matcher::new(written),
            _ if is_list => {
                let names = written.split(['|', ',']).map(str::trim);
                let names: Vec<&str> = names.filter(|name| !name.is_empty()).collect();
                Matcher::new(&names.join("|"))
            }
            _ if written.trim() == "*" => Ok(Matcher::ALL),
            _ => {
                regex::Regex::new(written)?;
                Matcher::new(&format!("(?s:.*)(?:{written})(?s:.*)"))
            }
        }
    }

    /// Returns the part of a matcher that is written like a permission rule (`Bash(rm *)`) and therefore never
    /// matches, and the name of its tool.
    pub(crate) fn rule_in_matcher(self, written: &str) -> Option<(&str, &str)> {
        rule_matcher::find_rule(self, written)
    }

    /// Adds a block to an output, in the form of the dialect.
    pub(crate) fn refuse(self, event: Event, reason: Option<String>, output: &mut Output) {
        output::refuse(self, event, reason, output);
    }

    /// True if a handler that blocks `stop` makes the agent continue.
    #[must_use]
    pub fn continues_on_stop_block(self) -> bool {
        self != Self::DockerAgent
    }

    /// True if a failed handler only causes a warning, overriding the contract of the event.
    /// `on_error: block` in the definition still denies.
    #[must_use]
    pub fn fails_open(self) -> bool {
        self != Self::DockerAgent
    }
}
