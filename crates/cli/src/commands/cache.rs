//! `cachalot cache …`.

mod copy;

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::path::Path;

use cachalot_cache::{
    Cache, CacheBounds, CallKind, CassetteError, EntryFilter, EntryInfo, HANDLE_LABEL, Key,
    LabelCriterion, LedgerLimits, LedgerSelection, LedgerTotals, Scope, StoredEntry,
};
use cachalot_core::Problem;
use cachalot_core::clock::iso8601;
use cachalot_store::Label;
use cachalot_workflow::actions::cache::TAG_LABEL;
use serde_json::{Value, json};

use crate::arguments::{self, CacheCommand, EntrySelection, StoreArguments};
use crate::command_error::{CommandError, Result};
use crate::home::Home;
use crate::output_file::OutputFile;
use crate::render;
use crate::wiring::{Engine, EngineOptions, ProcessEnvironment, Warn, digest_key};

/// Dependencies of all `cache` commands.
pub(crate) struct Inspection<'a> {
    pub(crate) process_environment: &'a ProcessEnvironment,
    pub(crate) warn: Warn,
}

impl Inspection<'_> {
    fn opening<'a>(&'a self, home: &'a Home) -> EngineOptions<'a> {
        EngineOptions {
            process_environment: self.process_environment,
            home,
            run: "cache",
            bounds: CacheBounds {
                front_bytes: 0,
                ..CacheBounds::default()
            },
            limits: LedgerLimits::default(),
            secrets: false,
            staleness: std::time::Duration::ZERO,
            local: false,
            warn: self.warn.clone(),
        }
    }

    fn open(&self, place: &StoreArguments) -> Result<Engine> {
        let home = self.home(place)?;
        self.opening(&home).for_inspection()
    }

    fn home(&self, place: &StoreArguments) -> Result<Home> {
        self.process_environment.home(place.db.as_deref(), None)
    }

    pub(crate) async fn run(&self, command: &CacheCommand) -> Result<()> {
        match command {
            CacheCommand::Get { key, place, json } => {
                self.get(&self.open(place)?.cache, key, *json).await
            }
            CacheCommand::Ls { which, place, json } => {
                ls(&self.open(place)?.cache, which, *json).await
            }
            CacheCommand::Rm {
                which,
                all,
                dry_run,
                place,
                json,
            } => {
                let filter = filter(which);
                if !all && filter == EntryFilter::default() {
                    return Err(CommandError::usage(
                        Problem::new("nothing-named", "cache rm: nothing is named")
                            .help("give a pattern, --kind, --action, --tag, or --all"),
                    ));
                }
                let cache = self.open(place)?.cache;
                let removal = Removal {
                    filter: &filter,
                    with_ledger: *all,
                    dry_run: *dry_run,
                };
                removal.run(&cache, *json).await
            }
            CacheCommand::Stats { place, json } => self.stats(place, *json).await,
            CacheCommand::Sweep { place, json } => sweep(&self.open(place)?.cache, *json).await,
            CacheCommand::Copy { from, to, json } => {
                let from = self.process_environment.home(Some(from), None)?;
                let to = self.process_environment.home(Some(to), None)?;
                if from.location() == to.location() {
                    return Err(CommandError::usage(Problem::new(
                        "bad-value",
                        "cache copy: both are the same store",
                    )));
                }
                let from = self.opening(&from).for_reading()?;
                let to = self.opening(&to).open().map_err(CommandError::failed)?;
                copy::copy(from.as_ref(), to.as_ref(), *json).await
            }
            CacheCommand::Export {
                file,
                with_digest_key,
                place,
                json,
            } => self.export(file, *with_digest_key, place, *json).await,
            CacheCommand::Import { file, place, json } => self.import(file, place, *json).await,
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
            Ok(digest) => cache.peek(&digest).await.map_err(CommandError::failed)?,
            Err(_) => self.by_handle(cache, key).await?,
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

    /// Returns the newest entry under a handle in the scopes of this user. The agent's name is added to a key
    /// if the entries of only one agent have it.
    ///
    /// # Errors
    /// Entries of several agents have the key.
    async fn by_handle(&self, cache: &Cache, key: &str) -> Result<Option<StoredEntry>> {
        let newest = async |handle: &str| {
            let newest = cache.newest(&under(handle), &self.own_scopes(handle)).await;
            newest.map_err(CommandError::failed)
        };
        if let Some(stored) = newest(key).await? {
            return Ok(Some(stored));
        }
        let handles = handles_of(cache, key).await?;
        match handles.iter().collect::<Vec<_>>().as_slice() {
            [] => Ok(None),
            [handle] => newest(handle).await,
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

    async fn stats(&self, place: &StoreArguments, as_json: bool) -> Result<()> {
        let home = self.home(place)?;
        let cache = self.opening(&home).for_inspection()?.cache;
        let usage = cache.usage().await.map_err(CommandError::failed)?;
        let totals = cache.ledger().totals().map_err(CommandError::failed)?;
        let dropped = cache.ledger().dropped().map_err(CommandError::failed)?;
        // A call whose answer is stored includes the cost of its model, so one sum would count that twice.
        let (models, calls): (Vec<NamedTotals>, Vec<NamedTotals>) = totals
            .into_iter()
            .partition(|(kind, ..)| kind == CallKind::Prefix.as_str());
        let (sum, of_models) = (all(&calls), all(&models));
        if as_json {
            return render::json(&json!({
                "memory": home.location(), "ledger": home.ledger,
                "entries": usage.records, "bytes": usage.bytes,
                "dropped_calls": dropped,
                "totals": sum, "names": as_json_rows(&calls),
                "models": { "totals": of_models, "names": as_json_rows(&models) },
            }));
        }
        let mut text = format!(
            "{}\n{}, {}\n\n",
            home.location(),
            render::count(usage.records, "entry", "entries"),
            render::bytes(usage.bytes)
        );
        text += &table("action", &calls, &sum);
        if !models.is_empty() {
            text += "\nanswers of models in conversations; saved by the providers' own caches:\n";
            text += &table("model", &models, &of_models);
        }
        if dropped > 0 {
            let calls = render::count(dropped, "call is", "calls are");
            text += &format!(
                "\n{calls} in these sums only: the ledger could not be written for too long\n"
            );
        }
        render::out(&text)
    }

    async fn export(
        &self,
        file: &Path,
        with_key: bool,
        place: &StoreArguments,
        as_json: bool,
    ) -> Result<()> {
        let home = self.home(place)?;
        let cache = self.opening(&home).for_inspection()?.cache;
        let key = if with_key {
            Some(digest_key(&home.digest_key, &self.warn).map_err(CommandError::failed)?)
        } else {
            None
        };
        let exported = if file == Path::new("-") {
            let mut stdout = std::io::BufWriter::new(render::stdout::open()?);
            cache
                .export(&mut stdout, key.as_ref())
                .await
                .map_err(not_exported)?
        } else {
            let mut output_file = OutputFile::new(file, &home)?;
            let exported = cache.export(&mut output_file, key.as_ref()).await;
            let exported = exported.map_err(not_exported)?;
            output_file.persist()?;
            exported
        };
        let note = match exported.left_out {
            0 => String::new(),
            left_out => format!(
                ", left out {left_out} whose keys hold secrets (--with-digest-key includes them)"
            ),
        };
        if as_json && file != Path::new("-") {
            return render::json(&exported);
        }
        render::err(&format!(
            "exported {}{note}",
            render::count(exported.entries, "entry", "entries")
        ));
        Ok(())
    }

    async fn import(&self, file: &Path, place: &StoreArguments, as_json: bool) -> Result<()> {
        let home = self.home(place)?;
        let cache = self.opening(&home).for_import()?.cache;
        let shown = |error: &dyn std::fmt::Display| {
            CommandError::failed(format!("{}: {error}", file.display()))
        };
        let imported = if file == Path::new("-") {
            let mut stdin = BufReader::new(std::io::stdin());
            cache
                .import(&mut stdin)
                .await
                .map_err(|error| shown(&error))?
        } else {
            let opened = std::fs::File::open(file).map_err(|error| shown(&error))?;
            cache
                .import(&mut BufReader::new(opened))
                .await
                .map_err(|error| shown(&error))?
        };
        if let Some(key) = &imported.digest_key {
            store_digest_key(&home, key, &self.warn)?;
        }
        if as_json {
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
    if home.digest_key.exists() {
        let own = digest_key(&home.digest_key, warn).map_err(CommandError::failed)?;
        if own.expose() == key.expose() {
            return Ok(());
        }
        return Err(CommandError::failed(format!(
            "the entries are imported, but {} holds another digest key than the cassette: entries with secrets will not be found; import into a separate store with --db",
            home.digest_key.display()
        )));
    }
    key.store(&home.digest_key).map_err(CommandError::failed)
}

/// Kind and name of calls, with their totals.
type NamedTotals = (String, String, LedgerTotals);

fn all(named: &[NamedTotals]) -> LedgerTotals {
    let mut sum = LedgerTotals::default();
    named.iter().for_each(|(_, _, totals)| sum += *totals);
    sum
}

fn as_json_rows(named: &[NamedTotals]) -> Vec<Value> {
    let rows = named.iter();
    rows.map(|(kind, name, totals)| json!({"kind": kind, "name": name, "totals": totals}))
        .collect()
}

/// Formats a table of calls by name, with their sum.
fn table(what: &str, named: &[NamedTotals], sum: &LedgerTotals) -> String {
    let heads = [what, "hits", "coalesced", "paid", "failed", "cost", "saved"];
    let names = named
        .iter()
        .map(|(_, name, totals)| (name.as_str(), totals));
    let rows = names
        .chain([("all", sum)])
        .map(|(name, totals)| row(name, totals));
    let rows: Vec<Vec<String>> = std::iter::once(heads.map(str::to_owned).to_vec())
        .chain(rows)
        .collect();
    render::table::columns(&rows)
}

/// Converts an error of an export. The reader of the cassette may be gone.
fn not_exported(error: CassetteError) -> CommandError {
    match error {
        CassetteError::File(error) => error.into(),
        error => CommandError::failed(error),
    }
}

fn row(name: &str, totals: &LedgerTotals) -> Vec<String> {
    vec![
        name.to_owned(),
        totals.hits.to_string(),
        totals.coalesced.to_string(),
        totals.paid_runs().to_string(),
        totals.failed.to_string(),
        render::spend(&totals.paid),
        render::spend(&totals.saved),
    ]
}

fn filter(which: &EntrySelection) -> EntryFilter {
    let mut criteria: Vec<LabelCriterion> = which
        .tag
        .iter()
        .map(|tag| LabelCriterion::Is(Label::new(TAG_LABEL, tag)))
        .collect();
    let mut key = None;
    if let Some(pattern) = &which.pattern {
        match pattern.parse::<Key>() {
            Ok(digest) => key = Some(digest),
            Err(_) => criteria.push(LabelCriterion::Glob {
                name: HANDLE_LABEL.to_owned(),
                pattern: pattern.clone(),
            }),
        }
    }
    EntryFilter {
        key,
        kind: which.kind.map(kind),
        name: which.action.clone(),
        criteria,
        expired_before: None,
    }
}

fn kind(named: arguments::Kind) -> CallKind {
    match named {
        arguments::Kind::Action => CallKind::Action,
        arguments::Kind::Tool => CallKind::Tool,
        arguments::Kind::Turn => CallKind::Turn,
        arguments::Kind::Request => CallKind::Request,
    }
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
    cache
        .each(&filter, collect)
        .await
        .map_err(CommandError::failed)?;
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
                others.push(format!("{} ({})", entry_info.key, entry_info.scope));
            })
            .await
            .map_err(CommandError::failed)?;
    }
    Ok(CommandError::failed(match others.as_slice() {
        [] if key.contains("{{") => format!(
            "{key} is a template, and entries are kept under what it renders to: `cachalot cache ls` lists them"
        ),
        [] => format!("nothing is cached under {key}: `cachalot cache ls` lists what is"),
        [one] => format!("what is cached under {key} is not yours: give its own key, {one}"),
        [one, more @ ..] => format!(
            "what is cached under {key} is not yours: give the own key of one of these: {one} and {} more, see `cachalot cache ls --json`",
            more.len()
        ),
    }))
}

async fn ls(cache: &Cache, which: &EntrySelection, as_json: bool) -> Result<()> {
    let mut entries = Vec::new();
    let collect = |entry_info: EntryInfo| {
        entries.push(if as_json {
            described(&entry_info)
        } else {
            Value::from(line(&entry_info))
        });
    };
    cache
        .each(&filter(which), collect)
        .await
        .map_err(CommandError::failed)?;
    if as_json {
        return render::json(&entries);
    }
    let mut rows: Vec<Vec<String>> = entries
        .iter()
        .map(|line| match line {
            Value::Array(cells) => cells
                .iter()
                .map(|cell| cell.as_str().unwrap_or_default().to_owned())
                .collect(),
            _ => Vec::new(),
        })
        .collect();
    rows.sort();
    render::out(&render::table::columns(&rows))
}

fn line(entry_info: &EntryInfo) -> Vec<String> {
    let expires = match (entry_info.expired, entry_info.provenance.expires) {
        (true, _) => "expired".to_owned(),
        (false, Some(at)) => format!("until {}", iso8601(at)),
        (false, None) => "for ever".to_owned(),
    };
    let name = handle(entry_info).map_or_else(
        || {
            format!(
                "{}:{} {}",
                entry_info.kind.as_str(),
                entry_info.name,
                entry_info.key
            )
        },
        ToOwned::to_owned,
    );
    vec![
        name,
        render::bytes(entry_info.bytes),
        render::time(entry_info.spent.time),
        expires,
    ]
}

/// Parameters of `cache rm`.
struct Removal<'a> {
    filter: &'a EntryFilter,
    /// Set when the ledger also erases the details of its calls.
    with_ledger: bool,
    dry_run: bool,
}

impl Removal<'_> {
    async fn run(&self, cache: &Cache, as_json: bool) -> Result<()> {
        let dry_run = self.dry_run;
        let erased = cache
            .erase(self.filter, dry_run)
            .await
            .map_err(CommandError::failed)?;
        let calls = if self.with_ledger {
            let erased = cache.ledger().erase(LedgerSelection::Cacheable, dry_run);
            erased.map_err(CommandError::failed)?
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
                .map(|name| format!("{name}\n"))
                .collect::<String>(),
        )?;
        let done = if dry_run { "would erase" } else { "erased" };
        render::err(&format!(
            "{done} {}",
            render::count(names.len() as u64, "entry", "entries")
        ));
        if calls > 0 {
            render::err(&super::ledger::erased(calls, dry_run));
        }
        Ok(())
    }
}

async fn sweep(cache: &Cache, as_json: bool) -> Result<()> {
    let swept = cache.sweep(None).await.map_err(CommandError::failed)?;
    if as_json {
        return render::json(&BTreeMap::from([("swept", swept)]));
    }
    render::err(&format!(
        "swept {}",
        render::count(swept, "expired entry", "expired entries")
    ));
    Ok(())
}
