//! `cachalot exec`: commands behind a gateway of their own, with a simulator as the provider.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::program_file::make_executable;
use crate::provider::Provider;
use crate::support::{CommandOutput, Home};
use crate::terminal::{CTRL_C, CTRL_Z, Terminal};

/// Variable with the requests of [`client`]: a JSON list of bodies, each with the path in its member `_path`.
const REQUESTS: &str = "EXEC_TEST_REQUESTS";

/// The command of most tests: sends requests as a client does whose base URL is in the environment, and prints the status
/// and the body of each response. It does nothing as a test.
#[test]
fn client() {
    let Ok(requests) = std::env::var(REQUESTS) else {
        return;
    };
    let base = std::env::var("OPENAI_BASE_URL").unwrap();
    let (address, root) = base
        .strip_prefix("http://")
        .unwrap()
        .split_once('/')
        .unwrap();
    let requests: Vec<Value> = serde_json::from_str(&requests).unwrap();
    let key = std::env::var("OPENAI_API_KEY").unwrap_or_default();
    for mut body in requests {
        let path = body.as_object_mut().unwrap().remove("_path");
        let path = path.as_ref().and_then(Value::as_str);
        let path = path.unwrap_or("/chat/completions");
        let body = body.to_string();
        let mut stream = TcpStream::connect(address).unwrap();
        write!(
            stream,
            "POST /{root}{path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        let (status, body) = (&head[9..12], body.replace('\n', " "));
        writeln!(std::io::stdout(), "\nRESPONSE {status} {body}").unwrap();
    }
    // Answers that are stored after they were sent are stored by the end of the gateway.
}

/// A request whose answer is repeatable.
fn repeatable(text: &str) -> Value {
    json!({"model": "gpt-4o-mini", "temperature": 0, "messages": [{"role": "user", "content": text}]})
}

/// A request whose answer is sampled.
fn sampled(text: &str) -> Value {
    json!({"model": "gpt-4o-mini", "messages": [{"role": "user", "content": text}]})
}

/// `cachalot exec OPTIONS -- client`, which sends these requests.
fn asking(home: &Home, options: &[&str], requests: &[Value]) -> Command {
    let program = std::env::current_exe().unwrap();
    let command = [
        "--",
        program.to_str().unwrap(),
        "exec::client",
        "--exact",
        "--nocapture",
    ];
    let mut command = home.command(&[&["exec"], options, &command].concat());
    command.env(REQUESTS, json!(requests).to_string());
    command
}

fn ask(home: &Home, provider: &Provider, options: &[&str], requests: &[Value]) -> CommandOutput {
    let mut command = asking(home, options, requests);
    provider.known_to(&mut command);
    command.env("OPENAI_API_KEY", "own");
    command.output().unwrap().into()
}

/// The responses that the client has printed.
fn responses(ran: &CommandOutput) -> Vec<&str> {
    let lines = ran.stdout.lines();
    lines
        .filter_map(|line| line.strip_prefix("RESPONSE "))
        .collect()
}

/// `cachalot exec -- sh -c SCRIPT`
fn shell(home: &Home, script: &str) -> CommandOutput {
    home.run(&["exec", "--", "sh", "-c", script])
}

#[test]
fn requests_go_through_the_gateway_and_are_on_the_bill() {
    let (home, provider) = (Home::new(), Provider::built_in().accepting_anything());
    let requests = [repeatable("hello"), sampled("hello")];
    let first = ask(&home, &provider, &[], &requests).ok();
    let bill = &first.stderr;
    assert!(
        bill.starts_with("cachalot: 2 requests, 0 answered from the cache; paid <$0.01, saved $0.00; provider cache: 0 / "),
        "{bill}"
    );
    assert!(
        bill.contains("\nopenai/gpt-4o-mini         2     0  <$0.01  $0.00 "),
        "{bill}"
    );
    assert!(bill.contains("\nasked for:\n"), "{bill}");
    assert!(bill.contains("  1  not in the cache\n"), "{bill}");
    let second = ask(&home, &provider, &[], &requests).ok();
    let bill = &second.stderr;
    assert!(
        bill.contains("2 requests, 1 answered from the cache; paid <$0.01, saved <$0.01"),
        "{bill}"
    );
    assert_eq!(responses(&first)[0], responses(&second)[0]);
    assert_eq!(provider.received().len(), 3);
    // Nothing is on standard output but what the command has written.
    assert!(!second.stdout.contains("cachalot:"), "{second}");
    let quiet = ask(&home, &provider, &["--quiet"], &requests).ok();
    assert_eq!(quiet.stderr, "");
}

#[test]
fn exit_code_is_that_of_the_command() {
    let home = Home::new();
    for (script, expected) in [("exit 0", 0), ("exit 7", 7)] {
        shell(&home, script).fails(expected);
    }
}

#[test]
fn signal_that_ends_the_command_ends_this_process() {
    let home = Home::new();
    for (name, expected) in [("TERM", libc::SIGTERM), ("KILL", libc::SIGKILL)] {
        let script = format!("kill -{name} $$");
        let mut command = home.command(&["exec", "--", "sh", "-c", &script]);
        let ran = command.output().unwrap();
        let bill = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.signal(), Some(expected), "{bill}");
        assert!(bill.starts_with("cachalot: 0 requests"), "{bill}");
    }
}

