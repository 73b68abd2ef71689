//! The declared keys of groups and hooks. A hook has the keys of [`TYPED`], of [`SharedOptions`] and of the table of
//! its type, and hooks of Claude Code those of [`ClaudeOptions`].

use std::collections::BTreeMap;

use cachalot_core::Problem;
use cachalot_core::config::{
    Custom, Literal, Located, Parameter, ParameterKind as Kind, Settings, Table, key, required,
    words,
};
use cachalot_core::duration::Range;
use cachalot_core::tree::{MapEntry, Node};
use serde_json::json;

use super::{Judgement, OnError};
use crate::Dialect;

const HOOK: &str = "a hook";

/// The tables of a group for tool events: its further keys, and those of all groups.
pub static GROUP_TABLES: [&Table; 2] = [&TOOL_GROUP, &GROUP];

/// The tables of the keys that hooks of all types have.
pub static HOOK_TABLES: [&Table; 2] = [&TYPED, SharedOptions::TABLE];

/// The types of our own hooks, with the tables of their keys.
#[rustfmt::skip]
pub static HOOK_TYPES: [(&str, &Table); 5] = [("command", &COMMAND), ("builtin", &BUILTIN), ("http", HttpHook::TABLE), ("model", ModelHook::TABLE), ("mcp_tool", McpToolHook::TABLE)];

#[rustfmt::skip]
const DIALECT: Parameter = key("dialect", Kind::Custom(&Custom::shape(|| json!({ "enum": Dialect::ALL.map(Dialect::name) }))), "The format of input and output: a dialect; by default that of the group, the section or the file.");

const SEQUENTIAL: &str = "sequential";

#[rustfmt::skip]
pub(crate) static GROUP: Table = Table::new("a group of hooks", "Hooks for the same tools.", &[&[
    key(SEQUENTIAL, Kind::Boolean, "Run each hook after the previous ones.").default(Literal::Boolean(false)),
    DIALECT,
    key("hooks", Kind::Any, "The hooks; a single one needs no list."),
]]).open();

/// Further keys of groups for tool events.
#[rustfmt::skip]
pub(crate) static TOOL_GROUP: Table = Table::new("a group of hooks", "", &[&[
    key("matcher", Kind::Custom(&Custom::shape(|| Kind::Text.schema(false))), "For tool events: a case-sensitive regular expression that matches the whole name of the tool; all tools if it is empty, `*` or absent."),
    key("preempt_yolo", Kind::Boolean, "Accepted for compatibility with docker-agent, without effect: hooks run independent of permissions."),
]]).open();

#[rustfmt::skip]
pub(crate) static TYPED: Table = Table::new(
    HOOK,
    "",
    &[&[
        required("type", Kind::Text, "The type: `command`, `builtin`, `http`, `model` or `mcp_tool`."),
    ]],
)
.open();

/// The keys of hooks of all types.
#[derive(Settings)]
#[settings(name = "a hook", sentence = "", open)]
pub(crate) struct SharedOptions {
    /// The name in messages; without it, the command, the builtin, the address or the model.
    pub(super) name: Option<String>,
    /// The timeout: whole seconds, or a duration such as `30s`; `60s` if it is absent or not positive. Other dialects
    /// have their own unit and default.
    #[setting(kind = TIMEOUT)]
    pub(super) timeout: Option<Node>,
    /// For a command: further environment variables; `${env.NAME}` in a value is replaced by the variable, or by
    /// nothing if it is not set.
    pub(super) env: BTreeMap<String, String>,
    /// For a command: the working directory, relative to the directory of the tools, which is the default; `~`,
    /// `$NAME`, `${NAME}` and `${env.NAME}` are expanded, and the variables must be set.
    pub(super) working_dir: Option<String>,
    /// The effect of a failure: `warn`, `ignore` (no message), or `block` (forbids; only for events that can be
    /// forbidden). The default depends on the event.
    pub(super) on_error: Option<Located<OnError>>,
    /// Treat output that the event does not support as a failure.
    #[setting(default = false)]
    pub(super) strict_output: bool,
    /// Wait for the previous hooks, even if the hooks of the event run in parallel.
    #[setting(default = false, then = DIALECT)]
    pub(super) sequential: bool,
}

/// Options of Claude Code.
#[derive(Settings)]
#[settings(name = "a hook", sentence = "", open)]
pub(crate) struct ClaudeOptions {
    /// Claude Code: runs the first time in a session, and then no more.
    pub(super) once: bool,
    /// Claude Code: the calls of tools that it is for, as a permission rule such as `Bash(git *)`.
    #[setting(key = "if")]
    pub(super) condition: Option<Located<String>>,
    /// Claude Code: runs in the background.
    #[setting(key = "async")]
    pub(super) is_async: bool,
    /// Claude Code: the same; its reason for blocking is delivered when the next turn starts.
    #[setting(key = "asyncRewake")]
    pub(super) wakes: bool,
}

/// Keys for people, which some dialects have.
#[rustfmt::skip]
pub(crate) static REMARKS: Table = Table::new(HOOK, "", &[&[
    key("description", Kind::Text, "For people."),
    key("statusMessage", Kind::Text, "For people."),
]]).open();

/// `args` is read to refuse it with a message of its own.
#[rustfmt::skip]
pub(crate) static COMMAND: Table = Table::new(HOOK, "A shell line, with JSON on stdin and stdout.", &[&[
    required("command", TEXT, "The command line of the shell."),
    key("args", Kind::Custom(&Custom::hidden()), ""),
]]).open();

