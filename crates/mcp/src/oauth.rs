//! OAuth 2.1 logins at servers that are reached over HTTP.
//!
//! The protocol library discovers metadata, makes the request with its PKCE challenge, checks the issuer, and
//! exchanges codes and refresh tokens. This module adds the HTTP client with its guard, registration, the file of
//! logins, the redirect to this machine, and the use of tokens by connections.

mod authorization_server;
mod browser;
mod client;
mod error;
mod guarded_http;
mod login;
mod login_file;
mod redirect;
mod registration;
mod secret_serde;
mod server_authorization;

pub use browser::{BROWSER, Browser};
pub use client::{AuthMethod, ClientKind, RegisteredClient};
pub use error::{OauthError, OauthErrorKind};
pub use login::{LoginRequest, Presentation, login};
pub use login_file::{Login, LoginFile};
pub use registration::ClientChoice;
pub use server_authorization::{Attempts, Bearer, IN_RUN_BROWSER, Refusal, ServerAuthorization};

use url::{Host, Url};

/// Returns the URL of a server as logins are stored under: without a fragment, user and password.
///
/// # Errors
/// The text is no URL of a server, or tokens for it would be sent without encryption.
pub fn server_url(text: &str) -> Result<Url, OauthError> {
    let invalid = |what: &str| OauthError::new(OauthErrorKind::Invalid, what);
    let mut url = Url::parse(text.trim())
        .map_err(|error| invalid(&format!("the URL of the server is invalid: {error}")))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(
            "the URL of a server that logins are for begins with https://",
        ));
    }
    if !is_protected(&url) {
        return Err(invalid(
            "tokens for an http:// address of another machine would be sent without encryption: use https://",
        ));
    }
    url.set_fragment(None);
    // Neither can fail for a web address.
    let _ = url.set_username("");
    let _ = url.set_password(None);
    Ok(url)
}

/// True if requests to this address are encrypted, or stay on this machine.
fn is_protected(url: &Url) -> bool {
    url.scheme() == "https" || (url.scheme() == "http" && is_loopback(url))
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}
