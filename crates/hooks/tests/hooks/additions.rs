//! Context that builtins add to the newest message.

use std::sync::Arc;
use std::time::Duration;

use cachalot_hooks::{Event, Input, Output};
use cachalot_model::Message;

use crate::seam::{Agent, Fixture};

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
async fn date_is_taken_from_the_clock_each_turn() {
    let fixture = Fixture::new();
    let first = fixture.context("add_date", &[], Event::TurnStart).await;
    assert_eq!(first, "The time is 2026-11-21T12:00:00.000Z.");
    fixture.clock.advance(Duration::from_millis(61_001));
    let second = fixture.context("add_date", &[], Event::TurnStart).await;
    assert_eq!(second, "The time is 2026-11-21T12:01:01.001Z.");
}

#[tokio::test]
async fn environment_info_is_added_inside_and_outside_of_repositories() {
    let fixture = Fixture::new();
    let name = "add_environment_info";
    let reported = fixture.context(name, &[], Event::SessionStart).await;
    let directory = fixture.directory.path();
    let expected = format!(
        "<environment>\nWorking directory: {}\nIn a git repository: no\nOperating system: {}\nProcessor: {}\n</environment>",
        directory.display(),
        std::env::consts::OS,
        std::env::consts::ARCH
    );
    assert_eq!(reported, expected);
    // A worktree has a file there, and a directory of it is in it as well.
    std::fs::write(directory.join(".git"), "gitdir: elsewhere\n").unwrap();
    std::fs::create_dir(directory.join("src")).unwrap();
    let input = Input {
        cwd: directory.join("src"),
        ..fixture.input(Event::SessionStart)
    };
    let reported = fixture.run(name, &[], &input).await.unwrap();
    let reported = reported.additional_context.unwrap();
    assert!(reported.contains("repository: yes"), "{reported}");
    // What the conversation says already is not said again, until it says something else.
    let again = fixture
        .run(name, &[], &after(input.clone(), &reported))
        .await;
    assert_eq!(again.unwrap(), Output::default());
    let news = fixture
        .run(name, &[], &after(input, &expected))
        .await
        .unwrap();
    assert_eq!(news.additional_context, Some(reported));
}

#[tokio::test]
async fn additions_without_a_working_directory_are_empty() {
    let fixture = Fixture::new();
    for (name, event) in [
        ("add_environment_info", Event::SessionStart),
        ("add_directory_listing", Event::SessionStart),
        ("add_git_status", Event::TurnStart),
    ] {
        let nowhere = Input {
            event,
            ..Input::default()
        };
        let output = fixture.run(name, &[], &nowhere).await.unwrap();
        assert_eq!(output, Output::default(), "{name}");
    }
    for (name, event) in [
        ("add_directory_listing", Event::SessionStart),
        ("add_git_status", Event::TurnStart),
    ] {
        let gone = Input {
            cwd: fixture.directory.path().join("gone"),
            ..fixture.input(event)
        };
        let output = fixture.run(name, &[], &gone).await.unwrap();
        assert_eq!(output, Output::default(), "{name}");
    }
}

#[test]
fn additions_refuse_arguments() {
    let fixture = Fixture::new();
    for name in [
        "add_date",
        "add_environment_info",
        "add_directory_listing",
        "add_git_status",
    ] {
        let refusal = fixture.refusal(name, &["UTC"]);
        let expected = format!("`{name}` takes no arguments, but is given `UTC`");
        assert!(refusal.starts_with(&expected), "{refusal}");
    }
}

#[test]
fn sections_are_booleans_and_other_values_are_problems() {
    let fixture = Fixture::new();
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
            let problems = fixture.problems(name, &yaml);
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
            assert_eq!(fixture.problems(name, &format!("{name}: {value}")), []);
        }
    }
}

#[test]
fn section_injects_the_builtin() {
    let fixture = Fixture::new();
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
            assert_eq!(fixture.injected(name, &agent), expected, "{section}");
        }
    }
    // These have no section: files name them.
    for name in ["add_directory_listing", "add_git_status"] {
        let agent = Agent::of("root", &[], &format!("{name}: true"));
        assert_eq!(fixture.injected(name, &agent), []);
        assert!(fixture.builtin(name).sections().is_empty());
    }
}
