//! `cachalot chat` without a file, prompts on the command line, and `cachalot init`.

use serde_json::Value;

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::{CommandOutput, Home};
#[cfg(unix)]
use crate::terminal::{CTRL_C, DOWN, Terminal};

const QUESTION: &str = "What is in README.md?";

/// A home with a project that has instructions and skills.
fn project() -> Home {
    let home = Home::new();
    home.write("README.md", "# Whales\n\nThey dive.\n");
    home.write("AGENTS.md", "Answer in metric units.\n");
    home.write(
        ".claude/skills/release/SKILL.md",
        "---\nname: release\ndescription: Publishes a version.\n---\nTag it.\n",
    );
    home.write(
        ".cachalot/skills/review/SKILL.md",
        "---\nname: review\ndescription: Reviews a change.\n---\nRead it.\n",
    );
    home
}

impl Home {
    /// `cachalot chat …` with the provider in its place and nothing on stdin.
    fn chat(&self, provider: &Provider, arguments: &[&str]) -> CommandOutput {
        let mut command = self.command(&[&["chat"], arguments].concat());
        provider.known_to(&mut command);
        command.output().unwrap().into()
    }
}

/// The system text of the newest request.
fn system_text(provider: &Provider) -> String {
    let received = provider.received();
    let body: Value = serde_json::from_slice(&received.last().unwrap().body).unwrap();
    body["instructions"]
        .as_str()
        .map(str::to_owned)
        .unwrap_or_else(|| body.to_string())
}

#[test]
fn prompt_is_answered_without_a_file() {
    let (home, provider) = (project(), Provider::built_in());
    let ran = home.chat(&provider, &["-p", QUESTION]).ok();
    assert_eq!(
        ran.stdout,
        "[simulated] README.md has 3 lines. It begins:\n\n> # Whales\n> They dive.\n"
    );
    assert!(ran.stderr.contains("read_file README.md"), "{ran}");
    let system = system_text(&provider);
    for part in [
        "Answer in metric units.",
        "- release (workspace): Publishes a version.",
        "- review (workspace): Reviews a change.",
    ] {
        assert!(system.contains(part), "{part}: {system}");
    }
}

#[test]
fn instructions_of_the_repository_apply_in_its_directories_and_not_above() {
    let (home, provider) = (Home::new(), Provider::built_in());
    home.write("CLAUDE.md", "Above the repository.");
    home.write("repository/.git/HEAD", "ref: refs/heads/main\n");
    home.write("repository/CLAUDE.md", "Of the repository.");
    home.write("repository/source/main.c", "int main;");
    home.write("elsewhere/x", "");
    for (directory, expected) in [
        ("repository/source", Some("Of the repository.")),
        ("repository", Some("Of the repository.")),
        (".", Some("Above the repository.")),
        ("repository/../elsewhere", None),
    ] {
        home.chat(&provider, &["-p", "hello", "--workspace", directory])
            .ok();
        let system = system_text(&provider);
        for text in ["Of the repository.", "Above the repository."] {
            assert_eq!(
                system.contains(text),
                expected == Some(text),
                "{directory}: {system}"
            );
        }
    }
    home.chat(&provider, &["-p", "hello", "--workspace", "elsewhere"])
        .ok();
    let system = system_text(&provider);
    assert!(!system.contains("Above the repository."), "{system}");
}

#[cfg(unix)]
#[test]
fn link_out_of_the_project_is_no_instruction() {
    let (home, provider) = (Home::new(), Provider::built_in());
    home.write("secrets/key", "the user's key");
    home.write(
        "project/source/a.md",
        "Instructions in a file of the project.",
    );
    let link = |target: &str| {
        let path = home.join("project/AGENTS.md");
        let _ = std::fs::remove_file(&path);
        std::os::unix::fs::symlink(target, path).unwrap();
        home.chat(&provider, &["-p", "hello", "--workspace", "project"])
            .ok()
    };
    let ran = link("../secrets/key");
    assert!(ran.stderr.contains("leads out of the project"), "{ran}");
    assert!(!system_text(&provider).contains("the user's key"));
    link("source/a.md");
    assert!(system_text(&provider).contains("Instructions in a file of the project."));
}

#[test]
fn empty_directory_in_the_place_of_instructions_is_ignored() {
    let (home, provider) = (Home::new(), Provider::built_in());
    std::fs::create_dir_all(home.join("project/AGENTS.md")).unwrap();
    home.write("project/CLAUDE.md", "Answer in metric units.");
    let asked = ["-p", "hello", "--workspace", "project"];
    let ran = home.chat(&provider, &asked).ok();
    assert!(!ran.stderr.contains("left out"), "{ran}");
    assert!(system_text(&provider).contains("Answer in metric units."));
    home.write("project/AGENTS.md/notes", "x");
    let ran = home.chat(&provider, &asked).ok();
    assert!(ran.stderr.contains("AGENTS.md is left out"), "{ran}");
}

