//! The client of MCP servers: offers their tools, resources and prompts as tools.
//!
//! A server's statements about itself are not trusted: its tools have side effects and unknown effects unless
//! the configuration overrides that. A tool that the server declares to change things keeps them even then.
//! The client library caches no answers; its types are not used outside this crate.
//!
//! The proxy in front of a server is [`relay`], which passes messages on as bytes; [`caching`] answers some of them from
//! the engine, as [`proxy_policy`] decides.

mod announcement;
mod announcements;
pub mod caching;
mod call;
mod catalog;
mod challenge;
mod connection;
mod content;
mod elicitation;
mod era;
mod error;
mod exact_numbers;
mod http;
mod instructions;
mod json_members;
mod line_reader;
mod listing;
mod message_handler;
mod message_parser;
pub mod oauth;
mod probe;
mod progress;
pub mod proxy_policy;
mod raw_message;
pub mod relay;
mod respondents;
mod sampling;
mod server;
mod server_client;
mod server_domains;
mod server_settings;
pub mod settings;
mod start;
mod stdio;
pub mod suggest;
mod tasks;
mod tool_names;
mod uri_template;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::SecretSet;
use cachalot_operation::WriteNotifier;
use cachalot_tools::WorkspaceSandbox;

pub use era::EraMemory;
pub use error::McpError;
pub use listing::ServerListing;
pub use message_parser::parse_messages;
pub use server::McpServer;
pub use server_client::ServerState;
pub use server_settings::{McpLimits, McpSettings, McpTransport, OfferSettings, ToolTrust};
pub use tool_names::ToolNames;

/// Receives events around tools that are not part of an answer.
pub trait Reporter: Send + Sync {
    /// A warning to the user in one sentence without secrets; the work continues.
    fn warning(&self, message: &str);

    /// An MCP server is being started or reached, and its tools are listed.
    fn server_starting(&self, server: &str) {
        let _ = server;
    }

    /// The start of an MCP server has ended, also by a failure.
    fn server_started(&self, server: &str) {
        let _ = server;
    }

    /// A line that an MCP server wrote to its standard error, or logged; known secrets are masked.
    fn server_output(&self, server: &str, line: &str) {
        let _ = (server, line);
    }

    /// Progress of a call of an MCP server's tool, in a few words; known secrets are masked. At most ten
    /// times a second per call.
    fn progress(&self, tool: &str, text: &str) {
        let _ = (tool, text);
    }

    /// The tools, resources or prompts of an MCP server have changed. The receiver may list them again at any
    /// time.
    fn list_changed(&self, server: &str) {
        let _ = server;
    }
}

/// Ignores all events.
impl Reporter for () {
    fn warning(&self, _message: &str) {}
}

/// Dependencies of MCP connections, which would otherwise be global.
#[derive(Clone)]
pub struct McpDependencies {
    /// Working directory of servers whose configuration has none.
    pub directory: PathBuf,
    /// The environment variables. A server gets `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `TERM`, `LANG`,
    /// `LC_*`, `TMPDIR` and those of its configuration. HTTP uses the proxies that they specify.
    pub environment: Arc<BTreeMap<String, String>>,
    /// The secrets. Those of a server (headers, variables that look like credentials) are added.
    pub secret_set: Arc<SecretSet>,
    /// The receiver of events.
    pub reporter: Arc<dyn Reporter>,
    /// Notified of the changes that a server announces.
    pub write_notifier: WriteNotifier,
    /// The sandbox of servers that are programs; `None`: they have all rights of the user.
    pub sandbox: Option<WorkspaceSandbox>,
    /// True if there is a user to ask during calls ([`cachalot_operation::ToolContext::user`]): servers may then ask
    /// questions (elicitation), and for answers of the agent's model (sampling, which the user approves). Otherwise
    /// these capabilities are not declared.
    pub asks_user: bool,
}
