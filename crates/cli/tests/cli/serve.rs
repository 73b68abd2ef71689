//! `cachalot serve` in front of a simulator.
#![cfg(unix)]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Stdio};

use crate::provider::Provider;
use crate::support::Home;

/// A running gateway.
struct Gateway {
    process: Child,
    address: String,
}

impl Gateway {
    fn start(home: &Home, provider: &Provider) -> Self {
        let upstream = format!("openai={}/v1", provider.url());
        let mut process = home
            .command(&["serve", "--listen", "127.0.0.1:0", "--upstream", &upstream])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.as_mut().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.unwrap_or_else(|| panic!("{line}")).to_owned();
        Self { process, address }
    }

    /// Sends a chat request and returns the whole response.
    fn ask(&self) -> String {
        let body = r#"{"model": "gpt-4o-mini", "temperature": 0, "messages": [{"role": "user", "content": "hello"}]}"#;
        let mut stream = TcpStream::connect(&self.address).unwrap();
        write!(
            stream,
            "POST /v1/chat/completions HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer x\r\nx-cachalot-tags: trial\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
            self.address,
            body.len()
        )
        .unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        response
    }

    /// Interrupts the gateway and returns what it printed on stderr.
    fn stop(mut self) -> String {
        let process = rustix::process::Pid::from_child(&self.process);
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        let mut printed = String::new();
        self.process
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut printed)
            .unwrap();
        assert!(self.process.wait().unwrap().success(), "{printed}");
        printed
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn second_request_is_a_hit_also_after_a_restart() {
    let (home, provider) = (Home::new(), Provider::built_in());
    let gateway = Gateway::start(&home, &provider);
    let first = gateway.ask();
    assert!(
        first.starts_with("HTTP/1.1 200") && first.contains("fwd=uri-miss"),
        "{first}"
    );
    // A request that arrives before the answer is stored joins the run.
    let hits = (0..100).find(|_| {
        std::thread::sleep(std::time::Duration::from_millis(20));
        gateway.ask().contains("cachalot; hit; ttl=")
    });
    assert!(hits.is_some());
    let printed = gateway.stop();
    assert!(printed.contains("answered from the cache"), "{printed}");
    assert_eq!(provider.received().len(), 1);
    let gateway = Gateway::start(&home, &provider);
    let hit = gateway.ask();
    assert!(hit.contains("cachalot; hit; ttl="), "{hit}");
    let body = |response: &str| response.split_once("\r\n\r\n").unwrap().1.to_owned();
    assert_eq!(body(&hit), body(&first));
    gateway.stop();
    let key = hit
        .split("key=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    let tagged = home.run(&["cache", "ls", "--tag", "trial"]).ok();
    assert!(tagged.stdout.contains(&key), "{tagged}");
    let why = home.run(&["why", &key]).ok();
    assert!(why.stdout.contains("openai/chat/gpt-4o-mini/"), "{why}");
}

#[test]
fn malformed_options_are_named() {
    let home = Home::new();
    for (arguments, part) in [
        (["--upstream", "openai"], "expected NAME=URL"),
        (
            ["--upstream", "a=ftp://a.example"],
            "expected an http:// or https:// URL",
        ),
        (["--listen", "4114"], "invalid"),
    ] {
        let ran = home.run(&["serve", arguments[0], arguments[1]]);
        assert!(ran.code != Some(0) && ran.stderr.contains(part), "{ran}");
    }
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let ran = home.run(&["serve", "--listen", &address]);
    assert!(
        ran.stderr.contains("--listen") && ran.stderr.contains(&address),
        "{ran}"
    );
}
