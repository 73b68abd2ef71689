//! Output files that are written completely or not at all.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

use cachalot_core::Problem;

use crate::command_error::{self, CommandError};
use crate::home::{Home, resolved};

/// Writer that replaces a file atomically. It writes to a temporary file beside the target, and `persist`
/// renames that file over the target, so an interrupted command leaves no partial file. The new file is
/// accessible to its owner only. Symbolic links are followed and stay. An existing target that is not a
/// regular file (a pipe, a device) is written to directly. Errors name the file.
pub(crate) struct AtomicFile<'a> {
    file: &'a Path,
    writer: BufWriter<File>,
    /// `None` if the existing target is written to directly.
    part: Option<TemporaryFile>,
}

/// The temporary file and the target that it replaces.
struct TemporaryFile {
    path: PathBuf,
    whole: PathBuf,
}

impl<'a> AtomicFile<'a> {
    /// Opens the writer.
    ///
    /// # Errors
    /// The target is one of the files of `home`, or it cannot be written.
    pub(crate) fn new(file: &'a Path, home: &Home) -> command_error::Result<Self> {
        let whole = Self::target_path(file).map_err(|error| with_file_name(file, &error))?;
        if home.holds(whole.as_deref().unwrap_or(file)) {
            let what = format!("`{}` is a file of the store itself", file.display());
            let problem = Problem::new("file-of-memory", what);
            return Err(CommandError::usage(problem.help("write to another file")));
        }
        let (opened, part) = match whole {
            Some(whole) => {
                let mut path = whole.clone().into_os_string();
                path.push(format!(".{}.part", std::process::id()));
                let part = TemporaryFile {
                    path: path.into(),
                    whole,
                };
                (part.create(), Some(part))
            }
            None => (OpenOptions::new().write(true).open(file), None),
        };
        Ok(Self {
            file,
            writer: BufWriter::new(opened.map_err(|error| with_file_name(file, &error))?),
            part,
        })
    }

    /// Returns the path of the regular file that exists or will be created; `None` if something else exists
    /// there.
    fn target_path(file: &Path) -> Result<Option<PathBuf>> {
        match std::fs::metadata(file) {
            Ok(there) if there.is_dir() => Err(ErrorKind::IsADirectory.into()),
            // Files under `/proc` and `/dev/fd` may have no name anymore, and then no canonical path.
            Ok(there) if there.is_file() => Ok(std::fs::canonicalize(file).ok()),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Some(resolved(&std::path::absolute(file)?)))
            }
            Err(error) => Err(error),
        }
    }

    /// Replaces the target with the written data.
    ///
    /// # Errors
    /// The data could not be written completely; an existing regular file is then unchanged.
    pub(crate) fn persist(mut self) -> Result<()> {
        self.flush()?;
        match &self.part {
            Some(part) => std::fs::rename(&part.path, &part.whole)
                .map_err(|error| with_file_name(self.file, &error)),
            None => Ok(()),
        }
    }
}

impl TemporaryFile {
    fn create(&self) -> Result<File> {
        // A killed process with the same id may have left something at this path. It is removed and never
        // written through.
        let _ = std::fs::remove_file(&self.path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.path)
    }
}

impl Write for AtomicFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let written = self.writer.write(bytes);
        written.map_err(|error| with_file_name(self.file, &error))
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = self.writer.flush();
        flushed.map_err(|error| with_file_name(self.file, &error))
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // After `persist`, this file does not exist anymore.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn with_file_name(file: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", file.display()))
}
