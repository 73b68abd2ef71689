//! The tool `read_file`.

use std::io::BufRead;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cachalot_core::config::CallArguments;
use cachalot_core::{EffectTarget, Effects};
use cachalot_model::{Block, Extra, Image, ImageSource};
use cachalot_operation::{OperationMetadata, ResourceAccess, ToolContext, ToolOutput};
use serde::Deserialize;

use super::content_kind::{ContentKind, from_utf16};
use super::file_call::{FileCall, RunningCall};
use super::file_content::FileContent;
use super::numbered_lines::{LineRange, NumberedLines};
use super::open_path::{access_error, open_file};
use super::{MAX_IN_MEMORY_BYTES, grouped, reader, reading};

/// Default maximum number of lines.
const DEFAULT_LIMIT: usize = 2_000;

#[derive(CallArguments, Deserialize)]
pub(super) struct ReadFile {
    /// The file, relative to the workspace.
    path: String,
    /// The first line, from 1.
    #[setting(range = 1..)]
    offset: Option<usize>,
    /// How many lines.
    #[setting(range = 1..)]
    limit: Option<usize>,
}

impl FileCall for ReadFile {
    fn metadata() -> OperationMetadata {
        let description = "Reads a file. Text is given with line numbers: six columns, a tab, the \
            line; the numbers are not part of the file. At most 2,000 lines or 64 KiB at a time: the \
            end of the answer says how to go on. PNG, JPEG, GIF and WebP files are given as pictures.";
        reader("read_file", description, Self::PARAMETERS)
    }

    fn effects(&self, context: &ToolContext) -> Effects {
        reading(&self.path, context, |resolved| {
            vec![EffectTarget::Path(resolved.real.clone())]
        })
    }

    fn resource_access(&self) -> ResourceAccess {
        ResourceAccess::reading([&self.path])
    }

    fn run(&self, running: RunningCall<'_>) -> Result<ToolOutput, ToolOutput> {
        read(self, running.context)
    }
}

fn read(requested: &ReadFile, context: &ToolContext) -> Result<ToolOutput, ToolOutput> {
    let path = &requested.path;
    let (resolved, file) = open_file(&context.workspace, path)?;
    let failed = |error: std::io::Error| access_error("read", path, &error);
    match FileContent::read(file, &resolved.requested, &context.witness).map_err(failed)? {
        FileContent::Whole(bytes) => match ContentKind::detect(&bytes) {
            ContentKind::Image(kind) => Ok(picture(kind, &bytes)),
            ContentKind::Utf16(low_first) => {
                let text = from_utf16(&bytes[2..], low_first);
                let shown = text_of(requested, &mut text.as_bytes())?;
                Ok(ToolOutput::text(format!(
                    "{shown}[the file is in UTF-16; edit_file cannot change it]\n"
                )))
            }
            ContentKind::Binary(what) => Err(binary(path, what)),
            ContentKind::Text if bytes.is_empty() => {
                Ok(ToolOutput::text("[the file is empty: 0 bytes]\n"))
            }
            ContentKind::Text => text_of(requested, &mut &bytes[..]).map(ToolOutput::text),
        },
        FileContent::FileStream(mut stream) => {
            let media = ContentKind::detect(stream.reader.fill_buf().map_err(failed)?);
            let shown = match media {
                ContentKind::Text => text_of(requested, &mut stream.reader).map(ToolOutput::text),
                ContentKind::Image(kind) => Err(too_large(path, kind)),
                ContentKind::Utf16(_) => Err(binary(path, "long text in UTF-16")),
                ContentKind::Binary(what) => Err(binary(path, what)),
            };
            stream.end(&context.witness);
            shown
        }
    }
}

fn text_of(requested: &ReadFile, reader: &mut impl BufRead) -> Result<String, ToolOutput> {
    let range = LineRange {
        offset: requested.offset.unwrap_or(1).max(1),
        limit: requested.limit.unwrap_or(DEFAULT_LIMIT),
    };
    let numbered_lines = NumberedLines::read(reader, range)
        .map_err(|error| access_error("read", &requested.path, &error))?;
    if range.offset > numbered_lines.total().max(1) {
        return Err(ToolOutput::error(format!(
            "there is no line {} in `{}`: it has {}",
            range.offset,
            requested.path,
            super::format_count(numbered_lines.total(), "line")
        )));
    }
    Ok(format!(
        "{}{}",
        numbered_lines.text,
        numbered_lines.notices()
    ))
}

/// Returns an image of any size: the code that sends it to a provider scales it down.
fn picture(kind: &'static str, bytes: &[u8]) -> ToolOutput {
    let said = format!("{kind}, {} bytes:", grouped(bytes.len() as u64));
    let mut output = ToolOutput::text(said);
    output.content.push(Block::Image(Image {
        source: ImageSource::Inline {
            media_type: kind.to_owned(),
            base64: STANDARD.encode(bytes),
        },
        extra: Extra::new(),
    }));
    output
}

fn too_large(path: &str, kind: &str) -> ToolOutput {
    ToolOutput::error(format!(
        "`{path}` is a picture ({kind}) of more than {} bytes, too large to be shown; make it smaller \
         first",
        grouped(MAX_IN_MEMORY_BYTES)
    ))
}

fn binary(path: &str, what: &str) -> ToolOutput {
    ToolOutput::error(format!(
        "`{path}` is no text that can be shown: it is {what}; use a program that knows it"
    ))
}
