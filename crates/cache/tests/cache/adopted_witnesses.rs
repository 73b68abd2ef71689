//! Witnesses of an answer that are passed on to answers built from it.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_cache::{BeginResult, CacheStatus, Observation, Policy, Reason, Witness};
use cachalot_core::Witnesses;

use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, fleet, in_process, product, reported, sqlite,
    test_engine,
};

struct TestDirectory(tempfile::TempDir);

impl TestDirectory {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn holding(text: &str) -> Self {
        let place = Self::new();
        place.write(text);
        place
    }

    fn file(&self) -> PathBuf {
        self.0.path().join("a")
    }

    fn write(&self, text: &str) {
        fs::write(self.file(), text).unwrap();
    }
}

/// Reads a file as a run of the engine would, and gives what travels on the answer.
fn read(path: &Path) -> Witnesses {
    let witness = Witness::default();
    witness.read(path).unwrap();
    witness.witnesses()
}

/// Stores an answer that is built from results.
async fn build(here: &TestEngine, number: usize, parts: &[&Witnesses]) -> Result<(), Reason> {
    let ticket = here
        .lead(&Question::number(number), &Policy::default())
        .await;
    for part in parts {
        ticket.witness().adopt(part);
    }
    ticket.finish(product("built")).await.stored.map(|_| ())
}

async fn status(here: &TestEngine, number: usize) -> CacheStatus {
    here.ask(&Question::number(number), &Policy::default(), "built")
        .await
        .status
}

#[tokio::test]
async fn entry_with_adopted_witnesses_is_stale_after_a_file_change() {
    let (here, place) = (test_engine(), TestDirectory::holding("one"));
    build(&here, 1, &[&read(&place.file())]).await.unwrap();
    assert_eq!(status(&here, 1).await, CacheStatus::Hit);
    place.write("another");
    assert!(matches!(
        status(&here, 1).await,
        CacheStatus::Miss(Reason::Changed(what)) if what.contains("a changed")
    ));
}

#[tokio::test]
async fn change_before_adoption_prevents_storing() {
    let (here, place) = (test_engine(), TestDirectory::holding("one"));
    let seen = read(&place.file());
    place.write("two");
    let stored = build(&here, 1, &[&seen]).await;
    assert!(matches!(stored, Err(Reason::Changed(_))), "{stored:?}");
}

#[tokio::test]
async fn witnesses_with_two_states_of_one_file_prevent_storing() {
    let (here, place) = (test_engine(), TestDirectory::holding("one"));
    let before = read(&place.file());
    place.write("another");
    let after = read(&place.file());
    for parts in [[&before, &after], [&after, &before]] {
        let stored = build(&here, 1, &parts).await;
        assert!(matches!(stored, Err(Reason::Changed(_))), "{stored:?}");
    }
    build(&here, 1, &[&after, &after]).await.unwrap();
}

#[tokio::test]
async fn hit_carries_the_witnesses_of_its_entry() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let engines = [
        EngineBuilder::over(in_process(&clock), &clock).make(),
        EngineBuilder::over(sqlite(&home.path().join("memory"), &clock), &clock).make(),
    ];
    for here in &engines {
        let place = TestDirectory::holding("one");
        build(here, 1, &[&read(&place.file())]).await.unwrap();
        let hit = here
            .through(&Question::number(1), &Policy::default(), |_| async {
                unreachable!("it is a hit")
            })
            .await;
        assert_eq!(hit.status, CacheStatus::Hit);
        build(here, 2, &[&hit.witnesses()]).await.unwrap();
        assert_eq!(status(here, 2).await, CacheStatus::Hit);
        place.write("another");
        assert!(matches!(
            status(here, 2).await,
            CacheStatus::Miss(Reason::Changed(_))
        ));
    }
}

