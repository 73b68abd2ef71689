//! The tool `apply_patch`.

use std::collections::HashMap;
use std::path::PathBuf;

use cachalot_core::Effects;
use cachalot_core::config::CallArguments;
use cachalot_operation::{OperationMetadata, ResourceAccess, ToolContext, ToolOutput};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::commit::{FileChange, FileSnapshot, commit};
use super::file_call::{FileCall, RunningCall};
use super::open_path::missing;
use super::patch::apply::apply;
use super::patch::{Action, Hunk, Patch, Section};
use super::{NON_EMPTY, format_count, snapshot, writer, writing};
use crate::workspace::{ResolvedPath, Workspace};

const DESCRIPTION: &str = "\
Changes, adds, moves and deletes several files at once: all of it, or nothing if a part does not fit. \
The patch:
*** Begin Patch
*** Update File: src/main.py
*** Move to: src/start.py
@@ class Account:
     def total(self):
-        return 1
+        return 2
*** Add File: notes.txt
+a line
*** Delete File: old.txt
*** End Patch
`Move to` is optional. In a hunk, lines that stay begin with a space, lines that go with `-`, lines \
that come with `+`; give about three lines of context before and after. The old lines must be unique \
in the file, or `@@` names the line behind which they are.";

#[derive(CallArguments, Deserialize)]
pub(super) struct ApplyPatch {
    /// From `*** Begin Patch` to `*** End Patch`.
    #[setting(kind = NON_EMPTY)]
    patch: String,
}

impl FileCall for ApplyPatch {
    fn metadata() -> OperationMetadata {
        writer("apply_patch", DESCRIPTION, Self::PARAMETERS)
    }

    fn effects(&self, context: &ToolContext) -> Effects {
        // A text that is not a patch now will not be one when it runs.
        let Ok(patch) = Patch::parse(&self.patch) else {
            return Effects::writing(Vec::new());
        };
        let places: Vec<_> = patch
            .sections
            .iter()
            .flat_map(paths)
            .map(|path| context.workspace.resolved(path))
            .collect();
        writing(places.iter().map(Result::as_ref))
    }

    fn resource_access(&self) -> ResourceAccess {
        match Patch::parse(&self.patch) {
            Ok(patch) => ResourceAccess::writing(patch.sections.iter().flat_map(paths)),
            // The call changes nothing, and returns an error.
            Err(_) => ResourceAccess::default(),
        }
    }

    fn run(&self, running: RunningCall<'_>) -> Result<ToolOutput, ToolOutput> {
        let patched = patch(self, &running.context.workspace, running.abandoned);
        patched.map_err(|mut failed| {
            if let Some(cachalot_model::Block::Text { text, .. }) = failed.content.first_mut() {
                text.insert_str(0, "nothing was changed: ");
            }
            failed
        })
    }
}

/// Returns the paths that a section changes: the file, and the target of a move.
fn paths(section: &Section) -> impl Iterator<Item = &str> {
    std::iter::once(section.path.as_str()).chain(move_target(section))
}

fn move_target(section: &Section) -> Option<&str> {
    match &section.action {
        Action::Update { move_to, .. } => move_to.as_deref(),
        Action::Add(_) | Action::Delete => None,
    }
}

fn patch(
    requested: &ApplyPatch,
    workspace: &Workspace,
    abandoned: &CancellationToken,
) -> Result<ToolOutput, ToolOutput> {
    let patch =
        Patch::parse(&requested.patch).map_err(|wrong| ToolOutput::error(wrong.to_string()))?;
    let mut plan = PatchPlan {
        workspace,
        files: Vec::new(),
        places: HashMap::new(),
    };
    let mut said = String::new();
    for section in &patch.sections {
        said.push_str(&plan.take(section)?);
        said.push('\n');
    }
    plan.check_directories()?;
    commit(workspace, &plan.changes(), abandoned)?;
    Ok(ToolOutput::text(said))
}

/// The planned content of the files, in memory: a section sees the changes of those before it.
struct PatchPlan<'a> {
    workspace: &'a Workspace,
    files: Vec<PlannedFile>,
    places: HashMap<PathBuf, usize>,
}

struct PlannedFile {
    resolved: ResolvedPath,
    before: Option<FileSnapshot>,
    now: Option<Vec<u8>>,
    /// The permissions of the source of a moved file.
    mode: Option<u32>,
}

