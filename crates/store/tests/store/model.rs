//! Random histories: both memories answer as a model does that knows no index.

mod plain;
mod step;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{ManualClock, Millis};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::{
    GetOrReserve, GetResult, Label, Lease, Order, PutResult, Record, ReserveResult, Stale, Store,
};
use proptest::prelude::*;

use self::plain::{Plain, meets};
use self::step::{Question, START, Step, step};
use crate::open_at;

/// The same history in three memories.
struct History {
    clock: Arc<ManualClock>,
    directory: tempfile::TempDir,
    memories: Vec<Box<dyn Store>>,
    model: BTreeMap<&'static str, Plain>,
    /// Each lease ever given: its space, its key, and what each memory calls it.
    leases: Vec<(&'static str, &'static str, Vec<Lease>)>,
    stored: u64,
}

fn tidy(mut record: Record) -> Record {
    record.labels.sort();
    record
}

fn bare(mut record: Record, question: &Question) -> Record {
    if !question.values {
        record.value = Bytes::new();
    }
    if !question.labelled {
        record.labels.clear();
    }
    record
}

impl History {
    fn new() -> Self {
        let clock = Arc::new(ManualClock::at(START));
        let directory = tempfile::tempdir().unwrap();
        let sqlite = open_at(&directory.path().join("model.db"), &clock);
        let in_process = InProcessStore::new(clock.clone());
        let memories: Vec<Box<dyn Store>> = vec![Box::new(in_process), Box::new(sqlite)];
        Self {
            clock,
            directory,
            memories,
            model: BTreeMap::new(),
            leases: Vec::new(),
            stored: 0,
        }
    }

    fn now(&self) -> Millis {
        cachalot_core::Clock::now(&*self.clock)
    }

    fn plain(&mut self, space: &'static str) -> &mut Plain {
        self.model.entry(space).or_default()
    }

    async fn store(&mut self, space: &'static str, record: Record, under: Option<usize>) {
        self.stored += 1;
        let (now, stored) = (self.now(), self.stored);
        let model = self.model.entry(space).or_default();
        let allowed = under.is_none_or(|number| model.current(&record.key, number));
        let expected = if allowed {
            model.reservations.retain(|held| Some(held.1) != under);
            PutResult::Stored {
                revision: model.put(record.clone(), now, stored),
            }
        } else {
            PutResult::LeaseLost
        };
        for (index, memory) in self.memories.iter().enumerate() {
            let lease = under.map(|number| &self.leases[number].2[index]);
            assert_eq!(
                memory
                    .put(space, record.clone(), lease, &[])
                    .settle()
                    .await
                    .unwrap(),
                expected
            );
        }
    }

    async fn reserve(
        &mut self,
        space: &'static str,
        key: &'static str,
        labels: Vec<Label>,
        hold: u64,
        lookup: Option<Stale>,
    ) {
        let (now, number) = (self.now(), self.leases.len());
        let model = self.model.entry(space).or_default();
        let found = GetResult {
            record: model.record(key),
            counters: Vec::new(),
            now,
        };
        let answered = lookup.is_some_and(|stale| stale.is_answered_by(&found));
        let current = model
            .reservations
            .iter()
            .find(|held| held.0 == key && held.2 > now)
            .cloned();
        let hold = Duration::from_millis(hold);
        let mut given = Vec::new();
        for (index, memory) in self.memories.iter().enumerate() {
            let reserved = match lookup {
                None => memory
                    .reserve(space, key, &labels, hold)
                    .settle()
                    .await
                    .unwrap(),
                Some(stale) => {
                    let request = GetOrReserve {
                        counters: &[],
                        labels: &labels,
                        hold,
                        stale,
                    };
                    let entered = memory
                        .get_or_reserve(space, key, request)
                        .settle()
                        .await
                        .unwrap();
                    assert_eq!(entered.found.record.map(tidy), found.record);
                    assert_eq!(entered.found.now, now);
                    assert_eq!(entered.reserved.is_none(), answered);
                    match entered.reserved {
                        Some(reserved) => reserved,
                        None => continue,
                    }
                }
            };
            match (reserved, &current) {
                (ReserveResult::Held(lease), None) => {
                    let older = self
                        .leases
                        .iter()
                        .filter(|lease| lease.0 == space && lease.1 == key);
                    assert!(
                        older
                            .map(|lease| lease.2[index].fence)
                            .all(|fence| fence < lease.fence)
                    );
                    given.push(lease);
                }
                (ReserveResult::Busy { fence, left }, Some(held)) => {
                    assert_eq!(fence, self.leases[held.1].2[index].fence);
                    assert_eq!(left.as_millis() as Millis, held.2 - now);
                }
                (answer, expected) => panic!("{answer:?}, but {expected:?}"),
            }
        }
        if current.is_none() && !answered {
            model.reservations.retain(|held| held.0 != key);
            model.reservations.push((
                key.to_owned(),
                number,
                now + hold.as_millis() as Millis,
                labels,
            ));
            self.leases.push((space, key, given));
        }
    }

