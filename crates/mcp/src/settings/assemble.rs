//! Creates tools from settings.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::join_all;
use parking_lot::Mutex;

use cachalot_core::SecretSet;
use cachalot_core::suggest::did_you_mean;

use super::docker_server;
use super::toolsets::{Toolset, ToolsetKind, ToolsetSettings};
use crate::server_settings::{environment_credentials, header_credentials};
use crate::{
    EraMemory, McpDependencies, McpError, McpServer, McpSettings, ServerListing, ToolNames,
};
use cachalot_operation::permissions::ToolSignature;
use cachalot_tools::builtin::signature;
use cachalot_tools::builtin::{
    ApiTool, MemoryTool, OpenUrl, ScriptTool, SessionState, Shell, WebFetch, background_jobs,
    files, selected_skills, think, todo, user_prompt,
};
use cachalot_tools::cached::WriteNotifier;
use cachalot_tools::filter::NameFilter;
use cachalot_tools::{OperationMetadata, Tool, WorkspaceSandbox, sanitize_name};

/// Dependencies of tools, which would otherwise be global.
#[derive(Clone)]
pub struct ToolDependencies {
    /// Dependencies of MCP servers.
    pub mcp: McpDependencies,
    /// Dependencies of built-in tools.
    pub built_in: BuiltInDependencies,
    /// The running servers, shared by all agents of a process, so that none is started twice.
    pub servers: McpServerPool,
}

/// Dependencies of built-in tools. The default is for tools that only describe themselves.
#[derive(Clone, Default)]
pub struct BuiltInDependencies {
    /// The user's data folder, with the user's own skills in `skills`; `None`: only the workspace's skills
    /// are found.
    pub data: Option<PathBuf>,
    /// The state of the session.
    pub session: Arc<SessionState>,
    /// The state that the agents of the team share.
    pub team: Arc<SessionState>,
    /// Notified of the writes of background jobs.
    pub write_notifier: WriteNotifier,
}

/// The running MCP servers, and the names of their tools. Cheap to clone; clones share everything. Keeps the
/// servers alive.
#[derive(Clone, Default)]
pub struct McpServerPool(Arc<PoolState>);

#[derive(Default)]
struct PoolState {
    eras: EraMemory,
    servers: Mutex<Vec<McpServer>>,
    names: Mutex<ToolNames>,
    listings: Mutex<Vec<Listed>>,
}

/// The tools, resources and prompts that a server listed.
struct Listed {
    server: McpServer,
    /// The lists, in a form for comparisons.
    fingerprint: BTreeSet<String>,
    tools: Arc<[ListedTool]>,
}

/// A tool, resource or prompt of a server.
struct ListedTool {
    /// The server's name for it, the same with the prefix of its kind, and the assigned name.
    known_as: Vec<String>,
    tool: Arc<dyn Tool>,
}

impl ListedTool {
    fn names(&self) -> Vec<&str> {
        self.known_as.iter().map(String::as_str).collect()
    }
}

impl McpServerPool {
    /// Creates an empty set of servers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates an empty set of servers whose eras are remembered in `eras`.
    #[must_use]
    pub fn with_eras(eras: EraMemory) -> Self {
        Self(Arc::new(PoolState {
            eras,
            ..PoolState::default()
        }))
    }

    /// Returns the server with these settings and this sandbox, or creates it without connecting.
    #[must_use]
    pub fn server(&self, settings: &McpSettings, dependencies: &McpDependencies) -> McpServer {
        let mut servers = self.0.servers.lock();
        let key = |sandbox: &Option<WorkspaceSandbox>| sandbox.as_ref().map(WorkspaceSandbox::key);
        let sandbox = key(&dependencies.sandbox);
        let mut same = servers
            .iter()
            .filter(|server| server.settings() == settings);
        if let Some(there) = same.find(|server| key(server.sandbox()) == sandbox) {
            return there.clone();
        }
        let eras = self.0.eras.clone();
        let server = McpServer::new(settings.clone(), dependencies.clone(), eras);
        servers.push(server.clone());
        server
    }

