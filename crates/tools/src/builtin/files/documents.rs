//! Texts of files that a tool searches as a whole.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use cachalot_cache::Witness;
use cachalot_core::{EffectTarget, Effects};
use cachalot_operation::{AccessRequest, Arguments, ResourceAccess, ToolContext, ToolOutput};
use globset::{GlobBuilder, GlobMatcher};
use serde_json::{Value, json};

use super::file_call::RunningCall;
use super::file_content::FileContent;
use super::open_path::{access_error, open_directory, open_file};
use super::reading;
use super::walk::{Walk, WalkVisitor, shown, touched};
use crate::run_blocking::run_blocking;
use crate::workspace::{Directory, DirectoryEntry, EntryKind, PathKind};

/// Maximum number of bytes of all texts.
const MAX_BYTES: usize = 64 << 20;

/// A file, a folder, or a pattern of files below a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::builtin) struct DocumentPath {
    root: PathBuf,
    pattern: Option<String>,
}

/// A text file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::builtin) struct Document {
    /// Its path, relative to the workspace.
    pub(in crate::builtin) name: String,
    pub(in crate::builtin) text: String,
}

/// Text files, and notices about what was left out.
#[derive(Debug, Default)]
pub(in crate::builtin) struct Documents {
    pub(in crate::builtin) documents: Vec<Document>,
    pub(in crate::builtin) notices: Vec<String>,
}

impl DocumentPath {
    /// Parses a path that begins in `directory`. Everything from the first component with a wildcard on is a pattern.
    pub(in crate::builtin) fn new(directory: &Path, written: &str) -> Self {
        let is_pattern = |part: &&str| part.contains(['*', '?', '[', '{']);
        let parts: Vec<&str> = written.split('/').collect();
        let count = parts.iter().position(is_pattern).unwrap_or(parts.len());
        let (before, after) = parts.split_at(count);
        let before = match before {
            // The wildcard follows the first slash.
            [""] if !after.is_empty() => "/".to_owned(),
            _ => before.join("/"),
        };
        Self {
            root: directory.join(before.trim_start_matches("./")),
            pattern: (!after.is_empty()).then(|| after.join("/")),
        }
    }

    /// Returns the file, or the folder of the search.
    pub(in crate::builtin) fn root(&self) -> PathBuf {
        self.root.clone()
    }

    /// Returns the path for keys.
    pub(in crate::builtin) fn identity(&self) -> Value {
        let Self { root, pattern } = self;
        json!({ "root": root.to_string_lossy(), "pattern": pattern })
    }

    /// Returns what reading the documents reads.
    pub(in crate::builtin) fn effects(&self, context: &ToolContext) -> Effects {
        reading(
            &self.root.to_string_lossy(),
            context,
            |resolved| match resolved.found {
                PathKind::File => vec![EffectTarget::Path(resolved.real.clone())],
                _ => touched(resolved),
            },
        )
    }

    fn matcher(&self) -> Result<Option<GlobMatcher>, ToolOutput> {
        let Some(pattern) = &self.pattern else {
            return Ok(None);
        };
        let glob = GlobBuilder::new(pattern).literal_separator(true).build();
        let glob = glob.map_err(|error| {
            ToolOutput::error(format!(
                "the pattern `{pattern}` is wrong: {}",
                error.kind()
            ))
        })?;
        Ok(Some(glob.compile_matcher()))
    }
}

/// Reads text files on a thread that may block. Files that permission rules exclude from searches of `tool` are left out,
/// and so are files that are no text.
///
/// # Errors
/// The result of the call: a path is missing, or outside of the workspace; or the texts are too long.
pub(in crate::builtin) async fn read_documents(
    paths: &[DocumentPath],
    tool: &str,
    arguments: &Arguments,
    access: &ResourceAccess,
    context: &ToolContext,
) -> Result<Documents, ToolOutput> {
    let request = AccessRequest {
        tool,
        read_only: true,
        arguments,
        resource_access: access,
        sandboxed: false,
    };
    let denied = context.rules.search_filter(&request, &context.workspace);
    let (paths, context) = (paths.to_vec(), context.clone());
    run_blocking(move |abandoned| {
        let running = RunningCall {
            context: &context,
            denied: &denied,
            abandoned,
        };
        let mut reader = DocumentReader::new(running.witness());
        for path in &paths {
            reader.read(path, running)?;
        }
        reader.finish()
    })
    .await
}

