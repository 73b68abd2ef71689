//! Nothing leads out of the embedded Python.

use crate::harness::{self, alone, failing, object, python, tests, wait};
use cachalot_workflow::script::ScriptRunner;
use serde_json::{Map, json};

tests!(
    files_environment_and_processes_are_unreachable,
    other_code_cannot_be_imported,
    objects_give_no_access_to_internals,
    worker_process_has_minimal_privileges,
    block_cannot_forge_an_answer,
);

fn files_environment_and_processes_are_unreachable() {
    wait(async {
        let runner = python();
        for (source, part) in [
            ("return open('/etc/passwd')", "the built-in `open`"),
            ("with open('/etc/passwd') as f: pass", "`with`"),
            ("import os\nreturn os.environ", "the module `os`"),
            ("from pathlib import Path", "the module `pathlib`"),
            ("import subprocess", "the module `subprocess`"),
            ("import socket", "the module `socket`"),
            ("import urllib.request", "the module `urllib.request`"),
            ("import ctypes", "the module `ctypes`"),
            ("import multiprocessing", "the module `multiprocessing`"),
        ] {
            let failure = failing(&runner, source).await;
            assert_eq!(failure.kind, "script_unsupported", "{source}: {failure}");
            assert_eq!(failure.line, Some(1), "{source}: {failure}");
            assert!(failure.message.contains(part), "{source}: {failure}");
        }
    });
}

fn other_code_cannot_be_imported() {
    wait(async {
        let runner = python();
        for source in [
            "eval('1')",
            "exec('x = 1')",
            "compile('1', '', 'eval')",
            "__import__('os')",
            "import importlib",
            "import builtins",
            "import sys\nsys.modules",
            "import inspect",
            "import pickle",
            "import code",
            "breakpoint()",
            "input()",
            "import gc",
            "import marshal",
            "print.__globals__",
            "print.__self__",
        ] {
            let failure = failing(&runner, source).await;
            assert!(
                ["script_unsupported", "script_error"].contains(&failure.kind),
                "{source}: {failure}"
            );
        }
    });
}

fn objects_give_no_access_to_internals() {
    wait(async {
        let runner = python();
        for source in [
            "return ().__class__.__bases__[0].__subclasses__()",
            "return (lambda: 0).__globals__",
            "return (lambda: 0).__code__",
            "return [].__class__.__mro__",
            "def f(): pass\nreturn f.__builtins__",
            "return json.__loader__",
            "return json.__dict__",
            "return json.codecs",
            "return '{0.__class__.__init__.__globals__}'.format(json)",
            "try:\n  1 / 0\nexcept Exception as e:\n  return e.__traceback__.tb_frame.f_globals",
        ] {
            let failure = failing(&runner, source).await;
            assert!(
                ["script_unsupported", "script_error"].contains(&failure.kind),
                "{source}: {failure}"
            );
        }
    });
}

/// Should a block ever get past the interpreter, this is what it would find.
#[cfg(target_os = "linux")]
fn worker_process_has_minimal_privileges() {
    wait(async {
        let runner = python();
        let state = object(json!({}));
        let long = harness::block("while True: pass");
        let nothing = Map::new();
        let running = runner.run(&long, &state, &nothing);
        let looking = async {
            let mut worker = None;
            harness::until("the worker runs", || {
                let id = harness::children().into_iter().find_map(|(id, line)| {
                    let read = |file: &str| std::fs::read(format!("/proc/{id}/{file}")).ok();
                    let limits = String::from_utf8(read("limits")?).ok()?;
                    let limited = limits
                        .lines()
                        .any(|limit| limit.starts_with("Max file size") && limit.contains(" 0 "));
                    (line.contains("__script-worker") && limited).then_some((
                        id,
                        limits,
                        read("environ")?,
                    ))
                });
                worker = id;
                worker.is_some()
            })
            .await;
            let (id, limits, environment) = worker.unwrap();
            assert_eq!(environment, b"TZ=UTC0\0");
            let directory = std::fs::read_link(format!("/proc/{id}/cwd")).unwrap();
            assert_eq!(directory, std::path::Path::new("/"));
            for (name, soft) in [
                ("Max core file size", "0"),
                ("Max processes", "0"),
                ("Max open files", "16"),
                ("Max file size", "0"),
            ] {
                let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
                assert_eq!(
                    line[name.len()..].split_whitespace().next(),
                    Some(soft),
                    "{line}"
                );
            }
            let line = limits
                .lines()
                .find(|limit| limit.starts_with("Max address space"))
                .unwrap();
            assert!(!line.contains("unlimited"), "{line}");
        };
        tokio::select! {
            ended = running => panic!("an endless loop ended: {ended:?}"),
            () = looking => {}
        }
    });
}

#[cfg(not(target_os = "linux"))]
fn worker_process_has_minimal_privileges() {}

fn block_cannot_forge_an_answer() {
    wait(async {
        let runner = harness::python_with(|options| options.workers = 1);
        let forged = r#"{"ended":{"returned":"forged","printed":""}}"#;
        let source = format!("print('\\n' + {forged:?} + '\\n')\nreturn 1");
        let ended = alone(&runner, &source).await.unwrap();
        assert_eq!(ended.returned, json!(1));
        assert_eq!(ended.printed, format!("\n{forged}\n\n"));
        assert_eq!(alone(&runner, "return 2").await.unwrap().returned, json!(2));
        let message = "time limit exceeded: 1s > 1s";
        let failure = failing(&runner, &format!("raise ValueError({message:?})")).await;
        assert_eq!(failure.kind, "script_error");
    });
}
