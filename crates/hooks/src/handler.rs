//! Handlers of events.

mod builtin;
mod command;
mod expand;
pub(crate) mod exports;
mod http;
mod judgement;
mod model;
mod process;
mod prompt;
mod question;

use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_model::Model;

use crate::definition::{Action, Entry};
use crate::dispatch::{Sessions, Surroundings};
use crate::input::Input;
use crate::output::{Fault, Output};

/// The maximum output of a command or a server in bytes; for a command, stdout and stderr each.
const LONGEST: usize = 1 << 20;

/// A handler of an event. Dropping the future of [`Handler::handle`] cancels it, including everything
/// that it started. Timeouts and the effects of failures are implemented by the dispatcher.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Handles an event.
    ///
    /// # Errors
    /// The handler failed, is unavailable, or returned an invalid output.
    async fn handle(&self, input: &Input) -> Result<Output, Fault>;
}

/// Dependencies that the handlers of one agent share.
pub(crate) struct Shared {
    /// The agent's own model.
    pub(crate) model: Option<Model>,
    pub(crate) sessions: Arc<Sessions>,
}

/// Creates the handler of an entry. Starts no process and opens no connection.
///
/// # Errors
/// Errors that would occur on every run: an unknown builtin or model, invalid arguments, a missing API
/// key, a malformed template or URL.
pub(crate) fn ready(
    entry: &Entry,
    surroundings: &Surroundings,
    shared: &Shared,
) -> Result<Arc<dyn Handler>, Problem> {
    let ready: Result<Arc<dyn Handler>, Problem> = match &entry.definition.action {
        Action::Command { line } => command::ready(line, entry, surroundings, shared),
        Action::Builtin { name, arguments } => {
            builtin::ready(name, arguments, entry.event, surroundings)
        }
        Action::Http { url, headers } => http::ready(url, headers, entry, surroundings),
        Action::Model {
            model,
            prompt,
            system_prompt,
            schema,
        } => {
            let wanted = model::Wanted {
                model,
                prompt,
                system_prompt: system_prompt.as_deref(),
                schema: *schema,
            };
            model::ready(&wanted, entry, surroundings)
        }
        Action::Prompt { model, prompt } => {
            prompt::ready(model.as_deref(), prompt, entry, surroundings, shared)
        }
    };
    ready.map_err(|problem| match &entry.place {
        Some(place) if problem.place.is_none() => problem.at(place),
        _ => problem,
    })
}
