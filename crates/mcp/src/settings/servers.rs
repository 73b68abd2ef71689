//! Settings of MCP servers: `mcps` of an agent file, `mcpServers` of JSON, and toolsets of `type: mcp`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cachalot_core::tree::{Node, expand};
use cachalot_core::{Problem, Secret};

use super::keys::Keys;
use crate::{McpSettings, McpTransport, OfferSettings, ToolTrust};
use cachalot_tools::filter::NameFilter;

/// The definition of a server, and the selection of its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDefinition {
    /// The server.
    pub settings: McpSettings,
    /// Selects its tools, resources and prompts.
    pub filter: NameFilter,
}

/// Reads the mapping of MCP servers by name: `mcps` of an agent file, or `mcpServers` in JSON, whose keys are
/// in camelCase. Environment variables in its texts are expanded.
///
/// The keys of a server:
///
/// - `command`, `args`, `env`, `working_directory`; or `url`, `headers` (also inside `remote`);
/// - `timeout` (`toolTimeout`), `max_timeout`, `startup_timeout`, `required`, `max_output`, `max_message`;
/// - `tools`: a list of patterns that select tools (`enabledTools`), or a mapping of tools to the trust in
///   them (`search: {read_only: true, ttl: 5m}`);
/// - `trust`: `{read_only: [search, get_*], ttl: 5m}`;
/// - `resources` and `prompts`: each `false` or `{ttl: 5m}`.
pub fn read_servers(
    node: &Node,
    environment: &BTreeMap<String, String>,
    problems: &mut Vec<Problem>,
) -> BTreeMap<String, ServerDefinition> {
    let mut servers = BTreeMap::new();
    let Some(entries) = node.as_map() else {
        if !node.is_null() {
            problems.push(node.wrong_type("the MCP servers", "a mapping"));
        }
        return servers;
    };
    for entry in entries {
        let expanded = expand(&entry.value, None, environment, problems);
        if let Some(mut keys) = Keys::new(&expanded, "an MCP server", problems) {
            if let Some(definition) = definition(&entry.key, &mut keys) {
                servers.insert(entry.key.clone(), definition);
            }
            keys.finish();
        }
    }
    servers
}

/// Reads the keys of a server. The caller reports unknown ones.
pub(super) fn definition(name: &str, keys: &mut Keys<'_, '_>) -> Option<ServerDefinition> {
    let transport = transport(keys);
    // All keys are read, so that their problems are reported even if the server cannot be used.
    let nowhere = || McpTransport::Http {
        url: Secret::new(String::new()),
        headers: BTreeMap::new(),
    };
    let mut settings = McpSettings::new(name, transport.clone().unwrap_or_else(nowhere));
    if let Some(timeout) = keys.time(&["timeout", "toolTimeout", "tool_timeout"]) {
        settings.timeout = timeout;
    }
    if let Some(timeout) = keys.time(&["startup_timeout", "startupTimeout"]) {
        settings.startup_timeout = timeout;
    }
    if let Some(timeout) = keys.time(&["max_timeout", "maxTimeout"]) {
        settings.max_timeout = timeout;
    }
    if let Some(most) = keys.at_least_one(&["max_message", "maxMessage"], 1 << 30) {
        settings.message_limit = usize::try_from(most).unwrap_or(usize::MAX);
    }
    settings.required = keys.boolean(&["required"]).unwrap_or(false);
    if let Some(most) = keys.at_least_one(&["max_output", "maxOutput"], 1 << 30) {
        settings.output_limit = usize::try_from(most).unwrap_or(usize::MAX);
    }
    settings.resources = offer(keys, "resources");
    settings.prompts = offer(keys, "prompts");
    let filter = filter(keys, &mut settings.trust);
    trust(keys, &mut settings.trust);
    transport.map(|_| ServerDefinition { settings, filter })
}

