//! A workspace, a home and the policy of a command in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use cachalot_sandbox::{Absent, Mechanism, Policy, ReadOnly, available};
use tempfile::TempDir;

/// The content of each file that may not be read.
pub(crate) const SECRET: &str = "SECRET_MARKER=7f3a";

/// The executable that runs sandboxes.
pub(crate) fn helper() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_cachalot-sandbox"))
}

/// Returns false, with a notice, on a machine without namespaces.
pub(crate) fn is_available() -> bool {
    static AVAILABLE: OnceLock<bool> = OnceLock::new();
    *AVAILABLE.get_or_init(|| {
        let is_available = available(helper()) == Some(Mechanism::Namespaces);
        if !is_available {
            // By a program of others: a defect of ours would skip the tests otherwise.
            let unshare = [
                "--user",
                "--map-root-user",
                "--mount-proc",
                "--pid",
                "--net",
                "--fork",
                "true",
            ];
            let made = Command::new("unshare").args(unshare).output();
            assert!(
                !made.is_ok_and(|made| made.status.success()),
                "the sandbox cannot be made"
            );
            eprintln!("skipped: this machine gives no user namespaces");
        }
        is_available
    })
}

/// A folder with a workspace, a home and a policy; removed with it.
pub(crate) struct Fixture {
    pub(crate) policy: Policy,
    folder: TempDir,
}

impl Fixture {
    /// A workspace with a git repository, agent files and secrets. `None` on a machine without namespaces.
    pub(crate) fn new() -> Option<Self> {
        is_available().then(Self::make)
    }

    /// The same on any machine.
    pub(crate) fn make() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        let workspace = root.join("work");
        for directory in ["work/src", "work/skills/s", "home/.ssh", "tmp", "outside"] {
            fs::create_dir_all(root.join(directory)).unwrap();
        }
        for (file, content) in [
            ("work/a.yaml", "agent"),
            ("work/AGENTS.md", "instructions"),
            ("work/skills/s/SKILL.md", "skill"),
            ("work/src/main.c", "int main(void) { return 0; }\n"),
            ("work/victim", "victim"),
            ("work/.env", SECRET),
            ("home/.ssh/id_test", SECRET),
            ("outside/keep", "keep"),
        ] {
            fs::write(root.join(file), content).unwrap();
        }
        let git = Command::new("git")
            .args(["init", "--quiet"])
            .current_dir(&workspace)
            .env("HOME", root.join("home"))
            .status();
        assert!(git.unwrap().success());
        let read_only = |path: &str, absent| ReadOnly {
            path: workspace.join(path),
            absent,
        };
        let policy = Policy {
            write: vec![workspace.clone(), root.join("tmp")],
            read_only: vec![
                read_only("a.yaml", Absent::File),
                read_only("AGENTS.md", Absent::File),
                read_only("CLAUDE.md", Absent::File),
                read_only("skills", Absent::Directory),
                read_only(".claude", Absent::Directory),
                read_only(".git/config", Absent::File),
                read_only(".git/hooks", Absent::Directory),
                read_only(".git/commondir", Absent::GitPointer),
            ],
            denied: vec![workspace.join(".env"), root.join("home/.ssh")],
            records: root.join("records"),
            ..Policy::default()
        };
        Self { policy, folder }
    }

    /// A path below the folder.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.folder.path().canonicalize().unwrap().join(path)
    }

    /// The command that runs a line of a shell in the workspace.
    pub(crate) fn command(&self, line: &str) -> Command {
        let mut command = self.policy.command(helper(), "/bin/sh");
        command
            .args(["-c", line])
            .current_dir(self.path("work"))
            .env("HOME", self.path("home"))
            .env("TMPDIR", self.path("tmp"))
            .env("OUTSIDE", self.path("outside"));
        command
    }

    /// Runs a line of a shell.
    pub(crate) fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Runs a line of a shell that has to succeed, and returns what it printed.
    pub(crate) fn print(&self, line: &str) -> String {
        let output = self.run(line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{line}: {}: {errors}",
            output.status
        );
        String::from_utf8(output.stdout).unwrap()
    }

    /// Runs a line of a shell that has to fail, and returns its errors.
    pub(crate) fn fail(&self, line: &str) -> String {
        let output = self.run(line);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(!output.status.success(), "{line}: {printed}");
        String::from_utf8(output.stderr).unwrap()
    }

    /// Reads a file below the folder.
    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap()
    }
}
