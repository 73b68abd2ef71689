//! The connections of a store. Calls share them: their statements are sent one after another without waiting for
//! answers, and the future of a call can be dropped at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cachalot_store::{Error, ErrorKind};
use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::lookup::Lookups;
use super::server::Server;
use super::{failure, layout, row, timeline};
use crate::liveness::Liveness;
use crate::random::random;
use crate::repetition::{Progress, REOPEN_PAUSES};
use crate::url::StoreUrlError;

/// Connections that lookups share. Each is a process of the server.
const READERS: usize = 2;

/// Connections that writes share: a write may wait for the lock of a key, and others behind it with it.
const WRITERS: usize = 4;

/// Maximum time to create or upgrade the tables, and to wait for another process that does.
const LAYOUT_TIMEOUT: Duration = Duration::from_secs(600);

/// The time after a failure in which reads share the open connections: the server may accept no further ones.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_secs(5);

/// A setting of the session, given when a connection is opened: a pooler in between refuses or drops it.
pub(super) const MARK: &str = "cachalot.connection";

/// The work of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Waits for no lock, and reads little.
    Lookup,
    /// Waits for no lock, and may read much: lookups do not wait behind it.
    Scan,
    /// May wait for a lock.
    Write,
    /// May wait for a lock, and must not be executed twice.
    WriteOnce,
}

/// An open connection.
pub(super) struct Open {
    pub(super) client: Arc<Client>,
    pub(super) liveness: Liveness,
    /// `None` if there may be a pooler, which moves statements between connections to the server.
    pub(super) lookups: Option<Arc<Lookups>>,
    /// The timeline of the server; `None` if the server does not report it.
    pub(super) timeline: Option<i64>,
    /// Set when a call has found that it ended, which the client may notice later.
    has_ended: AtomicBool,
}

impl Open {
    fn is_usable(&self) -> bool {
        let has_ended = self.has_ended.load(Ordering::Relaxed) || self.client.is_closed();
        !has_ended && !self.liveness.is_silent()
    }

    /// Returns the progress of a statement, and keeps further ones from a connection that has ended.
    pub(super) fn progress(&self, error: &tokio_postgres::Error) -> Progress {
        let progress = failure::progress(error);
        if progress != Progress::Answered {
            self.has_ended.store(true, Ordering::Relaxed);
        }
        progress
    }
}

/// True if other calls than that of the caller are under way on a connection.
pub(super) fn is_busy(open: &Arc<Open>) -> bool {
    // Held by its place, and by the caller.
    Arc::strong_count(open) > 2
}

/// A place for one connection.
#[derive(Default)]
struct Place {
    current: Mutex<Option<Arc<Open>>>,
    /// Locked while a connection is opened.
    opening: Arc<tokio::sync::Mutex<()>>,
}

impl Place {
    fn usable(&self) -> Option<Arc<Open>> {
        let open = self.current.lock().clone();
        open.filter(|open| open.is_usable())
    }

    fn is_opening(&self) -> bool {
        self.opening.try_lock().is_err()
    }
}

/// The connections of a store, each opened when it is first needed, and again after a failure.
pub(super) struct Connections {
    server: Server,
    readers: [Arc<Place>; READERS],
    scanner: Arc<Place>,
    writers: [Arc<Place>; WRITERS],
    next_writer: AtomicUsize,
    is_prepared: AtomicBool,
    /// True if there is a pooler in front of the server.
    is_pooled: AtomicBool,
    /// The time of the last failure to open a connection.
    failed: Mutex<Option<Instant>>,
    /// The start time of the server of the last connection, which identifies it.
    started: Mutex<String>,
    /// The start time and the timeline of the server whose timeline was noted last.
    noted: Mutex<Option<(String, i64)>>,
    /// True if the server does not report its timeline.
    is_without_timeline: AtomicBool,
}

/// A new session, and what the server says about it.
struct Session {
    client: Client,
    /// The mark that it was given.
    mark: Option<String>,
    started: String,
    timeline: Option<i64>,
}

impl Connections {
    pub(super) fn new(server: Server) -> Self {
        Self {
            server,
            readers: Default::default(),
            scanner: Arc::default(),
            writers: Default::default(),
            next_writer: AtomicUsize::new(0),
            is_prepared: AtomicBool::new(false),
            is_pooled: AtomicBool::new(false),
            failed: Mutex::default(),
            started: Mutex::default(),
            noted: Mutex::default(),
            is_without_timeline: AtomicBool::new(false),
        }
    }

    pub(super) fn location(&self) -> &str {
        self.server.location()
    }

    pub(super) fn failure(&self, error: tokio_postgres::Error) -> Error {
        failure::failure(self.location(), error)
    }

