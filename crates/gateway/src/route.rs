//! Finds the upstream and the endpoint of a request by its path.

use http::{HeaderMap, Method};

use crate::api::Api;
use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;

/// The way of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// The upstream that the client names.
    pub(crate) named: Option<String>,
    /// The API of the path.
    pub(crate) api: Api,
    pub(crate) endpoint: Endpoint,
    /// Path at the upstream.
    pub(crate) path: String,
    /// Set if the client has opted in for its sampled answers.
    pub(crate) agent: Option<String>,
    /// The run of the agent, if the client names it.
    pub(crate) run: Option<String>,
}

/// Finds the way of a request. Paths begin with `/p/AGENT` or `/p/AGENT/RUN/r` if the client has opted in, then with
/// `/u/NAME` if it names its upstream; the rest is the provider's own path.
///
/// # Errors
/// The response to a request without a way.
pub(crate) fn find(method: &Method, path: &str, headers: &HeaderMap) -> Result<Route, ErrorBody> {
    let segments = path
        .split('/')
        .map(|segment| segment.replace("%2e", ".").replace("%2E", "."));
    let mut segments = segments;
    if segments.any(|segment| matches!(&*segment, "." | "..")) {
        return Err(ErrorBody::bad_request(
            "malformed_path",
            "the path has a segment `.` or `..`",
        ));
    }
    let (agent, run, path) = opted_in(path, headers)?;
    let (named, path) = match path.strip_prefix("/u/") {
        Some(rest) => {
            let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
            (Some(name.to_owned()), format!("/{rest}"))
        }
        None => (None, path.to_owned()),
    };
    let api = match &named {
        // The upstream decides.
        Some(_) => api(method, &path, headers).unwrap_or(Api::OpenAi),
        None => api(method, &path, headers).ok_or_else(|| {
            ErrorBody::not_found(
                "unknown_path",
                "the path belongs to no known API; /u/NAME/… names the upstream",
            )
        })?,
    };
    Ok(Route {
        named,
        api,
        endpoint: Endpoint::find(method, &path),
        path,
        agent,
        run,
    })
}

type OptedIn<'p> = (Option<String>, Option<String>, &'p str);

/// Reads the agent and its run from the path, or else from headers. Returns the rest of the path.
fn opted_in<'p>(path: &'p str, headers: &HeaderMap) -> Result<OptedIn<'p>, ErrorBody> {
    let header = |name: &str| {
        let value = headers.get(name)?;
        Some(String::from_utf8_lossy(value.as_bytes()).into_owned())
    };
    let name = |text: &'p str, expected: &str| match text.find('/') {
        Some(end) if end > 0 => Ok((Some(text[..end].to_owned()), &text[end..])),
        _ => Err(ErrorBody::not_found("unknown_path", expected)),
    };
    let (agent, rest) = match path.strip_prefix("/p/") {
        Some(rest) => name(rest, "expected /p/AGENT/v1/…")?,
        None => (header("x-cachalot-agent"), path),
    };
    let (run, rest) = match rest.strip_prefix("/r/") {
        Some(named) if agent.is_some() => name(named, "expected /p/AGENT/r/RUN/v1/…")?,
        _ => (header("x-cachalot-run"), rest),
    };
    Ok((agent, run, rest))
}

/// Returns the API that has this path.
fn api(method: &Method, path: &str, headers: &HeaderMap) -> Option<Api> {
    let is_below = |folder: &str| {
        let rest = path.strip_prefix(folder);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let is_anthropic = headers.contains_key("anthropic-version")
        || is_below("/v1/messages")
        || is_below("/v1/complete");
    // Names of OpenAI's models contain colons, too; their methods are none of these.
    let is_generation = method == Method::POST && is_below("/v1/models") && path.contains(':');
    if is_below("/v1beta") || is_generation {
        Some(Api::Gemini)
    } else if is_below("/v1") && is_anthropic {
        Some(Api::Anthropic)
    } else if is_below("/v1") {
        Some(Api::OpenAi)
    } else {
        None
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_apis_and_endpoints() {
        let find = |path: &str, headers: &HeaderMap| super::find(&Method::POST, path, headers);
        let none = HeaderMap::new();
        for (path, api, endpoint) in [
            ("/v1/chat/completions", Api::OpenAi, Endpoint::Chat),
            ("/v1/messages", Api::Anthropic, Endpoint::Messages),
            ("/v1/messages_of_another_api", Api::OpenAi, Endpoint::Other),
            (
                "/v1beta/models/g:generateContent",
                Api::Gemini,
                Endpoint::Gemini,
            ),
        ] {
            let route = find(path, &none).unwrap();
            assert_eq!((route.api, route.endpoint), (api, endpoint), "{path}");
            assert_eq!((&*route.path, route.agent, route.named), (path, None, None));
        }
        let route = find("/p/coder/r/7/u/local/v1/responses", &none).unwrap();
        let expected = Route {
            named: Some("local".into()),
            api: Api::OpenAi,
            endpoint: Endpoint::Responses,
            path: "/v1/responses".into(),
            agent: Some("coder".into()),
            run: Some("7".into()),
        };
        assert_eq!(route, expected);
        let of_model = super::find(&Method::GET, "/v1/models/ft:gpt:a", &none).unwrap();
        assert_eq!(of_model.api, Api::OpenAi);
        let mut anthropic = HeaderMap::new();
        anthropic.insert("anthropic-version", "2023-06-01".parse().unwrap());
        anthropic.insert("x-cachalot-agent", "coder".parse().unwrap());
        let route = find("/v1/models", &anthropic).unwrap();
        assert_eq!(
            (route.api, route.agent),
            (Api::Anthropic, Some("coder".into()))
        );
        assert!(find("/u/local/x", &none).is_ok());
        for path in [
            "/v1/models/../files",
            "/u/local/%2e%2E/admin",
            "/",
            "/x",
            "/p/coder",
            "/p//v1/models",
            "/p/coder/r/7",
        ] {
            assert!(find(path, &none).is_err(), "{path}");
        }
    }
}
