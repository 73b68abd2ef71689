//! `storage.hash`.

use async_trait::async_trait;
use cachalot_core::Effects;
use cachalot_storage::{Algorithm, ErrorKind};
use serde_json::{Value, json};

use super::arguments::{CheckedArguments, declared_by, required, text, word};
use super::location;
use crate::{Action, Arguments, Failure, Operation, OperationMetadata, Runtime, destination};

#[rustfmt::skip]
static HASH: OperationMetadata = OperationMetadata::declared(
    "storage.hash",
    &["actions.storage_hash"],
    "Hashes the content of a file, or of anything else that a URI names, while streaming it.",
    &[
        required(text("path", "A path (relative to the run's directory) or a URI: file://, http(s)://, s3://, gs://, az://.")),
        word("algorithm", &Algorithm::NAMES, "`sha256` (the default), `md5`, or `blake2b` (512 bits)."),
    ],
)
.read_only();

pub(super) struct Hash;

#[async_trait]
impl Operation for Hash {
    declared_by!(HASH);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        location::effects(runtime, arguments, "path")
    }

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        // The result contains the path, so another path to the same content is another result.
        let implicit = json!({ "echoed_path": arguments.get("path") });
        let of_path = location::implicit_input(runtime, arguments, "path");
        Ok(location::joined(implicit, of_path))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&HASH, &arguments);
        let path = given.required_text("path")?;
        let algorithm: Algorithm = match given.text("algorithm")? {
            None => Algorithm::Sha256,
            Some(name) => name
                .parse()
                .map_err(|error| given.wrong("algorithm", format_args!("is wrong: {error}")))?,
        };
        destination::check_uri(given.action(), runtime, path)?;
        let hashed = runtime
            .storage
            .hash(path, algorithm)
            .await
            .map_err(|error| {
                let failure = location::storage_failure(&given, &error);
                // A missing file and an unknown scheme are reported as `file_error`, too.
                match error.kind {
                    ErrorKind::NotFound | ErrorKind::UnknownScheme => Failure {
                        kind: "file_error",
                        ..failure
                    },
                    _ => failure,
                }
            })?;
        Ok(json!({
            "success": true,
            "hash": hashed.hash,
            "algorithm": hashed.algorithm.name(),
            "size_bytes": hashed.size_bytes,
            "path": path,
        }))
    }
}

impl Action for Hash {}
