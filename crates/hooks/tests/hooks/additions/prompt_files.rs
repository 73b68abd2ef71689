//! `add_prompt_files`: files such as `AGENTS.md`.

use std::path::PathBuf;

use cachalot_hooks::{Event, Input, Output};

use super::after;
use crate::seam::{Agent, Fixture, texts};

const NAME: &str = "add_prompt_files";

/// A directory three levels down, and events in it.
struct NestedDirectory {
    fixture: Fixture,
    nested_directory: PathBuf,
}

impl NestedDirectory {
    fn new() -> Self {
        let fixture = Fixture::new();
        let nested_directory = fixture.directory.path().join("one/two");
        std::fs::create_dir_all(&nested_directory).unwrap();
        Self {
            fixture,
            nested_directory,
        }
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.fixture.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn input(&self) -> Input {
        Input {
            cwd: self.nested_directory.clone(),
            ..self.fixture.input(Event::TurnStart)
        }
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        self.fixture
            .run(NAME, arguments, &self.input())
            .await
            .unwrap()
    }

    async fn context(&self, arguments: &[&str]) -> Option<String> {
        let output = self.run(arguments).await;
        assert_eq!(output.system_message, None);
        output.additional_context
    }
}

fn file(name: &str, text: &str) -> String {
    format!("<file name=\"{name}\">\n{text}\n</file>")
}

#[tokio::test]
async fn nearest_file_in_parent_directories_and_home_file_are_added() {
    let nested_directory = NestedDirectory::new();
    assert_eq!(nested_directory.context(&["AGENTS.md"]).await, None);
    nested_directory.write("AGENTS.md", "Top.\n");
    let top = file("../../AGENTS.md", "Top.");
    assert_eq!(nested_directory.context(&["AGENTS.md"]).await, Some(top));
    nested_directory.write("one/AGENTS.md", "Above.");
    let above = file("../AGENTS.md", "Above.");
    assert_eq!(nested_directory.context(&["AGENTS.md"]).await, Some(above));
    nested_directory.write("one/two/AGENTS.md", "\u{feff}Here.\n\n");
    let here = file("AGENTS.md", "Here.");
    assert_eq!(
        nested_directory.context(&["AGENTS.md"]).await,
        Some(here.clone())
    );
    std::fs::write(
        nested_directory.fixture.home.path().join("AGENTS.md"),
        "Home.",
    )
    .unwrap();
    let both = format!("{here}\n{}", file("~/AGENTS.md", "Home."));
    assert_eq!(nested_directory.context(&["AGENTS.md"]).await, Some(both));
}

#[tokio::test]
async fn depth_limits_the_parent_directories() {
    let nested_directory = NestedDirectory::new();
    nested_directory.write("AGENTS.md", "Top.");
    for (depth, is_found) in [(0, false), (1, false), (2, true), (3, true)] {
        let depth = format!("--depth={depth}");
        let found = nested_directory.context(&[&depth, "AGENTS.md"]).await;
        assert_eq!(found.is_some(), is_found, "{depth}");
    }
}

#[tokio::test]
async fn files_are_added_once_in_the_order_of_arguments() {
    let nested_directory = NestedDirectory::new();
    nested_directory.write("one/two/docs/STYLE.md", "Short.");
    nested_directory.write("one/two/AGENTS.md", "Kind.");
    let names = ["docs/STYLE.md", "MISSING.md", "./AGENTS.md", "AGENTS.md"];
    let expected = [
        file("docs/STYLE.md", "Short."),
        file("./AGENTS.md", "Kind."),
    ];
    assert_eq!(
        nested_directory.context(&names).await,
        Some(expected.join("\n"))
    );
    // The home directory may be one of those above.
    let home = NestedDirectory::new();
    let below = home.fixture.home.path().join("project");
    std::fs::create_dir(&below).unwrap();
    std::fs::write(home.fixture.home.path().join("AGENTS.md"), "Kind.").unwrap();
    let input = Input {
        cwd: below,
        ..home.input()
    };
    let output = home
        .fixture
        .run(NAME, &["AGENTS.md"], &input)
        .await
        .unwrap();
    let expected = file("../AGENTS.md", "Kind.");
    assert_eq!(output.additional_context, Some(expected));
}

#[tokio::test]
async fn unchanged_file_is_not_added_again() {
    let nested_directory = NestedDirectory::new();
    nested_directory.write("one/two/A.md", "one");
    nested_directory.write("one/two/B.md", "two");
    let first = nested_directory.context(&["A.md", "B.md"]).await.unwrap();
    let sent = format!("<context>\nThe time is now.\n{first}\n</context>");
    let next = after(nested_directory.input(), &sent);
    let again = nested_directory
        .fixture
        .run(NAME, &["A.md", "B.md"], &next)
        .await
        .unwrap();
    assert_eq!(again, Output::default());
    nested_directory.write("one/two/B.md", "three");
    let changed = nested_directory
        .fixture
        .run(NAME, &["A.md", "B.md"], &next)
        .await
        .unwrap();
    assert_eq!(changed.additional_context, Some(file("B.md", "three")));
    // Back to what it was: the later words are not the ones that hold.
    let later = after(
        nested_directory.input(),
        &format!("{sent}\n{}", file("B.md", "three")),
    );
    nested_directory.write("one/two/B.md", "two");
    let back = nested_directory
        .fixture
        .run(NAME, &["A.md", "B.md"], &later)
        .await
        .unwrap();
    assert_eq!(back.additional_context, Some(file("B.md", "two")));
}

#[tokio::test]
async fn large_file_is_truncated_with_a_note() {
    let nested_directory = NestedDirectory::new();
    nested_directory.write("one/two/AGENTS.md", "é".repeat(40_000));
    let given = nested_directory.context(&["AGENTS.md"]).await.unwrap();
    assert!(given.len() < 65_536 + 200, "{}", given.len());
    assert!(given.contains("[cut off here: these are the first 65536 bytes]\n</file>"));
    nested_directory.write("one/two/AGENTS.md", "x".repeat(65_536));
    let given = nested_directory.context(&["AGENTS.md"]).await.unwrap();
    assert!(!given.contains("cut off"));
}

#[tokio::test]
async fn non_text_file_is_left_out_with_a_message() {
    let nested_directory = NestedDirectory::new();
    nested_directory.write("one/two/A.md", b"caf\xe9");
    nested_directory.write("one/two/B.md", "fine");
    std::fs::create_dir(nested_directory.nested_directory.join("C.md")).unwrap();
    let output = nested_directory.run(&["A.md", "B.md", "C.md"]).await;
    assert_eq!(output.additional_context, Some(file("B.md", "fine")));
    let message = output.system_message.unwrap();
    assert!(
        message.contains("`A.md` was left out: it is not UTF-8"),
        "{message}"
    );
    assert_eq!(message.lines().count(), 1);
}

#[cfg(unix)]
#[tokio::test]
async fn link_to_a_target_outside_of_its_directory_is_not_followed() {
    use std::os::unix::fs::symlink;
    let nested_directory = NestedDirectory::new();
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "hunter2").unwrap();
    symlink(
        secret.path(),
        nested_directory.nested_directory.join("AGENTS.md"),
    )
    .unwrap();
    let output = nested_directory.run(&["AGENTS.md"]).await;
    assert_eq!(output.additional_context, None);
    let message = output.system_message.unwrap();
    assert!(message.contains("a link out of its directory"), "{message}");
    assert!(!message.contains("hunter2"));
    // Within it, it may.
    nested_directory.write("one/two/docs/real.md", "Kind.");
    symlink(
        "docs/real.md",
        nested_directory.nested_directory.join("CLAUDE.md"),
    )
    .unwrap();
    let given = nested_directory.context(&["CLAUDE.md"]).await;
    assert_eq!(given, Some(file("CLAUDE.md", "Kind.")));
}

