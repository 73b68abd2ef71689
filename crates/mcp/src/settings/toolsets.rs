//! Reads `toolsets` of an agent.

use std::collections::BTreeMap;

use cachalot_core::suggest::did_you_mean;
use cachalot_core::tree::{Node, expand};
use cachalot_core::{Problem, SourceSpan};

use super::keys::Keys;
use super::servers::{ServerDefinition, definition};
use crate::McpTransport;
use cachalot_tools::builtin::{ShellSettings, WebFetchSettings};
use cachalot_tools::filter::NameFilter;

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
    /// The tools, resources and prompts of an MCP server.
    Mcp(Box<ServerDefinition>),
    /// Actions of workflows, by name.
    Actions(Vec<String>),
}

const KINDS: [&str; 7] = [
    "filesystem",
    "shell",
    "fetch",
    "memory",
    "skills",
    "mcp",
    "actions",
];

/// Reads the list `toolsets` of an agent. `servers` are those of `mcps`, to which a toolset of `type: mcp`
/// can refer by `ref`. Environment variables in its texts are expanded.
///
/// Every toolset has `type`, and may have `tools` (a list of patterns that select tools), `readonly` and
/// `instruction`. Further keys by type:
///
/// - `shell`: `timeout`, `max_timeout`, `max_output`, `env`, `pass_env`;
/// - `fetch`: `timeout`, `max_chars`, `max_bytes`, `ttl`, `allow`, `allowed_hosts`;
/// - `actions`: `allow`, the list of actions; the caller checks their names;
/// - `mcp`: `ref`, or a `name` and the keys that [`super::read_servers`] reads.
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
        if let Some(mut keys) = Keys::new(&expanded, "a toolset", problems) {
            let read = toolset(&expanded, &mut keys, servers, &settings);
            keys.finish();
            settings.toolsets.extend(read);
        }
    }
    settings
}

