//! `cachalot mcp -- COMMAND`: the proxy.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use cachalot_core::{Problem, Secret, SecretSet};
use cachalot_mcp::Reporter;
use cachalot_mcp::oauth::ServerAuthorization;
use cachalot_mcp::relay::{
    AuthorizedConnector, Connector, HttpFront, HttpFrontOptions, ProgramConnector, RemoteConnector,
    ServerAddress, ServerCommand, ServerEntry, SeveralConnector, StdioFront, read_header,
    read_servers,
};
use tokio::sync::oneshot;

use super::caching::ProxyCache;
use super::call_lines::CallLines;
use super::server_name::server_name;
use crate::arguments::{McpProxy, McpServerArguments};
use crate::command_error::{CommandError, Result};
use crate::interrupts::Interrupts;
use crate::render;
use crate::wiring::{ProcessEnvironment, Warn};

/// Time to write what the cache has, after a second signal.
const HURRIED_CLOSE: Duration = Duration::from_millis(250);

/// Runs the proxy until the client ends the session or the process is interrupted.
pub(super) async fn proxy(
    arguments: &McpProxy,
    environment: &ProcessEnvironment,
    warn: Warn,
) -> Result<ExitCode> {
    let reporter = reporter(&warn);
    let cache = ProxyCache::open(arguments, environment, &warn).await?;
    // The client at stdin is a process of the user; clients of a listener bring credentials of their own.
    let uses_login = arguments.listen.is_none();
    let connector = match &arguments.servers {
        Some(file) => several(file, environment, &reporter, cache.as_ref(), uses_login)?,
        None => connector(
            &arguments.server,
            environment,
            &reporter,
            cache.as_ref(),
            uses_login,
        )?,
    };
    // Before the start of the server: from then on, a signal ends both in order.
    let mut interrupts = Interrupts::listen()?;
    let lines = CallLines::default();
    let observe = (!arguments.quiet).then(|| lines.observer());
    if let Some(address) = arguments.listen {
        let options = HttpFrontOptions {
            address,
            allowed_hosts: arguments.allow_host.clone(),
            connector,
            observe,
        };
        let listened = listen(options, &mut interrupts).await;
        return close_unless(listened, cache, &lines).await;
    }
    let connection = connector
        .connect(Some(StdioFront::session()))
        .await
        .map_err(CommandError::failed)?;
    let front = StdioFront {
        connection,
        observe,
    };
    let (stopping, stop) = oneshot::channel();
    let stop = async {
        // An error means that the wait below has ended, and with it this one.
        let _ = stop.await;
    };
    let ended = unless_interrupted_again(
        front.run(std::io::stdin(), std::io::stdout(), stop),
        async {
            interrupts.next().await;
            // An error means that the front has ended.
            let _ = stopping.send(());
            interrupts.next().await;
        },
    );
    let ended = ended.await;
    close_unless(ended, cache, &lines).await
}

/// Waits for the end of the servers, up to a second signal.
async fn unless_interrupted_again(
    end: impl Future<Output = ()>,
    again: impl Future<Output = ()>,
) -> Result<()> {
    tokio::select! {
        () = end => Ok(()),
        // The end of the runtime kills the process groups of the servers.
        () = again => Err(CommandError::Interrupted(
            "the servers that had not ended were killed".to_owned(),
        )),
    }
}

/// Closes the cache, at once after a second signal.
async fn close_unless(
    ended: Result<()>,
    cache: Option<ProxyCache>,
    lines: &CallLines,
) -> Result<ExitCode> {
    let closing = async {
        close(cache).await;
        lines.finish().await;
    };
    if ended.is_ok() {
        closing.await;
    } else {
        let _ = tokio::time::timeout(HURRIED_CLOSE, closing).await;
    }
    ended.map(|()| ExitCode::SUCCESS)
}

async fn close(cache: Option<ProxyCache>) {
    if let Some(cache) = cache {
        cache.close().await;
    }
}

