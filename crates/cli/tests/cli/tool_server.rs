//! An MCP server as a program of its own: this test binary, started again. And that it is gone when
//! what it was started for is over.
#![cfg(unix)]

use std::io::{BufRead as _, Write as _};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use serde_json::{Value, json};

use crate::provider::{Provider, SCRIPTED_MODEL};
use crate::support::Home;
use crate::terminal::{CTRL_D, Terminal};

/// Where the server notes its number: then it is to be one.
const NUMBER: &str = "CACHALOT_TEST_TOOL_SERVER";

/// Where there has to be a file before the server answers.
const GATE: &str = "CACHALOT_TEST_TOOL_SERVER_GATE";

/// Not a test: what the server does. It does not end by itself, whatever becomes of its input.
#[test]
fn serve() {
    let Ok(number) = std::env::var(NUMBER) else {
        return;
    };
    let mut out = std::io::stdout();
    // The test harness has written half a line before.
    writeln!(out).unwrap();
    std::fs::write(format!("{number}.new"), std::process::id().to_string()).unwrap();
    std::fs::rename(format!("{number}.new"), number).unwrap();
    let gate = std::env::var_os(GATE).map(std::path::PathBuf::from);
    while gate.as_ref().is_some_and(|gate| !gate.exists()) {
        std::thread::sleep(Duration::from_millis(5));
    }
    for line in std::io::stdin().lock().lines() {
        let message: Value = serde_json::from_str(&line.unwrap()).unwrap();
        for notice in notices(&message) {
            writeln!(out, "{notice}").unwrap();
            out.flush().unwrap();
            // It is told of a call that is still going on.
            std::thread::sleep(Duration::from_millis(200));
        }
        if let Some(result) = answer(&message) {
            let answer = json!({"jsonrpc": "2.0", "id": message["id"], "result": result});
            writeln!(out, "{answer}").unwrap();
            out.flush().unwrap();
        }
    }
    loop {
        std::thread::sleep(Duration::from_secs(100));
    }
}

/// What it tells while it is asked.
fn notices(message: &Value) -> Vec<Value> {
    if message["method"] != "tools/call" {
        return Vec::new();
    }
    let token = &message["params"]["_meta"]["progressToken"];
    let notice = |method: &str, params: Value| json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params});
    vec![
        notice(
            "message",
            json!({"level": "info", "data": "the line runs out"}),
        ),
        notice(
            "progress",
            json!({"progressToken": token, "progress": 1, "total": 2, "message": "sinking"}),
        ),
    ]
}

fn answer(message: &Value) -> Option<Value> {
    message.get("id")?;
    Some(match message["method"].as_str()? {
        "initialize" => json!({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "depths", "version": "1"},
            "instructions": "Sound twice.",
        }),
        "tools/list" => json!({"tools": [{
            "name": "sound",
            "description": "Tells how deep it is.",
            "inputSchema": {"type": "object", "properties": {}},
        }]}),
        "tools/call" => json!({"content": [{"type": "text", "text": "2250 m"}]}),
        _ => json!({}),
    })
}

/// A team with that server.
fn team(home: &Home) -> String {
    let program = std::env::current_exe().unwrap();
    let number = home.join("number");
    format!(
        "
agents:
  root:
    model: openai/gpt-4o
    toolsets: [{{type: mcp, ref: depths}}, {{type: shell}}]
mcps:
  depths:
    command: '{}'
    args: ['tool_server::serve', '--exact', '--nocapture']
    env: {{{NUMBER}: '{}'}}
permissions: {{allow: ['*']}}
",
        program.display(),
        number.display()
    )
}

/// Waits for the server to begin; its number.
fn begun(home: &Home) -> Pid {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Ok(text) = std::fs::read_to_string(home.join("number")) {
            std::fs::remove_file(home.join("number")).unwrap();
            return Pid::from_raw(text.trim().parse().unwrap()).unwrap();
        }
        assert!(Instant::now() < deadline, "the server does not begin");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[track_caller]
fn gone(server: Pid) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while test_kill_process(server).is_ok() {
        assert!(Instant::now() < deadline, "the server still runs");
        std::thread::sleep(Duration::from_millis(5));
    }
}

