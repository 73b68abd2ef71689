//! Stores that intercept the calls of another one: tests inject faults, delays and task switches with them.

use std::time::Duration;

use crate::{
    Finding, GetOrReserve, GetOrReserveResult, GetResult, Label, LabelMatch, Lease, Millis,
    PageRequest, PutAllResult, PutCondition, PutResult, Recall, RecallHit, Record, RecordFilter,
    RecordPage, ReserveResult, SpaceUsage, Store, StoreInfo, StoreReply,
};

/// The operations of a [`Store`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StoreOperation {
    /// [`Store::get`].
    Get,
    /// [`Store::get_or_reserve`].
    GetOrReserve,
    /// [`Store::put`].
    Put,
    /// [`Store::put_all`] and [`Store::put_new`].
    PutAll,
    /// [`Store::reserve`].
    Reserve,
    /// [`Store::renew`].
    Renew,
    /// [`Store::release`].
    Release,
    /// [`Store::find`], [`Store::counters`] and [`Recall::search`].
    Find,
    /// [`Store::erase`].
    Erase,
    /// [`Store::add`] and [`Store::raise_to`].
    Raise,
    /// [`Store::touch`].
    Touch,
    /// [`Store::amend`].
    Amend,
    /// [`Store::usage`].
    Usage,
}

impl StoreOperation {
    /// All operations.
    pub const ALL: [Self; 13] = [
        Self::Get,
        Self::GetOrReserve,
        Self::Put,
        Self::PutAll,
        Self::Reserve,
        Self::Renew,
        Self::Release,
        Self::Find,
        Self::Erase,
        Self::Raise,
        Self::Touch,
        Self::Amend,
        Self::Usage,
    ];
}

/// A store that decides what becomes of each call to an inner store. Whatever implements it is a [`Store`],
/// in which every method of the trait is forwarded, those with a default as well.
pub trait Interceptor: Send + Sync {
    /// The store that calls are passed to.
    fn inner(&self) -> &dyn Store;

    /// Answers a call; `pass` is what the inner store does.
    fn intercept<'a, T: Send + 'static>(
        &'a self,
        operation: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T>;

    /// The properties that the store reports.
    fn reported(&self) -> &StoreInfo {
        self.inner().about()
    }

    /// Called before each page that is read or erased.
    fn see_page(&self, page: &PageRequest<'_>) {
        let _ = page;
    }

    /// Called before each look at a stamp; returns false for a store without stamps.
    fn has_stamps(&self) -> bool {
        true
    }

    /// Returns false for a store whose stamps are read by name only.
    fn has_stamp_slots(&self) -> bool {
        true
    }
}

impl<I: Interceptor> Store for I {
    fn about(&self) -> &StoreInfo {
        self.reported()
    }

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        let pass = move || self.inner().get(space, key, counters);
        self.intercept(StoreOperation::Get, pass)
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        let pass = move || self.inner().get_or_reserve(space, key, request);
        self.intercept(StoreOperation::GetOrReserve, pass)
    }

    fn put<'a>(
        &'a self,
        space: &'a str,
        record: Record,
        lease: Option<&'a Lease>,
        counters: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, PutResult> {
        let pass = move || self.inner().put(space, record, lease, counters);
        self.intercept(StoreOperation::Put, pass)
    }

    fn put_all<'a>(
        &'a self,
        condition: PutCondition<'a>,
        records: Vec<(&'a str, Record)>,
    ) -> StoreReply<'a, PutAllResult> {
        let pass = move || self.inner().put_all(condition, records);
        self.intercept(StoreOperation::PutAll, pass)
    }

    fn put_new<'a>(&'a self, space: &'a str, records: Vec<Record>) -> StoreReply<'a, Vec<bool>> {
        let pass = move || self.inner().put_new(space, records);
        self.intercept(StoreOperation::PutAll, pass)
    }

    fn reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        labels: &'a [Label],
        hold: Duration,
    ) -> StoreReply<'a, ReserveResult> {
        let pass = move || self.inner().reserve(space, key, labels, hold);
        self.intercept(StoreOperation::Reserve, pass)
    }

    fn renew<'a>(&'a self, lease: &'a Lease, hold: Duration) -> StoreReply<'a, bool> {
        let pass = move || self.inner().renew(lease, hold);
        self.intercept(StoreOperation::Renew, pass)
    }

    fn release(&self, lease: Lease) -> StoreReply<'_, ()> {
        let pass = move || self.inner().release(lease);
        self.intercept(StoreOperation::Release, pass)
    }

    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        self.see_page(&page);
        let pass = move || self.inner().find(space, filter, page);
        self.intercept(StoreOperation::Find, pass)
    }

    fn erase<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        self.see_page(&page);
        let pass = move || self.inner().erase(space, filter, page);
        self.intercept(StoreOperation::Erase, pass)
    }

    fn add<'a>(
        &'a self,
        space: &'a str,
        additions: &'a [(&'a str, u64)],
    ) -> StoreReply<'a, Vec<u64>> {
        let pass = move || self.inner().add(space, additions);
        self.intercept(StoreOperation::Raise, pass)
    }

    fn raise_to<'a>(&'a self, space: &'a str, counter: &'a str, value: u64) -> StoreReply<'a, u64> {
        let pass = move || self.inner().raise_to(space, counter, value);
        self.intercept(StoreOperation::Raise, pass)
    }

    fn counters<'a>(
        &'a self,
        space: &'a str,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: u32,
    ) -> StoreReply<'a, Vec<(String, u64)>> {
        let pass = move || self.inner().counters(space, prefix, after, limit);
        self.intercept(StoreOperation::Find, pass)
    }

    fn touch<'a>(&'a self, space: &'a str, used: &'a [(&'a str, Millis)]) -> StoreReply<'a, ()> {
        let pass = move || self.inner().touch(space, used);
        self.intercept(StoreOperation::Touch, pass)
    }

    fn amend<'a>(&'a self, space: &'a str, record: Record) -> StoreReply<'a, Option<u64>> {
        let pass = move || self.inner().amend(space, record);
        self.intercept(StoreOperation::Amend, pass)
    }

    fn usage<'a>(&'a self, space: &'a str) -> StoreReply<'a, SpaceUsage> {
        let pass = move || self.inner().usage(space);
        self.intercept(StoreOperation::Usage, pass)
    }

    fn stamp(&self, space: &str, name: &str) -> Option<u64> {
        let has_stamps = self.has_stamps();
        has_stamps.then(|| self.inner().stamp(space, name))?
    }

    fn stamp_slot(&self, space: &str, name: &str) -> Option<usize> {
        let has_slots = self.has_stamp_slots();
        has_slots.then(|| self.inner().stamp_slot(space, name))?
    }

    fn stamp_at(&self, slot: usize) -> Option<u64> {
        let has_stamps = self.has_stamps();
        has_stamps.then(|| self.inner().stamp_at(slot))?
    }

    fn inspect(&self) -> StoreReply<'_, Vec<Finding>> {
        self.inner().inspect()
    }

    fn recall(&self) -> Option<&dyn Recall> {
        self.inner().recall().map(|_| self as _)
    }
}

impl<I: Interceptor> Recall for I {
    fn search<'a>(
        &'a self,
        query: &'a str,
        labels: &'a [LabelMatch<'a>],
        limit: u32,
    ) -> StoreReply<'a, Vec<RecallHit>> {
        match self.inner().recall() {
            Some(recall) => {
                let pass = move || recall.search(query, labels, limit);
                self.intercept(StoreOperation::Find, pass)
            }
            None => StoreReply::Now(Ok(Vec::new())),
        }
    }
}
