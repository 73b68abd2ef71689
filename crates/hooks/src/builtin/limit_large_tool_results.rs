//! `limit_large_tool_results`: truncates large tool results.

use std::collections::HashMap;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::Mutex;
use tempfile::TempDir;

use super::BuiltinDependencies;
use super::simple::SimpleBuiltin;
use crate::Event;
use crate::input::{Input, ToolUse};
use crate::lookup::AgentView;
use crate::output::{Fault, Output};

mod cut;

use cut::{KeptPart, cut};

/// Truncates tool results that are too long, and stores their full text in files of the session.
pub(super) struct LimitLargeToolResults {
    result_files: Arc<ResultFiles>,
}

impl LimitLargeToolResults {
    pub(super) fn new(dependencies: &BuiltinDependencies) -> Self {
        let parent = dependencies.environment.get("TMPDIR").map(String::as_str);
        let parent = parent.filter(|parent| !parent.is_empty()).unwrap_or("/tmp");
        Self {
            result_files: Arc::new(ResultFiles {
                parent: PathBuf::from(parent),
                sessions: Mutex::default(),
            }),
        }
    }

    async fn limited(&self, input: &Input) -> Output {
        let (Some(call), Some(response)) = (&input.tool, &input.tool_response) else {
            return Output::default();
        };
        if !cut::is_large(&response.text) || limits_itself(call) {
            return Output::default();
        }
        let stored = self.store(input, &call.name, &response.text).await;
        let warning = stored
            .as_ref()
            .err()
            .map(|error| format!("the result of `{}` could not be kept: {error}", call.name));
        let kept = if reads_a_file(call) {
            KeptPart::Beginning
        } else {
            KeptPart::End
        };
        Output {
            updated_tool_response: Some(cut(&response.text, kept, stored.ok().as_deref())),
            system_message: warning,
            ..Output::default()
        }
    }

    /// Writes the text on a blocking thread.
    async fn store(&self, input: &Input, tool: &str, text: &str) -> io::Result<PathBuf> {
        let (result_files, session) = (Arc::clone(&self.result_files), input.session_id.clone());
        let (tool, text) = (tool.to_owned(), text.to_owned());
        tokio::task::spawn_blocking(move || result_files.store(&session, &tool, &text)).await?
    }

    async fn clear(&self, session: &str) -> Result<(), Fault> {
        let Some(directory) = self.result_files.sessions.lock().remove(session) else {
            return Ok(());
        };
        let parent = directory.path().display().to_string();
        let removed = tokio::task::spawn_blocking(move || directory.close()).await;
        removed.map_err(io::Error::from).flatten().map_err(|error| {
            Fault::new(format!(
                "the long results of the session, in {parent}, could not be removed: {error}; remove them by hand"
            ))
        })
    }
}

/// The builtin tool `read_file` is exempt: it returns bounded pages and names the next one.
fn limits_itself(call: &ToolUse) -> bool {
    call.category == "builtin" && call.name == "read_file"
}

/// True if the tool reads a file: the model can then read on, so it needs the beginning.
fn reads_a_file(call: &ToolUse) -> bool {
    let name = call.mcp.as_ref().map_or(&call.name, |(_, name)| name);
    matches!(name.as_str(), "read_file" | "read_text_file" | "read")
}

/// The full texts of long results: one directory per session, accessible to its owner only. The
/// remaining directories are removed when the shelf is dropped.
struct ResultFiles {
    parent: PathBuf,
    sessions: Mutex<HashMap<String, TempDir>>,
}

impl ResultFiles {
    /// Writes the text to a new file, readable by its owner only.
    fn store(&self, session: &str, tool: &str, text: &str) -> io::Result<PathBuf> {
        let mut file = tempfile::Builder::new()
            .prefix(&format!("{}-", sanitize_file_name(tool)))
            .suffix(".txt")
            .tempfile_in(self.directory(session)?)?;
        file.write_all(text.as_bytes())?;
        // The model may read the file in any later turn. It is removed with the directory of the session.
        let (_, path) = file.keep().map_err(|failed| failed.error)?;
        Ok(path)
    }

    fn directory(&self, session: &str) -> io::Result<PathBuf> {
        let mut sessions = self.sessions.lock();
        if let Some(directory) = sessions.get(session)
            && directory.path().is_dir()
        {
            return Ok(directory.path().to_owned());
        }
        let made = directory_in(&self.parent)?;
        let path = made.path().to_owned();
        sessions.insert(session.to_owned(), made);
        Ok(path)
    }
}

fn directory_in(parent: &Path) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix("cachalot-results-");
    #[cfg(unix)]
    builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
    builder.tempdir_in(parent)
}

/// Converts a tool name to a part of a file name.
fn sanitize_file_name(tool: &str) -> String {
    const LONGEST: usize = 40;
    let replace = |c: char| {
        if c.is_ascii_alphanumeric() || c == '_' {
            c
        } else {
            '-'
        }
    };
    tool.chars().take(LONGEST).map(replace).collect()
}

#[async_trait]
impl SimpleBuiltin for LimitLargeToolResults {
    const NAME: &'static str = "limit_large_tool_results";
    const ABOUT: &'static str = "Cuts results of tools that have more than 2,000 lines or 50 KiB: the model gets the first five lines and the end (of files that it reads, the beginning) and the path of a temporary file with what the tool gave, which is removed when the session ends. If the tool left out a part itself, the notice says so. All agents have it. Results of our own `read_file`, which come page by page, are left alone.";
    const EVENTS: &'static [Event] = &[Event::ToolResponseTransform, Event::SessionEnd];

    fn is_enabled_by_default(&self, _: &dyn AgentView) -> bool {
        true
    }

    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        match input.event {
            Event::ToolResponseTransform => Ok(self.limited(input).await),
            Event::SessionEnd => self
                .clear(&input.session_id)
                .await
                .map(|()| Output::default()),
            _ => Ok(Output::default()),
        }
    }
}
