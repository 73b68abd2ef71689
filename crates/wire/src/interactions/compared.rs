//! Facts about requests of Interactions by any client.

use crate::request_rules::{DefaultMember, RequestRules, Shape};

/// A text in place of the steps is the user's: without its usual type and role, a step with this text is the same.
pub(super) static RULES: RequestRules = RequestRules {
    provider: "google",
    served_by: Some(&["google"]),
    own_members: &[
        "agent_config",
        "continuation_token",
        "generation_config",
        "previous_interaction_id",
        "response_modalities",
        "system_instruction",
        "webhook_config",
    ],
    system_in_messages: false,
    text_blocks: Some(("text", "text")),
    defaults: &[
        DefaultMember::new(Shape::Message, "type", r#""user_input""#),
        DefaultMember::new(Shape::Message, "role", r#""user""#),
    ],
    parameter_levels: &[("cache_key", None)],
    member_levels: &[("labels", None), ("webhook_config", None)],
    ..RequestRules::PLAIN
};
