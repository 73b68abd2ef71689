//! Additional headers of requests.

use cachalot_core::Secret;
use cachalot_storage::header::{HeaderName, HeaderValue};

use super::configuration;
use super::settings::ModelSettings;
use crate::Format;
use crate::cloud::Cloud;
use crate::error::Error;

/// The version of the Messages API that every server with this format knows, and that identities contain: answers do
/// not depend on the version, which only decides which requests are refused.
const ANTHROPIC_VERSION: (&str, &str) = ("anthropic-version", "2023-06-01");

/// The newest version of Anthropic's own API.
const NEWEST_VERSION: &str = "2026-10-21";

/// The members and types, one of which is in every request that [`NEWEST_VERSION`] refuses and the earlier one does not:
/// sampling parameters, citations on text of the user, documents in messages of the model.
/// <https://platform.claude.com/docs/en/api/migration-2026-10-21>
const REFUSED_BY_NEWEST: [&[u8]; 5] = [
    b"\"temperature\"",
    b"\"top_p\"",
    b"\"top_k\"",
    b"\"citations\"",
    b"\"document\"",
];

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
    /// True for the version of the API if none is configured.
    pub(crate) is_usual_version: bool,
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
            is_usual_version: false,
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
            is_usual_version: true,
        });
    }
    Ok(headers)
}

/// Returns the newest version of Anthropic's API, if it accepts a body that the earlier version accepts.
pub(crate) fn newest_version(body: &[u8]) -> Option<HeaderValue> {
    let mut refused = REFUSED_BY_NEWEST.iter();
    let is_refused = refused.any(|member| memchr::memmem::find(body, member).is_some());
    (!is_refused).then(|| HeaderValue::from_static(NEWEST_VERSION))
}
