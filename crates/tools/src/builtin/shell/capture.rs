//! Captures the beginning and the end of a program's output in bounded memory.

use std::collections::VecDeque;

use cachalot_core::SecretSet;

/// Number of bytes that each side keeps in addition to those that are shown, so that a secret that spans the
/// edge is recognized as a whole before it is cut.
const SECRET_MARGIN: usize = 4 << 10;

/// Keeps the first and the last bytes of an output.
#[derive(Clone)]
pub(in crate::builtin) struct Capture {
    limit: usize,
    head: Vec<u8>,
    tail: VecDeque<u8>,
    /// Number of bytes that were dropped between `head` and `tail`.
    lost: u64,
}

impl Capture {
    /// Creates a capture that shows about `limit` bytes: half from the beginning, half from the end.
    pub(in crate::builtin) fn new(limit: usize) -> Self {
        Self {
            limit,
            head: Vec::new(),
            tail: VecDeque::new(),
            lost: 0,
        }
    }

    /// Number of bytes that each side keeps.
    fn side(&self) -> usize {
        self.limit / 2 + SECRET_MARGIN
    }

    pub(in crate::builtin) fn push(&mut self, bytes: &[u8]) {
        let side = self.side();
        let first = bytes.len().min(side - self.head.len().min(side));
        self.head.extend_from_slice(&bytes[..first]);
        self.tail.extend(&bytes[first..]);
        if let Some(over) = self.tail.len().checked_sub(side) {
            self.tail.drain(..over);
            self.lost += over as u64;
        }
    }

    /// Copies the last bytes: those from which [`OutputEnd::shown`] makes a text of `limit` bytes.
    pub(super) fn last_bytes(&self, limit: usize) -> OutputEnd {
        let wanted = limit.saturating_add(SECRET_MARGIN);
        let from_tail = self.tail.len().min(wanted);
        // If bytes between the head and the tail are lost, the two must not be joined.
        let from_head = match self.lost {
            0 => self.head.len().min(wanted - from_tail),
            _ => 0,
        };
        let mut bytes = self.head[self.head.len() - from_head..].to_vec();
        bytes.extend(self.tail.range(self.tail.len() - from_tail..));
        OutputEnd {
            limit,
            is_cut: self.lost > 0 || bytes.len() < self.head.len() + self.tail.len(),
            bytes,
        }
    }

    /// Returns the output with secrets masked; a notice in the middle replaces the part that does not fit.
    pub(in crate::builtin) fn shown(&self, secret_set: &SecretSet) -> String {
        let tail: Vec<u8> = self.tail.iter().copied().collect();
        if self.lost == 0 {
            let whole = [&self.head[..], &tail].concat();
            let whole = String::from_utf8_lossy(&whole);
            let whole = secret_set.redact(&whole);
            return if whole.len() <= self.limit {
                whole.into_owned()
            } else {
                cut(&whole, &whole, self.limit / 2, 0)
            };
        }
        let (head, tail) = (
            String::from_utf8_lossy(&self.head),
            String::from_utf8_lossy(&tail),
        );
        let (head, tail) = (secret_set.redact(&head), secret_set.redact(&tail));
        // Masking may have shortened the text by any amount, and the inner edge may be within a secret.
        let half = (self.limit / 2)
            .min(head.len().saturating_sub(SECRET_MARGIN))
            .min(tail.len().saturating_sub(SECRET_MARGIN));
        cut(&head, &tail, half, self.lost)
    }
}

/// The last bytes of an output.
pub(super) struct OutputEnd {
    limit: usize,
    bytes: Vec<u8>,
    /// True if output before the bytes is missing.
    is_cut: bool,
}

impl OutputEnd {
    /// Returns at most `limit` bytes, with secrets masked.
    pub(super) fn shown(&self, secret_set: &SecretSet) -> String {
        let text = String::from_utf8_lossy(&self.bytes);
        let text = secret_set.redact(&text);
        // The part of a secret or a character may be at the cut.
        let margin = if self.is_cut { SECRET_MARGIN } else { 0 };
        let start = text.len().saturating_sub(self.limit).max(margin);
        text[text.ceil_char_boundary(start.min(text.len()))..].to_owned()
    }
}

