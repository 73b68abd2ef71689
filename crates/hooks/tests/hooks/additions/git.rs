//! `add_git_status`: what has changed in the working directory.

use std::process::Command;

use cachalot_hooks::{Event, Output};

use super::after;
#[cfg(unix)]
use crate::program_file::make_executable;
use crate::seam::Fixture;

const NAME: &str = "add_git_status";

fn git(fixture: &Fixture, arguments: &[&str]) {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(fixture.directory.path())
        .env_clear()
        .envs(&fixture.environment)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn repository() -> Fixture {
    let fixture = Fixture::new();
    git(&fixture, &["init", "--quiet", "--initial-branch", "trunk"]);
    fixture
}

fn write(fixture: &Fixture, name: &str) {
    std::fs::write(fixture.directory.path().join(name), "x").unwrap();
}

#[tokio::test]
async fn git_status_adds_branch_and_changes() {
    let fixture = repository();
    write(&fixture, "staged");
    write(&fixture, "new");
    git(&fixture, &["add", "staged"]);
    let status = fixture.context(NAME, &[], Event::TurnStart).await;
    let expected = "<git_status>\n## No commits yet on trunk\nA  staged\n?? new\n</git_status>";
    assert_eq!(status, expected);
}

#[tokio::test]
async fn git_status_is_added_again_only_after_a_change() {
    let fixture = repository();
    let clean = fixture.context(NAME, &[], Event::TurnStart).await;
    let next = after(fixture.input(Event::TurnStart), &clean);
    let output = fixture.run(NAME, &[], &next).await.unwrap();
    assert_eq!(output, Output::default());
    write(&fixture, "new");
    let output = fixture.run(NAME, &[], &next).await.unwrap();
    assert!(output.additional_context.unwrap().contains("?? new"));
}

#[tokio::test]
async fn git_status_is_empty_outside_of_repositories_and_without_git() {
    let fixture = Fixture::new();
    let output = fixture
        .run(NAME, &[], &fixture.input(Event::TurnStart))
        .await;
    assert_eq!(output.unwrap(), Output::default());
    let nowhere = tempfile::tempdir().unwrap();
    let path = nowhere.path().display().to_string();
    let without = Fixture::with_path(Vec::new(), &path);
    std::fs::create_dir(without.directory.path().join(".git")).unwrap();
    let output = without
        .run(NAME, &[], &without.input(Event::TurnStart))
        .await;
    assert_eq!(output.unwrap(), Output::default());
}

#[tokio::test]
async fn long_git_status_is_truncated() {
    let fixture = repository();
    for number in 0..1000 {
        write(&fixture, &format!("file-{number:04}"));
    }
    let status = fixture.context(NAME, &[], Event::TurnStart).await;
    assert!(status.len() < 4096 + 100, "{}", status.len());
    assert!(status.contains("[cut off here: these are the first 4096 bytes]"));
    assert!(status.contains("?? file-0000\n") && !status.contains("file-0999"));
}

/// A repository whose configuration names a program for everything that git runs one for. Each
/// program leaves a file in the directory `ran`.
#[cfg(unix)]
fn hostile() -> Fixture {
    let fixture = repository();
    let at = |name: &str| fixture.directory.path().join(name);
    std::fs::create_dir(at("ran")).unwrap();
    std::fs::create_dir(at("hooks")).unwrap();
    // Filters get the content of a file and have to give one back.
    let leaves = |name: &str| {
        let ends = if name.contains("clean") || name == "included" || name == "attributes" {
            "cat"
        } else {
            "exit 1"
        };
        format!("touch '{}'; {ends}; :", at("ran").join(name).display())
    };
    let set = |key: &str, value: &str| git(&fixture, &["config", key, value]);

    for name in ["clean", "process", "attributes", "included"] {
        write(&fixture, &format!("a.{name}"));
    }
    std::fs::create_dir(at("sub")).unwrap();
    let sub = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["-C", "sub"].iter().chain(arguments).copied().collect();
        git(&fixture, &arguments);
    };
    sub(&["init", "--quiet"]);
    write(&fixture, "sub/a.sub");
    sub(&["add", "a.sub"]);
    let author = ["-c", "user.name=a", "-c", "user.email=a@example"];
    sub(&[&author[..], &["commit", "--quiet", "-m", "x"]].concat());
    sub(&["config", "core.fsmonitor", &leaves("submodule-fsmonitor")]);
    sub(&["config", "filter.f.clean", &leaves("submodule-clean")]);
    std::fs::write(at("sub/.git/info/attributes"), "*.sub filter=f\n").unwrap();

    git(
        &fixture,
        &[
            "add",
            "a.clean",
            "a.process",
            "a.attributes",
            "a.included",
            "sub",
        ],
    );
    git(
        &fixture,
        &[&author[..], &["commit", "--quiet", "-m", "x"]].concat(),
    );

    std::fs::write(
        at(".gitattributes"),
        "*.clean filter=plain diff=d merge=m\n*.process filter=Odd=name.x\n*.included filter=included\n",
    )
    .unwrap();
    std::fs::write(at(".git/info/attributes"), "*.attributes filter=info\n").unwrap();
    set("filter.plain.clean", &leaves("clean"));
    set("filter.plain.required", "true");
    set("filter.Odd=name.x.process", &leaves("process"));
    set("filter.info.clean", &leaves("attributes"));
    let included = format!(
        "[filter \"included\"]\n\tclean = \"{}\"\n",
        leaves("included")
    );
    std::fs::write(at("included.config"), included).unwrap();
    set("include.path", "../included.config");

    for hook in [
        "post-index-change",
        "fsmonitor-watchman",
        "reference-transaction",
    ] {
        let path = at("hooks").join(hook);
        std::fs::write(&path, format!("#!/bin/sh\n{}\n", leaves(hook))).unwrap();
        make_executable(&path);
    }
    set("core.hooksPath", &at("hooks").display().to_string());
    for key in [
        "core.fsmonitor",
        "core.pager",
        "pager.status",
        "core.editor",
        "core.sshCommand",
        "core.askPass",
        "core.gitProxy",
        "core.alternateRefsCommand",
        "credential.helper",
        "diff.external",
        "diff.d.command",
        "diff.d.textconv",
        "merge.m.driver",
        "gpg.program",
        "alias.status",
        "remote.origin.uploadpack",
    ] {
        set(key, &leaves(key));
    }
    set("status.submoduleSummary", "true");
    // The files are as they were, and their times are not: git has to read them.
    for name in [
        "a.clean",
        "a.process",
        "a.attributes",
        "a.included",
        "sub/a.sub",
    ] {
        let file = std::fs::File::options().write(true).open(at(name)).unwrap();
        let time = std::time::SystemTime::now() + std::time::Duration::from_secs(10);
        file.set_modified(time).unwrap();
    }
    fixture
}

