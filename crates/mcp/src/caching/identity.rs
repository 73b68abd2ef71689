//! The identity of a server: everything about the server itself that can change its answers.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use cachalot_core::{Canonical, Digest, DigestKey, ObjectEncoder, SecretSet};
use serde::Serialize;
use serde_json::{Value, json};

use super::command_words::{self, PART_DIGITS};

/// Maximum size of a program whose content is digested; of a larger one, size and time of change are.
const MAX_DIGESTED: u64 = 64 << 20;

/// Variables that differ between terminals and sessions, and select nothing.
const OF_SESSION: [&str; 8] = [
    "_",
    "COLUMNS",
    "LINES",
    "OLDPWD",
    "PPID",
    "SHLVL",
    "TERM_SESSION_ID",
    "WINDOWID",
];

/// Programs that run a server with another view of the files.
const OF_OTHER_FILES: [&str; 11] = [
    "bwrap",
    "chroot",
    "docker",
    "docker-compose",
    "flatpak",
    "kubectl",
    "lxc",
    "nerdctl",
    "podman",
    "ssh",
    "wsl.exe",
];

/// The identity of a server.
#[derive(Debug, Clone)]
pub struct ServerIdentity {
    /// The name for users.
    pub(super) name: String,
    /// The digest of all that can change its answers.
    pub(super) digest: Digest,
    /// The parts of the server, for explanations: without values of variables and headers, and without arguments that may be
    /// credentials.
    pub(super) parts: Value,
    /// The name of what its calls may change: equal for all ways to reach it.
    pub(super) domain: String,
    /// True if the proxy starts a process of the server.
    pub(super) is_program: bool,
    /// The working directory of a server that sees the files of this machine.
    pub(super) directory: Option<PathBuf>,
}

impl ServerIdentity {
    /// Identifies a server that is started as a program on this machine. `directory` is its working directory, and
    /// `environment` its whole environment. `machine` distinguishes machines that share a store.
    #[must_use]
    pub fn program(
        name: &str,
        command: &[String],
        directory: &Path,
        environment: &BTreeMap<String, String>,
        machine: &str,
        key: &DigestKey,
    ) -> Self {
        let path = environment.get("PATH").map_or("", String::as_str);
        let program = command.first().map_or("", String::as_str);
        let mut files = vec![file_identity(&find_program(program, directory, path))];
        // A script, whose interpreter is the program.
        files.extend(command.iter().skip(1).filter_map(|argument| {
            let file = directory.join(argument);
            file.is_file().then(|| file_identity(&file))
        }));
        let variables = environment.iter();
        let variables = variables.filter(|(name, _)| !OF_SESSION.contains(&name.as_str()));
        let variables = digests(variables, key);
        // An argument may be a credential.
        let arguments: Vec<String> = command
            .iter()
            .map(|argument| key.digest(argument.as_bytes()).to_hex())
            .collect();
        let parts = json!({
            "command": command_words::shown(command, directory, key),
            "directory": directory.to_string_lossy(),
            "environment": names_by_digest(&variables),
            "files": contents_by_path(&files),
            "machine": machine,
        });
        let identity = json!({
            "arguments": arguments,
            "directory": directory.to_string_lossy(),
            "environment": variables,
            "files": files,
            "machine": machine,
        });
        let program_name = Path::new(program).file_name().unwrap_or_default();
        let sees_files = !OF_OTHER_FILES.iter().any(|other| program_name == *other);
        // Other arguments and variables may lead to the same data.
        let begin: Vec<&String> = command.iter().take(3).collect();
        Self {
            name: name.to_owned(),
            digest: Canonical::value(&identity).digest(),
            parts,
            domain: domain(&program_name.to_string_lossy(), &json!([begin])),
            is_program: true,
            directory: sees_files.then(|| directory.to_owned()),
        }
    }

    /// Identifies a server that is reached by HTTP. `headers` are those that the proxy adds.
    #[must_use]
    pub fn url(name: &str, url: &str, headers: &BTreeMap<String, String>, key: &DigestKey) -> Self {
        let lower_case = headers.iter();
        let lower_case = lower_case.map(|(name, value)| (name.to_lowercase(), value.clone()));
        let headers = digests(lower_case.collect::<BTreeMap<_, _>>().iter(), key);
        // A URL may hold a credential.
        let digest = key.digest(url.as_bytes()).to_hex();
        let origin = url::Url::parse(url).map(|url| url.origin().ascii_serialization());
        let parts = json!({
            "address": origin.as_deref().unwrap_or_default(),
            "headers": names_by_digest(&headers),
            "url": digest[..PART_DIGITS],
        });
        let identity = json!({"headers": headers, "url": digest});
        Self {
            name: name.to_owned(),
            digest: Canonical::value(&identity).digest(),
            parts,
            domain: domain("url", &json!(origin.unwrap_or_default())),
            is_program: false,
            directory: None,
        }
    }

