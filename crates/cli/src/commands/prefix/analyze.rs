//! `cachalot prefix analyze`.

mod html;

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use cachalot_core::{Cost, Millis, SecretSet};
use cachalot_model::Catalog;
use cachalot_prefix::log::{Analysis, Analyzer, BreakGroup, LoggedBreak, LoggedRequest};
use cachalot_prefix::spend::find_files;
use cachalot_prompt::SessionFilter;
use serde_json::{Value, json};

use crate::arguments::{PrefixAnalyze, StoreArguments};
use crate::chat::sum::dollars;
use crate::command_error::{CommandError, Result};
use crate::commands::sessions::{self, tree};
use crate::commands::spend::turn_text;
use crate::html_file::HtmlFile;
use crate::models::catalog;
use crate::regular_file::open_regular;
use crate::render;
use crate::render::table::{Column, headline, table};
use crate::render::visible::on_one_line;
use crate::wiring::{ProcessEnvironment, Warn};

/// First bytes of a SQLite database.
const SQLITE: &[u8] = b"SQLite format 3\0";

/// The maximum number of breaks that a report for a browser shows one by one.
const MAX_BREAKS: usize = 10_000;

/// The number of bytes that identify the type of a file.
const SIGNATURE_BYTES: u64 = 64;

/// Reports for each log where prefixes break, why, and what that costs.
///
/// # Errors
/// A log cannot be read or contains no request; with `--strict`, a prefix breaks.
pub(super) async fn analyze(
    arguments: &PrefixAnalyze,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let catalog = catalog(process_environment)?;
    // Before logs are read.
    let html = HtmlFile::open(arguments.html.as_deref(), None, process_environment)?;
    let mut analyses = Vec::new();
    let mut told = Vec::new();
    let mut broken = 0;
    for file in &arguments.files {
        let analysis = read(file, &catalog, process_environment, &warn).await?;
        let name = on_one_line(&file.to_string_lossy());
        broken += analysis
            .breaks
            .iter()
            .map(|breaks| breaks.count)
            .sum::<u64>();
        if arguments.json {
            told.push(document(&name, &analysis));
            continue;
        }
        let (count, named) = &analysis.skipped;
        for (line, reason) in named {
            warn(&format!("{name}, line {line}: {reason}"));
        }
        if *count > named.len() as u64 {
            let others = count - named.len() as u64;
            warn(&format!("{name}: {others} more are no requests"));
        }
        if html.is_some() {
            analyses.push((name, analysis));
        } else {
            render::out(&text(&name, &analysis))?;
        }
    }
    if let Some(html) = html {
        html.write(&html::page(&analyses, process_environment.clock.now())?)?;
    }
    if arguments.json {
        render::json(&json!({ "logs": told }))?;
    }
    if arguments.strict && broken > 0 {
        let times = render::count(broken, "prefix breaks", "prefixes break");
        return Err(CommandError::failed(times));
    }
    Ok(())
}

async fn read(
    file: &Path,
    catalog: &Catalog,
    process_environment: &ProcessEnvironment,
    warn: &Warn,
) -> Result<Analysis> {
    // The secrets in a log are unknown; text that looks like a credential is masked anyway.
    let analyzer = Analyzer::new(catalog.clone(), Arc::new(SecretSet::empty()));
    let mut analyzer = analyzer.keep_breaks(MAX_BREAKS);
    if file == Path::new("-") {
        let mut log = std::io::stdin().lock();
        let beginning =
            beginning(&mut log).map_err(|error| CommandError::failed(format!("stdin: {error}")))?;
        return read_log("stdin", &beginning, log, analyzer);
    }
    let name = on_one_line(&file.to_string_lossy());
    let failed = |error: &dyn std::fmt::Display| CommandError::failed(format!("{name}: {error}"));
    let path = process_environment.directory.join(file);
    if path.is_dir() {
        return read_directory(&name, &path, analyzer, warn);
    }
    let mut log = File::open(&path).map_err(|error| failed(&error))?;
    let beginning = beginning(&mut log).map_err(|error| failed(&error))?;
    if beginning.starts_with(SQLITE) {
        read_sessions(&mut analyzer, &path, process_environment, warn).await?;
        return Ok(analyzer.finish());
    }
    read_log(&name, &beginning, log, analyzer)
}

