//! Looking into the cache and erasing from it, by what entries are.

use cachalot_core::{Millis, Spend};
use cachalot_memory::{self as memory, Batch, Error, Label, Match, Order, Page, Record, space};

use crate::body::Body;
use crate::engine::{Shared, expired};
use crate::entry::Entry;
use crate::flight::Flight;
use crate::store::NAME_LABEL;
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
    /// What kind of work it answers. Flights are revoked whatever their kind: that costs a store, and
    /// nothing else.
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

/// An entry as it lies there.
pub struct Stored {
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
    /// The answer.
    pub body: Body,
    /// How large the answer is.
    pub bytes: u64,
    /// What making it cost.
    pub spent: Spend,
}

impl Stored {
    fn of(entry: &Entry, now: Millis) -> Self {
        Self {
            key: Key::from_digest(entry.head.key),
            kind: entry.head.kind,
            scope: entry.head.scope.clone(),
            name: entry.head.name.clone(),
            provenance: entry.provenance(),
            expired: expired(entry.head.expires, now),
            body: Body::whole_of(entry.body.clone()),
            bytes: entry.body.bytes.len() as u64,
            spent: entry.head.spent,
        }
    }
}

/// How many records are taken in hand at a time.
const PAGE: u32 = 500;

impl Cache {
    /// Deletes what matches and revokes matching flights, everywhere; afterwards nothing older is
    /// served or stored. Flights of other processes are not stored either, and joined there for no
    /// longer than a second. (A pattern with a `*` before its end revokes flights of this process only.)
    /// With `dry_run`, only tells.
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
        if !dry_run && query.is_exact() {
            let page = Page {
                after: None,
                limit: PAGE,
                values: true,
            };
            loop {
                let batch = memory
                    .erase(space::CACHE, &query.filter(which), page)
                    .settle()
                    .await?;
                let done = batch.records.len() < PAGE as usize;
                erased.add(batch, which);
                if done {
                    return Ok(erased);
                }
            }
        }
        let mut after: Option<String> = None;
        loop {
            let page = Page {
                after: after.as_deref(),
                limit: PAGE,
                values: true,
            };
            let batch = memory
                .find(space::CACHE, &query.filter(which), page)
                .settle()
                .await?;
            after.clone_from(&batch.next);
            let first = erased.entries.len();
            erased.add(batch, which);
            if !dry_run {
                shared.erase_each(&erased.entries[first..]).await?;
            }
            if after.is_none() {
                return Ok(erased);
            }
        }
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
        Ok(entry.map(|entry| Stored::of(&entry, self.0.clock.now())))
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
        let query = Query::of(which);
        let whose = Whose::of(scopes);
        if query.is_exact() {
            let filter = memory::Filter {
                order: Order::Newest,
                ..query.filter(which)
            };
            // Mostly one of the first few is shared by the right people.
            for limit in [1, PAGE] {
                let batch = memory
                    .find(space::CACHE, &filter, Page::first(limit))
                    .settle()
                    .await?;
                let all = batch.records.len() < limit as usize;
                let newest = batch
                    .records
                    .into_iter()
                    .find_map(|record| whose.one(record));
                if newest.is_some() || all {
                    return Ok(newest.map(|entry| Stored::of(&entry, self.0.clock.now())));
                }
            }
        }
        let newest = self.newest_of_all(which, &query, &whose).await?;
        Ok(newest.map(|entry| Stored::of(&entry, self.0.clock.now())))
    }

    /// The newest of those that match, where the memory cannot tell which do.
    async fn newest_of_all(
        &self,
        which: &Filter,
        query: &Query<'_>,
        whose: &Whose,
    ) -> Result<Option<Entry>, Error> {
        let Ok(memory) = self.0.memory() else {
            return Ok(None);
        };
        let mut newest: Option<(Millis, Entry)> = None;
        let mut after: Option<String> = None;
        loop {
            let page = Page {
                after: after.as_deref(),
                limit: PAGE,
                values: true,
            };
            let batch = memory
                .find(space::CACHE, &query.filter(which), page)
                .settle()
                .await?;
            after.clone_from(&batch.next);
            for record in batch.records {
                let updated = record.updated;
                let may_be = newest.as_ref().is_none_or(|(newest, _)| updated >= *newest);
                if may_be
                    && which.matches_labels(&record.labels)
                    && let Some(entry) = whose.one(record)
                    && which.matches_kind(&entry)
                {
                    newest = Some((updated, entry));
                }
            }
            if after.is_none() {
                return Ok(newest.map(|(_, entry)| entry));
            }
        }
    }

    /// Hands every entry that matches to `each`, in the order of keys.
    ///
    /// # Errors
    /// Those of the memory.
    pub async fn each(&self, which: &Filter, mut each: impl FnMut(Stored)) -> Result<(), Error> {
        let Ok(memory) = self.0.memory() else {
            return Ok(());
        };
        let query = Query::of(which);
        let mut after: Option<String> = None;
        loop {
            let page = Page {
                after: after.as_deref(),
                limit: PAGE,
                values: true,
            };
            let batch = memory
                .find(space::CACHE, &query.filter(which), page)
                .settle()
                .await?;
            after.clone_from(&batch.next);
            let now = self.0.clock.now();
            for record in batch.records {
                if which.matches_labels(&record.labels)
                    && let Ok(entry) = Entry::decode(record)
                    && which.matches_kind(&entry)
                {
                    each(Stored::of(&entry, now));
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
        let filter = memory::Filter {
            // Due at this very millisecond is expired.
            expired_before: Some(self.0.clock.now().saturating_add(1)),
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

impl Shared {
    async fn erase_each(&self, entries: &[ErasedEntry]) -> Result<(), Error> {
        let Ok(memory) = self.memory() else {
            return Ok(());
        };
        for entry in entries {
            // All keys have the same length, so that one is a prefix only of itself.
            let filter = memory::Filter {
                prefix: &entry.key,
                ..memory::Filter::default()
            };
            memory
                .erase(space::CACHE, &filter, Page::keys(1))
                .settle()
                .await?;
        }
        Ok(())
    }
}

impl Erased {
    fn add(&mut self, batch: Batch, which: &Filter) {
        let matching = batch
            .records
            .into_iter()
            .filter(|r| which.matches_labels(&r.labels) && which.matches_kind_of(r));
        self.entries.extend(matching.map(|r| ErasedEntry {
            key: r.key,
            labels: r.labels,
        }));
    }
}

/// The scopes whose entries may be seen.
struct Whose(Vec<String>);

impl Whose {
    fn of(scopes: &[Scope]) -> Self {
        Self(scopes.iter().map(Scope::to_string).collect())
    }

    /// The entry, if one of them shares it.
    fn one(&self, record: Record) -> Option<Entry> {
        let entry = Entry::decode(record).ok()?;
        self.0.contains(&entry.head.scope).then_some(entry)
    }
}

/// A filter as the memory understands it.
struct Query<'a> {
    key: String,
    labels: Vec<Match<'a>>,
    exact: bool,
}

impl<'a> Query<'a> {
    fn of(which: &'a Filter) -> Self {
        let mut exact = which.kind.is_none();
        let name = which.name.iter().map(|name| Match::Is {
            name: NAME_LABEL,
            value: name,
        });
        let labels = which.criteria.iter().map(|criterion| match criterion {
            Criterion::Is(label) => Match::Is {
                name: &label.name,
                value: &label.value,
            },
            Criterion::Glob { name, pattern } => match pattern.split_once('*') {
                None => Match::Is {
                    name,
                    value: pattern,
                },
                Some((prefix, rest)) => {
                    exact &= rest.is_empty();
                    Match::Starts { name, prefix }
                }
            },
        });
        let labels = name.chain(labels).collect();
        let key = which.key.map(|key| key.to_string()).unwrap_or_default();
        Self { key, labels, exact }
    }

    fn is_exact(&self) -> bool {
        self.exact
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

impl Filter {
    fn matches_labels(&self, labels: &[Label]) -> bool {
        let has_name = |name: &String| {
            labels
                .iter()
                .any(|label| label.name == NAME_LABEL && &label.value == name)
        };
        self.name.as_ref().is_none_or(has_name)
            && self.criteria.iter().all(|criterion| match criterion {
                Criterion::Is(label) => labels.contains(label),
                Criterion::Glob { name, pattern } => labels
                    .iter()
                    .any(|label| &label.name == name && glob_matches(pattern, &label.value)),
            })
    }

    fn matches_kind(&self, entry: &Entry) -> bool {
        self.kind.is_none_or(|kind| kind == entry.head.kind)
    }

    /// A damaged entry is of no kind.
    fn matches_kind_of(&self, record: &Record) -> bool {
        self.kind.is_none()
            || Entry::decode(record.clone()).is_ok_and(|entry| self.matches_kind(&entry))
    }

    fn matches_flight(&self, flight: &Flight) -> bool {
        self.expired_before.is_none()
            && self.key.is_none_or(|key| key == flight.key)
            && self.matches_labels(&flight.labels)
    }
}

/// `*` stands for any text, everything else for itself.
fn glob_matches(pattern: &str, text: &str) -> bool {
    let Some((prefix, rest)) = pattern.split_once('*') else {
        return pattern == text;
    };
    let Some(mut text) = text.strip_prefix(prefix) else {
        return false;
    };
    let mut parts: Vec<&str> = rest.split('*').collect();
    let Some(suffix) = parts.pop() else {
        return true;
    };
    for part in parts {
        match text.find(part) {
            Some(at) => text = &text[at + part.len()..],
            None => return false,
        }
    }
    text.ends_with(suffix)
}

#[cfg(test)]
mod tests {
    use super::glob_matches;

    #[test]
    fn only_the_star_is_special() {
        for (pattern, text, matches) in [
            ("cache:a:*", "cache:a:x:1", true),
            ("cache:a:*", "cache:ab:x", false),
            ("*", "", true),
            ("*:x:*", "cache:x:1", true),
            ("*:x:*", "cache:y:1", false),
            ("a*b*c", "a1b2c", true),
            ("a*b*c", "a1c2b", false),
            ("a*a", "a", false),
            ("a?c", "abc", false),
            ("a[b]c", "a[b]c", true),
            ("exact", "exact", true),
            ("exact", "exact\n", false),
            ("**", "anything", true),
        ] {
            assert_eq!(
                glob_matches(pattern, text),
                matches,
                "{pattern} on {text:?}"
            );
        }
    }
}
