//! The eras of servers: of the protocol versions with a handshake (legacy), and of those without (modern).
//!
//! The era of a server is found by a probe. It is remembered by the identity of the server, so that a server that is
//! silent when it is probed costs the wait for the probe only once.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cachalot_core::atomic_file::{Access, AtomicFile};
use cachalot_core::{Canonical, SecretSet};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::McpSettings;

/// Maximum number of servers in a file.
const MAX_SERVERS: usize = 1_000;

/// Time after which a server is probed again: it may have learned the newer era without a new version number.
const MAX_AGE: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The era of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Era {
    /// It has a handshake: `initialize`.
    Legacy,
    /// Every request contains version and capabilities.
    Modern,
}

/// The remembered era of a server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct KnownEra {
    pub(super) era: Era,
    /// The version of the server that the era was found for.
    version: Option<String>,
    /// The time when it was found, in seconds since 1970.
    found: u64,
}

/// Remembers the eras of servers. Clones share everything. The default remembers them in this process only.
#[derive(Debug, Clone, Default)]
pub struct EraMemory(Arc<Mutex<MemoryState>>);

#[derive(Debug, Default)]
struct MemoryState {
    /// The file of the eras, which other processes share.
    file: Option<PathBuf>,
    is_read: bool,
    eras: BTreeMap<String, KnownEra>,
}

/// A server in an [`EraMemory`].
pub(super) struct EraEntry {
    memory: EraMemory,
    key: String,
}

impl EraMemory {
    /// Remembers the eras in this file, too. It is created when the first era is found, and replaced atomically.
    #[must_use]
    pub fn in_file(file: PathBuf) -> Self {
        Self(Arc::new(Mutex::new(MemoryState {
            file: Some(file),
            ..MemoryState::default()
        })))
    }

    /// Returns the entry of a server with these settings.
    pub(super) fn entry(&self, settings: &McpSettings, secret_set: &SecretSet) -> EraEntry {
        let identity = settings.identity(secret_set);
        EraEntry {
            memory: self.clone(),
            key: Canonical::value(&identity).digest().to_string(),
        }
    }
}

impl EraEntry {
    /// Returns what is remembered of the server.
    pub(super) fn known(&self) -> Option<KnownEra> {
        let mut state = self.memory.0.lock();
        state.read();
        let known = state.eras.get(&self.key)?;
        let age = now().saturating_sub(known.found);
        (age < MAX_AGE.as_secs()).then(|| known.clone())
    }

    /// Remembers the era of the server, unless the same is known of this version.
    pub(super) fn remember(&self, era: Era, version: Option<&str>) {
        if let Some(known) = self.known()
            && known.era == era
            && known.version.as_deref() == version
        {
            return;
        }
        let known = KnownEra {
            era,
            version: version.map(str::to_owned),
            found: now(),
        };
        self.change(|eras, key| drop(eras.insert(key.to_owned(), known)));
    }

    /// Forgets a legacy server if it has another version than the one that is remembered: it may have learned the
    /// newer era.
    pub(super) fn check_version(&self, version: Option<&str>) {
        if let Some(known) = self.known()
            && known.version.as_deref() != version
        {
            self.forget();
        }
    }

    /// Forgets the era of the server.
    pub(super) fn forget(&self) {
        self.change(|eras, key| drop(eras.remove(key)));
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, KnownEra>, &str)) {
        let mut state = self.memory.0.lock();
        // Other processes may have written it.
        state.is_read = false;
        state.read();
        change(&mut state.eras, &self.key);
        if let Some(file) = &state.file {
            // Without the file, the next process probes again.
            let _ = write(file, &state.eras);
        }
    }
}

impl MemoryState {
    /// Reads the file, if it was not read. An unreadable file counts as empty: servers are probed again.
    fn read(&mut self) {
        if std::mem::replace(&mut self.is_read, true) {
            return;
        }
        let text = self.file.as_ref().and_then(|file| std::fs::read(file).ok());
        let eras = text.and_then(|text| serde_json::from_slice(&text).ok());
        if let Some(eras) = eras {
            self.eras = eras;
        }
    }
}

/// Writes the newest entries.
fn write(file: &Path, eras: &BTreeMap<String, KnownEra>) -> std::io::Result<()> {
    let mut kept: Vec<(&String, &KnownEra)> = eras.iter().collect();
    kept.sort_by_key(|(_, known)| std::cmp::Reverse(known.found));
    kept.truncate(MAX_SERVERS);
    let kept: BTreeMap<_, _> = kept.into_iter().collect();
    let mut written = AtomicFile::new(file, Access::Private)?;
    written.write_all(&serde_json::to_vec(&kept)?)?;
    written.persist()
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
