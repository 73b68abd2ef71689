//! The description that a server gives of itself (`serverInfo`).

use cachalot_core::json;
use cachalot_core::text::truncate;
use cachalot_core::{Canonical, Digest};
use serde_json::{Value, json};

use crate::json_members::text_value;

/// Maximum number of characters of a name or a version that is shown.
const MAX_CHARS: usize = 100;

/// The description that a server gives of itself.
#[derive(Debug, Clone)]
pub(super) struct ServerInfo {
    /// The digest of the whole.
    digest: Digest,
    /// `name`, for explanations.
    name: Option<String>,
    /// `version`, for explanations.
    version: Option<String>,
}

impl ServerInfo {
    /// Reads the JSON of `serverInfo`; `None` if it has no canonical form.
    pub(super) fn read(text: &str) -> Option<Self> {
        let digest = Canonical::json(text.as_bytes()).ok()?.digest();
        let member = |name| {
            let member = json::member(text, name).and_then(text_value)?;
            Some(truncate(&member, MAX_CHARS).into_owned())
        };
        Some(Self {
            digest,
            name: member("name"),
            version: member("version"),
        })
    }

    /// Returns the form in the key.
    pub(super) fn keyed(&self) -> Value {
        let Self {
            digest,
            name,
            version,
        } = self;
        json!({"digest": digest.to_hex(), "name": name, "version": version})
    }
}
