//! The key under which secrets are digested: its file, and whether it is that of the other machines that use a store.
//!
//! A call whose key contains a digest is found only under the digest key that it was stored under. A store therefore
//! has a value by which a machine sees that its key is another one ([`DigestKey::check_value`]). The first machine
//! writes it. A key that the user has distributed takes the place of one that a machine has made for itself.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use cachalot_core::{DigestKey, Problem, disk};
use cachalot_store::{Error, Finding, PutAllResult, PutCondition, Record, Store};
use serde::{Deserialize, Serialize};

use crate::command_error::{CommandError, Result};

/// The file of a key that several machines have.
pub(crate) const VARIABLE: &str = "CACHALOT_DIGEST_KEY_FILE";

/// The same in an agent file.
pub(crate) const SETTING: &str = "settings.ltm.digest_key_file";

/// The space and the key of the value by which machines compare their keys.
pub(crate) const SPACE: &str = "digest-key";
const KEY: &str = "check";

/// Maximum number of times that the value is read, because another machine writes it at the same time.
const MAX_ATTEMPTS: u32 = 3;

/// The file of a digest key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct DigestKeyFile {
    pub(crate) path: PathBuf,
    pub(crate) origin: Origin,
}

/// The origin of a digest key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The key beside the file of the store: all processes that use the store have it. The first run makes it.
    Store,
    /// The key of this machine, which uses a store on a server. The first run makes it.
    Machine,
    /// Named by the user in this setting.
    Named(&'static str),
}

impl DigestKeyFile {
    /// Reads the key. The file beside the store is made on first use; if other users can read it, it is used with a
    /// warning. A file that the user names has to exist, and to be closed to other users.
    ///
    /// # Errors
    /// The file cannot be used or made; with its path and a remedy.
    pub(crate) fn load(&self, warn: &dyn Fn(&str)) -> Result<DigestKey> {
        match self.origin {
            Origin::Named(setting) => self.load_named(setting),
            Origin::Store | Origin::Machine => self.load_own(warn),
        }
    }

    pub(crate) fn is_named(&self) -> bool {
        matches!(self.origin, Origin::Named(_))
    }

    fn load_named(&self, setting: &'static str) -> Result<DigestKey> {
        let path = self.path.display();
        let refused = |fault: String, help: String| {
            let problem = Problem::new(
                "bad-digest-key",
                format!("{setting}: the digest key {path} {fault}"),
            );
            CommandError::usage(problem.help(help))
        };
        let key = DigestKey::load(&self.path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => refused(
                "does not exist".to_owned(),
                format!(
                    "copy it from another machine, or make one: `cachalot doctor --new-digest-key {path}`"
                ),
            ),
            ErrorKind::InvalidData => refused(
                "has neither 32 bytes nor 64 hex digits".to_owned(),
                "copy it again from another machine".to_owned(),
            ),
            _ => refused(
                format!("cannot be read: {error}"),
                "check its permissions".to_owned(),
            ),
        })?;
        match permissions(&self.path) {
            Some(mode) if mode & 0o027 != 0 => Err(refused(
                format!(
                    "is open to other users (mode {mode:03o}), who can test guesses of your secrets with it"
                ),
                format!("`chmod 600 {path}`"),
            )),
            _ => Ok(key),
        }
    }

    fn load_own(&self, warn: &dyn Fn(&str)) -> Result<DigestKey> {
        let path = &self.path;
        let made = path
            .parent()
            .map_or(Ok(()), std::fs::create_dir_all)
            .and_then(|()| DigestKey::load_or_create(path));
        let key = made.map_err(|error| {
            let cause = match error.kind() {
                ErrorKind::InvalidData => "it does not hold 32 bytes".to_owned(),
                _ => error.to_string(),
            };
            if disk::is_full(&error) {
                return CommandError::failed(format!(
                    "the digest key {} cannot be made: no space left ({error}); free some on its disk",
                    path.display()
                ));
            }
            let remedy = if path.exists() {
                "put it back, or remove it to have a new one made (what was cached with secrets is then paid for again)"
            } else {
                "check who may write in its directory, or name a store in another one with --db or CACHALOT_DB"
            };
            CommandError::failed(format!(
                "the digest key {} cannot be used: {cause}; {remedy}",
                path.display()
            ))
        })?;
        if let Some(mode) = permissions(path).filter(|mode| mode & 0o077 != 0) {
            warn(&format!(
                "the digest key {} is open to others (mode {mode:03o}), who can test guesses of your secrets with it: `chmod 600` it",
                path.display()
            ));
        }
        Ok(key)
    }

    /// The place of the key, for messages.
    fn place(&self) -> String {
        match self.origin {
            Origin::Named(setting) => format!("{} ({setting})", self.path.display()),
            Origin::Store | Origin::Machine => self.path.display().to_string(),
        }
    }
}

/// Writes a new key for several machines to a file that does not exist yet.
///
/// # Errors
/// The file exists, or cannot be written.
pub(crate) fn write_new(path: &Path) -> Result<()> {
    let written = DigestKey::ephemeral().and_then(|key| key.store_as_text(path));
    written.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => CommandError::failed(format!(
            "{} exists already and stays as it is: name another file",
            path.display()
        )),
        _ => CommandError::failed(format!(
            "the digest key {} cannot be written: {error}",
            path.display()
        )),
    })
}

