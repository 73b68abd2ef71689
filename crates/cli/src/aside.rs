//! Files that results are written to: there whole or not at all.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Error, ErrorKind, Result, Write};
use std::path::{Path, PathBuf};

use cachalot_core::Problem;

use crate::home::{Home, resolved};
use crate::outcome::{self, Trouble};

/// What is written beside the file whose place it takes in the end, so that work that is interrupted
/// leaves nothing half-written. Only its owner may read it. Symbolic links are followed and stay.
/// What is there and no regular file (a pipe, a device) is written into. Errors name the file.
pub(crate) struct Aside<'a> {
    file: &'a Path,
    writer: BufWriter<File>,
    /// None if it is written straight into what is there.
    part: Option<Part>,
}

/// What is written so far, and the file that it becomes.
struct Part {
    path: PathBuf,
    whole: PathBuf,
}

impl<'a> Aside<'a> {
    /// Begins to write.
    ///
    /// # Errors
    /// The file is one of the home's own, or nothing can be written there.
    pub(crate) fn of(file: &'a Path, home: &Home) -> outcome::Result<Self> {
        let whole = Self::place(file).map_err(|error| named(file, &error))?;
        if home.holds(whole.as_deref().unwrap_or(file)) {
            let what = format!("`{}` is a file of the memory itself", file.display());
            let problem = Problem::new("file-of-memory", what);
            return Err(Trouble::usage(problem.help("write to another file")));
        }
        let (opened, part) = match whole {
            Some(whole) => {
                let mut path = whole.clone().into_os_string();
                path.push(format!(".{}.part", std::process::id()));
                let part = Part {
                    path: path.into(),
                    whole,
                };
                (part.create(), Some(part))
            }
            None => (OpenOptions::new().write(true).open(file), None),
        };
        Ok(Self {
            file,
            writer: BufWriter::new(opened.map_err(|error| named(file, &error))?),
            part,
        })
    }

    /// The regular file that is there, or is to be made; none if something else is there.
    fn place(file: &Path) -> Result<Option<PathBuf>> {
        match std::fs::metadata(file) {
            Ok(there) if there.is_dir() => Err(ErrorKind::IsADirectory.into()),
            // Under `/proc` and `/dev/fd` lie files that have no name any more.
            Ok(there) if there.is_file() => Ok(std::fs::canonicalize(file).ok()),
            Ok(_) => Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                Ok(Some(resolved(&std::path::absolute(file)?)))
            }
            Err(error) => Err(error),
        }
    }

    /// Puts what was written in the place of the file.
    ///
    /// # Errors
    /// Not everything could be written; then a regular file is as it was.
    pub(crate) fn keep(mut self) -> Result<()> {
        self.flush()?;
        match &self.part {
            Some(part) => {
                std::fs::rename(&part.path, &part.whole).map_err(|error| named(self.file, &error))
            }
            None => Ok(()),
        }
    }
}

impl Part {
    fn create(&self) -> Result<File> {
        // Of a process that had our number and was killed; whatever it is, it is not written through.
        let _ = std::fs::remove_file(&self.path);
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        options.open(&self.path)
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

impl Drop for Part {
    fn drop(&mut self) {
        // Nothing is there if it was kept.
        let _ = std::fs::remove_file(&self.path);
    }
}

fn named(file: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", file.display()))
}
