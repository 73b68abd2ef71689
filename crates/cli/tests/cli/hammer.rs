//! Processes that are killed, and a server that is restarted in between: no wrong answer, no failed run, and nothing lost
//! that was acknowledged. `CACHALOT_TEST_HAMMER_RESTARTS` sets how often each server is restarted (2).

use std::collections::BTreeMap;
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cachalot_backends::testing::{PostgresServer, RedisServer};
use serde_json::Value;

use crate::support::{CommandOutput, Home};

const PROCESSES: u64 = 6;
const KEYS: u64 = 10;

/// Runs that end by themselves between two restarts.
const RUNS: u64 = 20;

/// Calls a memoized step, and keeps a value in long-term memory.
const WORK: &str = r#"
name: hammer
nodes:
  - name: work
    uses: cache.wrap
    with:
      action: json.stringify
      args: {data: "answer to {{ state.key }}"}
    output: answer
  - name: keep
    uses: ltm.store
    with: {key: "{{ state.key }}", value: "{{ state.value }}"}
    output: kept
"#;

const LOOK: &str = r#"
name: look
nodes:
  - name: look
    uses: ltm.retrieve
    with: {key: "{{ state.key }}"}
    output: found
"#;

/// What long-term memory may contain under a key.
#[derive(Debug, Default)]
struct Kept {
    acknowledged: Option<u64>,
    /// Later writes of processes that were killed or that failed.
    attempted: Vec<u64>,
}

#[derive(Debug, Default)]
struct Counts {
    ended: AtomicU64,
    killed: AtomicU64,
    failed: AtomicU64,
    hits: AtomicU64,
}

fn random(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state >> 11
}

/// Runs the workflow once; kills one process in three. Each process has keys of its own in long-term memory.
#[allow(clippy::print_stderr, reason = "failures are reported")]
fn step(
    home: &Home,
    url: &str,
    process: u64,
    state: &mut u64,
    kept: &Mutex<BTreeMap<String, Kept>>,
    counts: &Counts,
) {
    let value = random(state) % 1_000_000;
    let key = format!("{}", random(state) % KEYS * PROCESSES + process);
    let inputs = [format!("key=k{key}"), format!("value=v{value}")];
    let arguments = ["run", "work.yaml", "-i", &inputs[0], "-i", &inputs[1]];
    let mut command = home.command(&arguments);
    command
        .env("CACHALOT_DB", url)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    if random(state).is_multiple_of(3) {
        std::thread::sleep(Duration::from_millis(random(state) % 80));
        // It may have ended before.
        let _ = child.kill();
    }
    let ended = child.wait_with_output().unwrap();
    // A warning before the signal may have the word "error", too.
    let is_killed = ended.status.code().is_none();
    let ended: CommandOutput = ended.into();
    let mut kept = kept.lock().unwrap();
    let kept = kept.entry(key.clone()).or_default();
    let state: Option<Value> = serde_json::from_str(&ended.stdout).ok();
    let Some(state) = state else {
        let count = if is_killed {
            &counts.killed
        } else {
            // Shown if the test fails.
            eprintln!("a run failed: {ended}");
            &counts.failed
        };
        count.fetch_add(1, Ordering::Relaxed);
        kept.attempted.push(value);
        return;
    };
    counts.ended.fetch_add(1, Ordering::Relaxed);
    assert_eq!(
        state["answer"]["result"]["text"],
        format!("\"answer to k{key}\""),
        "{ended}"
    );
    if state["answer"]["_cache_hit"] == true {
        counts.hits.fetch_add(1, Ordering::Relaxed);
    }
    if state["kept"]["success"] == true {
        *kept = Kept {
            acknowledged: Some(value),
            attempted: Vec::new(),
        };
    } else {
        kept.attempted.push(value);
    }
}

#[allow(clippy::print_stderr, reason = "long runs are reported")]
fn hammer(url: &str, restart: &mut dyn FnMut()) {
    let restarts = std::env::var("CACHALOT_TEST_HAMMER_RESTARTS");
    let restarts: u64 = restarts.map_or(2, |restarts| restarts.parse().unwrap());
    let home = Home::new();
    home.write("work.yaml", WORK);
    home.write("look.yaml", LOOK);
    let kept: Mutex<BTreeMap<String, Kept>> = Mutex::default();
    let (counts, stop) = (Counts::default(), AtomicBool::new(false));
    let began = Instant::now();
    std::thread::scope(|scope| {
        for process in 0..PROCESSES {
            let (home, kept, counts, stop) = (&home, &kept, &counts, &stop);
            scope.spawn(move || {
                let mut state = (process + 1) * 0x9E37_79B9;
                while !stop.load(Ordering::Relaxed) {
                    step(home, url, process, &mut state, kept, counts);
                }
            });
        }
        for number in 1..=restarts + 1 {
            while counts.ended.load(Ordering::Relaxed) < number * RUNS {
                let maximum = Duration::from_secs(60 * number);
                assert!(began.elapsed() < maximum, "no progress: {counts:?}");
                std::thread::sleep(Duration::from_millis(10));
            }
            if number <= restarts {
                restart();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let keys = kept.lock().unwrap().len();
    eprintln!("{url:.8}: {counts:?}, {restarts} restarts, {keys} keys");
    assert!(counts.killed.load(Ordering::Relaxed) > 5, "{counts:?}");
    assert!(counts.hits.load(Ordering::Relaxed) > 0, "{counts:?}");
    // A server that is away for less than 30 s costs a payment at most.
    assert_eq!(counts.failed.load(Ordering::Relaxed), 0, "{counts:?}");
    for (key, kept) in kept.into_inner().unwrap() {
        let mut command = home.command(&["run", "look.yaml", "-q", "-i", &format!("key=k{key}")]);
        let found: CommandOutput = command.env("CACHALOT_DB", url).output().unwrap().into();
        let found = found.ok().json()["found"]["value"].clone();
        let possible: Vec<Value> = match kept.acknowledged {
            Some(value) => std::iter::once(value)
                .chain(kept.attempted)
                .collect::<Vec<_>>(),
            None => kept.attempted,
        }
        .iter()
        .map(|value| Value::from(format!("v{value}")))
        .collect();
        let may_be_absent = kept.acknowledged.is_none() && found.is_null();
        assert!(
            may_be_absent || possible.contains(&found),
            "{key}: {found}, not of {possible:?}"
        );
    }
}

#[test]
fn redis_that_is_restarted_loses_nothing_acknowledged() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    if let Some(mut server) = RedisServer::start(&durable) {
        let url = server.fresh_url();
        hammer(&url, &mut || server.restart());
    }
}

#[test]
fn postgres_that_is_restarted_loses_nothing_acknowledged() {
    if let Some(mut server) = PostgresServer::start(&["-c", "fsync=on"]) {
        let url = server.fresh_url();
        hammer(&url, &mut || server.restart());
    }
}
