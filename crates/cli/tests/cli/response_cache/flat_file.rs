//! Answers in a flat JSON file.

use serde_json::{Value, json};

use super::{Fixture, PLAIN, TOKEN, agent, with_tools};
use crate::provider::SCRIPTED_MODEL;

#[test]
fn docker_agent_file_answers_questions() {
    let fixture = Fixture::of(
        PLAIN,
        &agent(", path: kept/answers.json, trim_spaces: true"),
    );
    fixture.home.write(
        "kept/answers.json",
        "{\n  \"how deep?\": \"Two kilometres.\"\n}",
    );
    let adopted = fixture.ask(&[], "How deep?").ok();
    assert_eq!(adopted.stdout, "Two kilometres.\n");
    assert_eq!(fixture.requests(), 0);
    assert!(
        adopted.stderr.contains("answers.json")
            && adopted.stderr.contains("questions and answers only"),
        "{adopted}"
    );
    assert!(adopted.stderr.contains("answered before"), "{adopted}");
    let new = fixture.ask(&[], "  How LONG? ").ok();
    assert_eq!(fixture.requests(), 1, "{new}");
    let text = std::fs::read_to_string(fixture.home.join("kept/answers.json")).unwrap();
    let file: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        file,
        json!({"how deep?": "Two kilometres.", "how long?": new.stdout.trim_end()})
    );
    // A human reads it, too.
    assert!(text.contains("\n  \"how long?\": \""), "{text}");
    assert!(!fixture.is_asked(&[], "how long?"));
    // It knows of nothing but questions.
    let changed = agent(", path: kept/answers.json, trim_spaces: true").replace("Answer.", "X.");
    fixture.home.write("agent.yaml", changed);
    assert!(!fixture.is_asked(&[], "how long?"));
    assert!(fixture.is_asked(&["--refresh"], "how long?"));
    assert!(fixture.entries().is_empty(), "they are in the file alone");
}

#[test]
fn a_damaged_file_is_reported_and_left_unchanged() {
    let fixture = Fixture::of(PLAIN, &agent(", path: answers.json"));
    fixture.home.write("answers.json", "{\"how deep?\": ");
    let ran = fixture.ask(&[], "How deep?").ok();
    assert_eq!(ran.stdout, "I was told: How deep?\n");
    assert!(
        ran.stderr.contains("warning: ") && ran.stderr.contains("answers.json"),
        "{ran}"
    );
    let left = std::fs::read_to_string(fixture.home.join("answers.json")).unwrap();
    assert_eq!(left, "{\"how deep?\": ");
}

#[test]
fn flat_file_stores_no_answer_that_depends_on_files() {
    let fixture = Fixture::of(SCRIPTED_MODEL, &with_tools(", path: answers.json"));
    fixture.home.write("note.txt", "inside");
    for _ in 0..2 {
        fixture.ask(&[], "read note.txt").ok();
    }
    assert_eq!(fixture.requests(), 4);
    assert!(
        fixture.why().contains("a flat file cannot hold that"),
        "{}",
        fixture.why()
    );
}

#[test]
fn concurrent_processes_lose_no_answer_of_a_flat_file() {
    let fixture = Fixture::of(PLAIN, &agent(", path: answers.json"));
    let questions = ["a", "b", "c", "d"];
    std::thread::scope(|scope| {
        for question in questions {
            let fixture = &fixture;
            scope.spawn(move || fixture.ask(&["-q"], question).ok());
        }
    });
    let file: Value =
        serde_json::from_slice(&std::fs::read(fixture.home.join("answers.json")).unwrap()).unwrap();
    assert_eq!(file.as_object().unwrap().len(), questions.len(), "{file}");
}

#[test]
fn unusable_path_is_a_warning_and_the_question_is_answered() {
    let fixture = Fixture::of(PLAIN, &agent(", path: kept"));
    fixture.home.write("kept/other.txt", "");
    let ran = fixture.ask(&[], "one").ok();
    assert_eq!(ran.stdout, "I was told: one\n");
    assert!(
        ran.stderr.contains("warning: ") && ran.stderr.contains("kept"),
        "{ran}"
    );
}

#[test]
fn question_with_a_secret_is_not_written_to_the_file() {
    let file = agent(", path: answers.json") + "    redact_secrets: true\n";
    let fixture = Fixture::of("otherwise: {text: It is a token.}", &file);
    fixture.ask(&[], &format!("What is {TOKEN}?")).ok();
    let kept = std::fs::read_to_string(fixture.home.join("answers.json")).unwrap_or_default();
    assert!(!kept.contains(&TOKEN.to_lowercase()[..20]), "{kept}");
    let why = fixture.why();
    assert!(why.contains("holds a secret"), "{why}");
    assert!(!why.contains(TOKEN), "{why}");
}
