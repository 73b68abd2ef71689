//! Files for the command, in a directory that only the user can read, and that is removed at its end.

use std::io;
use std::path::Path;

use cachalot_gateway::{CopiedFile, GatewayUrls};
use serde_json::Value;
use tempfile::TempDir;

use super::client_files::ClientFiles;

/// Creates the directory below `parent`. Some clients read no file below a directory that others can write.
///
/// # Errors
/// It cannot be created.
pub(super) fn directory(parent: &Path) -> io::Result<TempDir> {
    std::fs::create_dir_all(parent)?;
    let mut directory = tempfile::Builder::new();
    directory.prefix("exec-");
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
