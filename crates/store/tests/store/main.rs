//! The memories, from outside.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod conforming;
mod damage;
mod files;
mod flat_json;
mod model;
mod processes;
mod writers;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{ManualClock, SystemClock};
use cachalot_store::sqlite::{SqliteOptions, SqliteStore};
use cachalot_store::{Error, Record};

/// Opens with the machine's clock.
fn open(path: &Path) -> Result<SqliteStore, Error> {
    SqliteStore::open(path, SqliteOptions::new(Arc::new(SystemClock)))
}

/// Opens with a clock of the test's.
fn open_at(path: &Path, clock: &Arc<ManualClock>) -> SqliteStore {
    SqliteStore::open(
        path,
        SqliteOptions {
            clock: clock.clone(),
            busy_timeout: Duration::from_secs(10),
        },
    )
    .unwrap()
}

fn record(key: &str, value: impl Into<bytes::Bytes>) -> Record {
    Record {
        key: key.into(),
        value: value.into(),
        labels: Vec::new(),
        expires: None,
        revision: 0,
        updated: 0,
    }
}

/// Runs to the end on a runtime of two threads.
fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(work)
}
