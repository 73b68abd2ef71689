//! Keeping a part of the cache within bounds of its own.

use cachalot_memory::{Filter, Match, Memory, Order, Page, Usage, space};

use crate::engine::Shared;
use crate::policy::Share;

/// The label that carries the name of the part that an entry belongs to.
pub(crate) const SHARE_LABEL: &str = "share";

/// How many records are taken in hand at a time.
const PAGE: u32 = 500;

impl Shared {
    /// Erases the least recently used entries of a part until it is within its bounds. A fault of the
    /// memory leaves it as large as it is, until the next store.
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

/// How much a part holds. Sizes are known without reading the values.
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
