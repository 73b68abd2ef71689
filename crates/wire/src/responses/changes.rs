//! Tools and effort that change within a conversation: items after those of a message of the user.
//!
//! Sources: openai 7.59.0 (`ResponseInputItem.AdditionalTools`, `ResponseConfigurationUpdateItemParam`).

use serde_json::{Value, json};

use crate::openai;
use crate::{Rendered, SettingChanges};

/// Beginnings of the names of models that accept `additional_tools` in the Responses API, by the profiles of
/// @langchain/openai 1.6.3 (2026-10-20), which leave Azure open:
/// <https://github.com/langchain-ai/langchainjs/releases/tag/@langchain%2Fopenai@1.6.3>.
const TOOLS_MODELS: [&str; 2] = ["gpt-5.", "gpt-6"];

/// Parts of the names of models among them of which nothing is known.
const UNKNOWN: [&str; 2] = ["-pro", "-chat"];

/// The model that accepts `configuration_update`, not in the mode `pro`:
/// <https://openrouter.ai/docs/cookbook/evaluate-and-optimize/model-migrations/gpt-6-astra> (2026-11).
const EFFORT_MODEL: &str = "gpt-6-astra";

/// Returns true if a model of OpenAI accepts added tools.
pub(super) fn accepts_tools(model: &str) -> bool {
    TOOLS_MODELS.iter().any(|name| model.starts_with(name))
        && !UNKNOWN.iter().any(|part| model.contains(part))
}

/// Returns true if a model of OpenAI accepts changes of the effort.
pub(super) fn accepts_effort(model: &str) -> bool {
    model == EFFORT_MODEL
}

/// Renders the items.
pub(super) fn rendered(changes: &SettingChanges) -> Vec<Rendered> {
    let tools: Vec<Value> = changes.added.iter().map(super::function).collect();
    let effort = changes
        .effort
        .iter()
        .map(|effort| json!({"type": "configuration_update", "reasoning": {"effort": effort}}));
    let tools = (!tools.is_empty())
        .then(|| json!({"type": "additional_tools", "role": "developer", "tools": tools}));
    effort.chain(tools).map(openai::rendered).collect()
}
