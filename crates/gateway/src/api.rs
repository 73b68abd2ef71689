//! The APIs that upstreams offer, and the headers of their credentials.

use http::HeaderName;

/// The API that an upstream offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    OpenAi,
    Anthropic,
    Gemini,
}

/// The header in which an upstream expects its credential.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AuthHeader {
    /// `Authorization: Bearer …`
    Bearer,
    /// The value alone, under this name.
    Plain(&'static str),
}

/// The APIs and the words that name them.
pub(crate) const APIS: [(&str, Api); 3] = [
    ("openai", Api::OpenAi),
    ("anthropic", Api::Anthropic),
    ("gemini", Api::Gemini),
];
impl Api {
    /// Returns the word that names the API.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::Gemini => "gemini",
        }
    }

    /// Returns the name of its provider.
    pub(crate) fn provider(self) -> &'static str {
        match self {
            Self::OpenAi => "OpenAI",
            Self::Anthropic => "Anthropic",
            Self::Gemini => "Google",
        }
    }

    /// Returns the API of this name.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        let found = APIS.iter().find(|(word, _)| *word == name);
        found.map(|(_, api)| *api)
    }

    /// Returns the header in which the provider of the API expects its credential.
    pub(crate) fn header(self) -> AuthHeader {
        match self {
            Self::OpenAi => AuthHeader::Bearer,
            Self::Anthropic => AuthHeader::Plain("x-api-key"),
            Self::Gemini => AuthHeader::Plain("x-goog-api-key"),
        }
    }
}

impl AuthHeader {
    /// Returns the name of the header, and what precedes the credential in its value.
    pub(crate) fn parts(self) -> (HeaderName, &'static str) {
        match self {
            Self::Bearer => (http::header::AUTHORIZATION, "Bearer "),
            Self::Plain(name) => (HeaderName::from_static(name), ""),
        }
    }
}
