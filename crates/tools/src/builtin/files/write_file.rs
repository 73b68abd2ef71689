//! The tool `write_file`.

use cachalot_core::Effects;
use cachalot_core::config::CallArguments;
use cachalot_operation::{OperationMetadata, ResourceAccess, ToolContext, ToolOutput};
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use super::commit::{FileChange, commit};
use super::file_call::{FileCall, RunningCall};
use super::snapshot;
use super::text::count_lines;
use super::{NON_EMPTY, format_count, grouped, writer, writing};

#[derive(CallArguments, Deserialize)]
pub(super) struct WriteFile {
    /// The file, relative to the workspace.
    #[setting(kind = NON_EMPTY)]
    path: String,
    /// All that the file is to hold, the last newline included.
    content: String,
}

impl FileCall for WriteFile {
    fn metadata() -> OperationMetadata {
        let description = "Writes a whole file: makes it, with the directories that it needs, or \
            replaces what it holds. To change a part of a file use edit_file or apply_patch.";
        writer("write_file", description, Self::PARAMETERS)
    }

    fn effects(&self, context: &ToolContext) -> Effects {
        writing([context.workspace.resolved(&self.path).as_ref()])
    }

    fn resource_access(&self) -> ResourceAccess {
        ResourceAccess::writing([&self.path])
    }

    fn run(&self, running: RunningCall<'_>) -> Result<ToolOutput, ToolOutput> {
        write(self, running.context, running.abandoned)
    }
}

fn write(
    requested: &WriteFile,
    context: &ToolContext,
    abandoned: &CancellationToken,
) -> Result<ToolOutput, ToolOutput> {
    let path = &requested.path;
    let resolved = context.workspace.resolved(path)?;
    let before = snapshot::read_if_exists(&resolved, path)?;
    let content = requested.content.as_bytes();
    if before
        .as_ref()
        .is_some_and(|before| before.bytes == content)
    {
        return Ok(ToolOutput::text(format!(
            "`{path}` holds exactly that already; nothing was written"
        )));
    }
    let change = FileChange {
        resolved: &resolved,
        before: before.as_ref(),
        after: Some(content),
        mode: None,
    };
    commit(&context.workspace, &[change], abandoned)?;
    let size = format!(
        "{}, {} bytes",
        format_count(count_lines(content), "line"),
        grouped(content.len() as u64)
    );
    Ok(ToolOutput::text(match before {
        None => format!("created `{path}` ({size})"),
        Some(before) => format!(
            "overwrote `{path}` ({size}; it had {})",
            format_count(count_lines(&before.bytes), "line")
        ),
    }))
}
