//! What can be read and written.

use std::fs;

use crate::fixture::{Fixture, SECRET};

#[test]
fn the_workspace_and_the_temporary_directory_can_be_written() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fixture.print(
        "echo new >victim && mkdir -p build/deep && mv src/main.c build && echo t >$TMPDIR/t",
    );
    assert_eq!(fixture.read("work/victim"), "new\n");
    assert!(fixture.path("work/build/main.c").exists());
    assert_eq!(fixture.read("tmp/t"), "t\n");
}

#[test]
fn nothing_else_can_be_written() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    for place in [
        "$OUTSIDE/keep",
        "$OUTSIDE/new",
        "$HOME/new",
        "../new",
        "/etc/spelling-test",
        "/usr/spelling-test",
    ] {
        let error = fixture.fail(&format!("echo x >{place}"));
        assert!(
            error.contains("Read-only file system")
                || error.contains("ermission denied")
                || error.contains("nonexistent"),
            "{place}: {error}"
        );
    }
    assert_eq!(fixture.read("outside/keep"), "keep");
    assert!(!fixture.path("home/new").exists());
    assert!(!fixture.path("new").exists());
}

#[test]
fn read_only_files_stay_as_they_are() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let config = fixture.read("work/.git/config");
    for line in [
        "echo x >a.yaml",
        "echo x >>AGENTS.md",
        "rm -f a.yaml",
        "mv victim a.yaml",
        "mv a.yaml b.yaml",
        "ln a.yaml other",
        "git config user.name x",
        "echo x >.git/hooks/pre-commit",
        "mv .git g2",
        "mv .git/hooks .git/h2",
        "rm -rf .git",
        "mv skills s2",
        "echo x >skills/s/SKILL.md",
        "mkdir skills/t",
        "echo x >CLAUDE.md",
        "mkdir .claude/x",
        "rmdir .claude",
        "python3 -c 'import os; os.rename(\".git\", \"g\")'",
    ] {
        fixture.fail(line);
    }
    assert_eq!(fixture.read("work/a.yaml"), "agent");
    assert_eq!(fixture.read("work/AGENTS.md"), "instructions");
    assert_eq!(fixture.read("work/.git/config"), config);
    assert_eq!(fixture.read("work/skills/s/SKILL.md"), "skill");
    assert!(!fixture.path("work/.git/hooks/pre-commit").exists());
    assert!(!fixture.path("work/CLAUDE.md").exists());
    assert!(!fixture.path("work/.claude").exists());
}

#[test]
fn a_repository_can_be_used() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let identity = "git -c user.name=a -c user.email=a@example.org";
    fixture.print(&format!(
        "git add src && {identity} commit -qm first && git status --short"
    ));
    fixture.print(&format!(
        "echo 'int x;' >>src/main.c && git diff HEAD && {identity} commit -qam second"
    ));
    assert_eq!(fixture.print("git log --format=%s"), "second\nfirst\n");
    // Nothing of the sandbox is left for other programs.
    let fsck = std::process::Command::new("git")
        .args(["fsck", "--strict"])
        .current_dir(fixture.path("work"))
        .output()
        .unwrap();
    assert!(
        fsck.status.success(),
        "{}",
        String::from_utf8_lossy(&fsck.stderr)
    );
}

#[test]
fn denied_files_cannot_be_read() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    for line in [
        "cat .env",
        "cat .e*",
        "cp .env other && cat other",
        "ln .env other && cat other",
        "tar c . | strings",
        "grep -r SECRET . $HOME",
        "cat $HOME/.ssh/id_test",
        "cat /proc/self/root$HOME/.ssh/id_test",
        "mv .env other; cat other",
    ] {
        let output = fixture.run(line);
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(!printed.contains(SECRET), "{line}: {printed}");
    }
    assert_eq!(fixture.read("work/.env"), SECRET);
}

#[test]
fn a_file_with_a_second_name_is_not_protected_silently() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fs::hard_link(fixture.path("work/a.yaml"), fixture.path("work/other")).unwrap();
    let error = fixture.fail("echo x >other");
    assert!(error.contains("work/other is the same file"), "{error}");
    assert_eq!(fixture.read("work/a.yaml"), "agent");
}

#[test]
fn a_protected_link_stays_and_can_be_followed() {
    let Some(mut fixture) = Fixture::new() else {
        return;
    };
    let link = fixture.path("work/LINK.md");
    std::os::unix::fs::symlink("AGENTS.md", &link).unwrap();
    fixture.policy.read_only[2].path = link.clone();
    assert_eq!(fixture.print("cat LINK.md"), "instructions");
    fixture.fail("rm LINK.md");
    fixture.fail("ln -sf victim LINK.md");
    fixture.fail("echo x >LINK.md");
    assert_eq!(fs::read_link(&link).unwrap().to_str(), Some("AGENTS.md"));
    assert_eq!(fixture.read("work/AGENTS.md"), "instructions");
}

#[test]
fn devices_are_few() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let names = fixture.print(
        "ls /dev && echo x >/dev/null && head -c 8 /dev/urandom | wc -c && echo y >/dev/shm/y",
    );
    let names: Vec<_> = names.lines().collect();
    let expected = [
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout",
        "urandom", "zero", "8",
    ];
    assert_eq!(names, expected);
}

#[test]
fn settings_of_the_kernel_cannot_be_changed() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fixture.fail("cat /proc/sys/kernel/core_pattern >/proc/sys/kernel/core_pattern");
    fixture.fail("echo 0 >/sys/kernel/mm/ksm/run");
}

#[test]
fn rights_cannot_be_gained() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    let status = fixture.print("cat /proc/self/status");
    let value = |name: &str| {
        status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap()
            .trim()
            .to_owned()
    };
    for name in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(value(name), "0000000000000000", "{name}");
    }
    assert_eq!(value("NoNewPrivs:"), "1");
    assert_eq!(value("Seccomp:"), "2");
    fixture.fail("unshare -U true");
    fixture.fail("mount -t tmpfs none src");
    fixture.fail("umount a.yaml");
}

#[test]
fn the_attempts_of_the_doctor_are_prevented() {
    if !crate::fixture::is_available() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().canonicalize().unwrap();
    let attempts = cachalot_sandbox::attempt_all(crate::fixture::helper(), &folder).unwrap();
    assert_eq!(attempts.len(), 6);
    assert!(
        attempts.iter().all(|attempt| attempt.is_prevented),
        "{attempts:?}"
    );
    // Without a sandbox, they succeed.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = port.local_addr().unwrap().to_string();
    fs::write(folder.join("work/address"), address).unwrap();
    fs::remove_file(folder.join("work/socket")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(folder.join("work/socket")).unwrap();
    let mut helper = std::process::Command::new(crate::fixture::helper());
    let output = helper
        .arg("sandbox-attempts")
        .arg(&folder)
        .output()
        .unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
}

#[test]
fn a_second_name_elsewhere_or_of_a_protected_file_is_none_to_change() {
    let Some(fixture) = Fixture::new() else {
        return;
    };
    fs::hard_link(fixture.path("work/a.yaml"), fixture.path("outside/other")).unwrap();
    fs::hard_link(
        fixture.path("work/AGENTS.md"),
        fixture.path("work/skills/AGENTS.md"),
    )
    .unwrap();
    fixture.print("true");
    fixture.fail("echo x >skills/AGENTS.md");
}
