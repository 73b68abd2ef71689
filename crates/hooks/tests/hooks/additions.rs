//! What builtins add to the newest message.

use std::sync::Arc;
use std::time::Duration;

use cachalot_hooks::{Event, Input, Output};
use cachalot_model::Message;

use crate::seam::{Agent, World};

mod git;
mod listing;
mod prompt_files;

/// An event whose conversation holds this message.
fn after(input: Input, said: &str) -> Input {
    Input {
        messages: vec![Arc::new(Message::user(said))],
        ..input
    }
}

#[tokio::test]
async fn the_time_is_that_of_the_clock_each_turn() {
    let world = World::new();
    let first = world.context("add_date", &[], Event::TurnStart).await;
    assert_eq!(first, "The time is 2026-11-21T12:00:00.000Z.");
    world.clock.advance(Duration::from_millis(61_001));
    let second = world.context("add_date", &[], Event::TurnStart).await;
    assert_eq!(second, "The time is 2026-11-21T12:01:01.001Z.");
}

#[tokio::test]
async fn the_environment_is_added_with_and_without_a_repository() {
    let world = World::new();
    let name = "add_environment_info";
    let told = world.context(name, &[], Event::SessionStart).await;
    let directory = world.directory.path();
    let expected = format!(
        "<environment>\nWorking directory: {}\nIn a git repository: no\nOperating system: {}\nProcessor: {}\n</environment>",
        directory.display(),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    assert_eq!(told, expected);
    // A worktree has a file there, and a directory of it is in it as well.
    std::fs::write(directory.join(".git"), "gitdir: elsewhere\n").unwrap();
    std::fs::create_dir(directory.join("src")).unwrap();
    let input = Input {
        cwd: directory.join("src"),
        ..world.input(Event::SessionStart)
    };
    let told = world.run(name, &[], &input).await.unwrap();
    let told = told.additional_context.unwrap();
    assert!(told.contains("repository: yes"), "{told}");
    // What the conversation says already is not said again, until it says something else.
    let again = world.run(name, &[], &after(input.clone(), &told)).await;
    assert_eq!(again.unwrap(), Output::default());
    let news = world
        .run(name, &[], &after(input, &expected))
        .await
        .unwrap();
    assert_eq!(news.additional_context, Some(told));
}

#[tokio::test]
async fn without_a_directory_nothing_is_added() {
    let world = World::new();
    for (name, event) in [
        ("add_environment_info", Event::SessionStart),
        ("add_directory_listing", Event::SessionStart),
        ("add_git_status", Event::TurnStart),
    ] {
        let nowhere = Input {
            event,
            ..Input::default()
        };
        let output = world.run(name, &[], &nowhere).await.unwrap();
        assert_eq!(output, Output::default(), "{name}");
    }
    for (name, event) in [
        ("add_directory_listing", Event::SessionStart),
        ("add_git_status", Event::TurnStart),
    ] {
        let gone = Input {
            cwd: world.directory.path().join("gone"),
            ..world.input(event)
        };
        let output = world.run(name, &[], &gone).await.unwrap();
        assert_eq!(output, Output::default(), "{name}");
    }
}

#[test]
fn arguments_that_mean_nothing_are_refused() {
    let world = World::new();
    for name in [
        "add_date",
        "add_environment_info",
        "add_directory_listing",
        "add_git_status",
    ] {
        let refusal = world.refusal(name, &["UTC"]);
        let expected = format!("`{name}` takes no arguments, but is given `UTC`");
        assert!(refusal.starts_with(&expected), "{refusal}");
    }
}

#[test]
fn sections_are_true_or_false_and_slips_are_recognised() {
    let world = World::new();
    for name in ["add_date", "add_environment_info"] {
        for (value, help) in [
            ("ture", "did you mean `true`?"),
            ("yes", "did you mean `true`?"),
            ("off", "did you mean `false`?"),
            ("\"true\"", "take the quotes away"),
            ("[true]", "write `true` or `false` here"),
            ("1", "write `true` or `false` here"),
        ] {
            let yaml = format!("{name}: {value}");
            let problems = world.problems(name, &yaml);
            assert_eq!(problems.len(), 1);
            assert_eq!(problems[0].code, "wrong-type");
            assert!(
                problems[0]
                    .message
                    .starts_with(&format!("`{name}` must be"))
            );
            assert_eq!(problems[0].help.as_deref(), Some(help), "{value}");
            assert_eq!(problems[0].place.as_ref().unwrap().start, name.len() + 2);
        }
        for value in ["true", "false", ""] {
            assert_eq!(world.problems(name, &format!("{name}: {value}")), []);
        }
    }
}

#[test]
fn agents_that_ask_for_it_have_it() {
    let world = World::new();
    for (name, event) in [
        ("add_date", Event::TurnStart),
        ("add_environment_info", Event::SessionStart),
    ] {
        for (section, expected) in [
            (format!("{name}: true"), vec![(event, Vec::new())]),
            (format!("{name}: false"), Vec::new()),
            (String::new(), Vec::new()),
        ] {
            let agent = Agent::of("root", &[], &section);
            assert_eq!(world.injected(name, &agent), expected, "{section}");
        }
    }
    // These have no section: files name them.
    for name in ["add_directory_listing", "add_git_status"] {
        let agent = Agent::of("root", &[], &format!("{name}: true"));
        assert_eq!(world.injected(name, &agent), []);
        assert!(world.builtin(name).sections().is_empty());
    }
}
