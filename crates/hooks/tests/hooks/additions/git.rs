//! `add_git_status`: what has changed in the working directory.

use std::process::Command;

use cachalot_hooks::{Event, Output};

use super::after;
use crate::seam::World;

const NAME: &str = "add_git_status";

fn git(world: &World, arguments: &[&str]) {
    let output = Command::new("git")
        .args(arguments)
        .current_dir(world.directory.path())
        .env_clear()
        .envs(&world.environment)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn repository() -> World {
    let world = World::new();
    git(&world, &["init", "--quiet", "--initial-branch", "trunk"]);
    world
}

fn write(world: &World, name: &str) {
    std::fs::write(world.directory.path().join(name), "x").unwrap();
}

#[tokio::test]
async fn the_branch_and_the_changes_are_told() {
    let world = repository();
    write(&world, "staged");
    write(&world, "new");
    git(&world, &["add", "staged"]);
    let status = world.context(NAME, &[], Event::TurnStart).await;
    let expected = "<git_status>\n## No commits yet on trunk\nA  staged\n?? new\n</git_status>";
    assert_eq!(status, expected);
}

#[tokio::test]
async fn it_is_told_again_when_it_has_changed() {
    let world = repository();
    let clean = world.context(NAME, &[], Event::TurnStart).await;
    let next = after(world.input(Event::TurnStart), &clean);
    let output = world.run(NAME, &[], &next).await.unwrap();
    assert_eq!(output, Output::default());
    write(&world, "new");
    let output = world.run(NAME, &[], &next).await.unwrap();
    assert!(output.additional_context.unwrap().contains("?? new"));
}

#[tokio::test]
async fn outside_of_repositories_and_without_git_there_is_nothing() {
    let world = World::new();
    let output = world.run(NAME, &[], &world.input(Event::TurnStart)).await;
    assert_eq!(output.unwrap(), Output::default());
    let nowhere = tempfile::tempdir().unwrap();
    let path = nowhere.path().display().to_string();
    let without = World::with_path(Vec::new(), &path);
    std::fs::create_dir(without.directory.path().join(".git")).unwrap();
    let output = without
        .run(NAME, &[], &without.input(Event::TurnStart))
        .await;
    assert_eq!(output.unwrap(), Output::default());
}

#[tokio::test]
async fn a_long_status_is_cut_off() {
    let world = repository();
    for number in 0..1000 {
        write(&world, &format!("file-{number:04}"));
    }
    let status = world.context(NAME, &[], Event::TurnStart).await;
    assert!(status.len() < 4096 + 100, "{}", status.len());
    assert!(status.contains("[cut off here: these are the first 4096 bytes]"));
    assert!(status.contains("?? file-0000\n") && !status.contains("file-0999"));
}

#[cfg(unix)]
#[tokio::test]
async fn the_configuration_of_a_repository_runs_nothing() {
    let world = repository();
    let trace = world.directory.path().join("ran");
    let command = format!("touch {}", trace.display());
    git(&world, &["config", "core.fsmonitor", &command]);
    world.context(NAME, &[], Event::TurnStart).await;
    assert!(!trace.exists());
}
