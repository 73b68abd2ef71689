//! Reads `toolsets` of an agent.

use std::collections::BTreeMap;

use cachalot_core::config::{
    Custom, Literal, Parameter, ParameterKind as Kind, Table, Values, key,
};
use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::Node;
use cachalot_core::{Problem, SourceSpan};
use cachalot_tools::builtin::{
    ApiSettings, BackgroundJobsSettings, OpenUrlSettings, ScriptSettings, ShellSettings,
    SkillSelection, WebFetchSettings,
};
use cachalot_tools::filter::NameFilter;
use serde_json::{Value, json};

use super::docker_agent::{
    self, API, INLINE_SKILLS, OF_OTHERS_OF_SERVERS, OPEN_URL, SCRIPT, SKILL_SOURCES,
};
use super::docker_server;
use super::kinds::{
    NAME, OF_OTHERS, PATTERNS, SELECTION, SIZE, TIME, TYPE, VARIABLES, filter, problem, variables,
};
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
    /// Environment variables that the toolset needs and that are not set. Its tools are left out.
    pub unset: Vec<String>,
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
    Fetch(Box<WebFetchSettings>),
    /// `memory`.
    Memory,
    /// `skills_list`, `skill_view`, `skill_manage`.
    Skills(SkillSelection),
    /// Commands of the file, each a tool.
    Scripts(Vec<ScriptSettings>),
    /// An HTTP request of the file.
    Api(Box<ApiSettings>),
    /// An address of the file, which is opened in the user's browser.
    OpenUrl(OpenUrlSettings),
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

const COMMON: &[Parameter] = &[
    TYPE,
    key(
        "tools",
        PATTERNS,
        "Patterns of the tools that are selected; `!` excludes.",
    ),
];

/// The keys of a toolset of any type but `actions`; all keys of those without further ones.
pub static TOOLSET: Table = Table::new(NAME, "", &[COMMON, SELECTION, OF_OTHERS]);

/// The keys of a toolset of the type `filesystem`.
#[rustfmt::skip]
pub static FILESYSTEM: Table = Table::new(NAME, "", &[COMMON, SELECTION, &[
    key("allow_list", Kind::Texts, "Folders that the tools may use; has to contain `.`, the workspace, outside of which they use none."),
    key("deny_list", Kind::Texts, "Folders that no tool may use: the same as `*:path=FOLDER/**` under `permissions.deny`."),
], OF_OTHERS]);

/// The keys of a toolset of the type `skills`. Those beside the common ones come from `skills` of an agent.
static SKILLS_OF_AGENT: Table = Table::new(
    NAME,
    "",
    &[
        COMMON,
        SELECTION,
        &[
            key("local", Kind::Custom(&Custom::hidden()), ""),
            key("names", Kind::Custom(&Custom::hidden()), ""),
            key("sources", Kind::Custom(&SKILL_SOURCES), ""),
            key("inline", Kind::Custom(&INLINE_SKILLS), ""),
        ],
    ],
);

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
], COMMANDS, OF_OTHERS]);

/// The keys of a toolset of the type `background_jobs`.
#[rustfmt::skip]
pub static BACKGROUND_JOBS: Table = Table::new(NAME, "", &[COMMON, SELECTION, COMMANDS, &[
    key("recall", Kind::Boolean, "Lets a call request that the notice about the end of its job contains the output.").default(Literal::Boolean(false)),
], OF_OTHERS]);

/// The keys of a toolset of the type `todo`.
#[rustfmt::skip]
pub static TODO: Table = Table::new(NAME, "", &[COMMON, SELECTION, &[
    key("shared", Kind::Boolean, "Shares one list among the agents of the team that set it.").default(Literal::Boolean(false)),
], OF_OTHERS]);

