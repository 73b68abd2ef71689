//! Calls of tools, resources and prompts of a server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::secret::mask_credentials;
use cachalot_core::{EffectTargets, Effects, SecretSet};
use cachalot_operation::ResourceAccess;
use cachalot_operation::domains::Domains;
use cachalot_operation::resource_access::file_url_path;
use rmcp::model::{
    CallToolRequestParams, ClientRequest, GetPromptRequestParams, InputResponses,
    ReadResourceRequestParams, Request, ServerResult,
};
use rmcp::service::ServiceError;
use serde_json::{Value, json};

use super::content::{self, ContentCollector};
use super::error::request_error;
use super::respondents::Respondents;
use super::server_client::ServerClient;
use super::server_settings::{McpSettings, McpTransport, is_this_machine};
use super::tasks::TaskCall;
use super::tool_names::ToolSourceKind;
use super::{McpError, uri_template};
use cachalot_tools::builtin::shell::looks_like_a_credential;
use cachalot_tools::{Arguments, Failure, Operation, OperationMetadata, ToolContext, ToolOutput};

/// Maximum number of times that a request is sent because the server asks for input.
const MAX_ROUNDS: u32 = 10;

/// The pause before a request is repeated whose server asks for nothing. Doubled after each one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);

/// Reasons why a result is not cached.
const BY_AN_ANSWER: &str = "the server asked for input during the call";
const BY_A_TASK: &str = "the server did the call as a task";

