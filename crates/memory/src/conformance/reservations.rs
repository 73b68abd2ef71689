//! Checks of reservations and leases.

use std::sync::Arc;
use std::time::Duration;

use super::{
    SPACE, Subject, erase, expiring, get, is, lease, prefix, put, raise, record, reserve, starts,
};
use crate::{
    Enter, Entered, ErrorKind, Filter, Label, Lease, Match, Memory, Order, Page, Put, Reserved,
    Stale,
};

const MINUTE: Duration = Duration::from_secs(60);

async fn put_under(memory: &dyn Memory, lease: &Lease) -> Put {
    memory
        .put(&lease.space, record(&lease.key), Some(lease), &[])
        .settle()
        .await
        .unwrap()
}

/// Renews a lease; returns false if it is no longer current.
async fn current(memory: &dyn Memory, lease: &Lease) -> bool {
    memory.renew(lease, MINUTE).settle().await.unwrap()
}

async fn lease_with(memory: &dyn Memory, key: &str, labels: &[(&str, &str)]) -> Lease {
    let labels: Vec<Label> = labels
        .iter()
        .map(|&(name, value)| Label::new(name, value))
        .collect();
    match memory
        .reserve(SPACE, key, &labels, MINUTE)
        .settle()
        .await
        .unwrap()
    {
        Reserved::Held(lease) => lease,
        Reserved::Busy { .. } => panic!("`{key}` is reserved"),
    }
}

macro_rules! needs_reservations {
    ($subject:ident) => {
        if !$subject.memory.about().reservations {
            return;
        }
    };
}

/// The second caller gets the fence and the remaining time of the current lease; other keys are free.
pub async fn one_lease_at_a_time(subject: Subject) {
    needs_reservations!(subject);
    let held = lease(&*subject.memory, "key", MINUTE).await;
    assert_eq!((held.space.as_str(), held.key.as_str()), (SPACE, "key"));
    for memory in subject.handles() {
        match reserve(&**memory, "key", MINUTE).await {
            Reserved::Busy { fence, left } => {
                assert_eq!(fence, held.fence);
                assert!(left <= MINUTE && left > MINUTE / 2, "{left:?}");
            }
            Reserved::Held(_) => panic!("two leases on one key"),
        }
    }
    lease(&**subject.other(), "key2", MINUTE).await;
    lease(&**subject.other(), "", MINUTE).await;
}

/// After its time, another caller gets a lease with a larger fence.
pub async fn a_lease_lapses(subject: Subject) {
    needs_reservations!(subject);
    let first = lease(&*subject.memory, "key", Duration::from_secs(2)).await;
    subject.pass(Duration::from_secs(1));
    assert!(
        matches!(reserve(&*subject.memory, "key", MINUTE).await, Reserved::Busy { left, .. } if left <= Duration::from_secs(1))
    );
    subject.pass(Duration::from_secs(1));
    let second = lease(&**subject.other(), "key", MINUTE).await;
    assert!(second.fence > first.fence);
    assert!(!current(&*subject.memory, &first).await);
    assert!(current(&*subject.memory, &second).await);
}

/// A renewal counts from now, not from the end of the lease. It also works after the lease has lapsed, unless
/// another caller took it over.
pub async fn a_lease_is_renewed(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let held = lease(memory, "key", Duration::from_secs(2)).await;
    for _ in 0..3 {
        subject.pass(Duration::from_secs(1));
        assert!(
            memory
                .renew(&held, Duration::from_secs(2))
                .settle()
                .await
                .unwrap()
        );
    }
    assert!(matches!(
        reserve(memory, "key", MINUTE).await,
        Reserved::Busy { .. }
    ));
    subject.pass(Duration::from_secs(20));
    assert!(current(memory, &held).await, "a lapsed lease is renewed");
    assert!(matches!(
        reserve(memory, "key", MINUTE).await,
        Reserved::Busy { .. }
    ));
    let nobodys = Lease {
        space: "nowhere".into(),
        key: "key".into(),
        fence: 1,
    };
    assert!(!current(memory, &nobodys).await);
}

/// Releasing a lease that is no longer current does nothing to the current one.
pub async fn a_lease_is_released(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let first = lease(memory, "key", MINUTE).await;
    memory.release(first.clone()).settle().await.unwrap();
    let second = lease(&**subject.other(), "key", MINUTE).await;
    assert!(second.fence > first.fence);
    memory.release(first.clone()).settle().await.unwrap();
    memory
        .release(Lease {
            space: "nowhere".into(),
            ..first.clone()
        })
        .settle()
        .await
        .unwrap();
    assert!(matches!(
        reserve(memory, "key", MINUTE).await,
        Reserved::Busy { .. }
    ));
    assert_eq!(put_under(memory, &first).await, Put::Overtaken);
    assert_eq!(
        put_under(memory, &second).await,
        Put::Stored { revision: 1 }
    );
}

