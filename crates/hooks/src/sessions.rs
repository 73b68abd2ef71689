//! State of hooks in a session: hooks with `once` that ran, output of background hooks, and environment
//! variables.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use parking_lot::Mutex;
use tempfile::NamedTempFile;

use crate::Event;
use crate::definition::{Background, HookEntry, OnError};
use crate::output::{Fault, Output};
use crate::verdict::HandlerReport;

/// The state of an agent's hooks, by session. Dropped with the hooks of the agent.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<HashMap<String, Session>>);

#[derive(Default)]
struct Session {
    /// The `once` hooks that ran.
    ran: BTreeSet<(Event, usize)>,
    /// The output of background hooks that was not delivered yet.
    background_reports: Vec<BackgroundReport>,
    /// The file to which hooks add environment variables.
    exports: Option<NamedTempFile>,
    /// The variables that hooks have set.
    environment: BTreeMap<String, String>,
}

/// The output of a background hook.
pub(crate) struct BackgroundReport {
    pub(crate) entry: HookEntry,
    pub(crate) report: HandlerReport,
}

impl BackgroundReport {
    /// Converts the output of a background hook to what the next turn can still use: messages and
    /// context, and the reason of a block if the mode is [`Background::Heard`].
    pub(crate) fn new(entry: &HookEntry, began: Instant, said: Result<Output, Fault>) -> Self {
        let mut entry = entry.clone();
        let is_heard = entry.definition.background == Some(Background::Heard);
        let said = said.map(|output| {
            let block = output.block.filter(|_| is_heard);
            // Claude Code passes messages to the model, too, including those for the user.
            let told = [output.additional_context, output.system_message, block];
            let told: Vec<String> = told.into_iter().flatten().collect();
            Output {
                additional_context: Some(told.join("\n")).filter(|told| !told.is_empty()),
                spent: output.spent,
                ..Output::default()
            }
        });
        // Too late to deny anything by a failure.
        entry.definition.on_error = entry.definition.on_error.filter(|on| *on != OnError::Block);
        let report = HandlerReport::new(&entry, began, said);
        Self { entry, report }
    }
}

impl Sessions {
    /// Returns true on the first run of a hook with `once`, and records the run.
    pub(crate) fn is_first(&self, session: &str, event: Event, hook: usize) -> bool {
        self.with(session, |session| session.ran.insert((event, hook)))
    }

    /// Stores the output of a background hook. Dropped if the session has ended.
    pub(crate) fn add_background_report(
        &self,
        session: &str,
        background_reports: BackgroundReport,
    ) {
        // The session may have ended meanwhile: its late reports are dropped.
        if let Some(session) = self.0.lock().get_mut(session) {
            session.background_reports.push(background_reports);
        }
    }

    /// Creates the state of the session when a background hook starts.
    pub(crate) fn begin(&self, session: &str) {
        self.with(session, |_| ());
    }

    /// Takes the undelivered output of background hooks.
    pub(crate) fn take_background_reports(&self, session: &str) -> Vec<BackgroundReport> {
        let mut sessions = self.0.lock();
        let session = sessions.get_mut(session);
        session
            .map(|session| std::mem::take(&mut session.background_reports))
            .unwrap_or_default()
    }

    /// Returns the file to which hooks add environment variables; creates it, readable by its owner
    /// only.
    ///
    /// # Errors
    /// Errors of the file system.
    pub(crate) fn exports(&self, session: &str) -> io::Result<PathBuf> {
        self.with(session, |session| {
            let file = match session.exports.take() {
                Some(file) => file,
                None => tempfile::Builder::new()
                    .prefix("cachalot-environment-")
                    .suffix(".sh")
                    .tempfile()?,
            };
            Ok(session.exports.insert(file).path().to_owned())
        })
    }

    /// Returns that file if it exists.
    pub(crate) fn exported(&self, session: &str) -> Option<PathBuf> {
        let sessions = self.0.lock();
        let file = sessions.get(session)?.exports.as_ref()?;
        Some(Path::to_owned(file.path()))
    }

    /// Replaces the environment variables.
    pub(crate) fn set(&self, session: &str, environment: &BTreeMap<String, String>) {
        self.with(session, |session| {
            session.environment.clone_from(environment)
        });
    }

    /// The environment variables that hooks have set.
    pub(crate) fn environment(&self, session: &str) -> BTreeMap<String, String> {
        let sessions = self.0.lock();
        let session = sessions.get(session);
        session
            .map(|session| session.environment.clone())
            .unwrap_or_default()
    }

    /// Removes the state of an ended session.
    pub(crate) fn remove(&self, session: &str) {
        self.0.lock().remove(session);
    }

    fn with<T>(&self, session: &str, act: impl FnOnce(&mut Session) -> T) -> T {
        act(self.0.lock().entry(session.to_owned()).or_default())
    }
}
