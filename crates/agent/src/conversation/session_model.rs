//! The model of a session.

use cachalot_model::Model;
use cachalot_model::wire::for_format;
use cachalot_prompt::Session;

use super::snapshot;
use crate::Error;
use crate::definition::AgentDefinition;
use crate::dependencies::Dependencies;

/// The agent's model, checked to be ready for calls.
pub(super) fn model(dependencies: &Dependencies, agent: &AgentDefinition) -> Result<Model, Error> {
    let model = agent.find_model(&dependencies.models)?;
    model.ready()?;
    Ok(model)
}

/// The model in the wire format of the session, if the session can continue in that format.
pub(super) fn continue_in_format(session: &Session, model: &Model) -> Option<Model> {
    let head = &session.head;
    let is_same = (head.provider.as_str(), head.model.as_str()) == (model.provider(), model.name());
    // All servers support Chat Completions; another server may not support other formats.
    let is_known = for_format(head.format).request_rules().served_by.is_none()
        || head.base_url.as_deref() == Some(model.base_url());
    let same = is_same.then(|| model.continuing(head.format))?;
    let tools = snapshot::has_tools(&session.prompt);
    let same = same.for_tools(tools).ok()?;
    (is_known && same.wire().format() == head.format).then_some(same)
}
