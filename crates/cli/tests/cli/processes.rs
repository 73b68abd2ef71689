//! Several processes, interrupted processes, killed processes, pipes that close.

use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::support::{CommandOutput, Home, MARKING};

#[test]
fn four_processes_on_one_key_run_the_action_once() {
    let home = Home::new();
    home.write("agent.yaml", MARKING.replace("printf", "sleep 0.5; printf"));
    let children: Vec<_> = (0..4)
        .map(|_| {
            let mut command = home.command(&["run", "agent.yaml", "-i", "text=x"]);
            command
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let ran = CommandOutput::from(child.wait_with_output().unwrap()).ok();
        assert_eq!(ran.json()["answer"]["result"]["stdout"], "x");
    }
    assert_eq!(home.runs(), 1);
}

#[cfg(unix)]
fn signal(child: &std::process::Child, name: &str) {
    let status = std::process::Command::new("kill")
        .args([&format!("-{name}"), &child.id().to_string()])
        .status()
        .unwrap();
    assert!(status.success());
}

const TWO_STEPS: &str = r#"
name: two_steps
nodes:
  - name: quick
    uses: cache.wrap
    with:
      action: shell.run
      args: {command: ["sh", "-c", "echo quick >> runs.log"]}
    output: quick
  - name: slow
    uses: cache.wrap
    with:
      action: shell.run
      args: {command: ["sh", "-c", "echo slow >> runs.log; while test -e runs.log && ! test -e go; do sleep 0.1; done; echo done"]}
    output: slow
"#;

#[cfg(unix)]
fn start_and_stop(home: &Home, with: &str) -> CommandOutput {
    let mut command = home.command(&["run", "agent.yaml"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + Duration::from_secs(60);
    while home.runs() < 2 && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(20));
    }
    signal(&child, with);
    child.wait_with_output().unwrap().into()
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_run_and_a_rerun_resumes() {
    let home = Home::new();
    home.write("agent.yaml", TWO_STEPS);
    let begun = Instant::now();
    let interrupted = start_and_stop(&home, "INT").fails(130);
    assert!(
        begun.elapsed() < Duration::from_secs(120),
        "it did not wait for the step"
    );
    assert!(interrupted.stderr.contains("interrupted"), "{interrupted}");
    assert_eq!(interrupted.stdout, "");
    home.write("go", "");
    let again = home.run(&["run", "agent.yaml"]).ok().json();
    assert_eq!(again["quick"]["_cache_hit"], true);
    let log = std::fs::read_to_string(home.join("runs.log")).unwrap();
    assert_eq!(log, "quick\nslow\nslow\n");
}

#[cfg(unix)]
#[test]
fn interrupted_run_reports_calls_that_may_be_charged() {
    let home = Home::new();
    // A provider that takes a request and does not answer.
    let provider = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/v1", provider.local_addr().unwrap());
    home.write(
        "agent.yaml",
        format!(
            "nodes:\n  - {{name: ask, uses: llm.call, with: {{model: openai/gpt-4o, base_url: '{url}', prompt: Hi}}}}\n"
        ),
    );
    let mut command = home.command(&["run", "agent.yaml"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut request, _) = provider.accept().unwrap();
    let mut head = [0; 4];
    std::io::Read::read_exact(&mut request, &mut head).unwrap();
    signal(&child, "INT");
    let ran = CommandOutput::from(child.wait_with_output().unwrap()).fails(130);
    let said = ran.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        said.contains("the provider may charge for 1 model call that was cut off"),
        "{ran}"
    );
}

#[test]
fn usage_errors_are_reported_with_a_remedy() {
    let home = Home::new();
    for (arguments, expected) in [
        (&["rnu", "a.yaml"][..], "a similar subcommand exists: 'run'"),
        (&["cahce", "ls"], "'cache'"),
        (&["run", "nope.yaml"], "help: check the path"),
        (&["run", "."], "help: name a file in the directory"),
    ] {
        let ran = home.run(arguments).fails(2);
        assert!(ran.stderr.contains(expected), "{arguments:?}: {ran}");
    }
    home.write("agent.yaml", "nodes:\n  - {name: n}\n");
    let ran = home
        .run(&["run", "agent.yaml", "--secrets", "nope.json"])
        .fails(2);
    assert!(ran.stderr.contains("nope.json: No such file"), "{ran}");
}

#[cfg(unix)]
#[test]
fn a_killed_run_is_resumed_by_running_it_again() {
    let home = Home::new();
    home.write("agent.yaml", TWO_STEPS);
    let killed = start_and_stop(&home, "KILL");
    assert_eq!(killed.code, None);
    home.write("go", "");
    let begun = Instant::now();
    let again = home.run(&["run", "agent.yaml"]).ok().json();
    assert_eq!(again["quick"]["_cache_hit"], true);
    assert_eq!(again["slow"]["_cache_stored"], true);
    assert!(
        begun.elapsed() < Duration::from_secs(60),
        "a dead process' reservation lapses soon"
    );
}

#[cfg(unix)]
#[test]
fn broken_pipe_prints_no_error() {
    let home = Home::new();
    home.write("agent.yaml", "name: a\nnodes:\n  - name: n\n");
    let output = std::process::Command::new("sh")
        .args([
            "-c",
            &format!(
                "'{}' schema | head -c 10; true",
                env!("CARGO_BIN_EXE_cachalot")
            ),
        ])
        .current_dir(home.path())
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}

#[cfg(unix)]
fn in_a_shell(home: &Home, arguments: &str) -> CommandOutput {
    std::process::Command::new("sh")
        .args([
            "-c",
            &format!("exec '{}' {arguments}", env!("CARGO_BIN_EXE_cachalot")),
        ])
        .current_dir(home.path())
        .env("XDG_DATA_HOME", home.join("data"))
        .stdin(Stdio::null())
        .output()
        .unwrap()
        .into()
}

#[cfg(unix)]
#[test]
fn result_that_cannot_be_printed_is_an_error() {
    let home = Home::new();
    home.write("agent.yaml", MARKING);
    home.write("a.txt", "");
    home.run(&["run", "agent.yaml", "-i", "text=x"]).ok();
    let commands = [
        "run agent.yaml -i text=y",
        "run agent.yaml --plan -i text=y",
        "hash a.txt",
        "schema",
        "cache ls",
        "cache export -",
        "why",
    ];
    for command in commands {
        for redirection in [">&-", "1<a.txt"] {
            let ran = in_a_shell(&home, &format!("{command} {redirection}")).fails(1);
            assert!(
                ran.stderr.contains("standard output"),
                "{command} {redirection}: {ran}"
            );
        }
        in_a_shell(&home, &format!("{command} >/dev/null")).ok();
        // As some programs give it to those that they start.
        in_a_shell(&home, &format!("{command} 1<>/dev/null")).ok();
    }
    // With standard output closed nothing is paid for; where it takes nothing, that shows at the end.
    assert_eq!(home.runs(), 2);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_under_standard_output_is_an_error() {
    let home = Home::new();
    let ran = in_a_shell(&home, "schema >/dev/full").fails(1);
    assert!(ran.stderr.contains("standard output"), "{ran}");
}
