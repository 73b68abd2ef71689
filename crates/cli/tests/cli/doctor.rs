//! `cachalot doctor`.

use cachalot_backends::testing::{PASSWORD, PostgresServer, RedisServer};

use crate::backends::STRINGIFY;
use crate::support::{CommandOutput, Home};

pub(crate) fn check_of(output: &CommandOutput, topic: &str) -> (String, String) {
    check(&output.json(), topic)
}

pub(crate) fn doctor(home: &Home, database: &str) -> CommandOutput {
    let mut command = home.command(&["doctor", "--json"]);
    command
        .env("CACHALOT_DB", database)
        .output()
        .unwrap()
        .into()
}

/// Returns the status of a check, and its remedy.
pub(crate) fn check(report: &serde_json::Value, topic: &str) -> (String, String) {
    let checks = report["checks"].as_array().unwrap();
    let mut found = checks.iter().filter(|check| check["topic"] == topic);
    let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
    let one = found
        .next()
        .unwrap_or_else(|| panic!("{topic}: {report:#}"));
    assert!(found.next().is_none());
    (text(&one["status"]), text(&one["remedy"]))
}

#[test]
fn doctor_checks_stores_on_servers() {
    let home = Home::new();
    if let Some(server) = PostgresServer::shared() {
        let report = doctor(&home, &server.fresh_url()).ok();
        assert!(!report.to_string().contains(PASSWORD), "{report}");
        let report = report.json();
        for topic in ["reach", "latency", "clock", "write", "text search"] {
            assert_eq!(check(&report, topic).0, "ok", "{topic}");
        }
        // The tests' server keeps nothing on the disk.
        let (status, remedy) = check(&report, "persistence");
        assert_eq!(status, "degraded");
        assert!(remedy.contains("set both to on"), "{remedy}");
    }
    if let Some(server) = RedisServer::shared() {
        let url = server.fresh_url();
        let report = doctor(&home, &url).ok();
        assert!(!report.to_string().contains(PASSWORD), "{report}");
        let report = report.json();
        for topic in ["reach", "latency", "clock", "write", "eviction"] {
            assert_eq!(check(&report, topic).0, "ok", "{topic}");
        }
        for (topic, help) in [
            ("text search", "metadata_filter"),
            ("persistence", "appendonly"),
            ("memory", "maxmemory"),
        ] {
            let (status, remedy) = check(&report, topic);
            assert_eq!(status, "degraded", "{topic}");
            assert!(remedy.contains(help), "{remedy}");
        }
        let wrong = doctor(&home, &url.replace(PASSWORD, "wrong-secret")).fails(1);
        let (status, remedy) = check(&wrong.json(), "reach");
        assert_eq!(status, "failed");
        assert!(remedy.contains("REDISCLI_AUTH"), "{remedy}");
        assert!(!wrong.to_string().contains("wrong-secret"), "{wrong}");
        // Nothing is left of the test records.
        let keys = server.execute(&["-n", url.rsplit('/').next().unwrap(), "KEYS", "*r:*"]);
        assert_eq!(keys.trim(), "");
    }
    let unreachable = doctor(&home, "redis://127.0.0.1:1/0").fails(1);
    assert!(
        unreachable.stderr.contains("does not work"),
        "{unreachable}"
    );
    let (status, remedy) = check(&unreachable.json(), "reach");
    assert_eq!(status, "failed");
    assert!(remedy.contains("server runs"), "{remedy}");
}

#[test]
fn doctor_finds_a_store_that_cannot_be_created() {
    let home = Home::new();
    // A file stands in the place of the data directory.
    home.write("data", "");
    let report = home.run(&["doctor", "--json"]).fails(1);
    for topic in ["store", "ledger"] {
        let (status, remedy) = check_of(&report, topic);
        assert_eq!(status, "failed", "{topic}: {report}");
        assert!(remedy.contains("--db or CACHALOT_DB"), "{remedy}");
    }
    assert!(report.stdout.contains("not a directory"), "{report}");
    // Nothing is left behind where the store can be created.
    let fine = Home::new();
    fine.run(&["doctor"]).ok();
    assert_eq!(fine.files(), []);
}

#[test]
fn doctor_checks_a_file() {
    let home = Home::new();
    let absent = home.run(&["doctor"]).ok();
    assert!(absent.stdout.contains("does not exist yet"), "{absent}");
    assert!(!home.database().exists());
    home.write("agent.yaml", STRINGIFY);
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    let checked = home.run(&["doctor"]).ok();
    for line in ["ok", "latency", "p99", "single-flight", "of all processes"] {
        assert!(checked.stdout.contains(line), "{checked}");
    }
    assert!(!checked.stdout.contains("degraded"), "{checked}");
    let stats = home.run(&["cache", "stats", "--json"]).ok();
    assert_eq!(stats.json()["entries"], 1);
    home.write(
        "broken.db",
        "this is no database, and long enough to be one".repeat(100),
    );
    let broken = home.run(&["doctor", "--db", "broken.db"]).fails(1);
    assert!(broken.stdout.contains("failed"), "{broken}");
    let hostile = rusqlite::Connection::open(home.database()).unwrap();
    hostile.execute_batch("CREATE TRIGGER t AFTER INSERT ON records BEGIN INSERT INTO labels WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT 'a', 'b', 'c', x FROM c; END").unwrap();
    drop(hostile);
    let hostile = home.run(&["doctor"]).fails(1);
    assert!(hostile.stdout.contains("has the trigger `t`"), "{hostile}");
}
