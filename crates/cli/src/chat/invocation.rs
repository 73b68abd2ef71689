//! The file and the prompt among the arguments of `cachalot chat`.

use std::path::{Path, PathBuf};

use cachalot_core::Problem;

use crate::arguments::Chat;
use crate::command_error::{CommandError, Result};

/// The endings of names that are those of files, also if there is no such file.
const FILE_ENDINGS: [&str; 6] = [".yaml", ".yml", ".json", ".toml", ".md", ".txt"];

/// The file and the prompt of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The agent file; `None` for the built-in agent.
    pub(crate) file: Option<PathBuf>,
    /// The first message.
    pub(crate) prompt: Option<String>,
}

impl Invocation {
    /// Reads the file and the prompt. Without `--config`, the first positional argument is the agent file if it exists in
    /// `directory` or its name is one of a YAML or JSON file; otherwise it is the prompt.
    ///
    /// # Errors
    /// There are two arguments, and the first one is no file; or the prompt is the name of a file.
    pub(crate) fn read(arguments: &Chat, directory: &Path) -> Result<Self> {
        let (first, second) = (arguments.first.as_deref(), arguments.second.as_deref());
        let config = arguments.config.as_deref();
        let named = first.filter(|first| config.is_none() && is_file(first, directory));
        let prompt = match (named, first, second) {
            (None, Some(first), Some(_)) => return Err(no_file(first)),
            (None, first, None) => first,
            (_, _, second) => second,
        };
        if let Some(prompt) = prompt.filter(|prompt| names_a_file(prompt, directory)) {
            return Err(file_as_prompt(prompt, named, directory));
        }
        Ok(Self {
            file: config.or(named.map(Path::new)).map(Path::to_owned),
            prompt: prompt
                .map(str::trim_end)
                .filter(|prompt| !prompt.is_empty())
                .map(str::to_owned),
        })
    }
}

fn is_file(argument: &str, directory: &Path) -> bool {
    // A sentence about a file, such as `Explain agent.yaml`, is a prompt.
    let is_named_so = [".yaml", ".yml", ".json"]
        .iter()
        .any(|end| argument.ends_with(end))
        && !argument.contains(char::is_whitespace);
    is_named_so || directory.join(argument).is_file()
}

/// Returns true if a prompt is nothing but the name of a file: it would be paid for, and is hardly what was meant.
fn names_a_file(prompt: &str, directory: &Path) -> bool {
    if prompt.is_empty() || prompt.contains(char::is_whitespace) {
        return false;
    }
    let is_relative = ["./", "../"].iter().any(|start| prompt.starts_with(start));
    let has_ending = FILE_ENDINGS.iter().any(|end| prompt.ends_with(end));
    is_relative || has_ending || directory.join(prompt).exists()
}

fn file_as_prompt(prompt: &str, file: Option<&str>, directory: &Path) -> CommandError {
    let what = match directory.join(prompt) {
        path if path.is_dir() => "is a directory",
        path if path.exists() => "is a file",
        _ => "is the name of a file",
    };
    let agent = file.map(|file| format!("{file} ")).unwrap_or_default();
    let message = format!("`{prompt}` {what}, and would be sent as the prompt");
    CommandError::usage(Problem::new("file-as-prompt", message).help(format!(
        "a chat has one agent file; `cachalot chat {agent}\"Explain @{prompt}\"` attaches a file to a message, and a blank in front (`\" {prompt}\"`) sends the name"
    )))
}

fn no_file(first: &str) -> CommandError {
    CommandError::usage(
        Problem::new("unreadable-file", format!("there is no file `{first}`")).help(
            "a prompt of several words needs quotes: `cachalot chat \"What is in README.md?\"`",
        ),
    )
}
