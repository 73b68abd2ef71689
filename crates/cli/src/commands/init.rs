//! `cachalot init`.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use cachalot_core::Problem;

use crate::arguments::{Init, InitKind};
use crate::command_error::{CommandError, Result};
use crate::default_model::default_model;
use crate::wiring::ProcessEnvironment;
use crate::{default_agent, render};

const WORKFLOW: &str = include_str!("../../templates/workflow.yaml");

/// The model of a file that is written without a key for any provider.
const EXAMPLE_MODEL: &str = "anthropic/claude-sonnet-5-5";

/// Writes a commented file, and prints the command that uses it. An existing file is never replaced.
///
/// # Errors
/// The file exists, or cannot be written.
pub(crate) fn init(arguments: &Init, process_environment: &ProcessEnvironment) -> Result<()> {
    let model = match &arguments.model {
        Some(model) => model,
        None => default_model(process_environment).unwrap_or(EXAMPLE_MODEL),
    };
    let (usual, text) = match arguments.kind {
        InitKind::Agent => ("agent.yaml", default_agent::file_text(model)),
        InitKind::Workflow => ("workflow.yaml", WORKFLOW.replace("MODEL", model)),
    };
    let file = arguments
        .file
        .clone()
        .unwrap_or_else(|| PathBuf::from(usual));
    let name = file.display().to_string();
    let text = text.replace("FILE", &name);
    let path = process_environment.directory.join(&file);
    write(&path, &text).map_err(|error| refused(&file, &error))?;
    let next = match arguments.kind {
        InitKind::Agent => format!("cachalot chat {name}"),
        InitKind::Workflow => format!("cachalot run {name}"),
    };
    render::err(&format!("{name} is written; next: {next}"));
    Ok(())
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).open(path)?;
    let written = file.write_all(text.as_bytes());
    if written.is_err() {
        // A part of the file is of no use, and would be in the way of the next attempt.
        let _ = std::fs::remove_file(path);
    }
    written
}

fn refused(file: &Path, error: &std::io::Error) -> CommandError {
    let name = file.display();
    match error.kind() {
        ErrorKind::AlreadyExists => CommandError::usage(
            Problem::new("file-exists", format!("{name} exists and is not replaced"))
                .help("name another file: `cachalot init agent OTHER.yaml`"),
        ),
        _ => CommandError::failed(format!("{name}: {error}")),
    }
}
