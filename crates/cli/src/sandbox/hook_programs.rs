//! Commands of hooks in the sandbox of a workspace.

use std::path::{Path, PathBuf};

use async_trait::async_trait;
use cachalot_hooks::{Fault, HookSandbox};
use cachalot_tools::WorkspaceSandbox;
use tokio::process::Command;

/// The sandbox of the commands of hooks.
pub(crate) struct HookPrograms(pub(crate) WorkspaceSandbox);

#[async_trait]
impl HookSandbox for HookPrograms {
    async fn command(
        &self,
        program: &'static str,
        read: Option<PathBuf>,
        written: Option<PathBuf>,
    ) -> Result<Command, Fault> {
        let prepared = self.0.with_files(read, written).prepare(program).await;
        prepared.map_err(|error| Fault::new(format!("it cannot run in the sandbox: {error}")))
    }

    fn temporary(&self) -> &Path {
        self.0.temporary()
    }
}
