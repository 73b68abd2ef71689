//! Finds the upstream and the endpoint of a request by its path.

use http::{HeaderMap, Method};

use crate::api::Api;
use crate::command::{self, CommandRun};
use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;
use crate::request_api::{self, PathApi};

/// The way of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Route {
    /// The upstream that the client names.
    pub(crate) named: Option<String>,
    /// The API of the request: the one that alone has the path, until its credentials are read.
    pub(crate) api: Api,
    pub(crate) endpoint: Endpoint,
    /// The provider's own path. That of a known endpoint begins with its version, also if the client left it out.
    pub(crate) path: String,
    /// Set if the client has opted in for its sampled answers.
    pub(crate) agent: Option<String>,
    /// The run of the agent, if the client names it.
    pub(crate) run: Option<String>,
}

impl Route {
    /// Makes the request one of a command: in its recording, unless the client names an agent of its own.
    pub(crate) fn in_command(&mut self, command: &CommandRun) {
        if self.agent.is_none() {
            self.agent.clone_from(&command.recording);
        }
        if self.run.is_none() {
            self.run = Some(command::RUN.to_owned());
        }
    }
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
    let is_unknown = named.is_some() && Endpoint::find(method, &path) == Endpoint::Other;
    let versioned = is_unknown.then(|| format!("/v1{path}"));
    // A client whose base URL has no version.
    let versioned = versioned.filter(|path| Endpoint::find(method, path) != Endpoint::Other);
    let path = versioned.unwrap_or(path);
    let apis = request_api::of_path(method, &path);
    if named.is_none() && apis.is_none() {
        return Err(ErrorBody::not_found(
            "unknown_path",
            "the path belongs to no known API; /u/NAME/… names the upstream",
        ));
    }
    let api = match apis {
        Some(PathApi::One(api)) => api,
        Some(PathApi::Several) | None => Api::OpenAi,
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

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_apis_and_endpoints() {
        let find = |path: &str, headers: &HeaderMap| super::find(&Method::POST, path, headers);
        let none = HeaderMap::new();
        for (path, api, endpoint) in [
            ("/v1/chat/completions", Api::OpenAi, Endpoint::chat()),
            ("/v1/messages", Api::Anthropic, Endpoint::messages()),
            ("/v1/messages_of_another_api", Api::OpenAi, Endpoint::Other),
            (
                "/v1beta/models/g:generateContent",
                Api::Gemini,
                Endpoint::gemini(),
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
            endpoint: Endpoint::responses(),
            path: "/v1/responses".into(),
            agent: Some("coder".into()),
            run: Some("7".into()),
        };
        assert_eq!(route, expected);
        for (path, expected, endpoint) in [
            (
                "/u/a/chat/completions",
                "/v1/chat/completions",
                Endpoint::chat(),
            ),
            ("/p/b/u/a/responses", "/v1/responses", Endpoint::responses()),
            (
                "/u/a/messages/count_tokens",
                "/v1/messages/count_tokens",
                Endpoint::count_tokens(),
            ),
            (
                "/u/a/models/g:generateContent",
                "/models/g:generateContent",
                Endpoint::gemini(),
            ),
            (
                "/u/a/v4/chat/completions",
                "/v4/chat/completions",
                Endpoint::Other,
            ),
            ("/u/a/api/tags", "/api/tags", Endpoint::Other),
        ] {
            let route = find(path, &none).unwrap();
            assert_eq!(
                (&*route.path, route.endpoint),
                (expected, endpoint),
                "{path}"
            );
        }
        let of_model = super::find(&Method::GET, "/v1/models/ft:gpt:a", &none).unwrap();
        assert_eq!(of_model.api, Api::OpenAi);
        let mut named = HeaderMap::new();
        named.insert("x-cachalot-agent", "coder".parse().unwrap());
        assert_eq!(
            find("/v1/models", &named).unwrap().agent,
            Some("coder".into())
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
