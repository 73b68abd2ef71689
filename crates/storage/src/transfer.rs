//! Responses of HTTP servers: status, length, bytes.

use bytes::{Bytes, BytesMut};
use cachalot_core::Millis;
use cachalot_core::clock::millis;
use futures_util::stream::{self, BoxStream};
use futures_util::{StreamExt as _, TryStreamExt as _};
use reqwest::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, ETAG, HeaderMap, HeaderName, LAST_MODIFIED,
};
use reqwest::{Method, Response, StatusCode, Url};

use crate::error::{Error, ErrorKind, too_large};
use crate::http::{HttpClient, fault};
use crate::mask::masked;
use crate::stat::Stat;

/// Returns the response if its status is a success.
///
/// # Errors
/// 404 and 410: [`ErrorKind::NotFound`]; 401, 403, 407: [`ErrorKind::Denied`]; 408, 425, 429 and 5xx:
/// [`ErrorKind::Unavailable`], worth retrying; other statuses from 400 up: [`ErrorKind::Invalid`]; a redirect
/// that cannot be followed: [`ErrorKind::Unavailable`]. [`Error::status`](field@Error::status) holds the
/// status.
pub fn success(response: Response) -> Result<Response, Error> {
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let (kind, retry, remedy) = match status.as_u16() {
        404 | 410 => (ErrorKind::NotFound, false, "check the address"),
        401 | 407 => (ErrorKind::Denied, false, "give valid credentials"),
        403 => (
            ErrorKind::Denied,
            false,
            "check the credentials and what they permit",
        ),
        408 | 425 | 429 => (ErrorKind::Unavailable, true, "try again later"),
        500.. => (
            ErrorKind::Unavailable,
            true,
            "the server failed; try again later",
        ),
        300..=399 => (
            ErrorKind::Unavailable,
            false,
            "that redirect cannot be followed; check the address",
        ),
        _ => (
            ErrorKind::Invalid,
            false,
            "check the address and the request",
        ),
    };
    let message = format!(
        "`{}` answered {status}; {remedy}",
        masked(response.url().as_str())
    );
    Err(Error::new(kind, message)
        .retrying(retry)
        .with_status(status.as_u16()))
}

/// Streams the bytes of a response.
///
/// # Errors
/// The last item is an error if the connection breaks, the server exceeds the idle timeout, or fewer bytes
/// arrive than the response announced.
pub fn chunks(response: Response) -> BoxStream<'static, Result<Bytes, Error>> {
    let expected = announced(response.headers());
    stream::try_unfold((response, 0_u64), move |(mut response, seen)| async move {
        let url = response.url().to_string();
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let seen = seen + chunk.len() as u64;
                Ok(Some((chunk, (response, seen))))
            }
            Ok(None) => match expected {
                Some(expected) if seen < expected => Err(truncated(&url, seen, expected)),
                _ => Ok(None),
            },
            Err(error) if error.is_timeout() => Err(fault(&url, error)),
            Err(error) => match expected {
                Some(expected) => {
                    Err(truncated(&url, seen, expected).with_source(error.without_url()))
                }
                None => Err(fault(&url, error)),
            },
        }
    })
    .boxed()
}

/// Reads the whole body, if it has at most `max_bytes` bytes.
///
/// # Errors
/// [`ErrorKind::TooLarge`] as soon as that is known; otherwise the errors of [`chunks`].
pub async fn body(response: Response, max_bytes: u64) -> Result<Bytes, Error> {
    let url = response.url().to_string();
    let size = announced(response.headers());
    read_limited(&masked(&url), size, chunks(response), max_bytes).await
}

/// Concatenates chunks, up to a limit. `size` is the announced size, which is only a hint.
pub(crate) async fn read_limited(
    shown: &str,
    size: Option<u64>,
    mut chunks: BoxStream<'static, Result<Bytes, Error>>,
    max_bytes: u64,
) -> Result<Bytes, Error> {
    if let Some(size) = size.filter(|size| *size > max_bytes) {
        return Err(too_large(shown, Some(size), max_bytes));
    }
    // Limits the memory that a server's announcement can make us allocate.
    let reserve = size.unwrap_or(0).min(1 << 20);
    let mut whole = BytesMut::with_capacity(usize::try_from(reserve).unwrap_or(0));
    while let Some(chunk) = chunks.try_next().await? {
        if (whole.len() + chunk.len()) as u64 > max_bytes {
            return Err(too_large(shown, None, max_bytes));
        }
        whole.extend_from_slice(&chunk);
    }
    Ok(whole.freeze())
}

