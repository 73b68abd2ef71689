//! Hooks as files name them.
//!
//! ```yaml
//! hooks:
//!   pre_tool_use:
//!     - matcher: shell|edit_.*
//!       hooks:
//!         - {type: command, command: ./guard.sh, timeout: 10}
//!   stop:
//!     - {type: builtin, command: http_post, args: [https://example.com/done]}
//! ```
//!
//! Problems have the codes of [`cachalot_core::tree`], and these:
//!
//! | code | what |
//! |---|---|
//! | `unknown-event` | there is no event of that name |
//! | `unsupported-event` | another runtime has the event, and it never happens here: wrong if its hooks guard something, otherwise a warning |
//! | `unknown-dialect` | there is no dialect of that name |
//! | `unknown-handler`, `unsupported-handler` | there is no such `type`, or only elsewhere |
//! | `unknown-builtin` | there is no builtin of that name |
//! | `wrong-event` | a builtin on an event that it makes no sense for |
//! | `bad-arguments` | arguments that a builtin does not take, or that nobody reads |
//! | `bad-matcher` | a matcher that is no regular expression |
//! | `nothing-to-block` | `on_error: block` where nothing can be blocked |
//! | `unsupported-option` | an option of another runtime that is not honoured here |
//! | `bad-condition` | an `if` that is no permission rule |
//! | `without-tools` | a hook of type `agent`, which is a question to a model here |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Place;

pub use crate::dialect::Condition;
use crate::{Dialect, Event, Matcher};

mod action;
mod claude;
mod options;
mod read;

pub(crate) use action::quoted;
pub(crate) use claude::Plugin;
pub(crate) use read::Reading;
pub use read::read;

/// How long a handler may take, unless its definition says otherwise.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(60);

/// A handler for an event, as a file, a flag or a builtin names it.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The event.
    pub event: Event,
    /// What the event is called where the hook is named: `PreToolUse`.
    pub spoken: Arc<str>,
    /// The tools that it is for.
    pub matcher: Matcher,
    /// Of events of tools: whether only calls that failed count, or only those that did not.
    pub only: Option<Only>,
    /// What is run.
    pub definition: Definition,
    /// In whose words.
    pub dialect: Dialect,
    /// The file, flag or builtin that names it.
    pub source: Arc<str>,
    /// Where in that file.
    pub place: Option<Place>,
}

/// Which calls of tools count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Only {
    /// Those that failed.
    Failures,
    /// Those that did not.
    Successes,
}

/// What is run. Two that are equal run once an event.
#[derive(Debug, Clone, PartialEq)]
pub struct Definition {
    /// For messages.
    pub name: Option<String>,
    /// What is run.
    pub action: Action,
    /// How long it may take.
    pub timeout: Duration,
    /// Further environment variables; `${env.NAME}` in a value stands for a variable at the time.
    pub env: BTreeMap<String, String>,
    /// Where a command runs, if not in the directory that tools work in.
    pub working_dir: Option<String>,
    /// What a failure brings about, if not what the event's contract says.
    pub on_error: Option<OnError>,
    /// Whether an output with anything that the event does not honour is a failure.
    pub strict_output: bool,
    /// Whether it waits for the handlers before it, also where the event's run beside each other.
    pub sequential: bool,
    /// Whether it runs the first time in a session, and then no more.
    pub once: bool,
    /// Whether, and how, it runs without anybody waiting for it.
    pub background: Option<Background>,
    /// The calls of tools that it is for, beside its matcher.
    pub condition: Option<Condition>,
}

/// How a hook runs for which nobody waits. What it says decides nothing any more: its context and its
/// messages come with the next turn of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Background {
    /// `async`: what it blocks with is left out.
    Quiet,
    /// `asyncRewake`: what it blocks with is context of the next turn.
    Heard,
}

impl Definition {
    /// A definition that says nothing but what is run.
    #[must_use]
    pub fn of(action: Action) -> Self {
        Self {
            name: None,
            action,
            timeout: DEFAULT_TIMEOUT,
            env: BTreeMap::new(),
            working_dir: None,
            on_error: None,
            strict_output: false,
            sequential: false,
            once: false,
            background: None,
            condition: None,
        }
    }

    /// Its name, or what is run, for messages; an address without what may be secret in it.
    #[must_use]
    pub fn title(&self) -> Cow<'_, str> {
        if let Some(name) = &self.name {
            return name.into();
        }
        match &self.action {
            Action::Command { line } => line.into(),
            Action::Builtin { name, .. } => name.into(),
            Action::Http { url, .. } => cachalot_storage::masked(url),
            Action::Model { model, .. } => model.into(),
            Action::Prompt { prompt, .. } => prompt.into(),
        }
    }
}

/// What is run.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// A shell line; JSON on stdin and stdout.
    Command {
        /// The line.
        line: String,
    },
    /// A builtin.
    Builtin {
        /// Its name.
        name: String,
        /// Its arguments.
        arguments: Vec<String>,
    },
    /// A POST request with the same JSON.
    Http {
        /// Where to.
        url: String,
        /// Further headers; `${env.NAME}` in a value stands for a variable at the time.
        headers: BTreeMap<String, String>,
    },
    /// A question to a model.
    Model {
        /// The model, as agents name theirs.
        model: String,
        /// A template of the question.
        prompt: String,
        /// What the model is told before it.
        system_prompt: Option<String>,
        /// The form of the answer; without one it is context.
        schema: Option<Judgement>,
    },
    /// Claude Code's question to a model, which objects or does not.
    Prompt {
        /// The model; without one that of the settings, or else the agent's own.
        model: Option<String>,
        /// The question: `$ARGUMENTS` stands for what handlers are told, which otherwise comes behind
        /// it.
        prompt: String,
    },
}

/// The form of a model's judgement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Judgement {
    /// `pre_tool_use_decision`: allow, ask or deny, with a reason; found anywhere in the answer.
    PreToolUse,
    /// `guard_decision`: allow or deny, with a reason; nothing else in the answer.
    Guard,
}

/// What a failure brings about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnError {
    /// A warning.
    Warn,
    /// Nothing.
    Ignore,
    /// A denial; only where the event may be blocked.
    Block,
}
