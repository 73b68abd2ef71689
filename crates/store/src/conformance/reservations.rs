//! Checks of reservations and leases.

use std::time::Duration;

use super::{
    SPACE, Subject, concurrently, erase, erase_page, expired_before, expiring, get, having, held,
    in_order, is, is_busy, lease, prefix, put, raise, record, reserve, starts, stored,
};
use crate::{
    ErrorKind, GetOrReserve, GetOrReserveResult, Label, LabelMatch, Lease, Order, PageRequest,
    PutResult, RecordFilter, ReserveResult, Stale, Store,
};

const MINUTE: Duration = Duration::from_secs(60);

async fn put_under(store: &dyn Store, lease: &Lease) -> PutResult {
    store
        .put(&lease.space, record(&lease.key), Some(lease), &[])
        .settle()
        .await
        .unwrap()
}

/// Renews a lease; returns false if it is no longer current.
async fn current(store: &dyn Store, lease: &Lease) -> bool {
    store.renew(lease, MINUTE).settle().await.unwrap()
}

async fn lease_with(store: &dyn Store, key: &str, labels: &[(&str, &str)]) -> Lease {
    let labels: Vec<Label> = labels
        .iter()
        .map(|&(name, value)| Label::new(name, value))
        .collect();
    let reserved = store.reserve(SPACE, key, &labels, MINUTE).settle().await;
    held(reserved.unwrap())
}

macro_rules! needs_reservations {
    ($subject:ident) => {
        if !$subject.store.about().reservations {
            return;
        }
    };
}

/// The second caller gets the fence and the remaining time of the current lease; other keys are free.
pub async fn one_lease_at_a_time(subject: Subject) {
    needs_reservations!(subject);
    let held = lease(&*subject.store, "key", MINUTE).await;
    assert_eq!((held.space.as_str(), held.key.as_str()), (SPACE, "key"));
    for store in subject.handles() {
        match reserve(&**store, "key", MINUTE).await {
            ReserveResult::Busy { fence, left } => {
                assert_eq!(fence, held.fence);
                assert!(left <= MINUTE && left > MINUTE / 2, "{left:?}");
            }
            ReserveResult::Held(_) => panic!("two leases on one key"),
        }
    }
    lease(&**subject.other(), "key2", MINUTE).await;
    lease(&**subject.other(), "", MINUTE).await;
}

/// After its time, another caller gets a lease with a larger fence.
pub async fn a_lease_lapses(subject: Subject) {
    needs_reservations!(subject);
    let first = lease(&*subject.store, "key", Duration::from_secs(2)).await;
    subject.pass(Duration::from_secs(1));
    assert!(
        matches!(reserve(&*subject.store, "key", MINUTE).await, ReserveResult::Busy { left, .. } if left <= Duration::from_secs(1))
    );
    subject.pass(Duration::from_secs(1));
    let second = lease(&**subject.other(), "key", MINUTE).await;
    assert!(second.fence > first.fence);
    assert!(!current(&*subject.store, &first).await);
    assert!(current(&*subject.store, &second).await);
}

/// A renewal counts from now, not from the end of the lease. It also works after the lease has lapsed, unless
/// another caller took it over.
pub async fn a_lease_is_renewed(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let held = lease(store, "key", Duration::from_secs(2)).await;
    for _ in 0..3 {
        subject.pass(Duration::from_secs(1));
        assert!(
            store
                .renew(&held, Duration::from_secs(2))
                .settle()
                .await
                .unwrap()
        );
    }
    assert!(is_busy(reserve(store, "key", MINUTE).await));
    subject.pass(Duration::from_secs(20));
    assert!(current(store, &held).await, "a lapsed lease is renewed");
    assert!(is_busy(reserve(store, "key", MINUTE).await));
    let nobodys = Lease {
        space: "nowhere".into(),
        key: "key".into(),
        fence: 1,
    };
    assert!(!current(store, &nobodys).await);
}

/// Releasing a lease that is no longer current does nothing to the current one.
pub async fn a_lease_is_released(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let first = lease(store, "key", MINUTE).await;
    store.release(first.clone()).settle().await.unwrap();
    let second = lease(&**subject.other(), "key", MINUTE).await;
    assert!(second.fence > first.fence);
    store.release(first.clone()).settle().await.unwrap();
    store
        .release(Lease {
            space: "nowhere".into(),
            ..first.clone()
        })
        .settle()
        .await
        .unwrap();
    assert!(is_busy(reserve(store, "key", MINUTE).await));
    assert_eq!(put_under(store, &first).await, PutResult::LeaseLost);
    assert_eq!(put_under(store, &second).await, stored(1));
}

