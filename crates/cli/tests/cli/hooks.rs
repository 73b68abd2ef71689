//! `cachalot hooks test`, and the schemas of hooks.

mod faults;
mod schemas;
mod sources;
mod verdicts;

use std::io::Write as _;
use std::path::Path;
use std::process::Stdio;

use crate::program_file;
use crate::support::{CommandOutput, Home};

/// A home with the examples of hooks.
pub(crate) fn with_the_examples() -> Home {
    let home = Home::new();
    let examples = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hooks"));
    copy(examples, &home.join("examples/hooks"));
    home
}

/// A copy keeps what may be run.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            program_file::copy(&entry.path(), &target);
        }
    }
}

/// A project with the hooks of another runtime, as its folder in the examples has them.
pub(crate) fn project(of: &str) -> Home {
    let home = Home::new();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/hooks");
    copy(&Path::new(examples).join(of), home.path());
    home.write("rm.json", RM);
    home
}

const RM: &str = r#"{"tool_name": "shell", "tool_input": {"command": "rm -rf build"}}"#;
const LS: &str = r#"{"tool_name": "shell", "tool_input": {"command": "ls"}}"#;

impl Home {
    /// `cachalot hooks test …` with the input on stdin.
    fn try_hooks(&self, event: &str, arguments: &[&str], input: impl AsRef<[u8]>) -> CommandOutput {
        let arguments = [&["hooks", "test", event, "--input", "-"], arguments].concat();
        let mut child = self
            .command(&arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // A command that fails does not read it.
        let _ = child.stdin.take().unwrap().write_all(input.as_ref());
        child.wait_with_output().unwrap().into()
    }
}

/// The words of a message, whose lines are wrapped.
pub(crate) fn words(text: &str) -> String {
    let words: Vec<&str> = text
        .split(|character: char| character.is_whitespace() || character == '│')
        .filter(|word| !word.is_empty())
        .collect();
    words.join(" ")
}
