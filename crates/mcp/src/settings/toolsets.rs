//! Reads `toolsets` of an agent.

use std::collections::BTreeMap;

use cachalot_core::config::{
    Custom, Located, Parameter, ParameterKind as Kind, Settings, Table, Values, key, required,
};
use cachalot_core::suggest::{did_you_mean, nearest};
use cachalot_core::tree::Node;
use cachalot_core::{Problem, Secret, SourceSpan};
use cachalot_tools::builtin::{
    ApiSettings, BackgroundJobsSettings, OpenUrlSettings, RagSettings, ScriptSettings,
    ShellSettings, SkillSelection, WebFetchSettings,
};
use cachalot_tools::filter::NameFilter;
use serde_json::{Value, json};

use super::docker_agent::{self, OF_OTHERS_OF_SERVERS, SKILL_SOURCES};
use super::docker_server;
use super::servers::{SERVER_KEYS_OF_OTHERS, ServerDefinition, ServerKeys};
use super::shared_keys::{COMMON, NAME, OF_OTHERS, Selection, TYPE, problem};
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
    Filesystem(FolderSettings),
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
    /// A search in documents.
    Rag(Box<RagSettings>),
}

/// The folders of the toolset `filesystem`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Settings)]
#[settings(name = "`filesystem`", check = check_folders)]
pub struct FolderSettings {
    /// Folders that the tools may use; has to contain `.`, the workspace, outside of which they use none.
    #[setting(key = "allow_list")]
    pub allowed: Vec<String>,
    /// Folders that no tool may use: the same as `*:path=FOLDER/**` under `permissions.deny`.
    #[setting(key = "deny_list")]
    pub denied: Vec<Located<String>>,
}

fn check_folders(_: &FolderSettings, values: Values<'_>, problems: &mut Vec<Problem>) {
    docker_agent::check_folders(values, problems);
}

/// The keys of the toolset `todo`.
#[derive(Debug, Settings)]
#[settings(name = "`todo`")]
struct TodoKeys {
    /// Shares one list among the agents of the team that set it.
    #[setting(default = false)]
    shared: bool,
}

/// The keys of the toolset `actions`.
#[derive(Debug, Settings)]
#[settings(name = "`actions`")]
struct ActionKeys {
    /// The actions.
    allow: Vec<String>,
}

/// The keys of a toolset of the type `mcp` with a server of `mcps`.
#[derive(Debug, Settings)]
#[settings(name = "`mcp`")]
struct ServerReference {
    /// A key of `mcps`, or `docker:NAME` for a server of Docker's MCP catalog.
    #[setting(key = "ref")]
    name: Option<Located<String>>,
    /// Environment variables of the program.
    env: BTreeMap<String, Secret<String>>,
}

/// The keys of a toolset of the type `mcp` with a server of its own. Their `type` is that of a server, which
/// accepts `mcp`, too.
#[derive(Debug, Settings)]
#[settings(name = "`mcp`")]
struct OwnServer {
    /// The name of the server.
    name: Option<String>,
    #[setting(flatten)]
    server: ServerKeys,
}

const SELECTION: &[Parameter] = Selection::PARAMETERS;

/// The keys of a toolset of any type but `actions`; all keys of those without further ones.
pub static TOOLSET: Table = Table::new(NAME, "", &[COMMON, SELECTION, OF_OTHERS]);

/// The keys of a toolset of the type `filesystem`.
pub static FILESYSTEM: Table = of_type(&[COMMON, SELECTION, FolderSettings::PARAMETERS, OF_OTHERS]);

/// The keys of a toolset of the type `skills`. Those beside the common ones come from `skills` of an agent.
static SKILLS_OF_AGENT: Table = of_type(&[
    COMMON,
    SELECTION,
    SkillSelection::PARAMETERS,
    &[key("sources", Kind::Custom(&SKILL_SOURCES), "")],
]);

/// The keys of a toolset of the type `shell`.
pub static SHELL: Table = of_type(&[COMMON, SELECTION, ShellSettings::PARAMETERS, OF_OTHERS]);

/// The keys of a toolset of the type `background_jobs`.
pub static BACKGROUND_JOBS: Table = of_type(&[
    COMMON,
    SELECTION,
    BackgroundJobsSettings::PARAMETERS,
    OF_OTHERS,
]);