pub(crate) fn truncated(url: &str, seen: u64, expected: u64) -> Error {
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "`{}` broke off after {seen} of {expected} bytes; try again",
            masked(url)
        ),
    )
    .retrying(true)
}

/// Sends a GET request to a URL that the user chose.
pub(crate) async fn get(http: &HttpClient, url: &Url) -> Result<Response, Error> {
    let response = ask(http, Method::GET, url).await?;
    if response.status() == StatusCode::PARTIAL_CONTENT {
        return Err(Error::new(
            ErrorKind::Unavailable,
            format!(
                "`{}` sent a part although the whole was asked for",
                masked(url.as_str())
            ),
        ));
    }
    success(response)
}

async fn ask(http: &HttpClient, method: Method, url: &Url) -> Result<Response, Error> {
    // Request the original bytes, not a compressed form that may vary.
    let request = http
        .request(method, url.as_str())?
        .header(ACCEPT_ENCODING, "identity");
    http.send(request).await
}

/// Returns size, time and tag of the content at a URL. Sends GET if the server refuses HEAD or does not
/// announce the size with it. If GET does not announce the size either, the bytes are read and counted.
pub(crate) async fn stat(http: &HttpClient, url: &Url) -> Result<Stat, Error> {
    let head = ask(http, Method::HEAD, url).await?;
    if head.status().is_success() {
        if let Some(size) = announced(head.headers()) {
            return Ok(described(head.headers(), size));
        }
    } else if matches!(head.status().as_u16(), 404 | 410 | 429 | 500 | 502..=599) {
        success(head)?;
    }
    // Some servers refuse HEAD, or answer it without a length.
    let response = get(http, url).await?;
    let headers = response.headers().clone();
    let size = match announced(&headers) {
        Some(size) => size,
        None => {
            chunks(response)
                .try_fold(0, async |sum, chunk| Ok(sum + chunk.len() as u64))
                .await?
        }
    };
    Ok(described(&headers, size))
}

fn described(headers: &HeaderMap, size: u64) -> Stat {
    Stat {
        size,
        modified: text(headers, LAST_MODIFIED).and_then(http_date),
        etag: text(headers, ETAG).map(str::to_owned),
    }
}

fn text(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// The announced number of bytes, unless they are encoded.
fn announced(headers: &HeaderMap) -> Option<u64> {
    if text(headers, CONTENT_ENCODING).is_some_and(|encoding| encoding != "identity") {
        return None;
    }
    text(headers, CONTENT_LENGTH)?.trim().parse().ok()
}

/// Parses `Sun, 06 Nov 1994 08:49:37 GMT`, the only form that servers send.
fn http_date(text: &str) -> Option<Millis> {
    let date = httpdate::parse_http_date(text).ok()?;
    (httpdate::fmt_http_date(date) == text).then(|| millis(date))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn http_dates_are_parsed() {
        assert_eq!(http_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(
            http_date("Sun, 06 Nov 1994 08:49:37 GMT"),
            Some(784_111_777_000)
        );
        assert_eq!(
            http_date("Tue, 29 Feb 2000 23:59:59 GMT"),
            Some(951_868_799_000)
        );
        assert_eq!(
            http_date("Sat, 21 Nov 2026 02:42:00 GMT"),
            Some(1_795_228_920_000)
        );
        for wrong in [
            "",
            "yesterday",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 anF 1994 08:49:37 GMT",
            "Sun, 99 Nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1994 08:49 GMT",
            "Sunday, 06-Nov-94 08:49:37 GMT",
        ] {
            assert_eq!(http_date(wrong), None, "{wrong}");
        }
    }
}