/// The keys of a toolset of the type `fetch`.
#[rustfmt::skip]
pub static FETCH: Table = Table::new(NAME, "", &[COMMON, SELECTION, &[
    key("timeout", TIME, "The timeout of a call.").default(Literal::Text("30s")),
    key("max_chars", Kind::IntegerIn(1, 500_000), "The default maximum number of characters of a result.").default(Literal::Integer(20_000)).with_aliases(&["maxChars"]),
    key("max_bytes", SIZE, "The maximum number of bytes that are read from a server.").default(Literal::Integer(5 << 20)).with_aliases(&["maxBytes"]),
    key("ttl", TIME, "How long results may be served from the cache."),
    key("allow", Kind::Texts, "Private hosts and networks that may be fetched from."),
    key("allowed_hosts", Kind::Texts, "The only hosts and networks that may be fetched from.").with_aliases(&["allowedHosts"]),
    key("allowed_domains", Kind::Texts, "Like `allowed_hosts`; a host stands for its subdomains, too."),
    key("blocked_domains", Kind::Texts, "Hosts, their subdomains and networks that are never fetched from."),
    key("headers", VARIABLES, "Headers of every request; needs `allowed_hosts` or `allowed_domains`."),
    key("allow_private_ips", Kind::Boolean, "Private addresses may be fetched from.").default(Literal::Boolean(false)),
], OF_OTHERS]);

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
        &[
            key(
                "ref",
                Kind::Text,
                "A key of `mcps`, or `docker:NAME` for a server of Docker's MCP catalog.",
            ),
            key("env", VARIABLES, "Environment variables of the program."),
        ],
        OF_OTHERS_OF_SERVERS,
        OF_OTHERS,
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
        OF_OTHERS,
    ],
);