#[test]
fn command_that_cannot_be_started_is_explained() {
    let home = Home::new();
    home.write("plain.txt", "text");
    home.write("bin/whalesong", "#!/bin/sh\necho sings\n");
    make_executable(&home.join("bin/whalesong"));
    home.write("orphan", "#!/nowhere/interpreter\n");
    make_executable(&home.join("orphan"));
    let path = format!(
        "{}:{}",
        home.join("bin").display(),
        std::env::var("PATH").unwrap()
    );
    let run = |program: &str| -> CommandOutput {
        let mut command = home.command(&["exec", "--", program, "-x"]);
        command.env("PATH", &path).output().unwrap().into()
    };
    for (program, code, message) in [
        (
            "whalesnog",
            127,
            "there is no program `whalesnog`: did you mean `whalesong`?",
        ),
        ("./absent", 127, "there is no program `./absent`\n"),
        ("whalesong -v", 127, "separate words"),
        (
            "./plain.txt",
            126,
            "cannot run `./plain.txt`: Permission denied",
        ),
        ("./bin", 126, "cannot run `./bin`: it is a directory"),
        (
            "./orphan",
            126,
            "the interpreter that it names is not there",
        ),
    ] {
        let ran = run(program).fails(code);
        assert!(
            ran.stderr.starts_with("error: ") && ran.stderr.contains(message),
            "{ran}"
        );
        assert!(!ran.stderr.contains("requests"), "{ran}");
    }
    assert_eq!(run("whalesong").ok().stdout, "sings\n");
}

#[test]
fn wrong_arguments_are_refused_before_anything_runs() {
    let home = Home::new();
    for (arguments, expected) in [
        (
            &["--record", "a", "--replay", "b", "--", "true"][..],
            "cannot be used with",
        ),
        (&["--fresh", "--", "true"], "--record"),
        (
            &["--fresh", "--replay", "a", "--", "true"],
            "cannot be used with",
        ),
        (
            &["--upstream", "opnai=http://a.example", "--", "true"],
            "did you mean `openai`?",
        ),
        (&["--record", "", "--", "true"], "a name of up to 64"),
        (&["--record", "../a", "--", "true"], "a name of up to 64"),
        (&["--replay", "a/b", "--", "true"], "a name of up to 64"),
        (&["--replay", ".a", "--", "true"], "a name of up to 64"),
        (&["--agent", "codx", "--", "true"], "did you mean `codex`?"),
        (&["--agent", "whale", "--", "true"], "known clients: "),
        (&["--upstream", "openai", "--", "true"], "expected NAME=URL"),
        (&["true"], "-- <COMMAND>"),
        (&["--"], "COMMAND"),
        (&[], "COMMAND"),
    ] {
        let ran = home.run(&[&["exec"], arguments].concat()).fails(2);
        assert!(ran.unwrapped().contains(expected), "{arguments:?}: {ran}");
    }
    let mut command = home.command(&["exec", "--", "true"]);
    command.env("OPENAI_BASE_URL", "http://me:password@a.example");
    let ran = CommandOutput::from(command.output().unwrap()).fails(2);
    assert!(ran.stderr.contains("OPENAI_BASE_URL"), "{ran}");
    assert!(!ran.stderr.contains("password"), "{ran}");
}

