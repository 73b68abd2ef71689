//! `cachalot chat --sandbox`: commands in scripts, which no analysis of a command line sees.
//! Without user namespaces, the chat does not start.

use std::path::Path;
use std::process::Command;

use crate::provider::{Provider, SCRIPTED_MODEL, SHELL};
use crate::support::{CommandOutput, Home};

const AGENT: &str = r#"
agents:
  root:
    model: openai/gpt-5.6
    instruction: Do what the user says.
    toolsets: [{type: shell}, {type: background_jobs}]
permissions:
  deny: ["*:path=**/.env*"]
"#;

/// Runs commands of a model in a workspace, which is not the home of the user.
fn chat(home: &Home, commands: &[&str], arguments: &[&str]) -> (CommandOutput, Vec<String>) {
    let steps = commands.iter().map(|command| {
        let command = serde_json::Value::from(*command);
        format!("      - tool_calls: [{{name: shell, arguments: {{command: {command}}}}}]\n")
    });
    let steps: String = steps.collect();
    let provider = Provider::scripted(&format!(
        "rules:\n  - user: 'Go'\n    tools: [shell, run_background_job]\n    steps:\n{steps}      - text: Done\n"
    ));
    let agent = home.write("agent.yaml", AGENT);
    let workspace = home.join("work");
    std::fs::create_dir_all(&workspace).unwrap();
    let agent = agent.to_str().unwrap();
    let workspace = workspace.to_str().unwrap();
    let arguments = [&[agent, "--workspace", workspace, "--yes"], arguments].concat();
    let ran = home.ask(&provider, &arguments, "Go.");
    let bodies = provider.received();
    let bodies = bodies
        .iter()
        .map(|request| String::from_utf8_lossy(&request.body).into_owned());
    (ran, bodies.collect())
}

/// Returns false, with a notice, on a machine without user namespaces.
#[allow(clippy::print_stderr, reason = "a notice")]
pub(crate) fn has_namespaces() -> bool {
    let mut unshare = Command::new("unshare");
    let made = unshare.args([
        "--user",
        "--map-root-user",
        "--mount-proc",
        "--pid",
        "--net",
        "--fork",
        "true",
    ]);
    let has = made.output().is_ok_and(|made| made.status.success());
    if !has {
        eprintln!("skipped: this machine gives no user namespaces");
    }
    has
}

