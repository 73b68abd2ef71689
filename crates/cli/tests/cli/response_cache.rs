//! Answers that are given again.

mod flat_file;
mod stored_answers;
#[cfg(unix)]
mod terminals;

use std::process::Command;

use serde_json::{Value, json};

use crate::provider::{Provider, session};
use crate::support::{CommandOutput, Home};

/// A model whose every answer tells how it was asked.
const PLAIN: &str = "otherwise: {text: 'I was told: {{user}}'}";

/// A credential-like text.
const TOKEN: &str = "ghp_0123456789abcdefghijklmnopqrstuvwxyzAB";

/// An agent with a section `cache`.
fn agent(section: &str) -> String {
    format!(
        "agents:\n  root:\n    model: openai/gpt-4o\n    instruction: Answer.\n    cache: {{enabled: true{section}}}\n"
    )
}

/// An agent with tools, whose answers are kept.
fn with_tools(section: &str) -> String {
    let toolsets = "    toolsets: [{type: filesystem}, {type: shell}]\n";
    agent(section) + toolsets
}

/// A home, and a provider that knows how often it was asked.
struct Fixture {
    home: Home,
    provider: Provider,
}

impl Fixture {
    fn of(script: &str, file: &str) -> Self {
        let home = Home::new();
        home.write("agent.yaml", file);
        let provider = Provider::scripted(script);
        Self { home, provider }
    }

    /// Asks as Ada.
    fn ask(&self, arguments: &[&str], question: &str) -> CommandOutput {
        self.ask_with(arguments, question, |_| {})
    }

    fn ask_with(
        &self,
        arguments: &[&str],
        question: &str,
        change: impl FnOnce(&mut Command),
    ) -> CommandOutput {
        let arguments = [&["agent.yaml"], arguments].concat();
        self.home
            .ask_with(&self.provider, &arguments, question.as_bytes(), |command| {
                command.env("USER", "ada");
                change(command);
            })
    }

    /// The number of model requests.
    fn requests(&self) -> usize {
        self.provider.received().len()
    }

    /// Asks; whether the model was asked at least once.
    #[track_caller]
    fn is_asked(&self, arguments: &[&str], question: &str) -> bool {
        let before = self.requests();
        let ran = self.ask(arguments, question).ok();
        let asked = self.requests() > before;
        let reported = ran.stderr.contains("answered before");
        assert_ne!(asked, reported, "what is told is what happened: {ran}");
        asked
    }

    fn why(&self) -> String {
        self.home.run(&["why", "--last"]).ok().stdout
    }

    fn entries(&self) -> Vec<Value> {
        let listed = self.home.run(&["cache", "ls", "--kind", "turn", "--json"]);
        listed.ok().json().as_array().unwrap().clone()
    }
}

#[test]
fn faq_example_requests_each_question_once() {
    let home = Home::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/faq.yaml");
    home.write("agent.yaml", std::fs::read(example).unwrap());
    let fixture = Fixture {
        home,
        provider: Provider::built_in(),
    };
    let first = fixture.ask(&[], "How deep can a sperm whale dive?").ok();
    assert_eq!(fixture.requests(), 1);
    assert!(!first.stderr.contains("answered before"), "{first}");
    let second = fixture
        .ask(&[], "  how deep can a SPERM whale dive?  ")
        .ok();
    assert_eq!(fixture.requests(), 1, "{second}");
    assert_eq!(second.stdout, first.stdout);
    let reported = second
        .stderr
        .lines()
        .find(|line| line.starts_with("answered before"))
        .unwrap_or_else(|| panic!("it is not told: {second}"));
    for expected in ["(key ", "saved ", "tokens in", " out", "$0.0"] {
        assert!(reported.contains(expected), "{expected}: {second}");
    }
    assert!(
        second.stderr.contains("in all 0 tokens in, 0 out · $0"),
        "{second}"
    );
    let shown = fixture
        .home
        .run(&["sessions", "show", &session(&second)])
        .ok();
    assert!(shown.stdout.contains("  (answered before, "), "{shown}");
    let show = ["sessions", "show", &session(&second), "--json"];
    let shown = fixture.home.run(&show).ok().json();
    let mark = &shown["messages"][1]["extra"]["@synthetic"];
    assert_eq!(mark["saved"]["calls"], 1, "{shown}");
    assert_eq!(mark["metadata"]["key"].as_str().unwrap().len(), 64);
    assert!(mark["metadata"]["age_seconds"].is_string(), "{shown}");
    let shown = fixture
        .home
        .run(&["sessions", "show", &session(&first)])
        .ok();
    assert!(!shown.stdout.contains("answered before"), "{shown}");
    assert!(fixture.is_asked(&[], "How long is a blue whale?"));
}

