//! `cachalot doctor`: whether the store works, how fast it is, and what it cannot do.

use std::time::{Duration, Instant};

use cachalot_backends::StoreUrl;
use cachalot_core::Clock;
use cachalot_store::{
    Error, ErrorKind, Finding, Label, LabelMatch, PageRequest, PutResult, Record, RecordFilter,
    ReserveResult, Store, space,
};
use serde::Serialize;

use crate::arguments::ReportArguments;
use crate::command_error::{CommandError, Result};
use crate::home::Home;
use crate::render;
use crate::render::table::{Column, headline, table};
use crate::render::visible::on_one_line;
use crate::wiring::{EngineOptions, ProcessEnvironment, Warn, run_id};

/// Maximum time of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Number of lookups that are timed.
const LOOKUPS: usize = 100;

/// The default of `settings.cache.patience`.
const DEFAULT_PATIENCE: Duration = Duration::from_millis(250);

/// Difference between the clocks that is reported, in milliseconds.
const CLOCK_DIFFERENCE: i64 = 60_000;

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

#[derive(Debug, Serialize)]
struct Report {
    store: String,
    checks: Vec<Check>,
}

impl Report {
    /// One sentence: `/home/ada/x.db: 8 checks ok, 1 degraded`.
    fn headline(&self) -> String {
        let count = |status| self.checks.iter().filter(|it| it.status == status).count() as u64;
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
            state: error.to_string(),
            remedy: remedy(error, url),
        });
    }
}

pub(crate) async fn doctor(
    arguments: &ReportArguments,
    process_environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let home = process_environment.home(arguments.place.db.as_deref(), None)?;
    let mut report = Report {
        store: home.location(),
        checks: Vec::new(),
    };
    if home.url.is_none() && !home.database.exists() {
        report.add(Finding::good(
            "store",
            "does not exist yet; the first run creates it",
        ));
    } else {
        let opening = EngineOptions::new(process_environment, &home, "doctor", warn);
        let clock = process_environment.clock.as_ref();
        match opening.open() {
            Ok(store) => check_store(store.as_ref(), clock, &home, &mut report).await,
            Err(error) => report.fail("store", &error, home.url.as_ref()),
        }
    }
    report.add(Finding::good("ledger", home.ledger.display().to_string()));
    if arguments.json {
        render::json(&report)?;
    } else {
        render::out(&as_text(&report))?;
    }
    match report.checks.iter().any(|it| it.status == Status::Failed) {
        true => Err(CommandError::failed(format!(
            "the store {} does not work: runs go on without it",
            report.store
        ))),
        false => Ok(()),
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
        Ok(findings) => findings.into_iter().for_each(|it| report.add(it)),
        Err(error) => report.fail("version", &error, url),
    }
    match time_lookups(store, clock).await {
        Ok(findings) => findings.into_iter().for_each(|it| report.add(it)),
        Err(error) => report.fail("latency", &error, url),
    }
    match try_writes(store).await {
        Ok(()) => report.add(Finding::good("write", "stored, read, reserved and erased")),
        Err(error) => report.fail("write", &error, url),
    }
    promises(store).into_iter().for_each(|it| report.add(it));
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
    let latency = match slow > DEFAULT_PATIENCE {
        true => Finding::degraded(
            "latency",
            state,
            "a call that waits longer than `settings.cache.patience` (250ms) runs without the cache: use a store that \
             is nearer, or raise it",
        ),
        false => Finding::good("latency", state),
    };
    differences.sort_unstable();
    let difference = differences[0].1;
    let state = format!("{difference:+} ms against this machine");
    let clock = match difference.abs() > CLOCK_DIFFERENCE {
        true => Finding::degraded(
            "clock",
            state,
            "expiry follows the store's clock: synchronize both (NTP)",
        ),
        false => Finding::good("clock", state),
    };
    Ok(vec![latency, clock])
}

/// Makes each kind of write once, and erases what it has stored.
async fn try_writes(store: &dyn Store) -> std::result::Result<(), Error> {
    let key = run_id();
    let label = Label::new("doctor", key.as_str());
    let lease = match store.about().reservations {
        true => {
            let hold = Duration::from_secs(60);
            let reserved = store.reserve(SPACE, &key, std::slice::from_ref(&label), hold);
            match reserved.within(CALL_TIMEOUT).await? {
                ReserveResult::Held(lease) => Some(lease),
                ReserveResult::Busy { .. } => return Err(unexpected("a new key is reserved")),
            }
        }
        false => None,
    };
    let record = Record {
        key: key.clone(),
        value: key.clone().into_bytes().into(),
        labels: vec![label],
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
    let reach = match about.shared {
        true => "of all processes that use this store",
        false => "of this process",
    };
    [
        match about.reservations {
            true => Finding::good("single-flight", format!("among the calls {reach}")),
            false => Finding::degraded(
                "single-flight",
                "in one process only",
                "two processes may pay for the same call at once: use Postgres or Redis if that matters",
            ),
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
