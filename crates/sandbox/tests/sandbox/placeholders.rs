//! What stands where a read-only file does not exist.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};

use crate::fixture::Fixture;
use crate::lifetime::wait_until;

fn sleeping(fixture: &Fixture, name: &str) -> Child {
    let line = format!("echo x >{name}; exec sleep 1000");
    let child = fixture
        .command(&line)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until(|| fixture.path(&format!("work/{name}")).exists());
    child
}

/// Ends the program, but not the supervisor.
fn end(child: &mut Child) {
    let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", child.id())).unwrap();
    let init = children.trim();
    let program = fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
    let kill = std::process::Command::new("kill")
        .args(["-KILL", program.trim()])
        .status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().signal(), Some(9));
}

fn exist(fixture: &Fixture) -> bool {
    let exist = ["CLAUDE.md", ".claude", ".git/commondir"]
        .map(|path| fixture.path(&format!("work/{path}")).exists());
    assert!(exist == [true; 3] || exist == [false; 3], "{exist:?}");
    exist[0]
}

#[test]
fn the_last_of_two_commands_removes_them() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut first = sleeping(&fixture, "first");
    assert!(exist(&fixture));
    fixture.print("true");
    assert!(exist(&fixture));
    fixture.fail("echo x >CLAUDE.md");
    let mut second = sleeping(&fixture, "second");
    end(&mut first);
    assert!(exist(&fixture));
    end(&mut second);
    wait_until(|| !exist(&fixture));
}

#[test]
fn those_of_a_killed_supervisor_are_removed_by_the_next() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let mut killed = sleeping(&fixture, "killed");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(exist(&fixture));
    // What was in the sandbox ends with it, in its own time.
    wait_until(|| fixture.run("true").status.success() && !exist(&fixture));
}

#[test]
fn what_another_program_has_written_stays() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let line = "echo x >started; read line <fifo";
    let fifo = fixture.path("work/fifo");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let mut child = fixture.command(line).spawn().unwrap();
    wait_until(|| fixture.path("work/started").exists());
    let path = fixture.path("work/CLAUDE.md");
    let mut permissions = fs::metadata(&path).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut permissions, 0o644);
    fs::set_permissions(&path, permissions).unwrap();
    fs::write(&path, "of the user").unwrap();
    fs::write(&fifo, "end\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(fixture.read("work/CLAUDE.md"), "of the user");
    assert!(!fixture.path("work/.claude").exists());
}

#[test]
fn nested_placeholders_of_two_commands_are_removed() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let inner = fixture.path("work/.claude/skills");
    let mut first = sleeping(&fixture, "first");
    fixture.policy.read_only.insert(
        0,
        cachalot_sandbox::ReadOnly {
            path: inner,
            absent: cachalot_sandbox::Absent::Directory,
        },
    );
    fixture.print("test -d .claude/skills");
    end(&mut first);
    wait_until(|| !exist(&fixture));
}

#[test]
fn a_program_does_not_get_at_the_records() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let records = fixture.path("records");
    fixture.fail(&format!("ls {}", records.display()));
    let mut killed = sleeping(&fixture, "killed");
    killed.kill().unwrap();
    killed.wait().unwrap();
    // As at the end of a chat.
    wait_until(|| {
        cachalot_sandbox::remove_placeholders(&records);
        !exist(&fixture)
    });
}