#[test]
fn answers_are_listed_explained_and_removed() {
    let fixture = Fixture::of(PLAIN, &agent(""));
    assert!(fixture.is_asked(&[], "one"));
    assert!(!fixture.is_asked(&[], "one"));
    assert!(
        fixture.why().contains("answered from the cache"),
        "{}",
        fixture.why()
    );
    let listed = fixture.home.run(&["cache", "ls", "--kind", "turn"]).ok();
    assert_eq!(listed.stdout.lines().count(), 1, "{listed}");
    assert!(listed.stdout.starts_with("turn:root "), "{listed}");
    let others = fixture.home.run(&["cache", "ls", "--kind", "tool"]).ok();
    assert_eq!(others.stdout, "");
    let key = fixture.entries()[0]["key"].as_str().unwrap().to_owned();
    let why = fixture.home.run(&["why", &key]).ok();
    assert!(why.stdout.contains("root (turn)"), "{why}");
    let stats = fixture.home.run(&["cache", "stats", "--json"]).ok().json();
    assert_eq!(
        (&stats["totals"]["hits"], &stats["totals"]["misses"]),
        (&json!(1), &json!(1)),
        "{stats}"
    );
    let dry = ["cache", "rm", "--kind", "turn", "--dry-run"];
    let dry = fixture.home.run(&dry).ok();
    assert!(dry.stderr.contains("would erase 1 entry"), "{dry}");
    let removed = fixture.home.run(&["cache", "rm", "--kind", "turn"]).ok();
    assert!(removed.stderr.contains("erased 1 entry"), "{removed}");
    assert!(fixture.entries().is_empty());
    assert!(fixture.is_asked(&[], "one"));
    fixture.home.run(&["cache", "rm", "--action", "root"]).ok();
    assert!(fixture.is_asked(&[], "one"));
}

#[test]
fn replayed_answers_are_marked_in_json_output() {
    let fixture = Fixture::of(PLAIN, &agent(""));
    let first = fixture.ask(&["--json"], "one").ok().json();
    assert!(first["answered_by"].is_null(), "{first}");
    let second = fixture.ask(&["--json"], "one").ok().json();
    assert_eq!(second["answer"], first["answer"]);
    let by = second["answered_by"].as_str().unwrap();
    assert!(by.starts_with("answered before"), "{second}");
    let report = &second["report"];
    assert_eq!(report["model_calls"], 0);
    assert_eq!(
        (&report["input_tokens"], &report["output_tokens"]),
        (&json!(0), &json!(0))
    );
    assert_eq!(
        report["saved"]["input_tokens"],
        first["report"]["input_tokens"]
    );
    assert_eq!(report["saved"]["dollars"], first["report"]["dollars"]);
    // The answer alone is on stdout, and nothing else anywhere.
    let quiet = fixture.ask(&["-q"], "one").ok();
    assert_eq!(
        (quiet.stdout.as_str(), quiet.stderr.as_str()),
        ("I was told: one\n", "")
    );
}

