//! The tool `read_file`.

use std::io::BufRead;

use async_trait::async_trait;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use cachalot_core::{Effects, Touched};
use cachalot_model::{Block, Extra, Image, ImageSource};
use cachalot_operation::Touches;
use serde::Deserialize;
use serde_json::{Value, json};

use super::media::{Media, from_utf16};
use super::numbered::{Numbered, Range};
use super::opening::{cannot, open_file};
use super::source::Source;
use super::{IN_MEMORY, grouped, path_of, readable, reader, reading, typed};
use crate::blocking::blocking;
use crate::tool::{About, Arguments, Context, Output, Tool};

/// Default maximum number of lines.
const LINES: usize = 2_000;

pub(super) struct ReadFile {
    about: About,
}

#[derive(Deserialize)]
struct Asked {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

impl ReadFile {
    pub(super) fn new() -> Self {
        let description = "Reads a file. Text is given with line numbers: six columns, a tab, the \
            line; the numbers are not part of the file. At most 2,000 lines or 64 KiB at a time: the \
            end of the answer says how to go on. PNG, JPEG, GIF and WebP files are given as pictures.";
        let parameters = json!({
            "type": "object",
            "properties": {
                "path": {
                    "type": "string",
                    "description": "The file, relative to the workspace.",
                },
                "offset": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "The first line, from 1.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "description": "How many lines.",
                },
            },
            "required": ["path"],
            "additionalProperties": false,
        });
        Self {
            about: reader("read_file", description, parameters),
        }
    }
}

#[async_trait]
impl Tool for ReadFile {
    fn about(&self) -> &About {
        &self.about
    }

    fn effects(&self, arguments: &Arguments, context: &Context) -> Effects {
        let path = arguments.get("path").and_then(|path| path.as_str());
        reading(path.unwrap_or_default(), context, |place| {
            vec![Touched::Path(place.real.clone())]
        })
    }

    fn touches(&self, arguments: &Arguments) -> Touches {
        Touches::reading([path_of(arguments, "")])
    }

    fn implicit_inputs(&self, context: &Context) -> Value {
        readable(context)
    }

    async fn run(&self, arguments: Arguments, context: &Context) -> Output {
        let asked: Asked = match typed(arguments) {
            Ok(asked) => asked,
            Err(wrong) => return wrong,
        };
        let context = context.clone();
        blocking(move |_| read(&asked, &context).unwrap_or_else(|failed| failed)).await
    }
}

fn read(asked: &Asked, context: &Context) -> Result<Output, Output> {
    let path = &asked.path;
    let (place, file) = open_file(&context.workspace, path)?;
    let failed = |error: std::io::Error| cannot("read", path, &error);
    match Source::read(file, &place.asked, &context.witness).map_err(failed)? {
        Source::Whole(bytes) => match Media::of(&bytes) {
            Media::Picture(kind) => Ok(picture(kind, &bytes)),
            Media::Utf16(low_first) => {
                let text = from_utf16(&bytes[2..], low_first);
                let shown = text_of(asked, &mut text.as_bytes())?;
                Ok(Output::text(format!(
                    "{shown}[the file is in UTF-16; edit_file cannot change it]\n"
                )))
            }
            Media::Binary(what) => Err(binary(path, what)),
            Media::Text if bytes.is_empty() => Ok(Output::text("[the file is empty: 0 bytes]\n")),
            Media::Text => text_of(asked, &mut &bytes[..]).map(Output::text),
        },
        Source::Stream(mut stream) => {
            let media = Media::of(stream.reader.fill_buf().map_err(failed)?);
            let shown = match media {
                Media::Text => text_of(asked, &mut stream.reader).map(Output::text),
                Media::Picture(kind) => Err(too_large(path, kind)),
                Media::Utf16(_) => Err(binary(path, "long text in UTF-16")),
                Media::Binary(what) => Err(binary(path, what)),
            };
            stream.end(&context.witness);
            shown
        }
    }
}

fn text_of(asked: &Asked, reader: &mut impl BufRead) -> Result<String, Output> {
    let range = Range {
        offset: asked.offset.unwrap_or(1).max(1),
        limit: asked.limit.unwrap_or(LINES),
    };
    let numbered =
        Numbered::read(reader, range).map_err(|error| cannot("read", &asked.path, &error))?;
    if range.offset > numbered.total().max(1) {
        return Err(Output::error(format!(
            "there is no line {} in `{}`: it has {}",
            range.offset,
            asked.path,
            super::counted(numbered.total(), "line")
        )));
    }
    Ok(format!("{}{}", numbered.text, numbered.notices()))
}

/// Returns an image of any size: the code that sends it to a provider scales it down.
fn picture(kind: &'static str, bytes: &[u8]) -> Output {
    let said = format!("{kind}, {} bytes:", grouped(bytes.len() as u64));
    let mut output = Output::text(said);
    output.content.push(Block::Image(Image {
        source: ImageSource::Inline {
            media_type: kind.to_owned(),
            base64: STANDARD.encode(bytes),
        },
        extra: Extra::new(),
    }));
    output
}

fn too_large(path: &str, kind: &str) -> Output {
    Output::error(format!(
        "`{path}` is a picture ({kind}) of more than {} bytes, too large to be shown; make it smaller \
         first",
        grouped(IN_MEMORY)
    ))
}

fn binary(path: &str, what: &str) -> Output {
    Output::error(format!(
        "`{path}` is no text that can be shown: it is {what}; use a program that knows it"
    ))
}