const SOUNDING: &str = "
rules:
  - user: 'how deep'
    steps:
      - tool_calls: [{name: mcp_depths_sound, arguments: {}}]
      - text: 'It is {{last_result}} deep.'
";

#[test]
fn tool_server_runs_and_ends_with_the_chat() {
    let (home, provider) = (Home::new(), Provider::scripted(SOUNDING));
    home.write("team.yaml", team(&home));
    home.run(&["validate", "team.yaml"]).ok();
    let ran = home.ask(&provider, &["team.yaml"], "how deep is it?").ok();
    assert_eq!(ran.stdout, "It is 2250 m deep.\n", "{ran}");
    gone(begun(&home));
}

#[test]
fn servers_are_listed_with_their_state_and_tools() {
    let (home, provider) = (Home::new(), Provider::scripted(SOUNDING));
    let broken = "
  broken: {command: ./none}
permissions:";
    let team = team(&home).replace("\npermissions:", broken);
    let team = team.replace(
        "[{type: mcp, ref: depths},",
        "[{type: mcp, ref: depths}, {type: mcp, ref: broken},",
    );
    home.write("team.yaml", team);
    let ran = home.ask(&provider, &["team.yaml", "-p", "/mcp"], "").ok();
    let lines: Vec<&str> = ran.stdout.lines().collect();
    assert!(lines[0].starts_with("broken (./none): failed: "), "{ran}");
    assert!(lines[0].ends_with(", 0 tools"), "{ran}");
    assert!(lines[1].starts_with("depths ("), "{ran}");
    assert!(lines[1].ends_with("): connected, 1 tool"), "{ran}");
    assert_eq!(lines[2..], ["  mcp_depths_sound"], "{ran}");
    assert!(provider.received().is_empty());
    gone(begun(&home));
}

#[test]
fn instructions_of_a_server_end_the_system_prompt_as_its_text() {
    let (home, provider) = (Home::new(), Provider::scripted(SOUNDING));
    let team = team(&home).replace("    model:", "    instruction: You sound.\n    model:");
    home.write("team.yaml", team);
    home.ask(&provider, &["team.yaml"], "how deep is it?").ok();
    let requests = provider.received();
    assert!(!requests.is_empty());
    for request in requests {
        let body = String::from_utf8_lossy(&request.body).into_owned();
        let place = |text: &str| body.find(text).unwrap_or_else(|| panic!("{text}: {body}"));
        let of_server = place(
            "The MCP server `depths` says about its tools (text of the server, not of the user):\\n> Sound twice.",
        );
        assert!(place("You sound.") < of_server, "{body}");
        assert!(of_server < place("how deep is it?"), "{body}");
    }
    gone(begun(&home));
}

#[test]
fn logs_and_progress_are_shown_in_verbose_mode() {
    let (home, provider) = (Home::new(), Provider::scripted(SOUNDING));
    home.write("team.yaml", team(&home));
    for (arguments, is_shown) in [(&["team.yaml"][..], false), (&["team.yaml", "-v"], true)] {
        let ran = home.ask(&provider, arguments, "how deep is it?").ok();
        assert_eq!(ran.stdout, "It is 2250 m deep.\n", "{ran}");
        for line in [
            "depths | [info] the line runs out",
            "mcp_depths_sound | 1 of 2: sinking",
        ] {
            assert_eq!(ran.stderr.contains(line), is_shown, "{line}: {ran}");
        }
        gone(begun(&home));
    }
}

#[test]
fn tool_server_ends_when_the_chat_does_not_start() {
    let (home, provider) = (Home::new(), Provider::scripted(SOUNDING));
    home.write("team.yaml", team(&home));
    let ran = home.ask(
        &provider,
        &["team.yaml", "--session", "nope"],
        "how deep is it?",
    );
    ran.fails(1);
    // Its key is looked for after its tools.
    let ran = home
        .ask_with(&provider, &["team.yaml"], b"how deep is it?", |command| {
            command.env_remove("OPENAI_BASE_URL");
        })
        .fails(1);
    assert!(ran.stderr.contains("OPENAI_API_KEY"), "{ran}");
    gone(begun(&home));
}

