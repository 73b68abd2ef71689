//! `run:` blocks in a whole run.

use crate::support::Home;

fn agent(code: &str) -> String {
    let code: String = code.lines().map(|line| format!("      {line}\n")).collect();
    format!("name: code\nnodes:\n  - name: block\n    run: |\n{code}")
}

#[test]
fn returned_values_are_merged_and_printed_text_is_reported() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        agent("print('seen', state['n'])\nreturn {'m': state['n'] * 2}"),
    );
    let ran = home.run(&["run", "agent.yaml", "-i", "n:=21"]).ok();
    assert_eq!(ran.json()["m"], 42);
    assert!(ran.stderr.contains("seen 21"), "{ran}");
}

#[test]
fn an_error_names_the_line_of_the_file() {
    let home = Home::new();
    home.write("agent.yaml", agent("x = 1\nreturn {'y': x / 0}"));
    let ran = home.run(&["run", "agent.yaml"]).fails(1);
    assert!(ran.stderr.contains("ZeroDivisionError"), "{ran}");
    assert!(ran.stderr.contains(":6"), "line 6 of the file: {ran}");
}

#[test]
fn endless_block_fails_its_node_only() {
    let home = Home::new();
    let agent = agent("while True:\n    pass").replace(
        "name: code\n",
        "name: code\nsettings:\n  python:\n    time_limit: 0.5\n",
    );
    home.write("agent.yaml", agent);
    let ran = home.run(&["run", "agent.yaml"]).fails(1);
    assert!(ran.stderr.contains("block"), "{ran}");
}

#[test]
fn embedded_block_has_no_access_to_files_processes_or_network() {
    let home = Home::new();
    for code in [
        "open('stolen.txt', 'w')",
        "import subprocess",
        "import socket",
        "import os\nos.listdir('/')",
    ] {
        home.write("agent.yaml", agent(&format!("{code}\nreturn {{}}")));
        let ran = home.run(&["run", "agent.yaml", "--python", "embedded"]);
        assert_ne!(ran.code, Some(0), "{code}");
        assert!(!home.join("stolen.txt").exists());
    }
}

/// Returns whether the machine has no `python3`, and reports it.
pub(crate) fn has_no_python3() -> bool {
    let version = std::process::Command::new("python3")
        .arg("--version")
        .output();
    if version.is_err() {
        let _ = std::io::Write::write_all(
            &mut std::io::stderr(),
            b"skipped: there is no python3 on this machine\n",
        );
    }
    version.is_err()
}

#[test]
fn runner_is_selected_by_the_file_or_the_command_line() {
    if has_no_python3() {
        return;
    }
    let home = Home::new();
    let code = agent("import sys\nreturn {'own': 'python' in sys.executable}");
    home.write("agent.yaml", &code);
    home.run(&["run", "agent.yaml", "--sandbox=off"]).fails(2);
    let ran = home.run(&["run", "agent.yaml", "--python", "python3"]).ok();
    assert_eq!(ran.json()["own"], true);
    let chosen = code.replace("nodes:", "settings: {python: {runner: python3}}\nnodes:");
    home.write("agent.yaml", chosen);
    let ran = home.run(&["run", "agent.yaml"]).ok();
    assert_eq!(ran.json()["own"], true);
    home.run(&["run", "agent.yaml", "--python", "embedded"])
        .fails(2);
    let ran = home
        .run(&["validate", "agent.yaml", "--python", "cpython"])
        .fails(2);
    assert!(
        ran.stderr
            .contains("[possible values: auto, python3, embedded]"),
        "{ran}"
    );
}

#[test]
fn python3_runs_only_when_selected() {
    if has_no_python3() {
        return;
    }
    let home = Home::new();
    let own = agent("import hashlib\nreturn {'h': hashlib.md5(b'').hexdigest()}")
        .replace("    run: |", "    language: python3\n    run: |");
    home.write("agent.yaml", own);
    let ran = home.run(&["run", "agent.yaml", "--python", "python3"]).ok();
    assert_eq!(ran.json()["h"], "d41d8cd98f00b204e9800998ecf8427e");
}

/// Code for CPython that tries what a sandbox prevents, and reports what it could do.
const TRIES: &str = r#"
import os, re, socket, tempfile
done = []
def attempt(name, action):
    try:
        action()
        done.append(name)
    except OSError:
        pass
