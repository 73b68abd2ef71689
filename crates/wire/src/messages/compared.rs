//! Facts about requests of Messages by any client.

use serde_json::{Map, Value};

use crate::Level;
use crate::request_rules::{DefaultMember, ModelDefaults, RequestRules, Shape, without};

pub(super) static RULES: RequestRules = RequestRules {
    provider: "anthropic",
    served_by: Some(&["anthropic"]),
    own_members: &[
        "anthropic_version",
        "anthropic_beta",
        "stop_sequences",
        "output_config",
        "mcp_servers",
    ],
    system_in_messages: false,
    has_system_blocks: true,
    text_blocks: Some(("text", "text")),
    defaults: &[
        DefaultMember::new(Shape::Tool, "type", r#""custom""#),
        DefaultMember::new(Shape::Tool, "strict", "false"),
        DefaultMember::new(Shape::Tool, "eager_input_streaming", "false"),
        DefaultMember::new(Shape::Tool, "input_examples", "[]"),
        DefaultMember::new(Shape::Tool, "allowed_callers", r#"["direct"]"#),
        DefaultMember::new(Shape::Block, "is_error", "false"),
        DefaultMember::new(Shape::Block, "citations", "[]"),
        DefaultMember::new(Shape::Block, "citations", "{}"),
        DefaultMember::new(Shape::Part, "enabled", "false"),
    ],
    default_effort: Some("high"),
    effort_members: &["effort", "reasoning_effort"],
    omits_default_effort: false,
    normalize_member,
    parameter_levels: &[
        ("tool_choice", Some(Level::Message)),
        ("parallel_tool_calls", Some(Level::Message)),
        ("cache_key", None),
    ],
    member_levels: &[
        ("tool_choice", Some(Level::Message)),
        ("disable_parallel_tool_use", Some(Level::Message)),
        ("context_management", Some(Level::Message)),
        ("speed", Some(Level::System)),
    ],
    renders_web_tools_apart: true,
    needs_tools_for_calls: true,
    needs_output_limit: true,
    counts_write_lifetimes: true,
    ..RequestRules::PLAIN
};

fn normalize_member(name: &str, value: &mut Map<String, Value>, model: &ModelDefaults<'_>) {
    match name {
        "thinking" => {
            // `display` affects the output for the client, not the input of the model.
            value.shift_remove("display");
            let default = if model.thinks_always {
                "adaptive"
            } else {
                "disabled"
            };
            without(value, "type", |kind| kind == default);
        }
        "output_config" => {
            let default = RULES.effort(model);
            without(value, "effort", |effort| Some(effort) == default);
        }
        _ => {}
    }
}
