//! The header `traceparent` of a client (W3C Trace Context, level 1 and later).

use http::HeaderMap;

use super::span::{SpanId, TraceId};

/// The span of the client that caused a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RemoteParent {
    pub(super) trace: TraceId,
    pub(super) span: SpanId,
    /// True if the client records its spans.
    pub(super) is_sampled: bool,
}

/// Length of the fields of version 0: `00-TRACE-SPAN-FLAGS`.
const LENGTH: usize = 55;

impl RemoteParent {
    /// Reads the header. A malformed one, and one that occurs twice, counts as none, as the standard demands.
    pub(super) fn from_headers(headers: &HeaderMap) -> Option<Self> {
        let mut values = headers.get_all("traceparent").iter();
        match (values.next(), values.next()) {
            (Some(value), None) => Self::parse(value.as_bytes()),
            _ => None,
        }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let (fields, rest) = text.split_at_checked(LENGTH)?;
        let mut fields = fields.split(|byte| *byte == b'-');
        let [version] = digits(fields.next()?)?;
        let trace = digits(fields.next()?)?;
        let span = digits(fields.next()?)?;
        let [flags] = digits(fields.next()?)?;
        // Later versions may append fields.
        let is_known = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|byte| *byte == b'-'),
        };
        let is_valid = is_known && trace != TraceId::default() && span != SpanId::default();
        is_valid.then_some(Self {
            trace,
            span,
            is_sampled: flags & 1 == 1,
        })
    }
}

/// Reads bytes from lower-case hexadecimal digits.
fn digits<const N: usize>(text: &[u8]) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    let is_lower_case = !text.iter().any(u8::is_ascii_uppercase);
    (is_lower_case && hex::decode_to_slice(text, &mut bytes).is_ok()).then_some(bytes)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const VALID: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn parse(text: &str) -> Option<RemoteParent> {
        RemoteParent::parse(text.as_bytes())
    }

    #[test]
    fn valid_headers_are_read() {
        let parent = parse(VALID).unwrap();
        assert_eq!(parent.trace[..3], [0x0a, 0xf7, 0x65]);
        assert_eq!(
            parent.span,
            [0xb7, 0xad, 0x6b, 0x71, 0x69, 0x20, 0x33, 0x31]
        );
        assert!(parent.is_sampled);
        for (flags, is_sampled) in [("00", false), ("02", false), ("03", true), ("ff", true)] {
            let text = format!("{}{flags}", &VALID[..53]);
            assert_eq!(parse(&text).unwrap().is_sampled, is_sampled, "{text}");
        }
        let later = VALID.replacen("00", "01", 1);
        assert_eq!(parse(&later), Some(parent));
        assert_eq!(parse(&format!("{later}-more")), Some(parent));
    }

    #[test]
    fn malformed_headers_are_none() {
        for text in [
            "",
            "00",
            &VALID[..54],
            &format!("{VALID}-more"),
            &format!("{}more", VALID.replacen("00", "01", 1)),
            &VALID.replacen("00", "ff", 1),
            &VALID.to_uppercase(),
            &VALID.replace("b7ad6b7169203331", "0000000000000000"),
            &VALID.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)),
            &VALID.replace("b7ad", "b-ad"),
            &VALID.replace("b7ad", "+7ad"),
            &VALID.replace('-', "_"),
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
        let mut headers = HeaderMap::new();
        headers.append("traceparent", VALID.parse().unwrap());
        assert!(RemoteParent::from_headers(&headers).is_some());
        headers.append("traceparent", VALID.parse().unwrap());
        assert_eq!(RemoteParent::from_headers(&headers), None);
    }
}
