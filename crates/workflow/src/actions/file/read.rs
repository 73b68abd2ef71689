//! `file.read`.

use async_trait::async_trait;
use base64::Engine as _;
use cachalot_core::tree::Node;
use cachalot_core::{Effects, Problem};
use serde_json::{Value, json};

use crate::actions::argument_checker::ArgumentChecker;
use crate::actions::arguments::{CheckedArguments, declared_by, excerpt, integer, required, text};
use crate::actions::location;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Registry, Runtime};

/// The default maximum of bytes to read.
const DEFAULT_MAX_BYTES: u64 = 64 << 20;

static READ: OperationMetadata = OperationMetadata::declared(
"file.read",
&["actions.file_read"],
"Reads a file, or anything else that a URI names, as text.",
&[
        required(text(
            "path",
            "A path (relative to the run's directory) or a URI: file://, http(s)://, s3://, gs://, az://.",
        )),
        text(
            "encoding",
            "`utf-8` (the default), `latin-1`, or `base64` for the bytes as Base64 text.",
        ),
        integer(
            "max_bytes",
            "A larger file is a failure; 67108864 by default.",
        ),
    ],
)
.read_only();

pub(super) struct Read;

#[async_trait]
impl Operation for Read {
    declared_by!(READ);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        Effects::reading_files(location::local_files(runtime, arguments, "path"))
    }

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        Ok(location::implicit_input(runtime, arguments, "path"))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&READ, arguments);
        let path = given.required_text("path")?;
        let decode = decoder(&given)?;
        let largest = given
            .count("max_bytes", 0..=u64::MAX)?
            .unwrap_or(DEFAULT_MAX_BYTES);
        let bytes = location::read(&given, runtime, path, largest).await?;
        let content = decode(&given, path, bytes.into())?;
        Ok(json!({ "content": content, "success": true }))
    }
}

impl Action for Read {
    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        ArgumentChecker::new(with)
            .one_of("encoding", &ENCODINGS, |name| decode(name).is_some())
            .count("max_bytes", 0..=u64::MAX)
            .problems()
    }
}

type Decode = fn(&CheckedArguments<'_>, &str, Vec<u8>) -> Result<String, Failure>;

/// Display names of the encodings.
const ENCODINGS: [&str; 3] = ["utf-8", "latin-1", "base64"];

/// Returns the decoder for the bytes. It is chosen before anything is read, so that an unknown encoding
/// fails early.
fn decoder(given: &CheckedArguments<'_>) -> Result<Decode, Failure> {
    let encoding = given.text("encoding")?.unwrap_or("utf-8");
    decode(encoding).ok_or_else(|| {
        given.wrong(
            "encoding",
            format_args!(
                "is `{}`: expected one of: {}",
                excerpt(encoding),
                ENCODINGS.join(", ")
            ),
        )
    })
}

fn decode(encoding: &str) -> Option<Decode> {
    match encoding.to_ascii_lowercase().as_str() {
        "utf-8" | "utf8" => Some(|given, path, bytes| {
            String::from_utf8(bytes).map_err(|error| {
                given.wrong("path", format_args!(
                    "names `{path}`, which is not UTF-8 (byte {}): give `encoding: latin-1` or `encoding: base64`",
                    error.utf8_error().valid_up_to()
                ))
            })
        }),
        // Each byte is the code point with its number.
        "latin-1" | "latin1" | "iso-8859-1" => {
            Some(|_, _, bytes| Ok(bytes.into_iter().map(char::from).collect()))
        }
        "base64" => Some(|_, _, bytes| Ok(base64::engine::general_purpose::STANDARD.encode(bytes))),
        _ => None,
    }
}
