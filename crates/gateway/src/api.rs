//! The APIs that upstreams offer, and the headers of their credentials.

use cachalot_core::config::{Settings, Word as _};
use http::HeaderName;

/// The API that an upstream offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
pub(crate) enum Api {
    #[setting(key = "openai")]
    OpenAi,
    Anthropic,
    Gemini,
}

/// The header in which an upstream expects its credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Settings)]
pub(crate) enum AuthHeader {
    /// `Authorization: Bearer …`
    #[setting(key = "authorization")]
    Bearer,
    #[setting(key = "api-key")]
    ApiKey,
    #[setting(key = "x-api-key")]
    XApiKey,
    #[setting(key = "x-goog-api-key")]
    XGoogApiKey,
}

impl Api {
    /// Returns the name of its provider.
    pub(crate) fn provider(self) -> &'static str {
        match self {
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Gemini => "Google",
        }
    }

    /// Returns the header in which the provider of the API expects its credential.
    pub(crate) fn header(self) -> AuthHeader {
        match self {
            Self::OpenAi => AuthHeader::Bearer,
            Self::Anthropic => AuthHeader::XApiKey,
            Self::Gemini => AuthHeader::XGoogApiKey,
        }
    }
}

impl AuthHeader {
    /// Returns the name of the header, and what precedes the credential in its value.
    pub(crate) fn parts(self) -> (HeaderName, &'static str) {
        let prefix = if self == Self::Bearer { "Bearer " } else { "" };
        (HeaderName::from_static(self.word()), prefix)
    }
}
