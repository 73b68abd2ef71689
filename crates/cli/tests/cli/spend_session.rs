//! `cachalot spend SESSION`.

use std::path::Path;

use serde_json::Value;

use crate::support::{CommandOutput, Home};

/// A session with a pause, a summary and another model, and one with a sub-agent.
const WITH_PAUSE: &str = "5b0f8d3e-0d6e-4b53-9d6a-3a3f0f4f1a01";
const WITH_AGENT: &str = "7c2d9a10-6a41-4a86-8a5c-9a4b7c1d2e02";

fn transcripts() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data/transcripts");
    path.canonicalize().unwrap().to_str().unwrap().to_owned()
}

fn spend(home: &Home, arguments: &[&str]) -> CommandOutput {
    let mut command = home.command(&["spend"]);
    command.args(arguments).env("TZ", "UTC");
    command.output().unwrap().into()
}

fn json(home: &Home, arguments: &[&str]) -> Value {
    spend(home, arguments).ok().json()
}

#[test]
fn session_is_shown_answer_by_answer() {
    let home = Home::new();
    let shown = spend(&home, &["5b0f", &transcripts()]).ok();
    insta::assert_snapshot!(shown.stdout);
    assert_eq!(shown.stderr, "");
    let with_agent = spend(&home, &["--session", "7c2d", &transcripts()]).ok();
    insta::assert_snapshot!(with_agent.stdout);
}

#[test]
fn session_document_has_pauses_losses_jumps_and_tools() {
    let home = Home::new();
    let place = transcripts();
    let session = json(&home, &[WITH_PAUSE, &place, "--json"]);
    assert_eq!(session["session"], WITH_PAUSE);
    assert_eq!(session["project"], "/home/ada/shop");
    let turns = session["turns"].as_array().unwrap();
    assert_eq!(turns.len(), 6);
    assert_eq!(turns[0]["tools"], serde_json::json!(["Read"]));
    let cold = &turns[2];
    assert_eq!(cold["pause_ms"], 1_855_000);
    assert_eq!(cold["cache_lifetime_ms"], 300_000);
    assert_eq!(cold["loss"]["cause"], "the cached prefix had expired");
    assert_eq!(cold["jump"]["cause"], "cold_cache");
    // The sum of the turns is that of the table.
    let sum: f64 = turns.iter().map(|turn| turn["usd"].as_f64().unwrap()).sum();
    assert!((sum - session["usd"].as_f64().unwrap()).abs() < 1e-9);
    let table = json(&home, &[&place, "--json", "--by", "session"]);
    let groups = table["groups"].as_array().unwrap();
    let row = groups
        .iter()
        .find(|group| group["name"].as_str().unwrap().ends_with(WITH_PAUSE));
    assert_eq!(row.unwrap()["usd"], session["usd"]);

    let agents = json(&home, &[WITH_AGENT, &place, "--json"]);
    let agents = agents["turns"].as_array().unwrap().iter();
    let agents: Vec<&Value> = agents.map(|turn| &turn["sub_agent"]).collect();
    assert_eq!(agents, [&Value::Null, &Value::from("a1b2c3"), &Value::Null]);
}

#[test]
fn sessions_of_all_programs_are_shown() {
    let home = Home::new();
    let place = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/transcripts");
    let place = place.to_str().unwrap();
    for (id, client) in [
        ("3f69e6cc", "Claude Code"),
        ("01a221d8-1c4e", "Codex"),
        ("bcc6f0da", "Copilot CLI"),
        ("session_f13be06e", "Kimi Code"),
    ] {
        let session = json(&home, &[id, place, "--json"]);
        assert_eq!(session["client"], client);
        let turns = session["turns"].as_array().unwrap();
        assert!(!turns.is_empty());
        let agents = turns.iter().filter(|turn| !turn["sub_agent"].is_null());
        assert_eq!(agents.count(), usize::from(client == "Claude Code"));
    }
}

#[test]
fn wrong_sessions_and_options_are_refused() {
    let home = Home::new();
    let place = transcripts();
    let shown = [
        spend(&home, &["ffff", &place]).fails(1),
        spend(&home, &["--session", "01a0b1c2", &place]).fails(1),
        spend(&home, &["5b0f", &place, "--csv"]).fails(2),
        spend(&home, &["--session", "5b0f", &place, "--since", "7d"]).fails(2),
    ];
    let shown = shown.map(|failed| failed.shown(&home).replace(&place, "[transcripts]"));
    insta::assert_snapshot!(shown.join("\n"));
    // A path that does not exist is no session.
    let absent = spend(&home, &["./absent", &place]).fails(1);
    assert!(absent.stderr.contains("absent does not exist"), "{absent}");
}
