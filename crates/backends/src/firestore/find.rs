//! Selection of records. Only the indexes are used that every database has: of single fields, and of identifiers.

use std::cmp::Ordering;
use std::collections::HashSet;

use bytes::Bytes;
use cachalot_store::implementation::{label_texts, matches_all, next_cursor};
use cachalot_store::{
    Error, Label, LabelMatch, Millis, Order, PageRequest, Record, RecordFilter, RecordPage,
    ValuePart,
};
use serde_json::json;

use super::document::{Document, ordered};
use super::name::{self, IdRange};
use super::reader::{Query, Reader};

/// The fields of a record but its value.
pub(super) const WITHOUT_VALUE: [&str; 9] = [
    "key", "labels", "revision", "updated", "expires", "use", "expiry", "order", "size",
];

/// The number of documents that one request reads.
pub(super) const BATCH: u32 = 300;

/// Maximum size of the values that one request reads, and of the documents and index entries that one erase deletes,
/// in bytes, unless it is one record. The server allows 10 MiB.
const LARGEST_BATCH: u64 = 8 << 20;

/// The number of fields of a record, and the size of what they have beside key, labels and value, in bytes.
const FIELDS: (u64, u64) = (11, 400);

/// A record that matches, without its value.
struct Match {
    document: Document,
    record: Record,
    size: u64,
}

impl Match {
    fn read(document: Document) -> Result<Self, Error> {
        Ok(Self {
            record: document.record()?,
            size: document.count("size")?,
            document,
        })
    }

    fn compare(&self, other: &Self, order: Order) -> Result<Ordering, Error> {
        let (one, two) = (&self.document, &other.document);
        Ok(match order {
            Order::Key | Order::Any => self.record.key.cmp(&other.record.key),
            Order::Newest => two.number("order")?.cmp(&one.number("order")?),
            Order::LeastRecentlyUsed => one.text("use")?.cmp(two.text("use")?),
            Order::Expiry => one.text("expiry")?.cmp(two.text("expiry")?),
        })
    }
}

/// Returns the number of records at the beginning that one request may have, by their sizes; at least one.
fn fitting(matches: &[Match], size: impl Fn(&Match) -> u64) -> usize {
    let mut bytes = 0;
    let fits = |found: &&Match| {
        bytes += size(found);
        bytes <= LARGEST_BATCH
    };
    let fitting = matches.iter().take(BATCH as usize).take_while(fits);
    fitting.count().max(1).min(matches.len())
}

/// A page, and the documents of its records.
pub(super) struct Selected {
    pub(super) page: RecordPage,
    /// The labels of the records, also if the page has none.
    pub(super) records: Vec<(Document, Record)>,
}

/// Selects records of a space, whose collections are below `parent`.
pub(super) struct Selection<'s> {
    pub(super) reader: &'s Reader,
    pub(super) parent: &'s str,
    pub(super) filter: &'s RecordFilter<'s>,
    pub(super) request: &'s PageRequest<'s>,
    /// Maximum number of records, if they are to be erased in one step.
    pub(super) erase: Option<u32>,
}

