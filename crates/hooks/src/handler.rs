//! What runs when an event fires.

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

/// The most that a command or a server may say, in bytes; of a command, on each of its two outputs.
const LONGEST: usize = 1 << 20;

/// What runs when an event fires. Dropping the future of [`Handler::handle`] ends it, with all that it
/// has started. Time limits and what a failure brings about are the dispatcher's.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Hears, and says.
    ///
    /// # Errors
    /// It has nothing to say: it broke down, was not there, or spoke nonsense.
    async fn handle(&self, input: &Input) -> Result<Output, Fault>;
}

/// What handlers of one agent share.
pub(crate) struct Shared {
    /// The agent's own model.
    pub(crate) model: Option<Model>,
    pub(crate) sessions: Arc<Sessions>,
}

/// What an entry names, ready to be told. Nothing is started or connected yet.
///
/// # Errors
/// What can be known to fail each time: a builtin or a model that is not there, arguments that it
/// does not take, no key, a malformed template or address.
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
