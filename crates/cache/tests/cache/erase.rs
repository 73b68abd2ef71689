//! Looking into the cache, and erasing from it.

use std::sync::Arc;
use std::time::Duration;

use cachalot_cache::{EntryFilter, EraseReport, LabelCriterion, Policy, Reason, RunPolicy, Scope};
use cachalot_store::{Label, LabelMatch, PageRequest, Record, ReserveResult, Store, space};

use crate::faulty_store::{FaultyStore, StoreBehavior};
use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, fleet, in_process, product, settle_down, sqlite,
    tagged, test_engine, testers,
};
use cachalot_store::intercepted::StoreOperation;

fn tag(value: &str) -> LabelCriterion {
    LabelCriterion::Is(Label::new("tag", value))
}

fn glob(pattern: &str) -> LabelCriterion {
    LabelCriterion::Glob {
        name: "tag".into(),
        pattern: pattern.into(),
    }
}

fn by(criterion: LabelCriterion) -> EntryFilter {
    EntryFilter {
        criteria: vec![criterion],
        ..EntryFilter::default()
    }
}

/// The tags of what was erased, sorted.
fn tags(erased: &EraseReport) -> Vec<&str> {
    let labels = erased
        .entries
        .iter()
        .flat_map(|entry| &entry.labels)
        .filter(|label| label.name == "tag");
    let mut tags: Vec<&str> = labels.map(|label| label.value.as_str()).collect();
    tags.sort_unstable();
    tags
}

/// Entries 0, 1, 2 … under these tags.
async fn fill(here: &TestEngine, tags: &[&str]) {
    for (number, tag) in tags.iter().enumerate() {
        let reported = here
            .ask(&Question::number(number), &tagged(&[tag]), tag)
            .await;
        assert!(reported.settled.stored.is_ok());
    }
}

async fn left(here: &TestEngine) -> u64 {
    here.cache.usage().await.unwrap().records
}

#[tokio::test]
async fn erase_by_key_removes_one_entry() {
    let here = test_engine();
    fill(&here, &["a", "b", "c"]).await;
    let which = EntryFilter {
        key: Some(Question::number(1).key()),
        ..EntryFilter::default()
    };
    assert_eq!(tags(&here.cache.erase(&which, false).await.unwrap()), ["b"]);
    assert_eq!(
        tags(&here.cache.erase(&which, false).await.unwrap()),
        [""; 0]
    );
    assert_eq!(
        here.ask(&Question::number(1), &Policy::default(), "new")
            .await
            .text(),
        "new"
    );
    assert_eq!(
        here.ask(&Question::number(0), &Policy::default(), "")
            .await
            .text(),
        "a"
    );
}

#[tokio::test]
async fn erase_selects_by_label_name_and_pattern() {
    let all = [
        "cache:a:x:1",
        "cache:a:x:2",
        "cache:a:y:1",
        "cache:ab:x:1",
        "other",
    ];
    for (pattern, expected) in [
        ("cache:a:*", &all[..3]),
        ("cache:a:x:1", &all[..1]),
        ("*:x:*", &["cache:a:x:1", "cache:a:x:2", "cache:ab:x:1"]),
        ("cache:*:1", &["cache:a:x:1", "cache:a:y:1", "cache:ab:x:1"]),
        ("*", &all),
        ("**", &all),
        ("cache:?:*", &[]),
        ("", &[]),
        ("cache", &[]),
    ] {
        for memory in 0..2 {
            let home = tempfile::tempdir().unwrap();
            let clock = clock();
            let memory = if memory == 0 {
                in_process(&clock)
            } else {
                sqlite(&home.path().join("db"), &clock)
            };
            let here = EngineBuilder::over(memory, &clock).make();
            fill(&here, &all).await;
            let erased = here.cache.erase(&by(glob(pattern)), true).await.unwrap();
            assert_eq!(
                (tags(&erased), left(&here).await),
                (expected.to_vec(), 5),
                "{pattern}, dry"
            );
            let erased = here.cache.erase(&by(glob(pattern)), false).await.unwrap();
            assert_eq!(tags(&erased), expected, "{pattern}");
            assert_eq!(left(&here).await, 5 - expected.len() as u64, "{pattern}");
        }
    }
}

