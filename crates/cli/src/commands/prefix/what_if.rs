//! `cachalot prefix whatif`.

mod report;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use cachalot_prefix::log::{LogReader, Reason};
use cachalot_prefix::spend::SpendReader;
use cachalot_prefix::what_if::WhatIf;

use self::report::Report;
use crate::arguments::PrefixWhatIf;
use crate::command_error::{CommandError, Result};
use crate::commands::spend::period::Period;
use crate::commands::spend::sources::{Sources, warn_of_unknown_lines};
use crate::models::catalog;
use crate::regular_file::open_regular;
use crate::render;
use crate::render::visible::on_one_line;
use crate::wiring::{ProcessEnvironment, Warn};

/// The maximum number of invalid lines that are named in warnings.
const MAX_NAMED_LINES: u64 = 5;

/// Reports what past requests would have cost under other policies.
///
/// # Errors
/// A given path does not exist, or no answer can be compared.
pub(super) async fn what_if(
    arguments: &PrefixWhatIf,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let catalog = catalog(process_environment)?;
    let (since, until) = (arguments.since.as_deref(), arguments.until.as_deref());
    let period = Period::new(since, until, process_environment)?;
    let mut what_if = WhatIf::default();
    let mut reader = SpendReader::default();
    let is_stdin = |path: &&PathBuf| path.as_os_str() == "-";
    let paths: Vec<PathBuf> = arguments
        .paths
        .iter()
        .filter(|path| !is_stdin(path))
        .cloned()
        .collect();
    let sources = if paths.is_empty() && !arguments.paths.is_empty() {
        Sources::none()
    } else {
        Sources::new(&paths, process_environment)?
    };
    if arguments.paths.iter().any(|path| is_stdin(&path)) {
        read_log("stdin", std::io::stdin().lock(), &mut what_if, &warn);
    }
    let files = sources.read(&mut reader, &warn, |path| {
        read_file(path, &mut what_if, &warn)
    });
    sources
        .read_own(&mut reader, process_environment, &warn)
        .await;
    let spending = reader.finish();
    warn_of_unknown_lines(&spending, &warn);
    for answer in spending.answers.into_iter().chain(spending.side_requests) {
        what_if.add_answer(answer);
    }
    if sources.is_default() {
        // What the programs have sent since then would be in their transcripts.
        what_if.is_complete_until(process_environment.clock.now());
    }
    let project = arguments.project.as_deref();
    let comparison = what_if.finish(&catalog, &|name, at| {
        period.contains(Some(at)) && project.is_none_or(|project| name.contains(project))
    });
    let report = Report::new(&comparison);
    if comparison.groups.is_empty() {
        let left_out = report.left_out();
        return Err(CommandError::failed(format!(
            "no answer can be compared in {} ({files} files): name transcripts or a request log whose answers have times and token counts{}",
            if sources.names().is_empty() {
                "stdin".to_owned()
            } else {
                sources.names()
            },
            left_out.map_or_else(String::new, |text| format!("; left out: {text}"))
        )));
    }
    if arguments.json {
        render::json(&report.document())
    } else {
        render::out(&report.text())
    }
}

/// Reads a file as a request log; returns false if it has no request.
fn read_file(path: &Path, what_if: &mut WhatIf, warn: &Warn) -> bool {
    let name = on_one_line(&path.to_string_lossy());
    match open_regular(path) {
        Ok(file) => read_log(&name, BufReader::new(file), what_if, warn),
        Err(_) => false,
    }
}

/// Reads a request log; returns false if it has no request. Lines of other kinds are named.
fn read_log(name: &str, from: impl BufRead, what_if: &mut WhatIf, warn: &Warn) -> bool {
    let (mut requests, mut defects) = (0_u64, Vec::new());
    let mut left_out = 0;
    for logged in LogReader::new(from).in_order() {
        match logged {
            Ok(logged) => {
                requests += 1;
                what_if.add_request(&logged);
            }
            Err(error) => {
                left_out += 1;
                let is_named = left_out <= MAX_NAMED_LINES;
                if is_named || matches!(error.reason, Reason::Unreadable(_)) {
                    defects.push(format!("{name}: {error}; it is left out"));
                }
            }
        }
    }
    if requests == 0 {
        return false;
    }
    defects.iter().for_each(|defect| warn(defect));
    if left_out > MAX_NAMED_LINES {
        let lines = render::count(left_out - MAX_NAMED_LINES, "more line is", "more lines are");
        warn(&format!("{name}: {lines} left out"));
    }
    true
}
