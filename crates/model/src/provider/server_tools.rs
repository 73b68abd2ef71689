//! Options of `provider_opts` by which a provider runs tools by itself.
//!
//! The client cannot see or refuse such a call before it is made. Providers keep adding options of this
//! kind, so the list contains the options that are known to run nothing; every other option may run tools.

use cachalot_core::text::word_list;
use serde_json::Value;

use crate::Extra;

/// Options that run no tools, by purpose: those of OpenAI Chat Completions, OpenAI Responses and Anthropic
/// Messages, and of servers that are compatible with one of these formats.
const OPTIONS_WITHOUT_TOOLS: &[&[&str]] = &[
    // Sampling.
    &word_list::<13>(
        "allowed_token_ids bad_words early_stopping ignore_eos logit_bias logprobs samplers \
         spaces_between_special_tokens skip_special_tokens stop stop_sequences stop_token_ids \
         use_beam_search",
    ),
    // Form of the answer.
    &word_list::<20>(
        "audio echo format grammar guided_choice guided_decoding_backend guided_grammar \
         guided_json guided_regex json_schema modalities moderation output_config prediction \
         response_format stream stream_options structured_outputs text verbosity",
    ),
    // Reasoning.
    &word_list::<11>(
        "chat_template_kwargs enable_thinking include_reasoning reasoning reasoning_effort \
         reasoning_format reasoning_split return_reasoning think thinking thinking_config",
    ),
    // Tools that the client runs, and the choice among them.
    &[
        "function_call",
        "functions",
        "parallel_tool_calls",
        "tool_choice",
    ],
    // Prompt cache, length of the conversation, state that the provider keeps.
    &word_list::<16>(
        "background cache_control cache_prompt compaction context_management conversation \
         include keep_alive previous_response_id prompt_cache_key prompt_cache_options \
         prompt_cache_retention store thread transforms truncation",
    ),
    // Routing, accounting, diagnosis.
    &word_list::<22>(
        "anthropic_beta betas billing_policy diagnostics fallback_credit_token fallbacks \
         inference_geo metadata model models options provider route safety_identifier \
         safety_settings service_tier speed trace usage user user_profile_id workspace_id",
    ),
];

/// The suffix by which OpenRouter searches the web for a model.
const ONLINE_SUFFIX: &str = ":online";

/// Returns the options of a model by which its provider may run tools by itself.
pub(super) fn options(model: &str, extra: &Extra) -> Vec<String> {
    let mut found: Vec<String> = extra
        .iter()
        .filter(|(name, value)| !name.starts_with('@') && may_run_tools(name, value))
        .map(|(name, _)| format!("provider_opts.{name}"))
        .collect();
    if model.ends_with(ONLINE_SUFFIX) {
        found.push(format!("model: {model}"));
    }
    found
}

fn may_run_tools(name: &str, value: &Value) -> bool {
    match value {
        Value::Null | Value::Number(_) | Value::Bool(false) => false,
        Value::Array(items) if items.is_empty() => false,
        _ if OPTIONS_WITHOUT_TOOLS
            .iter()
            .any(|known| known.contains(&name)) =>
        {
            names_online(value)
        }
        _ => true,
    }
}

/// Returns true if the value names a model with the suffix [`ONLINE_SUFFIX`], as fallbacks do.
fn names_online(value: &Value) -> bool {
    match value {
        Value::String(text) => text.ends_with(ONLINE_SUFFIX),
        Value::Array(items) => items.iter().any(names_online),
        Value::Object(fields) => fields.values().any(names_online),
        _ => false,
    }
}

#[cfg(test)]
#[path = "../../tests/unit/provider/server_tools.rs"]
mod tests;
