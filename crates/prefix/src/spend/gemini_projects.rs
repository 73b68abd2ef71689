//! Directories of Gemini CLI's projects. Older versions name a project by the SHA-256 of its path only; newer ones write
//! the path beside the chats.

use std::collections::{HashMap, HashSet};
use std::io::Read as _;
use std::path::Path;
use std::sync::Arc;

use cachalot_core::Digest;

use super::answer::{Client, PaidAnswer};

/// The file that contains the path of a project, in its folder (Gemini CLI 0.61.0).
const ROOT_FILE: &str = ".project_root";

/// Maximum length of a path, in bytes.
const MAX_PATH_BYTES: u64 = 4_096;

/// Reads the path of the project from its folder; `None` if it is not written there.
pub(super) fn root_of(folder: &Path) -> Option<String> {
    let file = folder.join(ROOT_FILE);
    // A pipe would block.
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut text = String::new();
    let file = std::fs::File::open(file).ok()?;
    file.take(MAX_PATH_BYTES).read_to_string(&mut text).ok()?;
    let root = text.trim();
    (!root.is_empty()).then(|| root.to_owned())
}

/// Gives answers whose project is a hash the path with that hash, if it is the directory of another answer, or one above
/// such a directory.
pub(super) fn resolve(answers: &mut [PaidAnswer]) {
    let is_hashed =
        |answer: &PaidAnswer| answer.client == Client::GeminiCli && is_hash(&answer.project);
    if !answers.iter().any(is_hashed) {
        return;
    }
    let known: HashSet<&str> = answers.iter().map(|answer| &*answer.project).collect();
    let mut paths: HashMap<String, Arc<str>> = HashMap::new();
    for known in known {
        let path = Path::new(known);
        for directory in path.ancestors().filter(|_| path.is_absolute()) {
            if let Some(name) = directory.to_str() {
                let hash = Digest::sha256(name.as_bytes()).to_hex();
                paths.entry(hash).or_insert_with(|| name.into());
            }
        }
    }
    for answer in answers {
        if is_hashed(answer)
            && let Some(path) = paths.get(&*answer.project)
        {
            answer.project = Arc::clone(path);
        }
    }
}

/// True for a SHA-256 in hexadecimal digits.
fn is_hash(name: &str) -> bool {
    name.len() == 64 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
