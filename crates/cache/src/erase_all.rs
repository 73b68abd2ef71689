//! Erasure of any number of records, in parts between which other calls go on.

use std::time::Duration;

use cachalot_store::{Error, LabelMatch, Order, PageRequest, Record, RecordFilter, Store, space};
use tokio::time::Instant;

use crate::sync::sleep;

/// Maximum number of records that are erased together with reservations, while other calls wait.
const RECORDS_PER_REVOCATION: u32 = 64;

/// Number of erased records below which a part may be one of the last. A part is also small where records have several
/// labels that match: a store may find one of them for each.
const FEW_RECORDS: usize = 16;

/// Number of small parts in a row that are the last ones.
const SMALL_PARTS: u32 = 2;

/// Maximum time for which an erase of many entries lets other work go first, after each part.
const MAX_PAUSE: Duration = Duration::from_millis(50);

/// Erases all records that match, and revokes the reservations that match.
///
/// The first and the last step revoke reservations; runs that begin in between are stored if they end in between. A
/// record that is stored meanwhile may be computed from one that is erased later, so the last step erases, together with
/// the revocation, all that matches then. Returns the number of revocations.
pub(crate) async fn erase_all(
    store: &dyn Store,
    filter: &RecordFilter<'_>,
    page: PageRequest<'_>,
    mut see: impl FnMut(Vec<Record>),
) -> Result<u32, Error> {
    let is_indexed = |label: &LabelMatch<'_>| matches!(label, LabelMatch::Is { .. });
    let first = PageRequest {
        limit: RECORDS_PER_REVOCATION,
        ..page
    };
    // The first page in the order of keys costs as much as all that match if they are not in the order of keys.
    let mut revocation = if filter.labels.iter().all(is_indexed) {
        first
    } else {
        PageRequest { limit: 0, ..page }
    };
    let mut revocations = 0;
    loop {
        let erased = store.erase(space::CACHE, filter, revocation);
        let erased = erased.settle().await?;
        revocations += 1;
        let is_complete = revocation.limit > 0 && erased.next.is_none();
        see(erased.records);
        if is_complete {
            return Ok(revocations);
        }
        erase_in_parts(store, filter, page, &mut see).await?;
        revocation = first;
    }
}

/// Erases records until few are left that match, and lets other work go first after each part.
async fn erase_in_parts(
    store: &dyn Store,
    filter: &RecordFilter<'_>,
    page: PageRequest<'_>,
    mut see: impl FnMut(Vec<Record>),
) -> Result<(), Error> {
    let filter = RecordFilter {
        order: Order::Any,
        ..*filter
    };
    let mut small_parts = 0;
    loop {
        let began = Instant::now();
        let erased = store.erase(space::CACHE, &filter, page).settle().await?;
        let number = erased.records.len();
        see(erased.records);
        small_parts = if number < FEW_RECORDS {
            small_parts + 1
        } else {
            0
        };
        // A few may be stored for as long as the erase lasts.
        if number == 0 || small_parts == SMALL_PARTS {
            return Ok(());
        }
        sleep(began.elapsed().min(MAX_PAUSE)).await;
    }
}
