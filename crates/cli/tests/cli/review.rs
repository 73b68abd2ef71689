//! Reviews in the background, side questions and `/reload`, through the command.

use serde_json::Value;

use crate::bodies::{Turn, turns};
use crate::provider::{Provider, session};
use crate::support::{CommandOutput, Home};

const EXAMPLE: &str = "examples/assistant_with_review.yaml";
const QUESTION: &str = "How deep can a sperm whale dive?";
/// Has a word in it that the review stores.
const LATER: &str = "And how long, dear simulator?";

/// The example, as `changed` has it.
fn with_the_example(changed: impl FnOnce(String) -> String) -> Home {
    let home = Home::new();
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../examples/assistant_with_review.yaml"
    );
    home.write(EXAMPLE, changed(std::fs::read_to_string(path).unwrap()));
    home
}

/// The line that tells of the review.
fn reported(ran: &CommandOutput) -> &str {
    let mut lines = ran
        .stderr
        .lines()
        .filter(|line| line.starts_with("review: "));
    let line = lines
        .next()
        .unwrap_or_else(|| panic!("no review is told of: {ran}"));
    assert_eq!(lines.next(), None, "{ran}");
    line
}

/// Its parts: `stored 1 memory`, `1 of the chat's 2 tokens …`, `$1`, `denied: shell`.
fn parts(line: &str) -> Vec<&str> {
    line.trim_start_matches("review: ").split(" · ").collect()
}

#[test]
fn example_review_reads_the_cached_chat_and_has_no_shell() {
    let (home, provider) = (with_the_example(|text| text), Provider::built_in());
    let ran = home.ask(&provider, &[EXAMPLE], QUESTION).ok();
    assert!(
        ran.stdout.starts_with("[simulated claude-sonnet-5]"),
        "{ran}"
    );
    assert_eq!(ran.stdout.lines().count(), 3, "the answer alone: {ran}");
    let parts = parts(reported(&ran));
    let [stored, read, cost, denied] = parts[..] else {
        panic!("{parts:?}");
    };
    assert_eq!((stored, denied), ("stored 1 memory", "denied: shell"));
    let numbers: Vec<u64> = read
        .split(' ')
        .filter_map(|word| word.parse().ok())
        .collect();
    assert!(
        read.ends_with("tokens read from the provider's cache"),
        "{read}"
    );
    assert_eq!(numbers[0], numbers[1], "all that the chat had sent: {read}");
    assert!(numbers[0] > 1_024 && *cost == *"<$0.01", "{parts:?}");

    // What it cost is in the sum of the chat.
    assert!(ran.stderr.contains("\nin all "), "{ran}");
    let in_all = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("in all "))
        .unwrap();
    assert!(!in_all.contains("(0 of them"), "{in_all}");
    assert!(in_all.contains("cached by the provider"), "{in_all}");

    // The next chat remembers it, and the session goes on without the review.
    let ran = home
        .ask(&provider, &[EXAMPLE, "--session", &session(&ran)], LATER)
        .ok();
    let received = provider.received();
    let again = received.iter().map(|request| request.json());
    let again = again
        .skip(1)
        .find(|body| said(body).contains(LATER))
        .unwrap();
    assert_eq!(turns(&again).len(), 3, "{again}");
    assert!(said(&again).contains("simulated review"), "{again}");
    assert!(reported(&ran).contains("stored 1 memory"), "{ran}");
    assert_eq!(received.len(), 8);
    drop(provider.accepting_anything());
}

/// The newest user message.
fn said(body: &Value) -> String {
    match turns(body).pop() {
        Some(Turn::User(said)) => said,
        _ => String::new(),
    }
}

