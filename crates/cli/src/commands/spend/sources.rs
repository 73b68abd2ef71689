//! The transcripts that a command reads: those of given paths, or those that the known programs keep on this machine.

use std::io::{BufRead, BufReader, IsTerminal as _, Read};
use std::path::{Path, PathBuf};

use cachalot_prefix::spend::{Client, FileError, SpendReader, Spending, find_files};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};

use super::places::default_places;
use super::{database, own};
use crate::command_error::{CommandError, Result};
use crate::regular_file::open_regular;
use crate::render::visible::on_one_line;
use crate::wiring::{ProcessEnvironment, Warn};

/// Maximum number of files whose defects are reported one by one.
const MAX_WARNINGS: usize = 10;

/// Size of the buffer through which a file is read, in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// Files and folders with transcripts.
pub(crate) struct Sources {
    places: Vec<PathBuf>,
    /// True if they are the default places, in which programs keep other files, too.
    is_default: bool,
}

impl Sources {
    /// Returns the given paths, or the default places if there are none.
    ///
    /// # Errors
    /// A given path does not exist.
    pub(crate) fn new(paths: &[PathBuf], process_environment: &ProcessEnvironment) -> Result<Self> {
        if paths.is_empty() {
            return Ok(Self {
                places: default_places(process_environment),
                is_default: true,
            });
        }
        let directory = &process_environment.directory;
        let places: Vec<_> = paths.iter().map(|path| directory.join(path)).collect();
        if let Some(missing) = places.iter().find(|path| !path.exists()) {
            let name = on_one_line(&missing.to_string_lossy());
            return Err(CommandError::failed(format!("{name} does not exist")));
        }
        Ok(Self {
            places,
            is_default: false,
        })
    }

    /// Returns no files.
    pub(crate) fn none() -> Self {
        Self {
            places: Vec::new(),
            is_default: false,
        }
    }

    /// Returns the places that have files which may be transcripts.
    pub(crate) fn with_files(&self) -> impl Iterator<Item = &Path> {
        let places = self.places.iter();
        let places =
            places.filter(|place| !find_files(std::slice::from_ref(place)).paths.is_empty());
        places.map(PathBuf::as_path)
    }

    /// True for the default places.
    pub(crate) fn is_default(&self) -> bool {
        self.is_default
    }

    /// Formats the paths.
    pub(crate) fn names(&self) -> String {
        let names = self.places.iter();
        let names: Vec<_> = names
            .map(|place| on_one_line(&place.to_string_lossy()))
            .collect();
        names.join(", ")
    }

    /// Adds the answers that this program itself has paid for to those of the default places.
    pub(crate) async fn read_own(
        &self,
        reader: &mut SpendReader,
        process_environment: &ProcessEnvironment,
        warn: &Warn,
    ) {
        if !self.is_default {
            return;
        }
        match own::payments(process_environment, warn).await {
            Ok(own::Own { answers, titles }) => {
                answers.into_iter().for_each(|answer| reader.add(answer));
                for (session, title) in titles {
                    reader.add_title(Client::Cachalot, &session, &title);
                }
            }
            Err(error) => warn(&format!("Cachalot's own answers are not counted: {error}")),
        }
    }

    /// Reads all files, with a progress bar on a terminal; returns their number. Programs keep other files beside their
    /// transcripts, which are reported only where the user has named the place. `is_log` reads a file of a given place that
    /// is no transcript; it returns false if it cannot.
    pub(crate) fn read(
        &self,
        reader: &mut SpendReader,
        warn: &Warn,
        mut is_log: impl FnMut(&Path) -> bool,
    ) -> usize {
        let Self { places, is_default } = self;
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
                    if *is_default || is_document(path) && !places.contains(path) => {}
                Err(FileError::Unknown) if is_log(path) => {}
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
}

/// Opens a transcript of lines, which may be compressed.
///
/// # Errors
/// It is no regular file, or cannot be read.
pub(super) fn open_transcript(path: &Path) -> std::io::Result<Box<dyn BufRead>> {
    let file = BufReader::with_capacity(BUFFER_BYTES, open_regular(path)?);
    decompressed(path, file)
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

/// Names the kinds of lines that are not known, and therefore not counted.
pub(crate) fn warn_of_unknown_lines(spending: &Spending, warn: &Warn) {
    for (kind, count) in &spending.unknown {
        warn(&format!(
            "unknown lines, not counted: {} ({count})",
            on_one_line(kind)
        ));
    }
}
