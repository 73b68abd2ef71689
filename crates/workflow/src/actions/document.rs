//! `document.text`.

mod html;
mod reader_thread;

use std::io;
use std::time::Duration;

use async_trait::async_trait;
use cachalot_core::Effects;
use reader_thread::run_in_thread;
use serde_json::{Value, json};

use super::arguments::{CheckedArguments, declared_by, required, text};
use super::location;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Runtime};

/// The maximum size of a document, in bytes.
const MAX_BYTES: u64 = 256 << 20;

static TEXT: OperationMetadata = OperationMetadata::declared(
"document.text",
&["actions.document_text"],
"The text of a document: PDF, HTML (as Markdown), Markdown, plain text.",
&[required(text("path", "A path (relative to the run's directory) or a URI: file://, http(s)://, s3://, gs://, az://."))],
)
.read_only();

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Pdf,
    Html,
    Markdown,
    Plain,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Pdf => "pdf",
            Self::Html => "html",
            Self::Markdown => "markdown",
            Self::Plain => "text",
        }
    }
}

pub(super) struct Text;

#[async_trait]
impl Operation for Text {
    declared_by!(TEXT);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        location::effects(runtime, arguments, "path")
    }

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let path = arguments.get("path").and_then(Value::as_str);
        let by_name = path.and_then(by_extension).map(Format::name);
        // Stored under a separate name, because it matters even when the content of the file is keyed.
        let implicit = json!({ "format_by_name": by_name });
        let of_path = location::implicit_input(runtime, arguments, "path");
        Ok(location::joined(implicit, of_path))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&TEXT, &arguments);
        let path = given.required_text("path")?;
        let bytes = location::read(&given, runtime, path, MAX_BYTES).await?;
        let shown = cachalot_storage::masked(path);
        let format = by_extension(path)
            .or_else(|| by_content(&bytes))
            .ok_or_else(|| unsupported(&given, &shown, &bytes))?;
        let damaged = |error: DocumentError| {
            given.failure(
                "document_error",
                format_args!("`{shown}` is not read as {}: {error}", format.name()),
            )
        };
        let (text, pages) = match format {
            Format::Pdf => {
                let pages = run_in_thread(move || pdf(&bytes)).await.map_err(damaged)?;
                (pages.concat(), Some(pages.len()))
            }
            Format::Html => (
                run_in_thread(move || html::markdown(plain(&bytes)?))
                    .await
                    .map_err(damaged)?,
                None,
            ),
            Format::Markdown | Format::Plain => (plain(&bytes).map_err(damaged)?.to_owned(), None),
        };
        let mut result = json!({ "text": text, "format": format.name(), "success": true });
        if let (Some(pages), Value::Object(fields)) = (pages, &mut result) {
            fields.insert("pages".to_owned(), pages.into());
        }
        Ok(result)
    }
}

impl Action for Text {}

/// Returns the format that the file extension implies, ignoring the query and fragment of a URI.
fn by_extension(path: &str) -> Option<Format> {
    let path = match path.split_once("://") {
        Some((scheme, rest)) if scheme.starts_with("http") => {
            rest.split(['?', '#']).next()?.split_once('/')?.1
        }
        _ => path,
    };
    let name = path.rsplit('/').next()?;
    let (_, extension) = name.rsplit_once('.')?;
    match extension.to_ascii_lowercase().as_str() {
        "pdf" => Some(Format::Pdf),
        "html" | "htm" | "xhtml" => Some(Format::Html),
        "md" | "markdown" => Some(Format::Markdown),
        "txt" | "text" => Some(Format::Plain),
        _ => None,
    }
}

/// Returns the format that the beginning of the content implies.
fn by_content(bytes: &[u8]) -> Option<Format> {
    const SNIFFED_BYTES: usize = 1024;
    let start = &bytes[..bytes.len().min(SNIFFED_BYTES)];
    if contains_bytes(start, b"%PDF-") {
        return Some(Format::Pdf);
    }
    let text = std::str::from_utf8(bytes)
        .ok()
        .filter(|text| !text.contains('\0'))?;
    let head = text
        .trim_start_matches('\u{feff}')
        .trim_start()
        .get(..14)
        .unwrap_or(text)
        .to_ascii_lowercase();
    let is_html = head.starts_with("<!doctype html") || head.trim_start().starts_with("<html");
    Some(if is_html { Format::Html } else { Format::Plain })
}

fn contains_bytes(bytes: &[u8], needle: &[u8]) -> bool {
    bytes.windows(needle.len()).any(|window| window == needle)
}

fn unsupported(given: &CheckedArguments<'_>, shown: &str, bytes: &[u8]) -> Failure {
    let what = if bytes.starts_with(b"PK\x03\x04") {
        " (an office document or another archive)"
    } else {
        ""
    };
    given.failure(
        "document_error",
        format_args!("`{shown}` is no PDF, HTML, Markdown or UTF-8 text{what}: convert it first, for example with `shell.run`"),
    )
}

/// The reason why a document cannot be read.
#[derive(Debug, thiserror::Error)]
enum DocumentError {
    #[error(
        "it is not UTF-8 (byte {0}); convert it, or read it with `file.read` and `encoding: latin-1`"
    )]
    NotUtf8(usize),
    /// The message of the reader.
    #[error("{0}")]
    Unreadable(String),
    #[error("it is damaged, or uses what its reader does not know")]
    ReaderPanicked,
    #[error("its reader gave up on it")]
    ReaderGone,
    #[error("it was not read within {0:?}")]
    TimedOut(Duration),
    #[error(transparent)]
    NoThread(#[from] io::Error),
}

fn plain(bytes: &[u8]) -> Result<&str, DocumentError> {
    let text =
        std::str::from_utf8(bytes).map_err(|error| DocumentError::NotUtf8(error.valid_up_to()))?;
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// Returns the text of each page of a PDF.
fn pdf(bytes: &[u8]) -> Result<Vec<String>, DocumentError> {
    pdf_extract::extract_text_from_mem_by_pages(bytes)
        .map_err(|error| DocumentError::Unreadable(error.to_string()))
}
