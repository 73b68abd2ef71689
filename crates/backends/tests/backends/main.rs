//! The stores of other engines, against real servers.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stderr,
    missing_docs
)]

/// Declares the checks of the contract as tests of a subject, which is `None` without a server.
macro_rules! checks {
    ($subject:expr; $($module:ident :: $check:ident),* $(,)?) => {
        $(
            #[test]
            fn $check() {
                if let Some(subject) = $subject {
                    cachalot_store::conformance::run(cachalot_store::conformance::$module::$check(subject));
                }
            }
        )*
    };
}

mod bucket;
#[cfg(feature = "duckdb")]
mod duckdb;
mod encrypted;
mod ended_connections;
mod faults;
mod firestore;
mod followed;
mod hammer;
mod objects;
mod pooler;
mod postgres;
mod postgres_failover;
mod redis;
mod redis_cluster;
mod redis_durable;
mod redis_losses;
mod redis_sentinel;
mod turso;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cachalot_backends::StoreUrl;
use cachalot_store::conformance::Subject;
use cachalot_store::conformance::layouts::ChangeLayout;
use cachalot_store::{Label, Record, Store, space};

fn parse(url: &str) -> StoreUrl {
    StoreUrl::recognize(url).unwrap()
}

/// Two stores on one empty database, like those of two processes. `open` opens one whose time is shifted.
fn subject<S: Store + ChangeLayout + 'static>(open: impl Fn(Arc<AtomicI64>) -> S) -> Subject {
    let shift = Arc::new(AtomicI64::new(0));
    Subject {
        store: Arc::new(open(Arc::clone(&shift))),
        second: Some(Arc::new(open(Arc::clone(&shift)))),
        layout: Some(Arc::new(open(Arc::clone(&shift)))),
        pass: Box::new(move |by| {
            let by = i64::try_from(by.as_millis()).unwrap();
            shift.fetch_add(by, Ordering::Relaxed);
        }),
        keep: None,
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
}

/// The time that a server may take to accept a connection: the machine may be busy.
const CONNECT_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(120);

/// Options of a store with this time.
fn patient() -> cachalot_backends::OpenOptions {
    cachalot_backends::OpenOptions {
        connect_timeout: CONNECT_TIMEOUT,
        ..cachalot_backends::OpenOptions::default()
    }
}

/// Reads the sum `spent` of budgets. Unlike an increment, a read is repeated if its connection has ended.
async fn spent(store: &dyn Store) -> u64 {
    let found = store.get(space::GATEWAY, "none", &["spent"]);
    found.settle().await.unwrap().counters[0]
}

fn record(key: String, value: Vec<u8>, labels: Vec<Label>) -> Record {
    Record {
        key,
        value: value.into(),
        labels,
        expires: None,
        revision: 0,
        updated: 0,
    }
}
