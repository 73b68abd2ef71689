//! Chats with the toolsets `think`, `todo`, `user_prompt` and `background_jobs`.
#![cfg(unix)]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::provider::Provider;
use crate::support::Home;
use crate::terminal::{CTRL_C, Terminal};

/// A scripted model for the toolsets.
const SCRIPT: &str = r#"
rules:
  - user: 'consider'
    tools: [think]
    steps:
      - tool_calls: [{name: think, arguments: {thought: one}}, {name: think, arguments: {thought: two}}]
      - text: 'It said: {{last_result}}'
  - user: 'plan (\w+)'
    tools: [create_todo]
    steps:
      - tool_calls: [{name: create_todo, arguments: {description: '{{1}}'}}]
      - text: 'It said: {{last_result}}'
  - user: 'show the list'
    tools: [list_todos]
    steps:
      - tool_calls: [{name: list_todos, arguments: {}}]
      - text: 'It said: {{last_result}}'
  - user: 'both'
    tools: [transfer_task]
    steps:
      - tool_calls: [{name: transfer_task, arguments: {agent: first, task: plan shopping}}]
      - tool_calls: [{name: transfer_task, arguments: {agent: second, task: show the list}}]
      - text: 'In the end: {{last_result}}'
  - user: 'pass on'
    tools: [handoff]
    steps:
      - tool_calls: [{name: handoff, arguments: {agent: other}}]
      - text: 'I continue.'
  - user: 'ask me'
    tools: [user_prompt]
    steps:
      - tool_calls: [{name: user_prompt, arguments: {message: "How\n\u001b[31mdeep?"}}]
      - text: 'It said: {{last_result}}'
  - user: 'form'
    tools: [user_prompt]
    steps:
      - tool_calls:
          - name: user_prompt
            arguments:
              title: Order
              message: Please choose.
              schema:
                type: object
                required: [color, count]
                properties:
                  color: {type: string, enum: [red, blue], description: The color of it}
                  count: {type: integer, minimum: 1}
                  gift: {type: boolean, default: false}
                  note: {type: string}
      - text: 'It said: {{last_result}}'
  - user: 'start (.*)'
    tools: [run_background_job]
    steps:
      - tool_calls: [{name: run_background_job, arguments: {cmd: '{{1}}'}}]
      - text: 'Started: {{last_result}}'
  - user: 'look'
    tools: [list_background_jobs]
    steps:
      - tool_calls: [{name: list_background_jobs, arguments: {}}]
      - text: 'It said: {{last_result}}'
  - user: 'cache'
    tools: [read_file, run_background_job]
    steps:
      - tool_calls: [{name: read_file, arguments: {path: a.txt}}]
      - tool_calls: [{name: read_file, arguments: {path: a.txt}}]
      - tool_calls: [{name: run_background_job, arguments: {cmd: 'while ! [ -e go ]; do sleep 0.01; done; echo two > a.txt'}}]
      - tool_calls: [{name: read_file, arguments: {path: a.txt}}]
      - tool_calls: [{name: write_file, arguments: {path: go, content: x}}]
      - tool_calls: [{name: wait_background_job, arguments: {job_id: job_1}}]
      - tool_calls: [{name: read_file, arguments: {path: a.txt}}]
      - tool_calls: [{name: read_file, arguments: {path: a.txt}}]
      - text: 'It says: {{last_result}}'
otherwise: {text: 'I was told: {{user}}'}
"#;

/// An agent with this toolset and these further keys.
fn with_toolset(toolset: &str, further: &str) -> (Home, Provider) {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPT));
    let file = format!(
        "providers: {{openai: {{format: chat}}}}\nagents:\n  root:\n    model: openai/gpt-4o\n    instruction: Help.\n    toolsets: [{toolset}]\n{further}"
    );
    home.write("agent.yaml", file);
    (home, provider)
}

fn chat(home: &Home, provider: &Provider, arguments: &[&str]) -> Terminal {
    let mut command = home.command(&[&["chat", "agent.yaml"], arguments].concat());
    provider.known_to(&mut command);
    Terminal::start(&mut command)
}

