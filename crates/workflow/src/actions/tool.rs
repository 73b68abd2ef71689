//! Tools as workflow steps: `tool.NAME` for a built-in tool, `mcp.SERVER.NAME` for a tool, resource or prompt
//! of an MCP server of `mcps`.
//!
//! The workspace of the tool is the directory of the run. Writing the step approves the call; rules of
//! `permissions` that deny it still apply.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use cachalot_cache::{Domain, Witness};
use cachalot_core::duration::Range;
use cachalot_core::tree::{Node, NodeKind};
use cachalot_core::{EffectTargets, Effects, Problem};
use cachalot_mcp::settings::ServerDefinition;
use cachalot_mcp::{McpDependencies, McpError};
use cachalot_model::Block;
use cachalot_operation::domains::{EngineLifetime, joined_domains};
use cachalot_operation::{
    AccessRequest, Command, CommandText, LiveOutput, Origin, PermissionDecision, Permissions,
    ResourceAccess, Tool, ToolContext, ToolOutput,
};
use cachalot_storage::{AllowedHosts, Url};
use cachalot_tools::builtin::{MemoryTool, Shell, WebFetch, files, skills};
use cachalot_tools::registry::run_guarded;
use serde_json::{Value, json};

use super::arguments::declared_by;
use crate::action::registry::{MCP_PREFIX, TOOL_PREFIX, is_tool_name};
use crate::template::is_literal;
use crate::{
    Action, Arguments, CacheClass, Failure, Operation, OperationMetadata, Registry, Runtime,
    destination, origin, spending,
};

/// Registers the tools that the nodes of a file name. Names of tools and servers that do not exist stay
/// unknown.
pub(crate) fn register_named(
    nodes: &Node,
    servers: &BTreeMap<String, ServerDefinition>,
    rules: &Arc<Permissions>,
    registry: &mut Registry,
) {
    let mut names = Vec::new();
    collect_names(nodes, &mut names);
    if names.iter().any(|name| name.starts_with(TOOL_PREFIX)) {
        for tool in built_in() {
            registry.register(ToolStep::new(tool, rules));
        }
    }
    for name in names {
        if let Some(step) = McpStep::new(name, servers, rules) {
            registry.register(step);
        }
    }
}

/// True if nodes name a tool as an action.
pub(crate) fn are_named(nodes: &Node) -> bool {
    let mut names = Vec::new();
    collect_names(nodes, &mut names);
    !names.is_empty()
}

/// Collects the texts that begin like the name of a tool.
fn collect_names<'a>(node: &'a Node, names: &mut Vec<&'a str>) {
    match &node.kind {
        NodeKind::Text(text) if is_tool_name(text) && !text.contains(char::is_whitespace) => {
            names.push(text);
        }
        NodeKind::List(items) => items.iter().for_each(|item| collect_names(item, names)),
        NodeKind::Map(entries) => {
            for entry in entries {
                collect_names(&entry.value, names);
            }
        }
        _ => {}
    }
}

