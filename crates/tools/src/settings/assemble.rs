//! Tools from settings.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;

use super::toolsets::{Toolset, ToolsetKind, ToolsetSettings};
use crate::builtin::{MemoryTool, Shell, WebFetch, files, skills};
use crate::filter::Filter;
use crate::mcp::{Listing, McpError, McpServer, McpSettings, McpSurroundings, Names};
use crate::tool::{About, Tool};

/// What surrounds tools: everything that would otherwise be global.
#[derive(Clone)]
pub struct Surroundings {
    /// What MCP servers are given.
    pub mcp: McpSurroundings,
    /// The user's data folder, where their own skills are in `skills`; `None`: only the workspace's
    /// skills are found.
    pub data: Option<PathBuf>,
    /// The servers that run: shared by all agents of a process, so that none is started twice.
    pub servers: Servers,
}

/// MCP servers that run, and the names of their tools. Cheap to clone; clones share everything. Keeps
/// its servers alive.
#[derive(Clone, Default)]
pub struct Servers(Arc<Running>);

#[derive(Default)]
struct Running {
    servers: Mutex<Vec<McpServer>>,
    names: Mutex<Names>,
}

impl Servers {
    /// None yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The server of these settings: the one that is there, or a new one.
    fn server(&self, settings: &McpSettings, surroundings: &McpSurroundings) -> McpServer {
        let mut servers = self
            .0
            .servers
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = servers.iter().find(|server| server.settings() == settings) {
            return there.clone();
        }
        let server = McpServer::new(settings.clone(), surroundings.clone());
        servers.push(server.clone());
        server
    }

    /// Ends all of them, and waits until their programs are gone.
    pub async fn close(&self) {
        let servers: Vec<McpServer> = {
            let mut servers = self
                .0
                .servers
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *servers)
        };
        join_all(servers.iter().map(McpServer::close)).await;
    }

    fn name(
        &self,
        listing: Listing,
        takes: impl Fn(&[&str], &About) -> bool,
    ) -> Vec<Arc<dyn Tool>> {
        let mut names = self.0.names.lock().unwrap_or_else(PoisonError::into_inner);
        listing.tools(&mut names, takes)
    }
}

/// The tools of an agent.
pub struct Assembled {
    /// The tools; none twice.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The MCP servers, by name, whether or not they run. [`McpServer::changes`] tells when one has
    /// other tools than before, and [`Assembled::tools_of`] what they are then.
    pub servers: Vec<McpServer>,
    /// What the agent is told about its toolsets, in the order written.
    pub instructions: Vec<String>,
    taken: Vec<Taken>,
    pool: Servers,
}

/// What one toolset takes of a server.
struct Taken {
    server: String,
    filters: Vec<Filter>,
    read_only: bool,
}

impl Taken {
    fn takes(&self, known_as: &[&str], about: &About) -> bool {
        (!self.read_only || about.read_only)
            && self.filters.iter().all(|filter| filter.takes(known_as))
    }
}

/// Why there are no tools.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A server that is required is not there. Trying again may help.
    #[error("{0}; it is `required`")]
    Server(#[from] McpError),
    /// Settings that cannot be.
    #[error("the toolset `{toolset}` cannot be: {reason}")]
    Settings {
        /// Which toolset.
        toolset: &'static str,
        /// What is wrong with it, and what to do.
        reason: String,
    },
}

/// Makes the tools of an agent, and starts the MCP servers that are needed and do not run yet. A
/// server that does not start is a warning, and its tools are absent, unless it is required.
///
/// # Errors
/// A required server that does not start; patterns or hosts that are none.
pub async fn assemble(
    settings: &ToolsetSettings,
    surroundings: &Surroundings,
) -> Result<Assembled, AssembleError> {
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    let (mut servers, mut taken): (Vec<McpServer>, Vec<Taken>) = (Vec::new(), Vec::new());
    for toolset in &settings.toolsets {
        match &toolset.kind {
            ToolsetKind::Mcp(definition) => {
                let server = surroundings
                    .servers
                    .server(&definition.settings, &surroundings.mcp);
                taken.push(Taken {
                    server: server.name().to_owned(),
                    filters: vec![definition.filter.clone(), toolset.filter.clone()],
                    read_only: toolset.read_only,
                });
                if !servers.iter().any(|known| known.name() == server.name()) {
                    servers.push(server);
                }
            }
            _ => {
                for tool in built_in(toolset, surroundings.data.as_deref())? {
                    let name = &tool.about().name;
                    if !tools.iter().any(|known| known.about().name == *name) {
                        tools.push(tool);
                    }
                }
            }
        }
    }
    servers.sort_by(|a, b| a.name().cmp(b.name()));
    let assembled = Assembled {
        tools,
        servers,
        instructions: settings
            .toolsets
            .iter()
            .filter_map(|toolset| toolset.instruction.clone())
            .collect(),
        taken,
        pool: surroundings.servers.clone(),
    };
    assembled.with_servers(surroundings).await
}

