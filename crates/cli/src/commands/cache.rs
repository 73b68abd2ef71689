//! `cachalot cache …`.

mod copy;
mod encrypt;
mod export;
mod list;
mod stats;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufReader, Read};
use std::path::Path;

use cachalot_cache::{
    Cache, CacheBounds, EntryFilter, EntryInfo, HANDLE_LABEL, Key, LabelCriterion, Scope,
    StoredEntry,
};
use cachalot_core::Problem;
use cachalot_core::clock::iso8601;
use cachalot_core::digest::abbreviate;
use cachalot_store::Label;
use cachalot_workflow::actions::cache::TAG_LABEL;
use serde_json::{Value, json};

use crate::arguments::{CacheCommand, EntrySelection, ReportArguments, StoreArguments};
use crate::command_error::{CommandError, Result};
use crate::fleet_ledger::ReadCopy;
use crate::home::Home;
use crate::render;
use crate::wiring::{Engine, EngineOptions, ProcessEnvironment, Warn};

/// Dependencies of all `cache` commands.
pub(crate) struct Inspection<'a> {
    pub(crate) process_environment: &'a ProcessEnvironment,
    pub(crate) warn: Warn,
}

impl Inspection<'_> {
    fn opening<'a>(&'a self, home: &'a Home) -> EngineOptions<'a> {
        let warn = Warn::clone(&self.warn);
        EngineOptions {
            bounds: CacheBounds {
                front_bytes: 0,
                ..CacheBounds::default()
            },
            ..EngineOptions::new(self.process_environment, home, "cache", warn)
        }
    }

    fn open(&self, place: &StoreArguments) -> Result<Engine> {
        let home = self.home(place)?;
        self.opening(&home).for_inspection()
    }

    /// Opens the store to list what it has; see [`EngineOptions::for_listing`].
    fn open_to_list(&self, place: &StoreArguments) -> Result<Engine> {
        let home = self.home(place)?;
        self.opening(&home).for_listing(place)
    }

    fn home(&self, place: &StoreArguments) -> Result<Home> {
        self.process_environment.home(place.db.as_deref(), None)
    }

    pub(crate) async fn run(&self, command: &CacheCommand) -> Result<()> {
        match command {
            CacheCommand::Get { key, place, json } => {
                self.get(&self.open(place)?.cache, key, *json).await
            }
            CacheCommand::Ls {
                which,
                verbose,
                report,
            } => {
                let cache = self.open_to_list(&report.place)?.cache;
                let filter = list::filter(&cache, which).await?;
                if report.json {
                    list::print_json(&cache, &filter).await
                } else {
                    list::print(&cache, &filter, *verbose).await
                }
            }
            CacheCommand::Rm {
                which,
                all,
                dry_run,
                verbose,
                report,
            } => {
                if !all && *which == EntrySelection::default() {
                    return Err(CommandError::usage(
                        Problem::new("nothing-named", "cache rm: nothing is named").help(
                            "give a pattern in quotes ('cache:NAME:*'), a key, --kind, --action, --tag, or --all; `cachalot cache ls` lists the entries",
                        ),
                    ));
                }
                let cache = self.open(&report.place)?.cache;
                let filter = list::filter(&cache, which).await?;
                let removal = list::Removal {
                    filter: &filter,
                    pattern: which.pattern.as_deref(),
                    with_ledger: *all,
                    dry_run: *dry_run,
                    verbose: *verbose,
                };
                removal.run(&cache, report.json).await
            }
            CacheCommand::Stats { fleet, report } => {
                let home = self.home(&report.place)?;
                let Some(url) = &fleet.ledger else {
                    let cache = self.open_to_list(&report.place)?.cache;
                    let (usage, place) = (cache.usage().await?, home.ledger.display().to_string());
                    return stats::stats(Some(usage), cache.ledger(), &place, &home, report.json);
                };
                let warn = Warn::clone(&self.warn);
                let copy = ReadCopy::of(url, self.process_environment, warn).await?;
                // The ledger is that of other machines: this one need not have a store.
                let usage = match self.opening(&home).check_exists() {
                    Ok(()) => Some(self.opening(&home).for_inspection()?.cache.usage().await?),
                    Err(_) => None,
                };
                stats::stats(usage, &copy.ledger, url, &home, report.json)
            }
            CacheCommand::Sweep(report) => {
                sweep(&self.open(&report.place)?.cache, report.json).await
            }
            CacheCommand::Copy { from, to, json } => {
                let from = self.process_environment.home(Some(from), None)?;
                let to = self.process_environment.home(Some(to), None)?;
                if from.location() == to.location() {
                    return Err(CommandError::usage(Problem::new(
                        "bad-value",
                        "cache copy: both are the same store",
                    )));
                }
                let from = EngineOptions {
                    reads_plain: true,
                    ..self.opening(&from)
                };
                let from = from.for_reading()?;
                let to = self.opening(&to).open()?;
                copy::copy(from.as_ref(), to.as_ref(), *json).await
            }
            CacheCommand::Encrypt(report) => {
                let home = self.home(&report.place)?;
                encrypt::encrypt(&self.opening(&home), report.json).await
            }
            CacheCommand::Export(arguments) => export::export(self, arguments).await,
            CacheCommand::Import { file, report } => self.import(file, report).await,
        }
    }

    /// Returns the scopes that the current user shares: those of this user and directory, and the agent in
    /// the handle.
    fn own_scopes(&self, handle: &str) -> Vec<Scope> {
        let user = self.process_environment.user();
        let user = (!user.is_empty()).then_some(Scope::User(user));
        let agent = handle
            .strip_prefix("cache:")
            .and_then(|rest| rest.split_once(':'));
        let workspace = Scope::Workspace(
            self.process_environment
                .directory
                .to_string_lossy()
                .into_owned(),
        );
        [Scope::Global, workspace]
            .into_iter()
            .chain(user)
            .chain(agent.map(|(agent, _)| Scope::Agent(agent.to_owned())))
            .collect()
    }

    /// Shows an entry by its digest, its handle, or its key as written in an agent file.
    async fn get(&self, cache: &Cache, key: &str, as_json: bool) -> Result<()> {
        let stored = match key.parse::<Key>() {
            Ok(digest) => cache.peek(&digest).await?,
            Err(_) => self.by_handle(cache, key).await?,
        };
        let stored = match stored {
            Some(stored) => Some(stored),
            None => self.by_abbreviation(cache, key).await?,
        };
        let Some(stored) = stored else {
            return Err(absent(cache, key).await?);
        };
        let bytes = stored.body.whole().await.map_err(CommandError::failed)?;
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|error| CommandError::failed(format!("the entry is no JSON: {error}")))?;
        if as_json {
            let mut described = described(&stored.entry_info);
            described["value"] = value;
            return render::json(&described);
        }
        render::json(&value)
    }

    /// Returns the newest entry under the only key or handle that `key` abbreviates.
    async fn by_abbreviation(&self, cache: &Cache, key: &str) -> Result<Option<StoredEntry>> {
        let Some(whole) = list::whole_name(cache, key).await? else {
            return Ok(None);
        };
        match whole.parse::<Key>() {
            Ok(digest) => Ok(cache.peek(&digest).await?),
            Err(_) => self.by_handle(cache, &whole).await,
        }
    }

    /// Returns the newest entry under a handle in the scopes of this user. The agent's name is added to a key
    /// if the entries of only one agent have it.
    ///
    /// # Errors
    /// Entries of several agents have the key.
    async fn by_handle(&self, cache: &Cache, key: &str) -> Result<Option<StoredEntry>> {
        let newest =
            async |handle: &str| cache.newest(&under(handle), &self.own_scopes(handle)).await;
        if let Some(stored) = newest(key).await? {
            return Ok(Some(stored));
        }
        let handles = handles_of(cache, key).await?;
        match handles.iter().collect::<Vec<_>>().as_slice() {
            [] => Ok(None),
            [handle] => Ok(newest(handle).await?),
            several => {
                let listed: String = several
                    .iter()
                    .map(|handle| format!("\n  {handle}"))
                    .collect();
                Err(CommandError::failed(format!(
                    "{} agents have an entry under {key}: give the handle of one{listed}",
                    several.len()
                )))
            }
        }
    }

    async fn import(&self, file: &Path, report: &ReportArguments) -> Result<()> {
        let home = self.home(&report.place)?;
        let cache = self.opening(&home).for_import()?.cache;
        let shown = |error: &dyn std::fmt::Display| {
            CommandError::failed(format!("{}: {error}", file.display()))
        };
        let from: Box<dyn Read + Send> = if file == Path::new("-") {
            Box::new(std::io::stdin())
        } else {
            Box::new(std::fs::File::open(file).map_err(|error| shown(&error))?)
        };
        let imported = cache.import(&mut BufReader::new(from)).await;
        let imported = imported.map_err(|error| shown(&error))?;
        if let Some(key) = &imported.digest_key {
            store_digest_key(&home, key, &self.warn)?;
        }
        if report.json {
            return render::json(&json!({"entries": imported.entries}));
        }
        render::err(&format!(
            "imported {}",
            render::count(imported.entries, "entry", "entries")
        ));
        Ok(())
    }
}

