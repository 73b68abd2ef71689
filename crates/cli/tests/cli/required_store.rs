//! `--require-store`: a store that cannot be used is an error before anything is paid for, and a warning without the flag.

use crate::provider::Provider;
use crate::support::{CommandOutput, Home, MARKING};

/// Stores that cannot be used: a server that does not answer, and a path below a file.
const UNUSABLE: [(&str, &str); 2] = [
    ("redis://127.0.0.1:1/0", "Connection refused"),
    ("agent.yaml/x.db", "Not a directory"),
];

#[track_caller]
fn is_refused(ran: CommandOutput, cause: &str) {
    let ran = ran.fails(1);
    for part in ["--require-store: ", cause, "cachalot doctor --db"] {
        assert!(ran.stderr.contains(part), "{part}: {ran}");
    }
    assert_eq!(ran.stdout, "", "{ran}");
}

#[test]
fn run_does_not_start_without_its_store() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    for (store, cause) in UNUSABLE {
        let run = |flags: &[&str]| {
            let arguments = ["run", "agent.yaml", "-i", "text=x", "--db", store];
            home.run(&[&arguments, flags].concat())
        };
        let before = home.runs();
        is_refused(run(&["--require-store"]), cause);
        assert_eq!(home.runs(), before, "{store}");
        let document = run(&["--require-store", "--json"]).fails(1).json();
        assert_eq!(document["error"]["code"], "store-unusable", "{document}");
        let ran = run(&[]).ok();
        assert_eq!(home.runs(), before + 1, "{store}");
        let about_store = |line: &&str| line.starts_with("warning: ") && line.contains(cause);
        let warnings = ran.stderr.lines().filter(about_store);
        let warnings: Vec<&str> = warnings.filter(|line| !line.contains("ledger")).collect();
        assert_eq!(warnings.len(), 1, "{ran}");
    }
    // A store that can be used.
    home.run(&["run", "agent.yaml", "-i", "text=x", "--require-store"])
        .ok();
}

#[test]
fn chat_asks_no_model_without_its_store() {
    let (home, provider) = (Home::new(), Provider::built_in());
    home.write("agent.yaml", "agents: {root: {model: openai/gpt-4o}}\n");
    let ask = |arguments: &[&str]| {
        let arguments = [&["agent.yaml"], arguments].concat();
        home.ask_with(&provider, &arguments, b"hello", |command| {
            command.env("OPENAI_API_KEY", "sk-x");
        })
    };
    for (store, cause) in UNUSABLE {
        is_refused(ask(&["--db", store, "--require-store"]), cause);
        assert_eq!(provider.received().len(), 0);
    }
    ask(&["--require-store"]).ok();
    // Without the flag, the chat goes on, and is not saved.
    for (store, cause) in UNUSABLE {
        let ran = ask(&["--db", store]).ok();
        assert!(ran.stdout.contains("You wrote: hello"), "{ran}");
        let warnings = ran.stderr.matches(cause).count();
        assert!(ran.stderr.contains("chat not saved"), "{ran}");
        assert_eq!(warnings, 1, "{ran}");
        let resumed = ask(&["--db", store, "--resume", "x"]);
        assert_eq!(resumed.code, Some(1), "{resumed}");
    }
}

#[cfg(unix)]
#[test]
fn gateways_do_not_start_without_their_store() {
    let home = Home::new();
    home.write("agent.yaml", "");
    let (store, cause) = UNUSABLE[0];
    let flags = ["--db", store, "--require-store"];
    is_refused(home.run(&[&["serve"], &flags[..]].concat()), cause);
    let exec = [&["exec"], &flags[..], &["--", "touch", "started"]].concat();
    is_refused(home.run(&exec), cause);
    assert!(!home.join("started").exists());
}
