//! Errors of chats that cannot continue, and their remedies.

use std::process::Command;

use serde_json::{Value, json};

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL, session};
use crate::support::{CommandOutput, Home};

/// Asks a known model, and does not wait for rate limits.
const PLAIN: &str =
    "providers: {openai: {rate_limit_wait: 0s}}\nagents: {root: {model: openai/gpt-4o}}\n";

#[test]
fn every_provider_error_is_reported_with_a_remedy() {
    let (home, provider) = (Home::new(), Provider::built_in());
    home.write("agent.yaml", PLAIN);
    let with_key = |command: &mut Command| {
        command.env("OPENAI_API_KEY", "sk-very-secret");
    };
    let faults: [(&str, &[&str]); 8] = [
        ("400", &["openai: ", "status 400"]),
        (
            "401",
            &[
                "check the key in the environment variable OPENAI_API_KEY",
                "status 401",
            ],
        ),
        ("404", &["check the model's name", "status 404"]),
        (
            "429",
            &[
                "rate limit",
                "try again later",
                "tried 3 times",
                "status 429",
            ],
        ),
        (
            "500",
            &["the provider failed", "tried 3 times", "status 500"],
        ),
        ("529", &["overloaded", "tried 3 times", "status 529"]),
        ("cut", &["ended before it was complete", "try again"]),
        ("malformed", &["makes no sense", "base URL"]),
    ];
    for (fault, expected) in faults {
        let question = format!("simulate {fault}");
        let ran = home
            .ask_with(&provider, &["agent.yaml"], question.as_bytes(), with_key)
            .fails(1);
        assert_eq!(ran.stdout, "", "{fault}");
        let said: Vec<&str> = ran
            .stderr
            .lines()
            .filter(|line| line.starts_with("error: "))
            .collect();
        assert_eq!(said.len(), 1, "{ran}");
        for expected in expected {
            assert!(said[0].contains(expected), "{fault}: {expected}: {ran}");
        }
        assert!(!ran.stderr.contains("very-secret"), "{ran}");
        // The session is kept, and can go on.
        let name = session(&ran);
        let arguments = ["agent.yaml", "--session", &name];
        let next = home
            .ask_with(&provider, &arguments, b"hello", with_key)
            .ok();
        assert!(next.stdout.contains("You wrote: hello"), "{fault}: {next}");
    }
    let slow = home
        .ask_with(&provider, &["agent.yaml"], b"simulate slow", with_key)
        .ok();
    assert!(slow.stdout.contains("asked to go wrong"), "{slow}");
}

#[test]
fn failure_is_a_document_on_stdout_with_json() {
    let (home, provider) = (Home::new(), Provider::built_in());
    home.write("agent.yaml", PLAIN);
    for (fault, code) in [("401", "unauthorized"), ("429", "rate_limited")] {
        let message = format!("simulate {fault}");
        let ran = home.ask(&provider, &["agent.yaml", "--json"], &message);
        let failed = ran.fails(1).json();
        assert_eq!(failed["error"]["code"], code, "{failed}");
    }
    let ran = home.ask(&provider, &["agent.yaml", "--json"], "simulate 404");
    let failed = ran.fails(1).json();
    let error = &failed["error"];
    assert_eq!(error["code"], "rejected", "{failed}");
    assert!(
        error["message"].as_str().unwrap().contains("status 404"),
        "{failed}"
    );
    assert_eq!(failed["state"]["agent"], "root");
    assert_eq!(failed["state"]["session"], failed["session"]);
    assert_eq!(failed["report"]["model_calls"], 0);
    assert_eq!(
        (&failed["answer"], &failed["ended"]),
        (&Value::Null, &json!("error"))
    );
    // Before the chat begins.
    for (arguments, code) in [
        (&["gone.yaml", "--json"][..], "unreadable-file"),
        (
            &["agent.yaml", "--json", "--agent", "other"],
            "unknown-agent",
        ),
    ] {
        let failed = home.ask(&provider, arguments, "hello").fails(2).json();
        assert_eq!(failed["error"]["code"], code, "{failed}");
        assert_eq!(
            (&failed["state"], &failed["report"]),
            (&Value::Null, &Value::Null)
        );
    }
}

