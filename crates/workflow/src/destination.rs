//! Hosts that the requests of an action may go to.
//!
//! The state of a run holds what models, pages and programs returned. A host from there would let them
//! choose where the rest of the state is sent. So a request goes to a host that the author wrote or the
//! user gave (`env`, `variables`, `settings`, `--input`), or that `allowed_hosts` names.

use std::fmt::Display;
use std::sync::Arc;

use cachalot_storage::AllowedHosts;
use reqwest::Url;
use serde_json::Value;

use crate::template::{Prepared, Scope, State, Surroundings, Templates};
use crate::{Failure, Runtime};

tokio::task_local! {
    /// The call that the current task makes. Without one, the arguments come from the program itself,
    /// and are the author's.
    static ORIGIN: Arc<Origin>;
}

/// Kind of the failure of a request to another host.
pub(crate) const NOT_ALLOWED: &str = "host_not_allowed";

/// Setting with the hosts that the whole file may request.
const SETTING: &str = "/http/allowed_hosts";

/// Where the arguments of a call come from. Looked at only when the call makes a request.
pub(crate) struct Origin {
    pub(crate) templates: Templates,
    pub(crate) with: Prepared,
    /// As the call sees it.
    pub(crate) scope: Scope,
    pub(crate) surroundings: Surroundings,
    /// The state at the beginning of the run: that of the file, and what the user gave.
    pub(crate) inputs: State,
}

impl Origin {
    /// Runs the call.
    pub(crate) async fn within<T>(self, call: impl Future<Output = T>) -> T {
        ORIGIN.scope(Arc::new(self), call).await
    }

    /// The state without what the run has added.
    fn trusted(&self) -> Scope {
        Scope::new(&self.surroundings, &self.inputs)
    }

    /// Whether the author or the user named the host of a URL.
    fn names(&self, url: &Url) -> bool {
        let texts = self.templates.lenient_texts(&self.with, &self.trusted());
        texts.iter().any(|text| names_host(text, url))
            || self
                .inputs
                .whole()
                .values()
                .any(|value| gives_host(value, url))
    }

    /// Whether no argument depends on what the run has added to the state.
    fn is_whole(&self) -> bool {
        self.templates
            .renders_alike(&self.with, &self.scope, &self.trusted())
    }
}

/// Whether a text is a URL with the host and port of another one.
fn names_host(text: &str, url: &Url) -> bool {
    Url::parse(text.trim()).is_ok_and(|named| {
        named.host_str().is_some()
            && named.host_str() == url.host_str()
            && named.port_or_known_default() == url.port_or_known_default()
    })
}

/// Whether a value that the user gave is, or holds, a URL with this host, or the host itself.
fn gives_host(value: &Value, url: &Url) -> bool {
    match value {
        Value::String(text) => {
            let text = text.trim();
            let is_one_word = !text.contains(char::is_whitespace);
            is_one_word
                && (names_host(text, url) || names_host(&format!("{}://{text}", url.scheme()), url))
        }
        Value::Array(items) => items.iter().any(|item| gives_host(item, url)),
        Value::Object(fields) => fields.values().any(|field| gives_host(field, url)),
        _ => false,
    }
}

/// The hosts that redirects of a request may lead to; `None`: any.
///
/// `own` is the list that the call gives, or else that of the file counts. A list is exhaustive.
///
/// # Errors
/// [`NOT_ALLOWED`]: the list does not name the host, or there is none and the host comes from the state.
/// `validation_error`: an entry of the list is neither a host nor a network.
pub(crate) fn check(
    action: impl Display,
    runtime: &Runtime,
    url: &Url,
    own: Option<&[Value]>,
) -> Result<Option<AllowedHosts>, Failure> {
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
    let Ok(origin) = ORIGIN.try_with(Arc::clone) else {
        return Ok(None);
    };
    if !origin.names(url) {
        let message = format!(
            "{action}: the host `{host}` comes from the state, and could be chosen by a model or a page; \
             write the host into the file, give it by `--input`, or list it in `allowed_hosts` \
             (of the call, or in `settings.http`)"
        );
        return Err(Failure::new(NOT_ALLOWED, message));
    }
    Ok(match origin.is_whole() {
        true => None,
        false => AllowedHosts::of(url),
    })
}

/// As of [`check`], for a path or URI that storage reads; local ones are not requested.
///
/// # Errors
/// As of [`check`].
pub(crate) fn check_uri(action: impl Display, runtime: &Runtime, uri: &str) -> Result<(), Failure> {
    if runtime.storage.local_path(uri).is_some() {
        return Ok(());
    }
    match Url::parse(uri) {
        Ok(url) if url.has_host() => check(action, runtime, &url, None).map(drop),
        // Storage says what is wrong with it.
        _ => Ok(()),
    }
}