#[cfg(unix)]
#[tokio::test]
async fn pipe_is_not_read() {
    let nested_directory = NestedDirectory::new();
    let pipe = nested_directory.nested_directory.join("AGENTS.md");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    assert_eq!(nested_directory.context(&["AGENTS.md"]).await, None);
}

#[tokio::test]
async fn absolute_path_adds_that_file_only() {
    let nested_directory = NestedDirectory::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let rules = elsewhere.path().join("rules.md");
    let name = rules.to_str().unwrap();
    assert_eq!(nested_directory.context(&[name]).await, None);
    std::fs::write(&rules, "Be brief.").unwrap();
    assert_eq!(
        nested_directory.context(&[name]).await,
        Some(file(name, "Be brief."))
    );
    nested_directory.write("one/two/notes.md", "Not this one.");
    std::fs::write(
        nested_directory.fixture.home.path().join("notes.md"),
        "This one.",
    )
    .unwrap();
    let given = nested_directory.context(&["~/notes.md"]).await;
    assert_eq!(given, Some(file("~/notes.md", "This one.")));
}

#[test]
fn invalid_names_and_options_are_refused() {
    let fixture = Fixture::new();
    for (arguments, expected) in [
        (&[][..], "needs the name of a file; write"),
        (&["--depth=1"], "needs the name of a file; write"),
        (&["--depth=far", "A.md"], "`--depth=far` is no number"),
        (&["--dept=1", "A.md"], "did you mean `--depth=N`?"),
        (&["--recursive", "A.md"], "no option `--recursive`"),
        (&[" "], "is empty"),
        (&["../A.md"], "`../A.md` leads out"),
        (&["docs/../../A.md"], "leads out"),
        (&["/etc/../A.md"], "leads out"),
        (&["~/../A.md"], "leads out"),
    ] {
        let refusal = fixture.refusal(NAME, arguments);
        assert!(refusal.contains(expected), "{refusal}");
        assert!(refusal.contains("; "), "no remedy: {refusal}");
    }
}

