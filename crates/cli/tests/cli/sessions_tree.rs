//! `cachalot sessions tree`, `export` and `sweep`.

use std::process::Stdio;
use std::sync::Arc;

use cachalot_core::{DigestKey, SecretSet, SystemClock};
use cachalot_model::wire::CHAT;
use cachalot_model::{Format, Message};
use cachalot_prompt::{Prompt, SessionHead, Sessions};
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};
use serde_json::{Value, json};

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::{CommandOutput, Home};

/// Two chats that are identical until one of them goes on, and one about something else.
fn three(home: &Home, provider: &Provider) -> [String; 3] {
    home.write("agent.yaml", SHELL);
    let short = session(&home.ask(provider, &["agent.yaml"], "hello\u{7}").ok());
    let long = session(&home.ask(provider, &["agent.yaml"], "hello\u{7}").ok());
    home.ask(provider, &["agent.yaml", "--session", &long], "and on")
        .ok();
    let other = session(&home.ask(provider, &["agent.yaml"], "something else").ok());
    [short, long, other]
}

fn lines(text: &str) -> Vec<Value> {
    let lines = text.lines();
    lines
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn names(lines: &[Value]) -> Vec<&str> {
    let names = lines.iter();
    names
        .map(|line| line["session"].as_str().unwrap())
        .collect()
}

#[test]
fn sessions_tree_shows_shared_messages() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let [short, long, other] = three(&home, &provider);
    let drawn = home.run(&["sessions", "tree"]).ok().stdout;
    let reported: Vec<&str> = drawn.lines().collect();
    assert_eq!(reported.len(), 8, "{drawn}");
    assert!(
        reported[0].starts_with("3 sessions, 2 leaves · "),
        "{drawn}"
    );
    assert!(reported[2].starts_with("tools to system · "), "{drawn}");
    assert!(reported[2].ends_with(" tokens · 3 sessions"), "{drawn}");
    assert!(reported[3].starts_with("  messages 1–4 · "), "{drawn}");
    assert!(
        reported[3].ends_with(" · 2 sessions · \"hello␇\""),
        "{drawn}"
    );
    let inner = format!("{short}  root (openai/gpt-4o), ends after 2 of 4 pieces");
    assert_eq!(reported[4].trim_start(), inner);
    let leaf = format!("{long}  root (openai/gpt-4o)");
    assert_eq!(reported[5].trim_start(), leaf);
    assert!(reported[6].starts_with("  messages 1–2 · "), "{drawn}");
    assert!(reported[7].trim_start().starts_with(&other), "{drawn}");

    let tree = home.run(&["sessions", "tree", "--json"]).ok().json();
    let sessions = home.run(&["sessions", "ls", "--json"]).ok().json();
    let sent: u64 = sessions
        .as_array()
        .unwrap()
        .iter()
        .map(|session| session["bytes"].as_u64().unwrap())
        .sum();
    let number = |value: &Value| value.as_u64().unwrap();
    assert_eq!(number(&tree["sent_bytes"]), sent);
    let runs = tree["runs"].as_array().unwrap();
    let stored: u64 = runs.iter().map(|run| number(&run["bytes"])).sum();
    assert_eq!(number(&tree["stored_bytes"]), stored);
    assert_eq!(number(&tree["shared_bytes"]), sent - stored);
    let ratio = tree["dedup_ratio"].as_f64().unwrap();
    assert!((ratio - sent as f64 / stored as f64).abs() < 1e-9 && ratio > 1.5);
    assert_eq!((&tree["sessions"], &tree["leaves"]), (&json!(3), &json!(2)));
    assert_eq!(runs[0]["parent"], json!(null));
    assert_eq!(
        (&runs[1]["parent"], &runs[2]["parent"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(runs[1]["sessions"][1]["id"], json!(long));
    assert_eq!(runs[1]["words"], "hello\u{7}");
    assert_eq!(runs[1]["shared_by"], 2);

    let none = home.run(&["sessions", "tree", "--agent", "nobody"]).ok();
    assert_eq!(none.stdout, "");
    assert!(none.stderr.contains("there are no sessions"), "{none}");
}

#[test]
fn sessions_of_sub_agents_name_their_parent() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write(
        "team.yaml",
        "agents:\n  lead: {model: openai/gpt-4o, sub_agents: [helper]}\n  helper: {model: openai/gpt-4o}\n",
    );
    let name = session(&home.ask(&provider, &["team.yaml"], "delegate x").ok());
    let drawn = home.run(&["sessions", "tree"]).ok();
    let expected = format!("  helper (openai/gpt-4o), of {name}\n");
    assert!(drawn.stdout.contains(&expected), "{drawn}");
    let tree = home.run(&["sessions", "tree", "--agent", "helper", "--json"]);
    let tree = tree.ok().json();
    assert_eq!(tree["sessions"], 1);
    let helper = &tree["runs"][0]["sessions"][0];
    assert_eq!(
        (&helper["parent"], &helper["forked"]),
        (&json!(name), &json!(false))
    );
}

#[test]
fn sessions_export_writes_leaf_conversations_as_sent() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let [short, long, other] = three(&home, &provider);
    let exported = home.run(&["sessions", "export"]).ok();
    assert_eq!(exported.stderr.trim(), "exported 2 conversations");
    let reported = lines(&exported.stdout);
    assert_eq!(names(&reported), [&long, &other]);
    let sent: Value = serde_json::from_slice(&provider.received().last().unwrap().body).unwrap();
    let last = &reported[1];
    assert_eq!(last["tools"], sent["tools"]);
    assert_eq!(
        last["system"].as_array().unwrap().as_slice(),
        &sent["messages"].as_array().unwrap()[..1]
    );
    let shown = home
        .run(&["sessions", "show", &other, "--json"])
        .ok()
        .json();
    assert_eq!(last["messages"], shown["messages"]);
    assert_eq!(last["messages"][0]["content"][0]["text"], "something else");
    assert_eq!(last["created"], shown["created"]);
    for (field, value) in [
        ("agent", "root"),
        ("provider", "openai"),
        ("model", "gpt-4o"),
        ("format", "chat"),
    ] {
        assert_eq!(last[field], value);
    }
    assert_eq!(
        (&last["parent"], &last["also"]),
        (&json!(null), &json!(null))
    );

    // Inner ones, too; or those that are named.
    let all = home.run(&["sessions", "export", "--all"]).ok();
    assert_eq!(names(&lines(&all.stdout)), [&short, &long, &other]);
    let one = home.run(&["sessions", "export", &short]).ok();
    assert_eq!(names(&lines(&one.stdout)), [&short]);
    // One that is identical to another one is not told twice.
    let again = session(&home.ask(&provider, &["agent.yaml"], "something else").ok());
    let reported = lines(&home.run(&["sessions", "export"]).ok().stdout);
    assert_eq!(reported.len(), 2);
    assert_eq!(reported[1]["also"], json!([again]));

    home.run(&["sessions", "export", "nope"]).fails(1);
    home.run(&["sessions", "export", "--all", &short]).fails(2);
}

#[test]
fn sessions_export_is_atomic() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    three(&home, &provider);
    let exported = home.run(&["sessions", "export"]).ok().stdout;
    let file = home.write("there.jsonl", "before");
    home.run(&["sessions", "export", "nope", "-o", "there.jsonl"])
        .fails(1);
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "before");
    let ran = home.run(&["sessions", "export", "-o", "there.jsonl"]).ok();
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.trim()),
        ("", "exported 2 conversations")
    );
    assert_eq!(std::fs::read_to_string(&file).unwrap(), exported);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    let beside = home.files().into_iter().map(|(path, _)| path);
    let beside: Vec<_> = beside
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "part")
        })
        .collect();
    assert!(beside.is_empty(), "{beside:?}");
    let ran = home
        .run(&["sessions", "export", "-o", "nowhere/there.jsonl"])
        .fails(1);
    assert!(ran.stderr.contains("nowhere/there.jsonl: "), "{ran}");
    let dash = home.run(&["sessions", "export", "-o", "-"]).ok();
    assert_eq!(dash.stdout, exported);
}

