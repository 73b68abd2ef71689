//! `cachalot sessions`.

use serde_json::json;

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::Home;

#[test]
fn sessions_are_listed_shown_and_removed() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    let first = session(
        &home
            .ask(&provider, &["agent.yaml", "--yes"], "run echo hi\u{7}")
            .ok(),
    );
    let second = session(&home.ask(&provider, &["agent.yaml"], "hello").ok());
    let listed = home.run(&["sessions", "ls"]).ok();
    let lines: Vec<&str> = listed.stdout.lines().collect();
    assert_eq!(lines.len(), 3, "{listed}");
    assert!(lines[0].starts_with("session "), "{listed}");
    assert!(
        lines[1].starts_with(&second) && lines[1].ends_with("  hello"),
        "{listed}"
    );
    assert!(
        lines[2].starts_with(&first) && lines[2].ends_with("  run echo hi␇"),
        "{listed}"
    );
    for expected in ["root", "openai/gpt-4o", "$0.0"] {
        assert!(lines[2].contains(expected), "{expected}: {listed}");
    }
    let reported = home.run(&["sessions", "ls", "--json"]).ok().json();
    assert_eq!(
        (&reported[0]["id"], &reported[1]["id"]),
        (&json!(second), &json!(first))
    );
    assert_eq!(
        (&reported[1]["messages"], &reported[1]["parent"]),
        (&json!(4), &json!(null))
    );
    assert!(reported[1]["input_tokens"].as_u64().unwrap() > 0);

    let shown = home.run(&["sessions", "show", &first[..8]]).ok();
    for expected in [
        "session ",
        &first,
        "user:\n  run echo hi␇\n",
        "root:\n  I run it.\n  → shell {",
        "  ← shell\n    hi",
        "  It said: hi",
    ] {
        assert!(shown.stdout.contains(expected), "{expected}: {shown}");
    }
    assert!(
        !shown.stdout.contains('\u{7}'),
        "nothing that a terminal obeys"
    );
    let shown = home
        .run(&["sessions", "show", &first, "--json"])
        .ok()
        .json();
    assert_eq!(shown["messages"].as_array().unwrap().len(), 4);
    assert_eq!(
        shown["messages"][0]["content"][0]["text"],
        "run echo hi\u{7}"
    );

    let removed = home.run(&["sessions", "rm", &first[..8]]).ok();
    assert_eq!(
        (removed.stdout.trim(), removed.stderr.trim()),
        (first.as_str(), "removed 1 session")
    );
    home.run(&["sessions", "show", &first]).fails(1);
    home.ask(&provider, &["agent.yaml", "--session", &first], "hello")
        .fails(1);
    let removed = home.run(&["sessions", "rm", "--all", "--json"]).ok();
    assert_eq!(removed.json(), json!({"removed": [second], "count": 1}));
    let none = home.run(&["sessions", "ls"]).ok();
    assert_eq!(none.stdout, "");
    assert!(none.stderr.contains("cachalot chat"), "{none}");
    assert_eq!(
        home.run(&["sessions", "ls", "--json"]).ok().json(),
        json!([])
    );
}

#[test]
fn sessions_show_raw_prints_the_sent_bytes() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    let name = session(
        &home
            .ask(&provider, &["agent.yaml", "--yes"], "run echo hi")
            .ok(),
    );
    let output = home
        .command(&["sessions", "show", &name, "--raw"])
        .output()
        .unwrap();
    assert!(output.status.success());
    let raw = String::from_utf8(output.stdout).unwrap();
    let received = provider.received();
    let sent = std::str::from_utf8(&received.last().unwrap().body).unwrap();
    // The last answer came after the last request.
    let end = sent.find("]").unwrap();
    let both = raw
        .bytes()
        .zip(sent.bytes())
        .take_while(|(one, other)| one == other)
        .count();
    assert!(
        both > end && both > sent.len() / 2,
        "{both} of {}:\n{raw}\n{sent}",
        sent.len()
    );
    assert!(raw[both..].contains("It said: hi"), "{}", &raw[both..]);
    assert!(!raw.ends_with('\n'));
}

#[test]
fn sub_agent_sessions_are_listed_on_demand_and_removed_with_parents() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write(
        "team.yaml",
        "agents:\n  lead: {model: openai/gpt-4o, sub_agents: [helper]}\n  helper: {model: openai/gpt-4o}\n",
    );
    let name = session(&home.ask(&provider, &["team.yaml"], "delegate x").ok());
    let listed = home.run(&["sessions", "ls", "--json"]).ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 1, "{listed}");
    let all = home.run(&["sessions", "ls", "--all", "--json"]).ok().json();
    assert_eq!(all.as_array().unwrap().len(), 2, "{all}");
    let helper = all
        .as_array()
        .unwrap()
        .iter()
        .find(|one| one["agent"] == "helper")
        .unwrap();
    assert_eq!(helper["parent"], json!(name));
    home.run(&["sessions", "show", helper["id"].as_str().unwrap()])
        .ok();
    let removed = home.run(&["sessions", "rm", &name]).ok();
    assert!(removed.stderr.contains("removed 2 sessions"), "{removed}");
    assert_eq!(
        home.run(&["sessions", "ls", "--all", "--json"]).ok().json(),
        json!([])
    );
}

#[test]
fn missing_sessions_are_reported_before_any_is_removed() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    let name = session(&home.ask(&provider, &["agent.yaml"], "hello").ok());
    for wrong in [
        &["show", "nope"][..],
        &["rm", &name, "nope"],
        &["rm", ""],
        &["show", "\u{1b}[31m"],
    ] {
        let ran = home.run(&[&["sessions"], wrong].concat()).fails(1);
        assert!(ran.stderr.contains("there is no session `"), "{ran}");
        assert!(!ran.stderr.contains('\u{1b}'), "{ran}");
    }
    home.run(&["sessions", "show", &name]).ok();
    home.run(&["sessions", "rm"]).fails(2);
    home.run(&["sessions", "rm", "--all", &name]).fails(2);
    home.run(&["sessions", "show", &name, "--json", "--raw"])
        .fails(2);
    // A name that begins like several is not guessed.
    for _ in 0..20 {
        home.ask(&provider, &["agent.yaml", "-q"], "hello").ok();
    }
    let listed = home.run(&["sessions", "ls", "--json"]).ok().json();
    let names: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["id"].as_str().unwrap())
        .collect();
    let shared = names
        .iter()
        .find(|one| names.iter().filter(|other| other[..1] == one[..1]).count() > 1);
    let ran = home
        .run(&["sessions", "show", &shared.unwrap()[..1]])
        .fails(1);
    assert!(ran.stderr.contains("several sessions begin with"), "{ran}");
}