#[tokio::test]
async fn a_follower_inherits_the_witness_of_the_run() {
    let (here, place) = (test_engine(), TestDirectory::holding("one"));
    let question = Question::number(1);
    let leader = here.lead(&question, &Policy::default()).await;
    let own = leader.outcome();
    leader.witness().read(&place.file()).unwrap();
    let call = question.call();
    let policy = Policy::default();
    let joining = here.cache.begin(&call, &policy);
    let finishing = leader.finish(product("answer"));
    let (begun, _) = tokio::join!(joining, finishing);
    let Ok(BeginResult::Served(joined)) = begun else {
        panic!("it was not served")
    };
    assert_eq!(joined.status, CacheStatus::Coalesced);
    joined.settled().await;
    for outcome in [&own, &joined] {
        let items = outcome.witnesses();
        assert_eq!(items.items().unwrap().len(), 1, "{:?}", outcome.status);
    }
    build(&here, 2, &[&joined.witnesses()]).await.unwrap();
    place.write("another");
    assert!(matches!(
        status(&here, 2).await,
        CacheStatus::Miss(Reason::Changed(_))
    ));
}

#[tokio::test]
async fn a_follower_inherits_the_witness_of_another_process() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("memory");
    let clock = clock();
    let engine = || EngineBuilder::over(sqlite(&path, &clock), &clock).make();
    let (here, there) = (engine(), engine());
    let place = TestDirectory::holding("one");
    let question = Question::number(1);
    let leader = there.lead(&question, &Policy::default()).await;
    leader.witness().read(&place.file()).unwrap();
    let waits = |here: TestEngine, question: Question| async move {
        let outcome = here
            .through(&question, &fleet(), |_| async {
                unreachable!("another process answers")
            })
            .await;
        reported(outcome).await.status
    };
    let asking = async {
        let call = question.call();
        let policy = fleet();
        let one = here.cache.begin(&call, &policy);
        let other = here.cache.begin(&call, &policy);
        tokio::join!(one, other)
    };
    let finishing = async {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        leader.finish(product("answer")).await
    };
    let ((one, other), _) = tokio::join!(asking, finishing);
    for begun in [one, other] {
        let Ok(BeginResult::Served(outcome)) = begun else {
            panic!("it was not served")
        };
        outcome.settled().await;
        assert_eq!(outcome.witnesses().items().unwrap().len(), 1);
    }
    assert_eq!(waits(here, question.clone()).await, CacheStatus::Hit);
}

#[tokio::test]
async fn unknown_witnesses_prevent_storing_with_their_reason() {
    let here = test_engine();
    let unknown = Witnesses::unknown("it ran a shell");
    let stored = build(&here, 1, &[&Witnesses::default(), &unknown]).await;
    assert_eq!(stored, Err(Reason::Declined("it ran a shell".to_owned())));
    let foreign = Witnesses::from_item(Arc::new("somebody else's"));
    let stored = build(&here, 1, &[&foreign]).await;
    assert!(
        matches!(&stored, Err(Reason::Declined(why)) if why.contains("cannot be checked")),
        "{stored:?}"
    );
}

#[tokio::test]
async fn incomplete_witness_travels_as_unknown() {
    let witness = Witness::default();
    witness.mark_incomplete("a changed while it was read");
    assert_eq!(
        witness.witnesses().items().unwrap_err(),
        "a changed while it was read"
    );
}

#[tokio::test]
async fn empty_witnesses_always_hold() {
    let here = test_engine();
    let nothing = Witness::default().witnesses();
    assert!(nothing.items().unwrap().is_empty());
    build(&here, 1, &[&nothing]).await.unwrap();
    assert_eq!(status(&here, 1).await, CacheStatus::Hit);
}

#[tokio::test]
async fn witnessed_absence_ends_when_the_file_appears() {
    let (here, place) = (test_engine(), TestDirectory::new());
    let witness = Witness::default();
    witness.observe(Observation::Existence(&place.file()));
    build(&here, 1, &[&witness.witnesses()]).await.unwrap();
    assert_eq!(status(&here, 1).await, CacheStatus::Hit);
    place.write("here");
    assert!(matches!(
        status(&here, 1).await,
        CacheStatus::Miss(Reason::Changed(_))
    ));
}
