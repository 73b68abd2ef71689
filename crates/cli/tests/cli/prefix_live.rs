//! `cachalot prefix live`: what another process sees of a running chat.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::provider::{Provider, SCRIPTED_MODEL, session};
use crate::serve::Gateway;
use crate::support::Home;
use crate::terminal::Terminal;

/// Nothing that is waited for takes longer.
const TIMEOUT: Duration = Duration::from_secs(60);

/// An agent whose instruction is long enough to be kept by the provider.
fn agent(model: &str) -> String {
    let instruction = "Answer briefly. ".repeat(400);
    format!("agents:\n  root:\n    model: openai/{model}\n    instruction: '{instruction}'\n")
}

/// A command that follows, with the lines of its output as they come.
struct LiveView {
    child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

fn lines(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

impl LiveView {
    /// Starts it, and waits until it follows.
    fn start(mut command: Command, first: &str) -> Self {
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (out, err) = (
            lines(child.stdout.take().unwrap()),
            lines(child.stderr.take().unwrap()),
        );
        let watched = err.recv_timeout(TIMEOUT).unwrap();
        assert!(
            watched.starts_with("watching for broken prefixes of the "),
            "{watched}"
        );
        if !first.is_empty() {
            assert_eq!(err.recv_timeout(TIMEOUT).unwrap(), first);
        }
        Self { child, out, err }
    }

    fn line(&self) -> String {
        self.out.recv_timeout(TIMEOUT).unwrap()
    }

    /// Presses Ctrl-C.
    fn interrupt(mut self) {
        let id = Pid::from_child(&self.child);
        kill_process(id, Signal::INT).unwrap();
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        let rest: Vec<String> = self.out.iter().chain(self.err.iter()).collect();
        assert_eq!(rest, [] as [&str; 0]);
    }
}

#[test]
fn prefix_live_shows_a_break_during_the_chat() {
    let (home, provider) = (Home::new(), Provider::scripted(SCRIPTED_MODEL));
    home.write("agent.yaml", agent("gpt-4o"));
    let none = "no prefix has broken yet";
    let plain = LiveView::start(home.command(&["prefix", "live"]), none);
    let json = LiveView::start(home.command(&["prefix", "live", "--json"]), none);
    let name = session(&home.ask(&provider, &["agent.yaml"], "hello").ok());
    // Another model reads nothing of what the first one was sent.
    home.write("agent.yaml", agent("gpt-4o-mini"));
    let mut command = home.command(&["chat", "agent.yaml", "--session", &name]);
    provider.known_to(&mut command);
    let mut chat = Terminal::start(&mut command);
    chat.prompt().say("again").see("tokens in").prompt();
    // The chat is still running.
    let line = plain.line();
    let expected = format!(
        "  root  {name}  openai/gpt-4o-mini  model_changed at the parameter `model`: another model · "
    );
    assert!(line.contains(&expected), "{line}");
    assert!(line.contains(" tokens paid for anew · <$0.01"), "{line}");
    let document: Value = serde_json::from_str(&json.line()).unwrap();
    for (field, expected) in [
        ("session", name.as_str()),
        ("agent", "root"),
        ("model", "openai/gpt-4o-mini"),
        ("reason", "model_changed"),
        ("cause", "model-switched"),
        ("place", "the parameter `model`"),
    ] {
        assert_eq!(document[field], expected, "{document}");
    }
    assert!(
        document["lost_tokens"].as_u64().unwrap() > 1_000,
        "{document}"
    );
    assert!(
        document["lost_dollars"].as_f64().unwrap() > 0.0,
        "{document}"
    );
    assert_eq!(document["on_behalf_of"], Value::Null);
    // The next turn reads what this one has sent.
    chat.say("and now").see("cached by the provider").prompt();
    chat.leave();
    plain.interrupt();
    json.interrupt();

    // Later, the same from the ledger.
    let again = LiveView::start(home.command(&["prefix", "live", "--since", "1h"]), "");
    assert_eq!(again.line(), line);
    again.interrupt();
    // Without `--since`, what was before is left out.
    let now = LiveView::start(home.command(&["prefix", "live"]), none);
    now.interrupt();
    // The sentence says it, and `why` says nothing twice.
    let why = home.run(&["why", &name]).ok().stdout;
    assert!(!why.contains("lost"), "{why}");
}

#[test]
fn prefix_live_shows_the_breaks_of_the_clients_of_a_gateway() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let gateway = Gateway::start(&home, &provider);
    for (model, question) in [("gpt-4o", "a"), ("gpt-4o", "b"), ("gpt-4o-mini", "c")] {
        let instruction = "Answer briefly. ".repeat(600);
        let mut messages = vec![json!({"role": "system", "content": instruction})];
        for earlier in ["a", "b"].iter().take_while(|earlier| **earlier < question) {
            messages.push(json!({"role": "user", "content": earlier}));
            messages.push(json!({"role": "assistant", "content": "well"}));
        }
        messages.push(json!({"role": "user", "content": question}));
        let body = json!({"model": model, "messages": messages}).to_string();
        let response = gateway.post("x", &body);
        assert!(response.starts_with("HTTP/1.1 200"), "{response}");
    }
    gateway.stop();
    let arguments = ["prefix", "live", "--since", "1h", "--gateway"];
    let view = LiveView::start(home.command(&arguments), "");
    let line = view.line();
    view.interrupt();
    let expected = "  openai/gpt-4o-mini  model_changed at the parameter `model`: another model · ";
    assert!(line.contains(expected), "{line}");
    let json = LiveView::start(
        home.command(&["prefix", "live", "--since", "1h", "--json"]),
        "",
    );
    let document: Value = serde_json::from_str(&json.line()).unwrap();
    json.interrupt();
    assert_eq!(document["agent"], Value::Null);
    assert_eq!(document["client"].as_str().unwrap().len(), 32, "{document}");
    assert_eq!(document["cause"], "model-switched");
    let conversation = document["session"].as_str().unwrap();
    assert!(line.contains(conversation), "{line}");
    let why = home.run(&["why", conversation]).ok().stdout;
    assert!(why.contains("another model"), "{why}");
}

#[test]
fn prefix_live_ends_quietly_on_a_closed_pipe() {
    let home = Home::new();
    let mut command = home.command(&["prefix", "live"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let err = lines(child.stderr.take().unwrap());
    for _ in 0..2 {
        err.recv_timeout(TIMEOUT).unwrap();
    }
    drop(child.stdout.take());
    let deadline = Instant::now() + TIMEOUT;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < deadline, "it goes on without a reader");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert_eq!(status.code(), Some(141));
    assert_eq!(err.iter().collect::<Vec<_>>(), [] as [&str; 0]);
}