/// A put ends its lease in the same step.
pub async fn a_store_ends_its_lease(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let held = lease(store, "key", MINUTE).await;
    assert_eq!(put_under(store, &held).await, stored(1));
    assert_eq!(
        put_under(store, &held).await,
        PutResult::LeaseLost,
        "a lease is good for one store"
    );
    assert_eq!(get(store, SPACE, "key").await.unwrap().revision, 1);
    assert!(!current(store, &held).await);
    let next = lease(store, "key", MINUTE).await;
    assert!(next.fence > held.fence);
    assert_eq!(put_under(store, &next).await, stored(2));
}

/// A lease that was taken over stores nothing, neither before nor after the newer one has stored.
pub async fn an_outgrown_lease_stores_nothing(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let first = lease(store, "key", Duration::from_secs(1)).await;
    subject.pass(Duration::from_secs(1));
    let second = lease(&**subject.other(), "key", MINUTE).await;
    assert_eq!(put_under(store, &first).await, PutResult::LeaseLost);
    assert_eq!(get(store, SPACE, "key").await, None);
    assert_eq!(put_under(&**subject.other(), &second).await, stored(1));
    assert_eq!(put_under(store, &first).await, PutResult::LeaseLost);
    assert_eq!(get(store, SPACE, "key").await.unwrap().revision, 1);
}

/// A process that was suspended can store the result of its run.
pub async fn a_lapsed_lease_stores_until_it_is_taken_over(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let lapsed = lease(store, "key", Duration::from_secs(1)).await;
    subject.pass(Duration::from_secs(60));
    let nobodys = Lease {
        fence: lapsed.fence + 1000,
        ..lapsed.clone()
    };
    assert_eq!(put_under(store, &nobodys).await, PutResult::LeaseLost);
    assert_eq!(get(store, SPACE, "key").await, None);
    assert_eq!(put_under(store, &lapsed).await, stored(1));
    let lapsed = lease(store, "key", Duration::from_secs(1)).await;
    subject.pass(Duration::from_secs(1));
    let next = lease(&**subject.other(), "key", MINUTE).await;
    assert_eq!(put_under(store, &lapsed).await, PutResult::LeaseLost);
    assert!(!current(store, &lapsed).await);
    assert!(current(store, &next).await);
    erase(store, SPACE, prefix("key")).await;
    let erased = lease(store, "key", Duration::from_secs(1)).await;
    subject.pass(Duration::from_secs(1));
    erase(store, SPACE, prefix("key")).await;
    assert_eq!(put_under(store, &erased).await, PutResult::LeaseLost);
}

/// A lapsed lease stays for most of an hour, however many other keys are reserved meanwhile.
pub async fn a_lapsed_lease_outlives_other_reservations(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let lapsed = lease(store, "key", Duration::from_secs(1)).await;
    subject.pass(Duration::from_secs(59 * 60));
    for number in 0..150 {
        lease(store, &format!("other {number}"), MINUTE).await;
    }
    assert_eq!(put_under(store, &lapsed).await, stored(1));
}

/// A lease on another key or space is an error of the caller.
pub async fn a_lease_is_for_its_own_key(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let held = lease(store, "key", MINUTE).await;
    for (space, key) in [(SPACE, "other"), ("elsewhere", "key")] {
        let error = store
            .put(space, record(key), Some(&held), &[])
            .settle()
            .await
            .unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unsupported);
        assert_eq!(get(store, space, key).await, None);
    }
    assert!(current(store, &held).await);
}

/// A put without a lease ignores reservations.
pub async fn a_store_without_a_lease_leaves_it_alone(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let held = lease(store, "key", MINUTE).await;
    assert_eq!(put(store, SPACE, record("key")).await, 1);
    assert_eq!(put_under(store, &held).await, stored(2));
}

