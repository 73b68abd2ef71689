//! Answers that are given again.

mod flat_file;
mod kept;
#[cfg(unix)]
mod terminals;

use std::process::Command;

use serde_json::{Value, json};

use crate::provider::{Provider, session};
use crate::support::{Home, Ran};

/// A model whose every answer tells how it was asked.
const PLAIN: &str = "otherwise: {text: 'I was told: {{user}}'}";

/// What looks like a credential.
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
struct World {
    home: Home,
    provider: Provider,
}

impl World {
    fn of(script: &str, file: &str) -> Self {
        let home = Home::new();
        home.write("agent.yaml", file);
        let provider = Provider::scripted(script);
        Self { home, provider }
    }

    /// Asks as Ada.
    fn ask(&self, arguments: &[&str], question: &str) -> Ran {
        self.ask_with(arguments, question, |_| {})
    }

    fn ask_with(
        &self,
        arguments: &[&str],
        question: &str,
        change: impl FnOnce(&mut Command),
    ) -> Ran {
        let arguments = [&["agent.yaml"], arguments].concat();
        self.home
            .ask_with(&self.provider, &arguments, question.as_bytes(), |command| {
                command.env("USER", "ada");
                change(command);
            })
    }

    /// How often the model was asked.
    fn requests(&self) -> usize {
        self.provider.received().len()
    }

