//! `language: python3`: the user's own interpreter.

use std::time::{Duration, Instant};

use cachalot_workflow::script::{Script, ScriptRunner, WorkerPool};
use serde_json::{Map, Value, json};

use crate::harness::{
    self, alone, failing, object, python3, python3_options, tests, wait, with_state,
};

tests!(
    all_of_python_is_available,
    missing_interpreter_is_reported_with_a_remedy,
    interpreter_can_be_given_by_path,
    failures_have_line_and_kind,
    raw_output_is_not_taken_as_an_answer,
    values_convert_exactly,
    blocks_do_not_share_names,
    endless_block_is_killed_with_its_processes,
    block_that_exits_the_process_fails,
    forking_block_answers_once,
    concurrent_blocks_run_in_separate_processes,
    environment_and_directory_are_the_given_ones,
    large_state_and_output_are_passed,
);

fn all_of_python_is_available() {
    let Some(runner) = python3() else { return };
    wait(async {
        let file = tempfile::NamedTempFile::new().unwrap();
        let state = json!({"path": file.path()});
        let source = "import hashlib, os, random, string, time, uuid, statistics\n\
                      class E(Exception): pass\n\
                      def numbers():\n  yield 1\n  yield 2\n\
                      x = {'a': 1, 'b': 2}\ndel x['a']\n\
                      try:\n  raise E('mine')\nexcept E as e:\n  x['e'] = '%s!' % e\n\
                      with open(state['path'], 'w') as f: f.write('written')\n\
                      x['n'] = list(numbers())\nx['h'] = hashlib.sha256(b'').hexdigest()[:8]\nreturn x";
        let ended = with_state(&runner, source, state).await.unwrap();
        assert_eq!(
            ended.returned,
            json!({"b": 2, "e": "mine!", "n": [1, 2], "h": "e3b0c442"})
        );
        assert_eq!(std::fs::read_to_string(file.path()).unwrap(), "written");
    });
}

fn missing_interpreter_is_reported_with_a_remedy() {
    wait(async {
        for (name, path) in [
            ("python3", false),
            ("python3-that-is-not-there", true),
            ("/nonexistent/python3", true),
        ] {
            let mut options = python3_options();
            options.interpreter = name.into();
            options
                .environment
                .retain(|(name, _)| path || name != "PATH");
            let failure = failing(&WorkerPool::python3(options), "return 1").await;
            assert_eq!((failure.kind, failure.line), ("script_worker", Some(1)));
            let part = format!("the block needs the program `{name}` (`language: python3`, ");
            assert!(failure.message.contains(&part), "{failure}");
            assert!(failure.message.contains("install Python 3"), "{failure}");
        }
    });
}

fn interpreter_can_be_given_by_path() {
    let Some(runner) = python3() else { return };
    wait(async {
        let path = alone(&runner, "import sys\nreturn sys.executable")
            .await
            .unwrap()
            .returned;
        let mut options = python3_options();
        options.interpreter = path.as_str().unwrap().into();
        options.environment = Vec::new();
        let ended = alone(&WorkerPool::python3(options), "return 1 + 1")
            .await
            .unwrap();
        assert_eq!(ended.returned, json!(2));
    });
}

fn failures_have_line_and_kind() {
    let Some(runner) = python3() else { return };
    wait(async {
        for (source, line, message) in [
            ("x = 1\nraise ValueError('no')", Some(41), "ValueError: no"),
            (
                "def f():\n  return {}['k']\nreturn f()",
                Some(41),
                "KeyError: 'k'",
            ),
            (
                "class Mine(Exception): pass\nraise Mine('x')",
                Some(41),
                "Mine: x",
            ),
            (
                "json.loads('{')",
                Some(40),
                "json.decoder.JSONDecodeError: Expecting property name",
            ),
            ("x = (1,\n", Some(40), "SyntaxError: "),
            ("x = 1\n  y = 2", Some(41), "IndentationError: "),
            (
                "x = 1\nbreak",
                Some(41),
                "SyntaxError: 'break' outside loop",
            ),
            (
                "import no_such_module",
                Some(40),
                "ModuleNotFoundError: No module named 'no_such_module'",
            ),
            (
                "import sys\nsys.exit(3)",
                Some(41),
                "SystemExit: 3; the block called exit",
            ),
            (
                "raise SystemExit",
                Some(40),
                "SystemExit; the block called exit",
            ),
            ("raise KeyboardInterrupt", Some(40), "KeyboardInterrupt"),
            (
                "def f(): return f()\nf()",
                Some(40),
                "RecursionError: maximum recursion depth exceeded",
            ),
            (
                "return object()",
                None,
                "the returned value is a value of type object",
            ),
            (
                "import datetime\nreturn [datetime.date.today()]",
                None,
                "the returned value[0] is a value of type date, which JSON does not have; return value.isoformat()",
            ),
            (
                "return '\\ud800'",
                None,
                "the returned value is text with half a surrogate pair",
            ),
            (
                "def f():\n  yield 1\nreturn f()",
                None,
                "the returned value is a value of type generator",
            ),
        ] {
            let script = Script {
                source: source.to_owned(),
                first_line: 40,
            };
            let failure = runner
                .run(&script, &Map::new(), &Map::new())
                .await
                .unwrap_err();
            assert_eq!(failure.kind, "script_error", "{source}: {failure}");
            assert_eq!(failure.line, line, "{source}: {failure}");
            assert!(failure.message.starts_with(message), "{source}: {failure}");
        }
        let failure = failing(&runner, "raise MemoryError()").await;
        assert_eq!(failure.kind, "script_memory");
    });
}

