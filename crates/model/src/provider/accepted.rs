//! The parameters that the API of a provider accepts. Others are not sent, because the API would refuse the
//! whole request; those that it has under another name are renamed.
//!
//! Servers whose API is not known get every parameter.

use cachalot_core::Problem;
use cachalot_core::text::word_list;

use super::settings::ModelSettings;
use crate::catalog::ModelLimits;
use crate::cloud::Cloud;
use crate::wire::{ApiOwner, for_format};
use crate::{Capabilities, Format, Parameters, RequestedReasoning};

/// Returns the owner of the API at the address of a provider. `name` is the name of a built-in provider;
/// `has_other_address` is set if the file or the environment names an address.
pub(super) fn api_owner(name: &str, has_other_address: bool, cloud: Option<Cloud>) -> ApiOwner {
    match name {
        // Each user has an address of their own.
        "azure" => ApiOwner::OpenAi,
        _ if cloud.is_some() => ApiOwner::Anthropic,
        _ if has_other_address => ApiOwner::Other,
        "openai" => ApiOwner::OpenAi,
        "anthropic" => ApiOwner::Anthropic,
        "google" => ApiOwner::Google,
        _ => ApiOwner::Other,
    }
}

/// A configured parameter that is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsentParameter {
    /// Its name.
    pub name: &'static str,
    /// The reason.
    pub reason: &'static str,
    /// The remedy.
    pub remedy: &'static str,
}

impl UnsentParameter {
    /// Returns the warning. `subject` is the model in the file, such as `` `models.fast` ``.
    #[must_use]
    pub fn warning(&self, subject: &str) -> Problem {
        let message = format!("{subject}: `{}` is not sent: {}", self.name, self.reason);
        Problem::warning("no-effect", message).help(self.remedy)
    }
}

/// Fields of `provider_opts` that exist in Chat Completions but not in Responses.
pub(super) const CHAT_ONLY: [&str; 19] = word_list(
    "audio frequency_penalty function_call functions logit_bias logprobs max_completion_tokens \
     max_tokens modalities n prediction presence_penalty reasoning_effort response_format seed \
     stop stream_options verbosity web_search_options",
);

const LEAVE_OUT: &str = "leave it out";

/// Default limit of output tokens in a format that requires a limit, for models that are known to support
/// so many.
const USUAL_MAX_TOKENS: u64 = 32_000;

/// Returns the parameters that the settings of a model configure.
pub(super) fn configured(
    settings: &ModelSettings,
    model: String,
    format: Format,
    limits: &ModelLimits,
) -> Parameters {
    // Without a configured limit, an unknown model gets a very low default. Reasoning counts toward the limit.
    let needed = limits
        .max_output
        .filter(|_| for_format(format).request_rules().needs_output_limit)
        .map(|maximum| match settings.reasoning {
            Some(RequestedReasoning::Budget(budget)) => {
                budget.saturating_add(USUAL_MAX_TOKENS).min(maximum)
            }
            _ => USUAL_MAX_TOKENS.min(maximum),
        });
    Parameters {
        model,
        max_output_tokens: settings.max_tokens.or(needed),
        temperature: settings.temperature,
        top_p: settings.top_p,
        stop: settings.stop.clone().unwrap_or_default(),
        parallel_tool_calls: settings.parallel_tool_calls,
        reasoning: settings.reasoning.clone(),
        output: settings.structured_output.clone(),
        extra: settings.provider_opts.clone(),
        ..Parameters::default()
    }
}

/// Removes and renames the parameters that an API does not accept as they are, and returns those that are
/// removed.
pub(super) fn adapt(
    parameters: &mut Parameters,
    owner: ApiOwner,
    format: Format,
    capabilities: &Capabilities,
) -> Vec<UnsentParameter> {
    let wire = for_format(format);
    let mut unsent = Vec::new();
    let mut leave_out = |name, reason, remedy| {
        unsent.push(UnsentParameter {
            name,
            reason,
            remedy,
        });
    };
    if capabilities.sampling == Some(false) {
        let reason = "the model decides how it samples";
        // The format leaves the parameters out itself, and keys contain them.
        let is_left_out = wire.has_parameter_rules();
        for (name, value) in [
            ("temperature", &mut parameters.temperature),
            ("top_p", &mut parameters.top_p),
        ] {
            if value.is_some() {
                leave_out(name, reason, LEAVE_OUT);
            }
            *value = value.filter(|_| is_left_out);
        }
        if parameters.extra.shift_remove("top_k").is_some() {
            leave_out("top_k", reason, LEAVE_OUT);
        }
    }
    let extra = &mut parameters.extra;
    wire.move_parameters(extra, &parameters.model);
    let mut remove = |names: &[&'static str], reason, remedy| {
        for name in names {
            if extra.shift_remove(*name).is_some() {
                leave_out(name, reason, remedy);
            }
        }
    };
    for refused in wire.refused_parameters(owner) {
        remove(refused.names, refused.reason, refused.remedy);
    }
    if (format, owner) == (Format::Responses, ApiOwner::OpenAi) {
        let reason = "the format `responses` has no such parameter";
        let remedy = match capabilities.takes(Format::Chat) {
            Some(false) => LEAVE_OUT,
            _ => "write `format: chat`",
        };
        remove(&CHAT_ONLY, reason, remedy);
        if !std::mem::take(&mut parameters.stop).is_empty() {
            leave_out("stop", reason, remedy);
        }
    }
    unsent
}
