//! Arguments of `cachalot mcp`.

use std::convert::Infallible;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::PathBuf;

use cachalot_core::Secret;
use clap::{Args, Subcommand, ValueEnum};

use super::{StoreArguments, StoreRequirement, address};

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Mcp {
    #[command(subcommand)]
    pub(crate) command: Option<McpCommand>,
    #[command(flatten)]
    pub(crate) proxy: McpProxy,
}

/// The server behind the proxy.
#[derive(Debug, Args)]
pub(crate) struct McpServerArguments {
    /// The URL of a server that speaks streamable HTTP, in place of a command.
    #[arg(long, value_name = "URL", conflicts_with = "server_command")]
    pub(crate) url: Option<String>,
    /// A header of every request to --url (repeatable). `${VARIABLE}` in its value is replaced by the environment variable,
    /// so that a secret is not in the list of processes.
    // Clap does not require what conflicts with a given argument.
    #[arg(
        long,
        value_name = "NAME: VALUE",
        value_parser = secret,
        requires = "url",
        conflicts_with = "server_command"
    )]
    pub(crate) header: Vec<Secret<String>>,
    /// The command of a server that speaks stdio, and its arguments.
    #[arg(last = true, value_name = "COMMAND", id = "server_command")]
    pub(crate) command: Vec<OsString>,
}

fn secret(text: &str) -> Result<Secret<String>, Infallible> {
    Ok(Secret::new(text.to_owned()))
}

#[derive(Debug, Args)]
pub(crate) struct McpProxy {
    /// What is cached: a policy file. Without one, everything is passed on.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Address at which clients reach the proxy by streamable HTTP, at /mcp; port 0 selects a free one. Without it, the
    /// client is at stdin and stdout.
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    pub(crate) listen: Option<SocketAddr>,
    /// Further host name by which clients address the proxy. May be repeated.
    #[arg(long, value_name = "NAME", requires = "listen")]
    pub(crate) allow_host: Vec<String>,
    /// Several servers behind one proxy: a file with `mcpServers`, as clients have it. Names of tools and prompts get
    /// the name of their server as a prefix.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["url", "header", "server_command"])]
    pub(crate) servers: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: McpServerArguments,
    #[command(flatten)]
    pub(crate) place: StoreArguments,
    #[command(flatten)]
    pub(crate) store: StoreRequirement,
    /// Print no line for each call to standard error.
    #[arg(long, short)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum McpCommand {
    /// Watch a session between a client and a server, and propose a policy at its end, with reasons.
    Suggest(McpSuggest),
    /// Write the configuration of a client, so that it starts a server through the proxy.
    Install(McpInstall),
    /// Log in to a server with OAuth.
    Login(McpLogin),
    /// Remove the login at a server, with its tokens.
    Logout(McpLogout),
    /// List the logins at servers.
    Ls {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct McpSuggest {
    /// File to write the policy to, in place of standard error.
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) server: McpServerArguments,
}

/// A client whose configuration can be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum McpClient {
    ClaudeCode,
    Codex,
    Cursor,
    Vscode,
}

#[derive(Debug, Args)]
pub(crate) struct McpInstall {
    /// The client.
    #[arg(long, value_enum)]
    pub(crate) client: McpClient,
    /// Write the configuration of this folder's project in place of that of the user.
    #[arg(long)]
    pub(crate) project: bool,
    /// The policy file of the server.
    #[arg(long, value_name = "FILE")]
    pub(crate) policy: Option<PathBuf>,
    /// Show the change and write nothing.
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// The name of the server in the client.
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) server: McpServerArguments,
}

#[derive(Debug, Args)]
pub(crate) struct McpLogin {
    /// The URL of the server.
    pub(crate) url: String,
    /// The id of a client that is registered with the authorization server, or the https URL of a client ID metadata
    /// document. Without it, the client is registered dynamically.
    #[arg(long, value_name = "ID|URL")]
    pub(crate) client_id: Option<String>,
    /// The environment variable with the secret of the registered client.
    #[arg(long, value_name = "VARIABLE", requires = "client_id")]
    pub(crate) client_secret_env: Option<String>,
    /// Scopes to ask for, separated by spaces, in place of those that the server names.
    #[arg(long, value_name = "SCOPES")]
    pub(crate) scope: Option<String>,
    /// The port on this machine that the browser is sent back to, if the client is registered for one. Default: any
    /// free port.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// A private host, address or network that the server may name for the login (repeatable), such as the
    /// authorization server of a company.
    #[arg(long, value_name = "HOST")]
    pub(crate) allow: Vec<String>,
    /// Open no browser: open the printed URL on any machine, and paste the address that the browser is sent to in the
    /// end.
    #[arg(long)]
    pub(crate) no_browser: bool,
}

#[derive(Debug, Args)]
pub(crate) struct McpLogout {
    /// The URL of the server.
    pub(crate) url: String,
}

/// A server of MCP, started by the proxy.
#[derive(Debug, Args)]
pub(crate) struct McpServerProcess {
    /// The process ID of the proxy.
    pub(crate) parent: u32,
    /// The command of the server, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) command: Vec<OsString>,
}
