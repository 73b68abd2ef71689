//! Hosts that the requests of an action may go to.
//!
//! The state of a run holds output of models, pages and programs. A host taken from the state would let
//! that output choose where the rest of the state is sent. Therefore a request may only go to a host
//! that the author of the file wrote, that the user gave (`env`, `variables`, `settings`, `--input`),
//! or that `allowed_hosts` names.

use std::fmt::Display;

use cachalot_storage::AllowedHosts;
use reqwest::Url;
use serde_json::Value;

use crate::origin::{self, Origin};
use crate::{Failure, Runtime, exact_json};

/// Failure kind of a request to a host that is not allowed.
pub(crate) const NOT_ALLOWED: &str = "host_not_allowed";

/// JSON pointer into the settings: the hosts that the whole file may request.
const SETTING: &str = "/http/allowed_hosts";

/// True if the author or the user named the host of the URL.
fn names(origin: &Origin, url: &Url) -> bool {
    let inputs = origin.inputs.to_map();
    origin.texts().iter().any(|text| names_host(text, url))
        || inputs.values().any(|value| gives_host(value, url))
}

/// True if the text is a URL with the same host and port as `url`.
fn names_host(text: &str, url: &Url) -> bool {
    Url::parse(text.trim()).is_ok_and(|named| {
        named.host_str().is_some()
            && named.host_str() == url.host_str()
            && named.port_or_known_default() == url.port_or_known_default()
    })
}

/// True if a value from the user is the host of `url` or a URL with that host, or contains one.
fn gives_host(value: &Value, url: &Url) -> bool {
    exact_json::texts(value).into_iter().any(|text| {
        let text = text.trim();
        let is_one_word = !text.contains(char::is_whitespace);
        is_one_word
            && (names_host(text, url) || names_host(&format!("{}://{text}", url.scheme()), url))
    })
}

/// Checks that a request to `url` is allowed. Returns the hosts that its redirects may lead to; `None`
/// means any host.
///
/// `own` is the call's list of hosts. Without it, the list of the file applies. A list is exhaustive.
///
/// # Errors
/// - [`NOT_ALLOWED`]: the list does not name the host, or there is no list and the host comes from the
///   state.
/// - `validation_error`: an entry of the list is neither a host nor a network.
pub(crate) fn check(
    action: impl Display,
    runtime: &Runtime,
    url: &Url,
    own: Option<&[Value]>,
) -> Result<Option<AllowedHosts>, Failure> {
    let by_model = origin::is_chosen_by_model();
    // A model must not allow itself a host.
    let own = own.filter(|_| !by_model);
    let of_file = runtime.settings.pointer(SETTING).and_then(Value::as_array);
    let host = url.host_str().unwrap_or_default();
    if let Some(entries) = own.or(of_file.map(Vec::as_slice)) {
        let entries: Vec<String> = entries
            .iter()
            .map(|entry| {
                entry
                    .as_str()
                    .map_or_else(|| entry.to_string(), str::to_owned)
            })
            .collect();
        let hosts = AllowedHosts::parse(&entries)
            .map_err(|error| Failure::new("validation_error", format!("{action}: {error}")))?;
        if hosts.allows(url) {
            return Ok(Some(hosts));
        }
        let message = format!(
            "{action}: `allowed_hosts` does not name the host `{host}`; add it if it is to be requested"
        );
        return Err(Failure::new(NOT_ALLOWED, message));
    }
    let origin = origin::current();
    if origin.is_none() && !by_model {
        return Ok(None);
    }
    if !origin.as_ref().is_some_and(|origin| names(origin, url)) {
        let message = format!(
            "{action}: the host `{host}` comes from the state, and could be chosen by a model or a page; \
             write the host into the file, give it by `--input`, or list it in `allowed_hosts` \
             (of the call, or in `settings.http`)"
        );
        return Err(Failure::new(NOT_ALLOWED, message));
    }
    let is_trusted = !by_model && origin.is_some_and(|origin| origin.is_trusted());
    Ok(if is_trusted {
        None
    } else {
        AllowedHosts::from_url(url)
    })
}

/// Applies [`check`] to a path or URI that storage reads. Local paths make no request and are always
/// allowed.
///
/// # Errors
/// The same as those of [`check`].
pub(crate) fn check_uri(action: impl Display, runtime: &Runtime, uri: &str) -> Result<(), Failure> {
    if runtime.storage.local_path(uri).is_some() {
        return Ok(());
    }
    match Url::parse(uri) {
        Ok(url) if url.has_host() => check(action, runtime, &url, None).map(drop),
        // Storage reports the problem.
        _ => Ok(()),
    }
}
