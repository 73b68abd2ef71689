//! The use of a login by the connections to a server: the token of each request, its renewal, and the reaction to a
//! refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use cachalot_core::{Secret, SecretSet};
use http::HeaderMap;
use parking_lot::Mutex;
use rmcp::transport::auth::WWWAuthenticateParams;
use url::Url;

use super::authorization_server::{AuthorizationServer, now_seconds};
use super::client::ClientKind;
use super::error::shown;
use super::guarded_http::GuardedHttp;
use super::login::{bearer_challenge, client_again, without_duplicates};
use super::{
    Browser, Login, LoginFile, LoginRequest, OauthError, OauthErrorKind, Presentation, server_url,
};

/// The variable with a command that opens a login during a run, when a server asks for one. Without it, no browser is
/// opened unasked, and the message names the command to log in.
pub const IN_RUN_BROWSER: &str = "CACHALOT_MCP_BROWSER";

/// Maximum number of logins for one request: one, and one for more scopes.
const MAX_LOGINS: u32 = 2;

/// The token of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bearer {
    /// The access token.
    pub token: Secret<String>,
}

/// The refusal of a request.
#[derive(Debug)]
pub struct Refusal<'a> {
    /// The HTTP status.
    pub status: u16,
    /// The headers of the response.
    pub headers: &'a HeaderMap,
}

/// The attempts to have one request accepted.
#[derive(Debug, Default)]
pub struct Attempts {
    has_read_again: bool,
    has_renewed: bool,
    logins: u32,
}

/// The login at one server, as its connections use it. The file is read for each request: a login, a renewal or a
/// logout by another process takes effect at once, and a token of another login is never used under its key.
///
/// Clones share everything.
#[derive(Clone)]
pub struct ServerAuthorization(Arc<Shared>);

struct Shared {
    server: Url,
    file: LoginFile,
    environment: Arc<BTreeMap<String, String>>,
    secret_set: Arc<SecretSet>,
    browser: Option<Browser>,
    /// Held during a login: requests that are refused at the same time cause one.
    logging_in: tokio::sync::Mutex<()>,
    /// The scopes that were asked for because a request was refused: a second refusal is final.
    stepped_up: Mutex<BTreeSet<String>>,
}

impl ServerAuthorization {
    /// Creates the authorization of requests to a URL; `None` if there can be no login for it.
    #[must_use]
    pub fn new(
        url: &str,
        environment: &Arc<BTreeMap<String, String>>,
        secret_set: &Arc<SecretSet>,
    ) -> Option<Self> {
        Some(Self(Arc::new(Shared {
            server: server_url(url).ok()?,
            file: LoginFile::of_user(environment)?,
            browser: Browser::named(IN_RUN_BROWSER, environment),
            environment: Arc::clone(environment),
            secret_set: Arc::clone(secret_set),
            logging_in: tokio::sync::Mutex::default(),
            stepped_up: Mutex::default(),
        })))
    }

    /// Returns the token for the next request; `None` without a login. Renews it if it is about to expire.
    ///
    /// # Errors
    /// The file of logins cannot be read, or an expired token cannot be renewed because a server does not answer.
    pub async fn bearer(&self) -> Result<Option<Bearer>, OauthError> {
        let Some(mut login) = self.0.file.find(&self.0.server)? else {
            return Ok(None);
        };
        let now = now_seconds();
        if login.is_renewal_due(now) && login.refresh_token.is_some() {
            match self.renew(login.clone(), None).await {
                Ok(renewed) => login = renewed,
                // The server refuses the token, and says what it wants.
                Err(error) if error.kind == OauthErrorKind::LoginRequired => {}
                Err(error) if login.expires().is_some_and(|end| end <= now) => {
                    return Err(OauthError::new(
                        error.kind,
                        format!("the login cannot be renewed: {error}"),
                    ));
                }
                Err(_) => {}
            }
        }
        self.0.secret_set.learn(login.access_token.expose());
        Ok(Some(Bearer {
            token: login.access_token,
        }))
    }

