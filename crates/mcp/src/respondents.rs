//! The respondents of a server's questions during a call.

use std::sync::Arc;

use cachalot_operation::{Sampler, ToolContext, UserPrompter};

/// The user and the model that answer the questions of a server during a call.
#[derive(Clone)]
pub(super) struct Respondents {
    /// The user; `None` if no user can be asked.
    pub(super) user: Option<Arc<dyn UserPrompter>>,
    /// The model of the agent that made the call; `None` if it cannot be asked.
    pub(super) sampler: Option<Arc<dyn Sampler>>,
}

impl From<&ToolContext> for Respondents {
    fn from(context: &ToolContext) -> Self {
        Self {
            user: context.user.clone(),
            sampler: context.sampler.clone(),
        }
    }
}
