//! The tool `write_file`.

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_core::spec::{Parameter, ParameterKind as Kind, required};
use cachalot_operation::ResourceAccess;
use serde::Deserialize;

use super::commit::{FileChange, commit};
use super::snapshot;
use super::text::count_lines;
use super::{NON_EMPTY, format_count, grouped, writer, writing};
use crate::run_blocking::{AbandonFlag, run_blocking};
use cachalot_operation::{OperationMetadata, ToolContext, ToolOutput, TypedTool};

pub(super) struct WriteFile {
    metadata: OperationMetadata,
}

#[rustfmt::skip]
const PARAMETERS: &[Parameter] = &[
    required("path", NON_EMPTY, "The file, relative to the workspace."),
    required("content", Kind::Text, "All that the file is to hold, the last newline included."),
];

#[derive(Deserialize)]
pub(super) struct WriteFileArguments {
    path: String,
    content: String,
}

impl WriteFile {
    pub(super) fn new() -> Self {
        let description = "Writes a whole file: makes it, with the directories that it needs, or \
            replaces what it holds. To change a part of a file use edit_file or apply_patch.";
        Self {
            metadata: writer("write_file", description, PARAMETERS),
        }
    }
}

#[async_trait]
impl TypedTool for WriteFile {
    type Arguments = WriteFileArguments;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &WriteFileArguments, context: &ToolContext) -> Effects {
        let resolved = context.workspace.resolved(&arguments.path);
        writing([resolved.as_ref()])
    }

    fn resource_access(&self, arguments: &WriteFileArguments) -> ResourceAccess {
        ResourceAccess::writing([&arguments.path])
    }

    async fn run(&self, requested: WriteFileArguments, context: &ToolContext) -> ToolOutput {
        let context = context.clone();
        run_blocking(move |abandoned| {
            write(&requested, &context, abandoned).unwrap_or_else(|failed| failed)
        })
        .await
    }
}

fn write(
    requested: &WriteFileArguments,
    context: &ToolContext,
    abandoned: &AbandonFlag,
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
    commit(&context.workspace, &[change], abandoned).map_err(ToolOutput::error)?;
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
