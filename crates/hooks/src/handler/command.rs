//! Handlers that are commands: input on stdin, output on stdout.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use cachalot_core::Problem;
use cachalot_process::Stream;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::expand::{self, Spelling};
use super::process::{SandboxedRun, ShellCommand};
use super::{Handler, HandlerContext, within};
use crate::definition::{Background, HookEntry};
use crate::dependencies::{HookDependencies, HookSandbox};
use crate::dialect::{FirstLine, HandlerResponse};
use crate::input::Input;
use crate::output::{Fault, Output};
use crate::sessions::{BackgroundReport, Sessions};
use crate::transcript::Transcript;

/// The variable that contains the path of the file for environment variables.
const EXPORTS: &str = "CLAUDE_ENV_FILE";

#[derive(Clone)]
struct CommandHandler {
    line: String,
    entry: HookEntry,
    environment: Arc<BTreeMap<String, String>>,
    /// The base directory of relative paths.
    directory: PathBuf,
    sessions: Arc<Sessions>,
    sandbox: Option<Arc<dyn HookSandbox>>,
}

pub(super) fn create(
    line: &str,
    entry: &HookEntry,
    dependencies: &HookDependencies,
    shared: &HandlerContext,
) -> Result<Arc<dyn Handler>, Problem> {
    let wrong = match line {
        _ if line.trim().is_empty() => Some("is empty"),
        _ if line.contains('\0') => Some("holds a NUL character, which no command can"),
        _ => None,
    };
    if let Some(wrong) = wrong {
        let event = entry.event;
        return Err(
            Problem::new("bad-value", format!("the command for `{event}` {wrong}"))
                .help("give a shell line, such as `./check.sh`"),
        );
    }
    Ok(Arc::new(CommandHandler {
        line: line.to_owned(),
        entry: entry.clone(),
        environment: Arc::clone(&dependencies.environment),
        directory: dependencies.directory.clone(),
        sessions: Arc::clone(&shared.sessions),
        sandbox: dependencies.sandbox.clone(),
    }))
}

#[async_trait]
impl Handler for CommandHandler {
    async fn handle(&self, input: &Input) -> Result<Output, Fault> {
        let has_begun = Arc::new(AtomicBool::new(false));
        let running = self.start(input, Arc::clone(&has_begun));
        within(self.entry.definition.timeout, &has_begun, running).await
    }

    fn applies_timeout(&self) -> bool {
        true
    }
}

impl CommandHandler {
    /// Runs the command. Sets `has_begun` when it writes something.
    async fn start(&self, input: &Input, has_begun: Arc<AtomicBool>) -> Result<Output, Fault> {
        let environment = self.environment(input)?;
        let stdin = self.entry.dialect.write(&self.entry, input)?;
        let sandbox = self.sandbox.clone().map(|sandbox| SandboxedRun {
            sandbox,
            // Both are below `/tmp`, which is hidden.
            read: input.transcript.as_ref().and_then(Transcript::path),
            written: self.sessions.exported(&input.session_id),
        });
        let job = ShellCommand {
            line: self.line.clone(),
            directory: self.working_directory(input, &environment)?,
            environment,
            input: stdin,
            sandbox,
        };
        if self.entry.dialect.may_move_to_background() {
            self.run_maybe_in_background(job, input, has_begun).await
        } else {
            let see = |_, _: &[u8]| has_begun.store(true, Ordering::Relaxed);
            let ended = job.run_observed(see).await?;
            self.entry.dialect.read(&self.entry, input, &ended)
        }
    }