/// Fences increase after releases, erasures, puts, lapses, and many of each.
pub async fn fences_grow_whatever_happens(subject: Subject) {
    needs_reservations!(subject);
    let mut last = 0;
    for round in 0..150 {
        let store = if round % 2 == 0 {
            &*subject.store
        } else {
            &**subject.other()
        };
        let held = lease(store, "key", Duration::from_secs(1)).await;
        assert!(held.fence > last, "{} after {last}", held.fence);
        last = held.fence;
        match round % 4 {
            0 => store.release(held).settle().await.unwrap(),
            1 => drop(erase(store, SPACE, prefix("key")).await),
            2 => assert!(matches!(
                put_under(store, &held).await,
                PutResult::Stored { .. }
            )),
            _ => subject.pass(Duration::from_secs(1)),
        }
    }
}

/// An erase revokes with or without a record under the key, regardless of the page's limit.
pub async fn an_erase_revokes_by_prefix(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    for key in ["a1", "a2", "b"] {
        put(store, SPACE, record(key)).await;
    }
    let mut revoked = Vec::new();
    for key in ["a1", "a2", "a3"] {
        revoked.push(lease(store, key, MINUTE).await);
    }
    let spared = lease(store, "b", MINUTE).await;
    let page = PageRequest::keys(1);
    erase_page(&**subject.other(), SPACE, &prefix("a"), page).await;
    for held in &revoked {
        assert_eq!(
            put_under(store, held).await,
            PutResult::LeaseLost,
            "{}",
            held.key
        );
    }
    assert_eq!(put_under(store, &spared).await, stored(2));
    let again = lease(store, "a1", MINUTE).await;
    assert!(again.fence > revoked[0].fence);
}

/// An erase revokes by the labels of the reservation, by equality or prefix; all criteria have to hold.
pub async fn an_erase_revokes_by_label(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let one = lease_with(store, "one", &[("handle", "a:1"), ("tag", "x")]).await;
    let two = lease_with(store, "two", &[("handle", "a:2"), ("tag", "y")]).await;
    let bare = lease_with(store, "bare", &[]).await;
    let labels = [is("tag", "x"), starts("handle", "b:")];
    erase(store, SPACE, having(&labels)).await;
    assert!(current(store, &one).await);
    let labels = [is("tag", "x"), starts("handle", "a:")];
    erase(store, SPACE, having(&labels)).await;
    assert_eq!(put_under(store, &one).await, PutResult::LeaseLost);
    assert!(current(store, &two).await);
    let labels = [starts("handle", "a:")];
    erase(
        store,
        SPACE,
        RecordFilter {
            prefix: "o",
            ..having(&labels)
        },
    )
    .await;
    assert!(current(store, &two).await, "the prefix has to match too");
    erase(store, SPACE, having(&labels)).await;
    assert!(!current(store, &two).await);
    assert!(current(store, &bare).await);
}

/// An erase revokes by a pattern for the whole value of a label, not only by its prefix.
pub async fn an_erase_revokes_by_glob(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let one = lease_with(store, "one", &[("handle", "a:x:1")]).await;
    let two = lease_with(store, "two", &[("handle", "a:y:1")]).await;
    let labels = [LabelMatch::Glob {
        name: "handle",
        pattern: "a:*x*",
    }];
    erase(&**subject.other(), SPACE, having(&labels)).await;
    assert_eq!(put_under(store, &one).await, PutResult::LeaseLost);
    assert_eq!(put_under(store, &two).await, stored(1));
}

/// A reservation cannot have expired.
pub async fn a_sweep_revokes_nothing(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    put(store, SPACE, expiring("key", 5)).await;
    let held = lease(store, "key", MINUTE).await;
    for order in [Order::Key, Order::Newest, Order::Expiry] {
        erase(
            store,
            SPACE,
            RecordFilter {
                order,
                ..expired_before(i64::MAX)
            },
        )
        .await;
    }
    assert_eq!(put_under(store, &held).await, stored(1));
}

/// An order by use or expiry selects records, not reservations.
pub async fn an_eviction_revokes_nothing(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    put(store, SPACE, record("key")).await;
    let held = lease(store, "key", MINUTE).await;
    for order in [Order::LeastRecentlyUsed, Order::Expiry] {
        erase(store, SPACE, in_order(order)).await;
    }
    assert_eq!(put_under(store, &held).await, stored(1));
}

