//! Converts the tools, resources and prompts of a server to tools.

use std::sync::Arc;

use cachalot_core::Canonical;
use cachalot_operation::{Operation as _, Schema};
use cachalot_tools::{CacheClass, OperationMetadata, Origin, Tool};
use globset::{Glob, GlobMatcher};
use serde_json::{Map, Value, json};

use super::call::{McpTool, ToolRequest};
use super::catalog::{Prompt, RemoteTool, Resource, ServerCatalog};
use super::server_client::ServerClient;
use super::server_settings::{McpSettings, OfferSettings, ToolTrust};
use super::tool_names::{ToolNames, ToolSource, ToolSourceKind};
use super::uri_template;

/// The tools, resources and prompts of a server at one moment.
pub struct ServerListing {
    server: Arc<ServerClient>,
    catalog: ServerCatalog,
}

/// A tool, resource, template or prompt, before it has a name.
struct OfferedTool {
    kind: ToolSourceKind,
    /// The server's identifier for it.
    id: String,
    /// The server's name for it.
    name: String,
    description: String,
    parameters: Value,
    read_only: bool,
    cache_class: CacheClass,
    tool_request: ToolRequest,
}

impl ServerListing {
    pub(super) fn new(server: Arc<ServerClient>, catalog: ServerCatalog) -> Self {
        Self { server, catalog }
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
        for offered_tools in offered_tools(&server, catalog) {
            let source = ToolSource {
                server: server.name().to_owned(),
                kind: offered_tools.kind,
                id: offered_tools.id.clone(),
            };
            let name = names.assign(source, &offered_tools.name);
            let prefixed = format!("{}{}", offered_tools.kind.prefix(), offered_tools.name);
            let known_as = [offered_tools.name.clone(), prefixed, name.clone()];
            let tool = offered_tools.tool(name, &server);
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
        let definition = json!([self.id, self.description, self.parameters]);
        McpTool::new(
            OperationMetadata {
                name: name.into(),
                aliases: &[],
                description: self.description.into(),
                parameters: self.parameters.into(),
                version: 1,
                origin: Origin::Mcp(server.name().to_owned()),
                read_only: self.read_only,
                exclusive: false,
                cache_class: self.cache_class,
            },
            Arc::clone(server),
            self.tool_request,
            Canonical::value(&definition).digest().to_string(),
        )
    }
}

/// Returns everything, sorted by kind and by the server's identifier, without duplicates.
fn offered_tools(server: &ServerClient, catalog: ServerCatalog) -> Vec<OfferedTool> {
    let ServerCatalog {
        tools,
        resources,
        templates,
        prompts,
    } = catalog;
    let settings = &server.settings;
    let trusted = TrustRules::new(settings);
    let mut offered_tools: Vec<OfferedTool> = Vec::new();
    offered_tools.extend(tools.into_iter().filter_map(|tool| {
        // A provider would refuse every request with this schema.
        if let Some(why) = Schema::find_fault(&tool.parameters) {
            server.warn(&format!(
                "has a tool `{}` whose arguments have no usable schema, and which is left out: {why}; this is a fault of the server",
                tool.name
            ));
            return None;
        }
        let trust = trusted.trust_in(&tool, server);
        Some(of_tool(settings, tool, trust))
    }));
    offered_tools.extend(
        resources
            .into_iter()
            .map(|resource| of_resource(settings, resource)),
    );
    offered_tools.extend(templates.into_iter().filter_map(|template| {
        let name = template.name.clone();
        of_template(settings, template)
            .map_err(|why| {
                server.warn(&format!(
                    "has a resource template `{name}` that cannot be used: {why}"
                ));
            })
            .ok()
    }));
    offered_tools.extend(
        prompts
            .into_iter()
            .map(|prompt| of_prompt(settings, prompt)),
    );
    offered_tools.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
    offered_tools.dedup_by(|a, b| (a.kind, &a.id) == (b.kind, &b.id));
    offered_tools
}

fn of_tool(settings: &McpSettings, tool: RemoteTool, trust: ToolTrust) -> OfferedTool {
    OfferedTool {
        kind: ToolSourceKind::Tool,
        id: tool.name.clone(),
        description: tool.description.unwrap_or_else(|| {
            format!(
                "The tool `{}` of the MCP server `{}`.",
                tool.name, settings.name
            )
        }),
        parameters: tool.parameters,
        read_only: trust.read_only,
        cache_class: cache_class(trust.lifetime.filter(|_| trust.read_only)),
        tool_request: ToolRequest::Call {
            name: tool.name.clone(),
        },
        name: tool.name,
    }
}

fn of_resource(settings: &McpSettings, resource: Resource) -> OfferedTool {
    OfferedTool {
        kind: ToolSourceKind::Resource,
        id: resource.uri.clone(),
        description: describe(
            format!(
                "Reads the resource {} of the MCP server `{}`.",
                resource.uri, settings.name
            ),
            resource.description,
        ),
        parameters: parameters([]),
        read_only: true,
        cache_class: stated(settings.resources),
        tool_request: ToolRequest::Read { uri: resource.uri },
        name: resource.name,
    }
}

fn of_template(settings: &McpSettings, template: Resource) -> Result<OfferedTool, String> {
    let variables = uri_template::variables(&template.uri)?.into_iter();
    let arguments = variables.map(|(name, required)| (name, json!({ "type": "string" }), required));
    Ok(OfferedTool {
        kind: ToolSourceKind::Template,
        id: template.uri.clone(),
        description: describe(
            format!(
                "Reads one of the resources {} of the MCP server `{}`; the arguments fill in the braces.",
                template.uri, settings.name
            ),
            template.description,
        ),
        parameters: parameters(arguments),
        read_only: true,
        cache_class: stated(settings.resources),
        tool_request: ToolRequest::Expand {
            template: template.uri,
        },
        name: template.name,
    })
}

fn of_prompt(settings: &McpSettings, prompt: Prompt) -> OfferedTool {
    let arguments = prompt.arguments.into_iter().map(|argument| {
        let mut schema = json!({ "type": "string" });
        if let Some(description) = argument.description {
            schema["description"] = description.into();
        }
        (argument.name, schema, argument.required)
    });
    OfferedTool {
        kind: ToolSourceKind::Prompt,
        id: prompt.name.clone(),
        description: describe(
            format!(
                "Gives the prompt `{}` of the MCP server `{}`: a text with instructions.",
                prompt.name, settings.name
            ),
            prompt.description,
        ),
        parameters: parameters(arguments),
        read_only: true,
        cache_class: stated(settings.prompts),
        tool_request: ToolRequest::Prompt {
            name: prompt.name.clone(),
        },
        name: prompt.name,
    }
}

fn describe(what: String, description: Option<String>) -> String {
    match description.filter(|text| !text.trim().is_empty()) {
        Some(description) => format!("{what} {description}"),
        None => what,
    }
}

/// Returns the schema of arguments, each of which has a name, a schema, and may be required.
fn parameters(arguments: impl IntoIterator<Item = (String, Value, bool)>) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, schema, is_required) in arguments {
        if is_required {
            required.push(name.clone());
        }
        properties.insert(name, schema);
    }
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn stated(offer: OfferSettings) -> CacheClass {
    cache_class(offer.lifetime)
}

