//! A cache in a file: exported here, played there.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cachalot_cache::{
    CacheStatus, CassetteError, EntryFilter, EntryInfo, ExportReport, Observation, Policy, Reason,
    RunPolicy, RunResult, StoredEntry,
};
use cachalot_core::{Canonical, Cost, DigestKey, SecretSet, Spend};
use cachalot_store::Label;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::test_engine::{
    EngineBuilder, Question, START, TestEngine, clock, finish, in_domains, in_process, product,
    reported, tagged, test_engine,
};

async fn exported(here: &TestEngine) -> String {
    let mut bytes = Vec::new();
    here.cache.export(&mut bytes, None).await.unwrap();
    String::from_utf8(bytes).unwrap()
}

/// The problem of a cassette, and its line.
async fn refused(cassette: &[u8]) -> (u64, String) {
    match test_engine().cache.import(&mut &cassette[..]).await {
        Err(CassetteError::Format { line, problem }) => (line, problem),
        other => panic!("{other:?}"),
    }
}

/// An entry in every respect, to compare.
async fn described(stored: StoredEntry) -> String {
    let body = stored.body.whole().await.unwrap();
    let EntryInfo {
        key,
        kind,
        scope,
        name,
        provenance,
        expired,
        bytes,
        spent,
    } = stored.entry_info;
    let cachalot_cache::EntryProvenance {
        created,
        expires,
        spent: again,
        labels,
        revision: _,
    } = provenance;
    let mut labels = labels.to_vec();
    labels.sort();
    format!(
        "{key} {kind:?} {scope} {name} {created} {expires:?} {again:?} {labels:?} {expired} {bytes} {spent:?} {body:?}"
    )
}

async fn all(here: &TestEngine) -> Vec<String> {
    let mut found = Vec::new();
    here.cache
        .each(&EntryFilter::default(), |entry_info| found.push(entry_info))
        .await
        .unwrap();
    let mut shown = Vec::new();
    for entry_info in found {
        let stored = here.cache.peek(&entry_info.key).await.unwrap().unwrap();
        assert_eq!(stored.entry_info, entry_info);
        shown.push(described(stored).await);
    }
    shown
}

#[tokio::test]
async fn cassette_replays_frozen_calls() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("looked at");
    std::fs::write(&path, "content").unwrap();
    std::fs::create_dir(home.path().join("d")).unwrap();
    let here = test_engine();
    here.ask(
        &Question::number(0),
        &tagged(&["t", "u"]),
        "text with \"quotes\", \n and 🐋",
    )
    .await;
    here.ask(
        &Question::number(1),
        &Policy {
            run: RunPolicy {
                ttl: Some(Duration::from_secs(1)),
                ..RunPolicy::default()
            },
            ..Policy::default()
        },
        "brief",
    )
    .await;
    here.ask(
        &Question::number(2),
        &in_domains(&["d", "e"]),
        "under domains",
    )
    .await;
    let binary = RunResult::storable(
        Bytes::from_static(b"\0\xff\xfebinary"),
        Spend {
            calls: 3,
            time: Duration::from_nanos(1),
            ..Spend::default()
        },
    );
    reported(
        here.through(&Question::number(3), &Policy::default(), |ticket| {
            finish(ticket, binary)
        })
        .await,
    )
    .await;
    here.ask(&Question::number(4), &Policy::default(), "").await;
    let root = home.path().to_owned();
    let looks = |ticket: cachalot_cache::Ticket| async move {
        let witness = ticket.witness();
        witness.read(&root.join("looked at")).unwrap();
        witness.observe(Observation::Listing(&root.join("d")));
        witness.observe(Observation::Existence(&root.join("d")));
        witness.observe(Observation::Content(&root.join("nothing")));
        ticket.finish(product("seen")).await;
    };
    reported(
        here.through(&Question::number(5), &Policy::default(), looks)
            .await,
    )
    .await;
    here.after(Duration::from_secs(2));

    let cassette = exported(&here).await;
    let clock = clock();
    clock.set(START + 1_000_000_000);
    let there = EngineBuilder::over(in_process(&clock), &clock).make();
    let imported = there.cache.import(&mut cassette.as_bytes()).await.unwrap();
    assert_eq!((imported.entries, imported.digest_key.is_none()), (6, true));
    for number in 0..6 {
        let question = Question::number(number);
        let (original, copy) = (
            here.frozen(&question).await.unwrap(),
            there.frozen(&question).await.unwrap(),
        );
        assert_eq!(
            (&copy.status, &copy.body),
            (&CacheStatus::Hit, &original.body)
        );
        assert_eq!(copy.settled.saved, original.settled.saved);
        assert_eq!(copy.settled.expires, original.settled.expires);
    }
    clock.set(START + 2_000);
    assert_eq!(all(&there).await, all(&here).await);
    let lines = |cassette: &str| {
        cassette
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&exported(&there).await), lines(&cassette));

    std::fs::write(&path, "changed").unwrap();
    assert!(matches!(
        there.frozen(&Question::number(5)).await.unwrap_err().reason,
        Reason::Changed(_)
    ));
}

