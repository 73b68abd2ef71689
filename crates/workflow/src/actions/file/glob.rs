//! `file.glob`.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fs, io};

use async_trait::async_trait;
use cachalot_core::tree::Node;
use cachalot_core::{Effects, Problem};
use globset::{GlobBuilder, GlobMatcher};
use serde_json::{Value, json};

use crate::action::argument_checker::ArgumentChecker;
use crate::actions::arguments::{CheckedArguments, declared_by, excerpt, required, text};
use crate::actions::location;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Registry, Runtime};

#[rustfmt::skip]
static GLOB: OperationMetadata = OperationMetadata::declared(
    "file.glob",
    &["actions.file_glob"],
    "Lists the files whose paths match a pattern, sorted; links to directories are not followed.",
    &[
        required(text("pattern", "`*` and `?` stay within a name, `**` crosses directories, `{a,b}` and `[ab]` choose; names that begin with a dot match only a pattern that has such a name.")),
        text("directory", "The start directory; the run's directory by default."),
    ],
)
.read_only();

pub(in crate::actions) struct Glob;

#[async_trait]
impl Operation for Glob {
    declared_by!(GLOB);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        let walk = plan_walk(&CheckedArguments::new(&GLOB, arguments), runtime);
        Effects::reading_files(walk.map(|walk| walk.dependencies()).unwrap_or_default())
    }

    fn implicit_inputs(&self, _arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        // Keyed even if the search begins elsewhere: paths in the result are relative to the run's
        // directory.
        Ok(json!({ "relative_to": location::path_key(&runtime.directory) }))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&GLOB, &arguments);
        let walk = plan_walk(&given, runtime)?;
        let stop = StopOnDrop(Arc::clone(&walk.stopped));
        let found = tokio::task::spawn_blocking(move || walk.run()).await;
        drop(stop);
        match found {
            Ok(Ok(files)) => Ok(json!({ "count": files.len(), "files": files, "success": true })),
            Ok(Err((path, error))) => Err(given.failure(
                "file_error",
                format_args!("`{}` cannot be listed: {error}", path.display()),
            )),
            Err(error) => Err(given.failure("file_error", error)),
        }
    }
}

impl Action for Glob {
    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        ArgumentChecker::new(&GLOB, with)
            .read(
                "pattern",
                "see the syntax of patterns under `file.glob`",
                |text| match compile(split(text).1) {
                    Ok(_) => Ok(()),
                    Err(error) => Err(error.kind().to_string()),
                },
            )
            .problems()
    }
}

/// Stops a walk when its caller is gone.
struct StopOnDrop(Arc<AtomicBool>);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A search: its start directory, pattern and depth.
struct Walk {
    start: PathBuf,
    matcher: GlobMatcher,
    /// The maximum depth of a match below the start; `None` with `**`.
    depth: Option<usize>,
    hidden: bool,
    /// Matches below this directory are shown relative to it.
    relative_to: PathBuf,
    stopped: Arc<AtomicBool>,
}

fn plan_walk(given: &CheckedArguments<'_>, runtime: &Runtime) -> Result<Walk, Failure> {
    let pattern = given.required_text("pattern")?;
    let directory = match given.non_empty_text("directory")? {
        None => runtime.directory.clone(),
        Some(named) => {
            let directory = location::local_path(given, runtime, "directory", named)?;
            if !directory.is_dir() {
                return Err(
                    given.failure("not_found", format_args!("there is no directory `{named}`"))
                );
            }
            directory
        }
    };
    let (literal, rest) = split(pattern);
    let matcher = compile(rest).map_err(|error| {
        given.wrong(
            "pattern",
            format_args!("is `{}`: {}", excerpt(pattern), error.kind()),
        )
    })?;
    Ok(Walk {
        start: directory.join(literal),
        matcher,
        depth: (!rest.contains("**")).then(|| rest.split('/').count()),
        hidden: rest
            .split('/')
            .any(|name| name.starts_with('.') && !matches!(name, "." | "..")),
        relative_to: normalize(&runtime.directory),
        stopped: Arc::default(),
    })
}

fn compile(pattern: &str) -> Result<GlobMatcher, globset::Error> {
    GlobBuilder::new(pattern)
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
}

/// Splits a pattern into the directories before its first wildcard, and the rest. A pattern without a
/// wildcard keeps its last name as the rest.
fn split(pattern: &str) -> (&str, &str) {
    let wild = pattern
        .find(['*', '?', '[', '{', '\\'])
        .unwrap_or(pattern.len());
    match pattern[..wild].rfind('/') {
        Some(slash) => pattern.split_at(slash + 1),
        None => ("", pattern),
    }
}

/// Normalizes a path by its text: removes `.`, and resolves `..` where a preceding name allows it.
fn normalize(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir
                if matches!(out.components().next_back(), Some(Component::Normal(_))) =>
            {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// Result of a walk.
#[derive(Default)]
struct WalkResult {
    /// Matching files, in the form in which they are shown.
    files: Vec<String>,
    /// Inputs that determine the set of files: the directories, and links that may point to a file.
    dependencies: Vec<PathBuf>,
}

impl Walk {
    fn run(&self) -> Result<Vec<String>, (PathBuf, io::Error)> {
        let mut result = WalkResult::default();
        // A start directory that does not exist contains no matches.
        if self.start.is_dir() {
            self.visit(&self.start, Path::new(""), 1, &mut result)?;
        }
        result.files.sort_unstable();
        Ok(result.files)
    }

    /// Returns the directories and links on which the result of [`Walk::run`] depends, sorted.
    fn dependencies(&self) -> Vec<PathBuf> {
        let mut result = WalkResult::default();
        if self.start.is_dir() {
            // The run encounters the same error and reports it.
            let _ = self.visit(&self.start, Path::new(""), 1, &mut result);
        } else {
            result.dependencies.push(self.start.clone());
        }
        result.dependencies.sort_unstable();
        result.dependencies
    }

    /// Visits the entries of `directory`, which are `level` names below the start.
    fn visit(
        &self,
        directory: &Path,
        below: &Path,
        level: usize,
        result: &mut WalkResult,
    ) -> Result<(), (PathBuf, io::Error)> {
        let fault = |error| (directory.to_path_buf(), error);
        result.dependencies.push(directory.to_path_buf());
        for entry in fs::read_dir(directory).map_err(fault)? {
            if self.stopped.load(Ordering::Relaxed) {
                return Ok(());
            }
            let entry = entry.map_err(fault)?;
            let name = entry.file_name();
            if !self.hidden && name.as_encoded_bytes().starts_with(b".") {
                continue;
            }
            let (path, below) = (entry.path(), below.join(&name));
            let kind = entry.file_type().map_err(fault)?;
            if kind.is_dir() {
                if self.depth.is_none_or(|depth| level < depth) {
                    self.visit(&path, &below, level + 1, result)?;
                }
            } else if self.matcher.is_match(&below) {
                if kind.is_symlink() {
                    result.dependencies.push(path.clone());
                }
                if path.is_file() {
                    let display_path = self.display_path(&path);
                    result.files.push(
                        display_path
                            .ok_or_else(|| (path, io::Error::other("its name is not UTF-8")))?,
                    );
                }
            }
        }
        Ok(())
    }

    /// Returns the path relative to the run's directory if it is below it; `None` if it is not valid
    /// Unicode.
    fn display_path(&self, path: &Path) -> Option<String> {
        let path = normalize(path);
        path.strip_prefix(&self.relative_to)
            .unwrap_or(&path)
            .to_str()
            .map(str::to_owned)
    }
}