const FOREIGN_LINE: &[Parameter] = &[
    required("command", TEXT, "The line; with `args`, the program."),
    key("args", Kind::Texts, "Arguments, with which no shell runs."),
];

pub(crate) static FOREIGN_COMMAND: Table = Table::new(HOOK, "", &[FOREIGN_LINE]).open();

#[rustfmt::skip]
pub(crate) static CLAUDE_COMMAND: Table = Table::new(HOOK, "A shell line, or a program with its arguments.", &[
    FOREIGN_LINE,
    &[key("shell", Kind::Word(&words(&SHELLS)), "Claude Code: the shell that the line is for.")],
]).open();

/// The shells, and the commands that run a line with them.
pub(super) const SHELLS: [(&str, &str); 2] = [
    ("bash", "bash -c"),
    ("powershell", "pwsh -NoProfile -Command"),
];

#[rustfmt::skip]
pub(crate) static BUILTIN: Table = Table::new(HOOK, "A handler that comes with the program.", &[&[
    required("command", TEXT, "The name of the builtin."),
    key("args", Kind::Texts, "Arguments of the builtin."),
]]).open();

/// A POST request with the same JSON.
#[derive(Settings)]
#[settings(name = "a hook", open)]
pub(crate) struct HttpHook {
    /// The URL.
    #[setting(kind = URL)]
    pub(super) url: String,
    /// Further headers; `${env.NAME}` in a value is replaced by the variable, which must be set.
    pub(super) headers: BTreeMap<String, String>,
}

/// A POST request with the same JSON.
#[derive(Settings)]
#[settings(name = "a hook", open)]
pub(crate) struct ForeignHttpHook {
    /// The URL.
    #[setting(kind = URL)]
    pub(super) url: String,
    /// Further headers; `$NAME` in a value stands for an environment variable.
    pub(super) headers: BTreeMap<String, String>,
    /// The environment variables that headers may name.
    #[setting(key = "allowedEnvVars")]
    pub(super) allowed_variables: Vec<String>,
}

/// A question to a model.
#[derive(Settings)]
#[settings(name = "a hook", open)]
pub(crate) struct ModelHook {
    /// The model, as agents name theirs.
    #[setting(kind = TEXT)]
    pub(super) model: String,
    /// The question, a template.
    #[setting(kind = TEXT)]
    pub(super) prompt: String,
    /// The system prompt before it.
    pub(super) system_prompt: Option<String>,
    /// The form of its judgement; without one, its answer is context.
    pub(super) schema: Option<Judgement>,
}

/// A call of a tool of an MCP server.
#[derive(Settings)]
#[settings(name = "a hook", open)]
pub(crate) struct McpToolHook {
    /// The name of the server in the configuration; an agent of the file must use it.
    #[setting(kind = TEXT)]
    pub(super) server: String,
    /// The server's name for the tool.
    #[setting(kind = TEXT)]
    pub(super) tool: String,
    /// The arguments; `${tool_input.file_path}` in a text is replaced by that part of the input. Without them, the
    /// whole input.
    #[setting(kind = Kind::Object)]
    pub(super) input: Option<Node>,
}

/// Claude Code: a question to a model, which objects or does not.
#[derive(Settings)]
#[settings(name = "a hook", open)]
pub(crate) struct PromptHook {
    /// The question; `$ARGUMENTS` is replaced by the hook's input.
    #[setting(kind = TEXT)]
    pub(super) prompt: String,
    /// The model; without one that of the settings, or else the agent's own.
    pub(super) model: Option<String>,
}

/// A text that is not blank.
const TEXT: Kind = Kind::Custom(&Custom {
    schema: Some(|| Kind::Text.schema(false)),
    check: check_text,
});

fn check_text(entry: &MapEntry, problems: &mut Vec<Problem>) {
    Kind::Text.check(entry, problems);
    let key = &entry.key;
    if is_blank(entry) {
        let problem =
            Problem::new("missing-key", format!("`{key}` is blank")).at(&entry.value.place);
        problems.push(problem.help(format!("write a value for `{key}`")));
    }
}

fn is_blank(entry: &MapEntry) -> bool {
    let text = entry.value.as_text();
    text.is_some_and(|text| text.trim().is_empty())
}

const URL: Kind = Kind::Custom(&Custom {
    schema: Some(|| Kind::Text.schema(false)),
    check: |entry, problems| {
        check_text(entry, problems);
        let is_web = |url: &str| url.starts_with("http://") || url.starts_with("https://");
        if let Some(url) = entry.value.as_text().filter(|url| !is_web(url))
            && !is_blank(entry)
        {
            let (message, help) = if url.contains("${") {
                (
                    format!("`{url}`: environment variables are not read in the address of a hook"),
                    "write the address itself; values of `headers` may have `${env.NAME}`",
                )
            } else {
                (
                    format!("`{url}` is no address of a web server"),
                    "write `https://` and the name of the server before it",
                )
            };
            let problem = Problem::new("bad-value", message).at(&entry.value.place);
            problems.push(problem.help(help));
        }
    },
});

/// A number, or in our files a duration. The unit of a number depends on the dialect, and so does whether it
/// must be whole. [`timeout`](super::options::timeout) checks it.
const TIMEOUT: Kind = Kind::Custom(&Custom::shape(|| {
    let mut schema = Range::ANY.schema();
    // A number that is not positive means the default.
    schema["anyOf"][0] = Kind::Number.schema(false);
    schema
}));