    /// Reacts to a refused request. Returns true if it can be sent again with the current token, and false if the
    /// refusal is not about a login.
    ///
    /// # Errors
    /// [`OauthErrorKind::LoginRequired`] with the command for the user; other kinds if a renewal or a login failed.
    pub async fn recover(
        &self,
        refusal: &Refusal<'_>,
        sent: Option<&Bearer>,
        attempts: &mut Attempts,
    ) -> Result<bool, OauthError> {
        let challenge = bearer_challenge(refusal.headers);
        let parameters = challenge
            .as_deref()
            .map(|header| WWWAuthenticateParams::parse(header, &self.0.server))
            .unwrap_or_default();
        let is_about_scopes = refusal.status == 403 && parameters.is_insufficient_scope();
        if refusal.status != 401 && !is_about_scopes {
            return Ok(false);
        }
        let current = self.0.file.find(&self.0.server)?;
        if current.is_none() && self.0.browser.is_none() && !asks_for_token(challenge.as_deref()) {
            return Ok(false);
        }
        let is_newer = |login: &Login| sent.is_none_or(|sent| sent.token != login.access_token);
        if current.as_ref().is_some_and(is_newer) && !attempts.has_read_again {
            attempts.has_read_again = true;
            return Ok(true);
        }
        let mut is_rejected = false;
        if let Some(login) = &current
            && !is_about_scopes
            && !attempts.has_renewed
            && login.refresh_token.is_some()
        {
            attempts.has_renewed = true;
            match self.renew(login.clone(), challenge.clone()).await {
                Ok(_) => return Ok(true),
                Err(error) if error.kind == OauthErrorKind::LoginRequired => is_rejected = true,
                Err(error) => {
                    return Err(OauthError::new(
                        error.kind,
                        format!("the login cannot be renewed: {error}"),
                    ));
                }
            }
        }
        let required: Vec<String> = parameters
            .scope
            .as_deref()
            .unwrap_or_default()
            .split_whitespace()
            .map(str::to_owned)
            .collect();
        let mut scopes = current
            .as_ref()
            .map_or_else(Vec::new, |login| login.scopes.clone());
        scopes.extend(required.iter().cloned());
        let scopes = without_duplicates(scopes);
        if let Some(browser) = &self.0.browser
            && attempts.logins < if is_about_scopes { MAX_LOGINS } else { 1 }
            && (!is_about_scopes || self.0.stepped_up.lock().insert(required.join(" ")))
        {
            attempts.logins += 1;
            self.log_in(InRunLogin {
                browser: browser.clone(),
                challenge,
                scopes,
                current,
                refused: sent.cloned(),
            })
            .await?;
            return Ok(true);
        }
        Err(self.0.login_required(
            refusal.status,
            &parameters,
            current.is_some(),
            is_rejected,
            &scopes,
        ))
    }

    /// Renews the token of a login, unless another task or process has done so. Goes on if the caller is dropped: the
    /// authorization server may have accepted the refresh token, and the new one must not be lost.
    async fn renew(&self, old: Login, challenge: Option<String>) -> Result<Login, OauthError> {
        let shared = Arc::clone(&self.0);
        let renewal = async move { shared.renew(&old, challenge.as_deref()).await };
        finished(tokio::spawn(renewal).await)
    }

    /// Logs in with the browser of the run. Goes on if the caller is dropped: the user may be at the page.
    async fn log_in(&self, login: InRunLogin) -> Result<(), OauthError> {
        let shared = Arc::clone(&self.0);
        let login = async move { shared.log_in(login).await };
        finished(tokio::spawn(login).await)
    }
}

/// Input of a login during a run.
struct InRunLogin {
    browser: Browser,
    challenge: Option<String>,
    scopes: Vec<String>,
    /// The login that there is.
    current: Option<Login>,
    /// The token that was refused.
    refused: Option<Bearer>,
}

/// Returns the result of a task.
fn finished<T>(
    joined: Result<Result<T, OauthError>, tokio::task::JoinError>,
) -> Result<T, OauthError> {
    joined.unwrap_or_else(|error| {
        Err(OauthError::new(
            OauthErrorKind::Unavailable,
            error.to_string(),
        ))
    })
}

impl Shared {
    /// The error that names the command for the user.
    fn login_required(
        &self,
        status: u16,
        parameters: &WWWAuthenticateParams,
        is_logged_in: bool,
        is_rejected: bool,
        scopes: &[String],
    ) -> OauthError {
        let server = shell_word(&self.server);
        let mut facts = vec![format!("HTTP {status}")];
        facts.extend(parameters.error.as_deref().map(shown));
        facts.extend(parameters.error_description.as_deref().map(shown));
        let facts = facts.join(", ");
        let message = match (status, is_logged_in) {
            (401, false) => format!(
                "wants a login ({facts}): run `cachalot mcp login {server}`, or give a token in `headers` of the server in the agent file"
            ),
            (401, true) if is_rejected => format!(
                "has an authorization server that no longer accepts the login ({facts}): log in again with `cachalot mcp login {server}`"
            ),
            (401, true) => format!(
                "no longer accepts the login ({facts}): log in again with `cachalot mcp login {server}`"
            ),
            _ => {
                let scope = parameters.scope.as_deref().map(shown).unwrap_or_default();
                format!(
                    "wants more permissions ({facts}, scope `{scope}`): run `cachalot mcp login {server} --scope '{}'`",
                    shown(&scopes.join(" ")).replace('\'', "")
                )
            }
        };
        OauthError::new(OauthErrorKind::LoginRequired, message)
    }

