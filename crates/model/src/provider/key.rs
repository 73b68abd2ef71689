//! The key of a provider, and which header carries it.

use std::collections::BTreeMap;

use cachalot_core::secret::mask_credentials;
use cachalot_core::{Seals, Secret};
use cachalot_storage::header::{AUTHORIZATION, HeaderName};

use super::known::Provider;
use super::settings::ModelSettings;
use super::{Place, address};
use crate::Format;

/// The key that goes with requests.
#[derive(Debug, Clone)]
pub(crate) enum Key {
    /// None is needed, or none may go to this address.
    None {
        /// The variable whose key was withheld: the file says another address and not that the key
        /// may go there.
        withheld: Option<String>,
    },
    /// One is needed, and this variable does not hold it.
    Missing(String),
    /// This key, from this variable.
    Given {
        variable: String,
        secret: Secret<String>,
    },
}

impl Key {
    /// The key of a provider at a place.
    pub(super) fn find(
        settings: &ModelSettings,
        known: &Provider,
        place: &Place,
        environment: &BTreeMap<String, String>,
    ) -> Self {
        let read = |variable: &String| {
            let value = environment.get(variable)?.trim();
            (!value.is_empty()).then(|| Self::Given {
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
                Some(Self::Given { variable, .. }) => Some(variable),
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

    /// What to do when a provider does not let us in.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::Given { variable, .. } => {
                format!("check the key in the environment variable {variable}")
            }
            Self::Missing(variable) => missing(variable),
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

/// Whether nobody writes this text unless it is a key. What people write where no key is needed (`x`,
/// `test`, `not-needed`) is made of ordinary words: whoever took it for a secret would mask it wherever
/// it stands, and keep no answer that holds it.
fn is_telling(text: &str) -> bool {
    /// Even a key of letters alone is no word from this length on.
    const LONG: usize = 20;
    /// Of letters and digits, as every provider makes them, so many are not met by chance.
    const LONG_ENOUGH: usize = 8;
    let length = text.chars().count();
    let is_mixed =
        text.contains(|c: char| c.is_alphabetic()) && text.contains(|c: char| c.is_ascii_digit());
    length >= LONG || (length >= LONG_ENOUGH && is_mixed)
}

/// From now on `seals` know the key in this text: the whole of it, or what follows the scheme of a
/// header (`Bearer …`).
pub(super) fn teach(text: &str, seals: &Seals) {
    let key = text.trim().rsplit(' ').next().unwrap_or_default();
    if is_telling(key) {
        seals.learn(key);
    }
}

/// What to do about a variable that is not set.
pub(crate) fn missing(variable: &str) -> String {
    // Somebody may have taken the key itself for its variable.
    let shown = mask_credentials(variable);
    format!(
        "no key: the environment variable {shown} is not set; set it, or name another one with `token_key`"
    )
}

/// The header that carries the key.
pub(super) fn header(settings: &ModelSettings, known: &Provider, format: Format) -> HeaderName {
    let usual = match format {
        Format::Messages => HeaderName::from_static("x-api-key"),
        Format::Gemini => HeaderName::from_static("x-goog-api-key"),
        Format::Chat | Format::Responses | Format::Converse => AUTHORIZATION,
    };
    settings
        .key_header
        .as_ref()
        .or(known.key_header.as_ref())
        .and_then(|name| HeaderName::try_from(name.as_str()).ok())
        .unwrap_or(usual)
}

#[cfg(test)]
mod tests {
    use cachalot_core::DigestKey;

    use super::*;

    #[test]
    fn keys_are_learnt_and_words_in_their_place_are_not() {
        for (text, key) in [
            ("sk-proj-4f9aQ2", Some("sk-proj-4f9aQ2")),
            ("Bearer sk-proj-4f9aQ2", Some("sk-proj-4f9aQ2")),
            (" sk-proj-4f9aQ2\n", Some("sk-proj-4f9aQ2")),
            (
                "QWxhZGRpbkpvcHBlblNlc2FtZQ",
                Some("QWxhZGRpbkpvcHBlblNlc2FtZQ"),
            ),
            ("", None),
            ("x", None),
            ("sk-1234", None),
            ("12345678", None),
            ("simulated", None),
            ("not-needed", None),
            ("sk-no-key-required", None),
        ] {
            let seals = Seals::under(DigestKey::new([7; 32]));
            teach(text, &seals);
            let shown = seals
                .redact("sk-proj-4f9aQ2 QWxhZGRpbkpvcHBlblNlc2FtZQ")
                .into_owned();
            match key {
                Some(key) => assert!(!shown.contains(key), "{text}: {shown}"),
                None => assert!(seals.is_empty(), "{text}"),
            }
        }
    }
}
