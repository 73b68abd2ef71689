//! Recordings of commands: the answers in the store under their names.

use std::collections::BTreeSet;

use cachalot_cache::{Cache, CallKind, EntryFilter, LabelCriterion};
use cachalot_core::suggest;
use cachalot_store::Label;

use crate::command_error::{CommandError, Result};

/// The beginning of the scope of recorded answers; the name of the recording follows.
const SCOPE: &str = "user:recording:";
/// The label with the agent of an answer: the name of the recording, unless the client names one itself.
const AGENT_LABEL: &str = "agent";

/// Checks that there is a recording with this name.
///
/// # Errors
/// There is none, or the store cannot be read.
pub(super) async fn check(cache: &Cache, name: &str) -> Result<()> {
    let of_agent = Label::new(AGENT_LABEL, name);
    let labeled = names(cache, vec![LabelCriterion::Is(of_agent)]).await?;
    if labeled.contains(name) {
        return Ok(());
    }
    let all = names(cache, Vec::new()).await?;
    if all.contains(name) {
        return Ok(());
    }
    let nearest = suggest::nearest(name, all.iter().map(String::as_str));
    let nearest = nearest.map(|nearest| format!("did you mean `{nearest}`? "));
    Err(CommandError::failed(format!(
        "there is no recording `{name}`: {}`cachalot exec --record {name}` makes one",
        nearest.unwrap_or_default()
    )))
}

/// Returns the names of the recordings with answers that meet the criteria.
async fn names(cache: &Cache, criteria: Vec<LabelCriterion>) -> Result<BTreeSet<String>> {
    let filter = EntryFilter {
        kind: Some(CallKind::Request),
        criteria,
        ..EntryFilter::default()
    };
    let mut names = BTreeSet::new();
    let collect = |entry: cachalot_cache::EntryInfo| {
        let name = entry.scope.strip_prefix(SCOPE);
        names.extend(name.map(str::to_owned));
    };
    cache.each(&filter, collect).await?;
    Ok(names)
}
