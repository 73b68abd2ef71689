//! Paths and URIs that arguments name. Relative paths start at the run's directory.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use cachalot_storage::{Error, ErrorKind};
use serde_json::{Value, json};

use super::arguments::Given;
use crate::{Arguments, Failure, Runtime};

/// All bytes behind a path or URI, if there are not more than `largest`.
///
/// # Errors
/// `not_found`, `file_error`, `validation_error`, `too_large`, `connection_error`.
pub(super) async fn read(
    given: &Given<'_>,
    runtime: &Runtime,
    uri: &str,
    largest: u64,
) -> Result<Bytes, Failure> {
    runtime
        .storage
        .read(uri, largest)
        .await
        .map_err(|error| fault(given, &error))
}

/// A fault of storage as a failure of the action.
pub(super) fn fault(given: &Given<'_>, error: &Error) -> Failure {
    let kind = match error.kind {
        ErrorKind::NotFound => "not_found",
        ErrorKind::Invalid | ErrorKind::UnknownScheme | ErrorKind::UnknownAlgorithm => {
            "validation_error"
        }
        ErrorKind::TooLarge => "too_large",
        ErrorKind::Unavailable if error.worth_retrying() => "connection_error",
        _ => "file_error",
    };
    Failure {
        retryable: error.worth_retrying(),
        ..given.failure(kind, error)
    }
}

/// The local path that an argument names: plain, or a `file://` URI.
///
/// # Errors
/// `validation_error` for what is not local.
pub(super) fn local(
    given: &Given<'_>,
    runtime: &Runtime,
    name: &str,
    text: &str,
) -> Result<PathBuf, Failure> {
    runtime.storage.local_path(text).ok_or_else(|| {
        given.wrong(
            name,
            format_args!(
                "is `{}`: expected a local path",
                cachalot_storage::masked(text)
            ),
        )
    })
}

/// The implicit input of an action whose argument `name` may be a relative path: the directory that
/// it is relative to, under the argument's own name, so that a key made from the content of the file
/// can leave it out together with the argument.
pub(super) fn implied(runtime: &Runtime, arguments: &Arguments, name: &str) -> Value {
    let relative = |text: &&str| !text.contains(':') && !Path::new(text).is_absolute();
    match arguments.get(name).and_then(Value::as_str).filter(relative) {
        Some(_) => json!({ name: { "relative_to": runtime.directory.to_string_lossy() } }),
        None => Value::Null,
    }
}