/// Serves clients by streamable HTTP until the process is interrupted.
async fn listen(options: HttpFrontOptions, interrupts: &mut Interrupts) -> Result<()> {
    let address = options.address;
    let front = HttpFront::start(options).await.map_err(|error| {
        CommandError::failed(format!(
            "cannot listen on {address}: {error}; name another address with --listen (port 0: any that is free)"
        ))
    })?;
    render::out(&format!("listening on {}\n", front.url()))?;
    if !front.address().ip().is_loopback() {
        render::warn(
            "other machines can reach this address; the proxy asks for no credentials, and requests are unencrypted",
        );
    }
    interrupts.next().await;
    unless_interrupted_again(front.stop(), async {
        interrupts.next().await;
    })
    .await
}

/// Returns what opens connections to the server of the command line.
pub(super) fn connector(
    server: &McpServerArguments,
    environment: &ProcessEnvironment,
    reporter: &Arc<dyn Reporter>,
    cache: Option<&ProxyCache>,
    uses_login: bool,
) -> Result<Arc<dyn Connector>> {
    let parts = Parts {
        environment,
        reporter,
        cache,
        is_only: true,
        uses_login,
    };
    if let Some(url) = &server.url {
        return parts
            .remote(host_of(url), url, headers(server, environment)?)
            .map_err(|why| unusable(&format!("--url: {why}")));
    }
    if let Some(command) = server_command(server, environment) {
        return Ok(parts.program(command));
    }
    let problem = Problem::new("missing-value", "no MCP server is named")
        .help("name a command after `--`, or a URL with --url, or a file with --servers");
    Err(CommandError::usage(problem))
}

/// Reads the headers of the command line.
fn headers(
    server: &McpServerArguments,
    environment: &ProcessEnvironment,
) -> Result<BTreeMap<String, Secret<String>>> {
    let wrong = |why: String| unusable(&format!("--header: {why}"));
    let mut headers = BTreeMap::new();
    for header in &server.header {
        let read = read_header(header.expose(), &environment.environment);
        let (name, value) = read.map_err(wrong)?;
        if headers.insert(name.to_ascii_lowercase(), value).is_some() {
            return Err(wrong(format!("`{name}` is given twice")));
        }
    }
    Ok(headers)
}

/// Returns what opens connections to the servers of a file.
fn several(
    file: &Path,
    environment: &ProcessEnvironment,
    reporter: &Arc<dyn Reporter>,
    cache: Option<&ProxyCache>,
    uses_login: bool,
) -> Result<Arc<dyn Connector>> {
    let wrong = |why: String| unusable(&format!("--servers {}: {why}", file.display()));
    let text = std::fs::read_to_string(environment.directory.join(file))
        .map_err(|error| wrong(error.to_string()))?;
    let entries = read_servers(&text, &environment.environment).map_err(wrong)?;
    let parts = Parts {
        environment,
        reporter,
        cache,
        is_only: entries.len() == 1,
        uses_login,
    };
    let mut servers = Vec::new();
    for (name, entry) in entries {
        let connector = match entry {
            ServerEntry::Program {
                command,
                arguments,
                environment: variables,
                directory,
            } => {
                let directory = directory.map(|directory| environment.directory.join(directory));
                parts.program(ServerCommand {
                    name: name.clone(),
                    program: command.into(),
                    arguments: arguments.into_iter().map(Into::into).collect(),
                    environment: variables,
                    directory: directory.or_else(|| Some(environment.directory.clone())),
                    launcher: launcher(),
                })
            }
            ServerEntry::Url { url, headers } => {
                let headers = headers.into_iter();
                let headers = headers.map(|(name, value)| (name, Secret::new(value)));
                parts
                    .remote(name.clone(), &url, headers.collect())
                    .map_err(|why| wrong(format!("`{name}`: {why}")))?
            }
        };
        servers.push((name, connector));
    }
    let reporter = Arc::clone(reporter);
    Ok(Arc::new(SeveralConnector { servers, reporter }))
}

/// The parts of the connections to a server.
struct Parts<'a> {
    environment: &'a ProcessEnvironment,
    reporter: &'a Arc<dyn Reporter>,
    cache: Option<&'a ProxyCache>,
    /// True for the only server of the proxy.
    is_only: bool,
    /// True if requests get the token of the user's login.
    uses_login: bool,
}