/// Returns all built-in tools, with the defaults of their settings.
fn built_in() -> Vec<Arc<dyn Tool>> {
    let mut tools = files();
    tools.extend(skills(None));
    tools.push(Arc::new(MemoryTool::new()));
    tools.extend(Shell::new(Default::default()).map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    tools.extend(WebFetch::new(Default::default()).map(|tool| Arc::new(tool) as Arc<dyn Tool>));
    tools
}

/// The tool with a timeout, which is a number of seconds for a model and a duration in a file.
const SHELL: &str = "shell";
const TIMEOUT: &str = "timeout";
const TIMEOUTS: Range = Range::POSITIVE;

/// A built-in tool as a step.
struct ToolStep {
    metadata: OperationMetadata,
    call: ToolCall,
}

/// A tool, and the rules of the file that calls it.
struct ToolCall {
    tool: Arc<dyn Tool>,
    rules: Arc<Permissions>,
}

impl ToolStep {
    fn new(tool: Arc<dyn Tool>, rules: &Arc<Permissions>) -> Self {
        let metadata = tool.metadata();
        let mut schema = metadata.parameters.schema().into_owned();
        if metadata.name == SHELL {
            let timeout = &mut schema["properties"][TIMEOUT];
            let description = timeout["description"].take();
            *timeout = TIMEOUTS.schema();
            timeout["description"] = description;
        }
        Self {
            metadata: OperationMetadata {
                name: format!("{TOOL_PREFIX}{}", metadata.name).into(),
                parameters: schema.into(),
                ..metadata.clone()
            },
            call: ToolCall {
                tool,
                rules: Arc::clone(rules),
            },
        }
    }

    fn has_timeout(&self) -> bool {
        self.call.tool.metadata().name == SHELL
    }
}

#[async_trait]
impl Operation for ToolStep {
    declared_by!(self.metadata);

    fn effects(&self, arguments: &Arguments, runtime: &Runtime) -> Effects {
        match self.call.context(runtime, &Witness::default()) {
            Ok(context) => self.call.tool.effects(arguments, &context),
            Err(_) => Effects::UNKNOWN,
        }
    }

    fn implicit_inputs(&self, arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let context = self.call.context(runtime, &Witness::default())?;
        Ok(json!({
            "workspace": context.workspace.root().to_string_lossy(),
            "tool": self.call.tool.implicit_inputs(arguments, &context)?,
            // A hit makes no call: a result from before a rule denied it must have another key.
            "denied": self.call.rules.denied(),
        }))
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        self.run_without_alternatives(arguments, runtime, &Witness::default())
            .await
    }
}

#[async_trait]
impl Action for ToolStep {
    fn check(&self, with: Option<&Node>, _registry: &Registry) -> Vec<Problem> {
        let timeout = with.and_then(|with| with.get(TIMEOUT));
        let is_known = |node: &&Node| !node.is_null() && node.as_text().is_none_or(is_literal);
        let timeout = timeout.filter(is_known).filter(|_| self.has_timeout());
        let name = format!("parameter `{TIMEOUT}` of `{}`", self.metadata.name);
        let problem = timeout.and_then(|timeout| TIMEOUTS.problem(&name, timeout));
        problem.into_iter().collect()
    }

    fn domains(&self, arguments: &Arguments, runtime: &Runtime) -> Vec<Domain> {
        joined(&self.effects(arguments, runtime).reads, runtime)
    }

    async fn run_without_alternatives(
        &self,
        mut arguments: Arguments,
        runtime: &Runtime,
        witness: &Witness,
    ) -> Result<Value, Failure> {
        if let Some(timeout) = arguments.get_mut(TIMEOUT).filter(|_| self.has_timeout()) {
            let read = TIMEOUTS.read_json(timeout).map_err(|refusal| {
                let (name, cause) = (&self.metadata.name, refusal.cause);
                let message = format!("{name}: parameter `{TIMEOUT}` {cause}: {}", refusal.remedy);
                Failure::new("validation_error", message)
            })?;
            *timeout = read.as_secs_f64().into();
        }
        self.call.run(arguments, runtime, witness).await
    }
}

/// Returns the domains of reads, as the cache of the run names them.
fn joined(reads: &EffectTargets, runtime: &Runtime) -> Vec<Domain> {
    joined_domains(reads, &runtime.directory).for_engine(EngineLifetime::Persistent)
}

/// A tool, resource or prompt of an MCP server as a step. The server is connected when the step runs, not
/// when the cache answers it.
struct McpStep {
    metadata: OperationMetadata,
    server: ServerDefinition,
    /// The name of the tool at the server.
    tool: String,
    rules: Arc<Permissions>,
}

impl McpStep {
    /// Returns the step of this name; `None` if there is no such server.
    fn new(
        name: &str,
        servers: &BTreeMap<String, ServerDefinition>,
        rules: &Arc<Permissions>,
    ) -> Option<Self> {
        let (server, tool) = servers
            .iter()
            .filter_map(|(known, definition)| {
                let rest = name
                    .strip_prefix(MCP_PREFIX)?
                    .strip_prefix(known.as_str())?;
                Some((definition, rest.strip_prefix('.')?))
            })
            // Names of servers may contain dots.
            .min_by_key(|(_, tool)| tool.len())
            .filter(|(_, tool)| !tool.is_empty())?;
        let settings = &server.settings;
        let trust = settings.trust_in(tool);
        let lifetime = trust.lifetime.filter(|_| trust.read_only);
        Some(Self {
            metadata: OperationMetadata {
                name: name.to_owned().into(),
                aliases: &[],
                description: format!("The tool `{tool}` of the MCP server `{}`.", settings.name)
                    .into(),
                // The server declares the parameters when it is connected.
                parameters: json!({ "type": "object" }).into(),
                // 2: of version 1, results of tools that declare `readOnlyHint: false` may be stored.
                version: 2,
                origin: Origin::Mcp(settings.name.clone()),
                read_only: trust.read_only,
                exclusive: false,
                cache_class: lifetime.map_or(CacheClass::Never, CacheClass::Ttl),
            },
            server: server.clone(),
            tool: tool.to_owned(),
            rules: Arc::clone(rules),
        })
    }

    /// Connects the server and returns the tool.
    async fn connect(&self, runtime: &Runtime) -> Result<ToolCall, Failure> {
        let unavailable = |error: McpError| Failure {
            retryable: true,
            ..Failure::new("tool_error", error.to_string())
        };
        let environment = Arc::clone(&runtime.tool_workspace()?.environment);
        let servers = &runtime.tools.servers;
        let server = servers.server(
            &self.server.settings,
            &McpDependencies {
                directory: runtime.directory.clone(),
                environment,
                secret_set: Arc::clone(&runtime.secret_set),
                reporter: Arc::clone(&runtime.tools.reporter),
                write_notifier: runtime.tools.write_notifier.clone(),
                sandbox: runtime.tools.sandbox.clone(),
                asks_user: false,
            },
        );
        Ok(ToolCall {
            tool: servers
                .tool(&server, &self.tool, &self.server.filter)
                .await
                .map_err(unavailable)?,
            rules: Arc::clone(&self.rules),
        })
    }
}

#[async_trait]
impl Operation for McpStep {
    declared_by!(self.metadata);

    /// The reads of a server are unknown: they may include the directory of the run.
    fn effects(&self, _arguments: &Arguments, _runtime: &Runtime) -> Effects {
        Effects {
            reads: EffectTargets::Unknown,
            writes: if self.metadata.read_only {
                EffectTargets::NOTHING
            } else {
                EffectTargets::Unknown
            },
        }
    }

    fn implicit_inputs(&self, _arguments: &Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        let mut inputs = json!({
            "workspace": runtime.directory.to_string_lossy(),
            "server": self.server.settings.identity(&runtime.secret_set),
            "denied": self.rules.denied(),
        });
        let environment = &runtime.tool_workspace()?.environment;
        // Another login may be that of another user.
        if let Some(login) = self.server.settings.login(environment) {
            inputs["login"] = login.into();
        }
        Ok(inputs)
    }

    async fn run(&self, arguments: Arguments, runtime: &Runtime) -> Result<Value, Failure> {
        self.run_without_alternatives(arguments, runtime, &Witness::default())
            .await
    }
}

#[async_trait]
impl Action for McpStep {
    /// The tool of the step is not known before the server is connected, so any announcement of the server
    /// expires the result.
    fn domains(&self, _arguments: &Arguments, runtime: &Runtime) -> Vec<Domain> {
        joined_domains(&EffectTargets::Unknown, &runtime.directory)
            .and(self.server.settings.domains())
            .for_engine(EngineLifetime::Persistent)
    }

    async fn run_without_alternatives(
        &self,
        arguments: Arguments,
        runtime: &Runtime,
        witness: &Witness,
    ) -> Result<Value, Failure> {
        let call = self.connect(runtime).await?;
        let metadata = call.tool.metadata();
        let arguments = metadata.check(arguments)?;
        if !self.metadata.read_only || metadata.read_only {
            return call.run(arguments, runtime, witness).await;
        }
        spending::decline_storing("the MCP server declares that the tool changes things");
        // The step was not announced as a write, because the file declares that it only reads.
        let notifier = &runtime.tools.write_notifier;
        let run = call.run(arguments, runtime, witness);
        notifier
            .announce(&EffectTargets::Unknown, &runtime.directory, run)
            .await
    }
}

impl ToolCall {
    /// Returns the dependencies of a call in this run.
    fn context(&self, runtime: &Runtime, witness: &Witness) -> Result<ToolContext, Failure> {
        let opened = runtime.tool_workspace()?;
        Ok(ToolContext {
            workspace: Arc::clone(&opened.workspace),
            session: runtime.run.clone(),
            environment: Arc::clone(&opened.environment),
            clock: Arc::clone(&runtime.clock),
            http: runtime.storage.http().clone(),
            store: runtime.store.clone(),
            secret_set: Arc::clone(&runtime.secret_set),
            user: None,
            sampler: None,
            gate: None,
            rules: Arc::clone(&self.rules),
            sandbox: None,
            witness: witness.clone(),
            output: LiveOutput::default(),
        })
    }

    /// Runs the tool.
    async fn run(
        &self,
        arguments: Arguments,
        runtime: &Runtime,
        witness: &Witness,
    ) -> Result<Value, Failure> {
        let mut context = self.context(runtime, witness)?;
        let access = self.tool.resource_access(&arguments);
        self.check_denied(&arguments, &access, &context)?;
        self.check_command(&access)?;
        if let Some(hosts) = self.allowed_hosts(&access, runtime)? {
            context.http = context.http.redirecting_to(&hosts);
        }
        let effects = self.tool.effects(&arguments, &context);
        let output = run_guarded(&*self.tool, arguments, &context).await;
        if output.private {
            spending::keep_private();
        }
        if let Some(lifetime) = output.lifetime {
            spending::limit_lifetime(lifetime);
        }
        if let Some(why) = &output.not_storable {
            spending::decline_storing(why.as_str());
        }
        let unwitnessed = self.tool.metadata().cache_class == CacheClass::Validated
            && effects.reads.include_files()
            && witness.is_empty();
        if unwitnessed {
            // A validated result without a witness would never be found outdated.
            spending::decline_storing("it read files and recorded no witness of them");
        }
        self.result(output)
    }

    /// Fails if a rule denies the call, or may deny it.
    fn check_denied(
        &self,
        arguments: &Arguments,
        resource_access: &ResourceAccess,
        context: &ToolContext,
    ) -> Result<(), Failure> {
        let metadata = self.tool.metadata();
        let request = AccessRequest {
            tool: &metadata.name,
            read_only: metadata.read_only,
            arguments,
            resource_access,
            sandboxed: false,
        };
        let why = match self.rules.judge(&request, &context.workspace) {
            PermissionDecision::Deny(rule) => format!("the rule `{rule}` denies it"),
            PermissionDecision::Unclear { rule, why } => {
                format!("the rule `{rule}` may deny it: {why}")
            }
            PermissionDecision::Allow | PermissionDecision::Ask(_) => return Ok(()),
        };
        let message = format!("`{}` is not called: {why}", metadata.name);
        Err(Failure::new("permission_denied", message))
    }

    /// Fails if a command line depends on the state: a model or a page could have chosen a part of it, and
    /// the shell would run that part, too. Arguments that a model chose for a tool that the author named are
    /// the author's decision.
    fn check_command(&self, access: &ResourceAccess) -> Result<(), Failure> {
        let is_line = |command: &Command| matches!(command.text, CommandText::Line(_));
        let depends_on_state = || origin::current().is_some_and(|origin| !origin.is_trusted());
        if !access.commands.iter().any(is_line)
            || origin::is_chosen_by_model()
            || !depends_on_state()
        {
            return Ok(());
        }
        let message = format!(
            "`{}` is not called: the command line depends on the state, and a shell would run what \
             a model or a page wrote there; write `command` as a list of the program and its arguments",
            self.tool.metadata().name
        );
        Err(Failure::new("command_not_allowed", message))
    }

    /// Returns the hosts that redirects of the call may lead to; `None`: any.
    ///
    /// # Errors
    /// If a host comes from the state and is not allowed.
    fn allowed_hosts(
        &self,
        access: &ResourceAccess,
        runtime: &Runtime,
    ) -> Result<Option<AllowedHosts>, Failure> {
        let mut allowed = None;
        for url in access.urls.iter().filter_map(|url| Url::parse(url).ok()) {
            let name = &self.tool.metadata().name;
            allowed = destination::check(name, runtime, &url, None)?.or(allowed);
        }
        Ok(allowed)
    }

    /// Converts an output: one text to text, several blocks to a list of texts and images.
    fn result(&self, output: ToolOutput) -> Result<Value, Failure> {
        if output.is_error {
            let texts: Vec<&str> = output.content.iter().filter_map(Block::as_text).collect();
            let message = format!("`{}`: {}", self.tool.metadata().name, texts.join("\n"));
            return Err(Failure::new("tool_error", message));
        }
        let mut blocks: Vec<Value> = output.content.iter().map(block_value).collect();
        Ok(match blocks.len() {
            1 => blocks.remove(0),
            _ => Value::Array(blocks),
        })
    }
}

fn block_value(block: &Block) -> Value {
    match block.as_text() {
        Some(text) => text.into(),
        None => serde_json::to_value(block).unwrap_or_default(),
    }
}
