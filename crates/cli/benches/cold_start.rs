//! B8: how long the command takes from nothing, against an interpreter that does nothing, in the
//! same run. `cargo bench -p cachalot`.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const AGENT: &str = "name: cold\nnodes:\n  - name: work\n    uses: cache.wrap\n    with:\n      action: json.stringify\n      args: {data: {a: 1, b: [1, 2, 3]}}\n    output: answer\n";

const ROUNDS: usize = 101;

fn time(command: &mut Command) -> Duration {
    let begun = Instant::now();
    let status = command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .stdin(Stdio::null())
        .status();
    let took = begun.elapsed();
    assert!(status.unwrap().success(), "{command:?}");
    took
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

fn main() {
    let python = Path::new("/usr/bin/python3");
    if !python.exists() {
        println!("B8 skipped: there is no /usr/bin/python3 to compare with");
        return;
    }
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("agent.yaml"), AGENT).unwrap();
    let cachalot = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cachalot"));
        command
            .args(arguments)
            .current_dir(home.path())
            .env("XDG_DATA_HOME", home.path());
        command
    };
    // The entry that the timed runs hit.
    time(&mut cachalot(&["run", "agent.yaml"]));
    let (mut reference, mut version, mut hit) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        reference.push(time(Command::new(python).args(["-c", "pass"])));
        version.push(time(&mut cachalot(&["--version"])));
        hit.push(time(&mut cachalot(&["run", "agent.yaml"])));
    }
    let reference = median(reference);
    println!("B8 reference `python3 -c pass`: {reference:.2?} (median of {ROUNDS}, interleaved)");
    for (name, goal, times) in [("--version", 1.0, version), ("run, one hit", 1.5, hit)] {
        let took = median(times);
        let ratio = took.as_secs_f64() / reference.as_secs_f64();
        println!("B8 cachalot {name}: {took:.2?}, {ratio:.2}x (goal {goal}x)");
    }
}
