//! Opens the file or directory at a path, and explains failures.

use std::fs::File;
use std::io;
use std::path::Path;

use cachalot_core::suggest;
use rustix::io::Errno;

use crate::tool::Output;
use crate::workspace::{Directory, Found, Place, Workspace};

/// Maximum number of attempts to resolve and open a path that changes meanwhile.
const TRIES: usize = 3;

/// Opens the file at a path.
pub(super) fn open_file(workspace: &Workspace, path: &str) -> Result<(Place, File), Output> {
    for _ in 0..TRIES {
        let place = workspace.readable_place(path)?;
        is_file(workspace, &place, path)?;
        match place.open_file() {
            Ok(file) => return Ok((place, file)),
            Err(error) if is_swapped(&error) => {}
            Err(error) => return Err(cannot("read", path, &error)),
        }
    }
    Err(restless(path))
}

/// Opens the directory at a path.
pub(super) fn open_directory(
    workspace: &Workspace,
    path: &str,
) -> Result<(Place, Directory), Output> {
    for _ in 0..TRIES {
        let place = workspace.readable_place(path)?;
        match place.found {
            Found::Directory => {}
            Found::Nothing => return Err(missing(workspace, &place, path)),
            Found::File => {
                return Err(Output::error(format!(
                    "`{path}` is a file, not a directory; read it with read_file"
                )));
            }
            Found::Special(what) => return Err(special(path, what)),
        }
        match place.open_directory() {
            Ok(directory) => return Ok((place, directory)),
            Err(error) if is_swapped(&error) => {}
            Err(error) => return Err(cannot("list", path, &error)),
        }
    }
    Err(restless(path))
}

/// Fails unless there is a file.
pub(super) fn is_file(workspace: &Workspace, place: &Place, path: &str) -> Result<(), Output> {
    match place.found {
        Found::File => Ok(()),
        Found::Nothing => Err(missing(workspace, place, path)),
        Found::Directory => Err(Output::error(format!(
            "`{path}` is a directory, not a file; list it with list_dir"
        ))),
        Found::Special(what) => Err(special(path, what)),
    }
}

/// True if the error means that the entry was replaced between resolving the path and opening it.
pub(super) fn is_swapped(error: &io::Error) -> bool {
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
pub(super) fn missing(workspace: &Workspace, place: &Place, path: &str) -> Output {
    let tilde = if path.starts_with('~') {
        "; `~` is not expanded"
    } else {
        ""
    };
    let Some(Ok((directory, name))) = place.first_missing() else {
        return Output::error(format!("there is no `{path}`{tilde}"));
    };
    let name = name.to_string_lossy();
    let names: Vec<String> = directory
        .unwitnessed_entries()
        .unwrap_or_default()
        .into_iter()
        .map(|entry| entry.name.to_string_lossy().into_owned())
        .collect();
    let within = |name: &str| workspace.shown(&directory.asked().join(name));
    let near = suggest::nearest(&name, names.iter().map(String::as_str));
    let meant = match near {
        Some(near) => format!("; did you mean `{}`?", within(near)),
        None => format!(
            "; `{}` holds {}",
            workspace.shown(directory.asked()),
            some(&names)
        ),
    };
    let first = within(&name);
    let what = if Path::new(&first) == Path::new(path) || place.real.ends_with(&*name) {
        format!("there is no `{path}`")
    } else {
        format!("there is no `{path}`, not even `{first}`")
    };
    Output::error(format!("{what}{tilde}{meant}"))
}

fn some(names: &[String]) -> String {
    const MOST: usize = 20;
    match names.len() {
        0 => "nothing".to_owned(),
        count if count <= MOST => names.join(", "),
        count => format!("{} and {} more", names[..MOST].join(", "), count - MOST),
    }
}

pub(super) fn special(path: &str, what: &str) -> Output {
    Output::error(format!(
        "`{path}` is {what}; only files and directories can be used"
    ))
}

pub(super) fn cannot(what: &str, path: &str, error: &io::Error) -> Output {
    Output::error(format!("cannot {what} `{path}`: {error}"))
}

pub(super) fn restless(path: &str) -> Output {
    Output::error(format!(
        "`{path}` becomes something else while it is opened; try again when nothing else works on it"
    ))
}
