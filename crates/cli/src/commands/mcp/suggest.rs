//! `cachalot mcp suggest`: watches a session and proposes a policy.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_mcp::relay::{Connection, StdioFront};
use cachalot_mcp::suggest::ObservedUpstream;

use super::proxy;
use crate::arguments::McpSuggest;
use crate::command_error::{CommandError, Result};
use crate::interrupts::Interrupts;
use crate::output_file::OutputFile;
use crate::render;
use crate::wiring::{ProcessEnvironment, Warn};

/// Passes messages on until the client ends the session, and prints the proposed policy.
pub(super) async fn suggest(
    arguments: &McpSuggest,
    environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<()> {
    let reporter = proxy::reporter(&warn);
    let connector = proxy::connector(&arguments.server, environment, &reporter, None, true)?;
    // Before the session: a file that cannot be written would lose it.
    let home = environment.home(None, None)?;
    // A client starts the command for each of its sessions: the proposal of one must not replace a policy.
    let output = arguments.output.as_deref().map(free_name);
    let mut file = match &output {
        Some(output) => Some(OutputFile::new(output, &home)?),
        None => None,
    };
    let mut interrupts = Interrupts::listen()?;
    let Connection { upstream, closer } = connector
        .connect(Some(StdioFront::session()))
        .await
        .map_err(CommandError::failed)?;
    let observed = Arc::new(ObservedUpstream::new(upstream));
    let front = StdioFront {
        connection: Connection {
            upstream: observed.clone(),
            closer,
        },
        observe: None,
    };
    let stop = async {
        interrupts.next().await;
    };
    front.run(std::io::stdin(), std::io::stdout(), stop).await;
    if observed.is_empty() {
        render::err("no tool was called: there is nothing to propose");
        return Ok(());
    }
    let policy = observed.policy(&proxy::name(&arguments.server));
    match &mut file {
        Some(file) => file.write_all(policy.as_bytes())?,
        None => render::err(policy.trim_end()),
    }
    if let (Some(file), Some(output)) = (file, &output) {
        file.persist()?;
        render::err(&format!("wrote {}", output.display()));
    }
    Ok(())
}

/// Returns the path, with a number behind it if there is such a file.
fn free_name(path: &Path) -> PathBuf {
    let is_taken = |path: &Path| path.is_file() && path.metadata().is_ok_and(|it| it.len() > 0);
    let numbered = |number: u32| {
        let mut name = path.as_os_str().to_owned();
        name.push(format!(".{number}"));
        PathBuf::from(name)
    };
    if !is_taken(path) {
        return path.to_owned();
    }
    (1..1_000)
        .map(numbered)
        .find(|path| !is_taken(path))
        .unwrap_or_else(|| path.to_owned())
}
