//! The model that is used if neither a file nor the command line names one.

use cachalot_core::Problem;
use cachalot_model::ModelConfiguration;

use crate::command_error::{CommandError, Result};
use crate::models::models_to_check;
use crate::wiring::ProcessEnvironment;

/// A model of each provider, the preferred provider first: a current model with a middle price.
const MODELS: [&str; 6] = [
    "anthropic/claude-sonnet-5-5",
    "openai/gpt-6.1-sol",
    "google/gemini-3.8-flash",
    "xai/grok-4.20",
    "deepseek/deepseek-v4-pro",
    "mistral/mistral-large-4",
];

/// Returns the first model of the list that can be called: the key of its provider is set, or the address of
/// its provider is on this machine.
///
/// # Errors
/// No such key is set; or the user's own catalog cannot be read.
pub(crate) fn default_model(process_environment: &ProcessEnvironment) -> Result<&'static str> {
    let models = models_to_check(process_environment, ModelConfiguration::default())?;
    let is_ready = |name: &&str| models.find(name).is_ok_and(|model| model.ready().is_ok());
    MODELS.into_iter().find(is_ready).ok_or_else(no_provider)
}

fn no_provider() -> CommandError {
    CommandError::usage(
        Problem::new("no-provider", "no model can be called: no API key is set").help(
            "set ANTHROPIC_API_KEY, OPENAI_API_KEY or GEMINI_API_KEY, or name a model of another provider with `--model PROVIDER/MODEL`. To try it without a key, run `cachalot simulate` in another terminal, and set OPENAI_BASE_URL=http://127.0.0.1:4010/v1",
        ),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_model::Catalog;

    use super::MODELS;

    #[test]
    fn default_models_are_priced() {
        let catalog = Catalog::built_in();
        for name in MODELS {
            let (provider, model) = name.split_once('/').unwrap();
            let entry = catalog.find(provider, model);
            assert!(entry.is_some_and(|entry| entry.price.is_some()), "{name}");
        }
    }
}
