//! `cachalot spend`: what coding agents have cost, from the transcripts that they leave on disk.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_cache::Ledger;
use cachalot_core::{Cost, Millis};
use cachalot_model::{Catalog, Usage};
use cachalot_prefix::spend::{
    Avoidable, Client, FileError, PaidAnswer, SpendReader, SpendTotals, Spending, find_files,
};
use cachalot_prompt::SessionFilter;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde_json::{Value, json};

use crate::arguments::{Spend, SpendGroup, StoreArguments};
use crate::command_error::{CommandError, Result};
use crate::commands::sessions;
use crate::models::catalog;
use crate::render;
use crate::render::local_time::{date, day_of, days};
use crate::render::table::{Column, headline, table};
use crate::render::visible::on_one_line;
use crate::wiring::{ProcessEnvironment, Warn};

/// Maximum number of rows of a table of projects, sessions or models.
const MAX_ROWS: usize = 30;

/// Maximum number of files whose defects are reported one by one.
const MAX_WARNINGS: usize = 10;

/// Size of the buffer through which a file is read, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

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
    let period = Period::new(arguments, process_environment)?;
    let mut reader = SpendReader::default();
    let (places, is_default) = match arguments.paths.is_empty() {
        true => (default_places(process_environment), true),
        false => {
            let directory = &process_environment.directory;
            let paths = arguments.paths.iter();
            (paths.map(|path| directory.join(path)).collect(), false)
        }
    };
    if let Some(missing) = places.iter().find(|path| !is_default && !path.exists()) {
        let name = on_one_line(&missing.to_string_lossy());
        return Err(CommandError::failed(format!("{name} does not exist")));
    }
    let files = read_files(&places, &mut reader, &warn);
    if is_default {
        read_own(&mut reader, process_environment, &warn).await;
    }
    let spending = reader.finish();
    if spending.answers.is_empty() {
        let places: Vec<_> = places
            .iter()
            .map(|place| on_one_line(&place.to_string_lossy()))
            .collect();
        return Err(CommandError::failed(format!(
            "no answers of Claude Code, Codex or Gemini CLI in {} ({files} files): name a folder with transcripts",
            places.join(", ")
        )));
    }
    let report = Report::new(&spending, arguments, &period, &catalog);
    if arguments.json {
        return render::json(&report.document(&spending));
    }
    for (kind, count) in &spending.unknown {
        warn(&format!(
            "unknown lines, not counted: {} ({count})",
            on_one_line(kind)
        ));
    }
    render::out(&report.text(arguments.by))
}

/// The folders in which the programs keep transcripts, where they exist.
fn default_places(process_environment: &ProcessEnvironment) -> Vec<PathBuf> {
    let variable = |name: &str| {
        let value = process_environment.environment.get(name)?;
        (!value.is_empty()).then(|| PathBuf::from(value))
    };
    let home = variable("HOME").or_else(|| variable("USERPROFILE"));
    let below_home = |name: &str| home.as_ref().map(|home| home.join(name));
    let claude = variable("CLAUDE_CONFIG_DIR").or_else(|| below_home(".claude"));
    let codex = variable("CODEX_HOME").or_else(|| below_home(".codex"));
    let places = [
        claude.map(|place| place.join("projects")),
        codex.as_ref().map(|place| place.join("sessions")),
        codex.as_ref().map(|place| place.join("archived_sessions")),
        below_home(".gemini/tmp"),
    ];
    let places: Vec<PathBuf> = places.into_iter().flatten().collect();
    let existing: Vec<PathBuf> = places.iter().filter(|it| it.exists()).cloned().collect();
    match existing.is_empty() {
        // For the message.
        true => places,
        false => existing,
    }
}

/// Reads all files, with a progress bar on a terminal; returns their number.
fn read_files(places: &[PathBuf], reader: &mut SpendReader, warn: &Warn) -> usize {
    let files = find_files(places);
    let mut defects = Vec::new();
    for (path, error) in files.unreadable {
        if error.kind() != std::io::ErrorKind::NotFound {
            defects.push((path, error.to_string()));
        }
    }
    let sizes = files.paths.iter().map(|path| size(path));
    let progress = progress(sizes.sum());
    for path in &files.paths {
        let read = File::open(path).map_err(Into::into).and_then(|file| {
            let file = BufReader::with_capacity(BUFFER_BYTES, progress.wrap_read(file));
            reader.read(path, decompressed(path, file)?)
        });
        match read {
            // Programs keep other documents beside their transcripts.
            Err(FileError::Unknown) if is_document(path) && !places.contains(path) => {}
            Err(defect) => defects.push((path.clone(), defect.to_string())),
            Ok(()) => {}
        }
    }
    progress.finish_and_clear();
    for (path, defect) in defects.iter().take(MAX_WARNINGS) {
        warn(&format!(
            "{}: {defect}",
            on_one_line(&path.to_string_lossy())
        ));
    }
    if defects.len() > MAX_WARNINGS {
        let others = defects.len() - MAX_WARNINGS;
        warn(&format!("{others} more files cannot be read completely"));
    }
    files.paths.len()
}

