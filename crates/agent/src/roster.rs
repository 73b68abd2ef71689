//! How builtins see the agents of a team.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cachalot_core::tree::Node;
use cachalot_core::{Canonical, Digest};
use cachalot_hooks::{AgentLookup, AgentView};
use cachalot_model::{Model, Models};
use cachalot_prompt::{Level, Prompt};
use cachalot_tools::Context;

use crate::definition::{AgentDefinition, Team};
use cachalot_operation::Permissions;

/// How builtins see the agents of a team. Made before the team is read, since its files name
/// builtins, which are handed this; filled when a chat begins. For one team: names of agents are
/// unique in a team only.
#[derive(Default)]
pub struct Roster {
    agents: Mutex<BTreeMap<String, Arc<Listed>>>,
    fingerprints: Arc<Fingerprints>,
    /// How many turns began.
    turns: AtomicU64,
}

/// By agent and session.
type Fingerprints = Mutex<BTreeMap<(String, String), Digest>>;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Roster {
    /// Fills it with the agents of a team and their models. Agents that are there already are
    /// replaced; what is known of sessions stays.
    pub fn enter(&self, team: &Team, models: &Models) {
        let listed = team.agents.iter().map(|agent| {
            let listed = Listed {
                definition: agent.clone(),
                models: models.find(&agent.model).ok().into_iter().collect(),
                fingerprints: Arc::clone(&self.fingerprints),
            };
            (agent.name.clone(), Arc::new(listed))
        });
        lock(&self.agents).extend(listed);
    }

    /// Notes what else than the conversation decides what an agent answers in a session.
    pub(crate) fn note(&self, agent: &str, session: &str, shown: Digest) {
        let of = (agent.to_owned(), session.to_owned());
        lock(&self.fingerprints).insert(of, shown);
    }

    /// A session is over.
    pub(crate) fn forget(&self, agent: &str, session: &str) {
        let of = (agent.to_owned(), session.to_owned());
        lock(&self.fingerprints).remove(&of);
    }

    /// A number that no other turn has.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }
}

impl AgentLookup for Roster {
    fn agent(&self, name: &str) -> Option<Arc<dyn AgentView>> {
        let listed = Arc::clone(lock(&self.agents).get(name)?);
        Some(listed)
    }
}

/// An agent of a team.
struct Listed {
    definition: AgentDefinition,
    models: Vec<Model>,
    fingerprints: Arc<Fingerprints>,
}

impl AgentView for Listed {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn models(&self) -> Vec<Model> {
        self.models.clone()
    }

    fn fingerprint(&self, session: &str) -> Option<Digest> {
        let of = (self.definition.name.clone(), session.to_owned());
        lock(&self.fingerprints).get(&of).copied()
    }

    fn section(&self, name: &str) -> Option<&Node> {
        self.definition.section(name)
    }
}

/// What a model is shown before the messages (tools and the system's text, as they are sent, which may
/// not be those that its agent has by now), which model with which parameters it is, which hooks have
/// a say, what the agent may do, and where its tools come from.
pub(crate) fn fingerprint(
    prompt: &Prompt,
    model: &Model,
    hooks: Digest,
    permissions: &Permissions,
    origins: Digest,
) -> Digest {
    let mut pieces = prompt.backwards();
    let frozen = pieces.find(|piece| piece.level != Level::Message);
    let frozen = frozen.map_or(Digest::of(&[]), |piece| piece.id.0);
    let identity = Canonical::value(&model.identity()).digest();
    let permissions = format!("{permissions:?}");
    Digest::of_parts(&[
        frozen.as_bytes(),
        identity.as_bytes(),
        hooks.as_bytes(),
        permissions.as_bytes(),
        origins.as_bytes(),
    ])
}

/// Where an agent's tools come from: what the file says of toolsets and servers, and the variables that
/// it names there. A model sees the same tools of a server for tests and of the real one.
pub(crate) fn origins(team: &Team, agent: &AgentDefinition, tools: &Context) -> Digest {
    let sections = [&team.mcps, &agent.toolsets].into_iter().flatten();
    let mut written: String = sections
        .map(|section| section.to_value().to_string())
        .collect();
    let named: Vec<String> = tools
        .environment
        .iter()
        .filter(|(name, _)| written.contains(&format!("${{{name}")))
        .map(|(name, value)| format!("\0{name}={value}"))
        .collect();
    written.extend(named.iter().map(String::as_str));
    match tools.seals.key() {
        // A value may be a secret that can be guessed.
        Some(key) if !named.is_empty() => key.digest(written.as_bytes()),
        _ => Digest::of(written.as_bytes()),
    }
}