#[test]
fn review_inherit_none_reads_uncached() {
    let none = |text: String| text.replace("kind: memory", "kind: memory\n      inherit: none");
    let (home, provider) = (with_the_example(none), Provider::built_in());
    let ran = home.ask(&provider, &[EXAMPLE], QUESTION).ok();
    let parts = parts(reported(&ran));
    assert_eq!(parts[0], "stored 1 memory");
    assert!(parts[1].ends_with("tokens read anew"), "{parts:?}");
    assert_eq!(
        parts.len(),
        3,
        "what it is not shown it does not try: {parts:?}"
    );
    drop(provider.accepting_anything());
}

#[test]
fn notify_controls_the_detail_of_the_report() {
    let (home, provider) = (with_the_example(|text| text), Provider::built_in());
    let ran = home.ask(&provider, &[EXAMPLE, "-v"], QUESTION).ok();
    for expected in [
        "  the review: shell",
        "refused",
        "  the review: memory",
        "  review | [simulated] I remember whom the user talks to.",
        "  review | 3 model calls, 2 tool calls, ",
    ] {
        assert!(ran.stderr.contains(expected), "{expected}: {ran}");
    }
    let ran = home.ask(&provider, &[EXAMPLE, "-q"], QUESTION).ok();
    assert!(!ran.stderr.contains("review"), "{ran}");
    let ran = home.ask(&provider, &[EXAMPLE, "--json"], QUESTION).ok();
    assert!(
        ran.json()["answer"].as_str().unwrap().contains(QUESTION),
        "{ran}"
    );
    drop(provider.accepting_anything());
}

#[test]
fn json_output_contains_the_review_and_the_total_cost() {
    let (home, provider) = (with_the_example(|text| text), Provider::built_in());
    let ran = home.ask(&provider, &[EXAMPLE, "--json"], QUESTION).ok();
    let reported = ran.json();
    let reviews = reported["reviews"].as_array().unwrap();
    let [review] = &reviews[..] else {
        panic!("{reviews:?}");
    };
    assert_eq!(review["result"], "memory");
    assert_eq!(review["denied"], serde_json::json!(["shell"]));
    assert!(!review["session"].as_str().unwrap().is_empty(), "{review}");
    let calls = |report: &Value| report["report"]["model_calls"].as_u64().unwrap();
    assert_eq!((calls(review), calls(&reported)), (3, 4), "{reported}");
    let dollars = |report: &Value| report["report"]["dollars"].as_f64().unwrap();
    assert!(0.0 < dollars(review) && dollars(review) < dollars(&reported));
    let tokens = reported["report"]["input_tokens"].as_u64().unwrap();
    let shown = format!("in all {},{:03} tokens in ", tokens / 1_000, tokens % 1_000);
    assert!(ran.stderr.contains(&shown), "{ran}");
    // Without a review the list is empty.
    let plain = home.write("plain.yaml", "agents: {root: {model: openai/gpt-4o}}\n");
    let plain = plain.to_str().unwrap();
    let ran = home.ask(&provider, &[plain, "--json"], "hello").ok();
    assert_eq!(ran.json()["reviews"], serde_json::json!([]));
    drop(provider.accepting_anything());
}

#[test]
fn parts_without_inheritance_are_not_counted_as_inherited() {
    let none = |text: String| text.replace("kind: memory", "kind: memory\n      inherit: none");
    let (home, provider) = (with_the_example(none), Provider::built_in());
    home.ask(&provider, &[EXAMPLE], QUESTION).ok();
    // The provider has the beginning of the review before this one in its cache.
    let ran = home.ask(&provider, &[EXAMPLE], QUESTION).ok();
    let read = parts(reported(&ran))[1];
    let tokens = read.strip_suffix(" tokens read from the provider's cache");
    let tokens = tokens.and_then(|tokens| tokens.parse::<u64>().ok());
    assert!(tokens.is_some(), "{read}");
    drop(provider.accepting_anything());
}

