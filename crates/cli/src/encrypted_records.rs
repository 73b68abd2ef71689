//! The secrets that the records of a store are encrypted with.

use std::collections::BTreeMap;

use cachalot_backends::encrypted::{Encryption, STATE_LENGTH, State, is_encrypted};
use cachalot_store::{Error, PageRequest, Pages, RecordFilter, Store, ValuePart};

use crate::digest_key;
use crate::store_content::SPACES;

/// All spaces with values, and the words for one record and for several.
pub(crate) fn spaces() -> impl Iterator<Item = (&'static str, &'static str, &'static str)> {
    let check = (
        digest_key::SPACE,
        "check of the digest key",
        "checks of the digest key",
    );
    SPACES.into_iter().chain([check])
}

/// Records that are read at once.
const PAGE: u32 = 500;

/// Numbers of records by the secrets that they are encrypted with.
pub(crate) type Counts = BTreeMap<State, u64>;

/// A record that is not encrypted with the first secret.
pub(crate) struct Other {
    pub(crate) key: String,
    pub(crate) updated: i64,
}

/// Counts the records of a space; returns those that are not encrypted with the first secret, in key order. Without a
/// secret, encrypted records count as those of an unknown one.
pub(crate) async fn others(
    store: &dyn Store,
    space: &str,
    encryption: Option<&Encryption>,
    counts: &mut Counts,
) -> Result<Vec<Other>, Error> {
    let mut others = Vec::new();
    each(store, space, encryption, counts, |other| others.push(other)).await?;
    Ok(others)
}

/// Counts the records of all spaces.
pub(crate) async fn count(
    store: &dyn Store,
    encryption: Option<&Encryption>,
    counts: &mut Counts,
) -> Result<(), Error> {
    for (space, ..) in spaces() {
        each(store, space, encryption, counts, drop).await?;
    }
    Ok(())
}

async fn each(
    store: &dyn Store,
    space: &str,
    encryption: Option<&Encryption>,
    counts: &mut Counts,
    mut see: impl FnMut(Other),
) -> Result<(), Error> {
    let request = PageRequest {
        values: ValuePart::First(STATE_LENGTH),
        ..PageRequest::keys(PAGE)
    };
    let mut pages = Pages::new(store, space, RecordFilter::default(), request);
    while let Some(page) = pages.next().await? {
        // A file answers at once: the caller limits the time.
        tokio::task::yield_now().await;
        for record in page.records {
            let state = match encryption {
                Some(encryption) => encryption.state(&record.value),
                None if is_encrypted(&record.value) => State::Unknown,
                None => State::Plain,
            };
            *counts.entry(state).or_default() += 1;
            if state != State::Current {
                let (key, updated) = (record.key, record.updated);
                see(Other { key, updated });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::sync::Arc;

    use cachalot_core::ManualClock;
    use cachalot_store::in_process::InProcessStore;
    use cachalot_store::{Record, space};
    use futures_util::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn counting_ends_with_its_time_limit() {
        let store = InProcessStore::new(Arc::new(ManualClock::at(0)));
        let record = Record {
            key: "key".to_owned(),
            value: "value".into(),
            labels: Vec::new(),
            expires: None,
            revision: 0,
            updated: 0,
        };
        let stored = store.put(space::USER, record, None, &[]);
        stored.settle().await.unwrap();
        let mut counts = Counts::new();
        // It yields between pages, where a limit of time ends it.
        assert!(count(&store, None, &mut counts).now_or_never().is_none());
        count(&store, None, &mut counts).await.unwrap();
        assert_eq!(counts.get(&State::Plain), Some(&1));
    }
}
