//! Finds and reads the files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::PromptFileArguments;
use crate::paragraph::{single_line, truncate};

/// Maximum bytes of a file in the message.
const MAX_BYTES: usize = 64 * 1024;

/// Result of reading one file.
#[derive(Debug, PartialEq)]
pub(super) enum FoundFile {
    /// A text file.
    Text {
        /// The displayed path: relative to the working or home directory, or absolute.
        name: String,
        /// The content.
        text: String,
    },
    /// A file that was skipped, with a notice for the user.
    Skipped(String),
}

/// Reads all existing files, in the order of their names. A file that several names reach is read once.
pub(super) fn find_files(
    arguments: &PromptFileArguments,
    directory: &Path,
    home: Option<&Path>,
) -> Vec<FoundFile> {
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut found = Vec::new();
    for place in arguments
        .names
        .iter()
        .flat_map(|name| candidates(name, arguments.depth, directory, home))
    {
        let Ok(real) = place.path.canonicalize() else {
            continue;
        };
        if !seen.contains(&real) {
            found.push(place.read(&real));
            seen.push(real);
        }
    }
    found
}

/// An existing file.
struct Candidate {
    /// The displayed path.
    name: String,
    path: PathBuf,
    /// The directory that must contain the file after symbolic links are resolved.
    within: Option<PathBuf>,
}

fn candidates(
    name: &str,
    depth: Option<usize>,
    directory: &Path,
    home: Option<&Path>,
) -> Vec<Candidate> {
    if Path::new(name).is_absolute() {
        let path = PathBuf::from(name);
        return Candidate::from_path(name.to_owned(), path, None)
            .into_iter()
            .collect();
    }
    if let Some(rest) = name.strip_prefix("~/") {
        let path = home.map(|home| home.join(rest));
        return path
            .and_then(|path| Candidate::from_path(name.to_owned(), path, None))
            .into_iter()
            .collect();
    }
    let mut candidates = Vec::new();
    if !directory.as_os_str().is_empty() {
        candidates.extend(nearest(name, depth, directory));
    }
    candidates.extend(home.and_then(|home| {
        Candidate::from_path(format!("~/{name}"), home.join(name), Some(home.to_owned()))
    }));
    candidates
}

/// The first match from the working directory upwards.
fn nearest(name: &str, depth: Option<usize>, directory: &Path) -> Option<Candidate> {
    let maximum = depth.map_or(usize::MAX, |depth| depth.saturating_add(1));
    directory
        .ancestors()
        .take(maximum)
        .enumerate()
        .find_map(|(up, above)| {
            let shown = format!("{}{name}", "../".repeat(up));
            Candidate::from_path(shown, above.join(name), Some(above.to_owned()))
        })
}

impl Candidate {
    /// Returns `None` unless the path is a regular file (not a directory, a pipe, …).
    fn from_path(name: String, path: PathBuf, within: Option<PathBuf>) -> Option<Self> {
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        is_file.then_some(Self { name, path, within })
    }

    fn read(self, real: &Path) -> FoundFile {
        let name = single_line(&self.name);
        if self
            .within
            .as_deref()
            .is_some_and(|within| !is_within(real, within))
        {
            // The author of the link may be another person than the owner of its target.
            return FoundFile::Skipped(format!(
                "`{name}` was left out: it is a link out of its directory; name the file itself, with its whole path"
            ));
        }
        match read_limited(real) {
            Err(error) => FoundFile::Skipped(format!("`{name}` cannot be read: {error}")),
            Ok(bytes) => match truncate(&bytes, MAX_BYTES) {
                Some(text) => FoundFile::Text {
                    text: text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned(),
                    name,
                },
                None => FoundFile::Skipped(format!(
                    "`{name}` was left out: it is not UTF-8 text; save it as UTF-8"
                )),
            },
        }
    }
}

fn is_within(real: &Path, directory: &Path) -> bool {
    directory
        .canonicalize()
        .is_ok_and(|directory| real.starts_with(directory))
}

/// Reads up to the limit plus one byte, which shows whether the file is longer.
fn read_limited(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