impl Selection<'_> {
    /// Reads a page. In other orders than that of keys, only an erase may have fewer records than match.
    pub(super) async fn page(&self) -> Result<Selected, Error> {
        let in_key_order = self.filter.order == Order::Key;
        let limit = match self.erase {
            Some(maximum) => self.request.limit.min(maximum),
            None if in_key_order => self.request.limit.min(BATCH),
            None => self.request.limit,
        };
        let mut matches = match self.filter.labels {
            _ if limit == 0 => Vec::new(),
            [] => self.of_records(limit).await?,
            labels => self.of_labels(labels, limit).await?,
        };
        matches.truncate(limit as usize);
        let mut is_cut =
            matches.len() < self.request.limit as usize && matches.len() == limit as usize;
        let fitting = match self.erase {
            Some(_) => fitting(&matches, |found| self.erase_size(found)),
            None if in_key_order && self.request.values != ValuePart::None => {
                fitting(&matches, |found| found.size)
            }
            None => matches.len(),
        };
        is_cut |= fitting < matches.len();
        matches.truncate(fitting);
        let keys: Vec<Record> = matches.iter().map(|found| found.record.clone()).collect();
        let mut page = RecordPage {
            next: next_cursor(&keys, self.filter, self.request),
            ..RecordPage::default()
        };
        if is_cut && in_key_order {
            page.next = keys.last().map(|record| record.key.clone());
        }
        if self.request.values != ValuePart::None {
            matches = self.with_values(matches).await?;
        }
        let mut records = Vec::new();
        for Match {
            document,
            record,
            size,
        } in matches
        {
            let mut shown = record.clone();
            if !self.request.labels {
                shown.labels.clear();
            }
            page.records.push(shown);
            page.sizes.push(size);
            records.push((
                document,
                Record {
                    value: Bytes::new(),
                    ..record
                },
            ));
        }
        Ok(Selected { page, records })
    }

    /// Returns the size of the documents of a record, and of their index entries
    /// (<https://firebase.google.com/docs/firestore/storage-size>), in bytes: deleting them counts like writing them.
    fn erase_size(&self, found: &Match) -> u64 {
        let (parent, path) = (self.parent.len(), found.document.path.len());
        let record = &found.record;
        let labels: usize = label_texts(&record.labels).map(str::len).sum();
        // Two entries of each field, with at most 1,500 bytes of its value.
        let own = path + 3 * record.key.len() + 3 * labels + 8 * record.labels.len() + 3000;
        let entries = 2 * FIELDS.0 * (parent + path + 50) as u64;
        let of_label = |label: &Label| {
            let path = parent + name::label(&label.name, &label.value, &record.key).len() + 10;
            3 * path + 2 * parent + 3 * record.key.len() + 200
        };
        let of_labels: usize = record.labels.iter().map(of_label).sum();
        found.size + FIELDS.1 + own as u64 + entries + of_labels as u64
    }

    /// Reads the records again, with their values; without those that do not match any more.
    async fn with_values(&self, matches: Vec<Match>) -> Result<Vec<Match>, Error> {
        let mut complete = Vec::new();
        let mut rest = &matches[..];
        while !rest.is_empty() {
            let (batch, others) = rest.split_at(fitting(rest, |found| found.size));
            rest = others;
            let paths = batch.iter().map(|found| found.document.path.clone());
            let paths: Vec<_> = paths.collect();
            let read = self.reader.get(&paths, None).await?;
            for path in &paths {
                let Some(document) = read.get(path) else {
                    continue;
                };
                let mut found = Match::read(document.clone())?;
                if !self.matches(&found.record) {
                    continue;
                }
                let value = &mut found.record.value;
                if let ValuePart::First(bytes) = self.request.values
                    && value.len() > bytes as usize
                {
                    // The rest is not kept.
                    *value = Bytes::copy_from_slice(&value[..bytes as usize]);
                }
                complete.push(found);
            }
        }
        Ok(complete)
    }

    fn matches(&self, record: &Record) -> bool {
        let is_after = self.request.after.is_none_or(|after| *record.key > *after);
        let is_expired = |moment: Millis| record.expires.is_some_and(|expires| expires < moment);
        record.key.starts_with(self.filter.prefix)
            && is_after
            && matches_all(self.filter.labels, &record.labels)
            && self.filter.expired_before.is_none_or(is_expired)
    }

    /// Reads matches with labels, by the documents of one of them.
    async fn of_labels(&self, labels: &[LabelMatch<'_>], limit: u32) -> Result<Vec<Match>, Error> {
        let is_exact = |label: &&LabelMatch<'_>| matches!(label, LabelMatch::Is { .. });
        let label = labels.iter().find(is_exact).unwrap_or(&labels[0]);
        let (name, text) = label.range();
        let query = |range: &IdRange, after: Option<&str>| {
            Query {
                parent: self.parent,
                collection: "labels",
                field: None,
                descending: false,
                conditions: Vec::new(),
                select: &["key"],
                limit: BATCH,
            }
            .within(range, after)
        };
        let mut matches = Vec::new();
        let is_ordered = match self.filter.order {
            Order::Any => true,
            Order::Key => is_exact(&label),
            Order::Newest | Order::LeastRecentlyUsed | Order::Expiry => false,
        };
        if is_ordered {
            let prefix = if is_exact(&label) {
                name::label(name, text, self.filter.prefix)
            } else {
                name::label_value_prefix(name, text)
            };
            let after = self
                .request
                .after
                .map(|after| name::label(name, text, after));
            let query = query(&IdRange::of(prefix), after.as_deref());
            let (mut last, mut seen) = (None, HashSet::new());
            loop {
                let documents = self.reader.query(&query, last.as_ref()).await?;
                for found in self.of_keys(&documents).await? {
                    if seen.insert(found.record.key.clone()) {
                        matches.push(found);
                    }
                }
                if documents.len() < BATCH as usize || matches.len() >= limit as usize {
                    return Ok(matches);
                }
                last = documents.into_iter().next_back();
            }
        }
        let prefix = if is_exact(&label) {
            name::label_prefix(name, text)
        } else {
            name::label_value_prefix(name, text)
        };
        let documents = self
            .reader
            .query_all(&query(&IdRange::of(prefix), None))
            .await?;
        for documents in documents.chunks(BATCH as usize) {
            matches.extend(self.of_keys(documents).await?);
        }
        self.sort(&mut matches)?;
        matches.dedup_by(|one, two| one.record.key == two.record.key);
        Ok(matches)
    }

    /// Reads the matches of which labels were found.
    async fn of_keys(&self, labels: &[Document]) -> Result<Vec<Match>, Error> {
        let mut paths = Vec::new();
        for label in labels {
            paths.push(format!(
                "{}/records/{}",
                self.parent,
                name::id(label.text("key")?)
            ));
        }
        if paths.is_empty() {
            return Ok(Vec::new());
        }
        let read = self.reader.get(&paths, Some(&WITHOUT_VALUE)).await?;
        let documents = paths.iter().filter_map(|path| read.get(path));
        self.matching(documents.cloned())
    }

    fn matching(&self, documents: impl IntoIterator<Item = Document>) -> Result<Vec<Match>, Error> {
        let mut matches = Vec::new();
        for document in documents {
            let found = Match::read(document)?;
            if self.matches(&found.record) {
                matches.push(found);
            }
        }
        Ok(matches)
    }

    fn sort(&self, matches: &mut [Match]) -> Result<(), Error> {
        let mut fault = None;
        matches.sort_by(|one, two| {
            let order = one.compare(two, self.filter.order);
            let order = order.unwrap_or_else(|error| {
                fault = Some(error);
                Ordering::Equal
            });
            order.then_with(|| one.record.key.cmp(&two.record.key))
        });
        fault.map_or(Ok(()), Err)
    }

    /// Reads matches of a filter without labels.
    async fn of_records(&self, limit: u32) -> Result<Vec<Match>, Error> {
        let field = match self.filter.order {
            _ if self.filter.expired_before.is_some() => Some("expiry"),
            Order::Key | Order::Any => None,
            Order::Newest => Some("order"),
            Order::LeastRecentlyUsed => Some("use"),
            Order::Expiry => Some("expiry"),
        };
        let mut query = Query {
            parent: self.parent,
            collection: "records",
            field,
            descending: field == Some("order"),
            conditions: Vec::new(),
            select: &WITHOUT_VALUE,
            limit: limit.min(BATCH),
        };
        let is_sorted = match self.filter.expired_before {
            Some(moment) => {
                query = query.and("LESS_THAN", json!({"stringValue": ordered(moment)}));
                matches!(self.filter.order, Order::Expiry | Order::Any)
            }
            None => true,
        };
        if field.is_none() {
            let after = self.request.after.map(name::id);
            query = query.within(&IdRange::of(name::id(self.filter.prefix)), after.as_deref());
        }
        if !is_sorted {
            query.limit = BATCH;
            let mut matches = self.matching(self.reader.query_all(&query).await?)?;
            self.sort(&mut matches)?;
            return Ok(matches);
        }
        let (mut matches, mut last) = (Vec::new(), None);
        loop {
            let documents = self.reader.query(&query, last.as_ref()).await?;
            let is_last = documents.len() < query.limit as usize;
            last = documents.last().cloned();
            matches.extend(self.matching(documents)?);
            if is_last || matches.len() >= limit as usize {
                return Ok(matches);
            }
        }
    }
}
