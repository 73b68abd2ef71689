//! Tries what a sandbox has to prevent, so that a user sees that it does.

use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use crate::{Absent, Policy, ReadOnly};

/// The first argument of a process that makes the attempts.
pub(crate) const ATTEMPTS: &str = "sandbox-attempts";

/// Something that a program in a sandbox cannot do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The action that was tried.
    pub action: &'static str,
    /// True if it failed.
    pub is_prevented: bool,
}

/// Tries something with the files and sockets in a folder.
type Try = fn(&Path) -> io::Result<()>;

/// All actions, with the way to try each.
const ALL: [(&str, Try); 6] = [
    ("write a protected file", |folder| {
        append(&folder.join("work/protected"))
    }),
    ("make a protected file", |folder| {
        append(&folder.join("work/absent"))
    }),
    ("write outside of the workspace", |folder| {
        append(&folder.join("outside"))
    }),
    ("read a denied file", |folder| {
        fs::read(folder.join("work/denied")).map(drop)
    }),
    ("connect to a port of this machine", |folder| {
        let address = fs::read_to_string(folder.join("work/address"))?;
        TcpStream::connect(address).map(drop)
    }),
    ("connect to a Unix socket", |folder| {
        UnixStream::connect(folder.join("work/socket")).map(drop)
    }),
];

fn append(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).open(path).map(drop)
}

/// Makes each attempt in a sandbox, with files of its own in an empty directory, which has a canonical path.
///
/// # Errors
/// If the files cannot be made, or the sandbox cannot.
pub fn attempt_all(helper: &Path, folder: &Path) -> io::Result<Vec<Attempt>> {
    let work = folder.join("work");
    fs::create_dir(&work)?;
    for file in [
        work.join("protected"),
        work.join("denied"),
        folder.join("outside"),
    ] {
        fs::write(file, "content")?;
    }
    let port = TcpListener::bind("127.0.0.1:0")?;
    fs::write(work.join("address"), port.local_addr()?.to_string())?;
    // Both listeners live until the attempts are made: without one, a refused connection would look like one that the
    // sandbox prevented.
    let _socket = UnixListener::bind(work.join("socket"))?;
    let read_only = |name: &str| ReadOnly {
        path: work.join(name),
        absent: Absent::File,
    };
    let policy = Policy {
        write: vec![work.clone()],
        read_only: vec![read_only("protected"), read_only("absent")],
        denied: vec![work.join("denied")],
        visible: vec![folder.to_owned()],
        records: folder.join("records"),
        ..Policy::default()
    };
    // The executable itself may be where nothing is visible, such as below `/tmp`.
    let mut command = policy.command(helper, "/proc/self/exe");
    command.arg(ATTEMPTS).arg(folder).current_dir(&work);
    let output = command.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(error.trim().to_owned()));
    }
    // Only an attempt that the process reports as failed counts as prevented: a process that ended early proves
    // nothing.
    let prevented = String::from_utf8_lossy(&output.stdout);
    let attempts = ALL.iter().map(|(action, _)| Attempt {
        action,
        is_prevented: prevented.lines().any(|line| line == *action),
    });
    Ok(attempts.collect())
}

/// Makes the attempts with the files of a folder, and prints those that failed.
pub(crate) fn run(mut arguments: impl Iterator<Item = OsString>) -> ! {
    use io::Write as _;
    let folder = arguments.next().map(PathBuf::from).unwrap_or_default();
    for (action, attempt) in ALL {
        if attempt(&folder).is_err() {
            let _ = writeln!(io::stdout(), "{action}");
        }
    }
    std::process::exit(0)
}