impl Parts<'_> {
    /// Returns what starts a program as a server.
    fn program(&self, command: ServerCommand) -> Arc<dyn Connector> {
        let connector = Arc::new(ProgramConnector {
            command: command.clone(),
            reporter: Arc::clone(self.reporter),
        });
        match self.cache {
            Some(cache) => cache.of_program(connector, &command, self.is_only, self.environment),
            None => connector,
        }
    }

    /// Returns what opens sessions of a server behind HTTP.
    fn remote(
        &self,
        name: String,
        url: &str,
        headers: BTreeMap<String, Secret<String>>,
    ) -> std::result::Result<Arc<dyn Connector>, String> {
        let address = ServerAddress {
            name,
            url: Secret::new(url.to_owned()),
            headers,
        };
        let connector = RemoteConnector::new(
            address.clone(),
            &self.environment.environment,
            Arc::clone(self.reporter),
        )?;
        let connector: Arc<dyn Connector> = Arc::new(connector);
        let connector = match self.cache {
            Some(cache) => cache.of_address(connector, &address, self.is_only, self.environment),
            None => connector,
        };
        let has_own = |name: &String| name.eq_ignore_ascii_case("authorization");
        if !self.uses_login || address.headers.keys().any(has_own) {
            return Ok(connector);
        }
        let variables = Arc::new(self.environment.environment.clone());
        let authorization = ServerAuthorization::new(url, &variables, &self.secret_set());
        // Around the cache: the token is a part of its keys.
        Ok(match authorization {
            Some(authorization) => Arc::new(AuthorizedConnector {
                inner: connector,
                authorization: Arc::new(authorization),
                server: address.name,
            }),
            None => connector,
        })
    }

    /// Returns the secrets that are neither stored nor shown.
    fn secret_set(&self) -> Arc<SecretSet> {
        self.cache
            .map_or_else(|| Arc::new(SecretSet::empty()), ProxyCache::secret_set)
    }
}

fn unusable(message: &str) -> CommandError {
    CommandError::usage(Problem::new("bad-value", message))
}

/// Returns the host of a URL, as the name of a server.
fn host_of(url: &str) -> String {
    let host = url::Url::parse(url)
        .ok()
        .and_then(|url| url.host_str().map(str::to_owned));
    host.unwrap_or_else(|| "server".to_owned())
}

/// Returns the name of a server in messages and policies.
pub(super) fn name(server: &McpServerArguments) -> String {
    let url = server.url.as_deref();
    url.map_or_else(|| server_name(&server.command), host_of)
}

/// Returns the program of a server.
fn server_command(
    server: &McpServerArguments,
    environment: &ProcessEnvironment,
) -> Option<ServerCommand> {
    let (program, arguments) = server.command.split_first()?;
    Some(ServerCommand {
        name: server_name(&server.command),
        program: program.clone(),
        arguments: arguments.to_vec(),
        environment: BTreeMap::new(),
        directory: Some(environment.directory.clone()),
        launcher: launcher(),
    })
}

/// Returns the command that runs a server and ends it with this process; none on platforms without process groups.
fn launcher() -> Vec<OsString> {
    if !cfg!(unix) {
        return Vec::new();
    }
    // By this name, the program is found after it was replaced by a newer one, too.
    let own = Path::new("/proc/self/exe");
    let program = Some(own.to_owned()).filter(|own| own.exists());
    let Some(program) = program.or_else(|| std::env::current_exe().ok()) else {
        return Vec::new();
    };
    let parent = std::process::id().to_string();
    vec![
        program.into(),
        "__mcp-server".into(),
        parent.into(),
        "--".into(),
    ]
}

/// Returns what prints warnings, and what servers write to stderr.
pub(super) fn reporter(warn: &Warn) -> Arc<dyn Reporter> {
    Arc::new(StderrReporter {
        warn: Arc::clone(warn),
    })
}

/// Prints what servers write to stderr, and warnings.
struct StderrReporter {
    warn: Warn,
}

impl Reporter for StderrReporter {
    fn warning(&self, message: &str) {
        (self.warn)(message);
    }

    fn server_output(&self, server: &str, line: &str) {
        render::err(&format!("{server}: {line}"));
    }
}
