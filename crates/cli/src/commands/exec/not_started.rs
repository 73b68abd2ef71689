//! Commands that cannot be started.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use cachalot_core::suggest;

/// Exit code for a program that is not found, as of a shell.
const NOT_FOUND: u8 = 127;
/// Exit code for a file that cannot be run, as of a shell.
const NOT_EXECUTABLE: u8 = 126;

/// Returns the exit code and the message for a program that could not be started.
pub(super) fn explain(
    program: &str,
    error: &io::Error,
    environment: &BTreeMap<String, String>,
) -> (u8, String) {
    let is_path = program.contains('/');
    if error.kind() != io::ErrorKind::NotFound {
        let reason = if is_path && Path::new(program).is_dir() {
            "it is a directory".to_owned()
        } else {
            error.to_string()
        };
        let message = format!("cannot run `{program}`: {reason}");
        return (NOT_EXECUTABLE, message);
    }
    if is_path && Path::new(program).exists() {
        let message = format!("cannot run `{program}`: the interpreter that it names is not there");
        return (NOT_EXECUTABLE, message);
    }
    let mut message = format!("there is no program `{program}`");
    if program.contains(char::is_whitespace) {
        message += ": write the program and its arguments as separate words, or run `sh -c`";
    } else if !is_path && let Some(nearest) = nearest(program, environment) {
        message += &format!(": did you mean `{nearest}`?");
    }
    (NOT_FOUND, message)
}

/// Returns the program on the search path whose name is nearest.
fn nearest(program: &str, environment: &BTreeMap<String, String>) -> Option<String> {
    let path = environment.get("PATH")?;
    let entries = std::env::split_paths(path)
        .filter_map(|directory| std::fs::read_dir(directory).ok())
        .flat_map(|entries| entries.filter_map(Result::ok));
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let names: Vec<String> = names.collect();
    suggest::nearest(program, names.iter().map(String::as_str)).map(str::to_owned)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn nearest_program_on_the_path_is_suggested() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("codex"), "").unwrap();
        let path = directory.path().to_str().unwrap().to_owned();
        let environment = BTreeMap::from([("PATH".to_owned(), path)]);
        let absent = io::Error::from(io::ErrorKind::NotFound);
        let explained = |program: &str| explain(program, &absent, &environment);
        let expected = "there is no program `codx`: did you mean `codex`?";
        assert_eq!(explained("codx"), (127, expected.to_owned()));
        assert_eq!(explained("whale").1, "there is no program `whale`");
        assert!(explained("codex exec").1.contains("separate words"));
        let file = directory.path().join("codex");
        let (code, message) = explained(file.to_str().unwrap());
        assert!(code == 126 && message.contains("interpreter"), "{message}");
        let denied = io::Error::from(io::ErrorKind::PermissionDenied);
        let directory = directory.path().to_str().unwrap();
        let (code, message) = explain(directory, &denied, &environment);
        assert!(code == 126 && message.contains("directory"), "{message}");
    }
}
