//! Parses the arguments of `add_prompt_files`.

use std::path::{Component, Path};

use cachalot_core::suggest::nearest;

use super::NAME;
use crate::builtin::ArgumentsError;

/// The files to add.
#[derive(Debug)]
pub(super) struct PromptFileArguments {
    /// Their names.
    pub(super) names: Vec<String>,
    /// Maximum number of directories to search above the working directory; `None`: all.
    pub(super) depth: Option<usize>,
}

/// A parsed argument.
enum Argument<'a> {
    Name(&'a str),
    Depth(usize),
}

impl PromptFileArguments {
    /// Parses the arguments.
    ///
    /// # Errors
    /// A message that states the problem and the fix.
    pub(super) fn read(arguments: &[String]) -> Result<Self, ArgumentsError> {
        let mut wanted = Self {
            names: Vec::new(),
            depth: None,
        };
        for argument in arguments {
            match read(argument)? {
                Argument::Name(name) if wanted.names.iter().any(|known| known == name) => {}
                Argument::Name(name) => wanted.names.push(name.to_owned()),
                Argument::Depth(depth) => wanted.depth = Some(depth),
            }
        }
        if wanted.names.is_empty() {
            return Err(ArgumentsError(format!(
                "`{NAME}` needs the name of a file; write `args: [AGENTS.md]`"
            )));
        }
        Ok(wanted)
    }
}

/// Validates an argument. The error has the form "problem; fix".
pub(super) fn check(argument: &str) -> Result<(), ArgumentsError> {
    read(argument).map(|_| ())
}

fn read(argument: &str) -> Result<Argument<'_>, ArgumentsError> {
    if let Some(depth) = argument.strip_prefix("--depth=") {
        return depth.parse().map(Argument::Depth).map_err(|_| {
            ArgumentsError(format!(
                "`{argument}` is no number of directories; write `--depth=0` for the working directory alone, `--depth=1` for the one above it, too"
            ))
        });
    }
    if argument.starts_with('-') {
        let option = argument.split('=').next().unwrap_or(argument);
        let remedy = match nearest(option, ["--depth"]) {
            Some(_) => "did you mean `--depth=N`?".to_owned(),
            None => {
                format!("`--depth=N` is the only one; for a file of that name write `./{argument}`")
            }
        };
        return Err(ArgumentsError(format!(
            "`{NAME}` has no option `{option}`; {remedy}"
        )));
    }
    if argument.trim().is_empty() || argument.contains('\0') {
        return Err(ArgumentsError(
            "the name of a file is empty or cannot be one; write a name such as `AGENTS.md`"
                .to_owned(),
        ));
    }
    let leads_up = Path::new(argument)
        .components()
        .any(|part| part == Component::ParentDir);
    if leads_up {
        return Err(ArgumentsError(format!(
            "`{argument}` leads out of the directories that are looked in; leave `..` out (the directories above are looked in anyway), or write the whole path, from `/` or `~/` on"
        )));
    }
    Ok(Argument::Name(argument))
}