/// The names of the tools that these toolsets have; `None` if only their MCP servers know, or if there
/// can be none.
#[must_use]
pub fn names(settings: &ToolsetSettings) -> Option<Vec<String>> {
    let mut names = Vec::new();
    for toolset in &settings.toolsets {
        if let ToolsetKind::Mcp(_) = toolset.kind {
            return None;
        }
        let tools = built_in(toolset, None).ok()?;
        names.extend(tools.iter().map(|tool| tool.about().name.clone()));
    }
    names.sort_unstable();
    names.dedup();
    Some(names)
}

/// The built-in tools of a toolset, as far as they are taken.
fn built_in(toolset: &Toolset, data: Option<&Path>) -> Result<Vec<Arc<dyn Tool>>, AssembleError> {
    let fault = |toolset, reason| AssembleError::Settings { toolset, reason };
    let mut tools: Vec<Arc<dyn Tool>> = match &toolset.kind {
        ToolsetKind::Filesystem => files(),
        ToolsetKind::Shell(settings) => {
            let shell =
                Shell::new(settings.clone()).map_err(|error| fault("shell", error.to_string()))?;
            vec![Arc::new(shell)]
        }
        ToolsetKind::Fetch(settings) => {
            let fetch = WebFetch::new(settings.clone())
                .map_err(|error| fault("fetch", error.to_string()))?;
            vec![Arc::new(fetch)]
        }
        ToolsetKind::Memory => vec![Arc::new(MemoryTool::new())],
        ToolsetKind::Skills => skills(data),
        ToolsetKind::Mcp(_) => Vec::new(),
    };
    tools.retain(|tool| {
        let about = tool.about();
        (!toolset.read_only || about.read_only) && toolset.filter.takes(&[&about.name])
    });
    Ok(tools)
}

impl Assembled {
    /// Adds the tools of the servers: asked side by side, named in the order of the servers' names.
    async fn with_servers(mut self, surroundings: &Surroundings) -> Result<Self, AssembleError> {
        let listed = join_all(self.servers.iter().map(McpServer::list)).await;
        let reporter = &surroundings.mcp.reporter;
        let mut tools = Vec::new();
        for (server, listed) in self.servers.iter().zip(listed) {
            match listed {
                Ok(listing) => {
                    let taken = self.named(server.name(), listing);
                    if taken.is_empty() {
                        reporter.warning(&self.nothing_taken(server.name()));
                    }
                    tools.extend(taken);
                }
                Err(error) if server.settings().required => return Err(error.into()),
                Err(error) => {
                    reporter.warning(&format!("{error}; the agent has to do without its tools"))
                }
            }
        }
        self.tools.extend(tools);
        Ok(self)
    }

    /// What a server's tools are now, as far as they are taken: for
    /// [`Registry::with_tools_of`](crate::Registry::with_tools_of).
    ///
    /// # Errors
    /// It does not run, or does not tell.
    pub async fn tools_of(&self, server: &McpServer) -> Result<Vec<Arc<dyn Tool>>, McpError> {
        let listing = server.list().await?;
        Ok(self.named(server.name(), listing))
    }

    fn named(&self, server: &str, listing: Listing) -> Vec<Arc<dyn Tool>> {
        self.pool.name(listing, |known_as, about| {
            self.taken
                .iter()
                .any(|taken| taken.server == server && taken.takes(known_as, about))
        })
    }

    fn nothing_taken(&self, server: &str) -> String {
        let mut own = self.taken.iter().filter(|taken| taken.server == server);
        let remedy = match own.any(|taken| taken.read_only) {
            true => {
                "its toolset is `readonly`, and tools of servers are so only if `trust: {read_only: […]}` says so"
            }
            false => "it offers nothing, or nothing that `tools` takes",
        };
        format!("no tool of the MCP server `{server}` is used: {remedy}")
    }
}
