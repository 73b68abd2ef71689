//! One file by several names: symbolic links and spellings of a path.
#![cfg(unix)]

use std::os::unix::fs::symlink;

use crate::support::{Home, MARKING};

#[test]
fn store_opened_by_a_link_uses_the_same_ledger_and_digest_key() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    home.write("secrets.json", "{\"TOKEN\": \"hunter2\"}");
    std::fs::create_dir(home.join("real")).unwrap();
    symlink("real", home.join("folder")).unwrap();
    // Before there is anything at its end.
    symlink("real/memory.db", home.join("link.db")).unwrap();
    for (index, name) in ["link.db", "real/memory.db", "folder/memory.db"]
        .into_iter()
        .enumerate()
    {
        let ran = home
            .run(&[
                "run",
                "agent.yaml",
                "-i",
                "text=x",
                "--secrets",
                "secrets.json",
                "--db",
                name,
            ])
            .ok();
        assert_eq!(ran.json()["answer"]["_cache_hit"], index > 0, "{name}");
        let stats = home.run(&["cache", "stats", "--json", "--db", name]).ok();
        assert_eq!(stats.json()["totals"]["hits"], index, "{name}: {stats}");
    }
    let mut beside: Vec<_> = std::fs::read_dir(home.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("link.db"))
        .collect();
    beside.sort();
    assert_eq!(beside, ["link.db"], "nothing lies beside the link");
    for ending in ["", ".ledger", ".digest-key", "-stamp"] {
        let name = format!("real/memory.db{ending}");
        assert!(home.join(&name).exists(), "{name}");
    }
}

#[test]
fn entry_erased_by_one_path_is_not_served_by_another() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    symlink("real.db", home.join("link.db")).unwrap();
    let hit = |name: &str| {
        let ran = home
            .run(&["run", "agent.yaml", "-i", "text=x", "--db", name])
            .ok();
        ran.json()["answer"]["_cache_hit"] == true
    };
    assert!(!hit("real.db") && hit("link.db"));
    home.run(&["cache", "rm", "--all", "--db", "link.db"]).ok();
    assert!(!hit("real.db") && hit("link.db"));
}

#[test]
fn unnamed_agent_is_identified_by_its_resolved_file() {
    let home = Home::new();
    home.write("agents/ag.yaml", MARKING.replace("name: marking\n", ""));
    symlink("agents", home.join("link")).unwrap();
    symlink("agents/ag.yaml", home.join("alias.yaml")).unwrap();
    let absolute = home.join("agents/ag.yaml");
    let names = [
        "agents/ag.yaml",
        "./agents/ag.yaml",
        "agents/../agents/ag.yaml",
        "link/ag.yaml",
        "alias.yaml",
        absolute.to_str().unwrap(),
    ];
    for (index, name) in names.into_iter().enumerate() {
        let ran = home.run(&["run", name, "-i", "text=x"]).ok();
        assert_eq!(ran.json()["answer"]["_cache_hit"], index > 0, "{name}");
    }
    assert_eq!(home.runs(), 1);
}
