//! The digest key: what is wrong with it costs the cache, not the run.

use std::path::{Path, PathBuf};

use cachalot_backends::testing::RedisServer;

use crate::doctor::check_of;
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

    use crate::provider::Provider;
    use crate::serve::Gateway;
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
    let printed = Gateway::start(&home, &Provider::built_in()).stop();
    let words: Vec<&str> = printed.split_whitespace().collect();
    let reports = words.join(" ").matches("is open to others").count();
    assert_eq!(reports, 1, "{printed}");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    assert_eq!(reported(&run(&home)), 0);
}

/// A step whose key contains a digest.
const KEYED: &str = r#"
name: keyed
nodes:
  - name: work
    uses: cache.wrap
    with: {action: json.parse, key: "answer-{{ secrets.TOKEN }}", args: {text: "[1]"}}
    output: answer
"#;

/// A step whose key contains none.
const PLAIN: &str = r#"
name: plain
nodes:
  - name: work
    uses: cache.wrap
    with: {action: json.parse, key: answer, args: {text: "[1]"}}
    output: answer
"#;

/// One of several machines that share a store.
struct Machine {
    home: Home,
    database: String,
    key_file: Option<PathBuf>,
}

impl Machine {
    fn new(database: &str, key_file: Option<&Path>) -> Self {
        let home = Home::new();
        home.write("keyed.yaml", KEYED);
        home.write("plain.yaml", PLAIN);
        home.write("secrets.json", SECRET);
        Self {
            home,
            database: database.to_owned(),
            key_file: key_file.map(Path::to_owned),
        }
    }

    fn command(&self, arguments: &[&str]) -> CommandOutput {
        let mut command = self.home.command(arguments);
        command.env("CACHALOT_DB", &self.database);
        if let Some(file) = &self.key_file {
            command.env("CACHALOT_DIGEST_KEY_FILE", file);
        }
        command.output().unwrap().into()
    }

    fn run(&self, file: &str) -> CommandOutput {
        self.command(&["run", file, "--secrets", "secrets.json"])
    }

    /// Runs the step with a secret in its key; returns true if it was a hit, and the number of reports of another key.
    fn keyed(&self) -> (bool, usize) {
        let ran = self.run("keyed.yaml").ok();
        let reports = ran.stderr.matches(" is not that of ").count();
        assert!(!ran.to_string().contains("hunter2"), "{ran}");
        (ran.json()["answer"]["_cache_hit"] == true, reports)
    }

    /// The status of the digest key in `doctor`, and the remedy.
    fn doctor(&self) -> (String, String) {
        check_of(&self.command(&["doctor", "--json"]).ok(), "digest key")
    }
}

fn new_key(home: &Home, name: &str) -> PathBuf {
    let made = home.run(&["doctor", "--new-digest-key", name]).ok();
    assert!(made.stderr.contains("CACHALOT_DIGEST_KEY_FILE"), "{made}");
    home.join(name)
}

/// The promises that hold for any store that machines share. `second` reaches it like another machine.
fn machines_share_calls_only_with_one_key(first: &str, second: &str) {
    let keys = Home::new();
    let (one, other) = (new_key(&keys, "one"), new_key(&keys, "other"));
    let a = Machine::new(first, Some(&one));
    let b = Machine::new(second, Some(&one));
    assert_eq!(a.keyed(), (false, 0));
    assert_eq!(b.keyed(), (true, 0), "the same key: a hit");
    assert_eq!(b.doctor().0, "ok");
    let c = Machine::new(second, Some(&other));
    assert_eq!(c.keyed(), (false, 1), "another key: a miss, and a report");
    assert_eq!(c.keyed(), (true, 1), "its own answer");
    let ran = c.run("keyed.yaml").ok();
    assert!(
        ran.stderr.contains(&*other.to_string_lossy())
            && ran.stderr.contains("copy the digest key"),
        "{ran}"
    );
    let (status, remedy) = c.doctor();
    assert_eq!(status, "degraded");
    assert!(remedy.contains("--adopt-digest-key"), "{remedy}");
    // Calls without a digest in their keys are shared, and nothing is reported.
    let ran = a.run("plain.yaml").ok();
    assert_eq!(ran.json()["answer"]["_cache_hit"], false, "{ran}");
    let ran = c.run("plain.yaml").ok();
    assert_eq!(ran.json()["answer"]["_cache_hit"], true, "{ran}");
    assert!(!ran.stderr.contains("digest key"), "{ran}");
    // Without a name, no key is adopted, and nothing seems to be.
    if first.contains("://") {
        let unnamed = Machine::new(second, None);
        let refused = unnamed.command(&["doctor", "--adopt-digest-key"]).fails(2);
        assert!(
            refused.unwrapped().contains("no key is named")
                && refused.stderr.contains("CACHALOT_DIGEST_KEY_FILE"),
            "{refused}"
        );
    }
    // All machines get another key.
    c.command(&["doctor", "--adopt-digest-key"]).ok();
    assert_eq!(c.keyed(), (true, 0));
    assert_eq!(a.keyed(), (true, 1));
}

