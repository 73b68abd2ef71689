//! Appending and forking.

use std::sync::Arc;

use bytes::Bytes;
use cachalot_model::wire::{Rendered, Wire as _};
use cachalot_model::{Format, Message, Role};
use cachalot_prompt::{Level, Prompt};
use proptest::prelude::*;

use crate::{conversation, frozen, ids, said, small_wire::SmallWire};

const WIRE: SmallWire = SmallWire { apart: true };

#[test]
fn pieces_are_ordered_by_level() {
    let prompt = frozen(&WIRE);
    let levels: Vec<Level> = prompt.nodes().iter().map(|node| node.level).collect();
    assert_eq!(
        levels,
        [Level::Tool, Level::Tool, Level::System, Level::System]
    );
    let depths: Vec<u32> = prompt.nodes().iter().map(|node| node.depth).collect();
    assert_eq!(depths, [0, 1, 2, 3]);
    let bytes: usize = prompt.nodes().iter().map(|node| node.bytes.len()).sum();
    assert_eq!(prompt.bytes(), bytes as u64);
    assert_eq!(prompt.len(), 4);
    assert!(prompt.messages().is_empty());
}

#[test]
fn first_piece_of_a_message_holds_it() {
    let message = Arc::new(Message::new(
        Role::Assistant,
        vec![conversation::call("a"), conversation::call("b")],
    ));
    let pieces = WIRE.message(&message).unwrap();
    let prompt = frozen(&WIRE).append(&pieces, Arc::clone(&message));
    let nodes = prompt.nodes();
    assert_eq!(nodes.len(), 6);
    assert!(Arc::ptr_eq(nodes[4].source.as_ref().unwrap(), &message));
    assert!(nodes[5].source.is_none());
    assert!(Arc::ptr_eq(&prompt.messages()[0], &message));
}

#[test]
fn message_without_pieces_is_kept() {
    let thought = conversation::reasoning(Format::Messages, "hm");
    let prompt = frozen(&WIRE);
    let longer = said(&prompt, &WIRE, Message::new(Role::Assistant, vec![thought]));
    assert_eq!(longer.messages().len(), 1);
    assert_eq!(longer.bytes(), prompt.bytes());
}

#[test]
fn piece_ids_are_equal_exactly_for_equal_pieces() {
    let one = said(&frozen(&WIRE), &WIRE, Message::user("a"));
    let other = said(&frozen(&WIRE), &WIRE, Message::user("a"));
    assert_eq!(ids(&one), ids(&other));
    // The level counts, and so does where one piece ends.
    let piece = |text: &'static [u8]| Rendered {
        bytes: Bytes::from_static(text),
        mark_at: None,
    };
    let tool = Prompt::begin(&[piece(b"{}")], &[]);
    let system = Prompt::begin(&[], &[piece(b"{}")]);
    assert_ne!(tool.tip(), system.tip());
    let two = Prompt::begin(&[piece(b"{}"), piece(b"{}")], &[]);
    assert_ne!(two.tip(), Prompt::begin(&[piece(b"{}{}")], &[]).tip());
}

/// Ids are kept in memories: they must not change between versions.
#[test]
fn piece_ids_are_stable_across_versions() {
    let piece = |text: &'static [u8]| Rendered {
        bytes: Bytes::from_static(text),
        mark_at: None,
    };
    let prompt = Prompt::begin(&[piece(b"{\"a\":1}")], &[piece(b"{\"b\":2}")]);
    assert_eq!(
        prompt.tip().unwrap().to_string(),
        "1ae1826d44745929fda93f9dc35ea638de5d1f82b49dfa9a20049dfa5a6eff31"
    );
}

#[test]
fn fork_shares_pieces_and_does_not_change_its_origin() {
    let prompt = said(&frozen(&WIRE), &WIRE, Message::user("a"));
    let before = ids(&prompt);
    let fork = said(&prompt.clone(), &WIRE, Message::assistant("b"));
    let other = said(&prompt, &WIRE, Message::assistant("c"));
    assert_eq!(ids(&prompt), before);
    assert_eq!(ids(&fork)[..before.len()], before);
    assert_eq!(ids(&other)[..before.len()], before);
    assert_ne!(fork.tip(), other.tip());
    // The pieces are shared, not copied.
    let (ours, theirs) = (prompt.nodes(), fork.nodes());
    assert!(ours.iter().zip(&theirs).all(|(a, b)| std::ptr::eq(*a, *b)));
}

#[test]
fn marker_position_outside_of_the_piece_is_dropped() {
    let piece = Rendered {
        bytes: Bytes::from_static(b"{}"),
        mark_at: Some(3),
    };
    let prompt = Prompt::begin(&[piece], &[]);
    assert_eq!(prompt.nodes()[0].mark_at, None);
}

/// A chain that would need tens of megabytes of stack if each piece dropped the one before.
#[test]
fn long_chain_drops_without_stack_overflow() {
    let dropped = std::thread::Builder::new().stack_size(128 << 10).spawn(|| {
        let message = Arc::new(Message::user("a"));
        let piece = [Rendered {
            bytes: Bytes::from_static(b"{}"),
            mark_at: None,
        }];
        let mut prompt = Prompt::default();
        let mut forks = Vec::new();
        for number in 0..300_000 {
            prompt = prompt.append(&piece, Arc::clone(&message));
            if number % 50_000 == 0 {
                forks.push(prompt.clone());
            }
        }
        drop(forks);
        drop(prompt);
    });
    dropped.unwrap().join().unwrap();
}

/// The last owner drops the chain, on any thread.
#[test]
fn forks_can_be_dropped_by_concurrent_threads() {
    for _ in 0..50 {
        let message = Arc::new(Message::user("a"));
        let mut prompt = Prompt::default();
        for _ in 0..2_000 {
            prompt = prompt.append(&[], Arc::clone(&message));
        }
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let fork = prompt.append(&[], Arc::clone(&message));
                std::thread::Builder::new()
                    .stack_size(128 << 10)
                    .spawn(move || drop(fork))
                    .unwrap()
            })
            .collect();
        drop(prompt);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(Arc::strong_count(&message), 1);
    }
}

proptest! {
    #[test]
    fn messages_are_returned_in_order(messages in conversation::messages(12)) {
        let mut prompt = frozen(&WIRE);
        for message in &messages {
            prompt = said(&prompt, &WIRE, message.clone());
        }
        let came: Vec<Message> = prompt.messages().iter().map(|m| (**m).clone()).collect();
        prop_assert_eq!(came, messages);
    }
}
