//! `cache.get`: returns an entry without running anything.

use std::time::Duration;

use async_trait::async_trait;
use cachalot_cache::{EntryFilter, EntryInfo, HANDLE_LABEL, LabelCriterion, Scope, StoredEntry};
use cachalot_core::clock::iso8601;
use cachalot_store::Label;
use serde_json::{Value, json};

use super::request::own_scopes;
use super::{CACHE_TYPE, TAG_LABEL, handle};
use crate::actions::arguments::{CheckedArguments, boolean, declared_by, required, text};
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Runtime};

pub(in crate::actions) struct Get;

#[rustfmt::skip]
static ABOUT: OperationMetadata = OperationMetadata::declared(
    "cache.get",
    &["actions.cache_get"],
    "Returns the newest entry under a key among those that this run shares, expired or not, without running anything.",
    &[
        required(text("key", "The key, read exactly as `cache.wrap` reads it, or a handle.")),
        boolean("include_metadata", "Return the entry's metadata; false by default."),
        boolean("key_prefix", "`false`: the key of an entry that is shared by all agents, without the agent's name."),
    ],
)
.read_only();

/// The maximum time to wait for the store.
const STORE_TIMEOUT: Duration = Duration::from_secs(30);

/// Fails if the run has no store, because then the content of the cache is unknown.
pub(super) fn require_store(runtime: &Runtime) -> Result<(), Failure> {
    match runtime.long_term_memory() {
        Ok(_) => Ok(()),
        Err(why) => Err(Failure::new("configuration_error", why)),
    }
}

/// Returns the handle that the `key` argument names.
pub(super) fn handle_for(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
) -> Result<Option<String>, Failure> {
    let Some(key) = given.text("key")? else {
        return Ok(None);
    };
    if key.trim().is_empty() {
        return Err(Failure::new("validation_error", "the key is empty"));
    }
    let has_agent = given.flag("key_prefix", true)?;
    let agent = has_agent.then_some(runtime.agent.as_str());
    Ok(Some(handle::for_key(key, agent, &runtime.secret_set)))
}

/// Returns a filter for the entries with this handle.
pub(super) fn filter_by_handle(handle: String) -> EntryFilter {
    let label = Label::new(HANDLE_LABEL, handle);
    EntryFilter {
        criteria: vec![LabelCriterion::Is(label)],
        ..EntryFilter::default()
    }
}

#[async_trait]
impl Operation for Get {
    declared_by!(ABOUT);

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&ABOUT, &arguments);
        let handle = handle_for(&given, runtime)?
            .ok_or_else(|| Failure::new("validation_error", "cache.get needs `key`"))?;
        let with_metadata = given.flag("include_metadata", false)?;
        require_store(runtime)?;
        // In a shared store, other users may have entries under the same key, so the search is limited to
        // the run's own scopes and to the agent that the handle names.
        let mut scopes = own_scopes(runtime);
        scopes.extend(handle::agent_of(&handle).map(|agent| Scope::Agent(agent.to_owned())));
        let filter = filter_by_handle(handle);
        let newest =
            tokio::time::timeout(STORE_TIMEOUT, runtime.cache.newest(&filter, &scopes)).await;
        let newest =
            newest.map_err(|_| Failure::transient("timeout", "the store does not answer"))?;
        let stored = newest.map_err(|error| Failure::transient("ltm_error", error.to_string()))?;
        let Some(stored) = stored else {
            return Ok(json!({"success": true, "found": false, "value": null, "expired": false}));
        };
        let mut found = json!({"success": true, "found": true, "value": value(&stored).await?});
        found["expired"] = stored.entry_info.expired.into();
        if with_metadata {
            found["metadata"] = metadata(&stored.entry_info);
        }
        Ok(found)
    }
}

impl Action for Get {}

async fn value(stored: &StoredEntry) -> Result<Value, Failure> {
    let damaged = |what: String| Failure::new("ltm_error", format!("damaged entry: {what}"));
    let bytes = stored
        .body
        .whole()
        .await
        .map_err(|failure| damaged(failure.to_string()))?;
    serde_json::from_slice(&bytes).map_err(|error| damaged(error.to_string()))
}

fn metadata(entry_info: &EntryInfo) -> Value {
    let labels = &entry_info.provenance.labels;
    let handle = labels
        .iter()
        .find(|label| label.name == HANDLE_LABEL)
        .map(|label| &label.value);
    let tags: Vec<_> = labels
        .iter()
        .filter(|label| label.name == TAG_LABEL)
        .map(|label| &label.value)
        .collect();
    json!({
        "_cache_type": CACHE_TYPE,
        "_cache_action": entry_info.name,
        "_cache_key": handle,
        "_cache_created_at": iso8601(entry_info.provenance.created),
        "_cache_expires_at": entry_info.provenance.expires.map(iso8601),
        "_cache_scope": entry_info.scope,
        "_cache_tags": tags,
    })
}
