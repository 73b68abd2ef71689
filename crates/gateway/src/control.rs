//! Directives of a client: `Cache-Control` of its request (RFC 9111, section 5.2.1), and headers of our own.

use std::time::Duration;

use cachalot_cache::CacheMode;
use http::{HeaderMap, header};

use crate::error_body::ErrorBody;

/// Directives of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Controls {
    /// Permitted operations.
    pub(crate) mode: CacheMode,
    /// The age up to which an entry may answer.
    pub(crate) max_age: Option<Duration>,
    /// The time after its end in which an entry may answer in place of an error.
    pub(crate) stale_if_error: Option<Duration>,
    /// The time to live of an answer that is stored now, if it is shorter than the endpoint's.
    pub(crate) ttl: Option<Duration>,
    /// Labels by which an operator finds the entry.
    pub(crate) tags: Vec<String>,
}

/// The maximum number of tags, and the maximum length of one.
const MAX_TAGS: usize = 16;
const MAX_TAG: usize = 128;

impl Controls {
    /// Reads the directives. Unknown directives of `Cache-Control` are ignored, as the standard demands.
    ///
    /// # Errors
    /// The response to a request with a malformed header of our own.
    pub(crate) fn read(headers: &HeaderMap) -> Result<Self, ErrorBody> {
        let mut controls = Self {
            mode: CacheMode::On,
            max_age: None,
            stale_if_error: None,
            ttl: None,
            tags: Vec::new(),
        };
        let (mut fresh, mut no_store, mut only_cached) = (false, false, false);
        let values = headers.get_all(header::CACHE_CONTROL).iter();
        let values = values.filter_map(|value| value.to_str().ok());
        for directive in values.flat_map(|value| value.split(',')) {
            let (name, value) = directive.split_once('=').unwrap_or((directive, ""));
            match name.trim().to_ascii_lowercase().as_str() {
                "no-cache" => fresh = true,
                "no-store" => no_store = true,
                "only-if-cached" => only_cached = true,
                "max-age" => {
                    let seconds = value.trim().trim_matches('"').parse();
                    // A malformed age is treated as one that nothing satisfies.
                    controls.max_age = Some(Duration::from_secs(seconds.unwrap_or(0)));
                }
                // RFC 5861, section 4.
                "stale-if-error" => {
                    let seconds = value.trim().trim_matches('"').parse();
                    controls.stale_if_error = Some(Duration::from_secs(seconds.unwrap_or(0)));
                }
                _ => {}
            }
        }
        if let Some(mode) = text(headers, "x-cachalot-mode")? {
            match mode {
                "on" => {}
                "refresh" => fresh = true,
                "off" => no_store = true,
                "frozen" => only_cached = true,
                other => {
                    let message =
                        format!("x-cachalot-mode: `{other}`; expected on, off, refresh or frozen");
                    return Err(malformed(message));
                }
            }
        }
        controls.mode = match (only_cached, no_store, fresh) {
            (true, ..) => CacheMode::Frozen,
            (false, true, _) => CacheMode::Off,
            (false, false, true) => CacheMode::Refresh,
            (false, false, false) => CacheMode::On,
        };
        if let Some(ttl) = text(headers, "x-cachalot-ttl")? {
            let ttl = cachalot_model::AGE.read_text(ttl).map_err(|_| {
                malformed(format!(
                    "x-cachalot-ttl: `{ttl}`; expected a time such as 90s, 5m or 1h"
                ))
            })?;
            controls.ttl = Some(ttl);
        }
        if let Some(tags) = text(headers, "x-cachalot-tags")? {
            let tags = tags.split(',').map(str::trim).filter(|tag| !tag.is_empty());
            controls.tags = tags.map(str::to_owned).collect();
            if controls.tags.len() > MAX_TAGS || controls.tags.iter().any(|tag| tag.len() > MAX_TAG)
            {
                let message = format!(
                    "x-cachalot-tags: at most {MAX_TAGS} tags of at most {MAX_TAG} bytes, separated by commas"
                );
                return Err(malformed(message));
            }
        }
        Ok(controls)
    }

    /// Returns the directives in a gateway that answers from the cache only, if `is_frozen`.
    pub(crate) fn in_gateway(self, is_frozen: bool) -> Self {
        let mode = if is_frozen {
            CacheMode::Frozen
        } else {
            self.mode
        };
        Self { mode, ..self }
    }
}

fn text<'h>(headers: &'h HeaderMap, name: &str) -> Result<Option<&'h str>, ErrorBody> {
    match headers.get(name).map(http::HeaderValue::to_str) {
        None => Ok(None),
        Some(Ok(text)) => Ok(Some(text.trim())),
        Some(Err(_)) => Err(malformed(format!("{name}: expected printable ASCII"))),
    }
}

fn malformed(message: String) -> ErrorBody {
    ErrorBody::bad_request("malformed_header", message)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn read(pairs: &[(&'static str, &str)]) -> Result<Controls, ErrorBody> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(*name, value.parse().unwrap());
        }
        Controls::read(&headers)
    }

    #[test]
    fn directives_are_read() {
        let mode = |value: &str| read(&[("cache-control", value)]).unwrap().mode;
        assert_eq!(mode("max-stale=5, private"), CacheMode::On);
        assert_eq!(mode("No-Cache"), CacheMode::Refresh);
        assert_eq!(mode("no-store"), CacheMode::Off);
        assert_eq!(mode("no-store, no-cache"), CacheMode::Off);
        assert_eq!(mode("only-if-cached, max-age=5"), CacheMode::Frozen);
        let age = |value: &str| read(&[("cache-control", value)]).unwrap().max_age;
        assert_eq!(age("max-age=60"), Some(Duration::from_secs(60)));
        assert_eq!(age("max-age=soon"), Some(Duration::ZERO));
        assert_eq!(age("no-cache"), None);
        let stale = |value: &str| read(&[("cache-control", value)]).unwrap().stale_if_error;
        assert_eq!(stale("stale-if-error=60"), Some(Duration::from_secs(60)));
        assert_eq!(stale("stale-if-error"), Some(Duration::ZERO));
        let controls = read(&[
            ("x-cachalot-mode", "refresh"),
            ("x-cachalot-ttl", "5m"),
            ("x-cachalot-tags", "a, b,,c"),
        ]);
        let controls = controls.unwrap();
        assert_eq!(controls.mode, CacheMode::Refresh);
        assert_eq!(controls.ttl, Some(Duration::from_secs(300)));
        assert_eq!(controls.tags, ["a", "b", "c"]);
    }

    #[test]
    fn malformed_headers_of_our_own_are_refused() {
        let long = "x".repeat(129);
        for (name, value) in [
            ("x-cachalot-mode", "maybe"),
            ("x-cachalot-ttl", "soon"),
            ("x-cachalot-tags", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"),
            ("x-cachalot-tags", &*long),
        ] {
            assert!(read(&[(name, value)]).is_err(), "{name}: {value}");
        }
    }
}
