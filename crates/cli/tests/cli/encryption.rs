//! Encrypted stores: from the beginning, or afterwards, and secrets that are replaced.

use std::process::{Command, Stdio};

use cachalot_backends::testing::{PostgresServer, RedisServer};

use crate::backends::{STRINGIFY, patient};
use crate::doctor::{check, check_of};
use crate::provider::{Provider, SHELL, session};
use crate::support::{CommandOutput, Home};

/// Text that no file of an encrypted store contains.
const MARK: &str = "readable-by-me";

/// Stores a memory, and caches an entry.
const REMEMBER: &str = r#"
name: remember
nodes:
  - name: remember
    uses: ltm.store
    with: {key: "{{ state.key }}", value: "readable-by-me {{ state.key }}"}
  - name: work
    uses: cache.wrap
    with: {action: json.stringify, args: {data: "readable-by-me {{ state.key }}"}}
    output: answer
"#;

const RECALL: &str = r#"
name: recall
nodes:
  - name: recall
    uses: ltm.retrieve
    with: {key: "{{ state.key }}"}
    output: found
"#;

fn secret(digit: char) -> String {
    digit.to_string().repeat(64)
}

/// A home whose commands use one store.
struct Fixture {
    home: Home,
    database: String,
}

impl Fixture {
    fn new(database: &str) -> Self {
        let home = Home::new();
        home.write("remember.yaml", REMEMBER);
        home.write("recall.yaml", RECALL);
        Self {
            home,
            database: database.to_owned(),
        }
    }

    fn command(&self, secrets: &str, arguments: &[&str]) -> Command {
        let mut command = self.home.command(arguments);
        command
            .env("CACHALOT_DB", &self.database)
            .env("CACHALOT_ENCRYPTION_KEY", secrets);
        command
    }

    fn run(&self, secrets: &str, arguments: &[&str]) -> CommandOutput {
        self.command(secrets, arguments).output().unwrap().into()
    }

    /// Stores a memory and an entry; returns true if the entry was a hit.
    fn remember(&self, secrets: &str, key: &str) -> bool {
        let input = format!("key={key}");
        let ran = self.run(secrets, &["run", "-q", "remember.yaml", "-i", &input]);
        ran.ok().json()["answer"]["_cache_hit"] == true
    }

    fn recall(&self, secrets: &str, key: &str) -> CommandOutput {
        let input = format!("key={key}");
        self.run(secrets, &["run", "-q", "recall.yaml", "-i", &input])
    }

    #[track_caller]
    fn assert_recalled(&self, secrets: &str, key: &str) {
        let ran = self.recall(secrets, key).ok();
        let value = &ran.json()["found"]["value"];
        assert_eq!(*value, format!("{MARK} {key}"), "{ran}");
    }

    /// The status of the encryption in `doctor`, its state and its remedy.
    fn doctor(&self, secrets: &str) -> (String, String, String) {
        let report = self.run(secrets, &["doctor", "--json"]).json();
        let (status, remedy) = check(&report, "encryption");
        let checks = report["checks"].as_array().unwrap();
        let state = checks.iter().find(|check| check["topic"] == "encryption");
        (status, state.unwrap()["state"].to_string(), remedy)
    }

    /// True if a file of the store contains the text of the values.
    fn holds_text(&self) -> bool {
        let files = self.home.files().into_iter();
        let mut files = files.filter(|(path, _)| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.starts_with("store.db") && !name.contains("ledger")
        });
        files.any(|(_, bytes)| {
            bytes
                .windows(MARK.len())
                .any(|part| part == MARK.as_bytes())
        })
    }
}

/// A store on every server that this machine has, and in a file.
fn fixtures() -> Vec<Fixture> {
    let file = Fixture::new("store.db");
    let redis = RedisServer::shared().map(|server| Fixture::new(&server.fresh_url()));
    let postgres = PostgresServer::shared().map(|server| Fixture::new(&server.fresh_url()));
    [Some(file), redis, postgres]
        .into_iter()
        .flatten()
        .collect()
}