#[tokio::test]
async fn erase_requires_all_criteria_to_match() {
    let here = test_engine();
    here.ask(&Question::number(1), &tagged(&["a", "b"]), "")
        .await;
    here.ask(&Question::number(2), &tagged(&["a"]), "").await;
    here.ask(
        &Question::number(3).named("http.get"),
        &tagged(&["a", "b"]),
        "",
    )
    .await;
    let which = EntryFilter {
        name: Some("file.read".into()),
        criteria: vec![tag("a"), tag("b")],
        ..EntryFilter::default()
    };
    assert_eq!(
        here.cache.erase(&which, true).await.unwrap().entries.len(),
        1
    );
    let which = EntryFilter {
        criteria: vec![tag("a"), glob("b*")],
        ..EntryFilter::default()
    };
    assert_eq!(
        here.cache.erase(&which, true).await.unwrap().entries.len(),
        2
    );
    let which = EntryFilter {
        name: Some("http.get".into()),
        ..EntryFilter::default()
    };
    assert_eq!(
        here.cache.erase(&which, false).await.unwrap().entries.len(),
        1
    );
    let which = EntryFilter {
        key: Some(Question::number(2).key()),
        criteria: vec![tag("b")],
        ..EntryFilter::default()
    };
    assert_eq!(
        here.cache.erase(&which, false).await.unwrap().entries.len(),
        0
    );
    assert_eq!(left(&here).await, 2);
}

#[tokio::test]
async fn erase_dry_run_changes_and_revokes_nothing() {
    let here = test_engine();
    fill(&here, &["a"]).await;
    let ticket = here.lead(&Question::number(7), &tagged(&["a"])).await;
    let erased = here.cache.erase(&by(tag("a")), true).await.unwrap();
    assert_eq!((tags(&erased), erased.revoked), (vec!["a"], 0));
    assert!(ticket.finish(product("x")).await.stored.is_ok());
    assert_eq!(left(&here).await, 2);
}

#[tokio::test]
async fn erase_has_no_limit_of_entries() {
    for pattern in ["many*", "*many"] {
        let here = test_engine();
        for number in 0..1_203 {
            here.ask(&Question::number(number), &tagged(&["many"]), "")
                .await;
        }
        fill(&here, &[]).await;
        here.ask(&Question::number(9_999), &tagged(&["few"]), "")
            .await;
        assert_eq!(
            here.cache
                .erase(&by(glob(pattern)), true)
                .await
                .unwrap()
                .entries
                .len(),
            1_203
        );
        assert_eq!(
            here.cache
                .erase(&by(glob(pattern)), false)
                .await
                .unwrap()
                .entries
                .len(),
            1_203
        );
        assert_eq!(left(&here).await, 1);
    }
}

/// Each step of the erase takes longer than half a run, so that each run is overtaken by several.
#[tokio::test(start_paused = true)]
async fn misses_are_stored_and_hits_found_during_an_erase_of_many() {
    for criterion in [tag("many"), glob("many*"), glob("*y")] {
        let clock = clock();
        let faulty_store = Arc::new(FaultyStore::over(in_process(&clock)));
        let here = EngineBuilder::over(faulty_store.clone(), &clock).make();
        for number in 0..1_000 {
            here.ask(&Question::number(number), &tagged(&["many"]), "")
                .await;
        }
        here.ask(&Question::number(1_000), &tagged(&["few"]), "known")
            .await;
        faulty_store.now(|operation| match operation {
            StoreOperation::Erase => StoreBehavior::Slow(Duration::from_millis(20)),
            _ => StoreBehavior::Slow(Duration::from_millis(1)),
        });
        let erasing = {
            let (cache, which) = (here.cache.clone(), by(criterion));
            tokio::spawn(async move { cache.erase(&which, false).await.unwrap() })
        };
        let (mut stored, mut refused) = (0, Vec::new());
        let mut number = 2_000;
        while !erasing.is_finished() {
            number += 1;
            let ticket = here
                .lead(&Question::number(number), &tagged(&["many"]))
                .await;
            tokio::time::sleep(Duration::from_millis(30)).await;
            match ticket.finish(product("new")).await.stored {
                Ok(_) => stored += 1,
                Err(reason) => refused.push(reason),
            }
            let known = here
                .ask(&Question::number(1_000), &Policy::default(), "")
                .await;
            assert_eq!(known.text(), "known");
        }
        // The runs during which the erase began and ended.
        assert!(refused.len() <= 2, "{refused:?}");
        assert!(stored > 5, "{stored}");
        let erased = erasing.await.unwrap();
        assert!(erased.entries.len() >= 1_000);
        // What was stored before the end of the erase is gone.
        assert!(left(&here).await <= 2);
    }
}

