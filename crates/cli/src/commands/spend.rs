//! `cachalot spend`: what coding agents have cost, from the transcripts that they leave on disk.

mod database;
mod own;
mod period;
mod places;
mod report;

use std::io::{BufRead, BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};

use cachalot_prefix::spend::{FileError, SpendReader, find_files};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use self::period::Period;
use self::places::default_places;
use self::report::Report;
use crate::arguments::Spend;
use crate::command_error::{CommandError, Result};
use crate::fleet_ledger::ReadCopy;
use crate::models::catalog;
use crate::regular_file::open_regular;
use crate::render;
use crate::render::visible::on_one_line;
use crate::wiring::{ProcessEnvironment, Warn};

/// Maximum number of files whose defects are reported one by one.
const MAX_WARNINGS: usize = 10;

/// Size of the buffer through which a file is read, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Reads transcripts and reports what they cost.
///
/// # Errors
/// A given path does not exist, or no transcript is found.
pub(crate) async fn spend(
    arguments: &Spend,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let catalog = catalog(process_environment)?;
    let period = Period::new(arguments, process_environment)?;
    let mut reader = SpendReader::default();
    let (places, is_default) = if arguments.fleet.ledger.is_some() {
        (Vec::new(), false)
    } else if arguments.paths.is_empty() {
        (default_places(process_environment), true)
    } else {
        let directory = &process_environment.directory;
        let paths = arguments.paths.iter();
        (paths.map(|path| directory.join(path)).collect(), false)
    };
    if let Some(missing) = places.iter().find(|path| !is_default && !path.exists()) {
        let name = on_one_line(&missing.to_string_lossy());
        return Err(CommandError::failed(format!("{name} does not exist")));
    }
    let files = read_files(&places, is_default, &mut reader, &warn);
    if let Some(url) = &arguments.fleet.ledger {
        let copy = ReadCopy::of(url, process_environment, Warn::clone(&warn)).await?;
        for answer in own::answers_of(&copy.ledger)? {
            reader.add(answer);
        }
    }
    if is_default {
        read_own(&mut reader, process_environment, &warn).await;
    }
    let spending = reader.finish();
    if let (true, Some(url)) = (spending.answers.is_empty(), &arguments.fleet.ledger) {
        return Err(CommandError::failed(format!(
            "the ledger {url} has no calls that were paid for"
        )));
    }
    if spending.answers.is_empty() {
        let places: Vec<_> = places
            .iter()
            .map(|place| on_one_line(&place.to_string_lossy()))
            .collect();
        return Err(CommandError::failed(format!(
            "no answers of a known program in {} ({files} files): name a folder with transcripts",
            places.join(", ")
        )));
    }
    let report = Report::new(&spending, arguments, &period, &catalog);
    if arguments.json {
        return render::json(&report.document());
    }
    for (kind, count) in &spending.unknown {
        warn(&format!(
            "unknown lines, not counted: {} ({count})",
            on_one_line(kind)
        ));
    }
    if arguments.csv {
        render::out(&report.csv()?)
    } else {
        render::out(&report.text())
    }
}

/// Reads all files, with a progress bar on a terminal; returns their number. Programs keep other files beside their
/// transcripts, which are reported only where the user has named the place.
fn read_files(
    places: &[PathBuf],
    is_default: bool,
    reader: &mut SpendReader,
    warn: &Warn,
) -> usize {
    let files = find_files(places);
    let mut defects = Vec::new();
    for (path, error) in files.unreadable {
        if error.kind() != std::io::ErrorKind::NotFound {
            defects.push((path, error.to_string()));
        }
    }
    let sizes = files.paths.iter().map(|path| size(path));
    let progress = progress(sizes.sum());
    for path in &files.paths {
        let read = open_regular(path).map_err(Into::into).and_then(|file| {
            let mut file = BufReader::with_capacity(BUFFER_BYTES, progress.wrap_read(file));
            if file.fill_buf()?.starts_with(database::BEGINNING) {
                database::read(path, reader)
            } else {
                reader.read(path, decompressed(path, file)?)
            }
        });
        match read {
            Err(FileError::Unknown)
                if is_default || is_document(path) && !places.contains(path) => {}
            Err(defect) => defects.push((path.clone(), defect.to_string())),
            Ok(()) => {}
        }
    }
    progress.finish_and_clear();
    for (path, defect) in defects.iter().take(MAX_WARNINGS) {
        warn(&format!(
            "{}: {defect}",
            on_one_line(&path.to_string_lossy())
        ));
    }
    if defects.len() > MAX_WARNINGS {
        let others = defects.len() - MAX_WARNINGS;
        warn(&format!("{others} more files cannot be read completely"));
    }
    files.paths.len()
}

fn is_document(path: &Path) -> bool {
    path.extension()
        .is_some_and(|extension| extension == "json")
}

fn size(path: &Path) -> u64 {
    path.metadata().map_or(0, |metadata| metadata.len())
}

fn decompressed<'r>(
    path: &Path,
    file: impl BufRead + 'r,
) -> std::io::Result<Box<dyn BufRead + 'r>> {
    if path.extension().is_none_or(|extension| extension != "zst") {
        return Ok(Box::new(file));
    }
    let frames = Frames {
        frame: Some(frame(file)?),
    };
    Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, frames)))
}

/// The content of a file of zstd, which may have several frames: files that were appended to each other.
struct Frames<R: BufRead> {
    /// The frame that is being read; `None` at the end.
    frame: Option<StreamingDecoder<R, FrameDecoder>>,
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        while let Some(current) = &mut self.frame {
            let read = current.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let ended = self.frame.take().map(StreamingDecoder::into_inner);
            if let Some(mut rest) = ended
                && !rest.fill_buf()?.is_empty()
            {
                self.frame = Some(frame(rest)?);
            }
        }
        Ok(0)
    }
}

fn frame<R: BufRead>(file: R) -> std::io::Result<StreamingDecoder<R, FrameDecoder>> {
    StreamingDecoder::new(file)
        .map_err(|error| std::io::Error::new(std::io::ErrorKind::InvalidData, error.to_string()))
}

fn progress(bytes: u64) -> ProgressBar {
    /// Less is read before a bar could be seen.
    const LONG: u64 = 64 << 20;
    let target = if bytes >= LONG && std::io::stderr().is_terminal() {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let bar = ProgressBar::with_draw_target(Some(bytes), target);
    let style = ProgressStyle::with_template("reading {bytes} of {total_bytes} {wide_bar}");
    match style {
        Ok(style) => bar.with_style(style),
        Err(_) => bar,
    }
}

/// Adds the answers that this program itself has paid for, if there are any on this machine.
async fn read_own(reader: &mut SpendReader, process_environment: &ProcessEnvironment, warn: &Warn) {
    match own::answers(process_environment, warn).await {
        Ok(answers) => answers.into_iter().for_each(|answer| reader.add(answer)),
        Err(error) => warn(&format!("Cachalot's own answers are not counted: {error}")),
    }
}
