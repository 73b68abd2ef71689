//! Replacement of the tools with which a session began.

use cachalot_prompt::Target;

use super::{AgentPrompt, Conversation, changes};
use crate::Error;

impl Conversation {
    /// Describes which tools differ from those of the session; `None` if none.
    pub(crate) fn changed_tools(&self, agent_prompt: &AgentPrompt) -> Option<String> {
        changes::tools(&self.session.prompt, &agent_prompt.rendered(&self.model))
    }

    /// Replaces tools and system text. The messages are kept; the provider reads all of them anew.
    pub(crate) async fn replace_prompt(&mut self, agent_prompt: &AgentPrompt) -> Result<(), Error> {
        let model = self.model.for_tools(!agent_prompt.tools.is_empty())?;
        let frozen = agent_prompt.rendered(&model);
        changes::check_tools(&self.session, &frozen, model.wire().format())?;
        let target = Target {
            provider: self.model.provider(),
            model: self.model.name(),
            base_url: Some(self.model.base_url()),
            tools: &frozen.tools,
            system: &frozen.system,
        };
        let rendered = self.session.rerender(model.wire(), target).await;
        rendered.map_err(|error| Error::session(&error))?;
        self.model = model;
        self.has_tools = !frozen.tools.is_empty();
        Ok(())
    }
}
