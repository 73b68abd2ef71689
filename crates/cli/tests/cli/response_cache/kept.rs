//! Which answers are kept, and how long they hold.

use super::{PLAIN, TOKEN, World, agent, with_tools};
use crate::provider::OBEDIENT;

#[test]
fn the_answer_of_a_turn_that_read_a_file_lasts_as_long_as_the_file() {
    let world = World::of(OBEDIENT, &with_tools(""));
    world.home.write("note.txt", "inside");
    let first = world.ask(&[], "read note.txt").ok();
    assert!(first.stdout.contains("inside"), "{first}");
    let again = world.ask(&[], "read note.txt").ok();
    assert_eq!(
        (world.requests(), &again.stdout),
        (2, &first.stdout),
        "{again}"
    );
    world.home.write("note.txt", "another thing");
    let changed = world.ask(&[], "read note.txt").ok();
    assert!(changed.stdout.contains("another thing"), "{changed}");
    let why = world.why();
    assert!(
        why.contains("changed since") && why.contains("note.txt"),
        "{why}"
    );
    assert!(!world.is_asked(&[], "read note.txt"));
    std::fs::remove_file(world.home.join("note.txt")).unwrap();
    let gone = world.ask(&[], "read note.txt").ok();
    assert!(!gone.stdout.contains("another thing"), "{gone}");
}

#[test]
fn what_is_no_answer_to_give_again_is_not_kept_and_why_says_so() {
    const SCRIPT: &str = "
rules:
  - {user: refuse, steps: [{text: No., stop: refusal}]}
  - {user: length, steps: [{text: A long, stop: length}]}
  - {user: fail, steps: [{text: x, fault: 400}]}
  - {user: cut, steps: [{text: a b c d, fault: {cut: {after_events: 2}}}]}
otherwise: {text: Fine.}
";
    let world = World::of(SCRIPT, &agent(""));
    for (question, reason) in [
        ("refuse", "the model refused"),
        ("length", "reached its limit"),
        ("fail", ""),
        ("cut", ""),
    ] {
        for count in 1..=2 {
            let before = world.requests();
            let ran = world.ask(&[], question).fails(1);
            assert!(world.requests() > before, "{question}, {count}: {ran}");
            let why = world.why();
            assert!(
                why.contains("root (turn)") && why.contains(reason),
                "{question}: {why}"
            );
        }
    }
    assert!(world.entries().is_empty(), "{:?}", world.entries());
}

#[test]
fn a_turn_that_did_something_is_not_given_again() {
    let world = World::of(OBEDIENT, &with_tools(""));
    for _ in 0..2 {
        world.ask(&["--yes"], "run echo ran >> log; echo done").ok();
    }
    let log = std::fs::read_to_string(world.home.join("log")).unwrap();
    assert_eq!(log, "ran\nran\n");
    assert!(world.entries().is_empty());
    let why = world.why();
    assert!(why.contains("`shell` may have changed something"), "{why}");
    // What was refused may be allowed the next time.
    let asked = world.requests();
    world.ask(&[], "run touch made").ok();
    world.ask(&["--yes"], "run touch made").ok();
    assert!(world.home.join("made").exists());
    assert_eq!(world.requests(), asked + 4);
    // With a time to live it is not different.
    world.home.write("agent.yaml", with_tools(", ttl: 1h"));
    world.ask(&["--yes"], "run echo again >> log").ok();
    world.ask(&["--yes"], "run echo again >> log").ok();
    let log = std::fs::read_to_string(world.home.join("log")).unwrap();
    assert_eq!(log.matches("again").count(), 2);
}

#[test]
fn a_search_that_would_find_more_is_made_again() {
    const SCRIPT: &str = "
rules:
  - user: look
    steps:
      - tool_calls: [{name: grep, arguments: {pattern: whale}}]
      - text: 'Found: {{last_result}}'
";
    let world = World::of(SCRIPT, &with_tools(""));
    world.home.write("sea/one.txt", "a whale");
    let first = world.ask(&["--workspace", "sea"], "look").ok();
    assert!(first.stdout.contains("one.txt"), "{first}");
    assert!(!world.is_asked(&["--workspace", "sea"], "look"));
    world.home.write("sea/two.txt", "another whale");
    let again = world.ask(&["--workspace", "sea"], "look").ok();
    assert!(again.stdout.contains("two.txt"), "{again}");
}

