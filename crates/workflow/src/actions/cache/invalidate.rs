//! `cache.invalidate`: erases cache entries (no other records), without a hidden limit.

use std::collections::HashSet;

use async_trait::async_trait;
use cachalot_cache::{EntryFilter, ErasedEntry, HANDLE_LABEL, LabelCriterion};
use cachalot_core::Effects;
use cachalot_store::Label;
use serde_json::{Value, json};

use super::get::{filter_by_handle, handle_for, require_store};
use super::request::{name_of, texts};
use super::{CACHE_TYPE, TAG_LABEL, handle};
use crate::actions::arguments::{CheckedArguments, any, boolean, declared_by, object, text};
use crate::{Action, Arguments, CacheClass, Failure, Operation, OperationMetadata, Runtime};

pub(in crate::actions) struct Invalidate;

#[rustfmt::skip]
static ABOUT: OperationMetadata = OperationMetadata::declared(
    "cache.invalidate",
    &["actions.cache_invalidate"],
    "Erases cached entries by key, pattern, metadata or tags; at least one of them.",
    &[
        text("key", "The key, read exactly as `cache.wrap` reads it."),
        text("pattern", "`*` stands for any text; matches whole handles, or, without the agent's name, this agent's own."),
        object("metadata_filter", "Select entries of all agents by `_cache_action`, `_cache_key`, `_cache_type`."),
        any("tags", "Select entries of all agents that have all these tags."),
        boolean("key_prefix", "`false`: `key` is that of an entry shared by all agents, without the agent's name."),
        boolean("dry_run", "Only reports entries that would be erased."),
    ],
)
.with_cache_class(CacheClass::EffectOnly);

fn invalid(message: impl std::fmt::Display) -> Failure {
    Failure::new("validation_error", format!("cache.invalidate: {message}"))
}

#[async_trait]
impl Operation for Invalidate {
    declared_by!(ABOUT);

    fn effects(&self, _arguments: &Arguments, _runtime: &Runtime) -> Effects {
        Effects::reading(Vec::new())
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&ABOUT, &arguments);
        let filters = filters(&given, runtime)?;
        require_store(runtime)?;
        let dry_run = given.flag("dry_run", false)?;
        let mut erased: Vec<ErasedEntry> = Vec::new();
        let mut told = HashSet::new();
        for filter in &filters {
            let found = runtime.cache.erase(filter, dry_run).await;
            let found =
                found.map_err(|error| Failure::transient("ltm_error", error.to_string()))?;
            // An entry that two filters match counts once in a dry run, as in a real one.
            let new = |entry: &ErasedEntry| !dry_run || told.insert(entry.key.clone());
            erased.extend(found.entries.into_iter().filter(new));
        }
        let handles: Vec<&str> = erased.iter().map(display_handle).collect();
        Ok(json!({
            "success": true,
            "deleted_count": if dry_run { 0 } else { erased.len() },
            "deleted_keys": handles,
            "dry_run": dry_run,
        }))
    }
}

impl Action for Invalidate {}

/// Returns the entry's handle, or its key if it has no handle.
fn display_handle(entry: &ErasedEntry) -> &str {
    let handle = entry.labels.iter().find(|label| label.name == HANDLE_LABEL);
    handle.map_or(&entry.key, |label| &label.value)
}

/// Returns the filters for the entries to erase: one for the key, and one for entries that match pattern,
/// metadata and tags together.
fn filters(given: &CheckedArguments<'_>, runtime: &Runtime) -> Result<Vec<EntryFilter>, Failure> {
    let mut filters = Vec::new();
    filters.extend(handle_for(given, runtime)?.map(filter_by_handle));
    let mut criteria = Vec::new();
    let name = match given.object("metadata_filter")? {
        Some(wanted) => metadata_filter(wanted, &mut criteria, runtime)?,
        None => None,
    };
    for tag in texts(given.value_of("tags").cloned(), "tags")? {
        let tag = handle::sealed(tag, &runtime.secret_set);
        criteria.push(LabelCriterion::Is(Label::new(TAG_LABEL, tag)));
    }
    let any = EntryFilter {
        name,
        criteria,
        ..EntryFilter::default()
    };
    match given.text("pattern")? {
        Some(pattern) if pattern.trim().is_empty() => return Err(invalid("the pattern is empty")),
        Some(pattern) => {
            let own = handle::for_key(pattern, Some(&runtime.agent), &runtime.secret_set);
            let mut patterns = vec![own, pattern.to_owned()];
            patterns.dedup();
            filters.extend(patterns.into_iter().map(|pattern| matching(&any, pattern)));
        }
        None if any != EntryFilter::default() => filters.push(matching(&any, "*".to_owned())),
        None if filters.is_empty() => {
            return Err(invalid(
                "one of `key`, `pattern`, `metadata_filter`, `tags` is needed",
            ));
        }
        None => {}
    }
    Ok(filters)
}

/// Narrows `any` to entries whose handle matches the pattern. Entries without a handle do not belong to
/// an action.
fn matching(any: &EntryFilter, pattern: String) -> EntryFilter {
    let mut filter = any.clone();
    filter.criteria.push(LabelCriterion::Glob {
        name: HANDLE_LABEL.to_owned(),
        pattern,
    });
    filter
}

/// Reads a metadata filter. Returns the action's name if the filter contains one.
fn metadata_filter(
    wanted: &Arguments,
    criteria: &mut Vec<LabelCriterion>,
    runtime: &Runtime,
) -> Result<Option<String>, Failure> {
    const KNOWN: [&str; 3] = ["_cache_action", "_cache_key", "_cache_type"];
    let mut name = None;
    for (field, value) in wanted {
        let Value::String(text) = value else {
            return Err(invalid(format!("metadata_filter: `{field}` must be text")));
        };
        match field.as_str() {
            // Entries store the first name of their action.
            "_cache_action" => {
                let known = runtime.actions.get(text);
                let known = known.map_or(text.as_str(), |action| name_of(action.as_ref()));
                name = Some(known.to_owned());
            }
            "_cache_key" => criteria.push(LabelCriterion::Is(Label::new(
                HANDLE_LABEL,
                handle::sealed(text.clone(), &runtime.secret_set),
            ))),
            // Every entry with a handle has this type, the only one that exists.
            "_cache_type" if text == CACHE_TYPE => {
                criteria.push(LabelCriterion::Glob {
                    name: HANDLE_LABEL.to_owned(),
                    pattern: "*".to_owned(),
                });
            }
            "_cache_type" => {
                return Err(invalid(format!(
                    "metadata_filter: there are no entries of type `{text}`, only `{CACHE_TYPE}`"
                )));
            }
            other => {
                let help = cachalot_core::suggest::did_you_mean(other, &KNOWN);
                return Err(invalid(format!(
                    "metadata_filter: unknown field `{other}`, {help}"
                )));
            }
        }
    }
    Ok(name)
}
