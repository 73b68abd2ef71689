//! OpenAI Chat Completions, and servers with the same API.

use serde_json::Value;

use super::{
    Cacheability, Object, any_member, is_fixed, is_remote, is_set, server_tool, unknown_member,
};

/// Members of a request on which nothing but the answer depends, or that are judged below.
const KNOWN: [&str; 44] = [
    "audio",
    "chat_template_kwargs",
    "frequency_penalty",
    "function_call",
    "functions",
    "guided_choice",
    "guided_grammar",
    "guided_json",
    "guided_regex",
    "logit_bias",
    "logprobs",
    "max_completion_tokens",
    "max_tokens",
    "messages",
    "metadata",
    "min_p",
    "modalities",
    "model",
    "n",
    "parallel_tool_calls",
    "prediction",
    "presence_penalty",
    "prompt_cache_key",
    "prompt_cache_retention",
    "reasoning",
    "reasoning_effort",
    "repetition_penalty",
    "response_format",
    "safety_identifier",
    "seed",
    "service_tier",
    "stop",
    "store",
    "stream",
    "stream_options",
    "temperature",
    "thinking",
    "tool_choice",
    "tools",
    "top_k",
    "top_logprobs",
    "top_p",
    "user",
    "verbosity",
];
/// Parts of the names of models that look something up without being asked to.
const SEARCHING_MODELS: [&str; 5] = ["search", "sonar", ":online", "compound", "deep-research"];

/// Returns the reason why the provider may look something up, or run a tool.
pub(super) fn lookup(body: &Object) -> Option<String> {
    let model = body
        .get("model")
        .and_then(Value::as_str)
        .unwrap_or_default();
    if is_set(body, "web_search_options")
        || SEARCHING_MODELS.iter().any(|part| model.contains(part))
    {
        return Some("the model searches the web".to_owned());
    }
    let is_client = |kind: Option<&str>| matches!(kind, Some("function" | "custom"));
    unknown_member(body, &KNOWN).or_else(|| server_tool(body, is_client))
}

/// Judges a request.
pub(super) fn judge(body: &Object) -> Cacheability {
    if let Some(reason) = lookup(body) {
        return Cacheability::Never(reason);
    }
    if is_set(body, "store") {
        return Cacheability::never("the answer is stored at the provider (`store`)");
    }
    if body.get("n").is_some_and(|count| count.as_u64() != Some(1)) {
        return Cacheability::never("several answers were asked for (`n`)");
    }
    if is_set(body, "audio") {
        return Cacheability::never("the audio of the answer expires at the provider");
    }
    let messages = body.get("messages").unwrap_or(&Value::Null);
    if any_member(messages, &[], &is_remote) {
        return Cacheability::never("an image or a document is at a URL, where it can change");
    }
    let is_reference = |name: &str, value: &Value| {
        (name == "file_id" && value.is_string()) || (name == "audio" && value.get("id").is_some())
    };
    if any_member(messages, &[], &is_reference) {
        return Cacheability::never("a file or audio is stored at the provider");
    }
    Cacheability::by_sampling(is_fixed(body))
}
