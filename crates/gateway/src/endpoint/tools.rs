//! Tools that a request offers, and the one among them that the provider runs.
//!
//! APIs take tools in several places: beside the input, in items and blocks of the input, in namespaces of tools. Every
//! list is judged, wherever it is.

use cachalot_model::wire::Members;
use serde_json::Value;

use super::members::{client_data, find_in, items_of};
use super::{Endpoint, Object, Setting};

/// The member with a list of tools, in all formats and at any depth.
const LIST: &str = "tools";
/// The member with a tool that is added within a conversation.
const ADDED: &str = "tool";
/// The member with a choice among the offered tools.
const CHOICE: &str = "allowed_tools";

/// Returns the reason why the answer depends on the tools of a request: the provider runs one of them, or no table says
/// that the client does.
///
/// In a run, a tool of whose use an answer tells is no reason: an answer without it depends on the request alone, and one
/// with it is not stored.
pub(super) fn server_tool(
    endpoint: Endpoint,
    members: &Members,
    body: &Object,
    setting: Setting,
) -> Option<String> {
    let is_of_client = client_data(endpoint);
    let is_skipped =
        |name: &str, value: &Value| is_of_client(name, value) || is_choice(name, value);
    let judge = |tool: &Value| {
        let is_unused = setting == Setting::Run && members.is_shown_if_used(tool);
        (!is_unused && !members.is_run_by_client(tool)).then(|| reason(members, tool))
    };
    let find = |name: &str, value: &Value| {
        if name.eq_ignore_ascii_case(LIST) {
            match value {
                Value::Null => None,
                Value::Array(tools) => tools.iter().find_map(judge),
                _ => Some("`tools` is no list".to_owned()),
            }
        } else if name.eq_ignore_ascii_case(ADDED) && value.is_object() {
            match value.get("type").and_then(Value::as_str) {
                // The tool that it refers to is defined elsewhere in the request.
                Some("tool_reference") => None,
                Some("tool_definition") => judge(value.get("definition").unwrap_or(&Value::Null)),
                _ => Some(reason(members, value)),
            }
        } else {
            None
        }
    };
    find_in(body.iter(), &is_skipped, &find)
}

/// Returns true for a choice among the tools that the request offers: texts only, such as their names.
fn is_choice(name: &str, value: &Value) -> bool {
    let members = value.as_object().filter(|_| name == CHOICE);
    members.is_some_and(|members| {
        let mut texts = members.values().flat_map(items_of);
        texts.all(Value::is_string)
    })
}

/// Returns the reason for a tool of the provider, or an unknown one: with its type, or else the name of its first member.
fn reason(members: &Members, tool: &Value) -> String {
    let kind = tool.get("type").and_then(Value::as_str);
    let member = || Some(tool.as_object()?.keys().next()?.as_str());
    match kind.or_else(member) {
        Some(kind) if members.tool(&members.declared(kind)).is_some() => {
            format!("the provider runs the tool `{kind}`")
        }
        Some(kind) => format!("the tool `{kind}` is not known to this version"),
        None => "the provider runs a tool".to_owned(),
    }
}