/// The key of this machine compared with that of the others that use the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// It is that of the store, from now on if there was none.
    Same,
    /// It is another one than the store's, which was distributed if `is_named`.
    Other { is_named: bool },
}

/// The record by which machines compare their keys.
#[derive(Serialize, Deserialize, PartialEq, Eq)]
struct KeyCheck {
    check: String,
    /// True for a key that a user has distributed.
    is_named: bool,
}

/// Compares the key with that of the store. Writes the value for it if the store has none, or one of a key that takes
/// second place to this one.
///
/// # Errors
/// The store does not answer, or cannot be written. Nothing is known then.
pub(crate) async fn compare(
    store: &dyn Store,
    file: &DigestKeyFile,
    key: &DigestKey,
) -> std::result::Result<Comparison, Error> {
    let own = KeyCheck::new(file, key);
    for _ in 0..MAX_ATTEMPTS {
        let found = store.get(SPACE, KEY, &[]).settle().await?;
        let found = found.record.map(|record| record.value);
        // A value of another version counts as that of another key.
        let known = found.as_deref().map(|value| {
            serde_json::from_slice(value).unwrap_or(KeyCheck {
                check: String::new(),
                is_named: true,
            })
        });
        match known {
            Some(known) if known.check == own.check && known.is_named >= own.is_named => {
                return Ok(Comparison::Same);
            }
            Some(known) if known.check != own.check && !own.replaces(&known, file.origin) => {
                let is_named = known.is_named;
                return Ok(Comparison::Other { is_named });
            }
            _ => {}
        }
        // Only if the value is still the one that was read: another machine may have written since.
        let condition = PutCondition {
            space: SPACE,
            key: KEY,
            value: found,
        };
        let written = store.put_all(condition, vec![(SPACE, own.record())]);
        if written.settle().await? == PutAllResult::Stored {
            return Ok(Comparison::Same);
        }
    }
    Ok(Comparison::Other { is_named: true })
}

/// Makes the key that of the store, in place of any other.
///
/// # Errors
/// The store does not answer, or cannot be written.
pub(crate) async fn adopt(
    store: &dyn Store,
    file: &DigestKeyFile,
    key: &DigestKey,
) -> std::result::Result<(), Error> {
    let record = KeyCheck::new(file, key).record();
    let stored = store.put(SPACE, record, None, &[]);
    stored.settle().await.map(drop)
}

impl KeyCheck {
    fn new(file: &DigestKeyFile, key: &DigestKey) -> Self {
        Self {
            check: key.check_value().to_string(),
            is_named: file.is_named(),
        }
    }

    /// True if this key takes the place of another one, which no user has distributed.
    fn replaces(&self, other: &Self, origin: Origin) -> bool {
        !other.is_named && origin != Origin::Machine
    }

    fn record(&self) -> Record {
        Record {
            key: KEY.to_owned(),
            value: serde_json::to_vec(self).unwrap_or_default().into(),
            labels: Vec::new(),
            expires: None,
            revision: 0,
            updated: 0,
        }
    }
}

impl Comparison {
    /// The state of the key, for `doctor`.
    pub(crate) fn finding(self, file: &DigestKeyFile) -> Finding {
        match self {
            Self::Same => Finding::good(
                "digest key",
                format!("{}, the same as that of the store", file.place()),
            ),
            Self::Other { is_named } => Finding::degraded(
                "digest key",
                format!("{} is not that of the store", file.place()),
                remedy(file, is_named),
            ),
        }
    }

    /// The warning for a call that is found only under the key of this machine.
    pub(crate) fn warning(self, file: &DigestKeyFile, location: &str) -> Option<String> {
        let Self::Other { is_named } = self else {
            return None;
        };
        Some(format!(
            "the digest key {} is not that of {location}: calls with secrets or credentials in their keys are not shared with other machines, and paid for on each; {}",
            file.place(),
            remedy(file, is_named)
        ))
    }
}

/// The remedy for a key that is not that of the store, which was distributed if `is_named`.
fn remedy(file: &DigestKeyFile, is_named: bool) -> String {
    match (is_named, file.is_named()) {
        (true, false) => format!(
            "copy the digest key of the other machines to this one, and name the file by {VARIABLE} or {SETTING}"
        ),
        (true, true) => {
            "copy the digest key of the other machines to this one; if all of them have a new one, \
             `cachalot doctor --adopt-digest-key` makes it that of the store"
                .to_owned()
        }
        (false, _) => format!(
            "give all machines one key: `cachalot doctor --new-digest-key FILE` makes it, and {VARIABLE} or {SETTING} names the file"
        ),
    }
}

/// Returns the permissions of a file.
#[cfg(unix)]
fn permissions(path: &Path) -> Option<u32> {
    use std::os::unix::fs::PermissionsExt as _;
    Some(std::fs::metadata(path).ok()?.permissions().mode() & 0o777)
}

#[cfg(not(unix))]
fn permissions(_: &Path) -> Option<u32> {
    None
}