impl PatchPlan<'_> {
    /// Plans a section; returns a description of it.
    fn take(&mut self, section: &Section) -> Result<String, ToolOutput> {
        let path = &section.path;
        let file = self.file(path)?;
        match &section.action {
            Action::Add(lines) => self.add(file, path, lines),
            Action::Delete => {
                self.existing(file, path)?;
                self.files[file].now = None;
                Ok(format!("deleted `{path}`"))
            }
            Action::Update { move_to, hunks } => self.update(file, path, hunks, move_to.as_deref()),
        }
    }

    /// Returns the index of the file at a path, with its content as planned so far.
    fn file(&mut self, path: &str) -> Result<usize, ToolOutput> {
        let resolved = self.workspace.resolved(path)?;
        if let Some(index) = self.places.get(&resolved.real) {
            return Ok(*index);
        }
        let before = snapshot::read_if_exists(&resolved, path)?;
        let index = self.files.len();
        self.places.insert(resolved.real.clone(), index);
        self.files.push(PlannedFile {
            now: before.as_ref().map(|before| before.bytes.to_vec()),
            before,
            resolved,
            mode: None,
        });
        Ok(index)
    }

    fn existing(&self, file: usize, path: &str) -> Result<&[u8], ToolOutput> {
        let planned = &self.files[file];
        match &planned.now {
            Some(bytes) => Ok(bytes),
            None if planned.before.is_some() => Err(ToolOutput::error(format!(
                "`{path}` is deleted or moved away earlier in this patch"
            ))),
            None => Err(missing(self.workspace, &planned.resolved, path)),
        }
    }

    fn add(&mut self, file: usize, path: &str, lines: &[String]) -> Result<String, ToolOutput> {
        if self.files[file].now.is_some() {
            return Err(ToolOutput::error(format!(
                "`{path}` exists already; change it with `*** Update File:`, or delete it first"
            )));
        }
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        self.files[file].now = Some(text.into_bytes());
        Ok(format!(
            "added `{path}` ({})",
            format_count(lines.len(), "line")
        ))
    }

    fn update(
        &mut self,
        file: usize,
        path: &str,
        hunks: &[Hunk],
        move_to: Option<&str>,
    ) -> Result<String, ToolOutput> {
        let applied = apply(hunks, self.existing(file, path)?)
            .map_err(|reason| ToolOutput::error(format!("`{path}`: {reason}")))?;
        let places: Vec<String> = applied.places.iter().map(ToString::to_string).collect();
        let changed = match places.as_slice() {
            [] => String::new(),
            [line] => format!(" (+{} -{}), at line {line}", applied.added, applied.removed),
            lines => format!(
                " (+{} -{}), at lines {}",
                applied.added,
                applied.removed,
                lines.join(", ")
            ),
        };
        let Some(target) = move_to else {
            self.files[file].now = Some(applied.bytes);
            return Ok(format!("updated `{path}`{changed}"));
        };
        let moved = self.file(target)?;
        if moved != file && self.files[moved].now.is_some() {
            return Err(ToolOutput::error(format!(
                "`{path}` cannot be moved: `{target}` exists already"
            )));
        }
        let source = &self.files[file];
        let mode = source
            .mode
            .or(source.before.as_ref().map(|before| before.mode));
        self.files[moved].mode = mode;
        self.files[file].now = None;
        self.files[moved].now = Some(applied.bytes);
        Ok(format!("moved `{path}` to `{target}`{changed}"))
    }

    /// Fails if a planned file is at a path that another one needs as a directory.
    fn check_directories(&self) -> Result<(), ToolOutput> {
        for file in self.files.iter().filter(|file| file.now.is_some()) {
            let above = file.resolved.real.ancestors().skip(1);
            for index in above.filter_map(|directory| self.places.get(directory)) {
                if self.files[*index].now.is_some() {
                    return Err(ToolOutput::error(format!(
                        "`{}` cannot be: `{}` is a file in this patch",
                        self.workspace.shown(&file.resolved.real),
                        self.workspace.shown(&self.files[*index].resolved.real)
                    )));
                }
            }
        }
        Ok(())
    }

    /// Returns the resulting changes: writes first, then deletions.
    fn changes(&self) -> Vec<FileChange<'_>> {
        let mut changes: Vec<FileChange<'_>> = self
            .files
            .iter()
            .filter(|file| file.now.as_deref() != file.before.as_ref().map(|b| &b.bytes[..]))
            .map(|file| FileChange {
                resolved: &file.resolved,
                before: file.before.as_ref(),
                after: file.now.as_deref(),
                mode: file.mode,
            })
            .collect();
        // Writes come first: an interrupt between the two leaves a moved file at both paths, not at neither.
        changes.sort_by_key(|change| change.after.is_none());
        changes
    }
}