    /// Asks; whether the model was asked at least once.
    #[track_caller]
    fn is_asked(&self, arguments: &[&str], question: &str) -> bool {
        let before = self.requests();
        let ran = self.ask(arguments, question).ok();
        let asked = self.requests() > before;
        let told = ran.stderr.contains("answered before");
        assert_ne!(asked, told, "what is told is what happened: {ran}");
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
fn the_example_answers_the_same_question_once() {
    let home = Home::new();
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/faq.yaml");
    home.write("agent.yaml", std::fs::read(example).unwrap());
    let world = World {
        home,
        provider: Provider::built_in(),
    };
    let first = world.ask(&[], "How deep can a sperm whale dive?").ok();
    assert_eq!(world.requests(), 1);
    assert!(!first.stderr.contains("answered before"), "{first}");
    let second = world.ask(&[], "  how deep can a SPERM whale dive?  ").ok();
    assert_eq!(world.requests(), 1, "{second}");
    assert_eq!(second.stdout, first.stdout);
    let told = second
        .stderr
        .lines()
        .find(|line| line.starts_with("answered before"))
        .unwrap_or_else(|| panic!("it is not told: {second}"));
    for expected in ["(key ", "saved ", "tokens in", " out", "$0.0"] {
        assert!(told.contains(expected), "{expected}: {second}");
    }
    assert!(
        second.stderr.contains("in all 0 tokens in, 0 out · $0"),
        "{second}"
    );
    let shown = world
        .home
        .run(&["sessions", "show", &session(&second)])
        .ok();
    assert!(shown.stdout.contains("  (answered before, "), "{shown}");
    let show = ["sessions", "show", &session(&second), "--json"];
    let shown = world.home.run(&show).ok().json();
    let mark = &shown["messages"][1]["extra"]["@synthetic"];
    assert_eq!(mark["saved"]["calls"], 1, "{shown}");
    assert_eq!(mark["metadata"]["key"].as_str().unwrap().len(), 64);
    assert!(mark["metadata"]["age_seconds"].is_string(), "{shown}");
    let shown = world.home.run(&["sessions", "show", &session(&first)]).ok();
    assert!(!shown.stdout.contains("answered before"), "{shown}");
    assert!(world.is_asked(&[], "How long is a blue whale?"));
}

#[test]
fn answers_are_listed_explained_and_removed() {
    let world = World::of(PLAIN, &agent(""));
    assert!(world.is_asked(&[], "one"));
    assert!(!world.is_asked(&[], "one"));
    assert!(
        world.why().contains("answered from the cache"),
        "{}",
        world.why()
    );
    let listed = world.home.run(&["cache", "ls", "--kind", "turn"]).ok();
    assert_eq!(listed.stdout.lines().count(), 1, "{listed}");
    assert!(listed.stdout.starts_with("turn:root "), "{listed}");
    let others = world.home.run(&["cache", "ls", "--kind", "tool"]).ok();
    assert_eq!(others.stdout, "");
    let key = world.entries()[0]["key"].as_str().unwrap().to_owned();
    let why = world.home.run(&["why", &key]).ok();
    assert!(why.stdout.contains("root (turn)"), "{why}");
    let stats = world.home.run(&["cache", "stats", "--json"]).ok().json();
    assert_eq!(
        (&stats["totals"]["hits"], &stats["totals"]["misses"]),
        (&json!(1), &json!(1)),
        "{stats}"
    );
    let dry = ["cache", "rm", "--kind", "turn", "--dry-run"];
    let dry = world.home.run(&dry).ok();
    assert!(dry.stderr.contains("would erase 1 entry"), "{dry}");
    let removed = world.home.run(&["cache", "rm", "--kind", "turn"]).ok();
    assert!(removed.stderr.contains("erased 1 entry"), "{removed}");
    assert!(world.entries().is_empty());
    assert!(world.is_asked(&[], "one"));
    world.home.run(&["cache", "rm", "--action", "root"]).ok();
    assert!(world.is_asked(&[], "one"));
}

#[test]
fn replayed_answers_are_marked_in_json_output() {
    let world = World::of(PLAIN, &agent(""));
    let first = world.ask(&["--json"], "one").ok().json();
    assert!(first["answered_by"].is_null(), "{first}");
    let second = world.ask(&["--json"], "one").ok().json();
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
    let quiet = world.ask(&["-q"], "one").ok();
    assert_eq!(
        (quiet.stdout.as_str(), quiet.stderr.as_str()),
        ("I was told: one\n", "")
    );
}

#[test]
fn the_response_cache_can_be_bypassed() {
    let world = World::of(PLAIN, &agent(""));
    assert!(world.is_asked(&[], "one"));
    assert!(world.is_asked(&["--no-cache"], "one"));
    assert!(world.is_asked(&["--refresh"], "one"));
    assert!(!world.is_asked(&[], "one"));
    assert_eq!(world.entries().len(), 1);
    assert!(world.is_asked(&["--no-cache"], "two"));
    assert!(world.is_asked(&[], "two"), "nothing was kept of it");
}

#[test]
fn whatever_the_answer_depends_on_is_in_the_key() {
    let world = World::of(PLAIN, &with_tools(""));
    let yes = &["--yes"][..];
    assert!(world.is_asked(yes, "one"));
    assert!(!world.is_asked(yes, "one"));
    let file = with_tools("");
    for (what, changed) in [
        ("instruction", file.replace("Answer.", "Answer well.")),
        ("model", file.replace("gpt-4o", "gpt-4o-mini")),
        ("tools", file.replace(", {type: shell}", "")),
        ("name", file.replace("root", "boss")),
        ("case", with_tools(", case_sensitive: false")),
    ] {
        world.home.write("agent.yaml", changed);
        assert!(world.is_asked(yes, "one"), "{what}");
        assert!(!world.is_asked(yes, "one"), "{what}");
    }
    world.home.write("agent.yaml", &file);
    assert!(!world.is_asked(yes, "one"), "what was kept is still there");
    assert!(
        world.is_asked(yes, "One"),
        "conversations are told apart exactly"
    );
    std::fs::create_dir(world.home.join("inside")).unwrap();
    assert!(world.is_asked(&["--workspace", "inside"], "one"));
}

#[test]
fn why_reports_a_changed_instruction() {
    let world = World::of(PLAIN, &agent(""));
    assert!(world.is_asked(&[], "one"));
    world
        .home
        .write("agent.yaml", agent("").replace("Answer.", "Reply."));
    assert!(world.is_asked(&[], "one"));
    let why = world.why();
    assert!(why.contains("fingerprint"), "{why}");
}

#[test]
fn users_do_not_share_unless_the_section_says_so() {
    let by = |world: &World, user: &str| {
        let before = world.requests();
        let user = user.to_owned();
        world
            .ask_with(&[], "one", |command| {
                command.env("USER", user);
            })
            .ok();
        world.requests() > before
    };
    let world = World::of(PLAIN, &agent(""));
    assert!(by(&world, "ada") && by(&world, "bob"));
    assert!(!by(&world, "ada") && !by(&world, "bob"));
    for scope in ["agent", "global"] {
        let world = World::of(PLAIN, &agent(&format!(", scope: {scope}")));
        assert!(by(&world, "ada") && !by(&world, "bob"), "{scope}");
    }
    let world = World::of(PLAIN, &agent(", scope: session"));
    assert!(by(&world, "ada") && by(&world, "ada"));
    // Where no variable says who it is, the system does.
    let world = World::of(PLAIN, &agent(""));
    for _ in 0..2 {
        world.home.ask(&world.provider, &["agent.yaml"], "one").ok();
    }
    assert_eq!(world.requests(), 1);
}

#[test]
fn a_conversation_is_the_same_if_all_of_it_is() {
    // In Responses, an answer that is given again has no item id, so that its session sends other bytes
    // than the session that paid for it.
    let file = agent("").replace("openai/gpt-4o", "chat");
    let models = "models: {chat: {provider: openai, model: gpt-4o, format: chat}}\n";
    let world = World::of(PLAIN, &(models.to_owned() + &file));
    let first = session(&world.ask(&[], "of whales").ok());
    let second = world.ask(&[], "of whales").ok();
    assert_eq!(
        world.requests(),
        1,
        "the first question of two sessions: {second}"
    );
    let second = session(&second);
    // The same conversation stands before both, word for word.
    assert!(world.is_asked(&["--session", &first], "how deep?"));
    assert!(!world.is_asked(&["--session", &second], "how deep?"));
    // Another one stands before this.
    let third = session(&world.ask(&[], "of birds").ok());
    assert!(world.is_asked(&["--session", &third], "how deep?"));
    assert!(world.is_asked(&[], "how deep?"));
    // What was answered before is a message of the conversation like any other.
    assert!(world.is_asked(&["--session", &second], "and then?"));
    let body = world.provider.received().last().unwrap().json();
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
fn a_question_alone_is_the_same_wherever_it_is_asked() {
    let world = World::of(PLAIN, &agent(", match: question, trim_spaces: true"));
    let first = session(&world.ask(&[], "of whales").ok());
    assert!(world.is_asked(&["--session", &first], "How deep?"));
    let other = session(&world.ask(&[], "of birds").ok());
    assert!(!world.is_asked(&["--session", &other], " how DEEP?"));
    assert!(!world.is_asked(&[], "How deep?"));
}

#[test]
fn spaces_stay_where_they_are_not_trimmed() {
    let world = World::of(PLAIN, &agent(", match: question"));
    assert!(world.is_asked(&[], "How deep?"));
    assert!(world.is_asked(&[], "  How deep?"));
    assert!(!world.is_asked(&[], "  how deep?"));
}

#[test]
fn an_answer_is_given_as_long_as_its_time_lasts() {
    let world = World::of(PLAIN, &agent(", ttl: 1s"));
    assert!(world.is_asked(&[], "one"));
    assert!(
        world.entries()[0]["expires"].is_string(),
        "{:?}",
        world.entries()
    );
    std::thread::sleep(std::time::Duration::from_millis(1_050));
    assert!(world.is_asked(&[], "one"));
    assert!(world.why().contains("expired"), "{}", world.why());
    let world = World::of(PLAIN, &agent(", ttl: 1h"));
    assert!(world.is_asked(&[], "one") && !world.is_asked(&[], "one"));
}

#[test]
fn so_many_answers_are_kept_as_the_section_says() {
    let world = World::of(PLAIN, &agent(", max_entries: 2"));
    for question in ["one", "two", "three"] {
        assert!(world.is_asked(&[], question));
    }
    assert_eq!(world.entries().len(), 2);
    assert!(!world.is_asked(&[], "three"));
    assert!(world.is_asked(&[], "one"));
}

#[test]
fn questions_of_two_sections_of_a_team_have_different_keys() {
    let file = "
agents:
  one: {model: openai/gpt-4o, instruction: A., cache: {enabled: true, scope: global}}
  two: {model: openai/gpt-4o, instruction: A., cache: {enabled: true, scope: global}}
  off: {model: openai/gpt-4o, instruction: A., cache: {enabled: false}}
";
    let world = World::of(PLAIN, file);
    for agent in ["one", "two"] {
        assert!(world.is_asked(&["--agent", agent], "hello"));
        assert!(!world.is_asked(&["--agent", agent], "hello"));
    }
    for _ in 0..2 {
        assert!(world.is_asked(&["--agent", "off"], "hello"));
    }
}

#[test]
fn problems_of_the_section_are_reported_with_their_place() {
    let world = World::of(PLAIN, "");
    for (section, expected) in [
        (", path: ../answers.json", "leads out of the directory"),
        (", path: a.json, ttl: 1h", "beside `path`"),
        (", scope: everybody", "agent, global"),
        (", mach: question", "did you mean `match`?"),
    ] {
        world.home.write("agent.yaml", agent(section));
        let validated = world.home.run(&["validate", "agent.yaml"]);
        for ran in [validated, world.ask(&[], "one")] {
            let ran = ran.fails(2);
            let said = crate::hooks::words(&(ran.stdout.clone() + &ran.stderr));
            assert!(
                said.contains(expected) && said.contains("agent.yaml:5:"),
                "{section}: {ran}"
            );
        }
    }
    assert_eq!(world.requests(), 0);
}

#[test]
fn what_is_kept_in_a_process_ends_with_it() {
    let world = World::of(PLAIN, &agent(", store: process"));
    assert!(world.is_asked(&[], "one"));
    assert!(world.is_asked(&[], "one"));
    assert!(world.entries().is_empty());
}

#[test]
fn without_a_memory_the_question_is_answered_all_the_same() {
    let world = World::of(PLAIN, &agent(""));
    world.home.write("file", "");
    for _ in 0..2 {
        let ran = world.ask(&["--db", "file/x.db"], "one").ok();
        assert_eq!(ran.stdout, "I was told: one\n");
    }
    assert_eq!(world.requests(), 2);
}

#[test]
fn the_agent_of_a_workflow_is_answered_again() {
    let file = agent("")
        + "nodes: [{name: ask, uses: agent.run, with: {input: '{{ state.q }}'}, output: answer}]\n";
    let world = World::of(PLAIN, &file);
    let run = |question: &str| {
        let mut command =
            world
                .home
                .command(&["run", "agent.yaml", "-q", "-i", &format!("q={question}")]);
        world.provider.known_to(&mut command);
        let ran: Ran = command.env("USER", "ada").output().unwrap().into();
        ran.ok().json()["answer"].clone()
    };
    let (first, second) = (run("one"), run("one"));
    assert_eq!(world.requests(), 1);
    assert_eq!(first["text"], "I was told: one");
    assert_eq!(second["text"], first["text"]);
    assert_eq!(
        (&second["model_calls"], &second["cost"]),
        (&json!(0), &json!(0.0))
    );
    run("two");
    assert_eq!(world.requests(), 2);
}

#[test]
fn a_workflow_reports_savings_of_its_agents() {
    let file = agent("")
        + "nodes: [{name: ask, uses: agent.run, with: {input: '{{ state.q }}'}, output: answer}]\n";
    let world = World::of(PLAIN, &file);
    let run = |arguments: &[&str]| {
        let arguments = [&["run", "agent.yaml", "-i", "q=one"], arguments].concat();
        let mut command = world.home.command(&arguments);
        world.provider.known_to(&mut command);
        let ran: Ran = command.env("USER", "ada").output().unwrap().into();
        ran.ok()
    };
    let paid = run(&["--json"]).json()["report"]["paid"].clone();
    let ran = run(&["--json"]);
    let report = ran.json()["report"].clone();
    assert_eq!(world.requests(), 1);
    assert_eq!(report["paid"], json!({"calls": 0, "ms": 0.0}));
    for what in ["calls", "input_tokens", "output_tokens", "dollars"] {
        assert!(paid[what].as_f64().unwrap() > 0.0, "{what}: {paid}");
        assert_eq!(report["saved"][what], paid[what], "{report}");
    }
    assert!(report["saved"]["ms"].as_f64().unwrap() > 0.0, "{report}");
    assert_eq!(report["steps"][0]["outcome"], "hit", "{report}");
    let told = run(&[]).stderr;
    let last = told.lines().last().unwrap();
    let (paid, saved) = last.split_once(" · saved ").unwrap();
    assert_eq!(paid, "paid 0 calls, 0 s");
    for expected in [" tokens in, ", " out, $"] {
        assert!(saved.contains(expected), "{told}");
    }
}
