//! Which answers are kept, and how long they hold.

use super::{Fixture, PLAIN, TOKEN, agent, with_tools};
use crate::provider::SCRIPTED_MODEL;

#[test]
fn cached_answer_is_invalidated_when_a_read_file_changes() {
    let fixture = Fixture::of(SCRIPTED_MODEL, &with_tools(""));
    fixture.home.write("note.txt", "inside");
    let first = fixture.ask(&[], "read note.txt").ok();
    assert!(first.stdout.contains("inside"), "{first}");
    let again = fixture.ask(&[], "read note.txt").ok();
    assert_eq!(
        (fixture.requests(), &again.stdout),
        (2, &first.stdout),
        "{again}"
    );
    fixture.home.write("note.txt", "another thing");
    let changed = fixture.ask(&[], "read note.txt").ok();
    assert!(changed.stdout.contains("another thing"), "{changed}");
    let why = fixture.why();
    assert!(
        why.contains("changed since") && why.contains("note.txt"),
        "{why}"
    );
    assert!(!fixture.is_asked(&[], "read note.txt"));
    std::fs::remove_file(fixture.home.join("note.txt")).unwrap();
    let gone = fixture.ask(&[], "read note.txt").ok();
    assert!(!gone.stdout.contains("another thing"), "{gone}");
}

#[test]
fn incomplete_answers_are_not_cached_and_why_gives_the_reason() {
    const SCRIPT: &str = "
rules:
  - {user: refuse, steps: [{text: No., stop: refusal}]}
  - {user: length, steps: [{text: A long, stop: length}]}
  - {user: fail, steps: [{text: x, fault: 400}]}
  - {user: cut, steps: [{text: a b c d, fault: {cut: {after_events: 2}}}]}
otherwise: {text: Fine.}
";
    let fixture = Fixture::of(SCRIPT, &agent(""));
    for (question, reason) in [
        ("refuse", "the model refused"),
        ("length", "reached its limit"),
        ("fail", ""),
        ("cut", ""),
    ] {
        for count in 1..=2 {
            let before = fixture.requests();
            let ran = fixture.ask(&[], question).fails(1);
            assert!(fixture.requests() > before, "{question}, {count}: {ran}");
            let why = fixture.why();
            assert!(
                why.contains("root (turn)") && why.contains(reason),
                "{question}: {why}"
            );
        }
    }
    assert!(fixture.entries().is_empty(), "{:?}", fixture.entries());
}

#[test]
fn turn_with_side_effects_is_not_cached() {
    let fixture = Fixture::of(SCRIPTED_MODEL, &with_tools(""));
    for _ in 0..2 {
        fixture
            .ask(&["--yes"], "run echo ran >> log; echo done")
            .ok();
    }
    let log = std::fs::read_to_string(fixture.home.join("log")).unwrap();
    assert_eq!(log, "ran\nran\n");
    assert!(fixture.entries().is_empty());
    let why = fixture.why();
    assert!(why.contains("`shell` may have changed something"), "{why}");
    // What was refused may be allowed the next time.
    let asked = fixture.requests();
    fixture.ask(&[], "run touch made").ok();
    fixture.ask(&["--yes"], "run touch made").ok();
    assert!(fixture.home.join("made").exists());
    assert_eq!(fixture.requests(), asked + 4);
    // With a time to live it is not different.
    fixture.home.write("agent.yaml", with_tools(", ttl: 1h"));
    fixture.ask(&["--yes"], "run echo again >> log").ok();
    fixture.ask(&["--yes"], "run echo again >> log").ok();
    let log = std::fs::read_to_string(fixture.home.join("log")).unwrap();
    assert_eq!(log.matches("again").count(), 2);
}

#[test]
fn cached_search_is_invalidated_by_a_new_match() {
    const SCRIPT: &str = "
rules:
  - user: look
    steps:
      - tool_calls: [{name: grep, arguments: {pattern: whale}}]
      - text: 'Found: {{last_result}}'
";
    let fixture = Fixture::of(SCRIPT, &with_tools(""));
    fixture.home.write("sea/one.txt", "a whale");
    let first = fixture.ask(&["--workspace", "sea"], "look").ok();
    assert!(first.stdout.contains("one.txt"), "{first}");
    assert!(!fixture.is_asked(&["--workspace", "sea"], "look"));
    fixture.home.write("sea/two.txt", "another whale");
    let again = fixture.ask(&["--workspace", "sea"], "look").ok();
    assert!(again.stdout.contains("two.txt"), "{again}");
}

