//! Local files.

use std::fs::{File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use cachalot_core::clock::millis;
use futures_util::StreamExt as _;
use futures_util::stream::{self, BoxStream};

use crate::error::{Error, ErrorKind, too_large};
use crate::hash::{Algorithm, HashOutput, hash_open_file};
use crate::stat::Stat;

const CHUNK: usize = 256 * 1024;

/// Opens a regular file. Checks the file type first, because opening a pipe would block until it has a
/// writer.
pub(crate) fn open(shown: &str, path: &Path) -> Result<File, Error> {
    // Before it is opened: opening a pipe waits until a program writes to it.
    let before = std::fs::metadata(path).map_err(|error| fault(shown, path, error))?;
    check_is_file(shown, &before)?;
    let file = File::open(path).map_err(|error| fault(shown, path, error))?;
    // The open file may be another one than the one that was looked at.
    let now = file.metadata().map_err(|error| fault(shown, path, error))?;
    check_is_file(shown, &now)?;
    Ok(file)
}

fn check_is_file(shown: &str, metadata: &Metadata) -> Result<(), Error> {
    if metadata.is_dir() {
        return Err(Error::new(
            ErrorKind::IsDirectory,
            format!("`{shown}` is a directory; name a file in it"),
        ));
    }
    if !metadata.is_file() {
        return Err(Error::new(
            ErrorKind::Invalid,
            format!("`{shown}` is a pipe, socket or device; only regular files are read"),
        ));
    }
    Ok(())
}

/// Converts an I/O error of a file.
pub(crate) fn fault(shown: &str, path: &Path, error: io::Error) -> Error {
    let place = if path == Path::new(shown) {
        String::new()
    } else {
        format!(" (that is `{}`)", path.display())
    };
    let (kind, message) = match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
            let remedy = if shown.starts_with('~') {
                "`~` is not expanded here: write the home directory out"
            } else {
                "check the path"
            };
            (
                ErrorKind::NotFound,
                format!("no such file: `{shown}`{place}; {remedy}"),
            )
        }
        io::ErrorKind::PermissionDenied => (
            ErrorKind::Denied,
            format!(
                "no permission to read `{shown}`{place}; check the modes of the file and its directories"
            ),
        ),
        io::ErrorKind::IsADirectory => (
            ErrorKind::IsDirectory,
            format!("`{shown}` is a directory; name a file in it"),
        ),
        io::ErrorKind::InvalidInput | io::ErrorKind::InvalidFilename => (
            ErrorKind::Invalid,
            format!("`{shown}` cannot be the name of a file: {error}"),
        ),
        _ => (
            ErrorKind::Unavailable,
            format!("cannot read `{shown}`{place}: {error}"),
        ),
    };
    Error::new(kind, message).with_source(error)
}

/// Returns size and modification time of a file.
pub(crate) async fn stat(shown: String, path: PathBuf) -> Result<Stat, Error> {
    blocking(move || {
        let metadata = std::fs::metadata(&path).map_err(|error| fault(&shown, &path, error))?;
        check_is_file(&shown, &metadata)?;
        let modified = metadata.modified().ok().map(millis);
        Ok(Stat {
            size: metadata.len(),
            modified,
            etag: None,
        })
    })
    .await
}

/// Reads a whole file, if it has at most `max_bytes` bytes.
pub(crate) async fn read(shown: String, path: PathBuf, max_bytes: u64) -> Result<Bytes, Error> {
    blocking(move || {
        let file = open(&shown, &path)?;
        let size = file.metadata().map_or(0, |metadata| metadata.len());
        if size > max_bytes {
            return Err(too_large(&shown, Some(size), max_bytes));
        }
        // A sparse file may have any size; beyond this limit, the buffer grows with the bytes that are read.
        let mut bytes = Vec::with_capacity(usize::try_from(size.min(1 << 26)).unwrap_or(0) + 1);
        // One additional byte reveals a file that has grown, or that reports no size.
        file.take(max_bytes.saturating_add(1))
            .read_to_end(&mut bytes)
            .map_err(|error| fault(&shown, &path, error))?;
        if bytes.len() as u64 > max_bytes {
            return Err(too_large(&shown, None, max_bytes));
        }
        Ok(Bytes::from(bytes))
    })
    .await
}

