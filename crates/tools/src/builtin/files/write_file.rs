//! The tool `write_file`.

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_operation::ResourceAccess;
use serde::Deserialize;
use serde_json::json;

use super::commit::{FileChange, commit};
use super::snapshot;
use super::text::count_lines;
use super::{format_count, format_number, parse_arguments, path_of, writer, writing};
use crate::run_blocking::{AbandonFlag, run_blocking};
use cachalot_operation::{Arguments, Operation, OperationMetadata, ToolContext, ToolOutput};

pub(super) struct WriteFile {
    metadata: OperationMetadata,
}

#[derive(Deserialize)]
struct WriteFileArguments {
    path: String,
    content: String,
}

impl WriteFile {
    pub(super) fn new() -> Self {
        let description = "Writes a whole file: makes it, with the directories that it needs, or \
            replaces what it holds. To change a part of a file use edit_file or apply_patch.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "minLength": 1,
                    "description": "The file, relative to the workspace.",
                },
                "content": {
                    "type": "string",
                    "description": "All that the file is to hold, the last newline included.",
                },
            },
            "required": ["path", "content"],
            "additionalProperties": false,
        });
        Self {
            metadata: writer("write_file", description, parameters),
        }
    }
}

#[async_trait]
impl Operation for WriteFile {
    type Context = ToolContext;
    type Output = ToolOutput;

    fn metadata(&self) -> &OperationMetadata {
        &self.metadata
    }

    fn effects(&self, arguments: &Arguments, context: &ToolContext) -> Effects {
        let path = arguments.get("path").and_then(|path| path.as_str());
        let resolved = context.workspace.resolved(path.unwrap_or_default());
        writing([resolved.as_ref()])
    }

    fn resource_access(&self, arguments: &Arguments) -> ResourceAccess {
        ResourceAccess::writing([path_of(arguments, "")])
    }

    async fn run(&self, arguments: Arguments, context: &ToolContext) -> ToolOutput {
        let requested: WriteFileArguments = match parse_arguments(arguments) {
            Ok(requested) => requested,
            Err(wrong) => return wrong,
        };
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
        format_number(content.len() as u64)
    );
    Ok(ToolOutput::text(match before {
        None => format!("created `{path}` ({size})"),
        Some(before) => format!(
            "overwrote `{path}` ({size}; it had {})",
            format_count(count_lines(&before.bytes), "line")
        ),
    }))
}
