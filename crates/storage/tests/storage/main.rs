//! Storage from the outside: real files, real sockets on the loopback interface.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod guard;
mod local;
mod objects;
mod server;
#[cfg(unix)]
mod tls;
mod web;

use std::collections::BTreeMap;
use std::path::Path;

use cachalot_storage::{Error, HttpClient, HttpOptions, Storage, StorageOptions};

pub(crate) const ALGORITHMS: [&str; 3] = ["sha256", "md5", "blake2b"];

/// SHA-256, MD5 and BLAKE2b of no bytes.
pub(crate) const OF_NOTHING: [&str; 3] = [
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "d41d8cd98f00b204e9800998ecf8427e",
    "786a02f742015903c6c6fd852552d272912f4740e15847618a86e217f71f5419d25e1031afee585313896444934eb04b903a685b1448b755d56f701afe9be2ce",
];

/// SHA-256, MD5 and BLAKE2b of `abc`.
pub(crate) const OF_ABC: [&str; 3] = [
    "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad",
    "900150983cd24fb0d6963f7d28e17f72",
    "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d17d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923",
];

/// SHA-256 of 100 MiB of zeros.
pub(crate) const OF_ZEROS: &str =
    "20492a4d0d84f8beb1767f6616229f85d44c2827b64bdbfb260ee12fa1109e0e";

pub(crate) fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

pub(crate) fn storage_in(directory: &Path) -> Storage {
    storage(directory, HttpOptions::default(), &[])
}

pub(crate) fn storage(directory: &Path, http: HttpOptions, pairs: &[(&str, &str)]) -> Storage {
    Storage::new(StorageOptions {
        directory: directory.to_owned(),
        environment: environment(pairs),
        http: HttpClient::new(http).unwrap(),
    })
}

/// The text of an error with those of all its causes.
pub(crate) fn everything(error: &Error) -> String {
    let mut text = format!("{error} {error:?}");
    let mut next = std::error::Error::source(error);
    while let Some(cause) = next {
        text.push_str(&format!(" {cause} {cause:?}"));
        next = cause.source();
    }
    text
}

/// The memory of this process by `/proc`, in bytes: `VmRSS` now, `VmHWM` at its maximum.
#[cfg(target_os = "linux")]
pub(crate) fn memory(line: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|other| other.split(':').next() == Some(line))
        .unwrap();
    line.split_whitespace()
        .nth(1)
        .unwrap()
        .parse::<u64>()
        .unwrap()
        * 1024
}
