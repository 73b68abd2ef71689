//! Policies: sharing, expiry and abandonment of an answer. Never part of the key.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_store::Label;

/// Permitted cache operations for a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum CacheMode {
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

impl CacheMode {
    /// Combines the mode of a configuration file (`self`) with that of the command line (`over`). The command
    /// line wins, but never enables a lookup or a store that the file disables.
    #[must_use]
    pub fn overridden_by(self, over: Self) -> Self {
        match (self, over) {
            (own, Self::On) => own,
            (Self::Off, _) => Self::Off,
            // No lookup (refresh) and no store (read-only).
            (Self::ReadOnly, Self::Refresh) => Self::Off,
            (_, over) => over,
        }
    }
}

/// The callers with which a call may share one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleFlight {
    /// None: every call has a run of its own.
    Off,
    /// Callers in this process, also in the middle of a stream.
    Process,
    /// Callers in any process that uses the same store; other processes get complete answers only.
    AllProcesses {
        /// Maximum time to wait for another process; after it the call runs here and is not stored.
        wait: Duration,
    },
}

/// Handling of a run whose last reader leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrphanPolicy {
    /// The run is cancelled.
    Cancel,
    /// The run may continue for a while, so that its answer is not lost. One whose answer is not stored is cancelled;
    /// [`crate::CacheBounds`] limits how many runs continue.
    Finish {
        /// Maximum time for which it continues.
        within: Duration,
    },
}

/// The form in which a caller reads an answer, if answers of one key exist in several forms (for example streamed or
/// whole). Forms share the key and the entry; callers join only runs of their own form.
///
/// A caller that finds a current run in another form, whose answer may be stored, leads a run of its own beside it.
/// That run is not stored ([`crate::Reason::RunsInOtherForm`]) and reserves nothing, and the other one continues.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Form(pub u8);

/// A resource whose change can be announced without details of the change (a workspace's file tree, an MCP
/// server).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Domain(String);

impl Domain {
    /// Creates a domain called `name`.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name of the counter in the store that holds the domain's epoch.
    pub(crate) fn counter(&self) -> String {
        format!("epoch:{}", self.0)
    }

    /// True if `counter` is [`Domain::counter`].
    pub(crate) fn is_counted_by(&self, counter: &str) -> bool {
        counter.strip_prefix("epoch:") == Some(self.0.as_str())
    }
}

impl fmt::Display for Domain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A quota for a group of entries, in addition to the bounds of the whole cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// The name of the group, unique among all groups.
    pub name: String,
    /// Maximum number of entries.
    pub entries: u64,
    /// Maximum total bytes of the entries, their metadata included; `u64::MAX` for no limit.
    pub bytes: u64,
}

/// Sharing, expiry and abandonment of an answer. Each part declares its own fields, so that a caller can create the
/// second one only if it is needed ([`crate::Cache::begin_with`]).
#[derive(Debug, Clone, Default)]
pub struct Policy {
    /// The part that a hit needs.
    pub hit: HitPolicy,
    /// The part that a run needs, and the lookup in the store before it.
    pub run: RunPolicy,
}

/// The part of a policy that a hit needs.
#[derive(Debug, Clone, Default)]
pub struct HitPolicy {
    /// Permitted cache operations.
    pub mode: CacheMode,
    /// The domains whose writes invalidate the answer.
    pub domains: Vec<Domain>,
    /// The session in which the call is made; only the ledger uses it.
    pub session: Option<Arc<str>>,
    /// Returns true if a stored answer has a form that the caller can use; `None` accepts every answer. An entry that
    /// is not accepted is a miss ([`crate::Reason::OtherForm`]), and the run that follows replaces it. Called for every
    /// entry that would be served otherwise, so it should look at a few bytes only.
    pub accepts: Option<fn(&Bytes) -> bool>,
}

