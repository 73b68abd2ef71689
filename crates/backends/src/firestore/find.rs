//! Selection of records. Only the indexes are used that every database has: of single fields, and of identifiers.

use std::cmp::Ordering;

use cachalot_store::implementation::{matches_all, next_cursor};
use cachalot_store::{
    Error, LabelMatch, Millis, Order, PageRequest, Record, RecordFilter, RecordPage, ValuePart,
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
const BATCH: u32 = 300;

/// Maximum number of records of a page, of their labels, and maximum size of their values in bytes, unless it has one
/// record: an erase of them is one request, which has at most 10 MiB, and names each label.
const LARGEST_PAGE: (u32, usize, u64) = (300, 4000, 8 << 20);

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
            Order::Key => self.record.key.cmp(&other.record.key),
            Order::Newest => two.number("order")?.cmp(&one.number("order")?),
            Order::LeastRecentlyUsed => one.text("use")?.cmp(two.text("use")?),
            Order::Expiry => one.text("expiry")?.cmp(two.text("expiry")?),
        })
    }
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
}

impl Selection<'_> {
    /// Reads a page.
    pub(super) async fn page(&self) -> Result<Selected, Error> {
        let limit = self.request.limit.min(LARGEST_PAGE.0);
        let mut matches = match self.filter.labels {
            _ if limit == 0 => Vec::new(),
            [] => self.of_records(limit).await?,
            labels => self.of_labels(labels, limit).await?,
        };
        matches.truncate(limit as usize);
        let mut is_cut =
            matches.len() < self.request.limit as usize && matches.len() == limit as usize;
        let (mut labels, mut bytes) = (0, 0);
        let fits = |found: &&Match| {
            labels += found.record.labels.len();
            bytes += match self.request.values {
                ValuePart::None => 0,
                ValuePart::First(_) | ValuePart::All => found.size,
            };
            labels <= LARGEST_PAGE.1 && bytes <= LARGEST_PAGE.2
        };
        let fitting = matches.iter().take_while(fits).count().max(1);
        is_cut |= fitting < matches.len();
        matches.truncate(fitting);
        let keys: Vec<Record> = matches.iter().map(|found| found.record.clone()).collect();
        let mut page = RecordPage {
            next: next_cursor(&keys, self.filter, self.request),
            ..RecordPage::default()
        };
        if is_cut && self.filter.order == Order::Key {
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
                    value: bytes::Bytes::new(),
                    ..record
                },
            ));
        }
        Ok(Selected { page, records })
    }

    /// Reads the records again, with their values; without those that do not match any more.
    async fn with_values(&self, matches: Vec<Match>) -> Result<Vec<Match>, Error> {
        let paths: Vec<_> = matches
            .iter()
            .map(|found| found.document.path.clone())
            .collect();
        if paths.is_empty() {
            return Ok(matches);
        }
        let read = self.reader.get(&paths, None).await?;
        let mut complete = Vec::new();
        for path in &paths {
            if let Some(document) = read.get(path) {
                let found = Match::read(document.clone())?;
                if self.matches(&found.record) {
                    complete.push(found);
                }
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
        let in_key_order = is_exact(&label) && self.filter.order == Order::Key;
        let mut matches = Vec::new();
        if in_key_order {
            let prefix = name::label(name, text, self.filter.prefix);
            let after = self
                .request
                .after
                .map(|after| name::label(name, text, after));
            let query = query(&IdRange::of(prefix), after.as_deref());
            let mut last = None;
            loop {
                let documents = self.reader.query(&query, last.as_ref()).await?;
                matches.extend(self.of_keys(&documents).await?);
                if documents.len() < BATCH as usize || matches.len() >= limit as usize {
                    return Ok(matches);
                }
                last = documents.into_iter().next_back();
            }
        }
        let prefix = match is_exact(&label) {
            true => name::label_prefix(name, text),
            false => name::label_value_prefix(name, text),
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
            Order::Key => None,
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
                self.filter.order == Order::Expiry
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