fn cache_class(lifetime: Option<std::time::Duration>) -> CacheClass {
    lifetime.map_or(CacheClass::Never, CacheClass::Ttl)
}

impl McpSettings {
    /// Returns the configured trust in a tool. A tool that the server declares destructive is not trusted.
    #[must_use]
    pub fn trust_in(&self, tool: &str) -> ToolTrust {
        TrustRules::new(self).by_name(tool)
    }
}

/// The configured trust in tools.
struct TrustRules(Vec<(GlobMatcher, ToolTrust)>);

impl TrustRules {
    /// Compiles the patterns. An invalid pattern matches nothing, which is the safe side.
    fn new(settings: &McpSettings) -> Self {
        let patterns = settings.trust.iter();
        Self(
            patterns
                .filter_map(|(pattern, trust)| {
                    Some((Glob::new(pattern).ok()?.compile_matcher(), *trust))
                })
                .collect(),
        )
    }

    /// Returns the trust in a tool of this name.
    fn by_name(&self, name: &str) -> ToolTrust {
        self.0
            .iter()
            .find(|(pattern, _)| pattern.is_match(name))
            .map_or_else(ToolTrust::default, |(_, trust)| *trust)
    }

    fn trust_in(&self, tool: &RemoteTool, server: &ServerClient) -> ToolTrust {
        let trust = self.by_name(&tool.name);
        if trust.read_only && tool.destructive {
            server.warn(&format!(
                "calls its tool `{}` destructive, though it is configured as read-only: it is not taken as read-only",
                tool.name
            ));
            return ToolTrust::default();
        }
        trust
    }
}
