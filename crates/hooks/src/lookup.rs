//! How builtins see the runtime.

use std::sync::Arc;

use cachalot_core::Digest;
use cachalot_core::tree::Node;
use cachalot_model::Model;

/// Finds agents by name. Handed over once, when builtins are registered.
pub trait AgentLookup: Send + Sync {
    /// The agent of that name, if there is one.
    fn agent(&self, name: &str) -> Option<Arc<dyn AgentView>>;
}

/// What builtins see of an agent: what they legitimately need, and no more.
pub trait AgentView: Send + Sync {
    /// Its name.
    fn name(&self) -> &str;

    /// The models that it may ask, its own first.
    fn models(&self) -> Vec<Model>;

    /// A digest of its instruction, toolset, model and parameters as they are in a session: what else
    /// than the conversation decides what it answers. `None` if there is no such session.
    fn fingerprint(&self, session: &str) -> Option<Digest>;

    /// A section of its configuration that the runtime itself has no word for.
    fn section(&self, name: &str) -> Option<&Node>;
}

/// Nobody is there.
impl AgentLookup for () {
    fn agent(&self, _: &str) -> Option<Arc<dyn AgentView>> {
        None
    }
}
