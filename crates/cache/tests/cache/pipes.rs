//! Runs whose answers are not stored any more: no caller joins them, and chunks are freed when they are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{
    BeginResult, BodyReader, CacheMode, CacheStatus, Failure, OrphanPolicy, Outcome, Policy,
    Reason, RunPolicy, RunResult, Ticket,
};

use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, in_mode, product, settle_down, sqlite, test_engine,
};

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Counts the bytes of its chunks that are in memory.
#[derive(Clone, Default)]
struct Memory(Arc<AtomicUsize>);

struct Chunk {
    bytes: Vec<u8>,
    memory: Memory,
}

impl AsRef<[u8]> for Chunk {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        self.memory.0.fetch_sub(self.bytes.len(), Ordering::SeqCst);
    }
}

impl Memory {
    fn chunk(&self, sign: u8, length: usize) -> Bytes {
        self.0.fetch_add(length, Ordering::SeqCst);
        Bytes::from_owner(Chunk {
            bytes: vec![sign; length],
            memory: self.clone(),
        })
    }

    fn used(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

fn emitted() -> RunResult {
    RunResult {
        value: None,
        ..product("")
    }
}

fn refused() -> Reason {
    Reason::Declined("status 500".into())
}

async fn follow(here: &TestEngine, question: &Question) -> Outcome {
    let policy = Policy::default();
    match here.cache.begin(&question.call(), &policy).await.unwrap() {
        BeginResult::Served(outcome) | BeginResult::Stale { outcome, .. } => outcome,
        BeginResult::Run(_) => panic!("it should have been served"),
    }
}

/// Reads the rest; returns the first byte of each chunk.
async fn rest(reader: &mut BodyReader) -> Result<Vec<u8>, Failure> {
    let mut signs = Vec::new();
    while let Some(chunk) = reader.next().await {
        signs.push(chunk?[0]);
    }
    Ok(signs)
}

async fn is_waiting(ticket: &Ticket) -> bool {
    let room = tokio::time::timeout(Duration::from_millis(1), ticket.room());
    room.await.is_err()
}

#[tokio::test(start_paused = true)]
async fn declined_answer_is_freed_as_it_is_read_and_not_joined() {
    let here = test_engine();
    let (question, memory) = (Question::number(1), Memory::default());
    let ticket = here.lead(&question, &Policy::default()).await;
    let mut own = ticket.outcome().body.into_reader();
    ticket.emit(memory.chunk(b'a', KIB));
    let follower = follow(&here, &question).await;
    let settled = follower.settled();
    let mut follower = follower.body.into_reader();
    assert!(!ticket.is_pipe());
    own.next().await.unwrap().unwrap();
    follower.next().await.unwrap().unwrap();
    assert_eq!(memory.used(), KIB, "a caller may join");
    ticket.decline(refused());
    ticket.decline(Reason::Off);
    assert!(ticket.is_pipe());
    assert_eq!(memory.used(), 0);
    let other = here.lead(&question, &Policy::default()).await;
    for sign in [b'b', b'c'] {
        ticket.emit(memory.chunk(sign, KIB));
    }
    own.next().await.unwrap().unwrap();
    assert_eq!(memory.used(), 2 * KIB);
    follower.next().await.unwrap().unwrap();
    assert_eq!(memory.used(), KIB);
    drop(follower);
    assert_eq!(memory.used(), KIB, "one reader has not read it");
    let reported = ticket.finish(emitted()).await;
    assert_eq!(reported.stored, Err(refused()));
    assert_eq!(rest(&mut own).await.unwrap(), b"c");
    assert_eq!((memory.used(), settled.await.stored), (0, Err(refused())));
    assert!(other.finish(product("short")).await.stored.is_ok());
    let report = here.ask(&question, &Policy::default(), "").await;
    assert_eq!(
        (&report.status, report.text()),
        (&CacheStatus::Hit, "short")
    );
}

#[tokio::test(start_paused = true)]
async fn body_that_is_held_keeps_everything() {
    let here = test_engine();
    let memory = Memory::default();
    for mode in [CacheMode::Off, CacheMode::On] {
        let policy = Policy {
            run: RunPolicy {
                max_bytes: 1,
                ..in_mode(mode).run
            },
            ..in_mode(mode)
        };
        let ticket = here.lead(&Question::number(1), &policy).await;
        assert_eq!(ticket.is_pipe(), mode == CacheMode::Off);
        let body = ticket.outcome().body;
        for sign in *b"abc" {
            ticket.emit(memory.chunk(sign, MIB));
            assert!(!is_waiting(&ticket).await);
        }
        assert!(ticket.is_pipe());
        let mut first = body.reader();
        assert_eq!(first.next().await.unwrap().unwrap()[0], b'a');
        let waiting = tokio::spawn({
            let body = body.clone();
            async move { body.whole().await.unwrap().len() }
        });
        settle_down().await;
        let settled = ticket.finish(emitted()).await;
        assert!(settled.stored.is_err());
        assert_eq!(rest(&mut first).await.unwrap(), b"bc");
        assert_eq!(waiting.await.unwrap(), 3 * MIB);
        assert_eq!(rest(&mut body.into_reader()).await.unwrap(), b"abc");
        drop(first);
        assert_eq!(memory.used(), 0);
    }
}

#[tokio::test]
async fn a_bypass_needs_no_memory_without_readers() {
    let here = test_engine();
    let (question, memory) = (Question::number(1), Memory::default());
    let ticket = here
        .cache
        .bypass(&question.call(), &Policy::default(), refused());
    ticket.emit(memory.chunk(b'a', KIB));
    ticket.room().await;
    assert_eq!(memory.used(), 0);
    let late = ticket.outcome().body;
    ticket.finish(emitted()).await;
    let failure = late.reader().next().await.unwrap().unwrap_err();
    assert!(failure.to_string().contains("too slowly"), "{failure}");
    assert!(late.whole().await.is_err());
}

#[tokio::test]
async fn value_of_a_pipe_without_chunks_reaches_its_reader() {
    let here = test_engine();
    let ticket = here
        .lead(&Question::number(1), &in_mode(CacheMode::Off))
        .await;
    let mut reader = ticket.outcome().body.into_reader();
    ticket.finish(product("whole")).await;
    assert_eq!(&reader.next().await.unwrap().unwrap()[..], b"whole");
    assert!(reader.next().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn room_waits_for_the_fastest_reader() {
    let here = test_engine();
    let memory = Memory::default();
    let ticket = here.lead(&Question::number(1), &Policy::default()).await;
    let [mut fast, mut slow] = [(); 2].map(|()| ticket.outcome().body.into_reader());
    ticket.emit(memory.chunk(b'a', 2 * MIB));
    assert!(!is_waiting(&ticket).await, "it may be stored");
    ticket.decline(refused());
    assert!(is_waiting(&ticket).await);
    slow.next().await.unwrap().unwrap();
    assert!(!is_waiting(&ticket).await, "one of them has read it");
    fast.next().await.unwrap().unwrap();
    ticket.emit(memory.chunk(b'b', MIB));
    assert!(is_waiting(&ticket).await);
    let waiting = async {
        ticket.room().await;
        memory.used()
    };
    let reading = async {
        settle_down().await;
        fast.next().await.unwrap().unwrap();
    };
    assert_eq!(tokio::join!(waiting, reading).0, MIB);
    drop(fast);
    assert!(is_waiting(&ticket).await, "the other one has not read it");
    let leaving = async {
        settle_down().await;
        drop(slow);
    };
    tokio::join!(ticket.room(), leaving);
    assert_eq!(memory.used(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_reader_fails_and_slows_no_other() {
    const LIMIT: usize = 2 * MIB;
    const LENGTH: usize = 64 * KIB;
    let here = test_engine();
    let memory = Memory::default();
    let policy = Policy {
        run: RunPolicy {
            max_bytes: LIMIT as u64,
            orphan: OrphanPolicy::Finish {
                within: Duration::from_secs(3_600),
            },
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let peak = Arc::new(AtomicUsize::new(0));
    let (emitting, used, highest) = (memory.clone(), memory.clone(), Arc::clone(&peak));
    let (start, started) = tokio::sync::oneshot::channel();
    let work = move |ticket: Ticket| async move {
        ticket.emit(emitting.chunk(b'x', 1));
        started.await.unwrap();
        for number in 0..400 {
            ticket.room().await;
            ticket.emit(emitting.chunk(number as u8, LENGTH));
            highest.fetch_max(used.used(), Ordering::SeqCst);
        }
        ticket.finish(emitted()).await;
    };
    let outcome = here.through(&Question::number(1), &policy, work).await;
    let mut stalled = outcome.body.reader();
    let settled = outcome.settled();
    let mut fast = outcome.body.into_reader();
    for reader in [&mut stalled, &mut fast] {
        reader.next().await.unwrap().unwrap();
    }
    start.send(()).unwrap();
    let signs = rest(&mut fast).await.unwrap();
    assert_eq!(
        signs,
        (0..400).map(|number| number as u8).collect::<Vec<_>>()
    );
    assert_eq!(
        settled.await.stored,
        Err(Reason::TooLarge {
            bytes: (400 * LENGTH + 1) as u64,
            limit: LIMIT as u64
        })
    );
    // Two chunks more: the one that is added, and the one that its reader still has.
    let peak = peak.load(Ordering::SeqCst);
    assert!(peak <= LIMIT + 4 * LENGTH, "{peak}");
    assert_eq!(memory.used(), 0, "nothing is kept for the stalled reader");
    let failure = stalled.next().await.unwrap().unwrap_err();
    assert!(failure.to_string().contains("too slowly"), "{failure}");
    assert!(stalled.next().await.is_none());
}

#[tokio::test]
async fn reader_may_read_what_a_held_body_has_kept() {
    let here = test_engine();
    let memory = Memory::default();
    let ticket = here.lead(&Question::number(1), &Policy::default()).await;
    let body = ticket.outcome().body;
    let mut reader = body.reader();
    ticket.decline(refused());
    // More than the limit of the policy.
    for sign in *b"abc" {
        ticket.emit(memory.chunk(sign, 40 * MIB));
    }
    assert_eq!(memory.used(), 120 * MIB);
    let mut other = body.into_reader();
    ticket.emit(memory.chunk(b'd', MIB));
    assert_eq!(reader.next().await.unwrap().unwrap()[0], b'a');
    // One of them is farther behind than at that time.
    ticket.emit(memory.chunk(b'e', MIB));
    assert!(other.next().await.unwrap().is_err());
    assert_eq!(memory.used(), 82 * MIB);
    ticket.finish(emitted()).await;
    assert_eq!(rest(&mut reader).await.unwrap(), b"bcde");
}

#[tokio::test(start_paused = true)]
async fn run_that_only_a_stalled_reader_is_left_of_is_abandoned() {
    let here = test_engine();
    let memory = Memory::default();
    let policy = Policy {
        run: RunPolicy {
            max_bytes: 1,
            orphan: OrphanPolicy::Finish {
                within: Duration::from_secs(3_600),
            },
            ..RunPolicy::default()
        },
        ..Policy::default()
    };
    let ticket = here.lead(&Question::number(1), &policy).await;
    let stalled = ticket.outcome().body.into_reader();
    ticket.emit(memory.chunk(b'a', 2 * MIB));
    let left = tokio::time::timeout(Duration::from_secs(1), ticket.abandoned());
    assert!(left.await.is_err());
    ticket.emit(memory.chunk(b'b', 1));
    // A pipe does not go on for callers that might come: at once.
    let began = tokio::time::Instant::now();
    ticket.abandoned().await;
    assert_eq!((began.elapsed(), memory.used()), (Duration::ZERO, 0));
    drop(stalled);
    let held = ticket.outcome();
    drop(held);
    ticket.abandoned().await;
}

#[tokio::test]
async fn lease_of_a_declined_run_is_free_for_other_processes() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let process = || EngineBuilder::over(sqlite(&home.path().join("db"), &clock), &clock).make();
    let (here, there) = (process(), process());
    let question = Question::number(1);
    let ticket = here.lead(&question, &Policy::default()).await;
    let own = ticket.outcome();
    ticket.decline(refused());
    let report = there
        .ask(&question, &crate::test_engine::fleet(), "there")
        .await;
    assert!(report.settled.stored.is_ok(), "{:?}", report.settled);
    ticket.finish(product("here")).await;
    assert_eq!(&own.body.whole().await.unwrap()[..], b"here");
    let report = here.ask(&question, &Policy::default(), "").await;
    assert_eq!(
        (&report.status, report.text()),
        (&CacheStatus::Hit, "there")
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_come_and_go_see_every_chunk_of_a_pipe() {
    let here = test_engine();
    let memory = Memory::default();
    let ticket = here.lead(&Question::number(1), &Policy::default()).await;
    let expected: Vec<u8> = (0..=255).cycle().take(2_000).collect();
    let readers: Vec<_> = (0..20)
        .map(|number| {
            let (mut reader, expected) = (ticket.outcome().body.into_reader(), expected.clone());
            tokio::spawn(async move {
                // Some leave early.
                let chunks = if number % 3 == 0 { 100 * number } else { 2_000 };
                for expected in &expected[..chunks] {
                    let chunk = reader.next().await.unwrap().unwrap();
                    assert_eq!(chunk[0], *expected);
                }
                if chunks == 2_000 {
                    assert!(reader.next().await.is_none());
                }
            })
        })
        .collect();
    for (number, sign) in expected.iter().enumerate() {
        if number == 50 {
            ticket.decline(refused());
        }
        ticket.room().await;
        ticket.emit(memory.chunk(*sign, 8 * KIB));
    }
    ticket.finish(emitted()).await;
    for reader in readers {
        reader.await.unwrap();
    }
    assert_eq!(memory.used(), 0);
}
