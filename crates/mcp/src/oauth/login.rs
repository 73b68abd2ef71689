//! A login: from the URL of a server to the tokens in the file of logins.

use std::collections::BTreeMap;
use std::time::Duration;

use http::{HeaderMap, HeaderValue, StatusCode, header};
use serde_json::json;
use tokio::sync::mpsc;
use url::Url;

use super::authorization_server::AuthorizationServer;
use super::client::{ClientKind, RegisteredClient};
use super::error::shown;
use super::guarded_http::GuardedHttp;
use super::redirect::{AuthorizationResponse, Page, Received, RedirectListener};
use super::registration::{ClientChoice, client_for};
use super::{Login, LoginFile, OauthError, OauthErrorKind, server_url};

/// Maximum time for the page that ends a login in the browser.
const PAGE_TIMEOUT: Duration = Duration::from_secs(2);

/// Input of a login.
#[derive(Debug, Clone)]
pub struct LoginRequest {
    /// The URL of the server.
    pub server: String,
    /// The client.
    pub client: ClientChoice,
    /// The authorization server that `client` is registered with, if that is known.
    pub issuer: Option<String>,
    /// The scopes to request; `None`: those that the server names.
    pub scopes: Option<Vec<String>>,
    /// The port on loopback that the browser is redirected to; `None`: any free one.
    pub port: Option<u16>,
    /// Private hosts that requests for the authorization may reach, such as that of the authorization server.
    pub allowed_hosts: Vec<String>,
    /// The `WWW-Authenticate` header of a refused request; `None`: the server is asked for it.
    pub challenge: Option<String>,
    /// Maximum time for the answer of the browser.
    pub timeout: Duration,
}

impl LoginRequest {
    /// Creates a request with the defaults.
    #[must_use]
    pub fn new(server: impl Into<String>) -> Self {
        Self {
            server: server.into(),
            client: ClientChoice::default(),
            issuer: None,
            scopes: None,
            port: None,
            allowed_hosts: Vec::new(),
            challenge: None,
            timeout: Duration::from_secs(5 * 60),
        }
    }
}

/// Shows a login to the user.
pub struct Presentation<'a> {
    /// Receives the address that the user has to open.
    pub show: &'a (dyn Fn(&Url) + Send + Sync),
    /// Receives a warning about an answer that was not used.
    pub warn: &'a (dyn Fn(&str) + Send + Sync),
    /// The addresses that the browser was redirected to, as the user pastes them on a machine without a browser.
    pub pasted: Option<mpsc::Receiver<String>>,
}

/// Logs in at a server, and stores the tokens.
///
/// # Errors
/// The server asks for no login or publishes no usable metadata, the authorization server or the user refuses, or
/// there is no answer in time. Nothing is stored then.
pub async fn login(
    request: LoginRequest,
    environment: &BTreeMap<String, String>,
    file: &LoginFile,
    presentation: Presentation<'_>,
) -> Result<Login, OauthError> {
    let server = server_url(&request.server)?;
    let http = GuardedHttp::new(&server, &request.allowed_hosts, environment)?;
    let challenge = match request.challenge {
        Some(challenge) => Some(challenge),
        None => ask_for_challenge(&server, &http).await?,
    };
    let mut authorization =
        AuthorizationServer::discover(&server, challenge.as_deref(), http).await?;
    if let Some(issuer) = request
        .issuer
        .filter(|issuer| *issuer != authorization.issuer)
    {
        return Err(OauthError::new(
            OauthErrorKind::Metadata,
            format!(
                "{server} has another authorization server now, {}, and the client is registered with {issuer}: register one there, and give its ID with --client-id",
                authorization.issuer
            ),
        ));
    }
    let scopes = match request.scopes {
        Some(scopes) => authorization.with_offline_access(scopes),
        None => authorization.initial_scopes().await,
    };
    // Before the user is sent anywhere: a damaged file is reported now.
    file.find(&server)?;
    let listener = RedirectListener::bind(request.port).await?;
    let redirect_uri = listener.redirect_uri();
    let client = client_for(&request.client, &authorization, &redirect_uri, &scopes).await?;
    authorization.use_client(&client)?;
    let url = authorization.authorization_url(&scopes).await?;
    let state = AuthorizationResponse::from_url(&url).state;
    let state = state.unwrap_or_default();
    (presentation.show)(&url);
    let response = wait_for_response(
        listener,
        &state,
        request.timeout,
        presentation.pasted,
        presentation.warn,
    )
    .await?;
    // Before anything else of the response is used or shown.
    authorization.check_response_issuer(response.issuer.as_deref())?;
    if let Some(error) = &response.error {
        let description = response.error_description.as_deref().unwrap_or_default();
        let separator = if description.is_empty() { "" } else { ": " };
        return Err(OauthError::new(
            OauthErrorKind::Refused,
            format!(
                "{} refused the login ({}{separator}{})",
                authorization.issuer,
                shown(error),
                shown(description)
            ),
        ));
    }
    let Some(code) = &response.code else {
        let what = format!("the answer of {} has no code", authorization.issuer);
        return Err(OauthError::new(OauthErrorKind::Refused, what));
    };
    let tokens = authorization
        .exchange(code, &state, response.issuer.as_deref())
        .await?;
    let mut known = scopes;
    known.extend(tokens.scopes.unwrap_or_default());
    let login = Login {
        server: server.to_string(),
        issuer: authorization.issuer.clone(),
        client,
        scopes: without_duplicates(known),
        access_token: tokens.access_token,
        refresh_token: tokens.refresh_token,
        received: tokens.received,
        expires_in: tokens.expires_in,
        id: new_id()?,
        allowed_hosts: request.allowed_hosts,
    };
    // A token that is replaced must not be refreshed by another process at the same time.
    let lock = file.lock().await?;
    file.save(login.clone(), &lock)?;
    Ok(login)
}

