//! Reads `toolsets` of an agent.

use std::collections::BTreeMap;

use cachalot_core::spec::{Literal, Parameter, ParameterKind as Kind, Table, Values, key};
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{Node, expand};
use cachalot_core::{Problem, SourceSpan};
use cachalot_tools::builtin::{BackgroundJobsSettings, ShellSettings, WebFetchSettings};
use cachalot_tools::filter::NameFilter;
use serde_json::{Value, json};

use super::kinds::{PATTERNS, SIZE, TIME, VARIABLES, filter, problem, size, time, variables};
use super::servers::{ADDRESS, SERVER_KEYS, ServerDefinition, definition};
use crate::McpTransport;

/// The toolsets of an agent, in the order of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolsetSettings {
    /// The toolsets.
    pub toolsets: Vec<Toolset>,
}

/// A group of related tools, and the selection among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Toolset {
    /// The kind of toolset.
    pub kind: ToolsetKind,
    /// Selects tools by name.
    pub filter: NameFilter,
    /// True to select only tools that change nothing.
    pub read_only: bool,
    /// An instruction to the agent about the tools, in addition to their descriptions.
    pub instruction: Option<String>,
    /// The place in the configuration.
    pub place: SourceSpan,
}

/// The kind of a toolset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolsetKind {
    /// `read_file`, `list_dir`, `glob`, `grep`, `write_file`, `edit_file`, `apply_patch`.
    Filesystem,
    /// `shell`.
    Shell(ShellSettings),
    /// `web_fetch`.
    Fetch(WebFetchSettings),
    /// `memory`.
    Memory,
    /// `skills_list`, `skill_view`, `skill_manage`.
    Skills,
    /// `think`.
    Think,
    /// `create_todo`, `create_todos`, `update_todos`, `list_todos`.
    Todo {
        /// True for one list of all agents of a team.
        shared: bool,
    },
    /// `user_prompt`.
    UserPrompt,
    /// `run_background_job` and the tools for its jobs.
    BackgroundJobs(BackgroundJobsSettings),
    /// The tools, resources and prompts of an MCP server.
    Mcp(Box<ServerDefinition>),
    /// Actions of workflows, by name.
    Actions(Vec<String>),
}

/// The name of a toolset in messages.
const NAME: &str = "a toolset";

const TYPE: Parameter = key("type", Kind::Text, "The type.");
const SELECTION: &[Parameter] = &[
    key(
        "readonly",
        Kind::Boolean,
        "Selects only tools that change nothing.",
    )
    .default(Literal::Boolean(false))
    .with_aliases(&["read_only", "readOnly"]),
    key(
        "instruction",
        Kind::Text,
        "An instruction to the agent about the tools.",
    ),
];
const COMMON: &[Parameter] = &[
    TYPE,
    key(
        "tools",
        PATTERNS,
        "Patterns of the tools that are selected; `!` excludes.",
    ),
];

/// The keys of a toolset of any type but `actions`; all keys of those without further ones.
pub static TOOLSET: Table = Table::new(NAME, "", &[COMMON, SELECTION]);

/// The keys of toolsets that run commands.
#[rustfmt::skip]
const COMMANDS: &[Parameter] = &[
    key("max_output", SIZE, "The approximate maximum of output that is shown, in bytes.").default(Literal::Integer(30_000)).with_aliases(&["maxOutput"]),
    key("env", VARIABLES, "Environment variables for every command.").with_aliases(&["environment"]),
    key("pass_env", PATTERNS, "Patterns of environment variables that are passed on although they look like credentials.").with_aliases(&["passEnv"]),
];

/// The keys of a toolset of the type `shell`.
#[rustfmt::skip]
pub static SHELL: Table = Table::new(NAME, "", &[COMMON, SELECTION, &[
    key("timeout", TIME, "The default timeout of a command.").default(Literal::Text("120s")),
    key("max_timeout", TIME, "The maximum timeout that a call may request; at least `timeout`.").default(Literal::Text("600s")).with_aliases(&["maxTimeout"]),
], COMMANDS]);

/// The keys of a toolset of the type `background_jobs`.
#[rustfmt::skip]
pub static BACKGROUND_JOBS: Table = Table::new(NAME, "", &[COMMON, SELECTION, COMMANDS, &[
    key("recall", Kind::Boolean, "Lets a call request that the notice about the end of its job contains the output.").default(Literal::Boolean(false)),
]]);

/// The keys of a toolset of the type `todo`.
#[rustfmt::skip]
pub static TODO: Table = Table::new(NAME, "", &[COMMON, SELECTION, &[
    key("shared", Kind::Boolean, "Shares one list among the agents of the team that set it.").default(Literal::Boolean(false)),
]]);

