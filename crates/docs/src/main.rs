//! Writes the parts of the documentation that repeat declarations of the code.
//!
//! `cargo run -p cachalot-docs` writes them; with `-- --check`, it fails if one is not current, and so does the test of
//! this crate. Each part stands between two comments: see [`document::replace`].

mod action;
mod catalogs;
mod commands;
mod document;
mod hooks;
mod key_table;
mod markdown;
mod parts;

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let is_check = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => false,
        ["--check"] => true,
        _ => {
            report("usage: cachalot-docs [--check]");
            return ExitCode::from(2);
        }
    };
    let mut code = ExitCode::SUCCESS;
    for name in parts::documents() {
        if let Err(problem) = update(name, is_check) {
            report(&format!("docs/{name}: {problem}"));
            code = ExitCode::FAILURE;
        }
    }
    code
}

#[allow(clippy::print_stderr)]
fn report(problem: &str) {
    eprintln!("{problem}");
}

/// Writes the parts of a document. With `is_check`, only compares them.
fn update(name: &str, is_check: bool) -> Result<(), document::DocumentError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../docs")
        .join(name);
    let before = std::fs::read_to_string(&path)?;
    let mut text = before.clone();
    for part in parts::of_document(name) {
        text = document::replace(&text, &part.name, |old| (part.text)(old))?;
    }
    if text == before {
        Ok(())
    } else if is_check {
        Err(document::DocumentError::Stale)
    } else {
        Ok(std::fs::write(&path, text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_current() {
        for name in parts::documents() {
            if let Err(problem) = update(name, true) {
                panic!("docs/{name}: {problem}");
            }
        }
    }
}