#[test]
fn truncated_answer_is_recorded_as_truncated() {
    let (home, provider) = (Home::new(), Provider::built_in());
    home.write("agent.yaml", PLAIN);
    let ran = home
        .ask(&provider, &["agent.yaml"], "simulate cut")
        .fails(1);
    let sum = ran
        .stderr
        .lines()
        .find(|line| line.starts_with("in all "))
        .unwrap();
    assert!(sum.contains("1 answer that was cut off"), "{ran}");
    let refused = home
        .ask(&provider, &["agent.yaml"], "simulate 401")
        .fails(1);
    assert!(!refused.stderr.contains("in all "), "{refused}");
}

#[test]
fn a_truncated_answer_is_reported_in_every_format() {
    let script = "
rules:
  - {user: event, steps: [{text: a b c d, fault: {error_event: {after_events: 2}}}]}
  - {user: cut, steps: [{text: a b c d, fault: {cut: {after_events: 2}}}]}
  - {user: malformed, steps: [{text: a b c d, fault: malformed}]}
  - {user: refuse, steps: [{text: No., stop: refusal}]}
  - {user: length, steps: [{text: A long, stop: length}]}
otherwise: {text: Fine.}
";
    let (home, provider) = (Home::new(), Provider::scripted(script));
    home.write(
        "agent.yaml",
        "
models:
  chat: {provider: openai, model: gpt-4o}
  responses: {provider: openai, model: gpt-4o, format: responses}
  messages: {provider: anthropic, model: claude-sonnet-5}
agents:
  chat: {model: chat}
  responses: {model: responses}
  messages: {model: messages}
",
    );
    for agent in ["chat", "responses", "messages"] {
        for (question, said, answer) in [
            ("event", "Simulated: internal server error", ""),
            ("cut", "ended before it was complete", ""),
            ("malformed", "not JSON", ""),
            ("refuse", "refused to answer", "No.\n"),
            ("length", "limit of its tokens", "A long\n"),
        ] {
            let ran = home.ask(&provider, &["agent.yaml", "--agent", agent], question);
            let ran = ran.fails(1);
            assert_eq!(ran.stdout, answer, "{agent}, {question}");
            assert!(ran.stderr.contains(said), "{agent}, {question}: {ran}");
            let is_cut_off = ["cut", "malformed"].contains(&question);
            let reported = ran.stderr.contains("1 answer that was cut off");
            assert!(reported || !is_cut_off, "{agent}, {question}: {ran}");
            let name = session(&ran);
            let next = home.ask(&provider, &["agent.yaml", "--session", &name], "hello");
            assert_eq!(next.ok().stdout, "Fine.\n", "{agent}, {question}");
        }
    }
}

#[test]
fn missing_key_is_reported_before_sending_with_an_alternative() {
    let home = Home::new();
    for (model, variable, way) in [
        (
            "openai/gpt-4o",
            "OPENAI_API_KEY",
            "OPENAI_BASE_URL=http://127.0.0.1:4010/v1",
        ),
        (
            "anthropic/claude-sonnet-5",
            "ANTHROPIC_API_KEY",
            "ANTHROPIC_BASE_URL=http://127.0.0.1:4010",
        ),
        (
            "mistral/mistral-large-latest",
            "MISTRAL_API_KEY",
            "base_url: http://127.0.0.1:4010/v1",
        ),
    ] {
        home.write("agent.yaml", PLAIN.replace("openai/gpt-4o", model));
        let ran = piped(&mut home.command(&["chat", "agent.yaml"]), "hello").fails(1);
        for expected in [variable, way, "help: ", "cachalot simulate"] {
            assert!(ran.stderr.contains(expected), "{expected}: {ran}");
        }
        // What was not begun is not kept.
        let listed = home.run(&["sessions", "ls", "--json"]).ok();
        assert_eq!(listed.json().as_array().unwrap().len(), 0, "{listed}");
    }
}

#[test]
fn workflow_reports_a_missing_key_like_a_chat() {
    let home = Home::new();
    home.write(
        "agent.yaml",
        "nodes:\n  - name: ask\n    uses: llm.call\n    with: {model: openai/gpt-4o, prompt: hello}\n",
    );
    let ran = home.run(&["run", "agent.yaml"]).fails(1);
    // Lines are wrapped.
    let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    for expected in ["OPENAI_API_KEY", "`cachalot simulate`"] {
        assert!(said.contains(expected), "{expected}: {ran}");
    }
}