/// Analyzes the transcripts below a directory together: a copy of an answer in another file counts once.
fn read_directory(
    name: &str,
    directory: &Path,
    mut analyzer: Analyzer,
    warn: &Warn,
) -> Result<Analysis> {
    let found = find_files(&[directory.to_owned()]);
    for (path, error) in &found.unreadable {
        warn(&format!(
            "{}: {error}",
            on_one_line(&path.to_string_lossy())
        ));
    }
    let (compressed, others): (Vec<_>, Vec<_>) = found
        .paths
        .into_iter()
        .partition(|path| has_extension(path, "zst"));
    if let Some(first) = compressed.first() {
        warn(&format!(
            "{name}: {} not read; try `zstd -d {}`",
            render::count(
                compressed.len() as u64,
                "compressed file is",
                "compressed files are"
            ),
            on_one_line(&first.to_string_lossy()),
        ));
    }
    let files = others.iter().filter(|path| has_extension(path, "jsonl"));
    let files: Vec<_> = files.collect();
    let captures = others.iter().filter(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.ends_with(".request.json")
    });
    let captures = captures.map(|path| (modified(path), path));
    let mut captures: Vec<_> = captures.collect();
    captures.sort();
    let open = |path: &Path| {
        let file = open_regular(path)?;
        Ok::<_, std::io::Error>(BufReader::with_capacity(1 << 20, file))
    };
    for path in &files {
        // A file that cannot be opened is named below.
        if let Ok(log) = open(path) {
            analyzer.register(log);
        }
    }
    let root = directory.canonicalize();
    let root = root.as_deref().unwrap_or(directory);
    let shown = |path: &Path| {
        let path = path.strip_prefix(root).unwrap_or(path);
        on_one_line(&path.to_string_lossy())
    };
    for (at, path) in captures {
        let shown = shown(path);
        let read = open(path).and_then(|capture| analyzer.read_capture(&shown, at, capture));
        if let Err(defect) = read {
            warn(&format!("{shown}: {defect}"));
        }
    }
    for path in &files {
        let shown = shown(path);
        let read = open(path).map_err(|error| error.to_string());
        let read = read.and_then(|log| {
            let read = analyzer.read_file(&shown, log);
            read.map_err(|error| error.to_string())
        });
        if let Err(defect) = read {
            warn(&format!("{shown}: {defect}"));
        }
    }
    let analysis = analyzer.finish();
    match analysis.requests {
        0 => Err(CommandError::failed(format!(
            "{name} holds no request: no `.jsonl` file below it is a log or a transcript, and no `.request.json` file a captured request"
        ))),
        _ => Ok(analysis),
    }
}

/// Returns the time when a file was written, in milliseconds since 1970.
fn modified(path: &Path) -> Option<Millis> {
    let at = path.metadata().ok()?.modified().ok()?;
    let since = at.duration_since(std::time::UNIX_EPOCH).ok()?;
    Millis::try_from(since.as_millis()).ok()
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|other| other == extension)
}

/// Analyzes a log whose beginning was already read.
fn read_log(
    name: &str,
    beginning: &[u8],
    log: impl Read,
    mut analyzer: Analyzer,
) -> Result<Analysis> {
    let log = BufReader::with_capacity(1 << 20, beginning.chain(log));
    let read = analyzer.read(log);
    read.map_err(|error| CommandError::failed(format!("{name}: {error}")))?;
    let analysis = analyzer.finish();
    if analysis.requests > 0 {
        return Ok(analysis);
    }
    let mut trouble = format!(
        "{name} holds no request: {}",
        describe_unreadable_log(name, beginning)
    );
    if let Some((line, reason)) = analysis.skipped.1.first() {
        trouble += &format!(" (line {line}: {reason})");
    }
    Err(CommandError::failed(trouble))
}

/// Reads the first bytes, or all of them.
fn beginning(log: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut beginning = Vec::with_capacity(SIGNATURE_BYTES as usize);
    log.take(SIGNATURE_BYTES).read_to_end(&mut beginning)?;
    Ok(beginning)
}

/// Describes a file that is not a log, and names the command that converts it.
fn describe_unreadable_log(name: &str, beginning: &[u8]) -> String {
    let first_line = beginning.split(|byte| *byte == b'\n').next();
    let first_line = first_line.unwrap_or_default().trim_ascii();
    let (what, command) = match beginning {
        [0x1f, 0x8b, ..] => ("it is compressed with gzip", "gunzip -c"),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => ("it is compressed with zstd", "zstd -dc"),
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => ("it is UTF-16", "iconv -f UTF-16 -t UTF-8"),
        [] => return "it is empty".to_owned(),
        _ if first_line.starts_with(b"[") => ("it is one JSON array", "jq -c '.[]'"),
        _ if first_line == b"{" => ("its JSON is spread over lines", "jq -c ."),
        _ => {
            return "a line is the body of a request to a model, or an object with one in \
                    `request`, `body` or `params`"
                .to_owned();
        }
    };
    let file = if name == "stdin" { "FILE" } else { name };
    format!("{what}; try `{command} {file} | cachalot prefix analyze -`")
}

