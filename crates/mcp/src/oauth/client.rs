//! The client that an authorization server knows: registered before, described by a document, or registered dynamically.

use cachalot_core::Secret;
use serde::{Deserialize, Serialize};

use super::secret_serde::optional_secret_text;

/// The origin of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClientKind {
    /// Registered before, by the user.
    Registered,
    /// Described by a document at its ID.
    MetadataDocument,
    /// Registered for a login.
    Dynamic,
}

/// A client of an authorization server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisteredClient {
    /// The origin.
    pub kind: ClientKind,
    /// The ID.
    pub id: String,
    /// The secret.
    #[serde(default, with = "optional_secret_text")]
    pub secret: Option<Secret<String>>,
    /// The `token_endpoint_auth_method`.
    pub auth_method: AuthMethod,
    /// The address that the browser is redirected to after a login.
    pub redirect_uri: String,
}

/// Authentication of a client in token requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthMethod {
    /// The ID alone.
    None,
    /// Basic authentication.
    ClientSecretBasic,
    /// ID and secret in the body.
    ClientSecretPost,
}

impl AuthMethod {
    const ALL: [Self; 3] = [Self::None, Self::ClientSecretBasic, Self::ClientSecretPost];

    /// The name in the protocol.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::ClientSecretBasic => "client_secret_basic",
            Self::ClientSecretPost => "client_secret_post",
        }
    }

    pub(super) fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.name() == name)
    }

    /// Selects the method of a client with or without a secret, by what the server supports.
    pub(super) fn select(has_secret: bool, supported: Option<&[&str]>) -> Option<Self> {
        // By RFC 8414, a server that states nothing supports basic authentication; public clients are always tried.
        let Some(supported) = supported else {
            return Some(if has_secret {
                Self::ClientSecretBasic
            } else {
                Self::None
            });
        };
        let preferred: &[Self] = if has_secret {
            &[Self::ClientSecretBasic, Self::ClientSecretPost, Self::None]
        } else {
            &[Self::None]
        };
        let mut methods = preferred.iter().copied();
        methods.find(|method| supported.contains(&method.name()))
    }
}
