//! Answers that no model gave: marked in the session, and in no request.

use std::collections::BTreeMap;

use cachalot_core::Spend;
use cachalot_hooks::Synthetic;
use cachalot_model::Message;
use serde::{Deserialize, Serialize};

/// The field of a message that is kept and never sent: no format sends fields that begin with `@`.
const FIELD: &str = "@synthetic";

/// Where an answer comes from that no model gave.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// In a few words, if the hook that answered said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provenance: Option<String>,
    /// Names and values that the hook gave with it.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, String>,
    /// What was not spent because of it.
    #[serde(default)]
    pub saved: Spend,
}

impl Provenance {
    /// Of a message of a session; `None` if a model, or the user, said it.
    #[must_use]
    pub fn of(message: &Message) -> Option<Self> {
        let field = message.extra.get(FIELD)?;
        // Whatever it says, a message that is marked was not a model's.
        Some(serde_json::from_value(field.clone()).unwrap_or_default())
    }

    /// An answer as the session keeps it.
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
