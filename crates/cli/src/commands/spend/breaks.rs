//! The prefix breaks of answers in transcripts, for reports of sessions.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_model::Catalog;
use cachalot_prefix::log::Analyzer;
use cachalot_prefix::spend::{Client, PaidAnswer};
use cachalot_prefix::walk::Breaks;

use super::sources::open_transcript;
use crate::render::visible::on_one_line;

/// Maximum number of breaks that are kept.
const MAX_BREAKS: usize = 100_000;

/// Compares the requests of answers, as far as their transcripts record them. A file that cannot be read was named when its
/// answers were.
pub(super) fn breaks<'a>(
    answers: impl IntoIterator<Item = &'a PaidAnswer>,
    catalog: &Catalog,
) -> Breaks {
    let answers = answers.into_iter();
    let known =
        answers.filter(|answer| matches!(answer.client, Client::ClaudeCode | Client::Codex));
    let files = known.filter_map(|answer| Some(&*answer.details.as_ref()?.file));
    let files: BTreeSet<&Path> = files.collect();
    // The secrets in a transcript are unknown; text that looks like a credential is masked anyway.
    let mut analyzer = Analyzer::new(catalog.clone(), Arc::new(SecretSet::empty()));
    analyzer = analyzer.keep_breaks(MAX_BREAKS);
    for file in &files {
        if let Ok(transcript) = open_transcript(file) {
            analyzer.register(transcript);
        }
    }
    for file in &files {
        if let Ok(transcript) = open_transcript(file) {
            let name = on_one_line(&file.to_string_lossy());
            let _ = analyzer.read_file(&name, transcript);
        }
    }
    Breaks::new(analyzer.finish().all_breaks)
}
