//! The type and the character encoding of a response.

use bytes::Bytes;
use reqwest::header::{CONTENT_TYPE, HeaderMap, HeaderValue};

/// The type of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PageKind {
    /// An HTML page.
    Html,
    /// Any other text.
    Text,
    /// Not text, or of an unknown type.
    Binary,
    /// Not stated: to be detected from the bytes.
    Unstated,
}

/// Text media types outside of `text/`.
const TEXT_MEDIA_TYPES: [&str; 18] = [
    "application/json",
    "application/xml",
    "application/javascript",
    "application/ecmascript",
    "application/x-javascript",
    "application/typescript",
    "application/yaml",
    "application/x-yaml",
    "application/toml",
    "application/x-sh",
    "application/sql",
    "application/graphql",
    "application/x-www-form-urlencoded",
    "application/x-ndjson",
    "application/ndjson",
    "application/jsonl",
    "application/x-httpd-php",
    "application/mbox",
];

/// Returns the media type without its parameters, in lower case; empty if there is none.
pub(super) fn media_type(headers: &HeaderMap) -> String {
    let header = headers
        .get(CONTENT_TYPE)
        .and_then(|header| header.to_str().ok())
        .unwrap_or_default();
    let essence = header.split(';').next().unwrap_or_default();
    essence.trim().to_ascii_lowercase()
}

impl PageKind {
    /// Classifies a media type.
    pub(super) fn stated(media_type: &str) -> Self {
        match media_type {
            "" | "application/octet-stream" | "binary/octet-stream" => Self::Unstated,
            "text/html" | "application/xhtml+xml" => Self::Html,
            other
                if other.starts_with("text/")
                    || other.ends_with("+json")
                    || other.ends_with("+xml")
                    || TEXT_MEDIA_TYPES.contains(&other) =>
            {
                Self::Text
            }
            _ => Self::Binary,
        }
    }

    /// Detects the type from the bytes.
    pub(super) fn detect(bytes: &[u8]) -> Self {
        let start = bytes.trim_ascii_start();
        let begins = |with: &str| {
            start
                .get(..with.len())
                .is_some_and(|first| first.eq_ignore_ascii_case(with.as_bytes()))
        };
        if bytes.contains(&0) || begins("%PDF-") || std::str::from_utf8(bytes).is_err() {
            Self::Binary
        } else if begins("<!doctype html") || begins("<html") {
            Self::Html
        } else {
            Self::Text
        }
    }
}

/// Decodes the text with the charset of the header, else of a byte order mark, else of the text's own
/// declaration. Otherwise the charset is UTF-8, or Windows-1252 if the text is not valid UTF-8, as in
/// browsers.
///
/// # Errors
/// None in practice, because the body is in memory.
pub(super) async fn text(headers: &HeaderMap, bytes: Bytes) -> reqwest::Result<String> {
    let named = headers
        .get(CONTENT_TYPE)
        .and_then(|header| header.to_str().ok())
        .is_some_and(|header| header.to_ascii_lowercase().contains("charset="));
    let charset = if named {
        None
    } else {
        Some(
            declared(&bytes).unwrap_or_else(|| match std::str::from_utf8(&bytes) {
                Ok(_) => "utf-8".to_owned(),
                Err(_) => "windows-1252".to_owned(),
            }),
        )
    };
    let mut answer = http::Response::new(bytes);
    let header = match charset {
        None => headers.get(CONTENT_TYPE).cloned(),
        Some(charset) => HeaderValue::from_str(&format!("text/plain; charset={charset}")).ok(),
    };
    if let Some(header) = header {
        answer.headers_mut().insert(CONTENT_TYPE, header);
    }
    // The decoder of `reqwest` supports every charset of the web, and byte order marks.
    reqwest::Response::from(answer)
        .text()
        .await
        .map_err(reqwest::Error::without_url)
}

/// Returns the charset that an HTML or XML text declares: `<meta charset=…>`,
/// `<meta … content="…; charset=…">`, `<?xml … encoding="…"?>`.
fn declared(bytes: &[u8]) -> Option<String> {
    /// Number of bytes that browsers search.
    const WITHIN: usize = 1_024;
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(WITHIN)]).to_ascii_lowercase();
    let name = if start.starts_with("<?xml") {
        &start[start.find("encoding=")? + "encoding=".len()..]
    } else {
        let meta = &start[start.find("<meta")?..];
        &meta[meta.find("charset=")? + "charset=".len()..]
    };
    let name: String = name
        .trim_start_matches(['"', '\''])
        .chars()
        .take_while(|c| c.is_ascii_alphanumeric() || "-_:.".contains(*c))
        .collect();
    // A text that could be read as ASCII so far is not UTF-16.
    (!name.is_empty() && !name.starts_with("utf-16")).then_some(name)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn headers(content_type: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        if !content_type.is_empty() {
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(content_type).unwrap());
        }
        headers
    }

    #[test]
    fn page_kind_is_derived_from_the_media_type() {
        for (media_type, kind) in [
            ("text/html", PageKind::Html),
            ("text/markdown", PageKind::Text),
            ("application/json", PageKind::Text),
            ("application/ld+json", PageKind::Text),
            ("image/svg+xml", PageKind::Text),
            ("image/png", PageKind::Binary),
            ("application/pdf", PageKind::Binary),
            ("application/zip", PageKind::Binary),
            ("", PageKind::Unstated),
            ("application/octet-stream", PageKind::Unstated),
        ] {
            assert_eq!(PageKind::stated(media_type), kind, "{media_type}");
        }
        assert_eq!(media_type(&headers("Text/HTML; charset=x")), "text/html");
    }

    #[test]
    fn page_kind_is_detected_from_the_bytes() {
        assert_eq!(PageKind::detect(b"\n <!DOCTYPE html><p>"), PageKind::Html);
        assert_eq!(PageKind::detect(b"plain"), PageKind::Text);
        assert_eq!(PageKind::detect(b""), PageKind::Text);
        assert_eq!(PageKind::detect(b"%PDF-1.7"), PageKind::Binary);
        assert_eq!(PageKind::detect(b"a\0b"), PageKind::Binary);
        assert_eq!(PageKind::detect(b"\x89PNG"), PageKind::Binary);
    }

    #[tokio::test]
    async fn charset_is_taken_from_header_text_or_detection() {
        for (content_type, bytes, expected) in [
            ("text/plain; charset=iso-8859-1", &b"caf\xe9"[..], "café"),
            (
                "text/html",
                b"<meta charset=\"shift_jis\">\x83\x65",
                "<meta charset=\"shift_jis\">テ",
            ),
            (
                "text/html",
                b"<meta http-equiv=x content='text/html; charset=koi8-r'>\xc1",
                "<meta http-equiv=x content='text/html; charset=koi8-r'>а",
            ),
            (
                "text/xml",
                b"<?xml version='1.0' encoding='iso-8859-2'?>\xb1",
                "<?xml version='1.0' encoding='iso-8859-2'?>ą",
            ),
            ("text/plain", b"caf\xe9 \x80", "café €"),
            ("text/plain", "café".as_bytes(), "café"),
            ("text/plain", b"\xff\xfea\0", "a"),
            ("text/html; charset=nonsense", "é".as_bytes(), "é"),
        ] {
            let text = text(&headers(content_type), Bytes::from_static(bytes))
                .await
                .unwrap();
            assert_eq!(text, expected, "{content_type}");
        }
    }
}