#[test]
fn words_and_input_reach_the_command_as_they_are() {
    let home = Home::new();
    let words = [
        "a b",
        "\"",
        "it's",
        "",
        "$HOME",
        "-q",
        "--",
        "new\nline",
        "*",
    ];
    let script = r#"for word; do printf '<%s>' "$word"; done"#;
    let command = [&["exec", "--", "sh", "-c", script, "sh"][..], &words].concat();
    let ran = home.run(&command).ok();
    let expected: String = words.map(|word| format!("<{word}>")).concat();
    assert_eq!(ran.stdout, expected);
    let command = home.command(&["exec", "-q", "--", "cat"]);
    let ran = home.answer(command, b"some\0input", |_| {}).ok();
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("some\0input", "")
    );
}

#[test]
fn environment_leads_clients_to_the_gateway() {
    let home = Home::new();
    let script = r#"echo "$OPENAI_BASE_URL $OPENAI_API_BASE $ANTHROPIC_BASE_URL $ANTHROPIC_API_BASE $GOOGLE_GEMINI_BASE_URL $OTHER $OPENAI_API_KEY""#;
    let mut command = home.command(&["exec", "--", "sh", "-c", script]);
    let ran = CommandOutput::from(command.env("OTHER", "kept").output().unwrap()).ok();
    let urls: Vec<&str> = ran.stdout.split_whitespace().collect();
    let pattern = regex::Regex::new("^http://127.0.0.1:[0-9]+/x/[0-9a-f]{32}$").unwrap();
    let [
        openai,
        openai_base,
        anthropic,
        anthropic_base,
        gemini,
        other,
    ] = urls[..]
    else {
        panic!("{ran}");
    };
    assert!(pattern.is_match(anthropic), "{ran}");
    assert_eq!(
        (anthropic_base, gemini, other),
        (anthropic, anthropic, "kept")
    );
    let versioned = format!("{anthropic}/v1");
    assert_eq!((openai, openai_base), (&*versioned, &*versioned));
    // A command that asks for nothing.
    assert!(
        ran.stderr
            .starts_with("cachalot: 0 requests, 0 answered from the cache; paid $0.00"),
        "{ran}"
    );
    assert!(
        ran.unwrapped()
            .contains("`sh` is no known client: it got the variables OPENAI_BASE_URL, "),
        "{ran}"
    );
}

#[test]
fn options_of_a_client_are_inserted() {
    let home = Home::new();
    home.write("bin/codex", "#!/bin/sh\nprintf '<%s>' \"$@\"\n");
    make_executable(&home.join("bin/codex"));
    let program = home.join("bin/codex");
    let program = program.to_str().unwrap();
    let pattern = regex::Regex::new(
        r#"^<-c><openai_base_url="http://127.0.0.1:[0-9]+/x/[0-9a-f]{32}/v1"><exec><hi>$"#,
    );
    let ran = home.run(&["exec", "--", program, "exec", "hi"]).ok();
    let pattern = pattern.unwrap();
    assert!(pattern.is_match(&ran.stdout), "{ran}");
    assert!(!ran.stderr.contains("no known client"), "{ran}");
    let prefixed = ["exec", "--", "env", "A=1", program, "exec", "hi"];
    let ran = home.run(&prefixed).ok();
    assert!(pattern.is_match(&ran.stdout), "{ran}");
    let wrapper = [
        "exec",
        "--agent",
        "codex",
        "--",
        "sh",
        "-c",
        "exec \"$@\"",
        "sh",
        program,
        "exec",
        "hi",
    ];
    let ran = home.run(&wrapper).ok();
    assert!(pattern.is_match(&ran.stdout), "{ran}");
    std::fs::rename(program, home.join("wrapper")).unwrap();
    let ran = home.run(&["exec", "--", "./wrapper", "exec", "hi"]).ok();
    assert_eq!(ran.stdout, "<exec><hi>");
}

