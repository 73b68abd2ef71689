//! Memories that fail, appends that are cancelled, and processes that leave their right to write behind.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use cachalot_core::{Digest, ManualClock, SecretSet};
use cachalot_model::Message;
use cachalot_model::wire::MESSAGES;
use cachalot_prompt::{PIECES, SESSIONS, Sessions};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::{Label, PutResult, Record, ReserveResult, Store};

use crate::model::pieces;
use crate::slow_store::{CallBehavior, SlowStore};
use crate::{frozen, head, ids, run, run_paused, said, say, try_say};

/// The write lease of a dead process lapses.
#[test]
fn write_lease_of_a_dead_process_expires() {
    run_paused(async {
        let clock = Arc::new(ManualClock::at(0));
        let memory: Arc<dyn Store> = Arc::new(InProcessStore::new(clock.clone()));
        let sessions = Sessions::new(
            Arc::clone(&memory),
            clock.clone(),
            Arc::new(SecretSet::empty()),
        );
        let mut session = sessions.create(head("one")).await.unwrap();
        let hold = Duration::from_secs(5);
        let held = memory.reserve(SESSIONS, "one", &[], hold).settle().await;
        assert!(matches!(held, Ok(ReserveResult::Held(_))));
        let saving = session.save();
        let mut passing = std::pin::pin!(async {
            tokio::time::sleep(Duration::from_millis(20)).await;
            clock.advance(hold);
        });
        let mut saving = std::pin::pin!(saving);
        let mut passed = false;
        std::future::poll_fn(|context| {
            passed = passed || passing.as_mut().poll(context).is_ready();
            let done = saving.as_mut().poll(context);
            if done.is_ready() {
                assert!(passed, "it did not wait");
            }
            done
        })
        .await
        .unwrap();
    });
}

/// Sessions in a memory that fails as told, the same without failures, their clock, and the memory
/// behind.
fn doubled(
    decide: impl Fn(u64) -> CallBehavior + Send + Sync + 'static,
) -> (Sessions, Sessions, Arc<ManualClock>, Arc<dyn Store>) {
    let clock = Arc::new(ManualClock::at(0));
    let inner: Arc<dyn Store> = Arc::new(InProcessStore::new(clock.clone()));
    let slow_store = Arc::new(SlowStore::new(Arc::clone(&inner), decide));
    let secret_set = Arc::new(SecretSet::empty());
    (
        Sessions::new(slow_store, clock.clone(), Arc::clone(&secret_set)),
        Sessions::new(Arc::clone(&inner), clock.clone(), secret_set),
        clock,
        inner,
    )
}

/// One call that fails, once it is said which.
struct Failing {
    calls: AtomicU64,
    at: AtomicU64,
}

impl Failing {
    fn never() -> Arc<Self> {
        Arc::new(Self {
            calls: AtomicU64::new(0),
            at: AtomicU64::new(u64::MAX),
        })
    }

    /// The behavior of every call, and of the one that fails.
    fn with(
        self: &Arc<Self>,
        fate: CallBehavior,
    ) -> impl Fn(u64) -> CallBehavior + Send + Sync + 'static {
        let this = Arc::clone(self);
        move |number| {
            this.calls.fetch_add(1, Ordering::SeqCst);
            if number == this.at.load(Ordering::SeqCst) {
                fate
            } else {
                CallBehavior::Done
            }
        }
    }

    fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// The call that fails is the one behind so many more.
    fn after(&self, calls: u64) {
        self.at.store(self.calls() + calls, Ordering::SeqCst);
    }

    /// No further call fails.
    fn stop(&self) {
        self.at.store(u64::MAX, Ordering::SeqCst);
    }
}

/// The memory fails at any one call of an append, before or after doing it, whether the session was
/// just created or opened again: the session is as it was, can go on (with the same message, another
/// one, or none), and is read back as it then is.
#[test]
fn failed_append_is_not_part_of_the_session() {
    let ends = ["same", "other", "nothing"];
    for (opened, fate) in [
        (false, CallBehavior::Refused),
        (false, CallBehavior::Unheard),
        (true, CallBehavior::Refused),
        (true, CallBehavior::Unheard),
    ] {
        for what in ends {
            let failed = (0..24).filter(|at| run(fails_once(opened, fate, *at, what)));
            assert_eq!(failed.count(), 1, "calls that could fail");
        }
    }
}