#[test]
fn usage_of_a_review_is_separate_from_the_chats() {
    const READING: &str = "
rules:
  - user: 'Review this conversation'
    steps:
      - tool_calls: [{name: read_file, arguments: {path: notes.md}}]
      - tool_calls: [{name: read_file, arguments: {path: other.md}}]
      - text: Nothing to keep.
otherwise: {text: 'I was told: {{user}}'}
";
    for (notify, expected) in [
        ("on", &["the review: Tool cache stats: 0/2 hits (0%)"][..]),
        ("off", &[]),
    ] {
        let home = with_the_example(|text| {
            let keys = format!("kind: memory\n      notify: {notify}");
            text.replace("kind: memory", &keys) + "\ntools: {cacheToolResults: true}\n"
        });
        home.write("notes.md", "Whales.");
        home.write("other.md", "Waves.");
        let provider = Provider::scripted(READING);
        let ran = home.ask(&provider, &[EXAMPLE], QUESTION).ok();
        let asked = provider.received();
        assert_eq!(asked.len(), 4, "{ran}");
        assert!(asked[3].json().to_string().contains("Waves."), "{ran}");
        let lines = ran.stderr.lines();
        let figures: Vec<&str> = lines.filter(|line| line.contains("cache stats")).collect();
        assert_eq!(figures, expected, "{notify}: {ran}");
        drop(provider.accepting_anything());
    }
}

#[test]
fn why_shows_the_cost_of_a_review() {
    let (home, provider) = (with_the_example(|text| text), Provider::built_in());
    let ran = home.ask(&provider, &[EXAMPLE, "--json"], QUESTION).ok();
    let reported = ran.json();
    let why = |session: &Value| home.run(&["why", session.as_str().unwrap()]).ok().stdout;
    let review = why(&reported["reviews"][0]["session"]);
    assert!(
        review.contains("  on behalf of          the review\n"),
        "{review}"
    );
    let chat = why(&reported["session"]);
    assert!(!chat.contains("on behalf of"), "{chat}");
    drop(provider.accepting_anything());
}

#[test]
fn truncated_answer_of_a_review_is_recorded_as_truncated() {
    const CUT: &str = "
rules:
  - user: 'Review this conversation'
    steps: [{text: This is what I have found, fault: {cut: {after_events: 6}}}]
otherwise: {text: 'I was told: {{user}}'}
";
    let (home, provider) = (with_the_example(|text| text), Provider::scripted(CUT));
    let ran = home.ask(&provider, &[EXAMPLE], QUESTION).ok();
    assert!(reported(&ran).starts_with("review: failed: "), "{ran}");
    let in_all = ran.stderr.lines().find(|line| line.starts_with("in all "));
    assert!(
        in_all
            .unwrap()
            .contains("without 1 answer that was cut off"),
        "{ran}"
    );
    drop(provider.accepting_anything());
}

#[test]
fn unusable_tool_of_a_review_is_a_problem_of_the_file() {
    let home = Home::new();
    let review = |tools: &str, toolset: &str| {
        home.write(
            "agent.yaml",
            format!("agents:\n  root:\n    model: gpt-4o\n    toolsets: [{toolset}]\n    review: {{tools: [{tools}]}}\n"),
        );
        home.run(&["validate", "agent.yaml"])
    };
    let ran = review("memory, grepp", "{type: filesystem}, {type: memory}").fails(2);
    assert!(ran.stderr.contains("unknown-tool"), "{ran}");
    assert!(
        ran.stderr.contains("no tool `grepp`") && ran.stderr.contains("`grep`?"),
        "{ran}"
    );
    assert!(!ran.stderr.contains("`memory` that"), "{ran}");
    let ran = review("write_file", "{type: filesystem, readonly: true}").fails(2);
    assert!(ran.stderr.contains("no tool `write_file`"), "{ran}");
    review("memory", "{type: memory}").ok();
    // What a server has is known when it runs.
    review("issue_list", "{type: mcp, name: tracker, command: tracker}").ok();
}

#[cfg(unix)]
mod on_a_terminal {
    use std::time::{Duration, Instant};

