//! Converts the tools, resources and prompts of a server to tools.

use std::sync::Arc;

use cachalot_core::Canonical;
use globset::{Glob, GlobMatcher};
use serde_json::{Map, Value, json};

use super::call::{McpTool, Work};
use super::catalogue::{Catalogue, Prompt, RemoteTool, Resource, Template};
use super::names::{Kind, Names, Source};
use super::settings::{McpSettings, Offer, Trust};
use super::{McpServer, template};
use crate::arguments::Schema;
use crate::tool::{About, CacheClass, Origin, Tool};

/// The tools, resources and prompts of a server at one moment.
pub struct Listing {
    server: McpServer,
    catalogue: Catalogue,
}

/// A tool, resource, template or prompt, before it has a name.
struct Offered {
    kind: Kind,
    /// The server's identifier for it.
    id: String,
    /// The server's name for it.
    name: String,
    description: String,
    parameters: Value,
    read_only: bool,
    class: CacheClass,
    work: Work,
}

impl Listing {
    pub(super) fn new(server: McpServer, catalogue: Catalogue) -> Self {
        Self { server, catalogue }
    }

    /// Returns the tools: those of the server, and one for each of its resources, resource templates and
    /// prompts. `takes` selects them by their names (the server's name, the same with the prefix `resource_`
    /// or `prompt_`, and the assigned name) and their description.
    pub fn tools(
        self,
        names: &mut Names,
        takes: impl Fn(&[&str], &About) -> bool,
    ) -> Vec<Arc<dyn Tool>> {
        let Self { server, catalogue } = self;
        let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
        // Names are assigned in a fixed order, independent of the order of the server's lists.
        for offered in offered(&server, catalogue) {
            let source = Source {
                server: server.name().to_owned(),
                kind: offered.kind,
                id: offered.id.clone(),
            };
            let name = names.give(source, &offered.name);
            let prefixed = format!("{}{}", offered.kind.prefix(), offered.name);
            let known_as = [offered.name.clone(), prefixed, name.clone()];
            let tool = offered.tool(name, &server);
            let known_as = known_as.each_ref().map(String::as_str);
            if takes(&known_as, tool.about()) {
                tools.push(Arc::new(tool));
            }
        }
        tools
    }
}

impl Offered {
    fn tool(self, name: String, server: &McpServer) -> McpTool {
        let definition = json!([self.id, self.description, self.parameters]);
        McpTool::new(
            About {
                name,
                description: self.description,
                parameters: self.parameters,
                version: 1,
                origin: Origin::Mcp(server.name().to_owned()),
                read_only: self.read_only,
                exclusive: false,
                class: self.class,
            },
            server.clone(),
            self.work,
            Canonical::value(&definition).digest().to_string(),
        )
    }
}

/// Returns everything, sorted by kind and by the server's identifier, without duplicates.
fn offered(server: &McpServer, catalogue: Catalogue) -> Vec<Offered> {
    let Catalogue {
        tools,
        resources,
        templates,
        prompts,
    } = catalogue;
    let settings = server.settings();
    let trusted = Trusted::of(settings);
    let mut offered: Vec<Offered> = Vec::new();
    offered.extend(tools.into_iter().filter_map(|tool| {
        // A provider would refuse every request with this schema.
        if let Some(why) = Schema::fault(&tool.parameters) {
            server.warn(&format!(
                "has a tool `{}` whose arguments have no usable schema, and which is left out: {why}; this is a fault of the server",
                tool.name
            ));
            return None;
        }
        let trust = trusted.in_tool(&tool, server);
        Some(of_tool(settings, tool, trust))
    }));
    offered.extend(
        resources
            .into_iter()
            .map(|resource| of_resource(settings, resource)),
    );
    offered.extend(templates.into_iter().filter_map(|template| {
        let name = template.name.clone();
        of_template(settings, template)
            .map_err(|why| {
                server.warn(&format!(
                    "has a resource template `{name}` that cannot be used: {why}"
                ));
            })
            .ok()
    }));
    offered.extend(
        prompts
            .into_iter()
            .map(|prompt| of_prompt(settings, prompt)),
    );
    offered.sort_by(|a, b| (a.kind, &a.id).cmp(&(b.kind, &b.id)));
    offered.dedup_by(|a, b| (a.kind, &a.id) == (b.kind, &b.id));
    offered
}