/// The keys of a toolset of the type `fetch`.
#[rustfmt::skip]
pub static FETCH: Table = Table::new(NAME, "", &[COMMON, SELECTION, &[
    key("timeout", TIME, "The timeout of a call.").default(Literal::Text("30s")),
    key("max_chars", Kind::IntegerIn(1, 500_000), "The default maximum number of characters of a result.").default(Literal::Integer(20_000)).with_aliases(&["maxChars"]),
    key("max_bytes", SIZE, "The maximum number of bytes that are read from a server.").default(Literal::Integer(5 << 20)).with_aliases(&["maxBytes"]),
    key("ttl", TIME, "How long results may be served from the cache."),
    key("allow", Kind::Texts, "Private hosts and networks that may be fetched from."),
    key("allowed_hosts", Kind::Texts, "The only hosts and networks that may be fetched from.").with_aliases(&["allowedHosts"]),
]]);

static ACTIONS: Table = Table::new(
    NAME,
    "",
    &[
        &[TYPE, key("allow", Kind::Texts, "The actions.")],
        SELECTION,
    ],
);

/// The keys of a toolset of the type `mcp` with a server of `mcps`.
static REFERENCE: Table = Table::new(
    NAME,
    "",
    &[
        COMMON,
        SELECTION,
        &[key("ref", Kind::Text, "A key of `mcps`.")],
    ],
);

/// The keys of a toolset of the type `mcp` with a server of its own. Their `type` is that of a server, which
/// accepts `mcp`, too.
static OWN_SERVER: Table = Table::new(
    NAME,
    "",
    &[
        &[key("name", Kind::Text, "The name of the server.")],
        ADDRESS,
        SERVER_KEYS,
        SELECTION,
    ],
);

/// The tables by type. The last type is another word for `fetch`.
static TYPES: [(&str, &Table); 12] = [
    ("filesystem", &TOOLSET),
    ("shell", &SHELL),
    ("fetch", &FETCH),
    ("memory", &TOOLSET),
    ("skills", &TOOLSET),
    ("think", &TOOLSET),
    ("todo", &TODO),
    ("user_prompt", &TOOLSET),
    ("background_jobs", &BACKGROUND_JOBS),
    ("mcp", &OWN_SERVER),
    ("actions", &ACTIONS),
    ("web_fetch", &FETCH),
];

/// Returns the types that messages suggest.
fn types() -> Vec<&'static str> {
    let types = TYPES.split_last().map(|(_, types)| types);
    types.into_iter().flatten().map(|(word, _)| *word).collect()
}

/// Returns the JSON Schema of a toolset.
#[must_use]
pub fn toolset_schema() -> Value {
    let keys_by_type = TYPES.iter().map(|(word, table)| {
        let mut keys = table.schema(true);
        if *word == "mcp" {
            keys = json!({ "anyOf": [REFERENCE.schema(true), keys] });
        }
        json!({ "if": { "properties": { "type": { "enum": [word] } } }, "then": keys })
    });
    let words = TYPES.map(|(word, _)| word);
    json!({
        "type": "object",
        "required": ["type"],
        "properties": { "type": { "description": "Which tools.", "enum": words } },
        "allOf": keys_by_type.collect::<Vec<_>>(),
    })
}

