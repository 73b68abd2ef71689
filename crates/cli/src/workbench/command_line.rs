//! Command lines of the user.

use std::sync::Arc;
use std::time::Duration;

use cachalot_tools::builtin::{Shell, ShellSettings};
use cachalot_tools::{
    BatchContext, CallObserver, Registry, ToolCall, ToolCallResult, ToolContext, Toolbox as _,
};
use serde_json::json;

use super::Workbench;
use crate::command_error::{CommandError, Result};

/// The maximum duration of a command line.
const TIMEOUT: Duration = Duration::from_secs(3_600);

impl Workbench {
    /// Runs a command line of the user in the workspace as the tool `shell` does, but outside of the sandbox and without
    /// permission rules, which are for agents. The caches are notified before and after it. Dropping the future kills the
    /// command.
    ///
    /// # Errors
    /// The tool cannot be created.
    pub(crate) async fn run_line(
        &self,
        line: &str,
        observer: Arc<dyn CallObserver>,
    ) -> Result<Option<ToolCallResult>> {
        let failed = |error: &dyn std::fmt::Display| CommandError::failed(error.to_string());
        let settings = ShellSettings {
            timeout: TIMEOUT,
            ..ShellSettings::default()
        };
        let shell = Shell::new(settings).map_err(|error| failed(&error))?;
        let registry = Registry::new(vec![Arc::new(shell)]).map_err(|error| failed(&error))?;
        let call = registry.prepare(ToolCall {
            id: "command of the user".to_owned(),
            name: "shell".to_owned(),
            arguments: json!({ "command": line }).to_string(),
        });
        let batch = BatchContext {
            context: ToolContext {
                sandbox: None,
                ..self.0.context.clone()
            },
            verbatim: Arc::default(),
            observer,
        };
        let running = registry.run(vec![call], &batch);
        Ok(self.changing_files(running).await.pop())
    }
}
