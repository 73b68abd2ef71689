//! Settings of MCP servers: `mcps` of an agent file, `mcpServers` of JSON, and toolsets of `type: mcp`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cachalot_core::config::{
    Custom, Located, Parameter, ParameterKind as Kind, SettingValue, Settings, Table, Values,
    no_effect,
};
use cachalot_core::tree::{MapEntry, Node, expand_set, unset_variables};
use cachalot_core::{Problem, Secret};
use cachalot_tools::filter::{NameFilter, check_patterns};
use serde_json::json;

use super::docker_server;
use super::shared_keys::problem;
use crate::server_settings::McpLimits;
use crate::{McpSettings, McpTransport, OfferSettings, ToolTrust};

/// The keys of a server in `mcps`.
pub const SERVER: &Table = ServerOfFile::TABLE;

/// An MCP server.
#[derive(Debug, Settings)]
#[settings(name = "an MCP server", also = OF_OTHERS)]
struct ServerOfFile {
    #[setting(flatten)]
    server: ServerKeys,
    /// `docker:NAME`: a server of Docker's MCP catalog, in place of `command` and `url`.
    #[setting(key = "ref")]
    reference: Option<Located<String>>,
}

/// The keys of a server, wherever it is defined.
#[derive(Debug, Settings)]
#[settings(name = "an MCP server", default, check = check_enabled_tools)]
pub(super) struct ServerKeys {
    #[setting(flatten)]
    address: Address,
    /// A program to start; messages are exchanged over its standard input and output.
    command: Option<String>,
    /// The arguments of the program.
    #[setting(alias = "arguments")]
    args: Vec<String>,
    /// Environment variables of the program.
    #[setting(alias = "environment")]
    env: BTreeMap<String, Secret<String>>,
    /// The working directory of the program.
    #[setting(alias = "workingDirectory", alias = "working_dir", alias = "cwd")]
    working_directory: Option<PathBuf>,
    remote: Option<Remote>,
    /// The transport: `stdio` or `http`. Not needed.
    #[setting(key = "type", alias = "transport", kind = Kind::Custom(&TRANSPORT))]
    _transport: Option<String>,
    #[setting(flatten)]
    limits: McpLimits,
    /// Patterns of the tools to use; or trusted properties of tools: `{search: {read_only: true, ttl: 5m}}`.
    tools: Option<ToolChoice>,
    /// Patterns of the tools to use, like `tools`.
    #[setting(key = "enabledTools", alias = "enabled_tools")]
    enabled_tools: Option<NameFilter>,
    /// Tools that change nothing: `read_only`, a list of patterns, and `ttl`, how long their results may be served from
    /// the cache. Tools of a server on another machine still require approval.
    trust: Option<TrustedPatterns>,
    /// `false` omits the resources; `{ttl: 1h}` sets how long they may be served from the cache.
    #[setting(default)]
    resources: OfferSettings,
    /// `false` omits the prompts; `{ttl: 1h}` sets how long they may be served from the cache.
    #[setting(default)]
    prompts: OfferSettings,
}

/// The address of a server.
#[derive(Debug, Default, Settings)]
#[settings(name = "an address")]
struct Address {
    /// The address of a server that is reached over streamable HTTP.
    #[setting(kind = Kind::Custom(&URL))]
    url: Option<Secret<String>>,
    /// Headers of every request to `url`.
    headers: BTreeMap<String, Secret<String>>,
}

/// `url` and `headers` in a mapping of their own.
#[derive(Debug, Settings)]
#[settings(name = "`remote`", also = REMOTE_KEYS_OF_OTHERS)]
struct Remote {
    #[setting(flatten)]
    address: Address,
    /// The transport: `http`.
    #[setting(
        key = "transport_type",
        alias = "transportType",
        alias = "type",
        kind = Kind::Custom(&TRANSPORT)
    )]
    _transport: Option<String>,
}

/// The trust in tools by patterns.
#[derive(Debug, Settings)]
#[settings(name = "`trust`", sentence = "")]
struct TrustedPatterns {
    /// Patterns of tools that change nothing.
    #[setting(alias = "readOnly", kind = NameFilter::KIND)]
    read_only: Vec<String>,
    /// How long results may be served from the cache.
    #[setting(key = "ttl")]
    lifetime: Option<Duration>,
}

/// A mapping of `resources` or `prompts`.
#[derive(Debug, Settings)]
#[settings(name = "`resources` or `prompts`", sentence = "")]
struct OfferKeys {
    /// How long they may be served from the cache.
    #[setting(key = "ttl")]
    lifetime: Option<Duration>,
}

