//! Random sequences of what one does with sessions, against a plain model of them.

use std::collections::{BTreeMap, BTreeSet};

use cachalot_model::Message;
use cachalot_model::wire::MESSAGES;
use cachalot_prompt::{ErrorKind, NodeId, PIECES, Prompt, Session, Sessions};
use cachalot_store::{PageRequest, RecordFilter, Store};
use proptest::prelude::*;

use crate::{frozen, head, in_file, in_process, run, said, try_say};

#[derive(Debug, Clone)]
enum Step {
    Create(usize),
    Fork { of: usize, name: usize },
    Open(usize),
    Append { with: usize, text: usize },
    AppendThree { with: usize },
    Retitle { with: usize },
    Remove(usize),
    Sweep,
}

/// Few names and few texts, so that much collides.
fn step() -> impl Strategy<Value = Step> {
    let (name, with) = (0_usize..4, 0_usize..6);
    prop_oneof![
        2 => name.clone().prop_map(Step::Create),
        2 => (with.clone(), name.clone()).prop_map(|(of, name)| Step::Fork { of, name }),
        2 => name.clone().prop_map(Step::Open),
        8 => (with.clone(), 0_usize..3).prop_map(|(with, text)| Step::Append { with, text }),
        1 => with.clone().prop_map(|with| Step::AppendThree { with }),
        1 => with.prop_map(|with| Step::Retitle { with }),
        2 => name.prop_map(Step::Remove),
        1 => Just(Step::Sweep),
    ]
}

const NAMES: [&str; 4] = ["a", "ab", "b-1", "c:2"];

/// The expected state of a session.
#[derive(Debug, Clone)]
struct Plain {
    /// No two states of any session have the same one.
    state: u64,
    prompt: Prompt,
}

#[derive(Default)]
struct ModelState {
    plain: BTreeMap<&'static str, Plain>,
    /// Open sessions, the name of each, and in what state it was seen last.
    open: Vec<(Session, &'static str, u64)>,
    states: u64,
}

impl ModelState {
    fn next(&mut self) -> u64 {
        self.states += 1;
        self.states
    }

    async fn create(&mut self, sessions: &Sessions, name: &'static str, prompt: Prompt) {
        match sessions.create_from(head(name), prompt.clone()).await {
            Ok(session) => {
                let state = self.next();
                let old = self.plain.insert(name, Plain { state, prompt });
                assert!(old.is_none(), "{name} was there");
                self.open.push((session, name, state));
            }
            Err(error) => {
                assert_eq!(error.kind, ErrorKind::Exists);
                assert!(self.plain.contains_key(name));
            }
        }
    }

    /// The expected result of a change of an open session.
    fn expected(&self, name: &str, state: u64) -> Result<(), ErrorKind> {
        match self.plain.get(name) {
            None => Err(ErrorKind::Removed),
            Some(plain) if plain.state != state => Err(ErrorKind::Conflict),
            Some(_) => Ok(()),
        }
    }

    fn changed(&mut self, with: usize) {
        let state = self.next();
        let (session, name, seen) = &mut self.open[with];
        *seen = state;
        let prompt = session.prompt.clone();
        self.plain.insert(name, Plain { state, prompt });
    }

