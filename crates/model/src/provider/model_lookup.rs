//! Chooses the format and the reasoning of requests by the capabilities of the model.

use cachalot_core::suggest::nearest;

use super::accepted::CHAT_ONLY;
use super::configuration;
use super::settings::ModelSettings;
use crate::Thinking;
use crate::catalog::CatalogEntry;
use crate::error::Error;
use crate::provider_table::BuiltInProvider;
use crate::wire::ApiOwner;
use crate::wire::{for_format, openai};
use crate::{Format, RequestedReasoning};

/// The provider whose models are called in the Responses format if they support it.
const PREFERS_RESPONSES: &str = "openai";

/// The effort that switches reasoning off.
const NO_EFFORT: &str = "none";

/// Minimum `max_output_tokens` of Responses.
const MIN_OUTPUT_TOKENS: u64 = 16;

/// A model's settings and catalog entry.
pub(super) struct ModelLookup {
    /// Name of the provider.
    pub(super) name: String,
    pub(super) model: String,
    pub(super) known: BuiltInProvider,
    pub(super) settings: ModelSettings,
    /// Name of the provider under which the catalog lists the model.
    pub(super) catalog_provider: String,
    /// The provider whose own API answers.
    pub(super) api_owner: ApiOwner,
    pub(super) listed: CatalogEntry,
}

impl ModelLookup {
    /// Returns the format of the provider's servers, if neither the settings nor the model decide.
    pub(super) fn usual_format(&self) -> Format {
        self.known.format.unwrap_or(Format::Chat)
    }

    /// Returns the format of requests that have no tools.
    ///
    /// - A configured `format` decides.
    /// - A model that accepts only Responses is called there.
    /// - OpenAI's models that accept Responses are called there, unless `base_url` names another server or
    ///   a configured option exists only in Chat Completions.
    ///
    /// # Errors
    /// `format: chat` for a model that does not accept Chat Completions.
    pub(super) fn format(&self) -> Result<Format, Error> {
        let takes = |format| self.listed.capabilities.takes(format);
        let only_responses =
            takes(Format::Chat) == Some(false) && takes(Format::Responses) == Some(true);
        match self.settings.format {
            Some(Format::Chat) if only_responses => Err(self.refused(
                "takes Responses requests only",
                "take `format: chat` out, or write `format: responses`",
            )),
            Some(format) => Ok(format),
            None if self.usual_format() != Format::Chat => Ok(self.usual_format()),
            None if only_responses => Ok(Format::Responses),
            None => Ok(if self.prefers_responses() {
                Format::Responses
            } else {
                Format::Chat
            }),
        }
    }

    fn prefers_responses(&self) -> bool {
        let extra = &self.settings.provider_opts;
        let needs_chat = self
            .settings
            .stop
            .as_ref()
            .is_some_and(|stop| !stop.is_empty())
            || self
                .settings
                .max_tokens
                .is_some_and(|max_tokens| max_tokens < MIN_OUTPUT_TOKENS)
            || extra.keys().any(|key| CHAT_ONLY.contains(&key.as_str()));
        self.name == PREFERS_RESPONSES
            && self.settings.base_url.is_none()
            && self.listed.capabilities.takes(Format::Responses) == Some(true)
            && !needs_chat
    }

    /// Checks that the model accepts the configured reasoning.
    ///
    /// # Errors
    /// The model does not accept it; the message lists the allowed efforts.
    pub(super) fn check_reasoning(&self, format: Format) -> Result<(), Error> {
        let Some(allowed) = &self.listed.capabilities.efforts else {
            return Ok(());
        };
        let thinking = self.listed.capabilities.thinking;
        let wire = for_format(format);
        let asked = match &self.settings.reasoning {
            None => return Ok(()),
            Some(RequestedReasoning::Effort(effort)) => effort.as_str(),
            Some(RequestedReasoning::Budget(budget)) if wire.sends_budget_as_effort() => {
                openai::effort(*budget)
            }
            Some(RequestedReasoning::Budget(_)) => return Ok(()),
        };
        let mut allowed: Vec<&str> = allowed.iter().map(String::as_str).collect();
        if wire.has_parameter_rules() {
            // Sent as a budget.
            if allowed.is_empty() && thinking.is_some_and(Thinking::accepts_budget) {
                allowed.extend(["low", "medium", "high"]);
            }
            if thinking != Some(Thinking::AlwaysOn) {
                allowed.insert(0, NO_EFFORT);
            }
        }
        if allowed.contains(&asked) {
            return Ok(());
        }
        let help = match nearest(asked, allowed.iter().copied()) {
            Some(near) => format!("did you mean `{near}`? It takes {}", allowed.join(", ")),
            None if allowed.is_empty() => "take `reasoning_effort` out".to_owned(),
            None => format!("write one of: {}", allowed.join(", ")),
        };
        Err(self.refused(
            &format!("does not take the reasoning effort `{asked}`"),
            &help,
        ))
    }

    /// Returns whether the model refuses requests with tools in Chat Completions.
    pub(super) fn refuses_tools_in_chat(&self) -> bool {
        let effort = match &self.settings.reasoning {
            Some(RequestedReasoning::Effort(effort)) => Some(effort.as_str()),
            Some(RequestedReasoning::Budget(budget)) => Some(openai::effort(*budget)),
            None => self.listed.capabilities.default_effort.as_deref(),
        };
        self.listed.capabilities.chat_tools_with_effort == Some(false) && effort != Some(NO_EFFORT)
    }

    fn refused(&self, what: &str, help: &str) -> Error {
        let Self { name, model, .. } = self;
        configuration(format!("{name}/{model} {what}: {help}"))
    }
}