/// A put ends its lease in the same step.
pub async fn a_store_ends_its_lease(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let held = lease(memory, "key", MINUTE).await;
    assert_eq!(put_under(memory, &held).await, Put::Stored { revision: 1 });
    assert_eq!(
        put_under(memory, &held).await,
        Put::Overtaken,
        "a lease is good for one store"
    );
    assert_eq!(get(memory, SPACE, "key").await.unwrap().revision, 1);
    assert!(!current(memory, &held).await);
    let next = lease(memory, "key", MINUTE).await;
    assert!(next.fence > held.fence);
    assert_eq!(put_under(memory, &next).await, Put::Stored { revision: 2 });
}

/// A lease that was taken over stores nothing, neither before nor after the newer one has stored.
pub async fn an_outgrown_lease_stores_nothing(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let first = lease(memory, "key", Duration::from_secs(1)).await;
    subject.pass(Duration::from_secs(1));
    let second = lease(&**subject.other(), "key", MINUTE).await;
    assert_eq!(put_under(memory, &first).await, Put::Overtaken);
    assert_eq!(get(memory, SPACE, "key").await, None);
    assert_eq!(
        put_under(&**subject.other(), &second).await,
        Put::Stored { revision: 1 }
    );
    assert_eq!(put_under(memory, &first).await, Put::Overtaken);
    assert_eq!(get(memory, SPACE, "key").await.unwrap().revision, 1);
}

/// A process that was suspended can store the result of its run.
pub async fn a_lapsed_lease_stores_until_it_is_taken_over(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let lapsed = lease(memory, "key", Duration::from_secs(1)).await;
    subject.pass(Duration::from_secs(60));
    let nobodys = Lease {
        fence: lapsed.fence + 1000,
        ..lapsed.clone()
    };
    assert_eq!(put_under(memory, &nobodys).await, Put::Overtaken);
    assert_eq!(get(memory, SPACE, "key").await, None);
    assert_eq!(
        put_under(memory, &lapsed).await,
        Put::Stored { revision: 1 }
    );
    let lapsed = lease(memory, "key", Duration::from_secs(1)).await;
    subject.pass(Duration::from_secs(1));
    let next = lease(&**subject.other(), "key", MINUTE).await;
    assert_eq!(put_under(memory, &lapsed).await, Put::Overtaken);
    assert!(!current(memory, &lapsed).await);
    assert!(current(memory, &next).await);
    erase(memory, SPACE, prefix("key")).await;
    let erased = lease(memory, "key", Duration::from_secs(1)).await;
    subject.pass(Duration::from_secs(1));
    erase(memory, SPACE, prefix("key")).await;
    assert_eq!(put_under(memory, &erased).await, Put::Overtaken);
}

/// A lapsed lease stays for most of an hour, however many other keys are reserved meanwhile.
pub async fn a_lapsed_lease_outlives_other_reservations(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let lapsed = lease(memory, "key", Duration::from_secs(1)).await;
    subject.pass(Duration::from_secs(59 * 60));
    for number in 0..150 {
        lease(memory, &format!("other {number}"), MINUTE).await;
    }
    assert_eq!(
        put_under(memory, &lapsed).await,
        Put::Stored { revision: 1 }
    );
}

/// A lease on another key or space is an error of the caller.
pub async fn a_lease_is_for_its_own_key(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let held = lease(memory, "key", MINUTE).await;
    for (space, key) in [(SPACE, "other"), ("elsewhere", "key")] {
        let error = memory
            .put(space, record(key), Some(&held), &[])
            .settle()
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert_eq!(get(memory, space, key).await, None);
    }
    assert!(current(memory, &held).await);
}

/// A put without a lease ignores reservations.
pub async fn a_store_without_a_lease_leaves_it_alone(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let held = lease(memory, "key", MINUTE).await;
    assert_eq!(put(memory, SPACE, record("key")).await, 1);
    assert_eq!(put_under(memory, &held).await, Put::Stored { revision: 2 });
}

/// Fences increase after releases, erasures, puts, lapses, and many of each.
pub async fn fences_grow_whatever_happens(subject: Subject) {
    needs_reservations!(subject);
    let mut last = 0;
    for round in 0..150 {
        let memory = if round % 2 == 0 {
            &*subject.memory
        } else {
            &**subject.other()
        };
        let held = lease(memory, "key", Duration::from_secs(1)).await;
        assert!(held.fence > last, "{} after {last}", held.fence);
        last = held.fence;
        match round % 4 {
            0 => memory.release(held).settle().await.unwrap(),
            1 => drop(erase(memory, SPACE, prefix("key")).await),
            2 => assert!(matches!(put_under(memory, &held).await, Put::Stored { .. })),
            _ => subject.pass(Duration::from_secs(1)),
        }
    }
}

