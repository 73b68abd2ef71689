//! The tree of prompts.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cachalot_core::{DigestKey, ManualClock, SecretSet};
use cachalot_model::Message;
use cachalot_model::wire::MESSAGES;
use cachalot_prompt::{
    ErrorKind, Level, NodeId, PIECES, PrefixTree, PrefixTreeBuilder, Prompt, PromptEnd, SESSIONS,
    SessionFilter, Sessions,
};
use cachalot_store::in_process::InProcessStore;
use cachalot_store::{PageRequest, Record, RecordFilter, Store};

use crate::slow_store::{CallBehavior, SlowStore};
use crate::{frozen, head, ids, in_process, run, said, say};

fn talk(prompt: &Prompt, texts: &[&str]) -> Prompt {
    texts.iter().fold(prompt.clone(), |prompt, text| {
        said(&prompt, &*MESSAGES, Message::user(*text))
    })
}

fn names(ends: &[PromptEnd]) -> Vec<&str> {
    ends.iter().map(|end| end.name.as_str()).collect()
}

/// The last run that two runs have before them or are themselves.
fn meet(tree: &PrefixTree, mut one: usize, mut other: usize) -> Option<usize> {
    while one != other {
        // A run stands behind its parent.
        let later = if one > other { &mut one } else { &mut other };
        *later = tree.runs[*later].parent.filter(|parent| parent < later)?;
    }
    Some(one)
}

/// The number of pieces that two prompts share, by the tree.
fn common(tree: &PrefixTree, one: (usize, &PromptEnd), other: (usize, &PromptEnd)) -> u64 {
    meet(tree, one.0, other.0).map_or(0, |meet| {
        let run = &tree.runs[meet];
        let all = run.pieces_before + run.pieces;
        all.min(one.1.pieces).min(other.1.pieces)
    })
}

/// The tree has each prefix of these prompts once, and says of them what is so.
pub(crate) fn is_that_of(tree: &PrefixTree, prompts: &[(String, Prompt)]) {
    let chains: BTreeMap<&str, Vec<NodeId>> = prompts
        .iter()
        .map(|(name, prompt)| (name.as_str(), ids(prompt)))
        .collect();
    let ends: Vec<(usize, &PromptEnd)> = tree
        .runs
        .iter()
        .enumerate()
        .flat_map(|(at, run)| run.ends.iter().map(move |end| (at, end)))
        .collect();
    assert_eq!(ends.len() + tree.empty.len(), prompts.len());
    for one in &ends {
        assert_eq!(one.1.pieces, chains[&*one.1.name].len() as u64);
        for other in &ends {
            let pairs = chains[&*one.1.name].iter().zip(&chains[&*other.1.name]);
            let same = pairs.take_while(|(one, other)| one == other).count();
            assert_eq!(common(tree, *one, *other), same as u64);
        }
    }
    let continued = |chain: &[NodeId]| {
        let mut others = chains.values();
        others.any(|other| other.len() > chain.len() && other.starts_with(chain))
    };
    let expected: BTreeSet<&str> = chains
        .iter()
        .filter(|(_, chain)| !chain.is_empty() && !continued(chain))
        .map(|(name, _)| *name)
        .collect();
    let leaves: Vec<&str> = tree.leaves().flat_map(names).collect();
    assert_eq!(leaves.iter().copied().collect::<BTreeSet<_>>(), expected);
    assert_eq!(tree.leaves().count() as u64, tree.sharing.leaves);
    for (at, run) in tree.runs.iter().enumerate() {
        assert_ne!(
            run.children.len(),
            1,
            "a run ends where something branches off"
        );
        assert!(
            run.children
                .iter()
                .all(|child| tree.runs[*child].parent == Some(at))
        );
        let below: u64 = run
            .children
            .iter()
            .map(|child| tree.runs[*child].prompts)
            .sum();
        assert_eq!(run.prompts, run.ends.len() as u64 + below);
    }
    let nodes = prompts.iter().flat_map(|(_, prompt)| prompt.nodes());
    let once: BTreeMap<NodeId, u64> = nodes
        .map(|node| (node.id, node.bytes.len() as u64))
        .collect();
    let sharing = tree.sharing;
    assert_eq!(sharing.pieces, once.len() as u64);
    assert_eq!(sharing.stored_bytes, once.values().sum::<u64>());
    assert_eq!(
        tree.runs.iter().map(|run| run.bytes).sum::<u64>(),
        sharing.stored_bytes
    );
    let sent: u64 = prompts.iter().map(|(_, prompt)| prompt.bytes()).sum();
    assert_eq!(sharing.sent_bytes, sent);
    assert_eq!(sharing.prompts, prompts.len() as u64);
}

