//! `cachalot chat` on a terminal.
#![cfg(unix)]

use std::process::Command;
use std::time::{Duration, Instant};

use crate::chat::{TASK, with_the_example};
use crate::provider::{Provider, SCRIPTED_MODEL, SHELL};
use crate::support::Home;
use crate::terminal::{CTRL_C, CTRL_D, Terminal, UP};

fn chat(home: &Home, provider: &Provider, arguments: &[&str]) -> Terminal {
    chat_with(home, provider, arguments, |_| {})
}

fn chat_with(
    home: &Home,
    provider: &Provider,
    arguments: &[&str],
    change: impl FnOnce(&mut Command),
) -> Terminal {
    let mut command = home.command(&[&["chat"], arguments].concat());
    provider.known_to(&mut command);
    change(&mut command);
    Terminal::start(&mut command)
}

fn with_scripted_model() -> (Home, Provider) {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    (home, provider)
}

#[test]
fn chat_shows_calls_answers_sums_and_how_to_resume() {
    let (home, provider) = (Home::new(), Provider::built_in());
    with_the_example(&home);
    let mut terminal = chat(&home, &provider, &["examples/coder.yaml"]);
    terminal
        .see("root (openai/gpt-4o): Reads and edits the files")
        .see("session ")
        .prompt();
    terminal.say(TASK);
    for expected in [
        "I look at examples/data/draft.md first.\n",
        "read_file examples/data/draft.md",
        "ran",
        "read_file examples/data/draft.md",
        "hit",
        "edit_file",
        "read_file examples/data/draft.md",
        "examples/data/draft.md was written to since",
        "DONE: say how deep it dives.\n",
        "cached by the provider",
        "saved 1 tool call",
    ] {
        terminal.see(expected);
    }
    terminal
        .prompt()
        .say("/stats")
        .see("1 of 4 calls answered without running (25%)");
    terminal.see("\nread_file     1  ").see("tokens in");
    // What other tools are taken over for is no reason to forget results.
    terminal
        .prompt()
        .say("/reload")
        .see("the tools are those that the session has")
        .prompt()
        .say("/stats")
        .see("1 of 4 calls answered without running (25%)")
        .see("tokens in");
    terminal
        .prompt()
        .say("/tools")
        .see("apply_patch")
        .see("write_file");
    let text = terminal.text();
    let long = text.lines().find(|line| line.contains("Searches files"));
    let long = long.unwrap();
    assert_eq!(long.chars().count(), 99, "it ends at the edge: {long}");
    let text = terminal.prompt().leave();
    assert!(text.contains("in all "), "{text}");
    let go_on = text
        .lines()
        .find_map(|line| line.strip_prefix("to continue: cachalot "))
        .unwrap();
    let arguments: Vec<&str> = go_on.split(' ').skip(1).collect();
    let mut terminal = chat(&home, &provider, &arguments);
    terminal
        .see("session ")
        .prompt()
        .say("Translate to French: good morning");
    terminal.see("tokens in").prompt().leave();
}

#[test]
fn calls_need_approval_on_the_terminal() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    let asked = "allow it?  [y] yes, once  [a] always";
    terminal.prompt().say("run touch one; echo one");
    terminal.see("  shell touch one; echo one\n").see(asked);
    assert!(
        !home.join("one").exists(),
        "nothing runs before it is allowed"
    );
    terminal.answer("y").see("ran").see("It said: one");
    assert!(home.join("one").exists());
    terminal
        .prompt()
        .say("run touch two")
        .see(asked)
        .answer("n");
    terminal
        .see("refused")
        .see("did not allow")
        .see("It said: ");
    terminal
        .prompt()
        .say("run touch two")
        .see(asked)
        .answer("r")
        .see("reason: ")
        .say("look first");
    terminal
        .see("did not allow this call of `shell`: look first")
        .see("It said: ");
    // Neither Enter nor another key is an answer.
    terminal
        .prompt()
        .say("run touch two")
        .see(asked)
        .answer("\rx")
        .press(CTRL_C);
    terminal.see("interrupted");
    assert!(!home.join("two").exists());
    terminal
        .prompt()
        .say("run echo three")
        .see(asked)
        .answer("a")
        .see("It said: three");
    terminal.prompt().say("run echo four").see("It said: four");
    let text = terminal.prompt().leave();
    assert_eq!(text.matches("  allowed ").count(), 2, "{text}");
    assert_eq!(text.matches("  not allowed").count(), 2, "{text}");
}

