//! Calls of tools, resources and prompts of a server.

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::secret::mask_credentials;
use cachalot_core::{EffectTargets, Effects, SecretSet};
use cachalot_operation::ResourceAccess;
use cachalot_operation::domains::Domains;
use cachalot_operation::resource_access::file_url_path;
use rmcp::model::{
    CallToolRequestParams, ClientRequest, GetPromptRequestParams, ReadResourceRequestParams,
    Request, ServerResult,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use super::content::{self, ContentCollector};
use super::error::request_error;
use super::server_client::ServerClient;
use super::server_settings::{McpSettings, McpTransport};
use super::tool_names::ToolSourceKind;
use super::{McpError, uri_template};
use cachalot_tools::builtin::shell::looks_like_a_credential;
use cachalot_tools::{Arguments, Failure, Operation, OperationMetadata, ToolContext, ToolOutput};

/// A tool, resource or prompt of a server, as a tool.
pub(super) struct McpTool {
    metadata: OperationMetadata,
    server: Arc<ServerClient>,
    /// The kind of the request that a call sends.
    kind: ToolSourceKind,
    /// The server's identifier of the tool, resource, template or prompt.
    id: String,
    /// The digest of the server's definition.
    definition: String,
    /// Set if the server has credentials, so that its answers may be personal.
    personal: bool,
}

impl McpTool {
    pub(super) fn new(
        metadata: OperationMetadata,
        server: Arc<ServerClient>,
        (kind, id): (ToolSourceKind, String),
        definition: String,
    ) -> Self {
        Self {
            metadata,
            personal: is_personal(&server.settings),
            server,
            kind,
            id,
            definition,
        }
    }

    async fn call(
        &self,
        arguments: Arguments,
        context: &ToolContext,
    ) -> Result<ToolOutput, McpError> {
        let server = &self.server;
        let collector =
            ContentCollector::new(&context.secret_set, server.settings.limits.output_limit);
        let id = self.id.clone();
        match self.kind {
            ToolSourceKind::Tool => {
                let params = CallToolRequestParams::new(id).with_arguments(arguments);
                let request = ClientRequest::CallToolRequest(Request::new(params));
                match server.call(&self.metadata.name, request).await? {
                    ServerResult::CallToolResult(result) => {
                        Ok(content::of_tool(result, collector, self.personal))
                    }
                    ServerResult::CreateTaskResult(_) => {
                        Err(self.wants("to do it as a task that is asked after"))
                    }
                    other => Err(self.not_complete(&other)),
                }
            }
            ToolSourceKind::Resource => self.read(id, collector).await,
            ToolSourceKind::Template => {
                let uri = uri_template::expand(&id, &arguments).map_err(|why| {
                    McpError::new(
                        self.server.name(),
                        format!("has a resource template that cannot be used: {why}"),
                    )
                })?;
                self.read(uri, collector).await
            }
            ToolSourceKind::Prompt => {
                let params = GetPromptRequestParams::new(id).with_arguments(arguments);
                let request = ClientRequest::GetPromptRequest(Request::new(params));
                match server.call(&self.metadata.name, request).await? {
                    ServerResult::GetPromptResult(result) => {
                        Ok(content::of_prompt(result, collector, self.personal))
                    }
                    other => Err(self.not_complete(&other)),
                }
            }
        }
    }

    async fn read(
        &self,
        uri: String,
        collector: ContentCollector<'_>,
    ) -> Result<ToolOutput, McpError> {
        // Before the read: an update between the two would not be announced.
        self.server.subscribe(&uri).await;
        let params = ReadResourceRequestParams::new(uri);
        let request = ClientRequest::ReadResourceRequest(Request::new(params));
        match self.server.call(&self.metadata.name, request).await? {
            ServerResult::ReadResourceResult(result) => {
                Ok(content::of_resource(result, collector, self.personal))
            }
            other => Err(self.not_complete(&other)),
        }
    }

    /// The error of an answer that does not complete the call.
    fn not_complete(&self, result: &ServerResult) -> McpError {
        match result {
            ServerResult::InputRequiredResult(_) => self.wants("further input"),
            _ => request_error(self.server.name(), &ServiceError::UnexpectedResponse),
        }
    }

    fn wants(&self, what: &str) -> McpError {
        McpError::new(
            self.server.name(),
            format!("wants {what}, which is not possible here; try it with other arguments"),
        )
    }
}

#[async_trait]
impl Operation for McpTool {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, _arguments: &Arguments, _context: &ToolContext) -> Effects {
        if self.metadata.read_only {
            // The reads of a server are unknown: they may include the workspace.
            Effects {
                reads: EffectTargets::Unknown,
                writes: EffectTargets::NOTHING,
            }
        } else {
            Effects::UNKNOWN
        }
    }

    fn resource_access(&self, arguments: &Arguments) -> ResourceAccess {
        let metadata = &self.metadata;
        let mut resource_access =
            ResourceAccess::declared(&metadata.parameters.schema(), arguments, metadata.read_only);
        let uri = match self.kind {
            ToolSourceKind::Resource => Some(self.id.clone()),
            ToolSourceKind::Template => uri_template::expand(&self.id, arguments).ok(),
            ToolSourceKind::Tool | ToolSourceKind::Prompt => None,
        };
        resource_access
            .reads
            .extend(uri.as_deref().and_then(file_url_path));
        match &self.server.settings.transport {
            McpTransport::Http { url, .. } => {
                resource_access.remote = !is_this_machine(url.expose())
            }
            // Relative paths may be relative to that directory.
            McpTransport::Stdio {
                directory: Some(directory),
                ..
            } => {
                for paths in [&mut resource_access.reads, &mut resource_access.writes] {
                    let there: Vec<_> = paths.iter().map(|path| directory.join(path)).collect();
                    paths.extend(there);
                }
                for command in &mut resource_access.commands {
                    command.directory = Some(directory.clone());
                }
            }
            McpTransport::Stdio { .. } => {}
        }
        resource_access
    }

    fn implicit_inputs(&self, _: &Arguments, context: &ToolContext) -> Result<Value, Failure> {
        let mut inputs = json!({
            "server": self.server.settings.identity(&context.secret_set),
            "definition": self.definition,
        });
        // Keys of servers without a sandbox stay as they were before there was one.
        if let McpTransport::Stdio { .. } = self.server.settings.transport
            && let Some(sandbox) = &self.server.handler.dependencies.sandbox
        {
            inputs["sandbox"] = sandbox.key();
        }
        Ok(inputs)
    }

    fn announced_reads(&self, arguments: &Arguments) -> Domains {
        let domains = self.server.handler.announcements.domains();
        match self.kind {
            ToolSourceKind::Template => {
                // Without a URI, the call fails.
                let uri = uri_template::expand(&self.id, arguments).unwrap_or_default();
                domains.joined(self.kind, &uri)
            }
            _ => domains.joined(self.kind, &self.id),
        }
    }

    /// Subscribes to updates of the resource: the read that was stored may be one of another process.
    fn on_hit(&self, arguments: &Arguments) {
        let uri = match self.kind {
            ToolSourceKind::Resource => Some(self.id.clone()),
            ToolSourceKind::Template => uri_template::expand(&self.id, arguments).ok(),
            ToolSourceKind::Tool | ToolSourceKind::Prompt => None,
        };
        let Some(uri) = uri else {
            return;
        };
        // A hit must neither keep a server alive nor start one: the reference is weak, and only an open connection is
        // used.
        let server = Arc::downgrade(&self.server);
        tokio::spawn(async move {
            if let Some(server) = server.upgrade()
                && let Some(connection) = server.open_connection().await
            {
                server.subscribe_on(&connection, &uri).await;
            }
        });
    }

    async fn run(&self, arguments: Arguments, context: &ToolContext) -> ToolOutput {
        match self.call(arguments, context).await {
            Ok(output) => output,
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}

/// True if a URL is that of a loopback address: a request to it does not leave this machine.
fn is_this_machine(url: &str) -> bool {
    let Ok(url) = url::Url::parse(url) else {
        return false;
    };
    match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// True if a server gets credentials: its answers may then be for one user only.
fn is_personal(settings: &McpSettings) -> bool {
    match &settings.transport {
        McpTransport::Http { url, headers } => {
            !headers.is_empty() || mask_credentials(url.expose()) != url.expose().as_str()
        }
        McpTransport::Stdio { environment, .. } => environment.iter().any(|(name, value)| {
            looks_like_a_credential(name, value.expose(), &SecretSet::empty())
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_hosts_are_recognized_as_local() {
        for url in [
            "http://localhost:8080/mcp",
            "http://127.0.0.1/mcp",
            "http://127.9.9.9/mcp",
            "http://[::1]:1/mcp",
        ] {
            assert!(is_this_machine(url), "{url}");
        }
        for url in [
            "https://mcp.example/",
            "https://localhost.example/",
            "http://10.0.0.1/",
            "http://127.0.0.1@evil.example/",
            "nonsense",
        ] {
            assert!(!is_this_machine(url), "{url}");
        }
    }
}