    /// Returns the servers, by name.
    #[must_use]
    pub fn servers(&self) -> Vec<McpServer> {
        let mut servers = self.0.servers.lock().clone();
        servers.sort_by(|a, b| a.name().cmp(b.name()));
        servers
    }

    /// Ends all servers, and waits until their programs are gone.
    pub async fn close(&self) {
        let servers: Vec<McpServer> = {
            let mut servers = self.0.servers.lock();
            self.0.listings.lock().clear();
            std::mem::take(&mut *servers)
        };
        join_all(servers.iter().map(McpServer::close)).await;
    }

    /// Returns the tool, resource or prompt of a server by the server's own name for it (resources and
    /// prompts with the prefix `resource_` or `prompt_`), if the filter selects it. Connects if needed, and
    /// requests the server's lists once per change of them.
    ///
    /// # Errors
    /// If the server cannot be started or reached, or nothing of that name is selected.
    pub async fn tool(
        &self,
        server: &McpServer,
        name: &str,
        filter: &NameFilter,
    ) -> Result<Arc<dyn Tool>, McpError> {
        let tools = self.listed(server).await?;
        let selected = || tools.iter().filter(|tool| filter.selects(&tool.names()));
        if let Some(found) = selected().find(|tool| tool.names().contains(&name)) {
            return Ok(Arc::clone(&found.tool));
        }
        let is_excluded = tools.iter().any(|tool| tool.names().contains(&name));
        let known: Vec<&str> = selected().map(|tool| &*tool.known_as[1]).collect();
        let help = match (is_excluded, known.is_empty()) {
            (true, _) => "`tools` of the server does not select it".to_owned(),
            (false, true) => "it has none".to_owned(),
            (false, false) => did_you_mean(name, &known),
        };
        let message = format!("has no tool `{name}`: {help}");
        Err(McpError::new(server.name(), message))
    }

    /// Returns everything that a server lists; asks it only if it announced a change since it was asked. Unchanged
    /// lists have the same tools as before.
    async fn listed(&self, server: &McpServer) -> Result<Arc<[ListedTool]>, McpError> {
        let is_same = |listed: &Listed| listed.server.settings() == server.settings();
        let known = |holds: &dyn Fn(&Listed) -> bool| {
            let listings = self.0.listings.lock();
            let mut listed = listings.iter().filter(|listed| is_same(listed));
            let found = listed.find(|listed| holds(listed));
            found.map(|listed| Arc::clone(&listed.tools))
        };
        if let Some(tools) = known(&|listed| server.still_lists(&listed.fingerprint)) {
            return Ok(tools);
        }
        let listing = server.list().await?;
        let fingerprint = listing.fingerprint();
        if let Some(tools) = known(&|listed| listed.fingerprint == fingerprint) {
            return Ok(tools);
        }
        let mut names = Vec::new();
        let tools = self.name(listing, |known_as, _| {
            names.push(known_as.iter().map(|&name| name.to_owned()).collect());
            true
        });
        let tools: Arc<[ListedTool]> = names
            .into_iter()
            .zip(tools)
            .map(|(known_as, tool)| ListedTool { known_as, tool })
            .collect();
        let mut listings = self.0.listings.lock();
        listings.retain(|listed| !is_same(listed));
        listings.push(Listed {
            server: server.clone(),
            fingerprint,
            tools: Arc::clone(&tools),
        });
        Ok(tools)
    }

    fn name(
        &self,
        listing: ServerListing,
        selects: impl FnMut(&[&str], &OperationMetadata) -> bool,
    ) -> Vec<Arc<dyn Tool>> {
        let mut names = self.0.names.lock();
        listing.tools(&mut names, selects)
    }
}

/// The tools of an agent.
pub struct AgentTools {
    /// The tools, without duplicates.
    pub tools: Vec<Arc<dyn Tool>>,
    /// The MCP servers, by name, running or not. [`McpServer::changes`] signals when the tools of one have
    /// changed; then the tools have to be created again.
    pub servers: Vec<McpServer>,
    /// Instructions for the agent about its toolsets, in the order of the file.
    pub instructions: Vec<String>,
    /// Texts of the servers about their tools, by the name of the server: only of those whose tools the agent
    /// has.
    pub server_instructions: Vec<String>,
}

