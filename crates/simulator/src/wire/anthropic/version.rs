//! The version of the API that official clients name from 2026-10 on, and what it refuses.
//! <https://platform.claude.com/docs/en/api/versioning>

use super::super::{ApiError, Object, items, present, refuse};

/// The version.
pub(in crate::wire) const LATEST_VERSION: &str = "2026-10-21";

/// Parameters that the version does not have, for all models.
const REMOVED: [&str; 3] = ["temperature", "top_p", "top_k"];

/// Refuses what [`LATEST_VERSION`] refuses: sampling parameters, citations of text of the user, and
/// documents in messages of the model.
pub(in crate::wire) fn check_latest_version(request: &Object) -> Result<(), ApiError> {
    let mut removed = REMOVED.iter();
    if let Some(key) = removed.find(|key| present(request, key).is_some()) {
        return refuse(format!(
            "{key}: not supported in anthropic-version {LATEST_VERSION}"
        ));
    }
    for (at, message) in items(request.get("messages")).enumerate() {
        for (index, block) in items(message.get("content")).enumerate() {
            let of = |key: &str| block.get(key).filter(|value| !value.is_null());
            let role = message.get("role").and_then(serde_json::Value::as_str);
            let kind = of("type").and_then(serde_json::Value::as_str);
            let refused = match (role, kind) {
                (Some("user"), Some("text")) if of("citations").is_some() => "text.citations",
                (Some("assistant"), Some("document")) => "document",
                _ => continue,
            };
            return refuse(format!(
                "messages.{at}.content.{index}.{refused}: not supported in anthropic-version {LATEST_VERSION}"
            ));
        }
    }
    Ok(())
}
