//! The tool `list_dir`.

use std::ffi::OsStr;

use cachalot_core::config::CallArguments;
use cachalot_core::{EffectTarget, Effects};
use cachalot_operation::{OperationMetadata, ResourceAccess, ToolContext, ToolOutput};
use serde::Deserialize;

use super::file_call::{FileCall, RunningCall};
use super::open_path::{access_error, open_directory};
use super::{format_count, reader, reading, relative_path, skipped, tree_reads};
use crate::workspace::{Directory, EntryKind};

/// Maximum number of entries that are shown.
const MAX_ENTRIES: usize = 1_000;

/// Directory of the version control, which contains thousands of irrelevant files.
pub(super) const GIT_DIRECTORY: &str = ".git";

#[derive(CallArguments, Deserialize)]
pub(super) struct ListDir {
    /// The directory, relative to the workspace; the workspace itself if left out.
    path: Option<String>,
    /// How many levels are listed; 1 if left out.
    #[setting(range = 1..=16)]
    depth: Option<usize>,
}

const DESCRIPTION: &str = "Lists a directory, sorted by name, hidden and ignored files included. \
    Directories end with `/`, symbolic links with `@`, pipes, sockets and devices with `|`. \
    With depth, directories in it are listed, too; links are not followed, and `.git` is not \
    opened.";

impl ListDir {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }

    fn depth(&self) -> usize {
        self.depth.unwrap_or(1).max(1)
    }
}

impl FileCall for ListDir {
    const SEARCHES: bool = true;

    fn metadata() -> OperationMetadata {
        reader("list_dir", DESCRIPTION, Self::PARAMETERS)
    }

    fn effects(&self, context: &ToolContext) -> Effects {
        let shallow = self.depth() == 1;
        reading(self.path(), context, |resolved| {
            if !shallow {
                return tree_reads(&resolved.real);
            }
            vec![
                EffectTarget::Glob {
                    root: resolved.real.clone(),
                    pattern: "*".to_owned(),
                },
                EffectTarget::Path(resolved.real.clone()),
            ]
        })
    }

    fn resource_access(&self) -> ResourceAccess {
        ResourceAccess::searching(self.path())
    }

    fn run(&self, running: RunningCall<'_>) -> Result<ToolOutput, ToolOutput> {
        let (resolved, directory) = open_directory(running.workspace(), self.path())?;
        let mut listing = Listing {
            root: &resolved.requested,
            real: &resolved.real,
            running,
            skipped: 0,
            lines: Vec::new(),
            unread: Vec::new(),
            cut: false,
        };
        listing
            .list(&directory, self.depth())
            .map_err(|error| access_error("list", self.path(), &error))?;
        Ok(ToolOutput::text(listing.text()))
    }
}

struct Listing<'a> {
    root: &'a std::path::Path,
    /// The canonical path of the root.
    real: &'a std::path::Path,
    running: RunningCall<'a>,
    /// Number of entries that permission rules exclude.
    skipped: usize,
    lines: Vec<String>,
    /// Directories that could not be listed.
    unread: Vec<String>,
    cut: bool,
}

impl Listing<'_> {
    fn list(&mut self, directory: &Directory, depth: usize) -> std::io::Result<()> {
        for entry in directory.entries(self.running.witness())? {
            if self.lines.len() >= MAX_ENTRIES || self.running.abandoned.is_cancelled() {
                self.cut = true;
                return Ok(());
            }
            let path = relative_path(&directory.requested().join(&entry.name), self.root);
            let (denied, workspace) = (self.running.denied, self.running.workspace());
            if denied.hides(&self.real.join(&path), workspace) {
                self.skipped += 1;
                continue;
            }
            let mark = match entry.kind {
                EntryKind::File => "",
                EntryKind::Directory => "/",
                EntryKind::Link => "@",
                EntryKind::Special => "|",
            };
            self.lines.push(format!("{path}{mark}"));
            if entry.kind == EntryKind::Directory && depth > 1 && entry.name != GIT_DIRECTORY {
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
            let witness = self.running.witness();
            witness.mark_incomplete(format!("{path}: {error}"));
            self.unread.push(format!("{path}: {error}"));
        }
    }

    fn text(self) -> String {
        if self.lines.is_empty() && self.skipped == 0 {
            return "[the directory is empty]\n".to_owned();
        }
        let mut text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        if self.cut {
            text.push_str(&format!(
                "[only the first {} are shown; list a directory below, or use glob]\n",
                format_count(self.lines.len(), "name")
            ));
        }
        if let Some(notice) = skipped(self.skipped) {
            text.push_str(&format!("[{notice}]\n"));
        }
        for unread in &self.unread {
            text.push_str(&format!("[cannot be listed: {unread}]\n"));
        }
        text
    }
}
