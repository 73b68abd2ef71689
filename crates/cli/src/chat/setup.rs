//! Start and end of a chat, on a terminal and through a pipe.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cachalot_agent::{Approver, Dependencies, ErrorKind, Listener, Team, UserPrompter};
use cachalot_cache::{CacheMode, SharedStoreSettings};
use cachalot_core::Problem;

use super::approval::ApproveAll;
use super::prompt::Prompt;
use super::resumption::Resumption;
use super::rewind::Rewind;
use super::sandboxed_commands::SandboxedCommands;
use super::show::Show;
use crate::arguments::{Chat, SandboxMode};
use crate::command_error::{CommandError, FAILED, Result};
use crate::default_agent::{self, bad_workspace};
use crate::home::Home;
use crate::interrupts::Interrupts;
use crate::models;
use crate::render::Level;
use crate::sandbox::{self, PythonNetwork, SandboxSettings, SandboxUse};
use crate::team;
use crate::wiring::{Engine, EngineOptions, ProcessEnvironment, Warn, run_id};
use crate::workbench::{Workbench, WorkbenchParts};

/// Parameters of a chat.
pub(crate) struct ChatSetup<'a> {
    pub(crate) arguments: &'a Chat,
    pub(crate) process_environment: &'a ProcessEnvironment,
    pub(crate) team: Arc<Team>,
    pub(crate) home: Home,
    /// The agent file; `None` for the built-in agent.
    pub(crate) file: Option<&'a Path>,
    /// The first message, if the command line contains it.
    pub(crate) prompt: Option<&'a str>,
    /// True for a chat on a terminal, false for the answer to one prompt.
    pub(crate) is_interactive: bool,
}

/// Receivers of the events and questions of a chat.
#[derive(Clone)]
pub(crate) struct ChatCallbacks {
    pub(crate) listener: Arc<dyn Listener>,
    pub(crate) approver: Arc<dyn Approver>,
    /// Answers the questions of agents; `None` if there is no user to ask.
    pub(crate) user: Option<Arc<dyn UserPrompter>>,
}

