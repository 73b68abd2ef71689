//! Lists the tools, resources and prompts of a server, page by page.

use std::collections::BTreeSet;

use cachalot_operation::object_schema;
use rmcp::model::{ErrorCode, PaginatedRequestParams, ToolAnnotations};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value, json};

use super::McpError;
use super::server_client::ServerClient;
use super::tool_names::ToolSourceKind;

/// Maximum number of pages of a list, against servers whose lists do not end.
const MAX_PAGES: usize = 200;

/// A tool, resource, resource template or prompt of a server.
#[derive(Debug, Clone)]
pub(super) struct RemoteTool {
    pub(super) kind: ToolSourceKind,
    /// The server's identifier for it: the name of a tool or a prompt, the URI of a resource or its template.
    pub(super) id: String,
    /// The server's name for it.
    pub(super) name: String,
    pub(super) description: Option<String>,
    /// The schema of the arguments. That of a template follows from its URI.
    pub(super) parameters: Value,
    /// The hint by which the server declares that it changes things: `readOnlyHint: false`.
    pub(super) writing_hint: Option<&'static str>,
}

/// Returns a form for comparisons, independent of the order.
pub(super) fn fingerprint(catalog: &[RemoteTool]) -> BTreeSet<String> {
    catalog.iter().map(|remote| format!("{remote:?}")).collect()
}

/// A page of a list, and the cursor of the next page.
type Page = Result<(Vec<RemoteTool>, Option<String>), ServiceError>;

/// Everything that a server lists, and its instructions.
pub(super) struct Catalog {
    pub(super) tools: Vec<RemoteTool>,
    /// The text that the server sent with the handshake.
    pub(super) instructions: Option<String>,
}

/// Requests all lists of a server.
pub(super) async fn list_all(server: &ServerClient) -> Result<Catalog, McpError> {
    let info = server.connection().await?.peer().peer_info();
    let (capabilities, instructions) = info.map_or_else(Default::default, |info| {
        (info.capabilities.clone(), info.instructions.clone())
    });
    // Requested even if the capability is not announced, because some servers omit it.
    let mut catalog = list_pages(server, "tools", tools).await?;
    if capabilities.resources.is_some() && server.settings.resources.is_offered {
        let listed = list_pages(server, "resources", resources).await;
        catalog.extend(or_warn(server, listed));
        let listed = list_pages(server, "resource templates", templates).await;
        catalog.extend(or_warn(server, listed));
    }
    if capabilities.prompts.is_some() && server.settings.prompts.is_offered {
        let listed = list_pages(server, "prompts", prompts).await;
        catalog.extend(or_warn(server, listed));
    }
    Ok(Catalog {
        tools: catalog,
        instructions,
    })
}

/// Returns the list; if it failed, reports a warning and returns an empty one.
fn or_warn(server: &ServerClient, listed: Result<Vec<RemoteTool>, McpError>) -> Vec<RemoteTool> {
    let reporter = &server.handler.dependencies.reporter;
    listed
        .inspect_err(|error| reporter.warning(&error.to_string()))
        .unwrap_or_default()
}

/// Requests all pages of a list. The list is empty if the server does not support it.
async fn list_pages<W: Future<Output = Page>>(
    server: &ServerClient,
    what: &str,
    page: impl Fn(Peer<RoleClient>, Option<PaginatedRequestParams>) -> W,
) -> Result<Vec<RemoteTool>, McpError> {
    let mut listed = Vec::new();
    let mut cursor: Option<String> = None;
    for _ in 0..MAX_PAGES {
        // The first page is requested without parameters.
        let params = cursor
            .clone()
            .map(|cursor| PaginatedRequestParams::default().with_cursor(Some(cursor)));
        let asked = server.ask(|peer| {
            let page = page(peer, params);
            async move {
                match page.await {
                    Err(ServiceError::McpError(error))
                        if error.code == ErrorCode::METHOD_NOT_FOUND =>
                    {
                        Ok((Vec::new(), None))
                    }
                    answered => answered,
                }
            }
        });
        let (page, next) = asked.await.map_err(|error| McpError {
            message: format!("does not list its {what}: it {}", error.message),
            ..error
        })?;
        listed.extend(page);
        match next {
            None => return Ok(listed),
            Some(next) if cursor.as_ref() == Some(&next) => break,
            Some(next) => cursor = Some(next),
        }
    }
    Err(McpError::new(
        server.name(),
        format!("does not list its {what}: its list has no end; this is a fault of the server"),
    ))
}

async fn tools(peer: Peer<RoleClient>, params: Option<PaginatedRequestParams>) -> Page {
    let page = peer.list_tools(params).await?;
    let tools = page.tools.into_iter().map(|tool| RemoteTool {
        kind: ToolSourceKind::Tool,
        id: tool.name.to_string(),
        description: tool
            .description
            .map(String::from)
            .or(tool.title)
            .filter(|text| !text.trim().is_empty()),
        parameters: object(tool.input_schema.as_ref().clone()),
        writing_hint: tool.annotations.as_ref().and_then(writing_hint),
        name: tool.name.into_owned(),
    });
    Ok((tools.collect(), page.next_cursor))
}

/// Returns the hint by which a server declares that a tool changes things.
fn writing_hint(hints: &ToolAnnotations) -> Option<&'static str> {
    match (hints.read_only_hint, hints.destructive_hint) {
        (_, Some(true)) => Some("destructiveHint: true"),
        (Some(false), _) => Some("readOnlyHint: false"),
        _ => None,
    }
}

/// Returns the schema of an object, with its type added if the server omits it.
fn object(mut schema: Map<String, Value>) -> Value {
    schema.entry("type").or_insert_with(|| json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    Value::Object(schema)
}

async fn resources(peer: Peer<RoleClient>, params: Option<PaginatedRequestParams>) -> Page {
    let page = peer.list_resources(params).await?;
    let resources = page.resources.into_iter().map(|resource| RemoteTool {
        kind: ToolSourceKind::Resource,
        id: resource.uri,
        description: resource.description.or(resource.title),
        parameters: object_schema([]),
        writing_hint: None,
        name: resource.name,
    });
    Ok((resources.collect(), page.next_cursor))
}

async fn templates(peer: Peer<RoleClient>, params: Option<PaginatedRequestParams>) -> Page {
    let page = peer.list_resource_templates(params).await?;
    let templates = page.resource_templates.into_iter();
    let templates = templates.map(|template| RemoteTool {
        kind: ToolSourceKind::Template,
        id: template.uri_template,
        description: template.description.or(template.title),
        parameters: Value::Null,
        writing_hint: None,
        name: template.name,
    });
    Ok((templates.collect(), page.next_cursor))
}

async fn prompts(peer: Peer<RoleClient>, params: Option<PaginatedRequestParams>) -> Page {
    let page = peer.list_prompts(params).await?;
    let prompts = page.prompts.into_iter().map(|prompt| {
        let arguments = prompt.arguments.unwrap_or_default().into_iter();
        let arguments = arguments.map(|argument| {
            let mut schema = json!({ "type": "string" });
            if let Some(description) = argument.description.or(argument.title) {
                schema["description"] = description.into();
            }
            (argument.name, schema, argument.required.unwrap_or(false))
        });
        RemoteTool {
            kind: ToolSourceKind::Prompt,
            id: prompt.name.clone(),
            description: prompt.description.or(prompt.title),
            parameters: object_schema(arguments),
            writing_hint: None,
            name: prompt.name,
        }
    });
    Ok((prompts.collect(), page.next_cursor))
}
