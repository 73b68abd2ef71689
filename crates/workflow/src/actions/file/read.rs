//! `file.read`.

use async_trait::async_trait;
use base64::Engine as _;
use cachalot_core::tree::Node;
use cachalot_core::{Effects, Problem};
use serde_json::{Value, json};

use crate::action::argument_checker::ArgumentChecker;
use crate::actions::arguments::{CheckedArguments, count, declared_by, excerpt, required, text};
use crate::actions::location;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Registry, Runtime};

/// The default maximum of bytes to read.
const DEFAULT_MAX_BYTES: u64 = 64 << 20;

#[rustfmt::skip]
static READ: OperationMetadata = OperationMetadata::declared(
    "file.read",
    &["actions.file_read"],
    "Reads a file, or anything else that a URI names, as text.",
    &[
        required(text("path", "A path (relative to the run's directory) or a URI: file://, http(s)://, s3://, gs://, az://.")),
        text("encoding", "`utf-8` (the default), `latin-1`, or `base64` for the bytes as Base64 text."),
        count("max_bytes", (0, u64::MAX), "A larger file is a failure; 67108864 by default."),
    ],
)
.read_only();

pub(in crate::actions) struct Read;

#[async_trait]
impl Operation for Read {
    declared_by!(READ);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        location::effects(runtime, arguments, "path")
    }

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        Ok(location::implicit_input(runtime, arguments, "path"))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&READ, &arguments);
        let path = given.required_text("path")?;
        let named = given.text("encoding")?.unwrap_or("utf-8");
        let encoding = encoding(named).ok_or_else(|| {
            let expected = ENCODINGS.join(", ");
            let named = excerpt(named);
            given.wrong(
                "encoding",
                format_args!("is `{named}`: expected one of: {expected}"),
            )
        })?;
        let largest = given.count("max_bytes")?.unwrap_or(DEFAULT_MAX_BYTES);
        let bytes = location::read(&given, runtime, path, largest).await?;
        let content = match encoding {
            // Each byte is the code point with its number.
            "latin-1" => bytes.iter().map(|byte| char::from(*byte)).collect(),
            "base64" => base64::engine::general_purpose::STANDARD.encode(&bytes),
            _ => String::from_utf8(bytes.into()).map_err(|error| {
                let place = error.utf8_error().valid_up_to();
                given.wrong("path", format_args!(
                    "names `{path}`, which is not UTF-8 (byte {place}): give `encoding: latin-1` or `encoding: base64`"
                ))
            })?,
        };
        Ok(json!({ "content": content, "success": true }))
    }
}

impl Action for Read {
    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        ArgumentChecker::new(&READ, with)
            .one_of("encoding", &ENCODINGS, |name| encoding(name).is_some())
            .problems()
    }
}

/// Display names of the encodings.
const ENCODINGS: [&str; 3] = ["utf-8", "latin-1", "base64"];

/// Returns the display name of an encoding.
fn encoding(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "utf-8" | "utf8" => Some("utf-8"),
        "latin-1" | "latin1" | "iso-8859-1" => Some("latin-1"),
        "base64" => Some("base64"),
        _ => None,
    }
}
