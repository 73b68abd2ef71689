//! Settings of MCP servers: `mcps` of an agent file, `mcpServers` of JSON, and toolsets of `type: mcp`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cachalot_core::config::{
    Custom, Literal, Parameter, ParameterKind as Kind, Table, Values, key, no_effect,
};
use cachalot_core::tree::{Node, expand_set, unset_variables};
use cachalot_core::{Problem, Secret};
use cachalot_tools::filter::NameFilter;
use serde_json::json;

use super::docker_server;
use super::kinds::{PATTERNS, SIZE, TIME, VARIABLES, check_patterns, filter, problem, variables};
use crate::{McpSettings, McpTransport, OfferSettings, ToolTrust};

/// The kind of a transport. In a toolset, `type` has the value `mcp`.
const TRANSPORT: Kind = Kind::Custom(&Custom {
    schema: Some(|| json!({ "enum": TRANSPORTS })),
    check: |entry, problems| {
        let kind = entry.value.as_text().unwrap_or_default();
        if TRANSPORTS.contains(&kind) {
            return;
        }
        let help = match kind {
            "sse" => {
                "the HTTP+SSE transport is superseded: use the server's address for streamable HTTP"
            }
            _ => "write `stdio` or `http`, or leave it out",
        };
        let message = format!("the transport `{kind}` is not supported");
        let found = problem(&entry.value, "unsupported-transport", message, help);
        // Most servers of this transport speak the newer one at the same address.
        problems.push(Problem {
            is_warning: kind == "sse",
            ..found
        });
    },
});

const TRANSPORTS: [&str; 7] = [
    "mcp",
    "stdio",
    "http",
    "streamable",
    "streamable-http",
    "streamableHttp",
    "streamable_http",
];

const URL: Kind = Kind::Custom(&Custom {
    schema: Some(|| Kind::Text.schema(false)),
    check: |entry, problems| {
        Kind::Text.check(entry, problems);
        if entry.value.as_text().is_some_and(|url| !is_web(url)) {
            // Not shown, because it may contain a credential.
            problems.push(problem(
                &entry.value,
                "bad-value",
                "`url` is no http:// or https:// address",
                "write the whole address, such as `https://host/mcp`",
            ));
        }
    },
});

