//! Secrets: used, and never written anywhere.

use std::path::Path;
use std::sync::Arc;

use cachalot_cache::{
    CacheStatus, EntryFilter, Failure, HANDLE_LABEL, Observation, Policy, Reason, RunPolicy,
    RunResult,
};
use cachalot_core::{Canonical, DigestKey, SecretSet};
use cachalot_store::Label;
use serde_json::json;

use crate::test_engine::{
    EngineBuilder, Question, TestEngine, clock, finish, product, reported, sqlite, tagged,
};

const SECRET: &str = "hunter2/\"quoted\" & more";
const SPELLINGS: [&str; 3] = [
    SECRET,
    "hunter2/\\\"quoted\\\" & more",
    "hunter2%2F%22quoted%22%20%26%20more",
];

fn secret_set() -> Arc<SecretSet> {
    let secret_set = SecretSet::with_key(DigestKey::new([7; 32]));
    secret_set.learn(SECRET);
    Arc::new(secret_set)
}

fn asking_with_the_secret(secret_set: &SecretSet) -> Question {
    let input = json!({"header": format!("Bearer {SECRET}"), "path": "a"});
    Question {
        input: Canonical::sealed(&input, secret_set),
        ..Question::number(0)
    }
}

fn in_a_home(home: &Path) -> (TestEngine, Arc<SecretSet>) {
    let clock = clock();
    let secret_set = secret_set();
    let memory = sqlite(&home.join("cachalot.db"), &clock);
    (
        EngineBuilder::over(memory, &clock)
            .ledger(&home.join("ledger.db"))
            .secret_set(&secret_set)
            .make(),
        secret_set,
    )
}

/// Every file below a directory that holds the secret, in any spelling.
fn files_with_the_secret(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files_with_the_secret(&path));
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let holds = |text: &&str| {
            bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        };
        found.extend(
            SPELLINGS
                .iter()
                .filter(|text| holds(text))
                .map(|text| format!("{}: {text}", path.display())),
        );
    }
    found
}

#[tokio::test]
async fn answer_with_a_secret_is_delivered_and_not_stored() {
    let home = tempfile::tempdir().unwrap();
    let (here, secret_set) = in_a_home(home.path());
    for spelling in SPELLINGS {
        let question = asking_with_the_secret(&secret_set);
        let answer = format!("it is {spelling}, you see");
        let reported = here.ask(&question, &Policy::default(), &answer).await;
        assert_eq!(
            (reported.text(), &reported.settled.stored),
            (answer.as_str(), &Err(Reason::HoldsSecret))
        );
    }
    let reported = here
        .ask(
            &asking_with_the_secret(&secret_set),
            &Policy::default(),
            "harmless",
        )
        .await;
    assert!(reported.settled.stored.is_ok());
    assert_eq!(
        here.ask(&asking_with_the_secret(&secret_set), &Policy::default(), "")
            .await
            .status,
        CacheStatus::Hit
    );
}

#[tokio::test]
async fn answer_with_a_secret_in_a_label_is_not_stored() {
    let home = tempfile::tempdir().unwrap();
    let (here, _) = in_a_home(home.path());
    let reported = here
        .ask(
            &Question::number(1),
            &tagged(&[&format!("for {SECRET}")]),
            "x",
        )
        .await;
    assert_eq!(
        (reported.text(), &reported.settled.stored),
        ("x", &Err(Reason::HoldsSecret))
    );
    let late = RunResult {
        labels: vec![Label::new("tag", SECRET)],
        ..product("x")
    };
    let outcome = here
        .through(&Question::number(1), &Policy::default(), |ticket| {
            finish(ticket, late)
        })
        .await;
    assert_eq!(outcome.settled().await.stored, Err(Reason::HoldsSecret));
}