/// Returns the client choice that logs in again with the client of a login, if the authorization server is the same.
pub(super) fn client_again(client: &RegisteredClient) -> ClientChoice {
    match client.kind {
        ClientKind::Registered => ClientChoice {
            id: Some(client.id.clone()),
            secret: client.secret.clone(),
        },
        ClientKind::MetadataDocument => ClientChoice {
            id: Some(client.id.clone()),
            secret: None,
        },
        // Registered for the port of one login.
        ClientKind::Dynamic => ClientChoice::default(),
    }
}

/// Removes later copies of scopes.
pub(super) fn without_duplicates(scopes: Vec<String>) -> Vec<String> {
    let mut kept: Vec<String> = Vec::new();
    for scope in scopes {
        if !kept.contains(&scope) {
            kept.push(scope);
        }
    }
    kept
}

/// Asks the server for a list, without credentials, and returns its challenge.
async fn ask_for_challenge(server: &Url, http: &GuardedHttp) -> Result<Option<String>, OauthError> {
    const VERSION: &str = "2026-07-28";
    let mut headers = HeaderMap::new();
    let accepted = HeaderValue::from_static("application/json, text/event-stream");
    headers.insert(header::ACCEPT, accepted);
    headers.insert("mcp-protocol-version", HeaderValue::from_static(VERSION));
    headers.insert("mcp-method", HeaderValue::from_static("tools/list"));
    // The method that any server answers or refuses; the handshake needs no credentials at some.
    let body = json!({
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/list",
        "params": { "_meta": {
            "io.modelcontextprotocol/protocolVersion": VERSION,
            "io.modelcontextprotocol/clientCapabilities": {},
            "io.modelcontextprotocol/clientInfo":
                { "name": "cachalot", "version": env!("CARGO_PKG_VERSION") },
        } },
    });
    let answer = http.post_json(server.as_str(), headers, &body).await?;
    if answer.status() != StatusCode::UNAUTHORIZED {
        return Ok(None);
    }
    Ok(bearer_challenge(answer.headers()))
}

/// Returns the challenge of a response that says most about a login: the one with metadata, else the one for tokens.
pub(super) fn bearer_challenge(headers: &HeaderMap) -> Option<String> {
    let all = headers.get_all(header::WWW_AUTHENTICATE).iter();
    let all: Vec<&str> = all.filter_map(|value| value.to_str().ok()).collect();
    let lower = |text: &str| text.to_ascii_lowercase();
    let mut ranked = all.iter();
    let best = ranked
        .clone()
        .find(|text| lower(text).contains("resource_metadata"))
        .or_else(|| ranked.find(|text| lower(text).starts_with("bearer")))
        .or_else(|| all.first());
    best.map(|text| (*text).to_owned())
}

/// Waits for the response with this state: from the browser, or pasted.
async fn wait_for_response(
    listener: RedirectListener,
    state: &str,
    timeout: Duration,
    mut pasted: Option<mpsc::Receiver<String>>,
    warn: &(dyn Fn(&str) + Send + Sync),
) -> Result<AuthorizationResponse, OauthError> {
    let (sender, mut received) = mpsc::channel(1);
    let mut serving = AbortOnDrop(tokio::spawn(listener.serve(sender)));
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    let response = loop {
        let next_pasted = async {
            match &mut pasted {
                Some(pasted) => pasted.recv().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            Some(Received { response, page }) = received.recv() => {
                if response.state.as_deref() == Some(state) {
                    // The browser may be gone.
                    let _ = page.send(Page::Received);
                    break response;
                }
                let _ = page.send(Page::Foreign);
                warn("an answer that belongs to another login was not used");
            }
            text = next_pasted => match text {
                Some(text) => match pasted_response(&text, state) {
                    Ok(response) => break response,
                    Err(why) => warn(why),
                },
                // Nothing more will be pasted; the browser may still answer.
                None => pasted = None,
            },
            () = &mut deadline => {
                return Err(OauthError::new(
                    OauthErrorKind::TimedOut,
                    format!("the browser did not answer within {} seconds: try again", timeout.as_secs_f64()),
                ));
            }
        }
    };
    drop(received);
    // The page is sent before the process ends.
    let _ = tokio::time::timeout(PAGE_TIMEOUT, &mut serving.0).await;
    Ok(response)
}

fn pasted_response(text: &str, state: &str) -> Result<AuthorizationResponse, &'static str> {
    let url = Url::parse(text.trim())
        .map_err(|_| "this is no URL: paste the whole address that the browser was sent to")?;
    let response = AuthorizationResponse::from_url(&url);
    if response.state.as_deref() == Some(state) {
        Ok(response)
    } else {
        Err("this URL belongs to another login: paste the address that the browser was sent to now")
    }
}

/// A task that ends with its owner.
struct AbortOnDrop(tokio::task::JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn new_id() -> Result<String, OauthError> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        OauthError::new(
            OauthErrorKind::Unavailable,
            format!("the machine provides no randomness: {error}"),
        )
    })?;
    let digits = bytes.iter().map(|byte| format!("{byte:02x}"));
    Ok(digits.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_challenge_with_metadata_is_preferred() {
        let mut headers = HeaderMap::new();
        assert_eq!(bearer_challenge(&headers), None);
        let metadata = r#"Bearer resource_metadata="https://x/y""#;
        for challenge in ["Basic realm=x", "Bearer", metadata] {
            let value = HeaderValue::from_static(challenge);
            headers.append(header::WWW_AUTHENTICATE, value);
            assert_eq!(bearer_challenge(&headers).as_deref(), Some(challenge));
        }
    }
}