fn toolset(
    node: &Node,
    keys: &mut Keys<'_, '_>,
    servers: &BTreeMap<String, ServerDefinition>,
    before: &ToolsetSettings,
) -> Option<Toolset> {
    let Some(kind) = keys.node(&["type"]) else {
        keys.lacks(
            "missing-key",
            "a toolset needs `type`",
            format!("add `type: …`, one of: {}", KINDS.join(", ")),
        );
        return None;
    };
    let read_only = keys
        .boolean(&["readonly", "read_only", "readOnly"])
        .unwrap_or(false);
    let instruction = keys.text(&["instruction"]).map(str::to_owned);
    let (kind, filter) = match kind.as_text() {
        Some("filesystem") => (ToolsetKind::Filesystem, own_filter(keys, &FILES)),
        Some("shell") => (
            ToolsetKind::Shell(shell(keys)),
            own_filter(keys, &["shell"]),
        ),
        Some("fetch" | "web_fetch") => (
            ToolsetKind::Fetch(fetch(keys)),
            own_filter(keys, &["web_fetch"]),
        ),
        Some("memory") => (ToolsetKind::Memory, own_filter(keys, &["memory"])),
        Some("skills") => (ToolsetKind::Skills, own_filter(keys, &SKILLS)),
        Some("actions") => {
            let allowed = keys.texts(&["allow"]).unwrap_or_default();
            if allowed.is_empty() {
                keys.lacks(
                    "missing-key",
                    "a toolset of type `actions` needs `allow`",
                    "list the actions: `allow: [http.get, document.text]`",
                );
            }
            let allowed = allowed.into_iter().map(str::to_owned).collect();
            (ToolsetKind::Actions(allowed), NameFilter::default())
        }
        Some("mcp") => {
            let (definition, filter) = server(keys, servers, before)?;
            (ToolsetKind::Mcp(Box::new(definition)), filter)
        }
        other => {
            let problem = match other {
                Some(other) => Problem::new(
                    "unknown-toolset",
                    format!("there is no toolset of type `{other}`"),
                )
                .at(&kind.place)
                .help(did_you_mean(other, &KINDS)),
                None => kind.wrong_type("`type`", "text"),
            };
            keys.problems().push(problem);
            // The other keys cannot be checked without a known type.
            keys.skip();
            return None;
        }
    };
    Some(Toolset {
        kind,
        filter,
        read_only,
        instruction,
        place: node.head(),
    })
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

/// Reads the filter of tools with known names; reports a pattern that matches none of them.
fn own_filter(keys: &mut Keys<'_, '_>, names: &[&str]) -> NameFilter {
    let node = keys.node(&["tools"]);
    let Some(filter) = keys.filter(&["tools"]) else {
        return NameFilter::default();
    };
    for pattern in filter.patterns() {
        let bare = pattern.trim_start_matches('!');
        let alone = NameFilter::new(&[bare]).unwrap_or_default();
        if !names.iter().any(|name| alone.selects(&[name]))
            && let Some(node) = node
        {
            keys.problem(
                node,
                "unknown-tool",
                format!("no tool of this toolset is called `{bare}`"),
                did_you_mean(bare, names),
            );
        }
    }
    filter
}

fn shell(keys: &mut Keys<'_, '_>) -> ShellSettings {
    let default = ShellSettings::default();
    let timeout = keys.time(&["timeout"]).unwrap_or(default.timeout);
    let max_timeout = keys
        .time(&["max_timeout", "maxTimeout"])
        .unwrap_or(default.max_timeout);
    let output_limit = keys
        .at_least_one(&["max_output", "maxOutput"], 1 << 30)
        .map_or(default.output_limit, |most| {
            usize::try_from(most).unwrap_or(usize::MAX)
        });
    let pass = keys.filter(&["pass_env", "passEnv"]).unwrap_or_default();
    ShellSettings {
        timeout,
        // A longer default timeout also raises the maximum.
        max_timeout: max_timeout.max(timeout),
        output_limit,
        environment: keys.variables(&["env", "environment"]),
        pass: pass.patterns().to_vec(),
    }
}

fn fetch(keys: &mut Keys<'_, '_>) -> WebFetchSettings {
    let default = WebFetchSettings::default();
    let owned = |texts: Vec<&str>| texts.into_iter().map(str::to_owned).collect::<Vec<_>>();
    let allow = keys.texts(&["allow"]).map(owned).unwrap_or_default();
    let allowed_hosts = keys.texts(&["allowed_hosts", "allowedHosts"]).map(owned);
    WebFetchSettings {
        timeout: keys.time(&["timeout"]).unwrap_or(default.timeout),
        max_chars: keys
            .at_least_one(&["max_chars", "maxChars"], 500_000)
            .map_or(default.max_chars, |most| {
                usize::try_from(most).unwrap_or(usize::MAX)
            }),
        max_bytes: keys
            .at_least_one(&["max_bytes", "maxBytes"], 1 << 30)
            .unwrap_or(default.max_bytes),
        lifetime: keys.time(&["ttl"]),
        allow,
        allowed_hosts,
    }
}

/// Reads the server of a toolset, and the selection of its tools.
fn server(
    keys: &mut Keys<'_, '_>,
    servers: &BTreeMap<String, ServerDefinition>,
    before: &ToolsetSettings,
) -> Option<(ServerDefinition, NameFilter)> {
    if let Some(node) = keys.node(&["ref"]) {
        let filter = keys.filter(&["tools"]).unwrap_or_default();
        let name = keys.text(&["ref"])?;
        if let Some(found) = servers.get(name) {
            return Some((found.clone(), filter));
        }
        let known: Vec<&str> = servers.keys().map(String::as_str).collect();
        let help = match name.starts_with("docker:") {
            true => "catalogues of servers are not supported: define the server under `mcps` with its `command` or `url`".to_owned(),
            false if known.is_empty() => "define it under `mcps`".to_owned(),
            false => did_you_mean(name, &known),
        };
        keys.problem(
            node,
            "unknown-server",
            format!("there is no MCP server `{name}`"),
            help,
        );
        return None;
    }
    let named = keys.text(&["name"]).map(str::to_owned);
    let mut found = definition("", keys)?;
    found.settings.name = named
        .unwrap_or_else(|| unused_name(&derived_name(&found.settings.transport), servers, before));
    let taken = |other: &ServerDefinition| {
        other.settings.name == found.settings.name && other.settings != found.settings
    };
    if servers.values().any(taken) || definitions(before).any(taken) {
        keys.lacks(
            "duplicate-server",
            format!("there are two MCP servers called `{}`", found.settings.name),
            "give one of them another `name`",
        );
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
