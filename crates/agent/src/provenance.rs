//! Answers that no model gave: marked in the session, and sent without the mark.

use std::collections::BTreeMap;

use cachalot_core::Spend;
use cachalot_hooks::Synthetic;
use cachalot_model::Message;
use serde::{Deserialize, Serialize};

/// The field of a message with its origin. It is stored and never sent: no wire format sends fields that
/// begin with `@`.
const FIELD: &str = "@synthetic";

/// The origin of an answer that no model gave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// A short description, if the hook supplied one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// Names and values that the hook supplied.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// The spend that the answer saved.
    #[serde(default)]
    pub saved: Spend,
}

impl Provenance {
    /// Reads the origin of a session's message; `None` if a model or the user wrote it.
    #[must_use]
    pub fn from_message(message: &Message) -> Option<Self> {
        let field = message.extra.get(FIELD)?;
        // A marked message is never a model's, even if its mark cannot be parsed.
        Some(serde_json::from_value(field.clone()).unwrap_or_default())
    }

    /// Builds the session message of a hook's answer.
    pub(crate) fn message(synthetic: &Synthetic) -> (Self, Message) {
        let this = Self {
            provenance: synthetic.provenance.clone(),
            metadata: synthetic.metadata.clone(),
            saved: synthetic.saved,
        };
        let mut message = Message::assistant(synthetic.content.clone());
        let field = serde_json::to_value(&this).unwrap_or_default();
        message.extra.insert(FIELD.to_owned(), field);
        (this, message)
    }
}
