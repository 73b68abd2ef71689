//! Lists the tools, resources and prompts of a server, page by page.

use std::collections::BTreeSet;
use std::time::Duration;

use cachalot_operation::object_schema;
use rmcp::model::{ErrorCode, PaginatedRequestParams, ToolAnnotations};
use rmcp::service::{Peer, RoleClient, ServiceError};
use serde_json::{Map, Value, json};
use tokio::time::Instant;

use super::server_client::ServerClient;
use super::tool_names::ToolSourceKind;
use super::{McpError, raw_message};

/// Maximum number of pages of a list, against servers whose lists do not end.
const MAX_PAGES: usize = 200;

/// Maximum lifetime of lists.
const MAX_LIFETIME: Duration = Duration::from_secs(24 * 60 * 60);

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
    /// True for a tool that can only be called as a task (2025-11-25).
    pub(super) as_task: bool,
}

/// Returns a form for comparisons, independent of the order.
pub(super) fn fingerprint(catalog: &[RemoteTool]) -> BTreeSet<String> {
    catalog.iter().map(|remote| format!("{remote:?}")).collect()
}

/// A page of a list.
struct Page {
    tools: Vec<RemoteTool>,
    /// The cursor of the next page.
    next: Option<String>,
    /// The lifetime that the server states, in milliseconds.
    ttl_ms: Option<u64>,
}

/// The pages of a list.
#[derive(Default)]
struct Pages {
    tools: Vec<RemoteTool>,
    /// The shortest lifetime of a page.
    lifetime: Option<Duration>,
}

/// Everything that a server lists, and its instructions.
pub(super) struct Catalog {
    pub(super) tools: Vec<RemoteTool>,
    /// The text that the server sent with the handshake.
    pub(super) instructions: Option<String>,
    /// The time until which the lists hold, though the server announces no changes; `None`: until it announces one.
    pub(super) fresh_until: Option<Instant>,
}

/// Requests all lists of a server.
pub(super) async fn list_all(server: &ServerClient) -> Result<Catalog, McpError> {
    let (connection, begun) = (server.connection().await?, Instant::now());
    let info = connection.peer().peer_info();
    let (capabilities, instructions) = info.map_or_else(Default::default, |info| {
        (info.capabilities.clone(), info.instructions.clone())
    });
    // Requested even if the capability is not announced, because some servers omit it.
    let mut listed = vec![list_pages(server, "tools", tools).await?];
    if capabilities.resources.is_some() && server.settings.resources.is_offered {
        let pages = list_pages(server, "resources", resources).await;
        listed.push(or_warn(server, pages));
        let pages = list_pages(server, "resource templates", templates).await;
        listed.push(or_warn(server, pages));
    }
    if capabilities.prompts.is_some() && server.settings.prompts.is_offered {
        let pages = list_pages(server, "prompts", prompts).await;
        listed.push(or_warn(server, pages));
    }
    let lifetime = listed.iter().filter_map(|pages| pages.lifetime).min();
    let fresh_until = (!connection.announces_lists())
        .then(|| begun + lifetime.unwrap_or_default().min(MAX_LIFETIME));
    Ok(Catalog {
        tools: listed.into_iter().flat_map(|pages| pages.tools).collect(),
        instructions,
        fresh_until,
    })
}

/// Returns the list; if it failed, reports a warning and returns an empty one.
fn or_warn(server: &ServerClient, listed: Result<Pages, McpError>) -> Pages {
    let reporter = &server.handler.dependencies.reporter;
    listed
        .inspect_err(|error| reporter.warning(&error.to_string()))
        .unwrap_or_default()
}

/// Requests all pages of a list. The list is empty if the server does not support it.
async fn list_pages<W: Future<Output = Result<Page, ServiceError>>>(
    server: &ServerClient,
    what: &str,
    page: impl Fn(Peer<RoleClient>, Option<PaginatedRequestParams>) -> W,
) -> Result<Pages, McpError> {
    let mut listed = Pages::default();
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
                        Ok(None)
                    }
                    answered => answered.map(Some),
                }
            }
        });
        let page = asked.await.map_err(|error| McpError {
            message: format!("does not list its {what}: it {}", error.message),
            ..error
        })?;
        let Some(page) = page else {
            return Ok(listed);
        };
        listed.tools.extend(page.tools);
        let lifetime = Duration::from_millis(page.ttl_ms.unwrap_or(0));
        listed.lifetime = Some(
            listed
                .lifetime
                .map_or(lifetime, |least| least.min(lifetime)),
        );
        match page.next {
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
) -> Result<Page, ServiceError> {
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
        as_task: raw_message::offers_tasks(tool.meta.as_ref()),
        name: tool.name.into_owned(),
    });
    Ok(Page {
        tools: tools.collect(),
        next: page.next_cursor,
        ttl_ms: page.ttl_ms,
    })
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

async fn resources(
    peer: Peer<RoleClient>,
    params: Option<PaginatedRequestParams>,
) -> Result<Page, ServiceError> {
    let page = peer.list_resources(params).await?;
    let resources = page.resources.into_iter().map(|resource| RemoteTool {
        kind: ToolSourceKind::Resource,
        id: resource.uri,
        description: resource.description.or(resource.title),
        parameters: object_schema([]),
        writing_hint: None,
        as_task: false,
        name: resource.name,
    });
    Ok(Page {
        tools: resources.collect(),
        next: page.next_cursor,
        ttl_ms: page.ttl_ms,
    })
}

async fn templates(
    peer: Peer<RoleClient>,
    params: Option<PaginatedRequestParams>,
) -> Result<Page, ServiceError> {
    let page = peer.list_resource_templates(params).await?;
    let templates = page.resource_templates.into_iter();
    let templates = templates.map(|template| RemoteTool {
        kind: ToolSourceKind::Template,
        id: template.uri_template,
        description: template.description.or(template.title),
        parameters: Value::Null,
        writing_hint: None,
        as_task: false,
        name: template.name,
    });
    Ok(Page {
        tools: templates.collect(),
        next: page.next_cursor,
        ttl_ms: page.ttl_ms,
    })
}

async fn prompts(
    peer: Peer<RoleClient>,
    params: Option<PaginatedRequestParams>,
) -> Result<Page, ServiceError> {
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
            as_task: false,
            name: prompt.name,
        }
    });
    Ok(Page {
        tools: prompts.collect(),
        next: page.next_cursor,
        ttl_ms: page.ttl_ms,
    })
}
