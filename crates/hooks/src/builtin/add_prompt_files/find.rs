//! Finds and reads the files.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::super::paragraph::{capped, in_one_line};
use super::Wanted;

/// Maximum bytes of a file in the message.
const MOST_BYTES: usize = 64 * 1024;

/// Result of reading one file.
#[derive(Debug, PartialEq)]
pub(super) enum Found {
    /// A text file.
    Text {
        /// The displayed path: relative to the working or home directory, or absolute.
        name: String,
        /// The content.
        text: String,
    },
    /// A file that was skipped, with a notice for the user.
    Unfit(String),
}

/// Reads all existing files, in the order of their names. A file that several names reach is read once.
pub(super) fn all(wanted: &Wanted, directory: &Path, home: Option<&Path>) -> Vec<Found> {
    let mut seen: Vec<PathBuf> = Vec::new();
    let mut found = Vec::new();
    for place in wanted
        .names
        .iter()
        .flat_map(|name| places(name, wanted.depth, directory, home))
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
struct Place {
    /// The displayed path.
    name: String,
    path: PathBuf,
    /// The directory that must contain the file after symbolic links are resolved.
    within: Option<PathBuf>,
}

fn places(name: &str, depth: Option<usize>, directory: &Path, home: Option<&Path>) -> Vec<Place> {
    if Path::new(name).is_absolute() {
        let path = PathBuf::from(name);
        return Place::at(name.to_owned(), path, None).into_iter().collect();
    }
    if let Some(rest) = name.strip_prefix("~/") {
        let path = home.map(|home| home.join(rest));
        return path
            .and_then(|path| Place::at(name.to_owned(), path, None))
            .into_iter()
            .collect();
    }
    let mut places = Vec::new();
    if !directory.as_os_str().is_empty() {
        places.extend(nearest(name, depth, directory));
    }
    places.extend(
        home.and_then(|home| {
            Place::at(format!("~/{name}"), home.join(name), Some(home.to_owned()))
        }),
    );
    places
}

/// The first match from the working directory upwards.
fn nearest(name: &str, depth: Option<usize>, directory: &Path) -> Option<Place> {
    let most = depth.map_or(usize::MAX, |depth| depth.saturating_add(1));
    directory
        .ancestors()
        .take(most)
        .enumerate()
        .find_map(|(up, above)| {
            let shown = format!("{}{name}", "../".repeat(up));
            Place::at(shown, above.join(name), Some(above.to_owned()))
        })
}

impl Place {
    /// Returns `None` unless the path is a regular file (not a directory, a pipe, …).
    fn at(name: String, path: PathBuf, within: Option<PathBuf>) -> Option<Self> {
        let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
        is_file.then_some(Self { name, path, within })
    }

    fn read(self, real: &Path) -> Found {
        let name = in_one_line(&self.name);
        if self
            .within
            .as_deref()
            .is_some_and(|within| !is_beneath(real, within))
        {
            // The author of the link may be another person than the owner of its target.
            return Found::Unfit(format!(
                "`{name}` was left out: it is a link out of its directory; name the file itself, with its whole path"
            ));
        }
        match beginning(real) {
            Err(error) => Found::Unfit(format!("`{name}` cannot be read: {error}")),
            Ok(bytes) => match capped(&bytes, MOST_BYTES) {
                Some(text) => Found::Text {
                    text: text.strip_prefix('\u{feff}').unwrap_or(&text).to_owned(),
                    name,
                },
                None => Found::Unfit(format!(
                    "`{name}` was left out: it is not UTF-8 text; save it as UTF-8"
                )),
            },
        }
    }
}

fn is_beneath(real: &Path, directory: &Path) -> bool {
    directory
        .canonicalize()
        .is_ok_and(|directory| real.starts_with(directory))
}

/// Reads up to the limit plus one byte, which shows whether the file is longer.
fn beginning(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MOST_BYTES as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}