    /// Runs a command and waits for it, unless its first line moves it to the background. Its later
    /// output is then delivered when the next turn of the session starts.
    async fn run_maybe_in_background(
        &self,
        job: ShellCommand,
        input: &Input,
        has_begun: Arc<AtomicBool>,
    ) -> Result<Output, Fault> {
        let (tell, told) = oneshot::channel();
        let mut tell = Some(tell);
        let mut running = Box::pin(job.run_observed(move |stream, output| {
            has_begun.store(true, Ordering::Relaxed);
            if tell.is_none() || stream == Stream::Stderr {
                return;
            }
            match FirstLine::parse(output) {
                FirstLine::Incomplete => {}
                FirstLine::Other => tell = None,
                FirstLine::MovedToBackground { limit } => {
                    let _ = tell.take().map(|tell| tell.send(limit));
                }
            }
        }));
        let limit = tokio::select! {
            biased;
            ended = &mut running => {
                let ended = ended?;
                if !matches!(FirstLine::parse(&ended.stdout), FirstLine::MovedToBackground { .. }) {
                    return self.entry.dialect.read(&self.entry, input, &ended);
                }
                // It already ended, but still counts as a background command: its output decides
                // nothing.
                let background_report = BackgroundReport::new(&self.entry, Instant::now(), self.later(input, &ended));
                self.sessions.begin(&input.session_id);
                self.sessions.add_background_report(&input.session_id, background_report);
                return Ok(Output::default());
            }
            Ok(limit) = told => limit.unwrap_or(self.entry.definition.timeout),
        };
        let (this, input) = (self.clone(), input.clone());
        self.sessions.begin(&input.session_id);
        tokio::spawn(async move {
            let began = Instant::now();
            let said = match timeout(limit, running).await {
                Ok(ended) => ended.and_then(|ended| this.later(&input, &ended)),
                Err(_) => Err(Fault::new(format!(
                    "it ran on in the background and did not end within {limit:?}; `asyncTimeout` gives it more milliseconds"
                ))),
            };
            let background_report = BackgroundReport::new(&this.entry, began, said);
            this.sessions
                .add_background_report(&input.session_id, background_report);
        });
        Ok(Output::default())
    }

    /// Parses the output after the first line.
    fn later(&self, input: &Input, ended: &HandlerResponse) -> Result<Output, Fault> {
        let mut entry = self.entry.clone();
        // Its output must not make the agent continue.
        entry.definition.background.get_or_insert(Background::Quiet);
        let ended = HandlerResponse {
            stdout: FirstLine::later(&ended.stdout),
            ..ended.clone()
        };
        entry.dialect.read(&entry, input, &ended)
    }

    /// The environment: ours, then the variables set by hooks of the session, by the dialect and by the
    /// definition.
    fn environment(&self, input: &Input) -> Result<BTreeMap<String, String>, Fault> {
        let mut environment = (*self.environment).clone();
        environment.extend(self.sessions.environment(&input.session_id));
        environment.extend(self.entry.dialect.environment(input));
        if self.entry.dialect.accepts_exports(input.event) {
            let file = self
                .sessions
                .exports(&input.session_id)
                .map_err(|error| Fault::new(format!("there can be no `{EXPORTS}`: {error}")))?;
            environment.insert(EXPORTS.to_owned(), file.to_string_lossy().into_owned());
        }
        let mut added = BTreeMap::new();
        for (name, text) in &self.entry.definition.env {
            // An unset variable is empty, as in a shell.
            let value = expand::expand(text, Spelling::Braced, |name| {
                Ok(environment.get(name).map_or("", String::as_str))
            })?;
            added.insert(name.clone(), value);
        }
        environment.extend(added);
        Ok(environment)
    }

    fn working_directory(
        &self,
        input: &Input,
        environment: &BTreeMap<String, String>,
    ) -> Result<PathBuf, Fault> {
        let Some(named) = &self.entry.definition.working_dir else {
            return Ok(self.directory.join(&input.cwd));
        };
        let set = |name: &str| expand::set(environment, name, "`working_dir`");
        let expanded = expand::expand(named, Spelling::Shell, set)?;
        // A tilde that comes from the value of a variable is not expanded.
        let path = match named.strip_prefix('~') {
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let below = expanded[1..].trim_start_matches('/');
                Path::new(set("HOME")?).join(below)
            }
            _ => PathBuf::from(expanded),
        };
        Ok(self.directory.join(path))
    }
}
