//! Completion of commands and of names of files.

use std::path::{Path, PathBuf};

use super::editor::Editor;
use super::entries::{self, Entry, Step};
use crate::render::style::Style;

/// The maximum number of files that are suggested.
const MAX_SUGGESTIONS: usize = 1_000;
/// The maximum number of rows that show them.
const MAX_ROWS: usize = 6;
/// The maximum number of files that are looked at for one suggestion.
const MAX_FILES: usize = 20_000;
/// Directories that are not searched.
const SKIPPED: [&str; 3] = ["target", "node_modules", "__pycache__"];

/// A command that can be completed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandHint {
    /// With its slash: `/model`.
    pub(crate) name: String,
    pub(crate) help: String,
    /// The values of its argument, if they are known.
    pub(crate) values: Vec<String>,
}

/// Sources of suggestions.
#[derive(Debug, Clone, Default)]
pub(crate) struct Completer {
    pub(crate) commands: Vec<CommandHint>,
    /// The directory in which files are named.
    pub(crate) root: PathBuf,
}

/// Suggestions for a part of the input.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Suggestions {
    /// Byte offset of the part that a suggestion replaces.
    pub(super) start: usize,
    pub(super) items: Vec<Entry>,
}

/// Suggestions below the input line, which Tab and the arrow keys go through.
#[derive(Debug, Default)]
pub(super) struct SuggestionList {
    suggestions: Suggestions,
    /// Index of the suggestion that was accepted last.
    accepted: Option<usize>,
}

impl SuggestionList {
    pub(super) fn is_empty(&self) -> bool {
        self.suggestions.items.is_empty()
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Finds the suggestions for the text before the cursor.
    pub(super) fn update(&mut self, completer: &Completer, before: &str) {
        *self = Self {
            suggestions: completer.suggest(before),
            accepted: None,
        };
    }

    /// Accepts the next or the previous suggestion.
    pub(super) fn accept(&mut self, step: Step, completer: &Completer, editor: &mut Editor) {
        let items = &self.suggestions.items;
        let place = step.from(self.accepted, items.len());
        let Some(item) = items.get(place) else {
            return;
        };
        editor.replace_from(self.suggestions.start, &item.text);
        self.accepted = Some(place);
        if items.len() == 1 {
            self.end_part(completer, editor);
        }
    }

    /// Ends the part of the input that an accepted suggestion has replaced, if it is the name of a file. Returns false
    /// for other parts.
    pub(super) fn settle_file(&mut self, completer: &Completer, editor: &mut Editor) -> bool {
        let items = self
            .accepted
            .and_then(|place| self.suggestions.items.get(place));
        let is_file = items.is_some_and(|item| item.text.starts_with('@'));
        if is_file {
            self.end_part(completer, editor);
        }
        is_file
    }

    fn end_part(&mut self, completer: &Completer, editor: &mut Editor) {
        if !editor.before().ends_with('/') {
            editor.insert(" ");
        }
        // The content of the directory, or the values of the command.
        self.update(completer, editor.before());
    }

    /// Returns the rows of the suggestions.
    pub(super) fn rows(&self, room: usize, style: Style) -> Vec<String> {
        entries::rows(
            &self.suggestions.items,
            self.accepted,
            MAX_ROWS,
            room,
            style,
        )
    }
}

impl Completer {
    /// Returns the only command whose name begins with a text, unless the text is a whole name.
    pub(super) fn only_command(&self, text: &str) -> Option<&str> {
        let names = self.commands.iter().map(|command| command.name.as_str());
        let mut matching = names.filter(|name| text.len() > 1 && name.starts_with(text));
        let only = matching.next()?;
        (only != text && matching.next().is_none()).then_some(only)
    }

    /// Returns suggestions for the text before the cursor.
    pub(super) fn suggest(&self, before: &str) -> Suggestions {
        if let Some(suggestions) = self.commands(before) {
            return suggestions;
        }
        let start = before.rfind(char::is_whitespace).map_or(0, |at| at + 1);
        // Whitespace can take several bytes.
        let start = (start..=before.len())
            .find(|at| before.is_char_boundary(*at))
            .unwrap_or(before.len());
        match before[start..].strip_prefix('@') {
            Some(name) => Suggestions {
                start,
                items: self.files(name),
            },
            None => Suggestions::default(),
        }
    }

    fn commands(&self, before: &str) -> Option<Suggestions> {
        if !before.starts_with('/') || before.contains('\n') {
            return None;
        }
        let Some((name, value)) = before.split_once(' ') else {
            let matching = self.commands.iter();
            let matching = matching.filter(|command| command.name.starts_with(before));
            return Some(Suggestions {
                start: 0,
                items: matching
                    .map(|command| Entry {
                        text: command.name.clone(),
                        help: command.help.clone(),
                    })
                    .collect(),
            });
        };
        let command = self.commands.iter().find(|command| command.name == name)?;
        if command.values.is_empty() {
            return None;
        }
        let values = command.values.iter();
        let values = values.filter(|known| known.contains(value.trim()));
        Some(Suggestions {
            start: name.len() + 1,
            items: values
                .map(|value| Entry {
                    text: value.clone(),
                    help: String::new(),
                })
                .collect(),
        })
    }

