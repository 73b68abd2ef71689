//! A home that version 0.1.0 wrote: its database, ledger, sessions and cassette stay usable.
//!
//! `tests/fixtures/home-0.1.0` was written by that version: `voyage.yaml` was run twice (two payments,
//! two hits), `crew.yaml` was asked twice (one payment, one hit) and then edited a file (one turn of four
//! requests), `voyage.cassette` was exported. Nothing listens at the provider address in its keys, so
//! that only stored answers can satisfy a call.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::provider::Provider;
#[cfg(unix)]
use crate::serve::Gateway;
use crate::support::{CommandOutput, Home, wait_until};

/// The session of the fixture that read a file.
const SESSION: &str = "c36d3de5921d4c1f";
/// The provider address that the fixture's keys were made with.
const PROVIDER: &str = "http://127.0.0.1:4010/v1";

/// A copy of the fixture as the default home of the command.
fn home() -> Home {
    let home = Home::new();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/home-0.1.0");
    let target = |name: &str| -> PathBuf {
        match name.strip_prefix("home.db") {
            Some(suffix) => {
                let mut path = home.database().into_os_string();
                path.push(suffix);
                path.into()
            }
            None => home.join(name),
        }
    };
    std::fs::create_dir_all(home.database().parent().unwrap()).unwrap();
    for entry in std::fs::read_dir(fixture).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        std::fs::copy(entry.path(), target(&name)).unwrap();
    }
    home
}

/// Runs a workflow with the provider address of the fixture.
fn run(home: &Home, arguments: &[&str]) -> CommandOutput {
    let mut command = home.command(&[&["run"], arguments].concat());
    command.env("CACHALOT_EXAMPLE_PROVIDER", PROVIDER);
    CommandOutput::from(command.output().unwrap())
}

/// The totals of `cache stats --json` by the name of what was called.
fn row<'a>(stats: &'a Value, name: &str) -> &'a Value {
    let rows = stats["names"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name);
    &row.unwrap_or_else(|| panic!("no row `{name}` in {stats:#}"))["totals"]
}

#[test]
fn entries_of_the_previous_version_are_hits() {
    let home = home();
    let ran = run(&home, &["voyage.yaml"]).ok();
    assert!(ran.stderr.contains("\npaid 0 calls"), "{ran}");
    assert_eq!(ran.stderr.matches(" hit ").count(), 2, "{ran}");
    assert_eq!(
        ran.json()["notes"]["result"]["content"],
        "# Depth: 2,000 m\n"
    );
    // What changed is paid for, and stored beside what was there.
    home.write("notes.md", "# Depth: 3,000 m\n");
    let ran = run(&home, &["voyage.yaml"]).ok();
    assert!(ran.stderr.contains("\npaid 1 call,"), "{ran}");
    let listed = home.run(&["cache", "ls", "--json"]).ok().json();
    assert_eq!(listed.as_array().map(Vec::len), Some(4), "{listed:#}");
}

#[test]
fn payments_and_totals_of_the_previous_version_are_kept() {
    let home = home();
    let before = home.run(&["cache", "stats", "--json"]).ok().json();
    let paid = |stats: &Value, name: &str| row(stats, name)["misses"].clone();
    assert_eq!(paid(&before, "llm.call"), 1, "{before:#}");
    assert_eq!(row(&before, "llm.call")["hits"], 1, "{before:#}");
    assert_eq!(paid(&before, "root"), 2, "{before:#}");
    assert_eq!(paid(&before, "read_file"), 1, "{before:#}");
    let key =
        "cache:voyage:llm.call:6dd8dd5ab8373b0d1eef19aba0c22f987a2cec15602047b92aa2cd701fbf176b";
    let why = home.run(&["why", key]).ok();
    assert!(
        why.stdout.contains("llm.call") && why.stdout.contains("miss at 2026-11-2"),
        "{why}"
    );
    run(&home, &["voyage.yaml"]).ok();
    let after = home.run(&["cache", "stats", "--json"]).ok().json();
    assert_eq!(paid(&after, "llm.call"), 1, "{after:#}");
    assert_eq!(row(&after, "llm.call")["hits"], 2, "{after:#}");
}

