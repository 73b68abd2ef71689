//! The contract of a store, on a Redis server that the test process starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use cachalot_backends::StoreUrl;
use cachalot_backends::redis::{RedisStore, Server};
use cachalot_backends::testing::RedisServer;
use cachalot_store::conformance::{self, Subject};

/// Two stores on one empty database, like those of two processes.
fn subject() -> Option<Subject> {
    let url = RedisServer::shared()?.fresh_url();
    let shift = Arc::new(AtomicI64::new(0));
    let open = || -> Arc<RedisStore> {
        let server = Server::new(&StoreUrl::recognize(&url).unwrap(), None).unwrap();
        Arc::new(RedisStore::with_shift(server, Arc::clone(&shift)))
    };
    Some(Subject {
        store: open(),
        second: Some(open()),
        pass: Box::new({
            let shift = Arc::clone(&shift);
            move |by| {
                shift.fetch_add(i64::try_from(by.as_millis()).unwrap(), Ordering::Relaxed);
            }
        }),
        keep: None,
    })
}

macro_rules! checks {
    ($subject:expr; $($module:ident :: $check:ident),* $(,)?) => {
        $(
            #[test]
            fn $check() {
                if let Some(subject) = $subject {
                    conformance::run(conformance::$module::$check(subject));
                }
            }
        )*
    };
}

cachalot_store::memory_conformance_checks! { checks, subject() }