    /// Renews the token of a login, unless another task or process has done so.
    async fn renew(&self, old: &Login, challenge: Option<&str>) -> Result<Login, OauthError> {
        let required = |what: String| OauthError::new(OauthErrorKind::LoginRequired, what);
        let lock = self.file.lock().await?;
        let Some(mut current) = self.file.find(&self.server)? else {
            return Err(required("the user has logged out".to_owned()));
        };
        if current.access_token != old.access_token {
            return Ok(current);
        }
        let http = GuardedHttp::new(&self.server, &current.allowed_hosts, &self.environment)?;
        let mut authorization =
            AuthorizationServer::discover(&self.server, challenge, http).await?;
        // Tokens and clients belong to the authorization server that issued them.
        if authorization.issuer != current.issuer {
            return Err(required(format!(
                "logins are now issued by {}",
                authorization.issuer
            )));
        }
        if let Some(secret) = &current.refresh_token {
            self.secret_set.learn(secret.expose());
        }
        authorization.use_client(&current.client)?;
        match authorization.refresh(&current).await {
            Ok(tokens) => {
                current.access_token = tokens.access_token;
                current.refresh_token = tokens.refresh_token;
                current.received = tokens.received;
                current.expires_in = tokens.expires_in;
                self.secret_set.learn(current.access_token.expose());
                self.file.save(current.clone(), &lock)?;
                Ok(current)
            }
            Err(error) => {
                if error.kind == OauthErrorKind::LoginRequired {
                    // Not tried again: it was used, or revoked.
                    current.refresh_token = None;
                    self.file.save(current, &lock)?;
                }
                Err(error)
            }
        }
    }

    /// Logs in with the browser of the run.
    async fn log_in(&self, login: InRunLogin) -> Result<(), OauthError> {
        let InRunLogin {
            browser,
            challenge,
            scopes,
            current,
            refused,
        } = login;
        let _one_at_a_time = self.logging_in.lock().await;
        let now = self.file.find(&self.server)?;
        let refused = refused.map(|refused| refused.token);
        let is_newer = |login: &Login| refused.as_ref() != Some(&login.access_token);
        if now.as_ref().is_some_and(is_newer) && now != current {
            return Ok(());
        }
        let mut request = LoginRequest::new(self.server.as_str());
        request.challenge = challenge;
        request.scopes = (!scopes.is_empty()).then_some(scopes);
        if let Some(login) = &current {
            request.client = client_again(&login.client);
            request.allowed_hosts.clone_from(&login.allowed_hosts);
            if login.client.kind == ClientKind::Registered {
                request.issuer = Some(login.issuer.clone());
            }
        }
        let opened = Mutex::new(true);
        let presentation = Presentation {
            show: &|url| *opened.lock() = browser.open(url, &self.environment),
            warn: &|_| {},
            pasted: None,
        };
        let login = super::login(request, &self.environment, &self.file, presentation).await;
        let login = login.map_err(|error| {
            let hint = if *opened.lock() {
                String::new()
            } else {
                format!("; the command in {IN_RUN_BROWSER} does not start")
            };
            OauthError::new(error.kind, format!("the login failed: {error}{hint}"))
        })?;
        self.secret_set.learn(login.access_token.expose());
        Ok(())
    }
}

/// Returns a URL as a word of a command line.
fn shell_word(url: &Url) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || ":/.-_~%".contains(character);
    if url.as_str().chars().all(is_plain) {
        url.to_string()
    } else {
        format!("'{}'", url.as_str().replace('\'', "%27"))
    }
}

/// True if a challenge is for tokens, and not for other credentials.
fn asks_for_token(challenge: Option<&str>) -> bool {
    challenge.is_some_and(|challenge| {
        let challenge = challenge.to_ascii_lowercase();
        challenge.contains("bearer") || challenge.contains("resource_metadata")
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn urls_in_commands_are_quoted() {
        let word = |url: &str| shell_word(&Url::parse(url).unwrap());
        assert_eq!(word("https://x:1/a_b"), "https://x:1/a_b");
        assert_eq!(word("https://x/?a=$(b)&c"), "'https://x/?a=$(b)&c'");
        assert_eq!(word("https://x/a';b"), "'https://x/a%27;b'");
    }
}