/// The programs that have run.
#[cfg(unix)]
fn ran(fixture: &Fixture) -> Vec<String> {
    let listed = std::fs::read_dir(fixture.directory.path().join("ran")).unwrap();
    let names = listed.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

/// `git status` as people run it, and the programs that it has run.
#[cfg(unix)]
fn plain(fixture: &Fixture) -> Vec<String> {
    let mut plain = Command::new("git");
    plain
        .args(["status", "--short"])
        .current_dir(fixture.directory.path())
        .stdin(std::process::Stdio::null());
    plain.output().unwrap();
    ran(fixture)
}

#[cfg(unix)]
#[tokio::test]
async fn git_status_runs_no_command_of_the_repository_configuration() {
    let fixture = hostile();
    let status = fixture.context(NAME, &[], Event::TurnStart).await;
    assert_eq!(ran(&fixture), [""; 0]);
    assert!(
        status.contains("## trunk") && status.contains("?? .gitattributes"),
        "{status}"
    );
    // Otherwise, this would be a test of nothing.
    let all = plain(&fixture);
    for name in [
        "clean",
        "process",
        "attributes",
        "included",
        "core.fsmonitor",
    ] {
        assert!(all.iter().any(|ran| ran == name), "{name}: {all:?}");
    }
}

/// The remote of a partial clone may be a program, and git asks it for objects that are missing.
#[cfg(unix)]
#[tokio::test]
async fn git_status_does_not_fetch_missing_objects() {
    let fixture = repository();
    let at = |name: &str| fixture.directory.path().join(name);
    std::fs::create_dir(at("ran")).unwrap();
    write(&fixture, "a");
    git(&fixture, &["add", "a"]);
    let author = ["-c", "user.name=a", "-c", "user.email=a@example"];
    git(
        &fixture,
        &[&author[..], &["commit", "--quiet", "-m", "x"]].concat(),
    );
    // The index has no tree any more, so that git reads that of HEAD.
    write(&fixture, "b");
    git(&fixture, &["add", "b"]);
    let tree = Command::new("git")
        .args(["rev-parse", "HEAD^{tree}"])
        .current_dir(fixture.directory.path())
        .output();
    let tree = String::from_utf8(tree.unwrap().stdout).unwrap();
    let (directory, name) = tree.trim().split_at(2);
    let objects = at(".git").join("objects");
    std::fs::remove_file(objects.join(directory).join(name)).unwrap();
    let remote = at("remote.sh");
    let program = format!(
        "#!/bin/sh\ntouch '{}'\nexit 1\n",
        at("ran/remote").display()
    );
    std::fs::write(&remote, program).unwrap();
    make_executable(&remote);
    for (key, value) in [
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", &format!("ext::{}", remote.display())),
        ("protocol.ext.allow", "always"),
    ] {
        git(&fixture, &["config", key, value]);
    }
    let output = fixture
        .run(NAME, &[], &fixture.input(Event::TurnStart))
        .await;
    assert_eq!(output.unwrap(), Output::default());
    assert_eq!(ran(&fixture), [""; 0]);
    assert_eq!(plain(&fixture), ["remote"]);
}

#[cfg(unix)]
#[tokio::test]
async fn git_status_ignores_git_environment_variables() {
    let other = repository();
    write(&other, "of-another-repository");
    let trace = other.directory.path().join("ran");
    let directory = other.directory.path().join(".git").display().to_string();
    let path = std::env::var("PATH").unwrap();
    let program = format!("touch '{}'", trace.display());
    let fixture = Fixture::with_variables(
        Vec::new(),
        &[
            ("PATH", &path),
            ("GIT_DIR", &directory),
            ("GIT_CONFIG_COUNT", "1"),
            ("GIT_CONFIG_KEY_0", "core.fsmonitor"),
            ("GIT_CONFIG_VALUE_0", &program),
        ],
    );
    let made = Command::new("git")
        .args(["init", "--quiet", "--initial-branch", "here"])
        .current_dir(fixture.directory.path())
        .status();
    assert!(made.unwrap().success());
    let status = fixture.context(NAME, &[], Event::TurnStart).await;
    assert!(status.contains("No commits yet on here"), "{status}");
    assert!(!trace.exists());
}