#[test]
fn the_response_cache_can_be_bypassed() {
    let fixture = Fixture::of(PLAIN, &agent(""));
    assert!(fixture.is_asked(&[], "one"));
    assert!(fixture.is_asked(&["--no-cache"], "one"));
    assert!(fixture.is_asked(&["--refresh"], "one"));
    assert!(!fixture.is_asked(&[], "one"));
    assert_eq!(fixture.entries().len(), 1);
    assert!(fixture.is_asked(&["--no-cache"], "two"));
    assert!(fixture.is_asked(&[], "two"), "nothing was kept of it");
}

#[test]
fn key_covers_everything_the_answer_depends_on() {
    let fixture = Fixture::of(PLAIN, &with_tools(""));
    let yes = &["--yes"][..];
    assert!(fixture.is_asked(yes, "one"));
    assert!(!fixture.is_asked(yes, "one"));
    let file = with_tools("");
    for (what, changed) in [
        ("instruction", file.replace("Answer.", "Answer well.")),
        ("model", file.replace("gpt-4o", "gpt-4o-mini")),
        ("tools", file.replace(", {type: shell}", "")),
        ("name", file.replace("root", "boss")),
        ("case", with_tools(", case_sensitive: false")),
    ] {
        fixture.home.write("agent.yaml", changed);
        assert!(fixture.is_asked(yes, "one"), "{what}");
        assert!(!fixture.is_asked(yes, "one"), "{what}");
    }
    fixture.home.write("agent.yaml", &file);
    assert!(
        !fixture.is_asked(yes, "one"),
        "what was kept is still there"
    );
    assert!(
        fixture.is_asked(yes, "One"),
        "conversations are told apart exactly"
    );
    std::fs::create_dir(fixture.home.join("inside")).unwrap();
    assert!(fixture.is_asked(&["--workspace", "inside"], "one"));
}

#[test]
fn why_explains_a_changed_instruction() {
    let fixture = Fixture::of(PLAIN, &agent(""));
    assert!(fixture.is_asked(&[], "one"));
    fixture
        .home
        .write("agent.yaml", agent("").replace("Answer.", "Reply."));
    assert!(fixture.is_asked(&[], "one"));
    let why = fixture.why();
    assert!(why.contains("fingerprint"), "{why}");
}

#[test]
fn scope_decides_whether_users_share_answers() {
    let by = |fixture: &Fixture, user: &str| {
        let before = fixture.requests();
        let user = user.to_owned();
        fixture
            .ask_with(&[], "one", |command| {
                command.env("USER", user);
            })
            .ok();
        fixture.requests() > before
    };
    let fixture = Fixture::of(PLAIN, &agent(""));
    assert!(by(&fixture, "ada") && by(&fixture, "bob"));
    assert!(!by(&fixture, "ada") && !by(&fixture, "bob"));
    for scope in ["agent", "global"] {
        let fixture = Fixture::of(PLAIN, &agent(&format!(", scope: {scope}")));
        assert!(by(&fixture, "ada") && !by(&fixture, "bob"), "{scope}");
    }
    let fixture = Fixture::of(PLAIN, &agent(", scope: session"));
    assert!(by(&fixture, "ada") && by(&fixture, "ada"));
    // Where no variable says who it is, the system does.
    let fixture = Fixture::of(PLAIN, &agent(""));
    for _ in 0..2 {
        fixture
            .home
            .ask(&fixture.provider, &["agent.yaml"], "one")
            .ok();
    }
    assert_eq!(fixture.requests(), 1);
}