#[tokio::test]
async fn erase_leaves_other_spaces_unchanged() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    fill(&here, &["a"]).await;
    let record = Record {
        key: Question::number(0).key().to_string(),
        value: "mine".into(),
        labels: vec![Label::new("tag", "a"), Label::new("name", "file.read")],
        expires: Some(0),
        revision: 0,
        updated: 0,
    };
    memory
        .put(space::USER, record, None, &[])
        .settle()
        .await
        .unwrap();
    here.after(Duration::from_secs(100));
    here.cache
        .erase(&EntryFilter::default(), false)
        .await
        .unwrap();
    here.cache.sweep(None).await.unwrap();
    let labels = [LabelMatch::Is {
        name: "tag",
        value: "a",
    }];
    let filter = cachalot_store::RecordFilter {
        labels: &labels,
        ..Default::default()
    };
    let found = memory
        .find(space::USER, &filter, PageRequest::first(9))
        .settle()
        .await
        .unwrap();
    assert_eq!(found.records.len(), 1);
    assert_eq!(left(&here).await, 0);
}

#[tokio::test]
async fn erase_revokes_a_matching_run() {
    let key = Some(Question::number(1).key());
    for which in [
        by(tag("a")),
        by(glob("a*")),
        by(glob("*a")),
        EntryFilter {
            key,
            ..EntryFilter::default()
        },
        EntryFilter {
            name: Some("file.read".into()),
            ..EntryFilter::default()
        },
        EntryFilter::default(),
    ] {
        let here = test_engine();
        let question = Question::number(1);
        let before = here.lead(&question, &tagged(&["a"])).await;
        before.emit("old".into());
        let erased = here.cache.erase(&which, false).await.unwrap();
        assert_eq!((erased.revoked, erased.entries.len()), (1, 0), "{which:?}");
        let reported = here.ask(&question, &tagged(&["a"]), "new").await;
        assert_eq!(reported.text(), "new", "{which:?}");
        assert!(reported.settled.stored.is_ok(), "{which:?}: {reported:?}");
        assert_eq!(
            before.finish(product("old")).await.stored,
            Err(Reason::Revoked),
            "{which:?}"
        );
        assert_eq!(
            here.ask(&question, &Policy::default(), "").await.text(),
            "new"
        );
    }
}

#[tokio::test]
async fn erase_does_not_revoke_a_run_that_does_not_match() {
    let here = test_engine();
    let ticket = here.lead(&Question::number(1), &tagged(&["a"])).await;
    for which in [
        by(tag("b")),
        by(glob("*b*")),
        EntryFilter {
            name: Some("other".into()),
            ..EntryFilter::default()
        },
        EntryFilter {
            key: Some(Question::number(2).key()),
            ..EntryFilter::default()
        },
        EntryFilter {
            expired_before: Some(i64::MAX),
            ..EntryFilter::default()
        },
    ] {
        assert_eq!(
            here.cache.erase(&which, false).await.unwrap().revoked,
            0,
            "{which:?}"
        );
    }
    here.cache.sweep(None).await.unwrap();
    assert!(ticket.finish(product("x")).await.stored.is_ok());
}