#[test]
fn unreachable_server_is_reported_with_a_remedy() {
    let home = Home::new();
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let model = format!(
        "models: {{one: {{provider: openai, model: gpt-4o, base_url: 'http://127.0.0.1:{port}/v1', retries: 0}}}}\n"
    );
    home.write("agent.yaml", model + &PLAIN.replace("openai/gpt-4o", "one"));
    let ran = piped(&mut home.command(&["chat", "agent.yaml"]), "hello").fails(1);
    assert!(ran.stderr.contains("cannot connect"), "{ran}");
    assert!(
        ran.stderr
            .contains(&format!("cachalot simulate --port {port}")),
        "{ran}"
    );
}

#[test]
fn invalid_question_is_refused_before_the_store_is_opened() {
    let home = Home::new();
    home.write("agent.yaml", SHELL);
    for (question, code) in [
        (&b""[..], "no-question"),
        (b" \n\t\n", "no-question"),
        (b"\xff\xfe", "not-utf8"),
    ] {
        let mut command = home.command(&["chat", "agent.yaml"]);
        let ran = piped_bytes(&mut command, question).fails(2);
        assert!(ran.stderr.contains(code), "{code}: {ran}");
    }
    let ran = home.run(&["chat", "agent.yaml"]).fails(2);
    assert!(ran.stderr.contains("cachalot chat -p"), "{ran}");
    assert!(!home.database().exists());
}

#[test]
fn missing_files_agents_and_sessions_are_named() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    let ran = home.ask(&provider, &["missing.yaml"], "hello").fails(2);
    assert!(ran.stderr.contains("missing.yaml: No such file"), "{ran}");
    let ran = home
        .ask(&provider, &["agent.yaml", "--agent", "rot"], "hello")
        .fails(2);
    assert!(ran.stderr.contains("did you mean `root`?"), "{ran}");
    let ran = home
        .ask(&provider, &["agent.yaml", "--session", "nope"], "hello")
        .fails(1);
    assert!(ran.stderr.contains("there is no session `nope`"), "{ran}");
    assert!(ran.stderr.contains("cachalot sessions ls"), "{ran}");
    home.ask(
        &provider,
        &["agent.yaml", "--session", "x", "--agent", "y"],
        "hello",
    )
    .fails(2);
    let name = session(&home.ask(&provider, &["agent.yaml"], "hello").ok());
    home.write("other.yaml", SHELL.replace("root", "someone"));
    let ran = home
        .ask(&provider, &["other.yaml", "--session", &name], "hello")
        .fails(2);
    assert!(ran.stderr.contains("was held with `root`"), "{ran}");
}

#[test]
fn chat_without_a_store_answers_and_warns() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    home.write("file", "");
    let ran = home
        .ask(&provider, &["agent.yaml", "--db", "file/x.db"], "hello")
        .ok();
    assert_eq!(ran.stdout, "I was told: hello\n");
    assert!(ran.stderr.contains("warning: chat not saved"), "{ran}");
    assert!(!ran.stderr.contains("\nsession "), "{ran}");
    let reported = home
        .ask(
            &provider,
            &["agent.yaml", "--db", "file/x.db", "--json"],
            "hello",
        )
        .ok();
    assert!(reported.json()["session"].is_null(), "{reported}");
    let ran = home
        .ask_with(&provider, &["agent.yaml"], b"hello", |command| {
            command.env_remove("HOME").env_remove("XDG_DATA_HOME");
        })
        .fails(2);
    assert!(
        ran.stderr.contains("HOME is not set") && ran.stderr.contains("--db"),
        "{ran}"
    );
}

