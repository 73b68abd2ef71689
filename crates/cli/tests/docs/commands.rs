//! Every command in the documents does what the document says. The commands of one document run one
//! after the other in one home.
#![cfg(unix)]

use std::collections::BTreeMap;

use crate::blocks::{self, Block, Language, Marker};
use crate::home::Home;
use crate::program_file::make_executable;
use crate::{files, transcript, yaml};

/// A command, and what it must print if the document says.
#[derive(Debug, PartialEq)]
struct Step {
    command: String,
    printed: Option<String>,
}

/// The commands of a block. A line that ends in a backslash goes on in the next one.
fn steps(block: &Block) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut continues = false;
    for line in block.text.lines() {
        let command = match block.language {
            Language::Sh if line.trim().is_empty() || line.starts_with('#') => continue,
            Language::Sh => Some(line),
            _ if continues => Some(line.strip_prefix("> ").unwrap_or(line)),
            _ => line.strip_prefix("$ "),
        };
        let printed = (block.language == Language::Console).then(String::new);
        match (command, steps.last_mut()) {
            (Some(line), Some(last)) if continues => last.command.push_str(&format!("\n{line}")),
            (Some(line), _) => steps.push(Step {
                command: line.to_owned(),
                printed,
            }),
            (
                None,
                Some(Step {
                    printed: Some(printed),
                    ..
                }),
            ) => printed.push_str(&format!("{line}\n")),
            (None, _) => panic!(
                "{}: what is printed comes before any command: {line}",
                block.place()
            ),
        }
        continues = command.is_some_and(|line| line.ends_with('\\'));
    }
    steps
}

/// The problem of a block, if any.
fn problem(block: &Block, home: &Home) -> Option<String> {
    let steps = steps(block);
    let last = steps.len().saturating_sub(1);
    for (number, Step { command, printed }) in steps.into_iter().enumerate() {
        // Both streams, in the order in which they were written.
        let ended = home.shell(&format!("exec 2>&1\n{command}"));
        let expected = if number == last { block.exit() } else { 0 };
        if ended.code != expected {
            return Some(format!(
                "`{command}` ended with {}, not with {expected}:\n{}",
                ended.code, ended.stdout
            ));
        }
        if let Some(printed) = printed
            && !transcript::matches(&printed, &ended.stdout)
        {
            return Some(format!(
                "`{command}` printed\n{}\nand not\n{printed}",
                ended.stdout
            ));
        }
    }
    None
}

/// The documents whose commands run in a clone of the repository, and what else of it git ignores.
const IN_THE_REPOSITORY: [&str; 2] = ["README.md", "examples/README.md"];
const IGNORED: [&str; 1] = ["scratch"];

