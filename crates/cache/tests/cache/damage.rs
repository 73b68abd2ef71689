//! Entries that are not what was stored: never an answer, never a panic.

use std::sync::Arc;

use cachalot_cache::{
    CacheBounds, CacheStatus, EntryFilter, Observation, Policy, Reason, RunPolicy,
};
use cachalot_store::{Record, Store, space};
use proptest::prelude::*;

use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, in_domains, in_process, product, reported, testers,
};

const ANSWER: &str = "the answer, and nothing but the answer";

/// An engine without a front, its memory, and an entry with all that an entry can have.
async fn stored() -> (TestEngine, Arc<dyn Store>, Record, tempfile::TempDir) {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock)
        .bounds(CacheBounds {
            front_bytes: 0,
            ..CacheBounds::default()
        })
        .make();
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("a");
    std::fs::write(&path, "content").unwrap();
    let policy = Policy {
        run: RunPolicy {
            ttl: Some(std::time::Duration::from_secs(60)),
            ..in_domains(&["d"]).run
        },
        ..in_domains(&["d"])
    };
    let work = |ticket: cachalot_cache::Ticket| async move {
        ticket.witness().observe(Observation::Content(&path));
        ticket.finish(product(ANSWER)).await;
    };
    reported(here.through(&Question::number(1), &policy, work).await).await;
    let key = Question::number(1).key().to_string();
    let record = memory
        .get(space::CACHE, &key, &[])
        .settle()
        .await
        .unwrap()
        .record
        .unwrap();
    (here, memory, record, home)
}

async fn replace(memory: &Arc<dyn Store>, record: &Record, value: Vec<u8>) {
    let record = Record {
        value: value.into(),
        ..record.clone()
    };
    memory
        .put(space::CACHE, record, None, &[])
        .settle()
        .await
        .unwrap();
}

#[tokio::test]
async fn entry_of_an_unknown_format_is_a_miss_and_is_replaced() {
    let (here, memory, record, _home) = stored().await;
    let policy = in_domains(&["d"]);
    for format in [0, 1, 9, 255] {
        let mut value = record.value.to_vec();
        value[0] = format;
        replace(&memory, &record, value).await;
        assert!(
            here.cache
                .peek(&Question::number(1).key())
                .await
                .unwrap()
                .is_none()
        );
        let reported = here.ask(&Question::number(1), &policy, "new").await;
        assert!(
            matches!(&reported.status, CacheStatus::Miss(Reason::Damaged(status)) if status.contains("format")),
            "{:?}",
            reported.status
        );
        assert!(reported.settled.stored.is_ok());
        assert_eq!(
            here.ask(&Question::number(1), &policy, "").await.text(),
            "new"
        );
    }
}

#[tokio::test]
async fn entry_with_a_flipped_bit_is_not_served() {
    let (here, memory, record, _home) = stored().await;
    for at in 0..record.value.len() * 8 {
        let mut value = record.value.to_vec();
        value[at / 8] ^= 1 << (at % 8);
        replace(&memory, &record, value).await;
        let reported = here
            .ask(&Question::number(1), &in_domains(&["d"]), "run")
            .await;
        assert!(
            matches!(&reported.status, CacheStatus::Miss(Reason::Damaged(_))),
            "bit {at}: {:?}",
            reported.status
        );
        assert_eq!(reported.text(), "run");
    }
}

#[derive(Debug, Clone)]
enum Damage {
    Flip(Vec<(usize, u8)>),
    Cut(usize),
    Grow(Vec<u8>),
    Overwrite(usize, Vec<u8>),
    Exchange(usize, usize, usize),
    Replace(Vec<u8>),
}

impl Damage {
    fn of(&self, value: &[u8]) -> Vec<u8> {
        let mut value = value.to_vec();
        let length = value.len();
        match self {
            Self::Flip(flips) => flips
                .iter()
                .for_each(|(at, with)| value[at % length] ^= with),
            Self::Cut(at) => value.truncate(at % length),
            Self::Grow(more) => value.extend(more),
            Self::Overwrite(at, with) => {
                let at = at % length;
                let end = (at + with.len()).min(length);
                value[at..end].copy_from_slice(&with[..end - at]);
            }
            Self::Exchange(one, other, bytes) => {
                for step in 0..*bytes {
                    value.swap((one + step) % length, (other + step) % length);
                }
            }
            Self::Replace(with) => value.clone_from(with),
        }
        value
    }
}

fn damage() -> impl Strategy<Value = Damage> {
    let bytes = || proptest::collection::vec(any::<u8>(), 0..64);
    prop_oneof![
        proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8).prop_map(Damage::Flip),
        any::<usize>().prop_map(Damage::Cut),
        bytes().prop_map(Damage::Grow),
        (any::<usize>(), bytes()).prop_map(|(at, with)| Damage::Overwrite(at, with)),
        (any::<usize>(), any::<usize>(), 1..40_usize)
            .prop_map(|(a, b, n)| Damage::Exchange(a, b, n)),
        bytes().prop_map(Damage::Replace),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn damaged_entry_never_gives_a_wrong_answer(damages in proptest::collection::vec(damage(), 1..3)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (here, memory, record, _home) = stored().await;
            let value = damages.iter().fold(record.value.to_vec(), |value, damage| {
                if value.is_empty() { value } else { damage.of(&value) }
            });
            let unharmed = value == record.value;
            replace(&memory, &record, value).await;
            let frozen = here.frozen(&Question::number(1)).await;
            assert_eq!(frozen.is_ok(), unharmed);
            let shown = here.cache.peek(&Question::number(1).key()).await.unwrap();
            assert_eq!(shown.is_some(), unharmed);
            here.cache.export(&mut Vec::new(), None).await.unwrap();
            here.cache.newest(&EntryFilter::default(), &testers()).await.unwrap();
            let reported = here.ask(&Question::number(1), &in_domains(&["d"]), "run").await;
            assert_eq!(reported.text(), if unharmed { ANSWER } else { "run" });
            assert!(reported.settled.stored.is_ok());
        });
    }
}
