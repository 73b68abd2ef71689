//! Metadata of a session: its origin, routing key, title and the parameters that follow from them.

use cachalot_core::secret::mask_credentials;
use cachalot_model::routing::is_routed;
use cachalot_model::{Block, Message, Model, Parameters};
use cachalot_prompt::{FIVE_MINUTES, Prompt, SessionHead};

use super::effort;
use crate::definition::AgentDefinition;
use crate::dependencies::Dependencies;

/// Characters of the first message that become the title of the session.
const MAX_TITLE_CHARS: usize = 60;

/// The routing key of a new session: the same for all sessions with these tools and this system text. `None`
/// if the provider routes without one.
pub(super) fn routing_key(
    dependencies: &Dependencies,
    model: &Model,
    prompt: &Prompt,
) -> Option<String> {
    let shared = prompt.tip().filter(|_| is_routed(model.provider()))?;
    Some(model.rates().assign(shared.0, dependencies.clock.now()))
}

/// Returns true if the same agent has sent the same tools and system text within the last five minutes: a
/// request could have read them from the provider's cache, so later ones may, too.
pub(super) async fn is_repeated(
    dependencies: &Dependencies,
    head: &SessionHead,
    prompt: &Prompt,
) -> bool {
    let found = dependencies
        .sessions
        .has_recent(head, prompt, FIVE_MINUTES)
        .await;
    // An error affects the price of the request only, not the answer.
    found.unwrap_or(false)
}

/// The parameters of a session's requests.
pub(super) fn parameters(head: &SessionHead, model: &Model, has_tools: bool) -> Parameters {
    let mut parameters = head.routed(model.parameters());
    parameters.reasoning = effort::sent(head, model);
    if !has_tools {
        // Providers refuse tool parameters in a request without tools.
        parameters.parallel_tool_calls = None;
        parameters.tool_choice = None;
    }
    parameters
}

/// The metadata of a new session.
pub(super) fn head(
    dependencies: &Dependencies,
    agent: &AgentDefinition,
    model: &Model,
    id: String,
    parent: Option<String>,
) -> SessionHead {
    SessionHead {
        workspace: Some(workspace(dependencies)),
        base_url: Some(model.base_url().to_owned()),
        parent,
        ..SessionHead::new(
            id,
            &agent.name,
            model.provider(),
            model.name(),
            model.wire().format(),
        )
    }
}

/// The folder in which the tools of the session work.
pub(super) fn workspace(dependencies: &Dependencies) -> String {
    dependencies.tools.workspace.root().display().to_string()
}

/// The beginning of a message, with credentials masked.
pub(super) fn title(message: &Message) -> String {
    let text = message.content.first().and_then(Block::as_text);
    text.map(shorten).unwrap_or_default()
}

pub(super) fn shorten(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Masked before it is cut: the mask does not recognize a part of a credential.
    let line = mask_credentials(&line);
    let mut title: String = line.chars().take(MAX_TITLE_CHARS).collect();
    if title.len() < line.len() {
        title.push('…');
    }
    title
}
