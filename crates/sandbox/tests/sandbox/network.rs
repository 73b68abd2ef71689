//! What can be reached.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::process::Stdio;

use cachalot_sandbox::{Network, receive_listener};

use crate::fixture::Fixture;

fn connect(port: u16) -> String {
    format!("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'")
}

#[test]
fn only_what_the_program_starts_can_be_reached() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let error = fixture.fail(&connect(port));
    assert!(error.contains("ConnectionRefusedError"), "{error}");
    fixture.print(
        "python3 -c 'import socket; s = socket.create_server((\"127.0.0.1\", 0)); socket.create_connection(s.getsockname(), 5)'",
    );
    fixture.policy.network = Network::All;
    fixture.print(&connect(port));
}

/// A program reaches the caller on the address that its variables name, until it ends.
#[test]
fn a_proxy_of_the_caller_can_be_reached() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let path = fixture.path("proxy");
    let proxies = UnixListener::bind(&path).unwrap();
    fixture.policy.network = Network::Proxy(path);
    let code = r#"
import os, socket, urllib.parse
names = ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"]
found = {os.environ[name] for name in names + [name.lower() for name in names]}
proxy = urllib.parse.urlsplit(found.pop())
assert not found and "localhost" in os.environ["NO_PROXY"]
stream = socket.create_connection((proxy.hostname, proxy.port), 60)
stream.sendall(b"question")
stream.shutdown(socket.SHUT_WR)
print(stream.recv(100).decode())
"#;
    std::fs::write(fixture.path("work/ask.py"), code).unwrap();
    let child = fixture
        .command("python3 ask.py")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (mut sandbox, _) = proxies.accept().unwrap();
    let listener = receive_listener(&sandbox).unwrap();
    let (mut program, _) = listener.accept().unwrap();
    let mut question = String::new();
    program.read_to_string(&mut question).unwrap();
    assert_eq!(question, "question");
    program.write_all(b"answer").unwrap();
    drop(program);
    let output = child.wait_with_output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "answer\n",
        "{errors}"
    );
    // The end of the sandbox.
    assert_eq!(sandbox.read(&mut [0]).unwrap(), 0);
}

#[test]
fn without_its_proxy_a_program_does_not_run() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.policy.network = Network::Proxy(fixture.path("none"));
    let error = fixture.fail("touch made");
    assert!(error.contains("the proxy"), "{error}");
    assert!(!fixture.path("work/made").exists());
}

#[test]
fn sockets_of_other_programs_cannot_be_reached() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let path = fixture.path("work/socket");
    let _listener = UnixListener::bind(&path).unwrap();
    let line = "python3 -c 'import socket; socket.socket(socket.AF_UNIX).connect(\"socket\")'";
    let error = fixture.fail(line);
    assert!(error.contains("PermissionError"), "{error}");
    fixture.print("python3 -c 'import socket; a, b = socket.socketpair(); a.send(b\"x\"); assert b.recv(1) == b\"x\"'");
    // One of a pair of these could be connected to any other.
    let datagram =
        "python3 -c 'import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)'";
    assert!(fixture.fail(datagram).contains("PermissionError"));
    fixture.policy.unix_sockets = true;
    fixture.print(line);
    fixture.print(datagram);
}

#[test]
fn other_processes_are_not_there() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let processes = fixture.print("ls -d /proc/[0-9]* | wc -l");
    let processes: u32 = processes.trim().parse().unwrap();
    // The first one, the shell, `ls` and `wc`.
    assert!(processes <= 4, "{processes}");
    fixture.fail(&format!("kill -0 {}", std::process::id()));
    // The first one has files open that the program has not.
    fixture.fail("cat /proc/1/fd/3");
    fixture.fail("readlink /proc/1/fd/3");
}