#[tokio::test]
async fn cassette_replay_without_frozen_serves_valid_entries_only() {
    let here = test_engine();
    here.ask(&Question::number(0), &Policy::default(), "for ever")
        .await;
    here.ask(
        &Question::number(1),
        &Policy {
            run: RunPolicy {
                ttl: Some(Duration::from_secs(1)),
                ..RunPolicy::default()
            },
            ..Policy::default()
        },
        "brief",
    )
    .await;
    here.ask(&Question::number(2), &in_domains(&["d"]), "under a domain")
        .await;
    let there = test_engine();
    there
        .cache
        .import(&mut exported(&here).await.as_bytes())
        .await
        .unwrap();
    there.after(Duration::from_secs(2));
    assert_eq!(
        there
            .ask(&Question::number(0), &Policy::default(), "")
            .await
            .text(),
        "for ever"
    );
    assert_eq!(
        there
            .ask(&Question::number(1), &Policy::default(), "new")
            .await
            .status,
        CacheStatus::Miss(Reason::Expired)
    );
    let reported = there
        .ask(&Question::number(2), &in_domains(&["d"]), "new")
        .await;
    assert_eq!(
        reported.status,
        CacheStatus::Miss(Reason::Written("d".into())),
        "nobody announced to us what was written there"
    );
    assert_eq!(
        there
            .ask(&Question::number(2), &in_domains(&["d"]), "")
            .await
            .text(),
        "new"
    );
}

#[tokio::test]
async fn import_replaces_entries_in_store_and_front() {
    let (here, there) = (test_engine(), test_engine());
    here.ask(&Question::number(0), &Policy::default(), "theirs")
        .await;
    there
        .ask(&Question::number(0), &Policy::default(), "ours")
        .await;
    assert_eq!(
        there
            .ask(&Question::number(0), &Policy::default(), "")
            .await
            .text(),
        "ours"
    );
    there
        .cache
        .import(&mut exported(&here).await.as_bytes())
        .await
        .unwrap();
    assert_eq!(
        there
            .ask(&Question::number(0), &Policy::default(), "")
            .await
            .text(),
        "theirs"
    );
}

#[tokio::test]
async fn export_of_many_entries_is_sorted_by_key() {
    let here = test_engine();
    for number in 0..1_234 {
        here.ask(
            &Question::number(number),
            &Policy::default(),
            &number.to_string(),
        )
        .await;
    }
    let cassette = exported(&here).await;
    let keys: Vec<String> = cassette
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["key"].to_string())
        .collect();
    assert!(keys.is_sorted());
    let there = test_engine();
    assert_eq!(
        there
            .cache
            .import(&mut cassette.as_bytes())
            .await
            .unwrap()
            .entries,
        1_234
    );
    assert_eq!(
        there.frozen(&Question::number(777)).await.unwrap().text(),
        "777"
    );
}

fn secret_set(byte: u8) -> Arc<SecretSet> {
    let secret_set = SecretSet::with_key(DigestKey::new([byte; 32]));
    secret_set.learn("hunter2");
    Arc::new(secret_set)
}

fn sealed(secret_set: &SecretSet) -> Question {
    Question {
        input: Canonical::sealed(&json!({"password": "hunter2"}), secret_set),
        ..Question::number(0)
    }
}

