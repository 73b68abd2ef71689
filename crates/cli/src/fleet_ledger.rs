//! A ledger of several machines in Postgres: calls of the local ledger are copied to it, and it is read in place of the
//! local one.
//!
//! The local file stays authoritative. A copy has no inputs. What was copied is known from the database itself: after a
//! fault or a restart, copying continues behind the last call that is there. Numbers of calls are never used again.

mod call;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cachalot_backends::StoreUrl;
use cachalot_backends::postgres::{CallPosition, FleetLedger};
use cachalot_cache::{Ledger, LedgerTotals};
use cachalot_core::Problem;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use self::call::{Call, Totals};
use crate::command_error::{CommandError, Result};
use crate::wiring::{ProcessEnvironment, Warn};

/// Calls that are sent, or read, at once.
const PAGE: u32 = 500;

/// Pause between two looks at the local ledger, and the longest one after faults.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// Maximum time that the end of a process waits for calls that are not copied yet. Another process sends them.
const FINISH_WITHIN: Duration = Duration::from_secs(3);

/// Opens the ledger of a URL. The password is that of the URL, or of `PGPASSWORD`.
///
/// # Errors
/// The URL is none of Postgres.
pub(crate) fn open(
    url: &str,
    origin: &str,
    process_environment: &ProcessEnvironment,
) -> Result<FleetLedger> {
    let refused = |message: String, help: &str| {
        let problem = Problem::new("bad-value", format!("{origin}: {message}"));
        CommandError::usage(problem.help(help))
    };
    let example = "for example postgres://USER@HOST/DATABASE, with the password in PGPASSWORD";
    let Some(url) = StoreUrl::recognize(url) else {
        return Err(refused("the ledger is no URL".to_owned(), example));
    };
    if origin.starts_with("--") && url.has_password() {
        let message = "it contains a password, which the list of processes shows to every user";
        return Err(refused(message.to_owned(), example));
    }
    let password = process_environment.environment.get("PGPASSWORD");
    let password = password.filter(|password| !password.is_empty());
    FleetLedger::new(&url, password.map(String::as_str))
        .map_err(|error| refused(error.to_string(), example))
}

/// Returns the name of this machine.
pub(crate) fn host(process_environment: &ProcessEnvironment) -> String {
    let named = process_environment.environment.get("HOSTNAME").cloned();
    let files = ["/proc/sys/kernel/hostname", "/etc/hostname"].into_iter();
    let read = || {
        files
            .filter_map(|file| std::fs::read_to_string(file).ok())
            .next()
    };
    let name = named.filter(|name| !name.trim().is_empty()).or_else(read);
    name.map_or_else(|| "unknown".to_owned(), |name| name.trim().to_owned())
}

/// A copy of the calls of all machines, in a temporary file, which is read like any ledger.
pub(crate) struct ReadCopy {
    pub(crate) ledger: Ledger,
    _folder: TempDir,
}

impl ReadCopy {
    /// Reads the whole ledger that `--ledger` names. Runs are named `HOST/RUN`.
    ///
    /// # Errors
    /// The server does not answer, or has a newer layout.
    pub(crate) async fn of(
        url: &str,
        process_environment: &ProcessEnvironment,
        warn: Warn,
    ) -> Result<Self> {
        let fleet = open(url, "--ledger", process_environment)?;
        let folder = tempfile::tempdir()?;
        let ledger = Ledger::at(&folder.path().join("ledger"), "", warn);
        let mut position: Option<CallPosition> = None;
        loop {
            let page = fleet.calls_after(position.as_ref(), PAGE).await?;
            let calls = page.iter().map(|text| Call::parse(text));
            let calls = calls.collect::<serde_json::Result<Vec<Call>>>();
            let calls = calls.map_err(|error| damaged(&fleet, &error))?;
            position = calls.last().map(Call::position);
            let rows: Vec<_> = calls.into_iter().map(Call::row).collect();
            ledger.import(&rows, &[])?;
            if position.is_none() {
                break;
            }
        }
        let totals = fleet.totals().await?;
        let totals = totals
            .iter()
            .map(|text| serde_json::from_str::<Totals>(text));
        let totals = totals.collect::<serde_json::Result<Vec<Totals>>>();
        let totals = totals.map_err(|error| damaged(&fleet, &error))?;
        let sums: Vec<_> = totals.into_iter().map(Totals::sum).collect();
        ledger.import(&[], &sums)?;
        Ok(Self {
            ledger,
            _folder: folder,
        })
    }
}

