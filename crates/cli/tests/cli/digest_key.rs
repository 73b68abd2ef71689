//! The digest key: what is wrong with it costs the cache, not the run.

use std::path::PathBuf;

use crate::support::{CommandOutput, Home, MARKING};

const SECRET: &str = "{\"TOKEN\": \"hunter2\"}";

fn home() -> (Home, PathBuf) {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    home.write("secrets.json", SECRET);
    let key = home.join("data/cachalot/cachalot.db.digest-key");
    (home, key)
}

fn run(home: &Home) -> CommandOutput {
    home.run(&[
        "run",
        "agent.yaml",
        "-i",
        "text=x",
        "--secrets",
        "secrets.json",
    ])
    .ok()
}

#[test]
fn damaged_digest_key_disables_the_cache_with_a_warning() {
    let (home, key) = home();
    assert_eq!(run(&home).json()["answer"]["_cache_stored"], true);
    let good = std::fs::read(&key).unwrap();
    std::fs::write(&key, "short").unwrap();
    for _ in 0..2 {
        let ran = run(&home);
        let answer = &ran.json()["answer"];
        assert_eq!(answer["_cache_hit"], false, "{ran}");
        assert_eq!(answer["_cache_stored"], false, "{ran}");
        let warnings: Vec<&str> = ran
            .stderr
            .lines()
            .filter(|line| line.contains("digest key"))
            .collect();
        let [warning] = warnings[..] else {
            panic!("one warning: {ran}")
        };
        assert_eq!(warning.matches(key.to_str().unwrap()).count(), 1, "{ran}");
        assert!(
            warning.contains("32 bytes") && warning.contains("remove it"),
            "{ran}"
        );
        assert!(!ran.stderr.contains("hunter2"), "{ran}");
    }
    assert_eq!(
        std::fs::read(&key).unwrap(),
        b"short",
        "nothing replaced it"
    );
    std::fs::write(&key, good).unwrap();
    assert_eq!(run(&home).json()["answer"]["_cache_hit"], true);
    assert_eq!(home.runs(), 3);
}

#[test]
fn unusable_digest_key_path_does_not_fail_the_run() {
    let (home, key) = home();
    std::fs::create_dir_all(&key).unwrap();
    let ran = run(&home);
    assert!(ran.stderr.contains("the digest key"), "{ran}");
    home.write(
        "agent.yaml",
        MARKING.replace(
            "name: marking\n",
            "name: marking\nsettings:\n  ltm:\n    backend: in-process\n",
        ),
    );
    let ran = run(&home);
    assert_eq!(ran.json()["answer"]["_cache_stored"], true, "{ran}");
}

#[cfg(unix)]
#[test]
fn a_key_readable_by_others_is_reported_once() {
    use std::os::unix::fs::PermissionsExt as _;
    let (home, key) = home();
    let reported = |ran: &CommandOutput| ran.stderr.matches("is open to others").count();
    assert_eq!(reported(&run(&home)), 0);
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    let ran = run(&home);
    assert_eq!(reported(&ran), 1, "{ran}");
    assert!(
        ran.stderr.contains("mode 644") && ran.stderr.contains("chmod 600"),
        "{ran}"
    );
    assert_eq!(
        ran.json()["answer"]["_cache_hit"],
        true,
        "it is used: {ran}"
    );
    home.run(&[
        "run",
        "agent.yaml",
        "-i",
        "text=x",
        "-q",
        "--secrets",
        "secrets.json",
    ])
    .ok();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(reported(&run(&home)), 0);
}
