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
