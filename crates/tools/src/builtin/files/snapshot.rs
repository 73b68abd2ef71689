//! Reads the previous state of a file that is about to be changed.

use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;

use bytes::Bytes;

use super::commit::FileSnapshot;
use super::open_path::{access_error, unstable_path_error, was_replaced};
use super::{MAX_IN_MEMORY_BYTES, grouped};
use crate::workspace::{FileStamp, PathKind, ResolvedPath};
use cachalot_operation::ToolOutput;

/// Reads a file at a resolved place in one consistent state.
pub(super) fn read(resolved: &ResolvedPath, path: &str) -> Result<FileSnapshot, ToolOutput> {
    let read = || -> io::Result<Option<FileSnapshot>> {
        let file = resolved.open_file()?;
        let stamp = FileStamp::new(&file)?;
        let mode = file.metadata()?.permissions().mode() & 0o7777;
        let mut bytes = Vec::new();
        (&file)
            .take(MAX_IN_MEMORY_BYTES + 1)
            .read_to_end(&mut bytes)?;
        let unmoved = FileStamp::new(&file)? == stamp;
        Ok(unmoved.then(|| FileSnapshot {
            stamp,
            bytes: Bytes::from(bytes),
            mode,
        }))
    };
    match read() {
        Ok(Some(before)) if before.bytes.len() as u64 > MAX_IN_MEMORY_BYTES => {
            Err(ToolOutput::error(format!(
                "`{path}` has more than {} bytes, too many to be changed here; use a program",
                grouped(MAX_IN_MEMORY_BYTES)
            )))
        }
        Ok(Some(before)) => Ok(before),
        Ok(None) => Err(unstable_path_error(path)),
        Err(error) if was_replaced(&error) => Err(unstable_path_error(path)),
        Err(error) => Err(access_error("read", path, &error)),
    }
}

/// Reads the file at a resolved place; `None` if it does not exist.
pub(super) fn read_if_exists(
    resolved: &ResolvedPath,
    path: &str,
) -> Result<Option<FileSnapshot>, ToolOutput> {
    match resolved.found {
        PathKind::Nothing => Ok(None),
        PathKind::File => read(resolved, path).map(Some),
        PathKind::Directory => Err(ToolOutput::error(format!(
            "`{path}` is a directory; a file cannot take its place"
        ))),
        PathKind::Special(what) => Err(super::open_path::special_file_error(path, what)),
    }
}
