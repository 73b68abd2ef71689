//! Dependencies of handlers.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::Clock;
use cachalot_model::Models;
use cachalot_storage::HttpClient;
use cachalot_tools::WorkspaceSandbox;

use crate::builtin::Builtins;

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
    pub sandbox: Option<WorkspaceSandbox>,
}
