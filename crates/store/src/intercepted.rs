//! Stores that intercept the calls of another one: the gateway measures them, and tests inject faults, delays and task
//! switches.

use crate::{
    Finding, LabelMatch, PageRequest, Recall, RecallHit, RecordFilter, RecordPage, Store,
    StoreInfo, StoreReply,
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

    /// The name in statistics and logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "get",
            Self::GetOrReserve => "get_or_reserve",
            Self::Put => "put",
            Self::PutAll => "put_all",
            Self::Reserve => "reserve",
            Self::Renew => "renew",
            Self::Release => "release",
            Self::Find => "find",
            Self::Erase => "erase",
            Self::Raise => "raise",
            Self::Touch => "touch",
            Self::Amend => "amend",
            Self::Usage => "usage",
        }
    }
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

    crate::forward_to_store!(intercept Get: get);
    crate::forward_to_store!(intercept GetOrReserve: get_or_reserve);
    crate::forward_to_store!(intercept Put: put);
    crate::forward_to_store!(intercept PutAll: put_all put_new);
    crate::forward_to_store!(intercept Reserve: reserve);
    crate::forward_to_store!(intercept Renew: renew);
    crate::forward_to_store!(intercept Release: release);
    crate::forward_to_store!(intercept Raise: add raise_to);
    crate::forward_to_store!(intercept Find: counters);
    crate::forward_to_store!(intercept Touch: touch);
    crate::forward_to_store!(intercept Amend: amend);
    crate::forward_to_store!(intercept Usage: usage);

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