#[tokio::test]
async fn a_run_in_another_process_is_revoked_through_its_reservation() {
    let home = tempfile::tempdir().unwrap();
    let clock = clock();
    let (shared, file) = (in_process(&clock), home.path().join("db"));
    let pairs: [[Arc<dyn Store>; 2]; 2] = [
        [shared.clone(), shared],
        [sqlite(&file, &clock), sqlite(&file, &clock)],
    ];
    for [one, other] in pairs {
        let (here, there) = (
            EngineBuilder::over(one, &clock).make(),
            EngineBuilder::over(other, &clock).make(),
        );
        let question = Question::number(1);
        for which in [
            by(tag("a")),
            by(glob("a*")),
            EntryFilter {
                key: Some(question.key()),
                ..EntryFilter::default()
            },
        ] {
            let ticket = here.lead(&question, &tagged(&["a"])).await;
            there.cache.erase(&which, false).await.unwrap();
            assert_eq!(
                ticket.finish(product("old")).await.stored,
                Err(Reason::Revoked),
                "{which:?}"
            );
            assert!(there.cache.peek(&question.key()).await.unwrap().is_none());
        }
        let ticket = here.lead(&question, &tagged(&["a"])).await;
        there.cache.erase(&by(tag("b")), false).await.unwrap();
        assert!(ticket.finish(product("kept")).await.stored.is_ok());
        there
            .cache
            .erase(&EntryFilter::default(), false)
            .await
            .unwrap();
    }
}

#[tokio::test]
async fn a_follower_of_a_revoked_run_in_another_process_runs_again() {
    let clock = clock();
    let memory = in_process(&clock);
    let (here, there) = (
        EngineBuilder::over(memory.clone(), &clock).make(),
        EngineBuilder::over(memory.clone(), &clock).make(),
    );
    let question = Question::number(1);
    let old = here.lead(&question, &tagged(&["a"])).await;
    let waiting = {
        let (there, question) = (there.clone(), question.clone());
        tokio::spawn(async move { there.ask(&question, &fleet(), "new").await })
    };
    settle_down().await;
    here.cache.erase(&by(tag("a")), false).await.unwrap();
    assert_eq!(waiting.await.unwrap().text(), "new");
    assert_eq!(
        old.finish(product("old")).await.stored,
        Err(Reason::Revoked)
    );
    assert_eq!(
        here.ask(&question, &Policy::default(), "").await.text(),
        "new"
    );
}

#[tokio::test(start_paused = true)]
async fn a_run_revoked_by_another_process_is_soon_not_joined() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let there = EngineBuilder::over(memory.clone(), &clock).make();
    let question = Question::number(1);
    let old = here.lead(&question, &tagged(&["a"])).await;
    there.cache.erase(&by(tag("a")), false).await.unwrap();
    tokio::time::sleep(Duration::from_millis(1_100)).await;
    let reported = here.ask(&question, &tagged(&["a"]), "new").await;
    assert_eq!(reported.text(), "new");
    assert!(reported.settled.stored.is_ok(), "{reported:?}");
    assert_eq!(
        old.finish(product("old")).await.stored,
        Err(Reason::Revoked)
    );
}

#[tokio::test]
async fn erase_without_reservations_revokes_runs_of_this_process() {
    let clock = clock();
    let memory = Arc::new(FaultyStore::over(in_process(&clock)).without_reservations());
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let ticket = here.lead(&Question::number(1), &tagged(&["a"])).await;
    here.cache.erase(&by(tag("a")), false).await.unwrap();
    assert_eq!(
        ticket.finish(product("old")).await.stored,
        Err(Reason::Revoked)
    );
    assert_eq!(
        (left(&here).await, memory.count(StoreOperation::Put)),
        (0, 0)
    );
}

