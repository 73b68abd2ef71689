//! Analyzing a log against parsing its lines in the same run, and the memory that it takes. Medians
//! over interleaved rounds.
//!
//! `cargo bench -p cachalot-prefix --bench analyze -- --gigabyte` analyzes a log of 1 GB, which is made
//! while it is read, and prints the largest size that the process had.
#![allow(missing_docs, clippy::unwrap_used, clippy::print_stdout)]

use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_core::SecretSet;
use cachalot_model::Catalog;
use cachalot_prefix::log::{Analysis, Analyzer};
use serde_json::{Value, json};

/// Conversations that go on at the same time, and how long each gets.
const AT_ONCE: usize = 50;
const TURNS: usize = 20;

/// A log that is made while it is read: agents with tools, each turn a call, its result and an answer.
struct Endless {
    conversations: Vec<Conversation>,
    next: usize,
    begun: usize,
    left: u64,
    line: Vec<u8>,
    at: usize,
}

struct Conversation {
    id: usize,
    messages: Vec<Value>,
}

impl Endless {
    fn of(bytes: u64) -> Self {
        Self {
            conversations: Vec::new(),
            next: 0,
            begun: 0,
            left: bytes,
            line: Vec::new(),
            at: 0,
        }
    }

    fn conversation(&mut self) -> &mut Conversation {
        self.next = (self.next + 1) % AT_ONCE;
        let id = self.begun;
        let fresh = || Conversation {
            id,
            messages: vec![json!({"role": "user", "content": format!("Task {id}: find the bug.")})],
        };
        let place = self.next;
        if place >= self.conversations.len() {
            self.begun += 1;
            self.conversations.push(fresh());
            return self.conversations.last_mut().unwrap();
        }
        if self.conversations[place].messages.len() > 3 * TURNS {
            self.begun += 1;
            self.conversations[place] = fresh();
        }
        &mut self.conversations[place]
    }

    fn write_line(&mut self) {
        let conversation = self.conversation();
        let turn = conversation.messages.len();
        let id = conversation.id;
        // Every tenth request breaks its prefix.
        let minute = if turn.is_multiple_of(10) { turn } else { 0 };
        let system = format!(
            "{}\nStarted at 10:{minute:02}.",
            "You are careful and brief. ".repeat(200)
        );
        let tools: Vec<Value> = (0..12)
            .map(|tool| {
                json!({"name": format!("tool_{tool}"), "description": "Does one thing well. ".repeat(20),
                    "input_schema": {"type": "object", "properties": {"path": {"type": "string"},
                        "line": {"type": "integer"}}, "required": ["path"]}})
            })
            .collect();
        let body = json!({"model": "claude-sonnet-4-5", "max_tokens": 4096, "tools": tools,
            "system": system, "messages": conversation.messages});
        let line = json!({"session": format!("s{id}"), "request": body,
            "response": {"usage": {"input_tokens": 100 * turn, "output_tokens": 50}}});
        let call = json!({"role": "assistant", "content": [
            {"type": "text", "text": "I look at the file."},
            {"type": "tool_use", "id": format!("toolu_{turn}"), "name": "tool_1",
                "input": {"path": format!("src/{turn}.rs"), "line": turn}}]});
        let text = format!("line {turn} of \"{id}\":\\tlet bug = true;\n").repeat(40);
        let result = json!({"role": "user", "content": [
            {"type": "tool_result", "tool_use_id": format!("toolu_{turn}"), "content": text}]});
        let answer = json!({"role": "assistant", "content": "There is a bug in it. ".repeat(10)});
        conversation.messages.extend([call, result, answer]);
        self.line = serde_json::to_vec(&line).unwrap();
        self.line.push(b'\n');
        self.at = 0;
    }
}

impl Read for Endless {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.at == self.line.len() {
            if self.left == 0 {
                return Ok(0);
            }
            self.write_line();
            self.left = self.left.saturating_sub(self.line.len() as u64);
        }
        let rest = &self.line[self.at..];
        let count = rest.len().min(into.len());
        into[..count].copy_from_slice(&rest[..count]);
        self.at += count;
        Ok(count)
    }
}

fn analyze(log: impl io::BufRead) -> Analysis {
    let mut analyzer = Analyzer::new(Catalog::built_in(), Arc::new(SecretSet::empty()));
    analyzer.read(log).unwrap();
    analyzer.finish()
}

fn parse(log: &[u8]) {
    for line in log
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        std::hint::black_box(serde_json::from_slice::<Value>(line).unwrap());
    }
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

fn timed(work: impl FnOnce()) -> Duration {
    let began = Instant::now();
    work();
    began.elapsed()
}

/// The largest size that this process had, in MiB, where the system tells.
fn largest() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kib / 1024)
}

fn small() {
    let mut log = Vec::new();
    Endless::of(16 << 20).read_to_end(&mut log).unwrap();
    let (mut parsing, mut analyzing) = (Vec::new(), Vec::new());
    for _ in 0..7 {
        parsing.push(timed(|| parse(&log)));
        analyzing.push(timed(|| drop(std::hint::black_box(analyze(&log[..])))));
    }
    let (parsing, analyzing) = (median(parsing), median(analyzing));
    let ratio = analyzing.as_secs_f64() / parsing.as_secs_f64();
    let speed = (log.len() >> 20) as f64 / analyzing.as_secs_f64();
    println!("parsing {} MiB into values: {parsing:.2?}", log.len() >> 20);
    println!(
        "analyzing them:            {analyzing:.2?}   {ratio:.2}x   goal <= 3x   {speed:.0} MiB/s"
    );
}

fn gigabyte() {
    let before = largest();
    let mut analysis = None;
    let time = timed(|| {
        let log = BufReader::with_capacity(1 << 20, Endless::of(1_000_000_000));
        analysis = Some(analyze(log));
    });
    let analysis = analysis.unwrap();
    println!(
        "1 GB, made while it is read: {time:.1?}, {} requests, {} conversations, {} kinds of breaks",
        analysis.requests,
        analysis.conversations,
        analysis.breaks.len()
    );
    println!(
        "largest size: {before:?} MiB before, {:?} MiB in all",
        largest()
    );
}

fn main() {
    if std::env::args().any(|argument| argument == "--gigabyte") {
        gigabyte();
    } else {
        small();
    }
}
