//! `file.write`: writes a file without leaving partial content.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::Path;

use async_trait::async_trait;
use cachalot_core::atomic_file::{self, Access};
use cachalot_core::{EffectTarget, Effects, disk};
use serde_json::{Value, json};

use crate::actions::arguments::{CheckedArguments, boolean, declared_by, required, text};
use crate::actions::location;
use crate::{Action, Arguments, CacheClass, Failure, Operation, OperationMetadata, Runtime};

#[rustfmt::skip]
static WRITE: OperationMetadata = OperationMetadata::declared(
    "file.write",
    &["actions.file_write"],
    "Writes text to a local file: the new content appears at once or not at all.",
    &[
        required(text("path", "The file, relative to the run's directory.")),
        required(text("content", "The content, written as UTF-8.")),
        boolean("append", "Append to the file instead of replacing it; false by default."),
        boolean("create_directories", "Create missing parent directories; false by default."),
    ],
)
.with_cache_class(CacheClass::EffectOnly);

pub(in crate::actions) struct Write;

#[async_trait]
impl Operation for Write {
    declared_by!(WRITE);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        let path = arguments.get("path").and_then(Value::as_str);
        match path.and_then(|path| runtime.storage.local_path(path)) {
            Some(path) => Effects::writing(vec![EffectTarget::Path(path)]),
            None => Effects::UNKNOWN,
        }
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let given = CheckedArguments::new(&WRITE, &arguments);
        let display_name = given.required_text("path")?;
        let path = location::local_path(&given, runtime, "path", display_name)?;
        let content = given
            .text("content")?
            .ok_or_else(|| given.wrong("content", "is required"))?
            .to_owned();
        let append = given.flag("append", false)?;
        let create = given.flag("create_directories", false)?;
        // Runs to completion even if the caller is gone: a cancelled write is never partial.
        let work = tokio::task::spawn_blocking(move || {
            if create && let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            if append {
                append_to(&path, content.as_bytes())
            } else {
                atomic_file::replace(&path, content.as_bytes(), Access::Kept)
            }
        });
        match work.await {
            Ok(Ok(())) => Ok(json!({ "path": display_name, "success": true })),
            Ok(Err(error)) => Err(write_failure(&given, display_name, &error)),
            Err(error) => Err(given.failure(
                "file_error",
                format_args!("`{display_name}` was not written: {error}"),
            )),
        }
    }
}

impl Action for Write {}

fn write_failure(given: &CheckedArguments<'_>, display_name: &str, error: &io::Error) -> Failure {
    match error.kind() {
        io::ErrorKind::NotFound => given.failure(
            "not_found",
            format_args!("the directory of `{display_name}` does not exist: create it, or give `create_directories: true`"),
        ),
        _ if disk::is_full(error) => given.failure(
            "file_error",
            format_args!("`{display_name}` was not written: no space left ({error}); free some on its disk"),
        ),
        _ => given.failure("file_error", format_args!("`{display_name}` was not written: {error}")),
    }
}

/// Appends `content` to the file at `path`, which is created if needed. Writers are serialized by a file
/// lock; a write that fails midway is rolled back.
fn append_to(path: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().append(true).create(true).open(path)?;
    file.lock()?;
    let before = file.metadata()?.len();
    let written = file.write_all(content).and_then(|()| file.sync_data());
    if written.is_err() {
        let _ = File::set_len(&file, before);
    }
    written
}
