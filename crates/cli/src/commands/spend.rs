//! `cachalot spend`: what coding agents have cost, from the transcripts that they leave on disk.

mod database;
mod own;
pub(crate) mod period;
mod places;
mod report;
pub(crate) mod sources;

use cachalot_prefix::spend::SpendReader;

use self::period::Period;
use self::report::Report;
use self::sources::{Sources, warn_of_unknown_lines};
use crate::arguments::Spend;
use crate::command_error::{CommandError, Result};
use crate::fleet_ledger::ReadCopy;
use crate::models::catalog;
use crate::render;
use crate::wiring::{ProcessEnvironment, Warn};

/// Reads transcripts and reports what they cost.
///
/// # Errors
/// A given path does not exist, or no transcript is found.
pub(crate) async fn spend(
    arguments: &Spend,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let catalog = catalog(process_environment)?;
    let (since, until) = (arguments.since.as_deref(), arguments.until.as_deref());
    let period = Period::new(since, until, process_environment)?;
    let mut reader = SpendReader::default();
    let sources = match &arguments.fleet.ledger {
        Some(_) => Sources::none(),
        None => Sources::new(&arguments.paths, process_environment)?,
    };
    let files = sources.read(&mut reader, &warn, |_| false);
    if let Some(url) = &arguments.fleet.ledger {
        let copy = ReadCopy::of(url, process_environment, Warn::clone(&warn)).await?;
        for answer in own::answers_of(&copy.ledger)? {
            reader.add(answer);
        }
    }
    sources
        .read_own(&mut reader, process_environment, &warn)
        .await;
    let spending = reader.finish();
    if let (true, Some(url)) = (spending.answers.is_empty(), &arguments.fleet.ledger) {
        return Err(CommandError::failed(format!(
            "the ledger {url} has no calls that were paid for"
        )));
    }
    if spending.answers.is_empty() {
        return Err(CommandError::failed(format!(
            "no answers of a known program in {} ({files} files): name a folder with transcripts",
            sources.names()
        )));
    }
    let report = Report::new(&spending, arguments, &period, &catalog);
    if arguments.json {
        return render::json(&report.document());
    }
    warn_of_unknown_lines(&spending, &warn);
    if arguments.csv {
        render::out(&report.csv()?)
    } else {
        render::out(&report.text())
    }
}
