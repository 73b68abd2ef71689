//! Lines of a shell, written by somebody who had not seen the code: each tries to get around the sandbox, or is
//! harmless (`ok:`) and has to work.

use std::collections::BTreeMap;
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use cachalot_sandbox::{Absent, Policy, ReadOnly};

use crate::fixture::{SECRET, helper, is_available};

/// Makes the workspace and what is around it, in an empty folder.
const LAYOUT: &str = r#"
set -e
mkdir -p work/src work/sub work/q work/t/hooks work/skills/s work/.claude home/.ssh tmp outside
export HOME="$PWD/home" GIT_AUTHOR_DATE='2026-01-01T00:00:00Z' GIT_COMMITTER_DATE='2026-01-01T00:00:00Z'
printf '[user]\n\tname = a\n\temail = a@example.org\n' >home/.gitconfig
echo keep >outside/keep
printf 'SECRET_MARKER=7f3a' | tee home/.ssh/id_test work/.env >work/sub/.env.local
cd work
echo 'model: x' >a.yaml; echo 'Be brief.' >AGENTS.md; echo '# Read me' >README.md
echo 'int main(void) { return 0; }' >src/main.c; echo notes >src/notes.txt
git init -q --template= . && mkdir .git/hooks .git/info && git add . ':!.env' ':!sub/.env.local' && git commit -qm first
git init -q --template= nested && mkdir nested/.git/hooks nested/.git/info
echo victim >victim; echo '{}' >.claude/settings.json; echo skill >skills/s/SKILL.md
echo 'model: evil' >q/a.yaml; echo evil >q/AGENTS.md; printf '#!/bin/sh\n' | tee q/pre-commit >t/hooks/pre-commit
ln -s .git link
mkdir -p e/.git/hooks && cp q/a.yaml q/AGENTS.md e && cp q/pre-commit e/.git/hooks
(cd e && tar cf ../evil.tar a.yaml .git/hooks/pre-commit AGENTS.md)
python3 -c 'import zipfile; z = zipfile.ZipFile("evil.zip", "w"); [z.write("e/" + name, name) for name in ("a.yaml", ".git/hooks/pre-commit", "AGENTS.md")]'
rm -rf e
printf -- '--- a/a.yaml\n+++ b/a.yaml\n@@ -1 +1 @@\n-model: x\n+model: evil\n--- /dev/null\n+++ b/CLAUDE.md\n@@ -0,0 +1 @@\n+evil\n' >evil.patch
"#;

/// Files and directories that may not change, and those that may not appear.
const PROTECTED: [(&str, Absent); 15] = [
    ("a.yaml", Absent::File),
    ("AGENTS.md", Absent::File),
    ("CLAUDE.md", Absent::File),
    (".cachalot", Absent::Directory),
    (".claude", Absent::Directory),
    (".git/config", Absent::File),
    (".git/config.worktree", Absent::File),
    (".git/commondir", Absent::GitPointer),
    (".git/hooks", Absent::Directory),
    ("skills", Absent::Directory),
    ("nested/.git/config", Absent::File),
    ("nested/.git/config.worktree", Absent::File),
    ("nested/.git/commondir", Absent::GitPointer),
    ("nested/.git/hooks", Absent::Directory),
    (".git/modules", Absent::Directory),
];

/// Directories that have to stay the same ones.
const FIXED: [&str; 4] = [".git", "nested", "nested/.git", "skills/s"];

/// What the secret looks like, also in other notations.
const NOTATIONS: [&str; 4] = [
    SECRET,
    "U0VDUkVUX01BUktFUj03ZjNh",
    "5345435245545f4d41524b45523d37663361",
    "a3f7=REKRAM_TERCES",
];

struct Trial {
    root: PathBuf,
    policy: Policy,
    before: BTreeMap<PathBuf, (u64, String)>,
}

