//! A store of a process without a secret: an encrypted value is an error that says so, and never a damaged one.

use std::sync::Arc;

use cachalot_store::{
    Error, ErrorKind, GetOrReserve, GetOrReserveResult, GetResult, LabelMatch, PageRequest, Recall,
    RecallHit, Record, RecordFilter, RecordPage, Store, StoreReply, ValuePart, space,
};

use super::{SECRETS, SECRETS_FILE, is_encrypted, refused};

/// A store whose values are not encrypted: an encrypted one is an error with the name of the missing setting.
pub struct StoreWithoutSecret {
    inner: Arc<dyn Store>,
}

impl StoreWithoutSecret {
    /// Recognizes the encrypted values of a store.
    #[must_use]
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner }
    }
}

fn check(record: &Record) -> Result<(), Error> {
    if !is_encrypted(&record.value) {
        return Ok(());
    }
    let message = format!(
        "the record `{:.80}` is encrypted, and no secret is set: set {SECRETS} or {SECRETS_FILE} to that of the store",
        record.key
    );
    Err(Error::new(ErrorKind::Denied, message))
}

fn check_all<'r>(mut records: impl Iterator<Item = &'r Record>) -> Result<(), Error> {
    records.try_for_each(check)
}

impl Store for StoreWithoutSecret {
    cachalot_store::forward_to_store!(inner: about put put_all put_new reserve renew release erase add);
    cachalot_store::forward_to_store!(inner: raise_to counters touch amend usage stamps inspect);

    fn get<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        counters: &'a [&'a str],
    ) -> StoreReply<'a, GetResult> {
        let found = self.inner.get(space, key, counters);
        found.and_then(|found| {
            let checked = check_all(found.record.iter());
            StoreReply::Now(checked.map(|()| found))
        })
    }

    fn get_or_reserve<'a>(
        &'a self,
        space: &'a str,
        key: &'a str,
        request: GetOrReserve<'a>,
    ) -> StoreReply<'a, GetOrReserveResult> {
        let reply = self.inner.get_or_reserve(space, key, request);
        reply.and_then(move |GetOrReserveResult { found, reserved }| {
            match check_all(found.record.iter()) {
                Ok(()) => StoreReply::Now(Ok(GetOrReserveResult { found, reserved })),
                Err(error) => refused(self.inner.as_ref(), reserved, error),
            }
        })
    }

    /// Lists encrypted entries of the cache, whose labels are readable, unless their whole values are requested.
    fn find<'a>(
        &'a self,
        space: &'a str,
        filter: &'a RecordFilter<'a>,
        page: PageRequest<'a>,
    ) -> StoreReply<'a, RecordPage> {
        let is_list = space == space::CACHE && page.values != ValuePart::All;
        let found = self.inner.find(space, filter, page);
        found.and_then(move |page| {
            let checked = if is_list {
                Ok(())
            } else {
                check_all(page.records.iter())
            };
            StoreReply::Now(checked.map(|()| page))
        })
    }

    fn recall(&self) -> Option<&dyn Recall> {
        self.inner.recall().map(|_| self as _)
    }
}

impl Recall for StoreWithoutSecret {
    fn search<'a>(
        &'a self,
        query: &'a str,
        labels: &'a [LabelMatch<'a>],
        limit: u32,
    ) -> StoreReply<'a, Vec<RecallHit>> {
        let Some(recall) = self.inner.recall() else {
            return StoreReply::Now(Ok(Vec::new()));
        };
        recall.search(query, labels, limit).and_then(|hits| {
            let checked = check_all(hits.iter().map(|hit| &hit.record));
            StoreReply::Now(checked.map(|()| hits))
        })
    }
}
