//! The authorization server of an MCP server, as its metadata describes it.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use cachalot_core::Secret;
use rmcp::transport::auth::{
    AuthError, AuthorizationManager, AuthorizationMetadata, CredentialStore,
    InMemoryCredentialStore, OAuthClientConfig, OAuthTokenResponse, StoredCredentials,
};
use serde_json::{Value, json};
use url::Url;

use super::client::{AuthMethod, RegisteredClient};
use super::guarded_http::GuardedHttp;
use super::{Login, OauthError, OauthErrorKind, is_protected};

/// The member of the metadata with the kinds of authentication of clients.
const AUTH_METHODS: &str = "token_endpoint_auth_methods_supported";

/// An authorization server.
pub(super) struct AuthorizationServer {
    manager: AuthorizationManager,
    pub(super) metadata: AuthorizationMetadata,
    pub(super) issuer: String,
    pub(super) http: Arc<GuardedHttp>,
}

/// Tokens of an answer.
pub(super) struct Tokens {
    pub(super) access_token: Secret<String>,
    pub(super) refresh_token: Option<Secret<String>>,
    pub(super) received: u64,
    pub(super) expires_in: Option<u64>,
    /// The granted scopes, if the answer names them.
    pub(super) scopes: Option<Vec<String>>,
}

impl AuthorizationServer {
    /// Finds the authorization server of `server`. `challenge` is the `WWW-Authenticate` header of its refusal.
    pub(super) async fn discover(
        server: &Url,
        challenge: Option<&str>,
        http: Arc<GuardedHttp>,
    ) -> Result<Self, OauthError> {
        let unusable = |what: String| OauthError::new(OauthErrorKind::Metadata, what);
        let of_library =
            |error: AuthError| OauthError::of_library(&error, http.take_failure().as_deref());
        let mut manager =
            AuthorizationManager::new_with_oauth_http_client(server.clone(), http.clone())
                .await
                .map_err(of_library)?;
        let found = manager
            .resolve_metadata_from_challenge(challenge)
            .await
            .map_err(of_library)?;
        // Failures of candidates that were not needed.
        http.take_failure();
        if !found.source.is_discovered() {
            return Err(unusable(format!(
                "{server} publishes no metadata about logins: give a token in `headers` of the server, if it wants one"
            )));
        }
        let metadata = found.metadata;
        let Some(issuer) = metadata.issuer.clone().filter(|issuer| !issuer.is_empty()) else {
            return Err(unusable(format!(
                "the authorization server of {server} names no issuer"
            )));
        };
        // The specification has a client refuse a server that does not state that it checks the code challenge.
        let methods = metadata.code_challenge_methods_supported.as_deref();
        if !methods.is_some_and(|methods| methods.iter().any(|method| method == "S256")) {
            return Err(unusable(format!(
                "{issuer} does not state that it supports PKCE with S256 (`code_challenge_methods_supported`); a login without it is not safe"
            )));
        }
        for endpoint in [
            Some(&metadata.authorization_endpoint),
            Some(&metadata.token_endpoint),
            metadata.registration_endpoint.as_ref(),
        ]
        .into_iter()
        .flatten()
        {
            if !Url::parse(endpoint).is_ok_and(|url| is_protected(&url)) {
                return Err(unusable(format!(
                    "{issuer} names an endpoint that is not https://"
                )));
            }
        }
        manager.set_metadata(metadata.clone());
        Ok(Self {
            manager,
            metadata,
            issuer,
            http,
        })
    }

    /// True if the server reads client ID metadata documents.
    pub(super) fn reads_client_documents(&self) -> bool {
        self.has("client_id_metadata_document_supported")
    }

    fn has(&self, member: &str) -> bool {
        self.metadata.additional_fields.get(member) == Some(&Value::Bool(true))
    }

    /// The kinds of authentication of clients that the server supports, if it states them.
    pub(super) fn auth_methods(&self) -> Option<Vec<&str>> {
        let methods = self.metadata.additional_fields.get(AUTH_METHODS)?;
        Some(
            methods
                .as_array()?
                .iter()
                .filter_map(Value::as_str)
                .collect(),
        )
    }

    /// Returns the scopes to request: those of the challenge, else those of the metadata of the server, else none.
    pub(super) async fn initial_scopes(&self) -> Vec<String> {
        self.manager.select_initial_scopes(&[]).await
    }

    /// Adds `offline_access` if the server has it: it then issues refresh tokens.
    pub(super) fn with_offline_access(&self, mut scopes: Vec<String>) -> Vec<String> {
        const OFFLINE: &str = "offline_access";
        let supported = self.metadata.scopes_supported.as_deref();
        let is_supported = supported.is_some_and(|scopes| scopes.iter().any(|it| it == OFFLINE));
        if is_supported && !scopes.is_empty() && !scopes.iter().any(|scope| scope == OFFLINE) {
            scopes.push(OFFLINE.to_owned());
        }
        scopes
    }