impl Trial {
    /// Copies the layout to a new folder.
    fn new(layout: &Path, root: PathBuf) -> Self {
        let copied = Command::new("cp").arg("-a").args([layout, &root]).status();
        assert!(copied.unwrap().success());
        // The index of git has the numbers of the files.
        let mut refresh = Command::new("git");
        refresh
            .args(["update-index", "-q", "--refresh"])
            .current_dir(root.join("work"));
        assert!(refresh.status().unwrap().success());
        let work = root.join("work");
        let read_only = PROTECTED.map(|(path, absent)| ReadOnly {
            path: work.join(path),
            absent,
        });
        let policy = Policy {
            write: vec![work.clone(), root.join("tmp")],
            read_only: read_only.into(),
            denied: vec![
                work.join(".env"),
                work.join("sub/.env.local"),
                root.join("home/.ssh"),
            ],
            visible: vec![root.join("home"), root.join("outside")],
            records: root.join("records"),
            ..Policy::default()
        };
        let mut trial = Self {
            root,
            policy,
            before: BTreeMap::new(),
        };
        trial.before = trial.protected();
        trial
    }

    /// Everything that may not change, with the numbers of the files and what is in them.
    fn protected(&self) -> BTreeMap<PathBuf, (u64, String)> {
        let mut found = BTreeMap::new();
        let work = self.root.join("work");
        for (path, _) in PROTECTED {
            walk(&work.join(path), &mut found);
        }
        for path in FIXED {
            let metadata = fs::symlink_metadata(work.join(path));
            let number = metadata.map_or(0, |metadata| metadata.ino());
            found.insert(work.join(path), (number, String::new()));
        }
        walk(&self.root.join("home"), &mut found);
        walk(&self.root.join("outside"), &mut found);
        found
    }

    /// Runs a line, in the sandbox or without it, and returns its end and what it printed; `None` if it took too long.
    fn run(
        &self,
        line: &str,
        environment: &[(&str, String)],
        is_sandboxed: bool,
    ) -> (Option<ExitStatus>, Vec<u8>) {
        let mut command = if is_sandboxed {
            self.policy.command(helper(), "/bin/sh")
        } else {
            Command::new("/bin/sh")
        };
        let output = self.root.join("output");
        let file = fs::File::create(&output).unwrap();
        let mut child = command
            .args(["-c", line])
            .current_dir(self.root.join("work"))
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .env("HOME", self.root.join("home"))
            .env("TMPDIR", self.root.join("tmp"))
            .env("OUTSIDE", self.root.join("outside"))
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .process_group(0)
            .spawn()
            .unwrap();
        let end = Instant::now() + Duration::from_secs(60);
        let mut status = None;
        while status.is_none() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
            status = child.try_wait().unwrap();
        }
        // Also what the line has left.
        let group = format!("-{}", child.id());
        let _ = Command::new("kill")
            .args(["-KILL", "--", &group])
            .stderr(Stdio::null())
            .status();
        let _ = child.wait();
        (status, fs::read(output).unwrap_or_default())
    }

    /// Returns what is not as it has to be after a line.
    fn broken(&self, printed: &[u8]) -> Option<String> {
        // The last user removes placeholders, and what was killed ends in its own time.
        let end = Instant::now() + Duration::from_secs(60);
        let mut now = self.protected();
        while now != self.before && Instant::now() < end {
            let ended = self.run("true", &[], true);
            assert!(ended.0.is_some_and(|status| status.success()));
            let is_recorded = self.root.join("records/made").exists();
            now = self.protected();
            if !is_recorded {
                break;
            }
        }
        let changed = now
            .iter()
            .filter(|entry| self.before.get(entry.0) != Some(entry.1))
            .map(|entry| entry.0);
        let gone = self.before.keys().filter(|path| !now.contains_key(*path));
        let changed: Vec<_> = changed.chain(gone).collect();
        if !changed.is_empty() {
            return Some(format!("changed: {changed:?}"));
        }
        let names = ["home", "outside", "output", "records", "tmp", "work"];
        let more = fs::read_dir(&self.root)
            .unwrap()
            .map(|entry| entry.unwrap().file_name());
        let more: Vec<_> = more
            .filter(|name| !names.iter().any(|known| name == known))
            .collect();
        if !more.is_empty() {
            return Some(format!("written: {more:?}"));
        }
        let mut secrets = String::from_utf8_lossy(printed).into_owned();
        for place in ["work", "tmp"] {
            let mut files = BTreeMap::new();
            walk(&self.root.join(place), &mut files);
            for (path, (_, content)) in files {
                if !self
                    .policy
                    .denied
                    .iter()
                    .any(|denied| path.starts_with(denied))
                {
                    secrets.push_str(&content);
                }
            }
        }
        let seen = NOTATIONS
            .iter()
            .find(|notation| secrets.contains(*notation));
        seen.map(|notation| format!("read: {notation}"))
    }
}