/// The call `at` of an append fails, if there is such a call; whether the append did.
async fn fails_once(opened: bool, fate: CallBehavior, at: u64, what: &str) -> bool {
    let failing = Failing::never();
    let (sessions, plain, clock, _) = doubled(failing.with(fate));
    let prompt = frozen(&*MESSAGES);
    let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
    say(&mut session, Message::user("a")).await;
    if opened {
        session = sessions.open("one").await.unwrap().unwrap();
    }
    let before = ids(&session.prompt);
    failing.after(at);
    let done = try_say(&mut session, Message::assistant("b")).await.is_ok();
    failing.stop();
    // If it was not heard that it got the right to write, that has to lapse.
    clock.advance(Duration::from_secs(6));
    if !done {
        assert_eq!(ids(&session.prompt), before);
    }
    // Perhaps it was made, and then what only the old state needs may go.
    plain.sweep().await.unwrap();
    match what {
        _ if done => {}
        "same" => say(&mut session, Message::assistant("b")).await,
        "other" => say(&mut session, Message::assistant("c")).await,
        _ => session.save().await.unwrap(),
    }
    plain.sweep().await.unwrap();
    let again = plain.open("one").await.unwrap().unwrap();
    assert_eq!(ids(&again.prompt), ids(&session.prompt), "{at}");
    say(&mut session, Message::user("d")).await;
    plain.sweep().await.unwrap();
    let again = plain.open("one").await.unwrap().unwrap();
    assert_eq!(ids(&again.prompt), ids(&session.prompt), "{at}");
    !done
}

/// A restart fails at any one call, before or after doing it, and the pieces that the store then does not
/// need are erased: the session can go on.
#[test]
fn failed_restart_is_not_part_of_the_session() {
    for fate in [CallBehavior::Refused, CallBehavior::Unheard] {
        let mut failed = 0;
        for at in 0..24 {
            let failing = Failing::never();
            let (sessions, plain, clock, _) = doubled(failing.with(fate));
            run(async {
                let prompt = frozen(&*MESSAGES);
                let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
                say(&mut session, Message::user("a")).await;
                let before = ids(&session.prompt);
                failing.after(at);
                let restarted = session.restart(serde_json::Map::new()).await;
                failing.stop();
                clock.advance(Duration::from_secs(6));
                plain.sweep().await.unwrap();
                if restarted.is_err() {
                    failed += 1;
                    assert_eq!(ids(&session.prompt), before);
                }
                for text in ["b", "c"] {
                    say(&mut session, Message::user(text)).await;
                    plain.sweep().await.unwrap();
                    let again = plain.open("one").await.unwrap().unwrap();
                    assert_eq!(ids(&again.prompt), ids(&session.prompt), "call {at}");
                }
            });
        }
        assert_eq!(failed, 1, "calls that could fail");
    }
}

/// An append is dropped after any number of steps: the same.
#[test]
fn cancelled_append_is_not_part_of_the_session() {
    for what in ["same", "other", "nothing"] {
        let mut cancelled = 0;
        for steps in 0..60 {
            run(async {
                let clock = Arc::new(ManualClock::at(0));
                let inner: Arc<dyn Store> = Arc::new(InProcessStore::new(clock.clone()));
                let slow_store =
                    Arc::new(SlowStore::new(Arc::clone(&inner), |_| CallBehavior::Done));
                let secret_set = Arc::new(SecretSet::empty());
                let sessions = Sessions::new(slow_store, clock.clone(), Arc::clone(&secret_set));
                let plain = Sessions::new(inner, clock.clone(), secret_set);
                let prompt = frozen(&*MESSAGES);
                let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
                say(&mut session, Message::user("a")).await;
                let before = ids(&session.prompt);
                let done = {
                    let mut appending =
                        std::pin::pin!(try_say(&mut session, Message::assistant("b")));
                    let mut left = steps;
                    std::future::poll_fn(|context| {
                        if left == 0 {
                            return std::task::Poll::Ready(false);
                        }
                        left -= 1;
                        context.waker().wake_by_ref();
                        appending.as_mut().poll(context).map(|done| done.is_ok())
                    })
                    .await
                };
                if done {
                    return;
                }
                cancelled += 1;
                // Its right to write may be nobody's now; then it has to lapse.
                clock.advance(Duration::from_secs(6));
                assert_eq!(ids(&session.prompt), before);
                match what {
                    "same" => say(&mut session, Message::assistant("b")).await,
                    "other" => say(&mut session, Message::assistant("c")).await,
                    _ => session.save().await.unwrap(),
                }
                plain.sweep().await.unwrap();
                let again = plain.open("one").await.unwrap().unwrap();
                assert_eq!(ids(&again.prompt), ids(&session.prompt), "{steps}");
            });
        }
        assert!(cancelled >= 3, "only {cancelled} could be cancelled");
    }
}

#[test]
fn append_is_one_store_call() {
    let counting = Failing::never();
    let (sessions, ..) = doubled(counting.with(CallBehavior::Done));
    run(async {
        let prompt = frozen(&*MESSAGES);
        sessions.create_from(head("one"), prompt).await.unwrap();
        let mut session = sessions.open("one").await.unwrap().unwrap();
        let mut calls = Vec::new();
        for text in ["a", "b", "c"] {
            let before = counting.calls();
            say(&mut session, Message::user(text)).await;
            calls.push(counting.calls() - before);
        }
        assert_eq!(calls, [1, 1, 1]);
    });
}

