//! File locations of the store and of the files that belong to it.
//!
//! The store is the first of: `--db`, `CACHALOT_DB`, `settings.ltm` of the agent file, `cachalot/cachalot.db`
//! in the user's data directory. The other files are beside it. Symbolic links are followed first, so every
//! path to the store leads to the same files.
//!
//! A URL names a store on a server in place of the file; the other files are then beside the default file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cachalot_backends::{OpenOptions, StoreUrl, StoreUrlError};
use cachalot_core::links::without_links;
use cachalot_core::{Digest, Problem, user_data};
use cachalot_mcp::oauth::LoginFile;
use cachalot_store::sqlite::files_of;

use crate::command_error::{CommandError, Result};
use crate::digest_key::{self, DigestKeyFile, Origin};

/// Files of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    /// Database of the store; the default one, unused, if the store is on a server.
    pub(crate) database: PathBuf,
    /// The store on a server.
    pub(crate) url: Option<StoreUrl>,
    /// True if the user chose the server, which then gets the password of the environment. An agent file may come from another author,
    /// and name a server that asks for the password in clear text.
    pub(crate) is_chosen_by_user: bool,
    /// Database of the ledger.
    pub(crate) ledger: PathBuf,
    /// Database with copies of the entries of the store on a server.
    pub(crate) copies: Option<PathBuf>,
    /// Key for the digests of secrets.
    pub(crate) digest_key: DigestKeyFile,
    /// Input history of chats.
    pub(crate) history: PathBuf,
    /// Eras of MCP servers.
    pub(crate) mcp_eras: PathBuf,
    /// Logins at MCP servers, which are those of the user, wherever the store is; `None` without a home directory.
    pub(crate) logins: Option<PathBuf>,
}

impl Home {
    /// Returns the home by the order of precedence. `configured` is the path in the agent file, relative to
    /// `directory`.
    pub(crate) fn find(
        given: Option<&Path>,
        environment: &BTreeMap<String, String>,
        configured: Option<&Path>,
        directory: &Path,
    ) -> Result<Self> {
        let from_environment = environment
            .get("CACHALOT_DB")
            .filter(|path| !path.is_empty());
        let (origin, chosen) = match (given, from_environment, configured) {
            (Some(path), _, _) => ("--db", Some(path)),
            (None, Some(path), _) => ("CACHALOT_DB", Some(Path::new(path))),
            (None, None, Some(path)) => ("settings.ltm", Some(path)),
            (None, None, None) => ("", None),
        };
        let url = match chosen.and_then(Path::to_str).and_then(StoreUrl::recognize) {
            Some(url) => Some(check_url(url, origin)?),
            None => None,
        };
        let database = match chosen {
            Some(path) if url.is_none() => directory.join(path),
            _ => default_database(environment)?,
        };
        let database = without_links(&database);
        let copies = url.as_ref().map(|url| {
            let identity = Digest::sha256(url.identity(environment).as_bytes()).to_string();
            companion_path(&database, &format!(".{:.16}.copies", identity))
        });
        let named = environment.get(digest_key::VARIABLE);
        let digest_key = match named.filter(|file| !file.is_empty()) {
            Some(file) => DigestKeyFile {
                path: directory.join(file),
                origin: Origin::Named(digest_key::VARIABLE),
            },
            None => DigestKeyFile {
                path: companion_path(&database, ".digest-key"),
                origin: match url {
                    Some(_) => Origin::Machine,
                    None => Origin::Store,
                },
            },
        };
        Ok(Self {
            ledger: companion_path(&database, ".ledger"),
            digest_key,
            history: companion_path(&database, ".history"),
            mcp_eras: companion_path(&database, ".mcp-eras"),
            logins: LoginFile::of_user(environment).map(|file| file.path().to_owned()),
            database,
            url,
            copies,
            is_chosen_by_user: origin != "settings.ltm",
        })
    }

    /// Takes the digest key from the file that an agent file names, relative to `directory`, unless the environment
    /// names one.
    #[must_use]
    pub(crate) fn with_digest_key_file(mut self, file: Option<&str>, directory: &Path) -> Self {
        if let Some(file) = file
            && !self.digest_key.is_named()
        {
            self.digest_key = DigestKeyFile {
                path: directory.join(file),
                origin: Origin::Named(digest_key::SETTING),
            };
        }
        self
    }

    /// The place of the store, for messages; without a password.
    pub(crate) fn location(&self) -> String {
        match &self.url {
            Some(url) => url.location().to_owned(),
            None => self.database.display().to_string(),
        }
    }

    /// Returns true if `file` is one of the home's files, under any name, even if it does not exist yet.
    pub(crate) fn holds(&self, file: &Path) -> bool {
        let own = [&self.digest_key.path, &self.history, &self.mcp_eras];
        let own = own.into_iter().cloned();
        let own = own.chain(self.logins.clone());
        let mut own = own
            .chain(files_of(&self.database))
            .chain(files_of(&self.ledger))
            .chain(self.copies.iter().flat_map(|copies| files_of(copies)));
        own.any(|own| own == file || is_same_file(&own, file))
    }
}

