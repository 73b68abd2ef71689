//! What a run hands to its steps: everything that would otherwise be global.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_agent::definition::Builtins;
use cachalot_agent::{House, Listener, Team};
use cachalot_cache::Cache;
use cachalot_core::{Clock, Seals};
use cachalot_memory::Memory;
use cachalot_model::budget::Meter;
use cachalot_model::{Model, Models};
use cachalot_storage::Storage;
use serde_json::Value;

use crate::action::Failure;
use crate::actions::Registry;
use crate::report::Reporter;

/// Randomness, passed in so that tests are deterministic.
pub trait Random: Send + Sync {
    /// A number in `0.0..1.0`.
    fn unit(&self) -> f64;
}

/// Where agents that a step runs live. Tools and sessions are put together by whoever puts the program
/// together.
#[async_trait]
pub trait Houses: Send + Sync {
    /// What a team needs.
    ///
    /// # Errors
    /// What keeps it from being made ready, and what to do.
    async fn house(&self, team: &Arc<Team>, listener: Arc<dyn Listener>) -> Result<House, String>;

    /// Whether the user's configuration adds hooks to every agent.
    fn adds_hooks(&self) -> bool;

    /// The builtins that files with teams are read with.
    fn builtins(&self) -> Arc<Builtins>;
}

/// What a run hands to its steps.
pub struct Runtime {
    /// This run, apart from all others.
    pub run: String,
    /// The agent's name as it appears in handles (escaped).
    pub agent: String,
    /// The directory that relative paths are relative to.
    pub directory: PathBuf,
    /// The environment variables of the run.
    pub environment: BTreeMap<String, String>,
    /// `settings` of the agent file, environment variables expanded, as plain values.
    pub settings: Value,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub random: Arc<dyn Random>,
    /// Bytes behind URIs, and the HTTP client.
    pub storage: Storage,
    /// User memory, for `ltm.*`; `None` if it could not be opened (a warning was given).
    pub memory: Option<Arc<dyn Memory>>,
    /// The cache, on the same memory; without a memory it stores nothing.
    pub cache: Cache,
    /// How the command line overrides what files say: `--no-cache`, `--refresh`, `--frozen`.
    pub mode: cachalot_cache::Mode,
    /// The secrets of the run.
    pub seals: Arc<Seals>,
    /// `{{ secrets.NAME }}`.
    pub secrets: BTreeMap<String, cachalot_core::Secret<String>>,
    /// The models that the agent file and the environment know.
    pub models: Models,
    /// What of the file's budget is left.
    pub meter: Meter,
    /// The agents of the file.
    pub team: Option<Arc<Team>>,
    /// What agents need; `None` where there are none to be run.
    pub houses: Option<Arc<dyn Houses>>,
    /// The actions.
    pub actions: Arc<Registry>,
    /// Who is told what happens.
    pub reporter: Arc<dyn Reporter>,
}

impl Runtime {
    /// Whether the budget allows another model call.
    pub(crate) fn check_budget(&self, model: &Model) -> Result<(), Failure> {
        self.meter
            .check_for(model)
            .map_err(|over| Failure::new("over_budget", over.to_string()))
    }
}