    use super::{EXAMPLE, Home, Provider, QUESTION, with_the_example};
    use crate::provider::{SCRIPTED_MODEL, SHELL};
    use crate::terminal::{CTRL_C, CTRL_D, Terminal};

    #[test]
    fn a_review_is_reported_while_the_user_types() {
        let (home, provider) = (with_the_example(|text| text), Provider::built_in());
        let mut command = home.command(&["chat", EXAMPLE]);
        provider.known_to(&mut command);
        let mut terminal = Terminal::start(&mut command);
        terminal.prompt().say(QUESTION).see("tokens in").prompt();
        terminal
            .see("review: stored 1 memory · ")
            .see("denied: shell");
        terminal
            .say("/review the units")
            .see("the review runs in the background");
        terminal.see("review: stored 1 memory · ");
        terminal
            .say("/btw what did I ask?")
            .see("You wrote: what did I ask?");
        terminal
            .see("tokens in")
            .prompt()
            .say("/btw")
            .see("takes a question behind it");
        terminal
            .prompt()
            .say("/reload")
            .see("the tools are those that the session has");
        terminal
            .prompt()
            .say("/help")
            .see("/btw")
            .see("/reload")
            .see("/review");
        terminal.prompt().leave();
        let asked = provider.received();
        let asked: Vec<String> = asked
            .iter()
            .map(|request| request.json().to_string())
            .collect();
        assert!(
            asked
                .iter()
                .any(|body| body.contains("above all: the units"))
        );
        drop(provider.accepting_anything());
    }

    /// Waits until the provider has been asked so often.
    fn until_asked(provider: &Provider, times: usize) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while provider.received().len() < times {
            assert!(Instant::now() < deadline, "it is not asked");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    const SLOW: &str = "
rules:
  - user: 'Review this conversation'
    steps: [{text: late, fault: {slow: {first_byte: 600s, per_event: 1s}}}]
otherwise: {text: 'I was told: {{user}}'}
";

    #[test]
    fn the_chat_waits_for_a_review_at_its_end_or_cancels_it() {
        let (home, provider) = (with_the_example(|text| text), Provider::scripted(SLOW));
        let mut command = home.command(&["chat", EXAMPLE]);
        provider.known_to(&mut command);
        let mut terminal = Terminal::start(&mut command);
        terminal
            .prompt()
            .say(QUESTION)
            .see("I was told")
            .see("tokens in")
            .prompt();
        terminal
            .press(CTRL_D)
            .see("the review is still running; Ctrl-C ends it");
        until_asked(&provider, 2);
        terminal
            .press(CTRL_C)
            .see("review: failed: it was cancelled")
            .see("in all ")
            .see("without 1 answer that was cut off");
        assert_eq!(terminal.ended(), Some(0), "{}", terminal.text());
    }

    #[test]
    fn truncated_answer_of_a_side_question_is_recorded_as_truncated() {
        let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
        home.write("agent.yaml", SHELL);
        let mut command = home.command(&["chat", "agent.yaml"]);
        provider.known_to(&mut command);
        let mut terminal = Terminal::start(&mut command);
        terminal
            .prompt()
            .say("hello")
            .see("I was told: hello")
            .see("tokens in")
            .prompt()
            .say("/btw slowly");
        until_asked(&provider, 2);
        terminal.press(CTRL_C).see("interrupted");
        terminal.see("0 tokens in").see("1 answer that was cut off");
        // It is none of the next turn's, and part of the whole.
        terminal
            .prompt()
            .say("hello again")
            .see("I was told: hello again");
        terminal.see("tokens in").prompt();
        let text = terminal.leave();
        let sums: Vec<bool> = text
            .lines()
            .filter(|line| line.contains(" tokens in"))
            .map(|line| line.contains("1 answer that was cut off"))
            .collect();
        assert_eq!(sums, [false, true, false, true], "{text}");
        drop(provider.accepting_anything());
    }
}
