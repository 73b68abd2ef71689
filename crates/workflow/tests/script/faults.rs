//! Faults of a block do not affect others.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cachalot_workflow::script::ScriptRunner;
use serde_json::{Map, json};

use crate::harness::{self, alone, block, failing, python_with, tests, until, wait};

tests!(
    worker_starts_with_the_first_block,
    endless_loop_is_stopped_and_the_next_block_works,
    unresponsive_worker_is_killed,
    memory_of_a_block_is_bounded,
    deep_recursion_fails_its_block_only,
    deeply_nested_source_fails_its_block_only,
    worker_killed_during_a_block_fails_it_and_is_replaced,
    worker_killed_between_blocks_is_replaced_silently,
    eight_blocks_run_concurrently,
    cancel_kills_the_worker,
    dropping_the_runner_ends_its_workers,
    runner_can_outlive_its_runtime,
    workers_are_reused,
    program_that_is_not_a_worker_is_reported,
    worker_ends_when_its_input_closes_even_in_a_block,
    worker_without_a_greeting_exits,
);

fn worker_starts_with_the_first_block() {
    let runner = python_with(|options| options.program = PathBuf::from("/nonexistent"));
    drop(runner);
}

fn endless_loop_is_stopped_and_the_next_block_works() {
    wait(async {
        let runner = python_with(|options| {
            options.time_limit = Duration::from_millis(300);
            options.workers = 1;
        });
        for source in [
            "print('on')\nwhile True: pass",
            "print('on')\ndef f():\n  while True:\n    [v for v in [1]]\nf()",
            "print('on')\nlist(map(lambda v: v, range(1000000000000000)))",
        ] {
            let started = Instant::now();
            let failure = failing(&runner, source).await;
            assert_eq!(failure.kind, "script_timeout", "{source}: {failure}");
            assert!(started.elapsed() < Duration::from_secs(60), "{source}");
            assert_eq!(
                alone(&runner, "return 'next'").await.unwrap().returned,
                json!("next")
            );
        }
    });
}

/// A program that says what a worker says and then nothing: the interpreter's own watch is no help.
#[cfg(unix)]
fn unresponsive_worker_is_killed() {
    wait(async {
        let runner = python_with(|options| {
            options.program = PathBuf::from("/bin/sh");
            options.arguments = vec!["-c".into(), "echo ready; exec sleep 98765".into()];
            options.time_limit = Duration::from_millis(100);
        });
        let failure = failing(&runner, "return 1").await;
        assert_eq!(failure.kind, "script_timeout");
        assert!(failure.message.contains("time limit of 100ms"), "{failure}");
        until("the worker is gone", || !running("sleep 98765")).await;
    });
}

#[cfg(not(unix))]
fn unresponsive_worker_is_killed() {}

fn running(part: &str) -> bool {
    harness::children()
        .iter()
        .any(|(_, line)| line.contains(part))
}

fn memory_of_a_block_is_bounded() {
    wait(async {
        let runner = python_with(|options| {
            options.memory_limit = 64 * 1024 * 1024;
            options.workers = 1;
        });
        let hogs: &[&str] = if cfg!(target_os = "linux") {
            &[
                "x = [0]\nwhile True: x = x + x",
                "x = []\nwhile True: x.append('a' * 1000 + str(len(x)))",
                "return 'a' * 10000000000",
                "x = {}\nwhile True: x[len(x)] = [len(x)]",
                "x = 'a'\nwhile True: x += x",
            ]
        } else {
            &["return 'a' * 10000000000"]
        };
        for source in hogs {
            let failure = failing(&runner, source).await;
            assert_eq!(failure.kind, "script_memory", "{source}: {failure}");
            assert_eq!(
                alone(&runner, "return 'next'").await.unwrap().returned,
                json!("next")
            );
        }
        let ended = alone(&runner, "return len('a' * 10000000)").await.unwrap();
        assert_eq!(ended.returned, json!(10_000_000));
    });
}

fn deep_recursion_fails_its_block_only() {
    wait(async {
        let runner = python_with(|options| options.workers = 1);
        for source in [
            "def f(n): return f(n + 1)\nreturn f(0)",
            "def f(n): return [f(n + 1)]\nreturn f(0)",
            "f = lambda g: g(g)\nreturn f(f)",
            "x = []\nfor _ in range(200000): x = [x]\nreturn json.dumps(x)",
            "x = y = []\nfor _ in range(200000): x, y = [x], [y]\nreturn x == y",
            "return json.loads('[' * 200000)",
        ] {
            let failure = failing(&runner, source).await;
            assert!(
                ["script_error", "script_worker", "script_unsupported"].contains(&failure.kind),
                "{source}: {failure}"
            );
            assert_eq!(
                alone(&runner, "return 1").await.unwrap().returned,
                json!(1),
                "{source}"
            );
        }
        let failure = failing(&runner, "def f(n): return f(n + 1)\nf(0)").await;
        assert_eq!(
            failure.message,
            "RecursionError: maximum recursion depth exceeded"
        );
    });
}