fn of_tool(settings: &McpSettings, tool: RemoteTool, trust: Trust) -> Offered {
    Offered {
        kind: Kind::Tool,
        id: tool.name.clone(),
        description: tool.description.unwrap_or_else(|| {
            format!(
                "The tool `{}` of the MCP server `{}`.",
                tool.name, settings.name
            )
        }),
        parameters: tool.parameters,
        read_only: trust.read_only,
        class: class(trust.lifetime.filter(|_| trust.read_only)),
        work: Work::Call {
            name: tool.name.clone(),
        },
        name: tool.name,
    }
}

fn of_resource(settings: &McpSettings, resource: Resource) -> Offered {
    Offered {
        kind: Kind::Resource,
        id: resource.uri.clone(),
        description: described(
            format!(
                "Reads the resource {} of the MCP server `{}`.",
                resource.uri, settings.name
            ),
            resource.description,
        ),
        parameters: parameters(Map::new(), Vec::new()),
        read_only: true,
        class: stated(settings.resources),
        work: Work::Read { uri: resource.uri },
        name: resource.name,
    }
}

fn of_template(settings: &McpSettings, template: Template) -> Result<Offered, String> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, must) in template::variables(&template.uri)? {
        properties.insert(name.clone(), json!({ "type": "string" }));
        if must {
            required.push(name);
        }
    }
    Ok(Offered {
        kind: Kind::Template,
        id: template.uri.clone(),
        description: described(
            format!(
                "Reads one of the resources {} of the MCP server `{}`; the arguments fill in the braces.",
                template.uri, settings.name
            ),
            template.description,
        ),
        parameters: parameters(properties, required),
        read_only: true,
        class: stated(settings.resources),
        work: Work::Expand {
            template: template.uri,
        },
        name: template.name,
    })
}

fn of_prompt(settings: &McpSettings, prompt: Prompt) -> Offered {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for argument in prompt.arguments {
        let mut property = json!({ "type": "string" });
        if let Some(description) = argument.description {
            property["description"] = description.into();
        }
        properties.insert(argument.name.clone(), property);
        if argument.required {
            required.push(argument.name);
        }
    }
    Offered {
        kind: Kind::Prompt,
        id: prompt.name.clone(),
        description: described(
            format!(
                "Gives the prompt `{}` of the MCP server `{}`: a text that says how to do something.",
                prompt.name, settings.name
            ),
            prompt.description,
        ),
        parameters: parameters(properties, required),
        read_only: true,
        class: stated(settings.prompts),
        work: Work::Prompt {
            name: prompt.name.clone(),
        },
        name: prompt.name,
    }
}

fn described(what: String, description: Option<String>) -> String {
    match description.filter(|text| !text.trim().is_empty()) {
        Some(description) => format!("{what} {description}"),
        None => what,
    }
}

fn parameters(properties: Map<String, Value>, required: Vec<String>) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

fn stated(offer: Offer) -> CacheClass {
    class(offer.lifetime)
}

fn class(lifetime: Option<std::time::Duration>) -> CacheClass {
    lifetime.map_or(CacheClass::Never, CacheClass::Ttl)
}

/// The configured trust in tools.
struct Trusted(Vec<(GlobMatcher, Trust)>);

impl Trusted {
    /// Compiles the patterns. An invalid pattern matches nothing, which is the safe side.
    fn of(settings: &McpSettings) -> Self {
        let patterns = settings.trust.iter();
        Self(
            patterns
                .filter_map(|(pattern, trust)| {
                    Some((Glob::new(pattern).ok()?.compile_matcher(), *trust))
                })
                .collect(),
        )
    }

    fn in_tool(&self, tool: &RemoteTool, server: &McpServer) -> Trust {
        let trust = self
            .0
            .iter()
            .find(|(pattern, _)| pattern.is_match(&tool.name))
            .map_or_else(Trust::default, |(_, trust)| *trust);
        if trust.read_only && tool.destructive {
            server.warn(&format!(
                "calls its tool `{}` destructive, though it is configured as read-only: it is not taken as read-only",
                tool.name
            ));
            return Trust::default();
        }
        trust
    }
}
