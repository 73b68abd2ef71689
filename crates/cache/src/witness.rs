//! Witnesses: the files that an answer was built from, and the check that they are unchanged.
//!
//! The work records what it reads *before* it reads it. At the end of the run and on every hit, the same
//! check decides if the records still hold. A file counts as unchanged if its status is the same as at a
//! moment when it was already old enough to be trusted; any other file is hashed.

mod error;
pub(crate) mod hex_digest;
mod observe;
mod pending;
mod status;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cachalot_core::{Digest, Witnesses};
use serde::{Deserialize, Serialize};

use crate::sync::{Mutex, lock};
pub use error::ObservationError;
use pending::PendingObservations;
use status::{Absence, FileStatus, FileSystemTimes};

/// Maximum number of observations; an answer with more is not stored, because checking them would cost
/// more than the work.
const MAX_OBSERVATIONS: usize = 10_000;

/// The property of a path that the work depends on.
#[derive(Debug, Clone, Copy)]
pub enum Observation<'a> {
    /// The content of a file, the listing of a directory, or the absence of both.
    Content(&'a Path),
    /// The names and kinds of a directory's entries.
    Listing(&'a Path),
    /// The existence of the path, and its type: directory or not.
    Existence(&'a Path),
    /// The canonical path, symbolic links resolved: for work whose result depends on the location of a file.
    Target(&'a Path),
}

/// The list in which the work records what it reads. Cheap to clone; clones record into the same list.
#[derive(Clone, Default)]
pub struct Witness(Arc<WitnessState>);

#[derive(Default)]
struct WitnessState {
    pending: PendingObservations,
    times: FileSystemTimes,
    observed: Mutex<ObservationList>,
    /// The reason why the list is incomplete: a file changed while it was read, or the list is full.
    incomplete: Mutex<Option<String>>,
    /// Set if another process reads the files.
    read_by_others: AtomicBool,
}

/// The distinct observations, in order.
#[derive(Default)]
struct ObservationList {
    observed: Vec<Observed>,
    /// Positions in `observed`, by path.
    places: HashMap<String, Vec<usize>>,
}

impl ObservationList {
    fn holds(&self, observed: &Observed) -> bool {
        self.places
            .get(&observed.path)
            .is_some_and(|places| places.iter().any(|at| self.observed[*at] == *observed))
    }

    fn push(&mut self, observed: Observed) {
        let places = self.places.entry(observed.path.clone()).or_default();
        places.push(self.observed.len());
        self.observed.push(observed);
    }
}

impl Witness {
    /// Reads a file through one handle, checking its status before and after. A file that changed in the
    /// meantime makes the list incomplete, so that nothing is stored.
    ///
    /// # Errors
    /// Errors of the file system. A file that is absent or a directory is recorded, too; any other error
    /// makes the list incomplete.
    pub fn read(&self, path: &Path) -> io::Result<Bytes> {
        // Held until the result is noted: a follower that checks the list waits for it (`observations_recorded`).
        let _guard = self.0.pending.begin();
        match observe::read(path, &self.0.times) {
            Ok((observed, bytes)) => {
                self.note(observed);
                Ok(bytes)
            }
            Err(error) => {
                // Records this result: a second attempt could find another state.
                self.note(observe::observe_failed_read(path, &error));
                Err(error)
            }
        }
    }

    /// Records the current state of a path; to be called before reading it. Blocks while it reads the file.
    pub fn observe(&self, what: Observation<'_>) {
        let _guard = self.0.pending.begin();
        let times = &self.0.times;
        self.note(match what {
            Observation::Content(path) => observe::content(path, times),
            Observation::Listing(path) => observe::listing(path, times),
            Observation::Existence(path) => observe::existence(path),
            Observation::Target(path) => observe::target(path),
        });
    }

    /// Declares that another process reads the files, at an unknown time between their observation and the end of the
    /// run. The answer is stored only if no file was written at all in the meantime: one that was changed and changed
    /// back has its old content, but the other process may have read another one. To be called before the first
    /// observation. A file that is absent, or so new that its status would not show such a change, makes the list
    /// incomplete.
    pub fn read_by_other_process(&self) {
        self.0.read_by_others.store(true, Ordering::Relaxed);
    }

    /// True after [`Witness::read_by_other_process`].
    pub(crate) fn is_read_by_others(&self) -> bool {
        self.0.read_by_others.load(Ordering::Relaxed)
    }

    /// Returns a snapshot of the records that can be checked apart from any entry: for an adapter that puts
    /// a file's content into a key and must know that the work reads the same content.
    #[must_use]
    pub fn snapshot(&self) -> WitnessSnapshot {
        WitnessSnapshot {
            incomplete: self.incomplete(),
            observations: ObservationSet::new(self.observed()),
        }
    }

    /// True if nothing has been recorded so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        lock(&self.0.observed).observed.is_empty() && self.incomplete().is_none()
    }

    /// Resolves when every observation that had begun is recorded: only then does the list contain all that
    /// the work has read before now.
    pub(crate) async fn observations_recorded(&self) {
        self.0.pending.ended().await;
    }

    /// Marks the list as incomplete, because the work read something that cannot be recorded: its answer is
    /// not stored.
    pub fn mark_incomplete(&self, why: impl Into<String>) {
        lock(&self.0.incomplete).get_or_insert_with(|| why.into());
    }

    /// Returns the records so far, to be attached to the result of the work; unknown if the list is
    /// incomplete. Only the work itself knows if it depends on anything else.
    #[must_use]
    pub fn witnesses(&self) -> Witnesses {
        match self.incomplete() {
            Some(why) => Witnesses::unknown(&why),
            None => to_witnesses(&ObservationSet::new(self.observed())),
        }
    }

    /// Adds the witnesses of a result as they were recorded then: nothing is observed anew, so that every
    /// later change is detected. Unknown witnesses, and those that another crate recorded, make the list
    /// incomplete.
    pub fn adopt(&self, witnesses: &Witnesses) {
        let items = match witnesses.items() {
            Ok(items) => items,
            Err(why) => return self.mark_incomplete(why),
        };
        for item in items {
            match item.downcast_ref::<ObservationSet>() {
                Some(observations) => {
                    for observed in observations.current() {
                        self.note(Ok(observed));
                    }
                }
                None => self.mark_incomplete("it was built from something that cannot be checked"),
            }
        }
    }

    fn note(&self, observed: Result<Observed, ObservationError>) {
        match observed {
            Err(error) => self.mark_incomplete(error.to_string()),
            Ok(observed) if self.is_read_by_others() && !observed.shows_every_write() => {
                self.mark_incomplete(format!(
                    "{} is absent, or was written just before",
                    observed.path
                ));
            }
            Ok(observed) => {
                let mut list = lock(&self.0.observed);
                if list.holds(&observed) {
                } else if list.observed.len() < MAX_OBSERVATIONS {
                    list.push(observed);
                } else {
                    drop(list);
                    self.mark_incomplete(format!(
                        "it looked at more than {MAX_OBSERVATIONS} files"
                    ));
                }
            }
        }
    }

    pub(crate) fn incomplete(&self) -> Option<String> {
        lock(&self.0.incomplete).clone()
    }

    pub(crate) fn observed(&self) -> Vec<Observed> {
        lock(&self.0.observed).observed.clone()
    }
}

/// Wraps observations as [`Witnesses`], which share the list.
pub(crate) fn to_witnesses(observations: &Arc<ObservationSet>) -> Witnesses {
    if observations.observed.is_empty() {
        Witnesses::default()
    } else {
        let observations: Arc<ObservationSet> = Arc::clone(observations);
        Witnesses::from_item(observations)
    }
}

/// A snapshot of the records of a [`Witness`].
pub struct WitnessSnapshot {
    incomplete: Option<String>,
    observations: Arc<ObservationSet>,
}

impl WitnessSnapshot {
    /// Checks that everything recorded is unchanged.
    ///
    /// # Errors
    /// A description of the change, or the reason why it cannot be checked.
    pub async fn holds(&self) -> Result<(), ObservationError> {
        match &self.incomplete {
            Some(why) => Err(ObservationError::Incomplete(why.clone())),
            None => self.observations.check(SERVE_CHECK_TIMEOUT).await,
        }
    }

    /// The digest of the content of the only file that was recorded.
    ///
    /// # Errors
    /// The reason why there is none: nothing or more than one thing was recorded, or it is not a file.
    pub fn content_digest(&self) -> Result<Digest, ObservationError> {
        if let Some(why) = &self.incomplete {
            return Err(ObservationError::Incomplete(why.clone()));
        }
        let [Observed { path, what }] = self.observations.observed.as_slice() else {
            return Err(ObservationError::NoSingleFile);
        };
        match what {
            ObservedState::Content { digest, .. } => Ok(*digest),
            ObservedState::Absent(_) => Err(ObservationError::Absent(path.clone())),
            _ => Err(ObservationError::NotAFile(path.clone())),
        }
    }
}

/// An observed path, and its state then.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Observed {
    path: String,
    what: ObservedState,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum ObservedState {
    Content {
        #[serde(with = "hex_digest")]
        digest: Digest,
        status: FileStatus,
    },
    Listing {
        #[serde(with = "hex_digest")]
        digest: Digest,
        status: FileStatus,
    },
    Absent(Absence),
    Present {
        directory: bool,
    },
    Target {
        /// The canonical path; `None` if nothing exists at the path.
        real: Option<String>,
    },
}

/// Maximum number of statuses that are read on the caller's thread: reading one takes about a microsecond,
/// a round trip to another thread about thirty.
const MAX_INLINE_CHECKS: usize = 64;

/// Maximum total time of such reads; after a longer one, the next check leaves the caller's thread.
const MAX_INLINE_TIME: Duration = Duration::from_millis(1);

/// The time budget of a check before an entry is served; one that takes longer is a miss.
pub(crate) const SERVE_CHECK_TIMEOUT: Duration = Duration::from_secs(10);

/// The time budget of a check before an answer is stored; an answer whose check takes longer is not.
pub(crate) const STORE_CHECK_TIMEOUT: Duration = Duration::from_secs(60);

/// The observations of an entry, ready to be checked on every hit.
pub(crate) struct ObservationSet {
    observed: Vec<Observed>,
    /// Later statuses, by the position of their observation, under which the content was found unchanged and
    /// which are old enough to be trusted: of files that were touched since, or were too new when recorded.
    verified: Mutex<HashMap<usize, FileStatus>>,
    /// Set when `verified` has grown since [`ObservationSet::take_updated`].
    has_updates: AtomicBool,
    /// Set when the last read of all statuses took longer than [`MAX_INLINE_TIME`].
    slow: AtomicBool,
}

/// The result of a check by status.
enum StatusCheck {
    Holds,
    /// The content has to be compared.
    Unsure,
    Changed(ObservationError),
}

impl ObservationSet {
    pub(crate) fn new(observed: Vec<Observed>) -> Arc<Self> {
        Arc::new(Self {
            observed,
            verified: Mutex::default(),
            has_updates: AtomicBool::new(false),
            slow: AtomicBool::new(false),
        })
    }

    /// Returns the observations, each with the latest status under which it was found to hold.
    pub(crate) fn current(&self) -> Vec<Observed> {
        let mut observed = self.observed.clone();
        for (place, status) in &*lock(&self.verified) {
            observed[*place].verified_under(status);
        }
        observed
    }

    /// True if files were found unchanged under later statuses since the last call.
    pub(crate) fn take_updated(&self) -> bool {
        self.has_updates.load(Ordering::Relaxed) && self.has_updates.swap(false, Ordering::Relaxed)
    }

    /// The total size of all files whose content was read, in bytes.
    pub(crate) fn size(&self) -> u64 {
        let size = |observed: &Observed| match &observed.what {
            ObservedState::Content { status, .. } => status.size,
            _ => 0,
        };
        self.observed.iter().map(size).sum()
    }

    /// The approximate size in memory, in bytes.
    pub(crate) fn weight(&self) -> u64 {
        let paths: usize = self.observed.iter().map(|one| one.path.capacity()).sum();
        (paths + self.observed.capacity() * size_of::<Observed>()) as u64
    }

    /// Checks that everything is unchanged; the error describes the change. Reads few statuses on the
    /// caller's thread; reads many statuses, slow ones, and contents on another thread. Reads contents only
    /// where the status does not decide. Takes at most `within`.
    pub(crate) async fn check(self: &Arc<Self>, within: Duration) -> Result<(), ObservationError> {
        if self.observed.is_empty() || self.check_inline()? {
            return Ok(());
        }
        // Large, and rarely needed for a hit.
        Box::pin(self.check_on_thread(within, false)).await
    }

    /// Checks that no file or directory was written since it was observed, not even with its old content.
    pub(crate) async fn check_unwritten(self: &Arc<Self>) -> Result<(), ObservationError> {
        let this = Arc::clone(self);
        let checked = run_blocking(STORE_CHECK_TIMEOUT, move || {
            this.observed.iter().try_for_each(Observed::check_unwritten)
        });
        checked.await.unwrap_or_else(|| Err(self.too_slow()))
    }

    /// Checks that all contents are unchanged, regardless of their statuses.
    pub(crate) async fn check_frozen(self: &Arc<Self>) -> Result<(), ObservationError> {
        if self.observed.is_empty() {
            return Ok(());
        }
        self.check_on_thread(Duration::MAX, true).await
    }

    /// Reads the statuses on the caller's thread, if they are few; returns false if that does not decide.
    fn check_inline(&self) -> Result<bool, ObservationError> {
        if self.observed.len() > MAX_INLINE_CHECKS || self.slow.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let began = Instant::now();
        let mut holds = true;
        for place in 0..self.observed.len() {
            match self.check_status(place) {
                StatusCheck::Holds => {}
                StatusCheck::Unsure => holds = false,
                StatusCheck::Changed(what) => return Err(what),
            }
            if began.elapsed() > MAX_INLINE_TIME {
                self.slow.store(true, Ordering::Relaxed);
                return Ok(holds && place + 1 == self.observed.len());
            }
        }
        Ok(holds)
    }

    async fn check_on_thread(
        self: &Arc<Self>,
        within: Duration,
        all: bool,
    ) -> Result<(), ObservationError> {
        let this = Arc::clone(self);
        let until = Instant::now().checked_add(within);
        let checked = run_blocking(within, move || this.check_content(until, all)).await;
        checked.unwrap_or_else(|| Err(self.too_slow()))
    }

    fn too_slow(&self) -> ObservationError {
        ObservationError::TooSlow(match self.observed.as_slice() {
            [only] => only.path.clone(),
            all => format!("{} files", all.len()),
        })
    }

    fn check_content(&self, until: Option<Instant>, all: bool) -> Result<(), ObservationError> {
        let times = FileSystemTimes::default();
        let began = Instant::now();
        let mut read = false;
        for (place, observed) in self.observed.iter().enumerate() {
            // The caller has stopped waiting.
            if until.is_some_and(|until| Instant::now() >= until) {
                return Err(self.too_slow());
            }
            match self.check_status(place) {
                StatusCheck::Holds if !all => {}
                StatusCheck::Changed(what) if !all => return Err(what),
                _ => {
                    read = true;
                    if let Some(status) = observed.compare(&times)? {
                        lock(&self.verified).insert(place, status);
                        // A frozen run writes nothing back.
                        self.has_updates.fetch_or(!all, Ordering::Relaxed);
                    }
                }
            }
        }
        // A time that includes the reading of contents does not measure the statuses.
        if !read {
            self.slow
                .store(began.elapsed() > MAX_INLINE_TIME, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Decides by the status alone, if possible.
    fn check_status(&self, place: usize) -> StatusCheck {
        self.observed[place].check_status(|now| {
            lock(&self.verified)
                .get(&place)
                .is_some_and(|verified| now.same_as(verified))
        })
    }
}

/// Runs `work` on a thread that may block, for at most `within`; `None` if it takes longer (it then
/// continues unobserved) or panics.
async fn run_blocking<T: Send + 'static>(
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let working = tokio::task::spawn_blocking(work);
    tokio::time::timeout(within, working).await.ok()?.ok()
}

impl Observed {
    /// Decides by the status alone, if possible. `verified` returns true for a status under which the content
    /// was found unchanged later.
    fn check_status(&self, verified: impl FnOnce(&FileStatus) -> bool) -> StatusCheck {
        if let ObservedState::Target { .. } = self.what {
            return match observe::target(Path::new(&self.path)) {
                Ok(now) if now == *self => StatusCheck::Holds,
                Ok(_) => StatusCheck::Changed(ObservationError::LeadsElsewhere(self.path.clone())),
                Err(error) => StatusCheck::Changed(error),
            };
        }
        let now = FileStatus::read(Path::new(&self.path));
        match (&self.what, now) {
            // A path whose status cannot be read proves nothing, so the entry is not served.
            (_, Err(error)) => {
                let path = Path::new(&self.path);
                StatusCheck::Changed(ObservationError::unreadable(path, &error))
            }
            (ObservedState::Absent(then), Ok(Err(now))) if *then == now => StatusCheck::Holds,
            (ObservedState::Absent(_), Ok(Err(_))) => self.changed(),
            (ObservedState::Absent(_), Ok(Ok(_))) => {
                StatusCheck::Changed(ObservationError::Appeared(self.path.clone()))
            }
            (_, Ok(Err(_))) => StatusCheck::Changed(ObservationError::Gone(self.path.clone())),
            // Handled above.
            (ObservedState::Target { .. }, Ok(Ok(_))) => self.changed(),
            (ObservedState::Present { directory }, Ok(Ok(now))) => {
                if *directory == now.directory {
                    StatusCheck::Holds
                } else {
                    self.changed()
                }
            }
            (ObservedState::Content { digest, status }, Ok(Ok(now))) => {
                // Another size proves a change without reading the content.
                if now.size != status.size || now.directory {
                    self.changed()
                } else if status.size == 0 && *digest != empty_digest() {
                    // Recorded by an earlier version: such a file is generated when it is read.
                    StatusCheck::Unsure
                } else if status.proves_unchanged(&now) || verified(&now) {
                    StatusCheck::Holds
                } else {
                    StatusCheck::Unsure
                }
            }
            (ObservedState::Listing { status, .. }, Ok(Ok(now))) => {
                if !now.directory {
                    self.changed()
                } else if status.proves_unchanged(&now) || verified(&now) {
                    StatusCheck::Holds
                } else {
                    StatusCheck::Unsure
                }
            }
        }
    }

    /// True if any later write to the file or directory changes its status.
    fn shows_every_write(&self) -> bool {
        match &self.what {
            ObservedState::Content { status, .. } | ObservedState::Listing { status, .. } => {
                status.settled
            }
            ObservedState::Absent(_) => false,
            // No content was observed.
            ObservedState::Present { .. } | ObservedState::Target { .. } => true,
        }
    }

    /// Checks that the file or directory was not written since.
    fn check_unwritten(&self) -> Result<(), ObservationError> {
        match &self.what {
            ObservedState::Content { status, .. } | ObservedState::Listing { status, .. } => {
                match FileStatus::read(Path::new(&self.path)) {
                    Ok(Ok(now)) if now.same_as(status) => Ok(()),
                    _ => Err(ObservationError::Changed(self.path.clone())),
                }
            }
            ObservedState::Absent(_)
            | ObservedState::Present { .. }
            | ObservedState::Target { .. } => Ok(()),
        }
    }

    fn changed(&self) -> StatusCheck {
        StatusCheck::Changed(ObservationError::Changed(self.path.clone()))
    }

    /// Replaces the recorded status with a later one.
    fn verified_under(&mut self, later: &FileStatus) {
        if let ObservedState::Content { status, .. } | ObservedState::Listing { status, .. } =
            &mut self.what
        {
            status.clone_from(later);
        }
    }

    /// Observes the path again and compares. Returns the new status if it is old enough to be trusted: while
    /// it stays the same, the content need not be read again.
    fn compare(&self, times: &FileSystemTimes) -> Result<Option<FileStatus>, ObservationError> {
        let path = Path::new(&self.path);
        let now = match &self.what {
            ObservedState::Content { .. } => observe::content(path, times),
            ObservedState::Listing { .. } => observe::listing(path, times),
            ObservedState::Absent(_) | ObservedState::Present { .. } => observe::existence(path),
            ObservedState::Target { .. } => observe::target(path),
        }?;
        match (&self.what, now.what) {
            (
                ObservedState::Content { digest, .. },
                ObservedState::Content {
                    digest: again,
                    status,
                },
            )
            | (
                ObservedState::Listing { digest, .. },
                ObservedState::Listing {
                    digest: again,
                    status,
                },
            ) if *digest == again => Ok(status.trusted.then_some(status)),
            (then, again) if again == *then => Ok(None),
            _ => Err(ObservationError::Changed(self.path.clone())),
        }
    }
}

/// The digest of an empty file.
fn empty_digest() -> Digest {
    static EMPTY: LazyLock<Digest> = LazyLock::new(|| Digest::sha256(b""));
    *EMPTY
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// An entry of a version that took the status of such a file for evidence.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn observation_of_a_proc_file_never_holds() {
        let path = Path::new("/proc/uptime");
        let Ok(Ok(mut status)) = FileStatus::read(path) else {
            unreachable!("Linux has it")
        };
        status.trusted = true;
        let observations = ObservationSet::new(vec![Observed {
            path: "/proc/uptime".to_owned(),
            what: ObservedState::Content {
                digest: Digest::sha256(b"1.00 1.00\n"),
                status,
            },
        }]);
        let checked = observations.check(SERVE_CHECK_TIMEOUT).await;
        assert!(checked.is_err(), "{checked:?}");
    }

    #[tokio::test]
    async fn run_blocking_gives_up_after_its_timeout() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let stuck = run_blocking(Duration::from_millis(20), move || ended.recv());
        assert!(stuck.await.is_none());
        end.send(()).unwrap();
        assert_eq!(run_blocking(Duration::from_secs(60), || 7).await, Some(7));
        assert_eq!(run_blocking(Duration::MAX, || 7).await, Some(7));
    }

    #[tokio::test]
    async fn check_after_its_deadline_reads_no_more_files() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        std::fs::write(&path, "a").unwrap();
        let observations = ObservationSet::new(vec![
            observe::content(&path, &FileSystemTimes::default()).unwrap(),
        ]);
        let over = observations.check_content(Some(Instant::now()), true);
        let file = path.display().to_string();
        assert_eq!(over, Err(ObservationError::TooSlow(file)));
        assert_eq!(observations.check_content(None, true), Ok(()));
        let all = ObservationSet::new(vec![observations.observed[0].clone(); 100]);
        let over = all.check(Duration::ZERO).await;
        let files = "100 files".to_owned();
        assert_eq!(over, Err(ObservationError::TooSlow(files)));
        assert_eq!(all.check(Duration::from_secs(60)).await, Ok(()));
    }

    #[tokio::test]
    async fn slow_status_calls_move_to_another_thread_until_fast_again() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("a");
        let observations = ObservationSet::new(vec![observe::existence(&path).unwrap()]);
        assert_eq!(observations.check_inline(), Ok(true));
        observations.slow.store(true, Ordering::Relaxed);
        assert_eq!(observations.check_inline(), Ok(false));
        // An attempt may be slow by chance.
        for _ in 0..100 {
            assert_eq!(observations.check(SERVE_CHECK_TIMEOUT).await, Ok(()));
        }
        assert!(!observations.slow.load(Ordering::Relaxed));
    }
}