/// Analyzes the sessions of a store, each by its last request.
async fn read_sessions(
    analyzer: &mut Analyzer,
    path: &Path,
    process_environment: &ProcessEnvironment,
    warn: &Warn,
) -> Result<()> {
    let place = StoreArguments {
        db: Some(path.to_owned()),
    };
    let sessions = sessions::open(&place, process_environment, Arc::clone(warn))?;
    let mut listed = sessions.list(&SessionFilter::default()).await?;
    // Oldest first, as in a log.
    listed.reverse();
    for summary in listed {
        match sessions.open(&summary.id).await {
            Ok(Some(session)) => analyzer.take(LoggedRequest::from_session(&session)),
            Ok(None) => {}
            Err(error) => warn(&error.to_string()),
        }
    }
    Ok(())
}

fn text(name: &str, analysis: &Analysis) -> String {
    let mut text = format!(
        "{name}: {} in {}",
        render::count(analysis.requests, "request", "requests"),
        render::count(analysis.conversations, "conversation", "conversations"),
    );
    if analysis.sessions > 0 {
        let sessions = render::count(analysis.sessions, "session", "sessions");
        text += &format!(", {sessions} named");
    }
    if analysis.failed > 0 {
        let failed = render::count(analysis.failed, "request", "requests");
        text += &format!("; {failed} answered with an error, and compared with none");
    }
    let broken = analysis.breaks.iter().map(|breaks| breaks.count).sum();
    let broken = render::count(broken, "prefix breaks", "prefixes break");
    let (tokens, cost) = analysis.lost();
    if !analysis.breaks.is_empty() {
        text += &format!("; {broken}, {}", lost(tokens, cost));
    }
    if analysis.answers_only > 0 {
        let answers = render::count(analysis.answers_only, "request is", "requests are");
        text += &format!(
            "\n{answers} known from the answers only: their usage shows what was lost, not where"
        );
    }
    if analysis.reconstructed > 0 {
        let requests = render::count(analysis.reconstructed, "request is", "requests are");
        text += &format!("\n{requests} reconstructed from their parts in transcripts");
    }
    if analysis.unanswered > 0 {
        let requests = render::count(analysis.unanswered, "request is", "requests are");
        text += &format!("\n{requests} recorded without an answer, and compared with none");
    }
    let has_requests = analysis.answers_only < analysis.requests;
    if has_requests {
        text += &format!(
            "\n{} sent, {} of it different · dedup ratio {:.2} · {}",
            render::bytes(analysis.sent_bytes),
            render::bytes(analysis.different_bytes),
            analysis.dedup_ratio(),
            render::count(analysis.tree.sharing.leaves, "leaf", "leaves"),
        );
    }
    let mut text = headline(&text);
    let (reported, usage) = &analysis.reported;
    if *reported > 0 {
        text += &format!(
            "{} report {} input tokens, {} of them read from the provider's cache\n",
            render::count(*reported, "answer", "answers"),
            render::grouped(usage.total_input()),
            render::grouped(usage.cache_read),
        );
    }
    if has_requests {
        text += &format!("\n{}\n", tree::drawn(&analysis.tree));
    }
    if analysis.breaks.is_empty() {
        return text + "no prefix breaks\n";
    }
    text += &format!("{broken} · {}\n\n", lost(tokens, cost));
    text += &breaks_table(&analysis.breaks);
    for (at, breaks) in analysis.breaks.iter().enumerate() {
        text += &format!("\n{}", format_breaks(at + 1, breaks));
    }
    text
}

fn breaks_table(breaks: &[BreakGroup]) -> String {
    let columns = [
        Column::number("no."),
        Column::whole("reason"),
        Column::wrapped("likely cause"),
        Column::number("times"),
        Column::number("tokens"),
        Column::number("cost"),
    ];
    let rows: Vec<Vec<String>> = (breaks.iter().enumerate())
        .map(|(at, breaks)| {
            vec![
                (at + 1).to_string(),
                breaks.reason.to_string(),
                breaks
                    .cause
                    .map_or("unknown", |cause| cause.what())
                    .to_owned(),
                render::grouped(breaks.count),
                render::grouped(breaks.lost_tokens),
                breaks.lost_cost.to_string(),
            ]
        })
        .collect();
    table(&columns, &rows)
}

fn lost(tokens: u64, cost: Cost) -> String {
    let tokens = render::count(tokens, "token", "tokens");
    if cost.is_zero() {
        format!("{tokens} paid for anew")
    } else {
        format!("{tokens} paid for anew · {cost}")
    }
}

