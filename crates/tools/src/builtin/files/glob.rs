//! The tool `glob`.

use std::ops::ControlFlow;
use std::path::Path;

use cachalot_core::Effects;
use cachalot_core::config::CallArguments;
use cachalot_operation::{OperationMetadata, ResourceAccess, ToolContext, ToolOutput};
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;

use super::file_call::{FileCall, RunningCall};
use super::open_path::{access_error, open_directory};
use super::walk::{Walk, WalkVisitor, format_notices, shown, touched};
use super::{NON_EMPTY, format_count, grouped, reader, reading};
use crate::workspace::{Directory, DirectoryEntry};

/// Maximum number of files that are shown.
const MAX_FILES: usize = 1_000;

#[derive(CallArguments, Deserialize)]
pub(super) struct Glob {
    /// For example `src/**/*.{ts,tsx}`.
    #[setting(kind = NON_EMPTY)]
    pattern: String,
    /// The directory to search, relative to the workspace; the workspace itself if left out.
    path: Option<String>,
    /// Whether to look at what begins with a dot, too.
    hidden: Option<bool>,
}

const DESCRIPTION: &str = "Finds files by name, sorted by path. The pattern is matched against the \
    path relative to `path`: `*` and `?` match within a name, `**` any directories, `{a,b}` \
    either: `**/*.rs` finds Rust files everywhere, `*.rs` in the directory itself only. What \
    `.gitignore` and `.ignore` files of the workspace name is left out, and so is what begins \
    with a dot unless `hidden` is set or the pattern names it. Links are not followed.";

impl Glob {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }
}

impl FileCall for Glob {
    const SEARCHES: bool = true;

    fn metadata() -> OperationMetadata {
        reader("glob", DESCRIPTION, Self::PARAMETERS)
    }

    fn effects(&self, context: &ToolContext) -> Effects {
        reading(self.path(), context, touched)
    }

    fn resource_access(&self) -> ResourceAccess {
        ResourceAccess::searching(self.path())
    }

    fn run(&self, running: RunningCall<'_>) -> Result<ToolOutput, ToolOutput> {
        let context = running.context;
        let path = self.path();
        let pattern = Pattern::parse(&self.pattern)?;
        let hidden = self.hidden.unwrap_or(false) || pattern.names_hidden;
        let (resolved, directory) = open_directory(&context.workspace, path)?;
        let mut found = GlobVisitor {
            pattern,
            name: |path: &Path| shown(&context.workspace, &resolved, path),
            lines: String::new(),
            count: 0,
        };
        let mut notices = Walk::new(running, hidden)
            .walk(&resolved, &directory, &mut found)
            .map_err(|error| access_error("list", path, &error))?;
        if found.count > MAX_FILES {
            notices.push(format!(
                "only the first {} of {} are shown; narrow the pattern",
                format_count(MAX_FILES, "file"),
                grouped(found.count as u64)
            ));
        }
        if found.count == 0 {
            let hint = if self.pattern.contains('/') {
                String::new()
            } else {
                format!("; `**/{}` looks in all directories", self.pattern)
            };
            notices.insert(0, format!("no file matches{hint}"));
        }
        Ok(ToolOutput::text(format!(
            "{}{}",
            found.lines,
            format_notices(&notices)
        )))
    }
}

struct GlobVisitor<N> {
    pattern: Pattern,
    /// Formats the path of a match.
    name: N,
    lines: String,
    count: usize,
}

impl<N: Fn(&Path) -> String> WalkVisitor for GlobVisitor<N> {
    fn should_enter(&self, directory: &Path) -> bool {
        self.pattern.may_match_below(directory)
    }

    fn visit(&mut self, _: &Directory, _: &DirectoryEntry, path: &Path) -> ControlFlow<()> {
        if self.pattern.matcher.is_match(path) {
            self.count += 1;
            // The counting goes on, because the notice contains the number of all matches.
            if self.count <= MAX_FILES {
                self.lines.push_str(&(self.name)(path));
                self.lines.push('\n');
            }
        }
        ControlFlow::Continue(())
    }
}

/// A pattern, and the restrictions on matches that follow from it.
struct Pattern {
    matcher: GlobMatcher,
    /// The leading path components of every match.
    prefix: Vec<String>,
    /// The number of path components of every match, if it is fixed.
    depth: Option<usize>,
    names_hidden: bool,
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, ToolOutput> {
        let mut pattern = text;
        while let Some(rest) = pattern.strip_prefix("./") {
            pattern = rest;
        }
        if pattern.starts_with('/') || pattern.split('/').any(|name| name == "..") {
            return Err(ToolOutput::error(format!(
                "the pattern `{text}` must be relative and without `..`: it is matched against paths \
                 below the directory that `path` names"
            )));
        }
        let matcher = GlobBuilder::new(pattern)
            .literal_separator(true)
            .build()
            .map_err(|error| {
                ToolOutput::error(format!("the pattern `{text}` is wrong: {}", error.kind()))
            })?
            .compile_matcher();
        let is_literal = |name: &&str| !name.contains(['*', '?', '[', '{', '\\']);
        let names: Vec<&str> = pattern.split('/').collect();
        let prefix = names[..names.len() - 1]
            .iter()
            .copied()
            .take_while(is_literal)
            .map(str::to_owned)
            .collect();
        // Alternatives in braces can contain `/`, so that matches differ in depth.
        let is_fixed = !pattern.contains("**") && !pattern.contains(['{', '[', '\\']);
        Ok(Self {
            matcher,
            prefix,
            depth: is_fixed.then_some(names.len()),
            names_hidden: pattern
                .split(['/', '{', ','])
                .any(|name| name.starts_with('.')),
        })
    }

    /// True if anything below a directory can match.
    fn may_match_below(&self, directory: &Path) -> bool {
        let depth = directory.components().count();
        if self.depth.is_some_and(|maximum| depth >= maximum) {
            return false;
        }
        directory
            .components()
            .zip(&self.prefix)
            .all(|(name, prefix)| name.as_os_str() == prefix.as_str())
    }
}
