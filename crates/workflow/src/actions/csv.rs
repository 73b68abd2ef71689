//! `csv.parse`.

use std::collections::HashSet;

use async_trait::async_trait;
use cachalot_core::tree::Node;
use cachalot_core::{Effects, Problem};
use serde_json::{Value, json};

use super::arguments::{CheckedArguments, boolean, declared_by, excerpt, text};
use super::location;
use crate::action::argument_checker::ArgumentChecker;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Registry, Runtime};

/// The maximum size of a file, in bytes.
const MAX_BYTES: u64 = 256 << 20;

#[rustfmt::skip]
static PARSE: OperationMetadata = OperationMetadata::declared(
    "csv.parse",
    &["actions.csv_parse"],
    "Reads comma-separated values; all fields are text.",
    &[
        text("text", "The text to parse; this or `path` must be given."),
        text("path", "The file to read, or a URI; this or `text` must be given."),
        text("delimiter", "The separator of fields, one ASCII character; `,` by default."),
        boolean("header", "True if the first row names the fields, so that rows become mappings (default). Otherwise rows are lists.").with_aliases(&["has_header"]),
    ],
)
.read_only();

const TEXT_OR_PATH_HELP: &str = "give either `text` or `path`";

const DELIMITER_RULE: &str = "must be one ASCII character, and neither a quote nor a line break";

pub(super) struct Parse;

#[async_trait]
impl Operation for Parse {
    declared_by!(PARSE);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        location::effects(runtime, arguments, "path")
    }

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        Ok(location::implicit_input(runtime, arguments, "path"))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&PARSE, &arguments);
        let delimiter = delimiter(&given)?;
        let header = given.flag("header", true)?;
        match (given.text("text")?, given.text("path")?) {
            (Some(text), None) => parse(&given, text, delimiter, header),
            (None, Some(path)) => {
                let bytes = location::read(&given, runtime, path, MAX_BYTES).await?;
                let text = std::str::from_utf8(&bytes).map_err(|error| {
                    given.wrong("path", format_args!("names `{path}`, which is not UTF-8 (byte {}): read it with `file.read` and `encoding: latin-1`, and give `text`", error.valid_up_to()))
                })?;
                parse(&given, text, delimiter, header)
            }
            _ => Err(given.failure("validation_error", TEXT_OR_PATH_HELP)),
        }
    }
}

impl Action for Parse {
    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        ArgumentChecker::new(&PARSE, with)
            .at_least_one_of(&["text", "path"], TEXT_OR_PATH_HELP)
            .at_most_one_of(&["text", "path"], TEXT_OR_PATH_HELP)
            .read("delimiter", DELIMITER_RULE, |text| match separator(text) {
                Some(_) => Ok(()),
                None => Err(format!("is `{}`", excerpt(text))),
            })
            .problems()
    }
}

fn delimiter(given: &CheckedArguments<'_>) -> Result<u8, Failure> {
    let text = given.text("delimiter")?.unwrap_or(",");
    separator(text).ok_or_else(|| given.wrong("delimiter", DELIMITER_RULE))
}

fn separator(text: &str) -> Option<u8> {
    match text.as_bytes() {
        [byte] if byte.is_ascii() && !matches!(byte, b'"' | b'\n' | b'\r') => Some(*byte),
        _ => None,
    }
}

fn parse(
    given: &CheckedArguments<'_>,
    text: &str,
    delimiter: u8,
    header: bool,
) -> Result<Value, Failure> {
    // The byte order mark that spreadsheet programs write belongs to no field.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut reader = ::csv::ReaderBuilder::new()
        .delimiter(delimiter)
        .has_headers(header)
        .from_reader(text.as_bytes());
    let headers = if header {
        column_names(given, &mut reader)?
    } else {
        Vec::new()
    };
    let mut data = Vec::new();
    for record in reader.records() {
        let record = record.map_err(|error| ragged_row(given, &error))?;
        let fields = record.iter().map(Value::from);
        data.push(if header {
            Value::Object(headers.iter().cloned().zip(fields).collect())
        } else {
            Value::Array(fields.collect())
        });
    }
    Ok(json!({ "row_count": data.len(), "data": data, "headers": headers, "success": true }))
}

fn column_names(
    given: &CheckedArguments<'_>,
    reader: &mut ::csv::Reader<&[u8]>,
) -> Result<Vec<String>, Failure> {
    let headers = reader
        .headers()
        .map_err(|error| ragged_row(given, &error))?;
    let names: Vec<String> = headers.iter().map(str::to_owned).collect();
    let mut seen = HashSet::new();
    match names.iter().find(|name| !seen.insert(name.as_str())) {
        None => Ok(names),
        Some(duplicate) => Err(given.failure(
            "validation_error",
            format_args!(
                "the header `{}` occurs twice: rename one, or read with `header: false`",
                excerpt(duplicate)
            ),
        )),
    }
}

fn ragged_row(given: &CheckedArguments<'_>, error: &::csv::Error) -> Failure {
    match error.kind() {
        ::csv::ErrorKind::UnequalLengths {
            pos,
            expected_len,
            len,
        } => given.failure(
            "validation_error",
            format_args!(
                "line {} has {len} fields where the rows before it have {expected_len}",
                pos.as_ref().map_or(0, ::csv::Position::line)
            ),
        ),
        _ => given.failure("validation_error", error),
    }
}