#[test]
fn section_is_a_list_of_names() {
    let fixture = Fixture::new();
    let place = |yaml: &str| {
        let problems = fixture.problems(NAME, yaml);
        assert_eq!(problems.len(), 1, "{problems:?}");
        let place = problems[0].place.clone().unwrap();
        let written = yaml[place.start..place.start + place.len].to_owned();
        (problems[0].code, written, problems[0].help.clone().unwrap())
    };
    let (code, written, help) = place("add_prompt_files: AGENTS.md");
    assert_eq!((code, written.as_str()), ("wrong-type", "AGENTS.md"));
    assert_eq!(help, "write `add_prompt_files: [AGENTS.md]`");
    let (code, written, help) = place("add_prompt_files: [A.md, ../B.md]");
    assert_eq!((code, written.as_str()), ("bad-value", "../B.md"));
    assert!(help.contains("leave `..` out"), "{help}");
    let (code, written, help) = place("add_prompt_files: [A.md, --depht=1]");
    assert_eq!((code, written.as_str()), ("bad-value", "--depht=1"));
    assert_eq!(help, "did you mean `--depth=N`?");
    let (code, written, _) = place("add_prompt_files: [A.md, 3]");
    assert_eq!((code, written.as_str()), ("wrong-type", "3"));
    assert_eq!(
        fixture.problems(NAME, "add_prompt_files: [A.md, --depth=2]"),
        []
    );
    assert_eq!(fixture.problems(NAME, "add_prompt_files: []"), []);
}

#[test]
fn section_injects_the_builtin() {
    let fixture = Fixture::new();
    for (section, expected) in [
        (
            "add_prompt_files: [AGENTS.md, --depth=1]",
            vec![(Event::TurnStart, texts(&["AGENTS.md", "--depth=1"]))],
        ),
        ("add_prompt_files: []", Vec::new()),
        ("add_date: true", Vec::new()),
    ] {
        let agent = Agent::of("root", &[], section);
        assert_eq!(fixture.injected(NAME, &agent), expected);
    }
}
