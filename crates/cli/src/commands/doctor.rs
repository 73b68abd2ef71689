//! `cachalot doctor`: whether the store works, how fast it is, and what it cannot do.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cachalot_backends::StoreUrl;
use cachalot_backends::encrypted::{Encryption, SECRETS, SECRETS_FILE, State};
use cachalot_core::{Clock, Problem, disk};
use cachalot_store::{
    Error, ErrorKind, Finding, Label, LabelMatch, PageRequest, PutResult, Record, RecordFilter,
    ReserveResult, Store, space,
};
use serde::Serialize;
use tokio::time::timeout;

use crate::arguments::Doctor;
use crate::command_error::{CommandError, Result};
use crate::digest_key;
use crate::encrypted_records::{self, Counts};
use crate::home::Home;
use crate::render;
use crate::render::table::{Column, headline, table};
use crate::render::visible::on_one_line;
use crate::sandbox;
use crate::wiring::{EngineOptions, ProcessEnvironment, Warn, run_id};

/// Maximum time of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum time of all checks of a file.
const FILE_TIMEOUT: Duration = Duration::from_secs(20);

/// Number of lookups that are timed.
const LOOKUPS: usize = 100;

/// The default of `settings.cache.patience`.
const DEFAULT_PATIENCE: Duration = Duration::from_millis(250);

/// Difference between the clocks that is reported, in milliseconds.
const CLOCK_DIFFERENCE: i64 = 60_000;

/// Maximum time in which records are counted: less than [`FILE_TIMEOUT`], which all checks share.
const COUNT_TIMEOUT: Duration = Duration::from_secs(8);

/// The topic of the digest key.
const DIGEST_KEY: &str = "digest key";

/// The topic of the ledger.
const LEDGER: &str = "ledger";

/// The topic of the secrets of records.
const ENCRYPTION: &str = "encryption";

/// The space of test records.
const SPACE: &str = "doctor";

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Ok,
    Degraded,
    Failed,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Degraded => "degraded",
            Self::Failed => "failed",
        }
    }
}

/// One line of the report.
#[derive(Debug, Serialize)]
struct Check {
    topic: String,
    status: Status,
    state: String,
    remedy: Option<String>,
}

