//! Checks of a store whose layout a newer version changes while it is open.

use std::time::Duration;

use super::{SPACE, Subject, get, labelled, lease, prefix, put, raise, record, with_value};
use crate::{
    Error, ErrorKind, GetOrReserve, Lease, PageRequest, PutCondition, Stale, Store, StoreReply,
};

const HOLD: Duration = Duration::from_secs(600);

/// Makes the layout of a store newer than the newest that the store knows, as a newer version of Cachalot would.
pub trait ChangeLayout: Send + Sync {
    /// Writes the number of a newer layout, or the number of the layout that the store knows.
    fn set_newer_layout(&self, is_newer: bool) -> StoreReply<'_, ()>;
}

/// Makes every kind of write; returns the results by name.
async fn try_writes(
    store: &dyn Store,
    held: Option<&Lease>,
) -> Vec<(&'static str, Result<(), Error>)> {
    let condition = PutCondition {
        space: SPACE,
        key: "new",
        value: None,
    };
    let put = store.put(SPACE, record("new"), None, &[]);
    let put_all = store.put_all(condition, vec![(SPACE, record("new"))]);
    let put_new = store.put_new(SPACE, vec![record("new")]);
    let filter = prefix("old");
    let erase = store.erase(SPACE, &filter, PageRequest::keys(10));
    let add = store.add(SPACE, &[("counter", 1)]);
    let raise = store.raise_to(SPACE, "counter", 100);
    let amend = store.amend(SPACE, get_or_default(store).await);
    let mut done = vec![
        ("put", put.settle().await.map(drop)),
        ("put_all", put_all.settle().await.map(drop)),
        ("put_new", put_new.settle().await.map(drop)),
        ("erase", erase.settle().await.map(drop)),
        ("add", add.settle().await.map(drop)),
        ("raise_to", raise.settle().await.map(drop)),
        ("amend", amend.settle().await.map(drop)),
    ];
    let Some(held) = held else {
        return done;
    };
    let request = GetOrReserve {
        counters: &[],
        labels: &[],
        hold: HOLD,
        stale: Stale::Any,
    };
    let put = store.put(SPACE, record("held"), Some(held), &[]);
    let reserve = store.reserve(SPACE, "new", &[], HOLD);
    let get_or_reserve = store.get_or_reserve(SPACE, "new", request);
    let renew = store.renew(held, HOLD);
    let release = store.release(held.clone());
    done.extend([
        ("put under a lease", put.settle().await.map(drop)),
        ("reserve", reserve.settle().await.map(drop)),
        ("get_or_reserve", get_or_reserve.settle().await.map(drop)),
        ("renew", renew.settle().await.map(drop)),
        ("release", release.settle().await),
    ]);
    done
}

/// The record to amend: its revision and time do not matter where the amendment is refused.
async fn get_or_default(store: &dyn Store) -> crate::Record {
    let found = store.get(SPACE, "old", &[]).settle().await.ok();
    found
        .and_then(|found| found.record)
        .unwrap_or_else(|| record("old"))
}

/// Writes of a process that does not know the layout change nothing. They work again under the layout that it knows.
pub async fn writes_under_a_newer_layout_are_refused(subject: Subject) {
    let Some(layout) = &subject.layout else {
        return;
    };
    let store = &*subject.store;
    put(store, SPACE, labelled("old", &[("tag", "x")])).await;
    let held = if store.about().reservations {
        Some(lease(store, "held", HOLD).await)
    } else {
        None
    };
    assert_eq!(raise(store, SPACE, "counter").await, 1);
    let before = get(store, SPACE, "old").await.unwrap();
    for store in subject.handles() {
        layout.set_newer_layout(true).settle().await.unwrap();
        for (name, done) in try_writes(&**store, held.as_ref()).await {
            let error = done.expect_err(name);
            let is_unsupported = ["put_all", "put_new", "amend"].contains(&name);
            assert!(
                error.kind == ErrorKind::TooNew
                    || is_unsupported && error.kind == ErrorKind::Unsupported,
                "{name}: {:?}: {error}",
                error.kind
            );
        }
        layout.set_newer_layout(false).settle().await.unwrap();
        assert_eq!(get(&**store, SPACE, "old").await.as_ref(), Some(&before));
        assert_eq!(get(&**store, SPACE, "new").await, None);
    }
    let other = &**subject.other();
    assert_eq!(raise(other, SPACE, "counter").await, 2);
    if let Some(held) = &held {
        assert!(other.renew(held, HOLD).settle().await.unwrap());
        let stored = other.put(SPACE, record("held"), Some(held), &[]);
        assert_eq!(stored.settle().await.unwrap(), super::stored(1));
    }
    assert_eq!(
        put(other, SPACE, with_value("old", "replaced")).await,
        before.revision + 1
    );
    assert_eq!(get(store, SPACE, "old").await.unwrap().value, "replaced");
}

/// A process that only reads notices the newer layout, too, and that it is over.
pub async fn a_newer_layout_is_noticed_by_reads(subject: Subject) {
    let Some(layout) = &subject.layout else {
        return;
    };
    let store = &*subject.store;
    put(store, SPACE, record("old")).await;
    layout.set_newer_layout(true).settle().await.unwrap();
    let error = loop {
        match store.get(SPACE, "old", &[]).settle().await {
            Err(error) => break error,
            Ok(found) => assert!(found.record.is_some()),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    assert_eq!(error.kind, ErrorKind::TooNew, "{error}");
    assert!(error.message.contains("newer version"), "{error}");
    layout.set_newer_layout(false).settle().await.unwrap();
    assert!(get(store, SPACE, "old").await.is_some());
}
