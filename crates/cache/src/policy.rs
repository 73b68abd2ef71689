//! How an answer is shared, aged and abandoned. Never part of the key.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use cachalot_memory::Label;

/// What the cache may do for a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Look up, run on a miss, store.
    #[default]
    On,
    /// Run without looking, then store.
    Refresh,
    /// Neither look nor store.
    Off,
    /// Look up, run on a miss, do not store.
    ReadOnly,
    /// Answers come from the cache only; a miss is an error.
    Frozen,
}

impl Mode {
    /// What a file says (`self`) together with what the command line says (`over`): that counts,
    /// except that it makes nothing be looked up or stored that the file keeps out of the cache.
    #[must_use]
    pub fn overridden_by(self, over: Self) -> Self {
        match (self, over) {
            (own, Self::On) => own,
            (Self::Off, _) => Self::Off,
            // Run without looking, and do not store.
            (Self::ReadOnly, Self::Refresh) => Self::Off,
            (_, over) => over,
        }
    }
}

/// Who may wait for whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Join {
    /// Nobody.
    Alone,
    /// Callers in this process, also mid-stream.
    Process,
    /// Callers in any process that shares the memory; those get whole values.
    Fleet {
        /// How long to wait for another process at most; then the call runs here, unstored.
        wait: Duration,
    },
}

/// What happens to a run when its last reader leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphan {
    /// It is stopped.
    Cancel,
    /// It may go on for a while, so that its answer is not lost.
    Finish {
        /// For how long at most.
        within: Duration,
    },
}

/// Something whose change can be announced without saying what changed.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Domain(String);

impl Domain {
    /// A domain called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The memory's counter that holds its epoch.
    pub(crate) fn counter(&self) -> String {
        format!("epoch:{}", self.0)
    }

    /// Whether that is [`Domain::counter`].
    pub(crate) fn is_counted_by(&self, counter: &str) -> bool {
        counter.strip_prefix("epoch:") == Some(self.0.as_str())
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A part of the cache with bounds of its own, beside those of the whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its name, apart from those of all other parts.
    pub name: String,
    /// How many there may be.
    pub entries: u64,
    /// How many bytes they may take together, what is noted of each included; `u64::MAX`: any.
    pub bytes: u64,
}

/// How an answer is shared, aged and abandoned.
#[derive(Debug, Clone)]
pub struct Policy {
    /// What the cache may do.
    pub mode: Mode,
    /// How long an entry that is stored now may be served; `None`: for ever.
    pub ttl: Option<Duration>,
    /// Who may wait for whom.
    pub join: Join,
    /// What happens to a run without readers.
    pub orphan: Orphan,
    /// How long looking the call up waits for a memory that is slow, all in all.
    pub patience: Duration,
    /// How long storing the answer waits for it, apart from that. Readers have the answer meanwhile.
    pub store_timeout: Duration,
    /// A larger answer is not stored.
    pub max_bytes: u64,
    /// Whose writes make the answer unservable.
    pub domains: Vec<Domain>,
    /// By what the entry is found.
    pub labels: Vec<Label>,
    /// The session in which the call is made; only the ledger uses it.
    pub session: Option<Arc<str>>,
    /// The part of the cache that the entry belongs to. A store of one walks over all its entries: it
    /// is for parts of at most some thousands.
    pub share: Option<Share>,
}

/// [`Policy::patience`] unless told otherwise.
pub const DEFAULT_PATIENCE: Duration = Duration::from_millis(250);
/// [`Policy::store_timeout`] unless told otherwise.
pub const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// [`Policy::max_bytes`] unless told otherwise: 64 MiB.
pub const DEFAULT_MAX_BYTES: u64 = 64 << 20;

impl Default for Policy {
    fn default() -> Self {
        Self {
            mode: Mode::On,
            ttl: None,
            join: Join::Process,
            orphan: Orphan::Cancel,
            patience: DEFAULT_PATIENCE,
            store_timeout: DEFAULT_STORE_TIMEOUT,
            max_bytes: DEFAULT_MAX_BYTES,
            domains: Vec::new(),
            labels: Vec::new(),
            session: None,
            share: None,
        }
    }
}
