//! Additional headers of requests.

use cachalot_core::Secret;
use cachalot_storage::header::{HeaderName, HeaderValue};

use super::configuration;
use super::settings::ModelSettings;
use crate::Format;
use crate::cloud::Cloud;
use crate::error::Error;

/// The version of the Messages API whose rules the wire format follows.
const ANTHROPIC_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// Headers whose values are public; every other value may be a secret.
const PUBLIC_HEADERS: [&str; 8] = [
    "anthropic-beta",
    "anthropic-version",
    "http-referer",
    "openai-beta",
    "openai-organization",
    "openai-project",
    "user-agent",
    "x-title",
];

/// An additional header of every request.
#[derive(Debug, Clone)]
pub(crate) struct Header {
    pub(crate) name: HeaderName,
    pub(crate) value: Secret<String>,
}

impl Header {
    /// Returns true if its value may be a secret.
    pub(crate) fn is_secret(&self) -> bool {
        !PUBLIC_HEADERS.contains(&self.name.as_str())
    }

    /// Returns the value to send; a possible secret is marked as sensitive, so that it is not logged.
    pub(crate) fn header_value(&self) -> Option<HeaderValue> {
        let mut value = HeaderValue::from_str(self.value.expose()).ok()?;
        value.set_sensitive(self.is_secret());
        Some(value)
    }
}

/// Returns the configured headers and those that the format requires.
pub(super) fn headers(
    settings: &ModelSettings,
    format: Format,
    cloud: Option<Cloud>,
) -> Result<Vec<Header>, Error> {
    let mut headers = Vec::with_capacity(settings.headers.len() + 1);
    for (name, value) in &settings.headers {
        let header = HeaderName::try_from(name.as_str()).map(|name| Header {
            name,
            value: value.clone(),
        });
        match header {
            Ok(header) if header.header_value().is_some() => headers.push(header),
            _ => {
                return Err(configuration(format!(
                    "the header `{name}` cannot be sent: check its name, and take line ends and control characters out of its value"
                )));
            }
        }
    }
    let (name, value) = ANTHROPIC_VERSION;
    let is_said = headers.iter().any(|header| header.name.as_str() == name);
    // On a cloud platform, the version is in the body.
    if format == Format::Messages && cloud.is_none() && !is_said {
        headers.push(Header {
            name: HeaderName::from_static(name),
            value: Secret::new(value.to_owned()),
        });
    }
    Ok(headers)
}
