//! URLs of endpoints.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

/// Percent-encodes a path segment, except letters, digits, `-`, `.`, `_` and `~`.
#[must_use]
pub fn encode_segment(segment: &str) -> String {
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC
        .remove(b'-')
        .remove(b'.')
        .remove(b'_')
        .remove(b'~');
    utf8_percent_encode(segment, KEPT).to_string()
}

/// Returns the path of a base URL, without slashes at the end.
pub(crate) fn base_path(base: &Url) -> &str {
    base.path().trim_end_matches('/')
}

/// Appends a path, unless the base URL ends with it.
pub(crate) fn appended(base: &Url, path: &str) -> Url {
    let before = base_path(base);
    let mut url = base.clone();
    if before.ends_with(path) {
        url.set_path(before)
    } else {
        url.set_path(&format!("{before}{path}"))
    }
    url
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{CHAT, CONVERSE, FormatWire, GEMINI, INTERACTIONS, MESSAGES, RESPONSES};

    fn url(wire: FormatWire, base: &str, model: &str, streams: bool) -> String {
        let base = Url::parse(base).unwrap();
        wire.url(&base, model, streams).to_string()
    }

    #[test]
    fn endpoints_are_appended_to_the_base_url() {
        for (base, wire, expected) in [
            ("https://a/v1", CHAT, "https://a/v1/chat/completions"),
            ("https://a/v1/", CHAT, "https://a/v1/chat/completions"),
            ("https://a", RESPONSES, "https://a/responses"),
            (
                "https://a/openai/deployments/x?api-version=1",
                CHAT,
                "https://a/openai/deployments/x/chat/completions?api-version=1",
            ),
            (
                "https://a/v1/chat/completions",
                CHAT,
                "https://a/v1/chat/completions",
            ),
            ("https://a", MESSAGES, "https://a/v1/messages"),
            ("https://a/v1", MESSAGES, "https://a/v1/messages"),
            ("https://a/v1/", MESSAGES, "https://a/v1/messages"),
            (
                "https://a/anthropic",
                MESSAGES,
                "https://a/anthropic/v1/messages",
            ),
            ("https://a/v1/messages", MESSAGES, "https://a/v1/messages"),
            ("https://a", INTERACTIONS, "https://a/v1beta/interactions"),
            (
                "https://a/v1beta/openai/",
                INTERACTIONS,
                "https://a/v1beta/interactions",
            ),
            (
                "https://a/x/v1",
                INTERACTIONS,
                "https://a/x/v1/interactions",
            ),
            (
                "https://a/x/interactions/",
                INTERACTIONS,
                "https://a/x/interactions",
            ),
        ] {
            assert_eq!(url(wire, base, "m", false), expected);
        }
    }

    #[test]
    fn models_are_in_paths() {
        for (base, wire, model, streams, expected) in [
            (
                "https://a",
                CONVERSE,
                "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
                false,
                "https://a/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse",
            ),
            (
                "https://a/bedrock/",
                CONVERSE,
                "arn:aws:bedrock:eu-west-1:1:inference-profile/x",
                true,
                "https://a/bedrock/model/arn%3Aaws%3Abedrock%3Aeu-west-1%3A1%3Ainference-profile%2Fx/converse-stream",
            ),
            (
                "https://a",
                GEMINI,
                "models/g",
                true,
                "https://a/v1beta/models/g:streamGenerateContent?alt=sse",
            ),
            (
                "https://a/v1beta/openai/",
                GEMINI,
                "g",
                false,
                "https://a/v1beta/models/g:generateContent",
            ),
        ] {
            assert_eq!(url(wire, base, model, streams), expected);
        }
    }
}