#[tokio::test]
async fn no_written_file_contains_a_secret() {
    let home = tempfile::tempdir().unwrap();
    let elsewhere = tempfile::tempdir().unwrap();
    let (here, secret_set) = in_a_home(home.path());
    let question = asking_with_the_secret(&secret_set);

    for spelling in SPELLINGS {
        let policy = Policy {
            run: RunPolicy {
                labels: vec![Label::new(HANDLE_LABEL, format!("cache:a:{spelling}"))],
                ..RunPolicy::default()
            },
            ..Policy::default()
        };
        here.ask(&question, &policy, &format!("an answer with {spelling}"))
            .await;
        here.ask(
            &question.clone().named(spelling),
            &Policy::default(),
            "named after it",
        )
        .await;
        let failure = Failure::new(std::io::Error::other(format!(
            "cannot reach https://host/?key={spelling}"
        )));
        let fails =
            |ticket: cachalot_cache::Ticket| async move { drop(ticket.fail(failure).await) };
        reported(
            here.through(&Question::number(2), &Policy::default(), fails)
                .await,
        )
        .await;
        let declined = RunResult {
            storable: Err(Reason::Declined(format!("it says {spelling}"))),
            ..product("x")
        };
        reported(
            here.through(&Question::number(3), &Policy::default(), |ticket| {
                finish(ticket, declined)
            })
            .await,
        )
        .await;
        let spoilt = spelling.to_owned();
        let spoils = |ticket: cachalot_cache::Ticket| async move {
            ticket.witness().mark_incomplete(spoilt);
            ticket.finish(product("x")).await;
        };
        reported(
            here.through(&Question::number(4), &Policy::default(), spoils)
                .await,
        )
        .await;
    }
    let file = elsewhere.path().join(SECRET.replace('/', "_"));
    secret_set.learn(file.file_name().unwrap().to_str().unwrap());
    let looks = |ticket: cachalot_cache::Ticket| async move {
        ticket.witness().observe(Observation::Existence(&file));
        ticket.finish(product("a file named after it")).await;
    };
    let looked = reported(
        here.through(&Question::number(5), &Policy::default(), looks)
            .await,
    )
    .await;
    assert_eq!(looked.settled.stored, Err(Reason::HoldsSecret));
    let stored = here.ask(&question, &Policy::default(), "harmless").await;
    assert!(stored.settled.stored.is_ok());
    here.ask(&question, &Policy::default(), "").await;

    let mut cassette = std::fs::File::create(home.path().join("cassette")).unwrap();
    here.cache
        .export(&mut cassette, secret_set.key())
        .await
        .unwrap();
    here.cache.close().await;
    assert_eq!(files_with_the_secret(home.path()), [""; 0]);
    for row in here.cache.ledger().recent(100).unwrap() {
        let row = serde_json::to_string(&row).unwrap();
        assert!(
            !SPELLINGS.iter().any(|spelling| row.contains(spelling)),
            "{row}"
        );
    }
    let why = here.cache.ledger().explain(None).unwrap().unwrap();
    assert!(!serde_json::to_string(&why).unwrap().contains("hunter2"));
    assert!(
        here.warned().iter().all(|text| !text.contains("hunter2")),
        "{:?}",
        here.warned()
    );
}

#[tokio::test]
async fn ledger_masks_credential_like_texts() {
    let home = tempfile::tempdir().unwrap();
    let (here, _) = in_a_home(home.path());
    let key = "sk-abcdefghijklmnopqrstuvwxyz";
    let question = Question::of(
        json!({"headers": {"Authorization": "Basic dXNlcjpwYXNz"}, "text": key, "path": "a"}),
    );
    let failure = Failure::new(std::io::Error::other(format!("401 for {key}")));
    let fails = |ticket: cachalot_cache::Ticket| async move { drop(ticket.fail(failure).await) };
    reported(here.through(&question, &Policy::default(), fails).await).await;
    here.cache.close().await;
    let row = &here.cache.ledger().recent(1).unwrap()[0];
    let shown = serde_json::to_string(row).unwrap();
    assert!(
        !shown.contains(key) && !shown.contains("dXNlcjpwYXNz"),
        "{shown}"
    );
    assert_eq!(row.input.as_ref().unwrap()["path"], "a");
}

#[tokio::test]
async fn keys_of_two_secrets_differ_and_no_value_is_explained() {
    let home = tempfile::tempdir().unwrap();
    let (here, secret_set) = in_a_home(home.path());
    secret_set.learn("another secret");
    let one = asking_with_the_secret(&secret_set);
    let input = json!({"header": "Bearer another secret", "path": "a"});
    let other = Question {
        input: Canonical::sealed(&input, &secret_set),
        ..Question::number(0)
    };
    here.ask(&one, &Policy::default(), "one").await;
    assert_eq!(
        here.ask(&other, &Policy::default(), "other").await.text(),
        "other"
    );
    here.cache.close().await;
    let why = here.cache.ledger().explain(None).unwrap().unwrap();
    assert_eq!(why.nearest.as_ref().unwrap().key, one.key().to_string());
    assert!(
        why.differences.is_empty() && why.hidden_difference,
        "{why:?}"
    );
    assert_eq!(files_with_the_secret(home.path()), [""; 0]);
}

#[tokio::test]
async fn key_of_a_secret_depends_on_the_digest_key() {
    let under = |byte| {
        let secret_set = SecretSet::with_key(DigestKey::new([byte; 32]));
        secret_set.learn(SECRET);
        asking_with_the_secret(&secret_set).key()
    };
    assert_eq!(under(1), under(1));
    assert_ne!(under(1), under(2));
}

#[tokio::test]
async fn erase_by_a_label_with_a_secret_revokes_runs() {
    let home = tempfile::tempdir().unwrap();
    let (here, _) = in_a_home(home.path());
    let ticket = here.lead(&Question::number(1), &tagged(&[SECRET])).await;
    let which = EntryFilter {
        criteria: vec![cachalot_cache::LabelCriterion::Is(Label::new(
            "tag", SECRET,
        ))],
        ..EntryFilter::default()
    };
    assert_eq!(here.cache.erase(&which, false).await.unwrap().revoked, 1);
    drop(ticket);
    here.cache.close().await;
    assert_eq!(files_with_the_secret(home.path()), [""; 0]);
}
