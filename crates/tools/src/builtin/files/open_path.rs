//! Opens the file or directory at a path, and explains failures.

use std::fs::File;
use std::io;
use std::path::Path;

use cachalot_core::suggest;
use rustix::io::Errno;

use crate::workspace::{Directory, PathKind, ResolvedPath, Workspace};
use cachalot_operation::ToolOutput;

/// Maximum number of attempts to resolve and open a path that changes meanwhile.
const MAX_ATTEMPTS: usize = 3;

/// Opens the file at a path.
pub(super) fn open_file(
    workspace: &Workspace,
    path: &str,
) -> Result<(ResolvedPath, File), ToolOutput> {
    for _ in 0..MAX_ATTEMPTS {
        let resolved = workspace.resolved(path)?;
        ensure_file(workspace, &resolved, path)?;
        match resolved.open_file() {
            Ok(file) => return Ok((resolved, file)),
            Err(error) if was_replaced(&error) => {}
            Err(error) => return Err(access_error("read", path, &error)),
        }
    }
    Err(unstable_path_error(path))
}

/// Opens the directory at a path.
pub(super) fn open_directory(
    workspace: &Workspace,
    path: &str,
) -> Result<(ResolvedPath, Directory), ToolOutput> {
    for _ in 0..MAX_ATTEMPTS {
        let resolved = workspace.resolved(path)?;
        match resolved.found {
            PathKind::Directory => {}
            PathKind::Nothing => return Err(missing(workspace, &resolved, path)),
            PathKind::File => {
                return Err(ToolOutput::error(format!(
                    "`{path}` is a file, not a directory; read it with read_file"
                )));
            }
            PathKind::Special(what) => return Err(special_file_error(path, what)),
        }
        match resolved.open_directory() {
            Ok(directory) => return Ok((resolved, directory)),
            Err(error) if was_replaced(&error) => {}
            Err(error) => return Err(access_error("list", path, &error)),
        }
    }
    Err(unstable_path_error(path))
}

/// Fails unless there is a file.
pub(super) fn ensure_file(
    workspace: &Workspace,
    resolved: &ResolvedPath,
    path: &str,
) -> Result<(), ToolOutput> {
    match resolved.found {
        PathKind::File => Ok(()),
        PathKind::Nothing => Err(missing(workspace, resolved, path)),
        PathKind::Directory => Err(ToolOutput::error(format!(
            "`{path}` is a directory, not a file; list it with list_dir"
        ))),
        PathKind::Special(what) => Err(special_file_error(path, what)),
    }
}

/// True if the error means that the entry was replaced between resolving the path and opening it.
pub(super) fn was_replaced(error: &io::Error) -> bool {
    let by_number = error.raw_os_error().is_some_and(|number| {
        [Errno::LOOP, Errno::NOTDIR, Errno::NOENT, Errno::NXIO]
            .iter()
            .any(|errno| errno.raw_os_error() == number)
    });
    by_number
        || matches!(
            error.kind(),
            io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput
        )
}

/// The error for a path that does not exist: the missing component, and similar or existing names.
pub(super) fn missing(workspace: &Workspace, resolved: &ResolvedPath, path: &str) -> ToolOutput {
    let tilde = if path.starts_with('~') {
        "; `~` is not expanded"
    } else {
        ""
    };
    let Some(Ok((directory, name))) = resolved.first_missing() else {
        return ToolOutput::error(format!("there is no `{path}`{tilde}"));
    };
    let name = name.to_string_lossy();
    let names: Vec<String> = directory
        .unwitnessed_entries()
        .unwrap_or_default()
        .into_iter()
        .map(|entry| entry.name.to_string_lossy().into_owned())
        .collect();
    let within = |name: &str| workspace.shown(&directory.requested().join(name));
    let near = suggest::nearest(&name, names.iter().map(String::as_str));
    let meant = match near {
        Some(near) => format!("; did you mean `{}`?", within(near)),
        None => format!(
            "; `{}` holds {}",
            workspace.shown(directory.requested()),
            format_names(&names)
        ),
    };
    let first = within(&name);
    let what = if Path::new(&first) == Path::new(path) || resolved.real.ends_with(&*name) {
        format!("there is no `{path}`")
    } else {
        format!("there is no `{path}`, not even `{first}`")
    };
    ToolOutput::error(format!("{what}{tilde}{meant}"))
}

fn format_names(names: &[String]) -> String {
    const MAX_NAMES: usize = 20;
    match names.len() {
        0 => "nothing".to_owned(),
        count if count <= MAX_NAMES => names.join(", "),
        count => format!(
            "{} and {} more",
            names[..MAX_NAMES].join(", "),
            count - MAX_NAMES
        ),
    }
}

pub(super) fn special_file_error(path: &str, what: &str) -> ToolOutput {
    ToolOutput::error(format!(
        "`{path}` is {what}; only files and directories can be used"
    ))
}

pub(super) fn access_error(what: &str, path: &str, error: &io::Error) -> ToolOutput {
    ToolOutput::error(format!("cannot {what} `{path}`: {error}"))
}

pub(super) fn unstable_path_error(path: &str) -> ToolOutput {
    ToolOutput::error(format!(
        "`{path}` becomes something else while it is opened; try again when nothing else works on it"
    ))
}
