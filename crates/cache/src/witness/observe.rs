//! Observations of files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use bytes::Bytes;
use cachalot_core::Digest;
use sha2::Digest as _;

use super::error::ObservationError;
use super::status::{Absence, FileStatus, FileSystemTimes};
use super::{Observed, ObservedState};

type Result<T> = std::result::Result<T, ObservationError>;

fn name(path: &Path) -> Result<String> {
    match path.to_str() {
        Some(path) => Ok(path.to_owned()),
        None => Err(ObservationError::Name(path.display().to_string())),
    }
}

fn directory_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn changed_while_read(path: &Path) -> ObservationError {
    ObservationError::ChangedWhileRead(path.display().to_string())
}

/// Reads a file through one handle, and records it.
pub(super) fn read(path: &Path, times: &FileSystemTimes) -> io::Result<(Result<Observed>, Bytes)> {
    // One handle for the status and the content: another process may replace the file at this path at any time.
    let mut file = File::open(path)?;
    let before = FileStatus::from(&file.metadata()?);
    let mut bytes = Vec::with_capacity(usize::try_from(before.size).unwrap_or(0));
    file.read_to_end(&mut bytes)?;
    let after = FileStatus::from(&file.metadata()?);
    let observed = if before.same_as(&after) {
        content_observation(
            path,
            (Digest::sha256(&bytes), bytes.len() as u64),
            before,
            times,
        )
    } else {
        Err(changed_while_read(path))
    };
    Ok((observed, bytes.into()))
}

/// Records the digest and length of a content. A length that differs from the status is that of a file
/// which is generated when it is read, like those of `/proc`: nothing reveals when it changes.
fn content_observation(
    path: &Path,
    (digest, length): (Digest, u64),
    status: FileStatus,
    times: &FileSystemTimes,
) -> Result<Observed> {
    if length != status.size {
        return Err(ObservationError::Generated {
            path: path.display().to_string(),
            length,
            size: status.size,
        });
    }
    let status = status.with_trust(path, directory_of(path), times);
    Ok(Observed {
        path: name(path)?,
        what: ObservedState::Content { digest, status },
    })
}

/// The observation that follows from a failed read of a path.
pub(super) fn observe_failed_read(path: &Path, error: &io::Error) -> Result<Observed> {
    let what = match Absence::from_error(error) {
        Some(absence) => ObservedState::Absent(absence),
        None if error.kind() == io::ErrorKind::IsADirectory => {
            ObservedState::Present { directory: true }
        }
        None => return Err(ObservationError::unreadable(path, error)),
    };
    Ok(Observed {
        path: name(path)?,
        what,
    })
}

/// Observes the current content of a path, in constant memory.
pub(super) fn content(path: &Path, times: &FileSystemTimes) -> Result<Observed> {
    match FileStatus::read(path).map_err(|error| ObservationError::unreadable(path, &error))? {
        Err(absence) => Ok(Observed {
            path: name(path)?,
            what: ObservedState::Absent(absence),
        }),
        Ok(status) if status.directory => listing(path, times),
        // Opening a pipe would wait for its other end.
        Ok(_) if !path.is_file() => Err(ObservationError::Special(path.display().to_string())),
        Ok(_) => {
            let mut file =
                File::open(path).map_err(|error| ObservationError::unreadable(path, &error))?;
            let status_of = |file: &File| {
                file.metadata()
                    .map(|m| FileStatus::from(&m))
                    .map_err(|error| ObservationError::unreadable(path, &error))
            };
            let before = status_of(&file)?;
            let content =
                hash(&mut file).map_err(|error| ObservationError::unreadable(path, &error))?;
            if !before.same_as(&status_of(&file)?) {
                return Err(changed_while_read(path));
            }
            content_observation(path, content, before, times)
        }
    }
}

/// The digest and the length of all that can be read.
fn hash(file: &mut File) -> io::Result<(Digest, u64)> {
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 256 << 10];
    let mut length = 0;
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok((Digest(hasher.finalize().into()), length)),
            read => {
                hasher.update(&buffer[..read]);
                length += read as u64;
            }
        }
    }
}

/// Observes the names and types of a directory's entries.
pub(super) fn listing(path: &Path, times: &FileSystemTimes) -> Result<Observed> {
    let status =
        match FileStatus::read(path).map_err(|error| ObservationError::unreadable(path, &error))? {
            Err(absence) => {
                return Ok(Observed {
                    path: name(path)?,
                    what: ObservedState::Absent(absence),
                });
            }
            Ok(status) if status.directory => status,
            Ok(_) => {
                return Ok(Observed {
                    path: name(path)?,
                    what: ObservedState::Present { directory: false },
                });
            }
        };
    let mut entries = Vec::new();
    for entry in
        std::fs::read_dir(path).map_err(|error| ObservationError::unreadable(path, &error))?
    {
        let entry = entry.map_err(|error| ObservationError::unreadable(path, &error))?;
        let kind = entry
            .file_type()
            .map_err(|error| ObservationError::unreadable(path, &error))?;
        let kind = [
            u8::from(kind.is_dir()),
            u8::from(kind.is_file()),
            u8::from(kind.is_symlink()),
        ];
        entries.push((entry.file_name().into_encoded_bytes(), kind));
    }
    // File systems return entries in any order, which must not count as a change.
    entries.sort_unstable();
    let parts: Vec<&[u8]> = entries
        .iter()
        .flat_map(|(name, kind)| [name.as_slice(), kind.as_slice()])
        .collect();
    let digest = Digest::sha256_of_parts(&parts);
    match FileStatus::read(path) {
        Ok(Ok(after)) if after.same_as(&status) => {
            let status = status.with_trust(path, path, times);
            Ok(Observed {
                path: name(path)?,
                what: ObservedState::Listing { digest, status },
            })
        }
        _ => Err(changed_while_read(path)),
    }
}

/// Observes the existence and the type of a path.
pub(super) fn existence(path: &Path) -> Result<Observed> {
    let what =
        match FileStatus::read(path).map_err(|error| ObservationError::unreadable(path, &error))? {
            Err(absence) => ObservedState::Absent(absence),
            Ok(status) => ObservedState::Present {
                directory: status.directory,
            },
        };
    Ok(Observed {
        path: name(path)?,
        what,
    })
}

/// Observes the canonical path.
pub(super) fn target(path: &Path) -> Result<Observed> {
    let real = match std::fs::canonicalize(path) {
        Ok(real) => Some(name(&real)?),
        Err(error) if Absence::from_error(&error).is_some() => None,
        Err(error) => return Err(ObservationError::unreadable(path, &error)),
    };
    Ok(Observed {
        path: name(path)?,
        what: ObservedState::Target { real },
    })
}
