//! The `hooks:` section of configuration files.
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
//! | code | meaning |
//! |---|---|
//! | `unknown-event` | no event has this name |
//! | `unsupported-event` | another runtime has the event, but it never fires here: an error if its hooks are guards, otherwise a warning |
//! | `unknown-dialect` | no dialect has this name |
//! | `unknown-handler`, `unsupported-handler` | no handler has this `type`, or only handlers of other runtimes have it |
//! | `unknown-builtin` | no builtin has this name |
//! | `wrong-event` | the builtin does not support the event |
//! | `bad-arguments` | arguments that a builtin does not take, or that are never read |
//! | `bad-matcher` | the matcher is no regular expression |
//! | `void-matcher` | the matcher is written like a permission rule and matches no tool (a warning) |
//! | `nothing-to-block` | `on_error: block` at an event that cannot be blocked |
//! | `unsupported-option` | an option of another runtime that is ignored here |
//! | `bad-condition` | an `if` that is no permission rule |
//! | `without-tools` | a hook of type `agent`, which is a question to a model without tools here |

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::SourceSpan;
use cachalot_core::config::Settings;
use serde::Serialize;
use serde_json::{Map, Value};

use crate::dialect::HandlerCall;
pub use crate::dialect::{Condition, DEFAULT_TIMEOUT};
pub use crate::matcher::ResultFilter;
use crate::{Dialect, Event, Matcher};

mod action;
mod claude;
mod options;
mod parser_context;
mod plugin;
mod read;
pub(crate) mod tables;

pub(crate) use plugin::Plugin;
pub(crate) use read::HooksParser;
pub use read::{ParsedHooks, read};
pub use tables::{GROUP_TABLES, HOOK_TABLES, HOOK_TYPES};

/// A handler for an event, configured by a file, a flag or a builtin.
#[derive(Debug, Clone)]
pub struct HookEntry {
    /// The event.
    pub event: Event,
    /// The name of the event in the dialect: `PreToolUse`.
    pub event_name: Arc<str>,
    /// The tools that the hook applies to.
    pub matcher: Matcher,
    /// Restricts the hook of a tool event to failed or to successful calls.
    pub only: Option<ResultFilter>,
    /// The handler to run.
    pub definition: Definition,
    /// The dialect of its input and output.
    pub dialect: Dialect,
    /// The file, flag or builtin that configures it.
    pub source: Arc<str>,
    /// The location in that file.
    pub place: Option<SourceSpan>,
}

impl<'a> From<&'a HookEntry> for HandlerCall<'a> {
    fn from(entry: &'a HookEntry) -> Self {
        Self {
            event: entry.event,
            event_name: &entry.event_name,
            strict_output: entry.definition.strict_output,
            in_background: entry.definition.background.is_some(),
        }
    }
}

/// A handler and its options. Equal definitions run once per event.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Definition {
    /// The name for messages.
    pub name: Option<String>,
    /// The action to run.
    pub action: Action,
    /// The timeout.
    pub timeout: Duration,
    /// Additional environment variables; `${env.NAME}` in a value is expanded at run time.
    pub env: BTreeMap<String, String>,
    /// The working directory of a command. Default: the directory of the tools.
    pub working_dir: Option<String>,
    /// The effect of a failure. Default: the event's contract.
    pub on_error: Option<OnError>,
    /// If true, an output that the event ignores is a failure.
    pub strict_output: bool,
    /// If true, waits for the previous handlers, even if the handlers of the event run concurrently.
    pub sequential: bool,
    /// If true, runs at most once per session.
    pub once: bool,
    /// Set if the runtime does not wait for the handler.
    pub background: Option<Background>,
    /// A condition on the tool call, in addition to the matcher.
    pub condition: Option<Condition>,
}

/// The mode of a hook that runs in the background. Its output decides nothing: its context and messages
/// are added to the next turn of the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Background {
    /// `async`: a block is ignored.
    Quiet,
    /// `asyncRewake`: the reason of a block becomes context of the next turn.
    Heard,
}

impl Definition {
    /// A definition with default options.
    #[must_use]
    pub fn new(action: Action) -> Self {
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

    /// The name, or else a description of the action, for messages. Secrets in a URL are masked.
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
            Action::McpTool { server, tool, .. } => format!("{server}.{tool}").into(),
            Action::Prompt { prompt, .. } => prompt.into(),
        }
    }
}

/// The action of a handler.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub enum Action {
    /// A shell command with JSON on stdin and stdout.
    Command {
        /// The command line.
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
        /// The URL.
        url: String,
        /// Additional headers; `${env.NAME}` in a value is expanded at run time.
        headers: BTreeMap<String, String>,
    },
    /// A question to a model.
    Model {
        /// The model, in the notation of agent definitions.
        model: String,
        /// The template of the question.
        prompt: String,
        /// The system prompt.
        system_prompt: Option<String>,
        /// The form of the answer. Without it, the answer is added as context.
        schema: Option<Judgement>,
    },
    /// A call of a tool of an MCP server.
    McpTool {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// The arguments; `${path}` in a text is replaced by that part of the hook input. Default: the whole input.
        input: Option<Map<String, Value>>,
    },
    /// Claude Code's `prompt` hook: a question to a model, which may object.
    Prompt {
        /// The model. Default: the model of the settings, or else of the agent.
        model: Option<String>,
        /// The question. `$ARGUMENTS` is replaced by the hook input; without it, the input is appended.
        prompt: String,
    },
}

/// The form of a model's judgment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Settings)]
pub enum Judgement {
    /// `pre_tool_use_decision`: allow, ask or deny, with a reason; may be anywhere in the answer.
    #[setting(key = "pre_tool_use_decision")]
    PreToolUse,
    /// `guard_decision`: allow or deny, with a reason; must be the whole answer.
    #[setting(key = "guard_decision")]
    Guard,
}

/// The effect of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Settings)]
pub enum OnError {
    /// A warning.
    Warn,
    /// Nothing.
    Ignore,
    /// A denial; only for events that can be blocked.
    Block,
}
