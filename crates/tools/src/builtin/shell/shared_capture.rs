//! The captured output of a program, which observers read while the program runs.

use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_operation::OutputSource;
use parking_lot::Mutex;

use super::capture::Capture;

/// A [`Capture`] that is shared with the observers of a call. They copy it, so that masking and printing never
/// block the program.
pub(super) struct SharedCapture {
    capture: Mutex<Capture>,
    secret_set: Arc<SecretSet>,
}

impl SharedCapture {
    pub(super) fn new(limit: usize, secret_set: Arc<SecretSet>) -> Self {
        Self {
            capture: Mutex::new(Capture::new(limit)),
            secret_set,
        }
    }

    pub(super) fn push(&self, bytes: &[u8]) {
        self.capture.lock().push(bytes);
    }

    /// Returns the output of a program that has ended.
    pub(super) fn shown(&self) -> String {
        self.copy().shown(&self.secret_set)
    }

    fn copy(&self) -> Capture {
        self.capture.lock().clone()
    }

    /// Removes an incomplete character and the beginning of a secret from the end of an output that may
    /// continue.
    fn without_incomplete_end(&self, mut text: String) -> String {
        if text.ends_with(char::REPLACEMENT_CHARACTER) {
            text.pop();
        }
        text.truncate(text.len() - self.secret_set.begun_at_end(&text));
        text
    }
}

impl OutputSource for SharedCapture {
    fn text(&self) -> String {
        self.without_incomplete_end(self.shown())
    }

    fn end(&self, limit: usize) -> String {
        let end = self.capture.lock().last_bytes(limit);
        self.without_incomplete_end(end.shown(&self.secret_set))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use cachalot_core::DigestKey;
    use proptest::prelude::*;

    fn captured(limit: usize, chunks: &[&[u8]], secrets: &[&str]) -> SharedCapture {
        let secret_set = SecretSet::with_key(DigestKey::new([1; 32]));
        secrets.iter().for_each(|secret| secret_set.learn(secret));
        let capture = SharedCapture::new(limit, Arc::new(secret_set));
        chunks.iter().for_each(|chunk| capture.push(chunk));
        capture
    }

    #[test]
    fn end_is_the_last_bytes_at_any_amount_of_output() {
        for length in [0, 10, 5_000, 20_000, 100_000] {
            let text: String = (0..length / 10).map(|at| format!("{at:09}\n")).collect();
            let end = captured(1_000, &[text.as_bytes()], &[]).end(100);
            assert_eq!(end, text[text.len() - text.len().min(100)..], "{length}");
        }
    }

    #[test]
    fn begun_secrets_and_characters_are_withheld() {
        let secrets = ["hunter2hunter2"];
        let capture = captured(100, &[b"it is hunter2hun"], &secrets);
        assert_eq!((capture.end(50), capture.text()), two("it is "));
        capture.push(b"ter2");
        assert_eq!((capture.end(50), capture.text()), two("it is [secret]"));
        capture.push(" – ü".as_bytes().split_last().unwrap().1);
        assert_eq!((capture.end(50), capture.text()), two("it is [secret] – "));
    }

    fn two(text: &str) -> (String, String) {
        (text.to_owned(), text.to_owned())
    }

    #[test]
    fn secret_across_the_beginning_of_the_end_is_masked() {
        for after in 0..120 {
            let mut text = vec![b'-'; 20_000];
            text.extend(b"hunter2hunter2");
            text.extend(vec![b'+'; after]);
            let end = captured(1_000, &[&text], &["hunter2hunter2"]).end(100);
            assert!(!end.contains("nter2") && end.len() <= 100, "{after}: {end}");
        }
    }

    proptest! {
        /// Chunk borders do not change the output, wherever they are.
        #[test]
        fn chunks_give_the_same_output_wherever_they_are_cut(
            parts in prop::collection::vec(
                prop_oneof![
                    "[a-c\n\r]{0,6}".prop_map(String::into_bytes),
                    "[äß鯨🐋]{0,4}".prop_map(String::into_bytes),
                    Just(b"hunter2hunter2".to_vec()),
                    prop::collection::vec(any::<u8>(), 0..6),
                    (1_u8..=255).prop_map(|byte| vec![byte; 3_000]),
                ],
                0..12,
            ),
            cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
            limit in 0_usize..200,
        ) {
            let bytes = parts.concat();
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
            cuts.sort_unstable();
            let mut chunks = Vec::new();
            let mut from = 0;
            for cut in cuts {
                chunks.push(&bytes[from..cut]);
                from = cut;
            }
            chunks.push(&bytes[from..]);
            let secrets = ["hunter2hunter2"];
            let whole = captured(limit, &[&bytes], &secrets);
            let cut = captured(limit, &chunks, &secrets);
            prop_assert_eq!(whole.text(), cut.text());
            prop_assert_eq!(whole.end(limit), cut.end(limit));
            prop_assert!(whole.end(limit).len() <= limit);
        }
    }
}
