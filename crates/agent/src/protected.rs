//! Files that control agents and hooks. An agent that could change them would grant itself permissions that
//! the user has not granted.

use std::cell::OnceCell;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

use cachalot_core::links::without_links;
use cachalot_operation::resource_access::Command;
use cachalot_operation::workspace::normalize;
use cachalot_operation::{
    AccessRequest, UNKNOWN, Workspace, WrittenPath, may_be, protected_name, written_paths,
};

/// The reason why a call may write a protected file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ProtectedWrite {
    /// It writes or names the file.
    File {
        /// The path as written in the call.
        path: String,
        /// The name, in lower case, that a rule must contain to allow the call.
        name: String,
    },
    /// It is not known which files one of its commands writes, for this reason.
    Unclear(String),
}

/// Returns the first protected file that a call writes or one of its commands names to write it. `own` are protected
/// files and folders in addition to those known by name. Commands are left out if the call runs in a sandbox, which
/// protects the files.
pub(crate) fn find_protected(
    operation: &AccessRequest<'_>,
    workspace: &Workspace,
    own: &[PathBuf],
) -> Option<ProtectedWrite> {
    let protected = Protected::new(workspace, own);
    let resource_access = operation.resource_access;
    let written = resource_access.writes.iter().find_map(|path| {
        let name = protected.name_of(path)?;
        let path = path.display().to_string();
        Some(ProtectedWrite::File { path, name })
    });
    if written.is_some() || operation.sandboxed {
        return written;
    }
    let mut commands = resource_access.commands.iter();
    commands.find_map(|command| protected.find_in_command(command))
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
                // In lower case, because the file system may ignore the case of letters.
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

    /// Returns the protected file that a command may write.
    fn find_in_command(&self, command: &Command) -> Option<ProtectedWrite> {
        let written = written_paths(command, self.workspace);
        let mut seen = HashSet::new();
        let found = written.paths.iter().find_map(|written_path| {
            let key = (&written_path.path, written_path.may_be_name);
            if !seen.insert(key) || self.is_only_a_name(written_path) {
                return None;
            }
            let name = self.name_of_written(written_path, written.is_moved)?;
            Some(ProtectedWrite::File {
                path: written_path.word.replace(UNKNOWN, "…"),
                name,
            })
        });
        found.or_else(|| written.unclear.map(ProtectedWrite::Unclear))
    }

    /// Returns the name by which a path that a command may write is protected. With unknown parts, or relative to
    /// another directory, the file name decides.
    fn name_of_written(&self, written: &WrittenPath, is_moved: bool) -> Option<String> {
        let has_unknown = written.word.contains(UNKNOWN);
        let name = if has_unknown {
            protected_name(&normalize(&written.path))
        } else {
            self.name_of(&written.path)
        };
        if name.is_some() || !(has_unknown || is_moved) {
            return name;
        }
        let file = written.path.file_name()?.to_string_lossy().to_lowercase();
        let is_known = file.chars().any(|character| character != UNKNOWN);
        let mut own = self.own_paths().iter();
        let own = own.find(|own| is_known && may_be(&file, &own.name))?;
        Some(own.name.clone())
    }

    /// True if a word without a `/` is no file, and the command takes it as a name: `skills` in `cargo test skills`,
    /// `HEAD` in `git reset HEAD`.
    fn is_only_a_name(&self, written: &WrittenPath) -> bool {
        let name = protected_name(&written.path);
        written.may_be_name
            && !written.word.contains(['/', UNKNOWN])
            && name.is_none_or(|name| name == "head")
            && std::fs::symlink_metadata(&written.path)
                .is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    }
}

fn to_lowercase_path(path: &Path) -> PathBuf {
    PathBuf::from(path.to_string_lossy().to_lowercase())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use cachalot_operation::{Arguments, CommandText, ResourceAccess};

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

    /// Returns the lines of a file of `tests/data/commands`. `␤` is a line end in a line.
    fn lines(text: &str) -> impl Iterator<Item = String> {
        let lines = text
            .lines()
            .filter(|line| !line.starts_with("# ") && !line.is_empty());
        lines.map(|line| line.replace('␤', "\n"))
    }

    #[cfg(unix)]
    #[test]
    fn commands_that_may_write_protected_files_are_found() {
        use std::os::unix::fs::symlink;

        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        let root = workspace.root();
        for name in ["q", "src", "present", ".git/hooks"] {
            std::fs::create_dir_all(root.join(name)).unwrap();
        }
        for name in ["team.yaml", "q/team.yaml", "q/a"] {
            std::fs::write(root.join(name), "x").unwrap();
        }
        symlink(".git", root.join("innocent")).unwrap();
        symlink("../.git/hooks", root.join("src/deep")).unwrap();
        symlink("team.yaml", root.join("notes.txt")).unwrap();
        let own = ["team.yaml", "skills", "present"].map(|name| root.join(name));
        let find = |line: &str, sandboxed: bool| {
            let resource_access = ResourceAccess {
                commands: vec![Command {
                    text: CommandText::Line(line.to_owned()),
                    directory: None,
                }],
                ..ResourceAccess::default()
            };
            let request = AccessRequest {
                tool: "shell",
                read_only: false,
                arguments: &Arguments::new(),
                resource_access: &resource_access,
                sandboxed,
            };
            find_protected(&request, &workspace, &own)
        };
        let mut wrong = Vec::new();
        for line in lines(include_str!(
            "../../operation/tests/data/commands/protected.txt"
        )) {
            if find(&line, false).is_none() {
                wrong.push(format!("not found: {line}"));
            }
            assert_eq!(find(&line, true), None, "{line}");
        }
        for line in lines(include_str!(
            "../../operation/tests/data/commands/unprotected.txt"
        )) {
            if let Some(found) = find(&line, false) {
                wrong.push(format!("found: {line}: {found:?}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