fn is_web(url: &str) -> bool {
    // A variable that is not set was reported before, and the server is not started.
    url.contains("${")
        || url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

pub(super) const ADDRESS: &[Parameter] = &[
    key(
        "url",
        URL,
        "The address of a server that is reached over streamable HTTP.",
    ),
    key("headers", VARIABLES, "Headers of every request to `url`."),
];

static REMOTE: Table = Table::new(
    "`remote`",
    "`url` and `headers` in a mapping of their own.",
    &[
        ADDRESS,
        &[key("transport_type", TRANSPORT, "The transport: `http`.")
            .with_aliases(&["transportType", "type"])],
        &[no_effect(
            "oauth",
            "a program cannot sign in: give the server a token in `headers`",
        )],
    ],
);

/// `true`, `false`, or a mapping with the keys of [`OFFER`].
const OFFERED: Kind = Kind::Custom(&Custom {
    schema: Some(|| json!({ "anyOf": [{ "type": "boolean" }, OFFER.schema(true)] })),
    check: |entry, problems| {
        if entry.value.as_boolean().is_none() {
            OFFER.read(&entry.value, problems);
        }
    },
});

static OFFER: Table = Table::new(
    "`resources` or `prompts`",
    "",
    &[&[key(
        "ttl",
        TIME,
        "How long they may be served from the cache.",
    )]],
);

/// A list of patterns, or a mapping of patterns to the trust in these tools.
const TOOLS: Kind = Kind::Custom(&Custom {
    schema: Some(|| {
        let trust = json!({ "type": "object", "additionalProperties": TOOL_TRUST.schema(true) });
        json!({ "anyOf": [PATTERNS.schema(true), trust] })
    }),
    check: |section, problems| {
        if section.value.as_list().is_some() {
            return PATTERNS.check(section, problems);
        }
        let Some(entries) = section.value.as_map() else {
            let expected = "a list of patterns, or a mapping of tools to what is believed of them";
            return problems.push(section.value.wrong_type("`tools`", expected));
        };
        for entry in entries {
            let Some(tool) = TOOL_TRUST.read(&entry.value, problems) else {
                continue;
            };
            if tool.node("ttl").is_some() && tool.boolean("read_only") != Some(true) {
                problems.push(problem(
                    &entry.value,
                    "bad-value",
                    "`ttl` means nothing for a tool that may change things",
                    "add `read_only: true`, if it changes nothing",
                ));
            }
            problems.extend(check_patterns(&[entry.key.as_str()], &entry.value, "tools"));
        }
    },
});

static TOOL_TRUST: Table = Table::new(
    "a tool of an MCP server",
    "",
    &[&[
        key(
            "read_only",
            Kind::Boolean,
            "Set for a tool that changes nothing.",
        )
        .with_aliases(&["readOnly"]),
        TRUSTED_TTL,
    ]],
);

const TRUSTED_TTL: Parameter = key(
    "ttl",
    TIME,
    "How long results may be served from the cache.",
);

static TRUST: Table = Table::new(
    "`trust`",
    "",
    &[&[
        key(
            "read_only",
            PATTERNS,
            "Patterns of tools that change nothing.",
        )
        .with_aliases(&["readOnly"]),
        TRUSTED_TTL,
    ]],
);

#[rustfmt::skip]
pub(super) const SERVER_KEYS: &[Parameter] = &[
    no_effect("version", "install the program, so that it is found in PATH: nothing is installed automatically"),
    no_effect("allow_private_ips", "the address in the file is reached, wherever it is"),
    key("command", Kind::Text, "A program to start; messages are exchanged over its standard input and output."),
    key("args", Kind::Texts, "The arguments of the program.").with_aliases(&["arguments"]),
    key("env", VARIABLES, "Environment variables of the program.").with_aliases(&["environment"]),
    key("working_directory", Kind::Text, "The working directory of the program.").with_aliases(&["workingDirectory", "working_dir", "cwd"]),
    key("remote", Kind::Table(&REMOTE), ""),
    key("type", TRANSPORT, "The transport: `stdio` or `http`. Not needed.").with_aliases(&["transport"]),
    key("timeout", TIME, "The maximum duration of a call. A progress notification of the server restarts it.").default(Literal::Text("60s")).with_aliases(&["toolTimeout", "tool_timeout"]),
    key("max_timeout", TIME, "The maximum total duration of a call, regardless of progress notifications.").default(Literal::Text("10m")).with_aliases(&["maxTimeout"]),
    key("startup_timeout", TIME, "The maximum duration of the start.").default(Literal::Text("60s")).with_aliases(&["startupTimeout"]),
    key("required", Kind::Boolean, "Makes the start of the agent fail if the server does not start; otherwise that causes a warning.").default(Literal::Boolean(false)),
    key("max_output", SIZE, "The approximate maximum of text that is shown of an answer, in bytes.").default(Literal::Integer(100_000)).with_aliases(&["maxOutput"]),
    key("max_message", SIZE, "The maximum size of a message from the server in bytes, including pictures; a larger message is dropped, and the call that it answers fails immediately.").default(Literal::Integer(16 << 20)).with_aliases(&["maxMessage"]),
    key("tools", TOOLS, "Patterns of the tools to use; or trusted properties of tools: `{search: {read_only: true, ttl: 5m}}`."),
    key("enabledTools", PATTERNS, "Patterns of the tools to use, like `tools`.").with_aliases(&["enabled_tools"]),
    key("trust", Kind::Table(&TRUST), "Tools that change nothing: `read_only`, a list of patterns, and `ttl`, how long their results may be served from the cache. Tools of a server on another machine still require approval."),
    key("resources", OFFERED, "`false` omits the resources; `{ttl: 1h}` sets how long they may be served from the cache."),
    key("prompts", OFFERED, "`false` omits the prompts; `{ttl: 1h}` sets how long they may be served from the cache."),
];

/// The keys of a server in `mcps`.
pub static SERVER: Table = Table::new(
    "an MCP server",
    "An MCP server.",
    &[
        ADDRESS,
        SERVER_KEYS,
        &[key(
            "ref",
            Kind::Text,
            "`docker:NAME`: a server of Docker's MCP catalog, in place of `command` and `url`.",
        )],
        OF_OTHERS,
    ],
);

/// Keys of servers in docker-agent that change nothing here.
#[rustfmt::skip]
const OF_OTHERS: &[Parameter] = &[
    no_effect("instruction", "write it into the `instruction` of the agents"),
    no_effect("config", "configure the server with `docker mcp config`, or its `env`"),
    no_effect("lifecycle", "`startup_timeout` and `required` of a server decide about its start"),
    no_effect("defer", "the model is shown all tools, which the provider keeps in its cache"),
    no_effect("toon", "results are shown to the model as the tool returns them"),
];

/// The definition of a server, and the selection of its tools.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerDefinition {
    /// The server.
    pub settings: McpSettings,
    /// Selects its tools, resources and prompts.
    pub filter: NameFilter,
    /// Environment variables that it needs and that are not set. It is not started.
    pub unset: Vec<String>,
}

/// Reads the mapping of MCP servers by name: `mcps` of an agent file, or `mcpServers` in JSON, whose keys are
/// in camelCase. The keys of a server are those of [`SERVER`]. Environment variables in its texts are
/// expanded.
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
        let expanded = expand_set(&entry.value, None, environment, problems);
        if let Some(values) = SERVER.read(&expanded, problems)
            && let Some(mut definition) = definition(&entry.key, values, problems)
        {
            definition.unset = unset_variables(&entry.value, environment);
            servers.insert(entry.key.clone(), definition);
        }
    }
    servers
}

