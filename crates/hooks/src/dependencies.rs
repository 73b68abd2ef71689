//! Dependencies of handlers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_core::Clock;
use cachalot_model::Models;
use cachalot_storage::HttpClient;
use serde_json::{Map, Value};
use tokio::process::Command;

use crate::builtin::Builtins;
use crate::output::Fault;

/// Dependencies of handlers.
#[derive(Clone)]
pub struct HookDependencies {
    /// The builtins.
    pub builtins: Arc<Builtins>,
    /// The models that hooks may call.
    pub models: Models,
    /// The HTTP client for requests to URLs in hook files.
    pub http: HttpClient,
    /// The environment variables.
    pub environment: Arc<BTreeMap<String, String>>,
    /// The clock.
    pub clock: Arc<dyn Clock>,
    /// The working directory of tools (`cwd`) and commands.
    pub directory: PathBuf,
    /// The sandbox of commands; `None`: they have all rights of the user.
    pub sandbox: Option<Arc<dyn HookSandbox>>,
    /// The tools of MCP servers; `None`: there are none.
    pub tools: Option<Arc<dyn HookTools>>,
}

/// Calls tools of MCP servers for hooks.
#[async_trait]
pub trait HookTools: Send + Sync {
    /// Calls a tool of a server, by the names that the server has in the configuration and the tool has at the server.
    /// Returns the text of the result.
    ///
    /// # Errors
    /// There is no such server or tool, or the call failed.
    async fn call(
        &self,
        server: &str,
        tool: &str,
        arguments: Map<String, Value>,
    ) -> Result<String, Fault>;
}

/// The sandbox of the commands of hooks.
#[async_trait]
pub trait HookSandbox: Send + Sync {
    /// Returns the command that runs a program in the sandbox. It can also read and write these files, which are
    /// elsewhere.
    ///
    /// # Errors
    /// The reason why the sandbox cannot be made.
    async fn command(
        &self,
        program: &'static str,
        read: Option<PathBuf>,
        written: Option<PathBuf>,
    ) -> Result<Command, Fault>;

    /// Returns the directory for temporary files, which programs find by `TMPDIR`.
    fn temporary(&self) -> &Path;
}
