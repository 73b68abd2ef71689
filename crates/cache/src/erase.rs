//! Inspection and erasure of entries, selected by their properties.

use cachalot_core::{Millis, Spend};
use cachalot_memory::{self as memory, Error, Label, Match, Order, Page, Record, Values, space};

use crate::body::Body;
use crate::engine::{Shared, expired};
use crate::entry::{Entry, Head, Peeked};
use crate::flight::Flight;
use crate::store::{KIND_LABEL, NAME_LABEL};
use crate::{Cache, Key, Kind, Provenance, Scope};

/// A criterion on an entry's labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Criterion {
    /// The entry has this label.
    Is(Label),
    /// The entry has a label of this name whose value matches: `*` matches any text, every other character
    /// itself.
    Glob {
        /// The label's name.
        name: String,
        /// The pattern for the whole value.
        pattern: String,
    },
}

/// Selects entries that meet all criteria. The default matches every entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The entry of this key.
    pub key: Option<Key>,
    /// The kind of work that the entry answers.
    pub kind: Option<Kind>,
    /// The name of the call.
    pub name: Option<String>,
    /// Criteria on labels.
    pub criteria: Vec<Criterion>,
    /// Only entries that had expired before this time.
    pub expired_before: Option<Millis>,
}

/// The result of an erasure or its dry run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erased {
    /// The entries that were erased, or would be.
    pub entries: Vec<ErasedEntry>,
    /// Number of runs of this process that were revoked: their answers will not be stored. 0 in a dry run.
    pub revoked: usize,
}

/// An entry that was erased, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedEntry {
    /// The key in the store.
    pub key: String,
    /// The labels of the entry.
    pub labels: Vec<Label>,
}

/// The properties of an entry, without its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: Key,
    /// The kind of work that it answers.
    pub kind: Kind,
    /// The scope in which it is shared.
    pub scope: String,
    /// The name of the call.
    pub name: String,
    /// Origin and age.
    pub provenance: Provenance,
    /// Set if the entry has expired.
    pub expired: bool,
    /// The size of the answer.
    pub bytes: u64,
    /// The cost of producing the answer.
    pub spent: Spend,
}

/// A stored entry, whether it may be served or not.
pub struct Stored {
    /// Everything but the answer.
    pub listed: Listed,
    /// The answer.
    pub body: Body,
}

impl Listed {
    fn of(head: &Head, provenance: Provenance, bytes: u64, now: Millis) -> Self {
        Self {
            key: Key::from_digest(head.key),
            kind: head.kind,
            scope: head.scope.clone(),
            name: head.name.clone(),
            provenance,
            expired: expired(head, now),
            bytes,
            spent: head.spent,
        }
    }
}

impl Stored {
    fn of(entry: &Entry, now: Millis) -> Self {
        let bytes = entry.body.bytes.len() as u64;
        Self {
            listed: Listed::of(&entry.head, entry.provenance(), bytes, now),
            body: Body::whole_of(entry.body.clone()),
        }
    }
}

/// Maximum number of records per request to the store.
const PAGE: u32 = 500;

/// Number of bytes of a value that nearly always contain the head of the entry.
const BEGINNING: u32 = 4_096;

impl Cache {
    /// Deletes the entries that match and revokes matching flights, in all processes. Afterwards nothing
    /// older is served or stored. Answers of matching flights in other processes are not stored either;
    /// callers there may join such a flight for up to a second. With `dry_run`, changes nothing and returns
    /// what would be erased. Reads no answers.
    ///
    /// # Errors
    /// Errors of the store; what was erased before the fault stays erased.
    pub async fn erase(&self, which: &Filter, dry_run: bool) -> Result<Erased, Error> {
        let shared = &self.0;
        let revoked = if dry_run {
            0
        } else {
            shared.flights.revoke(|flight| which.matches_flight(flight))
        };
        let mut erased = Erased {
            entries: Vec::new(),
            revoked,
        };
        let Ok(memory) = shared.memory() else {
            return Ok(erased);
        };
        let query = Query::of(which);
        let mut after: Option<String> = None;
        loop {
            let page = Page {
                after: after.as_deref().filter(|_| dry_run),
                ..Page::labels(PAGE)
            };
            let filter = query.filter(which);
            let batch = if dry_run {
                memory.find(space::CACHE, &filter, page).settle().await?
            } else {
                memory.erase(space::CACHE, &filter, page).settle().await?
            };
            erased.add(batch.records);
            after = batch.next;
            if after.is_none() {
                break;
            }
        }
        if let Some(kind) = which.kind {
            let unlabelled = shared.unlabelled(which, kind).await?;
            if !dry_run {
                shared.erase_each(&unlabelled).await?;
            }
            erased.add(unlabelled);
        }
        Ok(erased)
    }

    /// Returns the stored entry, expired or not; records no call.
    ///
    /// # Errors
    /// Errors of the store. A damaged entry counts as absent.
    pub async fn peek(&self, key: &Key) -> Result<Option<Stored>, Error> {
        let Ok(memory) = self.0.memory() else {
            return Ok(None);
        };
        let found = memory
            .get(space::CACHE, &key.to_string(), &[])
            .settle()
            .await?;
        let entry = found.record.and_then(|record| Entry::decode(record).ok());
        Ok(entry.map(|entry| Stored::of(&entry, found.now)))
    }