/// The selection of a server's tools by one toolset.
struct ServerSelection {
    server: String,
    filters: Vec<NameFilter>,
    read_only: bool,
}

impl ServerSelection {
    fn selects(&self, known_as: &[&str], metadata: &OperationMetadata) -> bool {
        (!self.read_only || metadata.read_only)
            && self.filters.iter().all(|filter| filter.selects(known_as))
    }
}

/// The error of creating the tools of an agent.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// A required server is unavailable. A retry may help.
    #[error("{0}; it is `required`")]
    Server(#[from] McpError),
    /// Settings are invalid.
    #[error("the toolset `{toolset}` cannot be: {reason}")]
    ToolCacheSettings {
        /// The type of the toolset.
        toolset: &'static str,
        /// The problem and the remedy.
        reason: String,
    },
}

/// Creates the tools of an agent, and starts the needed MCP servers that do not run yet. If a server does not
/// start, its tools are absent and a warning is reported, unless it is required.
///
/// # Errors
/// If a required server does not start, or a pattern or host is invalid.
pub async fn assemble(
    settings: &ToolsetSettings,
    dependencies: &ToolDependencies,
) -> Result<AgentTools, AssembleError> {
    learn_credentials(settings, &dependencies.mcp.secret_set);
    let mut tools: Vec<Arc<dyn Tool>> = Vec::new();
    let (mut servers, mut taken): (Vec<McpServer>, Vec<ServerSelection>) = (Vec::new(), Vec::new());
    for toolset in &settings.toolsets {
        match &toolset.kind {
            ToolsetKind::Mcp(definition) => {
                let server = dependencies
                    .servers
                    .server(&definition.settings, &dependencies.mcp);
                taken.push(ServerSelection {
                    server: server.name().to_owned(),
                    filters: vec![definition.filter.clone(), toolset.filter.clone()],
                    read_only: toolset.read_only,
                });
                let unset = definition.unset.iter().chain(&toolset.unset);
                if let Some(variable) = unset.clone().next() {
                    let error = McpError::new(
                        server.name(),
                        format!("is not started: the environment variable `{variable}` is not set"),
                    );
                    if server.settings().limits.required {
                        return Err(error.into());
                    }
                    let reporter = &dependencies.mcp.reporter;
                    reporter.warning(&format!("{error}; the agent has to do without its tools"));
                    continue;
                }
                if !servers.iter().any(|known| known.name() == server.name()) {
                    servers.push(server);
                }
            }
            _ if !toolset.unset.is_empty() => {
                let reporter = &dependencies.mcp.reporter;
                reporter.warning(&format!(
                    "{}: a toolset is left out, because the environment variable `{}` is not set",
                    toolset.place, toolset.unset[0]
                ));
            }
            _ => {
                for tool in built_in(toolset, &dependencies.built_in)? {
                    let name = &tool.metadata().name;
                    if !tools.iter().any(|known| known.metadata().name == *name) {
                        tools.push(tool);
                    }
                }
            }
        }
    }
    servers.sort_by(|a, b| a.name().cmp(b.name()));
    let of_servers = tools_of_servers(&servers, &taken, dependencies).await?;
    tools.extend(of_servers.tools);
    Ok(AgentTools {
        tools,
        servers,
        server_instructions: of_servers.instructions,
        instructions: settings
            .toolsets
            .iter()
            .filter_map(|toolset| toolset.instruction.clone())
            .collect(),
    })
}

