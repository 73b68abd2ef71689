//! The sandbox of a chat on a terminal: the offer, commands that fail in it, and `/rewind`; and the user's settings.
#![cfg(target_os = "linux")]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL};
use crate::sandbox::has_namespaces;
use crate::support::{Home, wait_until};
use crate::terminal::{CTRL_C, Terminal};

/// The user's settings.
const SETTINGS: &str = ".config/cachalot/sandbox.yaml";

/// A chat in a workspace that is not the home of the user.
struct Chats {
    home: Home,
    provider: Provider,
}

impl Chats {
    /// `None`, with a notice, on a machine without user namespaces.
    fn new() -> Option<Self> {
        let chats = Self {
            home: Home::new(),
            provider: Provider::scripted(SCRIPTED_MODEL),
        };
        chats.home.write("agent.yaml", SHELL);
        std::fs::create_dir(chats.home.join("work")).unwrap();
        has_namespaces().then_some(chats)
    }

    fn begin(&self, workspace: &str, flags: &[&str]) -> Terminal {
        // Without the flag that the fixture adds.
        let mut command = self.home.command(&[]);
        let chat = ["chat", "agent.yaml", "--workspace", workspace];
        command.args(chat).args(flags);
        self.provider.known_to(&mut command);
        Terminal::start(&mut command)
    }
}

#[test]
fn the_sandbox_is_offered_once_per_workspace() {
    let Some(chats) = Chats::new() else {
        return;
    };
    let mut terminal = chats.begin("work", &[]);
    terminal
        .see("Commands can run in a sandbox")
        .see("[y] yes, always in this workspace")
        .answer("y")
        .see("saved in ");
    terminal.see("sandbox, no questions").prompt();
    terminal
        .say("run touch made ../outside")
        .see("Read-only")
        .see("allow it?")
        .answer("n")
        .see("It said: ");
    terminal.prompt().leave();
    assert!(chats.home.join("work/made").exists());
    assert!(!chats.home.join("outside").exists());
    let saved = std::fs::read_to_string(chats.home.join(SETTINGS)).unwrap();
    let work = chats.home.join("work").canonicalize().unwrap();
    assert!(
        saved.contains(&format!("  \"{}\": auto\n", work.display())),
        "{saved}"
    );
    let mut terminal = chats.begin("work", &[]);
    let text = terminal.see("sandbox, no questions").prompt().leave();
    assert!(!text.contains("Commands can run"), "{text}");
    // Another workspace.
    std::fs::create_dir(chats.home.join("other")).unwrap();
    let mut terminal = chats.begin("other", &[]);
    terminal.see("Commands can run in a sandbox").answer("n");
    terminal.see("saved in ").prompt();
    terminal
        .say("run touch asked")
        .see("  without a sandbox")
        .see("allow it?")
        .answer("y")
        .see("It said: ");
    terminal.prompt().leave();
    assert!(chats.home.join("other/asked").exists());
}

#[test]
fn an_interrupt_ends_a_command_that_is_repeated_outside() {
    let Some(chats) = Chats::new() else {
        return;
    };
    let mut terminal = chats.begin("work", &["--sandbox=auto"]);
    terminal
        .prompt()
        .say("run echo $$ > ../outside && exec sleep 300");
    terminal
        .see("  without a sandbox")
        .see("allow it?")
        .answer("y");
    let file = chats.home.join("outside");
    let id = || std::fs::read_to_string(&file).unwrap_or_default();
    wait_until(|| id().ends_with('\n'));
    let process = Path::new("/proc").join(id().trim());
    assert!(process.exists(), "{}", terminal.text());
    terminal.press(CTRL_C).prompt();
    wait_until(|| !process.exists());
    terminal.leave();
}

#[test]
fn a_command_that_fails_in_the_sandbox_is_repeated_outside_after_an_approval() {
    let Some(chats) = Chats::new() else {
        return;
    };
    let mut terminal = chats.begin("work", &["--sandbox=auto"]);
    terminal.prompt().say("run touch ../outside && echo done");
    terminal
        .see("  without a sandbox")
        .see("asked because it failed in the sandbox (`touch: ")
        .see("Read-only")
        .see("allow it?");
    assert!(!chats.home.join("outside").exists());
    terminal
        .answer("y")
        .see("It said: [in the sandbox, it failed with: touch: ")
        .see("the user had it repeated outside]")
        .see("done");
    assert!(chats.home.join("outside").exists());
    // A failure of its own is no reason.
    terminal
        .prompt()
        .say("run echo bad; exit 7")
        .see("exit status 7");
    let text = terminal.prompt().leave();
    assert_eq!(text.matches("  allowed once").count(), 1, "{text}");
}