    /// Opens new connections from here on, the first of which compares the layout: it is not the one that the open
    /// connections have found.
    pub(super) fn forget_layout(&self) {
        self.is_prepared.store(false, Ordering::Release);
        self.forget_server();
    }

    /// Opens new connections from here on: the open ones have found another server than that which answers now.
    pub(super) fn forget_server(&self) {
        let places = self.readers.iter().chain(&self.writers);
        for place in places.chain([&self.scanner]) {
            *place.current.lock() = None;
        }
    }

    /// The start time of the server that records are read from.
    pub(super) fn started(&self) -> String {
        self.started.lock().clone()
    }

    /// Returns a shared connection.
    pub(super) async fn get(self: &Arc<Self>, work: Work) -> Result<Arc<Open>, Error> {
        let place = match work {
            Work::Lookup => {
                if let Some(open) = self.least_busy_reader() {
                    return Ok(open);
                }
                let opening = self.readers.iter().find(|place| place.is_opening());
                opening.unwrap_or(&self.readers[0])
            }
            Work::Scan => &self.scanner,
            Work::Write | Work::WriteOnce => {
                &self.writers[self.next_writer.fetch_add(1, Ordering::Relaxed) % WRITERS]
            }
        };
        if let Some(open) = place.usable() {
            return Ok(open);
        }
        let turn = Arc::clone(&place.opening).lock_owned().await;
        // Another caller may have opened it while this one waited for its turn.
        if let Some(open) = place.usable() {
            return Ok(open);
        }
        // Goes on if the caller does not wait for it.
        let opened = tokio::spawn(Arc::clone(self).open(work, Arc::clone(place), turn));
        opened.await.map_err(|error| {
            let message = format!(
                "{}: the connection was not opened: {error}",
                self.location()
            );
            Error::new(ErrorKind::Unavailable, message)
        })?
    }

    /// Returns the open connection with the fewest calls under way; `None` if none is open. If it is busy, another one
    /// is opened in the background.
    fn least_busy_reader(self: &Arc<Self>) -> Option<Arc<Open>> {
        let open = self.readers.iter().filter_map(|place| place.usable());
        let least = open.min_by_key(Arc::strong_count)?;
        let failed = *self.failed.lock();
        if is_busy(&least) && failed.is_none_or(|failed| failed.elapsed() > PAUSE_AFTER_FAILURE) {
            let mut places = self.readers.iter();
            // Opened by one task only: the caller does not wait for its turn.
            if let Some(place) = places.find(|place| place.usable().is_none())
                && let Ok(turn) = Arc::clone(&place.opening).try_lock_owned()
            {
                tokio::spawn(Arc::clone(self).open(Work::Lookup, Arc::clone(place), turn));
            }
        }
        Some(least)
    }

    /// Opens the connection of a place.
    async fn open(
        self: Arc<Self>,
        work: Work,
        place: Arc<Place>,
        _turn: OwnedMutexGuard<()>,
    ) -> Result<Arc<Open>, Error> {
        let may_be_back_soon = matches!(work, Work::Write | Work::WriteOnce)
            && self.is_prepared.load(Ordering::Acquire)
            && self.failed.lock().is_none();
        let mut opened = self.connect(work).await;
        for pause in REOPEN_PAUSES {
            match &opened {
                Err(error) if may_be_back_soon && error.kind == ErrorKind::Unavailable => {}
                _ => break,
            }
            tokio::time::sleep(pause).await;
            opened = self.connect(work).await;
        }
        *self.failed.lock() = opened.is_err().then(Instant::now);
        let open = Arc::new(opened?);
        *place.current.lock() = Some(Arc::clone(&open));
        Ok(open)
    }

    /// Returns the configuration of a connection whose session has a mark.
    pub(super) fn config(&self, mark: Option<&str>) -> Result<Config, Error> {
        let invalid = |error: StoreUrlError| Error::new(ErrorKind::Unsupported, error.to_string());
        let mut config = self.server.config().map_err(invalid)?;
        if let Some(mark) = mark {
            let options = config.get_options().unwrap_or_default();
            let options =
                format!("{options} -c {MARK}={mark} -c plan_cache_mode=force_generic_plan");
            config.options(options.trim_start());
        }
        Ok(config)
    }

