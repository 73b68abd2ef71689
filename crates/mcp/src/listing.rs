//! Converts the tools, resources and prompts of a server to tools.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::Canonical;
use cachalot_operation::{Operation as _, Schema, object_schema};
use cachalot_tools::{CacheClass, OperationMetadata, Origin, Tool};
use globset::{Glob, GlobMatcher};
use serde_json::json;

use super::call::McpTool;
use super::catalog::{self, Catalog, RemoteTool};
use super::instructions;
use super::server_client::ServerClient;
use super::server_settings::{McpSettings, ToolTrust};
use super::tool_names::{ToolNames, ToolSource, ToolSourceKind};
use super::uri_template;

/// The tools, resources and prompts of a server at one moment.
pub struct ServerListing {
    server: Arc<ServerClient>,
    catalog: Catalog,
}

/// A tool, resource, template or prompt that can be used, before it has a name.
struct OfferedTool {
    remote: RemoteTool,
    description: String,
    read_only: bool,
    /// The time for which results may be replayed.
    lifetime: Option<Duration>,
}

impl ServerListing {
    pub(super) fn new(server: Arc<ServerClient>, catalog: Catalog) -> Self {
        Self { server, catalog }
    }

    /// Returns the server's instructions for the model: marked as the server's text, cut, and with secrets
    /// masked. `None` if there are none.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        let written = self.catalog.instructions.as_deref()?;
        let secret_set = &self.server.handler.dependencies.secret_set;
        instructions::shown(self.server.name(), &secret_set.redact(written))
    }

    /// Returns a form for comparisons.
    pub(crate) fn fingerprint(&self) -> BTreeSet<String> {
        catalog::fingerprint(&self.catalog.tools)
    }

    /// Returns the tools: those of the server, and one for each of its resources, resource templates and
    /// prompts. `selects` selects them by their names (the server's name, the same with the prefix `resource_`
    /// or `prompt_`, and the assigned name) and their description.
    pub fn tools(
        self,
        names: &mut ToolNames,
        mut selects: impl FnMut(&[&str], &OperationMetadata) -> bool,
    ) -> Vec<Arc<dyn Tool>> {
        let Self { server, catalog } = self;
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        // Names are assigned in a fixed order, independent of the order of the server's lists.
        for offered in offered_tools(&server, catalog.tools) {
            let RemoteTool { kind, id, name, .. } = &offered.remote;
            let source = ToolSource {
                server: server.name().to_owned(),
                kind: *kind,
                id: id.clone(),
            };
            let assigned = names.assign(source, name);
            let prefixed = format!("{}{name}", kind.prefix());
            let known_as = [name.clone(), prefixed, assigned.clone()];
            let tool = offered.tool(assigned, &server);
            let known_as = known_as.each_ref().map(String::as_str);
            if selects(&known_as, tool.metadata()) {
                tools.push(Arc::new(tool));
            }
        }
        tools
    }
}

impl OfferedTool {
    fn tool(self, name: String, server: &Arc<ServerClient>) -> McpTool {
        let remote = self.remote;
        let definition = json!([remote.id, self.description, remote.parameters]);
        McpTool::new(
            OperationMetadata {
                name: name.into(),
                aliases: &[],
                description: self.description.into(),
                parameters: remote.parameters.into(),
                version: 1,
                origin: Origin::Mcp(server.name().to_owned()),
                read_only: self.read_only,
                exclusive: false,
                cache_class: self.lifetime.map_or(CacheClass::Never, CacheClass::Ttl),
            },
            Arc::clone(server),
            (remote.kind, remote.id),
            remote.as_task,
            Canonical::value(&definition).digest().to_string(),
        )
    }
}

/// Returns everything that can be used, sorted by kind and by the server's identifier, without duplicates.
fn offered_tools(server: &ServerClient, catalog: Vec<RemoteTool>) -> Vec<OfferedTool> {
    let trusted = TrustRules::new(&server.settings);
    // A tool that is listed several times changes things if any of its definitions declares that.
    let mut writing_hints = BTreeMap::new();
    for remote in &catalog {
        if let Some(hint) = remote.writing_hint {
            let key = (remote.kind, remote.id.clone());
            writing_hints.entry(key).or_insert(hint);
        }
    }
    let joined = catalog.into_iter().map(|mut remote| {
        let key = (remote.kind, remote.id.clone());
        remote.writing_hint = writing_hints.get(&key).copied();
        remote
    });
    let mut offered: Vec<OfferedTool> = joined
        .filter_map(|remote| match remote.kind {
            ToolSourceKind::Tool => of_tool(remote, server, &trusted),
            _ => of_resource_or_prompt(remote, server),
        })
        .collect();
    let key = |tool: &OfferedTool| (tool.remote.kind, tool.remote.id.clone());
    // A stable sort: of tools that are listed several times, the first definition stays.
    offered.sort_by_cached_key(key);
    offered.dedup_by_key(|tool| key(tool));
    offered
}

