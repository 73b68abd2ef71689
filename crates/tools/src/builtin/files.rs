//! Tools that read, find, search and change files.
//!
//! Readers record what they read before they read it, and read through handles that no symbolic link can
//! redirect. Writers replace whole files in one step: no reader sees a partially written file.

mod apply_patch;
mod commit;
mod content_kind;
mod copies;
pub(in crate::builtin) mod documents;
mod edit_file;
mod file_call;
mod file_content;
mod glob;
mod grep;
mod list_dir;
mod near_match;
mod numbered_lines;
mod open_path;
pub mod patch;
mod read_file;
mod revert;
mod snapshot;
mod temporary_file;
mod text;
mod walk;
mod write_file;

use std::path::Path;
use std::sync::Arc;

use cachalot_core::config::{Custom, Parameter, ParameterKind, tool_schema};
use cachalot_core::text::grouped;
use cachalot_core::{EffectTarget, EffectTargets, Effects};

use self::file_call::file_tool;
use super::metadata;
use crate::workspace::{PathError, ResolvedPath};
use cachalot_operation::{CacheClass, OperationMetadata, Tool, ToolContext};
pub use copies::{CopyError, FileCopies, RestoredFiles};
pub use revert::revert;
pub(in crate::builtin) use temporary_file::TemporaryFile;

/// `read_file`, `list_dir`, `glob`, `grep`, `write_file`, `edit_file` and `apply_patch`.
#[must_use]
pub fn files() -> Vec<Arc<dyn Tool>> {
    vec![
        file_tool::<read_file::ReadFile>(),
        file_tool::<list_dir::ListDir>(),
        file_tool::<glob::Glob>(),
        file_tool::<grep::Grep>(),
        file_tool::<write_file::WriteFile>(),
        file_tool::<edit_file::EditFile>(),
        file_tool::<apply_patch::ApplyPatch>(),
    ]
}

/// Maximum number of bytes of text in a result.
const MAX_RESULT_BYTES: usize = 64 << 10;

/// Maximum size of files that are read into memory; longer ones are streamed, or refused.
const MAX_IN_MEMORY_BYTES: u64 = 32 << 20;

/// A text that is not empty.
const NON_EMPTY: ParameterKind = ParameterKind::Custom(&Custom::shape(
    || serde_json::json!({ "type": "string", "minLength": 1 }),
));

/// Describes a tool that changes nothing: its results are valid while its witnesses are unchanged.
fn reader(
    name: &'static str,
    description: &'static str,
    parameters: &[Parameter],
) -> OperationMetadata {
    let parameters = tool_schema(parameters);
    metadata(name, description, parameters, true, CacheClass::Validated)
}

fn writer(
    name: &'static str,
    description: &'static str,
    parameters: &[Parameter],
) -> OperationMetadata {
    let parameters = tool_schema(parameters);
    metadata(name, description, parameters, false, CacheClass::Never)
}

/// The notice of a search about entries that permission rules exclude.
fn skipped(count: usize) -> Option<String> {
    let entries = match count {
        0 => return None,
        1 => "1 entry is".to_owned(),
        count => format!("{} entries are", grouped(count as u64)),
    };
    Some(format!(
        "{entries} left out: permission rules deny reading them, or want it asked about"
    ))
}

/// The effects of a call that reads. If the path cannot be resolved, the reads are unknown, and later reads
/// are witnessed.
fn reading(
    path: &str,
    context: &ToolContext,
    touched: impl FnOnce(&ResolvedPath) -> Vec<EffectTarget>,
) -> Effects {
    match context.workspace.resolved(path) {
        Ok(resolved) => {
            let mut all = touched(&resolved);
            if resolved.requested != resolved.real {
                // The links in the path can change, too.
                all.push(EffectTarget::Path(resolved.requested));
            }
            Effects::reading(all)
        }
        Err(_) => Effects {
            reads: EffectTargets::Unknown,
            writes: EffectTargets::NOTHING,
        },
    }
}

/// The effects of a call that writes files: the files, and the directories created for them.
fn writing<'a>(
    places: impl IntoIterator<Item = Result<&'a ResolvedPath, &'a PathError>>,
) -> Effects {
    let mut touched = Vec::new();
    for resolved in places {
        match resolved {
            Ok(resolved) => {
                touched.push(EffectTarget::Path(resolved.real.clone()));
                touched.extend(
                    resolved
                        .new_directories()
                        .map(|directory| EffectTarget::Path(directory.to_owned())),
                );
            }
            // The call will probably be refused.
            Err(_) => return Effects::UNKNOWN,
        }
    }
    touched.sort_unstable();
    touched.dedup();
    Effects::writing(touched)
}

/// Everything below a directory, and the directory itself.
fn tree_reads(directory: &Path) -> Vec<EffectTarget> {
    vec![
        EffectTarget::Glob {
            root: directory.to_owned(),
            pattern: "**".to_owned(),
        },
        EffectTarget::Path(directory.to_owned()),
    ]
}

/// Formats a count with a noun: `1 line`, `12 lines`.
fn format_count(count: usize, noun: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", grouped(count as u64))
}

/// The path relative to a directory.
fn relative_path(path: &Path, directory: &Path) -> String {
    path.strip_prefix(directory)
        .unwrap_or(path)
        .display()
        .to_string()
}
