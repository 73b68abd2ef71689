//! Base URLs and endpoints of providers.

use std::collections::BTreeMap;

use cachalot_storage::masked;
use cachalot_wire::address::encode_segment;
use url::{Host, ParseError, Url};

/// The reason why a base URL cannot be used. The text continues the name of the setting: "… ; what to do".
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum AddressError {
    #[error(
        "is `{shown}`, which is not a URL ({error}); write one such as https://api.example.com/v1"
    )]
    NoUrl { shown: String, error: ParseError },
    #[error(
        "is `{0}`: an environment variable is not read here; set `base_url` under `models:` or `providers:`, where `${{NAME}}` is the variable"
    )]
    Variable(String),
    #[error("is `{0}`; begin it with http:// or https://")]
    Scheme(String),
    #[error(
        "holds a user or password (`{0}`); take it out, and name the key's environment variable with `token_key`"
    )]
    Credentials(String),
    #[error("is `{0}`; take out what follows the #")]
    Fragment(String),
    #[error(
        "names no project; set GOOGLE_CLOUD_PROJECT, or write `base_url: …/v1/projects/PROJECT/locations/REGION`"
    )]
    NoProject,
}

/// Parses a base URL.
pub(crate) fn parse(text: &str) -> Result<Url, AddressError> {
    let shown = || masked(text).into_owned();
    if text.contains("${") {
        return Err(AddressError::Variable(shown()));
    }
    let url = Url::parse(text).map_err(|error| AddressError::NoUrl {
        shown: shown(),
        error,
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(AddressError::Scheme(shown()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(AddressError::Credentials(shown()));
    }
    if url.fragment().is_some() {
        return Err(AddressError::Fragment(shown()));
    }
    Ok(url)
}

/// Replaces each `{VARIABLE}` of a built-in base URL by the environment variable. Returns the first variable
/// that is not set; its name then stands in the URL.
pub(crate) fn with_variables(
    url: &str,
    environment: &BTreeMap<String, String>,
) -> (String, Option<String>) {
    let (mut complete, mut unset) = (String::new(), None);
    let mut rest = url;
    while let Some((before, (name, after))) = rest
        .split_once('{')
        .and_then(|(before, inside)| Some((before, inside.split_once('}')?)))
    {
        complete.push_str(before);
        let value = environment.get(name).map(|value| value.trim());
        match value.filter(|value| !value.is_empty()) {
            Some(value) => {
                complete.push_str(&encode_segment(value));
            }
            None => {
                complete.push_str(name);
                unset.get_or_insert_with(|| name.to_owned());
            }
        }
        rest = after;
    }
    complete.push_str(rest);
    (complete, unset)
}

/// Parses the base URL in an environment variable and completes it with the provider's usual port and path.
pub(crate) fn from_variable(
    value: &str,
    usual_port: Option<u16>,
    usual_path: Option<&str>,
) -> Result<Url, AddressError> {
    let value = value.trim();
    let has_scheme = value.contains("://");
    // For other providers, a missing `https://` must not send a key unencrypted.
    let mut url = if has_scheme || usual_port.is_none() {
        parse(value)?
    } else {
        parse(&format!("http://{value}"))?
    };
    // The parser drops a port that is the scheme's default.
    let has_port = value.rsplit_once(':').is_some_and(|(_, port)| {
        !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
    });
    if let Some(port) = usual_port
        && !has_scheme
        && !has_port
    {
        // Only a URL without a host rejects a port.
        let _ = url.set_port(Some(port));
    }
    if let Some(path) = usual_path
        && matches!(url.path(), "" | "/")
    {
        url.set_path(path);
    }
    // A wildcard address that a server listens on is not an address to connect to.
    if url.host() == Some(Host::Ipv4(std::net::Ipv4Addr::UNSPECIFIED)) {
        let _ = url.set_host(Some("127.0.0.1"));
    }
    Ok(url)
}

/// Returns true if the host is this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

/// Returns true if two base URLs are equal, except for slashes at the end.
pub(crate) fn is_same_base(one: &Url, other: &Url) -> bool {
    let bare = |url: &Url| {
        let mut url = url.clone();
        let path = url.path().trim_end_matches('/').to_owned();
        url.set_path(&path);
        url
    };
    bare(one) == bare(other)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../tests/unit/address.rs"]
mod tests;