/// Reads the list `toolsets` of an agent. `servers` are those of `mcps`, to which a toolset of `type: mcp`
/// can refer by `ref`. Environment variables in its texts are expanded. The caller checks the names of
/// actions.
pub fn read_toolsets(
    node: &Node,
    servers: &BTreeMap<String, ServerDefinition>,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> ToolsetSettings {
    let mut settings = ToolsetSettings::default();
    let Some(items) = node.as_list() else {
        if !node.is_null() {
            problems.push(node.wrong_type("`toolsets`", "a list"));
        }
        return settings;
    };
    for item in items {
        let expanded = expand(item, None, environment, problems);
        let read = toolset(&expanded, servers, &settings, problems);
        settings.toolsets.extend(read);
    }
    settings
}

fn toolset(
    node: &Node,
    servers: &BTreeMap<String, ServerDefinition>,
    before: &ToolsetSettings,
    problems: &mut Vec<Problem>,
) -> Option<Toolset> {
    let (word, table) = match table(node) {
        Ok(found) => found,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let values = table.read(node, problems)?;
    let mut own = |names| own_filter(values, names, problems);
    let (kind, filter) = match word {
        "filesystem" => (ToolsetKind::Filesystem, own(&FILES)),
        "shell" => (ToolsetKind::Shell(shell(values)), own(&["shell"])),
        "fetch" | "web_fetch" => (ToolsetKind::Fetch(fetch(values)), own(&["web_fetch"])),
        "memory" => (ToolsetKind::Memory, own(&["memory"])),
        "skills" => (ToolsetKind::Skills, own(&SKILLS)),
        "think" => (ToolsetKind::Think, own(&["think"])),
        "todo" => {
            let shared = values.boolean("shared").unwrap_or_default();
            (ToolsetKind::Todo { shared }, own(&TODOS))
        }
        "user_prompt" => (ToolsetKind::UserPrompt, own(&["user_prompt"])),
        "background_jobs" => {
            let settings = background_jobs(values);
            (ToolsetKind::BackgroundJobs(settings), own(&JOBS))
        }
        "actions" => (
            ToolsetKind::Actions(actions(values, problems)),
            NameFilter::default(),
        ),
        _ => {
            let (definition, filter) = match *table == REFERENCE {
                true => referenced(values, servers, problems)?,
                false => own_server(values, servers, before, problems)?,
            };
            (ToolsetKind::Mcp(Box::new(definition)), filter)
        }
    };
    Some(Toolset {
        kind,
        filter,
        read_only: values.boolean("readonly").unwrap_or_default(),
        instruction: values.string("instruction"),
        place: node.head(),
    })
}

/// Returns the type of a toolset and the table of its keys, or the problem of its type.
fn table(node: &Node) -> Result<(&'static str, &'static Table), Problem> {
    if node.as_map().is_none() {
        return Err(node.wrong_type(NAME, "a mapping"));
    }
    let is_given = |key| node.get(key).filter(|value| !value.is_null());
    let Some(kind) = is_given("type") else {
        return Err(problem(
            node,
            "missing-key",
            "a toolset needs `type`",
            format!("add `type: …`, one of: {}", types().join(", ")),
        ));
    };
    let Some(word) = kind.as_text() else {
        return Err(kind.wrong_type("`type`", "text"));
    };
    match TYPES.iter().find(|(known, _)| *known == word) {
        Some(("mcp", _)) if is_given("ref").is_some() => Ok(("mcp", &REFERENCE)),
        Some(found) => Ok(*found),
        // The other keys cannot be checked without a known type.
        None => Err(Problem::new(
            "unknown-toolset",
            format!("there is no toolset of type `{word}`"),
        )
        .at(&kind.place)
        .help(did_you_mean(word, &types()))),
    }
}

const FILES: [&str; 7] = [
    "read_file",
    "list_dir",
    "glob",
    "grep",
    "write_file",
    "edit_file",
    "apply_patch",
];
const SKILLS: [&str; 3] = ["skills_list", "skill_view", "skill_manage"];
const TODOS: [&str; 4] = ["create_todo", "create_todos", "update_todos", "list_todos"];
const JOBS: [&str; 5] = [
    "run_background_job",
    "list_background_jobs",
    "view_background_job",
    "stop_background_job",
    "wait_background_job",
];

/// Returns the filter of tools with known names; reports a pattern that matches none of them.
fn own_filter(values: Values<'_>, names: &[&str], problems: &mut Vec<Problem>) -> NameFilter {
    let (Some(node), Some(filter)) = (values.node("tools"), filter(values, "tools")) else {
        return NameFilter::default();
    };
    for pattern in filter.patterns() {
        let bare = pattern.trim_start_matches('!');
        let alone = NameFilter::new(&[bare]).unwrap_or_default();
        if !names.iter().any(|name| alone.selects(&[name])) {
            problems.push(problem(
                node,
                "unknown-tool",
                format!("no tool of this toolset is called `{bare}`"),
                did_you_mean(bare, names),
            ));
        }
    }
    filter
}

fn shell(values: Values<'_>) -> ShellSettings {
    let default = ShellSettings::default();
    let timeout = time(values, "timeout").unwrap_or(default.timeout);
    let max_timeout = time(values, "max_timeout").unwrap_or(default.max_timeout);
    ShellSettings {
        timeout,
        // A longer default timeout also raises the maximum.
        max_timeout: max_timeout.max(timeout),
        output_limit: size(values, "max_output").unwrap_or(default.output_limit),
        environment: variables(values, "env"),
        pass: values.texts("pass_env").unwrap_or_default(),
    }
}

fn background_jobs(values: Values<'_>) -> BackgroundJobsSettings {
    let default = BackgroundJobsSettings::default();
    BackgroundJobsSettings {
        output_limit: size(values, "max_output").unwrap_or(default.output_limit),
        environment: variables(values, "env"),
        pass: values.texts("pass_env").unwrap_or_default(),
        recall: values.boolean("recall").unwrap_or_default(),
    }
}

fn fetch(values: Values<'_>) -> WebFetchSettings {
    let default = WebFetchSettings::default();
    WebFetchSettings {
        timeout: time(values, "timeout").unwrap_or(default.timeout),
        max_chars: size(values, "max_chars").unwrap_or(default.max_chars),
        max_bytes: values.integer("max_bytes").unwrap_or(default.max_bytes),
        lifetime: time(values, "ttl"),
        allow: values.texts("allow").unwrap_or_default(),
        allowed_hosts: values.texts("allowed_hosts"),
    }
}

fn actions(values: Values<'_>, problems: &mut Vec<Problem>) -> Vec<String> {
    let allowed = values.texts("allow").unwrap_or_default();
    if allowed.is_empty() {
        problems.push(problem(
            values.mapping(),
            "missing-key",
            "a toolset of type `actions` needs `allow`",
            "list the actions: `allow: [http.get, document.text]`",
        ));
    }
    allowed
}

/// Returns the server of `mcps` that a toolset names, and the selection of its tools.
fn referenced(
    values: Values<'_>,
    servers: &BTreeMap<String, ServerDefinition>,
    problems: &mut Vec<Problem>,
) -> Option<(ServerDefinition, NameFilter)> {
    let (node, name) = (values.node("ref")?, values.text("ref")?);
    if let Some(found) = servers.get(name) {
        let filter = filter(values, "tools").unwrap_or_default();
        return Some((found.clone(), filter));
    }
    let known: Vec<&str> = servers.keys().map(String::as_str).collect();
    let help = match name.starts_with("docker:") {
        true => "catalogues of servers are not supported: define the server under `mcps` with its `command` or `url`".to_owned(),
        false if known.is_empty() => "define it under `mcps`".to_owned(),
        false => did_you_mean(name, &known),
    };
    let message = format!("there is no MCP server `{name}`");
    problems.push(problem(node, "unknown-server", message, help));
    None
}

/// Returns the server that a toolset defines, which contains the selection of its tools.
fn own_server(
    values: Values<'_>,
    servers: &BTreeMap<String, ServerDefinition>,
    before: &ToolsetSettings,
    problems: &mut Vec<Problem>,
) -> Option<(ServerDefinition, NameFilter)> {
    let mut found = definition("", values, problems)?;
    found.settings.name = values
        .string("name")
        .unwrap_or_else(|| unused_name(&derived_name(&found.settings.transport), servers, before));
    let taken = |other: &ServerDefinition| {
        other.settings.name == found.settings.name && other.settings != found.settings
    };
    if servers.values().any(taken) || definitions(before).any(taken) {
        problems.push(problem(
            values.mapping(),
            "duplicate-server",
            format!("there are two MCP servers called `{}`", found.settings.name),
            "give one of them another `name`",
        ));
    }
    Some((found, NameFilter::default()))
}

fn definitions(settings: &ToolsetSettings) -> impl Iterator<Item = &ServerDefinition> {
    settings
        .toolsets
        .iter()
        .filter_map(|toolset| match &toolset.kind {
            ToolsetKind::Mcp(definition) => Some(definition.as_ref()),
            _ => None,
        })
}

/// Derives a name for a server without one: that of its program, or of its host.
fn derived_name(transport: &McpTransport) -> String {
    let name = match transport {
        McpTransport::Stdio { command, .. } => std::path::Path::new(command)
            .file_stem()
            .map(|stem| stem.to_string_lossy().into_owned()),
        McpTransport::Http { url, .. } => url::Url::parse(url.expose())
            .ok()
            .and_then(|url| url.host_str().map(str::to_owned)),
    };
    name.filter(|name| !name.is_empty())
        .unwrap_or_else(|| "server".to_owned())
}

/// Returns the name, or the name with the first number that makes it unique.
fn unused_name(
    name: &str,
    servers: &BTreeMap<String, ServerDefinition>,
    before: &ToolsetSettings,
) -> String {
    let taken = |name: &str| {
        servers.contains_key(name)
            || definitions(before).any(|definition| definition.settings.name == name)
    };
    let numbered = (2..).map(|number: u32| format!("{name}_{number}"));
    std::iter::once(name.to_owned())
        .chain(numbered)
        .find(|name| !taken(name))
        .unwrap_or_else(|| name.to_owned())
}