#[test]
fn a_key_is_not_adopted_by_a_store_that_does_not_exist() {
    let home = Home::new();
    let key = new_key(&home, "one");
    let mut command = home.command(&["doctor", "--adopt-digest-key", "--db", "absent.db"]);
    command.env("CACHALOT_DIGEST_KEY_FILE", key);
    let refused = CommandOutput::from(command.output().unwrap()).fails(1);
    assert!(
        refused.unwrapped().contains("was not made that of"),
        "{refused}"
    );
}

#[test]
fn machines_with_one_digest_key_share_calls_with_secrets() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shared.db");
    let database = database.to_str().unwrap();
    machines_share_calls_only_with_one_key(database, database);
    if let Some(server) = RedisServer::shared() {
        let url = server.fresh_url();
        machines_share_calls_only_with_one_key(&url, &url);
    }
}

#[test]
fn a_distributed_key_takes_the_place_of_one_that_a_machine_made() {
    let Some(server) = RedisServer::shared() else {
        return;
    };
    let url = server.fresh_url();
    let (mut a, mut b) = (Machine::new(&url, None), Machine::new(&url, None));
    assert_eq!(a.keyed(), (false, 0));
    assert_eq!(b.keyed(), (false, 1), "each machine makes a key");
    let (status, remedy) = b.doctor();
    assert_eq!(status, "degraded");
    assert!(remedy.contains("--new-digest-key"), "{remedy}");
    assert_eq!(a.doctor().0, "ok");
    let keys = Home::new();
    let key = new_key(&keys, "key");
    b.key_file = Some(key.clone());
    assert_eq!(b.keyed(), (false, 0));
    assert_eq!(a.keyed(), (true, 1), "it needs the file now");
    a.key_file = Some(key);
    assert_eq!(a.keyed(), (true, 0));
    // The key of the first machine can be distributed as it is: its entries stay.
    let url = server.fresh_url();
    let (a, mut b) = (Machine::new(&url, None), Machine::new(&url, None));
    assert_eq!(a.keyed(), (false, 0));
    b.key_file = Some(a.home.join("data/cachalot/cachalot.db.digest-key"));
    assert_eq!(b.keyed(), (true, 0));
    assert_eq!(a.keyed(), (true, 0));
}

#[test]
fn a_new_key_beside_a_file_is_that_of_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shared.db");
    let machine = Machine::new(database.to_str().unwrap(), None);
    assert_eq!(machine.keyed(), (false, 0));
    std::fs::remove_file(directory.path().join("shared.db.digest-key")).unwrap();
    assert_eq!(machine.keyed(), (false, 0));
    assert_eq!(machine.doctor().0, "ok");
}

#[test]
fn the_agent_file_names_a_key_and_the_environment_wins() {
    let keys = Home::new();
    let (one, other) = (new_key(&keys, "one"), new_key(&keys, "other"));
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shared.db");
    let mut machine = Machine::new(database.to_str().unwrap(), Some(&one));
    assert_eq!(machine.keyed(), (false, 0));
    std::fs::copy(&one, machine.home.join("key")).unwrap();
    let named = format!("{KEYED}settings:\n  ltm:\n    digest_key_file: key\n");
    machine.home.write("keyed.yaml", named);
    machine.key_file = None;
    assert_eq!(machine.keyed(), (true, 0));
    machine.key_file = Some(other);
    assert_eq!(machine.keyed(), (false, 1));
}

#[cfg(unix)]
#[test]
fn unusable_files_of_keys_are_errors_before_the_run() {
    use std::os::unix::fs::PermissionsExt as _;
    let keys = Home::new();
    let key = new_key(&keys, "key");
    let mode = std::fs::metadata(&key).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600);
    let before = std::fs::read(&key).unwrap();
    let again = keys.run(&["doctor", "--new-digest-key", "key"]).fails(1);
    assert!(again.stderr.contains("exists already"), "{again}");
    assert_eq!(std::fs::read(&key).unwrap(), before, "never overwritten");
    let directory = tempfile::tempdir().unwrap();
    let database = directory.path().join("shared.db");
    let mut machine = Machine::new(database.to_str().unwrap(), Some(&key));
    machine.keyed();
    let refused = |machine: &Machine, message: &str| {
        let ran = machine.run("keyed.yaml").fails(2);
        let told = ran.unwrapped();
        assert!(
            told.contains("CACHALOT_DIGEST_KEY_FILE") && told.contains(message),
            "{ran}"
        );
        let doctor = machine.command(&["doctor"]).fails(2);
        assert!(doctor.unwrapped().contains(message), "{doctor}");
    };
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o644)).unwrap();
    refused(&machine, "chmod 600");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    for damaged in [&b""[..], b"short", &before[..40], &[b'x'; 64]] {
        std::fs::write(&key, damaged).unwrap();
        refused(&machine, "neither 32 bytes nor 64 hex digits");
    }
    machine.key_file = Some(keys.join("missing"));
    refused(&machine, "does not exist");
    assert!(!keys.join("missing").exists(), "it is not made");
}