fn damaged(fleet: &FleetLedger, error: &serde_json::Error) -> CommandError {
    CommandError::failed(format!(
        "the ledger on {} contains data that is not Cachalot's: {error}",
        fleet.location()
    ))
}

/// The task that copies calls.
pub(crate) struct Copying {
    task: JoinHandle<()>,
    stop: watch::Sender<bool>,
}

impl Copying {
    /// Copies the calls of a ledger, and its sums, until it is finished.
    pub(crate) fn start(ledger: Ledger, fleet: FleetLedger, host: String, warn: Warn) -> Self {
        let (stop, stopping) = watch::channel(false);
        let copier = Copier {
            ledger,
            fleet: Arc::new(fleet),
            host,
            position: None,
            sent: BTreeMap::new(),
        };
        Self {
            task: tokio::spawn(copier.run(stopping, warn)),
            stop,
        }
    }

    /// Copies what is in the ledger now, for a limited time.
    pub(crate) async fn finish(self) {
        self.stop.send_replace(true);
        let _ = tokio::time::timeout(FINISH_WITHIN, self.task).await;
    }
}

struct Copier {
    ledger: Ledger,
    fleet: Arc<FleetLedger>,
    host: String,
    /// The last call that the database has; `None` until it was asked.
    position: Option<Position>,
    /// The sums that were sent last.
    sent: BTreeMap<(String, String), LedgerTotals>,
}

/// The name of the local ledger, and the number of its last call in the database.
struct Position {
    identity: String,
    last: i64,
}

impl Copier {
    async fn run(mut self, mut stopping: watch::Receiver<bool>, warn: Warn) {
        let (mut pause, mut has_warned) = (PAUSES[0], false);
        loop {
            let is_last = *stopping.borrow();
            match self.copy().await {
                Ok(()) => (pause, has_warned) = (PAUSES[0], false),
                Err(error) => {
                    if !has_warned {
                        warn(&format!(
                            "the ledger is not copied to {}: {error}; it is tried again, and nothing is lost as long as the local ledger keeps the calls",
                            self.fleet.location()
                        ));
                        has_warned = true;
                    }
                    self.position = None;
                    pause = PAUSES[1].min(2 * pause);
                }
            }
            if is_last {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                _ = stopping.wait_for(|is_stopping| *is_stopping) => {}
            }
        }
    }

    /// Copies everything that the database does not have.
    async fn copy(&mut self) -> Result<()> {
        let Some(identity) = self.read(|ledger| Ok(ledger.identity()?)).await? else {
            return Ok(());
        };
        let known = self
            .position
            .take()
            .filter(|known| known.identity == identity);
        let mut position = match known {
            Some(known) => known,
            None => {
                self.sent.clear();
                Position {
                    last: self.fleet.last_id(&identity).await?.unwrap_or(0),
                    identity: identity.clone(),
                }
            }
        };
        loop {
            let last = position.last;
            let rows = self
                .read(move |ledger| Ok(ledger.calls_to_copy(last, PAGE)?))
                .await?;
            let Some(end) = rows.last() else { break };
            let calls = rows.iter().map(|row| Call::new(row, &identity, &self.host));
            let calls: Vec<Call> = calls.collect();
            self.fleet.add_calls(&call::to_text(&calls)?).await?;
            position.last = end.id;
            if rows.len() < PAGE as usize {
                break;
            }
        }
        // After a fault, the database is asked again: it may have another state.
        self.position = Some(position);
        self.copy_totals(&identity).await
    }

    /// Sends the sums that have changed.
    async fn copy_totals(&mut self, identity: &str) -> Result<()> {
        let sums = self.read(|ledger| Ok(ledger.totals()?)).await?;
        let changed = sums.into_iter().filter(|(kind, name, sum)| {
            let key = (kind.clone(), name.clone());
            self.sent.get(&key) != Some(sum)
        });
        let changed: Vec<_> = changed.collect();
        for page in changed.chunks(PAGE as usize) {
            let totals = page
                .iter()
                .map(|(kind, name, sum)| Totals::new(kind, name, sum, identity, &self.host));
            let totals: Vec<Totals> = totals.collect();
            self.fleet.set_totals(&call::to_text(&totals)?).await?;
        }
        let sent = changed
            .into_iter()
            .map(|(kind, name, sum)| ((kind, name), sum));
        self.sent.extend(sent);
        Ok(())
    }

    /// Reads the local ledger in a thread for that.
    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Ledger) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let ledger = self.ledger.clone();
        let read = tokio::task::spawn_blocking(move || read(&ledger)).await;
        read.map_err(CommandError::failed)?
    }
}
