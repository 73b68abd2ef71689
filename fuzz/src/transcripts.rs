//! Transcripts of coding agents from any bytes: no panic, no overflow, and a file that is read twice counts once. Requests
//! that they record in parts are reconstructed within bounds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cachalot_core::SecretSet;
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::log::Analyzer;
use cachalot_prefix::spend::{SpendReader, SpendTotals};

/// Checks one input.
pub fn check(bytes: &[u8]) {
    let database = bytes.starts_with(b"SQLite format 3\0").then(|| file(bytes));
    let [once, twice] = [1, 2].map(|times| {
        let mut reader = SpendReader::default();
        for _ in 0..times {
            // Defects of the file.
            let _ = match &database {
                Some(path) => reader.read_database(path, true),
                None => reader.read(Path::new("chats/x.jsonl"), bytes),
            };
        }
        let spending = reader.finish();
        let (mut totals, mut usage) = (SpendTotals::default(), Usage::default());
        for answer in &spending.answers {
            totals.add(answer, &Catalog::empty());
            usage += answer.usage;
        }
        for requests in &spending.side_requests {
            totals.add_side_requests(requests, &Catalog::empty());
            usage += requests.usage;
        }
        let _ = totals.cache_read_ratio();
        (spending.answers.len(), usage)
    });
    if let Some(path) = database {
        let _ = std::fs::remove_file(path);
    }
    assert_eq!(once, twice);
    for is_registered in [false, true] {
        analyze(bytes, is_registered);
    }
}

/// Analyzes the prefixes of the requests that the input records.
fn analyze(bytes: &[u8], is_registered: bool) {
    let mut analyzer = Analyzer::new(Catalog::empty(), Arc::new(SecretSet::empty()));
    if is_registered {
        analyzer.register(bytes);
    }
    // A slice is always readable.
    let _ = analyzer.read(bytes);
    let analysis = analyzer.finish();
    let lines = bytes.split(|byte| *byte == b'\n').count() as u64;
    assert!(analysis.requests <= lines && analysis.skipped.0 <= lines);
    assert!(analysis.reconstructed + analysis.answers_only <= analysis.requests);
}

/// Writes a database into a temporary file: SQLite reads files only.
fn file(bytes: &[u8]) -> PathBuf {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("cachalot-fuzz-{}-{number}.db", std::process::id());
    let path = std::env::temp_dir().join(name);
    std::fs::write(&path, bytes).expect("a temporary file");
    path
}