fn format_breaks(number: usize, breaks: &BreakGroup) -> String {
    let cause = breaks
        .cause
        .map_or("the cause is not known", |cause| cause.what());
    let mut text = format!(
        "{number}. {}: {cause} · {} · {}\n",
        breaks.reason,
        render::count(breaks.count, "time", "times"),
        lost(breaks.lost_tokens, breaks.lost_cost),
    );
    for example in &breaks.examples {
        text += &format_example(example);
    }
    if let Some(cause) = breaks.cause {
        text += &format!("   {}\n", cause.remedy());
    }
    text
}

fn format_example(broken: &LoggedBreak) -> String {
    let diagnosis = &broken.diagnosis;
    let place = diagnosis
        .at
        .as_ref()
        .map_or(String::new(), |at| format!(": {at}"));
    let session = on_one_line(&broken.session);
    let source = if diagnosis.by_provider {
        ", by the provider's own comparison"
    } else {
        ""
    };
    let mut text = format!(
        "   line {} after line {} ({session}, {}{source}){place}\n",
        broken.line,
        broken.previous_line,
        on_one_line(&broken.model),
    );
    if let Some(change) = &diagnosis.change {
        text += &turn_text::change(change);
    }
    text
}

fn document(name: &str, analysis: &Analysis) -> Value {
    let (tokens, cost) = analysis.lost();
    let (skipped, named) = &analysis.skipped;
    let named = named
        .iter()
        .map(|(line, reason)| json!({"line": line, "reason": reason}));
    let (reported, usage) = &analysis.reported;
    json!({
        "file": name, "requests": analysis.requests, "failed": analysis.failed,
        "answers_only": analysis.answers_only,
        "reconstructed": analysis.reconstructed, "unanswered": analysis.unanswered,
        "conversations": analysis.conversations,
        "sessions": analysis.sessions, "sent_bytes": analysis.sent_bytes,
        "different_bytes": analysis.different_bytes, "dedup_ratio": analysis.dedup_ratio(),
        "leaves": analysis.tree.sharing.leaves,
        "answers": reported, "input_tokens": usage.total_input(),
        "cached_input_tokens": usage.cache_read,
        "lost_tokens": tokens, "lost_dollars": dollars(cost),
        "no_requests": {"count": skipped, "first": named.collect::<Vec<_>>()},
        "tree": tree::json(&analysis.tree),
        "breaks": analysis.breaks.iter().map(breaks_json).collect::<Vec<_>>(),
    })
}

fn breaks_json(breaks: &BreakGroup) -> Value {
    let examples = breaks.examples.iter().map(|example| {
        let diagnosis = &example.diagnosis;
        json!({
            "line": example.line, "previous_line": example.previous_line,
            "session": example.session, "model": example.model, "at": diagnosis.at,
            "before": diagnosis.change.as_ref().map(|change| &change.before),
            "after": diagnosis.change.as_ref().map(|change| &change.after),
            "expected_read_tokens": diagnosis.expected_read_tokens,
            "actual_read": diagnosis.actual_read, "by_provider": diagnosis.by_provider,
            "lost_tokens": diagnosis.lost_tokens,
            "lost_dollars": diagnosis.lost_cost.and_then(dollars),
        })
    });
    json!({
        "reason": breaks.reason, "cause": breaks.cause,
        "what": breaks.cause.map(|cause| cause.what()),
        "remedy": breaks.cause.map(|cause| cause.remedy()),
        "count": breaks.count, "lost_tokens": breaks.lost_tokens,
        "lost_dollars": dollars(breaks.lost_cost), "unpriced": breaks.lost_cost.unpriced,
        "examples": examples.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(log: &[u8]) -> String {
        let analyzer = Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()));
        match read_log("a.log", log, std::io::empty(), analyzer) {
            Err(CommandError::Failed { message, .. }) => message,
            _ => panic!("it is no log, and was read"),
        }
    }

    #[test]
    fn unreadable_log_is_reported_with_a_conversion_command() {
        for (log, told) in [
            (
                &b"\x1f\x8b\x08\x00rest"[..],
                "`gunzip -c a.log | cachalot prefix analyze -`",
            ),
            (
                b"[{\"messages\": []}]",
                "`jq -c '.[]' a.log | cachalot prefix analyze -`",
            ),
            (
                b"{\n  \"messages\": []\n}",
                "`jq -c . a.log | cachalot prefix analyze -`",
            ),
            (
                b"\xff\xfe{\0}\0\n\0",
                "`iconv -f UTF-16 -t UTF-8 a.log | cachalot prefix analyze -`",
            ),
            (b"{\"a\": 1}\n", "line 1: it is no request"),
        ] {
            assert!(why(log).starts_with("a.log holds no request: "));
            assert!(why(log).contains(told), "{}", why(log));
        }
        assert!(why(b"").ends_with("it is empty"));
    }
}
