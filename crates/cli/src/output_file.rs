//! Output files of commands.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Error, Result, Write};
use std::path::Path;

use cachalot_core::Problem;
use cachalot_core::atomic_file::{self, Access};
use cachalot_core::links::without_links;

use crate::command_error::{self, CommandError};
use crate::home::Home;
use crate::render;

/// Output file of a command: replaced atomically, so that an interrupted command leaves no partial file, and
/// accessible to its owner only. An existing target that is not a regular file (a pipe, a device) is written
/// to directly, and so is standard output, which is named `-`. Errors name the file.
pub(crate) struct OutputFile<'a> {
    file: &'a Path,
    writer: Writer,
}

enum Writer {
    Atomic(atomic_file::AtomicFile),
    Direct(BufWriter<File>),
    Stdout(BufWriter<Box<dyn Write + Send>>),
}

impl<'a> OutputFile<'a> {
    /// Opens the writer.
    ///
    /// # Errors
    /// The target is one of the files of `home`, or it cannot be written.
    pub(crate) fn new(file: &'a Path, home: &Home) -> command_error::Result<Self> {
        if file == Path::new("-") {
            let stdout: Box<dyn Write + Send> = Box::new(render::stdout::open()?);
            let writer = Writer::Stdout(BufWriter::new(stdout));
            return Ok(Self { file, writer });
        }
        let real = std::path::absolute(file).map(|file| without_links(&file));
        if home.holds(real.as_deref().unwrap_or(file)) {
            let what = format!("`{}` is a file of the store itself", file.display());
            let problem = Problem::new("file-of-memory", what);
            return Err(CommandError::usage(problem.help("write to another file")));
        }
        let writer = Writer::new(file).map_err(|error| with_file_name(file, &error))?;
        Ok(Self { file, writer })
    }

    /// Returns true if the output is written to standard output.
    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self.writer, Writer::Stdout(_))
    }

    /// Completes the file, and replaces the target with it.
    ///
    /// # Errors
    /// The data could not be written completely; an existing regular file is then unchanged.
    pub(crate) fn persist(self) -> Result<()> {
        let persisted = match self.writer {
            Writer::Atomic(writer) => writer.persist(),
            Writer::Direct(mut writer) => writer.flush(),
            Writer::Stdout(mut writer) => return writer.flush(),
        };
        persisted.map_err(|error| with_file_name(self.file, &error))
    }
}

impl Writer {
    fn new(file: &Path) -> Result<Self> {
        let is_special = match std::fs::metadata(file) {
            // Files under `/proc` and `/dev/fd` may have no name anymore, and then no canonical path.
            Ok(there) if there.is_file() => std::fs::canonicalize(file).is_err(),
            Ok(there) => !there.is_dir(),
            Err(_) => false,
        };
        Ok(if is_special {
            Self::Direct(BufWriter::new(OpenOptions::new().write(true).open(file)?))
        } else {
            Self::Atomic(atomic_file::AtomicFile::new(file, Access::Private)?)
        })
    }
}

impl Write for OutputFile<'_> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let written = match &mut self.writer {
            Writer::Atomic(writer) => writer.write(bytes),
            Writer::Direct(writer) => writer.write(bytes),
            Writer::Stdout(writer) => return writer.write(bytes),
        };
        written.map_err(|error| with_file_name(self.file, &error))
    }

    fn flush(&mut self) -> Result<()> {
        let flushed = match &mut self.writer {
            Writer::Atomic(writer) => writer.flush(),
            Writer::Direct(writer) => writer.flush(),
            Writer::Stdout(writer) => return writer.flush(),
        };
        flushed.map_err(|error| with_file_name(self.file, &error))
    }
}

fn with_file_name(file: &Path, error: &Error) -> Error {
    Error::new(error.kind(), format!("{}: {error}", file.display()))
}