    /// Returns files whose path begins with a name, or else contains it.
    fn files(&self, name: &str) -> Vec<Entry> {
        let (folder, part) = name
            .rsplit_once('/')
            .map_or(("", name), |(folder, part)| (folder, part));
        let mut found: Vec<String> = entries(&self.root.join(folder))
            .into_iter()
            .filter(|(entry, _)| entry.starts_with(part))
            .filter(|(entry, _)| part.starts_with('.') || !entry.starts_with('.'))
            .map(|(entry, is_folder)| {
                let path = match folder {
                    "" => entry,
                    folder => format!("{folder}/{entry}"),
                };
                path + if is_folder { "/" } else { "" }
            })
            .collect();
        found.sort();
        if found.is_empty() && !part.is_empty() && folder.is_empty() {
            found = containing(&self.root, part);
        }
        found.truncate(MAX_SUGGESTIONS);
        let suggestion = |path| Entry {
            text: format!("@{path}"),
            help: String::new(),
        };
        found.into_iter().map(suggestion).collect()
    }
}

/// Returns the names in a directory that are valid Unicode, and whether they are directories.
fn entries(folder: &Path) -> Vec<(String, bool)> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let entries = entries.take(MAX_FILES).flatten();
    entries
        .filter_map(|entry| {
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            Some((entry.file_name().into_string().ok()?, is_folder))
        })
        .collect()
}

/// Returns the files below a directory whose path contains a text, the shortest paths first.
fn containing(root: &Path, part: &str) -> Vec<String> {
    let part = part.to_lowercase();
    let mut found = Vec::new();
    let mut folders = vec![String::new()];
    let mut looked_at = 0;
    while let Some(folder) = folders.pop() {
        for (entry, is_folder) in entries(&root.join(&folder)) {
            looked_at += 1;
            if looked_at > MAX_FILES {
                // The limit holds for the whole search: the rest of the directories is dropped, too.
                folders.clear();
                break;
            }
            if entry.starts_with('.') || SKIPPED.contains(&entry.as_str()) {
                continue;
            }
            let path = format!("{folder}{entry}");
            if is_folder {
                folders.push(format!("{path}/"));
            } else if path.to_lowercase().contains(&part) {
                found.push(path);
            }
        }
    }
    found.sort_by_key(|path| (path.len(), path.clone()));
    found
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn completer(root: &Path) -> Completer {
        let hint = |name: &str, values: &[&str]| CommandHint {
            name: name.to_owned(),
            help: "help".to_owned(),
            values: values.iter().map(|&value| value.to_owned()).collect(),
        };
        Completer {
            commands: vec![hint("/new", &[]), hint("/model", &["a/one", "b/two"])],
            root: root.to_owned(),
        }
    }

    fn texts(suggestions: &Suggestions) -> Vec<&str> {
        let items = suggestions.items.iter();
        items.map(|item| item.text.as_str()).collect()
    }

    #[test]
    fn commands_and_their_values_are_suggested() {
        let completer = completer(Path::new("/nowhere"));
        assert_eq!(texts(&completer.suggest("/")), ["/new", "/model"]);
        assert_eq!(texts(&completer.suggest("/mo")), ["/model"]);
        let values = completer.suggest("/model tw");
        assert_eq!((texts(&values), values.start), (vec!["b/two"], 7));
        for text in ["/new x", "hello /", "/x", " /new", ""] {
            assert!(texts(&completer.suggest(text)).is_empty(), "{text}");
        }
    }

    #[test]
    fn beginning_of_one_command_stands_for_it() {
        let completer = completer(Path::new("/nowhere"));
        assert_eq!(completer.only_command("/mo"), Some("/model"));
        for text in ["/model", "/", "/x", "", "model", "/mo x"] {
            assert_eq!(completer.only_command(text), None, "{text}");
        }
    }

    #[test]
    fn files_are_suggested_by_path_or_part() {
        let folder = tempfile::tempdir().unwrap();
        for path in [
            "src/main.rs",
            "src/main_loop.rs",
            "README.md",
            ".hidden",
            "target/main.rs",
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "").unwrap();
        }
        let completer = completer(folder.path());
        assert_eq!(
            texts(&completer.suggest("see @")),
            ["@README.md", "@src/", "@target/"]
        );
        let inside = completer.suggest("鯨 @src/ma");
        assert_eq!(texts(&inside), ["@src/main.rs", "@src/main_loop.rs"]);
        assert_eq!(inside.start, "鯨 ".len());
        assert_eq!(
            texts(&completer.suggest("@main")),
            ["@src/main.rs", "@src/main_loop.rs"]
        );
        assert_eq!(texts(&completer.suggest("@.h")), ["@.hidden"]);
        assert!(texts(&completer.suggest("me@example")).is_empty());
    }
}