fn raw_output_is_not_taken_as_an_answer() {
    let Some(runner) = python3() else { return };
    wait(async {
        let source = "import os, sys, subprocess\n\
                      os.write(1, b'{\"ended\": {\"returned\": 0, \"printed\": \"\"}}\\n')\n\
                      subprocess.run([sys.executable, '-c', 'print(5)'], check=True)\n\
                      sys.__stdout__.write('x\\n')\nsys.__stdout__.flush()\n\
                      print('seen')\nprint('seen too', file=sys.stderr)\n\
                      return sys.stdin.read() if sys.stdin else ''";
        for _ in 0..2 {
            let ended = alone(&runner, source).await.unwrap();
            assert_eq!(ended.returned, json!(""));
            assert_eq!(ended.printed, "seen\nseen too\n");
        }
    });
}

fn values_convert_exactly() {
    let Some(runner) = python3() else { return };
    wait(async {
        let values = json!({
            "numbers": [0, i64::MIN, u64::MAX, 1.0, -0.0, 0.300_000_000_000_000_04, 5e-324, 1e300],
            "text": "\0\u{1}\"\\é漢🙂\u{2028}\n", "\0float": "0.5", "\0\0float": {"\0float": "x"},
            "empty": [{}, [], ""],
        });
        let ended = with_state(&runner, "return state", values.clone())
            .await
            .unwrap();
        assert_eq!(ended.returned, values);
        assert_eq!(
            ended.returned["numbers"].to_string(),
            values["numbers"].to_string()
        );
    });
}

fn blocks_do_not_share_names() {
    let Some(runner) = python3() else { return };
    wait(async {
        alone(&runner, "leak = 1").await.unwrap();
        let failure = failing(&runner, "return leak").await;
        assert_eq!(failure.message, "NameError: name 'leak' is not defined");
        let state = object(json!({"list": [1]}));
        let script = harness::block("state['list'].append(2)\nreturn state");
        assert_eq!(
            runner
                .run(&script, &state, &Map::new())
                .await
                .unwrap()
                .returned,
            json!({"list": [1, 2]})
        );
        assert_eq!(
            runner
                .run(&script, &state, &Map::new())
                .await
                .unwrap()
                .returned,
            json!({"list": [1, 2]})
        );
    });
}

fn endless_block_is_killed_with_its_processes() {
    if python3().is_none() {
        return;
    }
    wait(async {
        let mut options = python3_options();
        options.time_limit = Duration::from_millis(500);
        let runner = WorkerPool::python3(options);
        let folder = tempfile::tempdir().unwrap();
        let state = json!({"path": folder.path().join("alive")});
        let source = "import subprocess, sys\n\
                      subprocess.Popen([sys.executable, '-c', 'import time, sys\\nwhile True:\\n  \
                      open(sys.argv[1], \"a\").write(\"x\")\\n  time.sleep(0.02)', state['path']])\n\
                      while True: pass";
        let started = Instant::now();
        let failure = with_state(&runner, source, state).await.unwrap_err();
        assert_eq!(failure.kind, "script_timeout");
        assert!(started.elapsed() < Duration::from_secs(60));
        if cfg!(unix) {
            // What it started stops writing.
            let size = || {
                std::fs::metadata(folder.path().join("alive")).map_or(0, |metadata| metadata.len())
            };
            tokio::time::sleep(Duration::from_millis(200)).await;
            let before = size();
            tokio::time::sleep(Duration::from_millis(300)).await;
            assert_eq!(size(), before);
        }
        assert_eq!(alone(&runner, "return 1").await.unwrap().returned, json!(1));
    });
}

