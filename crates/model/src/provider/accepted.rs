//! The parameters that the API of a provider accepts. Others are not sent, because the API would refuse the
//! whole request; those that it has under another name are renamed.
//!
//! Servers whose API is not known get every parameter.

use cachalot_core::Problem;
use serde_json::{Map, Value};

use super::settings::ModelSettings;
use crate::catalog::{Capabilities, ModelLimits};
use crate::cloud::Cloud;
use crate::{Extra, Format, Parameters, RequestedReasoning};

/// The provider whose own API answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApiOwner {
    OpenAi,
    Anthropic,
    Google,
    /// A provider whose parameters are not known.
    Other,
}

impl ApiOwner {
    /// Returns the owner of the API at the address of a provider. `name` is the name of a built-in provider;
    /// `has_other_address` is set if the file or the environment names an address.
    pub(super) fn new(name: &str, has_other_address: bool, cloud: Option<Cloud>) -> Self {
        match name {
            // Each user has an address of their own.
            "azure" => Self::OpenAi,
            _ if cloud.is_some() => Self::Anthropic,
            _ if has_other_address => Self::Other,
            "openai" => Self::OpenAi,
            "anthropic" => Self::Anthropic,
            "google" => Self::Google,
            _ => Self::Other,
        }
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

/// Sampling parameters of servers for open models.
const OF_OPEN_MODELS: [&str; 4] = ["top_k", "min_p", "typical_p", "repetition_penalty"];

/// Sampling parameters of Chat Completions.
const OF_CHAT: [&str; 3] = ["frequency_penalty", "presence_penalty", "seed"];

/// Sampling parameters of the Gemini API, which are members of `generationConfig`.
const OF_GEMINI: [(&str, &str); 4] = [
    ("top_k", "topK"),
    ("frequency_penalty", "frequencyPenalty"),
    ("presence_penalty", "presencePenalty"),
    ("seed", "seed"),
];

/// Fields of `provider_opts` that exist in Chat Completions but not in Responses.
pub(super) const CHAT_ONLY: [&str; 19] = [
    "audio",
    "frequency_penalty",
    "function_call",
    "functions",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "modalities",
    "n",
    "prediction",
    "presence_penalty",
    "reasoning_effort",
    "response_format",
    "seed",
    "stop",
    "stream_options",
    "verbosity",
    "web_search_options",
];

const LEAVE_OUT: &str = "leave it out";

/// Default limit of output tokens in the format that requires a limit, for models that are known to support
/// so many.
const USUAL_MAX_TOKENS: u64 = 32_000;

/// Returns the parameters that the settings of a model configure.
pub(super) fn configured(
    settings: &ModelSettings,
    model: String,
    format: Format,
    limits: &ModelLimits,
) -> Parameters {
    // This format requires a limit. Without a configured one, an unknown model gets a very low default.
    // Reasoning counts toward the limit.
    let needed = limits
        .max_output
        .filter(|_| format == Format::Messages)
        .map(|most| match settings.reasoning {
            Some(RequestedReasoning::Budget(budget)) => {
                budget.saturating_add(USUAL_MAX_TOKENS).min(most)
            }
            _ => USUAL_MAX_TOKENS.min(most),
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
        // These formats leave the parameters out themselves, and keys contain them.
        let is_left_out = matches!(format, Format::Messages | Format::Converse);
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
    match (format, owner) {
        (Format::Gemini, _) => {
            for (name, renamed) in OF_GEMINI {
                move_into(extra, name, &["generationConfig", renamed]);
            }
        }
        (Format::Converse, _) if parameters.model.contains("claude") => {
            move_into(extra, "top_k", &["additionalModelRequestFields", "top_k"]);
        }
        (Format::Converse, _) if parameters.model.contains("nova") => {
            let path = ["additionalModelRequestFields", "inferenceConfig", "topK"];
            move_into(extra, "top_k", &path);
        }
        _ => {}
    }
    let mut remove = |names: &[&'static str], reason, remedy| {
        for name in names {
            if extra.shift_remove(*name).is_some() {
                leave_out(name, reason, remedy);
            }
        }
    };
    match (format, owner) {
        (Format::Chat | Format::Responses, ApiOwner::OpenAi) => {
            remove(
                &OF_OPEN_MODELS,
                "OpenAI's API has no such parameter",
                "leave it out, or name the address of another server in `base_url`",
            );
        }
        (Format::Chat, ApiOwner::Google) => remove(
            &OF_OPEN_MODELS,
            "Google's API has no such parameter in the format `chat`",
            "write `format: gemini`, which takes `top_k`",
        ),
        (Format::Messages, ApiOwner::Anthropic) => {
            let reason = "the Messages API has no such parameter";
            remove(&OF_OPEN_MODELS[1..], reason, LEAVE_OUT);
            remove(&OF_CHAT, reason, LEAVE_OUT);
        }
        (Format::Gemini, _) => remove(
            &OF_OPEN_MODELS,
            "the Gemini API has no such parameter",
            LEAVE_OUT,
        ),
        (Format::Converse, _) => {
            let reason = "the Converse API has no such parameter";
            let remedy = "write fields of the model itself into `additionalModelRequestFields`";
            remove(&OF_OPEN_MODELS, reason, remedy);
            remove(&OF_CHAT, reason, remedy);
        }
        _ => {}
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

/// Moves a field to this path, unless something is there.
fn move_into(extra: &mut Extra, name: &str, path: &[&str]) {
    let Some(value) = extra.shift_remove(name) else {
        return;
    };
    let Some((last, objects)) = path.split_last() else {
        return;
    };
    let mut object: &mut Map<String, Value> = extra;
    for name in objects {
        let inner = object
            .entry(*name)
            .or_insert_with(|| Value::Object(Map::new()));
        match inner {
            Value::Object(inner) => object = inner,
            _ => return,
        }
    }
    object.entry(*last).or_insert(value);
}
