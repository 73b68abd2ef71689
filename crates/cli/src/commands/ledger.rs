//! `cachalot ledger …`.

mod export;
mod parquet;

use cachalot_cache::{Ledger, LedgerSelection};
use cachalot_core::Millis;
use serde_json::json;

use super::why;
use crate::abbreviation::{MAX_CANDIDATES, resolve};
use crate::arguments::{LedgerCommand, StoreArguments};
use crate::command_error::{CommandError, Result};
use crate::output_file::OutputFile;
use crate::render;
use crate::wiring::{ProcessEnvironment, Warn};

/// Exports calls, erases their details, or deletes them.
///
/// # Errors
/// There is no ledger or no such session, or the file cannot be read or written.
pub(crate) fn run(
    command: &LedgerCommand,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    match command {
        LedgerCommand::Rm {
            key,
            session,
            all: _,
            dry_run,
            report,
        } => {
            let ledger = open(&report.place, process_environment, warn)?;
            let sessions = sessions(&ledger, session)?;
            let key = match key {
                Some(key) => Some(why::whole_key(&ledger, key)?.unwrap_or_else(|| key.clone())),
                None => None,
            };
            let which = match &key {
                Some(key) => LedgerSelection::Matching(key),
                None if sessions.is_empty() => LedgerSelection::All,
                None => LedgerSelection::Sessions(&sessions),
            };
            let calls = ledger.erase(which, *dry_run)?;
            if report.json {
                return render::json(&json!({ "dry_run": dry_run, "count": calls }));
            }
            render::err(&erased(calls, *dry_run));
            Ok(())
        }
        LedgerCommand::Export { file, place } => {
            let ledger = open(place, process_environment, warn)?;
            let home = process_environment.home(place.db.as_deref(), None)?;
            let mut output_file = OutputFile::new(file, &home)?;
            let is_stdout = output_file.is_stdout();
            let is_parquet = file
                .extension()
                .is_some_and(|extension| extension == "parquet");
            let calls = if is_parquet {
                parquet::write(&ledger, &mut output_file)?
            } else {
                export::write(&ledger, &mut output_file)?
            };
            output_file.persist()?;
            if !is_stdout {
                let calls = render::count(calls, "call", "calls");
                render::err(&format!("exported {calls}"));
            }
            Ok(())
        }
        LedgerCommand::Prune {
            older_than,
            all: _,
            dry_run,
            report,
        } => {
            let ledger = open(&report.place, process_environment, warn)?;
            let which = older_than.map_or(LedgerSelection::All, |age| {
                let age = Millis::try_from(age.as_millis()).unwrap_or(Millis::MAX);
                LedgerSelection::Before(process_environment.clock.now().saturating_sub(age))
            });
            let pruned = ledger.prune(which, *dry_run)?;
            if report.json {
                return render::json(&json!({
                    "dry_run": dry_run, "count": pruned.calls, "bytes": pruned.bytes,
                }));
            }
            let calls = render::count(pruned.calls, "call", "calls");
            render::err(&if *dry_run {
                format!("would delete {calls}")
            } else {
                let bytes = render::bytes(pruned.bytes);
                format!("deleted {calls}, {bytes}; the sums stay")
            });
            Ok(())
        }
    }
}

fn open(
    place: &StoreArguments,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<Ledger> {
    let home = process_environment.home(place.db.as_deref(), None)?;
    if !home.ledger.exists() {
        return Err(CommandError::failed(format!(
            "there is no ledger at {}: nothing was run yet, or it is elsewhere (--db)",
            home.ledger.display()
        )));
    }
    Ok(Ledger::at(&home.ledger, "ledger", warn))
}

/// Returns the full ids of sessions.
fn sessions(ledger: &Ledger, beginnings: &[String]) -> Result<Vec<String>> {
    let whole = |beginning: &String| {
        let found = ledger.sessions_of_calls(beginning, MAX_CANDIDATES + 1)?;
        resolve("sessions", beginning, found)?.ok_or_else(|| {
            CommandError::failed(format!("the ledger knows no session `{beginning}`"))
        })
    };
    beginnings.iter().map(whole).collect()
}

/// Describes the number of erased calls.
pub(crate) fn erased(calls: u64, dry_run: bool) -> String {
    let done = if dry_run { "would erase" } else { "erased" };
    let calls = render::count(calls, "call", "calls");
    format!("{done} what the ledger holds about {calls}; time, name and cost stay")
}
