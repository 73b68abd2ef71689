//! Atomic replacement of files.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use tempfile::TempPath;

use crate::links::without_links;

/// The permissions of the new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// The permissions of the file that is replaced; those of new files (`umask`) if there is none.
    Kept,
    /// Accessible to its owner only.
    Private,
}

/// A writer that replaces a file when [`AtomicFile::persist`] is called: it writes a temporary file in the same
/// directory, and renames it. Readers see the old or the new content, never a part, also after a crash.
/// Dropping the writer removes the temporary file. Symbolic links are followed and stay.
#[derive(Debug)]
pub struct AtomicFile {
    writer: BufWriter<File>,
    temporary: TempPath,
    target: PathBuf,
}

impl AtomicFile {
    /// Opens the writer.
    ///
    /// # Errors
    /// If the target is a directory, or no file can be created beside it.
    pub fn new(target: &Path, access: Access) -> io::Result<Self> {
        let target = without_links(&std::path::absolute(target)?);
        let permissions = match fs::metadata(&target) {
            Ok(old) if old.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(old) => Some(old.permissions()),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let mut builder = tempfile::Builder::new();
        builder.prefix(".cachalot-").suffix(".part");
        let created = builder.make_in(parent(&target), |path| create(path, access))?;
        let (file, temporary) = created.into_parts();
        // Before the content is written: others who may not read the old file must not read the new one either.
        if access == Access::Kept
            && let Some(permissions) = permissions
        {
            file.set_permissions(permissions)?;
        }
        Ok(Self {
            writer: BufWriter::new(file),
            temporary,
            target,
        })
    }

    /// Replaces the target by what was written. When this returns, the new content survives a power failure, if
    /// this process may read the directory.
    ///
    /// # Errors
    /// If the content cannot be written completely, or the target cannot be replaced: it is then unchanged. Also
    /// if the directory cannot be written to the disk: the content is then replaced, and a power failure may
    /// bring the old one back.
    pub fn persist(self) -> io::Result<()> {
        let file = self
            .writer
            .into_inner()
            .map_err(io::IntoInnerError::into_error)?;
        // Before the rename: after a crash, the name must not lead to a file whose content was never written.
        file.sync_all()?;
        drop(file);
        self.temporary.persist(&self.target)?;
        sync_directory(parent(&self.target))
    }
}

impl Write for AtomicFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.flush()
    }
}

/// Replaces the content of a file, as [`AtomicFile`] does.
///
/// # Errors
/// The errors of [`AtomicFile::new`] and [`AtomicFile::persist`].
pub fn replace(target: &Path, content: &[u8], access: Access) -> io::Result<()> {
    let mut file = AtomicFile::new(target, access)?;
    file.write_all(content)?;
    file.persist()
}

fn parent(target: &Path) -> &Path {
    target.parent().unwrap_or(Path::new("/"))
}

/// Creates a file that does not exist yet.
pub(crate) fn create(path: &Path, access: Access) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    if access == Access::Private {
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    }
    #[cfg(not(unix))]
    let _ = access;
    options.open(path)
}

#[cfg(unix)]
fn sync_directory(directory: &Path) -> io::Result<()> {
    match File::open(directory) {
        // A directory in which this process may create files and not list them.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => Ok(()),
        opened => opened?.sync_all(),
    }
}

#[cfg(not(unix))]
fn sync_directory(_directory: &Path) -> io::Result<()> {
    Ok(())
}