/// Returns the first `half` bytes of `head`, the last `half` of `tail`, and between them the number of
/// missing bytes: those that are cut here, and `lost`.
pub(in crate::builtin) fn cut(head: &str, tail: &str, half: usize, lost: u64) -> String {
    let first = &head[..head.floor_char_boundary(half)];
    let last = &tail[tail.ceil_char_boundary(tail.len().saturating_sub(half))..];
    let missing = match lost {
        // `head` and `tail` are the same text.
        0 => head.len() - first.len() - last.len(),
        lost => {
            let cut = (head.len() - first.len()) + (tail.len() - last.len());
            usize::try_from(lost)
                .unwrap_or(usize::MAX)
                .saturating_add(cut)
        }
    };
    let newline = if first.ends_with('\n') || first.is_empty() {
        ""
    } else {
        "\n"
    };
    format!(
        "{first}{newline}[… {missing} bytes left out: narrow the command down, or let it write to a file and read that …]\n{last}"
    )
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use cachalot_core::DigestKey;

    fn shown(limit: usize, written: &[&[u8]], secret_set: &SecretSet) -> String {
        let mut capture = Capture::new(limit);
        for bytes in written {
            capture.push(bytes);
        }
        capture.shown(secret_set)
    }

    #[test]
    fn output_within_the_limit_is_unchanged() {
        let secret_set = SecretSet::empty();
        assert_eq!(shown(10, &[b"01234", b"56789"], &secret_set), "0123456789");
        assert_eq!(shown(0, &[], &secret_set), "");
    }

    #[test]
    fn truncated_output_shows_its_beginning_and_end() {
        let secret_set = SecretSet::empty();
        let text = shown(10, &[b"abcdefghijklmnopqrstuvwxyz"], &secret_set);
        assert!(text.starts_with("abcde\n[… 16 bytes left out"), "{text}");
        assert!(text.ends_with("]\nvwxyz"), "{text}");
    }

    #[test]
    fn captured_output_is_bounded() {
        let mut capture = Capture::new(100);
        for _ in 0..1_000 {
            capture.push(&[b'x'; 1_000]);
        }
        assert!(capture.head.len() + capture.tail.len() <= 100 + 2 * SECRET_MARGIN);
        let text = capture.shown(&SecretSet::empty());
        assert!(text.contains("[… 999900 bytes left out"), "{text}");
    }

    #[test]
    fn secret_across_a_chunk_boundary_is_masked() {
        let secret_set = SecretSet::with_key(DigestKey::new([1; 32]));
        secret_set.learn("hunter2hunter2");
        for before in 0..40 {
            let mut text = vec![b'-'; before];
            text.extend(b"hunter2hunter2");
            text.extend(vec![b'+'; 50_000]);
            let shown = shown(40, &[&text], &secret_set);
            assert!(!shown.contains("hunter"), "{before}: {shown}");
            let mut mirrored = vec![b'+'; 50_000];
            mirrored.extend(b"hunter2hunter2");
            mirrored.extend(vec![b'-'; before]);
            let shown = self::shown(40, &[&mirrored], &secret_set);
            assert!(!shown.contains("nter2"), "{before}: {shown}");
        }
    }

    #[test]
    fn secret_cut_by_the_truncation_is_not_shown() {
        let secret_set = SecretSet::with_key(DigestKey::new([1; 32]));
        secret_set.learn("correct horse");
        // Enough secrets that masking shortens the head by more than the margin.
        let text = b"correct horse".repeat(100_000);
        let shown = shown(10_000, &[&text], &secret_set);
        assert!(
            !shown.contains("corr") && !shown.contains("orse"),
            "{shown}"
        );
    }

    #[test]
    fn truncation_keeps_characters_whole() {
        let text = "äöü".repeat(20_000);
        let shown = shown(101, &[text.as_bytes()], &SecretSet::empty());
        assert!(!shown.contains('\u{fffd}'), "{shown}");
    }
}