/// An erase revokes with or without a record under the key, regardless of the page's limit.
pub async fn an_erase_revokes_by_prefix(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    for key in ["a1", "a2", "b"] {
        put(memory, SPACE, record(key)).await;
    }
    let mut revoked = Vec::new();
    for key in ["a1", "a2", "a3"] {
        revoked.push(lease(memory, key, MINUTE).await);
    }
    let spared = lease(memory, "b", MINUTE).await;
    let page = Page::keys(1);
    subject
        .other()
        .erase(SPACE, &prefix("a"), page)
        .settle()
        .await
        .unwrap();
    for held in &revoked {
        assert_eq!(
            put_under(memory, held).await,
            Put::Overtaken,
            "{}",
            held.key
        );
    }
    assert_eq!(
        put_under(memory, &spared).await,
        Put::Stored { revision: 2 }
    );
    let again = lease(memory, "a1", MINUTE).await;
    assert!(again.fence > revoked[0].fence);
}

/// An erase revokes by the labels of the reservation, by equality or prefix; all criteria have to hold.
pub async fn an_erase_revokes_by_label(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let one = lease_with(memory, "one", &[("handle", "a:1"), ("tag", "x")]).await;
    let two = lease_with(memory, "two", &[("handle", "a:2"), ("tag", "y")]).await;
    let bare = lease_with(memory, "bare", &[]).await;
    let labels = [is("tag", "x"), starts("handle", "b:")];
    erase(
        memory,
        SPACE,
        Filter {
            labels: &labels,
            ..Filter::default()
        },
    )
    .await;
    assert!(current(memory, &one).await);
    let labels = [is("tag", "x"), starts("handle", "a:")];
    erase(
        memory,
        SPACE,
        Filter {
            labels: &labels,
            ..Filter::default()
        },
    )
    .await;
    assert_eq!(put_under(memory, &one).await, Put::Overtaken);
    assert!(current(memory, &two).await);
    let labels = [starts("handle", "a:")];
    erase(
        memory,
        SPACE,
        Filter {
            prefix: "o",
            labels: &labels,
            ..Filter::default()
        },
    )
    .await;
    assert!(current(memory, &two).await, "the prefix has to match too");
    erase(
        memory,
        SPACE,
        Filter {
            labels: &labels,
            ..Filter::default()
        },
    )
    .await;
    assert!(!current(memory, &two).await);
    assert!(current(memory, &bare).await);
}

/// An erase revokes by a pattern for the whole value of a label, not only by its prefix.
pub async fn an_erase_revokes_by_glob(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let one = lease_with(memory, "one", &[("handle", "a:x:1")]).await;
    let two = lease_with(memory, "two", &[("handle", "a:y:1")]).await;
    let labels = [Match::Glob {
        name: "handle",
        pattern: "a:*x*",
    }];
    let filter = Filter {
        labels: &labels,
        ..Filter::default()
    };
    erase(&**subject.other(), SPACE, filter).await;
    assert_eq!(put_under(memory, &one).await, Put::Overtaken);
    assert_eq!(put_under(memory, &two).await, Put::Stored { revision: 1 });
}

/// A reservation cannot have expired.
pub async fn a_sweep_revokes_nothing(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    put(memory, SPACE, expiring("key", 5)).await;
    let held = lease(memory, "key", MINUTE).await;
    for order in [Order::Key, Order::Newest, Order::Expiry] {
        erase(
            memory,
            SPACE,
            Filter {
                expired_before: Some(i64::MAX),
                order,
                ..Filter::default()
            },
        )
        .await;
    }
    assert_eq!(put_under(memory, &held).await, Put::Stored { revision: 1 });
}

/// An order by use or expiry selects records, not reservations.
pub async fn an_eviction_revokes_nothing(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    put(memory, SPACE, record("key")).await;
    let held = lease(memory, "key", MINUTE).await;
    for order in [Order::Coldest, Order::Expiry] {
        erase(
            memory,
            SPACE,
            Filter {
                order,
                ..Filter::default()
            },
        )
        .await;
    }
    assert_eq!(put_under(memory, &held).await, Put::Stored { revision: 1 });
}

