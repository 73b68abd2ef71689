//! Handlers of events.

mod builtin;
mod command;
mod expand;
pub(crate) mod exports;
mod http;
mod judgement;
mod mcp_tool;
mod model;
mod process;
mod prompt;
mod question_template;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_model::Model;
use tokio::time::timeout;

use crate::definition::{Action, HookEntry};
use crate::dependencies::HookDependencies;
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::sessions::Sessions;

/// The maximum output of a command or a server that is read, in bytes; for a command, stdout and stderr
/// each.
const MAX_OUTPUT_BYTES: usize = 1 << 20;

/// A handler of an event. Dropping the future of [`Handler::handle`] cancels it, including everything
/// that it started. Timeouts and the effects of failures are implemented by the dispatcher.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Handles an event.
    ///
    /// # Errors
    /// The handler failed, is unavailable, or returned an invalid output.
    async fn handle(&self, input: &Input) -> Result<Output, Fault>;

    /// True if the handler applies the timeout of its definition itself, because its effect depends on
    /// what was received until then.
    fn applies_timeout(&self) -> bool {
        false
    }
}

/// Runs a handler for at most `limit`. An output that has begun by then is cut.
async fn within(
    limit: Duration,
    has_begun: &AtomicBool,
    handling: impl Future<Output = Result<Output, Fault>>,
) -> Result<Output, Fault> {
    timeout(limit, handling).await.unwrap_or_else(|_| {
        Err(Fault {
            may_deny: has_begun.load(Ordering::Relaxed),
            ..Fault::timed_out(limit)
        })
    })
}

/// Dependencies that the handlers of one agent share.
pub(crate) struct HandlerContext {
    /// The agent's own model.
    pub(crate) model: Option<Model>,
    pub(crate) sessions: Arc<Sessions>,
}

/// Creates the handler of an entry. Starts no process and opens no connection.
///
/// # Errors
/// Errors that would occur on every run: an unknown builtin or model, invalid arguments, a missing API
/// key, a malformed template or URL.
pub(crate) fn create(
    entry: &HookEntry,
    dependencies: &HookDependencies,
    shared: &HandlerContext,
) -> Result<Arc<dyn Handler>, Problem> {
    let ready: Result<Arc<dyn Handler>, Problem> = match &entry.definition.action {
        Action::Command { line } => command::create(line, entry, dependencies, shared),
        Action::Builtin { name, arguments } => {
            builtin::create(name, arguments, entry.event, dependencies)
        }
        Action::Http { url, headers } => http::create(url, headers, entry, dependencies),
        Action::Model {
            model,
            prompt,
            system_prompt,
            schema,
        } => {
            let options = model::ModelOptions {
                model,
                prompt,
                system_prompt: system_prompt.as_deref(),
                schema: *schema,
            };
            model::create(&options, entry, dependencies)
        }
        Action::McpTool {
            server,
            tool,
            input,
        } => Ok(mcp_tool::create(
            server,
            tool,
            input.as_ref(),
            entry,
            dependencies,
        )),
        Action::Prompt { model, prompt } => {
            prompt::create(model.as_deref(), prompt, entry, dependencies, shared)
        }
    };
    ready.map_err(|problem| match &entry.place {
        Some(place) if problem.place.is_none() => problem.at(place),
        _ => problem,
    })
}