fn of_tool(remote: RemoteTool, server: &ServerClient, trusted: &TrustRules) -> Option<OfferedTool> {
    // A provider would refuse every request with this schema.
    if let Some(why) = Schema::find_fault(&remote.parameters) {
        server.warn_once(&format!(
            "has a tool `{}` whose arguments have no usable schema, and which is left out: {why}; this is a fault of the server",
            remote.name
        ));
        return None;
    }
    let trust = trusted.trust_in(&remote, server);
    let default = || {
        let (tool, server) = (&remote.name, server.name());
        format!("The tool `{tool}` of the MCP server `{server}`.")
    };
    Some(OfferedTool {
        description: remote.description.clone().unwrap_or_else(default),
        read_only: trust.read_only,
        lifetime: trust.lifetime.filter(|_| trust.read_only),
        remote,
    })
}

fn of_resource_or_prompt(mut remote: RemoteTool, server: &ServerClient) -> Option<OfferedTool> {
    let (id, settings) = (&remote.id, &server.settings);
    let of_server = format!("of the MCP server `{}`", settings.name);
    let what = match remote.kind {
        ToolSourceKind::Prompt => {
            format!("Gives the prompt `{id}` {of_server}: a text with instructions.")
        }
        ToolSourceKind::Template => {
            format!(
                "Reads one of the resources {id} {of_server}; the arguments fill in the braces."
            )
        }
        _ => format!("Reads the resource {id} {of_server}."),
    };
    if remote.kind == ToolSourceKind::Template {
        let variables = uri_template::variables(id)
            .inspect_err(|why| {
                let name = &remote.name;
                server.warn_once(&format!(
                    "has a resource template `{name}` that cannot be used: {why}"
                ));
            })
            .ok()?;
        let variables = variables.into_iter();
        remote.parameters = object_schema(
            variables.map(|(name, required)| (name, json!({ "type": "string" }), required)),
        );
    }
    let offer = match remote.kind {
        ToolSourceKind::Prompt => settings.prompts,
        _ => settings.resources,
    };
    let description = remote.description.as_deref();
    Some(OfferedTool {
        description: match description.filter(|text| !text.trim().is_empty()) {
            Some(description) => format!("{what} {description}"),
            None => what,
        },
        read_only: true,
        lifetime: offer.lifetime,
        remote,
    })
}

impl McpSettings {
    /// Returns the configured trust in a tool. A tool that the server declares to change things is not
    /// trusted.
    #[must_use]
    pub fn trust_in(&self, tool: &str) -> ToolTrust {
        let rule = TrustRules::new(self).rule(tool).map(|rule| rule.trust);
        rule.unwrap_or_default()
    }
}

/// The configured trust in tools.
struct TrustRules(Vec<TrustRule>);

struct TrustRule {
    pattern: String,
    matcher: GlobMatcher,
    trust: ToolTrust,
}

impl TrustRules {
    /// Compiles the patterns. An invalid pattern matches nothing, which is the safe side.
    fn new(settings: &McpSettings) -> Self {
        let rules = settings.trust.iter().filter_map(|(pattern, trust)| {
            Some(TrustRule {
                matcher: Glob::new(pattern).ok()?.compile_matcher(),
                pattern: pattern.clone(),
                trust: *trust,
            })
        });
        Self(rules.collect())
    }

    /// Returns the rule for a tool of this name.
    fn rule(&self, name: &str) -> Option<&TrustRule> {
        self.0.iter().find(|rule| rule.matcher.is_match(name))
    }

    fn trust_in(&self, tool: &RemoteTool, server: &ServerClient) -> ToolTrust {
        let Some(rule) = self.rule(&tool.name) else {
            return ToolTrust::default();
        };
        if let Some(hint) = tool.writing_hint.filter(|_| rule.trust.read_only) {
            server.warn_once(&format!(
                "declares that its tool `{}` changes things (`{hint}`), though its setting `read_only` names `{}`: \
                 the tool counts as one that changes things, and its results are not cached; leave it out of `read_only`",
                tool.name, rule.pattern
            ));
            return ToolTrust::default();
        }
        rule.trust
    }
}
