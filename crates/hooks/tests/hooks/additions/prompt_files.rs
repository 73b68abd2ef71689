//! `add_prompt_files`: files such as `AGENTS.md`.

use std::path::PathBuf;

use cachalot_hooks::{Event, Input, Output};

use super::after;
use crate::seam::{Agent, World, texts};

const NAME: &str = "add_prompt_files";

/// A directory three levels down, and events in it.
struct Deep {
    world: World,
    deep: PathBuf,
}

impl Deep {
    fn new() -> Self {
        let world = World::new();
        let deep = world.directory.path().join("one/two");
        std::fs::create_dir_all(&deep).unwrap();
        Self { world, deep }
    }

    fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.world.directory.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    fn input(&self) -> Input {
        Input {
            cwd: self.deep.clone(),
            ..self.world.input(Event::TurnStart)
        }
    }

    async fn run(&self, arguments: &[&str]) -> Output {
        self.world
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
async fn the_nearest_file_on_the_way_up_and_that_at_home_are_given() {
    let deep = Deep::new();
    assert_eq!(deep.context(&["AGENTS.md"]).await, None);
    deep.write("AGENTS.md", "Top.\n");
    let top = file("../../AGENTS.md", "Top.");
    assert_eq!(deep.context(&["AGENTS.md"]).await, Some(top));
    deep.write("one/AGENTS.md", "Above.");
    let above = file("../AGENTS.md", "Above.");
    assert_eq!(deep.context(&["AGENTS.md"]).await, Some(above));
    deep.write("one/two/AGENTS.md", "\u{feff}Here.\n\n");
    let here = file("AGENTS.md", "Here.");
    assert_eq!(deep.context(&["AGENTS.md"]).await, Some(here.clone()));
    std::fs::write(deep.world.home.path().join("AGENTS.md"), "Home.").unwrap();
    let both = format!("{here}\n{}", file("~/AGENTS.md", "Home."));
    assert_eq!(deep.context(&["AGENTS.md"]).await, Some(both));
}

#[tokio::test]
async fn depth_says_how_far_up() {
    let deep = Deep::new();
    deep.write("AGENTS.md", "Top.");
    for (depth, is_found) in [(0, false), (1, false), (2, true), (3, true)] {
        let depth = format!("--depth={depth}");
        let found = deep.context(&[&depth, "AGENTS.md"]).await;
        assert_eq!(found.is_some(), is_found, "{depth}");
    }
}

#[tokio::test]
async fn several_files_come_in_the_order_of_their_names_each_once() {
    let deep = Deep::new();
    deep.write("one/two/docs/STYLE.md", "Short.");
    deep.write("one/two/AGENTS.md", "Kind.");
    let names = ["docs/STYLE.md", "MISSING.md", "./AGENTS.md", "AGENTS.md"];
    let expected = [
        file("docs/STYLE.md", "Short."),
        file("./AGENTS.md", "Kind."),
    ];
    assert_eq!(deep.context(&names).await, Some(expected.join("\n")));
    // The home directory may be one of those above.
    let home = Deep::new();
    let below = home.world.home.path().join("project");
    std::fs::create_dir(&below).unwrap();
    std::fs::write(home.world.home.path().join("AGENTS.md"), "Kind.").unwrap();
    let input = Input {
        cwd: below,
        ..home.input()
    };
    let output = home.world.run(NAME, &["AGENTS.md"], &input).await.unwrap();
    let expected = file("../AGENTS.md", "Kind.");
    assert_eq!(output.additional_context, Some(expected));
}

#[tokio::test]
async fn what_the_conversation_holds_is_not_given_again_until_it_changes() {
    let deep = Deep::new();
    deep.write("one/two/A.md", "one");
    deep.write("one/two/B.md", "two");
    let first = deep.context(&["A.md", "B.md"]).await.unwrap();
    let sent = format!("<context>\nThe time is now.\n{first}\n</context>");
    let next = after(deep.input(), &sent);
    let again = deep
        .world
        .run(NAME, &["A.md", "B.md"], &next)
        .await
        .unwrap();
    assert_eq!(again, Output::default());
    deep.write("one/two/B.md", "three");
    let changed = deep
        .world
        .run(NAME, &["A.md", "B.md"], &next)
        .await
        .unwrap();
    assert_eq!(changed.additional_context, Some(file("B.md", "three")));
    // Back to what it was: the later words are not the ones that hold.
    let later = after(deep.input(), &format!("{sent}\n{}", file("B.md", "three")));
    deep.write("one/two/B.md", "two");
    let back = deep
        .world
        .run(NAME, &["A.md", "B.md"], &later)
        .await
        .unwrap();
    assert_eq!(back.additional_context, Some(file("B.md", "two")));
}

#[tokio::test]
async fn a_large_file_is_cut_off_and_says_so() {
    let deep = Deep::new();
    deep.write("one/two/AGENTS.md", "é".repeat(40_000));
    let given = deep.context(&["AGENTS.md"]).await.unwrap();
    assert!(given.len() < 65_536 + 200, "{}", given.len());
    assert!(given.contains("[cut off here: these are the first 65536 bytes]\n</file>"));
    deep.write("one/two/AGENTS.md", "x".repeat(65_536));
    let given = deep.context(&["AGENTS.md"]).await.unwrap();
    assert!(!given.contains("cut off"));
}

#[tokio::test]
async fn what_is_no_text_is_left_out_and_named() {
    let deep = Deep::new();
    deep.write("one/two/A.md", b"caf\xe9");
    deep.write("one/two/B.md", "fine");
    std::fs::create_dir(deep.deep.join("C.md")).unwrap();
    let output = deep.run(&["A.md", "B.md", "C.md"]).await;
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
async fn a_link_does_not_lead_out_of_its_directory() {
    use std::os::unix::fs::symlink;
    let deep = Deep::new();
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "hunter2").unwrap();
    symlink(secret.path(), deep.deep.join("AGENTS.md")).unwrap();
    let output = deep.run(&["AGENTS.md"]).await;
    assert_eq!(output.additional_context, None);
    let message = output.system_message.unwrap();
    assert!(message.contains("a link out of its directory"), "{message}");
    assert!(!message.contains("hunter2"));
    // Within it, it may.
    deep.write("one/two/docs/real.md", "Kind.");
    symlink("docs/real.md", deep.deep.join("CLAUDE.md")).unwrap();
    let given = deep.context(&["CLAUDE.md"]).await;
    assert_eq!(given, Some(file("CLAUDE.md", "Kind.")));
}

#[cfg(unix)]
#[tokio::test]
async fn a_pipe_is_not_waited_for() {
    let deep = Deep::new();
    let pipe = deep.deep.join("AGENTS.md");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.unwrap().success());
    assert_eq!(deep.context(&["AGENTS.md"]).await, None);
}

#[tokio::test]
async fn a_whole_path_is_that_file_and_nothing_else() {
    let deep = Deep::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let rules = elsewhere.path().join("rules.md");
    let name = rules.to_str().unwrap();
    assert_eq!(deep.context(&[name]).await, None);
    std::fs::write(&rules, "Be brief.").unwrap();
    assert_eq!(deep.context(&[name]).await, Some(file(name, "Be brief.")));
    deep.write("one/two/notes.md", "Not this one.");
    std::fs::write(deep.world.home.path().join("notes.md"), "This one.").unwrap();
    let given = deep.context(&["~/notes.md"]).await;
    assert_eq!(given, Some(file("~/notes.md", "This one.")));
}

#[test]
fn names_and_options_that_make_no_sense_are_refused() {
    let world = World::new();
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
        let refusal = world.refusal(NAME, arguments);
        assert!(refusal.contains(expected), "{refusal}");
        assert!(refusal.contains("; "), "no remedy: {refusal}");
    }
}

#[test]
fn its_section_is_a_list_of_names() {
    let world = World::new();
    let place = |yaml: &str| {
        let problems = world.problems(NAME, yaml);
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
        world.problems(NAME, "add_prompt_files: [A.md, --depth=2]"),
        []
    );
    assert_eq!(world.problems(NAME, "add_prompt_files: []"), []);
}

#[test]
fn agents_that_name_files_have_them() {
    let world = World::new();
    for (section, expected) in [
        (
            "add_prompt_files: [AGENTS.md, --depth=1]",
            vec![(Event::TurnStart, texts(&["AGENTS.md", "--depth=1"]))],
        ),
        ("add_prompt_files: []", Vec::new()),
        ("add_date: true", Vec::new()),
    ] {
        let agent = Agent::of("root", &[], section);
        assert_eq!(world.injected(NAME, &agent), expected);
    }
}