#[test]
fn options_that_have_no_place_are_refused_before_anything_runs() {
    let home = Home::new();
    let script = "touch ran; codex exec hi";
    let of = |agent: &str| {
        let command = ["exec", "--agent", agent, "--", "sh", "-c", script];
        let ran = home.run(&command);
        assert!(!home.join("ran").exists(), "{ran}");
        ran.fails(2).unwrapped()
    };
    let refused = of("codex");
    for expected in [
        "inserted behind `codex`, which is no word of the command",
        "run `sh` without --agent",
        "-c openai_base_url=\"$OPENAI_BASE_URL\"",
    ] {
        assert!(refused.contains(expected), "{refused}");
    }
    // Its option names a file of this run.
    let refused = of("pi");
    assert!(!refused.contains("without --agent"), "{refused}");
    // Variables are sufficient for others, which may be named by their programs.
    let command = ["exec", "--agent", "gemini", "--", "sh", "-c", "exit 5"];
    home.run(&command).fails(5);
}

#[test]
fn files_of_a_client_exist_while_it_runs() {
    let home = Home::new();
    // Of pi, the option `-e FILE`.
    home.write(
        "pi",
        "#!/bin/sh\ncat \"$2\"; echo \"at $2\"; kill -TERM $PPID; exec sleep 100\n",
    );
    make_executable(&home.join("pi"));
    let ran = home.run(&["exec", "--", "./pi", "-p", "hi"]);
    assert_eq!(ran.code, None, "{ran}");
    let at = ran.stdout.lines().find_map(|line| line.strip_prefix("at "));
    let data = home.join("data/cachalot");
    assert!(at.unwrap().starts_with(data.to_str().unwrap()), "{ran}");
    assert!(
        ran.stdout
            .contains(r#"pi.registerProvider("openai", { baseUrl: "http://127.0.0.1:"#),
        "{ran}"
    );
    let left = std::fs::read_dir(data).unwrap();
    let mut left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(left.all(|name| !name.starts_with("exec-")));
}

#[test]
fn command_has_the_terminal() {
    let home = Home::new();
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size && ps -o pgid= -p $$ && ps -o pgid= -p $PPID";
    let mut command = home.command(&["exec", "--", "sh", "-c", script]);
    let mut terminal = Terminal::start(&mut command);
    terminal.see("40 100");
    assert_eq!(terminal.ended(), Some(0), "{}", terminal.text());
    let text = terminal.text();
    let groups: Vec<&str> = text.lines().skip(1).take(2).map(str::trim).collect();
    assert_eq!(groups[0], groups[1], "{text}");
    assert!(text.contains("cachalot: 0 requests"), "{text}");
}

#[test]
fn bill_fits_a_narrow_terminal() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let mut command = asking(&home, &[], &[repeatable("hello")]);
    provider.known_to(&mut command);
    let mut terminal = Terminal::sized(&mut command, 60, 40);
    assert_eq!(terminal.ended(), Some(0), "{}", terminal.text());
    let text = terminal.text();
    let bill = &text[text.find("cachalot: ").unwrap()..];
    assert!(
        bill.lines().all(|line| line.chars().count() <= 60),
        "{bill}"
    );
    assert!(
        bill.contains("openai/gpt-4o-mini") && !bill.contains("saved tokens"),
        "{bill}"
    );
}

