//! How much is kept, and who has to go.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{Bounds, How, Policy, Reason};

use crate::doubles::{Double, Op};
use crate::setting::{Making, Question, Setting, clock, eventually, in_process};

fn bounded(bounds: Bounds) -> Setting {
    let clock = clock();
    Making::over(in_process(&clock), &clock)
        .bounds(bounds)
        .make()
}

async fn fill(here: &Setting, numbers: std::ops::Range<usize>, text: &str) {
    for number in numbers {
        here.after(Duration::from_secs(1));
        let told = here
            .ask(&Question::number(number), &Policy::default(), text)
            .await;
        assert!(told.settled.stored.is_ok(), "{told:?}");
    }
}

async fn is_there(here: &Setting, number: usize) -> bool {
    here.cache
        .peek(&Question::number(number).key())
        .await
        .unwrap()
        .is_some()
}

#[tokio::test]
async fn no_more_entries_than_told_the_oldest_go_first() {
    let here = bounded(Bounds {
        entries: 20,
        ..Bounds::default()
    });
    fill(&here, 0..100, "x").await;
    eventually(async || here.cache.usage().await.unwrap().records <= 20).await;
    let records = here.cache.usage().await.unwrap().records;
    assert!(records >= 15, "it keeps close to what it may: {records}");
    assert!(is_there(&here, 99).await && is_there(&here, 90).await);
    assert!(!is_there(&here, 0).await);
}

#[tokio::test]
async fn no_more_bytes_than_told() {
    let here = bounded(Bounds {
        bytes: 100_000,
        ..Bounds::default()
    });
    fill(&here, 0..50, &"x".repeat(9_000)).await;
    eventually(async || here.cache.usage().await.unwrap().bytes <= 100_000).await;
    let usage = here.cache.usage().await.unwrap();
    assert!(usage.bytes > 70_000, "{usage:?}");
    assert!(is_there(&here, 49).await);
}

#[tokio::test]
async fn what_alone_is_larger_than_all_may_be_is_not_stored() {
    let here = bounded(Bounds {
        bytes: 1_000,
        ..Bounds::default()
    });
    let told = here
        .ask(&Question::number(1), &Policy::default(), &"x".repeat(1_001))
        .await;
    assert_eq!(
        told.settled.stored,
        Err(Reason::TooLarge {
            bytes: 1_001,
            limit: 1_000
        })
    );
}

#[tokio::test]
async fn what_is_used_stays() {
    for front_bytes in [0, 1 << 20] {
        let here = bounded(Bounds {
            entries: 20,
            front_bytes,
            ..Bounds::default()
        });
        fill(&here, 0..15, "x").await;
        for number in 15..200 {
            here.after(Duration::from_secs(61));
            assert_eq!(
                here.ask(&Question::number(3), &Policy::default(), "")
                    .await
                    .how,
                How::Hit,
                "at {number}"
            );
            fill(&here, number..number + 1, "x").await;
            tokio::task::yield_now().await;
        }
        assert!(is_there(&here, 3).await);
        assert!(!is_there(&here, 4).await);
    }
}

#[tokio::test]
async fn hits_alone_are_told_to_the_memory_too() {
    let clock = clock();
    let memory = Arc::new(Double::over(in_process(&clock)));
    let here = Making::over(memory.clone(), &clock).make();
    fill(&here, 0..10, "x").await;
    let before = memory.count(Op::Touch);
    for _ in 0..200 {
        here.after(Duration::from_secs(61));
        for number in 0..10 {
            assert_eq!(
                here.ask(&Question::number(number), &Policy::default(), "")
                    .await
                    .how,
                How::Hit
            );
        }
        tokio::task::yield_now().await;
    }
    let told = memory.count(Op::Touch) - before;
    assert!((2..=50).contains(&told), "in batches: {told}");
}

#[tokio::test]
async fn close_tells_what_was_used() {
    let clock = clock();
    let memory = Arc::new(Double::over(in_process(&clock)));
    let here = Making::over(memory.clone(), &clock).make();
    fill(&here, 0..1, "x").await;
    here.after(Duration::from_secs(61));
    here.ask(&Question::number(0), &Policy::default(), "").await;
    here.cache.close().await;
    assert_eq!(memory.count(Op::Touch), 1);
}

#[tokio::test]
async fn a_front_of_any_size_serves_what_the_memory_holds() {
    for front_bytes in [0, 1, 3_000, 1 << 20] {
        let here = bounded(Bounds {
            front_bytes,
            ..Bounds::default()
        });
        for number in 0..50 {
            let text = number.to_string();
            here.ask(&Question::number(number), &Policy::default(), &text)
                .await;
        }
        for number in (0..50).rev().chain(0..50) {
            let told = here
                .ask(&Question::number(number), &Policy::default(), "")
                .await;
            assert_eq!(
                (&told.how, told.text()),
                (&How::Hit, number.to_string().as_str())
            );
        }
    }
}

#[tokio::test]
async fn an_entry_in_the_front_is_served_without_asking_the_memory() {
    let clock = clock();
    let memory = Arc::new(Double::over(in_process(&clock)));
    let here = Making::over(memory.clone(), &clock).make();
    fill(&here, 0..1, "x").await;
    here.ask(&Question::number(0), &Policy::default(), "").await;
    let before = memory.count(Op::Get);
    for _ in 0..100 {
        assert_eq!(
            here.ask(&Question::number(0), &Policy::default(), "")
                .await
                .how,
            How::Hit
        );
    }
    assert_eq!(memory.count(Op::Get), before);

    let memory = Arc::new(Double::over(in_process(&clock)).without_stamps());
    let here = Making::over(memory.clone(), &clock).make();
    fill(&here, 0..1, "x").await;
    let before = memory.count(Op::Get);
    for _ in 0..100 {
        assert_eq!(
            here.ask(&Question::number(0), &Policy::default(), "")
                .await
                .how,
            How::Hit
        );
    }
    assert_eq!(
        memory.count(Op::Get),
        before + 100,
        "without stamps there is no front"
    );
}
