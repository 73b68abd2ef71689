//! File locations of the store and of the files that belong to it.
//!
//! The store is the first of: `--db`, `CACHALOT_DB`, `settings.ltm` of the agent file, `cachalot/cachalot.db`
//! in the user's data directory. The other files are beside it. Symbolic links are followed first, so every
//! path to the store leads to the same files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cachalot_core::Problem;
use cachalot_core::links::without_links;
use cachalot_store::sqlite::files_of;

use crate::command_error::{CommandError, Result};

/// Files of one store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Home {
    /// Database of the store.
    pub(crate) database: PathBuf,
    /// Database of the ledger.
    pub(crate) ledger: PathBuf,
    /// Key for the digests of secrets.
    pub(crate) digest_key: PathBuf,
    /// Input history of chats.
    pub(crate) history: PathBuf,
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
        let database = match (given, from_environment, configured) {
            (Some(path), _, _) | (None, None, Some(path)) => directory.join(path),
            (None, Some(path), _) => directory.join(path),
            (None, None, None) => default_database(environment)?,
        };
        let database = without_links(&database);
        Ok(Self {
            ledger: companion_path(&database, ".ledger"),
            digest_key: companion_path(&database, ".digest-key"),
            history: companion_path(&database, ".history"),
            database,
        })
    }

    /// Returns true if `file` is one of the home's files, under any name, even if it does not exist yet.
    pub(crate) fn holds(&self, file: &Path) -> bool {
        let own = [&self.digest_key, &self.history].into_iter().cloned();
        let mut own = own
            .chain(files_of(&self.database))
            .chain(files_of(&self.ledger));
        own.any(|own| own == file || is_same_file(&own, file))
    }
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

fn companion_path(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.file_name().unwrap_or_default().to_owned();
    name.push(suffix);
    database.with_file_name(name)
}

/// Returns `$XDG_DATA_HOME/cachalot/cachalot.db`, or the equivalent path of the platform.
fn default_database(environment: &BTreeMap<String, String>) -> Result<PathBuf> {
    let directory = |name: &str| {
        environment
            .get(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let data = if cfg!(windows) {
        directory("LOCALAPPDATA").or_else(|| directory("APPDATA"))
    } else if cfg!(target_os = "macos") {
        directory("XDG_DATA_HOME")
            .or_else(|| directory("HOME").map(|home| home.join("Library/Application Support")))
    } else {
        directory("XDG_DATA_HOME")
            .or_else(|| directory("HOME").map(|home| home.join(".local/share")))
    };
    data.map(|data| data.join("cachalot").join("cachalot.db"))
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