/// Reads `enabledTools`, and `tools`, which is equivalent if it is a list, and contains trust settings if it
/// is a mapping.
fn filter(keys: &mut Keys<'_, '_>, trust: &mut Vec<(String, ToolTrust)>) -> NameFilter {
    let enabled = keys.filter(&["enabledTools", "enabled_tools"]);
    let is_offered = match keys.node(&["tools"]).map(|node| node.as_list().is_some()) {
        Some(true) => keys.filter(&["tools"]),
        Some(false) => {
            read_tool_trust(keys, trust);
            None
        }
        None => None,
    };
    if is_offered.is_some() && enabled.is_some() {
        keys.lacks(
            "two-spellings",
            "`tools` and `enabledTools` are the same",
            "leave one of them out",
        );
    }
    is_offered.or(enabled).unwrap_or_default()
}

/// The keys that describe the transport.
struct TransportKeys {
    command: Option<String>,
    arguments: Vec<String>,
    environment: BTreeMap<String, Secret<String>>,
    directory: Option<PathBuf>,
    own: Option<Address>,
    remote: Option<Address>,
}

fn transport_keys(keys: &mut Keys<'_, '_>) -> TransportKeys {
    const DIRECTORY: [&str; 4] = [
        "working_directory",
        "workingDirectory",
        "working_dir",
        "cwd",
    ];
    // In a toolset, `type` has the value `mcp`.
    let kind = keys.node(&["type", "transport"]);
    check_transport(keys, kind);
    let arguments = keys.texts(&["args", "arguments"]).unwrap_or_default();
    TransportKeys {
        command: keys.text(&["command"]).map(str::to_owned),
        arguments: arguments.into_iter().map(str::to_owned).collect(),
        environment: keys.variables(&["env", "environment"]),
        directory: keys.text(&DIRECTORY).map(PathBuf::from),
        own: address(keys),
        remote: keys
            .within(&["remote"], "`remote`", |keys| {
                let kind = keys.node(&["transport_type", "transportType", "type"]);
                check_transport(keys, kind);
                address(keys)
            })
            .flatten(),
    }
}

fn transport(keys: &mut Keys<'_, '_>) -> Option<McpTransport> {
    let transport_keys = transport_keys(keys);
    let command = transport_keys
        .command
        .filter(|command| !command.trim().is_empty());
    if transport_keys.own.is_some() && transport_keys.remote.is_some() {
        keys.lacks(
            "bad-value",
            "the server has two addresses: `url` and `remote`",
            "leave one of them out",
        );
    }
    match (command, transport_keys.own.or(transport_keys.remote)) {
        (Some(command), None) => Some(McpTransport::Stdio {
            command,
            arguments: transport_keys.arguments,
            environment: transport_keys.environment,
            directory: transport_keys.directory,
        }),
        (None, Some((url, headers))) => {
            let idle = transport_keys.arguments.is_empty() && transport_keys.environment.is_empty();
            if !idle || transport_keys.directory.is_some() {
                keys.lacks(
                    "bad-value",
                    "`args`, `env` and `working_directory` mean nothing for a server that is reached by `url`",
                    "leave them out, or give `headers`",
                );
            }
            Some(McpTransport::Http { url, headers })
        }
        (Some(_), Some(_)) => {
            keys.lacks(
                "bad-value",
                "the server has both `command` and an address",
                "leave one of them out",
            );
            None
        }
        (None, None) => {
            keys.lacks(
                "missing-key",
                "the server has neither `command` nor `url`",
                "add `command: …` for a program, or `url: …` for a server that runs already",
            );
            None
        }
    }
}

type Address = (Secret<String>, BTreeMap<String, Secret<String>>);

fn address(keys: &mut Keys<'_, '_>) -> Option<Address> {
    let headers = keys.variables(&["headers"]);
    let node = keys.node(&["url"])?;
    let url = keys.text(&["url"])?;
    let is_web = url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"));
    if !is_web {
        // Not shown, because it may contain a credential.
        keys.problem(
            node,
            "bad-value",
            "`url` is no http:// or https:// address",
            "write the whole address, such as `https://host/mcp`",
        );
        return None;
    }
    Some((Secret::new(url.to_owned()), headers))
}

