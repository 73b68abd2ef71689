//! Unit tests of `src/builtin/add_git_status.rs`.

use std::time::Instant;

use super::*;

#[tokio::test]
async fn hanging_git_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let git = directory.path().join("git");
    std::fs::write(&git, "#!/bin/sh\necho $$ > pid\nexec /bin/sleep 6000\n").unwrap();
    cachalot_test_support::program_file::make_executable(&git);
    let path = directory.path().display().to_string();
    let builtin = AddGitStatus {
        environment: Arc::new(BTreeMap::from([("PATH".to_owned(), path)])),
        limit: Duration::from_millis(300),
    };
    let input = Input {
        event: Event::TurnStart,
        cwd: directory.path().to_owned(),
        ..Input::default()
    };
    let before = Instant::now();
    let fault = builtin.handle(&input).await.unwrap_err();
    assert!(fault.message.contains("took longer than 300ms"), "{fault}");
    assert!(before.elapsed() < Duration::from_secs(120));
    let pid = std::fs::read_to_string(directory.path().join("pid")).unwrap_or_default();
    let Ok(pid) = pid.trim().parse() else {
        // On a loaded machine, git is killed before it writes its pid.
        return;
    };
    let pid = rustix::process::Pid::from_raw(pid).unwrap();
    // The process disappears once the runtime has reaped it.
    while rustix::process::test_kill_process(pid).is_ok() {
        assert!(before.elapsed() < Duration::from_secs(120));
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