#[test]
fn values_of_a_store_are_encrypted() {
    let home = Home::new();
    home.write("agent.yaml", patient(STRINGIFY));
    let run = |secrets: &str| -> CommandOutput {
        let mut command = home.command(&["run", "agent.yaml", "-i", "text=readable-by-me"]);
        command.env("CACHALOT_ENCRYPTION_KEY", secrets);
        command.output().unwrap().into()
    };
    let is_hit = |ran: CommandOutput| ran.ok().json()["answer"]["_cache_hit"] == true;
    let (old, new) = ("a1".repeat(32), "b2".repeat(32));
    assert!(!is_hit(run(&old)));
    assert!(is_hit(run(&old)));
    let holds = |name: &str| {
        let files = home.files().into_iter();
        let mut files = files.filter(|(path, _)| path.starts_with(home.join("data")));
        files.any(|(path, bytes)| {
            path.to_string_lossy().contains(name)
                && bytes.windows(14).any(|part| part == b"readable-by-me")
        })
    };
    // The ledger keeps inputs, and is not part of the store.
    assert!(!holds("cachalot.db") || holds("ledger"));
    home.run(&["ledger", "rm", "--all"]).ok();
    assert!(!holds("cachalot.db"));
    // Rotation.
    assert!(is_hit(run(&format!("{new},{old}"))));
    home.write("secret", format!("{new}\n{old}\n"));
    let mut command = home.command(&["run", "agent.yaml", "-i", "text=readable-by-me"]);
    command.env("CACHALOT_ENCRYPTION_KEY_FILE", "secret");
    assert!(is_hit(command.output().unwrap().into()));
    // Without the secret, the work runs, and its answer replaces the other one.
    let other = run(&new).ok();
    let reason = other.json()["answer"]["_cache_reason"].to_string();
    assert!(reason.contains("another secret"), "{other}");
    assert!(is_hit(run(&new)));
    let wrong = run("abc").fails(2);
    assert!(wrong.stderr.contains("openssl rand"), "{wrong}");
    assert!(wrong.stderr.contains("CACHALOT_ENCRYPTION_KEY"), "{wrong}");
}

#[test]
fn a_plain_store_is_encrypted_afterwards() {
    for fixture in fixtures() {
        let new = secret('a');
        for key in ["one", "two", "three"] {
            assert!(!fixture.remember("", key));
        }
        let provider = Provider::scripted("otherwise: {text: 'noted, {{user}}'}");
        fixture.home.write("chat.yaml", SHELL);
        let asked = fixture
            .home
            .ask_with(&provider, &["chat.yaml"], MARK.as_bytes(), |command| {
                command.env("CACHALOT_DB", &fixture.database);
            });
        let session = session(&asked.ok());
        let (status, state, remedy) = fixture.doctor(&new);
        assert_eq!(status, "degraded", "{state}");
        assert!(state.contains("not encrypted"), "{state}");
        let report = fixture.run(&new, &["doctor", "--json"]).ok().json();
        assert_eq!(check(&report, "digest key").0, "ok");
        assert!(remedy.contains("cachalot cache encrypt"), "{remedy}");
        // Readable in between, if the processes permit it.
        fixture.assert_recalled(&format!("{new},plain"), "one");
        let done = fixture.run(&new, &["cache", "encrypt"]).ok();
        assert!(done.stderr.contains("3 memories encrypted"), "{done}");
        assert!(done.stderr.contains("3 entries encrypted"), "{done}");
        assert!(done.stderr.contains("1 session encrypted"), "{done}");
        for key in ["one", "two", "three"] {
            fixture.assert_recalled(&new, key);
            assert!(fixture.remember(&new, key), "{key} is a hit");
        }
        let shown = fixture.run(&new, &["sessions", "show", &session]).ok();
        assert!(shown.stdout.contains(MARK), "{shown}");
        assert_eq!(fixture.doctor(&new).0, "ok");
        let again = fixture.run(&new, &["cache", "encrypt"]).ok();
        assert!(
            again
                .stderr
                .contains("0 memories encrypted, 3 with this secret"),
            "{again}"
        );
    }
}

#[test]
fn a_plain_store_is_copied_into_an_encrypted_one() {
    let fixture = Fixture::new("plain.db");
    let new = secret('a');
    fixture.remember("", "one");
    fixture
        .run(&new, &["cache", "copy", "plain.db", "store.db"])
        .ok();
    fixture.assert_recalled("", "one");
    let copy = Fixture {
        home: fixture.home,
        database: "store.db".to_owned(),
    };
    copy.assert_recalled(&new, "one");
    assert!(copy.remember(&new, "one"));
    copy.home
        .run(&["ledger", "rm", "--all", "--db", "store.db"])
        .ok();
    assert!(!copy.holds_text());
}

