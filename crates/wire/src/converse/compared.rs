//! Facts about requests of Converse by any client.

use crate::Level;
use crate::request_rules::RequestRules;

pub(super) static RULES: RequestRules = RequestRules {
    provider: "bedrock",
    served_by: Some(&["bedrock"]),
    own_members: &[
        "toolConfig",
        "inferenceConfig",
        "additionalModelRequestFields",
    ],
    parameter_levels: &[
        ("tool_choice", Some(Level::Message)),
        ("parallel_tool_calls", Some(Level::Message)),
        ("cache_key", None),
    ],
    member_levels: &[
        ("additionalModelResponseFieldPaths", None),
        ("inferenceConfig", None),
        ("performanceConfig", None),
        ("requestMetadata", None),
        ("serviceTier", None),
    ],
    needs_tools_for_calls: true,
    counts_write_lifetimes: true,
    ..RequestRules::PLAIN
};