fn is_document(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "json")
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

fn decompressed<'r>(
    path: &Path,
    file: impl BufRead + 'r,
) -> std::io::Result<Box<dyn BufRead + 'r>> {
    if path.extension().is_none_or(|extension| extension != "zst") {
        return Ok(Box::new(file));
    }
    let decoder = ruzstd::decoding::StreamingDecoder::new(file)
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()))?;
    let decoder: Box<dyn Read + 'r> = Box::new(decoder);
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)))
}

fn progress(bytes: u64) -> ProgressBar {
    /// Less is read before a bar could be seen.
    const LONG: u64 = 64 << 20;
    let target = match bytes >= LONG && std::io::stderr().is_terminal() {
        true => ProgressDrawTarget::stderr(),
        false => ProgressDrawTarget::hidden(),
    };
    let bar = ProgressBar::with_draw_target(Some(bytes), target);
    let style = ProgressStyle::with_template("reading {bytes} of {total_bytes} {wide_bar}");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Adds the sessions and the steps of workflows of this program, if there are any on this machine.
async fn read_own(reader: &mut SpendReader, process_environment: &ProcessEnvironment, warn: &Warn) {
    let read = own_answers(process_environment, warn).await;
    match read {
        Ok(answers) => answers.into_iter().for_each(|answer| reader.add(answer)),
        Err(error) => warn(&format!("Cachalot's own sessions are not counted: {error}")),
    }
}

async fn own_answers(
    process_environment: &ProcessEnvironment,
    warn: &Warn,
) -> Result<Vec<PaidAnswer>> {
    let home = process_environment.home(None, None)?;
    let mut answers = Vec::new();
    // A store on a server is not asked: the command needs no network.
    if home.url.is_none() && home.database.exists() {
        let place = StoreArguments { db: None };
        let sessions = sessions::open(&place, process_environment, Arc::clone(warn))?;
        for summary in sessions.list(&SessionFilter::default()).await? {
            let Ok(overview) = summary.state else {
                continue;
            };
            let (head, totals) = (&overview.head, &overview.totals);
            if totals.answers > 0 {
                let (usage, cost) = (totals.usage, totals.spent.cost);
                let mut answer =
                    PaidAnswer::with_cost(Client::Cachalot, usage, cost, summary.saved);
                answer.project = head.workspace.as_deref().unwrap_or_default().into();
                answer.session = head.id.as_str().into();
                answer.model = head.model.as_str().into();
                answers.push(answer);
            }
        }
    }
    if home.ledger.exists() {
        let ledger = Ledger::at(&home.ledger, "", Arc::clone(warn));
        let mut after = 0;
        loop {
            let rows = ledger.calls_after(after, 1_000)?;
            let Some(last) = rows.last() else { break };
            after = last.id;
            for row in rows {
                let paid = &row.paid;
                if row.kind == "action" && row.session.is_none() && !paid.is_free() {
                    let usage = Usage::from_counts(paid.input_tokens, paid.output_tokens);
                    let mut answer =
                        PaidAnswer::with_cost(Client::Cachalot, usage, paid.cost, row.at);
                    answer.session = row.run.as_str().into();
                    answer.model = row.name.as_str().into();
                    answers.push(answer);
                }
            }
        }
    }
    Ok(answers)
}

/// The time that a report covers.
struct Period {
    since: Option<Millis>,
    until: Option<Millis>,
}

impl Period {
    fn new(arguments: &Spend, process_environment: &ProcessEnvironment) -> Result<Self> {
        let now = process_environment.clock.now();
        let time = |text: &Option<String>, name: &str| {
            let Some(text) = text else { return Ok(None) };
            let age = cachalot_core::duration::parse_units(text);
            let age = age.and_then(|age| i64::try_from(age.as_millis()).ok());
            match age.map(|age| now - age).or_else(|| date(text)) {
                Some(at) => Ok(Some(at)),
                None => Err(CommandError::failed(format!(
                    "`{}` is no time for --{name}: write a date (2026-11-20) or an age (7d)",
                    on_one_line(text)
                ))),
            }
        };
        Ok(Self {
            since: time(&arguments.since, "since")?,
            until: time(&arguments.until, "until")?,
        })
    }

    fn contains(&self, at: Option<Millis>) -> bool {
        match at {
            Some(at) => {
                self.since.is_none_or(|since| at >= since)
                    && self.until.is_none_or(|until| at < until)
            }
            None => self.since.is_none() && self.until.is_none(),
        }
    }
}

/// The sums that are shown.
struct Report {
    total: SpendTotals,
    groups: Vec<(String, SpendTotals)>,
    /// The first and the last time of an answer.
    range: Option<(Millis, Millis)>,
}

impl Report {
    fn new(spending: &Spending, arguments: &Spend, period: &Period, catalog: &Catalog) -> Self {
        let mut total = SpendTotals::default();
        let mut groups: BTreeMap<String, SpendTotals> = BTreeMap::new();
        let mut range: Option<(Millis, Millis)> = None;
        let project = arguments.project.as_deref();
        let shown = spending.answers.iter().filter(|answer| {
            period.contains(answer.at)
                && project.is_none_or(|project| answer.project.contains(project))
        });
        for answer in shown {
            if let Some(at) = answer.at {
                let (first, last) = range.unwrap_or((at, at));
                range = Some((first.min(at), last.max(at)));
            }
            total.add(answer, catalog);
            let group = groups.entry(group(answer, arguments.by)).or_default();
            group.add(answer, catalog);
        }
        let mut groups: Vec<_> = groups.into_iter().collect();
        if arguments.by != SpendGroup::Day {
            groups.sort_by_key(|(_, totals)| std::cmp::Reverse(totals.cost.picodollars));
        }
        Self {
            total,
            groups,
            range,
        }
    }

    /// One sentence: the cost, the time, the cache, and the avoidable part.
    fn headline(&self) -> String {
        let Self { total, range, .. } = self;
        let mut text = total.cost.amount();
        if let Some((first, last)) = range {
            let days = days(*first, *last);
            text += &format!(" in {}", render::count(days, "day", "days"));
        }
        if let Some(ratio) = total.cache_read_ratio() {
            text += &format!(", {:.0} % of input read from cache", ratio * 100.0);
        }
        let causes = total.avoidable.iter();
        if let Some((name, cause)) = causes.max_by_key(|(_, cause)| cause.cost.picodollars) {
            text += &format!(
                "; {} avoidable: {}",
                total.avoidable_cost().amount(),
                describe(name, cause)
            );
        }
        text
    }

    fn text(&self, by: SpendGroup) -> String {
        let mut text = headline(&self.headline()) + "\n";
        let columns = [
            Column::text(by.title()),
            Column::number("cost"),
            Column::number("input"),
            Column::number("cache read"),
            Column::number("write 5 min").optional(),
            Column::number("write 1 h").optional(),
            Column::number("output"),
            Column::number("from cache"),
            Column::number("answers").optional(),
        ];
        let shown = match by {
            SpendGroup::Day => self.groups.len(),
            _ => self.groups.len().min(MAX_ROWS),
        };
        let groups = self.groups[..shown].iter();
        let mut rows: Vec<_> = groups.map(|(name, totals)| row(name, totals)).collect();
        if self.groups.len() > 1 {
            rows.push(row("total", &self.total));
        }
        text += &table(&columns, &rows);
        if shown < self.groups.len() {
            let others = (self.groups.len() - shown) as u64;
            text += &format!("{others} more, counted in the total; --json lists all\n");
        }
        text += &self.avoidable();
        text += &self.notes();
        text
    }

    fn avoidable(&self) -> String {
        let mut text = String::new();
        if !self.total.avoidable.is_empty() {
            text += "\nAvoidable: written to Anthropic's cache again\n";
            let columns = [
                Column::text("cause"),
                Column::number("requests"),
                Column::number("tokens"),
                Column::number("cost"),
            ];
            let causes = self.total.avoidable.iter();
            let rows: Vec<_> = causes
                .map(|(name, cause)| {
                    vec![
                        (*name).to_owned(),
                        render::grouped(cause.requests),
                        render::grouped(cause.tokens),
                        cause.cost.amount(),
                    ]
                })
                .collect();
            text += &table(&columns, &rows);
        }
        if let Some((paid, with)) = self.total.with_one_hour {
            let (paid, with) = (paid.picodollars, with.picodollars);
            let difference = Cost::from_picodollars(paid.abs_diff(with)).amount();
            text += &match with.cmp(&paid) {
                std::cmp::Ordering::Less => {
                    format!("With 1-hour caching, Claude Code would have cost {difference} less.\n")
                }
                std::cmp::Ordering::Greater => {
                    format!("With 1-hour caching, Claude Code would have cost {difference} more.\n")
                }
                std::cmp::Ordering::Equal => String::new(),
            };
        }
        text
    }

    fn notes(&self) -> String {
        let mut notes =
            vec!["API-equivalent cost; a subscription is billed differently.".to_owned()];
        if self.total.partial > 0 {
            notes.push(format!(
                "At least: the final output of {} is not recorded.",
                render::count(self.total.partial, "answer", "answers")
            ));
        }
        if self.total.cost.unpriced > 0 {
            notes.push(format!(
                "{} without a known price: unknown model, speed or service tier.",
                render::count(self.total.cost.unpriced, "answer", "answers")
            ));
        }
        format!("\n{}\n", notes.join("\n"))
    }

    fn document(&self, spending: &Spending) -> Value {
        let groups = self.groups.iter().map(|(name, totals)| {
            let mut group = document(totals);
            group["name"] = json!(name);
            group
        });
        json!({
            "headline": self.headline(),
            "total": document(&self.total),
            "groups": groups.collect::<Vec<_>>(),
            "unknown_lines": spending.unknown,
        })
    }
}

/// The name of the group of an answer.
fn group(answer: &PaidAnswer, by: SpendGroup) -> String {
    let or = |name: &str, absent: &str| match name.is_empty() {
        true => absent.to_owned(),
        false => on_one_line(name),
    };
    match by {
        SpendGroup::Day => answer.at.map_or_else(|| "no time".to_owned(), day_of),
        SpendGroup::Project => or(&answer.project, "no project"),
        SpendGroup::Session => format!("{} {}", answer.client, or(&answer.session, "?")),
        SpendGroup::Model => or(&answer.model, "unknown model"),
        SpendGroup::Client => answer.client.to_string(),
    }
}

fn row(name: &str, totals: &SpendTotals) -> Vec<String> {
    let usage = &totals.usage;
    let ratio = totals.cache_read_ratio();
    vec![
        name.to_owned(),
        totals.cost.amount(),
        render::grouped(usage.uncached_input),
        render::grouped(usage.cache_read),
        render::grouped(usage.cache_write_5m.saturating_add(usage.cache_write_other)),
        render::grouped(usage.cache_write_1h),
        render::grouped(usage.output),
        ratio.map_or_else(String::new, |ratio| format!("{:.0} %", ratio * 100.0)),
        render::grouped(totals.answers),
    ]
}

/// Describes a cause with its number: `31 pauses longer than the cache lives`.
fn describe(name: &str, cause: &Avoidable) -> String {
    match name {
        "pause longer than the cache lives" => format!(
            "{} longer than the cache lives",
            render::count(cause.requests, "pause", "pauses")
        ),
        name => format!(
            "{}, {name}",
            render::count(cause.requests, "request", "requests")
        ),
    }
}

fn document(totals: &SpendTotals) -> Value {
    let usage = &totals.usage;
    let avoidable = totals.avoidable.iter().map(|(name, cause)| {
        json!({
            "cause": name,
            "requests": cause.requests,
            "tokens": cause.tokens,
            "usd": cause.cost.dollars(),
        })
    });
    json!({
        "answers": totals.answers,
        "usd": totals.cost.dollars(),
        "unpriced": totals.cost.unpriced,
        "partial": totals.partial,
        "tokens": {
            "input": usage.uncached_input,
            "cache_read": usage.cache_read,
            "cache_write_5m": usage.cache_write_5m.saturating_add(usage.cache_write_other),
            "cache_write_1h": usage.cache_write_1h,
            "output": usage.output,
        },
        "cache_read_ratio": totals.cache_read_ratio(),
        "avoidable": avoidable.collect::<Vec<_>>(),
        "avoidable_usd": totals.avoidable_cost().dollars(),
        "usd_with_one_hour": totals.with_one_hour.map(|(paid, with)| {
            totals.cost.dollars() - paid.dollars() + with.dollars()
        }),
    })
}