#[tokio::test]
async fn erase_without_a_store_revokes_runs() {
    let clock = clock();
    let here = EngineBuilder {
        memory: None,
        ..EngineBuilder::over(in_process(&clock), &clock)
    }
    .make();
    let ticket = here.lead(&Question::number(1), &tagged(&["a"])).await;
    let erased = here
        .cache
        .erase(&EntryFilter::default(), false)
        .await
        .unwrap();
    assert_eq!((erased.entries.len(), erased.revoked), (0, 1));
    assert_eq!(here.cache.sweep(None).await.unwrap(), 0);
    assert!(
        here.cache
            .newest(&EntryFilter::default(), &testers())
            .await
            .unwrap()
            .is_none()
    );
    drop(ticket);
}

#[tokio::test]
async fn erase_expired_before_removes_entries_expired_at_that_time() {
    let here = test_engine();
    for number in 0..4 {
        let ttl = (number < 3).then(|| Duration::from_secs(10 * (number as u64 + 1)));
        here.ask(
            &Question::number(number),
            &Policy {
                run: RunPolicy {
                    ttl,
                    ..RunPolicy::default()
                },
                ..Policy::default()
            },
            "",
        )
        .await;
    }
    let which = EntryFilter {
        expired_before: Some(crate::test_engine::START + 20_000),
        ..EntryFilter::default()
    };
    assert_eq!(
        here.cache.erase(&which, false).await.unwrap().entries.len(),
        1
    );
    assert_eq!(left(&here).await, 3);
}

#[tokio::test]
async fn a_sweep_erases_the_oldest_expired_entries_up_to_its_limit() {
    let here = test_engine();
    for number in 0..10 {
        let ttl = (number < 8).then(|| Duration::from_secs(10 - number as u64));
        here.ask(
            &Question::number(number),
            &Policy {
                run: RunPolicy {
                    ttl,
                    ..RunPolicy::default()
                },
                ..Policy::default()
            },
            "",
        )
        .await;
    }
    assert_eq!(here.cache.sweep(None).await.unwrap(), 0);
    here.after(Duration::from_secs(7));
    // 3 s (number 7), 4 s (6), 5 s (5), 6 s (4), and 7 s (3), due at this very millisecond.
    assert_eq!(here.cache.sweep(Some(2)).await.unwrap(), 2);
    assert!(
        here.cache
            .peek(&Question::number(7).key())
            .await
            .unwrap()
            .is_none()
    );
    assert!(
        here.cache
            .peek(&Question::number(5).key())
            .await
            .unwrap()
            .is_some()
    );
    assert_eq!(here.cache.sweep(Some(0)).await.unwrap(), 0);
    assert_eq!(here.cache.sweep(None).await.unwrap(), 3);
    assert_eq!(here.cache.sweep(None).await.unwrap(), 0);
    assert_eq!(left(&here).await, 5);
}

#[tokio::test]
async fn sweep_erases_more_than_one_page() {
    let here = test_engine();
    for number in 0..1_234 {
        here.ask(
            &Question::number(number),
            &Policy {
                run: RunPolicy {
                    ttl: Some(Duration::ZERO),
                    ..RunPolicy::default()
                },
                ..Policy::default()
            },
            "",
        )
        .await;
    }
    assert_eq!(here.cache.sweep(Some(1_100)).await.unwrap(), 1_100);
    assert_eq!(here.cache.sweep(Some(1_100)).await.unwrap(), 134);
}

#[tokio::test]
async fn newest_finds_the_newest_match_of_any_pattern() {
    let here = test_engine();
    for (number, label) in ["x:1", "y:x:2", "y:3", "x:4", "y:5"]
        .into_iter()
        .enumerate()
    {
        here.ask(&Question::number(number), &tagged(&[label]), label)
            .await;
        here.after(Duration::from_millis(5));
    }
    for (pattern, expected) in [
        ("x*", Some("x:4")),
        ("*x*", Some("x:4")),
        ("*:x:*", Some("y:x:2")),
        ("y*3", Some("y:3")),
        ("z*", None),
        ("*z", None),
    ] {
        let stored = here
            .cache
            .newest(&by(glob(pattern)), &testers())
            .await
            .unwrap();
        let text = match stored {
            Some(stored) => {
                Some(String::from_utf8(stored.body.whole().await.unwrap().to_vec()).unwrap())
            }
            None => None,
        };
        assert_eq!(text.as_deref(), expected, "{pattern}");
    }
}

