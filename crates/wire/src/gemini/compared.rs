//! Facts about requests of `generateContent` by any client.

use crate::request_rules::RequestRules;

pub(super) static RULES: RequestRules = RequestRules {
    provider: "google",
    served_by: Some(&["google"]),
    parameter_levels: &[("cache_key", None)],
    ..RequestRules::PLAIN
};
