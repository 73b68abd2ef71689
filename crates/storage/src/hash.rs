//! Streaming hashes, in constant memory.

use std::fs::File;
use std::io::{self, Read as _};

use cachalot_core::suggest::nearest;
use sha2::digest::DynDigest;
use strum::{Display, EnumString, IntoStaticStr};

use crate::error::{Error, ErrorKind};

/// Large enough that the cost of system calls is negligible, small enough for a core's own cache.
const CHUNK: usize = 128 * 1024;

/// A hash algorithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
#[derive(Display, EnumString, IntoStaticStr)]
#[strum(serialize_all = "lowercase", parse_err_ty = Error, parse_err_fn = unknown_algorithm)]
pub enum Algorithm {
    /// SHA-256, 64 hex digits.
    Sha256,
    /// MD5, 32 hex digits. For comparison with existing checksums; not for security.
    Md5,
    /// BLAKE2b with 512 bits, 128 hex digits.
    Blake2b,
}

impl Algorithm {
    /// The names of all algorithms.
    pub const NAMES: [&'static str; 3] = ["sha256", "md5", "blake2b"];

    /// The name, which parses as the algorithm.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

fn unknown_algorithm(name: &str) -> Error {
    let near = nearest(name, Algorithm::NAMES)
        .map(|near| format!("; did you mean `{near}`?"))
        .unwrap_or_default();
    Error::new(
        ErrorKind::UnknownAlgorithm,
        format!(
            "unknown hash algorithm `{name}`: expected one of {}{near}",
            Algorithm::NAMES.join(", ")
        ),
    )
}

/// The hash of a byte sequence.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct HashOutput {
    /// The digest in lower-case hex digits.
    pub hash: String,
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Number of hashed bytes.
    pub size_bytes: u64,
}

/// A hash computation in progress. Its size is constant.
pub struct Hasher {
    algorithm: Algorithm,
    state: Box<dyn DynDigest + Send>,
    size_bytes: u64,
}

impl Hasher {
    /// Creates a hasher without input.
    #[must_use]
    pub fn new(algorithm: Algorithm) -> Self {
        Self {
            algorithm,
            state: match algorithm {
                Algorithm::Sha256 => Box::new(sha2::Sha256::default()),
                Algorithm::Md5 => Box::new(md5::Md5::default()),
                Algorithm::Blake2b => Box::new(blake2::Blake2b512::default()),
            },
            size_bytes: 0,
        }
    }

    /// Adds the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
        self.size_bytes += bytes.len() as u64;
    }

    /// Returns the hash of all added bytes.
    #[must_use]
    pub fn finish(self) -> HashOutput {
        HashOutput {
            hash: hex::encode(self.state.finalize()),
            algorithm: self.algorithm,
            size_bytes: self.size_bytes,
        }
    }
}

/// Hashes the rest of `file`; returns `None` when `wanted` returns false.
pub(crate) fn hash_open_file(
    file: &mut File,
    algorithm: Algorithm,
    wanted: impl Fn() -> bool,
) -> io::Result<Option<HashOutput>> {
    let mut hasher = Hasher::new(algorithm);
    let mut chunk = vec![0_u8; CHUNK];
    while wanted() {
        match file.read(&mut chunk) {
            Ok(0) => return Ok(Some(hasher.finish())),
            Ok(length) => hasher.update(&chunk[..length]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn algorithm_names_round_trip() {
        for name in Algorithm::NAMES {
            let algorithm: Algorithm = name.parse().unwrap();
            assert_eq!(algorithm.to_string(), name);
            assert_eq!(serde_name(algorithm), name);
        }
    }

    fn serde_name(algorithm: Algorithm) -> String {
        let hashed = Hasher::new(algorithm).finish();
        assert_eq!(hashed.algorithm, algorithm);
        format!("{algorithm:?}").to_lowercase()
    }

    #[test]
    fn unknown_algorithm_error_lists_the_algorithms() {
        let error = "SHA256".parse::<Algorithm>().unwrap_err();
        assert_eq!(error.kind, ErrorKind::UnknownAlgorithm);
        assert_eq!(
            error.to_string(),
            "unknown hash algorithm `SHA256`: expected one of sha256, md5, blake2b; did you mean `sha256`?"
        );
        let error = "crc".parse::<Algorithm>().unwrap_err();
        assert_eq!(
            error.to_string(),
            "unknown hash algorithm `crc`: expected one of sha256, md5, blake2b"
        );
    }

    #[test]
    fn hash_is_independent_of_chunk_boundaries() {
        let bytes: Vec<u8> = (0..100_000_u32).map(|n| (n % 251) as u8).collect();
        for name in Algorithm::NAMES {
            let algorithm: Algorithm = name.parse().unwrap();
            let mut whole = Hasher::new(algorithm);
            whole.update(&bytes);
            let whole = whole.finish();
            for size in [1, 63, 64, 65, 127, 128, 4_096, 99_999] {
                let mut pieces = Hasher::new(algorithm);
                bytes.chunks(size).for_each(|piece| pieces.update(piece));
                assert_eq!(pieces.finish(), whole);
            }
        }
    }
}
