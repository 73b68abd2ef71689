//! Answers that grow while they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use cachalot_cache::{
    BeginResult, CacheStatus, DecodeError, Decoded, Failure, Outcome, Policy, Reason, RunPolicy,
    RunResult,
};
use cachalot_core::Spend;

use crate::test_engine::{COST, Question, TestEngine, finish, product, test_engine};

fn chunk(number: usize) -> Bytes {
    Bytes::from(format!("chunk {number};"))
}

fn emitted() -> RunResult {
    RunResult {
        value: None,
        ..product("")
    }
}

/// The chunks that a reader gets.
async fn read(outcome: &Outcome) -> Result<Vec<Bytes>, Failure> {
    let mut reader = outcome.body.reader();
    let mut chunks = Vec::new();
    while let Some(chunk) = reader.next().await {
        chunks.push(chunk?);
    }
    assert!(reader.next().await.is_none(), "the end stays the end");
    Ok(chunks)
}

async fn follow(here: &TestEngine, question: &Question) -> Outcome {
    match here
        .cache
        .begin(&question.call(), &Policy::default())
        .await
        .unwrap()
    {
        BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => outcome,
        BeginResult::Run(_) => panic!("it should have been served"),
    }
}

#[tokio::test]
async fn a_late_reader_reads_from_the_first_byte() {
    let here = test_engine();
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    let own = ticket.outcome();
    ticket.emit(chunk(0));
    ticket.emit(chunk(1));
    let late = follow(&here, &question).await;
    assert_eq!(late.status, CacheStatus::Coalesced);
    let reading = tokio::spawn(async move { read(&late).await.unwrap() });
    tokio::task::yield_now().await;
    ticket.emit(chunk(2));
    let later = follow(&here, &question).await;
    let settled = ticket.finish(emitted()).await;
    assert!(settled.stored.is_ok());
    let all = [chunk(0), chunk(1), chunk(2)];
    assert_eq!(reading.await.unwrap(), all);
    assert_eq!(read(&later).await.unwrap(), all);
    assert_eq!(read(&own).await.unwrap(), all);
    assert_eq!(own.body.whole().await.unwrap(), all.concat());
    let hit = follow(&here, &question).await;
    assert_eq!(
        (hit.status.clone(), read(&hit).await.unwrap().concat()),
        (CacheStatus::Hit, all.concat())
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_followers_see_every_byte() {
    let here = test_engine();
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    ticket.emit(chunk(0));
    let followers: Vec<_> = (0..1_000)
        .map(|_| {
            let (here, question) = (here.clone(), question.clone());
            tokio::spawn(async move {
                let outcome = follow(&here, &question).await;
                let chunks = read(&outcome).await.unwrap();
                (
                    chunks.concat(),
                    outcome.status.clone(),
                    outcome.settled().await,
                )
            })
        })
        .collect();
    let expected: Vec<u8> = (0..200).flat_map(|number| chunk(number).to_vec()).collect();
    for number in 1..200 {
        ticket.emit(chunk(number));
        if number % 10 == 0 {
            tokio::task::yield_now().await;
        }
    }
    ticket.finish(emitted()).await;
    for follower in followers {
        let (bytes, status, settled) = follower.await.unwrap();
        assert_eq!(bytes, expected);
        assert!(settled.stored.is_ok());
        assert_eq!((settled.paid, settled.saved), (Spend::default(), COST));
        assert!(matches!(status, CacheStatus::Coalesced | CacheStatus::Hit));
    }
}

#[tokio::test]
async fn dropped_ticket_after_a_chunk_fails_readers_and_stores_nothing() {
    let here = test_engine();
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    let own = ticket.outcome();
    ticket.emit(chunk(0));
    let follower = follow(&here, &question).await;
    drop(ticket);
    for outcome in [&own, &follower] {
        let mut reader = outcome.body.reader();
        assert_eq!(reader.next().await.unwrap().unwrap(), chunk(0));
        assert!(reader.next().await.unwrap().is_err());
        assert!(reader.next().await.is_none());
        assert!(outcome.body.whole().await.is_err());
        assert_eq!(outcome.settled().await.stored, Err(Reason::Abandoned));
    }
    let reported = here.ask(&question, &Policy::default(), "again").await;
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Miss(Reason::Absent), "again")
    );
    assert!(reported.settled.stored.is_ok(), "{:?}", reported.settled);
}

#[tokio::test]
async fn failure_after_a_chunk_reaches_every_reader() {
    let here = test_engine();
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    ticket.emit(chunk(0));
    let follower = follow(&here, &question).await;
    ticket
        .fail(Failure::new(std::io::Error::other("cut off")))
        .await;
    let mut reader = follower.body.reader();
    assert_eq!(reader.next().await.unwrap().unwrap(), chunk(0));
    assert_eq!(
        reader.next().await.unwrap().unwrap_err().to_string(),
        "cut off"
    );
    assert_eq!(follower.settled().await.stored, Err(Reason::Failed));
    assert_eq!(
        here.ask(&question, &Policy::default(), "x").await.status,
        CacheStatus::Miss(Reason::Absent)
    );
}

#[tokio::test]
async fn failure_before_the_first_chunk_reaches_followers() {
    let here = test_engine();
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    let waiting = {
        let (here, question) = (here.clone(), question.clone());
        tokio::spawn(async move { here.ask(&question, &Policy::default(), "ran").await })
    };
    crate::test_engine::settle_down().await;
    ticket
        .fail(Failure::new(std::io::Error::other("no answer")))
        .await;
    let reported = waiting.await.unwrap();
    assert_eq!(
        (reported.status, reported.body),
        (CacheStatus::Coalesced, Err("no answer".into()))
    );
    assert_eq!(here.runs(), 0);
}

