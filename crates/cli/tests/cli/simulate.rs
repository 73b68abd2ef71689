//! `cachalot simulate`: a provider as a process of its own.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Stdio};

use crate::chat::{TASK, with_the_example};
use crate::support::Home;

/// The process, until it is dropped.
struct Simulator {
    child: Child,
    url: String,
}

impl Simulator {
    fn start(home: &Home, arguments: &[&str]) -> Self {
        let arguments = [&["simulate", "--port", "0"], arguments].concat();
        let mut child = home
            .command(&arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let first = lines.next().unwrap().unwrap();
        let url = first.split_whitespace().last().unwrap().to_owned();
        let reported: Vec<String> = lines.by_ref().take(2).map(Result::unwrap).collect();
        assert!(
            reported[0].contains(&format!("OPENAI_BASE_URL={url}/v1")),
            "{reported:?}"
        );
        assert!(
            reported[1].contains(&format!("ANTHROPIC_BASE_URL={url} ")),
            "{reported:?}"
        );
        Self { child, url }
    }
}

impl Drop for Simulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(
    home: &Home,
    simulator: &Simulator,
    file: &str,
    question: &str,
) -> crate::support::CommandOutput {
    use std::io::Write as _;
    let mut child = home
        .command(&["chat", file])
        .env("CACHALOT_EXAMPLE_PROVIDER", format!("{}/v1", simulator.url))
        .env("ANTHROPIC_BASE_URL", &simulator.url)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(question.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap().into()
}

#[test]
fn coder_example_runs_without_a_key() {
    let home = Home::new();
    with_the_example(&home);
    let simulator = Simulator::start(&home, &[]);
    let ran = ask(&home, &simulator, "examples/coder.yaml", TASK).ok();
    assert!(ran.stdout.contains("DONE: say how deep it dives."), "{ran}");
    assert!(
        ran.stderr.contains(" hit ") && ran.stderr.contains("was written to since"),
        "{ran}"
    );
    home.write(
        "claude.yaml",
        "agents: {root: {model: anthropic/claude-sonnet-5}}\n",
    );
    let ran = ask(
        &home,
        &simulator,
        "claude.yaml",
        "Translate to French: good morning",
    )
    .ok();
    assert!(!ran.stdout.trim().is_empty(), "{ran}");
}

#[test]
fn simulate_answers_from_a_script() {
    let home = Home::new();
    home.write(
        "script.yaml",
        "rules: [{user: 'who', steps: [{text: A whale.}]}]\n",
    );
    home.write(
        "claude.yaml",
        "agents: {root: {model: anthropic/claude-sonnet-5}}\n",
    );
    let simulator = Simulator::start(&home, &["--script", "script.yaml"]);
    let ran = ask(&home, &simulator, "claude.yaml", "who are you?").ok();
    assert_eq!(ran.stdout, "A whale.\n");
}

#[test]
fn problems_of_a_script_are_reported_with_their_place() {
    let home = Home::new();
    home.write("script.yaml", "rules:\n  - user: '('\n    stepz: []\n");
    let ran = home
        .run(&["simulate", "--port", "0", "--script", "script.yaml"])
        .fails(2);
    assert!(
        ran.stderr.contains("script.yaml:2") && ran.stderr.contains("script.yaml:3"),
        "{ran}"
    );
    assert!(ran.stderr.contains("`steps`?"), "{ran}");
    let ran = home.run(&["simulate", "--script", "missing.yaml"]).fails(2);
    assert!(ran.stderr.contains("missing.yaml"), "{ran}");
}

#[test]
fn a_port_in_use_is_reported_with_a_remedy() {
    let home = Home::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let ran = home.run(&["simulate", "--port", &port]).fails(1);
    assert!(
        ran.stderr.contains(&port) && ran.stderr.contains("--port"),
        "{ran}"
    );
    assert_eq!(ran.stdout, "");
}

#[cfg(unix)]
#[test]
fn ctrl_c_ends_the_simulator() {
    use rustix::process::{Pid, Signal, kill_process};
    let home = Home::new();
    for signal in [Signal::INT, Signal::TERM] {
        let mut simulator = Simulator::start(&home, &[]);
        kill_process(Pid::from_child(&simulator.child), signal).unwrap();
        assert_eq!(simulator.child.wait().unwrap().code(), Some(0));
        let address = simulator.url.strip_prefix("http://").unwrap();
        assert!(
            std::net::TcpStream::connect(address).is_err(),
            "nobody is there any more"
        );
    }
}
