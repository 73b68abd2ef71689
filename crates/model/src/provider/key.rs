//! Keys of providers and the headers that carry them.

use std::collections::BTreeMap;

use cachalot_core::secret::mask_credentials;
use cachalot_core::{Secret, SecretSet};
use cachalot_storage::header::HeaderName;

use super::ProviderAddress;
use super::settings::ModelSettings;
use crate::provider_table::BuiltInProvider;
use crate::wire::for_format;
use crate::{Format, address};

/// Key of requests to a provider.
#[derive(Debug, Clone)]
pub(crate) enum ProviderKey {
    /// No key is needed, or none may be sent to this address.
    None {
        /// Variable of the withheld key: the file sets another address without `token_key`, which would
        /// allow the key there.
        withheld: Option<String>,
    },
    /// A key is needed, but this variable is empty or not set.
    Missing(String),
    /// This variable is not set, and the settings or the address of the model need it.
    Unset(String),
    /// The key and its variable.
    Present {
        variable: String,
        secret: Secret<String>,
    },
}

impl ProviderKey {
    /// Finds the key for a provider's address.
    pub(super) fn find(
        settings: &ModelSettings,
        known: &BuiltInProvider,
        place: &ProviderAddress,
        environment: &BTreeMap<String, String>,
    ) -> Self {
        let read = |variable: &String| {
            let value = environment.get(variable)?.trim();
            (!value.is_empty()).then(|| Self::Present {
                variable: variable.clone(),
                secret: Secret::new(value.to_owned()),
            })
        };
        if let Some(variable) = &settings.token_key {
            return read(variable).unwrap_or_else(|| Self::Missing(variable.clone()));
        }
        let usual = known.key_variables.iter().find_map(read);
        if !place.is_own {
            let withheld = match usual {
                Some(Self::Present { variable, .. }) => Some(variable),
                _ => None,
            };
            return Self::None { withheld };
        }
        match (usual, known.key_variables.first()) {
            (Some(key), _) => key,
            (None, Some(variable)) if known.needs_key && !address::is_loopback(&place.url) => {
                Self::Missing(variable.clone())
            }
            _ => Self::None { withheld: None },
        }
    }

    /// Returns the remedy for a refused key.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::Present { variable, .. } => {
                format!("check the key in the environment variable {variable}")
            }
            Self::Missing(variable) => missing(variable),
            Self::Unset(variable) => unset(variable),
            Self::None {
                withheld: Some(variable),
            } => format!(
                "no key was sent, because `base_url` leads elsewhere: write `token_key: {variable}` if that key may go there"
            ),
            Self::None { withheld: None } => {
                "no key was sent: name the environment variable that holds it with `token_key`"
                    .to_owned()
            }
        }
    }
}

/// Returns true if a text is specific enough to be a key. Placeholders of users without a key (`x`, `test`,
/// `not-needed`) are ordinary words: registered as secrets, they would be masked in all output, and answers
/// that contain them would not be stored.
fn is_key_like(text: &str) -> bool {
    /// Minimum length of a key that consists of letters alone.
    const MIN_LETTER_KEY_CHARS: usize = 20;
    /// Minimum length of a key of letters and digits, the usual form of keys.
    const MIN_KEY_CHARS: usize = 8;
    let length = text.chars().count();
    let is_mixed =
        text.contains(|c: char| c.is_alphabetic()) && text.contains(|c: char| c.is_ascii_digit());
    length >= MIN_LETTER_KEY_CHARS || (length >= MIN_KEY_CHARS && is_mixed)
}

/// Registers the key in this text as a secret in `secret_set`: the whole text, or the part after the scheme of a
/// header (`Bearer …`).
pub(super) fn register_secrets(text: &str, secret_set: &SecretSet) {
    // The text may be a header such as `Bearer …`: the scheme is no secret.
    let key = text.trim().rsplit(' ').next().unwrap_or_default();
    if is_key_like(key) {
        secret_set.learn(key);
    }
}

/// Returns the remedy for a variable that is not set.
pub(crate) fn missing(variable: &str) -> String {
    // The user may have configured the key itself instead of its variable.
    let shown = mask_credentials(variable);
    format!(
        "no key: the environment variable {shown} is not set; set it, or name another one with `token_key`"
    )
}

/// Returns the remedy for a variable that is not set and that other settings than the key need.
pub(crate) fn unset(variable: &str) -> String {
    format!(
        "the environment variable {variable} is not set, and the settings of the model need it; set it, or give it a default: `${{{variable}:-default}}`"
    )
}

/// Returns the header that carries the key.
pub(super) fn header(
    settings: &ModelSettings,
    known: &BuiltInProvider,
    format: Format,
) -> HeaderName {
    let usual = HeaderName::from_static(for_format(format).key_header());
    settings
        .key_header
        .as_ref()
        .or(known.key_header.as_ref())
        .and_then(|name| HeaderName::try_from(name.as_str()).ok())
        .unwrap_or(usual)
}

#[cfg(test)]
#[path = "../../tests/unit/provider/key.rs"]
mod tests;
