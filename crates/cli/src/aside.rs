//! Files that are there whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Error, Result, Write};
use std::path::{Path, PathBuf};

/// A file that is written beside the one whose place it takes in the end, so that work that is
/// interrupted leaves nothing half-written. Only its owner may read it. Errors name the file.
pub(crate) struct Aside<'a> {
    file: &'a Path,
    path: PathBuf,
    writer: BufWriter<File>,
}

impl<'a> Aside<'a> {
    /// Begins to write.
    ///
    /// # Errors
    /// Nothing can be written there.
    pub(crate) fn of(file: &'a Path) -> Result<Self> {
        let mut path = file.as_os_str().to_owned();
        path.push(format!(".{}.part", std::process::id()));
        let path = PathBuf::from(path);
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let opened = options.open(&path).map_err(|error| named(file, &error))?;
        Ok(Self {
            file,
            path,
            writer: BufWriter::new(opened),
        })
    }

    /// Puts what was written in the place of the file.
    ///
    /// # Errors
    /// Not everything could be written; then the file is as it was.
    pub(crate) fn keep(mut self) -> Result<()> {
        self.flush()?;
        std::fs::rename(&self.path, self.file).map_err(|error| named(self.file, &error))
    }
}

impl Write for Aside<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let written = self.writer.write(bytes);
        written.map_err(|error| named(self.file, &error))
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.writer.flush();
        flushed.map_err(|error| named(self.file, &error))
    }
}

impl Drop for Aside<'_> {
    fn drop(&mut self) {
        // Nothing is there if it was kept.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn named(file: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", file.display()))
}
