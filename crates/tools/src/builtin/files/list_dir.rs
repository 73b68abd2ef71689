//! The tool `list_dir`.

use std::ffi::OsStr;

use async_trait::async_trait;
use cachalot_cache::Witness;
use cachalot_core::{Effects, Touched};
use cachalot_operation::Touches;
use cachalot_operation::permissions::SearchFilter;
use serde::Deserialize;
use serde_json::{Value, json};

use super::opening::{cannot, open_directory};
use super::{
    below, counted, denied, passed_over, reader, reading, relative, searchable, searching, typed,
};
use crate::blocking::{Abandoned, blocking};
use crate::tool::{About, Arguments, Context, Output, Tool};
use crate::workspace::{Directory, Kind, Workspace};

/// Maximum number of entries that are shown.
const MOST: usize = 1_000;

/// Directory of the version control, which contains thousands of irrelevant files.
pub(super) const VERSION_CONTROL: &str = ".git";

pub(super) struct ListDir {
    about: About,
}

#[derive(Deserialize)]
struct Asked {
    path: Option<String>,
    depth: Option<usize>,
}

impl Asked {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }

    fn depth(&self) -> usize {
        self.depth.unwrap_or(1).max(1)
    }
}

impl ListDir {
    pub(super) fn new() -> Self {
        let description = "Lists a directory, sorted by name, hidden and ignored files included. \
            Directories end with `/`, symbolic links with `@`, pipes, sockets and devices with `|`. \
            With depth, directories in it are listed, too; links are not followed, and `.git` is not \
            opened.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "The directory, relative to the workspace; the workspace itself if left out.",
                },
                "depth": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": 16,
                    "description": "How many levels are listed; 1 if left out.",
                },
            },
            "additionalProperties": false,
        });
        Self {
            about: reader("list_dir", description, parameters),
        }
    }
}

#[async_trait]
impl Tool for ListDir {
    fn about(&self) -> &About {
        &self.about
    }

    fn effects(&self, arguments: &Arguments, context: &Context) -> Effects {
        let path = arguments.get("path").and_then(|path| path.as_str());
        let shallow = arguments
            .get("depth")
            .is_none_or(|depth| depth.as_u64() == Some(1));
        reading(path.unwrap_or("."), context, |place| {
            if !shallow {
                return below(&place.real);
            }
            vec![
                Touched::Glob {
                    root: place.real.clone(),
                    pattern: "*".to_owned(),
                },
                Touched::Path(place.real.clone()),
            ]
        })
    }

    fn touches(&self, arguments: &Arguments) -> Touches {
        searching(arguments)
    }

    fn implicit_inputs(&self, context: &Context) -> Value {
        searchable(&self.about.name, context)
    }

    async fn run(&self, arguments: Arguments, context: &Context) -> Output {
        let denied = denied(self, &arguments, context);
        let asked: Asked = match typed(arguments) {
            Ok(asked) => asked,
            Err(wrong) => return wrong,
        };
        let context = context.clone();
        blocking(move |abandoned| {
            list(&asked, &context, &denied, abandoned).unwrap_or_else(|failed| failed)
        })
        .await
    }
}

fn list(
    asked: &Asked,
    context: &Context,
    denied: &SearchFilter,
    abandoned: &Abandoned,
) -> Result<Output, Output> {
    let (place, directory) = open_directory(&context.workspace, asked.path())?;
    let mut listing = Listing {
        root: &place.asked,
        real: &place.real,
        workspace: &context.workspace,
        denied,
        passed_over: 0,
        witness: &context.witness,
        abandoned,
        lines: Vec::new(),
        unread: Vec::new(),
        cut: false,
    };
    listing
        .list(&directory, asked.depth())
        .map_err(|error| cannot("list", asked.path(), &error))?;
    Ok(Output::text(listing.text()))
}

struct Listing<'a> {
    root: &'a std::path::Path,
    /// The canonical path of the root.
    real: &'a std::path::Path,
    workspace: &'a Workspace,
    denied: &'a SearchFilter,
    /// Number of entries that permission rules exclude.
    passed_over: usize,
    witness: &'a Witness,
    abandoned: &'a Abandoned,
    lines: Vec<String>,
    /// Directories that could not be listed.
    unread: Vec<String>,
    cut: bool,
}

impl Listing<'_> {
    fn list(&mut self, directory: &Directory, depth: usize) -> std::io::Result<()> {
        for entry in directory.entries(self.witness)? {
            if self.lines.len() >= MOST || self.abandoned.is() {
                self.cut = true;
                return Ok(());
            }
            let path = relative(&directory.asked().join(&entry.name), self.root);
            if self.denied.hides(&self.real.join(&path), self.workspace) {
                self.passed_over += 1;
                continue;
            }
            let mark = match entry.kind {
                Kind::File => "",
                Kind::Directory => "/",
                Kind::Link => "@",
                Kind::Special => "|",
            };
            self.lines.push(format!("{path}{mark}"));
            if entry.kind == Kind::Directory && depth > 1 && entry.name != VERSION_CONTROL {
                self.enter(directory, &entry.name, path, depth - 1);
            }
        }
        Ok(())
    }

    fn enter(&mut self, directory: &Directory, name: &OsStr, path: String, depth: usize) {
        let listed = directory
            .directory(name)
            .and_then(|next| self.list(&next, depth));
        if let Err(error) = listed {
            // A witness does not record readability.
            self.witness.spoil(format!("{path}: {error}"));
            self.unread.push(format!("{path}: {error}"));
        }
    }

    fn text(self) -> String {
        if self.lines.is_empty() && self.passed_over == 0 {
            return "[the directory is empty]\n".to_owned();
        }
        let mut text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        if self.cut {
            text.push_str(&format!(
                "[only the first {} are shown; list a directory below, or use glob]\n",
                counted(self.lines.len(), "name")
            ));
        }
        if let Some(notice) = passed_over(self.passed_over) {
            text.push_str(&format!("[{notice}]\n"));
        }
        for unread in &self.unread {
            text.push_str(&format!("[cannot be listed: {unread}]\n"));
        }
        text
    }
}