    async fn take(&mut self, step: Step) {
        match step {
            Step::Put {
                space,
                key,
                value,
                labels,
                expires,
            } => {
                let record = Record {
                    labels,
                    expires,
                    ..crate::record(key, value)
                };
                self.store(space, record, None).await;
            }
            Step::PutUnder { lease, value } => {
                if !self.leases.is_empty() {
                    let number = lease.index(self.leases.len());
                    let (space, key, _) = self.leases[number];
                    self.store(space, crate::record(key, value), Some(number))
                        .await;
                }
            }
            Step::Reserve {
                space,
                key,
                labels,
                hold,
            } => self.reserve(space, key, labels, hold, None).await,
            Step::Enter {
                space,
                key,
                stale,
                hold,
            } => {
                self.reserve(space, key, Vec::new(), hold, Some(stale))
                    .await
            }
            Step::Renew { lease, hold } => {
                if !self.leases.is_empty() {
                    let number = lease.index(self.leases.len());
                    let (space, key, now) =
                        (self.leases[number].0, self.leases[number].1, self.now());
                    let model = self.plain(space);
                    let current = model.current(key, number);
                    if current {
                        let held = model
                            .reservations
                            .iter_mut()
                            .find(|held| held.1 == number)
                            .unwrap();
                        held.2 = now + hold as Millis;
                    }
                    for (memory, lease) in self.memories.iter().zip(&self.leases[number].2) {
                        let renewed = memory
                            .renew(lease, Duration::from_millis(hold))
                            .settle()
                            .await
                            .unwrap();
                        assert_eq!(renewed, current);
                    }
                }
            }
            Step::Release { lease } => {
                if !self.leases.is_empty() {
                    let number = lease.index(self.leases.len());
                    self.plain(self.leases[number].0)
                        .reservations
                        .retain(|held| held.1 != number);
                    for (memory, lease) in self.memories.iter().zip(&self.leases[number].2) {
                        memory.release(lease.clone()).settle().await.unwrap();
                    }
                }
            }
            other => self.ask(other).await,
        }
    }

    async fn ask(&mut self, step: Step) {
        match step {
            Step::Get {
                space,
                key,
                counters,
            } => {
                let now = self.now();
                let model = self.plain(space);
                let count = |name: &&str| model.counters.get(*name).copied().unwrap_or(0);
                let expected = GetResult {
                    record: model.record(key),
                    counters: counters.iter().map(count).collect(),
                    now,
                };
                for memory in &self.memories {
                    let found = memory.get(space, key, &counters).settle().await.unwrap();
                    assert_eq!(
                        GetResult {
                            record: found.record.map(tidy),
                            ..found
                        },
                        expected
                    );
                }
            }
            Step::Find { space, question } => {
                let expected = self.plain(space).find(&question);
                for memory in &self.memories {
                    let batch = memory
                        .find(space, &question.filter(), question.page())
                        .settle()
                        .await
                        .unwrap();
                    check(batch, &expected, &question);
                }
            }
            Step::Erase { space, question } => {
                let now = self.now();
                let expected = self.plain(space).erase(&question, now);
                for memory in &self.memories {
                    let batch = memory
                        .erase(space, &question.filter(), question.page())
                        .settle()
                        .await
                        .unwrap();
                    check(batch, &expected, &question);
                }
            }
            Step::Raise { space, counter } => {
                let value = self
                    .plain(space)
                    .counters
                    .entry(counter.to_owned())
                    .or_insert(0);
                *value += 1;
                let value = *value;
                for memory in &self.memories {
                    let raised = memory.add(space, &[(counter, 1)]).settle().await;
                    assert_eq!(raised.unwrap(), [value]);
                }
            }
            Step::Touch { space, used } => {
                for kept in &mut self.plain(space).records {
                    let uses = used
                        .iter()
                        .filter(|(key, _)| *key == kept.record.key)
                        .map(|&(_, at)| at);
                    kept.used = uses.fold(kept.used, Millis::max);
                }
                for memory in &self.memories {
                    memory.touch(space, &used).settle().await.unwrap();
                }
            }
            Step::Usage { space } => {
                let expected = self.plain(space).usage();
                for memory in &self.memories {
                    assert_eq!(memory.usage(space).settle().await.unwrap(), expected);
                }
            }
            Step::Search { query, labels } => {
                let mut answers = Vec::new();
                for memory in &self.memories {
                    let found = memory
                        .recall()
                        .unwrap()
                        .search(query, &labels, 100)
                        .settle()
                        .await
                        .unwrap();
                    let mut records: Vec<Record> =
                        found.into_iter().map(|found| tidy(found.record)).collect();
                    records.sort_by(|one, other| one.key.cmp(&other.key));
                    assert!(records.iter().all(|record| meets(&record.labels, &labels)));
                    answers.push(records);
                }
                assert_eq!(answers[0], answers[1], "{query}");
            }
            Step::Pass(millis) => self.clock.advance(Duration::from_millis(millis)),
            Step::Reopen => {
                self.memories.pop();
                self.memories.push(Box::new(open_at(
                    &self.directory.path().join("model.db"),
                    &self.clock,
                )));
            }
            _ => unreachable!("taken above"),
        }
    }
}

fn check(batch: cachalot_store::RecordPage, expected: &[Record], question: &Question) {
    let full = question.order == Order::Key
        && question.limit > 0
        && expected.len() == question.limit as usize;
    assert_eq!(
        batch.next,
        full.then(|| expected[expected.len() - 1].key.clone())
    );
    let found: Vec<Record> = batch.records.into_iter().map(tidy).collect();
    let expected: Vec<Record> = expected
        .iter()
        .cloned()
        .map(|record| bare(record, question))
        .collect();
    assert_eq!(found, expected, "{question:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn in_process_and_sqlite_stores_agree_with_the_model(steps in prop::collection::vec(step(), 1..120)) {
        crate::run(async {
            let mut history = History::new();
            for step in steps {
                history.take(step).await;
            }
        });
    }
}
