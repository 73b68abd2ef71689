//! Eviction within a group of entries that has a quota ([`Quota`]).

use cachalot_store::{
    LabelMatch, Order, PageRequest, Pages, RecordFilter, SpaceUsage, Store, space,
};

use crate::engine::Engine;
use crate::policy::Quota;

/// The label with the name of the group that an entry belongs to.
pub(crate) const QUOTA_LABEL: &str = "share";

/// Maximum number of records per request to the store.
const RECORDS_PER_REQUEST: u32 = 500;

impl Engine {
    /// Evicts the least recently used entries of a group until it is within its quota. After a fault of the
    /// store, the group stays too large until the next write.
    pub(crate) async fn enforce_quota(&self, quota: &Quota) {
        let Ok(store) = self.store() else { return };
        self.flush_uses().await;
        if let Err(error) = enforce_quota(store.as_ref(), quota).await {
            self.fault(&error);
        }
    }
}

async fn enforce_quota(store: &dyn Store, quota: &Quota) -> Result<(), cachalot_store::Error> {
    let label = [LabelMatch::Is {
        name: QUOTA_LABEL,
        value: &quota.name,
    }];
    let mut usage = usage(store, &label).await?;
    let coldest = RecordFilter {
        labels: &label,
        order: Order::LeastRecentlyUsed,
        ..RecordFilter::default()
    };
    while usage.records > quota.entries || usage.bytes > quota.bytes {
        let surplus = usage.records.saturating_sub(quota.entries);
        let limit = u32::try_from(surplus.clamp(1, u64::from(RECORDS_PER_REQUEST)))
            .unwrap_or(RECORDS_PER_REQUEST);
        let gone = store.erase(space::CACHE, &coldest, PageRequest::keys(limit));
        let gone = gone.settle().await?.sizes;
        if gone.is_empty() {
            break;
        }
        usage.records = usage.records.saturating_sub(gone.len() as u64);
        usage.bytes = usage.bytes.saturating_sub(gone.iter().sum());
    }
    Ok(())
}

/// The size of a group. The sizes are read without the values.
async fn usage(
    store: &dyn Store,
    label: &[LabelMatch<'_>],
) -> Result<SpaceUsage, cachalot_store::Error> {
    let filter = RecordFilter {
        labels: label,
        ..RecordFilter::default()
    };
    let mut usage = SpaceUsage::default();
    let page = PageRequest::keys(RECORDS_PER_REQUEST);
    let mut pages = Pages::new(store, space::CACHE, filter, page);
    while let Some(page) = pages.next().await? {
        usage.records += page.sizes.len() as u64;
        usage.bytes += page.sizes.iter().sum::<u64>();
    }
    Ok(usage)
}
