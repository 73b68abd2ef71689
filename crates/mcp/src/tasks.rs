//! Calls of tools that servers do as tasks.
//!
//! There are two protocols. In that of 2025-11-25, the client asks for a task (`task`), polls it (`tasks/get`), and
//! requests the result of the call (`tasks/result`). In the extension `io.modelcontextprotocol/tasks`, a server decides by
//! itself to answer a call with a task, and the answer to `tasks/get` contains the result in the end.

use std::sync::Arc;
use std::time::Duration;

use rmcp::model::{
    CallToolResult, CancelTaskParams, CancelTaskRequest, ClientRequest, CustomRequest,
    GetTaskParams, GetTaskRequest, InputRequests, ServerResult, UpdateTaskParams,
    UpdateTaskRequest,
};
use rmcp::service::ServiceError;
use serde::Deserialize as _;
use serde_json::{Map, Value, json};

use super::McpError;
use super::error::{max_timeout_error, request_error};
use super::raw_message::is_task;
use super::respondents::Respondents;
use super::server_client::ServerClient;

/// Time between two polls, if the server states none.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Minimum and maximum time between two polls.
const MIN_POLL_INTERVAL: Duration = Duration::from_millis(50);
const MAX_POLL_INTERVAL: Duration = Duration::from_secs(30);

/// A call that a server does as a task.
pub(super) struct TaskCall<'a> {
    pub(super) server: &'a Arc<ServerClient>,
    /// The name of the tool, for progress reports.
    pub(super) tool: &'a str,
    pub(super) respondents: Respondents,
}

