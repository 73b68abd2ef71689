//! Derives the resources that a call accesses from the names of its arguments and from its schema: for
//! tools that do not declare them, such as those of MCP servers.

use std::path::{Path, PathBuf};

use serde_json::Value;
use url::Url;

use super::{Command, CommandText, ResourceAccess};
use crate::Arguments;

/// Maximum nesting of arguments to inspect; deeper values are ignored.
const MAX_DEPTH: usize = 32;

/// Words that mark an argument as a path, as its name or as the last word of its name.
const PATH_WORDS: [&str; 17] = [
    "path",
    "paths",
    "file",
    "files",
    "filename",
    "filenames",
    "filepath",
    "directory",
    "directories",
    "dir",
    "dirs",
    "folder",
    "folders",
    "source",
    "destination",
    "cwd",
    "root",
];

/// Names that mark an argument as a path, as the whole name only.
const WHOLE_NAME_PATHS: [&str; 6] = ["src", "dst", "dest", "target", "from", "to"];

/// Words that mark an argument as a command, as its name or as the last word of its name.
const COMMAND_WORDS: [&str; 5] = ["command", "commands", "cmd", "cmds", "commandline"];

/// The purpose of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Path,
    Command,
    Other,
}

impl ResourceAccess {
    /// Derives the resources that a call accesses from the names of its arguments, their `format` in the
    /// schema, and their values:
    ///
    /// - paths: `path`, `paths`, `file`, `directory`, `source`, `destination`, names that end with these
    ///   (`file_path`, `outputDir`), `format: path`, and `file://` URLs anywhere. They are writes unless
    ///   the tool is `read_only`;
    /// - commands: `command`, `cmd` (a list is a program and its arguments);
    /// - URLs: every text that is one.
    #[must_use]
    pub fn declared(schema: &Value, arguments: &Arguments, read_only: bool) -> Self {
        let mut found = Self::default();
        for (name, value) in arguments {
            let property = &schema["properties"][name];
            gather(
                purpose(name, property),
                value,
                property,
                read_only,
                &mut found,
                0,
            );
        }
        found
    }
}

fn gather(
    purpose: Purpose,
    value: &Value,
    schema: &Value,
    read_only: bool,
    found: &mut ResourceAccess,
    depth: usize,
) {
    match value {
        Value::String(text) => take(purpose, text, read_only, found),
        Value::Array(items)
            if purpose == Purpose::Command && items.iter().all(Value::is_string) =>
        {
            let words = items.iter().filter_map(Value::as_str).map(str::to_owned);
            let words: Vec<String> = words.collect();
            if !words.is_empty() {
                found.commands.push(Command {
                    text: CommandText::Program(words),
                    directory: None,
                });
            }
        }
        Value::Array(items) if depth < MAX_DEPTH => {
            for item in items {
                gather(purpose, item, &schema["items"], read_only, found, depth + 1);
            }
        }
        Value::Object(fields) if depth < MAX_DEPTH => {
            for (name, value) in fields {
                let property = &schema["properties"][name];
                let inner = match self::purpose(name, property) {
                    Purpose::Other => purpose,
                    inner => inner,
                };
                gather(inner, value, property, read_only, found, depth + 1);
            }
        }
        _ => {}
    }
}

fn take(purpose: Purpose, text: &str, read_only: bool, found: &mut ResourceAccess) {
    let mut path = |path: PathBuf| {
        if read_only {
            found.reads.push(path)
        } else {
            found.writes.push(path)
        }
    };
    if let Some(file) = file_url_path(text) {
        path(file);
        return;
    }
    match purpose {
        Purpose::Path if !text.is_empty() => path(PathBuf::from(text)),
        Purpose::Command if !text.trim().is_empty() => found.commands.push(Command {
            text: CommandText::Line(text.to_owned()),
            directory: None,
        }),
        _ => {}
    }
    let is_url = || Url::parse(text.trim()).is_ok_and(|url| url.has_host());
    if text.contains("://") && is_url() {
        found.urls.push(text.trim().to_owned());
    }
}

/// The path that a `file:` URL names.
#[must_use]
pub fn file_url_path(text: &str) -> Option<PathBuf> {
    let text = text.trim();
    let scheme = text.get(..5)?;
    if !scheme.eq_ignore_ascii_case("file:") {
        return None;
    }
    let url = Url::parse(text).ok();
    let path = url.and_then(|url| url.to_file_path().ok());
    // A URL with a host is treated as a path, too: servers differ.
    Some(path.unwrap_or_else(|| Path::new(text[5..].trim_start_matches("//")).to_owned()))
}

fn purpose(name: &str, schema: &Value) -> Purpose {
    let words = words(name);
    let last = words.last().map(String::as_str).unwrap_or_default();
    let whole = words.concat();
    let is_format = |formats: &[&str]| {
        schema["format"]
            .as_str()
            .is_some_and(|format| formats.contains(&format))
    };
    if is_format(&["path", "file-path", "file", "directory", "directory-path"])
        || PATH_WORDS.contains(&last)
        || PATH_WORDS.contains(&whole.as_str())
        || WHOLE_NAME_PATHS.contains(&whole.as_str())
    {
        return Purpose::Path;
    }
    if COMMAND_WORDS.contains(&last) || COMMAND_WORDS.contains(&whole.as_str()) {
        Purpose::Command
    } else {
        Purpose::Other
    }
}

/// The words of a name in lower case: equal for `filePath`, `file_path` and `file-path`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut was_lower = false;
    for character in name.chars() {
        let begins = character.is_uppercase() && was_lower;
        was_lower = character.is_lowercase() || character.is_numeric();
        if (begins || !character.is_alphanumeric())
            && words.last().is_some_and(|word| !word.is_empty())
        {
            words.push(String::new());
        }
        if character.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(character.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
#[path = "../../tests/unit/resource_access/declared.rs"]
mod tests;
