//! Files for the command, in a directory that only the user can read, and that is removed at its end. A file may contain
//! keys, so the directories of processes that were killed are removed by the next one.

use std::io;
use std::path::Path;

use cachalot_gateway::{CopiedFile, GatewayUrls};
use serde_json::Value;
use tempfile::TempDir;

use super::client_files::ClientFiles;

/// The beginning of the names of the directories; the number of the process follows.
const PREFIX: &str = "exec-";

/// Removes the directories of processes that do not exist.
#[cfg(unix)]
fn remove_abandoned(parent: &Path) {
    use rustix::io::Errno;
    use rustix::process::{Pid, test_kill_process};
    let entries = std::fs::read_dir(parent).into_iter().flatten();
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let number = rest.and_then(|rest| rest.split_once('-')?.0.parse().ok());
        let is_abandoned = number
            .and_then(Pid::from_raw)
            .is_some_and(|process| test_kill_process(process) == Err(Errno::SRCH));
        if is_abandoned {
            // Another process may remove it at the same time.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Creates the directory below `parent`. Some clients read no file below a directory that others can write.
///
/// # Errors
/// It cannot be created.
pub(super) fn directory(parent: &Path) -> io::Result<TempDir> {
    std::fs::create_dir_all(parent)?;
    #[cfg(unix)]
    remove_abandoned(parent);
    let prefix = format!("{PREFIX}{}-", std::process::id());
    let mut directory = tempfile::Builder::new();
    directory.prefix(&prefix);
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        directory.permissions(std::fs::Permissions::from_mode(0o700));
    }
    directory.tempdir_in(parent)
}

/// Writes a file.
///
/// # Errors
/// It cannot be written.
pub(super) fn write(name: &str, content: &str, urls: GatewayUrls<'_>) -> io::Result<()> {
    std::fs::write(Path::new(urls.files).join(name), urls.fill_in(content))
}

/// Copies a file of the client, if there is one, with the members that are set in it.
///
/// # Errors
/// The copy cannot be written.
pub(super) fn copy(
    copied: &CopiedFile,
    client: ClientFiles<'_>,
    urls: GatewayUrls<'_>,
) -> io::Result<()> {
    let Some(mut file) = client.read(&copied.file) else {
        return Ok(());
    };
    for (pointer, value) in &copied.set {
        let (parent, member) = pointer.rsplit_once('/').unwrap_or(("", pointer));
        if let Some(Value::Object(parent)) = file.pointer_mut(parent) {
            parent.insert(member.to_owned(), urls.fill_in(value).into());
        }
    }
    std::fs::write(Path::new(urls.files).join(&copied.to), file.to_string())
}

#[cfg(all(test, unix))]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn directories_of_processes_that_were_killed_are_removed() {
        let parent = tempfile::tempdir().unwrap();
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        ended.wait().unwrap();
        let abandoned = parent.path().join(format!("{PREFIX}{}-abc", ended.id()));
        let others = ["exec-", "exec-notes-a", "execution"].map(|name| parent.path().join(name));
        for directory in others.iter().chain([&abandoned]) {
            std::fs::create_dir(directory).unwrap();
        }
        let first = directory(parent.path()).unwrap();
        let second = directory(parent.path()).unwrap();
        assert!(!abandoned.exists());
        assert!(others.iter().all(|directory| directory.exists()));
        assert!(first.path().exists() && second.path().exists());
    }
}