#[test]
fn keys_of_the_terminal_are_for_the_command() {
    let home = Home::new();
    let script = "trap 'echo caught; exit 5' INT; echo ready; while :; do sleep 0.05; done";
    let mut command = home.command(&["exec", "--", "sh", "-c", script]);
    let mut terminal = Terminal::start(&mut command);
    terminal.see("ready").press(CTRL_C).see("caught");
    terminal.see("cachalot: 0 requests");
    assert_eq!(terminal.ended(), Some(5), "{}", terminal.text());
    let mut command = home.command(&["exec", "--", "sh", "-c", "echo ready; sleep 100"]);
    let mut terminal = Terminal::start(&mut command);
    terminal.see("ready");
    // A shell may ignore the key while it starts a program.
    while !terminal.text().contains("cachalot: 0 requests") {
        terminal.press(CTRL_C);
        std::thread::sleep(Duration::from_millis(100));
    }
    let status = terminal.end();
    assert_eq!(status.signal(), Some(libc::SIGINT), "{}", terminal.text());
}

#[test]
fn interrupts_for_this_process_alone_are_passed_on_if_it_has_no_keys() {
    let home = Home::new();
    let binary = env!("CARGO_BIN_EXE_cachalot");
    let command = "trap 'echo asked; exit 9' INT; echo ready; while :; do sleep 0.05; done";
    let script = format!(
        "set -m; '{binary}' exec -- sh -c \"{command}\" & read line; kill -INT $!; wait $!; echo \"code $?\""
    );
    let mut shell = Command::new("sh");
    shell
        .args(["-c", &script])
        .current_dir(home.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home.path());
    let mut terminal = Terminal::start(&mut shell);
    terminal.see("ready").say("").see("asked").see("code 9");
    terminal.ended();
}

/// An interactive shell that waits for a command.
fn interactive_shell(home: &Home) -> Terminal {
    let mut shell = Command::new("sh");
    shell
        .arg("-i")
        .current_dir(home.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", home.path())
        .env("PS1", "shell$ ");
    let mut terminal = Terminal::start(&mut shell);
    terminal.see("shell$ ");
    terminal
}

#[test]
fn command_is_a_job_of_the_shell() {
    let home = Home::new();
    let binary = env!("CARGO_BIN_EXE_cachalot");
    for how in ["a key", "by itself"] {
        let mut terminal = interactive_shell(&home);
        let stop = if how == "a key" {
            ""
        } else {
            "kill -STOP $$; "
        };
        terminal.say(&format!(
            "'{binary}' exec -- sh -c 'echo rea\"\"dy; {stop}read line; echo \"got $line\"'"
        ));
        terminal.see("ready");
        if how == "a key" {
            terminal.press(CTRL_Z);
        }
        terminal
            .see("shell$ ")
            .say("echo out\"\"side")
            .see("outside")
            .see("shell$ ");
        terminal
            .say("fg")
            .see("exec")
            .say("a line")
            .see("got a line")
            .see("cachalot: ");
        terminal.see("shell$ ").say("exit").ended();
    }
}

/// A command may put the terminal in order before it stops, and may go on.
#[test]
fn command_alone_decides_about_the_key_that_stops_it() {
    let home = Home::new();
    let binary = env!("CARGO_BIN_EXE_cachalot");
    let command =
        r#"trap "echo asked" TSTP; echo rea""dy; until read line; do :; done; echo "got $line""#;
    let mut terminal = interactive_shell(&home);
    terminal.say(&format!("'{binary}' exec -- sh -c '{command}'"));
    terminal.see("ready").press(CTRL_Z).see("asked");
    terminal
        .say("a line")
        .see("got a line")
        .see("cachalot: ")
        .see("shell$ ");
    let text = terminal.text();
    assert!(!text.contains("Stopped"), "{text}");
    terminal.say("exit").ended();
}

/// Returns true if this process, and the commands that it starts, ignore a signal.
fn is_ignored(signal: Signal) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    ignored.is_some_and(|mask| mask & (1 << (signal.as_raw() - 1)) != 0)
}