/// Returns the names of the tools in these toolsets; `None` if they depend on an MCP server, or the settings
/// are invalid.
#[must_use]
pub fn names(settings: &ToolsetSettings) -> Option<Vec<String>> {
    let mut names = Vec::new();
    let dependencies = BuiltInDependencies::default();
    for toolset in &settings.toolsets {
        if let ToolsetKind::Mcp(_) = toolset.kind {
            return None;
        }
        if let ToolsetKind::Actions(allowed) = &toolset.kind {
            names.extend(allowed.iter().map(|action| action.replace('.', "_")));
        }
        if let ToolsetKind::Rag(settings) = &toolset.kind {
            names.push(settings.name.clone());
        }
        let tools = built_in(toolset, &dependencies).ok()?;
        names.extend(tools.iter().map(|tool| tool.metadata().name.to_string()));
    }
    names.sort_unstable();
    names.dedup();
    Some(names)
}

/// Returns the names of the tools in these toolsets that are not read-only, as far as they are known without
/// MCP servers and actions.
#[must_use]
pub fn writing_tools(settings: &ToolsetSettings) -> Vec<String> {
    let dependencies = BuiltInDependencies::default();
    let toolsets = settings.toolsets.iter();
    let tools = toolsets.filter_map(|toolset| built_in(toolset, &dependencies).ok());
    let writing = tools.flatten().filter(|tool| !tool.metadata().read_only);
    writing
        .map(|tool| tool.metadata().name.to_string())
        .collect()
}

/// Returns the tools of the file in these toolsets (commands, requests, addresses), which permission rules may
/// name.
#[must_use]
pub fn signatures(settings: &ToolsetSettings) -> Vec<ToolSignature> {
    let of_file = settings.toolsets.iter().filter(|toolset| {
        matches!(
            toolset.kind,
            ToolsetKind::Scripts(_) | ToolsetKind::Api(_) | ToolsetKind::OpenUrl(_)
        )
    });
    let dependencies = BuiltInDependencies::default();
    let tools = of_file.filter_map(|toolset| built_in(toolset, &dependencies).ok());
    let searches = settings.toolsets.iter().filter_map(|toolset| {
        let ToolsetKind::Rag(settings) = &toolset.kind else {
            return None;
        };
        let arguments = ["query", "path"].map(str::to_owned).to_vec();
        let name = settings.name.clone();
        Some(ToolSignature { name, arguments })
    });
    let signatures = tools.flatten().map(|tool| {
        let metadata = tool.metadata();
        let mut signature = signature(&metadata.name, &metadata.parameters.schema());
        // Rules may be about the command or the address, which are no arguments of the model.
        let resources = ["command", "url"].map(str::to_owned);
        signature.arguments.extend(resources);
        signature
    });
    signatures.chain(searches).collect()
}

/// Adds the credentials of tools of the file to the secrets that are masked.
fn learn_credentials(settings: &ToolsetSettings, secret_set: &SecretSet) {
    for toolset in &settings.toolsets {
        let credentials = match &toolset.kind {
            ToolsetKind::Scripts(scripts) => scripts
                .iter()
                .flat_map(|script| environment_credentials(&script.environment, secret_set))
                .collect(),
            ToolsetKind::Api(request) => header_credentials(&request.request.headers, secret_set),
            ToolsetKind::Fetch(fetch) => header_credentials(&fetch.headers, secret_set),
            _ => Vec::new(),
        };
        for credential in credentials {
            secret_set.learn(credential);
        }
    }
}

/// Returns the prefixes of the names of the tools of the servers in these toolsets: `mcp_github_`.
pub fn server_prefixes(settings: &ToolsetSettings) -> impl Iterator<Item = String> {
    let servers = settings
        .toolsets
        .iter()
        .filter_map(|toolset| match &toolset.kind {
            ToolsetKind::Mcp(definition) => Some(&definition.settings.name),
            _ => None,
        });
    servers.map(|name| format!("mcp_{}_", sanitize_name(name)))
}

