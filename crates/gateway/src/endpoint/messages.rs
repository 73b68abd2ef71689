//! Anthropic Messages, and the count of tokens.

use serde_json::Value;

use super::{
    Cacheability, DAY, Object, any_member, is_fixed, is_remote, is_set, server_tool, unknown_member,
};

/// Members of a request on which nothing but the answer depends, or that are judged below.
const KNOWN: [&str; 25] = [
    "cache_control",
    "container",
    "context_management",
    "diagnostics",
    "inference_geo",
    "max_tokens",
    "mcp_servers",
    "messages",
    "metadata",
    "model",
    "output_config",
    "output_format",
    "seed",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "temperature",
    "thinking",
    "thread",
    "tool_choice",
    "tools",
    "top_k",
    "top_p",
];
/// Beginnings of the types of tools that the client runs.
const RUN_BY_CLIENT: [&str; 4] = ["bash_", "computer_", "memory_", "text_editor_"];

/// Judges a request for an answer.
pub(super) fn judge(body: &Object) -> Cacheability {
    match refusal(body) {
        Some(reason) => Cacheability::Never(reason),
        None => Cacheability::by_sampling(is_fixed(body)),
    }
}

/// Judges a request for a count.
pub(super) fn judge_count(body: &Object) -> Cacheability {
    match refusal(body) {
        Some(reason) => Cacheability::Never(reason),
        None => Cacheability::Repeatable { ttl: DAY },
    }
}

/// Returns the reason why the provider may look something up, or run a tool.
pub(super) fn lookup(body: &Object) -> Option<String> {
    let is_client = |kind: Option<&str>| {
        kind.is_none_or(|kind| {
            kind == "custom" || RUN_BY_CLIENT.iter().any(|own| kind.starts_with(own))
        })
    };
    let runs = ["mcp_servers", "thread"];
    let runs = runs.iter().find(|member| is_set(body, member));
    let runs = runs.map(|member| format!("the provider may run tools (`{member}`)"));
    runs.or_else(|| unknown_member(body, &KNOWN))
        .or_else(|| server_tool(body, is_client))
}

fn refusal(body: &Object) -> Option<String> {
    let state = ["mcp_servers", "container", "diagnostics", "thread"];
    let state = state.iter().find(|member| is_set(body, member));
    let state = state.map(|member| format!("the request refers to state elsewhere (`{member}`)"));
    let refusal = state.or_else(|| lookup(body));
    if refusal.is_some() {
        return refusal;
    }
    let is_reference = |name: &str, value: &Value| {
        let kind = value.get("type").and_then(Value::as_str);
        is_remote(name, value) || (name == "source" && matches!(kind, Some("url" | "file")))
    };
    let inputs = ["messages", "system"].iter();
    let mut inputs = inputs.filter_map(|member| body.get(*member));
    inputs
        .any(|input| any_member(input, &["input"], &is_reference))
        .then(|| "an image or a document is at a URL, or stored at the provider".to_owned())
}
