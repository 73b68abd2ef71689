//! B7: the SHA-256 of a 1 GiB file in a warm page cache, beside `openssl dgst -sha256`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use cachalot_storage::{Algorithm, HttpClient, HttpOptions, Storage, StorageOptions};

const SIZE: u64 = 1 << 30;
const ROUNDS: usize = 9;
const NAME: &str = "one-gibibyte";

fn main() {
    // `cargo test --all-targets` runs this too, and has no use for it.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    fill(&directory.path().join(NAME));
    let storage = Storage::new(StorageOptions {
        directory: directory.path().to_owned(),
        environment: std::collections::BTreeMap::new(),
        http: HttpClient::new(HttpOptions::default()).unwrap(),
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async { tokio::task::spawn_blocking(|| ()).await.unwrap() });
    let idle = memory("VmRSS");
    let (mut own, mut theirs) = (Vec::new(), Vec::new());
    // The first round only warms the page cache.
    for round in 0..=ROUNDS {
        let (expected, other) = openssl(&directory.path().join(NAME));
        let start = Instant::now();
        let hashed = runtime
            .block_on(storage.hash(NAME, Algorithm::Sha256))
            .unwrap();
        let took = start.elapsed();
        if let Some(expected) = &expected {
            assert_eq!((&hashed.hash, hashed.size_bytes), (expected, SIZE));
        }
        if round > 0 {
            own.push(took);
            theirs.extend(expected.map(|_| other));
        }
    }
    report(
        own,
        theirs,
        memory("VmHWM").zip(idle).map(|(peak, idle)| peak - idle),
    );
}

fn report(own: Vec<Duration>, theirs: Vec<Duration>, memory: Option<u64>) {
    let own = median(own);
    println!(
        "storage.hash sha256, 1 GiB, warm: median {:.1} ms",
        own.as_secs_f64() * 1e3
    );
    if theirs.is_empty() {
        println!("openssl is not installed: no reference");
    } else {
        let theirs = median(theirs);
        let ratio = own.as_secs_f64() / theirs.as_secs_f64();
        println!(
            "openssl dgst -sha256:             median {:.1} ms",
            theirs.as_secs_f64() * 1e3
        );
        println!("ratio {ratio:.3} (goal: at most 1.05)");
    }
    if let Some(bytes) = memory {
        let mebibytes = bytes as f64 / f64::from(1 << 20);
        println!("peak memory above idle: {mebibytes:.2} MiB (goal: at most 16)");
    }
}

/// Bytes that do not repeat; what they are makes no difference to the time.
fn fill(path: &Path) {
    let mut file = BufWriter::with_capacity(1 << 16, File::create(path).unwrap());
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..SIZE / 8 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        file.write_all(&state.to_le_bytes()).unwrap();
    }
    file.into_inner().unwrap().sync_all().unwrap();
}

/// What openssl computes and how long it takes, process start included; `None` without openssl.
fn openssl(path: &Path) -> (Option<String>, Duration) {
    let start = Instant::now();
    let output = Command::new("openssl")
        .args(["dgst", "-sha256", "-r"])
        .arg(path)
        .output();
    let took = start.elapsed();
    let digest = output
        .ok()
        .filter(|output| output.status.success())
        .map(|output| {
            String::from_utf8(output.stdout)
                .unwrap()
                .split_whitespace()
                .next()
                .unwrap()
                .to_owned()
        });
    (digest, took)
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort_unstable();
    times[times.len() / 2]
}

/// What the system tells about this process's memory, in bytes: `VmRSS` now, `VmHWM` at its most.
fn memory(line: &str) -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find(|other| other.split(':').next() == Some(line))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}