/// A tool, resource or prompt of a server, as a tool.
pub(super) struct McpTool {
    metadata: OperationMetadata,
    server: Arc<ServerClient>,
    /// The kind of the request that a call sends.
    kind: ToolSourceKind,
    /// The server's identifier of the tool, resource, template or prompt.
    id: String,
    /// True for a tool that can only be called as a task (2025-11-25).
    as_task: bool,
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
        as_task: bool,
        definition: String,
    ) -> Self {
        Self {
            metadata,
            personal: is_personal(&server.settings),
            server,
            kind,
            id,
            as_task,
            definition,
        }
    }

    /// The ID of the user's login at the server, if there is one.
    fn login(&self) -> Option<String> {
        let environment = &self.server.handler.dependencies.environment;
        self.server.settings.login(environment)
    }

    fn is_personal(&self) -> bool {
        self.personal || self.login().is_some()
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
        let request = match self.kind {
            ToolSourceKind::Tool => {
                if self.as_task && server.connection().await?.offers_tasks() {
                    let result = self.task(context).call(&id, arguments).await?;
                    let output = self.output(result, collector)?;
                    return Ok(content::not_storable(output, BY_A_TASK));
                }
                let params = CallToolRequestParams::new(id).with_arguments(arguments);
                ClientRequest::CallToolRequest(Request::new(params))
            }
            ToolSourceKind::Resource => self.read_request(id).await,
            ToolSourceKind::Template => {
                let uri = uri_template::expand(&id, &arguments).map_err(|why| {
                    McpError::new(
                        self.server.name(),
                        format!("has a resource template that cannot be used: {why}"),
                    )
                })?;
                self.read_request(uri).await
            }
            ToolSourceKind::Prompt => {
                let params = GetPromptRequestParams::new(id).with_arguments(arguments);
                ClientRequest::GetPromptRequest(Request::new(params))
            }
        };
        let (result, dependence) = self.complete(request, context).await?;
        let output = self.output(result, collector)?;
        Ok(match dependence {
            None => output,
            Some(why) => content::not_storable(output, why),
        })
    }

    async fn read_request(&self, uri: String) -> ClientRequest {
        // Before the read: an update between the two would not be announced.
        self.server.subscribe(&uri).await;
        let params = ReadResourceRequestParams::new(uri);
        ClientRequest::ReadResourceRequest(Request::new(params))
    }

    /// Sends a request, answers what the server asks, and waits for a task that the server does. Returns the reason
    /// why the result depends on more than the request, too.
    async fn complete(
        &self,
        request: ClientRequest,
        context: &ToolContext,
    ) -> Result<(ServerResult, Option<&'static str>), McpError> {
        let (server, respondents) = (&self.server, Respondents::from(context));
        let mut dependence = None;
        let mut next = request.clone();
        for round in 0..MAX_ROUNDS {
            let answer = server.call(&self.metadata.name, next, &respondents);
            let answer = answer.await?;
            if answer.was_asked {
                dependence = Some(BY_AN_ANSWER);
            }
            match answer.result {
                ServerResult::InputRequiredResult(required) => {
                    dependence = Some(BY_AN_ANSWER);
                    let asked = required.input_requests;
                    let responses = match asked {
                        Some(asked) => {
                            let handler = &server.handler;
                            Some(handler.answer(asked, &respondents).await?)
                        }
                        None => {
                            tokio::time::sleep(FIRST_PAUSE * (1 << round.min(5))).await;
                            None
                        }
                    };
                    next = if answer.was_refused {
                        let is_accepted = |answer: &Value| answer["action"] == "accept";
                        if !responses
                            .iter()
                            .flatten()
                            .all(|(_, answer)| is_accepted(answer))
                        {
                            return Err(McpError::new(
                                server.name(),
                                "wants an address to be opened first, which was declined",
                            ));
                        }
                        request.clone()
                    } else {
                        with_inputs(request.clone(), responses, required.request_state)
                    };
                }
                ServerResult::CreateTaskResult(created) => {
                    let task = serde_json::to_value(&created.task).unwrap_or_default();
                    let result = self.task(context).complete(task, false).await?;
                    return Ok((result, Some(BY_A_TASK)));
                }
                result => return Ok((result, dependence)),
            }
        }
        Err(McpError::new(
            server.name(),
            format!("asked for input more than {MAX_ROUNDS} times; this is a fault of the server"),
        ))
    }

    fn task<'a>(&'a self, context: &ToolContext) -> TaskCall<'a> {
        TaskCall {
            server: &self.server,
            tool: &self.metadata.name,
            respondents: context.into(),
        }
    }

    fn output(
        &self,
        result: ServerResult,
        collector: ContentCollector<'_>,
    ) -> Result<ToolOutput, McpError> {
        Ok(match (self.kind, result) {
            (ToolSourceKind::Tool, ServerResult::CallToolResult(result)) => {
                content::of_tool(result, collector, self.is_personal())
            }
            (
                ToolSourceKind::Resource | ToolSourceKind::Template,
                ServerResult::ReadResourceResult(result),
            ) => content::of_resource(result, collector, self.is_personal()),
            (ToolSourceKind::Prompt, ServerResult::GetPromptResult(result)) => {
                content::of_prompt(result, collector, self.is_personal())
            }
            _ => {
                let violation = ServiceError::UnexpectedResponse;
                return Err(request_error(self.server.name(), &violation));
            }
        })
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
        // Another login may be that of another user.
        if let Some(login) = self.login() {
            inputs["login"] = login.into();
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
        let login = self.login();
        match self.call(arguments, context).await {
            // Its key names the login that there was before.
            Ok(output) if self.login() != login => ToolOutput {
                lifetime: Some(Duration::ZERO),
                not_storable: Some("the login at the server changed during the call".to_owned()),
                ..output
            },
            Ok(output) => output,
            Err(error) => ToolOutput::error(error.to_string()),
        }
    }
}

/// Returns the request with the answers to what the server asked, and the state that it wants back.
fn with_inputs(
    mut request: ClientRequest,
    responses: Option<InputResponses>,
    state: Option<String>,
) -> ClientRequest {
    match &mut request {
        ClientRequest::CallToolRequest(request) => {
            request.params.input_responses = responses;
            request.params.request_state = state;
        }
        ClientRequest::ReadResourceRequest(request) => {
            request.params.input_responses = responses;
            request.params.request_state = state;
        }
        ClientRequest::GetPromptRequest(request) => {
            request.params.input_responses = responses;
            request.params.request_state = state;
        }
        _ => {}
    }
    request
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