fn deeply_nested_source_fails_its_block_only() {
    wait(async {
        let runner = python_with(|options| options.workers = 1);
        for source in crate::checks::deep_sources(100_000) {
            let name: String = source.chars().take(40).collect();
            if let Err(failure) = alone(&runner, &source).await {
                let kinds = ["script_error", "script_unsupported"];
                assert!(kinds.contains(&failure.kind), "{name}: {failure}");
            }
            assert_eq!(alone(&runner, "return 1").await.unwrap().returned, json!(1));
        }
    });
}

#[cfg(target_os = "linux")]
fn worker_killed_during_a_block_fails_it_and_is_replaced() {
    wait(async {
        let runner = python_with(|options| {
            options.workers = 1;
            options.arguments.push("killed-in-its-block".into());
        });
        for signal in ["-KILL", "-ABRT"] {
            let (long, nothing) = (block("while True: pass"), Map::new());
            let running = runner.run(&long, &nothing, &nothing);
            let killing = async {
                // Ready once it has limited itself; then a moment to be in the block.
                tokio::time::sleep(Duration::from_millis(500)).await;
                kill(signal, "killed-in-its-block");
            };
            let (ended, ()) = tokio::join!(running, killing);
            let failure = ended.unwrap_err();
            assert_eq!(failure.kind, "script_worker", "{failure}");
            assert!(failure.message.contains("signal"), "{failure}");
            assert_eq!(alone(&runner, "return 1").await.unwrap().returned, json!(1));
        }
    });
}