#[tokio::test]
async fn newest_searches_only_the_named_scopes() {
    let user = |name: &str| Scope::User(name.into());
    let here = test_engine();
    let ask = async |scope: Scope, number: usize| {
        let question = Question {
            scope,
            ..Question::number(number)
        };
        here.after(Duration::from_millis(5));
        let text = number.to_string();
        here.ask(&question, &tagged(&["handle"]), &text).await;
    };
    ask(Scope::Global, 0).await;
    ask(user("ada"), 1).await;
    // More entries of another scope than are read in one page.
    for number in 2..700 {
        ask(user("bob"), number).await;
    }
    let newest = async |criterion: LabelCriterion, scopes: &[Scope]| {
        let stored = here.cache.newest(&by(criterion), scopes).await.unwrap()?;
        let text = stored.body.whole().await.unwrap();
        Some(String::from_utf8(text.to_vec()).unwrap())
    };
    for criterion in [tag("handle"), glob("handle"), glob("h*"), glob("*e")] {
        for (scopes, expected) in [
            (vec![Scope::Global, user("ada")], Some("1")),
            (vec![Scope::Global], Some("0")),
            (vec![user("bob"), Scope::Global], Some("699")),
            (vec![user("eve"), Scope::Agent("ada".into())], None),
            (vec![], None),
        ] {
            let found = newest(criterion.clone(), &scopes).await;
            assert_eq!(found.as_deref(), expected, "{criterion:?} {scopes:?}");
        }
    }
}

#[tokio::test]
async fn each_visits_every_match_once() {
    let here = test_engine();
    for number in 0..1_101 {
        let label = if number % 2 == 0 { "even" } else { "odd" };
        here.ask(&Question::number(number), &tagged(&[label]), "x")
            .await;
    }
    let mut seen = std::collections::HashSet::new();
    here.cache
        .each(&by(tag("even")), |stored| assert!(seen.insert(stored.key)))
        .await
        .unwrap();
    assert_eq!(seen.len(), 551);
    let mut count = 0;
    here.cache
        .each(&by(glob("*d")), |_| count += 1)
        .await
        .unwrap();
    assert_eq!(count, 550);
}

/// A listing of many entries is printed page by page: the caller has the first entries before the others are read.
#[tokio::test]
async fn try_each_stops_reading_at_the_first_error() {
    #[derive(Debug, PartialEq)]
    struct Enough;
    impl From<cachalot_store::Error> for Enough {
        fn from(error: cachalot_store::Error) -> Self {
            panic!("{error}")
        }
    }
    let clock = clock();
    let faulty_store = Arc::new(FaultyStore::over(in_process(&clock)));
    let here = EngineBuilder::over(faulty_store.clone(), &clock).make();
    for number in 0..1_203 {
        here.ask(&Question::number(number), &Policy::default(), "")
            .await;
    }
    let mut pages = Vec::new();
    let all = EntryFilter::default();
    let listed = here.cache.try_each(&all, |_| {
        pages.push(faulty_store.count(StoreOperation::Find));
        match pages.len() {
            700 => Err(Enough),
            _ => Ok(()),
        }
    });
    assert_eq!(listed.await, Err(Enough));
    assert_eq!((pages[0], pages[499], pages[699]), (1, 1, 2));
    assert_eq!(faulty_store.count(StoreOperation::Find), 2);
}

#[tokio::test]
async fn erase_releases_the_reservation_of_this_engine() {
    let clock = clock();
    let memory = in_process(&clock);
    let here = EngineBuilder::over(memory.clone(), &clock).make();
    let question = Question::number(1);
    let ticket = here.lead(&question, &tagged(&["a"])).await;
    here.cache.erase(&by(tag("a")), false).await.unwrap();
    let key = question.key().to_string();
    let free = memory
        .reserve(space::CACHE, &key, &[], Duration::from_secs(1))
        .settle()
        .await
        .unwrap();
    assert!(matches!(free, ReserveResult::Held(_)));
    drop(ticket);
}