#[tokio::test]
async fn run_beyond_the_byte_limit_is_not_stored_nor_joined() {
    let here = test_engine();
    let question = Question::number(1);
    let policy = Policy {
        run: RunPolicy {
            max_bytes: 10,
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let ticket = here.lead(&question, &policy).await;
    let own = ticket.outcome();
    ticket.emit(Bytes::from_static(b"0123456789"));
    let in_time = follow(&here, &question).await;
    ticket.emit(Bytes::from_static(b"+"));
    let other = here.lead(&question, &policy).await;
    ticket.emit(Bytes::from_static(b"more"));
    let settled = ticket.finish(emitted()).await;
    assert_eq!(
        settled.stored,
        Err(Reason::TooLarge {
            bytes: 15,
            limit: 10
        })
    );
    for outcome in [&own, &in_time] {
        assert_eq!(&read(outcome).await.unwrap().concat(), b"0123456789+more");
    }
    assert!(other.finish(product("short")).await.stored.is_ok());
    let reported = here.ask(&question, &policy, "").await;
    assert_eq!(
        (&reported.status, reported.text()),
        (&CacheStatus::Hit, "short")
    );
}

#[tokio::test]
async fn leader_follower_and_hit_receive_payments_and_savings() {
    let here = test_engine();
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    let leader = ticket.outcome();
    ticket.emit(chunk(0));
    let follower = follow(&here, &question).await;
    let finished = ticket.finish(emitted()).await;
    let hit = follow(&here, &question).await;
    let revision = Ok(cachalot_cache::Revision(1));
    for (outcome, paid, saved) in [
        (leader, COST, Spend::default()),
        (follower, Spend::default(), COST),
        (hit, Spend::default(), COST),
    ] {
        let settled = outcome.settled().await;
        assert_eq!(
            (&settled.stored, settled.paid, settled.saved),
            (&revision, paid, saved),
            "{:?}",
            outcome.status
        );
    }
    assert_eq!(
        (finished.stored, finished.paid, finished.saved),
        (revision, COST, Spend::default())
    );
}

#[tokio::test]
async fn answer_may_be_given_at_the_end_without_chunks() {
    let here = test_engine();
    let outcome = here
        .through(&Question::number(1), &Policy::default(), |t| {
            finish(t, product("whole"))
        })
        .await;
    assert_eq!(
        read(&outcome).await.unwrap(),
        [Bytes::from_static(b"whole")]
    );
    let empty = here
        .through(&Question::number(2), &Policy::default(), |t| {
            finish(t, product(""))
        })
        .await;
    assert!(read(&empty).await.unwrap().is_empty());
}

static DECODED: AtomicUsize = AtomicUsize::new(0);

struct Length(usize);

impl Decoded for Length {
    fn weight(&self) -> u64 {
        8
    }
}

fn length(bytes: &[u8]) -> Result<Length, DecodeError> {
    DECODED.fetch_add(1, Ordering::SeqCst);
    std::thread::sleep(std::time::Duration::from_millis(20));
    Ok(Length(bytes.len()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_is_decoded_once_and_shared_by_all_hits() {
    let here = test_engine();
    let question = Question::number(1);
    here.ask(&question, &Policy::default(), "four").await;
    follow(&here, &question).await;
    let decoding: Vec<_> = (0..8)
        .map(|_| {
            let (here, question) = (here.clone(), question.clone());
            tokio::spawn(async move {
                follow(&here, &question)
                    .await
                    .body
                    .decoded(length)
                    .await
                    .unwrap()
            })
        })
        .collect();
    let mut decoded = Vec::new();
    for one in decoding {
        decoded.push(one.await.unwrap());
    }
    assert_eq!(decoded[0].0, 4);
    assert!(decoded.iter().all(|other| Arc::ptr_eq(other, &decoded[0])));
    assert_eq!(DECODED.load(Ordering::SeqCst), 1);

    let other = follow(&here, &question)
        .await
        .body
        .decoded(|bytes| Ok(String::from_utf8_lossy(bytes).into_owned()))
        .await
        .unwrap();
    assert_eq!(*other, "four");
    let no = |_: &[u8]| Err::<String, _>(DecodeError("not this".into()));
    let failure = told_failure(follow(&here, &question).await, no).await;
    assert_eq!(
        failure.to_string(),
        "the answer cannot be decoded: not this"
    );
    assert!(failure.cause::<DecodeError>().is_some());
}

async fn told_failure<T: Decoded>(
    outcome: Outcome,
    decode: fn(&[u8]) -> Result<T, DecodeError>,
) -> Failure {
    match outcome.body.decoded(decode).await {
        Ok(_) => panic!("it was decoded"),
        Err(failure) => failure,
    }
}

#[tokio::test]
async fn readers_do_not_wait_for_the_store_by_default() {
    use crate::faulty_store::{FaultyStore, StoreBehavior};
    use cachalot_store::intercepted::StoreOperation;
    let clock = crate::test_engine::clock();
    let faulty_store = Arc::new(FaultyStore::over(crate::test_engine::in_process(&clock)));
    let here = crate::test_engine::EngineBuilder::over(faulty_store.clone(), &clock).make();
    faulty_store.now(|op| {
        if op == StoreOperation::Put {
            StoreBehavior::Hang
        } else {
            StoreBehavior::Pass
        }
    });
    let patient = Policy {
        run: RunPolicy {
            lookup_timeout: Some(std::time::Duration::from_secs(3_600)),
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let outcome = here
        .through(&Question::number(1), &patient, |t| {
            finish(t, product("now"))
        })
        .await;
    assert_eq!(&outcome.body.whole().await.unwrap()[..], b"now");
}