    async fn take(&mut self, sessions: &Sessions, step: Step) {
        match step {
            Step::Create(name) => {
                self.create(sessions, NAMES[name], frozen(&*MESSAGES)).await;
            }
            Step::Fork { of, name } => {
                if let Some((parent, ..)) = self.open.get(of) {
                    let fork = said(&parent.prompt, &*MESSAGES, Message::user("fork"));
                    self.create(sessions, NAMES[name], fork).await;
                }
            }
            Step::Open(name) => {
                let name = NAMES[name];
                // `a` also finds `ab` if that is the only one.
                let found = sessions.open(name).await.unwrap();
                if let Some(session) = found.filter(|session| session.head.id == name) {
                    let state = self.plain[name].state;
                    self.open.push((session, name, state));
                } else {
                    assert!(!self.plain.contains_key(name));
                }
            }
            Step::Append { with, text } => self.append(with, &["x", "y", "z"][text..=text]).await,
            Step::AppendThree { with } => self.append(with, &["x", "y", "x"]).await,
            Step::Retitle { with } => {
                let Some((session, name, state)) = self.open.get_mut(with) else {
                    return;
                };
                session.head.title = Some(format!("title {}", session.prompt.len()));
                let saved = session.save().await.map_err(|error| error.kind);
                let (name, state) = (*name, *state);
                assert_eq!(saved, self.expected(name, state));
                if saved.is_ok() {
                    self.changed(with);
                }
            }
            Step::Remove(name) => {
                let removed = sessions.remove(NAMES[name]).await.unwrap();
                assert_eq!(removed, self.plain.remove(NAMES[name]).is_some());
            }
            Step::Sweep => {
                assert_eq!(sessions.sweep().await.unwrap().pieces, 0);
            }
        }
    }

    async fn append(&mut self, with: usize, texts: &[&str]) {
        let Some((session, name, state)) = self.open.get_mut(with) else {
            return;
        };
        let before = session.prompt.tip();
        let done = if let [text] = texts {
            try_say(session, Message::user(*text)).await
        } else {
            let old = session.prompt.clone();
            session.prompt = texts.iter().fold(old.clone(), |prompt, text| {
                said(&prompt, &*MESSAGES, Message::user(*text))
            });
            let saved = session.save().await;
            if saved.is_err() {
                session.prompt = old;
            }
            saved
        };
        if done.is_err() {
            assert_eq!(session.prompt.tip(), before);
        }
        let (name, state) = (*name, *state);
        assert_eq!(
            done.as_ref().map_err(|error| error.kind).copied(),
            self.expected(name, state)
        );
        if done.is_ok() {
            self.changed(with);
        }
    }

    /// Every session is there byte for byte, and no piece is there that none of them has.
    async fn check(&self, sessions: &Sessions, memory: Option<&dyn Store>) {
        for (name, plain) in &self.plain {
            let session = sessions.open(name).await.unwrap().unwrap();
            same(&session.prompt, &plain.prompt);
        }
        if let Some(memory) = memory {
            let needed: BTreeSet<NodeId> = self
                .plain
                .values()
                .flat_map(|plain| crate::ids(&plain.prompt))
                .collect();
            assert_eq!(pieces(memory).await, needed.len());
        }
    }
}

fn same(one: &Prompt, other: &Prompt) {
    assert_eq!(one.tip(), other.tip());
    for (a, b) in one.nodes().iter().zip(other.nodes()) {
        assert_eq!(
            (a.level, &a.bytes, a.mark_at),
            (b.level, &b.bytes, b.mark_at)
        );
        assert_eq!(a.source, b.source);
    }
}

pub(crate) async fn pieces(memory: &dyn Store) -> usize {
    let filter = RecordFilter {
        prefix: "piece/",
        ..RecordFilter::default()
    };
    let found = memory.find(PIECES, &filter, PageRequest::keys(100_000));
    found.settle().await.unwrap().records.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn sessions_agree_with_a_model(steps in proptest::collection::vec(step(), 1..50)) {
        run(async {
            let (sessions, memory) = in_process();
            let mut world = ModelState::default();
            for step in steps {
                world.take(&sessions, step).await;
                world.check(&sessions, Some(&*memory)).await;
            }
        });
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn sessions_in_a_file_agree_with_a_model(steps in proptest::collection::vec(step(), 30..60)) {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("memory.db");
        run(async {
            let sessions = in_file(&path);
            let mut world = ModelState::default();
            for step in steps {
                world.take(&sessions, step).await;
            }
            world.check(&sessions, None).await;
            drop(sessions);
            // Opened again, everything is still there.
            world.check(&in_file(&path), None).await;
        });
    }
}
