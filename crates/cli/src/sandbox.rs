//! The sandbox of the programs that a chat or a run starts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_core::links::without_links;
use cachalot_core::{Digest, Problem};
use cachalot_sandbox::{Absent, CommandSandbox, Mechanism, Network, Policy, ReadOnly, credentials};
use cachalot_store::Finding;
use tempfile::TempDir;

use crate::arguments::SandboxFlags;
use crate::command_error::{CommandError, Result};
use crate::home::{Home, companion_path, default_database};
use crate::wiring::ProcessEnvironment;

/// This program, which also makes sandboxes.
const HELPER: &str = "/proc/self/exe";

/// Returns true if this machine can run programs in a sandbox. Tries it, which takes some milliseconds.
pub(crate) fn is_available() -> bool {
    Mechanism::available(Path::new(HELPER)) == Mechanism::Namespaces
}

/// Fails on a machine that cannot run programs in a sandbox.
///
/// # Errors
/// There is none.
pub(crate) fn require() -> Result<()> {
    if is_available() {
        return Ok(());
    }
    let problem = Problem::new(
        "no-sandbox",
        "--sandbox: this machine cannot run commands in a sandbox",
    );
    Err(CommandError::usage(problem.help(
        "it needs Linux with user namespaces, which containers and administrators may turn off; `cachalot doctor` says what fails",
    )))
}

/// The programs that run in a sandbox.
#[derive(Debug, Clone, Default)]
pub(crate) struct SandboxUse {
    /// The limits of the sandbox.
    pub(crate) flags: SandboxFlags,
    /// True if commands of tools run in it.
    pub(crate) commands: bool,
    /// True if Python code of a workflow runs in it.
    pub(crate) python: bool,
}

/// The sandbox of a chat or a run. Its temporary files are removed with it.
pub(crate) struct SessionSandbox {
    commands: CommandSandbox,
    data: Vec<PathBuf>,
    _temporary: TempDir,
}

impl SessionSandbox {
    /// Prepares the sandbox, on a machine that has one.
    ///
    /// # Errors
    /// A path of the flags does not exist, or there is no place for temporary files and records.
    pub(crate) fn new(
        flags: &SandboxFlags,
        process_environment: &ProcessEnvironment,
        home: &Home,
        workspace: &Path,
    ) -> Result<Self> {
        let mut write = Vec::new();
        for path in &flags.sandbox_write {
            let path = process_environment.directory.join(path);
            write.push(path.canonicalize().map_err(|error| {
                let problem = format!("--sandbox-write {}: {error}", path.display());
                CommandError::usage(Problem::new("bad-path", problem))
            })?);
        }
        let temporary = tempfile::Builder::new().prefix("cachalot-").tempdir()?;
        let place = without_links(temporary.path());
        let environment = &process_environment.environment;
        let records = default_database(environment)?.with_file_name("sandbox");
        let name = Digest::sha256(workspace.as_os_str().as_encoded_bytes()).to_string();
        let user = environment.get("HOME").map(PathBuf::from);
        let of_user = user.iter().flat_map(|user| credentials(user));
        let denied = of_user
            .chain(data_files(home))
            .map(|path| without_links(&path));
        let policy = Policy {
            write: write.into_iter().chain([place.clone()]).collect(),
            network: match flags.sandbox_network {
                true => Network::All,
                false => Network::None,
            },
            visible: outside_of_run().collect(),
            denied: denied.collect(),
            records: without_links(&records.join(name)),
            ..Policy::default()
        };
        Ok(Self {
            commands: CommandSandbox {
                helper: HELPER.into(),
                policy,
                temporary: place,
            },
            data: data_files(home).collect(),
            _temporary: temporary,
        })
    }

    /// Returns the sandbox of commands that cannot change these files, besides those known by name.
    pub(crate) fn protecting(&self, protected: &[PathBuf]) -> Arc<CommandSandbox> {
        let mut commands = self.commands.clone();
        for path in protected {
            // Nothing may stand where a database is made later.
            let absent = match self.data.contains(path) {
                true => Absent::Nothing,
                false => Absent::Directory,
            };
            // A link, and the file that it leads to.
            let paths = [place_of(path), without_links(path)];
            let read_only = paths.map(|path| ReadOnly { path, absent });
            commands.policy.read_only.extend(read_only);
        }
        Arc::new(commands)
    }
}

/// Files below `/run`, which is empty in a sandbox, that programs need: the addresses of name servers, and the programs
/// of some distributions.
fn outside_of_run() -> impl Iterator<Item = PathBuf> {
    let needed = ["/etc/resolv.conf", "/run/current-system"].map(Path::new);
    let needed = needed
        .into_iter()
        .filter_map(|path| path.canonicalize().ok());
    needed.filter(|path| path.starts_with("/run"))
}

impl Drop for SessionSandbox {
    /// Removes what commands that were killed have left in the workspace.
    fn drop(&mut self) {
        cachalot_sandbox::remove_placeholders(&self.commands.policy.records);
    }
}

/// Returns the path of a file, or of the link itself, with all links of its directory followed.
fn place_of(path: &Path) -> PathBuf {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => without_links(parent).join(name),
        _ => without_links(path),
    }
}

/// The files of Cachalot with answers, payments, keys and messages.
fn data_files(home: &Home) -> impl Iterator<Item = PathBuf> {
    let databases = [&home.database, &home.ledger]
        .into_iter()
        .chain(&home.copies);
    let files =
        databases.flat_map(|file| ["", "-wal", "-shm"].map(|end| companion_path(file, end)));
    files.chain([home.digest_key.path.clone(), home.history.clone()])
}

/// Tries what a sandbox has to prevent, and says what it does.
pub(crate) fn finding() -> Finding {
    const TOPIC: &str = "sandbox";
    let attempts = tempfile::tempdir().and_then(|folder| {
        cachalot_sandbox::attempt_all(Path::new(HELPER), &without_links(folder.path()))
    });
    let attempts = match attempts {
        Ok(attempts) => attempts,
        Err(error) => {
            return Finding::degraded(
                TOPIC,
                format!("there is none for commands: {error}"),
                "`chat --sandbox` needs Linux with user namespaces, which containers and administrators may turn off",
            );
        }
    };
    let named = |is_prevented| {
        let attempts = attempts.iter().filter(|it| it.is_prevented == is_prevented);
        attempts.map(|it| it.action).collect::<Vec<_>>().join("; ")
    };
    match named(false).as_str() {
        "" => Finding::good(TOPIC, format!("tried, and prevented: {}", named(true))),
        others => Finding::degraded(
            TOPIC,
            format!("tried, and not prevented: {others}"),
            "do not rely on `chat --sandbox` on this machine",
        ),
    }
}