#[cfg(unix)]
#[test]
fn output_that_cannot_be_written_is_an_error() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    three(&home, &provider);
    for command in ["tree", "export"] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let ran = home
            .command(&["sessions", command])
            .stdout(Stdio::from(writer))
            .output();
        let ran = CommandOutput::from(ran.unwrap()).fails(141);
        assert_eq!(ran.stderr, "");
        if cfg!(target_os = "linux") {
            let full = std::fs::File::options().write(true).open("/dev/full");
            let ran = home
                .command(&["sessions", command])
                .stdout(Stdio::from(full.unwrap()))
                .output();
            let ran = CommandOutput::from(ran.unwrap()).fails(1);
            assert!(ran.stderr.contains("No space left"), "{ran}");
        }
    }
}

/// A session with something in it that is known as a secret, as one that was kept before it was known
/// and then written again.
fn holding(home: &Home, secret: &str) -> String {
    let secret_set = SecretSet::with_key(DigestKey::ephemeral().unwrap());
    secret_set.learn(secret);
    let clock = Arc::new(SystemClock);
    let store = SqliteStore::open(&home.database(), SqliteOptions::new(clock.clone())).unwrap();
    let sessions = Sessions::new(Arc::new(store), clock, Arc::new(secret_set));
    let message = Arc::new(Message::user(format!("my key is {secret}")));
    let prompt = Prompt::default().append(&CHAT.message(&message).unwrap(), message);
    let head = SessionHead::new("holding", "root", "openai", "gpt-4o", Format::Chat);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let created = runtime
        .unwrap()
        .block_on(sessions.create_from(head, prompt));
    created.unwrap().head.id.clone()
}

