//! The file and the prompt among the arguments of `cachalot chat`.

use std::path::{Path, PathBuf};

use cachalot_core::Problem;

use crate::arguments::Chat;
use crate::command_error::{CommandError, Result};

/// The file and the prompt of a chat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invocation {
    /// The agent file; `None` for the built-in agent.
    pub(crate) file: Option<PathBuf>,
    /// The first message.
    pub(crate) prompt: Option<String>,
}

impl Invocation {
    /// Reads the positional arguments. The first one is the agent file if it exists in `directory` or its name
    /// is one of a YAML file; otherwise it is the prompt.
    ///
    /// # Errors
    /// There are two arguments, and the first one is no file.
    pub(crate) fn read(arguments: &Chat, directory: &Path) -> Result<Self> {
        let (first, second) = (arguments.first.as_deref(), arguments.second.as_deref());
        let file = first.filter(|first| is_file(first, directory));
        let prompt = match (file, first, second) {
            (None, Some(first), Some(_)) => return Err(no_file(first)),
            (None, first, None) => first,
            (_, _, second) => second,
        };
        Ok(Self {
            file: file.map(PathBuf::from),
            prompt: prompt
                .map(str::trim_end)
                .filter(|prompt| !prompt.is_empty())
                .map(str::to_owned),
        })
    }
}

fn is_file(argument: &str, directory: &Path) -> bool {
    // A sentence about a file, such as `Explain agent.yaml`, is a prompt.
    let is_named_so = [".yaml", ".yml"].iter().any(|end| argument.ends_with(end))
        && !argument.contains(char::is_whitespace);
    is_named_so || directory.join(argument).is_file()
}

fn no_file(first: &str) -> CommandError {
    CommandError::usage(
        Problem::new("unreadable-file", format!("there is no file `{first}`")).help(
            "a prompt of several words needs quotes: `cachalot chat \"What is in README.md?\"`",
        ),
    )
}
