//! Replays a stored answer.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_cache::{Key, Outcome};
use cachalot_core::digest::abbreviate;
use cachalot_core::{Clock, Millis};
use cachalot_model::OutputFormat;

use super::stored_answer::{check, decode};
use super::unsuitable::Unsuitable;
use crate::output::{Output, Synthetic};

/// Returns the answer in a cache entry.
///
/// # Errors
/// The reason why the entry cannot be replayed.
pub(super) async fn from_entry(
    outcome: &Outcome,
    form: Option<&OutputFormat>,
    clock: &dyn Clock,
) -> Result<Output, Unsuitable> {
    let kept = outcome.body.decoded(decode).await?;
    check(&kept.text, form)?;
    let age = outcome
        .entry
        .as_ref()
        .map(|entry| age_since(entry.created, clock.now()));
    let mut metadata = BTreeMap::from([
        ("key".to_owned(), outcome.key.to_string()),
        ("model".to_owned(), kept.model.clone()),
        ("agent".to_owned(), kept.agent.clone()),
    ]);
    if let Some(age) = age {
        metadata.insert("age_seconds".to_owned(), age.as_secs().to_string());
    }
    Ok(synthetic(Synthetic {
        content: kept.text.clone(),
        provenance: Some(provenance(age, &outcome.key)),
        metadata,
        saved: outcome.settled().await.saved,
    }))
}

/// Returns the answer in a flat file. Its age and cost are unknown.
///
/// # Errors
/// The reason why the text cannot be replayed.
pub(super) fn from_file(
    text: String,
    file: &str,
    form: Option<&OutputFormat>,
) -> Result<Output, Unsuitable> {
    check(&text, form)?;
    Ok(synthetic(Synthetic {
        content: text,
        provenance: Some(format!("answered before, from {file}")),
        metadata: BTreeMap::from([("file".to_owned(), file.to_owned())]),
        ..Synthetic::default()
    }))
}

fn synthetic(synthetic: Synthetic) -> Output {
    Output {
        synthetic: Some(synthetic),
        ..Output::default()
    }
}

fn age_since(then: Millis, now: Millis) -> Duration {
    Duration::from_millis(u64::try_from(now.saturating_sub(then)).unwrap_or(0))
}

fn provenance(age: Option<Duration>, key: &Key) -> String {
    let key = key.to_string();
    let short = abbreviate(&key);
    match age {
        Some(age) => format!("answered before, {} (key {short})", format_age(age)),
        None => format!("answered before (key {short})"),
    }
}

/// Formats an age: `just now`, `3 minutes format_age`.
fn format_age(age: Duration) -> String {
    let seconds = age.as_secs();
    let (number, unit) = match seconds {
        0 => return "just now".to_owned(),
        1..60 => (seconds, "second"),
        60..3_600 => (seconds / 60, "minute"),
        3_600..86_400 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {unit}{plural} ago")
}

#[cfg(test)]
#[path = "../../../tests/unit/builtin/cache_response/replay.rs"]
mod tests;