/// `tools` of a server.
#[derive(Debug)]
enum ToolChoice {
    /// Those whose names match.
    Matching(NameFilter),
    /// All of them, with the trust in those whose names match a pattern.
    All(Vec<(String, ToolTrust)>),
}

/// Keys of servers in docker-agent that change nothing here, wherever the server is defined.
#[rustfmt::skip]
pub(super) const SERVER_KEYS_OF_OTHERS: &[Parameter] = &[
    no_effect("version", "install the program, so that it is found in PATH: nothing is installed automatically"),
    no_effect("allow_private_ips", "the address in the file is reached, wherever it is"),
];

/// Keys of servers in docker-agent that change nothing here.
#[rustfmt::skip]
const OF_OTHERS: &[Parameter] = &[
    SERVER_KEYS_OF_OTHERS[0],
    SERVER_KEYS_OF_OTHERS[1],
    no_effect("instruction", "write it into the `instruction` of the agents"),
    no_effect("config", "configure the server with `docker mcp config`, or its `env`"),
    no_effect("lifecycle", "`startup_timeout` and `required` of a server decide about its start"),
    no_effect("defer", "the model is shown all tools, which the provider keeps in its cache"),
    no_effect("toon", "results are shown to the model as the tool returns them"),
];

const REMOTE_KEYS_OF_OTHERS: &[Parameter] = &[no_effect(
    "oauth",
    "log in once with `cachalot mcp login URL`, or give the server a token in `headers`",
)];

/// The kind of a transport. In a toolset, `type` has the value `mcp`.
static TRANSPORT: Custom = Custom {
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
};

const TRANSPORTS: [&str; 7] = [
    "mcp",
    "stdio",
    "http",
    "streamable",
    "streamable-http",
    "streamableHttp",
    "streamable_http",
];

static URL: Custom = Custom {
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
};

fn is_web(url: &str) -> bool {
    // A variable that is not set was reported before, and the server is not started.
    url.contains("${")
        || url::Url::parse(url).is_ok_and(|url| matches!(url.scheme(), "http" | "https"))
}

/// `true`, `false`, or a mapping.
impl SettingValue for OfferSettings {
    const KIND: Kind = Kind::Custom(&OFFERED);

    fn from_node(node: &Node, _: Kind, problems: &mut Vec<Problem>) -> Option<Self> {
        if let Some(is_offered) = node.as_boolean() {
            let default = Self::default();
            return Some(Self {
                is_offered,
                ..default
            });
        }
        let keys = OfferKeys::from_node(node, OfferKeys::KIND, problems)?;
        Some(Self {
            is_offered: true,
            lifetime: keys.lifetime,
        })
    }
}

static OFFERED: Custom = Custom {
    schema: Some(|| json!({ "anyOf": [{ "type": "boolean" }, OfferKeys::TABLE.schema(true)] })),
    check: |entry, problems| {
        if entry.value.as_boolean().is_none() {
            OfferKeys::TABLE.read(&entry.value, problems);
        }
    },
};

/// A list of patterns, or a mapping of patterns to the trust in these tools.
impl SettingValue for ToolChoice {
    const KIND: Kind = Kind::Custom(&TOOLS);

    fn from_node(node: &Node, _: Kind, problems: &mut Vec<Problem>) -> Option<Self> {
        let Some(entries) = node.as_map() else {
            return NameFilter::from_node(node, NameFilter::KIND, problems).map(Self::Matching);
        };
        let mut trust = |entry: &MapEntry| {
            let trust = ToolTrust::from_node(&entry.value, ToolTrust::KIND, problems)?;
            Some((entry.key.clone(), trust))
        };
        Some(Self::All(entries.iter().filter_map(&mut trust).collect()))
    }
}

