//! Facts about requests of Responses by any client.

use serde_json::{Map, Value, json};

use crate::request_rules::{DefaultMember, ModelDefaults, RequestRules, Shape, without};

pub(super) static RULES: RequestRules = RequestRules {
    provider: "openai",
    served_by: Some(&["openai", "azure"]),
    text_blocks: Some(("input_text", "output_text")),
    marks_answers: false,
    defaults: &[
        DefaultMember::new(Shape::Message, "type", r#""message""#),
        DefaultMember::new(Shape::Message, "status", r#""completed""#),
    ],
    normalize_member,
    parameter_levels: &[("tool_choice", None)],
    member_levels: &[("tool_choice", None)],
    ..RequestRules::PLAIN
};

fn normalize_member(name: &str, value: &mut Map<String, Value>, model: &ModelDefaults<'_>) {
    match name {
        "reasoning" => {
            value.shift_remove("summary");
            value.shift_remove("generate_summary");
            let default = RULES.effort(model);
            without(value, "effort", |effort| Some(effort) == default);
        }
        "text" => {
            if value.get("format") == Some(&json!({"type": "text"})) {
                value.shift_remove("format");
            }
            without(value, "verbosity", |verbosity| verbosity == "medium");
        }
        _ => {}
    }
}