    /// The name for users.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the identity in the form of the key.
    pub(super) fn keyed(&self, secret_set: &SecretSet) -> Canonical {
        let mut keyed = ObjectEncoder::sealed(secret_set);
        keyed.text("digest", &self.digest.to_hex());
        keyed.field("parts", &self.parts);
        keyed.finish()
    }
}

/// Returns the keyed digests of values, by their names.
fn digests<'a>(
    values: impl Iterator<Item = (&'a String, &'a String)>,
    key: &DigestKey,
) -> BTreeMap<String, String> {
    values
        .map(|(name, value)| (name.clone(), key.digest(value.as_bytes()).to_hex()))
        .collect()
}

/// Returns the names of values, each by a digest of name and value. The ledger would mask a value whose name is that of a
/// credential, and a digest of it, too.
fn names_by_digest(digests: &BTreeMap<String, String>) -> BTreeMap<String, &str> {
    let names = digests.iter().map(|(name, digest)| {
        let both = Digest::sha256_of_parts(&[name.as_bytes(), digest.as_bytes()]);
        (both.to_hex()[..PART_DIGITS].to_owned(), name.as_str())
    });
    names.collect()
}

/// Returns short digests of the contents of files, by their paths.
fn contents_by_path(files: &[FileIdentity]) -> BTreeMap<&str, Option<String>> {
    let files = files.iter().map(|FileIdentity(path, content)| {
        let content = content.as_deref().map(|content| {
            let digest = Digest::sha256(content.as_bytes()).to_hex();
            digest[..PART_DIGITS].to_owned()
        });
        (path.as_str(), content)
    });
    files.collect()
}

/// Returns the name of the domains of a server. `label` is for people.
fn domain(label: &str, of: &Value) -> String {
    let digest = Canonical::value(of).digest().to_hex();
    format!(
        "mcp:{}:{}",
        cachalot_tools::sanitize_name(label),
        &digest[..12]
    )
}

/// Returns the file of a program, as the operating system would find it.
fn find_program(program: &str, directory: &Path, path: &str) -> PathBuf {
    if program.contains('/') {
        return directory.join(program);
    }
    let mut places = std::env::split_paths(path).map(|place| place.join(program));
    let found = places.find(|place| place.is_file());
    found.unwrap_or_else(|| PathBuf::from(program))
}

/// The identity of a file: its real path and its content.
#[derive(Serialize)]
struct FileIdentity(String, Option<String>);

/// Returns the identity of a file.
fn file_identity(path: &Path) -> FileIdentity {
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let content = File::open(&path).and_then(|mut file| {
        let metadata = file.metadata()?;
        if metadata.len() > MAX_DIGESTED {
            let changed = metadata.modified()?.duration_since(UNIX_EPOCH);
            let changed = changed.map_or(0, |since| since.as_nanos());
            return Ok(format!("{} {changed}", metadata.len()));
        }
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        Ok(Digest::sha256(&bytes).to_hex())
    });
    FileIdentity(path.to_string_lossy().into_owned(), content.ok())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn everything_about_a_server_is_in_its_digest() {
        let home = tempfile::tempdir().unwrap();
        let script = home.path().join("server.py");
        std::fs::write(&script, "one").unwrap();
        let key = DigestKey::new([1; 32]);
        let of = |command: &[&str], variables: &[(&str, &str)], machine: &str| {
            let command: Vec<String> = command.iter().map(|it| (*it).to_owned()).collect();
            let variables = variables.iter();
            let variables =
                variables.map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
            let variables = variables.collect();
            ServerIdentity::program("s", &command, home.path(), &variables, machine, &key)
        };
        let base = of(&["python", "server.py"], &[], "m");
        assert_eq!(
            of(&["python", "server.py"], &[("SHLVL", "2")], "m").digest,
            base.digest
        );
        let mut digests = vec![
            base.digest,
            of(&["python", "server.py", "-v"], &[], "m").digest,
            of(&["python3", "server.py"], &[], "m").digest,
            of(&["python", "server.py"], &[("TOKEN", "a")], "m").digest,
            of(&["python", "server.py"], &[("TOKEN", "b")], "m").digest,
            of(&["python", "server.py"], &[], "n").digest,
        ];
        std::fs::write(&script, "two").unwrap();
        digests.push(of(&["python", "server.py"], &[], "m").digest);
        let url = |url, header: &str| {
            let headers = BTreeMap::from([("x-a".to_owned(), header.to_owned())]);
            ServerIdentity::url("s", url, &headers, &key)
        };
        let http = url("https://a.example/mcp?key=1", "1");
        digests.push(http.digest);
        digests.push(url("https://a.example/mcp?key=2", "1").digest);
        digests.push(url("https://a.example/mcp?key=1", "2").digest);
        let count = digests.len();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), count);
        // A change through one way to reach the server invalidates the answers of the others.
        assert_eq!(url("https://a.example/mcp?key=2", "1").domain, http.domain);
        assert_eq!(
            of(&["python", "server.py"], &[("TOKEN", "b")], "n").domain,
            base.domain
        );
        assert!(base.directory.is_some() && http.directory.is_none());
        assert!(of(&["docker", "run", "x"], &[], "m").directory.is_none());
    }
}