attempt("work", lambda: open("made.txt", "w").close())
attempt("temporary", lambda: tempfile.TemporaryFile().close())
attempt("instructions", lambda: open("AGENTS.md", "w").close())
attempt("key", lambda: open(os.path.expanduser("~/.ssh/id")).read())
outside = "../of-the-sandbox-test-" + str(state["port"])
attempt("outside", lambda: (open(outside, "w").close(), os.remove(outside)))
attempt("unix", lambda: socket.socket(socket.AF_UNIX))
attempt("network", lambda: socket.create_connection(("127.0.0.1", state["port"]), 5))
state["seen"] = state.get("seen", 0) + 1
return {"done": done, "words": re.findall(r"\w+", "a b"), "variable": os.environ.get("SOME_TOKEN")}
"#;

/// Asked once on a terminal, and otherwise refused.
#[cfg(unix)]
#[test]
fn a_file_that_needs_the_network_is_asked_about_once() {
    if has_no_python3() || !super::sandbox::has_namespaces() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("port:={}", listener.local_addr().unwrap().port());
    let home = Home::new();
    let asking = |code: &str| format!("settings: {{python: {{network: true}}}}\n{}", agent(code));
    home.write("agent.yaml", asking(TRIES.trim()));
    let arguments = ["run", "agent.yaml", "-i", &port];
    let refused = home.run(&arguments).fails(2);
    assert!(refused.stderr.contains("needs-network"), "{refused}");
    let terminal = || crate::terminal::Terminal::start(&mut home.command(&arguments));
    let mut refusing = terminal();
    refusing
        .see("asks for the network")
        .press("n\r")
        .see("needs-network");
    assert_eq!(refusing.ended(), Some(2));
    let mut permitting = terminal();
    permitting
        .see("asks for the network")
        .press("y\r")
        .see("saved in ")
        .see("\"network\"");
    assert_eq!(permitting.ended(), Some(0));
    // Not asked again.
    let ran = home.run(&arguments).ok();
    assert!(ran.stdout.contains("\"network\""), "{ran}");
    // Another file, and one that does not ask for it, have none.
    home.write("other.yaml", asking(TRIES.trim()));
    home.run(&["run", "other.yaml", "-i", &port]).fails(2);
    home.write("agent.yaml", agent(TRIES.trim()));
    let ran = home.run(&arguments).ok();
    assert!(!ran.stdout.contains("\"network\""), "{ran}");
    home.write(".config/cachalot/sandbox.yaml", "network: true\n");
    let ran = home.run(&arguments).ok();
    assert!(!ran.stdout.contains("\"network\""), "{ran}");
    home.write("agent.yaml", asking(TRIES.trim()));
    let ran = home.run(&arguments).ok();
    assert!(ran.stdout.contains("\"network\""), "{ran}");
}