/// Reports files of the repository that the commands of a document have changed, and new ones that git would show.
fn left_in_the_repository(document: &str, home: &Home) -> Option<String> {
    let there = |path: &String| std::fs::read(home.work().join(path)).ok();
    let own = |path: &String| std::fs::read(files::root().join(path)).ok();
    let mut left = files::in_folder("examples", "", true);
    left.retain(|path| there(path) != own(path));
    if IN_THE_REPOSITORY.contains(&document) {
        let mut known: Vec<String> = ["examples", "docs"].map(str::to_owned).to_vec();
        known.extend(IGNORED.map(str::to_owned));
        // Those that the reader is to write.
        let blocks = blocks::read(document, &files::text(document));
        let written = blocks.iter().filter_map(|block| block.marker(Marker::File));
        known.extend(written.map(str::to_owned));
        let entries = std::fs::read_dir(home.work()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        left.extend(names.filter(|name| !known.contains(name)));
    }
    let left = left.join(", ");
    (!left.is_empty()).then(|| format!("{document}: its commands change or leave {left}"))
}

/// Writes the file that a block is, if it is one.
fn write(block: &Block, home: &Home) {
    let Some(name) = block.marker(Marker::File) else {
        return;
    };
    let text = match block.marker(Marker::Fragment) {
        Some("agent") => yaml::agent_file(block),
        _ => block.text.clone(),
    };
    let path = home.write(name, &text);
    if block.language == Language::Sh {
        make_executable(&path);
    }
}

#[test]
fn documented_commands_print_the_documented_output() {
    let mut homes: BTreeMap<String, Home> = BTreeMap::new();
    let mut problems = Vec::new();
    let (mut run, mut left_out) = (0, 0);
    for block in blocks::all() {
        if block.marker(Marker::Fresh).is_some()
            && let Some(home) = homes.remove(&block.document)
        {
            problems.extend(left_in_the_repository(&block.document, &home));
        }
        let home = homes
            .entry(block.document.clone())
            .or_insert_with(Home::new);
        write(&block, home);
        match (block.language, block.marker(Marker::NoRun)) {
            (Language::Sh, _) if block.marker(Marker::File).is_some() => {}
            (Language::Sh | Language::Console, None) => {
                run += 1;
                problems.extend(
                    problem(&block, home).map(|problem| format!("{}: {problem}", block.place())),
                );
            }
            (Language::Sh | Language::Console, Some(reason)) => {
                left_out += 1;
                println!("{}: not run: {reason}", block.place());
            }
            _ => {}
        }
    }
    for (document, home) in &homes {
        problems.extend(left_in_the_repository(document, home));
    }
    println!("{run} blocks run, {left_out} not run");
    assert!(problems.is_empty(), "{}", problems.join("\n\n"));
    assert!(
        run > 10 && left_out < run / 2,
        "too little is run: {run} blocks, {left_out} left out"
    );
}

#[test]
fn commands_are_distinguished_from_their_output() {
    let block = |text: &str| blocks::read("x.md", text).remove(0);
    let console = block("```console\n$ a \\\n>  b\nprinted\n…\n$ c\n```\n");
    assert_eq!(
        steps(&console),
        [
            Step {
                command: "a \\\n b".into(),
                printed: Some("printed\n…\n".into())
            },
            Step {
                command: "c".into(),
                printed: Some(String::new())
            }
        ]
    );
    let shell = block("```sh\n# why\na \\\n  b\n\nc\n```\n");
    assert_eq!(
        steps(&shell),
        [
            Step {
                command: "a \\\n  b".into(),
                printed: None
            },
            Step {
                command: "c".into(),
                printed: None
            }
        ]
    );
}

#[test]
fn ignored_folders_are_ignored_by_git() {
    let ignored = files::text(".gitignore");
    for folder in IGNORED {
        assert!(ignored.lines().any(|line| line == format!("/{folder}")));
    }
}

#[test]
fn check_finds_files_of_the_repository_that_commands_change_or_leave() {
    let (home, document) = (Home::new(), "README.md");
    assert_eq!(left_in_the_repository(document, &home), None);
    home.shell("mkdir scratch && echo > scratch/a");
    assert_eq!(left_in_the_repository(document, &home), None);
    home.shell("echo > examples/data/draft.md; echo > new.json");
    let left = left_in_the_repository(document, &home).unwrap();
    assert!(left.ends_with("examples/data/draft.md, new.json"), "{left}");
}

#[test]
fn check_finds_a_command_with_another_output() {
    let home = Home::new();
    let block = |text: &str| blocks::read("x.md", text).remove(0);
    for wrong in [
        "```console\n$ echo a\nb\n```\n",
        "```sh\nfalse\n```\n",
        "```sh exit=1\ntrue\n```\n",
        "```sh\ncargo test\n```\n",
        "```console\n$ echo a\n```\n",
    ] {
        assert!(problem(&block(wrong), &home).is_some(), "{wrong}");
    }
    assert_eq!(
        problem(
            &block("```console exit=3\n$ echo a; exit 3\na\n```\n"),
            &home
        ),
        None
    );
}
