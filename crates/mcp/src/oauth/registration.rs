//! The choice of a client for a login, and its dynamic registration.

use cachalot_core::Secret;
use http::{HeaderMap, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};

use super::authorization_server::AuthorizationServer;
use super::client::{AuthMethod, ClientKind, RegisteredClient};
use super::error::shown;
use super::{OauthError, OauthErrorKind};

/// The client to be used for a login.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClientChoice {
    /// The ID of a client that is registered already, or the https URL of a client ID metadata document. `None`: the
    /// client is registered dynamically.
    pub id: Option<String>,
    /// The secret of a client that is registered already.
    pub secret: Option<Secret<String>>,
}

impl ClientChoice {
    /// True if the ID is the URL of a metadata document.
    #[must_use]
    pub fn is_metadata_document(&self) -> bool {
        let url = self.id.as_deref().and_then(|id| url::Url::parse(id).ok());
        url.is_some_and(|url| url.scheme() == "https" && url.path().len() > 1)
    }
}

/// The answer to a registration (RFC 7591).
#[derive(Deserialize)]
struct Registration {
    client_id: String,
    client_secret: Option<String>,
    token_endpoint_auth_method: Option<String>,
}

/// Returns the client for a login: the one that is chosen, or one that is registered now.
pub(super) async fn client_for(
    choice: &ClientChoice,
    server: &AuthorizationServer,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<RegisteredClient, OauthError> {
    let unusable = |what: String| OauthError::new(OauthErrorKind::Metadata, what);
    let supported = server.auth_methods();
    let supported = supported.as_deref();
    let Some(id) = &choice.id else {
        return register(server, redirect_uri, scopes).await;
    };
    if choice.is_metadata_document() && choice.secret.is_none() {
        if server.reads_client_documents() {
            return Ok(RegisteredClient {
                kind: ClientKind::MetadataDocument,
                id: id.clone(),
                secret: None,
                auth_method: AuthMethod::None,
                redirect_uri: redirect_uri.to_owned(),
            });
        }
        if server.metadata.registration_endpoint.is_none() {
            return Err(unusable(format!(
                "{} does not read client ID metadata documents, and registers no clients: register one there, and give its ID with --client-id",
                server.issuer
            )));
        }
        return register(server, redirect_uri, scopes).await;
    }
    // A public client is used as one, although not every server lists `none`.
    let auth_method = match &choice.secret {
        None => AuthMethod::None,
        Some(_) => AuthMethod::select(true, supported).ok_or_else(|| {
            unusable(format!(
                "{} supports no client secrets in the ways that are known here: client_secret_basic, client_secret_post",
                server.issuer
            ))
        })?,
    };
    Ok(RegisteredClient {
        kind: ClientKind::Registered,
        id: id.clone(),
        secret: choice
            .secret
            .clone()
            .filter(|_| auth_method != AuthMethod::None),
        auth_method,
        redirect_uri: redirect_uri.to_owned(),
    })
}

/// Registers a client dynamically.
async fn register(
    server: &AuthorizationServer,
    redirect_uri: &str,
    scopes: &[String],
) -> Result<RegisteredClient, OauthError> {
    let refused = |what: String| OauthError::new(OauthErrorKind::Refused, what);
    let issuer = &server.issuer;
    let Some(endpoint) = &server.metadata.registration_endpoint else {
        let also = if server.reads_client_documents() {
            ", or the URL of a client ID metadata document of yours"
        } else {
            ""
        };
        return Err(OauthError::new(
            OauthErrorKind::Metadata,
            format!(
                "{issuer} registers no clients: register one there, and give its ID with --client-id{also}"
            ),
        ));
    };
    let supported = server.auth_methods();
    // A public client if possible: a secret would be stored beside the tokens, and protects nothing more.
    // Of the two with a secret, the one in the body: some servers want the ID there in any case.
    let wanted = AuthMethod::select(false, supported.as_deref()).or_else(|| {
        let supported = supported.as_deref()?;
        let mut methods = [AuthMethod::ClientSecretPost, AuthMethod::ClientSecretBasic].into_iter();
        methods.find(|method| supported.contains(&method.name()))
    });
    let Some(wanted) = wanted else {
        return Err(OauthError::new(
            OauthErrorKind::Metadata,
            format!(
                "{issuer} supports none of the ways in which a client is known here: none, client_secret_basic, client_secret_post"
            ),
        ));
    };
    let mut body = json!({
        "client_name": "Cachalot",
        "redirect_uris": [redirect_uri],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": wanted.name(),
        "application_type": "native",
    });
    if !scopes.is_empty() {
        body["scope"] = Value::String(scopes.join(" "));
    }
    let answer = server
        .http
        .post_json(endpoint, HeaderMap::new(), &body)
        .await?;
    let status = answer.status();
    if status != StatusCode::CREATED && status != StatusCode::OK {
        return Err(refused(format!(
            "{issuer} does not register a client (HTTP {status}): {}; register one there, and give its ID with --client-id",
            shown(&String::from_utf8_lossy(answer.body()))
        )));
    }
    // Not the text of the error, which may contain a part of the secret.
    let registration: Registration = serde_json::from_slice(answer.body())
        .map_err(|_| refused(format!("the registration by {issuer} cannot be read")))?;
    let secret = registration
        .client_secret
        .filter(|secret| !secret.is_empty())
        .map(Secret::new);
    let auth_method = match registration.token_endpoint_auth_method.as_deref() {
        Some(name) => AuthMethod::parse(name),
        None if secret.is_some() && wanted != AuthMethod::None => Some(wanted),
        None => AuthMethod::select(secret.is_some(), supported.as_deref()),
    };
    let Some(auth_method) = auth_method else {
        return Err(refused(format!(
            "{issuer} has registered a client whose authentication is not supported here"
        )));
    };
    if secret.is_none() && auth_method != AuthMethod::None {
        return Err(refused(format!(
            "{issuer} has registered a client with the authentication {} and without a secret",
            auth_method.name()
        )));
    }
    Ok(RegisteredClient {
        kind: ClientKind::Dynamic,
        id: registration.client_id,
        secret: secret.filter(|_| auth_method != AuthMethod::None),
        auth_method,
        redirect_uri: redirect_uri.to_owned(),
    })
}