/// A saved rule applies in later chats, and only to matching calls.
#[test]
fn an_answer_can_be_saved() {
    let (home, provider) = with_scripted_model();
    let configuration = home.join("configuration");
    let begin = || {
        chat_with(&home, &provider, &["agent.yaml"], |command| {
            command.env("XDG_CONFIG_HOME", &configuration);
        })
    };
    let mut terminal = begin();
    terminal.prompt().say("run echo one");
    terminal
        .see("\"always\" covers calls of this agent that `shell:command=echo *` matches")
        .see("allow it?")
        .see("[a] always in this chat  [s] always in every chat")
        .answer("s")
        .see("saved in ")
        .see("It said: one");
    terminal.prompt().leave();
    let saved = std::fs::read_to_string(configuration.join("cachalot/permissions.yaml")).unwrap();
    assert!(saved.ends_with("  - \"shell:command=echo *\"\n"), "{saved}");
    let mut terminal = begin();
    terminal.prompt().say("run echo two").see("It said: two");
    terminal
        .prompt()
        .say("run echo three; touch made")
        .see("allow it?")
        .answer("n")
        .see("It said: ");
    assert!(!home.join("made").exists());
    let text = terminal.prompt().leave();
    assert_eq!(text.matches("allowed").count(), 1, "{text}");
}

#[test]
fn approval_of_a_sub_agent_names_it() {
    let (home, provider) = with_scripted_model();
    home.write(
        "team.yaml",
        "agents:
  lead: {model: openai/gpt-4o, sub_agents: [helper]}
  helper: {model: openai/gpt-4o, toolsets: [{type: shell}]}
",
    );
    let mut terminal = chat(&home, &provider, &["team.yaml"]);
    terminal.prompt().say("delegate echo one");
    terminal
        .see("  transfer_task helper run echo one")
        .see("begun");
    terminal
        .see("helper | I run it.")
        .see("  helper: shell echo one\n");
    terminal
        .see("allow it?")
        .answer("a")
        .see("  helper: shell echo one")
        .see("ran");
    terminal
        .see("  transfer_task")
        .see("ran")
        .see("Helper said: It said: one");
    // In the next session of the same agent it is still allowed.
    terminal
        .prompt()
        .say("delegate echo two")
        .see("Helper said: It said: two");
    let text = terminal.prompt().leave();
    assert_eq!(text.matches("  allowed ").count(), 1, "{text}");
}

#[test]
fn approval_shows_the_complete_call() {
    let (home, provider) = with_scripted_model();
    home.write(
        "agent.yaml",
        format!("{SHELL}permissions: {{ask: ['shell:command=*hidden*']}}\n"),
    );
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    let long = format!("run echo {}; echo hidden", "x".repeat(80));
    terminal.prompt().say(&long);
    terminal
        .see("…\n")
        .see("    command: echo xxx")
        .see("echo hidden\n");
    terminal
        .see("asked because of the rule `shell:command=*hidden*`")
        .see("allow it?");
    terminal.answer("n").see("It said: ").prompt().leave();
}

#[test]
fn input_typed_before_an_approval_is_not_its_answer() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal
        .prompt()
        .say("run touch made")
        .press("y\ry\r")
        .see("allow it?");
    std::thread::sleep(Duration::from_millis(300));
    assert!(!home.join("made").exists(), "{}", terminal.text());
    // It is queued as messages, and is never an answer.
    terminal.answer("n").see("refused").see("It said: ");
    terminal.see("I was told: y").see("I was told: y");
    terminal.prompt().leave();
}