#[test]
fn requests_to_end_are_passed_on() {
    let home = Home::new();
    // Under `nohup`, SIGHUP stays ignored.
    let signals = [Signal::TERM, Signal::HUP];
    for signal in signals.into_iter().filter(|signal| !is_ignored(*signal)) {
        let script = "trap 'echo asked; exit 9' TERM HUP; echo ready; while :; do sleep 0.05; done";
        let mut command = home.command(&["exec", "--", "sh", "-c", script]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        kill_process(Pid::from_child(&child), signal).unwrap();
        let ended = child.wait_with_output().unwrap();
        assert_eq!(ended.status.code(), Some(9), "{signal:?}");
        let mut rest = String::new();
        out.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "asked\n");
        let bill = String::from_utf8(ended.stderr).unwrap();
        assert!(bill.starts_with("cachalot: 0 requests"), "{bill}");
    }
}

#[test]
fn prefix_breaks_are_on_the_bill_with_their_remedy() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let instruction = "Answer briefly. ".repeat(600);
    let mut messages = vec![json!({"role": "system", "content": instruction})];
    let mut requests = Vec::new();
    for (model, question) in [("gpt-4o", "a"), ("gpt-4o", "b"), ("gpt-4o-mini", "c")] {
        messages.push(json!({"role": "user", "content": question}));
        requests.push(json!({"model": model, "messages": messages}));
        messages.push(json!({"role": "assistant", "content": "well"}));
    }
    let ran = ask(&home, &provider, &[], &requests).ok();
    let bill = &ran.stderr;
    assert!(
        bill.contains("\nprefix breaks:\n  1  openai/gpt-4o-mini: model_changed: another model · "),
        "{bill}"
    );
    let after = bill.split(" tokens paid for anew · ").nth(1).unwrap();
    let remedy = after.lines().nth(1).unwrap();
    assert!(
        remedy.starts_with("     ") && remedy.ends_with('.'),
        "{bill}"
    );
    // The second request reads what the first one was sent.
    let cached =
        regex::Regex::new(r"provider cache: [1-9][0-9,]+ / [0-9,]+ tokens \([1-9][0-9]?%\)");
    assert!(cached.unwrap().is_match(bill), "{bill}");
    // Those of this command only.
    let again = ask(&home, &provider, &[], &[sampled("hello")]).ok();
    assert!(!again.stderr.contains("prefix breaks"), "{again}");
}

#[test]
fn refused_and_failed_requests_are_on_the_bill() {
    let (home, provider) = (Home::new(), Provider::built_in().accepting_anything());
    let unknown = json!({"_path": "/../other", "model": "x"});
    let wrong = json!({"model": "gpt-4o-mini", "temperature": 9, "messages": []});
    let ran = ask(&home, &provider, &[], &[unknown, wrong]).ok();
    let bill = &ran.stderr;
    assert!(bill.contains("\nrefused:\n"), "{bill}");
    assert!(
        bill.contains("  1  POST /v1/../other: the path has a segment `.` or `..`\n"),
        "{bill}"
    );
    assert!(bill.contains("  1  the upstream answered 400\n"), "{bill}");
}

#[test]
fn warnings_wait_for_the_end_of_the_command() {
    let home = Home::new();
    home.write("broken.db", "this is no database".repeat(100));
    let ran = home.run(&[
        "exec",
        "--db",
        "broken.db",
        "--",
        "sh",
        "-c",
        "echo from the command >&2",
    ]);
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert_eq!(lines[0], "from the command", "{ran}");
    assert!(
        lines[1].contains("broken.db is no store, and stays as it is"),
        "{ran}"
    );
    assert!(lines[2].starts_with("cachalot: 0 requests"), "{ran}");
    ran.ok();
}

