//! Facts about requests of Chat Completions by any client.

use crate::request_rules::{DefaultMember, RequestRules, Shape};

pub(super) static RULES: RequestRules = RequestRules {
    provider: "openai",
    marking_gateway: Some("openrouter"),
    own_members: &[
        "max_completion_tokens",
        "stream_options",
        "response_format",
        "n",
        "presence_penalty",
        "frequency_penalty",
        "reasoning_effort",
        "logprobs",
        "prompt_cache_key",
        "parallel_tool_calls",
        "stop",
    ],
    reads_list_as_string: true,
    defaults: &[
        DefaultMember::new(Shape::Part, "strict", "false"),
        DefaultMember::new(Shape::Message, "tool_calls", "[]"),
        DefaultMember::new(Shape::Message, "annotations", "[]"),
        DefaultMember::new(Shape::Part, "detail", r#""auto""#),
    ],
    parameter_levels: &[("tool_choice", None)],
    member_levels: &[("tool_choice", None)],
    ..RequestRules::PLAIN
};