#[test]
fn nothing_leaves_the_sandbox_with_yes() {
    let Some(chats) = Chats::new() else {
        return;
    };
    let arguments = ["agent.yaml", "--workspace", "work", "--yes"];
    let ran = chats
        .home
        .ask(&chats.provider, &arguments, "run touch ../outside")
        .ok();
    assert!(ran.stdout.contains("It was not repeated outside"), "{ran}");
    assert!(!chats.home.join("outside").exists());
}

fn read(home: &Home, path: &str) -> String {
    std::fs::read_to_string(home.join(path)).unwrap()
}

#[test]
fn rewind_brings_back_what_a_command_changed() {
    let Some(chats) = Chats::new() else {
        return;
    };
    chats.home.write("work/notes", "first");
    let mut terminal = chats.begin("work", &["--sandbox=auto"]);
    terminal
        .prompt()
        .say("/rewind")
        .see("there is no turn to take back here");
    terminal
        .prompt()
        .say("run echo second > notes; rm -f other")
        .see("It said: ");
    assert_eq!(read(&chats.home, "work/notes"), "second\n");
    terminal
        .prompt()
        .say("/rewind")
        .see("taken back: \"run echo second")
        .see("brought back: notes");
    assert_eq!(read(&chats.home, "work/notes"), "first");
    // The user edits files after the turn.
    chats.home.write("work/mine", "first");
    terminal
        .prompt()
        .say("run echo second > notes")
        .see("It said: ");
    terminal.prompt();
    chats.home.write("work/mine", "edited");
    chats.home.write("work/notes", "edited");
    terminal
        .say("/rewind")
        .see("not brought back: `notes`: it was changed by something else since")
        .see("what commands changed in files that git could bring back stays");
    for file in ["work/mine", "work/notes"] {
        assert_eq!(read(&chats.home, file), "edited");
    }
    chats.home.write("work/notes", "first");
    // Too large to be copied.
    let large = std::fs::File::create(chats.home.join("work/large")).unwrap();
    large.set_len(64 << 20).unwrap();
    terminal
        .prompt()
        .say("run echo third > notes")
        .see("`/rewind` could not bring back: large cannot be copied")
        .see("allow it?")
        .answer("n")
        .see("It said: ");
    terminal.prompt().leave();
    assert_eq!(read(&chats.home, "work/notes"), "first");
}

/// A server on an address of this machine that answers each request with its first line.
fn echo(address: &str) -> u16 {
    let listener = TcpListener::bind((address, 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n")
                && stream.read(&mut byte).is_ok_and(|read| read > 0)
            {
                request.push(byte[0]);
            }
            let request = String::from_utf8(request).unwrap();
            let host = request
                .lines()
                .find(|line| line.to_lowercase().starts_with("host:"));
            let body = format!(
                "[{} {}]",
                request.lines().next().unwrap(),
                host.unwrap_or_default()
            );
            let _ = write!(
                stream,
                "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
                body.len()
            );
        }
    });
    port
}