impl Check {
    /// Creates the check of a file or directory at `path`: its state, or what is wrong with it.
    fn file(topic: &str, state: std::result::Result<String, String>, path: &Path) -> Self {
        let (status, remedy) = match &state {
            Ok(_) => (Status::Ok, None),
            Err(_) => (
                Status::Failed,
                Some(format!(
                    "check who may write at {}, or choose another place with --db or CACHALOT_DB",
                    path.display()
                )),
            ),
        };
        Self {
            topic: topic.to_owned(),
            status,
            state: state.unwrap_or_else(|fault| fault),
            remedy,
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    store: String,
    checks: Vec<Check>,
}

impl Report {
    /// One sentence: `/home/ada/x.db: 8 checks ok, 1 degraded`.
    fn headline(&self) -> String {
        let count = |status| {
            self.checks
                .iter()
                .filter(|check| check.status == status)
                .count() as u64
        };
        let mut text = format!(
            "{}: {} ok",
            on_one_line(&self.store),
            render::count(count(Status::Ok), "check", "checks")
        );
        for status in [Status::Degraded, Status::Failed] {
            match count(status) {
                0 => {}
                number => text += &format!(", {number} {}", status.name()),
            }
        }
        text
    }

    fn add(&mut self, finding: Finding) {
        let status = match finding.remedy {
            Some(_) => Status::Degraded,
            None => Status::Ok,
        };
        self.checks.push(Check {
            topic: finding.topic.to_owned(),
            status,
            state: finding.state,
            remedy: finding.remedy,
        });
    }

    fn fail(&mut self, topic: &str, error: &Error, url: Option<&StoreUrl>) {
        self.checks.push(Check {
            topic: topic.to_owned(),
            status: Status::Failed,
            state: error.message.clone(),
            remedy: remedy(error, url),
        });
    }

    fn failed(&self) -> Vec<&Check> {
        let checks = self.checks.iter();
        checks
            .filter(|check| check.status == Status::Failed)
            .collect()
    }
}

pub(crate) async fn doctor(
    arguments: &Doctor,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    if let Some(file) = &arguments.new_digest_key {
        return new_digest_key(&process_environment.directory.join(file));
    }
    let (must_adopt, arguments) = (arguments.adopt_digest_key, &arguments.report);
    let home = process_environment.home(arguments.place.db.as_deref(), None)?;
    let mut report = Report {
        store: home.location(),
        checks: Vec::new(),
    };
    if must_adopt && !home.digest_key.is_named() && home.url.is_some() {
        // The setting of an agent file is not read here.
        let problem = Problem::new("no-digest-key", "--adopt-digest-key: no key is named");
        return Err(CommandError::usage(problem.help(format!(
            "set {} to the file of `{}`",
            digest_key::VARIABLE,
            digest_key::SETTING
        ))));
    }
    let mut usable_key = Ok(());
    if home.url.is_none() && !home.database.exists() {
        report.checks.push(check_new_store(&home));
    } else {
        (report.checks, usable_key) = checks(process_environment, &home, must_adopt, warn).await?;
    }
    report.checks.push(check_ledger(&home));
    report.add(sandbox::finding());
    if arguments.json {
        render::json(&report)?;
    } else {
        render::out(&as_text(&report))?;
    }
    usable_key?;
    if must_adopt && !is_adopted(&report) {
        return Err(CommandError::failed(format!(
            "the digest key was not made that of {}: it is once all checks succeed on a store that exists",
            report.store
        )));
    }
    let failed = report.failed();
    if failed.is_empty() {
        return Ok(());
    }
    let store = &report.store;
    Err(CommandError::failed(
        if failed.iter().all(|check| check.topic == ENCRYPTION) {
            format!("records of {store} cannot be decrypted")
        } else if failed.iter().all(|check| check.topic == LEDGER) {
            "the ledger cannot be written: runs go on, and their payments are not recorded"
                .to_owned()
        } else {
            format!("the store {store} does not work: runs go on without it")
        },
    ))
}

/// Checks that a store that does not exist can be created.
fn check_new_store(home: &Home) -> Check {
    let directory = home.database.parent().unwrap_or(Path::new("."));
    let state = match disk::check_writable(directory) {
        Ok(()) => Ok("does not exist yet; the first run creates it".to_owned()),
        Err(error) => Err(format!("does not exist, and cannot be created: {error}")),
    };
    Check::file("store", state, directory)
}

/// Checks that the ledger can be written.
fn check_ledger(home: &Home) -> Check {
    let path = &home.ledger;
    let written = if path.exists() {
        let opened = std::fs::OpenOptions::new().append(true).open(path);
        opened.map(drop)
    } else {
        disk::check_writable(path.parent().unwrap_or(Path::new(".")))
    };
    let place = path.display();
    let state = match written {
        Ok(()) => Ok(place.to_string()),
        Err(error) => Err(format!("{place} cannot be written: {error}")),
    };
    Check::file(LEDGER, state, path)
}

/// True if the digest key of this machine was compared with that of the store, and is the same now.
fn is_adopted(report: &Report) -> bool {
    let mut checks = report.checks.iter();
    checks.any(|check| check.topic == DIGEST_KEY && check.status == Status::Ok)
}

/// Opens and checks the store, on a thread of its own: SQLite works on the thread of its caller, and in a damaged or
/// hostile file it may work without end. The second result is an error if the digest key cannot be used.
async fn checks(
    process_environment: &ProcessEnvironment,
    home: &Home,
    must_adopt: bool,
    warn: Warn,
) -> Result<(Vec<Check>, Result<()>)> {
    let (send, receive) = tokio::sync::oneshot::channel();
    let (process_environment, owned) = (process_environment.clone(), home.clone());
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let check = move || {
        let mut report = Report {
            store: owned.location(),
            checks: Vec::new(),
        };
        let checking = open_and_check(&process_environment, &owned, must_adopt, &warn, &mut report);
        let checked = runtime.block_on(checking);
        // The receiver may have given up.
        let _ = send.send(checked.map(|usable_key| (report.checks, usable_key)));
    };
    std::thread::spawn(check);
    // Calls to a server have timeouts of their own.
    let checked = match home.url {
        Some(_) => Ok(receive.await),
        None => timeout(FILE_TIMEOUT, receive).await,
    };
    let (state, remedy) = match checked {
        Ok(Ok(checked)) => return checked,
        Ok(Err(_)) => ("the checks ended without a result".to_owned(), None),
        Err(_) => (
            format!("the checks did not end within {} seconds", FILE_TIMEOUT.as_secs()),
            Some("the file is damaged, or Cachalot did not make it: set it aside, or choose another file with --db".to_owned()),
        ),
    };
    let failed = Check {
        topic: "store".to_owned(),
        status: Status::Failed,
        state,
        remedy,
    };
    Ok((vec![failed], Ok(())))
}

/// Returns an error within if the digest key cannot be used.
async fn open_and_check(
    process_environment: &ProcessEnvironment,
    home: &Home,
    must_adopt: bool,
    warn: &Warn,
    report: &mut Report,
) -> Result<Result<()>> {
    let opening = EngineOptions {
        // These records are counted below.
        reads_plain: true,
        ..EngineOptions::new(process_environment, home, "doctor", Warn::clone(warn))
    };
    let encryption = opening.encryption()?;
    let opened = opening.open_unencrypted().and_then(|store| {
        let encrypted = opening.encrypted(Arc::clone(&store))?;
        Ok((store, encrypted))
    });
    match opened {
        Ok((stored, store)) => {
            let clock = process_environment.clock.as_ref();
            check_store(store.as_ref(), clock, home, report).await;
            check_encryption(stored.as_ref(), encryption.as_ref(), report).await;
            Ok(check_digest_key(store.as_ref(), home, warn, must_adopt, report).await)
        }
        Err(error) => {
            report.fail("store", &error, home.url.as_ref());
            Ok(Ok(()))
        }
    }
}

async fn check_store(store: &dyn Store, clock: &dyn Clock, home: &Home, report: &mut Report) {
    let url = home.url.as_ref();
    let began = Instant::now();
    let reached = store.get(space::CACHE, "", &[]).within(CALL_TIMEOUT).await;
    if let Err(error) = reached {
        return report.fail("reach", &error, url);
    }
    let took = render::time(began.elapsed());
    report.add(Finding::good("reach", format!("answered after {took}")));
    match store.inspect().within(CALL_TIMEOUT).await {
        Ok(findings) => findings.into_iter().for_each(|finding| report.add(finding)),
        Err(error) => report.fail("version", &error, url),
    }
    match time_lookups(store, clock).await {
        Ok(findings) => findings.into_iter().for_each(|finding| report.add(finding)),
        Err(error) => report.fail("latency", &error, url),
    }
    match try_writes(store).await {
        Ok(()) => report.add(Finding::good("write", "stored, read, reserved and erased")),
        Err(error) => report.fail("write", &error, url),
    }
    promises(store)
        .into_iter()
        .for_each(|check| report.add(check));
}

/// Counts the records by the secrets that they are encrypted with.
async fn check_encryption(store: &dyn Store, encryption: Option<&Encryption>, report: &mut Report) {
    if !report.failed().is_empty() {
        return;
    }
    let mut counts = Counts::new();
    let counting = encrypted_records::count(store, encryption, &mut counts);
    let is_complete = match timeout(COUNT_TIMEOUT, counting).await {
        Ok(Ok(())) => true,
        Ok(Err(error)) => return report.fail(ENCRYPTION, &error, None),
        Err(_) => false,
    };
    let [current, old, unknown, plain] = [State::Current, State::Old, State::Unknown, State::Plain]
        .map(|state| counts.get(&state).copied().unwrap_or(0));
    if encryption.is_none() && unknown == 0 {
        return;
    }
    let records = |number| render::count(number, "record", "records");
    let mut states = Vec::new();
    let mut remedies = Vec::new();
    if encryption.is_some() {
        states.push(format!(
            "{} with the secret that is given",
            records(current)
        ));
    }
    if unknown > 0 {
        let (state, remedy) = match encryption {
            None => (
                "encrypted, and no secret is set",
                format!("set {SECRETS} or {SECRETS_FILE} to the secret of the store"),
            ),
            Some(_) => (
                "with a secret that is not given",
                format!("add the missing secret to {SECRETS} or {SECRETS_FILE}"),
            ),
        };
        states.push(format!("{} {state}", records(unknown)));
        remedies.push(remedy);
    }
    if old > 0 {
        states.push(format!("{} still with an old secret", records(old)));
        remedies.push(
            "`cachalot cache encrypt` encrypts all records with the first secret; remove the old one then".to_owned(),
        );
    }
    if plain > 0 && encryption.is_some() {
        states.push(format!("{} not encrypted", records(plain)));
        remedies.push("`cachalot cache encrypt` encrypts them".to_owned());
    }
    if !is_complete {
        states.push("others were not counted in time".to_owned());
    }
    report.checks.push(Check {
        topic: ENCRYPTION.to_owned(),
        status: match remedies.is_empty() {
            _ if unknown > 0 => Status::Failed,
            true => Status::Ok,
            false => Status::Degraded,
        },
        state: states.join("; "),
        remedy: (!remedies.is_empty()).then(|| remedies.join("; ")),
    });
}

/// Writes a new key for several machines, and says how they get it.
fn new_digest_key(file: &Path) -> Result<()> {
    digest_key::write_new(file)?;
    render::err(&format!(
        "{} has a new digest key: copy it to all machines that share the store (mode 600), and name it by {} or {}",
        file.display(),
        digest_key::VARIABLE,
        digest_key::SETTING
    ));
    Ok(())
}

/// Compares the digest key of this machine with that of the store, or makes it that of the store.
///
/// # Errors
/// The file of the key cannot be used.
async fn check_digest_key(
    store: &dyn Store,
    home: &Home,
    warn: &Warn,
    must_adopt: bool,
    report: &mut Report,
) -> Result<()> {
    if !report.failed().is_empty() {
        return Ok(());
    }
    let file = &home.digest_key;
    if !must_adopt && !file.is_named() && !file.path.exists() {
        let state = format!("{} does not exist yet", file.path.display());
        report.add(Finding::good(
            DIGEST_KEY,
            format!("{state}; the first run makes it"),
        ));
        return Ok(());
    }
    let key = match file.load(warn.as_ref()) {
        Ok(key) => key,
        Err(fault) => {
            let state = Error::new(ErrorKind::Unsupported, fault.to_string());
            report.fail(DIGEST_KEY, &state, None);
            return Err(fault);
        }
    };
    let compared = async {
        if must_adopt {
            digest_key::adopt(store, file, &key).await?;
        }
        digest_key::compare(store, file, &key).await
    };
    match timeout(CALL_TIMEOUT, compared).await {
        Ok(Ok(compared)) => report.add(compared.finding(file)),
        Ok(Err(error)) => report.fail(DIGEST_KEY, &error, home.url.as_ref()),
        Err(_) => {
            let error = Error::new(ErrorKind::TimedOut, "the store does not answer");
            report.fail(DIGEST_KEY, &error, home.url.as_ref());
        }
    }
    Ok(())
}

/// Times lookups, and compares the clocks by the fastest of them.
async fn time_lookups(
    store: &dyn Store,
    clock: &dyn Clock,
) -> std::result::Result<Vec<Finding>, Error> {
    let mut times = Vec::new();
    let mut differences = Vec::new();
    for _ in 0..LOOKUPS {
        let (began, asked) = (Instant::now(), clock.now());
        let found = store
            .get(space::CACHE, "", &[])
            .within(CALL_TIMEOUT)
            .await?;
        let took = began.elapsed();
        times.push(took);
        let half = i64::try_from(took.as_millis() / 2).unwrap_or(0);
        differences.push((took, found.now - asked - half));
    }
    times.sort_unstable();
    let [median, slow] = [times[LOOKUPS / 2], times[LOOKUPS * 99 / 100]];
    let state = format!(
        "p50 {}, p99 {} of {LOOKUPS} lookups",
        render::time(median),
        render::time(slow)
    );
    let latency = if slow > DEFAULT_PATIENCE {
        Finding::degraded(
            "latency",
            state,
            "a call that waits longer than `settings.cache.patience` (250ms) runs without the cache: use a store that \
         is nearer, or raise it",
        )
    } else {
        Finding::good("latency", state)
    };
    differences.sort_unstable();
    // The fastest look-up is the most exact one: the error is at most half of its time.
    let difference = differences[0].1;
    let state = format!("{difference:+} ms against this machine");
    let clock = if difference.abs() > CLOCK_DIFFERENCE {
        Finding::degraded(
            "clock",
            state,
            "expiry follows the store's clock: synchronize both (NTP)",
        )
    } else {
        Finding::good("clock", state)
    };
    Ok(vec![latency, clock])
}

/// Makes each kind of write once, and erases what it has stored.
async fn try_writes(store: &dyn Store) -> std::result::Result<(), Error> {
    let key = run_id();
    let label = Label::new("doctor", key.as_str());
    let lease = if store.about().reservations {
        let hold = Duration::from_secs(60);
        let reserved = store.reserve(SPACE, &key, std::slice::from_ref(&label), hold);
        match reserved.within(CALL_TIMEOUT).await? {
            ReserveResult::Held(lease) => Some(lease),
            ReserveResult::Busy { .. } => return Err(unexpected("a new key is reserved")),
        }
    } else {
        None
    };
    let record = Record {
        key: key.clone(),
        value: key.clone().into_bytes().into(),
        labels: vec![label],
        // It has expired from the start, so that a sweep removes what an interrupt leaves behind.
        expires: Some(0),
        revision: 0,
        updated: 0,
    };
    let stored = store.put(SPACE, record, lease.as_ref(), &[]);
    if !matches!(stored.within(CALL_TIMEOUT).await?, PutResult::Stored { .. }) {
        return Err(unexpected("a record under its own lease is not stored"));
    }
    let found = store.get(SPACE, &key, &[]).within(CALL_TIMEOUT).await?;
    if found.record.map(|record| record.value) != Some(key.clone().into_bytes().into()) {
        return Err(unexpected("a record that was stored is not found"));
    }
    let filter = RecordFilter {
        labels: &[LabelMatch::Is {
            name: "doctor",
            value: &key,
        }],
        ..RecordFilter::default()
    };
    let erased = store.erase(SPACE, &filter, PageRequest::keys(10));
    match erased.within(CALL_TIMEOUT).await?.records.len() {
        1 => Ok(()),
        _ => Err(unexpected("a record that was stored is not erased")),
    }
}

fn unexpected(what: &str) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the store misbehaves: {what}"))
}

/// What the store promises, and what is done without a promise.
fn promises(store: &dyn Store) -> [Finding; 4] {
    let about = store.about();
    let reach = if about.shared {
        "of all processes that use this store"
    } else {
        "of this process"
    };
    [
        if about.reservations {
            Finding::good("single-flight", format!("among the calls {reach}"))
        } else {
            Finding::degraded(
                "single-flight",
                "in one process only",
                "two processes may pay for the same call at once: use Postgres or Redis if that matters",
            )
        },
        match store.recall() {
            Some(_) => Finding::good("text search", "yes"),
            None => Finding::degraded(
                "text search",
                "no",
                "`ltm.search` needs `metadata_filter` in place of `query`: for text, use a SQLite file or Postgres",
            ),
        },
        match store.stamp(space::CACHE, "") {
            Some(_) => Finding::good(
                "hits",
                "from this process's memory, checked against the store",
            ),
            None => Finding::good("hits", "each asks the store"),
        },
        Finding::good(
            "largest value",
            match about.largest_value >> 20 {
                0 => format!("{} bytes", about.largest_value),
                mebibytes => format!("{mebibytes} MiB; larger results are not stored"),
            },
        ),
    ]
}

fn remedy(error: &Error, url: Option<&StoreUrl>) -> Option<String> {
    if let Some(remedy) = error.remedy {
        return Some(remedy.to_owned());
    }
    let remedy = match error.kind {
        ErrorKind::Unavailable | ErrorKind::TimedOut if url.is_some() => {
            "check that the server runs, and that its address, port and TLS settings are right"
        }
        ErrorKind::Denied => match url {
            Some(url) => {
                return Some(match url.password_variable() {
                    Some(variable) => format!(
                        "set {variable}, or the URL with the password in CACHALOT_DB, and check the user's permissions"
                    ),
                    None => "check the user's permissions".to_owned(),
                });
            }
            None => "check the permissions of the file and of its directory",
        },
        ErrorKind::Full => "make room: `cachalot cache sweep`, `cachalot cache rm`",
        ErrorKind::TooNew => "update Cachalot on this machine",
        ErrorKind::Busy => "another process keeps a lock: try again, and look for one that hangs",
        _ => return None,
    };
    Some(remedy.to_owned())
}

fn as_text(report: &Report) -> String {
    let columns = [Column::whole(""), Column::whole(""), Column::wrapped("")];
    let rows = report.checks.iter().map(|check| {
        vec![
            check.status.name().to_owned(),
            check.topic.clone(),
            on_one_line(&check.state),
        ]
    });
    let mut text = headline(&report.headline());
    text += &table(&columns, &rows.collect::<Vec<_>>());
    let remedies = report.checks.iter();
    let remedies: Vec<Vec<String>> = remedies
        .filter_map(|check| {
            Some(vec![
                format!("{}:", check.topic),
                on_one_line(check.remedy.as_ref()?),
            ])
        })
        .collect();
    for remedy in remedies {
        let columns = [Column::whole(""), Column::wrapped("")];
        text += &format!("\n{}", table(&columns, &[remedy]));
    }
    text
}