fn forest(prompts: &[(String, Prompt)]) -> PrefixTree {
    let mut forest = PrefixTreeBuilder::default();
    for (name, prompt) in prompts {
        forest.insert(name, prompt);
    }
    forest.tree()
}

#[test]
fn prompts_become_runs_with_texts_and_sizes() {
    let begun = frozen(&*MESSAGES);
    let long = "  one two\n three four five six seven eight nine ten eleven twelve thirteen";
    let first = talk(&begun, &[long, "b", "c", "d"]);
    let inner = talk(&begun, &[long]);
    let second = talk(&inner, &["b", "other"]);
    let mut forest = PrefixTreeBuilder::default();
    for (name, prompt) in [("first", &first), ("second", &second), ("inner", &inner)] {
        forest.insert(name, prompt);
    }
    forest.insert("nothing", &Prompt::default());
    forest.insert("again", &second);
    let tree = forest.tree();
    assert_eq!(tree.runs.len(), 3);
    let trunk = &tree.runs[0];
    assert_eq!(trunk.levels, (Level::Tool, Level::Message));
    assert_eq!((trunk.pieces, trunk.messages, trunk.prompts), (6, 2, 4));
    assert_eq!(
        trunk.words.as_deref(),
        Some("one two three four five six seven eight nine ten eleven twel…")
    );
    assert_eq!(trunk.children, [1, 2]);
    assert_eq!(names(&trunk.ends), ["inner"]);
    assert_eq!(trunk.ends[0].pieces, 5);
    assert_eq!(trunk.ends[0].bytes, inner.bytes());
    let tokens: u64 = first.nodes()[..6]
        .iter()
        .map(|node| node.bytes.len().div_ceil(4) as u64)
        .sum();
    assert_eq!(trunk.tokens, tokens);
    let branch = &tree.runs[1];
    assert_eq!(branch.levels, (Level::Message, Level::Message));
    assert_eq!((branch.pieces_before, branch.messages_before), (6, 2));
    assert_eq!((branch.pieces, branch.words.as_deref()), (2, Some("c")));
    assert_eq!(names(&branch.ends), ["first"]);
    assert_eq!(names(&tree.runs[2].ends), ["second", "again"]);
    assert_eq!(tree.empty, ["nothing"]);
    let leaves: Vec<Vec<&str>> = tree.leaves().map(names).collect();
    assert_eq!(leaves, [vec!["first"], vec!["second", "again"]]);
    assert_eq!((meet(&tree, 1, 2), meet(&tree, 0, 2)), (Some(0), Some(0)));
    let sharing = tree.sharing;
    assert_eq!((sharing.prompts, sharing.leaves, sharing.pieces), (5, 2, 9));
    let stored = first.bytes() + (second.bytes() - tree.runs[0].bytes);
    assert_eq!(sharing.stored_bytes, stored);
    assert_eq!(
        sharing.shared_bytes(),
        second.bytes() + inner.bytes() + trunk.bytes
    );
    let ratio = sharing.sent_bytes as f64 / stored as f64;
    assert!((sharing.dedup_ratio() - ratio).abs() < 1e-12 && ratio > 2.0);
}