#[test]
fn recorded_command_is_replayed_without_a_provider() {
    let home = Home::new();
    let requests = [sampled("one"), sampled("one"), repeatable("two")];
    let provider = Provider::built_in();
    let recorded = ask(&home, &provider, &["--record", "trial"], &requests).ok();
    assert!(
        recorded
            .stderr
            .contains("3 requests, 0 answered from the recording `trial`"),
        "{recorded}"
    );
    // What is there is not asked for again, but what is new.
    let more = [&requests[..], &[sampled("three")]].concat();
    let again = ask(&home, &provider, &["--record", "trial"], &more).ok();
    assert!(
        again
            .stderr
            .contains("4 requests, 3 answered from the recording `trial`"),
        "{again}"
    );
    assert_eq!(provider.received().len(), 4);
    drop(provider);
    // Without a key, and without the variables of the provider.
    let replay: CommandOutput = asking(&home, &["--replay", "trial"], &more)
        .output()
        .unwrap()
        .into();
    let replay = replay.ok();
    assert_eq!(responses(&replay), responses(&again));
    assert_eq!(responses(&replay)[..3], responses(&recorded)[..]);
    assert!(
        replay.stderr.contains(
            "4 requests, 4 replayed from the recording `trial`; paid $0.00, saved <$0.01"
        ),
        "{replay}"
    );
    let other = [sampled("one"), sampled("four"), sampled("five")];
    let missed: CommandOutput = asking(&home, &["--replay", "trial"], &other)
        .output()
        .unwrap()
        .into();
    let missed = missed.ok();
    // No client repeats it.
    assert!(responses(&missed)[1].starts_with("400 "), "{missed}");
    let bill = &missed.stderr;
    assert!(
        bill.contains("3 requests, 1 replayed from the recording `trial`; paid $0.00"),
        "{bill}"
    );
    let expected = "\nnot in the recording `trial`:\n  2  it differs from the recorded request in /body/messages/0/content\n";
    assert!(bill.contains(expected), "{bill}");
}

#[test]
fn what_a_recording_lacks_is_named() {
    let (home, provider) = (Home::new(), Provider::built_in().accepting_anything());
    let mut searching = sampled("one");
    searching["web_search_options"] = json!({});
    let requests = [sampled("one"), searching];
    let recorded = ask(&home, &provider, &["--record", "trial"], &requests).ok();
    let bill = &recorded.stderr;
    let sections = "\nasked for:\n  1  not in the cache\nnot recorded:\n  1  ";
    assert!(bill.contains(sections), "{bill}");
    // A date that may differ is not named if it is the same.
    let prompt = |text: &str| {
        let mut prompt = sampled(text);
        let system = json!({"role": "system", "content": "Today's date is 2026-11-30."});
        prompt["messages"].as_array_mut().unwrap().insert(0, system);
        prompt
    };
    let claude = ["--agent", "claude", "--record", "dated"];
    let recorded = ask(&home, &provider, &claude, &[prompt("one")]).ok();
    let possible = "  1  not in the cache; its `date` may differ from that of the recorded run";
    assert!(recorded.stderr.contains(possible), "{recorded}");
    let claude = ["--agent", "claude", "--replay", "dated"];
    let missed = ask(&home, &provider, &claude, &[prompt("two")]).ok();
    let bill = &missed.stderr;
    let expected = "\nnot in the recording `dated`:\n  1  it differs from the recorded request in /body/messages/1/content\n";
    assert!(bill.contains(expected), "{bill}");
}

