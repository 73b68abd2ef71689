//! Paths and URIs in arguments. Relative paths are relative to the run's directory.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use cachalot_core::{Digest, Effects};
use cachalot_storage::{Error, ErrorKind};
use serde_json::{Value, json};

use super::arguments::CheckedArguments;
use crate::{Arguments, Failure, Runtime, destination};

/// Reads all bytes behind a path or URI, at most `max_bytes`.
///
/// # Errors
/// `not_found`, `file_error`, `validation_error`, `too_large`, `connection_error`, `host_not_allowed`.
pub(super) async fn read(
    given: &CheckedArguments<'_>,
    runtime: &Runtime,
    uri: &str,
    max_bytes: u64,
) -> Result<Bytes, Failure> {
    destination::check_uri(given.action(), runtime, uri)?;
    runtime
        .storage
        .read(uri, max_bytes)
        .await
        .map_err(|error| storage_failure(given, &error))
}

/// Converts a storage error to a failure of the action.
pub(super) fn storage_failure(given: &CheckedArguments<'_>, error: &Error) -> Failure {
    let kind = match error.kind {
        ErrorKind::NotFound => "not_found",
        ErrorKind::Invalid | ErrorKind::UnknownScheme | ErrorKind::UnknownAlgorithm => {
            "validation_error"
        }
        ErrorKind::TooLarge => "too_large",
        ErrorKind::Unavailable if error.is_retryable() => "connection_error",
        _ => "file_error",
    };
    Failure {
        retryable: error.is_retryable(),
        ..given.failure(kind, error)
    }
}

/// Returns the local path in an argument: a plain path or a `file://` URI.
///
/// # Errors
/// `validation_error` if it is not local.
pub(super) fn local_path(
    given: &CheckedArguments<'_>,
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

/// Returns the implicit input of an action whose argument `name` may be a relative path or an object in a
/// store: the base directory or the store. It is stored under the argument's own name, so that a key made
/// from the content of the file can omit it together with the argument.
pub(super) fn implicit_input(runtime: &Runtime, arguments: &Arguments, name: &str) -> Value {
    let Some(text) = arguments.get(name).and_then(Value::as_str) else {
        return Value::Null;
    };
    if let Some(bucket_configuration) = bucket_configuration(runtime, text) {
        return json!({ name: { "store": bucket_configuration } });
    }
    if is_relative(runtime, text) {
        json!({ name: { "relative_to": path_key(&runtime.directory) } })
    } else {
        Value::Null
    }
}

/// Returns implicit inputs, a mapping, with `further` ones, a mapping or null.
pub(super) fn joined(mut inputs: Value, further: Value) -> Value {
    if let (Value::Object(inputs), Value::Object(further)) = (&mut inputs, further) {
        inputs.extend(further);
    }
    inputs
}

fn is_relative(runtime: &Runtime, text: &str) -> bool {
    let is_uri = || {
        text.get(..6)
            .is_some_and(|start| start.eq_ignore_ascii_case("file:/"))
    };
    runtime.storage.local_path(text).is_some() && !Path::new(text).is_absolute() && !is_uri()
}

/// Returns the keyed form of a path: different paths give different values, including paths that are not
/// UTF-8.
pub(super) fn path_key(path: &Path) -> Value {
    match path.to_str() {
        Some(text) => text.into(),
        None => json!({ "bytes_hex": hex::encode(path.as_os_str().as_encoded_bytes()) }),
    }
}

/// Returns the effects of an action that only reads what the argument `name` points to.
pub(super) fn effects(runtime: &Runtime, arguments: &Arguments, name: &str) -> Effects {
    let text = arguments.get(name).and_then(Value::as_str);
    let text = text.filter(|text| !text.is_empty());
    Effects::reading_files(text.and_then(|text| runtime.storage.local_path(text)))
}

/// Returns the environment variables that locate the buckets of a URI's scheme; `None` if the URI is not
/// in a bucket, or if no such variable is set. Credentials are left out: they grant access but do not
/// select the store.
fn bucket_configuration(runtime: &Runtime, uri: &str) -> Option<Value> {
    let (scheme, _) = uri.split_once("://")?;
    let prefixes: &[&str] = match scheme.to_ascii_lowercase().as_str() {
        "s3" => &["AWS_"],
        "gs" => &["GOOGLE_", "STORAGE_EMULATOR_HOST"],
        "az" | "abfs" | "abfss" => &["AZURE_"],
        _ => return None,
    };
    let locates_bucket = |name: &str| {
        prefixes.iter().any(|prefix| name.starts_with(prefix))
            && [
                "ENDPOINT", "REGION", "HOST", "BASE_URL", "EMULATOR", "ACCOUNT", "VERSION",
            ]
            .iter()
            .any(|part| name.contains(part))
            && !["KEY", "SERVICE_ACCOUNT", "CREDENTIALS"]
                .iter()
                .any(|part| name.contains(part))
    };
    let mut configuration: serde_json::Map<String, Value> = runtime
        .environment
        .iter()
        .filter(|(name, value)| locates_bucket(name) && !value.is_empty())
        .map(|(name, value)| (name.clone(), value.as_str().into()))
        .collect();
    const CONNECTION: &str = "AZURE_STORAGE_CONNECTION_STRING";
    if let Some(connection) = runtime
        .environment
        .get(CONNECTION)
        .filter(|_| prefixes == ["AZURE_"])
    {
        // The connection string contains the account's name and its key, so only its digest is kept.
        configuration.insert(
            CONNECTION.to_owned(),
            digest_text(runtime, connection).into(),
        );
    }
    (!configuration.is_empty()).then_some(Value::Object(configuration))
}

/// Returns a digest in place of a text that may be a credential. Equal texts have equal digests. If the
/// home has a digest key, the digest is keyed with it and useless without it.
pub(super) fn digest_text(runtime: &Runtime, text: &str) -> String {
    match runtime.secret_set.key() {
        Some(key) => format!("hmac-sha256:{}", key.digest(text.as_bytes())),
        None => format!("sha256:{}", Digest::sha256(text.as_bytes())),
    }
}
