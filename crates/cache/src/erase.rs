//! Looking into the cache and erasing from it, by what entries are.

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
    /// It has this label.
    Is(Label),
    /// It has a label of this name whose value matches: `*` stands for any text, everything else for itself.
    Glob {
        /// The label's name.
        name: String,
        /// The pattern, for the whole value.
        pattern: String,
    },
}

/// Which entries: all criteria hold. The default matches every entry.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// The entry of this key.
    pub key: Option<Key>,
    /// What kind of work it answers.
    pub kind: Option<Kind>,
    /// What was called.
    pub name: Option<String>,
    /// What its labels say.
    pub criteria: Vec<Criterion>,
    /// Only entries whose time was over at this moment.
    pub expired_before: Option<Millis>,
}

/// What was erased, or would be.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Erased {
    /// The entries.
    pub entries: Vec<ErasedEntry>,
    /// Runs of this process whose answers are not stored any more.
    pub revoked: usize,
}

/// An entry that was erased, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ErasedEntry {
    /// Its key in the memory.
    pub key: String,
    /// By what it was found.
    pub labels: Vec<Label>,
}

/// What is known of an entry without its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its key.
    pub key: Key,
    /// What kind of work it answers.
    pub kind: Kind,
    /// Who may share it.
    pub scope: String,
    /// What was called.
    pub name: String,
    /// Where it comes from.
    pub provenance: Provenance,
    /// Whether its time is over.
    pub expired: bool,
    /// How large the answer is.
    pub bytes: u64,
    /// What making it cost.
    pub spent: Spend,
}

/// An entry as it lies there.
pub struct Stored {
    /// All but the answer.
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

/// How many records are taken in hand at a time.
const PAGE: u32 = 500;

/// So much of a value nearly always holds the head of the entry.
const BEGINNING: u32 = 4_096;

impl Cache {
    /// Deletes what matches and revokes matching flights, everywhere; afterwards nothing older is
    /// served or stored. Flights of other processes are not stored either, and joined there for no
    /// longer than a second. With `dry_run`, only tells. Reads no answers.
    ///
    /// # Errors
    /// Those of the memory; what was erased before the fault stays erased.
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

    /// The entry as it lies there, expired or not; counts as no call.
    ///
    /// # Errors
    /// Those of the memory. A damaged entry is no entry.
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

    /// The newest entry that matches, expired or not, of those that these scopes share: nobody is
    /// shown what belongs to a scope that they did not name. Counts as no call.
    ///
    /// # Errors
    /// Those of the memory. A damaged entry is no entry.
    pub async fn newest(&self, which: &Filter, scopes: &[Scope]) -> Result<Option<Stored>, Error> {
        let Ok(memory) = self.0.memory() else {
            return Ok(None);
        };
        // Entries of before have no label of their kind.
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
        // Mostly one of the first few is shared by the right people.
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

    /// Hands what is known of every entry that matches to `each`, in the order of keys. Reads no answers
    /// but short ones.
    ///
    /// # Errors
    /// Those of the memory.
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

    /// Erases entries whose time is over, at most `limit` of them; returns how many.
    ///
    /// # Errors
    /// Those of the memory.
    pub async fn sweep(&self, limit: Option<u32>) -> Result<u64, Error> {
        let Ok(memory) = self.0.memory() else {
            return Ok(0);
        };
        self.0.learn_time().await?;
        let filter = memory::Filter {
            // Due at this very millisecond is expired.
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

    /// How much the cache holds, expired entries included.
    ///
    /// # Errors
    /// Those of the memory.
    pub async fn usage(&self) -> Result<memory::Usage, Error> {
        match self.0.memory() {
            Ok(memory) => memory.usage(space::CACHE).settle().await,
            Err(_) => Ok(memory::Usage::default()),
        }
    }
}

/// A page with as much of each value as holds the head of an entry.
fn beginnings(after: Option<&str>, limit: u32) -> Page<'_> {
    Page {
        after,
        values: Values::First(BEGINNING),
        ..Page::labels(limit)
    }
}

impl Shared {
    /// Asks the memory for its time.
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
            // All keys have the same length, so that one is a prefix only of itself.
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

    /// The entries of a kind that match otherwise, and have no label of their kind: they were stored by
    /// a version that gave them none.
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

    /// What a record with the beginning of its value says; `None` if it is damaged.
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

/// A filter as the memory understands it.
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
