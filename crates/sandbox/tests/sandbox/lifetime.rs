//! How a sandbox ends.

use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::Stdio;
use std::time::{Duration, Instant};

use crate::fixture::{Fixture, helper};

/// Waits until a state is reached.
pub(crate) fn wait_until(state: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !state() {
        assert!(Instant::now() < end, "it is not reached");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_helper_ends_as_the_program() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    assert_eq!(fixture.run("exit 7").status.code(), Some(7));
    assert_eq!(fixture.run("kill -TERM $$").status.signal(), Some(15));
    let mut command = fixture.policy.command(helper(), "/no-such-program");
    let output = command.current_dir("/").output().unwrap();
    assert_eq!(output.status.code(), Some(126));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(
        error.contains("no-such-program cannot be run: No such file"),
        "{error}"
    );
}

#[test]
fn a_sandbox_that_cannot_be_made_runs_nothing() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    fixture.policy.write.push(fixture.path("absent"));
    let error = fixture.fail("echo x >victim");
    assert!(
        error.contains("cannot be made") && error.contains("absent"),
        "{error}"
    );
    assert_eq!(fixture.read("work/victim"), "victim");
}

#[test]
fn what_the_program_leaves_goes_on_until_its_group_is_killed() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut command = fixture.command("(sleep 0.2; echo late >late; exec sleep 1000) & echo early");
    let mut child = command
        .process_group(0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    assert!(child.wait().unwrap().success());
    wait_until(|| fixture.path("work/late").exists());
    let mut kill = std::process::Command::new("kill");
    kill.args(["-KILL", "--", &format!("-{}", child.id())]);
    assert!(kill.status().unwrap().success());
    // It had the pipe until it ended.
    let mut printed = String::new();
    child
        .stdout
        .take()
        .unwrap()
        .read_to_string(&mut printed)
        .unwrap();
    assert_eq!(printed, "early\n");
}

#[test]
fn a_removed_mount_ends_the_command() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut child = fixture
        .command("echo started >started; exec sleep 1000")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_until(|| fixture.path("work/started").exists());
    std::fs::write(fixture.path("new"), "from the editor").unwrap();
    std::fs::rename(fixture.path("new"), fixture.path("work/AGENTS.md")).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(126));
    let mut error = String::new();
    child
        .stderr
        .take()
        .unwrap()
        .read_to_string(&mut error)
        .unwrap();
    assert!(
        error.contains("another program has replaced or removed"),
        "{error}"
    );
    assert_eq!(fixture.read("work/AGENTS.md"), "from the editor");
}