#[test]
fn urls_in_texts_of_a_file_are_not_typed_by_the_user() {
    let (home, provider) = (Home::new(), Provider::scripted(FETCHING_MODEL));
    home.write(
        "agent.yaml",
        "agents:\n  root:\n    model: openai/gpt-4o\n    toolsets: [{type: fetch}]\n    commands: {look: 'fetch http://127.0.0.1:9/a'}\n",
    );
    let ran = home.ask(&provider, &["agent.yaml"], "/look").ok();
    assert!(
        ran.stdout.contains("no user is present to approve it"),
        "{ran}"
    );
    let ran = home
        .ask(&provider, &["agent.yaml"], "/look http://127.0.0.1:9/a")
        .ok();
    assert!(
        !ran.stdout.contains("no user is present to approve it"),
        "{ran}"
    );
}

/// A scripted model that fetches the URL of the user's message.
const FETCHING_MODEL: &str = r#"
rules:
  - user: 'fetch (\S+)'
    tools: [web_fetch]
    steps:
      - tool_calls: [{name: web_fetch, arguments: {url: '{{1}}'}}]
      - text: 'It said: {{last_result}}'
otherwise: {text: 'I was told: {{user}}'}
"#;

#[test]
fn instructions_are_frozen_when_the_session_begins() {
    let (home, provider) = (project(), Provider::built_in());
    let first = home.chat(&provider, &["-p", "hello"]).ok();
    home.write("AGENTS.md", "Answer in imperial units.\n");
    let next = home
        .chat(&provider, &["-p", "hello", "--resume", &session(&first)])
        .ok();
    assert!(system_text(&provider).contains("metric units"), "{next}");
    home.chat(&provider, &["-p", "hello"]).ok();
    assert!(system_text(&provider).contains("imperial units"));
}

#[test]
fn missing_key_names_the_variables_and_the_simulator() {
    let home = Home::new();
    let ran = home.run(&["chat", "-p", "hello"]).fails(2);
    for part in ["ANTHROPIC_API_KEY", "OPENAI_API_KEY", "cachalot simulate"] {
        assert!(ran.stderr.contains(part), "{part}: {ran}");
    }
    let ran = home
        .run(&["chat", "-p", "hello", "--model", "nobody/x"])
        .fails(2);
    assert!(ran.stderr.contains("unknown-model"), "{ran}");
}

#[test]
fn provider_with_a_key_is_used_and_the_model_can_be_named() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let mut command = home.command(&["chat", "-p", "hello", "--json"]);
    command
        .env("ANTHROPIC_API_KEY", "a-key-of-anthropic")
        .env("ANTHROPIC_BASE_URL", provider.url());
    CommandOutput::from(command.output().unwrap()).ok();
    assert_eq!(provider.received().last().unwrap().path, "/v1/messages");
    home.chat(&provider, &["-p", "hello", "--model", "openai/gpt-4o-mini"])
        .ok();
    let received = provider.received();
    let body: Value = serde_json::from_slice(&received.last().unwrap().body).unwrap();
    assert_eq!(body["model"], "gpt-4o-mini");
}

#[test]
fn model_of_a_file_is_replaced_by_the_command_line() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    home.chat(
        &provider,
        &["agent.yaml", "-p", "hello", "--model", "openai/gpt-4o-mini"],
    )
    .ok();
    let received = provider.received();
    let body: Value = serde_json::from_slice(&received.last().unwrap().body).unwrap();
    assert_eq!(body["model"], "gpt-4o-mini");
}

#[test]
fn stdin_is_appended_to_the_prompt() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    let ran = home
        .ask(&provider, &["agent.yaml", "-p", "Summarize:"], "one\ntwo\n")
        .ok();
    assert_eq!(ran.stdout, "I was told: Summarize:\n\none\ntwo\n");
    // A prompt without a file and without `-p`, and nothing on stdin.
    let ran = home.chat(&provider, &["hello there"]).ok();
    assert_eq!(ran.stdout, "I was told: hello there\n");
    let ran = home.chat(&provider, &["hello", "there"]).fails(2);
    assert!(ran.stderr.contains("there is no file `hello`"), "{ran}");
    let ran = home.chat(&provider, &["missing.yaml"]).fails(2);
    assert!(ran.stderr.contains("missing.yaml"), "{ran}");
}

