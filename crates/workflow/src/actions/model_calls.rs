//! Model calls in a file, for load-time checks.

use cachalot_core::tree::Node;
use cachalot_core::{Problem, SourceSpan};
use cachalot_model::{Error, ModelSettings, Models, RequestedReasoning};
use serde_json::Value;

use super::llm::{CALL, STREAM, default, unknown_program, with_prefix};
use super::reason::ALL_ABOUT;
use crate::template::is_literal;

/// A reasoning effort that a call in a file requests.
#[derive(Debug, Clone)]
pub struct RequestedEffort {
    /// The place of the effort in the file.
    pub place: SourceSpan,
    /// The model of the call, as written.
    pub model: Option<String>,
    /// The effort, and the other model settings of the call.
    pub settings: ModelSettings,
}

impl RequestedEffort {
    /// Returns the error if the model of the call rejects the effort. The model is the one that the call
    /// would use at run time; a model that cannot be found rejects nothing.
    #[must_use]
    pub fn refusal(&self, models: &Models) -> Option<Error> {
        let Self {
            model, settings, ..
        } = self;
        let name = model.as_deref().or_else(|| default(models));
        if let Some((prefixed, bare)) = with_prefix(models, name, settings) {
            return models.refusal(Some(&prefixed), &bare);
        }
        models.refusal(name, settings)
    }
}

/// Returns the reasoning efforts of all `llm.*` and `reason.*` calls in a file, including those inside
/// `cache.wrap`. Calls whose model or effort comes from a template are left out.
#[must_use]
pub fn requested_efforts(file: &Node) -> Vec<RequestedEffort> {
    let mut found = Vec::new();
    collect_arguments(file, &mut found);
    found.into_iter().filter_map(effort).collect()
}

/// Returns a problem for each program that a call in a file names and that is neither configured nor
/// built in. `settings` are those of the file. Names that a template produces are not checked.
pub(crate) fn unknown_programs(file: &Node, settings: &Value) -> Vec<Problem> {
    let mut calls = Vec::new();
    collect_arguments(file, &mut calls);
    let problems = calls.into_iter();
    problems
        .filter_map(|arguments| unknown_program(arguments, settings))
        .collect()
}

/// Collects the arguments of all `llm.*` and `reason.*` calls in a file.
fn collect_arguments<'n>(node: &'n Node, found: &mut Vec<&'n Node>) {
    for (action, arguments) in [("uses", "with"), ("action", "args")] {
        if let Some(name) = node.get(action).and_then(Node::as_text)
            && takes_model_arguments(name)
        {
            found.extend(node.get(arguments));
        }
    }
    let entries = node.as_map().unwrap_or_default();
    let items = node.as_list().unwrap_or_default();
    for child in entries.iter().map(|entry| &entry.value).chain(items) {
        collect_arguments(child, found);
    }
}

/// True if the action of this name takes the arguments of a model.
fn takes_model_arguments(name: &str) -> bool {
    let actions = [&CALL, &STREAM].into_iter().chain(ALL_ABOUT);
    actions.into_iter().any(|about| about.has_name(name))
}

fn effort(arguments: &Node) -> Option<RequestedEffort> {
    let effort = arguments.get("reasoning_effort")?;
    let text = |name: &str| match arguments.get(name) {
        None => Some(None),
        Some(node) => node.as_text().filter(|text| is_literal(text)).map(Some),
    };
    let (model, provider) = (text("model")?.map(str::to_owned), text("provider")?);
    let base_url = text("base_url")?;
    let requested = text("reasoning_effort")??;
    Some(RequestedEffort {
        place: effort.place.clone(),
        model,
        settings: ModelSettings {
            provider: provider.map(str::to_owned),
            base_url: base_url.map(str::to_owned),
            reasoning: Some(RequestedReasoning::Effort(requested.to_owned())),
            ..ModelSettings::default()
        },
    })
}
