//! Keeps the usage that the gateway asked for from a client that did not.

use bytes::Bytes;
use cachalot_model::wire;
use serde_json::Value;

/// Maximum size of an event that is held back until its end, in bytes: 1 MiB. A longer one is passed on as it comes.
const MAX_EVENT: usize = 1 << 20;

/// Removes the chunk with the usage from a stream of Chat Completions: the one without a choice that
/// `stream_options.include_usage` adds. All other bytes stay.
#[derive(Debug, Default)]
pub(crate) struct UsageFilter {
    /// The beginning of an event.
    pending: Vec<u8>,
    /// The number of these bytes in which the event does not end.
    searched: usize,
}

impl UsageFilter {
    /// Returns the bytes of the events that are complete.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> Bytes {
        self.pending.extend_from_slice(bytes);
        let mut passed = Vec::new();
        let mut from = 0;
        while let Some(length) = event_length(&self.pending[from..], self.searched) {
            self.searched = 0;
            let event = &self.pending[from..from + length];
            let [before, after] = without_usage(event).unwrap_or([event, &[]]);
            passed.extend_from_slice(before);
            passed.extend_from_slice(after);
            from += length;
        }
        if self.pending.len() - from > MAX_EVENT {
            passed.extend_from_slice(&self.pending[from..]);
            from = self.pending.len();
        }
        self.pending.drain(..from);
        // The end of an event has up to three bytes.
        self.searched = self.pending.len().saturating_sub(2);
        passed.into()
    }

    /// Returns the bytes of an event that has no end.
    pub(crate) fn finish(self) -> Bytes {
        match without_usage(&self.pending) {
            Some(parts) => parts.concat().into(),
            None => self.pending.into(),
        }
    }
}

/// Returns the length of the first event with the empty line at its end, which begins behind `searched` bytes; `None` if it
/// is not complete.
fn event_length(bytes: &[u8], searched: usize) -> Option<usize> {
    let ends: [&[u8]; 3] = [b"\n\n", b"\n\r\n", b"\r\r"];
    let mut lines = bytes.iter().enumerate().skip(searched);
    let is_break = |byte: u8| matches!(byte, b'\n' | b'\r');
    lines.find_map(|(at, byte)| {
        let rest = &bytes[at..];
        let end = ends
            .iter()
            .find(|end| is_break(*byte) && rest.starts_with(end))?;
        Some(at + end.len())
    })
}

/// Returns what is left of an event without its usage, before and after it; `None` for an event that has none, or has a
/// choice. Comments of servers in the event stay.
fn without_usage(event: &[u8]) -> Option<[&[u8]; 2]> {
    let text = std::str::from_utf8(event).ok()?;
    if !text.contains("\"usage\"") {
        return None;
    }
    let is_data = |line: &&str| line.starts_with("data:");
    let mut data = text.split_inclusive('\n').filter(is_data);
    let (Some(line), None) = (data.next(), data.next()) else {
        return None;
    };
    if !is_usage(line.strip_prefix("data:")?) {
        return None;
    }
    let (before, after) = text.split_once(line)?;
    let is_alone = before.trim().is_empty() && after.trim().is_empty();
    let after = if is_alone { "" } else { after };
    Some([before.as_bytes(), after.as_bytes()])
}

/// Returns true for the data of a chunk with nothing but the usage.
fn is_usage(data: &str) -> bool {
    let chunk: Value = serde_json::from_str(data).unwrap_or_default();
    // Servers send more in a chunk without a choice, such as citations.
    let members = chunk.as_object().into_iter().flatten();
    let plain = &wire::CHAT.members().usage_chunk;
    let mut others = members.filter(|(name, value)| !plain.contains(name) && !value.is_null());
    if others.next().is_some() {
        return false;
    }
    let has_no_choice = chunk.get("choices").and_then(Value::as_array);
    chunk.get("usage").is_some_and(Value::is_object) && has_no_choice.is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = concat!(
        "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"\\\"usage\\\"\"}}],\"usage\":null}\n\n",
        ": a comment with \"usage\"\r\n\r\n",
        "data: {\"choices\":[],\"prompt_filter_results\":[],\"usage\":null}\n\n",
        "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}],\"usage\":{\"prompt_tokens\":1}}\n\n",
        "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1},\"citations\":[\"https://a\"]}\n\n",
        ": PROCESSING\ndata: {\"choices\":[],\"usage\":{\"completion_tokens\":1}}\n\n",
        "\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":1,\"completion_tokens\":2}}\n\n",
        "data: [DONE]\n\n",
    );

    fn without_usage() -> String {
        let lines = STREAM.split_inclusive('\n');
        let kept: String = lines
            .filter(|line| !line.contains("\"completion_tokens\""))
            .collect();
        kept.replace("\n\n\n\n\ndata: [DONE]", "\n\n\n\ndata: [DONE]")
    }

    #[test]
    fn only_the_chunk_with_the_usage_is_removed_however_the_bytes_arrive() {
        for size in 1..=STREAM.len() {
            let mut filter = UsageFilter::default();
            let mut passed = Vec::new();
            for bytes in STREAM.as_bytes().chunks(size) {
                passed.extend_from_slice(&filter.push(bytes));
            }
            passed.extend_from_slice(&filter.finish());
            assert_eq!(String::from_utf8_lossy(&passed), without_usage(), "{size}");
        }
    }

    #[test]
    fn ends_of_streams_and_other_bytes_pass() {
        for text in [
            "",
            "data: {\"choices\"",
            "\u{0}\u{1}",
            "data: x\n",
            "\n\n\n\n",
        ] {
            let mut filter = UsageFilter::default();
            let mut passed = filter.push(text.as_bytes()).to_vec();
            passed.extend_from_slice(&filter.finish());
            assert_eq!(passed, text.as_bytes());
        }
        let mut filter = UsageFilter::default();
        let long = vec![b'x'; MAX_EVENT + 1];
        assert_eq!(filter.push(&long).len(), long.len());
    }
}
