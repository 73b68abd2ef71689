//! The contract of a store, on a Postgres server behind PgBouncer in transaction mode.

use cachalot_backends::postgres::{PostgresStore, Server};
use cachalot_backends::testing::PgBouncer;
use cachalot_store::conformance::Subject;

use crate::{CONNECT_TIMEOUT, parse, subject};

cachalot_store::memory_conformance_checks! { checks, pooled() }

fn pooled() -> Option<Subject> {
    let url = parse(&PgBouncer::shared()?.fresh_url());
    let open = |shift| {
        PostgresStore::with_shift(
            Server::new(&url, None)
                .unwrap()
                .connecting_within(CONNECT_TIMEOUT),
            shift,
        )
    };
    Some(subject(open))
}
