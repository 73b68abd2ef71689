//! The builtins' view of the agents of a team.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cachalot_core::tree::Node;
use cachalot_core::{Canonical, Digest};
use cachalot_hooks::{AgentLookup, AgentView};
use cachalot_model::{Model, Models};
use cachalot_prompt::{Level, Prompt};
use cachalot_tools::ToolContext;
use parking_lot::Mutex;
use serde_json::json;

use crate::definition::{AgentDefinition, Team};
use cachalot_operation::Permissions;

/// The builtins' view of the agents of a team. It is created before the team is read, because builtins hold
/// it and the team's files name builtins. It is filled when a chat begins. It serves one team only, because
/// agent names are unique only within a team.
#[derive(Default)]
pub struct AgentDirectory {
    agents: Mutex<BTreeMap<String, Arc<DirectoryEntry>>>,
    fingerprints: Arc<Fingerprints>,
    /// Number of turns so far.
    turns: AtomicU64,
}

/// Fingerprints by agent and session.
type Fingerprints = Mutex<BTreeMap<(String, String), Digest>>;

impl AgentDirectory {
    /// Adds the agents of a team and their models. Replaces agents with the same names; fingerprints of
    /// sessions are kept.
    pub fn register(&self, team: &Team, models: &Models) {
        let listed = team.agents.iter().map(|agent| {
            let listed = DirectoryEntry {
                definition: agent.clone(),
                models: agent.find_model(models).ok().into_iter().collect(),
                fingerprints: Arc::clone(&self.fingerprints),
            };
            (agent.name.clone(), Arc::new(listed))
        });
        self.agents.lock().extend(listed);
    }

    /// Stores the fingerprint of a session: a digest of everything except the conversation that affects the
    /// agent's answers.
    pub(crate) fn set_fingerprint(&self, agent: &str, session: &str, fingerprint: Digest) {
        let of = (agent.to_owned(), session.to_owned());
        self.fingerprints.lock().insert(of, fingerprint);
    }

    /// Removes the fingerprint of a session that has ended.
    pub(crate) fn remove_fingerprint(&self, agent: &str, session: &str) {
        let of = (agent.to_owned(), session.to_owned());
        self.fingerprints.lock().remove(&of);
    }

    /// Returns a unique number for a turn.
    pub(crate) fn next_turn(&self) -> u64 {
        self.turns.fetch_add(1, Ordering::Relaxed)
    }
}

impl AgentLookup for AgentDirectory {
    fn agent(&self, name: &str) -> Option<Arc<dyn AgentView>> {
        let listed = Arc::clone(self.agents.lock().get(name)?);
        Some(listed)
    }
}

/// An agent of a team.
struct DirectoryEntry {
    definition: AgentDefinition,
    models: Vec<Model>,
    fingerprints: Arc<Fingerprints>,
}

impl AgentView for DirectoryEntry {
    fn name(&self) -> &str {
        &self.definition.name
    }

    fn models(&self) -> Vec<Model> {
        self.models.clone()
    }

    fn fingerprint(&self, session: &str) -> Option<Digest> {
        let of = (self.definition.name.clone(), session.to_owned());
        self.fingerprints.lock().get(&of).copied()
    }

    fn section(&self, name: &str) -> Option<&Node> {
        self.definition.section(name)
    }
}

/// A digest of everything except the messages that affects answers in a session: tools and system text as
/// they are sent (which may differ from the agent's current ones), the model and its parameters, the hooks,
/// the agent's permissions, and the origins of its tools.
pub(crate) fn fingerprint(
    prompt: &Prompt,
    model: &Model,
    hooks: Digest,
    permissions: &Permissions,
    origins: Digest,
) -> Digest {
    let mut pieces = prompt.backwards();
    let frozen = pieces.find(|piece| piece.level != Level::Message);
    let frozen = frozen.map_or(Digest::sha256(&[]), |piece| piece.id.0);
    let identity = json!({
        "prompt": frozen.to_string(),
        "model": model.identity(),
        "hooks": hooks.to_string(),
        "permissions": permissions,
        "origins": origins.to_string(),
    });
    Canonical::value(&identity).digest()
}

/// A digest of the origins of an agent's tools: the definitions of toolsets and servers, and the values of
/// the environment variables that they name. A test server and a production server may offer identical tools.
pub(crate) fn origins(team: &Team, agent: &AgentDefinition, tools: &ToolContext) -> Digest {
    let servers = team
        .shared_tools
        .servers
        .iter()
        .map(|servers| servers.written.as_str());
    let toolsets = agent.toolsets.iter();
    let toolsets = toolsets.map(|toolsets| toolsets.written.as_str());
    let mut written: String = servers.chain(toolsets).collect();
    let named: Vec<String> = tools
        .environment
        .iter()
        .filter(|(name, _)| written.contains(&format!("${{{name}")))
        .map(|(name, value)| format!("\0{name}={value}"))
        .collect();
    written.extend(named.iter().map(String::as_str));
    match tools.secret_set.key() {
        // A value may be a secret with low entropy: use a keyed digest.
        Some(key) if !named.is_empty() => key.digest(written.as_bytes()),
        _ => Digest::sha256(written.as_bytes()),
    }
}