#[test]
fn a_secret_is_rotated_away() {
    for fixture in fixtures() {
        let (old, new) = (secret('a'), secret('b'));
        let both = format!("{new},{old}");
        fixture.remember(&old, "one");
        fixture.remember(&both, "two");
        let (status, state, remedy) = fixture.doctor(&both);
        assert_eq!(status, "degraded");
        // The memory, the entry, and the check of the digest key.
        assert!(
            state.contains("3 records still with an old secret"),
            "{state}"
        );
        assert!(remedy.contains("remove the old one"), "{remedy}");
        let (status, state, _) = fixture.doctor(&new);
        assert_eq!(status, "failed");
        assert!(
            state.contains("3 records with a secret that is not given"),
            "{state}"
        );
        // The new secret alone encrypts nothing that it cannot decrypt, and says so.
        let partial = fixture.run(&new, &["cache", "encrypt"]).fails(1);
        assert!(
            partial.stderr.contains("1 memory of another secret")
                || partial.stderr.contains("1 of another secret"),
            "{partial}"
        );
        fixture.assert_recalled(&both, "one");
        fixture.run(&both, &["cache", "encrypt"]).ok();
        for key in ["one", "two"] {
            fixture.assert_recalled(&new, key);
            assert!(fixture.remember(&new, key));
            let refused = fixture.recall(&old, key).fails(1);
            assert!(
                refused.unwrapped().contains("a secret that is not given")
                    && refused.stderr.contains("CACHALOT_ENCRYPTION_KEY"),
                "{refused}"
            );
        }
        assert_eq!(fixture.doctor(&new).0, "ok");
        assert_eq!(fixture.doctor(&both).0, "ok");
        let (status, state, _) = fixture.doctor(&old);
        assert_eq!(status, "failed");
        assert!(
            state.contains("0 records with the secret"),
            "nothing is left: {state}"
        );
    }
}

#[test]
fn a_run_without_the_secret_says_what_is_missing() {
    for fixture in fixtures() {
        let new = secret('a');
        fixture.remember(&new, "one");
        let refused = fixture.recall("", "one").fails(1);
        assert!(
            refused
                .unwrapped()
                .contains("is encrypted, and no secret is set: set CACHALOT_ENCRYPTION_KEY"),
            "{refused}"
        );
        let failed = fixture.run("", &["doctor", "--json"]).fails(1);
        let (status, remedy) = check_of(&failed, "encryption");
        assert_eq!(status, "failed");
        assert!(remedy.contains("set CACHALOT_ENCRYPTION_KEY"), "{remedy}");
        // A cached answer is not replaced.
        let input = ["run", "remember.yaml", "-i", "key=one"];
        let ran = fixture.run("", &input).ok();
        assert_eq!(ran.json()["answer"]["_cache_stored"], false, "{ran}");
        assert!(ran.stderr.contains("no secret is set"), "{ran}");
        assert!(fixture.remember(&new, "one"), "a hit");
        let unset = fixture.run("", &["cache", "encrypt"]).fails(2);
        assert!(unset.unwrapped().contains("makes a secret"), "{unset}");
    }
}

/// An encryption that is interrupted at any moment leaves everything readable, and is continued.
#[test]
fn an_interrupted_encryption_is_continued() {
    let fixture = Fixture::new("store.db");
    let many = r#"
name: many
nodes:
  - name: each
    type: dynamic_parallel
    items: "{{ state.items }}"
    action:
      uses: ltm.store
      with: {key: "{{ state.item }}", value: "readable-by-me {{ state.item }}"}
    fan_in: collect
  - name: collect
    fan_in: true
"#;
    fixture.home.write("many.yaml", many);
    let keys: Vec<String> = (0..200).map(|number| format!("key-{number}")).collect();
    let items = format!("items:={}", serde_json::json!(keys));
    fixture
        .run("", &["run", "-q", "many.yaml", "-i", &items])
        .ok();
    let new = secret('a');
    let all = format!("{new},plain");
    for milliseconds in [5, 10, 15, 20, 30, 40, 60] {
        let mut running = fixture
            .command(&new, &["cache", "encrypt"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
        let _ = running.kill();
        running.wait().unwrap();
        for key in ["key-0", "key-100", "key-199"] {
            fixture.assert_recalled(&all, key);
        }
    }
    fixture.run(&new, &["cache", "encrypt"]).ok();
    for key in &keys[190..] {
        fixture.assert_recalled(&new, key);
    }
    assert_eq!(fixture.doctor(&new).0, "ok");
}