#[test]
fn volatile_context_needs_a_time_to_live() {
    let dated = |section: &str| agent(section) + "    add_date: true\n";
    let world = World::of(PLAIN, &dated(""));
    for _ in 0..2 {
        world.ask(&[], "one").ok();
    }
    assert_eq!(world.requests(), 2);
    assert!(world.entries().is_empty());
    assert!(world.why().contains("`ttl`"), "{}", world.why());

    let world = World::of(PLAIN, &agent(""));
    world.home.write(
        "hooks.yaml",
        "hooks: {user_prompt_submit: [{name: news, type: command, command: 'cat news.txt'}]}\n",
    );
    world.home.write("news.txt", "It rains.");
    let hooks = ["--hooks", "hooks.yaml"];
    world.ask(&hooks, "one").ok();
    world.home.write("news.txt", "The sun shines.");
    let changed = world.ask(&hooks, "one").ok();
    assert!(changed.stdout.contains("The sun shines."), "{changed}");
    // Whoever is not told it gets another answer.
    assert!(world.is_asked(&[], "one"));
}

#[test]
fn a_turn_that_a_script_answered_is_not_kept() {
    let world = World::of(PLAIN, &agent(""));
    world.home.write(
        "hooks.yaml",
        r#"hooks: {before_llm_call: [{type: command, command: "echo '{\"hook_specific_output\": {\"synthetic_response\": {\"content\": \"By a script.\"}}}'"}]}"#,
    );
    let ran = world.ask(&["--hooks", "hooks.yaml"], "one").ok();
    assert_eq!(ran.stdout, "By a script.\n");
    assert!(world.entries().is_empty());
    assert!(world.is_asked(&[], "one"));
}

#[test]
fn a_task_that_another_agent_gave_is_not_kept() {
    let file = "
agents:
  lead: {model: openai/gpt-4o, sub_agents: [helper], cache: {enabled: true}}
  helper: {model: openai/gpt-4o, description: Runs things., cache: {enabled: true}}
";
    let world = World::of(OBEDIENT, file);
    for _ in 0..2 {
        world.ask(&["--yes"], "delegate hello").ok();
    }
    assert_eq!(world.requests(), 6);
    assert!(world.entries().is_empty(), "{:?}", world.entries());
}

#[test]
fn a_secret_is_kept_masked() {
    let script = format!("otherwise: {{text: 'It is {TOKEN}, I think.'}}");
    let world = World::of(&script, &(agent("") + "    redact_secrets: true\n"));
    world.ask(&[], "the token?").ok();
    let key = world.entries()[0]["key"].as_str().unwrap().to_owned();
    let kept = world.home.run(&["cache", "get", &key]).ok();
    assert!(!kept.stdout.contains(TOKEN), "{kept}");
    assert!(kept.stdout.contains("I think."), "{kept}");
    let again = world.ask(&[], "the token?").ok();
    assert_eq!(world.requests(), 1, "{again}");
    assert!(!again.to_string().contains(TOKEN), "{again}");
    assert!(
        again.stdout.starts_with("It is ") && again.stdout.ends_with(", I think.\n"),
        "{again}"
    );
}

#[test]
fn the_key_of_a_provider_is_kept_masked() {
    const KEY: &str = "sk-proj-4f9aQ2Lm";
    let script = format!("otherwise: {{text: 'It is {KEY}, I think.'}}");
    let world = World::of(&script, &agent(""));
    let ask = || {
        let with_a_key = |command: &mut std::process::Command| {
            command.env("OPENAI_API_KEY", KEY);
        };
        world.ask_with(&[], "the key?", with_a_key).ok()
    };
    ask();
    let key = world.entries()[0]["key"].as_str().unwrap().to_owned();
    let kept = world.home.run(&["cache", "get", &key]).ok();
    assert!(!kept.stdout.contains(KEY), "{kept}");
    assert!(kept.stdout.contains("[secret], I think."), "{kept}");
    let again = ask();
    assert_eq!(world.requests(), 1, "{again}");
    assert_eq!(again.stdout, "It is [secret], I think.\n");
}
