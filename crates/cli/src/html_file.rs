//! The file of an HTML report.

use std::io::{Read as _, Write as _};
use std::path::Path;

use cachalot_core::Problem;

use crate::command_error::{CommandError, Result};
use crate::output_file::OutputFile;
use crate::regular_file::open_regular;
use crate::render;
use crate::render::html::BEGINNING;
use crate::wiring::ProcessEnvironment;

/// An HTML report that is being written.
pub(crate) struct HtmlFile<'a> {
    path: &'a Path,
    output_file: OutputFile<'a>,
}

impl<'a> HtmlFile<'a> {
    /// Opens the file, before the work that is reported. `-` is standard output. `db` is the store that the work uses.
    ///
    /// # Errors
    /// It is a file of another kind, which was named by mistake, or it cannot be written.
    pub(crate) fn open(
        path: Option<&'a Path>,
        db: Option<&Path>,
        process_environment: &ProcessEnvironment,
    ) -> Result<Option<Self>> {
        let Some(path) = path else {
            return Ok(None);
        };
        check_overwritten(path)?;
        let home = process_environment.home(db, None)?;
        let output_file = OutputFile::new(path, &home)?;
        Ok(Some(Self { path, output_file }))
    }

    /// Writes the report, and names the file.
    ///
    /// # Errors
    /// It cannot be written completely; an earlier report is then unchanged.
    pub(crate) fn write(mut self, page: &str) -> Result<()> {
        self.output_file.write_all(page.as_bytes())?;
        let is_stdout = self.output_file.is_stdout();
        self.output_file.persist()?;
        if !is_stdout {
            render::err(&format!("{} is written", self.path.display()));
        }
        Ok(())
    }
}

/// Refuses to overwrite a file that is no report. An empty file and what is no regular file (a pipe, a device) are written
/// to.
fn check_overwritten(path: &Path) -> Result<()> {
    if !std::fs::metadata(path).is_ok_and(|there| there.is_file() && there.len() > 0) {
        return Ok(());
    }
    let mut beginning = Vec::new();
    let read = open_regular(path).and_then(|there| {
        there
            .take(BEGINNING.len() as u64)
            .read_to_end(&mut beginning)
    });
    if read.is_ok() && beginning == BEGINNING.as_bytes() {
        return Ok(());
    }
    let what = format!("`{}` exists and is no report of cachalot", path.display());
    Err(CommandError::usage(
        Problem::new("no-report", what).help("write to another file, or remove this one first"),
    ))
}
