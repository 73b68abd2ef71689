//! Answers in a flat JSON file.

use serde_json::{Value, json};

use super::{PLAIN, TOKEN, World, agent, with_tools};
use crate::provider::OBEDIENT;

#[test]
fn what_a_file_of_docker_agent_holds_is_answered() {
    let world = World::of(
        PLAIN,
        &agent(", path: kept/answers.json, trim_spaces: true"),
    );
    world.home.write(
        "kept/answers.json",
        "{\n  \"how deep?\": \"Two kilometres.\"\n}",
    );
    let adopted = world.ask(&[], "How deep?").ok();
    assert_eq!(adopted.stdout, "Two kilometres.\n");
    assert_eq!(world.requests(), 0);
    assert!(
        adopted.stderr.contains("answers.json")
            && adopted.stderr.contains("questions and answers only"),
        "{adopted}"
    );
    assert!(adopted.stderr.contains("answered before"), "{adopted}");
    let new = world.ask(&[], "  How LONG? ").ok();
    assert_eq!(world.requests(), 1, "{new}");
    let text = std::fs::read_to_string(world.home.join("kept/answers.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        file,
        json!({"how deep?": "Two kilometres.", "how long?": new.stdout.trim_end()})
    );
    // A human reads it, too.
    assert!(text.contains("\n  \"how long?\": \""), "{text}");
    assert!(!world.is_asked(&[], "how long?"));
    // It knows of nothing but questions.
    let changed = agent(", path: kept/answers.json, trim_spaces: true").replace("Answer.", "X.");
    world.home.write("agent.yaml", changed);
    assert!(!world.is_asked(&[], "how long?"));
    assert!(world.is_asked(&["--refresh"], "how long?"));
    assert!(world.entries().is_empty(), "they are in the file alone");
}

#[test]
fn a_damaged_file_is_reported_and_left_unchanged() {
    let world = World::of(PLAIN, &agent(", path: answers.json"));
    world.home.write("answers.json", "{\"how deep?\": ");
    let ran = world.ask(&[], "How deep?").ok();
    assert_eq!(ran.stdout, "I was told: How deep?\n");
    assert!(
        ran.stderr.contains("warning: ") && ran.stderr.contains("answers.json"),
        "{ran}"
    );
    let left = std::fs::read_to_string(world.home.join("answers.json")).unwrap();
    assert_eq!(left, "{\"how deep?\": ");
}

#[test]
fn a_flat_file_holds_no_answer_that_was_read_from_somewhere() {
    let world = World::of(OBEDIENT, &with_tools(", path: answers.json"));
    world.home.write("note.txt", "inside");
    for _ in 0..2 {
        world.ask(&[], "read note.txt").ok();
    }
    assert_eq!(world.requests(), 4);
    assert!(
        world.why().contains("a flat file cannot hold that"),
        "{}",
        world.why()
    );
}

#[test]
fn two_processes_at_once_lose_no_answer_of_a_flat_file() {
    let world = World::of(PLAIN, &agent(", path: answers.json"));
    let questions = ["a", "b", "c", "d"];
    std::thread::scope(|scope| {
        for question in questions {
            let world = &world;
            scope.spawn(move || world.ask(&["-q"], question).ok());
        }
    });
    let file: Value =
        serde_json::from_slice(&std::fs::read(world.home.join("answers.json")).unwrap()).unwrap();
    assert_eq!(file.as_object().unwrap().len(), questions.len(), "{file}");
}

#[test]
fn an_unusable_path_is_reported_and_the_question_is_answered() {
    let world = World::of(PLAIN, &agent(", path: kept"));
    world.home.write("kept/other.txt", "");
    let ran = world.ask(&[], "one").ok();
    assert_eq!(ran.stdout, "I was told: one\n");
    assert!(
        ran.stderr.contains("warning: ") && ran.stderr.contains("kept"),
        "{ran}"
    );
}

#[test]
fn a_question_with_a_secret_stays_out_of_the_file() {
    let file = agent(", path: answers.json") + "    redact_secrets: true\n";
    let world = World::of("otherwise: {text: It is a token.}", &file);
    world.ask(&[], &format!("What is {TOKEN}?")).ok();
    let kept = std::fs::read_to_string(world.home.join("answers.json")).unwrap_or_default();
    assert!(!kept.contains(&TOKEN.to_lowercase()[..20]), "{kept}");
    let why = world.why();
    assert!(why.contains("holds a secret"), "{why}");
    assert!(!why.contains(TOKEN), "{why}");
}