/// Returns the server of a mapping with the keys of a server.
pub(super) fn definition(
    name: &str,
    values: Values<'_>,
    problems: &mut Vec<Problem>,
) -> Option<ServerDefinition> {
    let filter = selection(values, problems);
    let of_catalog = catalog_server(name, values, problems);
    let mut settings = match of_catalog {
        Some(settings) => settings,
        None => McpSettings::new(name, transport(values, problems)?),
    };
    settings.timeout = values.duration("timeout").unwrap_or(settings.timeout);
    settings.startup_timeout = values
        .duration("startup_timeout")
        .unwrap_or(settings.startup_timeout);
    settings.max_timeout = values
        .duration("max_timeout")
        .unwrap_or(settings.max_timeout);
    settings.message_limit = values
        .integer("max_message")
        .unwrap_or(settings.message_limit);
    settings.output_limit = values
        .integer("max_output")
        .unwrap_or(settings.output_limit);
    settings.required = values.boolean("required").unwrap_or_default();
    settings.resources = offer(values, "resources");
    settings.prompts = offer(values, "prompts");
    settings.trust = trust(values);
    Some(ServerDefinition {
        settings,
        filter,
        unset: Vec::new(),
    })
}

/// Returns the server of Docker's catalog that `ref` names. A toolset has no such key here.
fn catalog_server(
    name: &str,
    values: Values<'_>,
    problems: &mut Vec<Problem>,
) -> Option<McpSettings> {
    let node = values.mapping().get("ref")?;
    let server = docker_server::settings(node.as_text()?, variables(values, "env"));
    if server.is_none() {
        let message = "`ref` of a server does not begin with `docker:`";
        let help = "write `docker:NAME`, or the `command` or `url` of the server";
        problems.push(problem(node, "unknown-server", message, help));
    }
    let name = name.to_owned();
    server.map(|server| McpSettings { name, ..server })
}

/// Returns the patterns in `tools` or `enabledTools`.
fn selection(values: Values<'_>, problems: &mut Vec<Problem>) -> NameFilter {
    let tools = filter(values, "tools");
    let enabled = filter(values, "enabledTools");
    if tools.is_some() && enabled.is_some() {
        problems.push(problem(
            values.mapping(),
            "two-spellings",
            "`tools` and `enabledTools` are the same",
            "leave one of them out",
        ));
    }
    tools.or(enabled).unwrap_or_default()
}

fn transport(values: Values<'_>, problems: &mut Vec<Problem>) -> Option<McpTransport> {
    let command = values.string("command");
    let command = command.filter(|command| !command.trim().is_empty());
    let arguments = values.texts("args").unwrap_or_default();
    let environment = variables(values, "env");
    let directory = values.text("working_directory").map(PathBuf::from);
    let own = address(values);
    let remote = values.table("remote").and_then(address);
    let mut report = |code, message: &str, help: &str| {
        problems.push(problem(values.mapping(), code, message, help));
    };
    if own.is_some() && remote.is_some() {
        report(
            "bad-value",
            "the server has two addresses: `url` and `remote`",
            "leave one of them out",
        );
    }
    match (command, own.or(remote)) {
        (Some(command), None) => Some(McpTransport::Stdio {
            command,
            arguments,
            environment,
            directory,
        }),
        (None, Some((url, headers))) => {
            if !arguments.is_empty() || !environment.is_empty() || directory.is_some() {
                report(
                    "bad-value",
                    "`args`, `env` and `working_directory` mean nothing for a server that is reached by `url`",
                    "leave them out, or give `headers`",
                );
            }
            Some(McpTransport::Http { url, headers })
        }
        (Some(_), Some(_)) => {
            report(
                "bad-value",
                "the server has both `command` and an address",
                "leave one of them out",
            );
            None
        }
        (None, None) => {
            report(
                "missing-key",
                "the server has neither `command` nor `url`",
                "add `command: …` for a program, or `url: …` for a server that runs already",
            );
            None
        }
    }
}

type Address = (Secret<String>, BTreeMap<String, Secret<String>>);

fn address(values: Values<'_>) -> Option<Address> {
    let url = values.text("url").filter(|url| is_web(url))?;
    Some((Secret::new(url.to_owned()), variables(values, "headers")))
}

fn offer(values: Values<'_>, key: &str) -> OfferSettings {
    OfferSettings {
        is_offered: values.boolean(key).unwrap_or(true),
        lifetime: values
            .node(key)
            .and_then(|node| OFFER.values(node)?.duration("ttl")),
    }
}

/// Returns the trust in `tools` and in `trust`, in this order.
fn trust(values: Values<'_>) -> Vec<(String, ToolTrust)> {
    let by_tool = values.map("tools").iter().filter_map(|entry| {
        let tool = TOOL_TRUST.values(&entry.value)?;
        let trust = ToolTrust {
            read_only: tool.boolean("read_only").unwrap_or_default(),
            lifetime: tool.duration("ttl"),
        };
        Some((entry.key.clone(), trust))
    });
    let by_pattern = values.table("trust").into_iter().flat_map(|trust| {
        let lifetime = trust.duration("ttl");
        let patterns = trust.texts("read_only").unwrap_or_default();
        patterns.into_iter().map(move |pattern| {
            let read_only = true;
            (
                pattern,
                ToolTrust {
                    read_only,
                    lifetime,
                },
            )
        })
    });
    by_tool.chain(by_pattern).collect()
}