/// The tables by type. The last type is another word for `fetch`.
static TYPES: [(&str, &Table); 15] = [
    ("filesystem", &FILESYSTEM),
    ("shell", &SHELL),
    ("fetch", &FETCH),
    ("memory", &TOOLSET),
    ("skills", &SKILLS_OF_AGENT),
    ("think", &TOOLSET),
    ("todo", &TODO),
    ("user_prompt", &TOOLSET),
    ("background_jobs", &BACKGROUND_JOBS),
    ("mcp", &OWN_SERVER),
    ("actions", &ACTIONS),
    ("script", &SCRIPT),
    ("api", &API),
    ("open_url", &OPEN_URL),
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
        let (expanded, unset) = docker_agent::expanded(item, environment, problems);
        let read = toolset(&expanded, servers, &settings, problems);
        settings
            .toolsets
            .extend(read.map(|toolset| Toolset { unset, ..toolset }));
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
    docker_agent::check(word, values, problems);
    let mut own = |names| own_filter(values, names, problems);
    let (kind, filter) = match word {
        "filesystem" => (ToolsetKind::Filesystem, own(&FILES)),
        "shell" => (ToolsetKind::Shell(shell(values)), own(&["shell"])),
        "fetch" | "web_fetch" => (
            ToolsetKind::Fetch(Box::new(fetch(values))),
            own(&["web_fetch"]),
        ),
        "memory" => (ToolsetKind::Memory, own(&["memory"])),
        "skills" => (ToolsetKind::Skills(skill_selection(values)), own(&SKILLS)),
        "script" => (
            ToolsetKind::Scripts(docker_agent::scripts(values, problems)),
            NameFilter::default(),
        ),
        "api" => (
            ToolsetKind::Api(Box::new(docker_agent::api(values, problems)?)),
            NameFilter::default(),
        ),
        "open_url" => (
            ToolsetKind::OpenUrl(docker_agent::open_url(values, problems)?),
            NameFilter::default(),
        ),
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
            let (definition, filter) = if *table == REFERENCE {
                referenced(values, servers, problems)?
            } else {
                own_server(values, servers, before, problems)?
            };
            (ToolsetKind::Mcp(Box::new(definition)), filter)
        }
    };
    Some(Toolset {
        kind,
        filter,
        read_only: values.boolean("readonly").unwrap_or_default(),
        instruction: values
            .string("instruction")
            .map(|text| text.replace(docker_agent::ORIGINAL_INSTRUCTIONS, "")),
        unset: Vec::new(),
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
        None if docker_agent::is_dispensable(word) => {
            let message = format!("a toolset of type `{word}` has no tools here");
            let help = docker_agent::replacement(word).unwrap_or_default();
            Err(Problem::warning("no-effect", message)
                .at(&kind.place)
                .help(help))
        }
        None => Err(Problem::new(
            "unknown-toolset",
            format!("there is no toolset of type `{word}`"),
        )
        .at(&kind.place)
        .help(match docker_agent::replacement(word) {
            Some(replacement) => replacement.to_owned(),
            None => did_you_mean(word, &types()),
        })),
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
    let node = values.node("tools");
    let written = values.texts("tools").unwrap_or_default();
    let patterns: Vec<String> = written
        .iter()
        .map(|pattern| docker_agent::own_name(pattern, names))
        .collect();
    let (Some(node), Ok(filter)) = (node, NameFilter::new(&patterns)) else {
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
    let timeout = values.duration("timeout").unwrap_or(default.timeout);
    let max_timeout = values
        .duration("max_timeout")
        .unwrap_or(default.max_timeout);
    ShellSettings {
        timeout,
        // A longer default timeout also raises the maximum.
        max_timeout: max_timeout.max(timeout),
        output_limit: values.integer("max_output").unwrap_or(default.output_limit),
        environment: variables(values, "env"),
        pass: values.texts("pass_env").unwrap_or_default(),
    }
}

fn background_jobs(values: Values<'_>) -> BackgroundJobsSettings {
    let default = BackgroundJobsSettings::default();
    BackgroundJobsSettings {
        output_limit: values.integer("max_output").unwrap_or(default.output_limit),
        environment: variables(values, "env"),
        pass: values.texts("pass_env").unwrap_or_default(),
        recall: values.boolean("recall").unwrap_or_default(),
    }
}

/// Returns the selection of skills that `skills` of an agent makes.
fn skill_selection(values: Values<'_>) -> SkillSelection {
    let local = values.node("local").and_then(Node::as_boolean);
    let names = values.node("names").and_then(Node::as_list);
    let text = |node: &Node| node.as_text().map(str::to_owned);
    let inline = values.node("inline").and_then(Node::as_list);
    SkillSelection {
        local: local.unwrap_or(true),
        names: names.map(|names| names.iter().filter_map(text).collect()),
        inline: inline
            .unwrap_or_default()
            .iter()
            .filter_map(docker_agent::inline_skill)
            .collect(),
    }
}

fn fetch(values: Values<'_>) -> WebFetchSettings {
    let default = WebFetchSettings::default();
    WebFetchSettings {
        timeout: values.duration("timeout").unwrap_or(default.timeout),
        max_chars: values.integer("max_chars").unwrap_or(default.max_chars),
        max_bytes: values.integer("max_bytes").unwrap_or(default.max_bytes),
        lifetime: values.duration("ttl"),
        allow: match values.boolean("allow_private_ips") {
            Some(true) => docker_agent::ALL_NETWORKS.map(str::to_owned).to_vec(),
            _ => values.texts("allow").unwrap_or_default(),
        },
        allowed_hosts: values
            .texts("allowed_hosts")
            .or(values.texts("allowed_domains").map(docker_agent::hosts)),
        blocked_hosts: docker_agent::hosts(values.texts("blocked_domains").unwrap_or_default()),
        headers: variables(values, "headers"),
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
    let filter = filter(values, "tools").unwrap_or_default();
    if let Some(found) = servers.get(name) {
        return Some((found.clone(), filter));
    }
    if let Some(server) = docker_server::settings(name, variables(values, "env")) {
        let definition = ServerDefinition {
            settings: server,
            filter: NameFilter::default(),
            unset: Vec::new(),
        };
        return Some((definition, filter));
    }
    let known: Vec<&str> = servers.keys().map(String::as_str).collect();
    let help = if known.is_empty() {
        "define it under `mcps`".to_owned()
    } else {
        did_you_mean(name, &known)
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