/// Stores the digest key of a cassette. A different key in the home is an error.
fn store_digest_key(home: &Home, key: &cachalot_core::DigestKey, warn: &Warn) -> Result<()> {
    let path = &home.digest_key.path;
    if path.exists() {
        let own = home.digest_key.load(warn.as_ref())?;
        if own.expose() == key.expose() {
            return Ok(());
        }
        return Err(CommandError::failed(format!(
            "the entries are imported, but {} holds another digest key than the cassette: entries with secrets will not be found; import into a separate store with --db",
            path.display()
        )));
    }
    key.store(path).map_err(CommandError::failed)
}

fn handle(entry_info: &EntryInfo) -> Option<&str> {
    let labels = &entry_info.provenance.labels;
    labels
        .iter()
        .find(|label| label.name == HANDLE_LABEL)
        .map(|label| label.value.as_str())
}

fn described(entry_info: &EntryInfo) -> Value {
    let tags: Vec<&str> = entry_info
        .provenance
        .labels
        .iter()
        .filter(|label| label.name == TAG_LABEL)
        .map(|label| label.value.as_str())
        .collect();
    json!({
        "handle": handle(entry_info),
        "key": entry_info.key.to_string(),
        "kind": entry_info.kind.as_str(),
        "name": entry_info.name,
        "scope": entry_info.scope,
        "created": iso8601(entry_info.provenance.created),
        "expires": entry_info.provenance.expires.map(iso8601),
        "expired": entry_info.expired,
        "bytes": entry_info.bytes,
        "paid_ms": entry_info.spent.time.as_secs_f64() * 1_000.0,
        "tags": tags,
    })
}

