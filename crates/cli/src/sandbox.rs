//! The sandbox of the programs that a chat or a run starts.

mod hook_programs;
mod settings;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_core::links::without_links;
use cachalot_core::{Digest, Problem, disk};
use cachalot_sandbox::{Absent, CommandSandbox, Mechanism, Network, Policy, ReadOnly, credentials};
use cachalot_store::Finding;
use cachalot_tools::SandboxProxy;
use tempfile::TempDir;

use crate::command_error::{CommandError, Result};
use crate::home::{Home, companion_path, default_database};
use crate::wiring::ProcessEnvironment;

pub(crate) use hook_programs::HookPrograms;
pub(crate) use settings::{NetworkAccess, SandboxSettings, file, save, save_network_of};

/// Returns this program, which also makes sandboxes.
fn helper() -> PathBuf {
    match std::env::consts::OS {
        // Also after the file was replaced by a newer one.
        "linux" => "/proc/self/exe".into(),
        _ => std::env::current_exe().unwrap_or_default(),
    }
}

/// Returns the sandbox of this machine, if it has one. Tries it, which takes some milliseconds.
pub(crate) fn available() -> Option<Mechanism> {
    cachalot_sandbox::available(&helper())
}

/// Returns the sandbox of this machine, if it has one that guards files. Tries it, which takes some milliseconds.
pub(crate) fn guarding() -> Option<Mechanism> {
    available().filter(|mechanism| mechanism.guards_files())
}

/// Fails on a machine that cannot run programs in a sandbox.
///
/// # Errors
/// There is none.
pub(crate) fn require() -> Result<()> {
    match guarding() {
        Some(_) => Ok(()),
        None => Err(unavailable()),
    }
}

/// Returns the error of a machine that cannot run programs in a sandbox.
pub(crate) fn unavailable() -> CommandError {
    let problem = Problem::new(
        "no-sandbox",
        "--sandbox: this machine cannot run commands in a sandbox",
    );
    CommandError::usage(problem.help(
        "it needs Linux with user namespaces, which containers and administrators may turn off; `cachalot doctor` says what fails",
    ))
}

/// The programs that run in a sandbox.
#[derive(Debug, Clone, Default)]
pub(crate) struct SandboxUse {
    /// The limits of the sandbox.
    pub(crate) settings: SandboxSettings,
    /// The way in which they are enforced.
    pub(crate) mechanism: Mechanism,
    /// True if commands of tools run in it.
    pub(crate) commands: bool,
    /// True if Python code of a workflow runs in it.
    pub(crate) python: bool,
    /// The network of that code.
    pub(crate) python_network: PythonNetwork,
}

/// The network of the Python code of a workflow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum PythonNetwork {
    /// None: the file does not ask for it.
    #[default]
    None,
    /// As in the settings.
    AsPermitted,
    /// All of it: the user permits it to this file.
    All,
}

/// The sandbox of a chat or a run. Its temporary files are removed with it.
pub(crate) struct SessionSandbox {
    commands: CommandSandbox,
    data: Vec<PathBuf>,
    _temporary: TempDir,
    _copies: TempDir,
    /// The records of placeholders, if the user's data directory cannot be written.
    _records: Option<TempDir>,
    /// The proxy to the hosts that can be reached, with the directory of its socket.
    _proxy: Option<(SandboxProxy, TempDir)>,
}

