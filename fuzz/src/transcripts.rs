//! Transcripts of coding agents from any bytes: no panic, no overflow, and a file that is read twice counts once.

use std::path::Path;

use cachalot_model::{Catalog, Usage};
use cachalot_prefix::spend::{SpendReader, SpendTotals};

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let [once, twice] = [1, 2].map(|times| {
        let mut reader = SpendReader::default();
        for _ in 0..times {
            // Defects of the file.
            let _ = reader.read(Path::new("chats/x.jsonl"), bytes);
        }
        let spending = reader.finish();
        let (mut totals, mut usage) = (SpendTotals::default(), Usage::default());
        for answer in &spending.answers {
            totals.add(answer, &Catalog::empty());
            usage += answer.usage;
        }
        let _ = totals.cache_read_ratio();
        (spending.answers.len(), usage)
    });
    assert_eq!(once, twice);
}
