//! The header `Cache-Status` (RFC 9211) of a response.

use cachalot_cache::{CacheStatus, Key, Reason};
use http::HeaderValue;

/// Name of the header.
pub(crate) const HEADER: &str = "cache-status";
/// Name of the cache in the header.
const NAME: &str = "cachalot";
/// Number of digits of the key that identify a call to `cachalot why`.
const KEY_DIGITS: usize = 10;

/// Returns the value for a call of the engine; `ttl` is the remaining time of the entry that answered, in seconds,
/// negative if it has expired.
pub(crate) fn of_call(status: &CacheStatus, key: &Key, ttl: Option<i64>) -> HeaderValue {
    let mut text = NAME.to_owned();
    match status {
        CacheStatus::Hit | CacheStatus::LocalHit(_) | CacheStatus::Stale => {
            text += "; hit";
            if let Some(ttl) = ttl {
                text += &format!("; ttl={ttl}");
            }
        }
        CacheStatus::Coalesced => text += "; fwd=uri-miss; collapsed",
        CacheStatus::Miss(reason) => text += &format!("; fwd={}", forwarded(reason)),
        CacheStatus::Bypass(_) => text += "; fwd=bypass",
    }
    if let Some(reason) = status.reason() {
        text += &format!("; detail={}", quoted(&reason.to_string()));
    }
    let digits = key.to_string();
    text += &format!("; key=\"{}\"", &digits[..KEY_DIGITS]);
    value(&text)
}

/// Returns the value for a request that the engine was not asked for.
pub(crate) fn of_pass(reason: &str) -> HeaderValue {
    value(&format!("{NAME}; fwd=bypass; detail={}", quoted(reason)))
}

/// Returns the value of `fwd` for a miss.
fn forwarded(reason: &Reason) -> &'static str {
    match reason {
        Reason::Refresh => "request",
        Reason::Expired | Reason::Changed(_) | Reason::Written(_) => "stale",
        Reason::Absent => "uri-miss",
        _ => "miss",
    }
}

/// Returns a string of a structured field (RFC 8941): printable ASCII, other signs replaced.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    quoted.extend(text.chars().map(|character| match character {
        '"' => '\'',
        '\\' => '/',
        ' '..='~' => character,
        _ => '?',
    }));
    quoted.push('"');
    quoted
}

fn value(text: &str) -> HeaderValue {
    HeaderValue::from_str(text).unwrap_or(HeaderValue::from_static(NAME))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_core::Digest;

    use super::*;

    #[test]
    fn sources_and_reasons_are_named() {
        let key: Key = Digest::sha256(b"x").to_string().parse().unwrap();
        let text =
            |status: &CacheStatus, ttl| of_call(status, &key, ttl).to_str().unwrap().to_owned();
        assert_eq!(
            text(&CacheStatus::Hit, Some(60)),
            r#"cachalot; hit; ttl=60; key="2d711642b7""#
        );
        assert_eq!(
            text(&CacheStatus::Stale, Some(-12)),
            r#"cachalot; hit; ttl=-12; key="2d711642b7""#
        );
        assert_eq!(
            text(&CacheStatus::Coalesced, None),
            r#"cachalot; fwd=uri-miss; collapsed; key="2d711642b7""#
        );
        let miss = CacheStatus::Miss(Reason::Absent);
        assert_eq!(
            text(&miss, None),
            r#"cachalot; fwd=uri-miss; detail="not in the cache"; key="2d711642b7""#
        );
        let bypass = CacheStatus::Bypass(Reason::Declined("é \"a\"\n\\".into()));
        assert_eq!(
            text(&bypass, None),
            r#"cachalot; fwd=bypass; detail="? 'a'?/"; key="2d711642b7""#
        );
    }
}
