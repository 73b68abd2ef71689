//! `cachalot cache ls` and `cachalot cache rm`.

use std::collections::BTreeSet;

use cachalot_cache::{
    Cache, CallKind, EntryFilter, EntryInfo, HANDLE_LABEL, Key, LabelCriterion, LedgerSelection,
};
use cachalot_core::digest::{abbreviate, is_abbreviation, may_be_abbreviation};
use cachalot_store::Label;
use cachalot_workflow::actions::cache::TAG_LABEL;
use serde_json::{Value, json};

use super::{described, handle};
use crate::abbreviation::{MAX_CANDIDATES, resolve};
use crate::arguments::{self, EntrySelection};
use crate::command_error::Result;
use crate::commands::ledger;
use crate::render;
use crate::render::local_time::to_second;
use crate::render::table::{Column, list};
use crate::render::visible::on_one_line;

/// Returns the filter for the selected entries.
///
/// # Errors
/// The pattern abbreviates several keys.
pub(super) async fn filter(cache: &Cache, which: &EntrySelection) -> Result<EntryFilter> {
    let mut criteria: Vec<LabelCriterion> = which
        .tag
        .iter()
        .map(|tag| LabelCriterion::Is(Label::new(TAG_LABEL, tag)))
        .collect();
    let mut key = None;
    if let Some(pattern) = &which.pattern {
        let whole = whole_name(cache, pattern).await?;
        let pattern = whole.unwrap_or_else(|| pattern.clone());
        match pattern.parse::<Key>() {
            Ok(digest) => key = Some(digest),
            Err(_) => criteria.push(LabelCriterion::Glob {
                name: HANDLE_LABEL.to_owned(),
                pattern,
            }),
        }
    }
    Ok(EntryFilter {
        key,
        kind: which.kind.map(kind),
        name: which.action.clone(),
        criteria,
        expired_before: None,
    })
}

fn kind(named: arguments::Kind) -> CallKind {
    match named {
        arguments::Kind::Action => CallKind::Action,
        arguments::Kind::Tool => CallKind::Tool,
        arguments::Kind::Turn => CallKind::Turn,
        arguments::Kind::Request => CallKind::Request,
    }
}

/// Returns the only key or handle of an entry that `given` abbreviates; `None` if there is none.
///
/// # Errors
/// There are several.
pub(super) async fn whole_name(cache: &Cache, given: &str) -> Result<Option<String>> {
    if !may_be_abbreviation(given) {
        return Ok(None);
    }
    let mut filter = EntryFilter::default();
    if given.contains(':') {
        filter.criteria.push(LabelCriterion::Glob {
            name: HANDLE_LABEL.to_owned(),
            pattern: format!("{given}*"),
        });
    }
    let mut found = BTreeSet::new();
    let collect = |entry_info: EntryInfo| {
        let key = entry_info.key.to_string();
        let names = handle(&entry_info).into_iter().chain([key.as_str()]);
        let meant = names.filter(|whole| is_abbreviation(given, whole));
        found.extend(meant.map(ToOwned::to_owned));
    };
    cache.each(&filter, collect).await?;
    let maximum = MAX_CANDIDATES as usize + 1;
    resolve("keys", given, found.into_iter().take(maximum).collect())
}

/// Prints a JSON array of all entries, page by page.
pub(super) async fn print_json(cache: &Cache, filter: &EntryFilter) -> Result<()> {
    render::json_array(
        async |print: &mut (dyn FnMut(Value) -> Result<()> + Send)| {
            let listed = cache.try_each(filter, |entry_info| print(described(&entry_info)));
            listed.await
        },
    )
    .await
}

/// Prints a line per entry.
pub(super) async fn print(cache: &Cache, filter: &EntryFilter, verbose: bool) -> Result<()> {
    let mut rows = Vec::new();
    let mut bytes = 0;
    let collect = |entry_info: EntryInfo| {
        bytes += entry_info.bytes;
        rows.push(row(&entry_info, verbose));
    };
    cache.each(filter, collect).await?;
    rows.sort();
    let columns = [
        Column::whole("entry"),
        Column::number("size"),
        Column::whole("expires").optional(),
        Column::number("time").optional(),
        Column::number("cost").optional(),
    ];
    let sentence = format!(
        "{}, {}",
        render::count(rows.len() as u64, "entry", "entries"),
        render::bytes(bytes)
    );
    render::out(&list(&sentence, &columns, &rows))
}

