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
            (Some(b'{'), Ok(said)) => {
                if said["async"] == true {
                    Self::MovedToBackground {
                        limit: said["asyncTimeout"].as_u64().map(Duration::from_millis),
                    }
                } else {
                    Self::Other
                }
            }
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
#[path = "../../tests/unit/dialect/first_line.rs"]
mod tests;
