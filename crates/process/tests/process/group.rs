//! Process groups.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use cachalot_process::{ProcessGroup, StartError, describe_status, exit_code, shell_command};
use rustix::process::{Pid, test_kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

const SOON: Duration = Duration::from_secs(20);

/// Starts a shell line, and returns its first line of output once it is written.
async fn started(line: &str) -> (ProcessGroup, String) {
    let mut command = shell_command(line);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut group = ProcessGroup::start(command).unwrap();
    let mut lines = BufReader::new(group.child().stdout.take().unwrap()).lines();
    let first = lines.next_line().await.unwrap().unwrap();
    (group, first)
}

/// Waits until a process has ended.
pub(crate) async fn gone(pid: &str) {
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    let deadline = Instant::now() + SOON;
    while test_kill_process(pid).is_ok() && !is_zombie(pid) {
        assert!(Instant::now() < deadline, "{pid:?} is still running");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Returns true for an orphan that nothing has waited for yet: containers may lack a reaping `init`.
fn is_zombie(pid: Pid) -> bool {
    let status = format!("/proc/{}/stat", pid.as_raw_nonzero());
    std::fs::read_to_string(status)
        .is_ok_and(|text| text.rsplit(") ").next().unwrap_or("").starts_with('Z'))
}

#[tokio::test]
async fn dropping_a_group_kills_the_descendants_of_its_program() {
    let (group, child) = started("sleep 60 & echo $!; wait").await;
    assert!(group.is_running());
    drop(group);
    gone(&child).await;
}

#[tokio::test]
async fn descendants_of_an_ended_program_are_killed_on_drop() {
    let (group, child) = started("sleep 60 > /dev/null & echo $!").await;
    let deadline = Instant::now() + SOON;
    while group.is_running() {
        assert!(Instant::now() < deadline);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    drop(group);
    gone(&child).await;
}

#[tokio::test]
async fn program_that_ends_in_its_grace_period_keeps_its_status() {
    let (mut group, child) = started("sleep 60 > /dev/null & echo $!; exit 3").await;
    let (status, is_in_time) = group.end_within(SOON).await;
    assert_eq!(status.unwrap().code(), Some(3));
    assert!(is_in_time);
    gone(&child).await;
}

#[tokio::test]
async fn program_is_killed_after_its_grace_period() {
    let (mut group, _) = started("echo ready; exec sleep 60").await;
    let (status, is_in_time) = group.end_within(Duration::from_millis(20)).await;
    assert_eq!(exit_code(status.unwrap()), -9);
    assert_eq!(describe_status(status.unwrap()), "ended by signal 9");
    assert!(!is_in_time && !group.is_running());
}

#[tokio::test]
async fn missing_directory_and_missing_program_have_different_errors() {
    let mut command = Command::new("/bin/sh");
    command.current_dir("/does/not/exist");
    let error = ProcessGroup::start(command).unwrap_err();
    assert!(
        matches!(&error, StartError::NoDirectory(path) if path == Path::new("/does/not/exist"))
    );
    let error = ProcessGroup::start(Command::new("/bin/no-such-program")).unwrap_err();
    assert!(matches!(&error, StartError::NoProgram(name) if name == "/bin/no-such-program"));
    let error = ProcessGroup::start(Command::new("/dev/null")).unwrap_err();
    assert!(matches!(error, StartError::Refused(_)), "{error}");
}
