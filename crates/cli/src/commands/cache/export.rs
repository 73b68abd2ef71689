//! `cachalot cache export`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use cachalot_cache::{Cache, CassetteError, ExportReport, Key, Ledger, is_cassette};
use cachalot_core::Problem;
use cachalot_workflow::actions;

use super::{Inspection, handle, list};
use crate::abbreviation::{MAX_CANDIDATES, resolve};
use crate::arguments::{CacheExport, EntrySelection, Python};
use crate::command_error::{CommandError, Result};
use crate::commands::validate::{load, segment};
use crate::output_file::OutputFile;
use crate::python::PythonRunners;
use crate::regular_file::open_regular;
use crate::render;
use crate::sandbox::{NetworkAccess, SandboxSettings};
use crate::wiring::{ProcessEnvironment, Warn};

/// The word for the last run in place of its ID.
const LAST: &str = "last";

/// Writes the selected entries, or all, to a cassette.
///
/// # Errors
/// Nothing is selected, the workflow is not valid, or the store, the ledger or the file fails.
pub(super) async fn export(inspection: &Inspection<'_>, arguments: &CacheExport) -> Result<()> {
    let CacheExport {
        workflow,
        file,
        with_digest_key,
        report,
        ..
    } = arguments;
    let environment = inspection.process_environment;
    let workflow = match workflow {
        Some(file) => Some(Workflow::read(file, environment)?),
        None => None,
    };
    let configured = workflow.as_ref();
    let home = environment
        .home(
            report.place.db.as_deref(),
            configured.and_then(|workflow| workflow.store.as_deref()),
        )?
        .with_digest_key_file(
            configured.and_then(|workflow| workflow.digest_key_file.as_deref()),
            &environment.directory,
        );
    let cache = inspection.opening(&home).for_inspection()?.cache;
    let beginning = workflow.map(|workflow| workflow.handles);
    let selected = selected(&cache, arguments, beginning.as_deref(), &inspection.warn).await?;
    let key = if *with_digest_key {
        Some(home.digest_key.load(inspection.warn.as_ref())?)
    } else {
        None
    };
    let mut output_file = OutputFile::new(file, &home)?;
    check_overwritten(file)?;
    let is_stdout = output_file.is_stdout();
    let exported = match &selected {
        Some(keys) => {
            let exported = cache.export_selected(&mut output_file, keys, key.as_ref());
            exported.await
        }
        None => cache.export(&mut output_file, key.as_ref()).await,
    };
    let exported = exported.map_err(not_exported)?;
    output_file.persist()?;
    if selected.is_none() {
        (inspection.warn)(
            "the cassette holds everything in the store: all workflows, chats and clients of this user; name a workflow, --run, --tag or --pattern to export less",
        );
    }
    if report.json && !is_stdout {
        return render::json(&exported);
    }
    render::err(&summary(exported));
    Ok(())
}

fn summary(exported: ExportReport) -> String {
    let entries = render::count(exported.entries, "entry", "entries");
    match exported.left_out {
        0 => format!("exported {entries}"),
        left_out => format!(
            "exported {entries}, left out {left_out} whose keys hold secrets (--with-digest-key includes them)"
        ),
    }
}

/// Parts of a workflow that locate its entries.
struct Workflow {
    /// The beginning of the handles of its entries.
    handles: String,
    /// The store that it configures.
    store: Option<PathBuf>,
    digest_key_file: Option<String>,
}

impl Workflow {
    /// Reads and checks the file of a workflow.
    fn read(file: &Path, process_environment: &ProcessEnvironment) -> Result<Self> {
        // Nothing of it runs.
        let settings = SandboxSettings {
            network: NetworkAccess::All,
            ..SandboxSettings::default()
        };
        let python = Python::default();
        let runners = PythonRunners::new(&python, &settings, process_environment);
        let loaded = load(file, &actions::builtin(), &runners, process_environment)?;
        let memory = &loaded.agent.settings.memory;
        Ok(Self {
            handles: format!(
                "cache:{}:",
                segment(&loaded.agent, file, process_environment)
            ),
            store: memory.path.as_ref().map(PathBuf::from),
            digest_key_file: memory.digest_key_file.clone(),
        })
    }
}