#[test]
fn two_concurrent_chats_on_a_session_both_get_their_answers() {
    const SLOW: &str = "
rules:
  - user: 'slow'
    steps: [{text: par 4, fault: {slow: {first_byte: 3s, per_event: 1ms}}}]
otherwise: {text: 'I was told: {{user}}'}
";
    let (home, provider) = (Home::new(), Provider::scripted(SLOW));
    home.write("agent.yaml", PLAIN);
    for as_json in [false, true] {
        let name = session(&home.ask(&provider, &["agent.yaml"], "hello").ok());
        let before = provider.received().len();
        let arguments = ["agent.yaml", "--session", name.as_str()];
        let lost = std::thread::scope(|scope| {
            let lost = scope.spawn(|| {
                let arguments = [&arguments[..], if as_json { &["--json"] } else { &[] }].concat();
                home.ask(&provider, &arguments, "slow")
            });
            while provider.received().len() == before {
                assert!(!lost.is_finished(), "{}", lost.join().unwrap());
                std::thread::sleep(std::time::Duration::from_millis(5));
            }
            home.ask(&provider, &arguments, "quick").ok();
            lost.join().unwrap()
        });
        let lost = lost.fails(1);
        if as_json {
            assert_eq!(lost.json()["answer"], "par 4");
            assert_eq!(lost.json()["ended"], "conflict");
        } else {
            assert_eq!(lost.stdout, "par 4\n");
        }
        assert!(lost.stderr.contains("continued elsewhere"), "{lost}");
        assert!(lost.stderr.contains("is not part of it"), "{lost}");
        assert!(!lost.stderr.contains("nothing was written"), "{lost}");
    }
    drop(provider.accepting_anything());
}

#[cfg(unix)]
#[test]
fn unwritable_stdout_is_reported_with_the_session() {
    use std::fs::File;
    use std::process::Stdio;
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    if cfg!(target_os = "linux") {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let ran = home
            .ask_with(&provider, &["agent.yaml"], b"hello", |command| {
                command.stdout(Stdio::from(full));
            })
            .fails(1);
        assert!(ran.stderr.contains("No space left"), "{ran}");
        session(&ran);
    }
    // The reader of stdout is gone.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let ran = home
        .ask_with(&provider, &["agent.yaml", "-q"], b"hello", |command| {
            command.stdout(Stdio::from(writer));
        })
        .fails(141);
    assert_eq!(ran.stderr, "");
    let before = provider.received().len();
    let mut command = home.command(&["chat", "agent.yaml"]);
    provider.known_to(&mut command);
    let line = format!(
        "exec '{}' chat agent.yaml >&-",
        env!("CARGO_BIN_EXE_cachalot")
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &line])
        .current_dir(home.path())
        .env("HOME", home.path());
    provider.known_to(&mut shell);
    let ran = piped(&mut shell, "hello").fails(1);
    assert!(ran.stderr.contains("standard output is closed"), "{ran}");
    assert_eq!(provider.received().len(), before, "nothing is paid for");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_a_turn_and_prints_how_to_continue() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::Write as _;
    use std::process::Stdio;
    use std::time::{Duration, Instant};
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    for signal in [Signal::INT, Signal::TERM] {
        let _ = std::fs::remove_file(home.join("pid"));
        // Outside of a sandbox, processes have the IDs that they see.
        let mut command = home.command(&["chat", "agent.yaml", "--yes", "--sandbox=off"]);
        provider.known_to(&mut command);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin
            .write_all(b"run echo $$ > pid.new; mv pid.new pid; exec sleep 100")
            .unwrap();
        drop(stdin);
        let deadline = Instant::now() + Duration::from_secs(60);
        while !home.join("pid").exists() {
            assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none());
            std::thread::sleep(Duration::from_millis(5));
        }
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ran: CommandOutput = child.wait_with_output().unwrap().into();
        let ran = ran.fails(130);
        assert_eq!(ran.stdout, "", "{ran}");
        assert!(
            ran.stderr
                .contains("interrupted: to continue, cachalot chat agent.yaml --resume "),
            "{ran}"
        );
        // Nothing that it started is left.
        let text = std::fs::read_to_string(home.join("pid")).unwrap();
        let sleeping = Pid::from_raw(text.trim().parse().unwrap()).unwrap();
        while rustix::process::test_kill_process(sleeping).is_ok() {
            assert!(Instant::now() < deadline, "the tool still runs");
            std::thread::sleep(Duration::from_millis(5));
        }
        let name = session(&ran);
        let next = home
            .ask(&provider, &["agent.yaml", "--session", &name], "hello")
            .ok();
        assert_eq!(next.stdout, "I was told: hello\n");
    }
}

fn piped(command: &mut Command, question: &str) -> CommandOutput {
    piped_bytes(command, question.as_bytes())
}

fn piped_bytes(command: &mut Command, question: &[u8]) -> CommandOutput {
    use std::io::Write as _;
    use std::process::Stdio;
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that fails does not read it.
    let _ = child.stdin.take().unwrap().write_all(question);
    child.wait_with_output().unwrap().into()
}