    /// Returns the newest entry that matches, expired or not, in one of these scopes. Entries of other scopes
    /// are never returned. Records no call.
    ///
    /// # Errors
    /// Errors of the store. A damaged entry counts as absent.
    pub async fn newest(&self, which: &Filter, scopes: &[Scope]) -> Result<Option<Stored>, Error> {
        let Ok(memory) = self.0.memory() else {
            return Ok(None);
        };
        // Entries of earlier versions have no label of their kind.
        let any_kind = Filter {
            kind: None,
            ..which.clone()
        };
        let query = Query::of(&any_kind);
        let scopes: Vec<String> = scopes.iter().map(Scope::to_string).collect();
        let wanted = |listed: &Listed| {
            scopes.contains(&listed.scope) && which.kind.is_none_or(|kind| kind == listed.kind)
        };
        let newest_first = memory::Filter {
            order: Order::Newest,
            ..query.filter(which)
        };
        // One of the newest entries is usually in one of the scopes.
        for limit in [1, PAGE] {
            let page = beginnings(None, limit);
            let batch = memory
                .find(space::CACHE, &newest_first, page)
                .settle()
                .await?;
            let all = batch.records.len() < limit as usize;
            for (record, size) in batch.records.into_iter().zip(batch.sizes) {
                if let Some(listed) = self.0.listed(record, size).await?.filter(wanted)
                    && let Some(stored) = self.peek(&listed.key).await?
                {
                    return Ok(Some(stored));
                }
            }
            if all {
                return Ok(None);
            }
        }
        let mut newest: Option<(Millis, Key)> = None;
        let mut after: Option<String> = None;
        loop {
            let page = beginnings(after.as_deref(), PAGE);
            let filter = query.filter(which);
            let batch = memory.find(space::CACHE, &filter, page).settle().await?;
            after.clone_from(&batch.next);
            for (record, size) in batch.records.into_iter().zip(batch.sizes) {
                let updated = record.updated;
                if newest.is_none_or(|(newest, _)| updated >= newest)
                    && let Some(listed) = self.0.listed(record, size).await?.filter(wanted)
                {
                    newest = Some((updated, listed.key));
                }
            }
            if after.is_none() {
                break;
            }
        }
        match newest {
            Some((_, key)) => self.peek(&key).await,
            None => Ok(None),
        }
    }

    /// Calls `each` with the properties of every entry that matches, in the order of keys. Reads no answers
    /// except short ones.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn each(&self, which: &Filter, mut each: impl FnMut(Listed)) -> Result<(), Error> {
        let Ok(memory) = self.0.memory() else {
            return Ok(());
        };
        let any_kind = Filter {
            kind: None,
            ..which.clone()
        };
        let query = Query::of(&any_kind);
        self.0.learn_time().await?;
        let mut after: Option<String> = None;
        loop {
            let page = beginnings(after.as_deref(), PAGE);
            let batch = memory
                .find(space::CACHE, &query.filter(which), page)
                .settle()
                .await?;
            after.clone_from(&batch.next);
            for (record, size) in batch.records.into_iter().zip(batch.sizes) {
                if let Some(listed) = self.0.listed(record, size).await?
                    && which.kind.is_none_or(|kind| kind == listed.kind)
                {
                    each(listed);
                }
            }
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// Erases expired entries, at most `limit` of them; returns their number.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn sweep(&self, limit: Option<u32>) -> Result<u64, Error> {
        let Ok(memory) = self.0.memory() else {
            return Ok(0);
        };
        self.0.learn_time().await?;
        let filter = memory::Filter {
            // An entry expires in the millisecond of its `expires`.
            expired_before: Some(self.0.now().saturating_add(1)),
            order: Order::Expiry,
            ..memory::Filter::default()
        };
        let mut swept = 0;
        loop {
            let left = limit.map_or(PAGE, |limit| (limit - swept as u32).min(PAGE));
            if left == 0 {
                return Ok(swept);
            }
            let batch = memory
                .erase(space::CACHE, &filter, Page::keys(left))
                .settle()
                .await?;
            swept += batch.records.len() as u64;
            if batch.records.len() < left as usize {
                return Ok(swept);
            }
        }
    }

    /// Returns the size of the cache, expired entries included.
    ///
    /// # Errors
    /// Errors of the store.
    pub async fn usage(&self) -> Result<memory::Usage, Error> {
        match self.0.memory() {
            Ok(memory) => memory.usage(space::CACHE).settle().await,
            Err(_) => Ok(memory::Usage::default()),
        }
    }
}

/// A page whose values are cut to the length that nearly always contains the head of an entry.
fn beginnings(after: Option<&str>, limit: u32) -> Page<'_> {
    Page {
        after,
        values: Values::First(BEGINNING),
        ..Page::labels(limit)
    }
}

