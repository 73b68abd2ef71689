//! Counters.

use std::sync::Arc;

use super::{SPACE, Subject, erase, put, record};
use crate::Filter;

/// From nothing, by one.
pub async fn counters_count(subject: Subject) {
    for expected in 1..=5 {
        assert_eq!(
            subject.other().raise(SPACE, "one").settle().await.unwrap(),
            expected
        );
        assert_eq!(
            subject
                .memory
                .get(SPACE, "x", &["one"])
                .settle()
                .await
                .unwrap()
                .counters,
            [expected]
        );
    }
    assert_eq!(
        subject.memory.raise(SPACE, "On%").settle().await.unwrap(),
        1
    );
    assert_eq!(
        subject
            .memory
            .raise("elsewhere", "one")
            .settle()
            .await
            .unwrap(),
        1
    );
}

/// In the order asked for, as often as asked for, with or without a record.
pub async fn counters_come_with_the_record(subject: Subject) {
    let memory = &*subject.memory;
    put(memory, SPACE, record("key")).await;
    for (name, times) in [("a", 1), ("b", 2), ("c", 3)] {
        for _ in 0..times {
            memory.raise(SPACE, name).settle().await.unwrap();
        }
    }
    let asked = ["c", "never", "a", "c", "b"];
    for (key, there) in [("key", true), ("nothing", false)] {
        let found = memory.get(SPACE, key, &asked).settle().await.unwrap();
        assert_eq!(found.record.is_some(), there);
        assert_eq!(found.counters, [3, 0, 1, 3, 2]);
    }
    let many: Vec<String> = (0..100).map(|number| format!("counter {number}")).collect();
    memory.raise(SPACE, &many[42]).settle().await.unwrap();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    let found = memory.get(SPACE, "key", &many).settle().await.unwrap();
    assert_eq!(
        (
            found.counters.len(),
            found.counters[42],
            found.counters.iter().sum::<u64>()
        ),
        (100, 1, 1)
    );
}

/// They are not records.
pub async fn counters_survive_an_erase(subject: Subject) {
    let memory = &*subject.memory;
    put(memory, SPACE, record("key")).await;
    memory.raise(SPACE, "key").settle().await.unwrap();
    assert_eq!(erase(memory, SPACE, Filter::default()).await, ["key"]);
    assert_eq!(memory.raise(SPACE, "key").settle().await.unwrap(), 2);
}

/// Sixteen tasks: every value is returned once.
pub async fn concurrent_raises_are_all_counted(subject: Subject) {
    let tasks: Vec<_> = (0..16)
        .map(|task| {
            let memory = Arc::clone(if task % 2 == 0 {
                &subject.memory
            } else {
                subject.other()
            });
            tokio::spawn(async move {
                let mut values = Vec::new();
                for _ in 0..10 {
                    values.push(memory.raise(SPACE, "counter").settle().await.unwrap());
                }
                values
            })
        })
        .collect();
    let mut values = Vec::new();
    for task in tasks {
        values.extend(task.await.unwrap());
    }
    values.sort_unstable();
    assert_eq!(values, (1..=160).collect::<Vec<u64>>());
}
