//! The view of the runtime for builtins.

use std::sync::Arc;

use cachalot_core::Digest;
use cachalot_core::tree::Node;
use cachalot_model::Model;

/// Finds agents by name. Passed to the builtins when they are created.
pub trait AgentLookup: Send + Sync {
    /// Returns the agent with this name, if there is one.
    fn agent(&self, name: &str) -> Option<Arc<dyn AgentView>>;
}

/// The parts of an agent that builtins need.
pub trait AgentView: Send + Sync {
    /// The name.
    fn name(&self) -> &str;

    /// The models that the agent may call, its own first.
    fn models(&self) -> Vec<Model>;

    /// A digest of the instruction, tools, model and parameters of the agent in a session: everything
    /// that determines an answer besides the conversation. `None` if the session does not exist.
    fn fingerprint(&self, session: &str) -> Option<Digest>;

    /// A configuration section that the runtime itself does not read.
    fn section(&self, name: &str) -> Option<&Node>;
}

/// A lookup without agents.
impl AgentLookup for () {
    fn agent(&self, _: &str) -> Option<Arc<dyn AgentView>> {
        None
    }
}