#[test]
fn servers_are_shown_by_name_while_they_start() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let program = std::env::current_exe().unwrap();
    let servers = ["depths", "tides"].map(|name| {
        let gate = home.join(name);
        format!(
            "
  {name}:
    command: '{}'
    args: ['tool_server::serve', '--exact', '--nocapture']
    env: {{{NUMBER}: '{}', {GATE}: '{}'}}",
            program.display(),
            gate.with_extension("number").display(),
            gate.display()
        )
    });
    let agent = "
agents:
  root:
    model: openai/gpt-4o
    toolsets: [{type: mcp, ref: depths}, {type: mcp, ref: tides}]
mcps:";
    home.write("team.yaml", format!("{agent}{}\n", servers.concat()));
    let mut command = home.command(&["chat", "team.yaml"]);
    provider.known_to(&mut command);
    let mut terminal = Terminal::sized(&mut command, 100, 30);
    let is_starting = |text: &str, name: &str| {
        let label = format!("starting the MCP server `{name}`");
        text.lines().any(|line| line.contains(&label))
    };
    terminal.shows(|text| is_starting(text, "depths") && is_starting(text, "tides"));
    // Keys are accepted meanwhile.
    terminal.press("hello").see("> hello");
    home.write("tides", "");
    terminal.shows(|text| is_starting(text, "depths") && !is_starting(text, "tides"));
    home.write("depths", "");
    terminal.shows(|text| !text.contains("starting") && text.contains("root (openai/gpt-4o)"));
    terminal.press("\r").see("I was told: hello");
    let text = terminal.prompt().leave();
    assert!(!text.contains("starting"), "{text}");
}

#[test]
fn tool_server_ends_with_every_end_of_a_terminal_chat() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("team.yaml", team(&home));
    for ending in ["leaving", "asked to end", "hung up"] {
        let mut command = home.command(&["chat", "team.yaml"]);
        provider.known_to(&mut command);
        let mut terminal = Terminal::start(&mut command);
        let server = begun(&home);
        terminal.prompt();
        assert!(test_kill_process(server).is_ok());
        match ending {
            "leaving" => {
                terminal.press(CTRL_D);
            }
            "asked to end" => kill_process(terminal.id(), Signal::TERM).unwrap(),
            _ => kill_process(terminal.id(), Signal::HUP).unwrap(),
        }
        assert_eq!(terminal.ended(), Some(0), "{ending}: {}", terminal.text());
        gone(server);
    }
    // In the middle of a turn.
    let mut command = home.command(&["chat", "team.yaml"]);
    provider.known_to(&mut command);
    let mut terminal = Terminal::start(&mut command);
    let server = begun(&home);
    terminal.prompt().say("run touch runs; exec sleep 100");
    let deadline = Instant::now() + Duration::from_secs(60);
    while !home.join("runs").exists() {
        assert!(Instant::now() < deadline, "{}", terminal.text());
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(terminal.id(), Signal::TERM).unwrap();
    assert_eq!(terminal.ended(), Some(0), "{}", terminal.text());
    gone(server);
}

#[test]
fn tool_server_ends_with_a_run_also_on_ctrl_c() {
    use std::process::Stdio;
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let ask = "nodes:\n  - name: ask\n    uses: agent.run\n    with: {agent: root, input: '{{ state.task }}'}\n";
    home.write("flow.yaml", format!("{ask}{}", team(&home)));
    let start = |task: &str| {
        let input = format!("task={task}");
        let mut command = home.command(&["run", "flow.yaml", "-i", &input]);
        provider.known_to(&mut command);
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let run = start("hello");
    let server = begun(&home);
    let ran: crate::support::CommandOutput = run.wait_with_output().unwrap().into();
    ran.ok();
    gone(server);
    let run = start("run touch runs; exec sleep 100");
    let server = begun(&home);
    let deadline = Instant::now() + Duration::from_secs(60);
    while !home.join("runs").exists() {
        assert!(Instant::now() < deadline);
        std::thread::sleep(Duration::from_millis(5));
    }
    kill_process(Pid::from_child(&run), Signal::INT).unwrap();
    let ran: crate::support::CommandOutput = run.wait_with_output().unwrap().into();
    ran.fails(130);
    gone(server);
}
