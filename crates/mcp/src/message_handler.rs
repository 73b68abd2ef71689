//! Handles what a server sends on its own: notifications, and requests to the client.

#![expect(
    deprecated,
    reason = "roots, sampling and logging are not in the newest protocol version; older servers use them"
)]

use std::path::PathBuf;
use std::sync::Arc;

use cachalot_operation::{Sampler, UserPrompter};
use rmcp::ClientHandler;
use rmcp::model::{
    ClientCapabilities, ClientConfig, CreateMessageRequestParams, CreateMessageResult,
    ElicitRequestParams, ElicitResult, ElicitationAction, ElicitationCapability, ErrorData,
    FormElicitationCapability, Implementation, InputRequest, InputRequests, InputResponses,
    ListRootsResult, ProgressNotificationParam, ProtocolVersion, Root, TASKS_EXTENSION_ID,
    UrlElicitationCapability,
};
use rmcp::service::{NotificationContext, RequestContext, RoleClient};
use serde_json::Value;

use super::announcements::Announcements;
use super::oauth::ServerAuthorization;
use super::progress::ActiveCalls;
use super::respondents::Respondents;
use super::{McpDependencies, McpError, elicitation, exact_numbers, sampling};

/// Handles the messages of a server. Clones share everything.
#[derive(Clone)]
pub(super) struct MessageHandler {
    pub(super) server: Arc<str>,
    pub(super) dependencies: McpDependencies,
    /// Handles announcements that something changed, before the library sees them.
    pub(super) announcements: Announcements,
    pub(super) calls: ActiveCalls,
    /// The user's login at the server, of all its connections.
    pub(super) authorization: Option<ServerAuthorization>,
    /// The directory of the workspace; `None` for servers on other machines.
    pub(super) root: Option<PathBuf>,
}

impl MessageHandler {
    /// Answers the requests in the result of a call.
    pub(super) async fn answer(
        &self,
        requests: InputRequests,
        respondents: &Respondents,
    ) -> Result<InputResponses, McpError> {
        let mut responses = InputResponses::new();
        for (name, request) in requests {
            let response = match request {
                InputRequest::Elicitation(request) => {
                    let user = respondents.user.as_deref();
                    serde_json::to_value(self.elicit(request.params, user).await)
                }
                InputRequest::ListRoots(_) => match self.roots() {
                    Some(roots) => serde_json::to_value(roots),
                    None => return Err(self.has_no("the workspace (`roots/list`)")),
                },
                InputRequest::CreateMessage(request) => {
                    let sampler = respondents.sampler.as_deref();
                    let sampled = self.sample(request.params, sampler).await;
                    serde_json::to_value(sampled.map_err(|error| {
                        let what = "wants an answer of the model, which it did not get";
                        McpError::new(&self.server, format!("{what}: {}", error.message))
                    })?)
                }
                _ => return Err(self.has_no("input of a kind that is not known here")),
            };
            responses.insert(name, response.unwrap_or(Value::Null));
        }
        Ok(responses)
    }

    fn has_no(&self, what: &str) -> McpError {
        McpError::new(
            &self.server,
            format!("wants {what}, which is not offered to it; try it with other arguments"),
        )
    }

    async fn elicit(
        &self,
        request: ElicitRequestParams,
        user: Option<&dyn UserPrompter>,
    ) -> ElicitResult {
        elicitation::ask(&self.server, request, user, &self.dependencies).await
    }

    async fn sample(
        &self,
        request: CreateMessageRequestParams,
        sampler: Option<&dyn Sampler>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let secret_set = &self.dependencies.secret_set;
        sampling::ask(&self.server, request, sampler, secret_set).await
    }

    fn roots(&self) -> Option<ListRootsResult> {
        let uri = url::Url::from_directory_path(self.root.as_ref()?).ok()?;
        let uri = uri.as_str().trim_end_matches('/');
        Some(ListRootsResult::new(vec![
            Root::new(uri).with_name("workspace"),
        ]))
    }

    /// The capabilities that are there.
    fn capabilities(&self) -> ClientCapabilities {
        let mut capabilities = ClientCapabilities::default();
        let extensions = capabilities.extensions.get_or_insert_default();
        extensions.insert(TASKS_EXTENSION_ID.to_owned(), Default::default());
        if self.root.is_some() {
            capabilities.roots = Some(Default::default());
        }
        if self.dependencies.asks_user {
            let elicitation = ElicitationCapability::new()
                .with_form(FormElicitationCapability::new())
                .with_url(UrlElicitationCapability::new());
            capabilities.elicitation = Some(elicitation);
            capabilities.sampling = Some(Default::default());
        }
        capabilities
    }
}

impl ClientHandler for MessageHandler {
    fn get_info(&self) -> ClientConfig {
        let own = Implementation::new("cachalot", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(self.capabilities(), own)
            .with_protocol_version(ProtocolVersion::LATEST_WITH_INITIALIZE)
    }

    async fn create_elicitation(
        &self,
        request: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        // Without a call, the user could not know what the question is about.
        let Some(mut question) = self.calls.ask() else {
            return Ok(ElicitResult::new(ElicitationAction::Decline));
        };
        let user = question.respondents.user.clone();
        Ok(tokio::select! {
            answer = self.elicit(request, user.as_deref()) => answer,
            () = question.ended() => ElicitResult::new(ElicitationAction::Cancel),
            () = context.ct.cancelled() => ElicitResult::new(ElicitationAction::Cancel),
        })
    }

    async fn create_message(
        &self,
        request: CreateMessageRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<CreateMessageResult, ErrorData> {
        let Some(mut question) = self.calls.ask() else {
            return self.sample(request, None).await;
        };
        let sampler = question.respondents.sampler.clone();
        let ended = || ErrorData::internal_error("the call has ended", None);
        tokio::select! {
            answer = self.sample(request, sampler.as_deref()) => answer,
            () = question.ended() => Err(ended()),
            () = context.ct.cancelled() => Err(ended()),
        }
    }

    async fn list_roots(
        &self,
        _context: RequestContext<RoleClient>,
    ) -> Result<ListRootsResult, ErrorData> {
        // Results may depend on the answer.
        drop(self.calls.ask());
        self.roots()
            .ok_or_else(ErrorData::method_not_found::<rmcp::model::ListRootsRequestMethod>)
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        if let Some((tool, text)) = self.calls.next_report(&params) {
            let text = self.dependencies.secret_set.redact(&text);
            self.dependencies.reporter.progress(&tool, &text);
        }
    }

    async fn on_logging_message(
        &self,
        params: rmcp::model::LoggingMessageNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        let shown = exact_numbers::shown(&params.data);
        let said = match params.data.as_str() {
            // A number may be kept as a text, and is shown without quotes.
            Some(text) if shown.starts_with('"') => text.to_owned(),
            _ => shown,
        };
        let level = serde_json::to_value(params.level).unwrap_or_default();
        let said = format!("[{}] {said}", level.as_str().unwrap_or("log"));
        let said = self.dependencies.secret_set.redact(&said);
        self.dependencies
            .reporter
            .server_output(&self.server, &said);
    }
}