#[test]
fn sessions_with_secrets_are_exported_only_on_demand() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let [_, long, _] = three(&home, &provider);
    let secret = "sk-0123456789abcdef";
    let holding = holding(&home, secret);
    let exported = home.run(&["sessions", "export"]).ok();
    assert!(!exported.stdout.contains(secret), "{exported}");
    assert_eq!(
        exported.stderr.trim(),
        "exported 2 conversations, left out 1 that holds secrets (--with-secrets includes it)"
    );
    for named in [vec![&holding], vec![&long, &holding]] {
        let named: Vec<&str> = named.into_iter().map(|name| &name[..]).collect();
        let ran = home
            .run(&[&["sessions", "export"], &named[..]].concat())
            .fails(1);
        assert_eq!(ran.stdout, "");
        assert!(
            ran.stderr.contains(&holding) && ran.stderr.contains("--with-secrets"),
            "{ran}"
        );
    }
    let exported = home.run(&["sessions", "export", "--with-secrets"]).ok();
    assert_eq!(exported.stderr.trim(), "exported 3 conversations");
    assert!(exported.stdout.contains(secret), "{exported}");
}

#[test]
fn a_damaged_session_is_reported_and_does_not_affect_others() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let [short, long, other] = three(&home, &provider);
    let file = rusqlite::Connection::open(home.database()).unwrap();
    let damaged = file.execute(
        "UPDATE records SET value = X'01' WHERE space = 'sessions' AND key = ?",
        [&other],
    );
    assert_eq!(damaged.unwrap(), 1);
    let drawn = home.run(&["sessions", "tree"]).ok();
    let reported = drawn.stdout.lines().find(|line| line.starts_with(&other));
    assert!(reported.unwrap().contains("cannot be read"), "{drawn}");
    assert!(drawn.stdout.contains("2 sessions, 1 leaf"), "{drawn}");
    let ran = home.run(&["sessions", "export", "--all"]).fails(1);
    assert_eq!(names(&lines(&ran.stdout)), [&short, &long]);
    assert!(ran.stderr.contains("exported 2 conversations"), "{ran}");
    assert!(ran.stderr.contains("1 session cannot be read"), "{ran}");
}

#[test]
fn a_sweep_reports_erased_sessions() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let [.., other] = three(&home, &provider);
    let nothing = home.run(&["sessions", "sweep"]).ok();
    assert_eq!(
        nothing.stderr.trim(),
        "swept nothing: every piece is needed"
    );
    // As a process leaves it that dies while it removes the session.
    let file = rusqlite::Connection::open(home.database()).unwrap();
    let lost = file.execute(
        "DELETE FROM records WHERE space = 'sessions' AND key = ?",
        [&other],
    );
    assert_eq!(lost.unwrap(), 1);
    drop(file);
    let swept = home.run(&["sessions", "sweep"]).ok();
    assert!(
        swept
            .stderr
            .starts_with("swept 2 pieces that no session needs, "),
        "{swept}"
    );
    let swept = home.run(&["sessions", "sweep", "--json"]).ok().json();
    assert_eq!(swept, json!({"pieces": 0, "bytes": 0}));
    assert_eq!(
        home.run(&["sessions", "tree", "--json"]).ok().json()["sessions"],
        2
    );
}