impl Shared {
    /// Reads the store's current time.
    async fn learn_time(&self) -> Result<(), Error> {
        if let Ok(memory) = self.memory() {
            let asked = self.clock.now();
            let found = memory.get(space::CACHE, "", &[]).settle().await?;
            self.note_time(asked, found.now);
        }
        Ok(())
    }

    async fn erase_each(&self, records: &[Record]) -> Result<(), Error> {
        let memory = match self.memory() {
            Ok(memory) => memory,
            Err(_) => return Ok(()),
        };
        for record in records {
            // All keys have the same length, so that a key is a prefix only of itself.
            let filter = memory::Filter {
                prefix: &record.key,
                ..memory::Filter::default()
            };
            memory
                .erase(space::CACHE, &filter, Page::keys(1))
                .settle()
                .await?;
        }
        Ok(())
    }

    /// Returns the entries of a kind that match otherwise but have no label of their kind, because an earlier
    /// version stored them.
    async fn unlabelled(&self, which: &Filter, kind: Kind) -> Result<Vec<Record>, Error> {
        let Ok(memory) = self.memory() else {
            return Ok(Vec::new());
        };
        let any_kind = Filter {
            kind: None,
            ..which.clone()
        };
        let query = Query::of(&any_kind);
        let mut found = Vec::new();
        let mut after: Option<String> = None;
        loop {
            let page = Page {
                after: after.as_deref(),
                ..Page::labels(PAGE)
            };
            let batch = memory
                .find(space::CACHE, &query.filter(which), page)
                .settle()
                .await?;
            after.clone_from(&batch.next);
            for record in batch.records {
                if record.labels.iter().any(|label| label.name == KIND_LABEL) {
                    continue;
                }
                let filter = memory::Filter {
                    prefix: &record.key,
                    ..memory::Filter::default()
                };
                let page = beginnings(None, 1);
                let mut batch = memory.find(space::CACHE, &filter, page).settle().await?;
                if let (Some(record), Some(size)) = (batch.records.pop(), batch.sizes.pop())
                    && let Some(listed) = self.listed(record.clone(), size).await?
                    && listed.kind == kind
                {
                    found.push(record);
                }
            }
            if after.is_none() {
                return Ok(found);
            }
        }
    }

    /// Reads the properties of an entry from a record with the beginning of its value; `None` if it is
    /// damaged.
    async fn listed(&self, record: Record, size: u64) -> Result<Option<Listed>, Error> {
        let now = self.now();
        if record.value.len() as u64 == size {
            let entry = Entry::decode(record).ok();
            return Ok(entry.map(|entry| Stored::of(&entry, now).listed));
        }
        match Peeked::of(&record.value, size) {
            Peeked::Head(head, bytes) if *Key::from_digest(head.key).text() == *record.key => {
                let provenance = head.provenance(record.labels, record.revision);
                Ok(Some(Listed::of(&head, provenance, bytes, now)))
            }
            Peeked::CutShort => {
                let Ok(memory) = self.memory() else {
                    return Ok(None);
                };
                let found = memory.get(space::CACHE, &record.key, &[]).settle().await?;
                let entry = found.record.and_then(|record| Entry::decode(record).ok());
                Ok(entry.map(|entry| Stored::of(&entry, now).listed))
            }
            Peeked::Head(..) | Peeked::Damaged => Ok(None),
        }
    }
}

impl Erased {
    fn add(&mut self, records: Vec<Record>) {
        let entries = records.into_iter().map(|record| ErasedEntry {
            key: record.key,
            labels: record.labels,
        });
        self.entries.extend(entries);
    }
}

/// A [`Filter`] in the terms of the store.
struct Query<'a> {
    key: String,
    labels: Vec<Match<'a>>,
}

impl<'a> Query<'a> {
    fn of(which: &'a Filter) -> Self {
        let own = [
            which.name.as_deref().map(|name| (NAME_LABEL, name)),
            which.kind.map(|kind| (KIND_LABEL, kind.as_str())),
        ];
        let own = own
            .into_iter()
            .flatten()
            .map(|(name, value)| Match::Is { name, value });
        let criteria = which.criteria.iter().map(Criterion::as_match);
        Self {
            key: which.key.map(|key| key.to_string()).unwrap_or_default(),
            labels: own.chain(criteria).collect(),
        }
    }

    fn filter<'b>(&'b self, which: &Filter) -> memory::Filter<'b> {
        memory::Filter {
            prefix: &self.key,
            labels: &self.labels,
            expired_before: which.expired_before,
            order: Order::Key,
        }
    }
}

impl Criterion {
    fn as_match(&self) -> Match<'_> {
        match self {
            Self::Is(Label { name, value }) => Match::Is { name, value },
            Self::Glob { name, pattern } => Match::Glob { name, pattern },
        }
    }
}

impl Filter {
    fn matches_flight(&self, flight: &Flight) -> bool {
        self.expired_before.is_none()
            && self.key.is_none_or(|key| key == flight.key)
            && Query::of(self)
                .labels
                .iter()
                .all(|criterion| criterion.is_met_by(&flight.labels))
    }
}
