//! `cachalot cache copy`: the content of one store into another.

use std::collections::BTreeMap;
use std::time::Duration;

use cachalot_prompt::{PIECES, SESSIONS};
use cachalot_store::{
    Error, ErrorKind, PageRequest, Pages, PutAllResult, PutCondition, Record, RecordFilter, Store,
    counter, space,
};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;

use crate::command_error::{CommandError, Result};
use crate::render;

/// Maximum time of a call.
const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Records that are read at once.
const PAGE: u32 = 64;

/// Records that are stored at the same time: a store on a server takes as long for many as for one.
const CONCURRENT: usize = 16;

/// What is copied: pieces of sessions before the sessions, which refer to them.
const SPACES: [(&str, &str, &str); 4] = [
    (space::USER, "memory", "memories"),
    (PIECES, "piece of sessions", "pieces of sessions"),
    (SESSIONS, "session", "sessions"),
    (space::CACHE, "entry", "entries"),
];

/// Numbers of records.
#[derive(Debug, Default, Clone, Copy, Serialize)]
struct Copied {
    copied: u64,
    /// Records that the other store had already.
    present: u64,
    /// Records that the other store does not accept.
    too_large: u64,
}

enum Done {
    Copied,
    Present,
    TooLarge,
}

/// Copies the records of all spaces that the other store does not have, and raises its epochs.
pub(super) async fn copy(from: &dyn Store, to: &dyn Store, as_json: bool) -> Result<()> {
    let erased = erasures(from).await?;
    raise_epochs(from, to).await?;
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
    // What was written or erased meanwhile must not be answered from the copy.
    raise_epochs(from, to).await?;
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

/// Raises the epochs of the other store to those of the first. An entry is served only under the epochs that it
/// contains: where those of the other store are higher, it is a miss.
async fn raise_epochs(from: &dyn Store, to: &dyn Store) -> Result<()> {
    let mut after: Option<String> = None;
    loop {
        let counters = from.counters(space::CACHE, "epoch:", after.as_deref(), PAGE);
        let counters = counters.within(CALL_TIMEOUT).await?;
        let Some((last, _)) = counters.last() else {
            return Ok(());
        };
        for (name, value) in &counters {
            let raised = to.raise_to(space::CACHE, name, *value);
            raised.within(CALL_TIMEOUT).await?;
        }
        after = Some(last.clone());
    }
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
        let stored = stream::iter(page.records)
            .map(|record| copy_record(to, name, record))
            .buffer_unordered(CONCURRENT);
        let done: Vec<Done> = stored.try_collect().await?;
        for done in done {
            match done {
                Done::Copied => counts.copied += 1,
                Done::Present => counts.present += 1,
                Done::TooLarge => counts.too_large += 1,
            }
        }
        bar.set_position(counts.copied + counts.present + counts.too_large);
    }
    bar.finish_and_clear();
    Ok(counts)
}

/// Stores a record unless there is one under its key: the other store may be in use, and its records newer.
async fn copy_record(
    to: &dyn Store,
    name: &str,
    record: Record,
) -> std::result::Result<Done, Error> {
    let key = record.key.clone();
    let condition = PutCondition {
        space: name,
        key: &key,
        value: None,
    };
    let stored = to.put_all(condition, vec![(name, record)]);
    match stored.within(CALL_TIMEOUT).await {
        Ok(PutAllResult::Stored) => Ok(Done::Copied),
        // A call that computes the same entry stores it itself.
        Ok(PutAllResult::Changed | PutAllResult::Busy { .. }) => Ok(Done::Present),
        Err(error) if error.kind == ErrorKind::TooLarge => Ok(Done::TooLarge),
        Err(error) => Err(error),
    }
}
