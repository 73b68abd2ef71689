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
fn block_has_no_access_to_files_processes_or_network() {
    let home = Home::new();
    for code in [
        "open('stolen.txt', 'w')",
        "import subprocess",
        "import socket",
        "import os\nos.listdir('/')",
    ] {
        home.write("agent.yaml", agent(&format!("{code}\nreturn {{}}")));
        assert_ne!(home.run(&["run", "agent.yaml"]).code, Some(0), "{code}");
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
    home.run(&["run", "agent.yaml"]).fails(2);
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
        ran.stderr.contains("[possible values: embedded, python3]"),
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
    let ran = home.run(&["run", "agent.yaml"]).ok();
    assert_eq!(ran.json()["h"], "d41d8cd98f00b204e9800998ecf8427e");
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
