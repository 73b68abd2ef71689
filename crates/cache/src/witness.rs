//! What an answer was built from, and whether it is still so.
//!
//! The work notes what it looks at *before* it looks. At the end, and on every hit, the same check
//! decides whether what was noted still holds. A file whose status is unchanged since a moment at
//! which it was already old enough to trust is taken as unchanged; any other is hashed.

pub(crate) mod hex_digest;
mod looks;
mod observe;
mod status;
mod travel;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use cachalot_core::Digest;
use serde::{Deserialize, Serialize};

use crate::sync::{Mutex, lock};
use looks::Looks;
use status::{Absence, Status, Times};
pub(crate) use travel::travelling;

/// More observations than this, and the answer is not stored: checking them would cost more than
/// the work.
const MOST: usize = 10_000;

/// What is looked at.
#[derive(Debug, Clone, Copy)]
pub enum Observation<'a> {
    /// What a file holds; if it is a directory, its listing; if it is absent, that.
    Content(&'a Path),
    /// The names and kinds of a directory's entries.
    Listing(&'a Path),
    /// Whether it is there, and as what.
    Existence(&'a Path),
    /// Where it is, links followed: for work that treats a file by where it is.
    Target(&'a Path),
}

/// Where the work notes what it looks at. Cheap to clone; clones note into the same list.
#[derive(Clone, Default)]
pub struct Witness(Arc<Notes>);

#[derive(Default)]
struct Notes {
    looks: Looks,
    times: Times,
    observed: Mutex<List>,
    /// Why the list is not the whole truth: something moved while it was looked at, or the list is full.
    spoilt: Mutex<Option<String>>,
}

/// What was noted, in order, each once.
#[derive(Default)]
struct List {
    observed: Vec<Observed>,
    /// Where in it each path is.
    places: HashMap<String, Vec<usize>>,
}

impl List {
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
    /// Opens, looks, reads and looks again at the same handle; a file that moved meanwhile spoils
    /// the list, so that nothing is stored.
    ///
    /// # Errors
    /// Those of the file system. That a file is absent or a directory is noted, too; that it could not
    /// be read for any other reason cannot be witnessed.
    pub fn read(&self, path: &Path) -> io::Result<Bytes> {
        let _look = self.0.looks.begin();
        match observe::read(path, &self.0.times) {
            Ok((observed, bytes)) => {
                self.note(observed);
                Ok(bytes)
            }
            Err(error) => {
                // Noted as it was seen: a second look might see something else.
                self.note(observe::unread(path, &error));
                Err(error)
            }
        }
    }

    /// Notes what is there now; called before looking. Blocks while it reads the file.
    pub fn observe(&self, what: Observation<'_>) {
        let _look = self.0.looks.begin();
        let times = &self.0.times;
        self.note(match what {
            Observation::Content(path) => observe::content(path, times),
            Observation::Listing(path) => observe::listing(path, times),
            Observation::Existence(path) => observe::existence(path),
            Observation::Target(path) => observe::target(path),
        });
    }

    /// What has been noted so far, to be checked apart from any entry: for an adapter that puts a
    /// file's content into a key and must know that the work saw the same content.
    #[must_use]
    pub fn taken(&self) -> Witnessed {
        Witnessed {
            spoilt: self.spoilt(),
            watched: Watched::new(self.observed()),
        }
    }

    /// Whether nothing has been noted so far.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        lock(&self.0.observed).observed.is_empty() && self.spoilt().is_none()
    }

    /// Resolves when every look that had begun is noted: only then does the list tell what was seen
    /// before now.
    pub(crate) async fn looked(&self) {
        self.0.looks.ended().await;
    }

    /// Says that the work looked at something that cannot be witnessed: its answer is not stored.
    pub fn spoil(&self, why: impl Into<String>) {
        lock(&self.0.spoilt).get_or_insert_with(|| why.into());
    }

    fn note(&self, observed: Result<Observed, String>) {
        match observed {
            Err(why) => self.spoil(why),
            Ok(observed) => {
                let mut list = lock(&self.0.observed);
                if list.holds(&observed) {
                } else if list.observed.len() < MOST {
                    list.push(observed);
                } else {
                    drop(list);
                    self.spoil(format!("it looked at more than {MOST} files"));
                }
            }
        }
    }

    pub(crate) fn spoilt(&self) -> Option<String> {
        lock(&self.0.spoilt).clone()
    }

    pub(crate) fn observed(&self) -> Vec<Observed> {
        lock(&self.0.observed).observed.clone()
    }
}

/// What a witness had noted at one moment.
pub struct Witnessed {
    spoilt: Option<String>,
    watched: Arc<Watched>,
}

impl Witnessed {
    /// Whether everything is still as it was noted; the error says what is not.
    ///
    /// # Errors
    /// What changed, or why it cannot be told.
    pub async fn holds(&self) -> Result<(), String> {
        match &self.spoilt {
            Some(why) => Err(why.clone()),
            None => self.watched.check().await,
        }
    }

    /// The digest of the content of the only file that was noted; the error says why there is none.
    ///
    /// # Errors
    /// Why it cannot be told: nothing or more than one thing was noted, or it is no file.
    pub fn content_digest(&self) -> Result<Digest, String> {
        match (&self.spoilt, self.watched.observed.as_slice()) {
            (Some(why), _) => Err(why.clone()),
            (
                None,
                [
                    Observed {
                        what: What::Content { digest, .. },
                        ..
                    },
                ],
            ) => Ok(*digest),
            (
                None,
                [
                    Observed {
                        what: What::Absent(_),
                        path,
                    },
                ],
            ) => Err(format!("{path} is not there")),
            (None, [Observed { path, .. }]) => Err(format!("{path} is not a file")),
            (None, _) => Err("no single file was looked at".to_owned()),
        }
    }
}

/// Something that was looked at, and what it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Observed {
    path: String,
    what: What,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum What {
    Content {
        #[serde(with = "hex_digest")]
        digest: Digest,
        status: Status,
    },
    Listing {
        #[serde(with = "hex_digest")]
        digest: Digest,
        status: Status,
    },
    Absent(Absence),
    Present {
        directory: bool,
    },
    Target {
        /// Without links; `None` if nothing is there.
        real: Option<String>,
    },
}

/// The observations of an entry, ready to be checked on every hit.
pub(crate) struct Watched {
    observed: Vec<Observed>,
    /// Observations that were too new to trust when made, and have since been found unchanged at a
    /// moment when their status could be trusted.
    proven: Vec<AtomicBool>,
}

/// What a quick look tells.
enum Verdict {
    Holds,
    /// Only the content can tell.
    Unsure,
    Changed(String),
}

impl Watched {
    pub(crate) fn new(observed: Vec<Observed>) -> Arc<Self> {
        let proven = observed.iter().map(|_| AtomicBool::new(false)).collect();
        Arc::new(Self { observed, proven })
    }

    /// Whether everything is as it was; the error says what changed. Hashes files only where their
    /// status does not decide, away from the caller's thread.
    pub(crate) async fn check(self: &Arc<Self>) -> Result<(), String> {
        let mut unsure = false;
        for (index, observed) in self.observed.iter().enumerate() {
            match observed.glance(self.proven[index].load(Ordering::Relaxed)) {
                Verdict::Holds => {}
                Verdict::Unsure => unsure = true,
                Verdict::Changed(what) => return Err(what),
            }
        }
        if !unsure {
            return Ok(());
        }
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || this.check_content(false))
            .await
            .unwrap_or_else(|_| Err("the check of what it depends on was cut short".to_owned()))
    }

    /// Whether the content of everything is as it was, whatever its status says.
    pub(crate) async fn check_frozen(self: &Arc<Self>) -> Result<(), String> {
        if self.observed.is_empty() {
            return Ok(());
        }
        let this = Arc::clone(self);
        tokio::task::spawn_blocking(move || this.check_content(true))
            .await
            .unwrap_or_else(|_| Err("the check of what it depends on was cut short".to_owned()))
    }

    fn check_content(&self, all: bool) -> Result<(), String> {
        let times = Times::default();
        for (index, observed) in self.observed.iter().enumerate() {
            let proven = self.proven[index].load(Ordering::Relaxed);
            match observed.glance(proven) {
                Verdict::Holds if !all => {}
                Verdict::Changed(what) if !all => return Err(what),
                _ => {
                    if observed.compare(&times)? {
                        self.proven[index].store(true, Ordering::Relaxed);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Observed {
    /// Decides by the status alone where that is possible.
    fn glance(&self, proven: bool) -> Verdict {
        if let What::Target { .. } = self.what {
            return match observe::target(Path::new(&self.path)) {
                Ok(now) if now == *self => Verdict::Holds,
                Ok(_) => Verdict::Changed(format!("{} leads elsewhere", self.path)),
                Err(error) => Verdict::Changed(error),
            };
        }
        let now = Status::of(Path::new(&self.path));
        match (&self.what, now) {
            (_, Err(error)) => Verdict::Changed(format!("{}: {error}", self.path)),
            (What::Absent(then), Ok(Err(now))) if *then == now => Verdict::Holds,
            (What::Absent(_), Ok(Err(_))) => self.changed(),
            (What::Absent(_), Ok(Ok(_))) => Verdict::Changed(format!("{} is there now", self.path)),
            (_, Ok(Err(_))) => Verdict::Changed(format!("{} is gone", self.path)),
            // Judged above.
            (What::Target { .. }, Ok(Ok(_))) => self.changed(),
            (What::Present { directory }, Ok(Ok(now))) => {
                if *directory == now.directory {
                    Verdict::Holds
                } else {
                    self.changed()
                }
            }
            (What::Content { status, .. }, Ok(Ok(now))) => {
                if now.size != status.size || now.directory {
                    self.changed()
                } else if now.same_as(status) && (status.trusted || proven) {
                    Verdict::Holds
                } else {
                    Verdict::Unsure
                }
            }
            (What::Listing { status, .. }, Ok(Ok(now))) => {
                if !now.directory {
                    self.changed()
                } else if now.same_as(status) && (status.trusted || proven) {
                    Verdict::Holds
                } else {
                    Verdict::Unsure
                }
            }
        }
    }

    fn changed(&self) -> Verdict {
        Verdict::Changed(format!("{} changed", self.path))
    }

    /// Looks again and compares what is there. True if the status of the first look may be trusted
    /// from now on.
    fn compare(&self, times: &Times) -> Result<bool, String> {
        let path = Path::new(&self.path);
        let now = match &self.what {
            What::Content { .. } => observe::content(path, times),
            What::Listing { .. } => observe::listing(path, times),
            What::Absent(_) | What::Present { .. } => observe::existence(path),
            What::Target { .. } => observe::target(path),
        }?;
        let same_status = |then: &Status, now: &Status| now.same_as(then) && now.trusted;
        match (&self.what, &now.what) {
            (
                What::Content { digest, status },
                What::Content {
                    digest: again,
                    status: now,
                },
            )
            | (
                What::Listing { digest, status },
                What::Listing {
                    digest: again,
                    status: now,
                },
            ) if digest == again => Ok(same_status(status, now)),
            (What::Absent(_) | What::Present { .. } | What::Target { .. }, again)
                if again == &self.what =>
            {
                Ok(false)
            }
            _ => Err(format!("{} changed", self.path)),
        }
    }
}
