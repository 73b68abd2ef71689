//! Reads the previous state of a file that is about to be changed.

use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;

use bytes::Bytes;

use super::commit::Before;
use super::opening::{cannot, is_swapped, restless};
use super::{IN_MEMORY, grouped};
use crate::tool::Output;
use crate::workspace::{Found, Place, Stamp};

/// Reads a file at a resolved place in one consistent state.
pub(super) fn read(place: &Place, path: &str) -> Result<Before, Output> {
    let read = || -> io::Result<Option<Before>> {
        let file = place.open_file()?;
        let stamp = Stamp::of(&file)?;
        let mode = file.metadata()?.permissions().mode() & 0o7777;
        let mut bytes = Vec::new();
        (&file).take(IN_MEMORY + 1).read_to_end(&mut bytes)?;
        let unmoved = Stamp::of(&file)? == stamp;
        Ok(unmoved.then(|| Before {
            stamp,
            bytes: Bytes::from(bytes),
            mode,
        }))
    };
    match read() {
        Ok(Some(before)) if before.bytes.len() as u64 > IN_MEMORY => Err(Output::error(format!(
            "`{path}` has more than {} bytes, too many to be changed here; use a program",
            grouped(IN_MEMORY)
        ))),
        Ok(Some(before)) => Ok(before),
        Ok(None) => Err(restless(path)),
        Err(error) if is_swapped(&error) => Err(restless(path)),
        Err(error) => Err(cannot("read", path, &error)),
    }
}

/// Reads the file at a resolved place; `None` if it does not exist.
pub(super) fn read_if_there(place: &Place, path: &str) -> Result<Option<Before>, Output> {
    match place.found {
        Found::Nothing => Ok(None),
        Found::File => read(place, path).map(Some),
        Found::Directory => Err(Output::error(format!(
            "`{path}` is a directory; a file cannot take its place"
        ))),
        Found::Special(what) => Err(super::opening::special(path, what)),
    }
}