#[test]
fn match_conversation_requires_an_equal_conversation() {
    // In Responses, an answer that is given again has no item id, so that its session sends other bytes
    // than the session that paid for it.
    let file = agent("").replace("openai/gpt-4o", "chat");
    let models = "models: {chat: {provider: openai, model: gpt-4o, format: chat}}\n";
    let fixture = Fixture::of(PLAIN, &(models.to_owned() + &file));
    let first = session(&fixture.ask(&[], "of whales").ok());
    let second = fixture.ask(&[], "of whales").ok();
    assert_eq!(
        fixture.requests(),
        1,
        "the first question of two sessions: {second}"
    );
    let second = session(&second);
    // The same conversation stands before both, word for word.
    assert!(fixture.is_asked(&["--session", &first], "how deep?"));
    assert!(!fixture.is_asked(&["--session", &second], "how deep?"));
    // Another one stands before this.
    let third = session(&fixture.ask(&[], "of birds").ok());
    assert!(fixture.is_asked(&["--session", &third], "how deep?"));
    assert!(fixture.is_asked(&[], "how deep?"));
    // What was answered before is a message of the conversation like any other.
    assert!(fixture.is_asked(&["--session", &second], "and then?"));
    let body = fixture.provider.received().last().unwrap().json();
    let messages = body["messages"].as_array().unwrap();
    let said: Vec<&str> = messages
        .iter()
        .map(|message| message["content"].as_str().unwrap())
        .collect();
    assert_eq!(
        said,
        [
            "Answer.",
            "of whales",
            "I was told: of whales",
            "how deep?",
            "I was told: how deep?",
            "and then?"
        ],
        "{body}"
    );
    assert!(!body.to_string().contains("answered before"), "{body}");
}

#[test]
fn match_question_ignores_the_conversation() {
    let fixture = Fixture::of(PLAIN, &agent(", match: question, trim_spaces: true"));
    let first = session(&fixture.ask(&[], "of whales").ok());
    assert!(fixture.is_asked(&["--session", &first], "How deep?"));
    let other = session(&fixture.ask(&[], "of birds").ok());
    assert!(!fixture.is_asked(&["--session", &other], " how DEEP?"));
    assert!(!fixture.is_asked(&[], "How deep?"));
}

#[test]
fn spaces_are_significant_without_trim_spaces() {
    let fixture = Fixture::of(PLAIN, &agent(", match: question"));
    assert!(fixture.is_asked(&[], "How deep?"));
    assert!(fixture.is_asked(&[], "  How deep?"));
    assert!(!fixture.is_asked(&[], "  how deep?"));
}

#[test]
fn ttl_bounds_the_life_of_an_answer() {
    let fixture = Fixture::of(PLAIN, &agent(", ttl: 1s"));
    assert!(fixture.is_asked(&[], "one"));
    assert!(
        fixture.entries()[0]["expires"].is_string(),
        "{:?}",
        fixture.entries()
    );
    std::thread::sleep(std::time::Duration::from_millis(1_050));
    assert!(fixture.is_asked(&[], "one"));
    assert!(fixture.why().contains("expired"), "{}", fixture.why());
    let fixture = Fixture::of(PLAIN, &agent(", ttl: 1h"));
    assert!(fixture.is_asked(&[], "one") && !fixture.is_asked(&[], "one"));
}

#[test]
fn max_entries_bounds_the_number_of_answers() {
    let fixture = Fixture::of(PLAIN, &agent(", max_entries: 2"));
    for question in ["one", "two", "three"] {
        assert!(fixture.is_asked(&[], question));
    }
    assert_eq!(fixture.entries().len(), 2);
    assert!(!fixture.is_asked(&[], "three"));
    assert!(fixture.is_asked(&[], "one"));
}

#[test]
fn questions_of_two_sections_of_a_team_have_different_keys() {
    let file = "
agents:
  one: {model: openai/gpt-4o, instruction: A., cache: {enabled: true, scope: global}}
  two: {model: openai/gpt-4o, instruction: A., cache: {enabled: true, scope: global}}
  off: {model: openai/gpt-4o, instruction: A., cache: {enabled: false}}
";
    let fixture = Fixture::of(PLAIN, file);
    for agent in ["one", "two"] {
        assert!(fixture.is_asked(&["--agent", agent], "hello"));
        assert!(!fixture.is_asked(&["--agent", agent], "hello"));
    }
    for _ in 0..2 {
        assert!(fixture.is_asked(&["--agent", "off"], "hello"));
    }
}

