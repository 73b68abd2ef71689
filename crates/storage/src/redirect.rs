//! Redirects, followed one request at a time.

use std::net::IpAddr;
use std::sync::Arc;

use reqwest::header::{
    AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, LOCATION,
    PROXY_AUTHORIZATION, TRANSFER_ENCODING, WWW_AUTHENTICATE,
};
use reqwest::{Method, Request, Response, Url};

use crate::error::Error;
use crate::guard::{private_range, without_brackets};

/// Checks if a redirect to a URL may be followed; the message of an error is the reason for a refusal.
pub type RedirectCheck = Arc<dyn Fn(&Url) -> Result<(), Error> + Send + Sync>;

/// A copy of a request, from which the next one is made if the response is a redirect.
pub(crate) struct RequestCopy {
    request: Request,
    /// True if the body could be copied.
    is_whole: bool,
}

impl RequestCopy {
    pub(crate) fn from_request(request: &Request) -> Self {
        if let Some(request) = request.try_clone() {
            return Self {
                request,
                is_whole: true,
            };
        }
        let mut copy = Request::new(request.method().clone(), request.url().clone());
        copy.headers_mut().clone_from(request.headers());
        Self {
            request: copy,
            is_whole: false,
        }
    }

    /// Returns the next request; `None` if the response is not a redirect that can be followed. Removes
    /// credentials for another scheme, host or port: known headers, and those whose value is marked as sensitive.
    pub(crate) fn redirected(self, response: &Response) -> Option<Request> {
        let Self {
            request: mut next,
            is_whole,
        } = self;
        let method = next.method();
        let becomes_get = match response.status().as_u16() {
            301 | 302 => *method == Method::POST,
            303 => *method != Method::HEAD,
            307 | 308 => false,
            _ => return None,
        };
        // A body that was streamed cannot be sent a second time.
        if !becomes_get && !is_whole {
            return None;
        }
        let location = response.headers().get(LOCATION)?;
        let target = std::str::from_utf8(location.as_bytes()).ok()?;
        let target = next.url().join(target).ok()?;
        if becomes_get {
            *next.method_mut() = Method::GET;
            *next.body_mut() = None;
            for name in [
                CONTENT_TYPE,
                CONTENT_LENGTH,
                CONTENT_ENCODING,
                TRANSFER_ENCODING,
            ] {
                next.headers_mut().remove(name);
            }
        }
        if target.origin() != next.url().origin() {
            let headers = next.headers_mut();
            let of_server = [AUTHORIZATION, COOKIE, PROXY_AUTHORIZATION, WWW_AUTHENTICATE];
            let sensitive = headers.iter().filter(|(_, value)| value.is_sensitive());
            let sensitive: Vec<_> = sensitive.map(|(name, _)| name.clone()).collect();
            for name in of_server.into_iter().chain(sensitive) {
                headers.remove(name);
            }
        }
        *next.url_mut() = target;
        Some(next)
    }
}

/// True if a response came from a private address, as far as known: behind a proxy, only the URL is checked.
pub(crate) fn is_private(url: &Url, response: &Response, is_proxied: bool) -> bool {
    let host = url.host_str().map(without_brackets).unwrap_or_default();
    if let Ok(address) = host.parse::<IpAddr>() {
        return private_range(address).is_some();
    }
    let name = host.trim_end_matches('.');
    let is_local = name == "localhost" || name.ends_with(".localhost");
    let address = response.remote_addr().filter(|_| !is_proxied);
    is_local || address.is_some_and(|address| private_range(address.ip()).is_some())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    /// The names of the headers that a request keeps when its server redirects it.
    fn kept(from: &str, to: &str) -> Vec<String> {
        let mut request = Request::new(Method::GET, from.parse().unwrap());
        let mut key = HeaderValue::from_static("k");
        key.set_sensitive(true);
        let headers = request.headers_mut();
        headers.insert("x-api-key", key);
        headers.insert(AUTHORIZATION, HeaderValue::from_static("Bearer t"));
        headers.insert("accept", HeaderValue::from_static("*/*"));
        let response = http::Response::builder().status(307).header(LOCATION, to);
        let response = Response::from(response.body("").unwrap());
        let next = RequestCopy::from_request(&request).redirected(&response);
        let next = next.unwrap();
        next.headers().keys().map(ToString::to_string).collect()
    }

    #[test]
    fn credentials_stay_with_their_origin() {
        let from = "https://a.example:8443/x";
        assert_eq!(kept(from, "/y").len(), 3);
        assert_eq!(kept(from, "https://a.example:8443/y").len(), 3);
        for other in [
            "http://a.example:8443/y",
            "https://a.example/y",
            "https://b.example:8443/y",
        ] {
            assert_eq!(kept(from, other), ["accept"], "{other}");
        }
    }
}
