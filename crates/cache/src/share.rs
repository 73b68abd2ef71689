//! Eviction within a group of entries that has a quota ([`Share`]).

use cachalot_memory::{Filter, Match, Memory, Order, Page, Usage, space};

use crate::engine::Shared;
use crate::policy::Share;

/// The label with the name of the group that an entry belongs to.
pub(crate) const SHARE_LABEL: &str = "share";

/// Maximum number of records per request to the store.
const PAGE: u32 = 500;

impl Shared {
    /// Evicts the least recently used entries of a group until it is within its quota. After a fault of the
    /// store, the group stays too large until the next write.
    pub(crate) async fn keep_within(&self, share: &Share) {
        let Ok(memory) = self.memory() else { return };
        self.flush_uses().await;
        if let Err(error) = keep_within(memory.as_ref(), share).await {
            self.fault(&error);
        }
    }
}

async fn keep_within(memory: &dyn Memory, share: &Share) -> Result<(), cachalot_memory::Error> {
    let label = [Match::Is {
        name: SHARE_LABEL,
        value: &share.name,
    }];
    let mut usage = usage(memory, &label).await?;
    let coldest = Filter {
        labels: &label,
        order: Order::Coldest,
        ..Filter::default()
    };
    while usage.records > share.entries || usage.bytes > share.bytes {
        let surplus = usage.records.saturating_sub(share.entries);
        let limit = u32::try_from(surplus.clamp(1, u64::from(PAGE))).unwrap_or(PAGE);
        let gone = memory.erase(space::CACHE, &coldest, Page::keys(limit));
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
async fn usage(memory: &dyn Memory, label: &[Match<'_>]) -> Result<Usage, cachalot_memory::Error> {
    let filter = Filter {
        labels: label,
        ..Filter::default()
    };
    let mut usage = Usage::default();
    let mut after: Option<String> = None;
    loop {
        let page = Page {
            after: after.as_deref(),
            ..Page::keys(PAGE)
        };
        let batch = memory.find(space::CACHE, &filter, page).settle().await?;
        usage.records += batch.sizes.len() as u64;
        usage.bytes += batch.sizes.iter().sum::<u64>();
        match batch.next {
            Some(next) => after = Some(next),
            None => return Ok(usage),
        }
    }
}