/// The cleanup after a restart fails at any one of its calls: the next append does it again, by another process,
/// too.
#[test]
fn failed_cleanup_is_repeated_by_the_next_append() {
    for is_reopened in [false, true] {
        let mut failed = 0;
        for at in 0..24 {
            let failing = Failing::never();
            let (sessions, plain, _, memory) = doubled(failing.with(CallBehavior::Refused));
            run(async {
                let prompt = frozen(&*MESSAGES);
                let mut session = sessions.create_from(head("one"), prompt).await.unwrap();
                say(&mut session, Message::user("a")).await;
                say(&mut session, Message::user("b")).await;
                let all = session.prompt.len();
                // The write, then the cleanup.
                failing.after(1 + at);
                session.restart(serde_json::Map::new()).await.unwrap();
                let left = pieces(&*memory).await;
                failed += u64::from(left > session.prompt.len());
                failing.stop();
                if is_reopened {
                    session = plain.open("one").await.unwrap().unwrap();
                }
                say(&mut session, Message::user("c")).await;
                if left == all {
                    assert_eq!(pieces(&*memory).await, session.prompt.len(), "call {at}");
                }
                // A piece whose following piece was erased before the failure is left for a sweep.
                plain.sweep().await.unwrap();
                assert_eq!(pieces(&*memory).await, session.prompt.len(), "call {at}");
            });
        }
        assert!(failed >= 6, "only {failed} calls could fail");
    }
}

async fn put(memory: &dyn Store, space: &str, record: Record) {
    let put = memory.put(space, record, None, &[]).settle().await;
    assert!(matches!(put, Ok(PutResult::Stored { .. })), "{put:?}");
}

/// Stores a session as earlier versions did: a pin refers to the last piece, the record has its
/// number, and a crash left another pin.
async fn store_with_pin(memory: &dyn Store, id: &str, number: u64) {
    let found = memory.get(SESSIONS, id, &[]).settle().await.unwrap();
    let mut record = found.record.unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&record.value[17..]).unwrap();
    let object = json.as_object_mut().unwrap();
    object.remove("instance");
    object.insert("pin".to_owned(), number.into());
    let json = serde_json::to_vec(&json).unwrap();
    let checksum = Digest::sha256(&json);
    record.value = [&record.value[..1], &checksum.as_bytes()[..16], &json]
        .concat()
        .into();
    let tip = record.labels.iter().position(|label| label.name == "tip");
    let tip = record.labels.remove(tip.unwrap());
    let pin = Record {
        key: format!("pin/{id}/{number:020}"),
        value: Bytes::new(),
        labels: vec![Label::new("parent", tip.value)],
        ..record.clone()
    };
    let void = Record {
        key: format!("pin/{id}/{:020}", number + 1),
        ..pin.clone()
    };
    put(memory, SESSIONS, record).await;
    put(memory, PIECES, pin).await;
    put(memory, PIECES, void).await;
}

/// Sessions of earlier versions keep their pieces, and their pins are erased with the first change: an append, a
/// save of other data, or a restart.
#[test]
fn sessions_of_earlier_versions_continue() {
    for change in ["append", "save", "restart", "remove"] {
        let (sessions, memory) = crate::in_process();
        run(async {
            let prompt = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
            for id in ["one", "fork"] {
                let created = sessions.create_from(head(id), prompt.clone()).await;
                drop(created.unwrap());
                store_with_pin(&*memory, id, 10_000).await;
            }
            let all = || async { memory.usage(PIECES).settle().await.unwrap().records };
            assert_eq!(all().await, prompt.len() as u64 + 4);
            // One of the pins of each is void.
            assert_eq!(sessions.sweep().await.unwrap().pieces, 0);
            assert_eq!(all().await, prompt.len() as u64 + 2);
            let mut session = sessions.open("one").await.unwrap().unwrap();
            match change {
                "append" => say(&mut session, Message::assistant("b")).await,
                "save" => session.save().await.unwrap(),
                "restart" => session.restart(serde_json::Map::new()).await.unwrap(),
                _ => assert!(sessions.remove("one").await.unwrap()),
            }
            let longest = prompt.len() + usize::from(change == "append");
            assert_eq!(all().await, longest as u64 + 1, "{change}");
            assert!(sessions.remove("fork").await.unwrap());
            assert_eq!(sessions.sweep().await.unwrap().pieces, 0);
            let left = sessions.open("one").await.unwrap();
            let length = left.as_ref().map_or(0, |session| session.prompt.len());
            assert_eq!(all().await, length as u64, "{change}");
            if let Some(left) = left {
                assert_eq!(ids(&left.prompt), ids(&session.prompt));
            }
        });
    }
}