fn row(entry_info: &EntryInfo, verbose: bool) -> Vec<String> {
    let expires = match (entry_info.expired, entry_info.provenance.expires) {
        (true, _) => "expired".to_owned(),
        (false, Some(at)) => format!("until {}", to_second(at)),
        (false, None) => "for ever".to_owned(),
    };
    let name = handle(entry_info).map_or_else(
        || {
            let key = entry_info.key.to_string();
            let kind = entry_info.kind.as_str();
            format!("{kind}:{} {}", entry_info.name, shown(&key, verbose))
        },
        |handle| shown(handle, verbose).to_owned(),
    );
    vec![
        on_one_line(&name),
        render::bytes(entry_info.bytes),
        expires,
        render::time(entry_info.spent.time),
        entry_info.spent.cost.to_string(),
    ]
}

fn shown(name: &str, verbose: bool) -> &str {
    if verbose { name } else { abbreviate(name) }
}

/// Parameters of `cache rm`.
pub(super) struct Removal<'a> {
    pub(super) filter: &'a EntryFilter,
    /// The pattern as given.
    pub(super) pattern: Option<&'a str>,
    /// Set when the ledger also erases the details of its calls.
    pub(super) with_ledger: bool,
    pub(super) dry_run: bool,
    /// Prints whole digests.
    pub(super) verbose: bool,
}

impl Removal<'_> {
    pub(super) async fn run(&self, cache: &Cache, as_json: bool) -> Result<()> {
        let dry_run = self.dry_run;
        let erased = cache.erase(self.filter, dry_run).await?;
        let calls = if self.with_ledger {
            cache.ledger().erase(LedgerSelection::Cacheable, dry_run)?
        } else {
            0
        };
        let names: Vec<&str> = erased
            .entries
            .iter()
            .map(|entry| {
                let handle = entry.labels.iter().find(|label| label.name == HANDLE_LABEL);
                handle.map_or(entry.key.as_str(), |label| &label.value)
            })
            .collect();
        if as_json {
            return render::json(&json!({
                "dry_run": dry_run, "count": names.len(), "entries": names,
                "erased_calls": calls,
            }));
        }
        render::out(
            &names
                .iter()
                .map(|name| format!("{}\n", shown(name, self.verbose)))
                .collect::<String>(),
        )?;
        let done = if dry_run { "would erase" } else { "erased" };
        render::err(&format!(
            "{done} {}",
            render::count(names.len() as u64, "entry", "entries")
        ));
        if names.is_empty() {
            render::err(&self.hint(cache).await?);
        }
        if calls > 0 {
            render::err(&ledger::erased(calls, dry_run));
        }
        Ok(())
    }

    /// Returns the remedy if nothing matches.
    async fn hint(&self, cache: &Cache) -> Result<String> {
        let count = async |filter: &EntryFilter| -> Result<u64> {
            let mut number = 0;
            cache.each(filter, |_| number += 1).await?;
            Ok(number)
        };
        let all = count(&EntryFilter::default()).await?;
        if all == 0 {
            return Ok("  help: the store has no entries; --db names another one".to_owned());
        }
        let there = format!(
            "`cachalot cache ls` lists {}",
            render::count(all, "entry", "entries")
        );
        let Some(pattern) = self.pattern else {
            return Ok(format!(
                "  help: {there}; --json shows kinds, names and tags"
            ));
        };
        let wider = format!("*{}*", pattern.trim_matches('*'));
        let containing = EntryFilter {
            criteria: vec![LabelCriterion::Glob {
                name: HANDLE_LABEL.to_owned(),
                pattern: wider.clone(),
            }],
            ..EntryFilter::default()
        };
        Ok(match count(&containing).await? {
            0 => format!(
                "  help: no handle contains `{}`; {there}",
                on_one_line(pattern)
            ),
            number => format!(
                "  help: a pattern matches whole handles: '{}' matches {}",
                on_one_line(&wider),
                render::count(number, "entry", "entries")
            ),
        })
    }
}