/// Returns the keys of the entries that meet all conditions; `None` if there are no conditions. `beginning` is that of
/// the handles of the workflow.
///
/// # Errors
/// No entry meets them, or the ledger does not have the run.
async fn selected(
    cache: &Cache,
    arguments: &CacheExport,
    beginning: Option<&str>,
    warn: &Warn,
) -> Result<Option<BTreeSet<Key>>> {
    let CacheExport {
        run, tag, pattern, ..
    } = arguments;
    let ledger = cache.ledger();
    let used = match (run, beginning) {
        (Some(run), _) => {
            let run = whole_run(ledger, run)?;
            if !ledger.has_all_hits(&run)? {
                warn(
                    "the ledger may not have all hits of the run: if a frozen run misses one, export the workflow, or entries by --tag",
                );
            }
            Some(ledger.keys_of_run(&run)?)
        }
        (None, Some(beginning)) => Some(ledger.keys_of_runs_with(beginning)?),
        (None, None) => None,
    };
    if used.is_none() && tag.is_empty() && pattern.is_none() {
        return Ok(None);
    }
    let used: Option<BTreeSet<String>> = used.map(|keys| keys.into_iter().collect());
    let which = EntrySelection {
        pattern: pattern.clone(),
        tag: tag.clone(),
        ..EntrySelection::default()
    };
    let filter = list::filter(cache, &which).await?;
    let mut keys = BTreeSet::new();
    cache
        .each(&filter, |entry_info| {
            let is_used = used
                .as_ref()
                .is_none_or(|used| used.contains(&entry_info.key.to_string()));
            let handle = handle(&entry_info);
            let is_of_workflow = beginning
                .zip(handle)
                .is_some_and(|(beginning, handle)| handle.starts_with(beginning));
            if is_used || is_of_workflow {
                keys.insert(entry_info.key);
            }
        })
        .await?;
    if keys.is_empty() {
        return Err(CommandError::failed(
            "no entry meets the conditions, and nothing is exported: `cachalot cache ls` lists the entries",
        ));
    }
    Ok(Some(keys))
}

/// Returns the ID of the run that `given` names: `last`, or the beginning of an ID.
///
/// # Errors
/// The ledger has no such run, or several.
fn whole_run(ledger: &Ledger, given: &str) -> Result<String> {
    let run = if given == LAST {
        ledger.last_run()?
    } else {
        let found = ledger.runs(given, MAX_CANDIDATES + 1)?;
        resolve("runs", given, found)?
    };
    run.ok_or_else(|| {
        CommandError::failed(format!(
            "the ledger has no calls of a run `{given}`: `cachalot why --json` prints the run of the last call, `cachalot ledger export` those of all"
        ))
    })
}

/// Refuses to overwrite a file that is no cassette: it was named by mistake. An empty file and what is no regular
/// file (a pipe, a device) are written to.
fn check_overwritten(file: &Path) -> Result<()> {
    if !std::fs::metadata(file).is_ok_and(|there| there.is_file() && there.len() > 0) {
        return Ok(());
    }
    let opened = open_regular(file);
    if opened
        .and_then(|mut there| is_cassette(&mut there))
        .is_ok_and(|is| is)
    {
        return Ok(());
    }
    let what = format!("`{}` exists and is no cassette", file.display());
    let problem = Problem::new("no-cassette", what);
    Err(CommandError::usage(
        problem.help(
            "write to another file, or remove this one first; to export what the runs of a workflow have used, name the cassette behind it: `cachalot cache export FILE.yaml CASSETTE`",
        ),
    ))
}

/// Converts an error of an export. The reader of the cassette may be gone.
fn not_exported(error: CassetteError) -> CommandError {
    match error {
        CassetteError::File(error) => error.into(),
        error => CommandError::failed(error),
    }
}