#[test]
fn turn_can_end_during_an_open_approval() {
    let (home, provider) = with_scripted_model();
    home.write("agent.yaml", format!("{SHELL}budget: {{max_time: 1}}\n"));
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal.prompt().say("run touch made").see("allow it?");
    terminal.see("stopped: ");
    terminal.prompt().say("/session").see("\n").prompt().leave();
    assert!(!home.join("made").exists());
    assert_eq!(provider.received().len(), 1);
}

#[test]
fn approval_is_shown_on_the_terminal_when_stderr_is_redirected() {
    let (home, provider) = with_scripted_model();
    let binary = env!("CARGO_BIN_EXE_cachalot");
    let mut shell = Command::new("sh");
    shell
        .args([
            "-c",
            &format!("exec '{binary}' chat --sandbox=ask agent.yaml 2> told.txt"),
        ])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env("XDG_DATA_HOME", home.join("data"));
    provider.known_to(&mut shell);
    let mut terminal = Terminal::start(&mut shell);
    terminal
        .prompt()
        .say("run touch made")
        .see("  shell touch made\n")
        .see("allow it?");
    terminal.answer("n").see("It said: ").prompt().leave();
    let reported = std::fs::read_to_string(home.join("told.txt")).unwrap();
    assert!(
        reported.contains("refused") && reported.contains("to continue: "),
        "{reported}"
    );
}

#[test]
fn typed_ahead_input_becomes_the_next_message() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal.prompt().press("one\rtwo\r/session\rthree\r");
    for expected in ["I was told: one", "I was told: two", "I was told: three"] {
        terminal.see(expected);
    }
    terminal.prompt().leave();
}

#[test]
fn ctrl_c_interrupts_the_turn_and_keeps_the_session() {
    let (home, provider) = with_scripted_model();
    // Outside of a sandbox, processes have the IDs that they see.
    let arguments = ["agent.yaml", "--yes", "--sandbox=off"];
    let mut terminal = chat(&home, &provider, &arguments);
    terminal.prompt().say("slowly").see("one").press(CTRL_C);
    terminal
        .see("interrupted; the session is kept")
        .see("1 answer that was cut off");
    terminal
        .prompt()
        .say("run echo $$ > pid.new; mv pid.new pid; exec sleep 100");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !home.join("pid").exists() {
        assert!(Instant::now() < deadline, "{}", terminal.text());
        std::thread::sleep(Duration::from_millis(5));
    }
    terminal
        .press(CTRL_C)
        .see("interrupted; the session is kept");
    let pid = std::fs::read_to_string(home.join("pid")).unwrap();
    let pid = rustix::process::Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    while rustix::process::test_kill_process(pid).is_ok() {
        assert!(Instant::now() < deadline, "the tool still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
    terminal
        .prompt()
        .say("hello")
        .see("I was told: hello")
        .prompt()
        .leave();
    // Every request was one that a provider accepts, which is checked when it is stopped.
    assert!(provider.received().len() >= 3);
}

#[test]
fn ctrl_c_at_the_prompt_must_be_pressed_twice() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal
        .prompt()
        .press("half a li")
        .see("half a li")
        .press(CTRL_C)
        .see("Ctrl-C again");
    terminal.prompt().say("hello").see("I was told: hello");
    terminal
        .prompt()
        .press(CTRL_C)
        .see("Ctrl-C again")
        .prompt()
        .press(CTRL_C);
    assert_eq!(terminal.ended(), Some(0), "{}", terminal.text());
}

#[test]
fn messages_may_have_several_lines_and_are_kept_in_the_history() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal
        .prompt()
        .say("one \\")
        .say("two")
        .see("I was told: one\ntwo\n");
    terminal
        .prompt()
        .say("\"\"\"")
        .say("three")
        .say("")
        .say("four\"\"\"");
    terminal.see("I was told: three\n\nfour\n").prompt().leave();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal.prompt().press(UP).press(UP).press(UP).press("\r");
    terminal.see("I was told: ").prompt().leave();
    let asked = String::from_utf8_lossy(&provider.received().last().unwrap().body).into_owned();
    assert!(asked.contains("one ") || asked.contains("three"), "{asked}");
    use std::os::unix::fs::PermissionsExt as _;
    let history = home.database().with_file_name("cachalot.db.history");
    let mode = std::fs::metadata(history).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode, 0o600, "what somebody typed is nobody else's business");
}

