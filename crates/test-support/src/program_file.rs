//! Program files that tests write and then run.
//!
//! A file cannot be run while a process has it open for writing ("Text file busy"). A process that another test
//! starts inherits the open files of all tests until it runs its program, so a file that the test process itself
//! has written can be busy after it was closed. These files are therefore written by a process of their own.

use std::path::Path;

/// Makes a file executable, and able to be run at once.
pub fn make_executable(path: &Path) {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
        let new = path.with_extension("new");
        copy(path, &new);
        std::fs::rename(new, path).unwrap();
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Copies a file. One that is executable can be run at once.
pub fn copy(from: &Path, to: &Path) {
    if is_executable(from) {
        let status = std::process::Command::new("cp").arg(from).arg(to).status();
        assert!(status.unwrap().success(), "{}", from.display());
    } else {
        std::fs::copy(from, to).unwrap();
    }
}

#[cfg(unix)]
fn is_executable(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::metadata(path).unwrap().permissions().mode() & 0o111 != 0
}

#[cfg(not(unix))]
fn is_executable(_path: &Path) -> bool {
    false
}
