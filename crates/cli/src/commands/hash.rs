//! `cachalot hash`: lines in the format of `sha256sum`.

use cachalot_storage::Algorithm;
use serde_json::json;

use crate::arguments::Hash;
use crate::command_error::{CommandError, Result};
use crate::render;
use crate::wiring::ProcessEnvironment;

pub(crate) async fn hash(arguments: &Hash, process_environment: &ProcessEnvironment) -> Result<()> {
    let algorithm: Algorithm = arguments.algorithm.parse().map_err(|error| {
        let error: cachalot_storage::Error = error;
        CommandError::usage(cachalot_core::Problem::new(
            "unknown-algorithm",
            error.to_string(),
        ))
    })?;
    let storage = process_environment.storage(&process_environment.directory)?;
    let mut failures = Vec::new();
    let mut documents = Vec::new();
    for uri in &arguments.uri {
        match storage.hash(uri, algorithm).await {
            Ok(hashed) if arguments.json => documents.push(json!({
                "path": uri,
                "hash": hashed.hash,
                "algorithm": algorithm.to_string(),
                "size_bytes": hashed.size_bytes,
            })),
            Ok(hashed) => render::out(&line(&hashed.hash, uri))?,
            Err(error) => failures.push(error.to_string()),
        }
    }
    if arguments.json {
        render::json(&documents)?;
    }
    if failures.is_empty() {
        Ok(())
    } else {
        Err(CommandError::failed(failures.join("\n")))
    }
}

/// Formats a line like `sha256sum`: a name that would break the line is escaped, and a leading backslash
/// marks it.
fn line(hash: &str, name: &str) -> String {
    if !name.contains(['\\', '\n', '\r']) {
        return format!("{hash}  {name}\n");
    }
    let escaped = name
        .replace('\\', "\\\\")
        .replace('\n', "\\n")
        .replace('\r', "\\r");
    format!("\\{hash}  {escaped}\n")
}