#[tokio::test]
async fn entries_keyed_by_secrets_are_exported_only_with_the_digest_key() {
    let clock = clock();
    let secret_set = secret_set(7);
    let here = EngineBuilder::over(in_process(&clock), &clock)
        .secret_set(&secret_set)
        .make();
    here.ask(&sealed(&secret_set), &Policy::default(), "sealed")
        .await;
    here.ask(&Question::number(1), &Policy::default(), "plain")
        .await;

    let mut without = Vec::new();
    let reported = here.cache.export(&mut without, None).await.unwrap();
    assert_eq!(
        reported,
        ExportReport {
            entries: 1,
            left_out: 1
        }
    );
    let text = String::from_utf8(without).unwrap();
    assert!(
        !text.contains(&"07".repeat(32)) && !text.contains(&sealed(&secret_set).key().to_string())
    );

    let mut with = Vec::new();
    let reported = here
        .cache
        .export(&mut with, secret_set.key())
        .await
        .unwrap();
    assert_eq!(
        reported,
        ExportReport {
            entries: 2,
            left_out: 0
        }
    );
    let there = test_engine();
    let imported = there.cache.import(&mut with.as_slice()).await.unwrap();
    let key = imported.digest_key.unwrap();
    assert_eq!(key.expose(), &[7; 32]);
    let learnt = SecretSet::with_key(key);
    learnt.learn("hunter2");
    assert_eq!(
        there.frozen(&sealed(&learnt)).await.unwrap().text(),
        "sealed"
    );
    assert_eq!(
        there
            .frozen(&sealed(&self::secret_set(8)))
            .await
            .unwrap_err()
            .reason,
        Reason::Absent
    );
    let again = there.cache.export(&mut Vec::new(), None).await.unwrap();
    assert_eq!(
        again,
        ExportReport {
            entries: 1,
            left_out: 1
        },
        "what was sealed stays sealed"
    );
}

#[tokio::test]
async fn import_names_an_invalid_line_and_keeps_the_lines_before_it() {
    let here = test_engine();
    for number in 0..3 {
        here.ask(&Question::number(number), &tagged(&["t"]), "x")
            .await;
    }
    let cassette = exported(&here).await;
    let lines: Vec<&str> = cassette.lines().collect();
    let entry: Value = serde_json::from_str(lines[2]).unwrap();
    let with = |change: &dyn Fn(&mut serde_json::Map<String, Value>)| {
        let mut entry = entry.clone();
        change(entry.as_object_mut().unwrap());
        entry.to_string().into_bytes()
    };
    let mut wrong: Vec<Vec<u8>> = vec![
        b"garbage".to_vec(),
        b"{}".to_vec(),
        b"[]".to_vec(),
        lines[2][..lines[2].len() / 2].into(),
        b"\xff\xfe".to_vec(),
        with(&|entry| drop(entry.insert("unknown".into(), json!(1)))),
        with(&|entry| drop(entry.remove("key"))),
        with(&|entry| drop(entry.insert("key".into(), json!("abc")))),
        with(&|entry| drop(entry.insert("kind".into(), json!("spell")))),
        with(&|entry| drop(entry.remove("text"))),
        with(&|entry| drop(entry.insert("base64".into(), json!("eA==")))),
        with(&|entry| {
            entry.remove("text");
            entry.insert("base64".into(), json!("not base64!"));
        }),
    ];
    wrong.push(format!("{} {}", lines[2], lines[2]).into_bytes());
    for line in wrong {
        let shown = String::from_utf8_lossy(&line).into_owned();
        let mut bytes = format!("{}\n{}\n", lines[0], lines[1]).into_bytes();
        bytes.extend(line);
        bytes.extend(format!("\n{}\n", lines[3]).into_bytes());
        let there = test_engine();
        let error = there.cache.import(&mut bytes.as_slice()).await.unwrap_err();
        assert!(
            matches!(&error, CassetteError::Format { line: 3, .. }),
            "{shown}: {error:?}"
        );
        assert!(error.to_string().starts_with("line 3: "), "{error}");
        assert_eq!(there.cache.usage().await.unwrap().records, 1, "{shown}");
    }
}

