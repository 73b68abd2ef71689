//! Checks of stamps.

use std::time::Duration;

use super::{SPACE, Subject, erase, get, labelled, lease, prefix, put, raise, record};
use crate::{Memory, Page};

/// Enough names that a mistake in one group of names is noticed.
const NAMES: [&str; 5] = [
    "key",
    "",
    "a:b",
    "日本",
    "cache:agent:0123456789abcdef0123456789abcdef",
];

/// Changes a name in one of five ways, each of which has to change its stamp.
async fn change(memory: &dyn Memory, name: &str, how: usize) {
    match how {
        0 | 1 => drop(put(memory, SPACE, record(name)).await),
        2 => drop(raise(memory, SPACE, name).await),
        3 => {
            if memory.about().reservations {
                let held = lease(memory, name, Duration::from_secs(60)).await;
                memory
                    .put(SPACE, record(name), Some(&held), &[])
                    .settle()
                    .await
                    .unwrap();
            } else {
                put(memory, SPACE, record(name)).await;
            }
        }
        _ => assert!(
            erase(memory, SPACE, prefix(name))
                .await
                .contains(&name.to_owned())
        ),
    }
}

async fn moves(read: &dyn Memory, write: &dyn Memory) {
    for name in NAMES {
        for how in 0..5 {
            let Some(before) = read.stamp(SPACE, name) else {
                return;
            };
            change(write, name, how).await;
            assert_ne!(
                read.stamp(SPACE, name),
                Some(before),
                "change {how} of `{name}`"
            );
        }
    }
}

/// Each of the changes: stored, replaced, raised, stored under a lease, erased.
pub async fn a_stamp_moves_with_every_change(subject: Subject) {
    moves(&*subject.memory, &*subject.memory).await;
}

/// Changes through either handle change the stamp of the other.
pub async fn a_stamp_moves_with_a_change_through_another_handle(subject: Subject) {
    let Some(second) = &subject.second else {
        return;
    };
    moves(&*subject.memory, &**second).await;
    moves(&**second, &*subject.memory).await;
    for name in NAMES {
        assert_eq!(subject.memory.stamp(SPACE, name), second.stamp(SPACE, name));
    }
}

/// Reading, touching and reserving change no stamp.
pub async fn a_stamp_stays_when_nothing_changes(subject: Subject) {
    let memory = &*subject.memory;
    put(memory, SPACE, labelled("key", &[("tag", "x")])).await;
    let Some(before) = memory.stamp(SPACE, "key") else {
        return;
    };
    get(memory, SPACE, "key").await;
    memory
        .touch(SPACE, &[("key", i64::MAX)])
        .settle()
        .await
        .unwrap();
    memory
        .find(SPACE, &prefix(""), Page::first(5))
        .settle()
        .await
        .unwrap();
    if memory.about().reservations {
        let held = lease(memory, "key", Duration::from_secs(60)).await;
        memory
            .renew(&held, Duration::from_secs(60))
            .settle()
            .await
            .unwrap();
        memory.release(held).settle().await.unwrap();
    }
    assert_eq!(memory.stamp(SPACE, "key"), Some(before));
}
