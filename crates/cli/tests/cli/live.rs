//! One turn against a real provider: tools, streaming, reasoning, and a fork that reads what the turn
//! sent from the provider's cache. Each test runs only if its variable is set, since it costs a few
//! cents; it prints what it spent. The same turn runs against the simulator in every test run.

use std::process::Command;

use crate::provider::Provider;
use crate::support::{CommandOutput, Home};

/// A provider that the turn can run against.
struct Target {
    /// The variable that has to be `1`.
    switch: &'static str,
    /// The variable that holds the key.
    key: &'static str,
    /// A model that reasons, takes tools, and caches prefixes of 1,024 tokens.
    model: &'static str,
}

const OPENAI: Target = Target {
    switch: "CACHALOT_LIVE_OPENAI",
    key: "OPENAI_API_KEY",
    model: "openai/gpt-5.6-terra",
};

const ANTHROPIC: Target = Target {
    switch: "CACHALOT_LIVE_ANTHROPIC",
    key: "ANTHROPIC_API_KEY",
    model: "anthropic/claude-sonnet-5",
};

const QUESTION: &str =
    "Read depth.txt with your tool. Which number is in it, and is it divisible by seven?";

/// The model calls of one turn and of its review, as a real model would make them.
const SCRIPT: &str = "
rules:
  - user: 'depth.txt'
    tools: [read_file]
    steps:
      - tool_calls: [{name: read_file, arguments: {path: depth.txt}}]
      - text: 'The file says {{last_result}}, which 7 does not divide.'
  - user: '.'
    steps:
      - text: 'Nothing to remember.'
";

/// An agent whose instructions alone are longer than what providers cache at least (1,024 tokens).
fn agent(model: &str) -> String {
    let rules: String = (1..=120)
        .map(|number| {
            format!("      - Station {number}: depths are in metres, times in UTC, and gaps stay gaps.\n")
        })
        .collect();
    format!(
        "
models:
  live:
    model: {model}
    reasoning_effort: low
    max_tokens: 4000
agents:
  root:
    model: live
    instruction: |
      You answer questions about the files of a research station, in one sentence.
{rules}
    toolsets:
      - type: filesystem
      - type: memory
    review:
      every_turns: 1
      kind: memory
      tools: [memory]
budget:
  max_cost: 0.25
"
    )
}

fn turn(target: &Target, change: impl FnOnce(&mut Command)) -> CommandOutput {
    let home = Home::new();
    home.write("depth.txt", "4231\n");
    home.write("agent.yaml", agent(target.model));
    let command = home.command(&["chat", "agent.yaml"]);
    let ran = home.answer(command, QUESTION.as_bytes(), change).ok();
    assert!(
        ran.stdout.replace(',', "").contains("4231"),
        "the answer does not have the number of the file: {ran}"
    );
    assert!(ran.stderr.contains("read_file"), "{ran}");
    let review = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("review: "))
        .unwrap_or_else(|| panic!("no review ran: {ran}"));
    let read: Vec<u64> = review
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!(
        review.contains("read from the provider's cache") && read[0] > 1_000,
        "the fork did not read the cache: {ran}"
    );
    ran
}

#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
fn against_the_real_provider(target: &Target) {
    let is_set = |name: &str| std::env::var(name).is_ok_and(|value| !value.is_empty());
    if std::env::var(target.switch).as_deref() != Ok("1") {
        eprintln!("skipped: set {}=1 to pay for this test", target.switch);
        return;
    }
    assert!(is_set(target.key), "{} is not set", target.key);
    let ran = turn(target, |command| {
        command.env(target.key, std::env::var_os(target.key).unwrap());
    });
    let spent = ran.stderr.lines().find(|line| line.starts_with("in all "));
    eprintln!("{}: {}", target.model, spent.unwrap_or(&ran.stderr));
}

#[test]
fn openai_answers_with_tools_and_its_cache() {
    against_the_real_provider(&OPENAI);
}

#[test]
fn anthropic_answers_with_tools_and_its_cache() {
    against_the_real_provider(&ANTHROPIC);
}

#[test]
fn the_simulator_answers_the_same_turn() {
    for target in [OPENAI, ANTHROPIC] {
        let provider = Provider::scripted(SCRIPT);
        let ran = turn(&target, |command| provider.known_to(command));
        assert!(
            ran.stderr.lines().any(|line| line.starts_with("in all ")),
            "{ran}"
        );
    }
}
