//! The limited sandbox, of machines without user namespaces.

use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use cachalot_sandbox::{Mechanism, Network};

use crate::fixture::Fixture;

/// A workspace in a limited sandbox; `None`, with a notice, on a machine without Landlock.
fn limited() -> Option<Fixture> {
    let mut fixture = Fixture::make();
    fixture.policy.mechanism = Mechanism::Landlock;
    let output = fixture.run(":");
    if output.status.success() {
        return Some(fixture);
    }
    // By the kernel's own answer (`landlock_create_ruleset`, which gives its version): a defect of ours would skip the
    // tests otherwise.
    let code = "import ctypes; print(ctypes.CDLL(None).syscall(444, 0, 0, 1))";
    let version = Command::new("python3").args(["-c", code]).output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let version: Option<i64> = version.ok().and_then(|text| text.trim().parse().ok());
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(version.is_none_or(|version| version < 3), "{errors}");
    eprintln!("skipped: this machine has no Landlock");
    None
}

#[test]
fn files_are_written_in_the_workspace_only() {
    let Some(fixture) = limited() else {
        return;
    };
    fixture.print(
        "echo new > made && mkdir sub && mv made sub && echo more >> victim && : > /dev/null",
    );
    fixture.print("echo x > \"$TMPDIR/made\"");
    for line in [
        "touch \"$OUTSIDE/made\"",
        "echo x >> \"$OUTSIDE/keep\"",
        ": > \"$OUTSIDE/keep\"",
        "rm \"$OUTSIDE/keep\"",
        "mv victim \"$OUTSIDE\"",
        "ln \"$OUTSIDE/keep\" linked",
        "mkdir \"$OUTSIDE/made\"",
        "python3 -c 'import os; os.truncate(os.environ[\"OUTSIDE\"] + \"/keep\", 0)'",
        "echo x > /tmp/of-the-sandbox-tests",
    ] {
        fixture.fail(line);
        assert_eq!(fixture.read("outside/keep"), "keep", "{line}");
        assert!(!fixture.path("outside/made").exists(), "{line}");
    }
    // What it does not do.
    assert!(!fixture.policy.mechanism.guards_files());
    fixture.print("echo x >> AGENTS.md; cat .env");
}

#[test]
fn there_is_no_network_and_no_right_to_gain() {
    let Some(mut fixture) = limited() else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connect =
        format!("python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", {port}), 5)'");
    for line in [
        &connect,
        "python3 -c 'import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)'",
        "python3 -c 'import socket; socket.socket(socket.AF_UNIX)'",
        "python3 -c 'import socket; socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)'",
        "unshare --user true",
    ] {
        fixture.fail(line);
    }
    fixture.print("grep -q 'NoNewPrivs:.1' /proc/self/status");
    fixture.policy.network = Network::All;
    fixture.print(&connect);
}

#[test]
fn the_process_ends_as_the_program_does() {
    let Some(fixture) = limited() else {
        return;
    };
    assert_eq!(fixture.run("exit 7").status.code(), Some(7));
    assert_eq!(fixture.run("kill -TERM $$").status.signal(), Some(15));
}
