//! Base URLs and endpoints of providers.

use std::collections::BTreeMap;

use cachalot_storage::masked;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::{Host, Url};

use crate::Format;

/// Parses a base URL. The error continues the name of the setting: "… ; what to do".
pub(crate) fn parse(text: &str) -> Result<Url, String> {
    let shown = masked(text);
    let url = Url::parse(text)
        .map_err(|error| format!("is `{shown}`, which is not a URL ({error}); write one such as https://api.example.com/v1"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!("is `{shown}`; begin it with http:// or https://"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "holds a user or password (`{shown}`); take it out, and name the key's environment variable with `token_key`"
        ));
    }
    if url.fragment().is_some() {
        return Err(format!("is `{shown}`; take out what follows the #"));
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
) -> Result<Url, String> {
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

/// Returns the endpoint of a Gemini model: `generateContent` after the model's name, or the streaming
/// method. The base URL may be that of Google's OpenAI endpoint, or end before the version.
pub(crate) fn gemini(base: &Url, model: &str, streams: bool) -> Url {
    let before = base.path().trim_end_matches('/');
    let before = before.strip_suffix("/openai").unwrap_or(before);
    let is_version = |name: &str| {
        let rest = name.strip_prefix('v');
        rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let version = match before.rsplit('/').any(is_version) {
        true => "",
        false => "/v1beta",
    };
    let model = model.trim_start_matches("models/");
    let method = match streams {
        true => "streamGenerateContent",
        false => "generateContent",
    };
    let mut url = base.clone();
    url.set_path(&format!("{before}{version}/models/{model}:{method}"));
    if streams {
        url.query_pairs_mut().append_pair("alt", "sse");
    }
    url
}

/// Returns the endpoint of a model on Bedrock: `converse` after the model's name, or the streaming method.
/// The name may be an ARN, whose slashes and colons are escaped.
pub(crate) fn converse(base: &Url, model: &str, streams: bool) -> Url {
    let before = base.path().trim_end_matches('/');
    let mut url = base.clone();
    let name = encode_segment(model);
    let method = match streams {
        true => "converse-stream",
        false => "converse",
    };
    url.set_path(&format!("{before}/model/{name}/{method}"));
    url
}

/// Returns the endpoint for a format, whose `path` follows the base URL. Anthropic's base URL ends before
/// `/v1`, but is often written with it. A base URL that is a whole endpoint is used unchanged.
pub(crate) fn endpoint(base: &Url, format: Format, path: &str) -> Url {
    let before = base.path().trim_end_matches('/');
    let path = match format {
        Format::Messages if path.starts_with("/v1/") || before.ends_with("/v1") => path.to_owned(),
        Format::Messages => format!("/v1{path}"),
        Format::Chat | Format::Responses | Format::Gemini | Format::Converse => path.to_owned(),
    };
    let whole = if before.ends_with(path.as_str()) {
        before.to_owned()
    } else if before.ends_with("/v1") && path.starts_with("/v1/") {
        format!("{}{path}", before.trim_end_matches("/v1"))
    } else {
        format!("{before}{path}")
    };
    let mut url = base.clone();
    url.set_path(&whole);
    url
}

/// Percent-encodes a path segment, except letters, digits, `-`, `.`, `_` and `~`.
pub(crate) fn encode_segment(segment: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(segment, KEPT).to_string()
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
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_appended_to_the_base_url() {
        for (base, format, path, expected) in [
            (
                "https://a/v1",
                Format::Chat,
                "/chat/completions",
                "https://a/v1/chat/completions",
            ),
            (
                "https://a/v1/",
                Format::Chat,
                "/chat/completions",
                "https://a/v1/chat/completions",
            ),
            (
                "https://a",
                Format::Responses,
                "/responses",
                "https://a/responses",
            ),
            (
                "https://a/openai/deployments/x?api-version=1",
                Format::Chat,
                "/chat/completions",
                "https://a/openai/deployments/x/chat/completions?api-version=1",
            ),
            (
                "https://a/v1/chat/completions",
                Format::Chat,
                "/chat/completions",
                "https://a/v1/chat/completions",
            ),
            (
                "https://a",
                Format::Messages,
                "/messages",
                "https://a/v1/messages",
            ),
            (
                "https://a/v1",
                Format::Messages,
                "/messages",
                "https://a/v1/messages",
            ),
            (
                "https://a/v1/",
                Format::Messages,
                "/v1/messages",
                "https://a/v1/messages",
            ),
            (
                "https://a/anthropic",
                Format::Messages,
                "/messages",
                "https://a/anthropic/v1/messages",
            ),
            (
                "https://a/v1/messages",
                Format::Messages,
                "/messages",
                "https://a/v1/messages",
            ),
        ] {
            let base = parse(base).unwrap();
            assert_eq!(endpoint(&base, format, path).as_str(), expected);
        }
    }

    #[test]
    fn model_names_are_escaped_in_paths() {
        for (base, model, streams, expected) in [
            (
                "https://a",
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                false,
                "https://a/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
            ),
            (
                "https://a/bedrock/",
                "arn:aws:bedrock:eu-west-1:1:inference-profile/x",
                true,
                "https://a/bedrock/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fx/converse-stream",
            ),
        ] {
            let base = parse(base).unwrap();
            assert_eq!(converse(&base, model, streams).as_str(), expected);
        }
    }

    #[test]
    fn base_url_variable_may_be_a_host_only() {
        let of_ollama = |value| from_variable(value, Some(11434), Some("/v1"));
        for (value, expected) in [
            ("gpu", "http://gpu:11434/v1"),
            ("0.0.0.0", "http://127.0.0.1:11434/v1"),
            ("gpu:80", "http://gpu/v1"),
            ("https://gpu", "https://gpu/v1"),
            ("http://gpu:1/v2", "http://gpu:1/v2"),
        ] {
            assert_eq!(of_ollama(value).unwrap().as_str(), expected);
        }
        assert!(of_ollama("http://").is_err());
    }

    #[test]
    fn an_invalid_base_url_is_reported_without_secrets() {
        for wrong in [
            "",
            "api.example.com",
            "ftp://a",
            "https://u:hunter2@a",
            "https://a#b",
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(
                error.contains("; ") && !error.contains("hunter2"),
                "{error}"
            );
        }
    }

    #[test]
    fn loopback_urls_are_recognized() {
        for (url, yes) in [
            ("http://localhost:1", true),
            ("http://127.0.0.2", true),
            ("http://[::1]:8", true),
            ("http://localhost.example.com", false),
            ("http://10.0.0.1", false),
        ] {
            assert_eq!(is_loopback(&parse(url).unwrap()), yes, "{url}");
        }
        assert!(is_same_base(
            &parse("https://a/v1").unwrap(),
            &parse("https://A:443/v1/").unwrap()
        ));
        assert!(!is_same_base(
            &parse("https://a/v1").unwrap(),
            &parse("http://a/v1").unwrap()
        ));
    }
}
