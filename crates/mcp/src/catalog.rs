//! Lists the tools, resources and prompts of a server, page by page.

use std::collections::BTreeSet;

use rmcp::model::{ErrorCode, PaginatedRequestParams};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value, json};

use super::McpError;
use super::server_client::ServerClient;

/// Maximum number of pages of a list, against servers whose lists do not end.
const MAX_PAGES: usize = 200;

/// The tools, resources and prompts of a server.
#[derive(Debug, Default)]
pub(super) struct ServerCatalog {
    pub(super) tools: Vec<RemoteTool>,
    pub(super) resources: Vec<Resource>,
    pub(super) templates: Vec<Resource>,
    pub(super) prompts: Vec<Prompt>,
}

impl ServerCatalog {
    /// Returns a form for comparisons, independent of the order.
    pub(super) fn fingerprint(&self) -> BTreeSet<String> {
        let Self {
            tools,
            resources,
            templates,
            prompts,
        } = self;
        let tools = tools.iter().map(|tool| format!("{tool:?}"));
        let resources = resources.iter().map(|resource| format!("{resource:?}"));
        let templates = templates.iter().map(|template| format!("{template:?}"));
        let prompts = prompts.iter().map(|prompt| format!("{prompt:?}"));
        tools
            .chain(resources)
            .chain(templates)
            .chain(prompts)
            .collect()
    }
}

#[derive(Debug, Clone)]
pub(super) struct RemoteTool {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) parameters: Value,
    /// Set if the server declares it destructive.
    pub(super) destructive: bool,
}

/// A resource, or a template of several.
#[derive(Debug, Clone)]
pub(super) struct Resource {
    /// The URI, or its template.
    pub(super) uri: String,
    pub(super) name: String,
    pub(super) description: Option<String>,
}

#[derive(Debug, Clone)]
pub(super) struct Prompt {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) arguments: Vec<Argument>,
}

#[derive(Debug, Clone)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) description: Option<String>,
    pub(super) required: bool,
}

/// A page of a list, and the cursor of the next page.
type Paged<T> = Result<(Vec<T>, Option<String>), ServiceError>;

/// Requests all lists of a server.
pub(super) async fn list_all(server: &ServerClient) -> Result<ServerCatalog, McpError> {
    let connection = server.connection().await?;
    let capabilities = connection
        .peer()
        .peer_info()
        .map(|info| info.capabilities.clone())
        .unwrap_or_default();
    drop(connection);
    // Requested even if the capability is not announced, because some servers omit it.
    let mut catalog = ServerCatalog {
        tools: list_pages(server, "tools", tools).await?,
        ..ServerCatalog::default()
    };
    if capabilities.resources.is_some() && server.settings.resources.is_offered {
        catalog.resources = or_warn(server, list_pages(server, "resources", resources).await);
        catalog.templates = or_warn(
            server,
            list_pages(server, "resource templates", templates).await,
        );
    }
    if capabilities.prompts.is_some() && server.settings.prompts.is_offered {
        catalog.prompts = or_warn(server, list_pages(server, "prompts", prompts).await);
    }
    Ok(catalog)
}

/// Returns the list; if it failed, reports a warning and returns an empty one.
fn or_warn<T>(server: &ServerClient, listed: Result<Vec<T>, McpError>) -> Vec<T> {
    let reporter = &server.handler.dependencies.reporter;
    listed
        .inspect_err(|error| reporter.warning(&error.to_string()))
        .unwrap_or_default()
}

/// Requests all pages of a list. The list is empty if the server does not support it.
async fn list_pages<T, W>(
    server: &ServerClient,
    what: &str,
    page: impl Fn(Peer<RoleClient>, Option<PaginatedRequestParams>) -> W,
) -> Result<Vec<T>, McpError>
where
    W: Future<Output = Paged<T>>,
{
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

async fn tools(
    peer: Peer<RoleClient>,
    params: Option<PaginatedRequestParams>,
) -> Paged<RemoteTool> {
    let page = peer.list_tools(params).await?;
    let tools = page.tools.into_iter().map(|tool| RemoteTool {
        description: tool
            .description
            .map(String::from)
            .or(tool.title)
            .filter(|text| !text.trim().is_empty()),
        parameters: object(tool.input_schema.as_ref().clone()),
        destructive: tool
            .annotations
            .is_some_and(|hints| hints.destructive_hint == Some(true)),
        name: tool.name.into_owned(),
    });
    Ok((tools.collect(), page.next_cursor))
}

/// Returns the schema of an object, with its type added if the server omits it.
fn object(mut schema: Map<String, Value>) -> Value {
    schema.entry("type").or_insert_with(|| json!("object"));
    schema.entry("properties").or_insert_with(|| json!({}));
    Value::Object(schema)
}

async fn resources(
    peer: Peer<RoleClient>,
    params: Option<PaginatedRequestParams>,
) -> Paged<Resource> {
    let page = peer.list_resources(params).await?;
    let resources = page.resources.into_iter().map(|resource| Resource {
        uri: resource.uri,
        description: resource.description.or(resource.title),
        name: resource.name,
    });
    Ok((resources.collect(), page.next_cursor))
}

async fn templates(
    peer: Peer<RoleClient>,
    params: Option<PaginatedRequestParams>,
) -> Paged<Resource> {
    let page = peer.list_resource_templates(params).await?;
    let templates = page
        .resource_templates
        .into_iter()
        .map(|template| Resource {
            uri: template.uri_template,
            description: template.description.or(template.title),
            name: template.name,
        });
    Ok((templates.collect(), page.next_cursor))
}

async fn prompts(peer: Peer<RoleClient>, params: Option<PaginatedRequestParams>) -> Paged<Prompt> {
    let page = peer.list_prompts(params).await?;
    let prompts = page.prompts.into_iter().map(|prompt| Prompt {
        description: prompt.description.or(prompt.title),
        arguments: prompt
            .arguments
            .unwrap_or_default()
            .into_iter()
            .map(|argument| Argument {
                name: argument.name,
                description: argument.description.or(argument.title),
                required: argument.required.unwrap_or(false),
            })
            .collect(),
        name: prompt.name,
    });
    Ok((prompts.collect(), page.next_cursor))
}