/// The keys of a toolset of the type `todo`.
pub static TODO: Table = of_type(&[COMMON, SELECTION, TodoKeys::PARAMETERS, OF_OTHERS]);

/// The keys of a toolset of the type `fetch`.
pub static FETCH: Table = of_type(&[COMMON, SELECTION, WebFetchSettings::PARAMETERS, OF_OTHERS]);

static ACTIONS: Table = of_type(&[&[TYPE], ActionKeys::PARAMETERS, SELECTION]);

/// The keys of a toolset of the type `script`.
static SCRIPT: Table = of_type(&[
    &[
        TYPE,
        key(
            "shell",
            Kind::Tables(ScriptSettings::TABLE),
            "The commands by the names of their tools.",
        ),
    ],
    SELECTION,
    OF_OTHERS,
]);

static API: Table = of_type(&[&[TYPE], ApiSettings::PARAMETERS, SELECTION, OF_OTHERS]);

static OPEN_URL: Table = of_type(&[&[TYPE], OpenUrlSettings::PARAMETERS, SELECTION, OF_OTHERS]);

/// The keys of a toolset of the type `rag`. The agent file adds the source that `ref` names.
static RAG: Table = of_type(&[
    &[
        TYPE,
        required("ref", Kind::Text, "A key of `rag` of the file."),
        key(SOURCE, Kind::Custom(&Custom::hidden()), ""),
    ],
    SELECTION,
    OF_OTHERS,
]);

/// The key with the source of a toolset of the type `rag`, which the reader of agent files adds.
pub const SOURCE: &str = "source";

static REFERENCE: Table = of_type(&[
    COMMON,
    SELECTION,
    ServerReference::PARAMETERS,
    OF_OTHERS_OF_SERVERS,
    OF_OTHERS,
]);

static OWN_SERVER: Table = of_type(&[
    OwnServer::PARAMETERS,
    SELECTION,
    SERVER_KEYS_OF_OTHERS,
    OF_OTHERS,
]);

const fn of_type(groups: &'static [&'static [Parameter]]) -> Table {
    Table::new(NAME, "", groups)
}

/// A type of toolsets.
struct ToolsetType {
    word: &'static str,
    table: &'static Table,
    /// The names of its tools, if they do not depend on the file.
    tools: &'static [&'static str],
    read: Reader,
}

/// Reads the keys that only toolsets of one type have.
type Reader = fn(Values<'_>, &mut Vec<Problem>) -> Option<ToolsetKind>;

const fn named(
    word: &'static str,
    table: &'static Table,
    tools: &'static [&'static str],
    read: Reader,
) -> ToolsetType {
    ToolsetType {
        word,
        table,
        tools,
        read,
    }
}

/// The types. The last one is another word for `fetch`.
static TYPES: [ToolsetType; 16] = [
    named("filesystem", &FILESYSTEM, &FILES, |values, problems| {
        FolderSettings::from_values(values, problems).map(ToolsetKind::Filesystem)
    }),
    named("shell", &SHELL, &["shell"], |values, problems| {
        ShellSettings::from_values(values, problems).map(ToolsetKind::Shell)
    }),
    named("fetch", &FETCH, &["web_fetch"], fetch),
    named("memory", &TOOLSET, &["memory"], |_, _| {
        Some(ToolsetKind::Memory)
    }),
    named("skills", &SKILLS_OF_AGENT, &SKILLS, |values, problems| {
        SkillSelection::from_values(values, problems).map(ToolsetKind::Skills)
    }),
    named("think", &TOOLSET, &["think"], |_, _| {
        Some(ToolsetKind::Think)
    }),
    named("todo", &TODO, &TODOS, |values, problems| {
        let TodoKeys { shared } = TodoKeys::from_values(values, problems)?;
        Some(ToolsetKind::Todo { shared })
    }),
    named("user_prompt", &TOOLSET, &["user_prompt"], |_, _| {
        Some(ToolsetKind::UserPrompt)
    }),
    named(
        "background_jobs",
        &BACKGROUND_JOBS,
        &JOBS,
        |values, problems| {
            BackgroundJobsSettings::from_values(values, problems).map(ToolsetKind::BackgroundJobs)
        },
    ),
    // Its reader needs the other servers.
    named("mcp", &OWN_SERVER, &[], |_, _| None),
    named("actions", &ACTIONS, &[], |values, problems| {
        Some(ToolsetKind::Actions(actions(values, problems)?))
    }),
    named("script", &SCRIPT, &[], |values, problems| {
        Some(ToolsetKind::Scripts(docker_agent::scripts(
            values, problems,
        )))
    }),
    named("api", &API, &[], |values, problems| {
        Some(ToolsetKind::Api(Box::new(docker_agent::api(
            values, problems,
        )?)))
    }),
    named("open_url", &OPEN_URL, &[], |values, problems| {
        docker_agent::open_url(values, problems).map(ToolsetKind::OpenUrl)
    }),
    named("rag", &RAG, &[], |values, problems| {
        rag(values, problems).map(|settings| ToolsetKind::Rag(Box::new(settings)))
    }),
    named("web_fetch", &FETCH, &["web_fetch"], fetch),
];