#[test]
fn python3_runs_in_a_sandbox_where_there_is_one() {
    if has_no_python3() || !super::sandbox::has_namespaces() {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = format!("port:={}", listener.local_addr().unwrap().port());
    let home = Home::new();
    home.write(".ssh/id", "of-the-user");
    home.write("agent.yaml", agent(TRIES.trim()));
    let run = |arguments: &[&str]| {
        let arguments = [&["run", "agent.yaml", "--json", "-i", &port], arguments].concat();
        let ran = home
            .command(&arguments)
            .env("SOME_TOKEN", "x")
            .output()
            .unwrap();
        assert!(
            ran.status.success(),
            "{}",
            String::from_utf8_lossy(&ran.stderr)
        );
        serde_json::from_slice::<serde_json::Value>(&ran.stdout).unwrap()
    };
    let ran = run(&[]);
    let state = &ran["state"];
    assert_eq!(
        state["done"],
        serde_json::json!(["work", "temporary"]),
        "{ran}"
    );
    assert_eq!(state["words"], serde_json::json!(["a", "b"]));
    assert_eq!(
        (&state["seen"], &state["variable"]),
        (&1.into(), &serde_json::Value::Null)
    );
    let python = &ran["report"]["python"];
    assert_eq!(
        (&python["runner"], &python["sandbox"]),
        (&"python3".into(), &true.into())
    );
    let version = python["version"].as_str().unwrap();
    assert!(version.starts_with("3."), "{version}");
    let ran = run(&["--sandbox-network"]);
    assert_eq!(
        ran["state"]["done"],
        serde_json::json!(["work", "temporary", "network"])
    );
    // The control: without a sandbox, all of it can be done.
    let ran = run(&["--python", "python3", "--sandbox=off"]);
    assert_eq!(ran["state"]["done"].as_array().unwrap().len(), 7, "{ran}");
    assert_eq!(ran["report"]["python"]["sandbox"], false);
    assert_eq!(ran["state"]["variable"], "x");
}

#[test]
fn without_a_sandbox_python_is_embedded_and_the_own_one_needs_the_flag() {
    if has_no_python3() || !super::sandbox::has_namespaces() {
        return;
    }
    let home = Home::new();
    // In a sandbox, no sandbox can be made.
    let run = |arguments: &[&str]| {
        let program = home.command(&[]).get_program().to_owned();
        let program = program.to_str().unwrap();
        let home_of_user = home.path().canonicalize().unwrap();
        let write = home_of_user.to_str().unwrap();
        let limits = [
            "sandbox-helper",
            "--visible",
            program,
            "--write",
            write,
            "--",
        ];
        home.run(&[&limits[..], &[program], arguments].concat())
    };
    home.write("agent.yaml", agent("return {'x': state['n'] + 1}"));
    let ran = run(&["run", "agent.yaml", "--json", "-i", "n:=1"]).ok();
    assert_eq!(ran.json()["state"]["x"], 2);
    assert_eq!(ran.json()["report"].get("python"), None);
    home.write("agent.yaml", agent("import subprocess\nreturn {'x': 1}"));
    let ran = run(&["run", "agent.yaml"]).fails(2);
    assert!(ran.stderr.contains("script-unsupported"), "{ran}");
    home.write(
        "agent.yaml",
        agent("import subprocess\nreturn {'x': 1}")
            .replace("    run: |", "    language: python3\n    run: |"),
    );
    let ran = run(&["run", "agent.yaml"]).fails(2);
    assert!(ran.stderr.contains("no-sandbox"), "{ran}");
    assert!(
        ran.stderr
            .contains("`--python python3` runs it without a sandbox"),
        "{ran}"
    );
    run(&["validate", "agent.yaml"]).fails(2);
    let ran = run(&["run", "agent.yaml", "--python", "python3"]).ok();
    assert_eq!(ran.json()["x"], 1);
}

#[test]
fn network_in_code_is_refused_without_the_flag() {
    if has_no_python3() || !super::sandbox::has_namespaces() {
        return;
    }
    let home = Home::new();
    let asking =
        agent("return {'x': 1}").replace("nodes:", "settings: {python: {network: true}}\nnodes:");
    home.write("agent.yaml", asking);
    let ran = home.run(&["run", "agent.yaml"]).fails(2);
    assert!(ran.stderr.contains("needs-network"), "{ran}");
    home.run(&["run", "agent.yaml", "--sandbox-network"]).ok();
    home.run(&["validate", "agent.yaml"]).ok();
}

#[test]
fn validate_compiles_with_the_own_python_and_says_what_only_it_runs() {
    if has_no_python3() || !super::sandbox::has_namespaces() {
        return;
    }
    let home = Home::new();
    // An error of CPython's compiler, not of its grammar.
    let code = "def f():\n  nonlocal z\nreturn {'x': 1}";
    home.write("agent.yaml", agent(code));
    let ran = home.run(&["validate", "agent.yaml"]).fails(2);
    assert!(
        ran.stderr.contains("no binding for nonlocal 'z' found"),
        "{ran}"
    );
    assert!(ran.stderr.contains("script-syntax"), "{ran}");
    assert!(ran.stderr.contains("agent.yaml:6"), "{ran}");
    home.write(
        "agent.yaml",
        agent("x = 1\nimport subprocess\nreturn {'x': x}"),
    );
    let ran = home.run(&["validate", "agent.yaml"]).ok();
    assert!(
        ran.stderr.contains("only with Python: agent.yaml:6"),
        "{ran}"
    );
    assert!(ran.stderr.contains("subprocess"), "{ran}");
    let ran = home.run(&["validate", "agent.yaml", "--json"]).ok();
    assert_eq!(
        ran.json()["python_only"].as_array().unwrap().len(),
        1,
        "{ran}"
    );
}

#[cfg(unix)]
#[test]
fn validate_runs_no_program_of_a_file_outside_of_a_sandbox() {
    use std::os::unix::fs::PermissionsExt as _;
    if has_no_python3() || !super::sandbox::has_namespaces() {
        return;
    }
    let home = Home::new();
    let program = home.write("evil", "#!/bin/sh\necho ran >&2\ntouch made\n");
    std::fs::set_permissions(program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let file = agent("return {'x': 1}").replace(
        "nodes:",
        "settings: {python: {runner: python3}, python3: {command: ./evil}}\nnodes:",
    );
    home.write("agent.yaml", file);
    let ran = home.run(&["validate", "agent.yaml"]).fails(2);
    assert!(ran.stderr.contains("script-worker"), "{ran}");
    assert!(ran.stderr.contains("ran"), "the control: {ran}");
    assert!(!home.join("made").exists());
}

#[test]
fn files_of_the_directory_do_not_replace_the_standard_library_of_the_worker() {
    if has_no_python3() || !super::sandbox::has_namespaces() {
        return;
    }
    let home = Home::new();
    for module in ["types", "queue", "json", "resource"] {
        home.write(&format!("{module}.py"), "raise SystemExit(module)");
    }
    home.write("own.py", "value = 7");
    home.write(
        "agent.yaml",
        agent("import own\nreturn {'x': json.loads(str(own.value))}"),
    );
    let ran = home.run(&["run", "agent.yaml"]).ok();
    assert_eq!(ran.json()["x"], 7);
}

#[test]
fn memory_limit_holds_in_the_own_python_too() {
    if has_no_python3() || !super::sandbox::has_namespaces() {
        return;
    }
    let home = Home::new();
    let asking = agent("import re\nx = b'x' * (1 << 28)\nreturn {'x': len(x)}");
    home.write("agent.yaml", &asking);
    home.run(&["run", "agent.yaml"]).ok();
    let limited = asking.replace(
        "nodes:",
        "settings: {python: {memory_limit: 67108864}}\nnodes:",
    );
    home.write("agent.yaml", limited);
    let ran = home.run(&["run", "agent.yaml"]).fails(1);
    assert!(ran.stderr.contains("script_memory"), "{ran}");
    assert!(ran.stderr.contains("memory_limit"), "{ran}");
}

#[test]
fn a_constant_of_the_file_is_a_value_in_code() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        "name: x\nvariables: {limit: 2, word: \"a'b\"}\nnodes:\n  - name: a\n    run: |\n      return {'x': [1, 2, 3][:${limit}], 'y': ${word}}\n",
    );
    for runner in ["embedded", "python3"] {
        if runner == "python3" && has_no_python3() {
            continue;
        }
        let ran = home.run(&["run", "agent.yaml", "--python", runner]).ok();
        assert_eq!(ran.json(), serde_json::json!({"x": [1, 2], "y": "a'b"}));
    }
}