/// Returns the selected built-in tools of a toolset.
fn built_in(
    toolset: &Toolset,
    dependencies: &BuiltInDependencies,
) -> Result<Vec<Arc<dyn Tool>>, AssembleError> {
    let session = &dependencies.session;
    let fault = |toolset, reason| AssembleError::ToolCacheSettings { toolset, reason };
    let mut tools: Vec<Arc<dyn Tool>> = match &toolset.kind {
        ToolsetKind::Filesystem(_) => files(),
        ToolsetKind::Shell(settings) => {
            let shell =
                Shell::new(settings.clone()).map_err(|error| fault("shell", error.to_string()))?;
            vec![Arc::new(shell)]
        }
        ToolsetKind::Fetch(settings) => {
            let fetch = WebFetch::new((**settings).clone())
                .map_err(|error| fault("fetch", error.to_string()))?;
            vec![Arc::new(fetch)]
        }
        ToolsetKind::Memory => vec![Arc::new(MemoryTool::new())],
        ToolsetKind::Skills(selection) => selected_skills(dependencies.data.as_deref(), selection),
        ToolsetKind::Scripts(scripts) => {
            let scripts = scripts.iter().cloned();
            scripts
                .map(|script| Arc::new(ScriptTool::new(script)) as _)
                .collect()
        }
        ToolsetKind::Api(settings) => vec![Arc::new(ApiTool::new((**settings).clone()))],
        ToolsetKind::OpenUrl(settings) => vec![Arc::new(OpenUrl::new(settings.clone()))],
        ToolsetKind::Think => vec![think(Arc::clone(session))],
        ToolsetKind::Todo { shared: false } => todo(session),
        ToolsetKind::Todo { shared: true } => todo(&dependencies.team),
        ToolsetKind::UserPrompt => vec![user_prompt()],
        ToolsetKind::BackgroundJobs(settings) => {
            background_jobs(settings.clone(), session, &dependencies.write_notifier)
                .map_err(|error| fault("background_jobs", error.to_string()))?
        }
        // The program that embeds the crate adds actions.
        ToolsetKind::Mcp(_) | ToolsetKind::Actions(_) | ToolsetKind::Rag(_) => Vec::new(),
    };
    tools.retain(|tool| {
        let metadata = tool.metadata();
        (!toolset.read_only || metadata.read_only) && toolset.filter.selects(&[&metadata.name])
    });
    Ok(tools)
}

/// The selected tools of servers, and the texts of these servers.
#[derive(Default)]
struct ServerTools {
    tools: Vec<Arc<dyn Tool>>,
    instructions: Vec<String>,
}

/// Returns the selected tools of the servers: requested concurrently, named in the order of the servers' names.
async fn tools_of_servers(
    servers: &[McpServer],
    taken: &[ServerSelection],
    dependencies: &ToolDependencies,
) -> Result<ServerTools, AssembleError> {
    let reporter = &dependencies.mcp.reporter;
    let listed = join_all(servers.iter().map(async |server| {
        reporter.server_starting(server.name());
        let listed = server.list().await;
        reporter.server_started(server.name());
        listed
    }))
    .await;
    let mut of_servers = ServerTools::default();
    for (server, listed) in servers.iter().zip(listed) {
        let taken = taken.iter().filter(|taken| taken.server == server.name());
        match listed {
            Ok(listing) => {
                let instructions = listing.instructions();
                let selected = dependencies.servers.name(listing, |known_as, metadata| {
                    let mut taken = taken.clone();
                    taken.any(|taken| taken.selects(known_as, metadata))
                });
                if selected.is_empty() {
                    let is_read_only = taken.clone().any(|taken| taken.read_only);
                    reporter.warning(&no_match_warning(server.name(), is_read_only));
                } else {
                    of_servers.instructions.extend(instructions);
                }
                of_servers.tools.extend(selected);
            }
            Err(error) => {
                let error = docker_server::with_equivalent(error, server.settings());
                if server.settings().limits.required {
                    return Err(error.into());
                }
                reporter.warning(&format!("{error}; the agent has to do without its tools"));
            }
        }
    }
    Ok(of_servers)
}

fn no_match_warning(server: &str, is_read_only: bool) -> String {
    let remedy = if is_read_only {
        "its toolset is `readonly`, and tools of servers count as read-only only with `trust: {read_only: […]}`"
    } else {
        "it offers nothing, or nothing that `tools` takes"
    };
    format!("no tool of the MCP server `{server}` is used: {remedy}")
}
