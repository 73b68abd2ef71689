//! Runs the tests of this binary, and the blocks of the tests.

use std::io::Write;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cachalot_workflow::script::{
    Python3Options, Script, ScriptFailure, ScriptResult, ScriptRunner, WorkerOptions, WorkerPool,
};
use serde_json::{Map, Value, json};

/// A test and its name.
pub(crate) type Test = (&'static str, fn());

/// Names the tests of a module.
macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        pub(crate) const TESTS: &[$crate::harness::Test] =
            &[$((concat!(module_path!(), "::", stringify!($name)), $name as fn())),*];
    };
}
pub(crate) use tests;

/// A minimal harness for `cargo test <filter>`: words select, flags are ignored.
pub(crate) fn run_all(groups: &[&[Test]]) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&String> = arguments
        .iter()
        .filter(|argument| !argument.starts_with('-'))
        .collect();
    let chosen: Vec<Test> = groups
        .iter()
        .flat_map(|group| group.iter().copied())
        .filter(|(name, _)| {
            words.is_empty() || words.iter().any(|word| name.contains(word.as_str()))
        })
        .collect();
    let mut out = std::io::stdout();
    if arguments.iter().any(|argument| argument == "--list") {
        for (name, _) in &chosen {
            writeln!(out, "{name}: test").unwrap();
        }
        return ExitCode::SUCCESS;
    }
    let (next, failed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                while let Some((name, test)) = chosen.get(next.fetch_add(1, Ordering::SeqCst)) {
                    let ended = catch_unwind(test);
                    let word = if ended.is_ok() { "ok" } else { "FAILED" };
                    failed.fetch_add(usize::from(ended.is_err()), Ordering::SeqCst);
                    let mut out = std::io::stdout();
                    writeln!(out, "test {name} ... {word}").unwrap();
                }
            });
        }
    });
    let failed = failed.into_inner();
    writeln!(out, "\n{} passed; {failed} failed", chosen.len() - failed).unwrap();
    ExitCode::from(u8::from(failed > 0))
}

/// Runs a future on a runtime of its own.
pub(crate) fn wait<F: Future>(future: F) -> F::Output {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

/// The options of a runner whose workers are this binary.
pub(crate) fn options() -> WorkerOptions {
    WorkerOptions::new(std::env::current_exe().unwrap())
}

pub(crate) fn python() -> WorkerPool {
    WorkerPool::python(&options())
}

pub(crate) fn python_with(change: impl FnOnce(&mut WorkerOptions)) -> WorkerPool {
    let mut options = options();
    change(&mut options);
    WorkerPool::python(&options)
}

pub(crate) fn lua() -> WorkerPool {
    WorkerPool::lua(&options())
}

pub(crate) fn lua_with(change: impl FnOnce(&mut WorkerOptions)) -> WorkerPool {
    let mut options = options();
    change(&mut options);
    WorkerPool::lua(&options)
}

pub(crate) fn python3_options() -> Python3Options {
    Python3Options::new(std::env::vars_os().collect(), std::env::temp_dir())
}

/// The user's Python, or nothing, said loudly, where there is none.
pub(crate) fn python3() -> Option<WorkerPool> {
    let there = std::process::Command::new("python3")
        .arg("-c")
        .arg("import sys; sys.exit(sys.version_info < (3, 8))")
        .status()
        .is_ok_and(|status| status.success());
    if !there {
        let mut err = std::io::stderr();
        writeln!(err, "!!! SKIPPED: no python3 (3.8 or newer) on the PATH").unwrap();
    }
    there.then(|| WorkerPool::python3(python3_options()))
}

/// A block that begins on line 1.
pub(crate) fn block(source: &str) -> Script {
    Script {
        source: source.to_owned(),
        first_line: 1,
    }
}

pub(crate) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

/// Runs a block with the state and no variables.
pub(crate) async fn with_state(
    runner: &dyn ScriptRunner,
    source: &str,
    state: Value,
) -> Result<ScriptResult, ScriptFailure> {
    runner
        .run(&block(source), &object(state), &Map::new())
        .await
}

/// Runs a block that sees nothing.
pub(crate) async fn alone(
    runner: &dyn ScriptRunner,
    source: &str,
) -> Result<ScriptResult, ScriptFailure> {
    with_state(runner, source, json!({})).await
}

/// The failure of a block that must fail.
pub(crate) async fn failing(runner: &dyn ScriptRunner, source: &str) -> ScriptFailure {
    match alone(runner, source).await {
        Err(failure) => failure,
        Ok(ended) => panic!(
            "this block should fail, but returned {:.200}:\n{source:.200}",
            ended.returned
        ),
    }
}

/// Waits until `happened` says so; fails after ten seconds.
pub(crate) async fn until(what: &str, mut happened: impl FnMut() -> bool) {
    for _ in 0..6_000 {
        if happened() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("did not happen within a minute: {what}");
}

/// The processes that this one started and that still run (Linux only, elsewhere none are seen),
/// with their command lines.
pub(crate) fn children() -> Vec<(i32, String)> {
    let own = std::process::id().to_string();
    let Ok(entries) = std::fs::read_dir("/proc") else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok())
        .filter_map(|id| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
            let mut rest = stat.rsplit_once(')')?.1.split_ascii_whitespace();
            let (state, parent) = (rest.next()?, rest.next()?);
            let line = std::fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
            (parent == own && state != "Z").then(|| (id, line.replace('\0', " ")))
        })
        .collect()
}
