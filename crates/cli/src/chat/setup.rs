//! Start and end of a chat, on a terminal and through a pipe.

use std::io::IsTerminal as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cachalot_agent::{Approver, ErrorKind, Listener, Team};
use cachalot_cache::{CacheBounds, CacheMode};
use cachalot_core::Problem;

use super::show::{Level, Show};
use crate::arguments::Chat;
use crate::command_error::{CommandError, Result};
use crate::home::Home;
use crate::interrupts::Interrupts;
use crate::models;
use crate::team;
use crate::wiring::{Engine, EngineOptions, ProcessEnvironment, Warn, run_id};
use crate::workbench::{Workbench, WorkbenchParts};

/// Parameters of a chat.
pub(crate) struct ChatSetup<'a> {
    pub(crate) arguments: &'a Chat,
    pub(crate) process_environment: &'a ProcessEnvironment,
    pub(crate) team: Arc<Team>,
    pub(crate) home: Home,
}

impl ChatSetup<'_> {
    /// Returns the verbosity.
    pub(crate) fn level(&self) -> Level {
        match (self.arguments.quiet, self.arguments.verbose) {
            (true, _) => Level::Quiet,
            (_, true) => Level::Verbose,
            _ => Level::Normal,
        }
    }

    /// Returns the command that resumes a session.
    pub(crate) fn resume_command(&self, session: &str) -> String {
        let file = self.arguments.file.display();
        let mut command = format!("cachalot chat {file} --session {session}");
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

    fn workspace(&self) -> PathBuf {
        let here = &self.process_environment.directory;
        match &self.arguments.workspace {
            Some(path) => here.join(path),
            None => here.clone(),
        }
    }

    /// Opens the store, tools and models.
    ///
    /// # Errors
    /// The store was written by a newer version, or the workspace is not a directory.
    pub(crate) async fn workbench(&self, show: &Arc<Show>) -> Result<Workbench> {
        let workspace = self.workspace();
        if let Err(error) = std::fs::read_dir(&workspace) {
            let message = format!("the workspace {}: {error}", workspace.display());
            return Err(CommandError::usage(
                Problem::new("bad-workspace", message)
                    .help("--workspace names the directory that the tools work in"),
            ));
        }
        let (warn, tell) = (Arc::clone(show), Arc::clone(show));
        let warn: Warn = Arc::new(move |message| warn.warn(message));
        let Engine {
            store,
            cache,
            secret_set,
        } = EngineOptions {
            process_environment: self.process_environment,
            home: &self.home,
            run: &run_id(),
            bounds: CacheBounds::default(),
            limits: team::limits(&self.team, &mut Vec::new()),
            secrets: false,
            staleness: Duration::ZERO,
            local: false,
            warn: Arc::clone(&warn),
        }
        .for_run()
        .await?;
        if store.is_none() {
            warn("chat not saved; it cannot be resumed");
        }
        Workbench::new(WorkbenchParts {
            process_environment: self.process_environment,
            home: &self.home,
            workspace: &workspace,
            store,
            cache,
            secret_set,
            mode: self.mode(),
            hooks: self.arguments.hook.clone(),
            agent_file: &self.arguments.file,
            warn,
            tell: Arc::new(move |message| tell.note(message)),
            servers: Arc::clone(show) as _,
        })
    }

    /// Starts or resumes the chat. Ctrl-C cancels this.
    ///
    /// # Errors
    /// The agent, the session, the model's key or a tool is missing; or the start was interrupted.
    pub(crate) async fn begin(
        &self,
        bench: &Workbench,
        show: &Arc<Show>,
        approver: Arc<dyn Approver>,
        interrupts: &mut Interrupts,
    ) -> Result<cachalot_agent::Chat> {
        let listener = Arc::clone(show) as Arc<dyn Listener>;
        let mut dependencies = bench.dependencies_for(&self.team, listener, approver)?;
        dependencies.human_paced = std::io::stdin().is_terminal();
        dependencies.single_turn = !dependencies.human_paced;
        let (team, agent) = (Arc::clone(&self.team), self.arguments.agent.as_deref());
        let beginning = async {
            match &self.arguments.session {
                Some(session) => cachalot_agent::Chat::resume(dependencies, team, session).await,
                None => cachalot_agent::Chat::begin(dependencies, team, agent).await,
            }
        };
        let begun = tokio::select! {
            begun = beginning => begun,
            _ = interrupts.next() => {
                return Err(CommandError::Interrupted("the conversation is empty".to_owned()));
            }
        };
        let chat = begun.map_err(|error| match error.kind {
            ErrorKind::Definition => {
                CommandError::usage(Problem::new("unknown-agent", error.to_string()))
            }
            _ => CommandError::failed(told(&error)),
        })?;
        show.set_context(&chat.agent().name, bench.workspace());
        Ok(chat)
    }
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