#[test]
fn problems_of_the_section_are_reported_with_their_place() {
    let fixture = Fixture::of(PLAIN, "");
    for (section, expected) in [
        (", path: ../answers.json", "leads out of the directory"),
        (", path: a.json, ttl: 1h", "beside `path`"),
        (", scope: everybody", "agent, global"),
        (", mach: question", "did you mean `match`?"),
    ] {
        fixture.home.write("agent.yaml", agent(section));
        let validated = fixture.home.run(&["validate", "agent.yaml"]);
        for ran in [validated, fixture.ask(&[], "one")] {
            let ran = ran.fails(2);
            let said = crate::hooks::words(&(ran.stdout.clone() + &ran.stderr));
            assert!(
                said.contains(expected) && said.contains("agent.yaml:5:"),
                "{section}: {ran}"
            );
        }
    }
    assert_eq!(fixture.requests(), 0);
}

#[test]
fn process_store_ends_with_the_process() {
    let fixture = Fixture::of(PLAIN, &agent(", store: process"));
    assert!(fixture.is_asked(&[], "one"));
    assert!(fixture.is_asked(&[], "one"));
    assert!(fixture.entries().is_empty());
}

#[test]
fn question_is_answered_when_the_store_cannot_be_opened() {
    let fixture = Fixture::of(PLAIN, &agent(""));
    fixture.home.write("file", "");
    for _ in 0..2 {
        let ran = fixture.ask(&["--db", "file/x.db"], "one").ok();
        assert_eq!(ran.stdout, "I was told: one\n");
    }
    assert_eq!(fixture.requests(), 2);
}

#[test]
fn agent_step_of_a_workflow_is_replayed() {
    let file = agent("")
        + "nodes: [{name: ask, uses: agent.run, with: {input: '{{ state.q }}'}, output: answer}]\n";
    let fixture = Fixture::of(PLAIN, &file);
    let run = |question: &str| {
        let mut command =
            fixture
                .home
                .command(&["run", "agent.yaml", "-q", "-i", &format!("q={question}")]);
        fixture.provider.known_to(&mut command);
        let ran: CommandOutput = command.env("USER", "ada").output().unwrap().into();
        ran.ok().json()["answer"].clone()
    };
    let (first, second) = (run("one"), run("one"));
    assert_eq!(fixture.requests(), 1);
    assert_eq!(first["text"], "I was told: one");
    assert_eq!(second["text"], first["text"]);
    assert_eq!(
        (&second["model_calls"], &second["cost"]),
        (&json!(0), &json!(0.0))
    );
    run("two");
    assert_eq!(fixture.requests(), 2);
}

#[test]
fn a_workflow_reports_savings_of_its_agents() {
    let file = agent("")
        + "nodes: [{name: ask, uses: agent.run, with: {input: '{{ state.q }}'}, output: answer}]\n";
    let fixture = Fixture::of(PLAIN, &file);
    let run = |arguments: &[&str]| {
        let arguments = [&["run", "agent.yaml", "-i", "q=one"], arguments].concat();
        let mut command = fixture.home.command(&arguments);
        fixture.provider.known_to(&mut command);
        let ran: CommandOutput = command.env("USER", "ada").output().unwrap().into();
        ran.ok()
    };
    let paid = run(&["--json"]).json()["report"]["paid"].clone();
    let ran = run(&["--json"]);
    let report = ran.json()["report"].clone();
    assert_eq!(fixture.requests(), 1);
    assert_eq!(report["paid"], json!({"calls": 0, "ms": 0.0}));
    for what in ["calls", "input_tokens", "output_tokens", "dollars"] {
        assert!(paid[what].as_f64().unwrap() > 0.0, "{what}: {paid}");
        assert_eq!(report["saved"][what], paid[what], "{report}");
    }
    assert!(report["saved"]["ms"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["steps"][0]["outcome"], "hit", "{report}");
    let reported = run(&[]).stderr;
    let last = reported.lines().last().unwrap();
    let (paid, saved) = last.split_once(" · saved ").unwrap();
    assert_eq!(paid, "paid 0 calls, 0 s");
    for expected in [" tokens in, ", " out, <$0.01"] {
        assert!(saved.contains(expected), "{reported}");
    }
}