#[test]
fn recording_needs_a_store() {
    let home = Home::new();
    for option in ["--record", "--replay"] {
        // A damaged store is renamed, and a new one takes its place.
        home.write("broken.db", "this is no database".repeat(100));
        let arguments = [
            "exec",
            "--db",
            "broken.db",
            option,
            "trial",
            "--",
            "touch",
            "ran",
        ];
        let ran = home.run(&arguments).fails(1);
        assert!(
            ran.stderr.starts_with("error: recording `trial`: "),
            "{ran}"
        );
        assert!(ran.stderr.contains("not a database"), "{ran}");
        assert!(home.join("broken.db").exists() && !home.join("ran").exists());
    }
}

#[test]
fn replay_of_an_unknown_client_is_announced_before_it_runs() {
    let (home, provider) = (Home::new(), Provider::built_in());
    ask(&home, &provider, &["--record", "trial"], &[sampled("one")]).ok();
    let command = [
        "exec",
        "--replay",
        "trial",
        "--",
        "sh",
        "-c",
        "echo ran >&2",
    ];
    let ran = home.run(&command).ok();
    let lines: Vec<&str> = ran.stderr.lines().collect();
    assert!(lines[0].contains("`sh` is no known client"), "{ran}");
    assert_eq!(lines[1], "ran");
    assert_eq!(ran.stderr.matches("no known client").count(), 1, "{ran}");
}

#[test]
fn recordings_are_moved_to_another_machine_and_erased() {
    let (home, other) = (Home::new(), Home::new());
    let provider = Provider::built_in();
    let requests = [sampled("one")];
    let options = ["--db", "here.db", "--record", "trial"];
    let recorded = ask(&home, &provider, &options, &requests).ok();
    drop(provider);
    let cassette = home.join("trial.cassette");
    let cassette = cassette.to_str().unwrap();
    home.run(&["cache", "export", cassette, "--db", "here.db"])
        .ok();
    other
        .run(&["cache", "import", cassette, "--db", "there.db"])
        .ok();
    let options = ["--db", "there.db", "--replay", "trial"];
    let replay: CommandOutput = asking(&other, &options, &requests).output().unwrap().into();
    assert_eq!(responses(&replay.ok()), responses(&recorded));
    let selected = ["--tag", "recording:trial", "--db", "there.db"];
    let listed = other
        .run(&[&["cache", "ls", "--json"], &selected[..]].concat())
        .ok();
    assert!(listed.stdout.contains("user:recording:trial"), "{listed}");
    other.run(&[&["cache", "rm"], &selected[..]].concat()).ok();
    let replay: CommandOutput = asking(&other, &options, &requests).output().unwrap().into();
    assert!(replay.fails(1).stderr.contains("there is no recording"));
}

#[test]
fn recording_that_does_not_exist_is_named() {
    let (home, provider) = (Home::new(), Provider::built_in());
    ask(&home, &provider, &["--record", "trial"], &[sampled("one")]).ok();
    let of = |name: &str| {
        home.run(&["exec", "--replay", name, "--", "echo", "ran"])
            .fails(1)
    };
    let ran = of("trail");
    assert!(
        ran.stderr
            .starts_with("error: there is no recording `trail`: did you mean `trial`? "),
        "{ran}"
    );
    assert_eq!(ran.stdout, "");
    let ran = of("whale");
    assert!(
        ran.stderr
            .contains("`whale`: `cachalot exec --record whale` makes one"),
        "{ran}"
    );
}

#[test]
fn fresh_recording_asks_for_everything_anew() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let requests = [sampled("one"), repeatable("two")];
    ask(&home, &provider, &["--record", "trial"], &requests).ok();
    let fresh = ask(
        &home,
        &provider,
        &["--record", "trial", "--fresh"],
        &requests,
    )
    .ok();
    assert!(
        fresh.stderr.contains("2 requests, 0 answered from"),
        "{fresh}"
    );
    assert_eq!(provider.received().len(), 4);
    let replay = ask(&home, &provider, &["--replay", "trial"], &requests).ok();
    assert_eq!(responses(&replay), responses(&fresh));
    assert_eq!(provider.received().len(), 4);
}