impl TaskCall<'_> {
    /// Calls a tool as a task, by the protocol of 2025-11-25.
    pub(super) async fn call(
        &self,
        id: &str,
        arguments: Map<String, Value>,
    ) -> Result<ServerResult, McpError> {
        let params = json!({ "name": id, "arguments": arguments, "task": {} });
        let request = CustomRequest::new("tools/call", Some(params));
        let created = self.ask(ClientRequest::CustomRequest(request)).await?;
        match &created {
            ServerResult::CustomResult(result) if is_task(&result.0) => {
                let task = result.0.get("task").unwrap_or(&result.0).clone();
                self.complete(task, true).await
            }
            // A server may do it at once.
            ServerResult::CallToolResult(_) => Ok(created),
            _ => Err(self.violation()),
        }
    }

    /// Waits for the end of a task, and returns the result of the call. If the future is dropped, the task is
    /// canceled.
    pub(super) async fn complete(
        &self,
        task: Value,
        is_legacy: bool,
    ) -> Result<ServerResult, McpError> {
        let Some(id) = task.get("taskId").and_then(Value::as_str) else {
            return Err(self.violation());
        };
        let limits = &self.server.settings.limits;
        let maximum = limits.max_timeout.max(limits.timeout);
        let mut abandoned = CancelTaskOnDrop {
            server: self.server,
            task: Some(id.to_owned()),
        };
        let polled = tokio::time::timeout(maximum, self.poll(id, &task, is_legacy)).await;
        let polled = polled.map_err(|_| max_timeout_error(self.server.name(), maximum))?;
        abandoned.task = None;
        polled
    }

    async fn poll(
        &self,
        id: &str,
        created: &Value,
        is_legacy: bool,
    ) -> Result<ServerResult, McpError> {
        let mut interval = poll_interval(created).unwrap_or(POLL_INTERVAL);
        let mut task = created.clone();
        let mut message = None;
        loop {
            let said = task.get("statusMessage").and_then(Value::as_str);
            if said.is_some_and(|said| message.as_deref() != Some(said)) {
                message = said.map(str::to_owned);
                self.report(said.unwrap_or_default());
            }
            match task.get("status").and_then(Value::as_str) {
                Some("working") => {}
                // The server asks while it is asked for the result.
                Some("completed" | "failed" | "input_required") if is_legacy => {
                    let params = json!({ "taskId": id });
                    let request = CustomRequest::new("tasks/result", Some(params));
                    return self.ask(ClientRequest::CustomRequest(request)).await;
                }
                Some("input_required") => self.update(id, &task).await?,
                Some("completed") => {
                    let result = task.get("result").unwrap_or(&Value::Null);
                    return CallToolResult::deserialize(result)
                        .map(ServerResult::CallToolResult)
                        .map_err(|_| self.violation());
                }
                Some("failed") => return Err(self.failure(&task)),
                Some("cancelled") => {
                    let why = message.map_or_else(String::new, |why| format!(": {why}"));
                    return Err(McpError::new(
                        self.server.name(),
                        format!("canceled the task of the call{why}"),
                    ));
                }
                _ => return Err(self.violation()),
            }
            tokio::time::sleep(interval).await;
            let request = GetTaskRequest::new(GetTaskParams::new(id));
            let answer = self.ask(ClientRequest::GetTaskRequest(request)).await?;
            task = match answer {
                ServerResult::GetTaskResult(task) => serde_json::to_value(task),
                ServerResult::CustomResult(task) if is_task(&task.0) => Ok(task.0),
                _ => return Err(self.violation()),
            }
            .map_err(|_| self.violation())?;
            interval = poll_interval(&task).unwrap_or(interval);
        }
    }

    /// Answers the requests of a task.
    async fn update(&self, id: &str, task: &Value) -> Result<(), McpError> {
        let requests = task.get("inputRequests").unwrap_or(&Value::Null);
        let requests = InputRequests::deserialize(requests).map_err(|_| self.violation())?;
        let handler = &self.server.handler;
        let responses = handler.answer(requests, &self.respondents).await?;
        let request = UpdateTaskRequest::new(UpdateTaskParams::new(id, responses));
        self.ask(ClientRequest::UpdateTaskRequest(request)).await?;
        Ok(())
    }

    async fn ask(&self, request: ClientRequest) -> Result<ServerResult, McpError> {
        let answer = self.server.call(self.tool, request, &self.respondents);
        Ok(answer.await?.result)
    }

    fn report(&self, message: &str) {
        let dependencies = &self.server.handler.dependencies;
        let message = dependencies.secret_set.redact(message);
        dependencies.reporter.progress(self.tool, &message);
    }

    /// The error of a task that failed.
    fn failure(&self, task: &Value) -> McpError {
        let error = task.get("error").unwrap_or(&Value::Null);
        let said = error.get("message").and_then(Value::as_str);
        let code = error.get("code").and_then(Value::as_i64);
        let code = code.map_or_else(String::new, |code| format!(" ({code})"));
        let message = format!("refused: {}{code}", said.unwrap_or("the task failed"));
        let secret_set = &self.server.handler.dependencies.secret_set;
        McpError::new(self.server.name(), message).redacted(secret_set)
    }

    fn violation(&self) -> McpError {
        request_error(self.server.name(), &ServiceError::UnexpectedResponse)
    }
}

/// Returns the time between two polls that a server states.
fn poll_interval(task: &Value) -> Option<Duration> {
    let stated = task.get("pollIntervalMs").or(task.get("pollInterval"));
    let stated = Duration::from_millis(stated?.as_u64()?);
    Some(stated.clamp(MIN_POLL_INTERVAL, MAX_POLL_INTERVAL))
}

/// Cancels a task if it is dropped before the end of it.
struct CancelTaskOnDrop<'a> {
    server: &'a Arc<ServerClient>,
    task: Option<String>,
}

impl Drop for CancelTaskOnDrop<'_> {
    fn drop(&mut self) {
        let (Some(task), Ok(runtime)) = (self.task.take(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let server = Arc::downgrade(self.server);
        runtime.spawn(async move {
            let Some(server) = server.upgrade() else {
                return;
            };
            let Some(connection) = server.open_connection().await else {
                return;
            };
            let request = CancelTaskRequest::new(CancelTaskParams::new(task));
            // The server may have ended meanwhile.
            let _ = connection
                .peer()
                .send_request(ClientRequest::CancelTaskRequest(request))
                .await;
        });
    }
}