#[test]
fn volatile_context_requires_a_ttl() {
    let dated = |section: &str| agent(section) + "    add_date: true\n";
    let fixture = Fixture::of(PLAIN, &dated(""));
    for _ in 0..2 {
        fixture.ask(&[], "one").ok();
    }
    assert_eq!(fixture.requests(), 2);
    assert!(fixture.entries().is_empty());
    assert!(fixture.why().contains("`ttl`"), "{}", fixture.why());

    let fixture = Fixture::of(PLAIN, &agent(""));
    fixture.home.write(
        "hooks.yaml",
        "hooks: {user_prompt_submit: [{name: news, type: command, command: 'cat news.txt'}]}\n",
    );
    fixture.home.write("news.txt", "It rains.");
    let hooks = ["--hooks", "hooks.yaml"];
    fixture.ask(&hooks, "one").ok();
    fixture.home.write("news.txt", "The sun shines.");
    let changed = fixture.ask(&hooks, "one").ok();
    assert!(changed.stdout.contains("The sun shines."), "{changed}");
    // A user without that text gets another answer.
    assert!(fixture.is_asked(&[], "one"));
}

#[test]
fn synthetic_answer_of_a_script_is_not_cached() {
    let fixture = Fixture::of(PLAIN, &agent(""));
    fixture.home.write(
        "hooks.yaml",
        r#"hooks: {before_llm_call: [{type: command, command: "echo '{\"hook_specific_output\": {\"synthetic_response\": {\"content\": \"By a script.\"}}}'"}]}"#,
    );
    let ran = fixture.ask(&["--hooks", "hooks.yaml"], "one").ok();
    assert_eq!(ran.stdout, "By a script.\n");
    assert!(fixture.entries().is_empty());
    assert!(fixture.is_asked(&[], "one"));
}

#[test]
fn delegated_task_is_not_cached() {
    let file = "
agents:
  lead: {model: openai/gpt-4o, sub_agents: [helper], cache: {enabled: true}}
  helper: {model: openai/gpt-4o, description: Runs things., cache: {enabled: true}}
";
    let fixture = Fixture::of(SCRIPTED_MODEL, file);
    for _ in 0..2 {
        fixture.ask(&["--yes"], "delegate hello").ok();
    }
    assert_eq!(fixture.requests(), 6);
    assert!(fixture.entries().is_empty(), "{:?}", fixture.entries());
}

#[test]
fn secret_is_masked_in_the_cached_answer() {
    let script = format!("otherwise: {{text: 'It is {TOKEN}, I think.'}}");
    let fixture = Fixture::of(&script, &(agent("") + "    redact_secrets: true\n"));
    fixture.ask(&[], "the token?").ok();
    let key = fixture.entries()[0]["key"].as_str().unwrap().to_owned();
    let kept = fixture.home.run(&["cache", "get", &key]).ok();
    assert!(!kept.stdout.contains(TOKEN), "{kept}");
    assert!(kept.stdout.contains("I think."), "{kept}");
    let again = fixture.ask(&[], "the token?").ok();
    assert_eq!(fixture.requests(), 1, "{again}");
    assert!(!again.to_string().contains(TOKEN), "{again}");
    assert!(
        again.stdout.starts_with("It is ") && again.stdout.ends_with(", I think.\n"),
        "{again}"
    );
}

#[test]
fn provider_key_is_masked_in_the_cached_answer() {
    const KEY: &str = "sk-proj-4f9aQ2Lm";
    let script = format!("otherwise: {{text: 'It is {KEY}, I think.'}}");
    let fixture = Fixture::of(&script, &agent(""));
    let ask = || {
        let with_a_key = |command: &mut std::process::Command| {
            command.env("OPENAI_API_KEY", KEY);
        };
        fixture.ask_with(&[], "the key?", with_a_key).ok()
    };
    ask();
    let key = fixture.entries()[0]["key"].as_str().unwrap().to_owned();
    let kept = fixture.home.run(&["cache", "get", &key]).ok();
    assert!(!kept.stdout.contains(KEY), "{kept}");
    assert!(kept.stdout.contains("[secret], I think."), "{kept}");
    let again = ask();
    assert_eq!(fixture.requests(), 1, "{again}");
    assert_eq!(again.stdout, "It is [secret], I think.\n");
}
