//! Export, an empty home, import, `--frozen`: the stdout of a warm run.

use crate::support::{Home, MARKING};

#[test]
fn cassette_replays_in_an_empty_home_without_the_upstream() {
    let home = Home::new();
    let server = crate::support::Server::start("{\"answer\": 42, \"pi\": 3.141592653589793}");
    let agent = format!(
        "name: fetching\nnodes:\n  - name: fetch\n    uses: cache.wrap\n    with:\n      action: http.get\n      args:\n        url: {}/data\n    output: fetched\n",
        server.url()
    );
    home.write("agent.yaml", &agent);
    home.run(&["run", "agent.yaml"]).ok();
    let warm = home.run(&["run", "agent.yaml"]).ok();
    let exported = home.run(&["cache", "export", "tape.jsonl"]).ok();
    assert!(exported.stderr.contains("exported 1 entry"), "{exported}");
    let requests = server.stop();
    assert_eq!(requests, 1);

    let elsewhere = Home::new();
    elsewhere.write("agent.yaml", &agent);
    elsewhere.write(
        "tape.jsonl",
        std::fs::read(home.join("tape.jsonl")).unwrap(),
    );
    elsewhere.run(&["run", "agent.yaml", "--frozen"]).fails(1);
    elsewhere.run(&["cache", "import", "tape.jsonl"]).ok();
    let frozen = elsewhere.run(&["run", "agent.yaml", "--frozen"]).ok();
    assert_eq!(frozen.stdout, warm.stdout);
}

/// A workflow whose step has a tag, and whose entry all workflows of the user share if `scope` is
/// `global`.
fn tagged(name: &str, scope: &str) -> String {
    let options = format!("      tags: [{name}-tag]\n      scope: {scope}\n      args:");
    let agent = MARKING.replace("name: marking", &format!("name: {name}"));
    agent.replace("      args:", &options)
}

/// The tags of the entries of a cassette, sorted.
fn tags(home: &Home, cassette: &str) -> Vec<String> {
    let text = std::fs::read_to_string(home.join(cassette)).unwrap();
    let entries = text.lines().skip(1);
    let mut tags: Vec<String> = entries
        .map(|line| {
            let entry: serde_json::Value = serde_json::from_str(line).unwrap();
            let labels = entry["labels"].as_array().unwrap();
            let tag = labels.iter().find(|label| label["name"] == "tag").unwrap();
            tag["value"].as_str().unwrap().to_owned()
        })
        .collect();
    tags.sort();
    tags
}