#[cfg(unix)]
fn forking_block_answers_once() {
    if python3().is_none() {
        return;
    }
    wait(async {
        let mut options = python3_options();
        options.workers = 1;
        let runner = WorkerPool::python3(options);
        // The copy goes on where the block does, sooner or later than the original.
        for before_return in [
            "",
            "if not child: time.sleep(0.2)",
            "if child: time.sleep(0.2)",
        ] {
            let source = format!("import os, time\nchild = os.fork()\n{before_return}\nreturn 'a'");
            for (source, expected) in [
                (source.as_str(), "a"),
                ("return 'b'", "b"),
                ("import time\ntime.sleep(0.3)\nreturn 'c'", "c"),
                ("return 'd'", "d"),
            ] {
                let ended = alone(&runner, source).await.unwrap();
                assert_eq!(ended.returned, json!(expected), "{before_return}");
            }
        }
        let failing_copy = "import os\nif not os.fork(): raise ValueError\nreturn 'a'";
        for source in [failing_copy, "return 'a'"] {
            assert_eq!(alone(&runner, source).await.unwrap().returned, json!("a"));
        }
    });
}

#[cfg(not(unix))]
fn forking_block_answers_once() {}

fn block_that_exits_the_process_fails() {
    let Some(runner) = python3() else { return };
    wait(async {
        for (source, part) in [
            ("import os\nos._exit(7)", "exit status 7"),
            (
                "import os\nos.write(2, b'last words\\n')\nos.abort()",
                "last words",
            ),
            ("import os\nos.kill(os.getpid(), 9)", "ended by signal 9"),
        ] {
            let failure = failing(&runner, source).await;
            assert_eq!(failure.kind, "script_worker");
            assert!(failure.message.contains(part), "{failure}");
            assert_eq!(alone(&runner, "return 1").await.unwrap().returned, json!(1));
        }
    });
}

fn concurrent_blocks_run_in_separate_processes() {
    let Some(runner) = python3() else { return };
    wait(async {
        // Each block waits until it has seen the files of all the others.
        let folder = tempfile::tempdir().unwrap();
        let source = "import os, time\nopen(os.path.join(state['folder'], str(state['n'])), 'w').close()\n\
                      while len(os.listdir(state['folder'])) < 4: time.sleep(0.01)\nreturn os.getpid()";
        let run = |n: u32| with_state(&runner, source, json!({"folder": folder.path(), "n": n}));
        let (a, b, c, d) = tokio::join!(run(0), run(1), run(2), run(3));
        let mut ids: Vec<String> = [a, b, c, d]
            .map(|ended| ended.unwrap().returned.to_string())
            .to_vec();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 4);
    });
}

fn environment_and_directory_are_the_given_ones() {
    if python3().is_none() {
        return;
    }
    wait(async {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("neighbour.py"), "answer = 42\n").unwrap();
        let mut options = python3_options();
        options.directory = folder.path().to_owned();
        options
            .environment
            .retain(|(name, _)| name == "PATH" || name == "HOME");
        options.environment.push(("ONLY".into(), "this".into()));
        let source = "import os, neighbour\n\
                      return [os.environ.get('ONLY'), 'USER' in os.environ, os.path.realpath(os.getcwd()), neighbour.answer]";
        let ended = alone(&WorkerPool::python3(options), source).await.unwrap();
        let here = folder.path().canonicalize().unwrap();
        assert_eq!(ended.returned, json!(["this", false, here, 42]));
    });
}

fn large_state_and_output_are_passed() {
    let Some(runner) = python3() else { return };
    wait(async {
        let rows: Vec<Value> = (0..20_000)
            .map(|n| json!({"n": n, "half": f64::from(n) / 2.0, "text": "x".repeat(100)}))
            .collect();
        let ended = with_state(&runner, "return state['rows']", json!({"rows": rows}))
            .await
            .unwrap();
        assert_eq!(ended.returned, Value::Array(rows));
        let ended = alone(&runner, "for _ in range(3000): print('é' * 500)")
            .await
            .unwrap();
        let (_, notice) = ended.printed.split_at(1024 * 1024 - 1);
        assert_eq!(
            notice,
            format!(
                "\n[{} more bytes were printed and not kept]\n",
                3_003_000 - 1_048_575
            )
        );
    });
}
