//! Anthropic Messages, and the count of tokens.

use serde_json::Value;

use super::{Cacheability, DAY, Object, any_member, is_fixed, is_set, server_tool};

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

fn refusal(body: &Object) -> Option<String> {
    let is_client =
        |kind: &str| kind == "custom" || RUN_BY_CLIENT.iter().any(|own| kind.starts_with(own));
    if let Some(tool) = server_tool(body, is_client) {
        return Some(format!("the provider runs the tool `{tool}`"));
    }
    if let Some(member) = ["mcp_servers", "container", "thread"]
        .iter()
        .find(|it| is_set(body, it))
    {
        return Some(format!(
            "the request refers to state elsewhere (`{member}`)"
        ));
    }
    let is_reference = |name: &str, value: &Value| {
        let kind = value.get("type").and_then(Value::as_str);
        name == "source" && matches!(kind, Some("url" | "file"))
    };
    let inputs = ["messages", "system"]
        .iter()
        .filter_map(|member| body.get(*member));
    let mut inputs = inputs;
    inputs
        .any(|input| any_member(input, &is_reference))
        .then(|| "an image or a document is at a URL, or stored at the provider".to_owned())
}
