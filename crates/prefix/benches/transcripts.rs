//! B18: reading transcripts of Claude Code against counting and parsing their lines in the same run, and the memory that
//! it takes. Medians over interleaved rounds.
//!
//! `cargo bench -p cachalot-prefix --bench transcripts` reads 256 MB; with `-- --gigabyte`, 1 GB.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::fs::File;
use std::hint::black_box;
use std::io::{BufRead as _, BufReader, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cachalot_prefix::spend::SpendReader;
use serde_json::{Value, json};

const ROUNDS: usize = 5;
/// Number of answers in a session.
const ANSWERS: usize = 200;
const WORDS: &str = "the function returns an error if the file cannot be opened, and the caller prints it with its place \"line 12\"\n";

/// Writes sessions of a coding agent: each turn an answer that calls a tool, and a result of 2 to 20 KB.
fn write_sessions(folder: &Path, bytes: u64) -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut written = 0;
    while written < bytes {
        let session = files.len();
        let path = folder.join(format!("{session}.jsonl"));
        let mut out = BufWriter::new(File::create(&path).unwrap());
        for answer in 0..ANSWERS {
            let common = |kind: &str| {
                json!({
                    "parentUuid": format!("u{answer}"), "isSidechain": false, "userType": "external", "cwd": "/project",
                    "sessionId": format!("s{session}"), "version": "2.1.0", "gitBranch": "main", "type": kind,
                    "uuid": format!("{session}-{answer}-{kind}"),
                    "timestamp": format!("2026-11-{:02}T{:02}:{:02}:00.000Z", session % 28 + 1, answer / 60, answer % 60),
                })
            };
            let mut reply = common("assistant");
            reply["requestId"] = json!(format!("req_{session}_{answer}"));
            reply["message"] = json!({
                "id": format!("msg_{session}_{answer}"), "type": "message", "role": "assistant", "model": "claude-sonnet-4-5",
                "content": [
                    {"type": "text", "text": WORDS.repeat(3)},
                    {"type": "tool_use", "id": format!("toolu_{answer}"), "name": "Bash", "input": {"command": "cargo test"}},
                ],
                "stop_reason": "tool_use",
                "usage": {"input_tokens": 12, "cache_creation_input_tokens": 2_000, "cache_read_input_tokens": 40_000 + answer * 2_000,
                    "cache_creation": {"ephemeral_5m_input_tokens": 2_000, "ephemeral_1h_input_tokens": 0},
                    "output_tokens": 300, "service_tier": "standard"},
            });
            let mut result = common("user");
            let content = WORDS.repeat(20 + answer % 160);
            result["message"] = json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": format!("toolu_{answer}"), "content": content}]});
            result["toolUseResult"] =
                json!({"stdout": content, "stderr": "", "interrupted": false});
            for line in [reply, result] {
                let line = line.to_string();
                written += line.len() as u64 + 1;
                writeln!(out, "{line}").unwrap();
            }
        }
        out.flush().unwrap();
        files.push(path);
    }
    files
}

fn open(path: &Path) -> BufReader<File> {
    BufReader::with_capacity(64 << 10, File::open(path).unwrap())
}

/// Reads all transcripts; returns the number of distinct answers.
fn read(files: &[PathBuf]) -> usize {
    let mut reader = SpendReader::default();
    for file in files {
        reader.read(file, open(file)).unwrap();
    }
    reader.finish().answers.len()
}

/// The reference: counts the lines in one pass and parses each in another.
fn count_and_parse(files: &[PathBuf]) -> usize {
    let mut lines = 0;
    for file in files {
        let mut reader = open(file);
        loop {
            let buffer = reader.fill_buf().unwrap();
            let length = buffer.len();
            if length == 0 {
                break;
            }
            lines += memchr::memchr_iter(b'\n', buffer).count();
            reader.consume(length);
        }
    }
    for file in files {
        let (mut reader, mut line) = (open(file), Vec::new());
        while reader.read_until(b'\n', &mut line).unwrap() > 0 {
            black_box(serde_json::from_slice::<Value>(&line).unwrap());
            line.clear();
        }
    }
    lines
}

fn timed(work: impl FnOnce() -> usize) -> (Duration, usize) {
    let start = Instant::now();
    let count = work();
    (start.elapsed(), count)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// The largest size that the process has had, in MB; zero where the system does not say.
fn largest() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or_default() / 1_000
}

fn main() {
    if std::env::args().any(|argument| argument == "--test") {
        return;
    }
    let gigabyte = std::env::args().any(|argument| argument == "--gigabyte");
    let bytes = if gigabyte { 1_000_000_000 } else { 256_000_000 };
    let folder = tempfile::tempdir().unwrap();
    let files = write_sessions(folder.path(), bytes);
    let before = largest();
    let (_, answers) = timed(|| read(&files));
    println!(
        "{} MB, {} files, {answers} answers",
        bytes / 1_000_000,
        files.len()
    );
    println!(
        "largest size of the process: {} MB, {} MB before reading",
        largest(),
        before
    );
    let (mut ours, mut reference) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        ours.push(timed(|| read(&files)).0);
        reference.push(timed(|| count_and_parse(&files)).0);
    }
    let (ours, reference) = (median(ours), median(reference));
    let ratio = ours.as_secs_f64() / reference.as_secs_f64();
    println!("reading {ours:.2?}, counting and parsing {reference:.2?}, ratio {ratio:.2}");
}