/// Returns the filter for the entries under a handle.
fn under(handle: &str) -> EntryFilter {
    EntryFilter {
        criteria: vec![LabelCriterion::Is(Label::new(HANDLE_LABEL, handle))],
        ..EntryFilter::default()
    }
}

/// Returns the handles that a key of an agent file may refer to: `cache:`, the name of an agent, and the key;
/// or `cache:` and the key.
async fn handles_of(cache: &Cache, key: &str) -> Result<BTreeSet<String>> {
    let key = key.strip_prefix("cache:").unwrap_or(key);
    let filter = EntryFilter {
        criteria: vec![LabelCriterion::Glob {
            name: HANDLE_LABEL.to_owned(),
            pattern: format!("cache:*{key}"),
        }],
        ..EntryFilter::default()
    };
    let mut handles = BTreeSet::new();
    let collect = |entry_info: EntryInfo| {
        let own = handle(&entry_info).and_then(|handle| handle.strip_prefix("cache:"));
        // Colons in names of agents are escaped.
        let is_meant = own.is_some_and(|own| {
            own == key || own.split_once(':').is_some_and(|(_, own)| own == key)
        });
        if is_meant {
            handles.extend(handle(&entry_info).map(ToOwned::to_owned));
        }
    };
    cache.each(&filter, collect).await?;
    Ok(handles)
}

/// Returns the error for a key without entries, or with entries in other scopes only.
async fn absent(cache: &Cache, key: &str) -> Result<CommandError> {
    let mut others: Vec<String> = Vec::new();
    if key.parse::<Key>().is_err() {
        let handles = handles_of(cache, key).await?;
        let handle = handles.first().map_or(key, String::as_str);
        cache
            .each(&under(handle), |entry_info| {
                let key = entry_info.key.to_string();
                others.push(format!("{} ({})", abbreviate(&key), entry_info.scope));
            })
            .await?;
    }
    Ok(CommandError::failed(match others.as_slice() {
        [] if key.contains("{{") => format!(
            "{key} is a template, and entries are kept under what it renders to: `cachalot cache ls` lists them"
        ),
        [] if key.contains('*') => format!(
            "{key} is a pattern, and one entry is shown: `cachalot cache ls '{key}'` lists the entries that match"
        ),
        [] => format!("nothing is cached under {key}: `cachalot cache ls` lists what is"),
        [one] => format!("what is cached under {key} is not yours: give its own key, {one}"),
        [one, more @ ..] => format!(
            "what is cached under {key} is not yours: give the own key of one of these: {one} and {} more, see `cachalot cache ls --json`",
            more.len()
        ),
    }))
}

async fn sweep(cache: &Cache, as_json: bool) -> Result<()> {
    let swept = cache.sweep(None).await?;
    if as_json {
        return render::json(&BTreeMap::from([("swept", swept)]));
    }
    render::err(&format!(
        "swept {}",
        render::count(swept, "expired entry", "expired entries")
    ));
    Ok(())
}