/// Sixteen concurrent tasks reserve a key, twenty times.
pub async fn exactly_one_of_many_gets_the_lease(subject: Subject) {
    needs_reservations!(subject);
    for round in 0..20 {
        let results = concurrently(&subject, 16, |store, _| async move {
            reserve(&*store, &format!("key {round}"), MINUTE).await
        });
        let results = results.await.into_iter();
        let held = results.filter(|result| matches!(result, ReserveResult::Held(_)));
        assert_eq!(held.count(), 1);
    }
}

async fn get_or_reserve(store: &dyn Store, key: &str, stale: Stale) -> GetOrReserveResult {
    let request = GetOrReserve {
        counters: &["counter"],
        labels: &[],
        hold: MINUTE,
        stale,
    };
    store
        .get_or_reserve(SPACE, key, request)
        .settle()
        .await
        .unwrap()
}

/// The lookup reserves in the same step: a second caller gets the fence of the lease, and a caller after the
/// put gets the record.
pub async fn what_is_absent_is_reserved(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    raise(store, SPACE, "counter").await;
    let first = get_or_reserve(store, "key", Stale::None).await;
    assert_eq!(
        (&first.found.record, &*first.found.counters),
        (&None, &[1][..])
    );
    let first = held(first.reserved.unwrap());
    let second = get_or_reserve(&**subject.other(), "key", Stale::None).await;
    assert_eq!(second.found.record, None);
    assert!(
        matches!(second.reserved, Some(ReserveResult::Busy { fence, left }) if fence == first.fence && left <= MINUTE)
    );
    assert_eq!(put_under(store, &first).await, stored(1));
    for store in subject.handles() {
        let third = get_or_reserve(&**store, "key", Stale::None).await;
        assert_eq!(third.found.record, get(&**store, SPACE, "key").await);
        assert_eq!(third.found.counters, [1]);
        assert_eq!(third.reserved, None);
    }
    // The lookups that found the record reserved nothing.
    lease(store, "key", MINUTE).await;
}

/// A record is reserved over from the moment of its expiry by the store's time, and not before.
pub async fn what_has_expired_is_reserved(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    let now = get_or_reserve(store, "other", Stale::None).await.found.now;
    put(store, SPACE, expiring("key", now + 3_600_000)).await;
    let entered = get_or_reserve(store, "key", Stale::None).await;
    assert!(entered.found.record.is_some() && entered.reserved.is_none());
    subject.pass(Duration::from_secs(3600));
    let entered = get_or_reserve(store, "key", Stale::None).await;
    assert!(entered.found.now >= now + 3_600_000);
    assert!(entered.found.record.is_some(), "it is still there");
    let lease = held(entered.reserved.unwrap());
    assert_eq!(put_under(store, &lease).await, stored(2));
}

/// A revision that the caller cannot use, or any record, is reserved over; another revision answers.
pub async fn what_is_stale_is_reserved(subject: Subject) {
    needs_reservations!(subject);
    let store = &*subject.store;
    put(store, SPACE, record("key")).await;
    put(store, SPACE, record("key")).await;
    for other in [1, 3] {
        let entered = get_or_reserve(store, "key", Stale::Revision(other)).await;
        assert_eq!(entered.reserved, None);
    }
    let entered = get_or_reserve(store, "key", Stale::Revision(2)).await;
    assert_eq!(
        entered.found.record.as_ref().map(|record| record.revision),
        Some(2)
    );
    store
        .release(held(entered.reserved.unwrap()))
        .settle()
        .await
        .unwrap();
    let entered = get_or_reserve(&**subject.other(), "key", Stale::Any).await;
    let lease = held(entered.reserved.unwrap());
    let busy = get_or_reserve(store, "key", Stale::Any).await;
    assert!(matches!(busy.reserved, Some(ReserveResult::Busy { .. })));
    assert_eq!(put_under(store, &lease).await, stored(3));
}

/// Sixteen concurrent tasks look a key up, twenty times: one leads.
pub async fn one_of_many_lookups_gets_the_lease(subject: Subject) {
    needs_reservations!(subject);
    for round in 0..20 {
        let results = concurrently(&subject, 16, |store, _| async move {
            get_or_reserve(&*store, &format!("key {round}"), Stale::None).await
        });
        let reserved = results.await.into_iter().map(|result| result.reserved);
        let held = reserved.filter(|result| matches!(result, Some(ReserveResult::Held(_))));
        assert_eq!(held.count(), 1);
    }
}
