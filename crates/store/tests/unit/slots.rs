//! Unit tests of `src/slots.rs`.

use super::*;
use std::collections::HashSet;

#[test]
fn slot_numbers_are_stable() {
    let slots = [
        ("cache", ""),
        ("cache", "a"),
        ("user", "a"),
        ("cache", "0123456789abcdef!"),
    ];
    assert_eq!(
        slots.map(|(space, name)| slot(space, name)),
        [6284, 3594, 1273, 3230]
    );
    assert_ne!(slot("cache", "a"), slot("user", "a"));
}

#[test]
fn names_are_distributed_over_the_slots() {
    let used: HashSet<_> = (0..SLOTS)
        .map(|i| slot("cache", &format!("cache:agent:{i:064x}")))
        .collect();
    // A random function leaves a share of 1/e empty.
    assert!(used.len() > SLOTS * 60 / 100, "{}", used.len());
}
