//! Going on with other tools than those that a session began with.

use cachalot_prompt::Target;

use super::{Conversation, Shown, changes};
use crate::Error;

impl Conversation {
    /// Which tools are others now than those that the session goes on with; `None` if none.
    pub(crate) fn changed_tools(&self, shown: &Shown) -> Option<String> {
        changes::tools(&self.session.prompt, &shown.rendered(&self.model))
    }

    /// Goes on with these tools and this system text. What was said stays what it was; the provider
    /// reads all of it anew.
    pub(crate) async fn show(&mut self, shown: &Shown) -> Result<(), Error> {
        let model = self.model.for_tools(!shown.tools.is_empty())?;
        let frozen = shown.rendered(&model);
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