const REFUSING: &str = "
rules:
  - user: 'poison'
    steps: [{fault: 400}]
otherwise: {text: 'I was told: {{user}}'}
";

#[test]
fn retract_removes_a_refused_message_and_the_session_continues() {
    let (home, provider) = (Home::new(), Provider::scripted(REFUSING));
    home.write("agent.yaml", SHELL);
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal
        .prompt()
        .say("/retract")
        .see("there is no message to take back");
    terminal.prompt().say("hello").see("I was told: hello");
    terminal
        .prompt()
        .say("poison")
        .see("error:")
        .see("/retract takes back the last one");
    terminal
        .prompt()
        .say("/retract")
        .see("taken back: \"poison\"");
    terminal.prompt().say("/retract now").see("takes nothing");
    terminal.prompt().say("bye").see("I was told: bye");
    terminal.prompt().leave();
    let last = provider.received().last().unwrap().json().to_string();
    assert!(last.contains("hello") && !last.contains("poison"), "{last}");
    // What was taken back is in no later request.
    drop(provider.accepting_anything());
}

#[test]
fn commands_are_distinguished_from_messages() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal
        .prompt()
        .say("/help")
        .see("/stats")
        .see("Ctrl-C interrupts the turn");
    terminal
        .prompt()
        .say("/stast")
        .see("did you mean `/stats`?");
    terminal
        .prompt()
        .say("/stats now")
        .see("takes nothing behind it");
    terminal
        .prompt()
        .say("/stats")
        .see("`tools.cacheToolResults` is not true");
    terminal
        .prompt()
        .say("/etc/hosts is a file")
        .see("I was told: /etc/hosts is a file");
    terminal.prompt().say(" /help").see("I was told:");
    terminal
        .prompt()
        .say("/session")
        .see("\n")
        .prompt()
        .say("/new")
        .see("session ");
    terminal
        .prompt()
        .say("hello")
        .see("I was told: hello")
        .prompt()
        .say("/quit");
    assert_eq!(terminal.ended(), Some(0));
    let listed = home.run(&["sessions", "ls", "--json"]).ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 2, "{listed}");
}

#[test]
fn an_empty_session_is_not_stored() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal.prompt().say("/new").see("session ");
    let text = terminal.prompt().leave();
    assert!(!text.contains("to continue"), "{text}");
    let listed = home.run(&["sessions", "ls", "--json"]).ok().json();
    assert_eq!(listed.as_array().unwrap().len(), 0, "{listed}");
}

#[test]
fn failing_model_does_not_end_the_session() {
    let (home, provider) = (Home::new(), Provider::built_in());
    home.write("agent.yaml", SHELL);
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal
        .prompt()
        .say("simulate 401")
        .see("error: openai: ")
        .see("status 401");
    terminal
        .prompt()
        .say("simulate cut")
        .see("ended before it was complete")
        .see("cut off");
    terminal
        .prompt()
        .say("hello")
        .see("You wrote: hello")
        .prompt()
        .leave();
}

#[test]
fn long_operations_are_shown_as_running() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml", "--yes"]);
    terminal
        .prompt()
        .say("run sleep 1; echo done")
        .see("⠼ shell sleep 1; echo done 0 s");
    terminal.see("It said: done").prompt().leave();
    let mut terminal = chat(&home, &provider, &["agent.yaml", "--yes", "-q"]);
    terminal
        .prompt()
        .say("run sleep 1; echo done")
        .see("It said: done");
    let text = terminal.prompt().leave();
    assert!(
        !text.contains('⠼') && !text.contains("shell") && !text.contains("tokens"),
        "{text}"
    );
}

