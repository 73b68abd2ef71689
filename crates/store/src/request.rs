//! Checks of requests and helpers for them, shared by the stores.

use std::time::Duration;

use cachalot_core::Millis;

use crate::{
    Error, ErrorKind, Label, LabelMatch, Lease, Order, PageRequest, PutCondition, Record,
    RecordFilter, StoreInfo,
};

/// Removes repeated labels; keeps the first of each, in the given order.
pub fn deduplicate(labels: Vec<Label>) -> Vec<Label> {
    let mut kept: Vec<Label> = Vec::with_capacity(labels.len());
    for label in labels {
        if !kept.contains(&label) {
            kept.push(label);
        }
    }
    kept
}

/// Removes repeated labels and sorts the others, for stores that compare labels as bytes.
pub fn sort_and_deduplicate(mut labels: Vec<Label>) -> Vec<Label> {
    labels.sort_unstable();
    labels.dedup();
    labels
}

/// The contribution of a record to [`crate::SpaceUsage::bytes`].
pub fn weight(key: &str, value: usize, labels: &[Label]) -> u64 {
    let labels: usize = labels
        .iter()
        .map(|label| label.name.len() + label.value.len())
        .sum();
    (key.len() + value + labels) as u64
}

/// True if the labels meet all criteria.
pub fn matches_all(criteria: &[LabelMatch<'_>], labels: &[Label]) -> bool {
    criteria.iter().all(|criterion| criterion.matches(labels))
}

/// Maximum number of records that one step of an erase removes in an order without a cursor: some milliseconds of work,
/// for which writers wait.
pub const ERASE_BATCH: u32 = 64;

/// The page of an erase, of which one step erases a part if the order has no cursor.
pub fn erase_step<'a>(filter: &RecordFilter<'_>, page: PageRequest<'a>) -> PageRequest<'a> {
    match filter.order {
        Order::Key | Order::Newest => page,
        Order::LeastRecentlyUsed | Order::Expiry | Order::Any => PageRequest {
            limit: page.limit.min(ERASE_BATCH),
            ..page
        },
    }
}

/// True if the filter also erases reservations: they cannot have expired, and an order by use or by expiry
/// selects by a property that only records have.
pub fn reaches_reservations(filter: &RecordFilter<'_>) -> bool {
    filter.expired_before.is_none() && matches!(filter.order, Order::Key | Order::Newest)
}

/// Fails if a cursor is used in any order but that of keys.
pub fn check_page(filter: &RecordFilter<'_>, page: &PageRequest<'_>) -> Result<(), Error> {
    if page.after.is_some() && filter.order != Order::Key {
        return Err(Error::new(
            ErrorKind::Unsupported,
            format!(
                "a page cannot continue after a key in the order {:?}: only in key order",
                filter.order
            ),
        ));
    }
    Ok(())
}

impl StoreInfo {
    /// Fails if a name is longer than [`StoreInfo::longest_name`].
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`].
    pub fn check_names<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Result<(), Error> {
        let longest = self.longest_name;
        match names.into_iter().find(|name| name.len() as u64 > longest) {
            None => Ok(()),
            Some(name) => Err(Error::new(
                ErrorKind::TooLarge,
                format!(
                    "the name `{name:.80}` has {} bytes; this store accepts at most {longest}",
                    name.len()
                ),
            )),
        }
    }

    /// Fails if the lease is for another key, or if a name or the record is too long.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] and [`ErrorKind::TooLarge`].
    pub fn check_put(
        &self,
        space: &str,
        record: &Record,
        lease: Option<&Lease>,
        counters: &[(&str, u64)],
    ) -> Result<(), Error> {
        let own = [space, &record.key].into_iter();
        let counters = counters.iter().map(|(name, _)| *name);
        self.check_names(own.chain(label_texts(&record.labels)).chain(counters))?;
        if let Some(lease) = lease
            && (lease.space != space || lease.key != record.key)
        {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!(
                    "a lease on `{}` in the space `{}` does not allow storing `{}` in `{space}`",
                    lease.key, lease.space, record.key
                ),
            ));
        }
        self.check_size(record)
    }

    /// Fails if a name or a record is too long.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`].
    pub fn check_put_all(
        &self,
        condition: &PutCondition<'_>,
        records: &[(&str, Record)],
    ) -> Result<(), Error> {
        self.check_names([condition.space, condition.key])?;
        records
            .iter()
            .try_for_each(|(space, record)| self.check_put(space, record, None, &[]))
    }

    /// Fails in the space with the text index, which is not amended, and if the record is too large.
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`] and [`ErrorKind::TooLarge`].
    pub fn check_amend(&self, space: &str, record: &Record) -> Result<(), Error> {
        let key = &record.key;
        if space == crate::space::USER {
            let refused =
                format!("`{key:.80}`: records that are searched by text cannot be amended");
            return Err(Error::new(ErrorKind::Unsupported, refused));
        }
        self.check_size(record)
    }

    fn check_size(&self, record: &Record) -> Result<(), Error> {
        let (key, largest) = (&record.key, self.largest_value);
        let size = weight(key, record.value.len(), &record.labels);
        if size > largest {
            let refused = format!(
                "the record `{key:.80}` has {size} bytes; this store accepts at most {largest}"
            );
            return Err(Error::new(ErrorKind::TooLarge, refused));
        }
        Ok(())
    }
}

/// The names and values of labels.
pub fn label_texts(labels: &[Label]) -> impl Iterator<Item = &str> {
    labels
        .iter()
        .flat_map(|label| [label.name.as_str(), label.value.as_str()])
}

/// The value of [`crate::counter::ERASED`] after an erase at `now`.
pub fn next_erasure(before: u64, now: Millis) -> u64 {
    before
        .saturating_add(1)
        .max(u64::try_from(now).unwrap_or(0))
}

/// Minimum time, in milliseconds, for which a lapsed lease that was not taken over stays current.
pub const MIN_LAPSED_LEASE_AGE: Millis = 3_600_000;

/// The largest value of a counter: SQLite's largest integer.
pub const MAX_COUNTER: u64 = i64::MAX as u64;

/// Converts a count to an integer that all databases have.
pub fn signed(count: u64) -> i64 {
    count.min(MAX_COUNTER).cast_signed()
}

/// The error of a store that a newer version has written.
pub fn too_new(location: &str) -> Error {
    Error::new(
        ErrorKind::TooNew,
        format!("{location} was written by a newer version of Cachalot: update Cachalot"),
    )
}

/// Returns labels as text of JSON.
pub fn labels_to_json(labels: &[Label]) -> String {
    let pairs = labels.iter().map(|label| (&label.name, &label.value));
    serde_json::json!(pairs.collect::<Vec<_>>()).to_string()
}

/// Reads what [`labels_to_json`] returns.
pub fn labels_from_json(text: &str) -> Result<Vec<Label>, Error> {
    let pairs: Vec<(String, String)> = serde_json::from_str(text)
        .map_err(|_| Error::new(ErrorKind::Corrupt, "the labels of a record are damaged"))?;
    let pairs = pairs.into_iter();
    Ok(pairs.map(|(name, value)| Label { name, value }).collect())
}

/// True if two records have the same value, expiry and labels; each label once, in any order.
pub fn has_equal_content(one: &Record, other: &Record) -> bool {
    one.value == other.value
        && one.expires == other.expires
        && has_equal_labels(&one.labels, &other.labels)
}

/// True if two lists have the same labels; each label once, in any order.
pub fn has_equal_labels(one: &[Label], other: &[Label]) -> bool {
    one.len() == other.len() && one.iter().all(|label| other.contains(label))
}

/// Returns a duration in milliseconds, at most 2^50: added to a time, it does not overflow, and scripts of Redis have
/// exact numbers up to 2^53.
pub fn milliseconds(duration: Duration) -> Millis {
    Millis::try_from(duration.as_millis())
        .unwrap_or(Millis::MAX)
        .min(1 << 50)
}

/// The end of a hold that begins now.
pub fn lease_end(now: Millis, hold: Duration) -> Millis {
    now.saturating_add(Millis::try_from(hold.as_millis()).unwrap_or(Millis::MAX))
}

/// The time left until `lease_end`.
pub fn time_left(lease_end: Millis, now: Millis) -> Duration {
    Duration::from_millis(u64::try_from(lease_end.saturating_sub(now)).unwrap_or(0))
}

/// The `after` of the next page: only a full page in key order may have a successor.
pub fn next_cursor(
    records: &[Record],
    filter: &RecordFilter<'_>,
    page: &PageRequest<'_>,
) -> Option<String> {
    let full = filter.order == Order::Key && records.len() == page.limit as usize;
    records
        .last()
        .filter(|_| full)
        .map(|record| record.key.clone())
}