#[test]
fn hidden_commands_change_and_read_nothing_that_is_protected() {
    if !has_namespaces() {
        return;
    }
    let tried = [
        ("note", "open('note', 'w')"),
        ("instructions", "open('CLAUDE.md', 'w')"),
        ("settings", "os.makedirs('.claude')"),
        ("secret", "print(open('.env').read())"),
        ("key", "print(open(os.environ['HOME'] + '/.ssh/id').read())"),
        ("outside", "open('../outside', 'w')"),
        ("hook", "open('.git/hooks/pre-commit', 'w')"),
        ("configured", "open('hooks/pre-commit', 'w')"),
        ("target", "open('docs.md', 'w')"),
        ("bare", "open('bare/hooks/pre-commit', 'w')"),
        (
            "group",
            "import signal; signal.signal(15, signal.SIG_IGN); os.killpg(0, 15); open('alive', 'w')",
        ),
        ("temporary", "print('in', tempfile.mkdtemp(), 'now')"),
    ];
    let commands = tried.map(|(name, _)| format!("python3 {name}.py"));
    let commands: Vec<_> = commands.iter().map(String::as_str).collect();
    // `--yes` alone runs commands in it, too.
    for flags in [&["--sandbox=off"][..], &["--sandbox"], &[]] {
        let is_sandboxed = flags != ["--sandbox=off"];
        let home = Home::new();
        home.write(".ssh/id", "of-the-user");
        home.write("work/.env", "TOKEN=abc123");
        for (name, code) in tried {
            home.write(
                &format!("work/{name}.py"),
                format!("import os, tempfile\n{code}\n"),
            );
        }
        let mut git = Command::new("git");
        git.args(["init", "-q"]).arg(home.join("work"));
        assert!(git.status().unwrap().success());
        let mut git = Command::new("git");
        git.args(["config", "core.hooksPath", "hooks"]);
        assert!(
            git.current_dir(home.join("work"))
                .status()
                .unwrap()
                .success()
        );
        let mut git = Command::new("git");
        git.args(["init", "-q", "--bare"])
            .arg(home.join("work/bare"));
        assert!(git.status().unwrap().success());
        // A protected name that leads to another file.
        home.write("work/docs.md", "kept");
        std::os::unix::fs::symlink("docs.md", home.join("work/AGENTS.md")).unwrap();
        std::fs::create_dir(home.join("work/hooks")).unwrap();
        let (ran, bodies) = chat(&home, &commands, flags);
        let ran = ran.ok();
        let last = bodies.last().unwrap();
        assert_eq!(bodies.len(), commands.len() + 1, "{ran}");
        assert!(home.join("work/note").exists(), "{ran}");
        assert_eq!(home.join("work/CLAUDE.md").exists(), !is_sandboxed, "{ran}");
        assert_eq!(home.join("work/.claude").exists(), !is_sandboxed, "{ran}");
        assert_eq!(home.join("outside").exists(), !is_sandboxed, "{ran}");
        assert!(home.join("work/alive").exists(), "{ran}");
        for hook in [".git/hooks", "hooks", "bare/hooks"] {
            let hook = format!("work/{hook}/pre-commit");
            assert_eq!(home.join(&hook).exists(), !is_sandboxed, "{hook}: {ran}");
        }
        let docs = std::fs::read_to_string(home.join("work/docs.md")).unwrap();
        assert_eq!(docs == "kept", is_sandboxed, "{ran}");
        assert_eq!(last.contains("abc123"), !is_sandboxed, "{last}");
        assert_eq!(last.contains("of-the-user"), !is_sandboxed, "{last}");
        let place = last.split("in /").nth(1).unwrap();
        let place = Path::new("/").join(place.split(' ').next().unwrap());
        // That of the chat is gone with it.
        assert_eq!(place.exists(), !is_sandboxed, "{}", place.display());
        let _ = std::fs::remove_dir(place);
    }
}

/// Returns the command in a sandbox, in which there are no namespaces for another one.
fn without_namespaces(home: &Home, arguments: &[&str]) -> Command {
    let program = env!("CARGO_BIN_EXE_cachalot");
    let mut command = home.command(&["sandbox-helper", "--network", "--visible", program]);
    let write = home.path().canonicalize().unwrap();
    command
        .arg("--write")
        .arg(&write)
        .args(["--", program])
        .args(arguments)
        .env("TMPDIR", write);
    command
}

/// A limited sandbox, or none where there is no Landlock either.
#[test]
fn without_namespaces_no_command_runs_unasked() {
    if !has_namespaces() {
        return;
    }
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    let outside = format!("of-the-sandbox-{}", std::process::id());
    let run = |flags: &[&str], line: &str| {
        let chat = ["chat", "agent.yaml"];
        let mut command = without_namespaces(&home, &[&chat, flags].concat());
        provider.known_to(&mut command);
        home.answer(command, line.as_bytes(), |_| {})
    };
    for flags in [
        &["--sandbox"][..],
        &["--sandbox=auto"],
        &["--sandbox", "--yes"],
    ] {
        let ran = run(flags, "run touch made");
        assert!(!home.join("made").exists(), "{flags:?}: {ran}");
        let is_limited = ran
            .stderr
            .contains("the sandbox of this machine is limited");
        let is_refused = ran.stderr.contains("cannot run commands in a sandbox");
        assert!(is_limited || is_refused, "{flags:?}: {ran}");
        if is_refused {
            return;
        }
    }
    let rule = "permissions: {allow: ['shell:command=touch *']}\n";
    home.write("agent.yaml", format!("{SHELL}{rule}"));
    run(&["--sandbox"], &format!("run touch made ../{outside}")).ok();
    assert!(home.join("made").exists());
    assert!(!home.path().parent().unwrap().join(outside).exists());
}

