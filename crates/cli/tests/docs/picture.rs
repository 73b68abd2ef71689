//! The picture of the README is what its commands print.
#![cfg(unix)]

use std::process::Command;

use regex::Regex;

use crate::files;

const PICTURE: &str = "docs/terminal.svg";

/// The picture without what differs from run to run: times, digests, and the blanks that follow from their widths.
fn comparable(picture: &str) -> String {
    let patterns = [
        (r"\b\d+(\.\d+)? (ms|µs|s)\b", "[time]"),
        (r":[0-9a-f]{10}\b", ":[key]"),
        (r" +", " "),
    ];
    patterns
        .iter()
        .fold(picture.to_owned(), |text, (pattern, name)| {
            let pattern = Regex::new(pattern).unwrap();
            pattern.replace_all(&text, *name).into_owned()
        })
}

#[test]
fn picture_of_the_readme_shows_what_its_commands_print() {
    let folder = tempfile::tempdir().unwrap();
    let drawn = folder.path().join("terminal.svg");
    let script = files::root().join("scripts/terminal_picture.py");
    let made = Command::new("python3")
        .arg("-B")
        .args([
            script.as_path(),
            env!("CARGO_BIN_EXE_cachalot").as_ref(),
            &drawn,
        ])
        .output()
        .unwrap();
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let drawn = std::fs::read_to_string(drawn).unwrap();
    assert_eq!(
        comparable(&drawn),
        comparable(&files::text(PICTURE)),
        "the picture is old: scripts/terminal_picture.py target/release/cachalot {PICTURE} makes it anew"
    );
    assert!(files::text("README.md").contains(&format!("]({PICTURE})")));
}

#[test]
fn another_amount_is_another_picture() {
    assert_eq!(
        comparable("miss   1.9 s  :0123456789 $0.03"),
        comparable("miss 12 ms :abcdef0123 $0.03")
    );
    assert_ne!(comparable("miss $0.03"), comparable("miss $0.04"));
    assert_ne!(
        comparable("<tspan fill=\"#f47067\">a"),
        comparable("<tspan>a")
    );
}