#[test]
fn endless_cycle_is_refused_and_a_conditional_one_hits_the_limit() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        "name: x\nnodes: [{name: a, goto: b}, {name: b, goto: a}]\n",
    );
    let ran = home.run(&["validate", "agent.yaml"]).fails(2);
    assert!(ran.stderr.contains("endless-cycle"), "{ran}");
    assert!(ran.stderr.contains("`a` → `b` → `a`"), "{ran}");
    home.write(
        "agent.yaml",
        "name: x\nnodes: [{name: a, goto: [{if: state.done, to: __end__}, {to: a}]}]\n",
    );
    let ran = home.run(&["run", "agent.yaml"]).fails(1);
    assert!(ran.stderr.contains("stopped after 10,000 nodes"), "{ran}");
    assert!(ran.stderr.contains("`a` 10,000 times"), "{ran}");
    assert!(ran.stderr.lines().count() < 40, "{ran}");
}

#[test]
fn template_in_code_is_a_warning() {
    let home = Home::new();
    home.write("agent.yaml", agent("return {'x': '{{ state.y }}'}"));
    let ran = home.run(&["validate", "agent.yaml"]).ok();
    assert!(ran.stderr.contains("template-in-code"), "{ran}");
    let ran = home.run(&["run", "agent.yaml"]).ok();
    assert!(ran.stderr.contains("is not rendered"), "{ran}");
    assert_eq!(ran.json()["x"], "{{ state.y }}");
}
