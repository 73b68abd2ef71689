//! Secrets in questions and answers.

use super::ON;
use crate::response_cache_fixture::{FixtureBuilder, Turn, fixture, fixture_builder, knowing};

#[tokio::test]
async fn a_secret_is_masked_before_it_is_stored() {
    let secret_set = knowing(&["hunter2hunter2"]);
    let fixture = fixture_builder(ON).secret_set(&secret_set).make();
    let turn = Turn::saying("What is the password?");
    fixture.ask(turn.clone(), "It is hunter2hunter2.").await;
    let replay = fixture.ask(turn, "").await.replayed();
    assert_eq!(replay.content, "It is [secret].");
    let bytes = std::fs::read(fixture.path("memory")).unwrap();
    assert!(!secret_set.occurs_in(&bytes));
}

#[tokio::test]
async fn credential_shapes_are_masked_if_enabled_and_never_in_a_flat_file() {
    let shaped = format!("sk-{}", "a1".repeat(20));
    let answer = format!("It is {shaped} .");
    let turn = Turn::saying("Which key?");
    let fixture = fixture(ON);
    fixture.ask(turn.clone(), &answer).await;
    assert_eq!(fixture.ask(turn, "").await.replayed().content, answer);
    let all = "redact_secrets: true";
    let fixture = FixtureBuilder::with(&format!("cache: {ON}\n{all}")).make();
    let turn = Turn::saying("Which key?");
    fixture
        .ask(turn.clone(), &format!("It is {shaped} ."))
        .await;
    let replay = fixture.ask(turn, "").await.replayed();
    assert_eq!(replay.content, "It is [secret] .");
    let flat = "cache: {enabled: true, path: answers.json}";
    let flat = FixtureBuilder::with(&format!("{flat}\n{all}")).make();
    let asking = Turn::saying(&format!("Is {shaped} a key?"));
    let why = flat.refusal(asking, "Yes.").await;
    assert!(why.contains("the question holds a secret"), "{why}");
}

#[tokio::test]
async fn unmasked_secret_in_the_answer_prevents_storing() {
    let sections = format!("cache: {ON}\nredact_secrets: false");
    let secret_set = knowing(&["hunter2hunter2"]);
    let fixture = FixtureBuilder::with(&sections)
        .secret_set(&secret_set)
        .make();
    let why = fixture
        .refusal(Turn::saying("?"), "It is hunter2hunter2.")
        .await;
    assert_eq!(why, "the answer holds a secret");
}

#[tokio::test]
async fn question_with_a_secret_is_keyed_by_its_digest() {
    let secret_set = knowing(&["hunter2hunter2", "swordfish99"]);
    let fixture = fixture_builder(ON).secret_set(&secret_set).make();
    let asking = |secret: &str| Turn::saying(&format!("Is {secret} a good password?"));
    assert!(fixture.keeps(asking("hunter2hunter2"), "No.").await);
    assert!(!fixture.ask(asking("swordfish99"), "No.").await.is_replay());
    let input = fixture.row().await.input.unwrap().to_string();
    assert!(input.contains("[secret]") && !secret_set.occurs_in(input.as_bytes()));
}
