//! Requests to the gateway from any bytes: no panic; they are sent to the upstream's own server; equal requests have
//! equal keys and judgments; requests that differ have different keys.
//!
//! The input is a request of HTTP/1: a line with method and target, headers, a blank line, a body.

use cachalot_gateway::fuzzing::{Judgment, judge};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let Some((method, target, headers, body)) = parse(bytes) else {
        return;
    };
    let judge_with = |headers: &HeaderMap, body: &[u8]| judge(&method, &target, headers, body);
    let Some(judgment) = judge_with(&headers, body) else {
        return;
    };
    assert!(judgment.is_own_server, "{judgment:?}");
    assert!(judgment.is_without_others, "{judgment:?}");
    if let Some(target) = &judgment.target {
        assert!(target.starts_with('/'), "{judgment:?}");
        let path = target.split('?').next().unwrap_or_default();
        assert!(
            !path.split('/').any(|segment| segment == ".."),
            "{judgment:?}"
        );
    }
    if let Some(query) = &judgment.query_without_credentials {
        let mut names = query
            .split('&')
            .map(|parameter| parameter.split('=').next().unwrap_or_default());
        assert!(
            !names.any(|name| matches!(name, "key" | "access_token" | "oauth_token")),
            "{query}"
        );
    }
    assert_eq!(judge_with(&headers, body).as_ref(), Some(&judgment));
    let Some(key) = &judgment.key else {
        return;
    };
    let key_of = |judgment: Option<Judgment>| judgment.and_then(|judgment| judgment.key);
    // Another order of the keys of the body, with other white space.
    if let Some(reordered) = reordered(body) {
        let other = judge_with(&headers, &reordered);
        assert_eq!(other.as_ref(), Some(&judgment), "{reordered:?}");
    }
    // Another order of the headers.
    let mut names: Vec<&HeaderName> = headers.keys().collect();
    names.reverse();
    let mut turned = HeaderMap::new();
    for name in names {
        for value in headers.get_all(name) {
            turned.append(name, value.clone());
        }
    }
    assert_eq!(judge_with(&turned, body).as_ref(), Some(&judgment));
    // Further credentials, a further header, a further member of the body.
    for name in ["authorization", "x-api-key", "cookie", "x-unknown"] {
        let mut more = headers.clone();
        more.append(name, HeaderValue::from_static("fuzz"));
        let other = key_of(judge_with(&more, body));
        let is_hidden = name == "x-unknown" && lists(&headers, name);
        assert_eq!(other.as_ref() == Some(key), is_hidden, "{name}");
    }
    let text = body.trim_ascii();
    if let Some(members) = text.strip_prefix(b"{") {
        let comma: &[u8] = if members.trim_ascii_start().starts_with(b"}") {
            b""
        } else {
            b","
        };
        let more = [b"{\"a fuzzed member\":1", comma, members].concat();
        let other = judge_with(&headers, &more);
        assert_ne!(key_of(other.clone()).as_ref(), Some(key));
        let is_judged = other
            .is_some_and(|judgment| judgment.key.is_some() && judgment.cacheability != "never");
        assert!(!is_judged || method == Method::GET, "unknown member");
    }
}

type Request<'b> = (Method, Uri, HeaderMap, &'b [u8]);

fn parse(bytes: &[u8]) -> Option<Request<'_>> {
    let end = bytes.windows(2).position(|window| window == b"\n\n")?;
    let mut lines = bytes[..end].split(|byte| *byte == b'\n');
    let mut first = lines.next()?.splitn(2, |byte| *byte == b' ');
    let method = Method::from_bytes(first.next()?).ok()?;
    let target = Uri::try_from(first.next()?).ok()?;
    let mut headers = HeaderMap::new();
    for line in lines {
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = HeaderName::from_bytes(parts.next()?).ok()?;
        let value = HeaderValue::from_bytes(parts.next()?.trim_ascii()).ok()?;
        headers.append(name, value);
    }
    Some((method, target, headers, &bytes[end + 2..]))
}

/// True if the connection header lists a name: the header is then not sent to the upstream.
fn lists(headers: &HeaderMap, wanted: &str) -> bool {
    let values = headers.get_all("connection").iter();
    let mut values = values.filter_map(|value| value.to_str().ok());
    values.any(|value| {
        let mut names = value.split(',');
        names.any(|name| name.trim().eq_ignore_ascii_case(wanted))
    })
}

/// The deepest nesting of a body that is written anew.
const MAX_DEPTH: usize = 100;

/// Returns a JSON document with its own keys in reverse order, and other white space; `None` for other texts.
fn reordered(text: &[u8]) -> Option<Vec<u8>> {
    serde_json::from_slice::<serde::de::IgnoredAny>(text).ok()?;
    let mut rest = text;
    let out = value(&mut rest, 0)?;
    rest.trim_ascii().is_empty().then_some(out)
}

/// Takes a value from the beginning of the text.
fn value(rest: &mut &[u8], depth: usize) -> Option<Vec<u8>> {
    if depth > MAX_DEPTH {
        return None;
    }
    *rest = rest.trim_ascii_start();
    let is_object = rest.first() == Some(&b'{');
    if !is_object && rest.first() != Some(&b'[') {
        return scalar(rest);
    }
    *rest = &rest[1..];
    let mut members = Vec::new();
    loop {
        *rest = rest.trim_ascii_start();
        match rest.first()? {
            b'}' | b']' => break,
            b',' => *rest = &rest[1..],
            _ => {
                let mut member = Vec::new();
                if is_object {
                    member = scalar(rest)?;
                    *rest = rest.trim_ascii_start().strip_prefix(b":")?;
                    member.extend_from_slice(b" : ");
                }
                member.extend(value(rest, depth + 1)?);
                members.push(member);
            }
        }
    }
    *rest = &rest[1..];
    if is_object && depth == 0 {
        members.reverse();
    }
    let (open, close): (&[u8], &[u8]) = if is_object {
        (b"{\n", b"\n}")
    } else {
        (b"[\t", b"\t]")
    };
    Some([open, &members.join(&b" ,\r\n"[..]), close].concat())
}

/// Takes a string, a number or a name from the beginning of the text.
fn scalar(rest: &mut &[u8]) -> Option<Vec<u8>> {
    let end = match rest.strip_prefix(b"\"") {
        Some(text) => {
            let mut is_escaped = false;
            let end = text.iter().position(|byte| {
                let is_end = *byte == b'"' && !is_escaped;
                is_escaped = *byte == b'\\' && !is_escaped;
                is_end
            });
            end? + 2
        }
        None => {
            let is_end = |byte: &u8| b",]}: \t\r\n".contains(byte);
            rest.iter().position(is_end).unwrap_or(rest.len())
        }
    };
    let (scalar, behind) = rest.split_at(end);
    *rest = behind;
    Some(scalar.to_vec())
}