fn fetch(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<ToolsetKind> {
    let settings = WebFetchSettings::from_values(values, problems)?;
    Some(ToolsetKind::Fetch(Box::new(settings)))
}

fn rag(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<RagSettings> {
    let reference = values.text("ref")?;
    let Some(source) = values.node(SOURCE) else {
        let message = format!("`ref` names `{reference}`, which is not in `rag` of the file");
        let problem = Problem::new("unknown-group", message).at(&values.place("ref"));
        problems.push(
            problem.help("add it to `rag` at the top of the file, with `docs` and `strategies`"),
        );
        return None;
    };
    let settings = RagSettings::read(reference, source, problems)?;
    docker_agent::check_tool_name(&settings.name, source, problems);
    Some(settings)
}

fn actions(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<Vec<String>> {
    let ActionKeys { allow } = ActionKeys::from_values(values, problems)?;
    if allow.is_empty() {
        problems.push(problem(
            values.mapping(),
            "missing-key",
            "a toolset of type `actions` needs `allow`",
            "list the actions: `allow: [http.get, document.text]`",
        ));
    }
    Some(allow)
}

/// Returns the types that messages suggest.
fn types() -> Vec<&'static str> {
    let types = TYPES.split_last().map(|(_, types)| types);
    types
        .into_iter()
        .flatten()
        .map(|known| known.word)
        .collect()
}

/// Returns the JSON Schema of a toolset.
#[must_use]
pub fn toolset_schema() -> Value {
    let keys_by_type = TYPES.iter().map(|known| {
        let (word, mut keys) = (known.word, known.table.schema(true));
        if word == "mcp" {
            keys = json!({ "anyOf": [REFERENCE.schema(true), keys] });
        }
        json!({ "if": { "properties": { "type": { "enum": [word] } } }, "then": keys })
    });
    let words: Vec<&str> = TYPES.iter().map(|known| known.word).collect();
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
            let problem = node.wrong_type("`toolsets`", "a list");
            problems.push(problem.help("write `toolsets: [{type: filesystem}, {type: shell}]`"));
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
    let (kind, table) = match type_of(node) {
        Ok(found) => found,
        Err(problem) => {
            problems.push(problem);
            return None;
        }
    };
    let values = table.read(node, problems)?;
    let selection = Selection::from_values(values, problems);
    let mut filter = NameFilter::default();
    if !kind.tools.is_empty() {
        filter = own_filter(values, kind.tools, problems);
    }
    let settings = if kind.word == "mcp" {
        let definition = if *table == REFERENCE {
            filter = values.setting("tools", problems).unwrap_or_default();
            referenced(values, servers, problems)?
        } else {
            own_server(values, servers, before, problems)?
        };
        ToolsetKind::Mcp(Box::new(definition))
    } else {
        (kind.read)(values, problems)?
    };
    let Selection {
        read_only,
        instruction,
    } = selection?;
    Some(Toolset {
        kind: settings,
        filter,
        read_only,
        instruction: instruction.map(|text| text.replace(docker_agent::ORIGINAL_INSTRUCTIONS, "")),
        unset: Vec::new(),
        place: node.head(),
    })
}

/// Returns the type of a toolset and the table of its keys, or the problem of its type.
fn type_of(node: &Node) -> Result<(&'static ToolsetType, &'static Table), Problem> {
    if node.as_map().is_none() {
        let named = node.as_text().filter(|word| types().contains(word));
        let help = format!("write `{{type: {}}}`", named.unwrap_or("shell"));
        return Err(node.wrong_type(NAME, "a mapping").help(help));
    }
    let is_given = |key| node.get(key).filter(|value| !value.is_null());
    let Some(kind) = is_given("type") else {
        let mut entries = node.as_map().into_iter().flatten();
        if let Some(slip) = entries.find(|entry| nearest(&entry.key, ["type"]).is_some()) {
            let message = format!("unknown key `{}` in {NAME}", slip.key);
            let problem = Problem::new("unknown-key", message).at(&slip.key_place);
            return Err(problem.help("did you mean `type`?"));
        }
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
    if let Some(found) = TYPES.iter().find(|known| known.word == word) {
        let is_reference = word == "mcp" && is_given("ref").is_some();
        return Ok((
            found,
            if is_reference {
                &REFERENCE
            } else {
                found.table
            },
        ));
    }
    let replacement = docker_agent::replacement(word);
    // The other keys cannot be checked without a known type.
    if docker_agent::is_dispensable(word) {
        let message = format!("a toolset of type `{word}` has no tools here");
        let warning = Problem::warning("no-effect", message).at(&kind.place);
        return Err(warning.help(replacement.unwrap_or_default()));
    }
    let message = format!("there is no toolset of type `{word}`");
    let problem = Problem::new("unknown-toolset", message).at(&kind.place);
    Err(problem.help(match replacement {
        Some(replacement) => replacement.to_owned(),
        None => did_you_mean(word, &types()),
    }))
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

/// Returns the server of `mcps` that a toolset names.
fn referenced(
    values: Values<'_>,
    servers: &BTreeMap<String, ServerDefinition>,
    problems: &mut Vec<Problem>,
) -> Option<ServerDefinition> {
    let ServerReference { name, env } = ServerReference::from_values(values, problems)?;
    let Located { value: name, place } = name?;
    if let Some(found) = servers.get(&name) {
        return Some(found.clone());
    }
    if let Some(settings) = docker_server::settings(&name, env) {
        return Some(ServerDefinition {
            settings,
            filter: NameFilter::default(),
            unset: Vec::new(),
        });
    }
    let known: Vec<&str> = servers.keys().map(String::as_str).collect();
    let help = if known.is_empty() {
        "define it under `mcps`".to_owned()
    } else {
        did_you_mean(&name, &known)
    };
    let message = format!("there is no MCP server `{name}`");
    let problem = Problem::new("unknown-server", message).at(&place);
    problems.push(problem.help(help));
    None
}

/// Returns the server that a toolset defines, which contains the selection of its tools.
fn own_server(
    values: Values<'_>,
    servers: &BTreeMap<String, ServerDefinition>,
    before: &ToolsetSettings,
    problems: &mut Vec<Problem>,
) -> Option<ServerDefinition> {
    let OwnServer { name, server } = OwnServer::from_values(values, problems)?;
    let mut found = server.definition("", None, values.mapping(), problems)?;
    found.settings.name = name
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
    Some(found)
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The reader of a struct finds no value of a key that its table lacks.
    #[test]
    fn tables_have_the_keys_that_their_readers_read() {
        let structs: [(&Table, &[Parameter]); 10] = [
            (&FILESYSTEM, FolderSettings::PARAMETERS),
            (&SKILLS_OF_AGENT, SkillSelection::PARAMETERS),
            (&SHELL, ShellSettings::PARAMETERS),
            (&BACKGROUND_JOBS, BackgroundJobsSettings::PARAMETERS),
            (&TODO, TodoKeys::PARAMETERS),
            (&FETCH, WebFetchSettings::PARAMETERS),
            (&ACTIONS, ActionKeys::PARAMETERS),
            (&API, ApiSettings::PARAMETERS),
            (&OPEN_URL, OpenUrlSettings::PARAMETERS),
            (&REFERENCE, ServerReference::PARAMETERS),
        ];
        let selections = TYPES.iter().map(|found| (found.table, SELECTION));
        for (table, read) in structs.into_iter().chain(selections) {
            for parameter in read {
                let names: Vec<&str> = table.parameters().map(|known| known.name).collect();
                assert!(
                    names.contains(&parameter.name),
                    "{} {names:?}",
                    parameter.name
                );
            }
        }
    }
}