    /// Connects, creates or upgrades the tables, and prepares lookups on their connections unless there is a pooler.
    async fn connect(&self, work: Work) -> Result<Open, Error> {
        let is_marked = work == Work::Lookup && !self.is_pooled.load(Ordering::Relaxed);
        let mark = is_marked.then(|| format!("{:016x}", random()));
        let session = match self.session(mark.as_deref()).await {
            Err(error) if is_marked && may_be_of_pooler(&error) => self.session(None).await?,
            session => session?,
        };
        let Session {
            mut client,
            mark: found,
            started,
            timeline,
        } = session;
        let is_direct = is_marked && found == mark;
        if is_marked && !is_direct {
            self.is_pooled.store(true, Ordering::Relaxed);
        }
        if !self.is_prepared.load(Ordering::Acquire) {
            let is_current = layout::is_current(&mut client, self.location());
            if !self.limit(self.server.connect_timeout, is_current).await? {
                let upgraded = layout::upgrade(&mut client, self.location());
                self.limit(LAYOUT_TIMEOUT, upgraded).await?;
            }
            self.is_prepared.store(true, Ordering::Release);
        }
        // Before the connection is used (invariant 1 of `timeline`).
        if let Some(timeline) = timeline {
            let server = Some((started, timeline));
            if *self.noted.lock() != server {
                let noted = timeline::note(&mut client, timeline, self.location());
                // A large cache takes a while to empty.
                self.limit(LAYOUT_TIMEOUT, noted).await?;
                *self.noted.lock() = server;
            }
        }
        let (client, liveness) = (Arc::new(client), Liveness::default());
        let lookups = async {
            if is_direct {
                Lookups::prepare(&client, &liveness)
                    .await
                    .map(Arc::new)
                    .map(Some)
            } else {
                Ok(None)
            }
            .map_err(|error| self.failure(error))
        };
        let lookups = self.limit(self.server.connect_timeout, lookups).await?;
        Ok(Open {
            client,
            liveness,
            lookups,
            timeline,
            has_ended: AtomicBool::new(false),
        })
    }

    /// Connects to the primary server.
    async fn session(&self, mark: Option<&str>) -> Result<Session, Error> {
        let config = self.config(mark)?;
        let session = async {
            let client = connect(&config).await;
            let client = client.map_err(|error| self.failure(error))?;
            let row = self.question(&client).await?;
            if row::column(&row, "standby")? {
                return Err(self.is_standby());
            }
            let started: String = row::column(&row, "started")?;
            self.started.lock().clone_from(&started);
            Ok(Session {
                client,
                mark: row::column(&row, "mark")?,
                started,
                timeline: row::column(&row, "timeline")?,
            })
        };
        self.limit(self.server.connect_timeout, session).await
    }

    /// Asks the server what it is.
    async fn question(&self, client: &Client) -> Result<tokio_postgres::Row, Error> {
        loop {
            let asks_for_timeline = !self.is_without_timeline.load(Ordering::Relaxed);
            let timeline = if asks_for_timeline {
                timeline::TIMELINE
            } else {
                "NULL::bigint"
            };
            let question = format!(
                "SELECT pg_is_in_recovery() AS standby, extract(epoch FROM pg_postmaster_start_time())::text AS started, \
                 current_setting('{MARK}', true) AS mark, \
                 CASE WHEN NOT pg_is_in_recovery() THEN {timeline} END AS timeline"
            );
            match client.query_typed(&question, &[]).await {
                Ok(mut rows) => return rows.pop().ok_or_else(|| row::damaged("no row")),
                // Several connections may find this out at the same time.
                Err(error) if asks_for_timeline && timeline::is_unsupported(&error) => {
                    self.is_without_timeline.store(true, Ordering::Relaxed);
                }
                Err(error) => return Err(self.failure(error)),
            }
        }
    }

    /// Error for a server that has the changes of another one later.
    pub(super) fn is_standby(&self) -> Error {
        let message = format!("{} is a standby: name the primary server", self.location());
        Error::new(ErrorKind::Unavailable, message)
    }

    async fn limit<T>(
        &self,
        limit: Duration,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let done = tokio::time::timeout(limit, work).await;
        done.unwrap_or_else(|_| {
            let message = format!(
                "{} did not accept a connection within {limit:?}",
                self.location()
            );
            Err(Error::new(ErrorKind::Unavailable, message))
        })
    }
}

/// Opens a connection, whose task ends with its client.
pub(super) async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    if config.get_ssl_mode() == SslMode::Disable {
        let (client, connection) = config.connect(NoTls).await?;
        tokio::spawn(connection);
        return Ok(client);
    }
    let tls = MakeRustlsConnect::new(cachalot_storage::tls_config());
    let (client, connection) = config.connect(tls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// True if a pooler may have refused the mark of a session. The other errors of servers are those of the login, of a
/// missing database, of missing resources, and of a server that starts or stops.
fn may_be_of_pooler(error: &Error) -> bool {
    let source = error.source.as_ref();
    let source = source.and_then(|source| source.downcast_ref::<tokio_postgres::Error>());
    let class = source.and_then(|source| source.code()?.code().get(..2));
    class.is_some_and(|class| !["28", "3D", "53", "57"].contains(&class))
}
