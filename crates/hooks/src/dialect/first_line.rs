//! The first line of output of a Claude Code hook, which can move the hook to the background:
//! `{"async": true, "asyncTimeout": 15000}`.

use std::time::Duration;

use serde_json::Value;

/// The state of the first line of a command's output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FirstLine {
    /// More of it may follow.
    Incomplete,
    /// It has another content.
    Other,
    /// The command continues in the background; it is killed after `limit` (default: the timeout of the
    /// hook).
    MovedToBackground { limit: Option<Duration> },
}

/// The maximum length of such a line in bytes. A longer line is ordinary output.
const MAX_BYTES: usize = 4_096;

impl FirstLine {
    /// Parses the first line of a stdout that may still grow. A complete object needs no newline after
    /// it.
    pub(crate) fn parse(stdout: &[u8]) -> Self {
        let (line, is_whole) = split(stdout);
        if line.len() > MAX_BYTES {
            return Self::Other;
        }
        match (line.first(), serde_json::from_slice::<Value>(line)) {
            (None, _) => Self::Incomplete,
            (Some(b'{'), Ok(said)) => match said["async"] == true {
                true => Self::MovedToBackground {
                    limit: said["asyncTimeout"].as_u64().map(Duration::from_millis),
                },
                false => Self::Other,
            },
            (Some(b'{'), Err(_)) if !is_whole => Self::Incomplete,
            _ => Self::Other,
        }
    }

    /// Returns the output after the first line: all of it if it is one JSON object, otherwise its first
    /// line that is one. Empty if there is none, as in Claude Code.
    pub(crate) fn later(stdout: &[u8]) -> Vec<u8> {
        let stdout = trimmed(stdout);
        let (line, _) = split(stdout);
        let later = stdout[line.len()..].trim_ascii();
        let is_object = |text: &&[u8]| {
            let said = serde_json::from_slice::<Value>(text);
            said.is_ok_and(|said| said.is_object() && said.get("async").is_none())
        };
        let lines = later.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
        let mut candidates = std::iter::once(later).chain(lines);
        candidates.find(is_object).unwrap_or_default().to_vec()
    }
}

/// Returns the first line, and true if it is complete.
fn split(stdout: &[u8]) -> (&[u8], bool) {
    let stdout = trimmed(stdout);
    match stdout.iter().position(|byte| *byte == b'\n') {
        Some(end) => (stdout[..end].trim_ascii_end(), true),
        None => (stdout.trim_ascii_end(), false),
    }
}

fn trimmed(stdout: &[u8]) -> &[u8] {
    let stdout = stdout.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(stdout);
    stdout.trim_ascii_start()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: FirstLine = FirstLine::MovedToBackground { limit: None };

    #[test]
    fn first_line_parse_recognizes_async() {
        for (stdout, expected) in [
            ("", FirstLine::Incomplete),
            (" \n", FirstLine::Incomplete),
            ("{\"asy", FirstLine::Incomplete),
            ("{\"async\":true}", NO_LIMIT),
            ("\u{feff} {\"async\": true}\r\n{\"a\": 1}", NO_LIMIT),
            (
                "{\"async\":true,\"asyncTimeout\":1500}\n",
                FirstLine::MovedToBackground {
                    limit: Some(Duration::from_millis(1500)),
                },
            ),
            ("{\"async\":false}\n", FirstLine::Other),
            ("{\"async\":\"true\"}\n", FirstLine::Other),
            ("{\"decision\":\"block\"}", FirstLine::Other),
            ("{\n", FirstLine::Other),
            ("working\n{\"async\":true}", FirstLine::Other),
            (
                format!("{{\"a\": \"{}", "x".repeat(5_000)).as_str(),
                FirstLine::Other,
            ),
        ] {
            assert_eq!(FirstLine::parse(stdout.as_bytes()), expected, "{stdout:?}");
        }
    }

    #[test]
    fn later_output_is_the_first_object_after_the_first_line() {
        for (stdout, expected) in [
            ("{\"async\":true}", ""),
            ("{\"async\":true}\n\n", ""),
            ("{\"async\":true}\ndone\n", ""),
            (
                "{\"async\":true}\nworking\n {\"a\":1} \n{\"b\":2}",
                "{\"a\":1}",
            ),
            ("{\"async\":true}\n{\"async\":true}\n{\"a\":1}", "{\"a\":1}"),
            ("{\"async\":true}\n{\n \"a\": 1\n}\n", "{\n \"a\": 1\n}"),
        ] {
            let later = FirstLine::later(stdout.as_bytes());
            assert_eq!(String::from_utf8_lossy(&later), expected, "{stdout:?}");
        }
    }
}
