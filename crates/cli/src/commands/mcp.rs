//! `cachalot mcp`: the proxy in front of MCP servers, and what belongs to it.

mod caching;
mod call_lines;
mod install;
mod login;
mod proxy;
mod server_name;
mod server_process;
mod suggest;

use std::process::ExitCode;

pub(crate) use self::server_process::run_server;

use crate::arguments::{Mcp, McpCommand};
use crate::command_error::Result;
use crate::wiring::{ProcessEnvironment, Warn};

/// Runs the command.
///
/// # Errors
/// Those of the command.
pub(crate) async fn mcp(
    arguments: &Mcp,
    environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<ExitCode> {
    match &arguments.command {
        None => return proxy::proxy(&arguments.proxy, environment, warn).await,
        Some(McpCommand::Suggest(suggest)) => suggest::suggest(suggest, environment, warn).await?,
        Some(McpCommand::Install(install)) => install::install(install, environment)?,
        Some(McpCommand::Login(login)) => login::login(login, environment, warn).await?,
        Some(McpCommand::Logout(logout)) => login::logout(logout, environment).await?,
        Some(McpCommand::Ls { json }) => login::list(*json, environment)?,
    }
    Ok(ExitCode::SUCCESS)
}
