//! Checks the head of a request with a key of the gateway. Nothing in it may lead to another place at the provider than
//! the gateway sees, because the provider sees the operator's credential.

use http::request::Parts;

use crate::call::{SHOWN_PARAMETERS, parameters};
use crate::endpoint::Endpoint;
use crate::error_body::ErrorBody;
use crate::route::Route;

/// Checks path and query. Of the headers, only known ones are passed on.
///
/// # Errors
/// The response to the client.
pub(crate) fn check(route: &Route, parts: &Parts) -> Result<(), ErrorBody> {
    let refused = |what: &str| {
        let message = format!("a key of the gateway does not permit this request: {what}");
        Err(ErrorBody::forbidden("endpoint_not_allowed", message))
    };
    if !is_plain(route) {
        return refused("its path is not one of the API's");
    }
    // Some servers separate parameters by it.
    if parts.uri.query().is_some_and(|query| query.contains(';')) {
        return refused("its query contains `;`");
    }
    let mut others = parameters(parts.uri.query());
    let known = |name: &str| name == "key" || SHOWN_PARAMETERS.contains(&name);
    if let Some((name, _)) = others.find(|(name, _)| !known(name)) {
        return refused(&format!("the parameter `{name}` of the query is not known"));
    }
    Ok(())
}

/// Returns true for a path in the documented form of its endpoint.
fn is_plain(route: &Route) -> bool {
    let is_name = |name: &str| {
        let is_sign =
            |character: char| character.is_ascii_alphanumeric() || "-_.:".contains(character);
        !name.is_empty() && name.chars().all(is_sign)
    };
    let models = ["/v1/models", "/v1beta/models", "/v1alpha/models"];
    let of_models = models.iter().find_map(|list| route.path.strip_prefix(list));
    match route.endpoint {
        Endpoint::Api(..)
            if route
                .endpoint
                .wire()
                .is_some_and(|wire| wire.has_model_in_path()) =>
        {
            let name = of_models.and_then(|rest| rest.strip_prefix('/')?.rsplit_once(':'));
            name.is_some_and(|(name, _)| is_name(name) && !name.contains(':'))
        }
        Endpoint::Models => match of_models {
            Some("") => true,
            Some(rest) => rest.strip_prefix('/').is_some_and(is_name),
            None => false,
        },
        // Found by their whole paths.
        _ => true,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use http::{HeaderMap, Method, Request};

    use super::*;

    fn is_permitted(method: &Method, uri: &str) -> bool {
        let request = Request::builder().method(method).uri(uri).body(()).unwrap();
        let (parts, ()) = request.into_parts();
        let route = crate::route::find(method, parts.uri.path(), &HeaderMap::new());
        route.is_ok_and(|route| check(&route, &parts).is_ok())
    }

    #[test]
    fn only_documented_paths_and_parameters_are_permitted() {
        for (method, uri) in [
            (Method::POST, "/v1/chat/completions"),
            (Method::POST, "/v1/messages?beta=true"),
            (Method::GET, "/v1/models?limit=20&after=x"),
            (Method::GET, "/v1/models/ft:gpt-4o:org:a:1"),
            (
                Method::POST,
                "/v1beta/models/gemini-2.5-flash:generateContent?key=k",
            ),
            (
                Method::POST,
                "/v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse",
            ),
        ] {
            assert!(is_permitted(&method, uri), "{uri}");
        }
        for (method, uri) in [
            (Method::POST, "/v1/chat/completions?%6bey=k"),
            (Method::POST, "/v1/chat/completions?alt=sse;fields=x"),
            (
                Method::GET,
                "/v1beta/models/g:generateContent?$httpMethod=POST",
            ),
            (Method::GET, "/v1/models/x%2F..%2F..%2Ffiles"),
            (Method::POST, "/v1beta/tunedModels/x:generateContent"),
            (Method::POST, "/v1beta/corpora/x/models/g:generateContent"),
            (Method::POST, "/v1beta//models/g:generateContent"),
            (Method::POST, "/v1beta/models/models/g:generateContent"),
            (Method::POST, "/v1beta/models/a%2f..%2fb:generateContent"),
            (
                Method::POST,
                "/v1/projects/p/locations/l/publishers/google/models/g:generateContent",
            ),
        ] {
            assert!(!is_permitted(&method, uri), "{uri}");
        }
    }
}