#[tokio::test]
async fn import_refuses_other_files_at_line_one() {
    assert_eq!(refused(b"").await, (1, "the file is empty".into()));
    for text in [
        "garbage\n",
        "{}\n",
        "{\"key\": 1}\n",
        "[1]\n",
        "\n",
        "{\"cachalot_cassette\": \"1\"}\n",
    ] {
        let (line, problem) = refused(text.as_bytes()).await;
        assert_eq!(line, 1, "{text}");
        assert!(problem.starts_with("not a cassette"), "{text}: {problem}");
    }
    let (line, problem) =
        refused(b"{\"cachalot_cassette\":1,\"created\":\"x\",\"digest_key\":\"07\"}\n").await;
    assert_eq!(
        (line, problem.as_str()),
        (1, "the digest key is not 64 hex digits")
    );
}

#[tokio::test]
async fn a_cassette_of_a_newer_version_is_refused_with_a_hint() {
    for first in [
        "{\"cachalot_cassette\":2,\"created\":\"x\"}",
        "{\"cachalot_cassette\":7,\"made_by\":\"the future\",\"seal\":{\"a\":1}}",
    ] {
        let (line, problem) = refused(first.as_bytes()).await;
        assert_eq!(line, 1);
        assert!(
            problem.contains("version") && problem.contains("update"),
            "{problem}"
        );
    }
}

#[tokio::test]
async fn import_accepts_blank_lines_and_a_missing_final_newline() {
    let here = test_engine();
    here.ask(&Question::number(0), &Policy::default(), "x")
        .await;
    let cassette = exported(&here).await.replace('\n', "\r\n\n\n");
    let there = test_engine();
    assert_eq!(
        there
            .cache
            .import(&mut cassette.trim_end().as_bytes())
            .await
            .unwrap()
            .entries,
        1
    );
    assert_eq!(
        there.frozen(&Question::number(0)).await.unwrap().text(),
        "x"
    );
}

#[tokio::test]
async fn export_and_import_without_a_store_are_errors() {
    let clock = clock();
    let here = EngineBuilder {
        memory: None,
        ..EngineBuilder::over(in_process(&clock), &clock)
    }
    .make();
    assert!(matches!(
        here.cache.export(&mut Vec::new(), None).await,
        Err(CassetteError::NoStore)
    ));
    assert!(matches!(
        here.cache.import(&mut &b""[..]).await,
        Err(CassetteError::NoStore)
    ));
}

fn product_of(value: Vec<u8>, calls: u64, nanos: u64, tags: Vec<String>) -> RunResult {
    RunResult {
        value: Some(value.into()),
        storable: Ok(()),
        spent: Spend {
            calls,
            time: Duration::from_nanos(nanos),
            input_tokens: nanos / 3,
            output_tokens: calls,
            cost: Cost {
                picodollars: nanos,
                unpriced: calls,
            },
        },
        labels: tags.into_iter().map(|tag| Label::new("tag", tag)).collect(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn export_and_import_round_trip_entries(
        entries in proptest::collection::vec(
            (
                proptest::collection::vec(any::<u8>(), 0..40),
                (any::<u64>(), any::<u64>()),
                proptest::collection::vec(".{0,5}", 0..3),
                ("[a-z\"\\\\\u{1F40B}]{0,6}", proptest::option::of(0..u64::MAX / 2)),
            ),
            0..8,
        )
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (here, there) = (test_engine(), test_engine());
            for (number, (value, (calls, nanos), tags, (name, ttl))) in entries.into_iter().enumerate() {
                let policy = Policy { run: RunPolicy { ttl: ttl.map(Duration::from_millis), ..RunPolicy::default() }, ..Policy::default() };
                let product = product_of(value, calls, nanos, tags);
                let question = Question::number(number).named(&name);
                let reported = reported(here.through(&question, &policy, |ticket| finish(ticket, product)).await).await;
                assert!(reported.settled.stored.is_ok(), "{reported:?}");
            }
            there.cache.import(&mut exported(&here).await.as_bytes()).await.unwrap();
            assert_eq!(all(&there).await, all(&here).await);
        });
    }
}
