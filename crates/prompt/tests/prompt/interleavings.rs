//! What several do at once with sessions that share pieces, step by step in random order, while some
//! of them die: no session may lose a piece.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use cachalot_core::{ManualClock, SecretSet};
use cachalot_model::Message;
use cachalot_model::wire::MESSAGES;
use cachalot_prompt::{ErrorKind, Prompt, Session, Sessions};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::intercepted::{Interceptor, StoreOperation};
use cachalot_store::{Store, StoreReply};
use proptest::prelude::*;
use tokio::sync::Semaphore;

use crate::slow_store::{CallBehavior, SlowStore};
use crate::{frozen, head, model, run, said, try_say};

/// A source of choices, the same for the same seed.
struct Choices(u64);

impl Choices {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % limit as u64).unwrap()
    }
}

type Task = Pin<Box<dyn Future<Output = ()>>>;

/// Polls one task after the other, at random, until all are done. One in `mortality` steps the task
/// dies instead, and so much time passes that what it had reserved lapses.
async fn interleave(
    tasks: Vec<Task>,
    choices: &mut Choices,
    mortality: usize,
    clock: &ManualClock,
) {
    let mut tasks = tasks;
    poll_fn(move |context| {
        for _ in 0..20 {
            if tasks.is_empty() {
                return Poll::Ready(());
            }
            let at = choices.below(tasks.len());
            if mortality > 0 && choices.below(mortality) == 0 {
                drop(tasks.swap_remove(at));
                clock.advance(Duration::from_secs(6));
            } else if tasks[at].as_mut().poll(context).is_ready() {
                drop(tasks.swap_remove(at));
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// What every session must at least have: the ids of what was confirmed. `None`: it was removed, or
/// its removal has begun.
type Confirmed = Arc<Mutex<BTreeMap<String, Option<Prompt>>>>;

fn confirm(confirmed: &Confirmed, session: &Session, prompt: Prompt) {
    let id = session.head.id.clone();
    confirmed.lock().unwrap().insert(id, Some(prompt));
}

/// All tasks use the same few messages, so that equal pieces are written and removed concurrently.
const TEXTS: [&str; 2] = ["a", "b"];

/// Creates a session, talks, opens it anew now and then, and perhaps removes it.
async fn life(
    sessions: Sessions,
    confirmed: Confirmed,
    id: String,
    mut choices: Choices,
    with: usize,
) {
    let mut prompt = frozen(&*MESSAGES);
    for _ in 0..choices.below(3) {
        prompt = said(&prompt, &*MESSAGES, Message::user(TEXTS[choices.below(2)]));
    }
    let Ok(mut session) = sessions.create_from(head(&id), prompt).await else {
        return;
    };
    confirm(&confirmed, &session, session.prompt.clone());
    for _ in 0..with {
        if choices.below(3) == 0 {
            session = sessions.open(&id).await.unwrap().unwrap();
        }
        let messages = session.prompt.messages().len();
        let changed = match choices.below(6) {
            0 if messages > 0 => {
                confirm(&confirmed, &session, session.prompt.without_last(1));
                session.retract(1, serde_json::Map::new()).await
            }
            1 => {
                confirm(&confirmed, &session, session.prompt.frozen());
                session.restart(serde_json::Map::new()).await
            }
            2 => session.save().await,
            _ => try_say(&mut session, Message::user(TEXTS[choices.below(2)])).await,
        };
        match changed {
            Ok(()) => confirm(&confirmed, &session, session.prompt.clone()),
            Err(error) => assert!(
                matches!(error.kind, ErrorKind::Busy | ErrorKind::Removed),
                "{error}"
            ),
        }
    }
    if choices.below(2) == 0 {
        confirmed.lock().unwrap().insert(id.clone(), None);
        sessions.remove(&id).await.unwrap();
    }
}

/// Removes a session that another task created.
async fn removal(sessions: Sessions, confirmed: Confirmed, id: String) {
    confirmed.lock().unwrap().insert(id.clone(), None);
    sessions.remove(&id).await.unwrap();
}

fn story(seed: u64, mortality: usize) {
    run(async {
        let clock = Arc::new(ManualClock::at(1_000));
        let inner: Arc<dyn Store> = Arc::new(InProcessStore::new(clock.clone()));
        let secret_set = Arc::new(SecretSet::empty());
        let plain = Sessions::new(Arc::clone(&inner), clock.clone(), Arc::clone(&secret_set));
        let slow = SlowStore::new(Arc::clone(&inner), |_| CallBehavior::Done).at_pace(seed);
        let sessions = Sessions::new(Arc::new(slow), clock.clone(), secret_set);
        let confirmed = Confirmed::default();
        let mut choices = Choices(seed | 1);
        // What is to be removed shares all that is written meanwhile.
        for id in ["old-1", "old-2"] {
            let prompt = TEXTS.iter().fold(frozen(&*MESSAGES), |prompt, text| {
                said(&prompt, &*MESSAGES, Message::user(*text))
            });
            let session = plain.create_from(head(id), prompt).await.unwrap();
            confirm(&confirmed, &session, session.prompt.clone());
        }
        let mut tasks: Vec<Task> = Vec::new();
        for id in ["old-1", "old-2"] {
            let (sessions, confirmed) = (sessions.clone(), Arc::clone(&confirmed));
            tasks.push(Box::pin(removal(sessions, confirmed, id.to_owned())));
        }
        for number in 0..3 {
            let (sessions, confirmed) = (sessions.clone(), Arc::clone(&confirmed));
            let own = Choices(seed.wrapping_mul(31).wrapping_add(number) | 1);
            let with = choices.below(5);
            tasks.push(Box::pin(life(
                sessions,
                confirmed,
                format!("new-{number}"),
                own,
                with,
            )));
        }
        for _ in 0..choices.below(3) {
            let sessions = sessions.clone();
            tasks.push(Box::pin(async move {
                sessions.sweep().await.unwrap();
            }));
        }
        interleave(tasks, &mut choices, mortality, &clock).await;

        clock.advance(Duration::from_secs(60));
        check(&plain, &confirmed).await;
        plain.sweep().await.unwrap();
        check(&plain, &confirmed).await;
        assert_eq!(
            model::pieces(&*inner).await,
            needed(&plain).await,
            "pieces that nobody needs are left after a sweep"
        );
    });
}

/// Every session that is there can be read, and has what was confirmed.
async fn check(sessions: &Sessions, confirmed: &Confirmed) {
    for summary in sessions.list(&Default::default()).await.unwrap() {
        let session = sessions.open(&summary.id).await.unwrap().unwrap();
        if let Some(Some(known)) = confirmed.lock().unwrap().get(&summary.id) {
            let (has, must) = (crate::ids(&session.prompt), crate::ids(known));
            assert!(has.starts_with(&must), "{}", summary.id);
        }
    }
    let confirmed = confirmed.lock().unwrap().clone();
    for (id, known) in confirmed {
        if known.is_some() {
            assert!(sessions.open(&id).await.unwrap().is_some(), "{id} is lost");
        }
    }
}

async fn needed(sessions: &Sessions) -> usize {
    let mut needed = std::collections::BTreeSet::new();
    for summary in sessions.list(&Default::default()).await.unwrap() {
        let session = sessions.open(&summary.id).await.unwrap().unwrap();
        needed.extend(crate::ids(&session.prompt));
    }
    needed.len()
}

/// Some hundred stories, or as many as `PROPTEST_CASES` says.
fn stories() -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(600),
    }
}

proptest! {
    #![proptest_config(stories())]

    #[test]
    fn concurrent_sessions_lose_no_piece(seed in any::<u64>()) {
        story(seed, 0);
    }

    #[test]
    fn concurrent_sessions_lose_no_piece_despite_crashes(seed in any::<u64>()) {
        story(seed, 60);
    }
}

/// A store whose calls wait until they are permitted.
struct SteppedStore {
    inner: Arc<dyn Store>,
    permits: Semaphore,
}

impl Interceptor for SteppedStore {
    fn inner(&self) -> &dyn Store {
        &*self.inner
    }

    fn intercept<'a, T: Send + 'static>(
        &'a self,
        _: StoreOperation,
        pass: impl FnOnce() -> StoreReply<'a, T> + Send + 'a,
    ) -> StoreReply<'a, T> {
        StoreReply::later(async move {
            self.permits.acquire().await.unwrap().forget();
            pass().settle().await
        })
    }
}

/// A removal queries twice if a piece is needed, each time with two queries. Between those, another session that
/// has the piece makes it its last one.
#[test]
fn piece_that_becomes_the_last_one_between_two_queries_is_not_lost() {
    run(async {
        let (plain, inner) = crate::in_process();
        let stepped = Arc::new(SteppedStore {
            inner,
            permits: Semaphore::new(0),
        });
        let clock = Arc::new(ManualClock::at(0));
        let sessions = Sessions::new(stepped.clone(), clock, Arc::new(SecretSet::empty()));
        let prompt = said(&frozen(&*MESSAGES), &*MESSAGES, Message::user("a"));
        let created = plain.create_from(head("removed"), prompt.clone()).await;
        drop(created.unwrap());
        let kept = plain.create_from(head("kept"), prompt.clone()).await;
        let mut kept = kept.unwrap();
        crate::say(&mut kept, Message::user("b")).await;

        let mut removing = std::pin::pin!(sessions.remove("removed"));
        let mut removed = None;
        for (calls, change) in [
            // The session's record is erased, and sessions are queried.
            (2, "retract"),
            // Pieces are queried; the piece is read and marked, with a new number.
            (4, "append"),
            // Sessions are queried again.
            (1, "retract"),
            // Pieces are queried, and the piece is erased if it has the mark.
            (100, ""),
        ] {
            stepped.permits.add_permits(calls);
            poll_fn(|context| {
                for _ in 0..calls {
                    if removed.is_none()
                        && let Poll::Ready(done) = removing.as_mut().poll(context)
                    {
                        removed = Some(done.unwrap());
                    }
                }
                Poll::Ready(())
            })
            .await;
            match change {
                "retract" => kept.retract(1, serde_json::Map::new()).await.unwrap(),
                "append" => crate::say(&mut kept, Message::user("c")).await,
                _ => {}
            }
        }
        assert_eq!(removed, Some(true));
        let again = plain.open("kept").await.unwrap().unwrap();
        assert_eq!(crate::ids(&again.prompt), crate::ids(&prompt));
    });
}