#[test]
fn colors_follow_the_settings() {
    let (home, provider) = with_scripted_model();
    let colored = |terminal: &mut Terminal| {
        terminal
            .prompt()
            .say("run echo hi")
            .see("It said: hi")
            .prompt()
            .leave();
        let raw = terminal.raw();
        raw.contains("\u{1b}[33m") || raw.contains("\u{1b}[2m")
    };
    assert!(colored(&mut chat(
        &home,
        &provider,
        &["agent.yaml", "--yes"]
    )));
    let plain = |command: &mut Command| {
        command.env("NO_COLOR", "1");
    };
    assert!(!colored(&mut chat_with(
        &home,
        &provider,
        &["agent.yaml", "--yes"],
        plain
    )));
}

#[test]
fn model_output_has_no_control_characters_on_the_terminal() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal
        .prompt()
        .say("escape")
        .see("a ␛[31mred␛[0m word")
        .prompt()
        .leave();
    assert!(!terminal.raw().contains("\u{1b}[31mred"));
}

#[test]
fn answers_can_be_redirected_while_prompts_stay_on_the_terminal() {
    let (home, provider) = with_scripted_model();
    let binary = env!("CARGO_BIN_EXE_cachalot");
    let line = format!("exec '{binary}' chat --sandbox=ask agent.yaml > answers.txt");
    let mut command = home.command(&[]);
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &line])
        .current_dir(home.path())
        .env_clear();
    for (name, value) in command.get_envs() {
        shell.env(name, value.unwrap());
    }
    provider.known_to(&mut shell);
    command = shell;
    let mut terminal = Terminal::start(&mut command);
    terminal
        .prompt()
        .say("think")
        .see("tokens in")
        .prompt()
        .say("hello")
        .see("tokens in");
    terminal.prompt().leave();
    let answers = std::fs::read_to_string(home.join("answers.txt")).unwrap();
    assert_eq!(answers, "I have thought.\nI was told: hello\n");
}

#[cfg(target_os = "linux")]
#[test]
fn full_disk_ends_the_chat_with_its_reason() {
    let (home, provider) = with_scripted_model();
    let mut shell = Command::new("sh");
    let binary = env!("CARGO_BIN_EXE_cachalot");
    shell
        .args([
            "-c",
            &format!("exec '{binary}' chat --sandbox=ask agent.yaml > /dev/full"),
        ])
        .current_dir(home.path())
        .env("HOME", home.path())
        .env_remove("XDG_DATA_HOME");
    provider.known_to(&mut shell);
    let mut terminal = Terminal::start(&mut shell);
    terminal
        .prompt()
        .say("hello")
        .see("to continue: ")
        .see("No space left");
    assert_eq!(terminal.ended(), Some(1), "{}", terminal.text());
}

#[test]
fn ctrl_d_at_an_approval_interrupts_the_turn() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal
        .prompt()
        .say("run echo hi")
        .see("allow it?")
        .press(CTRL_D);
    terminal.see("interrupted").prompt().leave();
}

#[test]
fn session_continued_elsewhere_includes_those_turns() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml"]);
    terminal.prompt().say("first").see("I was told: first");
    let listed = home.run(&["sessions", "ls", "--json"]).ok().json();
    let name = listed[0]["id"].as_str().unwrap();
    home.ask(&provider, &["agent.yaml", "--session", name], "second")
        .ok();
    terminal
        .prompt()
        .say("third")
        .see("warning: ")
        .see("continued elsewhere");
    terminal.see("I was told: third").prompt().leave();
    let shown = home.run(&["sessions", "show", name]).ok().stdout;
    for said in ["  first\n", "  second\n", "  third\n"] {
        assert!(shown.contains(said), "{said}: {shown}");
    }
}

#[test]
fn json_output_requires_a_piped_question() {
    let (home, provider) = with_scripted_model();
    let mut terminal = chat(&home, &provider, &["agent.yaml", "--json"]);
    terminal.see("JSON is printed for the answer to one prompt");
    assert_eq!(terminal.ended(), Some(2));
}