/// Programs reach the hosts that the user lists, and no others. The addresses are all of this machine, but not those that
/// programs connect to without a proxy.
#[test]
fn programs_reach_only_the_hosts_that_the_user_lists() {
    let Some(chats) = Chats::new() else {
        return;
    };
    let (port, other) = (echo("127.0.0.2"), echo("127.0.0.3"));
    chats.home.write(
        "work/get.py",
        r#"import http.client, sys, urllib.request
for url in sys.argv[1:]:
    try:
        print(urllib.request.urlopen(url).read().decode())
    except Exception as error:
        print("failed:", error, getattr(error, "fp", None) and error.fp.read().decode())
    host, port = url.split("/")[2].split(":")
    tunnel = http.client.HTTPConnection("127.0.0.1", 3128)
    tunnel.set_tunnel(host, int(port))
    try:
        tunnel.request("GET", "/tunnel")
        print(tunnel.getresponse().read().decode())
    except OSError as error:
        print("failed:", error)
"#,
    );
    let get = |flags: &[&str]| {
        let line =
            format!("run python3 get.py http://127.0.0.2:{port}/a?b http://127.0.0.3:{other}/a");
        let arguments = ["agent.yaml", "--workspace", "work", "--yes"];
        let arguments = [&arguments[..], flags].concat();
        chats
            .home
            .ask(&chats.provider, &arguments, &line)
            .ok()
            .stdout
    };
    let none = get(&[]);
    assert!(!none.contains("[GET"), "{none}");
    for settings in ["", "network: [127.0.0.2]\n"] {
        chats.home.write(SETTINGS, settings);
        let flags = ["--sandbox-network=crates.io,127.0.0.2"];
        let printed = get(if settings.is_empty() { &flags } else { &[] });
        let host = format!("127.0.0.2:{port}");
        assert!(
            printed.contains(&format!("[GET /a?b HTTP/1.1 host: {host}]")),
            "{printed}"
        );
        assert!(
            printed.contains(&format!("[GET /tunnel HTTP/1.1 Host: {host}]")),
            "{printed}"
        );
        assert!(
            printed.contains("the sandbox does not permit to connect to 127.0.0.3"),
            "{printed}"
        );
        assert_eq!(printed.matches("[GET").count(), 2, "{printed}");
    }
}

#[test]
fn settings_of_the_user_hold_for_all_chats_and_runs() {
    let Some(chats) = Chats::new() else {
        return;
    };
    let home = &chats.home;
    std::fs::create_dir(home.join("cache")).unwrap();
    home.write(SETTINGS, "commands: auto\nwrite: [~/cache, ~/none]\n");
    let ask = |question: &str| {
        let mut command = home.command(&[]);
        command.args(["chat", "agent.yaml", "--workspace", "work", "-p", question]);
        chats.provider.known_to(&mut command);
        home.answer(command, b"", |_| {})
    };
    let ran = ask("run touch made ../cache/made; touch ../outside").ok();
    assert!(home.join("work/made").exists(), "{ran}");
    assert!(home.join("cache/made").exists(), "{ran}");
    assert!(!home.join("outside").exists(), "{ran}");
    let work = home.join("work").canonicalize().unwrap();
    home.write(
        SETTINGS,
        format!("commands: auto\nworkspaces:\n  {}: ask\n", work.display()),
    );
    let ran = ask("run touch other").ok();
    assert!(
        ran.stdout.contains("no user is present to approve it"),
        "{ran}"
    );
    for (settings, expected) in [
        ("comands: auto\n", "did you mean `commands`"),
        ("commands: sometimes\n", "`commands` cannot be `sometimes`"),
        ("write: [cache]\n", "is no absolute path"),
        (
            "network: [http://crates.io]\n",
            "neither a host name nor a network",
        ),
        ("network: 5\n", "must be a list"),
    ] {
        home.write(SETTINGS, settings);
        let ran = ask("run touch other").fails(2);
        assert!(ran.unwrapped().contains(expected), "{settings}: {ran}");
        assert!(ran.stderr.contains("sandbox.yaml"), "{ran}");
    }
    assert!(!home.join("work/other").exists());
}

/// A server that says what it could do: write outside of the workspace, and read a denied file.
const SERVER: &str = r#"
import json, sys
def could(action):
    try:
        action()
        return "yes"
    except OSError:
        return "no"
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    result = {}
    if method == "initialize":
        result = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}},
                  "serverInfo": {"name": "doer", "version": "1"}}
    elif method == "tools/list":
        tool = {"name": "do", "description": "Does it.", "inputSchema": {"type": "object", "properties": {}}}
        result = {"tools": [tool]}
    elif method == "tools/call":
        open("calls", "a").write("x")
        done = [could(lambda: open("../of-a-server", "w")), could(lambda: open(".env").read())]
        result = {"content": [{"type": "text", "text": "outside: %s, denied: %s" % tuple(done)}]}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"#;

