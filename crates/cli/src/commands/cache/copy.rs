//! `cachalot cache copy`: the content of one store into another.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_store::{
    Error, ErrorKind, PageRequest, Pages, Record, RecordFilter, Store, counter, space,
};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::command_error::{CommandError, Result};
use crate::render;
use crate::store_content::SPACES;

/// Maximum time of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Records that are read at once.
const PAGE: u32 = 64;

/// Maximum size of the values that are stored by one call, in bytes, unless it is one value.
const BATCH_BYTES: usize = 4 << 20;

/// Numbers of records.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Copied {
    copied: u64,
    /// Records that the other store had already.
    present: u64,
    /// Records that the other store does not accept.
    too_large: u64,
}

impl Copied {
    fn add(&mut self, stored: &[bool]) {
        let copied = stored.iter().filter(|is_stored| **is_stored).count();
        self.copied += copied as u64;
        // A call that computes the same entry stores it itself.
        self.present += (stored.len() - copied) as u64;
    }
}

/// The counters that are copied: the epochs, and what the budgets of the gateway have counted. By space, with the
/// beginning of their names.
const COUNTERS: [(&str, &str); 2] = [(space::CACHE, "epoch:"), (space::GATEWAY, "")];

/// Copies the records of all spaces that the other store does not have, and raises its epochs and its budgets.
pub(super) async fn copy(from: &dyn Store, to: &dyn Store, as_json: bool) -> Result<()> {
    let erased = erasures(from).await?;
    raise_counters(from, to).await?;
    let mut report = BTreeMap::new();
    for (name, one, many) in SPACES {
        let copied = copy_space(from, to, name, many).await?;
        if !as_json {
            let mut text = format!("{} copied", render::count(copied.copied, one, many));
            if copied.present > 0 {
                text += &format!(", {} already there", copied.present);
            }
            if copied.too_large > 0 {
                text += &format!(", {} larger than the store accepts", copied.too_large);
            }
            render::err(&text);
        }
        report.insert(name, copied);
    }
    // What was written or erased meanwhile must not be answered from the copy, and what was spent counts.
    raise_counters(from, to).await?;
    if erasures(from).await? != erased {
        return Err(CommandError::failed(format!(
            "records were erased from {} while they were copied, and may be in {} now: erase them there, too",
            from.about().location,
            to.about().location
        )));
    }
    if as_json {
        render::json(&report)?;
    }
    Ok(())
}

/// Returns the counters of erases.
async fn erasures(store: &dyn Store) -> Result<Vec<u64>> {
    let mut counts = Vec::new();
    for (name, ..) in SPACES {
        let read = store.get(name, "", &[counter::ERASED]);
        counts.extend(read.within(CALL_TIMEOUT).await?.counters);
    }
    Ok(counts)
}

/// Raises the counters of the other store to those of the first. An entry is served only under the epochs that it
/// contains: where those of the other store are higher, it is a miss.
async fn raise_counters(from: &dyn Store, to: &dyn Store) -> Result<()> {
    for (space, prefix) in COUNTERS {
        let mut after: Option<String> = None;
        loop {
            let counters = from.counters(space, prefix, after.as_deref(), PAGE);
            let counters = counters.within(CALL_TIMEOUT).await?;
            let Some((last, _)) = counters.last() else {
                break;
            };
            for (name, value) in &counters {
                let raised = to.raise_to(space, name, *value);
                raised.within(CALL_TIMEOUT).await?;
            }
            after = Some(last.clone());
        }
    }
    Ok(())
}

async fn copy_space(from: &dyn Store, to: &dyn Store, name: &str, many: &str) -> Result<Copied> {
    let usage = from.usage(name).within(CALL_TIMEOUT).await?;
    // Shown on a terminal only.
    let bar = ProgressBar::new(usage.records);
    if let Ok(style) = ProgressStyle::with_template("{msg} {bar:30} {pos}/{len} {eta}") {
        bar.set_style(style);
    }
    bar.set_message(many.to_owned());
    let mut counts = Copied::default();
    let filter = RecordFilter::default();
    let mut pages = Pages::new(from, name, filter, PageRequest::first(PAGE)).within(CALL_TIMEOUT);
    while let Some(page) = pages.next().await? {
        for batch in batches(page.records) {
            copy_batch(to, name, batch, &mut counts).await?;
        }
        bar.set_position(counts.copied + counts.present + counts.too_large);
    }
    bar.finish_and_clear();
    Ok(counts)
}

/// Splits records into batches that one call stores.
fn batches(records: Vec<Record>) -> Vec<Vec<Record>> {
    let mut batches: Vec<Vec<Record>> = Vec::new();
    let mut bytes = 0;
    for record in records {
        let size = record.value.len();
        bytes += size;
        match batches.last_mut().filter(|_| bytes <= BATCH_BYTES) {
            Some(batch) => batch.push(record),
            None => {
                bytes = size;
                batches.push(vec![record]);
            }
        }
    }
    batches
}

/// Stores records unless there are some under their keys: the other store may be in use, and its records newer.
async fn copy_batch(
    to: &dyn Store,
    name: &str,
    mut batch: Vec<Record>,
    counts: &mut Copied,
) -> std::result::Result<(), Error> {
    batch.retain(|record| {
        let fits = to.about().check_put(name, record, None, &[]).is_ok();
        counts.too_large += u64::from(!fits);
        fits
    });
    let stored = to.put_new(name, batch.clone()).within(CALL_TIMEOUT).await;
    match stored {
        Ok(stored) => counts.add(&stored),
        // A server may have limits that are not known. What is stored already counts as present.
        Err(error) if error.kind == ErrorKind::TooLarge => {
            for record in batch {
                match to.put_new(name, vec![record]).within(CALL_TIMEOUT).await {
                    Ok(stored) => counts.add(&stored),
                    Err(error) if error.kind == ErrorKind::TooLarge => counts.too_large += 1,
                    Err(error) => return Err(error),
                }
            }
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use cachalot_core::ManualClock;
    use cachalot_store::in_process::InProcessStore;

    use super::*;

    #[tokio::test]
    async fn budgets_and_epochs_are_the_larger_ones_of_both_stores() {
        let store = || InProcessStore::new(Arc::new(ManualClock::at(0)));
        let (from, to) = (store(), store());
        for (store, [spent, other, epoch]) in [(&from, [70, 3, 2]), (&to, [5, 9, 1])] {
            let sums = [("spent", spent), ("other", other)];
            store.add(space::GATEWAY, &sums).settle().await.unwrap();
            let epoch = [("epoch:x", epoch)];
            store.add(space::CACHE, &epoch).settle().await.unwrap();
        }
        assert!(raise_counters(&from, &to).await.is_ok());
        let sums = to.counters(space::GATEWAY, "", None, 9).settle().await;
        let expected = [("other".to_owned(), 9), ("spent".to_owned(), 70)];
        assert_eq!(sums.unwrap(), expected);
        let epochs = to.counters(space::CACHE, "epoch:", None, 9).settle().await;
        assert_eq!(epochs.unwrap(), [("epoch:x".to_owned(), 2)]);
    }
}
