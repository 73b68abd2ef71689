//! `kill -9` in the middle of stores: what was said to be stored is there.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use crate::support::Home;

/// A thousand small memoized steps in one run, each telling when it is stored.
const MANY: &str = r#"
name: many
nodes:
  - name: each
    type: dynamic_parallel
    items: "{{ state.items }}"
    max_concurrency: 8
    action:
      uses: cache.wrap
      with:
        action: json.stringify
        key: "item-{{ state.item }}"
        args: {data: {item: "{{ state.item }}"}}
    fan_in: collect
  - name: collect
    fan_in: true
"#;

#[cfg(unix)]
#[test]
fn entries_reported_as_stored_survive_a_kill_of_the_process() {
    let home = Home::new();
    home.write("agent.yaml", MANY);
    let items: Vec<u32> = (0..1_000).collect();
    let input = format!("items:={}", serde_json::to_string(&items).unwrap());
    let mut acknowledged = 0;
    for kill_after in [50, 300, 700] {
        let mut command = home.command(&["run", "agent.yaml", "-i", &input, "--ndjson"]);
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stored = Vec::new();
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let event: serde_json::Value = serde_json::from_str(&line.unwrap()).unwrap();
            // A miss without a reason beyond "not in the cache" was stored before it was told.
            if event["event"] == "answered" && event["reason"] == "not in the cache" {
                stored.push(event["key"].as_str().unwrap().to_owned());
            }
            if stored.len() >= kill_after {
                break;
            }
        }
        child.kill().unwrap();
        child.wait().unwrap();
        acknowledged += stored.len();
        let listed = home.run(&["cache", "ls", "--json"]).ok().json();
        let there: Vec<&str> = listed
            .as_array()
            .unwrap()
            .iter()
            .map(|e| e["handle"].as_str().unwrap())
            .collect();
        for handle in &stored {
            assert!(
                there.contains(&handle.as_str()),
                "{handle} was said to be stored"
            );
        }
        home.run(&["cache", "rm", "--all"]).ok();
    }
    assert!(acknowledged >= 1_000, "{acknowledged} stores were seen");
    home.run(&["run", "agent.yaml", "-q", "-i", &input]).ok();
}