/// Returns the content in chunks of a fixed size.
pub(crate) async fn chunks(
    shown: String,
    path: PathBuf,
) -> Result<BoxStream<'static, Result<Bytes, Error>>, Error> {
    let (shown, path, file) = blocking(move || {
        let file = open(&shown, &path)?;
        Ok((shown, path, file))
    })
    .await?;
    let stream = stream::try_unfold((shown, path, file), |(shown, path, mut file)| {
        blocking(move || {
            let mut chunk = Vec::with_capacity(CHUNK);
            (&mut file)
                .take(CHUNK as u64)
                .read_to_end(&mut chunk)
                .map_err(|error| fault(&shown, &path, error))?;
            let next = (!chunk.is_empty()).then(|| (Bytes::from(chunk), (shown, path, file)));
            Ok(next)
        })
    });
    Ok(stream.boxed())
}

/// Writes a file, and its folder if it does not exist. They survive a crash of the machine.
pub(crate) async fn write(shown: String, path: PathBuf, bytes: Bytes) -> Result<(), Error> {
    let written = blocking_io(move || {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        let mut file = File::create(&path)?;
        file.write_all(&bytes)?;
        file.sync_all()?;
        // The name is durable with its folder; on Windows it is with the file.
        if cfg!(unix) {
            File::open(folder)?.sync_all()
        } else {
            Ok(())
        }
    });
    written
        .await
        .map_err(|error| unwritable("write", &shown, error))
}

/// Deletes a file, if it exists.
pub(crate) async fn delete(shown: String, path: PathBuf) -> Result<(), Error> {
    match blocking_io(move || std::fs::remove_file(path)).await {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(unwritable("delete", &shown, error))
        }
        _ => Ok(()),
    }
}

async fn blocking_io(work: impl FnOnce() -> io::Result<()> + Send + 'static) -> io::Result<()> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn unwritable(action: &str, shown: &str, error: io::Error) -> Error {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("cannot {action} `{shown}`: {error}")).with_source(error)
}

/// Hashes in one blocking task, which stops soon after its caller was dropped.
pub(crate) async fn hash(
    shown: String,
    path: PathBuf,
    algorithm: Algorithm,
) -> Result<HashOutput, Error> {
    let gone = CancelOnDrop(Arc::new(AtomicBool::new(false)));
    let flag = Arc::clone(&gone.0);
    blocking(move || {
        let mut file = open(&shown, &path)?;
        hash_open_file(&mut file, algorithm, || !flag.load(Ordering::Relaxed))
            .map_err(|error| fault(&shown, &path, error))?
            .ok_or_else(cancelled)
    })
    .await
}

/// Hashes the content of a file in constant memory. Blocks until the file is read.
///
/// # Errors
/// The file does not exist, is a directory or another non-regular file, is not readable because of its
/// permissions, or a read fails.
pub fn hash_file(path: &Path, algorithm: Algorithm) -> Result<HashOutput, Error> {
    let shown = path.to_string_lossy();
    let mut file = open(&shown, path)?;
    hash_open_file(&mut file, algorithm, || true)
        .map_err(|error| fault(&shown, path, error))?
        .ok_or_else(|| Error::new(ErrorKind::Unavailable, format!("gave up hashing `{shown}`")))
}

/// Signals, when dropped, that the caller no longer waits.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    tokio::task::spawn_blocking(work)
        .await
        .unwrap_or_else(|_| Err(cancelled()))
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Unavailable, "reading was cancelled").retrying(true)
}
