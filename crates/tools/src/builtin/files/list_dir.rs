//! The tool `list_dir`.

use std::ffi::OsStr;

use async_trait::async_trait;
use cachalot_cache::Witness;
use cachalot_core::spec::{Parameter, ParameterKind as Kind, key};
use cachalot_core::{EffectTarget, Effects};
use cachalot_operation::ResourceAccess;
use cachalot_operation::permissions::SearchFilter;
use serde::Deserialize;
use serde_json::Value;

use super::open_path::{access_error, open_directory};
use super::{
    denied, format_count, reader, reading, relative_path, search_inputs, skipped, tree_reads,
};
use crate::run_blocking::{AbandonFlag, run_blocking};
use crate::workspace::{Directory, EntryKind, Workspace};
use cachalot_operation::{
    Failure, OperationMetadata, ToolContext, ToolOutput, TypedTool, WithOriginal,
};

/// Maximum number of entries that are shown.
const MAX_ENTRIES: usize = 1_000;

/// Directory of the version control, which contains thousands of irrelevant files.
pub(super) const GIT_DIRECTORY: &str = ".git";

pub(super) struct ListDir {
    metadata: OperationMetadata,
}

#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
    key("path", Kind::Text, "The directory, relative to the workspace; the workspace itself if left out."),
    key("depth", Kind::IntegerIn(1, 16), "How many levels are listed; 1 if left out."),
];

#[derive(Deserialize)]
pub(super) struct ListDirArguments {
    path: Option<String>,
    depth: Option<usize>,
}

impl ListDirArguments {
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
        Self {
            metadata: reader("list_dir", description, PARAMETERS),
        }
    }
}

#[async_trait]
impl TypedTool for ListDir {
    type Arguments = WithOriginal<ListDirArguments>;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(
        &self,
        arguments: &WithOriginal<ListDirArguments>,
        context: &ToolContext,
    ) -> Effects {
        let shallow = arguments.typed.depth() == 1;
        reading(arguments.typed.path(), context, |resolved| {
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

    fn resource_access(&self, arguments: &WithOriginal<ListDirArguments>) -> ResourceAccess {
        ResourceAccess::searching(arguments.typed.path())
    }

    fn implicit_inputs(&self, context: &ToolContext) -> Result<Value, Failure> {
        Ok(search_inputs(&self.metadata.name, context))
    }

    async fn run(
        &self,
        arguments: WithOriginal<ListDirArguments>,
        context: &ToolContext,
    ) -> ToolOutput {
        let denied = denied(self, &arguments, context);
        let requested = arguments.typed;
        let context = context.clone();
        run_blocking(move |abandoned| {
            list(&requested, &context, &denied, abandoned).unwrap_or_else(|failed| failed)
        })
        .await
    }
}

fn list(
    requested: &ListDirArguments,
    context: &ToolContext,
    denied: &SearchFilter,
    abandoned: &AbandonFlag,
) -> Result<ToolOutput, ToolOutput> {
    let (resolved, directory) = open_directory(&context.workspace, requested.path())?;
    let mut listing = Listing {
        root: &resolved.requested,
        real: &resolved.real,
        workspace: &context.workspace,
        denied,
        skipped: 0,
        witness: &context.witness,
        abandoned,
        lines: Vec::new(),
        unread: Vec::new(),
        cut: false,
    };
    listing
        .list(&directory, requested.depth())
        .map_err(|error| access_error("list", requested.path(), &error))?;
    Ok(ToolOutput::text(listing.text()))
}

struct Listing<'a> {
    root: &'a std::path::Path,
    /// The canonical path of the root.
    real: &'a std::path::Path,
    workspace: &'a Workspace,
    denied: &'a SearchFilter,
    /// Number of entries that permission rules exclude.
    skipped: usize,
    witness: &'a Witness,
    abandoned: &'a AbandonFlag,
    lines: Vec<String>,
    /// Directories that could not be listed.
    unread: Vec<String>,
    cut: bool,
}

impl Listing<'_> {
    fn list(&mut self, directory: &Directory, depth: usize) -> std::io::Result<()> {
        for entry in directory.entries(self.witness)? {
            if self.lines.len() >= MAX_ENTRIES || self.abandoned.is() {
                self.cut = true;
                return Ok(());
            }
            let path = relative_path(&directory.requested().join(&entry.name), self.root);
            if self.denied.hides(&self.real.join(&path), self.workspace) {
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
            self.witness.mark_incomplete(format!("{path}: {error}"));
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
