//! The file: one JSON document a line, each a change.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{BufRead as _, BufReader, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use base64::engine::general_purpose::STANDARD as BASE64;
use cachalot_core::Millis;
use cachalot_store::{Error, ErrorKind, Label, Record};
use serde::{Deserialize, Serialize};

/// A change.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum Line {
    Put {
        space: String,
        record: Written,
    },
    /// A new value and revision of a record.
    Amend {
        space: String,
        record: Written,
    },
    Erase {
        space: String,
        keys: Vec<String>,
    },
    /// New values of counters.
    Count {
        space: String,
        counters: Vec<(String, u64)>,
    },
}

/// A record as it is written: values are any bytes, which JSON has no room for.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    key: String,
    #[serde(with = "base64_text")]
    value: bytes::Bytes,
    labels: Vec<Label>,
    expires: Option<Millis>,
    revision: u64,
    updated: Millis,
}

mod base64_text {
    use serde::{Deserialize as _, Deserializer, Serializer, de::Error as _};

    use base64::Engine as _;

    use super::BASE64;

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&BASE64.encode(bytes))
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<bytes::Bytes, D::Error> {
        let text = String::deserialize(from)?;
        BASE64
            .decode(text)
            .map(Into::into)
            .map_err(D::Error::custom)
    }
}

impl From<&Record> for Written {
    fn from(record: &Record) -> Self {
        let Record {
            key,
            value,
            labels,
            expires,
            revision,
            updated,
        } = record.clone();
        Self {
            key,
            value,
            labels,
            expires,
            revision,
            updated,
        }
    }
}

impl From<Written> for Record {
    fn from(written: Written) -> Self {
        let Written {
            key,
            value,
            labels,
            expires,
            revision,
            updated,
        } = written;
        Self {
            key,
            value,
            labels,
            expires,
            revision,
            updated,
        }
    }
}

/// The file, open and locked.
pub(super) struct Lines {
    file: File,
    path: PathBuf,
    /// How much of it is whole lines.
    length: u64,
}

impl Lines {
    /// Opens the file and reads what it says, line by line.
    pub(super) fn open(path: &Path, mut read: impl FnMut(Line)) -> Result<Self, Error> {
        let unavailable = |error| unavailable(path, error);
        let mut options = OpenOptions::new();
        options.read(true).append(true).create(true);
        // It may hold anything that an agent remembers.
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let file = options.open(path).map_err(unavailable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let message = format!("{} is open in another process", path.display());
                return Err(Error::new(ErrorKind::Busy, message));
            }
            Err(TryLockError::Error(error)) => return Err(unavailable(error)),
        }
        let mut length = 0;
        let mut reader = BufReader::new(&file);
        let mut line = Vec::new();
        for number in 1.. {
            line.clear();
            let count = reader.read_until(b'\n', &mut line).map_err(unavailable)?;
            if line.last() != Some(&b'\n') {
                // The end, or a line that was cut short by a crash: it was never said to be stored.
                break;
            }
            read(serde_json::from_slice(&line).map_err(|error| {
                let message = format!("{}, line {number}: {error}", path.display());
                Error::new(ErrorKind::Corrupt, message).with_source(error)
            })?);
            length += count as u64;
        }
        file.set_len(length).map_err(unavailable)?;
        Ok(Self {
            file,
            path: path.to_owned(),
            length,
        })
    }

    /// Adds a line, all of it or nothing.
    pub(super) fn append(&mut self, line: &Line) -> Result<(), Error> {
        let mut text = serde_json::to_vec(line).map_err(|error| {
            Error::new(ErrorKind::Unsupported, error.to_string()).with_source(error)
        })?;
        text.push(b'\n');
        if let Err(error) = self.file.write_all(&text) {
            let _ = self.file.set_len(self.length);
            let _ = self.file.seek(SeekFrom::End(0));
            return Err(unavailable(&self.path, error));
        }
        self.length += text.len() as u64;
        Ok(())
    }
}

fn unavailable(path: &Path, error: std::io::Error) -> Error {
    let kind = match error.kind() {
        std::io::ErrorKind::StorageFull => ErrorKind::Full,
        std::io::ErrorKind::PermissionDenied => ErrorKind::Denied,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("{}: {error}", path.display())).with_source(error)
}