#[test]
fn prompts_with_different_beginnings_have_separate_roots() {
    let one = talk(&frozen(&*MESSAGES), &["a"]);
    let other = talk(&Prompt::default(), &["a"]);
    let tree = forest(&[("one".into(), one), ("other".into(), other)]);
    assert_eq!(tree.runs.len(), 2);
    assert_eq!(meet(&tree, 0, 1), None);
    assert_eq!(tree.sharing.shared_bytes(), 0);
    assert!((tree.sharing.dedup_ratio() - 1.0).abs() < 1e-12);
    let nothing = PrefixTreeBuilder::default().tree();
    assert_eq!((nothing.runs.len(), nothing.leaves().count()), (0, 0));
    assert!((nothing.sharing.dedup_ratio() - 1.0).abs() < 1e-12);
}

/// A conversation that is asked something aside at every turn: as deep as it is long.
#[test]
fn deep_tree_is_built_without_recursion() {
    let mut forest = PrefixTreeBuilder::default();
    let mut main = Prompt::default();
    for turn in 0..20_000 {
        main = talk(&main, &[&turn.to_string()]);
        forest.insert(&format!("aside {turn}"), &talk(&main, &["aside"]));
    }
    forest.insert("main", &main);
    let tree = forest.tree();
    assert_eq!(tree.sharing.leaves, 20_000);
    let last = tree.runs.len() - 1;
    assert_eq!(last, 2 * 19_999);
    // The last question aside continues the whole conversation.
    assert_eq!(names(&tree.runs[last].ends), ["main", "aside 19999"]);
    assert_eq!(meet(&tree, 1, last), Some(0));
}

#[test]
fn stored_sessions_become_the_same_tree() {
    run(async {
        let (sessions, _) = in_process();
        let mut main = sessions
            .create_from(head("b"), frozen(&*MESSAGES))
            .await
            .unwrap();
        say(&mut main, Message::user("a question")).await;
        let mut fork = head("a");
        fork.agent = "reviewer".to_owned();
        fork.parent = Some("b".to_owned());
        let mut fork = sessions
            .create_from(fork, main.prompt.clone())
            .await
            .unwrap();
        say(&mut fork, Message::user("a review")).await;
        say(&mut main, Message::assistant("an answer")).await;
        sessions.create(head("c")).await.unwrap();
        let tree = sessions.tree(&SessionFilter::default()).await.unwrap();
        let prompts = [
            ("a".to_owned(), fork.prompt.clone()),
            ("b".to_owned(), main.prompt.clone()),
            ("c".to_owned(), Prompt::default()),
        ];
        is_that_of(&tree, &prompts);
        assert_eq!(tree.runs, forest(&prompts).runs);
        assert_eq!(tree.empty, ["c"]);
        assert_eq!(tree.runs[0].words.as_deref(), Some("a question"));
        // Some of them only.
        let listing = SessionFilter {
            agent: Some("reviewer"),
            ..SessionFilter::default()
        };
        let tree = sessions.tree(&listing).await.unwrap();
        is_that_of(&tree, &prompts[..1]);
        assert_eq!(tree.runs.len(), 1);
    });
}

/// However many sessions share a piece.
#[test]
fn every_piece_is_read_once_from_the_store() {
    let clock = Arc::new(ManualClock::at(0));
    let calls = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&calls);
    let memory = SlowStore::new(Arc::new(InProcessStore::new(clock.clone())), move |_| {
        counted.fetch_add(1, Ordering::SeqCst);
        CallBehavior::Done
    });
    let sessions = Sessions::new(Arc::new(memory), clock, Arc::new(SecretSet::empty()));
    run(async {
        let begun = talk(&frozen(&*MESSAGES), &["a"; 50]);
        for fork in 0..20 {
            let prompt = talk(&begun, &[&fork.to_string()]);
            sessions
                .create_from(head(&format!("fork-{fork}")), prompt)
                .await
                .unwrap();
        }
        calls.store(0, Ordering::SeqCst);
        let tree = sessions.tree(&SessionFilter::default()).await.unwrap();
        assert_eq!(tree.sharing.pieces, 4 + 50 + 20);
        // The list, each session's record, each piece.
        assert_eq!(calls.load(Ordering::SeqCst), 1 + 20 + tree.sharing.pieces);
    });
}