static TOOLS: Custom = Custom {
    schema: Some(|| {
        let trust =
            json!({ "type": "object", "additionalProperties": ToolTrust::TABLE.schema(true) });
        json!({ "anyOf": [NameFilter::KIND.schema(true), trust] })
    }),
    check: |section, problems| {
        if section.value.as_list().is_some() {
            return NameFilter::KIND.check(section, problems);
        }
        let Some(entries) = section.value.as_map() else {
            let expected = "a list of patterns, or a mapping of tools to what is believed of them";
            return problems.push(section.value.wrong_type("`tools`", expected));
        };
        for entry in entries {
            let Some(values) = ToolTrust::TABLE.read(&entry.value, problems) else {
                continue;
            };
            let trust = ToolTrust::from_values(values, problems).unwrap_or_default();
            if values.node("ttl").is_some() && !trust.read_only {
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
};

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
        let keys = ServerOfFile::read(&expanded, problems);
        let definition = keys.and_then(|ServerOfFile { server, reference }| {
            let of_catalog = reference.and_then(|reference| {
                let found = server.of_catalog(&reference.value);
                if found.is_none() {
                    let message = "`ref` of a server does not begin with `docker:`";
                    let help = "write `docker:NAME`, or the `command` or `url` of the server";
                    let problem = Problem::new("unknown-server", message).at(&reference.place);
                    problems.push(problem.help(help));
                }
                found
            });
            server.definition(&entry.key, of_catalog, &expanded, problems)
        });
        if let Some(mut definition) = definition {
            definition.unset = unset_variables(&entry.value, environment);
            servers.insert(entry.key.clone(), definition);
        }
    }
    servers
}

fn check_enabled_tools(keys: &ServerKeys, values: Values<'_>, problems: &mut Vec<Problem>) {
    if let (Some(ToolChoice::Matching(_)), Some(_)) = (&keys.tools, &keys.enabled_tools) {
        problems.push(problem(
            values.mapping(),
            "two-spellings",
            "`tools` and `enabledTools` are the same",
            "leave one of them out",
        ));
    }
}

impl ServerKeys {
    /// Returns the server of Docker's catalog that `ref` names.
    fn of_catalog(&self, reference: &str) -> Option<McpTransport> {
        docker_server::settings(reference, self.env.clone()).map(|server| server.transport)
    }

    /// Returns the server. `mapping` is that of its keys.
    pub(super) fn definition(
        self,
        name: &str,
        of_catalog: Option<McpTransport>,
        mapping: &Node,
        problems: &mut Vec<Problem>,
    ) -> Option<ServerDefinition> {
        let (patterns, mut trust) = match self.tools {
            Some(ToolChoice::Matching(patterns)) => (Some(patterns), Vec::new()),
            Some(ToolChoice::All(trust)) => (None, trust),
            None => (None, Vec::new()),
        };
        trust.extend(self.trust.into_iter().flat_map(TrustedPatterns::by_pattern));
        let program = Program {
            command: self.command,
            arguments: self.args,
            environment: self.env,
            directory: self.working_directory,
        };
        let remote = self.remote.map(|remote| remote.address);
        let transport =
            of_catalog.or_else(|| program.or_address(self.address, remote, mapping, problems))?;
        Some(ServerDefinition {
            settings: McpSettings {
                limits: self.limits,
                resources: self.resources,
                prompts: self.prompts,
                trust,
                ..McpSettings::new(name, transport)
            },
            filter: patterns.or(self.enabled_tools).unwrap_or_default(),
            unset: Vec::new(),
        })
    }
}

impl TrustedPatterns {
    fn by_pattern(self) -> impl Iterator<Item = (String, ToolTrust)> {
        let trust = ToolTrust {
            read_only: true,
            lifetime: self.lifetime,
        };
        let patterns = self.read_only.into_iter();
        patterns.map(move |pattern| (pattern, trust))
    }
}

impl Address {
    fn transport(self) -> Option<McpTransport> {
        let url = self.url.filter(|url| is_web(url.expose()))?;
        let headers = self.headers;
        Some(McpTransport::Http { url, headers })
    }
}

/// The keys of a server that is a program.
struct Program {
    command: Option<String>,
    arguments: Vec<String>,
    environment: BTreeMap<String, Secret<String>>,
    directory: Option<PathBuf>,
}

impl Program {
    /// Returns the transport to the program, or to the address if there is no program.
    fn or_address(
        self,
        own: Address,
        remote: Option<Address>,
        mapping: &Node,
        problems: &mut Vec<Problem>,
    ) -> Option<McpTransport> {
        let command = self.command.filter(|command| !command.trim().is_empty());
        let own = own.transport();
        let remote = remote.and_then(Address::transport);
        let mut report = |code, message: &str, help: &str| {
            problems.push(problem(mapping, code, message, help));
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
                arguments: self.arguments,
                environment: self.environment,
                directory: self.directory,
            }),
            (None, Some(address)) => {
                if !self.arguments.is_empty()
                    || !self.environment.is_empty()
                    || self.directory.is_some()
                {
                    report(
                        "bad-value",
                        "`args`, `env` and `working_directory` mean nothing for a server that is reached by `url`",
                        "leave them out, or give `headers`",
                    );
                }
                Some(address)
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
}
