//! The tool `glob`.

use std::ops::ControlFlow;
use std::path::Path;

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_core::spec::{Parameter, ParameterKind as Kind, key, required};
use cachalot_operation::ResourceAccess;
use cachalot_operation::permissions::SearchFilter;
use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::Value;

use super::open_path::{access_error, open_directory};
use super::walk::{Walk, WalkVisitor, format_notices, shown, touched};
use super::{NON_EMPTY, denied, format_count, format_number, reader, reading, search_inputs};
use crate::run_blocking::{AbandonFlag, run_blocking};
use crate::workspace::{Directory, DirectoryEntry};
use cachalot_operation::{
    Failure, OperationMetadata, ToolContext, ToolOutput, TypedTool, WithOriginal,
};

/// Maximum number of files that are shown.
const MAX_FILES: usize = 1_000;

pub(super) struct Glob {
    metadata: OperationMetadata,
}

#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
    required("pattern", NON_EMPTY, "For example `src/**/*.{ts,tsx}`."),
    key("path", Kind::Text, "The directory to search, relative to the workspace; the workspace itself if left out."),
    key("hidden", Kind::Boolean, "Whether to look at what begins with a dot, too."),
];

#[derive(Deserialize)]
pub(super) struct GlobArguments {
    pattern: String,
    path: Option<String>,
    hidden: Option<bool>,
}

impl GlobArguments {
    fn path(&self) -> &str {
        self.path.as_deref().unwrap_or(".")
    }
}

impl Glob {
    pub(super) fn new() -> Self {
        let description = "Finds files by name, sorted by path. The pattern is matched against the \
            path relative to `path`: `*` and `?` match within a name, `**` any directories, `{a,b}` \
            either: `**/*.rs` finds Rust files everywhere, `*.rs` in the directory itself only. What \
            `.gitignore` and `.ignore` files of the workspace name is left out, and so is what begins \
            with a dot unless `hidden` is set or the pattern names it. Links are not followed.";
        Self {
            metadata: reader("glob", description, PARAMETERS),
        }
    }
}

#[async_trait]
impl TypedTool for Glob {
    type Arguments = WithOriginal<GlobArguments>;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &WithOriginal<GlobArguments>, context: &ToolContext) -> Effects {
        reading(arguments.typed.path(), context, touched)
    }

    fn resource_access(&self, arguments: &WithOriginal<GlobArguments>) -> ResourceAccess {
        ResourceAccess::searching(arguments.typed.path())
    }

    fn implicit_inputs(&self, context: &ToolContext) -> Result<Value, Failure> {
        Ok(search_inputs(&self.metadata.name, context))
    }

    async fn run(
        &self,
        arguments: WithOriginal<GlobArguments>,
        context: &ToolContext,
    ) -> ToolOutput {
        let denied = denied(self, &arguments, context);
        let requested = arguments.typed;
        let context = context.clone();
        run_blocking(move |abandoned| {
            find(&requested, &context, &denied, abandoned).unwrap_or_else(|failed| failed)
        })
        .await
    }
}

fn find(
    requested: &GlobArguments,
    context: &ToolContext,
    denied: &SearchFilter,
    abandoned: &AbandonFlag,
) -> Result<ToolOutput, ToolOutput> {
    let path = requested.path();
    let pattern = Pattern::parse(&requested.pattern)?;
    let hidden = requested.hidden.unwrap_or(false) || pattern.names_hidden;
    let (resolved, directory) = open_directory(&context.workspace, path)?;
    let mut found = GlobVisitor {
        pattern,
        name: |path: &Path| shown(&context.workspace, &resolved, path),
        lines: String::new(),
        count: 0,
    };
    let mut notices = Walk::new(context, denied, abandoned, hidden)
        .walk(&resolved, &directory, &mut found)
        .map_err(|error| access_error("list", path, &error))?;
    if found.count > MAX_FILES {
        notices.push(format!(
            "only the first {} of {} are shown; narrow the pattern",
            format_count(MAX_FILES, "file"),
            format_number(found.count as u64)
        ));
    }
    if found.count == 0 {
        let hint = if requested.pattern.contains('/') {
            String::new()
        } else {
            format!("; `**/{}` looks in all directories", requested.pattern)
        };
        notices.insert(0, format!("no file matches{hint}"));
    }
    Ok(ToolOutput::text(format!(
        "{}{}",
        found.lines,
        format_notices(&notices)
    )))
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
        if self.depth.is_some_and(|most| depth >= most) {
            return false;
        }
        directory
            .components()
            .zip(&self.prefix)
            .all(|(name, prefix)| name.as_os_str() == prefix.as_str())
    }
}