#[test]
fn newest_session_of_the_directory_continues() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("a/x", "");
    home.write("b/x", "");
    let in_directory = |name: &str, arguments: &[&str]| {
        home.chat(&provider, &[&["--workspace", name], arguments].concat())
    };
    let first = session(&in_directory("a", &["-p", "one"]).ok());
    in_directory("b", &["-p", "two"]).ok();
    let next = in_directory("a", &["-p", "three", "--continue"]).ok();
    assert_eq!(session(&next), first);
    let none = home.chat(&provider, &["-p", "four", "--continue"]).fails(1);
    assert!(
        none.stderr.contains("there is no session of this agent in"),
        "{none}"
    );
    let unasked = in_directory("a", &["-p", "four", "--resume"]).fails(2);
    assert!(unasked.stderr.contains("--continue"), "{unasked}");
    // The session of an agent of a file.
    home.write("agent.yaml", SHELL);
    let other = session(&home.chat(&provider, &["agent.yaml", "-p", "five"]).ok());
    let ran = home
        .chat(&provider, &["-p", "six", "--resume", &other])
        .fails(2);
    assert!(
        ran.stderr.contains("cachalot chat FILE --resume ID"),
        "{ran}"
    );
}

#[cfg(unix)]
#[test]
fn chat_on_a_terminal_begins_with_the_prompt_or_a_chosen_session() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let start = |arguments: &[&str]| {
        let mut command = home.command(&[&["chat"], arguments].concat());
        provider.known_to(&mut command);
        Terminal::start(&mut command)
    };
    let mut terminal = start(&["hello there"]);
    terminal.see("I was told: hello there").prompt();
    let text = terminal.leave();
    assert!(
        text.contains("to continue: cachalot chat --resume "),
        "{text}"
    );
    home.chat(&provider, &["-p", "the second one"]).ok();
    let mut terminal = start(&["--resume"]);
    terminal
        .see("session: ")
        .see("the second one")
        .see("hello there")
        .press(DOWN)
        .shows(|text| {
            text.lines()
                .any(|line| line.starts_with("> ") && line.ends_with("hello there"))
        })
        .press("\r");
    terminal.prompt().say("and then");
    terminal.see("I was told: and then").prompt().leave();
    let received = provider.received();
    let body = String::from_utf8_lossy(&received.last().unwrap().body).into_owned();
    assert!(body.contains("hello there"), "{body}");
    let mut terminal = start(&["--resume"]);
    terminal.see("Enter chooses").press(CTRL_C);
    assert_eq!(terminal.ended(), Some(130));
}

#[test]
fn session_of_the_built_in_agent_keeps_its_model() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let first = home
        .chat(&provider, &["-p", "one", "--model", "openai/gpt-4o-mini"])
        .ok();
    home.chat(&provider, &["-p", "two", "--resume", &session(&first)])
        .ok();
    let received = provider.received();
    let body: Value = serde_json::from_slice(&received.last().unwrap().body).unwrap();
    assert_eq!(body["model"], "gpt-4o-mini");
}

#[test]
fn events_are_streamed_as_json_lines() {
    let (home, provider) = (project(), Provider::built_in());
    let ran = home
        .chat(
            &provider,
            &["-p", QUESTION, "--output-format", "stream-json"],
        )
        .ok();
    let events: Vec<Value> = ran
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let of_kind = |kind: &str| events.iter().filter(|event| event["event"] == kind).count();
    assert_eq!(of_kind("model_call_ended"), 2, "{ran}");
    let ended = events
        .iter()
        .find(|event| event["event"] == "tool_ended")
        .unwrap();
    assert_eq!(ended["tool"], "read_file");
    assert_eq!(ended["outcome"], "ran");
    assert!(
        ended["output"].as_str().unwrap().contains("They dive."),
        "{ended}"
    );
    let text: String = events
        .iter()
        .filter(|event| event["event"] == "text")
        .map(|event| event["text"].as_str().unwrap())
        .collect();
    let done = events.last().unwrap();
    assert_eq!(done["event"], "done");
    assert!(text.ends_with(done["answer"].as_str().unwrap()), "{text}");
}

#[test]
fn written_files_are_valid_and_never_replaced() {
    let home = Home::new();
    let ran = home.run(&["init"]).ok();
    assert!(ran.stderr.contains("cachalot chat agent.yaml"), "{ran}");
    home.run(&["init", "workflow"]).ok();
    for file in ["agent.yaml", "workflow.yaml"] {
        home.run(&["validate", file]).ok();
    }
    let ran = home.run(&["init"]).fails(2);
    assert!(ran.stderr.contains("agent.yaml exists"), "{ran}");
    home.run(&["init", "agent", "missing/agent.yaml"]).fails(1);

    let provider = Provider::built_in();
    home.run(&["init", "workflow", "other.yaml", "--model", "openai/gpt-4o"])
        .ok();
    let run = || -> CommandOutput {
        let mut command = home.command(&["run", "other.yaml", "--json"]);
        provider.known_to(&mut command);
        command.output().unwrap().into()
    };
    run().ok();
    assert_eq!(provider.received().len(), 1);
    run().ok();
    assert_eq!(
        provider.received().len(),
        1,
        "the second run is answered from the cache"
    );
}
