//! `cachalot mcp -- COMMAND`: how the proxy starts and ends, with programs of the system as servers.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use crate::support::{Home, wait_until};

/// A running proxy in front of a shell script. Nothing of it is left at the end of a test.
struct Proxy {
    child: Child,
    /// The process of the server.
    server: Pid,
}

impl Proxy {
    /// Starts a proxy. The script has its own process ID in `$$`.
    fn start(home: &Home, script: &str) -> Self {
        let script = format!("echo $$ > pid.new; mv pid.new pid; {script}");
        let child = home
            .command(&["mcp", "--quiet", "--", "sh", "-c", &script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let pid = home.join("pid");
        wait_until(|| pid.exists());
        let server = std::fs::read_to_string(pid)
            .unwrap()
            .trim()
            .parse()
            .unwrap();
        Self {
            child,
            server: Pid::from_raw(server).unwrap(),
        }
    }

    fn send(&mut self, text: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(format!("{text}\n").as_bytes()).unwrap();
    }

    fn server_is_gone(&self) -> bool {
        test_kill_process(self.server).is_err()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if !self.server_is_gone() {
            let _ = kill_process(self.server, Signal::KILL);
        }
    }
}

#[test]
fn the_end_of_the_client_ends_the_session() {
    let home = Home::new();
    let mut proxy = Proxy::start(&home, "exec cat");
    drop(proxy.child.stdin.take());
    assert!(proxy.child.wait().unwrap().success());
    // The system may still have to collect its status.
    wait_until(|| proxy.server_is_gone());
}

#[test]
fn requests_are_answered_after_the_client_has_closed_its_end() {
    let home = Home::new();
    // Longer than a server has to end by itself.
    let script = r#"read line; sleep 3; echo "$line" | sed 's/"method.*/"result":{}}/'; exec cat"#;
    let mut proxy = Proxy::start(&home, script);
    proxy.send(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call"}"#);
    drop(proxy.child.stdin.take());
    let mut line = String::new();
    BufReader::new(proxy.child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert_eq!(line.trim_end(), r#"{"jsonrpc":"2.0","id":"a","result":{}}"#);
    assert!(proxy.child.wait().unwrap().success());
    wait_until(|| proxy.server_is_gone());
}

#[test]
fn a_second_signal_kills_the_server() {
    let home = Home::new();
    let mut proxy = Proxy::start(&home, "trap '' TERM; while :; do sleep 100; done");
    // Two of a kind may arrive as one.
    for signal in [Signal::TERM, Signal::INT] {
        kill_process(Pid::from_child(&proxy.child), signal).unwrap();
    }
    assert_eq!(proxy.child.wait().unwrap().code(), Some(130));
    wait_until(|| proxy.server_is_gone());
}

#[test]
fn a_signal_ends_the_session_and_a_server_that_does_not_want_to_end() {
    let home = Home::new();
    let mut proxy = Proxy::start(&home, "trap '' TERM; while :; do sleep 100; done");
    kill_process(Pid::from_child(&proxy.child), Signal::TERM).unwrap();
    assert!(proxy.child.wait().unwrap().success());
    // The system may still have to collect its status.
    wait_until(|| proxy.server_is_gone());
}

#[test]
fn a_killed_proxy_leaves_no_server_behind() {
    let home = Home::new();
    let mut proxy = Proxy::start(&home, "exec cat");
    proxy.child.kill().unwrap();
    proxy.child.wait().unwrap();
    wait_until(|| proxy.server_is_gone());
}

#[test]
fn a_killed_proxy_leaves_no_server_behind_that_does_not_want_to_end() {
    let home = Home::new();
    let script = "trap '' TERM HUP; sleep 1000 & echo $! > child; while :; do sleep 100; done";
    let mut proxy = Proxy::start(&home, script);
    wait_until(|| std::fs::read(home.join("child")).is_ok_and(|pid| pid.ends_with(b"\n")));
    let child = std::fs::read_to_string(home.join("child")).unwrap();
    let child = Pid::from_raw(child.trim().parse().unwrap()).unwrap();
    proxy.child.kill().unwrap();
    proxy.child.wait().unwrap();
    wait_until(|| proxy.server_is_gone() && test_kill_process(child).is_err());
}

#[test]
fn a_killed_server_fails_its_calls() {
    let home = Home::new();
    let mut proxy = Proxy::start(&home, "cat > got; exec sleep 100");
    proxy.send(r#"{"jsonrpc":"2.0","id":"a","method":"tools/call"}"#);
    wait_until(|| std::fs::read(home.join("got")).is_ok_and(|got| !got.is_empty()));
    kill_process(proxy.server, Signal::KILL).unwrap();
    let output = proxy.child.stdout.take().unwrap();
    let mut line = String::new();
    BufReader::new(output).read_line(&mut line).unwrap();
    for part in [
        r#""id":"a""#,
        "ended by signal 9",
        "the effect of the call is unknown",
    ] {
        assert!(line.contains(part), "{line}");
    }
}

#[test]
fn what_cannot_be_started_is_named() {
    let home = Home::new();
    let output = home.run(&["mcp"]).fails(2);
    assert!(
        output.stderr.contains("no MCP server is named"),
        "{}",
        output.stderr
    );
    let output = home.run(&["mcp", "--", "no-such-program"]).fails(1);
    assert!(
        output.stderr.contains("no program `no-such-program`"),
        "{}",
        output.stderr
    );
    let output = home.run(&["mcp", "--url", "ftp://a.example"]).fails(2);
    assert!(output.stderr.contains("--url"), "{}", output.stderr);
    let output = home.run(&["mcp", "--servers", "none.json"]).fails(2);
    assert!(output.stderr.contains("none.json"), "{}", output.stderr);
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let output = home
        .run(&["mcp", "--listen", &address, "--", "cat"])
        .fails(1);
    assert!(
        output
            .stderr
            .contains(&format!("cannot listen on {address}")),
        "{}",
        output.stderr
    );
}

#[test]
fn clients_address_the_listener_by_permitted_names() {
    let home = Home::new();
    let listened = [
        "mcp",
        "--listen",
        "127.0.0.1:0",
        "--allow-host",
        "Proxy.example",
        "--",
        "cat",
    ];
    let mut child = home
        .command(&listened)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let url = line.trim().strip_prefix("listening on http://").unwrap();
    let address = url.split_once('/').unwrap().0;
    let status = |host: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        write!(stream, "DELETE /mcp HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        line
    };
    for host in ["proxy.example", "proxy.example:1", "localhost"] {
        let line = status(host);
        assert!(!line.contains(" 403 "), "{host}: {line}");
    }
    assert!(status("other.example").contains(" 403 "));
    child.kill().unwrap();
    child.wait().unwrap();
    let output = home
        .run(&["mcp", "--allow-host", "a", "--", "cat"])
        .fails(2);
    assert!(output.stderr.contains("--listen"), "{}", output.stderr);
}

#[test]
fn a_url_that_cannot_be_reached_is_an_error_of_the_request() {
    let home = Home::new();
    // Nothing listens on a port that was just free.
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let mut command: Command = home.command(&["mcp", "--quiet", "--url", &url]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"initialize\"}\n")
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(
        line.contains("\"id\":7") && line.contains("cannot be reached"),
        "{line}"
    );
    drop(input);
    assert!(child.wait().unwrap().success());
}