/// Adds a file, or all below a directory, with its number and content. Links are not followed.
fn walk(path: &Path, found: &mut BTreeMap<PathBuf, (u64, String)>) {
    let Ok(metadata) = fs::symlink_metadata(path) else {
        return;
    };
    let content = if metadata.is_file() {
        String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
    } else if metadata.is_symlink() {
        fs::read_link(path).unwrap().display().to_string()
    } else {
        String::new()
    };
    found.insert(path.to_owned(), (metadata.ino(), content));
    if metadata.is_dir() {
        let entries = fs::read_dir(path).into_iter().flatten().flatten();
        entries.for_each(|entry| walk(&entry.path(), found));
    }
}

/// Names that a line may have made in directories of the machine.
fn made_elsewhere() -> Vec<PathBuf> {
    let places = [
        "/tmp", "/var/tmp", "/etc", "/usr", "/dev", "/dev/shm", "/run", "/var", "/",
    ];
    let entries = places.iter().flat_map(fs::read_dir).flatten().flatten();
    let entries =
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("spelling"));
    entries.map(|entry| entry.path()).collect()
}

#[test]
fn nothing_gets_around_the_sandbox() {
    if !is_available() {
        return;
    }
    let before = made_elsewhere();
    let place = tempfile::tempdir().unwrap();
    let place = place.path().canonicalize().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let socket = UnixListener::bind(place.join("socket")).unwrap();
    listener.set_nonblocking(true).unwrap();
    socket.set_nonblocking(true).unwrap();
    let environment = [
        ("PORT", listener.local_addr().unwrap().port().to_string()),
        ("SOCKET", place.join("socket").display().to_string()),
    ];
    let layout = place.join("layout");
    fs::create_dir(&layout).unwrap();
    let made = Command::new("sh")
        .args(["-c", LAYOUT])
        .current_dir(&layout)
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let lines = include_str!("../data/spellings.txt").lines();
    let lines = lines.filter(|line| !line.starts_with('#'));
    let lines = Mutex::new(lines.enumerate());
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                loop {
                    let next = lines.lock().unwrap().next();
                    let Some((number, line)) = next else { break };
                    let root = place.join(number.to_string());
                    let trial = Trial::new(&layout, root.clone());
                    let (status, printed) =
                        trial.run(line.trim_start_matches("ok: "), &environment, true);
                    let mut broken = trial.broken(&printed);
                    let is_ok = status.is_some_and(|status| status.success());
                    if line.starts_with("ok: ") && !is_ok {
                        let root = place.join(format!("{number}-outside"));
                        let outside =
                            Trial::new(&layout, root).run(&line[4..], &environment, false);
                        if outside.0.is_some_and(|status| status.success()) {
                            let printed = String::from_utf8_lossy(&printed);
                            broken.get_or_insert(format!("refused: {printed}"));
                        }
                    }
                    if let Some(broken) = broken {
                        failures
                            .lock()
                            .unwrap()
                            .push(format!("{line}\n    {broken}"));
                    }
                    let _ = fs::remove_dir_all(&root);
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(
        failures.is_empty(),
        "{}:\n{}",
        failures.len(),
        failures.join("\n")
    );
    assert!(
        listener.accept().is_err(),
        "a port of the machine was reached"
    );
    assert!(
        socket.accept().is_err(),
        "a socket of the machine was reached"
    );
    assert_eq!(made_elsewhere(), before);
}
