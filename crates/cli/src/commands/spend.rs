//! `cachalot spend`: what coding agents have cost, from the transcripts that they leave on disk.

mod breaks;
mod database;
mod html;
mod own;
pub(crate) mod period;
mod places;
mod report;
mod session;
pub(crate) mod sources;
pub(crate) mod turn_text;

use std::path::PathBuf;

use cachalot_core::Problem;
use cachalot_model::Catalog;
use cachalot_prefix::spend::{SpendReader, Spending};
use cachalot_prefix::walk::{Session, Walker};

use self::breaks::breaks;
use self::period::Period;
use self::report::Report;
use self::session::SessionReport;
use self::sources::{Sources, warn_of_unknown_lines};
use crate::arguments::{Spend, SpendGroup};
use crate::command_error::{CommandError, Result};
use crate::fleet_ledger::ReadCopy;
use crate::html_file::HtmlFile;
use crate::models::catalog;
use crate::render;
use crate::render::visible::on_one_line;
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
    let (session, paths) = session_and_paths(arguments, process_environment)?;
    let mut reader = match (session, &arguments.html) {
        (None, None) => SpendReader::default(),
        _ => SpendReader::with_details(),
    };
    let sources = match &arguments.fleet.ledger {
        Some(_) => Sources::none(),
        None => Sources::new(paths, process_environment)?,
    };
    // Before gigabytes are read.
    let html = HtmlFile::open(arguments.html.as_deref(), None, process_environment)?;
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
        let no_path = match session {
            Some(session) if arguments.session.is_none() => {
                format!("`{}` is no path, and there are ", on_one_line(session))
            }
            _ => String::new(),
        };
        return Err(CommandError::failed(format!(
            "{no_path}no answers of a known program in {} ({files} files): name a folder with transcripts",
            sources.names()
        )));
    }
    if !arguments.json || session.is_some() {
        warn_of_unknown_lines(&spending, &warn);
    }
    if let Some(id) = session {
        let session = session::find(&spending, id, &sources.names())?;
        return show_session(session, &spending, arguments.json, &catalog);
    }
    // What the programs have sent since the last answer would be in their transcripts.
    let complete_until = sources
        .is_default()
        .then(|| process_environment.clock.now());
    if let Some(html) = html {
        let project = arguments.project.as_deref();
        let page = html::page(&html::Input {
            spending: &spending,
            breaks: &breaks(&spending.answers, &catalog),
            catalog: &catalog,
            is_shown: &|name, at| {
                period.contains(at) && project.is_none_or(|project| name.contains(project))
            },
            now: process_environment.clock.now(),
            complete_until,
        })?;
        return html.write(&page);
    }
    let report = Report::new(spending, arguments, &period, complete_until, &catalog);
    if arguments.json {
        return render::json(&report.document());
    }
    if arguments.csv {
        render::out(&report.csv()?)
    } else {
        render::out(&report.text())
    }
}

/// Returns the session that is asked for, and the paths. The first path is a session if it is a plain name and does not
/// exist.
///
/// # Errors
/// An option is for sums, and the first path is a session.
fn session_and_paths<'a>(
    arguments: &'a Spend,
    process_environment: &ProcessEnvironment,
) -> Result<(Option<&'a str>, &'a [PathBuf])> {
    let paths = &arguments.paths;
    if let Some(session) = &arguments.session {
        return Ok((Some(session), paths));
    }
    let session = paths.split_first().and_then(|(first, others)| {
        let is_plain = first.file_name() == Some(first.as_os_str());
        let is_path = process_environment.directory.join(first).exists();
        let name = first.to_str().filter(|_| is_plain && !is_path)?;
        Some((name, others))
    });
    let Some((session, others)) = session else {
        return Ok((None, paths));
    };
    let is_of_sums = [
        arguments.html.is_some(),
        arguments.csv,
        arguments.since.is_some(),
        arguments.until.is_some(),
        arguments.project.is_some(),
        arguments.by != [SpendGroup::Day],
    ];
    if is_of_sums.contains(&true) {
        let what = format!(
            "`{}` is no path, and --html, --csv, --by, --since, --until and --project are not for one session",
            on_one_line(session)
        );
        return Err(CommandError::usage(
            Problem::new("no-path", what)
                .help("name a folder with transcripts, or only the session"),
        ));
    }
    Ok((Some(session), others))
}

/// Prints a session, answer by answer.
fn show_session(
    session: Session<'_>,
    spending: &Spending,
    is_json: bool,
    catalog: &Catalog,
) -> Result<()> {
    let breaks = breaks(session.answers.iter().copied(), catalog);
    let walk = Walker::new(catalog, &breaks).walk(&session);
    let report = SessionReport {
        title: spending.title(session.client, session.id),
        session,
        walk,
    };
    if is_json {
        render::json(&report.document())
    } else {
        render::out(&report.text())
    }
}
