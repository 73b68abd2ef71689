//! The words of a server's command, as far as they may be shown.

use std::path::Path;

use cachalot_core::secret::find_credentials;
use cachalot_core::{DigestKey, SecretSet};
use cachalot_tools::builtin::shell::looks_like_a_credential;
use serde_json::{Value, json};

/// The number of digits of digests in explanations.
pub(super) const PART_DIGITS: usize = 12;
/// Maximum length of a word that is shown and is no path of this machine.
const MAX_SHOWN: usize = 80;
/// Maximum number of digits in it: a version (`2026.8.31`) has fewer, a token has more.
const MAX_DIGITS: usize = 8;

/// Returns the words of a command for the ledger: a text, or `{"hidden": DIGEST}` for a word that may be a credential.
/// Shown are the program, paths that exist, names of options, and packages (`@SCOPE/NAME`, `NAME@VERSION`).
pub(super) fn shown(command: &[String], directory: &Path, key: &DigestKey) -> Vec<Value> {
    let mut before = "";
    let mut words = Vec::new();
    for (place, word) in command.iter().enumerate() {
        let is_shown = place == 0 || may_be_shown(word, before, directory);
        words.push(if is_shown {
            json!(word)
        } else {
            json!({"hidden": key.digest(word.as_bytes()).to_hex()[..PART_DIGITS]})
        });
        before = word;
    }
    words
}

fn may_be_shown(word: &str, before: &str, directory: &Path) -> bool {
    // `--token VALUE`
    let option = before.trim_start_matches('-');
    if option.len() < before.len() && looks_like_a_credential(option, word, &SecretSet::empty()) {
        return false;
    }
    if !find_credentials(word).is_empty() || word.contains("://") {
        return false;
    }
    if word.starts_with('-') {
        // The value of a short option may follow without a blank.
        return is_plain(word, "-_") && (word.starts_with("--") || word.len() == 2);
    }
    directory.join(word).exists() || is_plain(word, "@/._-") && is_package(word)
}

/// Returns true for a word of lower-case letters, few digits and the given signs.
fn is_plain(word: &str, signs: &str) -> bool {
    let is_sign = |sign: char| sign.is_ascii_lowercase() || signs.contains(sign);
    let digits = word.chars().filter(char::is_ascii_digit).count();
    word.len() <= MAX_SHOWN
        && digits <= MAX_DIGITS
        && word
            .chars()
            .all(|sign| is_sign(sign) || sign.is_ascii_digit())
}

/// Returns true for `@SCOPE/NAME` and `NAME@VERSION`. Other words with an `@` may be passwords.
fn is_package(word: &str) -> bool {
    let scoped = word.strip_prefix('@');
    let (name, version) = match scoped.unwrap_or(word).split_once('@') {
        Some((name, version)) => (name, Some(version)),
        None => (scoped.unwrap_or(word), None),
    };
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|it| it.is_ascii_digit());
    let is_version = |version: &str| {
        version == "latest" || version.contains('.') && version.split('.').all(is_number)
    };
    match scoped {
        Some(_) => name.matches('/').count() == 1 && version.is_none_or(is_version),
        None => version.is_some_and(is_version),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn words_that_may_be_credentials_are_hidden() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().to_string_lossy().into_owned();
        std::fs::write(home.path().join("Server.PY"), "").unwrap();
        for (words, hidden) in [
            (
                &["npx", "-y", "@org/server-files@2026.8.31", &root][..],
                &[][..],
            ),
            (&["npx", "server-a@latest", "server-b@1.2"], &[]),
            (&["python3", "Server.PY", "--read-only"], &[]),
            (&["s", "-d", &root], &[]),
            (&["uvx", "mcp-server-git"], &[1]),
            (&["docker", "run", "-e", "TOKEN", "mcp/files"], &[1, 3, 4]),
            (&["uvx", "git+https://me:pw@host/a"], &[1]),
            (&["s", "--token", "a-b"], &[2]),
            (&["s", "--api-key", "a.b"], &[2]),
            (&["s", "--auth", "a/b"], &[2]),
            (&["s", "--token=a-b"], &[1]),
            (&["s", "-p", "correct-horse"], &[2]),
            (&["s", "-u", "me:pa-ss"], &[2]),
            (&["s", "-phunter"], &[1]),
            (&["s", "my-secret-pass", "swordfish", "AbC-dEf"], &[1, 2, 3]),
            (
                &["s", "me:pa-ss", "me:pa/ss", "me:pa-ss@host/a"],
                &[1, 2, 3],
            ),
            (
                &["s", "p@ssword", "@pass", "pass@1", "@pass/wo/rd"],
                &[1, 2, 3, 4],
            ),
            (
                &["s", "https://host/a-b-c", "postgres://me:pw@host/db"],
                &[1, 2],
            ),
            (&["s", "sk-abcdefghijklmnopqrstuvwx"], &[1]),
            (&["s", "0b9a1c2d-3e4f-5a6b-7c8d-9e0f1a2b3c4d"], &[1]),
        ] {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            let shown = shown(&words, home.path(), &DigestKey::new([1; 32]));
            let found: Vec<usize> = (0..words.len())
                .filter(|at| shown[*at].is_object())
                .collect();
            assert_eq!(found, hidden, "{words:?}");
        }
    }
}
