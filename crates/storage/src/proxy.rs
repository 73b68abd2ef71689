//! Proxies from the given environment.

use std::collections::BTreeMap;

use reqwest::{NoProxy, Proxy, Url};

use crate::error::{Error, ErrorKind};
use crate::mask::masked;

/// True if `NO_PROXY` has the entry `*`: no proxy is used, neither for names nor for addresses. The client's own
/// matching applies the entry to names only.
pub(crate) fn are_disabled(environment: &BTreeMap<String, String>) -> bool {
    let names = ["no_proxy", "NO_PROXY"].iter();
    let mut values = names.filter_map(|name| environment.get(*name));
    let value = values.find(|value| !value.trim().is_empty());
    value.is_some_and(|value| value.split(',').any(|entry| entry.trim() == "*"))
}

/// Returns the proxies of `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`. Lower-case names take
/// precedence over upper-case ones.
pub(crate) fn proxies(environment: &BTreeMap<String, String>) -> Result<Vec<Proxy>, Error> {
    if are_disabled(environment) {
        return Ok(Vec::new());
    }
    let find = |name: &'static str| {
        [name.to_ascii_lowercase(), name.to_owned()]
            .into_iter()
            .find_map(|name| {
                let value = environment
                    .get(&name)
                    .filter(|value| !value.trim().is_empty())?;
                Some((name, value.trim()))
            })
    };
    let none = find("NO_PROXY").and_then(|(_, hosts)| NoProxy::from_string(hosts));
    // Under CGI, `HTTP_PROXY` is set from a header of the client.
    let cgi = environment.contains_key("REQUEST_METHOD");
    let http = find("HTTP_PROXY").filter(|(name, _)| !(cgi && name == "HTTP_PROXY"));
    let mut found = Vec::new();
    for (setting, make) in [
        (http, Proxy::http as fn(Url) -> reqwest::Result<Proxy>),
        (find("HTTPS_PROXY"), Proxy::https),
        (find("ALL_PROXY"), Proxy::all),
    ] {
        if let Some((name, value)) = setting {
            let proxy = make(address(&name, value)?).map_err(|error| {
                invalid(&name, value, "is no address of a proxy").with_source(error.without_url())
            })?;
            found.push(proxy.no_proxy(none.clone()));
        }
    }
    Ok(found)
}

fn address(name: &str, value: &str) -> Result<Url, Error> {
    let text = if value.contains("://") {
        value.to_owned()
    } else {
        format!("http://{value}")
    };
    let url = Url::parse(&text).map_err(|_| invalid(name, &text, "is no address of a proxy"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(invalid(name, &text, "is not an http or https proxy"));
    }
    Ok(url)
}

fn invalid(name: &str, value: &str, what: &str) -> Error {
    Error::new(
        ErrorKind::Invalid,
        format!(
            "the environment variable {name} (`{}`) {what}; correct or unset it",
            masked(value)
        ),
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    #[test]
    fn each_proxy_variable_adds_one_proxy() {
        assert!(proxies(&environment(&[])).unwrap().is_empty());
        assert!(
            proxies(&environment(&[("HTTP_PROXY", " ")]))
                .unwrap()
                .is_empty()
        );
        let both = environment(&[
            ("https_proxy", "proxy:3128"),
            ("ALL_PROXY", "http://u:p@other:1"),
        ]);
        assert_eq!(proxies(&both).unwrap().len(), 2);
    }

    #[test]
    fn http_proxy_is_ignored_under_cgi() {
        let pairs = [("HTTP_PROXY", "http://evil"), ("REQUEST_METHOD", "GET")];
        assert!(proxies(&environment(&pairs)).unwrap().is_empty());
    }

    #[test]
    fn invalid_proxy_error_hides_the_password() {
        let error = proxies(&environment(&[("ALL_PROXY", "socks5://me:hunter2@h:1")])).unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
        assert!(error.message.contains("ALL_PROXY"), "{error}");
        assert!(!error.message.contains("hunter2"), "{error}");
    }
}