#[cfg(target_os = "linux")]
fn worker_killed_between_blocks_is_replaced_silently() {
    wait(async {
        let runner = python_with(|options| options.arguments.push("killed-between-blocks".into()));
        for n in 0..3 {
            let ended = alone(&runner, &format!("return {n}")).await.unwrap();
            assert_eq!(ended.returned, json!(n));
            kill("-9", "killed-between-blocks");
            until("the worker is gone", || !running("killed-between-blocks")).await;
            // Its first thread is gone; the process is when its last one is.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
}

#[cfg(target_os = "linux")]
fn kill(signal: &str, part: &str) {
    let ids: Vec<String> = harness::children()
        .iter()
        .filter(|(_, line)| line.contains(part))
        .map(|(id, _)| id.to_string())
        .collect();
    assert!(!ids.is_empty(), "no worker to kill");
    assert!(
        std::process::Command::new("kill")
            .arg(signal)
            .args(ids)
            .status()
            .unwrap()
            .success()
    );
}

#[cfg(not(target_os = "linux"))]
fn worker_killed_during_a_block_fails_it_and_is_replaced() {}
#[cfg(not(target_os = "linux"))]
fn worker_killed_between_blocks_is_replaced_silently() {}

fn eight_blocks_run_concurrently() {
    wait(async {
        for workers in [1, 2, 8] {
            let runner = python_with(|options| options.workers = workers);
            let runner = &runner;
            let source = "n = state['n']\ntotal = 0\nfor i in range(2000): total += i * n\n\
                          print('block', n)\nreturn {'n': n, 'total': total}";
            let all = (0..8).map(|n| harness::with_state(runner, source, json!({"n": n})));
            for (n, ended) in join_all(all).await.into_iter().enumerate() {
                let ended = ended.unwrap();
                assert_eq!(ended.returned, json!({"n": n, "total": 1_999_000 * n}));
                assert_eq!(ended.printed, format!("block {n}\n"));
            }
        }
    });
}

/// Polls all futures at the same time.
async fn join_all<F: Future>(futures: impl Iterator<Item = F>) -> Vec<F::Output> {
    let mut pending: Vec<_> = futures.map(|future| (Box::pin(future), None)).collect();
    std::future::poll_fn(|context| {
        for (future, output) in &mut pending {
            if output.is_none()
                && let std::task::Poll::Ready(ended) = future.as_mut().poll(context)
            {
                *output = Some(ended);
            }
        }
        if pending.iter().all(|(_, output)| output.is_some()) {
            std::task::Poll::Ready(
                pending
                    .iter_mut()
                    .map(|(_, output)| output.take().unwrap())
                    .collect(),
            )
        } else {
            std::task::Poll::Pending
        }
    })
    .await
}

#[cfg(target_os = "linux")]
fn cancel_kills_the_worker() {
    wait(async {
        let runner = python_with(|options| {
            options.workers = 1;
            options.arguments.push("cancelled".into());
        });
        let (long, nothing) = (block("while True: pass"), Map::new());
        let cancelled = tokio::time::timeout(
            Duration::from_millis(500),
            runner.run(&long, &nothing, &nothing),
        )
        .await;
        assert!(cancelled.is_err());
        until("the cancelled worker is gone", || !running("cancelled")).await;
        assert_eq!(alone(&runner, "return 1").await.unwrap().returned, json!(1));
    });
}

#[cfg(not(target_os = "linux"))]
fn cancel_kills_the_worker() {}

fn dropping_the_runner_ends_its_workers() {
    wait(async {
        let runner = python_with(|options| options.arguments.push("dropped-runner".into()));
        alone(&runner, "return 1").await.unwrap();
        assert!(!cfg!(target_os = "linux") || running("dropped-runner"));
        drop(runner);
        until("the worker is gone", || !running("dropped-runner")).await;
    });
}

fn runner_can_outlive_its_runtime() {
    let runner = wait(async {
        let runner = python_with(|options| options.arguments.push("outlives".into()));
        alone(&runner, "return 1").await.unwrap();
        runner
    });
    drop(runner);
    wait(until("the worker is gone", || !running("outlives")));
}

fn workers_are_reused() {
    wait(async {
        let runner = python_with(|options| options.arguments.push("reused".into()));
        let ids = || -> Vec<i32> {
            harness::children()
                .iter()
                .filter(|child| child.1.contains("reused"))
                .map(|child| child.0)
                .collect()
        };
        alone(&runner, "return 1").await.unwrap();
        let first = ids();
        for source in ["return 2", "raise ValueError()", "x = (", "import os"] {
            alone(&runner, source).await.ok();
        }
        assert_eq!(ids(), first);
        assert!(first.len() == 1 || !cfg!(target_os = "linux"));
    });
}

fn program_that_is_not_a_worker_is_reported() {
    wait(async {
        let missing =
            python_with(|options| options.program = PathBuf::from("/nonexistent/cachalot"));
        let failure = failing(&missing, "return 1").await;
        assert_eq!(failure.kind, "script_worker");
        assert!(
            failure
                .message
                .contains("/nonexistent/cachalot, could not be started"),
            "{failure}"
        );
        if cfg!(unix) {
            for (script, part) in [
                ("echo broken >&2; exit 3", "exit status 3: broken"),
                ("echo hello; sleep 5", "did not report that it was ready"),
            ] {
                let other = python_with(|options| {
                    options.program = PathBuf::from("/bin/sh");
                    options.arguments = vec!["-c".into(), script.into()];
                });
                let failure = failing(&other, "return 1").await;
                assert_eq!(failure.kind, "script_worker");
                assert!(failure.message.contains(part), "{failure}");
            }
            let babbling = python_with(|options| {
                options.program = PathBuf::from("/bin/sh");
                options.arguments =
                    vec!["-c".into(), "echo ready; read x; read y; echo '{}'".into()];
            });
            let failure = failing(&babbling, "return 1").await;
            assert!(failure.message.contains("no proper answer"), "{failure}");
            let confused = python_with(|options| {
                options.program = PathBuf::from("/bin/sh");
                let answer = r#"{"number":7,"answer":{"ended":{"returned":1,"printed":""}}}"#;
                let script = format!("echo ready; read x; while read y; do echo '{answer}'; done");
                options.arguments = vec!["-c".into(), script.into()];
            });
            for _ in 0..2 {
                let failure = failing(&confused, "return 1").await;
                assert_eq!(failure.kind, "script_worker");
                assert!(failure.message.contains("of another block"), "{failure}");
            }
        }
    });
}

fn worker_ends_when_its_input_closes_even_in_a_block() {
    use std::io::{BufRead, BufReader, Write};
    let mut child = std::process::Command::new(std::env::current_exe().unwrap())
        .arg("__script-worker")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    writeln!(input, "{}", json!({"memory_limit": 0})).unwrap();
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    let block = json!({
        "number": 1, "source": "while True: pass", "first_line": 1, "state": {}, "variables": {},
        "time_limit_ms": 600_000, "most_printed": 10, "now": 0,
    });
    writeln!(input, "{block}").unwrap();
    std::thread::sleep(Duration::from_millis(200));
    assert!(child.try_wait().unwrap().is_none());
    let started = Instant::now();
    drop(input);
    assert!(child.wait().unwrap().success());
    assert!(started.elapsed() < Duration::from_secs(60));
}

fn worker_without_a_greeting_exits() {
    for input in ["", "{}\n", "nonsense\n"] {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .arg("__script-worker")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), input.as_bytes()).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(2));
    }
}