#[test]
fn session_of_the_previous_version_continues() {
    let home = home();
    let sessions = home.run(&["sessions", "ls", "--json"]).ok().json();
    assert_eq!(sessions.as_array().map(Vec::len), Some(3), "{sessions:#}");
    let provider = Provider::scripted("otherwise: {text: 'It lies at {{user}}'}");
    let arguments = ["crew.yaml", "--session", SESSION];
    let ran = home.ask(&provider, &arguments, "Bremerhaven").ok();
    assert_eq!(ran.stdout.trim(), "It lies at Bremerhaven", "{ran}");
    // The whole conversation was sent, its first message included.
    let asked = provider.received();
    assert_eq!(asked.len(), 1, "one request");
    let first = "Read notes.md";
    let body = String::from_utf8_lossy(&asked[0].body);
    assert!(body.contains(first), "{body}");
    // Routed as before, to where its prefix is.
    let key = format!(r#""prompt_cache_key":"{SESSION}""#);
    assert!(body.contains(&key), "{body}");
    let shown = home.run(&["sessions", "show", SESSION]).ok();
    assert!(shown.stdout.contains("Bremerhaven"), "{shown}");
}

#[test]
fn cassette_of_the_previous_version_replays() {
    let home = home();
    let fresh = Home::new();
    for name in ["voyage.yaml", "notes.md", "voyage.cassette"] {
        std::fs::copy(home.join(name), fresh.join(name)).unwrap();
    }
    fresh.run(&["cache", "import", "voyage.cassette"]).ok();
    let ran = run(&fresh, &["--frozen", "voyage.yaml"]).ok();
    assert!(ran.stderr.contains("\npaid 0 calls"), "{ran}");
}

#[test]
fn long_term_memory_of_the_previous_version_is_found() {
    let home = home();
    let workflow = "name: recall\nnodes:\n  - name: look\n    uses: ltm.search\n    with: {query: Bremerhaven}\n    output: found\n";
    home.write("recall.yaml", workflow);
    let found = run(&home, &["recall.yaml"]).ok().json();
    assert!(
        found["found"]
            .to_string()
            .contains("the port of the voyage"),
        "{found:#}"
    );
    assert_ne!(found["found"], json!(null));
}

/// Makes the layout of the store another one, as another version of Cachalot would; returns the one before.
#[cfg(unix)]
fn set_layout(home: &Home, version: i64) -> i64 {
    let database = rusqlite::Connection::open(home.database()).unwrap();
    let before = database.query_row("PRAGMA user_version", [], |row| row.get(0));
    database
        .pragma_update(None, "user_version", version)
        .unwrap();
    before.unwrap()
}

/// A run that another version overtakes goes on without the store, and says so.
#[cfg(unix)]
#[test]
fn run_continues_after_another_version_changed_the_layout() {
    let home = Home::new();
    let workflow = r#"name: overtaken
nodes:
  - name: first
    uses: cache.wrap
    with: {action: json.parse, key: first, args: {text: "[1]"}}
    output: first
  - name: wait
    uses: shell.run
    with: {command: [sh, -c, "touch waiting; while [ ! -e go ]; do sleep 0.02; done"]}
  - name: second
    uses: cache.wrap
    with: {action: json.parse, key: second, args: {text: "[2]"}}
    output: second
  - name: third
    uses: cache.wrap
    with: {action: json.parse, key: third, args: {text: "[3]"}}
    output: third
"#;
    home.write("overtaken.yaml", workflow);
    let mut command = home.command(&["run", "overtaken.yaml"]);
    command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let running = command.spawn().unwrap();
    wait_until(|| home.join("waiting").exists());
    let known = set_layout(&home, 99);
    home.write("go", "");
    let ran = CommandOutput::from(running.wait_with_output().unwrap()).ok();
    let state = ran.json();
    assert_eq!(state["first"]["_cache_stored"], true, "{ran}");
    for (name, result) in [("second", 2), ("third", 3)] {
        assert_eq!(state[name]["result"]["data"][0], result, "{ran}");
        assert_eq!(state[name]["_cache_stored"], false, "{ran}");
        let reason = state[name]["_cache_reason"].as_str().unwrap();
        assert!(reason.contains("store"), "{reason}");
    }
    let warnings = ran.stderr.matches("newer version of Cachalot").count();
    assert_eq!(warnings, 1, "{ran}");
    set_layout(&home, known);
    let again = run(&home, &["overtaken.yaml"]).ok().json();
    let hits = ["first", "second"].map(|name| again[name]["_cache_hit"].clone());
    assert_eq!(hits, [json!(true), json!(false)], "{again:#}");
}

/// A gateway that another version overtakes passes requests on, says so once, and uses the store again under a layout
/// that it knows.
#[cfg(unix)]
#[test]
fn gateway_continues_after_another_version_changed_the_layout() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let gateway = Gateway::start(&home, &provider);
    let ask = |text: &str| {
        let body = format!(
            r#"{{"model": "gpt-4o-mini", "temperature": 0, "messages": [{{"role": "user", "content": "{text}"}}]}}"#
        );
        let answer = gateway.post("x", &body);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer.contains("cachalot; hit")
    };
    ask("before");
    wait_until(|| ask("before"));
    let known = set_layout(&home, 99);
    for _ in 0..3 {
        assert!(!ask("meanwhile"), "nothing is stored");
    }
    set_layout(&home, known);
    wait_until(|| ask("afterwards"));
    assert!(ask("before"));
    let printed = gateway.stop();
    let warnings = printed.matches("continuing without a cache").count();
    assert_eq!(warnings, 1, "{printed}");
    assert!(printed.contains("newer version of Cachalot"), "{printed}");
}
