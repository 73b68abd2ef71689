//! The tool `write_file`.

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_operation::Touches;
use serde::Deserialize;
use serde_json::json;

use super::commit::{Change, commit};
use super::original;
use super::text::count_lines;
use super::{counted, grouped, path_of, typed, writer, writing};
use crate::blocking::{Abandoned, blocking};
use crate::tool::{About, Arguments, Context, Output, Tool};

pub(super) struct WriteFile {
    about: About,
}

#[derive(Deserialize)]
struct Asked {
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
            about: writer("write_file", description, parameters),
        }
    }
}

#[async_trait]
impl Tool for WriteFile {
    fn about(&self) -> &About {
        &self.about
    }

    fn effects(&self, arguments: &Arguments, context: &Context) -> Effects {
        let path = arguments.get("path").and_then(|path| path.as_str());
        let place = context.workspace.place(path.unwrap_or_default());
        writing([place.as_ref()])
    }

    fn touches(&self, arguments: &Arguments) -> Touches {
        Touches::writing([path_of(arguments, "")])
    }

    async fn run(&self, arguments: Arguments, context: &Context) -> Output {
        let asked: Asked = match typed(arguments) {
            Ok(asked) => asked,
            Err(wrong) => return wrong,
        };
        let context = context.clone();
        blocking(move |abandoned| {
            write(&asked, &context, abandoned).unwrap_or_else(|failed| failed)
        })
        .await
    }
}

fn write(asked: &Asked, context: &Context, abandoned: &Abandoned) -> Result<Output, Output> {
    let path = &asked.path;
    let place = context.workspace.place(path)?;
    let before = original::read_if_there(&place, path)?;
    let content = asked.content.as_bytes();
    if before
        .as_ref()
        .is_some_and(|before| before.bytes == content)
    {
        return Ok(Output::text(format!(
            "`{path}` holds exactly that already; nothing was written"
        )));
    }
    let change = Change {
        place: &place,
        before: before.as_ref(),
        after: Some(content),
        mode: None,
    };
    commit(&context.workspace, &[change], abandoned).map_err(Output::error)?;
    let size = format!(
        "{}, {} bytes",
        counted(count_lines(content), "line"),
        grouped(content.len() as u64)
    );
    Ok(Output::text(match before {
        None => format!("created `{path}` ({size})"),
        Some(before) => format!(
            "overwrote `{path}` ({size}; it had {})",
            counted(count_lines(&before.bytes), "line")
        ),
    }))
}