#[test]
fn the_doctor_tries_a_sandbox() {
    if !has_namespaces() {
        return;
    }
    let report = Home::new().run(&["doctor", "--json"]).ok().json();
    let (status, remedy) = crate::doctor::check(&report, "sandbox");
    assert_eq!((status.as_str(), remedy.as_str()), ("ok", ""));
    let state = report.to_string();
    for tried in [
        "write a protected file",
        "read a denied file",
        "connect to a Unix socket",
    ] {
        assert!(state.contains(tried), "{state}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn ctrl_c_ends_a_command_in_the_sandbox() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::process::Stdio;
    use std::time::{Duration, Instant};
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    // Its ID there is another one: it is known by its argument.
    let seconds = format!("1000.{}", std::process::id());
    let line = format!("touch started; exec sleep {seconds}");
    let provider = Provider::scripted(&format!(
        "rules:\n  - user: 'Go'\n    tools: [shell]\n    steps:\n      - tool_calls: [{{name: shell, arguments: {{command: '{line}'}}}}]\n"
    ));
    home.write("agent.yaml", AGENT);
    let mut command = home.command(&["chat", "agent.yaml", "--yes", "-p", "Go."]);
    provider.known_to(&mut command);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    let wait_until = |holds: &mut dyn FnMut() -> bool| {
        while !holds() {
            assert!(Instant::now() < deadline);
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    let is_running = || {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let mut arguments =
            entries.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
        let wanted = format!("sleep\0{seconds}\0");
        arguments.any(|arguments| arguments == wanted.as_bytes())
    };
    wait_until(&mut || {
        assert!(child.try_wait().unwrap().is_none());
        home.join("started").exists() && is_running()
    });
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let ran: CommandOutput = child.wait_with_output().unwrap().into();
    ran.fails(130);
    // The process that removes what it made in the workspace may outlive the command.
    wait_until(&mut || !is_running() && !home.join("CLAUDE.md").exists());
}

#[test]
fn auto_runs_commands_without_a_question_unless_something_asks() {
    if !has_namespaces() {
        return;
    }
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    let ask = |file: &str, question: &str| home.ask(&provider, &[file, "--sandbox=auto"], question);
    // Through a pipe, no user can be asked.
    let ran = home.ask(&provider, &["agent.yaml", "--sandbox"], "run touch made");
    assert!(ran.ok().stdout.contains("no user is present to approve it"));
    let outside = format!("of-the-sandbox-{}", std::process::id());
    ask("agent.yaml", &format!("run touch made; touch ../{outside}")).ok();
    assert!(home.join("made").exists());
    assert!(!home.path().parent().unwrap().join(outside).exists());
    home.write(
        "asking.yaml",
        format!("{SHELL}permissions: {{ask: ['shell:command=touch *']}}\n"),
    );
    let ran = ask("asking.yaml", "run touch other").ok();
    assert!(
        ran.stdout.contains("no user is present to approve it"),
        "{ran}"
    );
    assert!(!home.join("other").exists());
    // Git would leave a protected file behind that it tracks.
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        git.args(["-c", "user.name=a", "-c", "user.email=a@example.org"]);
        assert!(
            git.args(arguments)
                .current_dir(home.path())
                .status()
                .unwrap()
                .success()
        );
    };
    git(&["init", "-q"]);
    let reset = "run git reset -q && touch reset";
    ask("agent.yaml", reset).ok();
    assert!(home.join("reset").exists());
    std::fs::remove_file(home.join("reset")).unwrap();
    home.write("AGENTS.md", "Be kind.");
    git(&["add", "AGENTS.md"]);
    let ran = ask("agent.yaml", reset).ok();
    assert!(
        ran.stdout.contains("no user is present to approve it"),
        "{ran}"
    );
    assert!(!home.join("reset").exists());
}

#[test]
fn yes_runs_no_command_outside_without_the_flag_or_a_rule() {
    if !has_namespaces() {
        return;
    }
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    let allowing = format!("{SHELL}permissions: {{allow: ['shell:command=touch made']}}\n");
    for (file, flag, runs) in [
        (SHELL, None, false),
        (SHELL, Some("--sandbox=off"), true),
        (&*allowing, None, true),
    ] {
        home.write("agent.yaml", file);
        let chat = ["chat", "agent.yaml", "--yes"];
        let mut command = without_namespaces(&home, &[&chat, flag.as_slice()].concat());
        provider.known_to(&mut command);
        let ran = home.answer(command, b"run touch made", |_| {}).ok();
        assert_eq!(home.join("made").exists(), runs, "{flag:?}: {ran}");
        if !runs {
            assert!(ran.stdout.contains("`--sandbox=off` permits them"), "{ran}");
        }
        let _ = std::fs::remove_file(home.join("made"));
    }
}

#[test]
fn programs_of_a_run_are_in_the_sandbox_and_so_is_the_key_of_their_results() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    home.write(
        "agent.yaml",
        "name: x\nnodes:\n  - name: a\n    uses: cache.wrap\n    with:\n      action: shell.run\n      args: {command: [sh, -c, 'echo x >> count; touch ../of-the-sandbox-test && rm ../of-the-sandbox-test && echo outside || echo inside']}\n",
    );
    let run = |flags: &[&str]| {
        let ran = home.run(&[&["run", "agent.yaml"], flags].concat()).ok();
        ran.stdout.contains("outside")
    };
    let count = || {
        std::fs::read_to_string(home.join("count"))
            .unwrap()
            .lines()
            .count()
    };
    assert!(run(&[]));
    assert!(!run(&["--sandbox"]));
    assert_eq!(count(), 2);
    assert!(!run(&["--sandbox"]));
    assert!(run(&[]));
    assert_eq!(count(), 2, "hits");
    assert!(!run(&["--sandbox", "--sandbox-network"]));
    assert_eq!(count(), 3, "another policy");
}

/// An action that runs a program is a tool like `shell`: in the sandbox of a chat, and nowhere else with `--yes`.
#[test]
fn actions_of_agents_run_programs_in_the_sandbox_of_the_chat() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let provider = Provider::scripted(
        "rules:
  - user: 'Go'
    tools: [shell_run]
    steps:
      - tool_calls: [{name: shell_run, arguments: {command: [sh, -c, 'touch made; touch ../of-an-action']}}]
      - text: Done
",
    );
    home.write(
        "agent.yaml",
        "agents: {root: {model: openai/gpt-5.6, toolsets: [{type: actions, allow: [shell.run]}]}}\n",
    );
    std::fs::create_dir(home.join("work")).unwrap();
    let outside = home.join("of-an-action");
    for (flags, is_outside) in [(&[][..], false), (&["--sandbox=off"], true)] {
        let arguments = ["agent.yaml", "--workspace", "work", "--yes"];
        let ran = home.ask(&provider, &[&arguments[..], flags].concat(), "Go.");
        let ran = ran.ok();
        assert_eq!(outside.exists(), is_outside, "{ran}");
    }
    std::fs::remove_file(outside).unwrap();
    let mut command = without_namespaces(&home, &["chat", "agent.yaml", "--yes"]);
    provider.known_to(&mut command);
    std::fs::remove_file(home.join("made")).unwrap_or_default();
    let ran = home.answer(command, b"Go.", |_| {}).ok();
    assert!(!home.join("made").exists(), "{ran}");
}

/// The commands of the agents of a workflow.
#[test]
fn agents_of_a_run_have_its_sandbox() {
    if !has_namespaces() {
        return;
    }
    let home = Home::new();
    let provider = Provider::scripted(SCRIPTED_MODEL);
    home.write(
        "work/agent.yaml",
        format!(
            "{SHELL}permissions: {{allow: [shell]}}
nodes:
  - name: a
    uses: agent.run
    with: {{agent: root, input: 'run touch made ../of-an-agent'}}
"
        ),
    );
    let outside = home.join("of-an-agent");
    for (flags, is_outside) in [(&["--sandbox"][..], false), (&[], true)] {
        let mut command = home.command(&[&["run", "agent.yaml"], flags].concat());
        command.current_dir(home.join("work"));
        provider.known_to(&mut command);
        let ran = CommandOutput::from(command.output().unwrap()).ok();
        assert!(home.join("work/made").exists(), "{ran}");
        assert_eq!(outside.exists(), is_outside, "{ran}");
    }
}

#[test]
fn flags_that_widen_no_sandbox_are_refused() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", SHELL);
    for flags in [
        &["--sandbox-network"][..],
        &["--sandbox-write=.", "--sandbox=off", "--yes"],
    ] {
        let ran = home.ask(&provider, &[&["agent.yaml"], flags].concat(), "hello");
        assert!(ran.fails(2).stderr.contains("unused-flag"));
    }
}