pub(crate) async fn records(memory: &dyn Store, space: &str) -> Vec<Record> {
    let filter = RecordFilter::default();
    let found = memory.find(space, &filter, PageRequest::first(100_000));
    let mut records = found.settle().await.unwrap().records;
    records.retain(|record| !record.value.is_empty());
    records
}

/// Damaged sessions are listed as such; the others are unaffected.
#[test]
fn damaged_sessions_are_listed_and_do_not_affect_others() {
    run(async {
        let (sessions, memory) = in_process();
        let mut prompts = Vec::new();
        for (id, text) in [("one", "a"), ("other", "b")] {
            let mut session = sessions
                .create_from(head(id), frozen(&*MESSAGES))
                .await
                .unwrap();
            say(&mut session, Message::user(text)).await;
            say(&mut session, Message::user("same")).await;
            prompts.push((id.to_owned(), session.prompt.clone()));
        }
        let sound = sessions.tree(&SessionFilter::default()).await.unwrap();
        is_that_of(&sound, &prompts);
        let mut damages = 0;
        for space in [SESSIONS, PIECES] {
            for record in records(&*memory, space).await {
                for at in [0, record.value.len() / 2, record.value.len() - 1] {
                    let mut value = record.value.to_vec();
                    value[at] ^= 0x40;
                    let damaged = Record {
                        value: value.into(),
                        ..record.clone()
                    };
                    memory
                        .put(space, damaged, None, &[])
                        .settle()
                        .await
                        .unwrap();
                    let tree = sessions.tree(&SessionFilter::default()).await.unwrap();
                    let bad: Vec<&str> = tree.unreadable.iter().map(|(id, _)| &**id).collect();
                    assert!(!bad.is_empty(), "{}", record.key);
                    for (id, error) in &tree.unreadable {
                        assert!(matches!(error.kind, ErrorKind::Damaged | ErrorKind::TooNew));
                        assert!(sessions.open(id).await.is_err());
                    }
                    let whole: Vec<_> = prompts
                        .iter()
                        .filter(|(id, _)| !bad.contains(&&**id))
                        .cloned()
                        .collect();
                    is_that_of(&tree, &whole);
                    damages += bad.len();
                }
                memory.put(space, record, None, &[]).settle().await.unwrap();
            }
        }
        // Two heads, two times two pieces of one session, four that both have; each three times.
        assert_eq!(damages, 3 * (2 + 4 + 2 * 4));
        let again = sessions.tree(&SessionFilter::default()).await.unwrap();
        assert_eq!(again.runs, sound.runs);
    });
}

#[test]
fn secrets_in_the_texts_of_a_run_are_masked() {
    let secret_set = SecretSet::with_key(DigestKey::new([7; 32]));
    secret_set.learn("hunter2hunter2");
    let key = "sk-proj-abcdEFGH1234567890abcdEFGH1234567890";
    let mut forest = PrefixTreeBuilder::new(Arc::new(secret_set));
    for text in [
        format!("{key} is my key"),
        // It would be cut in two.
        format!("{} {key}", "word ".repeat(10)),
        "log in with hunter2hunter2 please".to_owned(),
    ] {
        forest.insert("one", &talk(&frozen(&*MESSAGES), &[&text]));
    }
    let words: Vec<String> = forest
        .tree()
        .runs
        .into_iter()
        .filter_map(|run| run.words)
        .collect();
    assert_eq!(words.len(), 3, "{words:?}");
    for words in &words {
        assert!(
            !words.contains("sk-p") && !words.contains("hunter2"),
            "{words}"
        );
        assert!(words.contains("[secret"), "{words}");
    }
}