/// The part of a policy that a run needs, and the lookup in the store before it.
#[derive(Debug, Clone)]
pub struct RunPolicy {
    /// The time to live of an entry that is stored now; `None`: it never expires.
    pub ttl: Option<Duration>,
    /// Time after its expiry in which an entry is still served ([`crate::BeginResult::Stale`]) while one caller
    /// refreshes it; zero for none. The entry must be valid otherwise: under current epochs, not erased, its files
    /// unchanged.
    pub stale_while_revalidate: Duration,
    /// Time after its expiry in which an entry may answer in place of a run that fails ([`crate::Ticket::stale`]);
    /// zero for none.
    pub stale_if_error: Duration,
    /// Set if no other call can have had the key, for example because its input contains a random name: the call runs
    /// without a lookup, and reserves its key only when there is an answer to store. An erasure of any entry while it
    /// runs keeps the answer from being stored, and no local copy is kept. Ignored for a call with domains, and in modes
    /// other than [`CacheMode::On`].
    pub is_new_key: bool,
    /// The callers that may share the run.
    pub join: SingleFlight,
    /// Handling of a run without readers.
    pub orphan: OrphanPolicy,
    /// The form of the answer.
    pub form: Form,
    /// [`crate::CacheBounds::lookup_timeout`] of this call, if it is not that of the engine.
    pub lookup_timeout: Option<Duration>,
    /// [`crate::CacheBounds::store_timeout`] of this call, if it is not that of the engine.
    pub store_timeout: Option<Duration>,
    /// Maximum size of an answer that is stored, in bytes. A run whose answer is larger becomes a pipe
    /// ([`crate::Ticket::decline`]), with this number of bytes (at least 1 MiB) for its slowest reader.
    pub max_bytes: u64,
    /// Labels by which the entry can be found.
    pub labels: Vec<Label>,
    /// The group that the entry belongs to. Storing an entry of a group scans all entries of the group, so
    /// groups should have at most some thousands of entries.
    pub quota: Option<Quota>,
}

impl HitPolicy {
    /// True if an entry may answer a call that then may run: [`CacheMode::On`] and [`CacheMode::ReadOnly`].
    pub(crate) fn serves_entries(&self) -> bool {
        matches!(self.mode, CacheMode::On | CacheMode::ReadOnly)
    }

    /// True if the answer of a run may be stored.
    pub(crate) fn stores_answers(&self) -> bool {
        matches!(self.mode, CacheMode::On | CacheMode::Refresh)
    }

    /// True if the caller can use a stored answer.
    pub(crate) fn is_accepted(&self, answer: &Bytes) -> bool {
        self.accepts.is_none_or(|accepts| accepts(answer))
    }
}

impl RunPolicy {
    /// Maximum time to wait for a run of another process.
    pub(crate) fn wait_for_processes(&self) -> Duration {
        match self.join {
            SingleFlight::AllProcesses { wait } => wait,
            SingleFlight::Off | SingleFlight::Process => Duration::ZERO,
        }
    }

    /// The time for which an entry is kept after its expiry.
    pub(crate) fn longest_stale_window(&self) -> Duration {
        self.stale_while_revalidate.max(self.stale_if_error)
    }
}

/// Default of [`crate::CacheBounds::lookup_timeout`].
pub const DEFAULT_LOOKUP_TIMEOUT: Duration = Duration::from_millis(250);
/// Default of [`crate::CacheBounds::store_timeout`].
pub const DEFAULT_STORE_TIMEOUT: Duration = Duration::from_secs(5);
/// Default of [`RunPolicy::max_bytes`]: 64 MiB.
pub const DEFAULT_MAX_BYTES: u64 = 64 << 20;

impl Default for RunPolicy {
    fn default() -> Self {
        Self {
            ttl: None,
            stale_while_revalidate: Duration::ZERO,
            stale_if_error: Duration::ZERO,
            is_new_key: false,
            join: SingleFlight::Process,
            orphan: OrphanPolicy::Cancel,
            form: Form::default(),
            lookup_timeout: None,
            store_timeout: None,
            max_bytes: DEFAULT_MAX_BYTES,
            labels: Vec::new(),
            quota: None,
        }
    }
}
