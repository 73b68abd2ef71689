//! Limits on what a program may read, write and reach.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Mechanism;

/// The first argument of a process that is the helper of a sandbox.
pub(crate) const HELPER: &str = "sandbox-helper";

/// Limits on what a program and its descendants may read, write and reach. All paths are absolute and canonical: without
/// links, `.` and `..`.
///
/// Everything else that the user may read can be read, except `/tmp`, `/var/tmp`, `/run` and other processes, which
/// are not there. Nothing that the program starts outlives it, unless the owner lets it: see [`Policy::command`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    /// The means of the system.
    pub mechanism: Mechanism,
    /// Files and directories that may be written, with everything below. They exist.
    pub write: Vec<PathBuf>,
    /// Files and directories below [`Policy::write`] that cannot be changed, made, renamed or removed; nor can their
    /// ancestors be renamed or removed.
    pub read_only: Vec<ReadOnly>,
    /// Files and directories that cannot be read. Those that do not exist are ignored.
    pub denied: Vec<PathBuf>,
    /// Files and directories that can be read although they are below a directory that is not there, such as `/tmp`.
    pub visible: Vec<PathBuf>,
    /// The network that can be reached.
    pub network: Network,
    /// True if Unix sockets may be made, and with them those of other programs reached.
    pub unix_sockets: bool,
    /// A directory that records what stands where a read-only file does not exist; programs cannot change it. All
    /// policies for the same files have the same one. It need not exist.
    pub records: PathBuf,
}

/// A file or directory that cannot be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOnly {
    /// Its path.
    pub path: PathBuf,
    /// The placeholder while it does not exist.
    pub absent: Absent,
}

/// The placeholder of a read-only file that does not exist, while a program runs: nothing else keeps the program from
/// making the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// None: it may be made. It was there when the policy was made, and need not be there any more.
    Nothing,
    /// An empty file.
    File,
    /// An empty directory.
    Directory,
    /// The pointer of a git directory to the common one: to itself, as without the file. Git refuses an empty one.
    GitPointer,
}

/// The network that a program can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Network {
    /// Only its own loopback interface, where what it starts can listen.
    #[default]
    None,
    /// Its own loopback interface, and on it an HTTP proxy of the caller, which environment variables name
    /// (`HTTPS_PROXY`). The caller listens on the Unix socket of this path, and gets from each connection the socket of a
    /// sandbox: see [`crate::receive_listener`]. Programs in the sandbox need not see the path.
    Proxy(PathBuf),
    /// The network of the machine.
    All,
}

/// Options of the helper, each with a path.
const WRITE: &str = "--write";
const READ_ONLY: &str = "--read-only";
const DENY: &str = "--deny";
const VISIBLE: &str = "--visible";
const RECORDS: &str = "--records";
const PROXY: &str = "--proxy";
/// Like [`READ_ONLY`], for a directory while it does not exist.
const READ_ONLY_DIRECTORY: &str = "--read-only-directory";
/// Like [`READ_ONLY`], for the pointer of a git directory to the common one while it does not exist.
const READ_ONLY_POINTER: &str = "--read-only-pointer";
/// Like [`READ_ONLY`], for one that may be made while it does not exist.
const READ_ONLY_IF_THERE: &str = "--read-only-if-there";
/// Options of the helper without a value.
const LANDLOCK: &str = "--landlock";
const NETWORK: &str = "--network";
const UNIX_SOCKETS: &str = "--unix-sockets";

impl Absent {
    fn option(self) -> &'static str {
        match self {
            Self::Nothing => READ_ONLY_IF_THERE,
            Self::File => READ_ONLY,
            Self::Directory => READ_ONLY_DIRECTORY,
            Self::GitPointer => READ_ONLY_POINTER,
        }
    }
}

/// The argument of the helper that is wrong.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ArgumentError {
    /// The value of an option is missing, or is no absolute path.
    #[error("{0:?} has no absolute path")]
    NoPath(OsString),
    /// There is no such option.
    #[error("{0:?} is no option")]
    Unknown(OsString),
    /// The end of the options is missing.
    #[error("there is no `--`")]
    NoEnd,
    /// The program is missing.
    #[cfg(target_os = "linux")]
    #[error("there is no program")]
    NoProgram,
}

impl Policy {
    /// Returns the command that runs a program in the sandbox; arguments, environment and working directory can be
    /// added to it as to that of the program. `helper` is an executable whose `main` calls
    /// [`crate::run_if_helper`].
    ///
    /// The process ends as the program does: with its exit code, or by the same signal. What the program has started
    /// goes on until it ends, or the process group of the command is killed. If the sandbox cannot be made, the
    /// program does not run: a line on stderr says why, and the exit code is 126.
    #[must_use]
    pub fn command(&self, helper: &Path, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(helper);
        command.arg(HELPER);
        let mut option = |name: &str, path: &Path| {
            command.arg(name).arg(path);
        };
        self.write.iter().for_each(|path| option(WRITE, path));
        for ReadOnly { path, absent } in &self.read_only {
            option(absent.option(), path);
        }
        self.denied.iter().for_each(|path| option(DENY, path));
        self.visible.iter().for_each(|path| option(VISIBLE, path));
        if !self.read_only.is_empty() {
            option(RECORDS, &self.records);
        }
        match &self.network {
            Network::None => {}
            Network::Proxy(socket) => option(PROXY, socket),
            Network::All => {
                command.arg(NETWORK);
            }
        }
        if self.mechanism == Mechanism::Landlock {
            command.arg(LANDLOCK);
        }
        if self.unix_sockets {
            command.arg(UNIX_SOCKETS);
        }
        // The end of the options keeps a program whose name begins with `--` from being read as one.
        command.arg("--").arg(program);
        command
    }

    /// Reads the arguments of a helper, and returns them with those of the program.
    ///
    /// # Errors
    /// The argument that is wrong.
    pub(crate) fn parse(
        mut arguments: impl Iterator<Item = OsString>,
    ) -> Result<(Self, Vec<OsString>), ArgumentError> {
        let mut policy = Self::default();
        while let Some(argument) = arguments.next() {
            let name = argument.to_str().unwrap_or_default();
            match name {
                "--" => return Ok((policy, arguments.collect())),
                NETWORK => policy.network = Network::All,
                LANDLOCK => policy.mechanism = Mechanism::Landlock,
                UNIX_SOCKETS => policy.unix_sockets = true,
                _ => {
                    let path = arguments.next().map(PathBuf::from);
                    // The helper begins in the directory of the program, where a relative path would name another file.
                    let path = path.filter(|path| path.is_absolute());
                    let path = path.ok_or_else(|| ArgumentError::NoPath(argument.clone()))?;
                    let read_only = |absent| ReadOnly {
                        path: path.clone(),
                        absent,
                    };
                    match name {
                        WRITE => policy.write.push(path),
                        DENY => policy.denied.push(path),
                        VISIBLE => policy.visible.push(path),
                        RECORDS => policy.records = path,
                        PROXY => policy.network = Network::Proxy(path),
                        READ_ONLY => policy.read_only.push(read_only(Absent::File)),
                        READ_ONLY_IF_THERE => {
                            policy.read_only.push(read_only(Absent::Nothing));
                        }
                        READ_ONLY_DIRECTORY => policy.read_only.push(read_only(Absent::Directory)),
                        READ_ONLY_POINTER => policy.read_only.push(read_only(Absent::GitPointer)),
                        _ => return Err(ArgumentError::Unknown(argument)),
                    }
                }
            }
        }
        Err(ArgumentError::NoEnd)
    }
}