#[test]
fn servers_of_mcp_run_in_the_sandbox_if_the_user_says_so() {
    let Some(chats) = Chats::new() else {
        return;
    };
    let home = &chats.home;
    let provider = Provider::scripted(
        "rules:\n  - user: 'Go'\n    steps:\n      - tool_calls: [{name: mcp_doer_do, arguments: {}}]\n      - text: 'It said: {{last_result}}'\n",
    );
    home.write("work/server.py", SERVER);
    home.write("work/.env", "TOKEN=abc123");
    home.write(
        "team.yaml",
        "agents: {root: {model: openai/gpt-4o, toolsets: [{type: mcp, ref: doer}]}}
mcps: {doer: {command: python3, args: [server.py], trust: {read_only: [do], ttl: 1h}}}
tools: {cacheToolResults: true, cacheToolResultsScope: workspace}
permissions: {allow: ['mcp_doer_do'], deny: ['shell:path=**/.env']}
",
    );
    // What was stored in the sandbox answers no call outside of it.
    for (settings, expected, calls) in [
        ("mcp_servers: true\n", "outside: no, denied: no", 1),
        ("", "outside: yes, denied: yes", 2),
        ("mcp_servers: true\n", "outside: no, denied: no", 2),
    ] {
        home.write(SETTINGS, settings);
        let arguments = ["team.yaml", "--workspace", "work"];
        let ran = home.ask(&provider, &arguments, "Go.").ok();
        assert!(ran.stdout.contains(expected), "{settings}: {ran}");
        let called = std::fs::read(home.join("work/calls")).unwrap();
        assert_eq!(called.len(), calls, "{settings}: {ran}");
    }
}

/// A hooks file whose commands note what they can do, and read the transcript.
const HOOKS_FILE: &str = r#"{"hooks": {
  "SessionStart": [{"hooks": [{"type": "command", "command": "sh start.sh"}]}],
  "UserPromptSubmit": [{"hooks": [{"type": "command", "command": "sh note.sh"}]}]
}}"#;
const START: &str = "echo \"export OUTSIDE=$(touch ../outside 2>/dev/null && echo yes || echo no)\" >> $CLAUDE_ENV_FILE\n";
const NOTE: &str = r#"cat .env >/dev/null 2>&1 && denied=yes || denied=no
transcript=$(sed 's/.*"transcript_path":"\([^"]*\)".*/\1/')
test -r "$transcript" && transcript=yes
echo "outside: $OUTSIDE, denied: $denied, transcript: $transcript, ${TMPDIR:+own}" > seen
"#;

#[test]
fn commands_of_hooks_run_in_the_sandbox_if_the_user_says_so() {
    let Some(chats) = Chats::new() else {
        return;
    };
    let home = &chats.home;
    home.write("work/.env", "TOKEN=abc123");
    home.write("hooks.json", HOOKS_FILE);
    home.write("work/start.sh", START);
    home.write("work/note.sh", NOTE);
    home.write(
        "team.yaml",
        "agents: {root: {model: openai/gpt-4o}}\npermissions: {deny: ['shell:path=**/.env']}\n",
    );
    for (settings, expected) in [
        (
            "hooks: true\n",
            "outside: no, denied: no, transcript: yes, own\n",
        ),
        ("", "outside: yes, denied: yes, transcript: yes, \n"),
    ] {
        home.write(SETTINGS, settings);
        let arguments = ["team.yaml", "--workspace", "work", "--hooks", "hooks.json"];
        let ran = home.ask(&chats.provider, &arguments, "Go.").ok();
        let seen = std::fs::read_to_string(home.join("work/seen")).unwrap();
        assert_eq!(seen, expected, "{settings}: {ran}");
    }
}

#[test]
fn programs_that_answer_in_place_of_a_model_run_in_the_sandbox_of_a_run() {
    let Some(chats) = Chats::new() else {
        return;
    };
    let home = &chats.home;
    home.write(
        "work/ask.sh",
        "touch ../outside 2>/dev/null; cat \"$1\"; echo \" in $TMPDIR\"\n",
    );
    home.write(
        "work/agent.yaml",
        "name: x
settings:
  llm:
    shell_providers:
      reader: {command: sh, args: [ask.sh, '{input_file}'], stdin_mode: file}
nodes:
  - name: a
    uses: llm.call
    with: {provider: shell, shell_provider: reader, prompt: 'hello there'}
",
    );
    let mut command = home.command(&["run", "agent.yaml", "--sandbox"]);
    command.current_dir(home.join("work"));
    let ran = crate::support::CommandOutput::from(command.output().unwrap()).ok();
    assert!(ran.stdout.contains("hello there in /"), "{ran}");
    assert!(!home.join("outside").exists(), "{ran}");
}