/// Sixteen concurrent tasks reserve a key, twenty times.
pub async fn exactly_one_of_many_gets_the_lease(subject: Subject) {
    needs_reservations!(subject);
    for round in 0..20 {
        let tasks: Vec<_> = (0..16)
            .map(|task| {
                let memory = Arc::clone(if task % 2 == 0 {
                    &subject.memory
                } else {
                    subject.other()
                });
                let key = format!("key {round}");
                tokio::spawn(async move { reserve(&*memory, &key, MINUTE).await })
            })
            .collect();
        let mut held = 0;
        for task in tasks {
            held += u32::from(matches!(task.await.unwrap(), Reserved::Held(_)));
        }
        assert_eq!(held, 1);
    }
}

async fn enter(memory: &dyn Memory, key: &str, stale: Stale) -> Entered {
    let enter = Enter {
        counters: &["counter"],
        labels: &[],
        hold: MINUTE,
        stale,
    };
    memory.enter(SPACE, key, enter).settle().await.unwrap()
}

fn held(entered: Entered) -> Lease {
    match entered.reserved {
        Some(Reserved::Held(lease)) => lease,
        other => panic!("not held: {other:?}"),
    }
}

/// The lookup reserves in the same step: a second caller gets the fence of the lease, and a caller after the
/// put gets the record.
pub async fn what_is_absent_is_reserved(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    raise(memory, SPACE, "counter").await;
    let first = enter(memory, "key", Stale::None).await;
    assert_eq!(
        (&first.found.record, &*first.found.counters),
        (&None, &[1][..])
    );
    let first = held(first);
    let second = enter(&**subject.other(), "key", Stale::None).await;
    assert_eq!(second.found.record, None);
    assert!(
        matches!(second.reserved, Some(Reserved::Busy { fence, left }) if fence == first.fence && left <= MINUTE)
    );
    assert_eq!(put_under(memory, &first).await, Put::Stored { revision: 1 });
    for memory in subject.handles() {
        let third = enter(&**memory, "key", Stale::None).await;
        assert_eq!(third.found.record, get(&**memory, SPACE, "key").await);
        assert_eq!(third.found.counters, [1]);
        assert_eq!(third.reserved, None);
    }
    // The lookups that found the record reserved nothing.
    lease(memory, "key", MINUTE).await;
}

/// A record is reserved over from the moment of its expiry by the store's time, and not before.
pub async fn what_has_expired_is_reserved(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    let now = enter(memory, "other", Stale::None).await.found.now;
    put(memory, SPACE, expiring("key", now + 3_600_000)).await;
    let entered = enter(memory, "key", Stale::None).await;
    assert!(entered.found.record.is_some() && entered.reserved.is_none());
    subject.pass(Duration::from_secs(3600));
    let entered = enter(memory, "key", Stale::None).await;
    assert!(entered.found.now >= now + 3_600_000);
    assert!(entered.found.record.is_some(), "it is still there");
    let lease = held(entered);
    assert_eq!(put_under(memory, &lease).await, Put::Stored { revision: 2 });
}

/// A revision that the caller cannot use, or any record, is reserved over; another revision answers.
pub async fn what_is_stale_is_reserved(subject: Subject) {
    needs_reservations!(subject);
    let memory = &*subject.memory;
    put(memory, SPACE, record("key")).await;
    put(memory, SPACE, record("key")).await;
    for other in [1, 3] {
        let entered = enter(memory, "key", Stale::Revision(other)).await;
        assert_eq!(entered.reserved, None);
    }
    let entered = enter(memory, "key", Stale::Revision(2)).await;
    assert_eq!(
        entered.found.record.as_ref().map(|record| record.revision),
        Some(2)
    );
    memory.release(held(entered)).settle().await.unwrap();
    let lease = held(enter(&**subject.other(), "key", Stale::Any).await);
    let busy = enter(memory, "key", Stale::Any).await;
    assert!(matches!(busy.reserved, Some(Reserved::Busy { .. })));
    assert_eq!(put_under(memory, &lease).await, Put::Stored { revision: 3 });
}

/// Sixteen concurrent tasks look a key up, twenty times: one leads.
pub async fn one_of_many_lookups_gets_the_lease(subject: Subject) {
    needs_reservations!(subject);
    for round in 0..20 {
        let tasks: Vec<_> = (0..16)
            .map(|task| {
                let memory = Arc::clone(if task % 2 == 0 {
                    &subject.memory
                } else {
                    subject.other()
                });
                let key = format!("key {round}");
                tokio::spawn(async move { enter(&*memory, &key, Stale::None).await })
            })
            .collect();
        let mut leases = 0;
        for task in tasks {
            let reserved = task.await.unwrap().reserved;
            leases += u32::from(matches!(reserved, Some(Reserved::Held(_))));
        }
        assert_eq!(leases, 1);
    }
}