/// Checks that a URL from `origin` names a store of this build, and shows no password to other users.
fn check_url(url: StoreUrl, origin: &str) -> Result<StoreUrl> {
    let Err(error) = cachalot_backends::open(&url, &OpenOptions::default()) else {
        if origin == "--db" && url.has_password() {
            return Err(CommandError::usage(
                Problem::new(
                    "bad-value",
                    "--db contains a password, which the list of processes shows to every user",
                )
                .help(match url.password_variable() {
                    Some(variable) => format!(
                        "set the URL in CACHALOT_DB, or leave the password out of it and set {variable}"
                    ),
                    None => "set the URL in CACHALOT_DB".to_owned(),
                }),
            ));
        }
        return Ok(url);
    };
    let (code, help) = match error {
        StoreUrlError::NotBuilt(_) => (
            "backend-not-built",
            "this build has: files of SQLite (a path), postgres://, redis://, rediss://, unix:, libsql://, s3://, gs://, az://, firestore://",
        ),
        StoreUrlError::UnknownScheme(_) => (
            "unknown-backend",
            "a SQLite file is named by its path; a server by postgres://USER@HOST/DATABASE redis://HOST/0 or s3://BUCKET/NAME.db",
        ),
        StoreUrlError::Invalid(_) => (
            "bad-value",
            "for example postgres://USER@HOST:5432/DATABASE?sslmode=require, or redis://HOST:6379/0",
        ),
    };
    let problem = Problem::new(code, format!("{origin}: {error}")).help(help);
    Err(CommandError::usage(problem))
}

/// Returns true if both exist and are the same file.
#[cfg(unix)]
fn is_same_file(one: &Path, other: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let identity = |path| {
        let metadata = std::fs::metadata(path).ok()?;
        Some((metadata.dev(), metadata.ino()))
    };
    identity(one).is_some_and(|one| identity(other) == Some(one))
}

#[cfg(not(unix))]
fn is_same_file(one: &Path, other: &Path) -> bool {
    let name = |path| std::fs::canonicalize(path).ok();
    name(one).is_some_and(|one| name(other) == Some(one))
}

pub(crate) fn companion_path(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    database.with_file_name(name)
}

/// Returns `$XDG_DATA_HOME/cachalot/cachalot.db`, or the equivalent path of the platform.
pub(crate) fn default_database(environment: &BTreeMap<String, String>) -> Result<PathBuf> {
    user_data::directory(environment)
        .map(|data| data.join("cachalot.db"))
        .ok_or_else(|| {
            CommandError::usage(
                Problem::new("no-home", "no path for the store: HOME is not set")
                    .help("set --db PATH or CACHALOT_DB"),
            )
        })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn environment(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect()
    }

    fn database(given: Option<&str>, pairs: &[(&str, &str)], configured: Option<&str>) -> PathBuf {
        let home = Home::find(
            given.map(Path::new),
            &environment(pairs),
            configured.map(Path::new),
            Path::new("/here"),
        );
        home.ok().unwrap().database
    }

    #[test]
    fn database_path_precedence() {
        let all = [
            ("CACHALOT_DB", "env.db"),
            ("XDG_DATA_HOME", "/data"),
            ("HOME", "/me"),
        ];
        assert_eq!(
            database(Some("given.db"), &all, Some("file.db")),
            Path::new("/here/given.db")
        );
        assert_eq!(
            database(None, &all, Some("file.db")),
            Path::new("/here/env.db")
        );
        assert_eq!(
            database(None, &all[1..], Some("/abs/file.db")),
            Path::new("/abs/file.db")
        );
        #[cfg(target_os = "linux")]
        {
            assert_eq!(
                database(None, &all[1..], None),
                Path::new("/data/cachalot/cachalot.db")
            );
            let home = Path::new("/me/.local/share/cachalot/cachalot.db");
            assert_eq!(database(None, &all[2..], None), home);
            // A relative XDG_DATA_HOME is to be ignored (XDG base directory specification).
            assert_eq!(
                database(None, &[("XDG_DATA_HOME", "x"), ("HOME", "/me")], None),
                home
            );
        }
        assert!(Home::find(None, &environment(&[]), None, Path::new("/here")).is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_are_resolved_for_existing_and_missing_files() {
        use std::os::unix::fs::symlink;
        let directory = tempfile::tempdir().unwrap();
        let root = std::fs::canonicalize(directory.path()).unwrap();
        std::fs::create_dir(root.join("real")).unwrap();
        symlink("real", root.join("folder")).unwrap();
        symlink("../folder/memory.db", root.join("real/link.db")).unwrap();
        symlink("circle.db", root.join("circle.db")).unwrap();
        let database = root.join("real/memory.db");
        let names = [
            "real/memory.db",
            "folder/memory.db",
            "real/link.db",
            "folder/link.db",
        ];
        for there in [false, true] {
            for name in names {
                assert_eq!(
                    without_links(&root.join(name)),
                    database,
                    "{name}, there: {there}"
                );
            }
            std::fs::write(&database, "").unwrap();
        }
        assert_eq!(
            without_links(&root.join("folder/new/x.db")),
            root.join("real/new/x.db")
        );
        assert_eq!(
            without_links(&root.join("circle.db")),
            root.join("circle.db")
        );
    }

    #[test]
    fn an_empty_variable_is_not_set() {
        let set = [
            ("CACHALOT_DB", ""),
            ("HOME", "/me"),
            ("LOCALAPPDATA", "/me"),
        ];
        assert_ne!(database(None, &set, None), Path::new("/here"));
    }
}