struct DocumentReader<'a> {
    witness: &'a Witness,
    read: Documents,
    names: HashSet<String>,
    bytes: usize,
}

impl<'a> DocumentReader<'a> {
    fn new(witness: &'a Witness) -> Self {
        Self {
            witness,
            read: Documents::default(),
            names: HashSet::new(),
            bytes: 0,
        }
    }

    fn read(&mut self, path: &DocumentPath, running: RunningCall<'_>) -> Result<(), ToolOutput> {
        let workspace = running.workspace();
        let root = path.root.to_string_lossy();
        if path.pattern.is_none() && workspace.resolved(&*root)?.found == PathKind::File {
            let (resolved, file) = open_file(workspace, &root)?;
            let name = workspace.shown(&resolved.requested);
            self.add(Ok(file), &resolved.requested, name);
            return Ok(());
        }
        let matcher = path.matcher()?;
        let (resolved, directory) = open_directory(workspace, &root)?;
        let mut visitor = DocumentVisitor {
            reader: self,
            matcher,
            name: |path: &Path| shown(workspace, &resolved, path),
        };
        let notices = Walk::new(running, false)
            .walk(&resolved, &directory, &mut visitor)
            .map_err(|error| access_error("list", &root, &error))?;
        self.read.notices.extend(notices);
        Ok(())
    }

    fn add(&mut self, file: std::io::Result<std::fs::File>, requested: &Path, name: String) {
        if !self.names.insert(name.clone()) {
            return;
        }
        match file.and_then(|file| FileContent::read(file, requested, self.witness)) {
            // It is no text.
            Ok(FileContent::Whole(bytes)) if memchr::memchr(0, &bytes).is_some() => {}
            Ok(FileContent::Whole(bytes)) => {
                self.bytes += bytes.len();
                let text = String::from_utf8_lossy(&bytes).into_owned();
                self.read.documents.push(Document { name, text });
            }
            Ok(FileContent::FileStream(stream)) => {
                stream.end(self.witness);
                self.read
                    .notices
                    .push(format!("left out, because it is too long: {name}"));
            }
            Err(error) => {
                // A witness does not record readability.
                self.witness.mark_incomplete(format!("{name}: {error}"));
                self.read
                    .notices
                    .push(format!("cannot be read: {name}: {error}"));
            }
        }
    }

    fn finish(self) -> Result<Documents, ToolOutput> {
        if self.bytes > MAX_BYTES {
            return Err(ToolOutput::error(format!(
                "the documents have more than {} MiB: name fewer of them in `docs`",
                MAX_BYTES >> 20
            )));
        }
        Ok(self.read)
    }
}

struct DocumentVisitor<'r, 'a, N> {
    reader: &'r mut DocumentReader<'a>,
    matcher: Option<GlobMatcher>,
    /// Formats the path of a file.
    name: N,
}

impl<N: Fn(&Path) -> String> WalkVisitor for DocumentVisitor<'_, '_, N> {
    fn visit(
        &mut self,
        directory: &Directory,
        entry: &DirectoryEntry,
        path: &Path,
    ) -> ControlFlow<()> {
        let is_wanted = self
            .matcher
            .as_ref()
            .is_none_or(|matcher| matcher.is_match(path));
        if entry.kind == EntryKind::File && is_wanted {
            let requested = directory.requested().join(&entry.name);
            let name = (self.name)(path);
            self.reader
                .add(directory.file(&entry.name), &requested, name);
        }
        if self.reader.bytes > MAX_BYTES {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_begin_at_the_first_wildcard() {
        for (written, root, pattern) in [
            ("./docs", "/x/docs", None),
            ("a.md", "/x/a.md", None),
            ("../pkg/**/*.go", "/x/../pkg", Some("**/*.go")),
            ("*.md", "/x/", Some("*.md")),
            ("/y/*/z", "/y", Some("*/z")),
        ] {
            let path = DocumentPath::new(Path::new("/x"), written);
            assert_eq!(path.root, Path::new(root), "{written}");
            assert_eq!(path.pattern.as_deref(), pattern, "{written}");
        }
    }
}
