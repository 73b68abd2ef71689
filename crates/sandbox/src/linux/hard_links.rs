//! Other names of read-only files.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::error::{Error, Step as _};
use crate::Policy;

/// Refuses read-only files, also those in read-only directories, that have another name below the roots, where they could
/// be changed.
///
/// # Errors
/// If there is such a name, or a directory cannot be read.
pub(super) fn refuse(policy: &Policy, read_only: &BTreeSet<PathBuf>) -> Result<(), Error> {
    let mut linked = BTreeMap::new();
    for path in read_only {
        walk(path, &BTreeSet::new(), &mut |path, metadata| {
            if metadata.nlink() > 1 {
                linked.insert(number(metadata), path.to_owned());
            }
            Ok(())
        })?;
    }
    // The usual case. Only a file with a second name makes it necessary to walk the roots, which may be large.
    if linked.is_empty() {
        return Ok(());
    }
    let mut refuse = |other: &Path, metadata: &fs::Metadata| match linked.get(&number(metadata)) {
        Some(path) => Err(Error::HardLinked {
            path: path.display().to_string(),
            other: other.display().to_string(),
        }),
        None => Ok(()),
    };
    // A program cannot reach those.
    let without = read_only.iter().chain(&policy.denied).cloned().collect();
    let mut roots = policy.write.iter();
    roots.try_for_each(|root| walk(root, &without, &mut refuse))
}

fn number(metadata: &fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Visits a file, or all files below a directory, but not those in `without`.
fn walk(
    place: &Path,
    without: &BTreeSet<PathBuf>,
    visit: &mut dyn FnMut(&Path, &fs::Metadata) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut places = vec![place.to_owned()];
    while let Some(place) = places.pop() {
        let metadata = match fs::symlink_metadata(&place) {
            Ok(metadata) => metadata,
            // Removed since.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error).on("the file", &place),
        };
        if metadata.is_dir() {
            for entry in fs::read_dir(&place).on("the directory", &place)? {
                let path = entry.on("the directory", &place)?.path();
                if !without.contains(&path) {
                    places.push(path);
                }
            }
        } else if metadata.is_file() {
            visit(&place, &metadata)?;
        }
    }
    Ok(())
}
