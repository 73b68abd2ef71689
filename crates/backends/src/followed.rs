//! A store on a server that reports changes: copies of its entries may be served for a while without asking it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use cachalot_store::implementation::reaches_reservations;
use cachalot_store::{
    Error, Finding, GetOrReserve, GetOrReserveResult, GetResult, Lease, PageRequest, PutAllResult,
    PutCondition, PutResult, Record, RecordFilter, RecordPage, Store, StoreReply, counter, space,
};

use crate::changes::{self, Changes, Subscribe, Subscription as _};

/// A store whose stamps are those of [`Changes`]. Its own changes count at once, those of other processes when the
/// server reports them.
pub struct FollowedStore<S> {
    store: Arc<S>,
    changes: Arc<Changes>,
    is_followed: AtomicBool,
}

impl<S: Store + Subscribe> FollowedStore<S> {
    /// Wraps a store. A change is served for at most `staleness` after the call that made it has returned.
    #[must_use]
    pub fn new(store: S, staleness: Duration) -> Self {
        Self {
            store: Arc::new(store),
            changes: Arc::new(Changes::new(staleness)),
            is_followed: AtomicBool::new(false),
        }
    }

    /// Subscribes once, in the background.
    fn follow(&self) {
        if !self.is_followed.swap(true, Ordering::Relaxed) {
            let (store, changes) = (Arc::downgrade(&self.store), Arc::clone(&self.changes));
            tokio::spawn(changes::follow(store, changes));
        }
    }

    /// Notes the names in the cache that a call has changed; all of them if it failed, or if its caller does not wait
    /// for the reply.
    fn changing<'a, T: Send + 'a>(
        &'a self,
        space: &'a str,
        reply: StoreReply<'a, T>,
        names: impl FnOnce(&T) -> Vec<String> + Send + 'a,
    ) -> StoreReply<'a, T> {
        if space != space::CACHE {
            return reply;
        }
        // Created before the call is polled: a future that is dropped at any point counts as an unknown change.
        let unknown = UnknownChange(&self.changes);
        StoreReply::later(async move {
            let done = reply.settle().await?;
            names(&done).iter().for_each(|name| self.changes.note(name));
            // The changed names are noted, so the guard must not count everything as changed.
            std::mem::forget(unknown);
            Ok(done)
        })
    }
}

/// A change of unknown names; noted when it is dropped.
struct UnknownChange<'a>(&'a Changes);

impl Drop for UnknownChange<'_> {
    fn drop(&mut self) {
        self.0.note_all();
    }
}

#[cfg(feature = "testing")]
impl<S> cachalot_store::conformance::layouts::ChangeLayout for FollowedStore<S>
where
    S: cachalot_store::conformance::layouts::ChangeLayout,
{
    fn set_newer_layout(&self, is_newer: bool) -> StoreReply<'_, ()> {
        self.store.set_newer_layout(is_newer)
    }
}

impl<S: Store + Subscribe> Store for FollowedStore<S> {
    cachalot_store::forward_to_store!(store: about reserve renew release find counters touch usage recall);
    cachalot_store::forward_to_store!(async: get get_or_reserve inspect);

    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        let key = record.key.clone();
        let put = self.store.put(space, record, lease, counters);
        self.changing(space, put, |_| vec![key])
    }

    fn put_all<'a>(
        &'a self,
        condition: PutCondition<'a>,
        records: Vec<(&'a str, Record)>,
    ) -> StoreReply<'a, PutAllResult> {
        let cached = records.iter().filter(|(space, _)| *space == space::CACHE);
        let keys: Vec<_> = cached.map(|(_, record)| record.key.clone()).collect();
        let put = self.store.put_all(condition, records);
        if keys.is_empty() {
            put
        } else {
            self.changing(space::CACHE, put, |_| keys)
        }
    }

    fn put_new<'a>(&'a self, space: &'a str, records: Vec<Record>) -> StoreReply<'a, Vec<bool>> {
        let keys: Vec<_> = records.iter().map(|record| record.key.clone()).collect();
        let put = self.store.put_new(space, records);
        self.changing(space, put, |_| keys)
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        let erased = self.store.erase(space, filter, page);
        let keys = |page: &RecordPage| {
            let keys = page.records.iter().map(|record| record.key.clone());
            let erased = reaches_reservations(filter).then(|| counter::ERASED.to_owned());
            keys.chain(erased).collect()
        };
        self.changing(space, erased, keys)
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        let added = self.store.add(space, additions);
        self.changing(space, added, |_| {
            let names = additions.iter().map(|(name, _)| (*name).to_owned());
            names.collect()
        })
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        let raised = self.store.raise_to(space, counter, value);
        self.changing(space, raised, |_| vec![counter.to_owned()])
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        let key = record.key.clone();
        let amended = self.store.amend(space, record);
        self.changing(space, amended, |_| vec![key])
    }

    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        self.stamp_at(self.stamp_slot(space, name)?)
    }

    fn stamp_slot(&self, space: &str, name: &str) -> Option<usize> {
        (space == space::CACHE).then(|| Changes::slot(name))
    }

    fn stamp_at(&self, slot: usize) -> Option<u64> {
        self.changes.stamp_at(slot)
    }
}

impl<S: Store + Subscribe> FollowedStore<S> {
    async fn get(&self, space: &str, key: &str, counters: &[&str]) -> Result<GetResult, Error> {
        // Only lookups subscribe: a process that only writes serves no copies.
        self.follow();
        self.store.get(space, key, counters).settle().await
    }

    async fn get_or_reserve(
        &self,
        space: &str,
        key: &str,
        request: GetOrReserve<'_>,
    ) -> Result<GetOrReserveResult, Error> {
        self.follow();
        let reply = self.store.get_or_reserve(space, key, request);
        reply.settle().await
    }

    async fn inspect(&self) -> Result<Vec<Finding>, Error> {
        let mut findings = self.store.inspect().settle().await?;
        let unused = Arc::new(Changes::new(Duration::ZERO));
        let answered = match self.store.subscribe(&unused).await {
            Ok(mut subscription) => subscription.ping().await,
            Err(error) => Err(error),
        };
        let staleness = self.changes.staleness();
        findings.push(match answered {
            Ok(()) => Finding::good(
                "staleness",
                format!("changes of other machines are seen after {staleness:?} at most"),
            ),
            Err(error) => Finding::degraded(
                "staleness",
                format!("every hit asks the server, because it does not report changes: {error}"),
                "allow connections that subscribe to changes, or remove `settings.ltm.staleness`",
            ),
        });
        Ok(findings)
    }
}