#[test]
fn export_selects_entries_by_run_workflow_tag_and_pattern() {
    let home = Home::new();
    for name in ["one", "two"] {
        home.write(&format!("{name}.yaml"), tagged(name, "agent"));
    }
    let run = |name: &str| {
        let file = format!("{name}.yaml");
        let ran = home.run(&["run", &file, "-i", &format!("text={name}"), "--json"]);
        ran.ok().json()["report"]["run"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    run("one");
    let last = run("two");
    // A hit is used by a run, too.
    let replayed = run("one");
    for (number, (selection, expected)) in [
        (&["--run", &last][..], &["two-tag"][..]),
        (&["--run", &last[..8]], &["two-tag"]),
        (&["--run", &replayed], &["one-tag"]),
        (&["--run", "last"], &["one-tag"]),
        (&["one.yaml"], &["one-tag"]),
        (&["--tag", "two-tag"], &["two-tag"]),
        (&["--pattern", "cache:one:*"], &["one-tag"]),
        (&["--pattern", "cache:*"], &["one-tag", "two-tag"]),
        (&[], &["one-tag", "two-tag"]),
    ]
    .into_iter()
    .enumerate()
    {
        let cassette = format!("{number}.jsonl");
        let command = [&["cache", "export"][..], selection, &[&cassette]].concat();
        let exported = home.run(&command).ok();
        assert_eq!(tags(&home, &cassette), expected, "{selection:?}");
        let warns = exported.stderr.contains("the cassette holds everything");
        assert_eq!(warns, selection.is_empty(), "{exported}");
    }
}

#[test]
fn workflow_is_exported_with_what_it_shares() {
    let home = Home::new();
    let shared = tagged("shared", "global").replace("name: work", "name: other");
    let (head, nodes) = shared.split_once("nodes:\n").unwrap();
    assert!(head.contains("shared"));
    home.write("both.yaml", format!("{}{nodes}", tagged("both", "agent")));
    home.write("other.yaml", tagged("other", "agent"));
    for file in ["both.yaml", "other.yaml"] {
        home.run(&["run", file, "-i", "text=x"]).ok();
    }
    home.run(&["cache", "export", "both.yaml", "tape.jsonl"])
        .ok();
    assert_eq!(tags(&home, "tape.jsonl"), ["both-tag", "shared-tag"]);
}

#[test]
fn run_whose_hits_the_ledger_has_deleted_is_exported_with_a_warning() {
    let home = Home::new();
    let (head, node) = MARKING.split_once("nodes:\n").unwrap();
    let other = node
        .replace("name: work", "name: other")
        .replace("ran >>", "again >>");
    let agent = format!("{head}settings: {{ledger: {{max_hits: 1}}}}\nnodes:\n{node}{other}");
    home.write("agent.yaml", agent);
    let export_last = || {
        home.run(&["run", "agent.yaml", "-q", "-i", "text=x"]).ok();
        home.run(&["cache", "export", "--run", "last", "tape.jsonl"])
            .ok()
            .stderr
    };
    assert_eq!(export_last(), "exported 2 entries\n");
    let of_hits = export_last();
    assert!(of_hits.contains("may not have all hits"), "{of_hits}");
    assert!(of_hits.contains("exported 1 entry"), "{of_hits}");
}

#[test]
fn export_of_nothing_fails_and_writes_nothing() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    home.write("broken.yaml", "nodes: 1\n");
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    for (selection, code, expected) in [
        (&["--tag", "none"][..], 1, "no entry meets the conditions"),
        (&["--run", "none"], 1, "no calls of a run `none`"),
        (&["missing.yaml"], 2, "missing.yaml"),
        (&["broken.yaml"], 2, "broken.yaml"),
        (&["--run", "last", "agent.yaml"], 2, "cannot be used with"),
    ] {
        let command = [&["cache", "export"][..], selection, &["tape.jsonl"]].concat();
        let refused = home.run(&command).fails(code);
        assert!(refused.stderr.contains(expected), "{refused}");
        assert!(!home.join("tape.jsonl").exists(), "{refused}");
    }
    let forgotten = home.run(&["cache", "export", "agent.yaml"]).fails(2);
    let help = forgotten.unwrapped();
    assert!(help.contains("cache export FILE.yaml CASSETTE"), "{help}");
}

#[test]
fn frozen_ignores_expiry_and_compares_file_contents() {
    let home = Home::new();
    let agent = MARKING.replace(
        "      args:",
        "      ttl_seconds: 0.1\n      depends_on: [dep.txt]\n      args:",
    );
    home.write("agent.yaml", agent);
    home.write("dep.txt", "one");
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    std::thread::sleep(std::time::Duration::from_millis(200));
    home.run(&["run", "agent.yaml", "-i", "text=x", "--frozen"])
        .ok();
    home.write("dep.txt", "one");
    home.run(&["run", "agent.yaml", "-i", "text=x", "--frozen"])
        .ok();
    home.write("dep.txt", "two");
    let changed = home
        .run(&["run", "agent.yaml", "-i", "text=x", "--frozen"])
        .fails(1);
    assert!(changed.stderr.contains("dep.txt"), "{changed}");
    assert_eq!(home.runs(), 1);
}

#[test]
fn import_refuses_invalid_cassettes_with_the_line() {
    let home = Home::new();
    home.write("bad.jsonl", "{\"something\": 1}\n");
    let bad = home.run(&["cache", "import", "bad.jsonl"]).fails(1);
    assert!(bad.stderr.contains("bad.jsonl: line 1"), "{bad}");
    home.write(
        "newer.jsonl",
        "{\"cachalot_cassette\": 99, \"created\": \"\"}\n",
    );
    let newer = home.run(&["cache", "import", "newer.jsonl"]).fails(1);
    assert!(newer.stderr.contains("99"), "{newer}");
    home.run(&["cache", "import", "missing.jsonl"]).fails(1);
    // A line without end.
    #[cfg(target_os = "linux")]
    {
        let endless = home.run(&["cache", "import", "/dev/zero"]).fails(1);
        assert!(
            endless.stderr.contains("line 1: not a cassette"),
            "{endless}"
        );
    }
}
