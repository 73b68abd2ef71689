//! Finds the upstream and the endpoint of a request by its path.

use http::{HeaderMap, Method, StatusCode};

use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;
use crate::upstream::Upstream;

/// The way of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route<'a> {
    pub(crate) upstream: &'a Upstream,
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
pub(crate) fn find<'a>(
    upstreams: &'a [Upstream],
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<Route<'a>, ErrorBody> {
    let segments = path
        .split('/')
        .map(|segment| segment.replace("%2e", ".").replace("%2E", "."));
    let mut segments = segments;
    if segments.any(|segment| matches!(&*segment, "." | "..")) {
        return Err(ErrorBody::new(
            StatusCode::BAD_REQUEST,
            "malformed_path",
            "the path has a segment `.` or `..`",
        ));
    }
    let (agent, run, path) = opted_in(path, headers)?;
    let (name, path) = match path.strip_prefix("/u/") {
        Some(rest) => {
            let (name, rest) = rest.split_once('/').unwrap_or((rest, ""));
            (name, format!("/{rest}"))
        }
        None => (owner(method, path, headers)?, path.to_owned()),
    };
    let upstream = upstreams.iter().find(|upstream| upstream.name() == name);
    let upstream = upstream.ok_or_else(|| {
        ErrorBody::new(
            StatusCode::NOT_FOUND,
            "unknown_upstream",
            format!("there is no upstream `{name}`; start the gateway with --upstream {name}=URL"),
        )
    })?;
    Ok(Route {
        upstream,
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
    let (agent, rest) = match path.strip_prefix("/p/") {
        Some(rest) => match rest.find('/') {
            Some(end) if end > 0 => (Some(rest[..end].to_owned()), &rest[end..]),
            _ => {
                return Err(ErrorBody::new(
                    StatusCode::NOT_FOUND,
                    "unknown_path",
                    "expected /p/AGENT/v1/…",
                ));
            }
        },
        None => (header("x-cachalot-agent"), path),
    };
    let (run, rest) = match rest.strip_prefix("/r/") {
        Some(named) if agent.is_some() => match named.find('/') {
            Some(end) if end > 0 => (Some(named[..end].to_owned()), &named[end..]),
            _ => {
                return Err(ErrorBody::new(
                    StatusCode::NOT_FOUND,
                    "unknown_path",
                    "expected /p/AGENT/r/RUN/v1/…",
                ));
            }
        },
        _ => (header("x-cachalot-run"), rest),
    };
    Ok((agent, run, rest))
}

/// Returns the name of the upstream whose API has this path.
fn owner(method: &Method, path: &str, headers: &HeaderMap) -> Result<&'static str, ErrorBody> {
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
        Ok("gemini")
    } else if is_below("/v1") && is_anthropic {
        Ok("anthropic")
    } else if is_below("/v1") {
        Ok("openai")
    } else {
        Err(ErrorBody::new(
            StatusCode::NOT_FOUND,
            "unknown_path",
            "the path belongs to no known API; /u/NAME/… names the upstream",
        ))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_upstreams_and_endpoints() {
        let mut upstreams = Upstream::built_in();
        upstreams.push(Upstream::parse("local=http://127.0.0.1:1/v1").unwrap());
        let find = |path: &str, headers: &HeaderMap| {
            let route = super::find(&upstreams, &Method::POST, path, headers);
            route.map(|route| {
                let name = route.upstream.name().to_owned();
                (name, route.endpoint, route.path, route.agent, route.run)
            })
        };
        let none = HeaderMap::new();
        let (name, endpoint, path, agent, _) = find("/v1/chat/completions", &none).unwrap();
        assert_eq!((&*name, endpoint), ("openai", Endpoint::Chat));
        assert_eq!((&*path, agent), ("/v1/chat/completions", None));
        let (name, endpoint, ..) = find("/v1/messages", &none).unwrap();
        assert_eq!((&*name, endpoint), ("anthropic", Endpoint::Messages));
        let (name, ..) = find("/v1/messages_of_another_api", &none).unwrap();
        assert_eq!(name, "openai");
        let (name, endpoint, ..) = find("/v1beta/models/g:generateContent", &none).unwrap();
        assert_eq!((&*name, endpoint), ("gemini", Endpoint::Gemini));
        let route = find("/p/coder/r/7/u/local/v1/responses", &none).unwrap();
        let expected = (
            "local".to_owned(),
            Endpoint::Responses,
            "/v1/responses".to_owned(),
            Some("coder".to_owned()),
            Some("7".to_owned()),
        );
        assert_eq!(route, expected);
        let of_model = super::find(&upstreams, &Method::GET, "/v1/models/ft:gpt:a", &none).unwrap();
        assert_eq!(of_model.upstream.name(), "openai");
        let mut anthropic = HeaderMap::new();
        anthropic.insert("anthropic-version", "2023-06-01".parse().unwrap());
        anthropic.insert("x-cachalot-agent", "coder".parse().unwrap());
        let (name, _, _, agent, run) = find("/v1/models", &anthropic).unwrap();
        assert_eq!(
            (&*name, agent, run),
            ("anthropic", Some("coder".into()), None)
        );
        for path in [
            "/v1/models/../files",
            "/u/local/%2e%2E/admin",
            "/",
            "/x",
            "/u/nobody/v1/models",
            "/p/coder",
            "/p//v1/models",
            "/p/coder/r/7",
        ] {
            assert!(find(path, &none).is_err(), "{path}");
        }
    }
}
