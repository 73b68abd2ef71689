//! Model calls as they are written in a file, for checks when it is loaded.

use cachalot_core::Place;
use cachalot_core::tree::Node;
use cachalot_model::{ModelSettings, ReasoningWish};

use super::{CALL, STREAM};
use crate::template::is_literal;

/// A reasoning effort that a call asks a model for.
#[derive(Debug, Clone)]
pub struct WrittenEffort {
    /// Where the effort is written.
    pub place: Place,
    /// The name of the model, as for [`cachalot_model::Models::choose`].
    pub model: Option<String>,
    /// The effort, and what else the call says of the model.
    pub settings: ModelSettings,
}

/// The reasoning efforts of the calls of `llm.call` and `llm.stream` in a file, inside of `cache.wrap`,
/// too. Left out are calls whose model or effort a template decides.
#[must_use]
pub fn written_efforts(file: &Node) -> Vec<WrittenEffort> {
    let mut found = Vec::new();
    visit(file, &mut found);
    found
}

fn visit(node: &Node, found: &mut Vec<WrittenEffort>) {
    for (action, arguments) in [("uses", "with"), ("action", "args")] {
        if let Some(name) = node.get(action).and_then(Node::as_text)
            && CALL
                .names
                .iter()
                .chain(STREAM.names)
                .any(|known| *known == name)
        {
            found.extend(node.get(arguments).and_then(effort));
        }
    }
    let entries = node.as_map().unwrap_or_default();
    let items = node.as_list().unwrap_or_default();
    for child in entries.iter().map(|entry| &entry.value).chain(items) {
        visit(child, found);
    }
}

fn effort(arguments: &Node) -> Option<WrittenEffort> {
    let effort = arguments.get("reasoning_effort")?;
    let text = |name: &str| match arguments.get(name) {
        None => Some(None),
        Some(node) => node.as_text().filter(|text| is_literal(text)).map(Some),
    };
    let (model, provider) = (text("model")?, text("provider")?);
    let base_url = text("base_url")?;
    let (model, provider) = match (model, provider, base_url) {
        (Some(model), Some(provider), None) => (Some(format!("{provider}/{model}")), None),
        (model, provider, _) => (model.map(str::to_owned), provider),
    };
    let wish = text("reasoning_effort")??;
    Some(WrittenEffort {
        place: effort.place.clone(),
        model,
        settings: ModelSettings {
            provider: provider.map(str::to_owned),
            base_url: base_url.map(str::to_owned),
            reasoning: Some(ReasoningWish::Effort(wish.to_owned())),
            ..ModelSettings::default()
        },
    })
}
