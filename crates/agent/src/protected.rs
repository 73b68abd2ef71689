//! Files that control agents and hooks. An agent that could change them would grant itself permissions that
//! the user has not granted.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cachalot_core::links::without_links;
use cachalot_operation::resource_access::Command;
use cachalot_operation::workspace::normalize;
use cachalot_operation::{
    AccessRequest, NamedPath, UNKNOWN, Workspace, named_paths, protected_name,
};

use crate::read_only_command::{is_only_a_name, is_read_only};

/// A protected file that a call writes or a command names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProtectedFile {
    /// The path as written in the call.
    pub(crate) path: String,
    /// The name, in lower case, that a rule must contain to allow the call.
    pub(crate) name: String,
}

/// Returns the first protected file that a call writes or one of its commands names. `own` are protected
/// files and folders in addition to those known by name.
pub(crate) fn find_protected(
    operation: &AccessRequest<'_>,
    workspace: &Workspace,
    own: &[PathBuf],
) -> Option<ProtectedFile> {
    let protected = Protected::new(workspace, own);
    let resource_access = operation.resource_access;
    let written = resource_access.writes.iter().find_map(|path| {
        let name = protected.name_of(path)?;
        Some(ProtectedFile {
            path: path.display().to_string(),
            name,
        })
    });
    written.or_else(|| {
        let mut commands = resource_access.commands.iter();
        commands.find_map(|command| protected.find_in_command(command))
    })
}

struct Protected<'a> {
    workspace: &'a Workspace,
    own: &'a [PathBuf],
    /// See [`Protected::own_paths`].
    own_paths: OnceCell<Vec<OwnPath>>,
}

/// A path of a protected file that is not known by its name.
struct OwnPath {
    /// In lower case.
    path: PathBuf,
    /// The name of the file, in lower case.
    name: String,
}

impl<'a> Protected<'a> {
    fn new(workspace: &'a Workspace, own: &'a [PathBuf]) -> Self {
        Self {
            workspace,
            own,
            own_paths: OnceCell::new(),
        }
    }

    /// Returns the paths of the own files, as written and with all links followed. They are resolved once.
    fn own_paths(&self) -> &[OwnPath] {
        self.own_paths.get_or_init(|| {
            let mut seen = HashSet::new();
            let mut paths = Vec::new();
            for own in self.own.iter().filter(|own| seen.insert(*own)) {
                let name = own.file_name().unwrap_or(own.as_os_str());
                let name = name.to_string_lossy().to_lowercase();
                let written = to_lowercase_path(&normalize(own));
                let real = to_lowercase_path(&normalize(&without_links(own)));
                if real != written {
                    let name = name.clone();
                    paths.push(OwnPath { path: real, name });
                }
                paths.push(OwnPath {
                    path: written,
                    name,
                });
            }
            paths
        })
    }

    /// Returns the name by which a path is protected, if it is. Checks the path as written and with all links
    /// followed.
    fn name_of(&self, path: &Path) -> Option<String> {
        let path = self.workspace.root().join(path);
        // The system follows the link before a `..` after it.
        let (normalized, real) = (normalize(&path), normalize(&without_links(&path)));
        [&normalized, &real]
            .into_iter()
            .find_map(|path| protected_name(path).or_else(|| self.own_name_of(path)))
    }

    fn own_name_of(&self, path: &Path) -> Option<String> {
        let path = to_lowercase_path(path);
        let mut own = self.own_paths().iter();
        let found = own.find(|own| path.starts_with(&own.path))?;
        Some(found.name.clone())
    }

    /// Returns the protected file that a command names, from any directory in which it may run, and therefore
    /// may write.
    fn find_in_command(&self, command: &Command) -> Option<ProtectedFile> {
        if is_read_only(&command.text) {
            return None;
        }
        let Some(paths) = named_paths(command, self.workspace) else {
            return Some(ProtectedFile {
                path: "too many words to look at".to_owned(),
                name: "too many words".to_owned(),
            });
        };
        let mut seen = HashSet::new();
        paths.into_iter().find_map(|named| {
            if !seen.insert(named.path.clone()) || self.is_missing_name(command, &named) {
                return None;
            }
            let name = match named.word.contains(UNKNOWN) {
                true => protected_name(&normalize(&named.path)),
                false => self.name_of(&named.path),
            };
            Some(ProtectedFile {
                path: named.word.replace(UNKNOWN, "…"),
                name: name?,
            })
        })
    }

    /// True if a word without a `/` is the path of an own file that does not exist, and the command takes it as
    /// a name and does not create it: `skills` in `cargo test skills`.
    fn is_missing_name(&self, command: &Command, named: &NamedPath) -> bool {
        let path = to_lowercase_path(&named.path);
        !named.word.contains(['/', UNKNOWN])
            && self.own_paths().iter().any(|own| own.path == path)
            && protected_name(&named.path).is_none()
            && std::fs::symlink_metadata(&named.path)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
            && is_only_a_name(&command.text, &named.word)
    }
}

fn to_lowercase_path(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn own_files_are_resolved_once() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        let file = workspace.root().join("Team.yaml");
        let own = [file.clone(), file.clone()];
        let protected = Protected::new(&workspace, &own);
        assert_eq!(protected.own_paths().len(), 1);
        assert_eq!(protected.name_of(&file).as_deref(), Some("team.yaml"));
        let below = protected.name_of(Path::new("TEAM.yaml/x"));
        assert_eq!(below.as_deref(), Some("team.yaml"));
        assert_eq!(protected.name_of(Path::new("Team.yamls")), None);
    }
}