impl ChatSetup<'_> {
    /// Returns the verbosity.
    pub(crate) fn level(&self) -> Level {
        Level::from_flags(self.arguments.quiet, self.arguments.verbose)
    }

    /// Returns the command that resumes a session.
    pub(crate) fn resume_command(&self, session: &str) -> String {
        let mut command = "cachalot chat".to_owned();
        if let Some(file) = self.file {
            command += &format!(" {}", file.display());
        }
        command += &format!(" --resume {session}");
        if let Some(store) = &self.arguments.place.db {
            command += &format!(" --db {}", store.display());
        }
        command
    }

    fn mode(&self) -> CacheMode {
        match (self.arguments.no_cache, self.arguments.refresh) {
            (true, _) => CacheMode::Off,
            (_, true) => CacheMode::Refresh,
            _ => CacheMode::On,
        }
    }

    /// Returns the use of the sandbox. Unless the user has chosen otherwise, `--yes` runs commands in one where the
    /// machine has one.
    ///
    /// # Errors
    /// There is no sandbox although the user asks for one, or a flag widens a sandbox that is not used.
    fn sandbox_use(&self, settings: SandboxSettings, show: &Show) -> Result<SandboxUse> {
        let mechanism = match settings.for_chat() {
            Some(SandboxMode::On | SandboxMode::Auto) => match sandbox::available() {
                None if settings.flag.is_some() => return Err(sandbox::unavailable()),
                None => {
                    show.warn("commands run without a sandbox, after an approval: this machine has none (`cachalot doctor` says why)");
                    None
                }
                Some(mechanism) if !mechanism.guards_files() => {
                    show.warn("the sandbox of this machine is limited (`cachalot doctor` says why): commands write in the workspace only and have no network, but protected and denied files are not guarded; each command is asked about");
                    Some(mechanism)
                }
                Some(mechanism) => Some(mechanism),
            },
            Some(SandboxMode::Off) => None,
            Some(SandboxMode::Ask) | None if self.arguments.yes => sandbox::guarding(),
            Some(SandboxMode::Ask) | None => None,
        };
        let commands = mechanism.is_some();
        if !commands && settings.is_widened_by_flag {
            let problem = Problem::new(
                "unused-flag",
                "--sandbox-write and --sandbox-network have no effect: no command runs in a sandbox",
            );
            return Err(CommandError::usage(problem.help("add `--sandbox`")));
        }
        Ok(SandboxUse {
            settings,
            mechanism: mechanism.unwrap_or_default(),
            commands,
            python: false,
            python_network: PythonNetwork::None,
        })
    }

    /// Returns what the user chose about the sandbox.
    ///
    /// # Errors
    /// A flag or the user's file is invalid.
    pub(super) fn sandbox_settings(&self) -> Result<SandboxSettings> {
        let flags = &self.arguments.sandbox;
        SandboxSettings::read(flags, self.process_environment, &self.canonical_workspace())
    }

    /// Returns the workspace without links; as it is written if it does not exist.
    pub(super) fn canonical_workspace(&self) -> PathBuf {
        let workspace = workspace(self.arguments, self.process_environment);
        workspace.canonicalize().unwrap_or(workspace)
    }

    /// Returns the file that keeps the answer if the sandbox is offered to the user.
    pub(super) fn sandbox_offer(&self, settings: &SandboxSettings) -> Option<PathBuf> {
        let is_open = settings.for_chat().is_none() && !self.arguments.yes;
        let is_offered = is_open && self.team.runs_commands() && sandbox::guarding().is_some();
        sandbox::file(self.process_environment).filter(|_| is_offered)
    }

    /// Returns the approver for `--yes`.
    pub(super) fn approve_all(&self, bench: &Workbench) -> ApproveAll {
        ApproveAll {
            permits_outside: bench.sandbox_mode() == Some(SandboxMode::Off),
        }
    }

    /// Adds the approval of commands in the sandbox to an approver, for `--sandbox=auto`.
    pub(super) fn with_sandbox(
        &self,
        next: Arc<dyn Approver>,
        bench: &Workbench,
        rewind: Option<Arc<Rewind>>,
    ) -> Arc<dyn Approver> {
        match bench.sandbox_mode() {
            Some(SandboxMode::Auto) => Arc::new(SandboxedCommands {
                next,
                rewind,
                workspace: bench.workspace().to_owned(),
                environment: Arc::new(self.process_environment.environment.clone()),
            }),
            _ => next,
        }
    }

    /// Opens the store, tools and models.
    ///
    /// # Errors
    /// The store was written by a newer version, or the workspace is not a directory.
    pub(crate) async fn workbench(
        &self,
        show: &Arc<Show>,
        settings: SandboxSettings,
    ) -> Result<Workbench> {
        let workspace = workspace(self.arguments, self.process_environment);
        if let Err(error) = std::fs::read_dir(&workspace) {
            return Err(bad_workspace(&workspace, &error));
        }
        let sandbox = self.sandbox_use(settings, show)?;
        let (warn, tell) = (Arc::clone(show), Arc::clone(show));
        let warn: Warn = Arc::new(move |message| warn.warn(message));
        let (environment, run) = (self.process_environment, run_id());
        let settings = team::settings(&self.team, &mut Vec::new());
        let opening = EngineOptions {
            bounds: settings.cache.bounds(),
            limits: settings.ledger.limits(),
            shared: SharedStoreSettings {
                // The store is that of the command line or the environment, and not one of the file.
                local: settings.ltm.local && self.home.url.is_some(),
                ..settings.ltm
            },
            is_store_required: self.arguments.store.require_store,
            ..EngineOptions::new(environment, &self.home, &run, Arc::clone(&warn))
        };
        let Engine {
            store,
            unanswered,
            cache,
            secret_set,
        } = opening.for_run().await?;
        // A session that is resumed is in the store, and its error is reported then.
        let unanswered = unanswered.filter(|_| Resumption::read(self.arguments) == Resumption::New);
        match &unanswered {
            Some(error) => warn(&format!(
                "the store does not answer: {error}; chat not saved; it cannot be resumed"
            )),
            None if store.is_none() => warn("chat not saved; it cannot be resumed"),
            None => {}
        }
        let parts = WorkbenchParts {
            process_environment: self.process_environment.clone(),
            store,
            keeps_sessions: unanswered.is_none(),
            cache,
            secret_set,
            mode: self.mode(),
            hooks: self.arguments.hook.clone(),
            sandbox,
            warn,
            tell: Arc::new(move |message| tell.note(message)),
            reporter: Arc::clone(show) as _,
            logs_changes: self.is_interactive,
            asks_user: self.is_interactive,
        };
        Workbench::new(parts, &self.home, &workspace, self.file)
    }

    /// Starts or resumes the chat. Ctrl-C cancels this. On failure, the workbench is closed.
    ///
    /// # Errors
    /// The agent, the session, the model's key or a tool is missing; or the start was interrupted.
    pub(crate) async fn begin(
        &self,
        bench: &Workbench,
        show: &Show,
        callbacks: &ChatCallbacks,
        prompt: Option<&Prompt>,
        interrupts: &mut Interrupts,
    ) -> Result<cachalot_agent::Chat> {
        let begun = tokio::select! {
            begun = self.open_chat(bench, callbacks, prompt) => begun,
            _ = interrupts.next() => {
                Err(CommandError::Interrupted("the conversation is empty".to_owned()))
            }
        };
        match &begun {
            Ok(chat) => show.set_context(&chat.agent().name, bench.workspace()),
            Err(_) => close(bench, interrupts).await,
        }
        begun
    }

    async fn open_chat(
        &self,
        bench: &Workbench,
        callbacks: &ChatCallbacks,
        prompt: Option<&Prompt>,
    ) -> Result<cachalot_agent::Chat> {
        let dependencies = self.dependencies(bench, callbacks)?;
        let workspace = bench.workspace().display().to_string();
        let resumed = Resumption::read(self.arguments)
            .session(bench.sessions(), &self.team, &workspace, prompt)
            .await?;
        let begun = match resumed {
            Some(session) => {
                let team = self.team_for(&session, bench).await;
                cachalot_agent::Chat::resume(dependencies, team, &session).await
            }
            None => {
                let (team, agent) = (Arc::clone(&self.team), self.arguments.agent.as_deref());
                cachalot_agent::Chat::begin(dependencies, team, agent).await
            }
        };
        begun.map_err(|error| self.refused(&error))
    }

    fn dependencies(&self, bench: &Workbench, callbacks: &ChatCallbacks) -> Result<Dependencies> {
        let ChatCallbacks {
            listener,
            approver,
            user,
        } = callbacks.clone();
        let mut dependencies = bench.dependencies_for(&self.team, listener, approver)?;
        dependencies.tools.user = user;
        dependencies.human_paced = self.is_interactive;
        dependencies.single_turn = !self.is_interactive;
        Ok(dependencies)
    }

    /// Resumes a session, with `model` in place of its model if that is given.
    ///
    /// # Errors
    /// The session, its agent, the model or a tool is missing.
    pub(crate) async fn reopen(
        &self,
        bench: &Workbench,
        callbacks: &ChatCallbacks,
        session: &str,
        model: Option<&str>,
    ) -> Result<cachalot_agent::Chat> {
        let dependencies = self.dependencies(bench, callbacks)?;
        let mut team = self.team_for(session, bench).await;
        let opened = bench.sessions().open(session).await;
        // An error of the store is reported by the chat that resumes the session.
        if let (Some(model), Ok(Some(opened))) = (model, opened) {
            Arc::make_mut(&mut team).adapt(&opened.head.agent, Some(model), None);
        }
        let chat = cachalot_agent::Chat::resume(dependencies, team, session).await;
        chat.map_err(|error| self.refused(&error))
    }

    /// Returns the team with which a session continues. The built-in agent keeps the model of the session,
    /// unless the command line names another one: a new model would read the whole conversation anew.
    async fn team_for(&self, session: &str, bench: &Workbench) -> Arc<Team> {
        if self.file.is_some() || self.arguments.model.is_some() {
            return Arc::clone(&self.team);
        }
        // An error of the store is reported by the chat that resumes the session.
        let Ok(Some(session)) = bench.sessions().open(session).await else {
            return Arc::clone(&self.team);
        };
        let model = format!("{}/{}", session.head.provider, session.head.model);
        let mut team = Team::clone(&self.team);
        team.adapt(default_agent::NAME, Some(&model), None);
        Arc::new(team)
    }

    fn refused(&self, error: &cachalot_agent::Error) -> CommandError {
        let problem = Problem::new("unknown-agent", error.to_string());
        match (error.kind, self.file) {
            (ErrorKind::Definition, None) => CommandError::usage(
                problem.help("name the agent file: `cachalot chat FILE --resume ID`"),
            ),
            (ErrorKind::Definition, Some(_)) => CommandError::usage(problem),
            _ => failure(error),
        }
    }
}

/// Returns the working directory of the tools.
pub(crate) fn workspace(arguments: &Chat, process_environment: &ProcessEnvironment) -> PathBuf {
    let here = &process_environment.directory;
    match &arguments.workspace {
        Some(path) => here.join(path),
        None => here.clone(),
    }
}

/// Returns the failure of a command. Its code is the kind of the model's error, if there is one.
pub(crate) fn failure(error: &cachalot_agent::Error) -> CommandError {
    let kind = error.model.as_ref().map(|error| error.kind.name());
    CommandError::failed_with(kind.unwrap_or(FAILED), told(error))
}

/// Returns the error message, with a remedy if there is one.
pub(crate) fn told(error: &cachalot_agent::Error) -> String {
    match error.model.as_ref().and_then(models::remedy) {
        Some(remedy) => format!("{error}\n  help: {remedy}"),
        None => error.to_string(),
    }
}

/// Ends the background work of a chat. Ctrl-C ends the wait for it.
pub(crate) async fn close(bench: &Workbench, interrupts: &mut Interrupts) {
    tokio::select! {
        () = bench.close() => {}
        _ = interrupts.next() => {}
    }
}