impl SessionSandbox {
    /// Prepares the sandbox, on a machine that has one. Needs a runtime of tokio.
    ///
    /// # Errors
    /// There is no place for temporary files and records, or for the socket of the proxy.
    pub(crate) fn new(
        settings: &SandboxSettings,
        mechanism: Mechanism,
        process_environment: &ProcessEnvironment,
        home: &Home,
        workspace: &Path,
    ) -> Result<Self> {
        let folder = || tempfile::Builder::new().prefix("cachalot-").tempdir();
        let (temporary, copies) = (folder()?, folder()?);
        let place = without_links(temporary.path());
        let environment = &process_environment.environment;
        let name = Digest::sha256(workspace.as_os_str().as_encoded_bytes()).to_string();
        let records = default_database(environment)?
            .with_file_name("sandbox")
            .join(name);
        // Then other processes do not know of the placeholders of this one, which may outlast it if it is killed.
        let own_records = match disk::check_writable(&records) {
            Ok(()) => None,
            Err(_) => Some(folder()?),
        };
        let records = own_records.as_ref().map_or(&*records, TempDir::path);
        let user = environment.get("HOME").map(PathBuf::from);
        let of_user = user.iter().flat_map(|user| credentials(user));
        let denied = of_user
            .chain(data_files(home))
            .map(|path| without_links(&path));
        let copies_place = without_links(copies.path());
        let (network, hosts, proxy) = match &settings.network {
            NetworkAccess::None => (Network::None, Vec::new(), None),
            NetworkAccess::All => (Network::All, Vec::new(), None),
            NetworkAccess::Hosts(hosts) => {
                let folder = folder()?;
                let socket = without_links(folder.path()).join("proxy");
                let proxy = SandboxProxy::start(&socket, hosts, &process_environment.http()?)?;
                (Network::Proxy(socket), hosts.clone(), Some((proxy, folder)))
            }
        };
        let written = settings.write.iter().cloned();
        let policy = Policy {
            mechanism,
            write: written.chain([place.clone()]).collect(),
            network,
            unix_sockets: settings.unix_sockets,
            visible: outside_of_run().collect(),
            denied: denied.chain([copies_place.clone()]).collect(),
            records: without_links(records),
            ..Policy::default()
        };
        Ok(Self {
            commands: CommandSandbox {
                helper: helper(),
                policy,
                hosts,
                temporary: place,
                copies: copies_place,
            },
            data: data_files(home).collect(),
            _temporary: temporary,
            _copies: copies,
            _records: own_records,
            _proxy: proxy,
        })
    }

    /// Returns the directory for temporary files of commands.
    pub(crate) fn temporary(&self) -> &Path {
        &self.commands.temporary
    }

    /// Returns the directory for copies of files, which commands can neither read nor write.
    pub(crate) fn copies(&self) -> &Path {
        &self.commands.copies
    }

    /// Returns the sandbox of commands that cannot change these files, besides those known by name.
    pub(crate) fn protecting(&self, protected: &[PathBuf]) -> Arc<CommandSandbox> {
        let mut commands = self.commands.clone();
        for path in protected {
            // Nothing may stand where a database is made later.
            let absent = if self.data.contains(path) {
                Absent::Nothing
            } else {
                Absent::Directory
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
        // SQLite keeps the latest changes in files beside the database.
        databases.flat_map(|file| ["", "-wal", "-shm"].map(|end| companion_path(file, end)));
    files
        .chain([home.digest_key.path.clone(), home.history.clone()])
        .chain(home.logins.clone())
}

/// Tries what a sandbox has to prevent, and says what it does.
pub(crate) fn finding() -> Finding {
    const TOPIC: &str = "sandbox";
    let attempts = tempfile::tempdir()
        .and_then(|folder| cachalot_sandbox::attempt_all(&helper(), &without_links(folder.path())));
    let attempts = match attempts {
        Ok(attempts) => attempts,
        Err(error) => {
            let what = match available() {
                Some(_) => {
                    "only a limited one for commands: they write in the workspace only and have no network, but protected and denied files are not guarded"
                }
                None => "there is none for commands",
            };
            return Finding::degraded(
                TOPIC,
                format!("{what}: {error}"),
                "a whole one needs Linux with user namespaces, which containers and administrators may turn off",
            );
        }
    };
    let named = |is_prevented| {
        let attempts = attempts
            .iter()
            .filter(|attempt| attempt.is_prevented == is_prevented);
        attempts
            .map(|attempt| attempt.action)
            .collect::<Vec<_>>()
            .join("; ")
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
