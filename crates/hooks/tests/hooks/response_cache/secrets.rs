//! Secrets in questions and answers.

use super::ON;
use crate::answering::{Making, Turn, knowing, making, world};

#[tokio::test]
async fn a_secret_is_masked_before_it_is_stored() {
    let secret_set = knowing(&["hunter2hunter2"]);
    let world = making(ON).secret_set(&secret_set).make();
    let turn = Turn::saying("What is the password?");
    world.ask(turn.clone(), "It is hunter2hunter2.").await;
    let replay = world.ask(turn, "").await.replayed();
    assert_eq!(replay.content, "It is [secret].");
    let bytes = std::fs::read(world.path("memory")).unwrap();
    assert!(!secret_set.occurs_in(&bytes));
}

#[tokio::test]
async fn what_looks_like_a_secret_is_masked_where_the_agent_says_so_and_then_no_such_question_lies_open()
 {
    let shaped = format!("sk-{}", "a1".repeat(20));
    let answer = format!("It is {shaped} .");
    let turn = Turn::saying("Which key?");
    let world = world(ON);
    world.ask(turn.clone(), &answer).await;
    assert_eq!(world.ask(turn, "").await.replayed().content, answer);
    let all = "redact_secrets: true";
    let world = Making::with(&format!("cache: {ON}\n{all}")).make();
    let turn = Turn::saying("Which key?");
    world.ask(turn.clone(), &format!("It is {shaped} .")).await;
    let replay = world.ask(turn, "").await.replayed();
    assert_eq!(replay.content, "It is [secret] .");
    let flat = "cache: {enabled: true, path: answers.json}";
    let flat = Making::with(&format!("{flat}\n{all}")).make();
    let asking = Turn::saying(&format!("Is {shaped} a key?"));
    let why = flat.refusal(asking, "Yes.").await;
    assert!(why.contains("the question holds a secret"), "{why}");
}

#[tokio::test]
async fn a_secret_that_is_not_to_be_masked_keeps_the_answer_out() {
    let sections = format!("cache: {ON}\nredact_secrets: false");
    let secret_set = knowing(&["hunter2hunter2"]);
    let world = Making::with(&sections).secret_set(&secret_set).make();
    let why = world
        .refusal(Turn::saying("?"), "It is hunter2hunter2.")
        .await;
    assert_eq!(why, "the answer holds a secret");
}

#[tokio::test]
async fn a_secret_in_the_question_enters_the_key_as_a_digest_and_nothing_else() {
    let secret_set = knowing(&["hunter2hunter2", "swordfish99"]);
    let world = making(ON).secret_set(&secret_set).make();
    let asking = |secret: &str| Turn::saying(&format!("Is {secret} a good password?"));
    assert!(world.keeps(asking("hunter2hunter2"), "No.").await);
    assert!(!world.ask(asking("swordfish99"), "No.").await.is_replay());
    let input = world.row().await.input.unwrap().to_string();
    assert!(input.contains("[secret]") && !secret_set.occurs_in(input.as_bytes()));
}