/// The JSON that an agent repeats at the end of its answer.
fn repeated(answer: &str) -> Value {
    let (_, text) = answer.split_once("It said: ").unwrap();
    let text = text.trim_start_matches("Error: ");
    serde_json::from_str(text.trim()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn thoughts_are_returned_without_an_approval() {
    let (home, provider) = with_toolset("{type: think}", "");
    let ran = home.ask(&provider, &["agent.yaml"], "consider").ok();
    assert_eq!(ran.stdout, "It said: Thoughts:\none\ntwo\n", "{ran}");
}

#[test]
fn todos_last_for_the_session() {
    let (home, provider) = with_toolset("{type: todo}", "");
    let mut terminal = chat(&home, &provider, &[]);
    terminal.prompt().say("plan tea").see("It said:");
    terminal.see(r#""reminder":"These todos are open"#);
    terminal.prompt().say("/reload").see("the tools are those");
    terminal.prompt().say("show the list");
    terminal.see(r#""todos":[{"id":"todo_1","description":"tea","status":"pending"}]"#);
    terminal.prompt().say("/new").prompt().say("show the list");
    terminal.see(r#"{"todos":[]}"#).prompt().leave();
}

#[test]
fn shared_todos_are_seen_by_the_whole_team_until_a_new_session() {
    let team = |shared: &str| {
        format!(
            "    sub_agents: [first, second]\n  first: {{model: openai/gpt-4o, toolsets: [{{type: todo{shared}}}]}}\n  second: {{model: openai/gpt-4o, toolsets: [{{type: todo{shared}}}]}}\n"
        )
    };
    let (home, provider) = with_toolset("{type: todo, shared: true}", &team(", shared: true"));
    let mut terminal = chat(&home, &provider, &[]);
    terminal.prompt().say("both").see("In the end: It said:");
    terminal.see(r#""description":"shopping","status":"pending""#);
    terminal.prompt().say("show the list").see("It said:");
    terminal.see(r#""description":"shopping""#);
    terminal.prompt().say("/new").prompt().say("show the list");
    terminal.see(r#"{"todos":[]}"#).prompt().leave();
    let (home, provider) = with_toolset("{type: think}", &team(""));
    let ran = home.ask(&provider, &["agent.yaml"], "both").ok();
    assert_eq!(repeated(&ran.stdout), json!({ "todos": [] }), "{ran}");
}

#[test]
fn question_is_answered_at_the_terminal() {
    let (home, provider) = with_toolset("{type: user_prompt}", "");
    let mut terminal = chat(&home, &provider, &[]);
    // Typed before the question: no answer to it.
    terminal.prompt().say("ask me").press("too early\r");
    terminal
        .see("  Question")
        .see("  How\n")
        .see("  \u{241b}[31mdeep?");
    terminal.see("answer (/decline refuses):");
    terminal.press("\t").say("").see("an answer is required");
    terminal
        .say("very deep")
        .see(r#"It said: {"action":"accept","content":{"response":"very deep"}}"#);
    let shown = terminal.text();
    assert!(!shown.contains("allow it?"), "{shown}");
    terminal.see("I was told: too early").prompt();
    terminal
        .say("ask me")
        .see("refuses):")
        .press("\t")
        .say("/decline");
    terminal.see(r#"It said: Error: {"action":"decline"}"#);
    terminal
        .prompt()
        .say("ask me")
        .see("refuses):")
        .press("\t")
        .say("/cancel");
    terminal.see(r#"It said: Error: {"action":"cancel"}"#);
    terminal
        .prompt()
        .say("ask me")
        .see("refuses):")
        .press(CTRL_C);
    terminal
        .see("interrupted")
        .prompt()
        .say("hello")
        .see("I was told: hello");
    terminal.prompt().leave();
}

#[test]
fn form_is_asked_field_by_field_and_validated() {
    let (home, provider) = with_toolset("{type: user_prompt}", "");
    let mut terminal = chat(&home, &provider, &["--yes"]);
    terminal
        .prompt()
        .say("form")
        .see("  Order")
        .see("  Please choose.");
    terminal.see("  color (a number from 1 to 2, or a value): The color of it");
    terminal
        .see("    1. red")
        .see("    2. blue")
        .see("refuses):");
    terminal
        .press("\t")
        .say("green")
        .see("`green` is not accepted")
        .see("refuses): ");
    terminal
        .say("2")
        .see("  count (a whole number)")
        .see("refuses): ");
    terminal.say("0").see("not accepted: ").see("refuses): ");
    terminal
        .say("3")
        .see("  gift (yes or no; empty for `false`)")
        .see("refuses): ");
    terminal
        .say("")
        .see("  note (may be left empty)")
        .see("refuses): ");
    terminal.say("").see("It said:");
    terminal.see(r#"{"action":"accept","content":{"color":"blue","count":3,"gift":false}}"#);
    terminal.prompt().leave();
}

#[test]
fn question_without_a_terminal_is_cancelled() {
    let (home, provider) = with_toolset("{type: user_prompt}", "");
    for arguments in [&["agent.yaml"][..], &["agent.yaml", "--yes"]] {
        let ran = home.ask(&provider, arguments, "ask me").ok();
        let answer = repeated(&ran.stdout);
        assert_eq!(answer["action"], "cancel", "{ran}");
        let reason = answer["reason"].as_str().unwrap();
        assert!(reason.starts_with("no user can be asked here"), "{ran}");
    }
}

/// The command of a job that writes its process ID into `id`, and lasts.
const LASTING: &str = "echo $$ > id.new; mv id.new id; sleep 100";

/// Waits for a process ID that a job writes.
fn process(home: &Home) -> String {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(id) = std::fs::read_to_string(home.join("id")) {
            std::fs::remove_file(home.join("id")).unwrap();
            return id.trim().to_owned();
        }
        assert!(Instant::now() < deadline, "the job does not start");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Returns true if a process runs; a zombie does not.
fn runs(process: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{process}/stat")).is_ok_and(|text| {
        !text
            .rsplit(") ")
            .next()
            .unwrap_or_default()
            .starts_with('Z')
    })
}

#[track_caller]
fn gone(process: &str) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while runs(process) {
        assert!(Instant::now() < deadline, "the job still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn job_needs_approval_and_its_end_is_announced_with_the_next_message() {
    let (home, provider) = with_toolset("{type: background_jobs}", "");
    let mut terminal = chat(&home, &provider, &[]);
    terminal
        .prompt()
        .say("start touch made; while ! [ -e go ]; do sleep 0.01; done");
    terminal.see("allow it?");
    assert!(!home.join("made").exists());
    terminal
        .answer("y")
        .see("Started: The background job job_1 is running.");
    terminal
        .prompt()
        .say("hello")
        .see("I was told: hello")
        .prompt();
    assert_eq!(notices(&provider), 0);
    home.write("go", "");
    // The model learns of the end with the first message after it.
    let deadline = Instant::now() + Duration::from_secs(60);
    while notices(&provider) == 0 {
        assert!(Instant::now() < deadline, "{}", terminal.text());
        terminal.say("again").see("I was told: again").prompt();
    }
    terminal
        .say("once more")
        .see("I was told: once more")
        .prompt();
    assert_eq!(notices(&provider), 1, "it is announced once");
    terminal.leave();
}

/// The number of messages of the user in the last request that announce the end of the job.
fn notices(provider: &Provider) -> usize {
    let last = provider.received().pop().unwrap().json();
    let messages = last["messages"].as_array().unwrap().clone();
    let notice = "The background job job_1: completed (exit status 0) after ";
    let announces = |message: &&Value| {
        message["role"] == "user" && message["content"].to_string().contains(notice)
    };
    messages.iter().filter(announces).count()
}

#[test]
fn jobs_end_with_the_session_the_chat_and_the_process() {
    let (home, provider) = with_toolset(
        "{type: background_jobs}",
        "permissions: {allow: [run_background_job]}\n",
    );
    let start = format!("start {LASTING}");
    // A new session, and the end of the chat.
    let mut terminal = chat(&home, &provider, &[]);
    terminal.prompt().say(&start).see("Started: ");
    let first = process(&home);
    terminal
        .prompt()
        .say("hello")
        .see("I was told: hello")
        .prompt();
    assert!(runs(&first), "a job outlives a turn");
    terminal.press(CTRL_C).see("Ctrl-C again").prompt();
    assert!(runs(&first), "Ctrl-C is not for jobs");
    terminal.say("/new").see("session ");
    gone(&first);
    terminal.prompt().say(&start).see("Started: ");
    let second = process(&home);
    terminal.prompt().leave();
    assert!(!runs(&second), "the chat waits for the ends of its jobs");
    // The terminal is closed.
    let mut terminal = chat(&home, &provider, &[]);
    terminal.prompt().say(&start).see("Started: ");
    let third = process(&home);
    rustix::process::kill_process(terminal.id(), rustix::process::Signal::HUP).unwrap();
    terminal.ended();
    assert!(!runs(&third));
    // Through a pipe.
    let ran = home.ask(&provider, &["agent.yaml"], &start).ok();
    // The job may have been killed before it had written its process ID.
    for name in ["id.new", "id"] {
        let written = std::fs::read_to_string(home.join(name)).unwrap_or_default();
        let fourth = written.trim();
        assert!(fourth.is_empty() || !runs(fourth), "{ran}");
    }
}

/// The session goes on, so its jobs do, too.
#[test]
fn jobs_outlive_a_handoff_and_end_with_the_chat() {
    let (home, provider) = with_toolset(
        "{type: background_jobs}",
        "    handoffs: [other]\n  other: {model: openai/gpt-4o, handoffs: [root]}\npermissions: {allow: [run_background_job, handoff]}\n",
    );
    let mut terminal = chat(&home, &provider, &[]);
    terminal
        .prompt()
        .say(&format!("start {LASTING}"))
        .see("Started: ");
    let job = process(&home);
    terminal.prompt().say("pass on").see("I continue.").prompt();
    terminal.say("hello").see("I was told: hello").prompt();
    assert!(runs(&job));
    terminal.leave();
    assert!(!runs(&job));
}

/// A scripted model that saves a note, and reads a token.
const NOTE_TAKER: &str = r#"
rules:
  - user: 'save (\S+)'
    tools: [save_note]
    steps:
      - tool_calls: [{name: save_note, arguments: {file: '{{1}}', text: it's a note}}]
      - text: 'It said: {{last_result}}'
  - user: 'token'
    tools: [read_token]
    steps:
      - tool_calls: [{name: read_token, arguments: {}}]
      - text: 'It said: {{last_result}}'
otherwise: {text: 'I was told: {{user}}'}
"#;

const NOTES: &str = r#"agents:
  root:
    model: openai/gpt-4o
    toolsets:
      - type: script
        shell:
          save_note: {cmd: 'printf %s "$text" > "$file"', args: {file: {type: string}, text: {type: string}}}
          read_token: {cmd: 'echo "$API_TOKEN"', env: {API_TOKEN: '${env.MY_TOKEN:-none}'}}
permissions:
  allow: [save_note, read_token]
  deny: ['save_note:path=private/*', 'save_note:command=rm *']
"#;

#[test]
fn arguments_of_a_script_are_judged_like_a_command() {
    let (home, provider) = (Home::new(), Provider::scripted(NOTE_TAKER));
    home.write("agent.yaml", NOTES);
    home.write(".git/hooks/x", "");
    home.write("private/x", "");
    for (file, is_written) in [
        ("note.txt", true),
        (".git/hooks/post-checkout", false),
        ("private/note.txt", false),
    ] {
        for approval in ["-q", "--yes"] {
            let ran = home
                .ask(
                    &provider,
                    &["agent.yaml", approval],
                    &format!("save {file}"),
                )
                .ok();
            assert_eq!(home.join(file).exists(), is_written, "{file}: {ran}");
        }
    }
    let note = std::fs::read_to_string(home.join("note.txt")).unwrap();
    assert_eq!(note, "it's a note");
}

#[test]
fn credentials_of_a_script_are_masked() {
    let (home, provider) = (Home::new(), Provider::scripted(NOTE_TAKER));
    home.write("agent.yaml", NOTES);
    let ran = home
        .ask_with(&provider, &["agent.yaml"], b"token", |command| {
            command.env("MY_TOKEN", "secret-of-the-user-1234");
        })
        .ok();
    assert!(ran.stdout.contains("It said: "), "{ran}");
    for request in provider.received() {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        assert!(!body.contains("secret-of-the-user"), "{body}");
    }
}

#[test]
fn rules_for_the_shell_hold_for_jobs() {
    let (home, provider) = with_toolset(
        "{type: background_jobs}",
        "permissions: {allow: ['shell:cmd=touch *'], deny: ['shell:command=rm *']}\n",
    );
    let ran = home
        .ask(&provider, &["agent.yaml"], "start touch made")
        .ok();
    assert!(
        ran.stdout.starts_with("Started: The background job"),
        "{ran}"
    );
    let ran = home
        .ask(
            &provider,
            &["agent.yaml", "--yes"],
            "start true; rm -rf made",
        )
        .ok();
    assert!(
        ran.stdout
            .contains("denied by the rule `shell:command=rm *`"),
        "{ran}"
    );
    let ran = home.ask(&provider, &["agent.yaml"], "start sleep 1").ok();
    assert!(
        ran.stdout.contains("no user is present to approve it"),
        "{ran}"
    );
}

#[test]
fn nothing_is_served_from_the_cache_while_a_job_runs() {
    let (home, provider) = with_toolset(
        "{type: filesystem}, {type: background_jobs}",
        "tools: {cacheToolResults: true}\n",
    );
    home.write("a.txt", "one\n");
    let ran = home.ask(&provider, &["agent.yaml", "--yes"], "cache").ok();
    assert!(ran.stdout.contains("two"), "{ran}");
    let calls = ran
        .stderr
        .lines()
        .filter(|line| line.starts_with("  read_file"));
    let how: Vec<&str> = calls
        .map(|line| if line.contains(" hit ") { "hit" } else { "ran" })
        .collect();
    assert_eq!(how, ["ran", "hit", "ran", "ran", "hit"], "{ran}");
}

#[test]
fn session_tools_cannot_be_steps_of_a_workflow() {
    let home = Home::new();
    home.write(
        "flow.yaml",
        "nodes:\n  - {name: one, uses: tool.think, with: {thought: x}}\n",
    );
    let ran = home.run(&["validate", "flow.yaml"]).fails(2);
    assert!(ran.stderr.contains("unknown-action"), "{ran}");
}
