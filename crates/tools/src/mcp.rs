//! The client of MCP servers: their tools, resources and prompts as tools.
//!
//! Nothing that a server says of itself is believed: its tools change things and have unknown effects
//! unless the configuration says otherwise, and one that calls itself destructive has them whatever
//! the configuration says. The client library keeps no answers of its own; its types stay in here.

mod call;
mod catalogue;
mod connection;
mod content;
mod fault;
mod http;
mod incoming;
mod lines;
mod names;
mod offers;
mod progress;
mod server;
mod settings;
mod stdio;
mod template;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use cachalot_core::Seals;

pub use fault::McpError;
pub use incoming::messages;
pub use names::Names;
pub use offers::Listing;
pub use server::McpServer;
pub use settings::{McpSettings, Offer, Transport, Trust};

/// Who is told what happens around tools and is nobody's answer.
pub trait Reporter: Send + Sync {
    /// Something that the user should know, though the work goes on. One sentence, no secret.
    fn warning(&self, message: &str);

    /// A line that an MCP server wrote to its standard error, or logged; known secrets are masked.
    fn server_said(&self, server: &str, line: &str) {
        let _ = (server, line);
    }

    /// A call of an MCP server's tool goes on: how far it is, in a few words; known secrets are masked.
    /// At most ten times a second for each call.
    fn progress(&self, tool: &str, text: &str) {
        let _ = (tool, text);
    }

    /// An MCP server has other tools, resources or prompts than before. Whoever wants them asks for
    /// them, when it suits.
    fn list_changed(&self, server: &str) {
        let _ = server;
    }
}

/// Nobody is told.
impl Reporter for () {
    fn warning(&self, _message: &str) {}
}

/// What servers are given: everything that would otherwise be global.
#[derive(Clone)]
pub struct McpSurroundings {
    /// Where servers run that do not say where.
    pub directory: PathBuf,
    /// The environment variables. A server gets `PATH`, `HOME`, `USER`, `LOGNAME`, `SHELL`, `TERM`,
    /// `LANG`, `LC_*`, `TMPDIR` and its own; HTTP goes through the proxies that they name.
    pub environment: Arc<BTreeMap<String, String>>,
    /// The secrets. Those of a server (headers, variables that look like credentials) are learnt.
    pub seals: Arc<Seals>,
    /// Who is told.
    pub reporter: Arc<dyn Reporter>,
}