    /// Uses this client in all requests.
    pub(super) fn use_client(&mut self, client: &RegisteredClient) -> Result<(), OauthError> {
        // The library selects the authentication by the metadata, and not by the answer to the registration.
        let mut metadata = self.metadata.clone();
        metadata
            .additional_fields
            .insert(AUTH_METHODS.to_owned(), json!([client.auth_method.name()]));
        self.manager.set_metadata(metadata);
        let mut config = OAuthClientConfig::new(&client.id, &client.redirect_uri);
        if let Some(secret) = &client.secret
            && client.auth_method != AuthMethod::None
        {
            config = config.with_client_secret(secret.expose());
        }
        self.manager
            .configure_client(config)
            .map_err(|error| OauthError::of_library(&error, None))
    }

    /// Returns the address for the browser, with a new state and code challenge.
    pub(super) async fn authorization_url(&self, scopes: &[String]) -> Result<Url, OauthError> {
        let scopes: Vec<&str> = scopes.iter().map(String::as_str).collect();
        let url = self
            .manager
            .get_authorization_url(&scopes)
            .await
            .map_err(|error| OauthError::of_library(&error, None))?;
        Url::parse(&url).map_err(|error| {
            OauthError::new(
                OauthErrorKind::Metadata,
                format!("{} names an invalid endpoint: {error}", self.issuer),
            )
        })
    }

    /// Checks the issuer in a response of the authorization (RFC 9207), before anything else of it is used.
    pub(super) fn check_response_issuer(&self, received: Option<&str>) -> Result<(), OauthError> {
        let refused = |what: String| Err(OauthError::new(OauthErrorKind::Refused, what));
        match received {
            Some(received) if received == self.issuer => Ok(()),
            Some(_) => refused(format!(
                "the login was answered by another authorization server than {}, and was not used",
                self.issuer
            )),
            None if self.has("authorization_response_iss_parameter_supported") => refused(format!(
                "the answer to the login does not name its issuer, as {} states that it does, and was not used",
                self.issuer
            )),
            None => Ok(()),
        }
    }

    /// Exchanges the code of a response for tokens.
    pub(super) async fn exchange(
        &self,
        code: &str,
        state: &str,
        issuer: Option<&str>,
    ) -> Result<Tokens, OauthError> {
        let response = self
            .manager
            .exchange_code_for_token_with_issuer(code, state, issuer)
            .await
            .map_err(|error| self.failed(&error))?;
        Tokens::read(&response)
    }

    /// Exchanges the refresh token of a login for new tokens.
    ///
    /// # Errors
    /// [`OauthErrorKind::LoginRequired`] if the authorization server refuses the token.
    pub(super) async fn refresh(&mut self, login: &Login) -> Result<Tokens, OauthError> {
        let Some(refresh_token) = &login.refresh_token else {
            return Err(OauthError::new(
                OauthErrorKind::LoginRequired,
                "there is no refresh token",
            ));
        };
        let response: OAuthTokenResponse = serde_json::from_value(json!({
            "access_token": login.access_token.expose(),
            "token_type": "bearer",
            "refresh_token": refresh_token.expose(),
        }))
        .map_err(|error| OauthError::new(OauthErrorKind::File, error.to_string()))?;
        let store = InMemoryCredentialStore::new();
        let stored = StoredCredentials::new(
            login.client.id.clone(),
            Some(response),
            login.scopes.clone(),
            Some(login.received),
        );
        store
            .save(stored.with_issuer(Some(login.issuer.clone())))
            .await
            .map_err(|error| OauthError::of_library(&error, None))?;
        self.manager.set_credential_store(store);
        match self.manager.refresh_token().await {
            Ok(response) => Tokens::read(&response),
            Err(AuthError::TokenRefreshRejected(_) | AuthError::AuthorizationRequired) => {
                Err(OauthError::new(
                    OauthErrorKind::LoginRequired,
                    format!("{} no longer accepts the login", self.issuer),
                ))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &AuthError) -> OauthError {
        OauthError::of_library(error, self.http.take_failure().as_deref())
    }
}

impl Tokens {
    fn read(response: &OAuthTokenResponse) -> Result<Self, OauthError> {
        let refused = |what: &str| OauthError::new(OauthErrorKind::Refused, what);
        let Ok(Value::Object(mut members)) = serde_json::to_value(response) else {
            return Err(refused("the answer to the token request cannot be read"));
        };
        let mut text = |name: &str| match members.remove(name) {
            Some(Value::String(text)) if !text.is_empty() => Some(text),
            _ => None,
        };
        let Some(access_token) = text("access_token") else {
            return Err(refused(
                "the answer to the token request has no access token",
            ));
        };
        let kind = text("token_type").unwrap_or_default();
        if !kind.eq_ignore_ascii_case("bearer") {
            return Err(refused(
                "the authorization server issues tokens of another kind than Bearer",
            ));
        }
        let refresh_token = text("refresh_token").map(Secret::new);
        let scopes = text("scope");
        Ok(Self {
            access_token: Secret::new(access_token),
            refresh_token,
            received: now_seconds(),
            expires_in: members.get("expires_in").and_then(Value::as_u64),
            scopes: scopes.map(|scopes| {
                let scopes = scopes.split_whitespace();
                scopes.map(str::to_owned).collect()
            }),
        })
    }
}

/// The time in seconds since 1970.
pub(super) fn now_seconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}
