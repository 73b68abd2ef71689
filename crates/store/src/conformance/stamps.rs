//! Checks of stamps.

use std::time::Duration;

use super::{
    SPACE, Subject, erase, find_page, get, lease, prefix, put, put_labelled, raise, record, touch,
};
use crate::{PageRequest, Store};

/// Enough names that a mistake in one group of names is noticed.
const NAMES: [&str; 5] = [
    "key",
    "",
    "a:b",
    "日本",
    "cache:agent:0123456789abcdef0123456789abcdef",
];

/// Changes a name in one of five ways, each of which has to change its stamp.
async fn change(store: &dyn Store, name: &str, how: usize) {
    match how {
        0 | 1 => drop(put(store, SPACE, record(name)).await),
        2 => drop(raise(store, SPACE, name).await),
        3 => {
            if store.about().reservations {
                let held = lease(store, name, Duration::from_secs(60)).await;
                store
                    .put(SPACE, record(name), Some(&held), &[])
                    .settle()
                    .await
                    .unwrap();
            } else {
                put(store, SPACE, record(name)).await;
            }
        }
        _ => assert!(
            erase(store, SPACE, prefix(name))
                .await
                .contains(&name.to_owned())
        ),
    }
}

async fn moves(read: &dyn Store, write: &dyn Store) {
    for name in NAMES {
        for how in 0..5 {
            let Some(before) = read.stamp(SPACE, name) else {
                return;
            };
            let slot = read.stamp_slot(SPACE, name);
            let in_slot = || slot.and_then(|slot| read.stamp_at(slot));
            assert_eq!(in_slot(), slot.map(|_| before));
            change(write, name, how).await;
            let after = read.stamp(SPACE, name);
            assert_ne!(after, Some(before), "change {how} of `{name}`");
            assert_eq!(in_slot(), slot.and(after));
        }
    }
}

/// Each of the changes: stored, replaced, raised, stored under a lease, erased.
pub async fn a_stamp_moves_with_every_change(subject: Subject) {
    moves(&*subject.store, &*subject.store).await;
}

/// Changes through either handle change the stamp of the other.
pub async fn a_stamp_moves_with_a_change_through_another_handle(subject: Subject) {
    let Some(second) = &subject.second else {
        return;
    };
    moves(&*subject.store, &**second).await;
    moves(&**second, &*subject.store).await;
    for name in NAMES {
        assert_eq!(subject.store.stamp(SPACE, name), second.stamp(SPACE, name));
    }
}

/// Reading, touching and reserving change no stamp.
pub async fn a_stamp_stays_when_nothing_changes(subject: Subject) {
    let store = &*subject.store;
    put_labelled(store, "key", &[("tag", "x")]).await;
    let Some(before) = store.stamp(SPACE, "key") else {
        return;
    };
    get(store, SPACE, "key").await;
    touch(store, SPACE, &[("key", i64::MAX)]).await;
    find_page(store, SPACE, &prefix(""), PageRequest::first(5)).await;
    if store.about().reservations {
        let held = lease(store, "key", Duration::from_secs(60)).await;
        store
            .renew(&held, Duration::from_secs(60))
            .settle()
            .await
            .unwrap();
        store.release(held).settle().await.unwrap();
    }
    assert_eq!(store.stamp(SPACE, "key"), Some(before));
}