fn check_transport(keys: &mut Keys<'_, '_>, node: Option<&Node>) {
    const KNOWN: [&str; 7] = [
        "mcp",
        "stdio",
        "http",
        "streamable",
        "streamable-http",
        "streamableHttp",
        "streamable_http",
    ];
    let Some(node) = node else { return };
    let kind = node.as_text().unwrap_or_default();
    if KNOWN.contains(&kind) {
        return;
    }
    let help = match kind {
        "sse" => {
            "the HTTP+SSE transport is superseded: use the server's address for streamable HTTP"
        }
        _ => "write `stdio` or `http`, or leave it out",
    };
    keys.problem(
        node,
        "unsupported-transport",
        format!("the transport `{kind}` is not supported"),
        help,
    );
}

/// Reads `true`, `false`, or `{ttl: …}`.
fn offer(keys: &mut Keys<'_, '_>, key: &'static str) -> OfferSettings {
    let Some(node) = keys.node(&[key]) else {
        return OfferSettings::default();
    };
    if let Some(is_offered) = node.as_boolean() {
        return OfferSettings {
            is_offered,
            lifetime: None,
        };
    }
    let what = match key {
        "resources" => "`resources`",
        _ => "`prompts`",
    };
    let lifetime = keys.within(&[key], what, |keys| keys.time(&["ttl"]));
    OfferSettings {
        is_offered: true,
        lifetime: lifetime.flatten(),
    }
}

/// Reads `tools: {search: {read_only: true, ttl: 5m}}`.
fn read_tool_trust(keys: &mut Keys<'_, '_>, trust: &mut Vec<(String, ToolTrust)>) {
    let Some(node) = keys.node(&["tools"]) else {
        return;
    };
    let Some(entries) = node.as_map() else {
        let problem = node.wrong_type(
            "`tools`",
            "a list of patterns, or a mapping of tools to what is believed of them",
        );
        keys.problems().push(problem);
        return;
    };
    for entry in entries {
        let Some(mut tool) = Keys::new(&entry.value, "a tool of an MCP server", keys.problems())
        else {
            continue;
        };
        let read_only = tool.boolean(&["read_only", "readOnly"]).unwrap_or(false);
        let lifetime = tool.time(&["ttl"]);
        if lifetime.is_some() && !read_only {
            tool.lacks(
                "bad-value",
                "`ttl` means nothing for a tool that may change things",
                "add `read_only: true`, if it changes nothing",
            );
        }
        tool.finish();
        pattern(keys, &entry.value, &entry.key);
        trust.push((
            entry.key.clone(),
            ToolTrust {
                read_only,
                lifetime,
            },
        ));
    }
}

/// Reads `trust: {read_only: [search, get_*], ttl: 5m}`.
fn trust(keys: &mut Keys<'_, '_>, trust: &mut Vec<(String, ToolTrust)>) {
    let Some(node) = keys.node(&["trust"]) else {
        return;
    };
    let read = keys.within(&["trust"], "`trust`", |keys| {
        let patterns = keys.texts(&["read_only", "readOnly"]).unwrap_or_default();
        let patterns: Vec<String> = patterns.into_iter().map(str::to_owned).collect();
        (patterns, keys.time(&["ttl"]))
    });
    let (patterns, lifetime) = read.unwrap_or_default();
    for name in patterns {
        pattern(keys, node, &name);
        let trusted = ToolTrust {
            read_only: true,
            lifetime,
        };
        trust.push((name, trusted));
    }
}

fn pattern(keys: &mut Keys<'_, '_>, node: &Node, pattern: &str) {
    if let Err(error) = globset::Glob::new(pattern) {
        keys.problem(
            node,
            "bad-pattern",
            format!("`{pattern}` is no pattern: {}", error.kind()),
            "`*` stands for any characters, `?` for one, `{a,b}` for either",
        );
    }
}
