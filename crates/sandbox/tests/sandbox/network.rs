//! What can be reached.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use cachalot_sandbox::Network;

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
    fixture.policy.unix_sockets = true;
    fixture.print(line);
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
