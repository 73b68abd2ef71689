//! Programs that run to their end.

use std::time::Duration;

use cachalot_process::{
    Ended, Error, Lingering, Output, Run, Stream, Streams, describe_status, shell_command,
};

use crate::group::gone;
use crate::program_file::make_executable;

const LONG: Duration = Duration::from_secs(60);

fn shell(line: &str, lingering: Lingering) -> Run {
    Run {
        command: shell_command(line),
        input: None,
        streams: Streams::Separate,
        output_limit: Some(1 << 20),
        timeout: Some(LONG),
        lingering,
    }
}

async fn ran(run: Run) -> (Result<Ended, Error>, String, String) {
    let mut output = Output::default();
    let ended = run.run(|stream, bytes| output.push(stream, bytes)).await;
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (ended, text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn input_and_both_outputs_of_any_size_are_passed() {
    let input = "line\n".repeat(100_000);
    let run = Run {
        input: Some(input.clone().into_bytes()),
        ..shell("tee /dev/stderr", Lingering::Wait)
    };
    let (ended, stdout, stderr) = ran(run).await;
    assert!(ended.unwrap().status.success());
    assert!(stdout == input && stderr == input);
}

#[tokio::test]
async fn program_may_ignore_its_input() {
    let run = Run {
        input: Some(vec![b'x'; 1 << 20]),
        ..shell("exec 0<&-; echo done; exit 4", Lingering::Wait)
    };
    let (ended, stdout, _) = ran(run).await;
    assert_eq!(describe_status(ended.unwrap().status), "exit status 4");
    assert_eq!(stdout, "done\n");
}

#[tokio::test]
async fn merged_outputs_keep_the_order_of_writing() {
    let run = Run {
        streams: Streams::Merged,
        ..shell("echo 1; echo 2 >&2; echo 3; echo 4 >&2", Lingering::Leave)
    };
    let (ended, stdout, stderr) = ran(run).await;
    assert!(!ended.unwrap().left_running);
    assert_eq!((stdout.as_str(), stderr.as_str()), ("1\n2\n3\n4\n", ""));
}

#[tokio::test]
async fn stderr_is_discarded_where_only_stdout_is_wanted() {
    let run = Run {
        streams: Streams::StdoutOnly,
        output_limit: Some(4),
        ..shell("echo much of no interest >&2; echo yes", Lingering::Kill)
    };
    let (ended, stdout, stderr) = ran(run).await;
    assert!(ended.unwrap().status.success());
    assert_eq!((stdout.as_str(), stderr.as_str()), ("yes\n", ""));
}

#[tokio::test]
async fn output_above_the_limit_ends_the_program() {
    for (line, at) in [
        ("printf 12345", None),
        ("printf 123456; sleep 60", Some(Stream::Stdout)),
        ("printf 123456 >&2; sleep 60", Some(Stream::Stderr)),
    ] {
        let run = Run {
            output_limit: Some(5),
            ..shell(line, Lingering::Wait)
        };
        let (ended, stdout, stderr) = ran(run).await;
        match (ended, at) {
            (Ok(_), None) => assert_eq!(stdout, "12345"),
            (Err(Error::TooMuchOutput { stream, limit: 5 }), Some(at)) => {
                assert_eq!(stream, at);
                assert_eq!(stdout + &stderr, "123456");
            }
            (ended, _) => panic!("{line}: {ended:?}"),
        }
    }
}

/// Runs a line until it times out, and returns the number of the process that it prints. A timeout that was too short
/// for that on this machine is doubled.
async fn timed_out(line: &str, lingering: Lingering) -> String {
    let mut timeout = Duration::from_millis(250);
    loop {
        let run = Run {
            timeout: Some(timeout),
            ..shell(line, lingering)
        };
        let (ended, child, _) = ran(run).await;
        assert!(matches!(ended, Err(Error::TimedOut(_))), "{ended:?}");
        if !child.is_empty() {
            return child;
        }
        timeout *= 2;
    }
}

#[tokio::test]
async fn timeout_kills_the_group_and_keeps_the_output() {
    for lingering in [Lingering::Wait, Lingering::Kill, Lingering::Leave] {
        let child = timed_out("sleep 60 & echo $!; wait", lingering).await;
        gone(&child).await;
    }
}

#[tokio::test]
async fn dropping_a_run_kills_the_group() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let line = format!(
        "sleep 60 & echo $! > {0}.part; mv {0}.part {0}; wait",
        file.display()
    );
    let running = tokio::spawn(ran(shell(&line, Lingering::Leave)));
    let child = loop {
        match std::fs::read_to_string(&file) {
            Ok(child) => break child,
            Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
        }
    };
    running.abort();
    gone(&child).await;
}

/// A process that outlives its parent with an output open, and ends only if it is killed or after a minute.
const LEAVES_A_PROCESS: &str = "sleep 60 & echo $!";

#[tokio::test]
async fn lingering_wait_waits_for_the_process() {
    let line = "echo early; { sleep 0.3; echo late; } &";
    let (ended, stdout, _) = ran(shell(line, Lingering::Wait)).await;
    assert!(!ended.unwrap().left_running);
    assert_eq!(stdout, "early\nlate\n");

    let child = timed_out(LEAVES_A_PROCESS, Lingering::Wait).await;
    gone(&child).await;
}

#[tokio::test]
async fn lingering_kill_kills_the_process() {
    let (ended, child, _) = ran(shell(LEAVES_A_PROCESS, Lingering::Kill)).await;
    let ended = ended.unwrap();
    assert!(ended.status.success() && !ended.left_running);
    gone(&child).await;
}

#[tokio::test]
async fn lingering_leave_keeps_the_process_running() {
    let (ended, child, _) = ran(shell(LEAVES_A_PROCESS, Lingering::Leave)).await;
    let ended = ended.unwrap();
    assert!(ended.status.success() && ended.left_running);
    let child = child.trim().parse().unwrap();
    let child = rustix::process::Pid::from_raw(child).unwrap();
    rustix::process::test_kill_process(child).unwrap();
    rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
}

#[tokio::test]
async fn a_process_that_closed_both_outputs_is_neither_waited_for_nor_killed() {
    for lingering in [Lingering::Wait, Lingering::Kill, Lingering::Leave] {
        let line = "sleep 60 > /dev/null 2>&1 & echo $!";
        let (ended, child, _) = ran(shell(line, lingering)).await;
        let ended = ended.unwrap();
        assert!(ended.status.success() && !ended.left_running);
        let child = child.trim().parse().unwrap();
        let child = rustix::process::Pid::from_raw(child).unwrap();
        rustix::process::kill_process(child, rustix::process::Signal::KILL).unwrap();
    }
}

#[tokio::test]
async fn stopped_run_ends_with_its_whole_group() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("child");
    let line = format!(
        "echo out; sh -c 'echo $$ > {0}.new; mv {0}.new {0}; sleep 60' & wait",
        file.display()
    );
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let started = shell(&line, Lingering::WaitThenKill).start().unwrap();
    let mut output = Output::default();
    let run = started.run_until(
        async {
            let _ = stopped.await;
        },
        |stream, bytes| output.push(stream, bytes),
    );
    let child = async {
        loop {
            if let Ok(id) = std::fs::read_to_string(&file) {
                drop(stop);
                return id;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let (ended, child) = tokio::join!(run, child);
    assert_eq!(describe_status(ended.unwrap().status), "ended by signal 9");
    assert_eq!(output.stdout, b"out\n");
    gone(child.trim()).await;
}

#[tokio::test]
async fn killer_ends_a_run_from_elsewhere_and_is_harmless_afterwards() {
    let started = shell("sleep 60", Lingering::WaitThenKill).start().unwrap();
    let killer = started.killer();
    killer.kill();
    let ended = started.run_until(std::future::pending(), |_, _| {}).await;
    assert_eq!(describe_status(ended.unwrap().status), "ended by signal 9");
    killer.kill();
}

/// A process without an output of the run is killed at its end.
#[tokio::test]
async fn nothing_outlives_a_run_that_waits_and_kills() {
    let line = "sleep 60 > /dev/null 2>&1 & echo $!";
    let (ended, stdout, _) = ran(shell(line, Lingering::WaitThenKill)).await;
    assert!(ended.unwrap().status.success());
    gone(stdout.trim()).await;
}

/// Without [`make_executable`], some of these programs are busy when they are to be run.
#[test]
fn new_programs_can_be_run_while_other_threads_start_processes() {
    let folder = tempfile::tempdir().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let folder = folder.path();
            scope.spawn(move || {
                for number in 0..25 {
                    let program = folder.join(format!("{thread}-{number}"));
                    std::fs::write(&program, "#!/bin/sh\n").unwrap();
                    make_executable(&program);
                    let status = std::process::Command::new(&program).status();
                    assert!(status.unwrap().success());
                }
            });
        }
    });
}
